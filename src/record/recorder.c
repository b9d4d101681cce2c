#include "record/recorder.h"

#include <errno.h>
#include <stdlib.h>

#include "base/time.h"
#include "model/tables.h"
#include "record/builders.h"
#include "record/feed.h"
#include "record/intern.h"

struct infp_recorder {
        struct infp_recorder_options options;
        struct infp_stats *stats, own_stats; /* own_stats: where the caller wants none */
        struct infp_anchors anchors;
        struct infp_builders builders;
        struct infp_intern *intern;
        struct infp_feed feed;
        uint64_t oldest_ns;  /* stamp of the oldest row that the flush sinks have not had; UINT64_MAX: none */
        uint64_t looked_ns;  /* last look at the clocks */
        uint64_t segment_ns; /* when the segment began */
        uint32_t segment;
        uint64_t tick_ns, flushed_tick_ns; /* the last tick, and the one after which the last flush came */
        struct infp_row row;               /* the recorder's own rows */
        struct infp_row ring_row, entity_row;
        char text[8192];
};

static const uint64_t default_flush_ns = 5 * INFP_NS_PER_S, default_rotate_ns = 15 * 60 * INFP_NS_PER_S;
static const uint64_t look_ns = 100 * INFP_NS_PER_MS, longest_look_ns = 60 * INFP_NS_PER_S;
static const uint64_t behind_ns = INFP_NS_PER_S;
enum { DEFAULT_ENTITY_BYTES = 8 << 20, MAX_BUFFER_BYTES = 1 << 20 };

static uint64_t now_ns(const struct infp_recorder *recorder)
{
        if (recorder->options.now_ns)
                return recorder->options.now_ns(recorder->options.clock_context);
        return infp_clock_ns(CLOCK_MONOTONIC);
}

int infp_recorder_new(const struct infp_recorder_options *options, struct infp_recorder **ret, struct infp_err *err)
{
        struct infp_recorder *recorder = calloc(1, sizeof *recorder);
        int r;

        if (!recorder)
                return infp_fail(err, -ENOMEM, "no memory for the recorder");
        recorder->options = *options;
        infp_recorder_set_flush(recorder, options->flush_ns);
        if (!recorder->options.rotate_ns)
                recorder->options.rotate_ns = default_rotate_ns;
        recorder->oldest_ns = UINT64_MAX;
        recorder->segment = 1;
        recorder->row.text = recorder->text;
        recorder->row.text_cap = sizeof recorder->text;
        recorder->stats = options->stats ? options->stats : &recorder->own_stats;
        recorder->feed.notices = &recorder->options.notices;
        recorder->feed.stats = recorder->stats;
        r = infp_builders_init(&recorder->builders, options->tables, err);
        if (r >= 0 && infp_intern_new(options->entity_bytes ? options->entity_bytes : DEFAULT_ENTITY_BYTES,
                                      &recorder->intern) < 0)
                r = infp_fail(err, -ENOMEM, "no memory for the recorder's entities");
        if (r < 0) {
                infp_recorder_free(recorder);
                return r;
        }
        *ret = recorder;
        return 0;
}

struct infp_recorder *infp_recorder_free(struct infp_recorder *recorder)
{
        if (recorder) {
                infp_builders_done(&recorder->builders);
                infp_intern_free(recorder->intern);
                free(recorder);
        }
        return NULL;
}

int infp_recorder_add_sink(struct infp_recorder *recorder, struct infp_sink *sink, struct infp_err *err)
{
        const int r = infp_feed_add(&recorder->feed, sink);

        return r < 0 ? infp_fail(err, r, "more than %d sinks", INFP_FEED_SINKS) : 0;
}

void infp_recorder_set_flush(struct infp_recorder *recorder, uint64_t flush_ns)
{
        recorder->options.flush_ns = flush_ns ? flush_ns : default_flush_ns;
}

