/* The busiest processes and their parents: a tree, each with its CPU time and memory over time. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/report_processes.h"
#include "analyze/timeline/parts.h"
#include "base/mem.h"
#include "base/time.h"

enum { MOST_SPARKS = 16384, MOST_LISTED = 3 * INFP_TIMELINE_PROCESSES, COMMAND_BYTES = 1000 };

/* An idle process has a row per minute. */
static const uint64_t silence_ns = 60 * INFP_NS_PER_S;
/* Processes outside the target are read at most this often. */
static const uint64_t others_ns = INFP_NS_PER_S;

struct cell {
        float cpu_s, covered_s, rss; /* rss 0: none */
};

struct seen {
        struct cell *cells; /* NULL beyond the bound */
        uint64_t first_t_ns, last_t_ns, end_t_ns;
        int64_t pid, ppid;
        float rss;
        int listed; /* index in the timeline; -1 */
};

struct gathering {
        const struct infp_grid *spark;
        uint64_t period_ns;
        struct infp_uses uses;
        struct seen *seen; /* by number of use */
        size_t n, cap;
};

static void gathering_done(struct gathering *g)
{
        for (size_t i = 0; i < g->n; i++)
                free(g->seen[i].cells);
        free(g->seen);
        infp_uses_done(&g->uses);
}

static struct seen *seen_of(struct gathering *g, const struct infp_use *use, uint64_t t_ns)
{
        if (!INFP_MAKE_ROOM(g->seen, use->number, g->cap, 64))
                return NULL;
        if (use->number >= g->n) {
                g->seen[use->number] = (struct seen){ .pid = -1, .ppid = -1, .first_t_ns = t_ns, .listed = -1 };
                g->n = use->number + 1;
                if (use->number < MOST_SPARKS)
                        g->seen[use->number].cells = calloc(g->spark->n, sizeof(struct cell));
        }
        return &g->seen[use->number];
}

/* Lays the seconds from..to over the buckets; `share` of each is CPU time. */
static void cover(const struct gathering *g, struct cell *cells, uint64_t from, uint64_t to, double share)
{
        while (from < to) {
                const int at = infp_grid_bucket(g->spark, from);
                uint64_t edge;

                if (at < 0)
                        return;
                edge = g->spark->t0 + (uint64_t) (at + 1) * g->spark->step_ns;
                if (edge > to)
                        edge = to;
                cells[at].covered_s += (float) ((double) (edge - from) / 1e9);
                cells[at].cpu_s += (float) (share * (double) (edge - from) / 1e9);
                from = edge;
        }
}

/* Rows are written on change: what a row reports happened since the tick before it. */
static void take(const struct gathering *g, struct seen *seen, uint64_t t_ns, uint64_t period_ns, double more_s)
{
        uint64_t from = seen->last_t_ns;

        if (t_ns - from > silence_ns + 3 * period_ns)
                return;
        for (int i = infp_grid_bucket(g->spark, from) + 1; i > 0 && i < infp_grid_bucket(g->spark, t_ns); i++)
                seen->cells[i].rss = fmaxf(seen->cells[i].rss, seen->rss);
        if (t_ns - from > 2 * period_ns) {
                cover(g, seen->cells, from, t_ns - period_ns, 0);
                from = t_ns - period_ns;
        }
        if (t_ns > from)
                cover(g, seen->cells, from, t_ns, more_s / ((double) (t_ns - from) / 1e9));
}

enum { PARENT, STATE, RSS, IN_TREE };
static const char *const columns[] = { "pParentId", "pState", "pResidentSetSize", "pInTree", NULL };

