#include "ring/reader.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/time.h"
#include "ring/reader_parts.h"

enum { KEPT_BYTES = 64 * 1024 };

static int check_file(int file, const struct infp_ring_owner *owner, uint64_t *ret_size, struct infp_err *err)
{
        struct stat status;

        if (fstat(file, &status) < 0)
                return infp_fail_errno(err, -errno, "cannot be read");
        if (!S_ISREG(status.st_mode))
                return infp_fail(err, -EBADMSG, "is not a file: remove it");
        if (status.st_uid != owner->uid)
                return infp_fail(err, -EPERM, "belongs to uid %u, its process to uid %u: it is not read",
                                 (unsigned) status.st_uid, owner->uid);
        *ret_size = (uint64_t) status.st_size;
        return 0;
}

static int check_owner(const struct infp_ring_head *head, const struct infp_ring_owner *owner, struct infp_err *err)
{
        if (head->pid != owner->pid || head->start_ticks != owner->start_ticks ||
            (owner->pid_ns && head->pid_ns && owner->pid_ns != head->pid_ns) ||
            (owner->boot_id[0] && strcmp(owner->boot_id, head->boot_id) != 0))
                return infp_fail(err, -ESTALE, "belongs to another process, which has ended: remove it");
        return 0;
}

/* Maps the file and checks what it says of itself, of a copy: it may change while it is looked at. */
static int open_map(struct infp_ring *ring, uint64_t size, struct infp_err *err)
{
        infp_autofree struct infp_wire_kind *kinds = NULL;
        union {
                struct infp_wire_head head;
                unsigned char bytes[INFP_WIRE_PAGE];
        } page;
        ssize_t n = pread(ring->file, &page, sizeof(page), 0), wanted;
        int r;

        if (n != sizeof(page))
                return infp_fail(err, -EBADMSG, "is not a ring file of libinfprof: it is too short; remove it");
        INFP_TRY(ring_check(&page.head, size, &ring->layout, err));
        wanted = (ssize_t) (ring->layout.n_kinds * sizeof(*kinds));
        kinds = malloc((size_t) wanted + 1);
        if (!kinds)
                return infp_fail(err, -ENOMEM, "not enough memory for a reader");
        if (pread(ring->file, kinds, (size_t) wanted, ring->layout.kinds_at) != wanted)
                return infp_fail(err, -EBADMSG, "is not a ring file of libinfprof: its schema is cut; remove it");
        INFP_TRY(ring_check_kinds(kinds, &ring->layout, err));
        r = infp_guarded_map_open(&ring->map, ring->file, ring->layout.size, ring->is_consumer);
        return r < 0 ? infp_fail_errno(err, r, "cannot be mapped") : 0;
}

/* The lock goes with the process that holds it, whatever pid namespace that lives in; the words in the head are for people. */
static int become_consumer(struct infp_ring *ring, struct infp_err *err)
{
        const struct infp_wire_head *head = ring_head(ring);

        if (flock(ring->file, LOCK_EX | LOCK_NB) < 0) {
                uint64_t pid;

                infp_guarded_map_begin(&ring->map);
                pid = atomic_load(&head->consumer_pid);
                infp_guarded_map_end();
                return infp_fail(err, -EBUSY, "is read by another recording (process %" PRIu64 ")", pid);
        }
        return 0;
}

static void say_consumer(struct infp_ring *ring, uint64_t pid, uint64_t now)
{
        struct infp_wire_head *head = ring_head(ring);

        atomic_store_explicit(&head->consumer_pid, pid, memory_order_relaxed);
        atomic_store_explicit(&head->consumer_seen_ns, now, memory_order_relaxed);
}

/* Clock ticks since boot as field 22 of /proc/self/stat; 0: not known. */
static uint64_t own_start_ticks(void)
{
        char text[1024] = "";
        FILE *file = fopen("/proc/self/stat", "re");
        const char *at;
        size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

        if (file)
                fclose(file);
        text[n] = 0;
        at = strrchr(text, ')');
        for (unsigned i = 0; at && i < 20; i++)
                at = strchr(at + 1, ' ');
        return at ? strtoull(at + 1, NULL, 10) : 0;
}

static int open_ring(struct infp_ring *ring, struct infp_err *err)
{
        struct infp_ring_head head;
        uint64_t size = 0;

        INFP_TRY(check_file(ring->file, &ring->owner, &size, err));
        INFP_TRY(infp_ring_head_read(ring->file, &head, err));
        INFP_TRY(check_owner(&head, &ring->owner, err));
        INFP_TRY(open_map(ring, size, err));
        if (ring->is_consumer) {
                INFP_TRY(become_consumer(ring, err));
                infp_guarded_map_begin(&ring->map);
                atomic_store(&ring_head(ring)->consumer_start_ticks, own_start_ticks());
                say_consumer(ring, (uint64_t) getpid(), infp_clock_ns(CLOCK_MONOTONIC));
                infp_guarded_map_end();
        }
        ring->seen = calloc(ring->layout.max_chunks, sizeof(*ring->seen));
        return ring->seen ? 0 : infp_fail(err, -ENOMEM, "not enough memory for a reader");
}

int infp_ring_open(int file, const struct infp_ring_owner *owner, bool consumer, struct infp_ring **ret,
                   struct infp_err *err)
{
        struct infp_ring *ring = calloc(1, sizeof(*ring));
        int r;

