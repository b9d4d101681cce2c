/* Registry of live runs: $XDG_RUNTIME_DIR/infprof, else /tmp/infprof-UID (0700, owner checked): <uuid>.json beside <uuid>.sock.
 * The socket is SOCK_SEQPACKET; a message is one JSON object {"table":"marks", "rows":[{column: value ...}]} stamped by the
 * sender (t_ns); the answer, once the rows are on disk, is {"ok":true,"rows":N} or {"ok":false,"error":"..."}. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "model/sink.h"

/* The directory, made when missing. Path into ret. -EPERM with a sentence when it is not ours. */
int infp_live_directory(char *ret, size_t cap, struct infp_err *err);

/* Recorder's side. */
struct infp_live;
int infp_live_publish(const char *uuid, const char *output, struct infp_live **ret, struct infp_err *err);
struct infp_live *infp_live_withdraw(struct infp_live *live); /* removes entry and socket */
int infp_live_fd(const struct infp_live *live);               /* listening socket, non-blocking */
bool infp_live_has_reader(struct infp_live *live);            /* somebody holds the lock file of a reader */

/* Client's side. uuid: prefix, or NULL = INFPROF_RUN of the environment, else the newest live run of the user. */
struct infp_live_entry {
        char uuid[37];
        char *output; /* absolute path; free */
        int pid;
};
int infp_live_find(const char *uuid, struct infp_live_entry *ret, struct infp_err *err); /* -ENOENT: none lives */
/* Sends one message and waits (at most timeout_ms) for the answer. */
int infp_live_send(const char *uuid, const char *message, size_t size, int timeout_ms, struct infp_err *err);
/* Registers as a reader until the descriptor is closed: the recorder then flushes each second. */
int infp_live_read_lock(const char *uuid, struct infp_err *err);
