/* The checked options of `load`. */
#pragma once

#include "analyze/requests.h"
#include "app/load_record.h"
#include "cli/command.h"
#include "load/load.h"

enum { INFP_LOAD_HEADERS = 32 };

struct infp_load_wishes {
        struct infp_load_options load; /* without url and model yet; borrows texts and lists from here */
        struct infp_load_record_options record;
        struct infp_requests_goals goals;
        const char *url, *endpoint, *model; /* as given; NULL: not */
        uint64_t n_warmup, wait_ns;
        bool is_json;

        struct infp_prompts prompts;
        const char *headers[INFP_LOAD_HEADERS + 1];
        char *extra; /* members of --extra, without the braces */
        char name[32];
};

extern const struct infp_option infp_load_option_table[];

/* 0 or -EINVAL (-EBADMSG, -ENOENT for prompts) with a sentence. */
int infp_load_wishes_read(const struct infp_arguments *arguments, struct infp_load_wishes *ret, struct infp_err *err);
void infp_load_wishes_done(struct infp_load_wishes *wishes);
