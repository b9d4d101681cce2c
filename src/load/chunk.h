/* What the client needs of an answer of an OpenAI-compatible server: a chunk of a stream, or a whole body. It looks only for
 * that and steps over the rest: 256 streams bring ten thousand chunks a second, and while one is read the next one waits for
 * its time stamp. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct infp_chunk {
        bool is_done;    /* [DONE] */
        bool has_choice; /* a member of `choices` */
        bool has_text;   /* something that the reader of the answer sees: text, reasoning, a call of a tool */
        bool is_error;   /* an object that says so: `error` is not empty, or `object` is "error" */
        char finish_reason[32];
        int64_t prompt_tokens, cached_tokens, output_tokens; /* negative: it does not say */
};

/* 0, or -EBADMSG: neither [DONE] nor a JSON object. */
int infp_chunk_read(const char *data, size_t size, struct infp_chunk *ret);
