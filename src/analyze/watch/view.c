/* Rows of a moment: what a window of samples holds, beside the sums since the start. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/watch/parts.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/text.h"
#include "base/time.h"

static void forget(struct watch_sums *sums)
{
        sums->self = sums->total = 0;
}

/* Sums of the samples of the window. */
static void count_window(struct infp_watch *watch, const struct infp_watch_query *query, struct infp_watch_view *ret)
{
        const uint64_t t0 = ret->t1_ns > query->window_ns ? ret->t1_ns - query->window_ns : 0;

        for (uint32_t i = 0; i < watch->n_functions; i++)
                forget(&watch->functions[i].sums);
        for (uint32_t i = 0; i < watch->n_lines; i++)
                forget(&watch->lines[i].sums);
        for (uint32_t i = 0; i < watch->n_threads; i++)
                forget(&watch->threads[i].sums);
        for (uint32_t i = 0; i < watch->n_threads; i++)
                memset(watch->threads[i].gil_s, 0, sizeof(watch->threads[i].gil_s));
        for (uint32_t i = watch->first_sample; i < watch->n_samples; i++) {
                const struct watch_sample *sample = &watch->samples[i];

                if (sample->t_ns <= t0 || sample->t_ns > ret->t1_ns)
                        continue;
                if (sample->gil && sample->thread != WATCH_NONE)
                        watch->threads[sample->thread].gil_s[sample->gil] += (double) sample->weight;
                if (sample->mode != query->mode)
                        continue;
                ret->samples += sample->samples;
                ret->seconds += (double) sample->weight;
                if (sample->thread != WATCH_NONE)
                        watch->threads[sample->thread].sums.total += (double) sample->weight;
                if (sample->node != WATCH_NONE && query->by != INFP_WATCH_THREADS)
                        watch_count(watch, sample->node, (double) sample->weight, -1);
        }
}

static struct infp_watch_row *add_row(struct infp_watch *watch, struct infp_watch_view *ret)
{
        if (!INFP_MAKE_ROOM(watch->rows, ret->n, watch->cap_rows, 256))
                return NULL;
        memset(&watch->rows[ret->n], 0, sizeof(watch->rows[ret->n]));
        return &watch->rows[ret->n++];
}

static void fill_sums(struct infp_watch_row *row, const struct watch_sums *sums, enum infp_stack_mode mode)
{
        row->self = sums->self;
        row->total = sums->total;
        row->since_self = sums->since_self[mode];
        row->since_total = sums->since_total[mode];
}

static bool matches(const struct infp_watch_query *query, const struct infp_watch_row *row)
{
        return !query->filter || (row->name && regexec(query->filter, row->name, 0, NULL, 0) == 0) ||
               (row->place && regexec(query->filter, row->place, 0, NULL, 0) == 0);
}

/* The row that was just added stays if the filter lets it. */
static void filter_row(const struct infp_watch *watch, const struct infp_watch_query *query,
                       struct infp_watch_view *ret)
{
        ret->n_all++;
        if (!matches(query, &watch->rows[ret->n - 1]))
                ret->n--;
}

/* Python code has no object but its file. */
static uint32_t place_of(const struct watch_function *function)
{
        return function->object ? function->object : function->file;
}

static int functions(struct infp_watch *watch, const struct infp_watch_query *query, struct infp_watch_view *ret)
{
        for (uint32_t i = 0; i < watch->n_functions; i++) {
                const struct watch_function *function = &watch->functions[i];
                struct infp_watch_row *row;

                if (function->sums.total <= 0 && function->sums.since_total[query->mode] <= 0)
                        continue;
                row = add_row(watch, ret);
                if (!row)
                        return -ENOMEM;
                fill_sums(row, &function->sums, query->mode);
                row->name = watch_string(watch, function->name);
                row->place = watch_string(watch, place_of(function));
                row->line = function->line;
                row->kind = function->kind;
                row->is_unnamed = function->is_unnamed;
                filter_row(watch, query, ret);
        }
        return 0;
}

static int make_text(struct infp_watch *watch, struct watch_line *line)
{
        const char *file = watch_string(watch, line->file);
        char text[512];

        snprintf(text, sizeof(text), "%.480s:%lld", file ? infp_base_name(file) : "", (long long) line->line);
        return infp_strings_add(&watch->strings, text, strlen(text), &line->text);
}

static int lines(struct infp_watch *watch, const struct infp_watch_query *query, struct infp_watch_view *ret)
{
        for (uint32_t i = 0; i < watch->n_lines; i++) {
                struct watch_line *line = &watch->lines[i];
                const struct watch_function *function = &watch->functions[line->function];
                struct infp_watch_row *row;

                if (line->sums.total <= 0 && line->sums.since_total[query->mode] <= 0)
                        continue;
                if (!line->text)
                        INFP_TRY(make_text(watch, line));
                row = add_row(watch, ret);
                if (!row)
                        return -ENOMEM;
                fill_sums(row, &line->sums, query->mode);
                row->name = watch_string(watch, line->text);
                row->place = watch_string(watch, function->name);
                row->line = line->line;
                row->kind = function->kind;
                filter_row(watch, query, ret);
        }
        return 0;
}

