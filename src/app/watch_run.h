/* The run that a live view shows: one that is being recorded already, or a private one that a recorder of our own makes, which is
 * removed at the end unless it is saved. Names of code are found as they come. */
#pragma once

#include <poll.h>

#include "analyze/watch/watch.h"
#include "base/notice.h"
#include "record/signals.h"

struct infp_watch_run;

/* Attaches as a reader. spec as infp_run_open's; NULL: the newest live run of the user. -ENOENT: no run is live. */
int infp_watch_run_attach(const char *spec, struct infp_watch_run **ret, struct infp_err *err);

/* Starts a recorder: a child that calls record(context, directory), whose return value is its exit code. Before
 * infp_signals_open, since the child has signals of its own. Descriptors 0 and 1 of the child are closed to it; what it says on 2
 * are notices. */
int infp_watch_run_record(int (*record)(void *context, const char *directory), void *context,
                          struct infp_watch_run **ret, struct infp_err *err);
/* Waits until there is something to read. -EINTR: a signal asked us to end; -ECHILD with what the recorder said when it failed. */
int infp_watch_run_wait(struct infp_watch_run *run, struct infp_signals *signals, uint64_t history_ns,
                        const struct infp_notices *notices, struct infp_err *err);

enum { INFP_WATCH_RUN_FDS = 2 };
/* What to poll for reading, to call turn soon. Returns their number. */
unsigned infp_watch_run_pollfds(const struct infp_watch_run *run, struct pollfd ret[INFP_WATCH_RUN_FDS]);
/* Takes names and messages. True: the recording has ended. */
bool infp_watch_run_turn(struct infp_watch_run *run, const struct infp_notices *notices);
/* Reads what has been written, and asks for names. 0 or a negative errno. */
int infp_watch_run_read(struct infp_watch_run *run, struct infp_err *err);
struct infp_watch *infp_watch_run_watch(struct infp_watch_run *run);
const struct infp_run *infp_watch_run_of(const struct infp_watch_run *run);

/* After its end: 0, or -ECHILD with the reason when our own recorder failed. */
int infp_watch_run_failure(const struct infp_watch_run *run, struct infp_err *err);

/* Ends our own recorder. save: the directory that its run goes to; NULL: it is removed. *ret_path: what was saved, as a path that
 * the caller frees; may be NULL. NULL is fine. Returns 0, or why the run could not be saved; it is left where the text says. */
int infp_watch_run_close(struct infp_watch_run *run, const char *save, char **ret_path, struct infp_err *err);
