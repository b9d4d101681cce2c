/* Where the rows of `load` go: through its socket into the live run that is named (-r, INFPROF_RUN) or whose target the
 * server is, into a run of its own, or nowhere. A thread writes them: the socket answers when rows are on disk, and requests
 * must not wait for that. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/notice.h"
#include "model/row.h"
#include "record/signals.h"

struct infp_load_record_options {
        const char *output; /* NULL: not given */
        const char *run;    /* NULL: not given */
        const char *server; /* URL without secrets; the run whose target this server is takes the rows */
        bool no_record;
        const struct infp_notices *notices;
};

struct infp_load_record;

/* 0, or a negative errno with a sentence. */
int infp_load_record_open(const struct infp_load_record_options *options, struct infp_load_record **ret,
                          struct infp_err *err);
bool infp_load_record_is_live(const struct infp_load_record *record);     /* into a run of another recorder */
const char *infp_load_record_uuid(const struct infp_load_record *record); /* NULL: nowhere */
const char *infp_load_record_output(const struct infp_load_record *record);

/* Copies the row and does not block. */
void infp_load_record_put(struct infp_load_record *record, const struct infp_row *row);
/* Waits until all rows are stored, and ends and finishes a run of its own. 0, or why rows are missing; *ret_lost: how many.
 * Frees it. */
int infp_load_record_close(struct infp_load_record *record, struct infp_signals *signals, uint64_t *ret_lost,
                           struct infp_err *err);
