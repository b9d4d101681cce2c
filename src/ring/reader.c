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
#include "base/sort.h"
#include "base/time.h"
#include "ring/reader_parts.h"

/* Is it a ring file, and one that can be read: its head and its schema. */

enum {
        HEAD_LEAST = offsetof(struct infp_wire_head, run), /* what follows is read where it is there */
        SAMPLER_LEAST = offsetof(struct infp_wire_head, tables) + sizeof(uint64_t),
        HEAP_LEAST = offsetof(struct infp_wire_head, heap_own_ns) + sizeof(uint64_t),
        EXACT_LEAST = offsetof(struct infp_wire_head, heap_window) + sizeof(uint64_t),
        TABLES_LEAST = offsetof(struct infp_wire_head, refused_tables) + sizeof(uint64_t),
        METRICS_MOST = 4 * INFP_WIRE_METRICS,
        CHUNKS_MOST = INFP_WIRE_EXACT_BYTES / INFP_WIRE_CHUNK,
        KIND_NAME = sizeof(((struct infp_wire_kind *) 0)->name),
};

static int bad(struct infp_err *err, const char *what)
{
        return infp_fail(err, -EBADMSG, "is not a ring file of libinfprof: %s; remove it", what);
}

/* A part of the file: aligned, after the head, before the chunks. */
static bool is_part(const struct ring_layout *layout, uint64_t at, uint64_t size, uint64_t alignment)
{
        return at % alignment == 0 && at >= layout->head_bytes && size <= layout->chunks_at &&
               at <= layout->chunks_at - size;
}

/* The head of a mapped or copied first page, against the file's size. */
static int check_head(const struct infp_wire_head *head, uint64_t file_size, struct ring_layout *ret,
                      struct infp_err *err)
{
        struct ring_layout l = {
                .head_bytes = head->head_bytes,
                .kinds_at = head->kinds_at,
                .n_kinds = head->n_kinds,
                .metrics_at = head->metrics_at,
                .max_metrics = head->max_metrics,
                .arena_at = head->arena_at,
                .arena_bytes = head->arena_bytes,
                .chunks_at = head->chunks_at,
                .max_chunks = head->max_chunks,
        };

        if (memcmp(head->magic, INFP_WIRE_MAGIC, sizeof(head->magic)) != 0)
                return bad(err, "its header is wrong");
        if (head->version != INFP_WIRE_VERSION)
                return infp_fail(err, -EBADMSG,
                                 "is of version %" PRIu32 " (libinfprof %.31s), this infprof reads version %d: use an "
                                 "infprof as new as the library",
                                 head->version, head->library, INFP_WIRE_VERSION);
        if (l.head_bytes < HEAD_LEAST || l.head_bytes > INFP_WIRE_PAGE)
                return bad(err, "its header has an impossible size");
        if (l.chunks_at % INFP_WIRE_PAGE || l.chunks_at > INFP_WIRE_MAX_BYTES || l.chunks_at > file_size)
                return bad(err, "its chunks lie outside");
        if (l.max_chunks == 0 || l.max_chunks > CHUNKS_MOST)
                return bad(err, "it has an impossible number of chunks");
        if (l.n_kinds > INFP_WIRE_KINDS ||
            !is_part(&l, l.kinds_at, l.n_kinds * (uint64_t) sizeof(struct infp_wire_kind), 8))
                return bad(err, "its schema lies outside");
        if (l.max_metrics > METRICS_MOST ||
            !is_part(&l, l.metrics_at, l.max_metrics * (uint64_t) sizeof(struct infp_wire_metric), 8))
                return bad(err, "its counters lie outside");
        if (!is_part(&l, l.arena_at, l.arena_bytes, 1))
                return bad(err, "its texts lie outside");
        l.size = l.chunks_at + (size_t) l.max_chunks * INFP_WIRE_CHUNK;
        *ret = l;
        return 0;
}

