/* Reads one ring file (wire.h) as rows of `marks`, `spans`, `counters` and tables of schema `python`, while its process writes or after it ended. The file is
 * input: whatever it holds, nothing outside it is read, time and memory stay bounded, and its process is never harmed. Readers
 * map it read-only, but for the one consumer (the recorder), who says in it what it has taken. A file that is made shorter while
 * it is mapped ends the reader's interest in it, not the reader (base/guarded_map.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "model/row.h"

/* Whose file it has to be: from /proc/PID as the reader sees it. */
struct infp_ring_owner {
        uint64_t process;     /* entity id of its rows; 0: not known, the cell stays absent */
        uint64_t start_ticks; /* field 22 of its stat; another one: the file is of an earlier process of that pid */
        uint64_t pid_ns;      /* inode of its pid namespace; 0: not known, not checked */
        int32_t pid;          /* in its own pid namespace (last number of NSpid) */
        uint32_t uid;         /* the file's owner must be this one */
        char boot_id[40];     /* as the kernel writes it; "": not checked */
};

enum { INFP_RING_MARKS, INFP_RING_SPANS, INFP_RING_COUNTERS, INFP_RING_PYTHON, INFP_RING_KINDS_OF_ROWS };
struct infp_ring_counts {
        uint64_t rows[INFP_RING_KINDS_OF_ROWS]; /* that were given */
        uint64_t dropped_full, dropped_busy;    /* by the writer, as its head says */
        uint64_t evicted_chunks, evicted_bytes, cut_texts, refused_metrics, refused_values, grow_failed, grow_errno;
        uint64_t refused_stacks; /* stacks and code that found no room: what names them has id 0 */
        uint64_t torn;           /* chunks that were claimed anew while they were copied: nothing of them was shown */
        uint64_t missed_chunks;  /* claimed anew before a reader that is no consumer came to them */
        uint64_t broken;         /* records that no writer makes: skipped with the rest of their chunk */
        uint64_t
                unknown; /* records of kinds, rows of tables or with values of columns, and values of types, that this version does
                             not know */
        uint64_t evicted_rows, refused_tables; /* by the writer: rows of tables among evicted_bytes */
        uint64_t spans_forgotten;              /* begins beyond INFP_RING_OPEN_SPANS: shown only when they end */
        uint64_t
                cut_attributes; /* beyond INFP_RING_ATTRIBUTES of a span, or INFP_RING_ATTRIBUTES_ALL of all open ones */
        bool was_cut;           /* the file was made shorter while it was read: nothing more can be read */
};
enum {
        INFP_RING_OPEN_SPANS = 65536,
        INFP_RING_ATTRIBUTES = 16384, /* bytes of JSON a span */
        INFP_RING_ATTRIBUTES_ALL = 16 << 20,
        INFP_RING_TURN_BYTES = 256 * 1024, /* of records that one call takes, about */
};

struct infp_ring;

/* What a head says of itself; nothing of it is checked but magic, version and that it is whole. */
struct infp_ring_head {
        uint64_t start_ticks, pid_ns, created_ns;
        int32_t pid, parent;       /* parent 0: it does not say */
        int32_t forked_from;       /* the process whose program it runs; 0: none */
        char boot_id[40], run[40]; /* run: INFPROF_RUN of its process, "" where it had none */
        char name[16];             /* comm; "": it does not say */
        bool is_sampler;           /* of a sampler inside the process, or of a heap agent */
};
/* 0; -EAGAIN: its writer has not finished it; -EBADMSG: no ring file, with the fault in words. */
int infp_ring_head_read(int file, struct infp_ring_head *ret, struct infp_err *err);

/* file: opened O_RDONLY (O_RDWR for a consumer), O_NOFOLLOW; stays the caller's. consumer: takes what is read, and holds
 * flock(file) while it is open. 0; -EAGAIN: its writer has not finished its head; -ESTALE: of another process; -EPERM: another
 * uid; -EBADMSG: no ring file, with the fault in words; -EBUSY: another live consumer has it. */
int infp_ring_open(int file, const struct infp_ring_owner *owner, bool consumer, struct infp_ring **ret,
                   struct infp_err *err);
struct infp_ring *infp_ring_close(struct infp_ring *ring); /* NULL is fine; returns NULL */

/* Gives what has come since the last call (a reader that is no consumer: first of all what the file holds), in the order of time
 * within about INFP_RING_TURN_BYTES of records. 1: there is more, call again at once; 0: that was all; a negative errno of put.
 * A span's row comes when its end has been read and every chunk was visited once more, since its attributes may lie in another
 * thread's. `last`: nothing more will come (its process has ended, or the recording ends): all that is left is given in this
 * call, and spans that are open come too, with status open. put: as struct infp_emit's; borrowed texts. */
int infp_ring_read(struct infp_ring *ring, bool last, int (*put)(void *context, const struct infp_row *row),
                   void *context, struct infp_err *err);