static int take_row(void *context, const struct infp_use *use, const struct infp_batch *batch, const int *at,
                    uint32_t row, double more_s)
{
        struct gathering *g = context;
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        struct seen *seen = seen_of(g, use, t_ns);
        const char *state;
        size_t size;
        bool is_other;

        if (!seen)
                return -ENOMEM;
        if (infp_cell_has(batch, at[PARENT], row))
                seen->ppid = infp_batch_i64(batch, (unsigned) at[PARENT], row);
        is_other = infp_cell_has(batch, at[IN_TREE], row) && !infp_cell_bool(batch, at[IN_TREE], row);
        state = infp_cell_str(batch, at[STATE], row, &size);
        seen->end_t_ns = size && *state == 'X' ? t_ns : 0;
        if (seen->cells && seen->last_t_ns && t_ns > seen->last_t_ns && isfinite(more_s))
                take(g, seen, t_ns, is_other && g->period_ns < others_ns ? others_ns : g->period_ns, more_s);
        if (infp_cell_has(batch, at[RSS], row) && !seen->end_t_ns) {
                const int bucket = infp_grid_bucket(g->spark, t_ns);

                seen->rss = (float) infp_cell_number(batch, at[RSS], row);
                if (seen->cells && bucket >= 0)
                        seen->cells[bucket].rss = fmaxf(seen->cells[bucket].rss, seen->rss);
        }
        seen->last_t_ns = t_ns;
        return 0;
}

/* Pids of all processes seen, and the first parent of those whose rows lack one. */
static const char *const pid_columns[] = { "id", "pId", "pFirstParentId", NULL };

static int take_pid(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct gathering *g = context;
        const uint64_t *number =
                at[0] < 0 ? NULL : infp_map_get(&g->uses.map, infp_batch_u64(batch, (unsigned) at[0], row));

        if (!number || at[1] < 0)
                return 0;
        if (infp_cell_has(batch, at[1], row))
                g->seen[*number].pid = infp_batch_i64(batch, (unsigned) at[1], row);
        if (g->seen[*number].ppid < 0 && infp_cell_has(batch, at[2], row))
                g->seen[*number].ppid = infp_batch_i64(batch, (unsigned) at[2], row);
        return 0;
}

/* The number of a process's parent; -1 if not seen. Pids are reused: takes the newest process that appeared before the
 * child's last row. */
static int64_t parent_of(const struct gathering *g, size_t number)
{
        const struct seen *child = &g->seen[number];
        int64_t best = -1;

        for (size_t i = 0; child->ppid > 0 && i < g->n; i++)
                if (i != number && g->seen[i].pid == child->ppid && g->seen[i].first_t_ns <= child->last_t_ns &&
                    (best < 0 || g->seen[i].first_t_ns > g->seen[best].first_t_ns))
                        best = (int64_t) i;
        return best;
}

struct choice {
        size_t use, number; /* in the sorted list; in the order of appearance */
        int64_t parent;     /* number; -1 */
        bool is_listed;
};

/* The busiest, then their parents. */
static unsigned choose(const struct gathering *g, struct choice *choices)
{
        infp_autofree bool *is_chosen = calloc(g->n + 1, sizeof(*is_chosen));
        unsigned n = 0;

        /* bound: the rest is counted (processes_left_out) */
        for (size_t i = 0; is_chosen && i < g->uses.n && n < INFP_TIMELINE_PROCESSES; i++) {
                const size_t number = g->uses.list[i].number;

                choices[n++] = (struct choice){ i, number, parent_of(g, number), false };
                is_chosen[number] = true;
        }
        for (unsigned i = 0; i < n; i++) {
                const int64_t parent = choices[i].parent;

                /* bound: the rest is counted (processes_left_out) */
                if (parent < 0 || is_chosen[parent] || n == MOST_LISTED)
                        continue;
                for (size_t k = 0; k < g->uses.n; k++)
                        if (g->uses.list[k].number == (size_t) parent) {
                                choices[n++] =
                                        (struct choice){ k, (size_t) parent, parent_of(g, (size_t) parent), false };
                                is_chosen[parent] = true;
                                break;
                        }
        }
        return n;
}

static int fill_spark(const struct gathering *g, const struct seen *seen, struct infp_timeline_process *p)
{
        if (!seen->cells)
                return 0;
        p->cpu = malloc(g->spark->n * sizeof(*p->cpu));
        p->rss = malloc(g->spark->n * sizeof(*p->rss));
        if (!p->cpu || !p->rss)
                return -ENOMEM;
        for (unsigned i = 0; i < g->spark->n; i++) {
                const struct cell *cell = &seen->cells[i];

                p->cpu[i] = cell->covered_s > 0 ? 100 * cell->cpu_s / cell->covered_s : NAN;
                p->rss[i] = cell->rss > 0 ? cell->rss : NAN;
        }
        return 0;
}