/* Where the file names a field of ours it lies where ours does. Else it is not of version 1. */
static bool agrees(const struct infp_wire_kind *kind, const struct infp_wire_kind *ours)
{
        for (unsigned i = 0; i < kind->n_fields; i++)
                for (unsigned k = 0; k < ours->n_fields; k++)
                        if (strncmp(kind->fields[i].name, ours->fields[k].name, sizeof(kind->fields[i].name)) == 0 &&
                            kind->fields[i].offset != ours->fields[k].offset)
                                return false;
        return kind->size >= ours->size;
}

static int check_kinds(const struct infp_wire_kind *kinds, struct ring_layout *layout, struct infp_err *err)
{
        for (unsigned i = 0; i < layout->n_kinds; i++) {
                const struct infp_wire_kind *k = &kinds[i];
                if (k->kind == 0 || k->kind >= INFP_COUNT(layout->fixed) || layout->fixed[k->kind] || k->size % 8 ||
                    k->size < sizeof(struct infp_wire_record) || k->size > INFP_WIRE_MAX_RECORD ||
                    k->n_fields > INFP_WIRE_FIELDS)
                        return bad(err, "its schema makes no sense");
                if (k->kind <= INFP_WIRE_OUR_KINDS && !agrees(k, &infp_wire_kinds[k->kind - 1]))
                        return infp_fail(err, -EBADMSG,
                                         "has records '%.*s' in another format than this infprof reads: use an infprof "
                                         "as new as the library",
                                         KIND_NAME, k->name);
                layout->fixed[k->kind] = k->size;
        }
        return 0;
}

static void put_boot_id(const uint8_t id[16], char *ret, size_t cap)
{
        snprintf(ret, cap, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", id[0], id[1], id[2],
                 id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10], id[11], id[12], id[13], id[14], id[15]);
}

int infp_ring_head_read(int file, struct infp_ring_head *ret, struct infp_err *err)
{
        union {
                struct infp_wire_head head;
                unsigned char bytes[INFP_WIRE_PAGE];
        } page = { .bytes = { 0 } };
        const struct infp_wire_head *head = &page.head;
        const ssize_t n = pread(file, &page, sizeof(page), 0);

        if (n < 0)
                return infp_fail_errno(err, -errno, "cannot be read");
        if (n == 0 || (n == sizeof(page) && !atomic_load_explicit(&head->ready, memory_order_relaxed) &&
                       (!head->magic[0] || !memcmp(head->magic, INFP_WIRE_MAGIC, sizeof(head->magic)))))
                return infp_fail(err, -EAGAIN, "is being made");
        if (n != sizeof(page) || memcmp(head->magic, INFP_WIRE_MAGIC, sizeof(head->magic)) != 0)
                return bad(err, "its header is wrong");
        *ret = (struct infp_ring_head){
                .start_ticks = head->start_ticks,
                .pid_ns = head->pid_ns,
                .created_ns = head->created_ns,
                .pid = head->pid,
        };
        put_boot_id(head->boot_id, ret->boot_id, sizeof(ret->boot_id));
        if (head->head_bytes >= HEAD_LEAST + sizeof(head->run))
                snprintf(ret->run, sizeof(ret->run), "%.*s", (int) sizeof(head->run) - 1, head->run);
        if (head->head_bytes >= offsetof(struct infp_wire_head, forked_from) + sizeof(head->forked_from)) {
                snprintf(ret->name, sizeof(ret->name), "%.*s", (int) sizeof(head->name) - 1, head->name);
                ret->parent = head->parent;
                ret->forked_from = head->forked_from;
        }
        if (head->head_bytes >= SAMPLER_LEAST)
                ret->is_sampler = head->sampler_hz_1000 != 0;
        if (head->head_bytes >= HEAP_LEAST)
                ret->is_sampler |= head->heap_mean != 0;
        return 0;
}

/* Copies records out of chunks, by the rule of wire.h: what is below `used` is believed only when the generation is still the
 * same after the copy. */

enum { HEAD = sizeof(struct infp_wire_chunk), ROOM = INFP_WIRE_CHUNK - HEAD, TRIES = 3 };

static const uint64_t slack_ns = INFP_NS_PER_S;

