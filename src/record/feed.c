#include "record/feed.h"

#include <errno.h>
#include <string.h>

#include "base/human.h"

int infp_feed_add(struct infp_feed *feed, struct infp_sink *sink)
{
        if (feed->n_sinks == INFP_FEED_SINKS)
                return -ENOSPC;
        feed->sinks[feed->n_sinks++] = (struct infp_feed_sink){ .sink = sink };
        return 0;
}

/* True when this errno was not reported yet; remembers it. */
static bool is_news(struct infp_feed_sink *s, int r)
{
        for (unsigned i = 0; i < INFP_FEED_SAID; i++) {
                if (s->said[i] == r)
                        return false;
                if (s->said[i] == 0) {
                        s->said[i] = r;
                        return true;
                }
        }
        return false;
}

static const char goes_on[] = " (the recording continues and retries)";

/* more: the end of the sentence. */
static void failed(struct infp_feed *feed, struct infp_feed_sink *s, int r, const struct infp_err *err,
                   const char *more)
{
        const char *text = err->text[0] ? err->text : strerror(-r);

        infp_stats_add(&feed->stats->write_errors, 1);
        s->has_failed = true;
        if (is_news(s, r))
                infp_notice(feed->notices, "%s: %s%s", s->sink->name, text, more);
}

/* At the end of a tick or flush. The first recovery is reported. */
static void sum_up(struct infp_feed *feed, struct infp_feed_sink *s)
{
        bool was_failing = s->is_failing;

        s->is_failing = s->has_failed;
        s->has_failed = false;
        if (!was_failing || s->is_failing || s->said_recovery)
                return;
        s->said_recovery = true;
        s->n_lost_said = s->n_lost;
        if (s->n_lost)
                infp_notice(feed->notices, "%s: works again; %s rows were lost", s->sink->name,
                            infp_count(s->n_lost).text);
        else
                infp_notice(feed->notices, "%s: works again", s->sink->name);
}

void infp_feed_tables(struct infp_feed *feed, const struct infp_table *const *tables)
{
        for (unsigned i = 0; i < feed->n_sinks; i++) {
                struct infp_feed_sink *s = &feed->sinks[i];

                for (const struct infp_table *const *t = tables; s->sink->table_begin && *t; t++) {
                        struct infp_err err = { "" };
                        int r = s->sink->table_begin(s->sink, *t, &err);

                        if (r < 0)
                                failed(feed, s, r, &err, goes_on);
                }
        }
}

int infp_feed_batch(struct infp_feed *feed, bool each_tick, const struct infp_batch *batch, struct infp_err *err)
{
        int first = 0;

        for (unsigned i = 0; i < feed->n_sinks; i++) {
                struct infp_feed_sink *s = &feed->sinks[i];
                struct infp_err own = { "" };
                int r;

                if (s->sink->each_tick != each_tick)
                        continue;
                r = s->sink->batch(s->sink, batch, &own);
                if (r >= 0)
                        continue;
                s->n_lost += batch->n_rows;
                if (!each_tick) /* the rows of views are in the files, too */
                        infp_stats_add(&feed->stats->rows_lost, batch->n_rows);
                failed(feed, s, r, &own, goes_on);
                if (first == 0 && err)
                        *err = own;
                first = first ? first : r;
        }
        return first;
}

static void skip(struct infp_feed *feed, struct infp_feed_sink *s)
{
        infp_stats_add(&feed->stats->snapshots_skipped, 1);
        if (!s->said_skipping)
                infp_notice(
                        feed->notices,
                        "%s are skipped while the recorder is late, so that no rows are lost (table self counts them)",
                        s->sink->name);
        s->said_skipping = true;
}

void infp_feed_tick_end(struct infp_feed *feed, bool each_tick, bool is_behind, uint64_t t_ns, int64_t unix_ms)
{
        for (unsigned i = 0; i < feed->n_sinks; i++) {
                struct infp_feed_sink *s = &feed->sinks[i];
                struct infp_err err = { "" };
                int r;

                if (s->sink->each_tick != each_tick)
                        continue;
                if (is_behind && s->sink->can_skip) {
                        skip(feed, s);
                        continue;
                }
                r = s->sink->tick_end ? s->sink->tick_end(s->sink, t_ns, unix_ms, &err) : 0;
                if (r < 0)
                        failed(feed, s, r, &err, goes_on);
                sum_up(feed, s);
        }
}

bool infp_feed_wants_each_tick(const struct infp_feed *feed)
{
        for (unsigned i = 0; i < feed->n_sinks; i++)
                if (feed->sinks[i].sink->each_tick)
                        return true;
        return false;
}

bool infp_feed_wants_rotation(struct infp_feed *feed)
{
        bool wants = false;

        for (unsigned i = 0; i < feed->n_sinks; i++) {
                wants |= feed->sinks[i].sink->wants_rotation;
                feed->sinks[i].sink->wants_rotation = false;
        }
        return wants;
}

void infp_feed_rotate(struct infp_feed *feed, uint32_t segment)
{
        for (unsigned i = 0; i < feed->n_sinks; i++) {
                struct infp_feed_sink *s = &feed->sinks[i];
                struct infp_err err = { "" };
                int r = s->sink->rotate ? s->sink->rotate(s->sink, segment, &err) : 0;

                if (r < 0)
                        failed(feed, s, r, &err, goes_on);
        }
}

void infp_feed_end(struct infp_feed *feed)
{
        for (unsigned i = 0; i < feed->n_sinks; i++) {
                struct infp_feed_sink *s = &feed->sinks[i];
                struct infp_err err = { "" };
                int r = s->sink->end ? s->sink->end(s->sink, &err) : 0;

                if (r < 0)
                        failed(feed, s, r, &err, "");
                if (s->n_lost > s->n_lost_said)
                        infp_notice(feed->notices, "%s: %s rows were lost in total", s->sink->name,
                                    infp_count(s->n_lost).text);
        }
}
