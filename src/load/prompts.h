/* What is asked: prompts of a file, or words in random order; the body of a request. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

struct infp_prompt {
        char *text; /* a prompt as it is, or the messages of a chat as JSON */
        size_t size;
        bool is_messages;
        int64_t max_tokens; /* negative: it does not say */
};

struct infp_prompts {
        struct infp_prompt *list;
        size_t n, cap;
        bool has_messages; /* one of them at least */
};

/* A prompt a line; or, where the first line that is not blank begins with '{', JSON Lines: {"prompt": "..."} or {"messages":
 * [...]}, each with "max_tokens" if it likes. Blank lines are left out. -EBADMSG names the path and the line. */
int infp_prompts_read(const char *path, struct infp_prompts *ret, struct infp_err *err);
void infp_prompts_done(struct infp_prompts *prompts);

struct infp_load_options;
/* Request `number` of the load; depends on the options and the number alone. Appends to out (check out->failed); *ret_max_tokens:
 * output tokens that it asks for. */
void infp_load_body(const struct infp_load_options *options, uint64_t number, struct infp_str *out,
                    int64_t *ret_max_tokens);