static uint32_t chunks_now(const struct infp_ring *ring)
{
        const uint32_t n = atomic_load_explicit(&ring_head(ring)->n_chunks, memory_order_acquire);

        return n < ring->layout.max_chunks ? n : ring->layout.max_chunks;
}

static struct infp_wire_chunk *chunk_at(const struct infp_ring *ring, uint32_t index)
{
        return (struct infp_wire_chunk *) (void *) (ring->map.at + ring->layout.chunks_at +
                                                    (size_t) index * INFP_WIRE_CHUNK);
}

/* What the consumer says it has taken of a generation. */
static uint64_t drained_word(uint64_t generation, uint32_t bytes)
{
        return generation << 32 | bytes;
}

static int add_event(struct infp_ring *ring, const struct ring_event *event)
{
        if (!INFP_MAKE_ROOM(ring->events, ring->n_events, ring->cap_events, 256))
                return -ENOMEM;
        ring->events[ring->n_events++] = *event;
        return 0;
}

static bool is_record(const struct infp_ring *ring, const struct infp_wire_record *record, uint32_t room)
{
        return record->size >= sizeof(*record) && record->size % 8 == 0 && record->size <= room &&
               ring->layout.fixed[record->kind] && record->size >= ring->layout.fixed[record->kind] &&
               record->t_ns <= ring->now_ns;
}

/* The records among the bytes of `taken` from `from` on; at the first that no writer makes the rest is left. */
static int list_records(struct infp_ring *ring, uint32_t from, uint32_t tid, uint64_t thread_start)
{
        const uint32_t end = (uint32_t) ring->taken.size;

        for (uint32_t at = from; at < end;) {
                const struct infp_wire_record *record = (const void *) (ring->taken.data + at);

                if (end - at < sizeof(*record) || !is_record(ring, record, end - at)) {
                        ring->counts.broken++;
                        return 0;
                }
                if (record->kind > INFP_WIRE_OUR_KINDS)
                        ring->counts.unknown++;
                else if (add_event(ring, &(struct ring_event){ .t_ns = record->t_ns,
                                                               .thread_start = record->tid == tid ? thread_start : 0,
                                                               .at = at }) < 0)
                        return -ENOMEM;
                at += record->size;
        }
        return 0;
}

/* Word by word, each a relaxed atomic load: the writer of the next generation may be at it already. */
static void copy_words(char *to, const struct infp_wire_chunk *chunk, uint32_t from, uint32_t bytes)
{
        const _Atomic uint64_t *words = (const void *) ((const char *) chunk + HEAD + from);

        for (uint32_t i = 0; i < bytes / 8; i++) {
                const uint64_t word = atomic_load_explicit(&words[i], memory_order_relaxed);

                memcpy(to + (size_t) i * 8, &word, sizeof(word));
        }
}

/* Between the payload and the stamp after it. The thread sanitizer knows no fences; all that they order here is atomic. */
static void fence(void)
{
#ifndef __SANITIZE_THREAD__
        atomic_thread_fence(memory_order_acquire);
#endif
}

/* What was read of it before this call may be another generation's. */
static bool is_claimed_anew(const struct infp_wire_chunk *chunk, uint64_t generation)
{
        fence();
        return atomic_load_explicit(&chunk->stamp, memory_order_relaxed) >> 3 != generation;
}

/* The chunk was claimed anew since it was looked at last. Of the consumer's own loss the writer keeps count. */
static void note_missed(struct infp_ring *ring, const struct ring_seen *seen, uint64_t generation)
{
        const bool is_next = seen->generation == generation; /* kept plus one: the one before */

        if (seen->generation && !ring->is_consumer && !(is_next && seen->is_sealed))
                ring->counts.missed_chunks++;
}

