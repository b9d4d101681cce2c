/* Reads one ring file (wire.h) as rows of `marks`, `spans` and `counters`, while its process writes or after it ended. The file is
 * input: whatever it holds, nothing outside it is read, time and memory stay bounded, and its process is never harmed. Readers
 * map it read-only, but for the one consumer (the recorder), who says in it what it has taken. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "model/row.h"

/* Whose file it has to be: from /proc/PID as the reader sees it. */
struct infp_ring_owner {
        uint64_t process;     /* entity id of its rows */
        uint64_t start_ticks; /* field 22 of its stat; another one: the file is of an earlier process of that pid */
        int32_t pid;          /* in its own pid namespace (last number of NSpid) */
        uint32_t uid;         /* the file's owner must be this one */
};

struct infp_ring_counts {
        uint64_t rows[3];                    /* marks, spans, counters given */
        uint64_t dropped_full, dropped_busy; /* by the writer, as its head says */
        uint64_t evicted_chunks, evicted_bytes, cut_texts, refused_metrics, grow_failed;
        uint64_t torn;            /* chunks that were claimed anew while they were copied: nothing of them was shown */
        uint64_t broken;          /* records that no writer makes: skipped with the rest of their chunk */
        uint64_t unknown;         /* records of kinds that this version does not know */
        uint64_t spans_forgotten; /* begins beyond INFP_RING_OPEN_SPANS: shown only when they end */
};
enum { INFP_RING_OPEN_SPANS = 65536, INFP_RING_ATTRIBUTES = 16384 /* bytes of JSON a span */ };

struct infp_ring;

/* file: opened O_RDONLY (O_RDWR for a consumer), O_NOFOLLOW; stays the caller's. consumer: takes what is read. 0; -EAGAIN: its writer has
 * not finished its head; -ESTALE: of another process; -EPERM: another uid; -EBADMSG: no ring file, with the fault in words;
 * -EBUSY: another live consumer has it. */
int infp_ring_open(int file, const struct infp_ring_owner *owner, bool consumer, struct infp_ring **ret,
                   struct infp_err *err);
struct infp_ring *infp_ring_close(struct infp_ring *ring); /* NULL is fine; returns NULL */

/* Gives what has come since the last call (a reader that is no consumer: all that the file holds, once), in the order of time
 * within the call. A span's row comes when its end has been read; `last`: nothing more will come (its process has ended, or the
 * recording ends), so spans that are open come too, with status open. put: as struct infp_emit's; borrowed texts. 0 or a negative errno of put. */
int infp_ring_read(struct infp_ring *ring, bool last, int (*put)(void *context, const struct infp_row *row),
                   void *context, struct infp_err *err);
const struct infp_ring_counts *infp_ring_counts(const struct infp_ring *ring);
uint64_t infp_ring_created_ns(const struct infp_ring *ring);
bool infp_ring_has_ended(
        const struct infp_ring *ring); /* it exited in order; a killed one is told by its process alone */