/* A stack that records name (wire.h). Borrowed until the next call of the same function; both may be called by put. */
struct infp_ring_stack {
        uint64_t t_ns;  /* when it was sent first */
        uint32_t epoch; /* of the process's mappings; the addresses mean nothing in another one */
        uint32_t n_addresses, n_python;
        const uint64_t *addresses; /* innermost first, as are Python's frames */
        const struct infp_ring_python {
                uint32_t code, line; /* code: for infp_ring_code; line 0: not known */
                bool is_entry;       /* C called the interpreter for it */
                bool is_shim;        /* of samples: the interpreter's own, without code */
        } * python;
        bool is_truncated;         /* outer frames are missing: too many, or beyond the copied stack */
        bool is_incomplete;        /* outer frames are missing: the walk could not go on */
        bool is_python_incomplete; /* outer frames of Python are missing */
};
struct infp_ring_code {
        const char *file, *function; /* not ended by 0, and any bytes: for infp_row_bytes */
        size_t file_size, function_size;
        uint32_t line; /* first of the function; 0: not known */
};
/* id: never another stack's while the ring is open. 0; -ENOENT: it is absent; -EBADMSG: no writer makes what lies there (counted as
 * broken); -ENOMEM. */
int infp_ring_stack(struct infp_ring *ring, uint32_t id, struct infp_ring_stack *ret);
int infp_ring_code(struct infp_ring *ring, uint32_t id, struct infp_ring_code *ret);

/* A sampler inside the process (wire.h): its samples come in the calls of infp_ring_read, in the order of time among rows. Borrowed for the
 * call; infp_ring_code may be called by it. */
struct infp_ring_sample {
        uint64_t t_ns, epoch;
        int32_t tid; /* as the process sees it */
        int32_t cpu; /* -1: not known */
        uint32_t periods;
        struct infp_ring_stack stack; /* t_ns is the sample's. Frames without code are the interpreter's shims */
};
typedef void infp_ring_sample_fn(void *context, const struct infp_ring_sample *sample);
void infp_ring_on_sample(struct infp_ring *ring, infp_ring_sample_fn *take, void *context);

struct infp_ring_sampler {
        uint32_t state;  /* enum infp_wire_sampler of wire.h; 0: it has not begun */
        uint32_t python; /* major << 8 | minor; 0: not known */
        double hz;       /* that it was asked for */
        uint64_t period_ns, busy, skipped, own_ns, cpu_ns, unmapped, closed;
};
bool infp_ring_sampler(struct infp_ring *ring, struct infp_ring_sampler *ret); /* false: the file is no sampler's */
/* A heap agent inside the process (wire.h): blocks that were sampled, and those of them that were freed. Called as infp_ring_sample_fn; what is freed
 * may come before its block. */
struct infp_ring_block {
        uint64_t t_ns, id, address, size;
        uint64_t mean;                       /* bytes between two samples then, on average */
        int32_t tid;                         /* as the process sees it */
        bool is_object;                      /* of an allocator of Python's own */
        bool is_mapped;                      /* by the program itself */
        const struct infp_ring_stack *stack; /* NULL: it found no room */
};
struct infp_ring_heap_fns {
        void (*take_block)(void *context, const struct infp_ring_block *block);
        void (*take_free)(void *context, uint64_t t_ns, uint64_t id, int32_t tid); /* tid: which freed it */
        void *context;
};
void infp_ring_on_heap(struct infp_ring *ring, const struct infp_ring_heap_fns *fns);

struct infp_ring_heap {
        uint64_t mean_bytes;           /* between two samples */
        uint64_t state;                /* enum infp_wire_heap of wire.h; 0: it has not begun */
        uint64_t missed, kept, own_ns; /* as in struct infp_wire_head */
        /* Of an agent that counts every block. sites: id of the newest. */
        bool is_exact;
        uint64_t sites, peak_ns, looks, aged, refused; /* refused: times that a stack found no room */
};
bool infp_ring_heap(struct infp_ring *ring, struct infp_ring_heap *ret); /* false: there is none */
/* The sums of a stack, as in struct infp_wire_site. 0, or as infp_ring_code. */
struct infp_ring_site {
        uint64_t t_ns;
        int32_t tid;
        uint32_t stack, previous;
        uint64_t allocated, allocations, freed, frees, temporary, low, old, oldest, peak, peak_blocks;
};
int infp_ring_site(struct infp_ring *ring, uint32_t id, struct infp_ring_site *ret);
/* Consumer: the window of this number begins; those below half ended in the first half of the time. */
void infp_ring_begin_window(struct infp_ring *ring, uint32_t number, uint32_t half);
/* Consumer: the sampler is to use the unwind tables of this number from now on. */
void infp_ring_offer_tables(struct infp_ring *ring, uint64_t number);

/* True while ended spans wait for the next call. */
bool infp_ring_is_waiting(const struct infp_ring *ring);
const struct infp_ring_counts *infp_ring_counts(struct infp_ring *ring); /* the writer's as they are now */
static inline uint64_t infp_ring_rows(const struct infp_ring_counts *counts)
{
        uint64_t sum = 0;

        for (unsigned i = 0; i < INFP_RING_KINDS_OF_ROWS; i++)
                sum += counts->rows[i];
        return sum;
}
bool infp_ring_has_ended(struct infp_ring *ring); /* it exited in order; a killed one is told by its process alone */