/* A thread is shown while it is seen: in the window, or waiting there. */
static int threads(struct infp_watch *watch, const struct infp_watch_query *query, struct infp_watch_view *ret)
{
        static const uint64_t patience_ns = 3 * INFP_NS_PER_S; /* a thread that waits has a row a second */
        const uint64_t from = ret->t1_ns > patience_ns ? ret->t1_ns - patience_ns : 0;

        for (uint32_t i = 0; i < watch->n_threads; i++) {
                const struct watch_thread *thread = &watch->threads[i];
                const uint64_t *process = infp_map_get(&watch->process_by_id, thread->process);
                const bool is_seen = thread->state_t_ns >= from && thread->state_t_ns;
                struct infp_watch_row *row;

                if (thread->sums.total <= 0 && !is_seen)
                        continue;
                row = add_row(watch, ret);
                if (!row)
                        return -ENOMEM;
                fill_sums(row, &thread->sums, query->mode);
                row->name = watch_string(watch, thread->name);
                if (is_seen)
                        row->place = thread->state ? watch_string(watch, thread->state) : "running";
                row->gil_waits = thread->gil_s[INFP_GIL_WAITED];
                row->gil_holds = thread->gil_s[INFP_GIL_HELD];
                row->gil_known = row->gil_waits + row->gil_holds + thread->gil_s[INFP_GIL_NONE];
                row->tid = thread->tid;
                row->pid = process ? watch->processes[*process].pid : 0;
                row->process = process ? watch_string(watch, watch->processes[*process].name) : NULL;
                filter_row(watch, query, ret);
        }
        return 0;
}

static int by_double(double a, double b)
{
        return a > b ? -1 : a < b;
}

static int by_name(const struct infp_watch_row *a, const struct infp_watch_row *b)
{
        const int order = strcmp(a->name ? a->name : "", b->name ? b->name : "");

        return order ? order : a->tid < b->tid ? -1 : a->tid > b->tid;
}

static int by_self(const void *left, const void *right)
{
        const struct infp_watch_row *a = left, *b = right;
        int order = by_double(a->self, b->self);

        order = order ? order : by_double(a->total, b->total);
        order = order ? order : by_double(a->since_self, b->since_self);
        return order ? order : by_name(a, b);
}

static int by_total(const void *left, const void *right)
{
        const struct infp_watch_row *a = left, *b = right;
        int order = by_double(a->total, b->total);

        order = order ? order : by_double(a->self, b->self);
        order = order ? order : by_double(a->since_total, b->since_total);
        return order ? order : by_name(a, b);
}

static int by_name_only(const void *left, const void *right)
{
        return by_name(left, right);
}

int infp_watch_view(struct infp_watch *watch, const struct infp_watch_query *query, struct infp_watch_view *ret)
{
        static int (*const orders[INFP_WATCH_SORTS])(const void *, const void *) = {
                [INFP_WATCH_SELF] = by_self, [INFP_WATCH_TOTAL] = by_total, [INFP_WATCH_NAME] = by_name_only
        };
        static int (*const makers[INFP_WATCH_BYS])(struct infp_watch *, const struct infp_watch_query *,
                                                   struct infp_watch_view *) = {
                [INFP_WATCH_FUNCTIONS] = functions, [INFP_WATCH_LINES] = lines, [INFP_WATCH_THREADS] = threads
        };
        const uint64_t since = watch->since_ns > watch->first_ns ? watch->since_ns : watch->first_ns;
        uint64_t t0;

        *ret = (struct infp_watch_view){ .t1_ns = query->t1_ns ? query->t1_ns : watch->newest_ns };
        watch_recount(watch);
        count_window(watch, query, ret);
        t0 = ret->t1_ns > query->window_ns ? ret->t1_ns - query->window_ns : 0;
        t0 = t0 > watch->first_ns ? t0 : watch->first_ns;
        ret->window_s = ret->t1_ns > t0 ? (double) (ret->t1_ns - t0) / (double) INFP_NS_PER_S : 0;
        ret->since_s = watch->newest_ns > since ? (double) (watch->newest_ns - since) / (double) INFP_NS_PER_S : 0;
        ret->since_used = watch->since_used[query->mode];
        ret->since_samples = watch->since_samples[query->mode];
        INFP_TRY(makers[query->by](watch, query, ret));
        infp_sort(watch->rows, ret->n, sizeof(*watch->rows), orders[query->sort]);
        ret->rows = watch->rows;
        return 0;
}
