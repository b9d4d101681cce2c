/* Registry of live runs: $XDG_RUNTIME_DIR/infprof, else /tmp/infprof-UID, and where that is
 * another user's /dev/shm/infprof-UID (0700, owner checked): <uuid>.json beside <uuid>.sock.
 * The socket is SOCK_SEQPACKET; a message is one JSON object {"table":"marks", "rows":[{column: value ...}]} stamped by the
 * sender (t_ns); the answer, once the rows are on disk, is {"ok":true,"rows":N} or {"ok":false,"error":"..."}.
 * Values: numbers, texts and bools as the column's type; 64-bit integers and ids also as decimal texts; times as Unix ms (with
 * a fraction) or as a text of Unix ns; null or left out = absent. Texts are kept as they are (the sender has escaped them,
 * base/text.h). A message is taken whole or not at all. No rows: answered when all rows before it are on disk.
 * {"serves":"URL"} asks whether the server is of the run: the answer is ok, or an error with the reason; "again":true where it may be
 * known a second later. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "model/row.h"

/* The directory, made when missing. Path into ret. -EPERM with a sentence when it is not ours. */
int infp_live_directory(char *ret, size_t cap, struct infp_err *err);

/* Recorder's side. The entry is locked while the recorder lives: an unlocked one is stale. */
struct infp_live;
int infp_live_publish(const char *uuid, const char *output, struct infp_live **ret, struct infp_err *err);
struct infp_live *infp_live_withdraw(struct infp_live *live); /* removes entry and socket; NULL is fine; returns NULL */
int infp_live_fd(const struct infp_live *live);               /* listening socket, non-blocking */
bool infp_live_has_reader(struct infp_live *live);            /* a reader holds its lock */

enum { INFP_LIVE_CLIENTS = 32, INFP_LIVE_MESSAGE_MAX = 256 << 10 };

/* What to poll: the listening socket and the clients that are not waiting for an answer. Returns their number. */
unsigned infp_live_pollfds(const struct infp_live *live, struct pollfd ret[INFP_LIVE_CLIENTS + 1]);

/* Where rows go. The row is borrowed for the call; a negative errno refuses the rest of the message. */
struct infp_live_taker {
        const struct infp_table *const *tables; /* those that may be written, ended by NULL */
        int (*row)(void *context, const struct infp_row *row);
        void *context;
        /* Whether the server at the URL is what the run is about: 0, or a negative errno with a sentence. May be NULL. */
        int (*serves)(void *context, const char *url, struct infp_err *err);
        void *serves_context;
};

/* Accepts and reads what there is, without blocking. A refusal is answered at once; a sender whose rows were taken waits for
 * infp_live_answer. Returns the number of messages taken. */
unsigned infp_live_serve(struct infp_live *live, const struct infp_live_taker *taker);
unsigned infp_live_waiting(const struct infp_live *live); /* senders that wait: flush soon */
/* After the flush of all that was taken: r 0, or why it is not on disk (error: the sentence). */
void infp_live_answer(struct infp_live *live, int r, const char *error);

/* Client's side. uuid: prefix, or NULL = INFPROF_RUN of the environment (then only that run will do), else the newest live run
 * of the user in ./profiler-output, else the newest in any directory. */
struct infp_live_entry {
        char uuid[37];
        char *output; /* absolute path; free */
        int pid;
};
int infp_live_find(const char *uuid, struct infp_live_entry *ret, struct infp_err *err); /* -ENOENT: no live run */
/* The newest run (in output, if given) whose recorder confirms that the server at the URL belongs to its target. -ENOENT: none.
 * *ret_others: how many live runs there are, and *ret_other the uuid of the newest of them, else "". */
int infp_live_find_server(const char *url, const char *output, struct infp_live_entry *ret, unsigned *ret_others,
                          char ret_other[37], struct infp_err *err);
/* Sends one message and waits at most timeout_ms for the answer. Returns the number of rows stored; -ETIMEDOUT: they may still be
 * stored; -EPROTO with the recorder's own sentence when it refused. */
int infp_live_send(const char *uuid, const char *message, size_t size, int timeout_ms, struct infp_err *err);
/* Registers as a reader until the descriptor that is returned is closed: the recorder then flushes each second. */
int infp_live_read_lock(const char *uuid, struct infp_err *err);

/* A message as rows, for live.c and its fuzzer. row: scratch, with its text memory. All rows are checked before the first is given
 * away. *ret_rows: how many were. -EBADMSG with what is wrong, or what the taker said. */
int infp_live_message_take(const char *message, size_t size, const struct infp_live_taker *taker, struct infp_row *row,
                           unsigned *ret_rows, struct infp_err *err);
