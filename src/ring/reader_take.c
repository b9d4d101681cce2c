/* Copies records out of chunks, by the rule of wire.h: what is below `used` is believed only when the generation is still the
 * same after the copy. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "base/time.h"
#include "ring/reader_parts.h"

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
        if (ring->n_events == ring->cap_events) {
                const size_t cap = ring->cap_events ? 2 * ring->cap_events : 256;
                struct ring_event *more = reallocarray(ring->events, cap, sizeof(*more));

                if (!more)
                        return -ENOMEM;
                ring->events = more;
                ring->cap_events = cap;
        }
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
                if (record->kind >= INFP_RING_KNOWN_KINDS)
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

        if (state == INFP_WIRE_FREE || state == INFP_WIRE_CLAIMING)
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

        if ((stamp & 7) == INFP_WIRE_FREE || (stamp & 7) == INFP_WIRE_CLAIMING ||
            __atomic_load_n(&chunk->class, __ATOMIC_RELAXED) == INFP_WIRE_STAY)
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

int ring_take(struct infp_ring *ring)
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