/* Rows that the sinks of each tick have not had. */
static void tell(struct infp_recorder *recorder, struct infp_buffer *buffer)
{
        struct infp_batch batch;

        if (!buffer->builder || buffer->n_told == infp_builder_rows(buffer->builder))
                return;
        batch = infp_builder_batch(buffer->builder, buffer->n_told);
        infp_feed_batch(&recorder->feed, true, &batch, NULL);
        buffer->n_told = infp_builder_rows(buffer->builder);
}

static int flush_buffer(struct infp_recorder *recorder, struct infp_buffer *buffer, struct infp_err *err)
{
        struct infp_batch batch;
        int r;

        if (!buffer->builder || infp_builder_rows(buffer->builder) == 0)
                return 0;
        tell(recorder, buffer);
        batch = infp_builder_batch(buffer->builder, 0);
        r = infp_feed_batch(&recorder->feed, false, &batch, err);
        infp_stats_add(&recorder->stats->batches, 1);
        infp_builder_reset(buffer->builder);
        buffer->n_told = 0;
        return r;
}

static void rotate(struct infp_recorder *recorder, uint64_t now)
{
        bool wanted = infp_feed_wants_rotation(&recorder->feed);

        if (!wanted && now - recorder->segment_ns < recorder->options.rotate_ns)
                return;
        recorder->segment++;
        recorder->segment_ns = now;
        infp_intern_next_segment(recorder->intern);
        infp_feed_rotate(&recorder->feed, recorder->segment);
}

/* Entities come first among the buffers: no fact is on disk before what it names. */
static int flush_buffers(struct infp_recorder *recorder, uint64_t now, struct infp_err *err)
{
        int first = 0;

        for (unsigned i = 0; i < recorder->builders.n_buffers; i++) {
                int r = flush_buffer(recorder, &recorder->builders.buffers[i], first ? NULL : err);

                first = first ? first : r;
        }
        recorder->oldest_ns = UINT64_MAX;
        infp_feed_tick_end(&recorder->feed, false, false, now,
                           infp_recorder_unix_ns(recorder, now) / (int64_t) INFP_NS_PER_MS);
        return first;
}

int infp_recorder_flush(struct infp_recorder *recorder, struct infp_err *err)
{
        uint64_t now = now_ns(recorder);
        int r = flush_buffers(recorder, now, err);

        rotate(recorder, now);
        infp_intern_make_room(recorder->intern, now); /* without memory the old room must do */
        return r;
}

/* A full builder is flushed, and grows, since one interval brings this much: up to a bound, beyond which it is flushed more
 * often. */
static int append_to_full(struct infp_recorder *recorder, struct infp_buffer *buffer, const struct infp_row *row,
                          int64_t unix_ns)
{
        size_t bytes = infp_builder_bytes(buffer->builder);
        int r;

        flush_buffers(recorder, now_ns(recorder), NULL);
        if (bytes < MAX_BUFFER_BYTES)
                infp_builder_grow(buffer->builder, row->text_size > bytes / 4 ? row->text_size : bytes / 4);
        r = infp_builder_append(buffer->builder, row, unix_ns);
        if (r != -ENOSPC)
                return r;
        infp_builder_grow(buffer->builder, row->text_size); /* this row alone is too large for it */
        return infp_builder_append(buffer->builder, row, unix_ns);
}

/* No rotation here: a fact and the entities that it names go into the same segment. */
static void append(struct infp_recorder *recorder, struct infp_buffer *buffer, const struct infp_row *row)
{
        int64_t unix_ns = infp_recorder_unix_ns(recorder, row->t_ns);
        int r = infp_builders_begin(buffer);

        if (r == 0)
                r = infp_builder_append(buffer->builder, row, unix_ns);
        if (r == -ENOSPC)
                r = append_to_full(recorder, buffer, row, unix_ns);
        infp_stats_add(r < 0 ? &recorder->stats->rows_dropped : &recorder->stats->rows, 1);
}