/* Where reading goes on: after what we took, or what an earlier consumer took. */
static uint32_t start_of(struct infp_ring *ring, const struct infp_wire_chunk *chunk, struct ring_seen *seen,
                         uint64_t generation)
{
        uint64_t drained;

        if (seen->generation == generation + 1)
                return seen->offset;
        note_missed(ring, seen, generation);
        *seen = (struct ring_seen){ .generation = generation + 1 };
        drained = atomic_load_explicit(&chunk->drained, memory_order_acquire);
        if (ring->is_consumer && drained >> 32 == (generation & UINT32_MAX) && (drained & UINT32_MAX) <= ROOM &&
            drained % 8 == 0)
                seen->offset = (uint32_t) (drained & UINT32_MAX);
        return seen->offset;
}

/* Whether a pass reads it. To be asked again when its turn comes: meanwhile it may have become one of those that stay. */
static bool is_for_passes(const struct infp_wire_chunk *chunk, uint64_t stamp)
{
        return (stamp & 7) != INFP_WIRE_FREE && (stamp & 7) != INFP_WIRE_CLAIMING &&
               __atomic_load_n(&chunk->class, __ATOMIC_RELAXED) != INFP_WIRE_STAY;
}

/* 1: it is to be looked at again, since it was claimed meanwhile; 0; -ENOMEM. */
static int take_once(struct infp_ring *ring, uint32_t index)
{
        struct infp_wire_chunk *chunk = chunk_at(ring, index);
        struct ring_seen *seen = &ring->seen[index];
        const uint64_t stamp = atomic_load_explicit(&chunk->stamp, memory_order_acquire), generation = stamp >> 3;
        const unsigned state = stamp & 7;
        const uint32_t used = atomic_load_explicit(&chunk->used, memory_order_acquire),
                       tid = atomic_load_explicit(&chunk->tid, memory_order_relaxed), at = (uint32_t) ring->taken.size;
        const uint64_t thread_start = atomic_load_explicit(&chunk->thread_start, memory_order_relaxed);
        uint32_t from;

        if (!is_for_passes(chunk, stamp))
                return 0;
        from = start_of(ring, chunk, seen, generation);
        if (state > INFP_WIRE_SEALED || used > ROOM || used % 8 || used < from) {
                if (is_claimed_anew(chunk, generation))
                        return 1;
                ring->counts.broken += from < ROOM;
                seen->offset = ROOM;
                return 0;
        }
        if (used == from) {
                seen->is_sealed = state == INFP_WIRE_SEALED;
                return 0;
        }
        if (!infp_str_reserve(&ring->taken, used - from))
                return -ENOMEM;
        copy_words(ring->taken.data + at, chunk, from, used - from);
        if (is_claimed_anew(chunk, generation)) {
                ring->counts.torn++;
                return 1;
        }
        /* Only now: a record may have been written after the last look at the clock. */
        ring->now_ns = infp_clock_ns(CLOCK_MONOTONIC) + slack_ns;
        ring->taken.size += used - from;
        seen->offset = used;
        seen->is_sealed = state == INFP_WIRE_SEALED;
        if (ring->is_consumer)
                atomic_store_explicit(&chunk->drained, drained_word(generation, used), memory_order_release);
        return list_records(ring, at, tid, thread_start);
}

static bool has_news(const struct infp_ring *ring, uint32_t index)
{
        struct infp_wire_chunk *chunk = chunk_at(ring, index);
        const struct ring_seen *seen = &ring->seen[index];
        const uint64_t stamp = atomic_load_explicit(&chunk->stamp, memory_order_acquire);

        if (!is_for_passes(chunk, stamp))
                return false;
        return seen->generation != (stamp >> 3) + 1 ||
               seen->offset != atomic_load_explicit(&chunk->used, memory_order_acquire);
}

static int by_age(const void *a, const void *b)
{
        const struct ring_visit *one = a, *other = b;

        if (one->first_ns != other->first_ns)
                return one->first_ns < other->first_ns ? -1 : 1;
        return one->index < other->index ? -1 : 1;
}