        if (!ring)
                return infp_fail(err, -ENOMEM, "not enough memory for a reader");
        ring->file = file;
        ring->owner = *owner;
        ring->is_consumer = consumer;
        ring->row.text = ring->text;
        ring->row.text_cap = sizeof(ring->text);
        if (getrandom(&ring->spans.seed, sizeof(ring->spans.seed), GRND_NONBLOCK) < 0)
                ring->spans.seed = (uintptr_t) ring;
        r = open_ring(ring, err);
        if (r < 0) {
                ring->is_consumer = false; /* the consumer goes on */
                infp_ring_close(ring);
                return r;
        }
        *ret = ring;
        return 0;
}

struct infp_ring *infp_ring_close(struct infp_ring *ring)
{
        if (!ring)
                return NULL;
        if (ring->map.at && ring->is_consumer) {
                infp_guarded_map_begin(&ring->map);
                say_consumer(ring, 0, 0);
                infp_guarded_map_end();
                flock(ring->file, LOCK_UN);
        }
        infp_guarded_map_close(&ring->map);
        ring_spans_done(&ring->spans);
        ring_threads_done(ring);
        free(ring->names);
        free(ring->metrics);
        free(ring->stacks);
        free(ring->seen);
        free(ring->visits);
        free(ring->events);
        infp_str_done(&ring->taken);
        free(ring);
        return NULL;
}

/* One call's worth. 1: there is more. */
static int turn(struct infp_ring *ring, bool last)
{
        int r, is_over = ring_take(ring);

        if (is_over < 0)
                return is_over;
        INFP_TRY(ring_give_events(ring));
        if (!is_over)
                return 1;
        r = ring_give_spans(ring);
        return r < 0 ? r : ring_give_metrics(ring, last);
}

static void tidy(struct infp_ring *ring)
{
        if (ring->taken.cap > KEPT_BYTES)
                infp_str_done(&ring->taken);
        if (ring->cap_events * sizeof(*ring->events) > KEPT_BYTES) {
                free(ring->events);
                ring->events = NULL;
                ring->cap_events = 0;
        }
}

/* What is under way, then twice all: ends wait for one pass after theirs, newest values for one after which they are the same. */
static int finish(struct infp_ring *ring)
{
        for (unsigned passes = 0; passes < 3;) {
                const int r = turn(ring, true);

                if (r < 0)
                        return r;
                passes += r == 0;
        }
        ring->pass++; /* what has ended in the last of them as well */
        INFP_TRY(ring_give_spans(ring));
        return ring_give_open_spans(ring);
}

int infp_ring_read(struct infp_ring *ring, bool last, int (*put)(void *context, const struct infp_row *row),
                   void *context, struct infp_err *err)
{
        int r;

        ring->put = put;
        ring->context = context;
        ring->now_ns = infp_clock_ns(CLOCK_MONOTONIC);
        ring->is_in_read = true;
        infp_guarded_map_begin(&ring->map);
        if (ring->is_consumer)
                say_consumer(ring, (uint64_t) getpid(), ring->now_ns);
        r = last ? finish(ring) : turn(ring, false);
        infp_guarded_map_end();
        ring->is_in_read = false;
        ring->counts.was_cut = atomic_load(&ring->map.is_lost);
        if (r <= 0)
                tidy(ring);
        return r == -ENOMEM ? infp_fail(err, r, "not enough memory for a reader of a ring") : r;
}

bool infp_ring_is_waiting(const struct infp_ring *ring)
{
        return ring->spans.n_waiting > 0;
}

const struct infp_ring_counts *infp_ring_counts(struct infp_ring *ring)
{
        struct infp_wire_head *head = ring_head(ring);
        struct infp_ring_counts *c = &ring->counts;

        infp_guarded_map_begin(&ring->map);
        if (!atomic_load(&ring->map.is_lost)) {
                c->dropped_full = atomic_load_explicit(&head->dropped_full, memory_order_relaxed);
                c->dropped_busy = atomic_load_explicit(&head->dropped_busy, memory_order_relaxed);
                c->evicted_chunks = atomic_load_explicit(&head->evicted_chunks, memory_order_relaxed);
                c->evicted_bytes = atomic_load_explicit(&head->evicted_bytes, memory_order_relaxed);
                c->cut_texts = atomic_load_explicit(&head->cut_texts, memory_order_relaxed);
                c->refused_metrics = atomic_load_explicit(&head->refused_metrics, memory_order_relaxed);
                if (ring->layout.head_bytes >= offsetof(struct infp_wire_head, refused_values) + sizeof(uint64_t))
                        c->refused_values = atomic_load_explicit(&head->refused_values, memory_order_relaxed);
                if (ring->layout.head_bytes >= offsetof(struct infp_wire_head, refused_stacks) + sizeof(uint64_t))
                        c->refused_stacks = atomic_load_explicit(&head->refused_stacks, memory_order_relaxed);
                c->grow_failed = atomic_load_explicit(&head->grow_failed, memory_order_relaxed);
                c->grow_errno = atomic_load_explicit(&head->grow_errno, memory_order_relaxed);
        }
        infp_guarded_map_end();
        return c;
}

bool infp_ring_has_ended(struct infp_ring *ring)
{
        bool has_ended;

        infp_guarded_map_begin(&ring->map);
        has_ended = atomic_load(&ring_head(ring)->ended);
        infp_guarded_map_end();
        return has_ended;
}
