/* What an engine is: make, version, model, number format, limits; from its page (labels, information series), from side pages
 * of the same server, from the command line of its process. The server outranks its command line.
 *
 * Belongs to one engine and one thread. Zero-initialised is empty. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/promtext/promtext.h"
#include "collectors/engine/engine.h"
#include "model/row.h"

struct json_t; /* jansson's */

enum { INFP_ABOUT_MODELS = 16, INFP_ABOUT_TEXT = 256, INFP_ABOUT_COMMAND = 8192, INFP_ABOUT_SIDE_BYTES = 1 << 20 };

/* Source of a fact; a later one of the same or a higher rank replaces it. */
enum infp_about_rank {
        INFP_ABOUT_NOTHING,
        INFP_ABOUT_FROM_NAME,
        INFP_ABOUT_FROM_COMMAND,
        INFP_ABOUT_FROM_PAGE,
        INFP_ABOUT_FROM_SIDE
};
struct infp_about_text {
        char at[INFP_ABOUT_TEXT]; /* UTF-8, cut at a character; "" = not known */
        uint8_t rank;
};
struct infp_about_number {
        int64_t value;
        uint8_t rank; /* 0: not known */
};

struct infp_engine_about {
        enum infp_engine_make make;           /* by its answers */
        enum infp_engine_make commanded_make; /* by its command line: its name until it answers */
        bool keeps_secrets;                   /* --keep-secrets: set by the owner first */
        bool has_changed;                     /* since infp_engine_about_row */
        struct infp_about_text version, quantisation, dtype, model[INFP_ABOUT_MODELS];
        unsigned n_models;
        bool models_are_cut; /* there are more */
        uint8_t models_rank;
        struct infp_about_number max_seqs, context, block_size, blocks;
        char command[INFP_ABOUT_COMMAND]; /* masked */
        size_t command_size;
        char arguments[INFP_ABOUT_COMMAND]; /* unmasked, to be read again when the make becomes known */
        size_t arguments_size;
        struct json_t *config; /* object; NULL: empty */
};
void infp_engine_about_done(struct infp_engine_about *about);

/* The make of the page (infp_engine_make_of over its samples); a change forgets what pages said. */
void infp_engine_about_make(struct infp_engine_about *about, enum infp_engine_make make);
/* Call for each new sample: model_name labels, information series such as vllm:cache_config_info. */
void infp_engine_about_sample(struct infp_engine_about *about, const struct infp_prom_sample *sample);
/* Arguments of its process, separated by NUL as in /proc/PID/cmdline; before or after the make is known. */
void infp_engine_about_command(struct infp_engine_about *about, const char *arguments, size_t size);
/* The server restarted: side pages must be asked again; their old facts stay until then. */
void infp_engine_about_restart(struct infp_engine_about *about);

/* Side pages of the make, from the root of the same server (scheme, host, port), ended by NULL: asked once each after the
 * first good scrape and after a restart. Answers other than 200 are ignored. */
const char *const *infp_engine_about_paths(enum infp_engine_make make);
/* path: from infp_engine_about_paths. 0, or -EBADMSG with a sentence when the body is not the expected JSON. */
int infp_engine_about_body(struct infp_engine_about *about, const char *path, const char *body, size_t size,
                           struct infp_err *err);

/* Sets make, version, model, quantisation, flags, max_num_seqs, max_model_len, block_size, num_gpu_blocks and config of a row
 * of `engines`; id, number, url and process are the caller's. */
void infp_engine_about_row(struct infp_engine_about *about, struct infp_row *row);