/* A pass goes from the oldest chunk to the newest, so that what does not fit into one turn is in order nearly as well. */
static int begin_pass(struct infp_ring *ring)
{
        const uint32_t n = chunks_now(ring);

        ring->pass++;
        ring->next_visit = ring->n_visits = 0;
        if (!ring->visits) {
                ring->visits = calloc(ring->layout.max_chunks, sizeof(*ring->visits));
                if (!ring->visits)
                        return -ENOMEM;
        }
        for (uint32_t i = 0; i < n; i++)
                if (has_news(ring, i))
                        ring->visits[ring->n_visits++] = (struct ring_visit){
                                .first_ns = atomic_load_explicit(&chunk_at(ring, i)->first_ns, memory_order_relaxed),
                                .index = i,
                        };
        infp_sort(ring->visits, ring->n_visits, sizeof(*ring->visits), by_age);
        return 0;
}

/* Copies what chunks hold, at most about INFP_RING_TURN_BYTES. 1: the pass is over; 0: it goes on; -ENOMEM. */
static int take(struct infp_ring *ring)
{
        int r = 0;

        if (!ring->is_in_pass)
                INFP_TRY(begin_pass(ring));
        ring->is_in_pass = true;
        for (; ring->next_visit < ring->n_visits; ring->next_visit++) {
                if (ring->taken.size >= INFP_RING_TURN_BYTES)
                        return 0;
                for (unsigned i = 0; i < TRIES && (r = take_once(ring, ring->visits[ring->next_visit].index)) == 1; i++)
                        ;
                if (r < 0)
                        return r;
        }
        ring->is_in_pass = false;
        return 1;
}

int ring_copy_staying(struct infp_ring *ring, uint32_t id, uint8_t kind, struct infp_wire_record *ret)
{
        const uint32_t index = id / (INFP_WIRE_CHUNK / 8), at = id % (INFP_WIRE_CHUNK / 8) * 8 - HEAD;
        struct infp_wire_chunk *chunk;
        uint64_t stamp;
        uint32_t used;

        if (index >= chunks_now(ring) || at >= ROOM)
                return -ENOENT;
        chunk = chunk_at(ring, index);
        stamp = atomic_load_explicit(&chunk->stamp, memory_order_acquire);
        used = atomic_load_explicit(&chunk->used, memory_order_acquire);
        if ((stamp & 7) == INFP_WIRE_FREE || (stamp & 7) == INFP_WIRE_CLAIMING || used > ROOM ||
            at + sizeof(*ret) > used || __atomic_load_n(&chunk->class, __ATOMIC_RELAXED) != INFP_WIRE_STAY)
                return -ENOENT;
        copy_words((char *) ret, chunk, at, sizeof(*ret));
        if (ret->kind != kind || !is_record(ring, ret, used - at))
                return -EBADMSG;
        copy_words((char *) (ret + 1), chunk, at + sizeof(*ret), ret->size - (uint32_t) sizeof(*ret));
        return is_claimed_anew(chunk, stamp >> 3) ? -ENOENT : 0;
}

/* The arena's texts are never changed by a writer; should somebody else do so, what is copied once stays as it is. */
bool ring_text(struct infp_ring *ring, const struct infp_wire_record *record, struct infp_wire_text text, char *ret,
               size_t cap, size_t *ret_size)
{
        const struct ring_layout *layout = &ring->layout;
        const uint32_t at = text.at & ~INFP_WIRE_INLINE;

        *ret_size = text.size;
        ret[0] = 0;
        if (text.size == 0)
                return true;
        if (text.size >= cap)
                return false;
        if (text.at & INFP_WIRE_INLINE) {
                if (!record || at < layout->fixed[record->kind] || at > record->size || text.size > record->size - at)
                        return false;
                memcpy(ret, (const char *) record + at, text.size);
        } else {
                uint32_t used = atomic_load_explicit(&ring_head(ring)->arena_used, memory_order_acquire);

                used = used < layout->arena_bytes ? used : layout->arena_bytes;
                if (at > used || text.size > used - at)
                        return false;
                memcpy(ret, ring->map.at + layout->arena_at + at, text.size);
        }
        ret[text.size] = 0;
        return true;
}

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
        INFP_TRY(check_head(&page.head, size, &ring->layout, err));
        wanted = (ssize_t) (ring->layout.n_kinds * sizeof(*kinds));
        kinds = malloc((size_t) wanted + 1);
        if (!kinds)
                return infp_fail(err, -ENOMEM, "not enough memory for a reader");
        if (pread(ring->file, kinds, (size_t) wanted, ring->layout.kinds_at) != wanted)
                return infp_fail(err, -EBADMSG, "is not a ring file of libinfprof: its schema is cut; remove it");
        INFP_TRY(check_kinds(kinds, &ring->layout, err));
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
        free(ring->tables);
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
        int r, is_over = take(ring);

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
                if (ring->layout.head_bytes >= TABLES_LEAST) {
                        c->evicted_rows = atomic_load_explicit(&head->evicted_rows, memory_order_relaxed);
                        c->refused_tables = atomic_load_explicit(&head->refused_tables, memory_order_relaxed);
                }
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