static int list(struct infp_timeline *timeline, struct gathering *g, struct choice *choice)
{
        const struct infp_use *use = &g->uses.list[choice->use];
        struct seen *seen = &g->seen[choice->number];
        struct infp_timeline_process *p = &timeline->processes[timeline->n_processes];

        *p = (struct infp_timeline_process){
                .id = use->id,
                .pid = seen->pid,
                .ppid = seen->ppid,
                .parent = choice->parent >= 0 ? g->seen[choice->parent].listed : -1,
                .start_unix_ns = use->start_unix_ns,
                .first_t_ns = seen->first_t_ns,
                .end_t_ns = seen->end_t_ns,
                .cpu_s = use->cpu_s,
                .rss_max = use->rss,
        };
        seen->listed = (int) timeline->n_processes++;
        choice->is_listed = true;
        return fill_spark(g, seen, p);
}

/* A chosen parent that is not yet listed. */
static bool waits(const struct choice *choices, unsigned n, int64_t parent)
{
        for (unsigned i = 0; parent >= 0 && i < n; i++)
                if (!choices[i].is_listed && (int64_t) choices[i].number == parent)
                        return true;
        return false;
}

/* Parents before their children, the busiest first. A parent that was not chosen, for want of room, does not count. */
static int list_all(struct infp_timeline *timeline, struct gathering *g, struct choice *choices, unsigned n)
{
        timeline->processes = calloc(n + 1, sizeof(*timeline->processes));
        if (!timeline->processes)
                return -ENOMEM;
        while (timeline->n_processes < n) {
                const unsigned before = timeline->n_processes;
                struct choice *waiting = NULL;

                for (unsigned i = 0; i < n; i++) {
                        if (choices[i].is_listed)
                                continue;
                        if (waits(choices, n, choices[i].parent))
                                waiting = &choices[i];
                        else
                                INFP_TRY(list(timeline, g, &choices[i]));
                }
                /* After a pid was reused two processes can name each other as parent: then one has no parent. */
                if (timeline->n_processes == before && waiting)
                        waiting->parent = -1;
        }
        return 0;
}

static int set_text(char **ret, const struct infp_batch *batch, int column, uint32_t row)
{
        bool failed = false;
        char *text = infp_timeline_text(batch, column, row, &failed);

        if (!text)
                return failed ? -ENOMEM : 0;
        free(*ret);
        *ret = text;
        return 0;
}

static const char *const name_columns[] = { "id", "pName", "pCmdline", NULL };

static int take_name(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_timeline *timeline = context;

        for (unsigned i = 0; at[0] >= 0 && i < timeline->n_processes; i++) {
                struct infp_timeline_process *p = &timeline->processes[i];

                if (infp_batch_u64(batch, (unsigned) at[0], row) != p->id)
                        continue;
                INFP_TRY(set_text(&p->name, batch, at[1], row));
                INFP_TRY(set_text(&p->cmdline, batch, at[2], row));
                if (p->cmdline && strlen(p->cmdline) > COMMAND_BYTES)
                        strcpy(p->cmdline + COMMAND_BYTES - 4, " ...");
        }
        return 0;
}

int infp_timeline_processes(struct infp_timeline_reading *reading, struct infp_err *err)
{
        struct infp_timeline *timeline = reading->timeline;
        const struct infp_report_processes_options options = infp_uses_options(reading->report, reading->scan);
        infp_cleanup(gathering_done) struct gathering g = { .spark = &timeline->spark,
                                                            .period_ns = timeline->period_ms * INFP_NS_PER_MS };
        struct choice choices[MOST_LISTED];
        unsigned n;

        INFP_TRY(infp_uses_read(reading->run, &options, columns, take_row, &g, &g.uses, &reading->table, err));
        if (!g.uses.n)
                return 0;
        reading->table = "process";
        INFP_TRY(infp_uses_scan_processes(reading->run, &options, pid_columns, take_pid, &g, err));
        n = choose(&g, choices);
        INFP_TRY(list_all(timeline, &g, choices, n));
        timeline->processes_left_out = g.uses.n - n;
        return infp_uses_scan_processes(reading->run, &options, name_columns, take_name, timeline, err);
}