/* Marks all that the row names; what must be written now is put before *list. -ENOSPC: not all. */
static int refer(struct infp_recorder *recorder, const struct infp_buffer *buffer, const struct infp_row *row,
                 uint64_t now, struct infp_entity **list)
{
        int worst = 0;

        for (unsigned i = 0; i < buffer->n_names; i++) {
                const struct infp_name *name = &buffer->names[i];
                struct infp_entity *entity;
                int r;

                if (!infp_row_has(row, name->cell))
                        continue;
                r = infp_intern_refer(recorder->intern, name->entity, row->cell[name->cell].u64, now, &entity);
                if (r == 1) {
                        entity->next = *list;
                        *list = entity;
                }
                worst = r < worst ? r : worst;
        }
        return worst;
}

/* Writes the entities of the list and those that they name. A list, not recursion: a chain of parents can be long. */
static void write_entities(struct infp_recorder *recorder, struct infp_entity *list, uint64_t now)
{
        while (list) {
                struct infp_entity *entity = list;
                struct infp_buffer *buffer = infp_builders_find(&recorder->builders, entity->table);

                list = entity->next;
                infp_intern_row(recorder->intern, entity, &recorder->entity_row);
                refer(recorder, buffer, &recorder->entity_row, now, &list);
                append(recorder, buffer, &recorder->entity_row);
        }
}

static int put_entity(struct infp_recorder *recorder, const struct infp_row *row, uint64_t now)
{
        struct infp_entity *entity;
        int r = infp_intern_put(recorder->intern, row, &entity);

        if (r != 1)
                return r;
        entity->next = NULL;
        write_entities(recorder, entity, now);
        return 0;
}

static int put_fact(struct infp_recorder *recorder, struct infp_buffer *buffer, const struct infp_row *row,
                    uint64_t now)
{
        struct infp_entity *list = NULL;
        int r = buffer->n_names ? refer(recorder, buffer, row, now, &list) : 0;

        write_entities(recorder, list, now);
        return r;
}

void infp_recorder_put_at(struct infp_recorder *recorder, const struct infp_row *row, uint64_t now)
{
        struct infp_buffer *buffer = infp_builders_find(&recorder->builders, row->table);

        if (!buffer) {
                infp_stats_add(&recorder->stats->rows_dropped, 1);
                return;
        }
        for (unsigned turn = 0; turn < 2; turn++) {
                int r = row->table->entity ? put_entity(recorder, row, now) : put_fact(recorder, buffer, row, now);

                if (r != -ENOSPC)
                        break;
                infp_recorder_flush(recorder, NULL); /* makes room for more entities */
        }
        if (row->table->entity)
                return;
        append(recorder, buffer, row);
        if (now < recorder->oldest_ns)
                recorder->oldest_ns = now;
}

/* The newest stamp is as good as the clock here, and costs nothing. */
void infp_recorder_put(struct infp_recorder *recorder, const struct infp_row *row)
{
        infp_recorder_put_at(recorder, row, row->t_ns);
}

bool infp_recorder_has(const struct infp_recorder *recorder, const struct infp_table *table, uint64_t id)
{
        return infp_intern_has(recorder->intern, table, id);
}

int infp_recorder_put_row(void *recorder, const struct infp_row *row)
{
        infp_recorder_put(recorder, row);
        return 0;
}

/* Half a ring of rows follows this tick, or it was long ago. */
static bool is_behind(const struct infp_recorder *recorder, const struct infp_rowring *ring,
                      const struct infp_rowring_tick *tick)
{
        return infp_rowring_used(ring) > infp_rowring_size(ring) / 2 || now_ns(recorder) > tick->end_ns + behind_ns;
}

static void end_tick(struct infp_recorder *recorder, uint64_t t_ns, bool is_late)
{
        if (infp_feed_wants_each_tick(&recorder->feed))
                for (unsigned i = 0; i < recorder->builders.n_buffers; i++)
                        tell(recorder, &recorder->builders.buffers[i]);
        infp_feed_tick_end(&recorder->feed, true, is_late, t_ns,
                           infp_recorder_unix_ns(recorder, t_ns) / (int64_t) INFP_NS_PER_MS);
        recorder->tick_ns = t_ns;
}