bool infp_ring_sampler(struct infp_ring *ring, struct infp_ring_sampler *ret)
{
        struct infp_wire_head *head = ring_head(ring);

        *ret = (struct infp_ring_sampler){ 0 };
        if (ring->layout.head_bytes < SAMPLER_LEAST)
                return false;
        infp_guarded_map_begin(&ring->map);
        ret->hz = __atomic_load_n(&head->sampler_hz_1000, __ATOMIC_RELAXED) / 1e3;
        ret->state = atomic_load(&head->sampler_state);
        ret->python = atomic_load(&head->sampler_python);
        ret->period_ns = atomic_load(&head->sampler_period_ns);
        ret->busy = atomic_load(&head->sampler_busy);
        ret->skipped = atomic_load(&head->sampler_skipped);
        ret->own_ns = atomic_load(&head->sampler_own_ns);
        ret->cpu_ns = atomic_load(&head->sampler_cpu_ns);
        ret->unmapped = atomic_load(&head->sampler_unmapped);
        ret->closed = atomic_load(&head->tables_closed);
        infp_guarded_map_end();
        return ret->hz > 0;
}

bool infp_ring_heap(struct infp_ring *ring, struct infp_ring_heap *ret)
{
        struct infp_wire_head *head = ring_head(ring);

        *ret = (struct infp_ring_heap){ 0 };
        if (ring->layout.head_bytes < HEAP_LEAST)
                return false;
        infp_guarded_map_begin(&ring->map);
        ret->mean_bytes = __atomic_load_n(&head->heap_mean, __ATOMIC_RELAXED);
        ret->state = atomic_load(&head->heap_state);
        ret->missed = atomic_load(&head->heap_missed);
        ret->kept = atomic_load(&head->heap_kept);
        ret->own_ns = atomic_load(&head->heap_own_ns);
        ret->is_exact = ret->mean_bytes == INFP_WIRE_HEAP_EXACT && ring->layout.head_bytes >= EXACT_LEAST;
        if (ret->is_exact) {
                ret->sites = atomic_load(&head->heap_sites);
                ret->peak_ns = atomic_load(&head->heap_peak_ns);
                ret->looks = atomic_load(&head->heap_looks);
                ret->aged = atomic_load(&head->heap_aged);
                ret->refused = atomic_load(&head->refused_stacks);
        }
        infp_guarded_map_end();
        return ret->mean_bytes > 0;
}

void infp_ring_offer_tables(struct infp_ring *ring, uint64_t number)
{
        if (!ring->is_consumer || ring->layout.head_bytes < SAMPLER_LEAST)
                return;
        infp_guarded_map_begin(&ring->map);
        atomic_store(&ring_head(ring)->tables, number);
        infp_guarded_map_end();
}

void infp_ring_begin_window(struct infp_ring *ring, uint32_t number, uint32_t half)
{
        if (!ring->is_consumer || ring->layout.head_bytes < EXACT_LEAST)
                return;
        infp_guarded_map_begin(&ring->map);
        atomic_store(&ring_head(ring)->heap_window, INFP_WIRE_WINDOW(number, half));
        infp_guarded_map_end();
}
