/* Shared by about.c and about_side.c alone. */
#pragma once

#include <jansson.h>

#include "collectors/engine/about.h"

/* Adds a model; the first of a higher rank replaces all of lower ones. Its name may show the number format. */
void infp_about_add_model(struct infp_engine_about *about, const char *s, size_t size, enum infp_about_rank rank);
/* Sets a member of `config` to a bounded copy without secrets. */
void infp_about_set_config(struct infp_engine_about *about, const char *section, const json_t *value);

/* The fact that a word of a page, a side page or a command line gives. */
enum infp_about_fact {
        INFP_FACT_NONE,
        INFP_FACT_MODEL,
        INFP_FACT_SERVED_NAME, /* the name by which clients ask for it: outranks the model's own */
        INFP_FACT_VERSION,
        INFP_FACT_QUANTISATION,
        INFP_FACT_DTYPE,
        INFP_FACT_MAX_SEQS,
        INFP_FACT_CONTEXT,
        INFP_FACT_BLOCK_SIZE,
        INFP_FACT_BLOCKS,
};
/* "None", "auto", "null" and non-numbers where a number is meant are ignored. */
void infp_about_set_fact(struct infp_engine_about *about, enum infp_about_fact fact, const char *s, size_t size,
                         enum infp_about_rank rank);