unsigned infp_recorder_drain(struct infp_recorder *recorder, struct infp_rowring *ring)
{
        struct infp_rowring_tick tick;
        unsigned n_ticks = 0;

        /* Where ticks take longer to write than their period the ring is never empty: the drain has more to do. */
        while (n_ticks < INFP_DRAIN_TICKS) {
                switch (infp_rowring_next(ring, &recorder->ring_row, &tick)) {
                case INFP_ROWRING_EMPTY:
                        return n_ticks;
                case INFP_ROWRING_ROW:
                        infp_recorder_put(recorder, &recorder->ring_row);
                        break;
                case INFP_ROWRING_TICK:
                        end_tick(recorder, tick.t_ns, is_behind(recorder, ring, &tick));
                        n_ticks++;
                        break;
                }
        }
        return n_ticks;
}

void infp_recorder_tick(struct infp_recorder *recorder, uint64_t t_ns)
{
        end_tick(recorder, t_ns, false);
}

static void put_anchor(struct infp_recorder *recorder, const char *reason)
{
        infp_anchors_row(&recorder->anchors, reason, &recorder->row);
        infp_recorder_put(recorder, &recorder->row);
}

void infp_recorder_begin(struct infp_recorder *recorder)
{
        uint64_t now = now_ns(recorder);

        infp_anchors_begin(&recorder->anchors, recorder->options.read_clocks, recorder->options.clock_context);
        recorder->segment_ns = recorder->looked_ns = now;
        infp_feed_tables(&recorder->feed, recorder->options.tables);
        put_anchor(recorder, "start");
        for (const struct infp_table *const *t = recorder->options.tables; *t; t++)
                for (unsigned i = 0; i < infp_table_width(*t); i++) {
                        infp_columns_row(&recorder->row, *t, i, now);
                        infp_recorder_put(recorder, &recorder->row);
                }
        infp_recorder_flush(recorder, NULL);
}

static uint64_t flush_due_ns(const struct infp_recorder *recorder)
{
        uint64_t early = recorder->options.flush_ns / 10; /* for the write itself */

        return recorder->oldest_ns == UINT64_MAX ? UINT64_MAX
                                                 : recorder->oldest_ns + recorder->options.flush_ns - early;
}

uint64_t infp_recorder_due_ns(const struct infp_recorder *recorder)
{
        uint64_t flush = flush_due_ns(recorder), look = recorder->looked_ns + longest_look_ns;

        return flush < look ? flush : look;
}

void infp_recorder_turn(struct infp_recorder *recorder)
{
        uint64_t now = now_ns(recorder), due = flush_due_ns(recorder),
                 next = recorder->tick_ns + recorder->options.period_ns;
        const char *reason;

        if (now - recorder->looked_ns >= look_ns) {
                recorder->looked_ns = now;
                reason = infp_anchors_look(&recorder->anchors);
                if (reason)
                        put_anchor(recorder, reason);
        }
        /* A sink that wants each tick gets it at once, others when it is due: rows of slower threads come some time after the
         * tick, and leaving them to the next flush would make that one come a tick early, with a quarter more bytes of heads. */
        if (due <= now || (recorder->options.flush_ns <= recorder->options.period_ns && next > now && next > due &&
                           recorder->tick_ns > recorder->flushed_tick_ns)) {
                recorder->flushed_tick_ns = recorder->tick_ns;
                infp_recorder_flush(recorder, NULL);
        }
}

uint64_t infp_recorder_end(struct infp_recorder *recorder)
{
        uint64_t end_ns;

        infp_anchors_take(&recorder->anchors);
        put_anchor(recorder, "end");
        end_ns = recorder->row.t_ns;
        infp_recorder_flush(recorder, NULL);
        infp_feed_end(&recorder->feed);
        return end_ns;
}

uint32_t infp_recorder_segment(const struct infp_recorder *recorder)
{
        return recorder->segment;
}

int64_t infp_recorder_unix_ns(const struct infp_recorder *recorder, uint64_t t_ns)
{
        return infp_anchor_unix_ns(recorder->anchors.newest.at, t_ns);
}
