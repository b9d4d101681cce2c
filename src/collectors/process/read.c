#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/procfile.h"
#include "base/time.h"
#include "collectors/process/state.h"
#include "model/mask.h"

/* The values of one process: the target has read stat, the other files are read here. */

static void set(struct process_cells *cells, unsigned cell, int64_t v)
{
        cells->valid |= UINT64_C(1) << cell;
        cells->v[cell] = v;
}

static void set_u64(struct process_cells *cells, unsigned cell, uint64_t v)
{
        if (v <= INT64_MAX)
                set(cells, cell, (int64_t) v);
}

static void set_ticks(struct process_cells *cells, unsigned cell, const struct infp_env *env, uint64_t ticks)
{
        uint64_t cs;

        if (!__builtin_mul_overflow(ticks, 100, &cs))
                set_u64(cells, cell, cs / env->ticks_per_s);
}

static void set_pages(struct process_cells *cells, unsigned cell, const struct infp_env *env, uint64_t pages)
{
        uint64_t bytes;

        if (!__builtin_mul_overflow(pages, env->page_size, &bytes))
                set_u64(cells, cell, bytes);
}

/* A main thread that ended before the others shows no memory, though the process has all of it. */
static bool shows_memory(const struct infp_process *p)
{
        return (p->state != 'Z' && p->state != 'X') || p->n_threads <= 1;
}

static ssize_t read_memory(const struct infp_env *env, struct infp_process *p, const char *name, char *buffer,
                           size_t cap)
{
        int32_t thread = shows_memory(p) ? p->pid : infp_proc_thread(env->root_fd, "proc/", p->pid);
        char path[64];

        if (thread == p->pid)
                return shows_memory(p) ? infp_process_read(env->target, env, p, name, buffer, cap) : -ESRCH;
        snprintf(path, sizeof(path), "task/%d/%s", (int) thread, name);
        return infp_process_read(env->target, env, p, path, buffer, cap);
}

static void forget(struct process_cells *cells, unsigned first, unsigned last)
{
        for (unsigned i = first; i <= last; i++)
                cells->valid &= ~(UINT64_C(1) << i);
}

static void fill_counters(const struct processes *s, const struct infp_env *env, const struct infp_process *p,
                          struct process_cells *cells)
{
        set(cells, PROCESS_PARENT, p->ppid);
        set_ticks(cells, PROCESS_USER, env, p->utime);
        set_ticks(cells, PROCESS_KERNEL, env, p->stime);
        set_ticks(cells, PROCESS_CHILDREN_USER, env, (uint64_t) p->cutime);
        set_ticks(cells, PROCESS_CHILDREN_KERNEL, env, (uint64_t) p->cstime);
        set_u64(cells, PROCESS_MINOR_FAULTS, p->minor_faults);
        set_u64(cells, PROCESS_MAJOR_FAULTS, p->major_faults);
        set_u64(cells, PROCESS_CHILDREN_MINOR, p->child_minor_faults);
        set_u64(cells, PROCESS_CHILDREN_MAJOR, p->child_major_faults);
        set(cells, PROCESS_CPU, p->processor);
        if (s->has_delays)
                set_ticks(cells, PROCESS_BLOCK_DELAY, env, p->blkio_ticks);
}

static void fill_stat(const struct processes *s, const struct infp_env *env, const struct infp_process *p,
                      struct process_cells *cells)
{
        set(cells, PROCESS_STATE, (unsigned char) p->state);
        set(cells, PROCESS_THREADS, p->n_threads);
        fill_counters(s, env, p, cells);
}

/* Since Linux 6.2 the size in stat is a per-CPU counter's rough value, off by megabytes on large machines; statm has the sum. */
static void fill_sizes(const struct infp_env *env, struct infp_process *p, struct process_cells *cells)
{
        char text[256];
        ssize_t n = read_memory(env, p, "statm", text, sizeof(text));
        struct infp_span line = { text, n > 0 ? (size_t) n : 0 };
        const struct infp_span size = infp_span_word(&line), rss = infp_span_word(&line);
        uint64_t pages;

        forget(cells, PROCESS_VMS, PROCESS_RSS);
        if (shows_memory(p))
                set_u64(cells, PROCESS_VMS, p->vsize_bytes);
        else if (size.size && infp_span_u64(size, &pages) == 0)
                set_pages(cells, PROCESS_VMS, env, pages);
        if (rss.size && infp_span_u64(rss, &pages) == 0)
                set_pages(cells, PROCESS_RSS, env, pages);
        else if (!rss.size && shows_memory(p))
                set_pages(cells, PROCESS_RSS, env, p->rss_pages);
}

/* Moves what the fields found from the row to the cells; the rest is absent. */
static void take_fields(struct processes *s, const struct infp_fields *fields, struct process_cells *cells)
{
        for (unsigned i = 0; i < fields->n; i++) {
                unsigned cell = fields->field[i].cell;

                cells->valid &= ~(UINT64_C(1) << cell);
                if (infp_row_has(&s->row, cell))
                        set(cells, cell, s->row.cell[cell].i64);
        }
}

static void parse_uid(struct process_user *u, struct infp_span line)
{
        int64_t uid;

        infp_span_word(&line);
        infp_span_word(&line); /* the real one */
        if (infp_span_i64(infp_span_word(&line), &uid) < 0)
                return;
        u->has_changed = u->has_changed || !u->has_uid || u->uid != uid;
        u->uid = uid;
        u->has_uid = true;
}

/* Restores what the main thread's status no longer has; counts in another thread's are its own. */
static void fill_status_memory(struct processes *s, const struct infp_env *env, struct infp_process *p,
                               struct process_cells *cells)
{
        ssize_t n = read_memory(env, p, "status", s->text, sizeof(s->text));
        struct infp_span text = { s->text, n > 0 ? (size_t) n : 0 }, line;

        infp_row_begin(&s->row, &infp_table_processes, p->t_ns);
        while (infp_span_line(&text, &line))
                infp_fields_named(&s->status_fields, &s->row, line);
        for (unsigned cell = PROCESS_RSS_ANON; cell <= PROCESS_SWAP; cell++)
                if (infp_row_has(&s->row, cell))
                        set(cells, cell, s->row.cell[cell].i64);
}

static void fill_status(struct processes *s, const struct infp_env *env, struct infp_process *p, struct process_user *u,
                        struct process_cells *cells)
{
        ssize_t n = infp_process_read(env->target, env, p, "status", s->text, sizeof(s->text));
        struct infp_span text = { s->text, n > 0 ? (size_t) n : 0 }, line;

        if (n < 0) {
                if (!s->is_live)
                        u->status = ACCESS_MISSING;
                return; /* else it has just ended: the known values stay */
        }
        infp_row_begin(&s->row, &infp_table_processes, p->t_ns);
        while (infp_span_line(&text, &line)) {
                if (infp_span_starts(line, "Uid:"))
                        parse_uid(u, line);
                else
                        infp_fields_named(&s->status_fields, &s->row, line);
        }
        take_fields(s, &s->status_fields, cells);
        if (!shows_memory(p))
                fill_status_memory(s, env, p, cells);
        u->status = ACCESS_OK;
}

static enum process_access access_of(const struct processes *s, ssize_t r, enum process_access before)
{
        if (r == -EACCES || r == -EPERM)
                return ACCESS_DENIED;
        /* The machine has such files, so the process has just ended, or the error is temporary. */
        return s->has_io_files ? before : ACCESS_MISSING;
}

static void fill_io(struct processes *s, const struct infp_env *env, struct infp_process *p, struct process_user *u,
                    struct process_cells *cells)
{
        const enum process_access before = u->io;
        ssize_t n = infp_process_read(env->target, env, p, "io", s->text, sizeof(s->text));
        struct infp_span text = { s->text, n > 0 ? (size_t) n : 0 }, line;

        if (n < 0) {
                u->io = access_of(s, n, u->io);
                /* Root owns the files of an ended process: that says nothing about its lifetime. */
                if (u->io == ACCESS_DENIED && before != ACCESS_DENIED && (p->last || p->state == 'Z'))
                        u->io = ACCESS_UNSEEN;
                return;
        }
        infp_row_begin(&s->row, &infp_table_processes, p->t_ns);
        while (infp_span_line(&text, &line))
                infp_fields_named(&s->io_fields, &s->row, line);
        take_fields(s, &s->io_fields, cells);
        u->io = ACCESS_OK;
}

static void fill_pss(struct processes *s, const struct infp_env *env, struct infp_process *p, struct process_user *u,
                     struct process_cells *cells)
{
        ssize_t n = read_memory(env, p, "smaps_rollup", s->text, sizeof(s->text));
        struct infp_span text = { s->text, n > 0 ? (size_t) n : 0 }, line;
        uint64_t kib;

        if (n < 0) {
                u->pss = n == -EACCES || n == -EPERM ? ACCESS_DENIED : u->pss;
                return;
        }
        u->pss = ACCESS_OK;
        while (infp_span_line(&text, &line)) {
                if (!infp_span_starts(line, "Pss:"))
                        continue;
                infp_span_word(&line);
                if (!infp_span_u64(infp_span_word(&line), &kib) && kib <= INT64_MAX / 1024)
                        set(cells, PROCESS_PSS, (int64_t) kib * 1024);
                return;
        }
}

/* Of the target alone: of a whole machine it would be thousands of files at each tick. */
static void fill_run_delay(struct processes *s, const struct infp_env *env, const struct infp_process *p,
                           struct process_user *u, struct process_cells *cells)
{
        int64_t ns;

        if (!p->in_tree || infp_target_mode(env->target) == INFP_MODE_HOST ||
            process_delay_read(&s->delays, env->root_fd, p->pid, p->n_threads, &u->delay, &ns) < 0)
                return; /* it has just ended, say: the known value stays */
        s->counts_delays = true;
        set(cells, PROCESS_RUN_DELAY, ns);
}

void process_read(struct processes *s, const struct infp_env *env, struct infp_process *p, struct process_user *u,
                  bool details, struct process_cells *ret)
{
        *ret = u->cells;
        set(ret, PROCESS_IN_TREE, p->in_tree);
        if (details) {
                if (!s->has_delays)
                        ret->valid &= ~(UINT64_C(1) << PROCESS_BLOCK_DELAY);
                fill_stat(s, env, p, ret);
                fill_sizes(env, p, ret);
                fill_status(s, env, p, u, ret);
                fill_io(s, env, p, u, ret);
                if (s->wants_pss)
                        fill_pss(s, env, p, u, ret);
        }
        fill_run_delay(s, env, p, u, ret);
        if (p->cpu_ns >= 0)
                set(ret, PROCESS_CPU_NS, p->cpu_ns);
}

void process_read_last(struct processes *s, const struct infp_env *env, struct infp_process *p, struct process_user *u)
{
        const struct process_cells before = u->cells;
        struct process_cells *c = &u->cells;

        set(c, PROCESS_IN_TREE, p->in_tree);
        fill_status(s, env, p, u, c);
        for (unsigned i = PROCESS_VMS; i <= PROCESS_SWAP; i++) { /* an ended one has none of it */
                c->v[i] = before.v[i];
                c->valid = (c->valid & ~(UINT64_C(1) << i)) | (before.valid & UINT64_C(1) << i);
        }
        fill_counters(s, env, p, c);
        fill_io(s, env, p, u, c);
        if (p->cpu_ns >= 0)
                set(c, PROCESS_CPU_NS, p->cpu_ns);
        /* The kernel's peak includes what it waited for: its own where it waited for no process. */
        if (!p->child_minor_faults && (int64_t) p->last->rss_peak_bytes > c->v[PROCESS_RSS_PEAK])
                set(c, PROCESS_RSS_PEAK, (int64_t) p->last->rss_peak_bytes);
        process_share_update(env, p, u, c);
}

static int64_t plus(uint64_t a, uint64_t b)
{
        return (int64_t) (a + b);
}

/* 0 beyond 292 years of one core: not a valid time */
static int64_t ticks_to_ns(const struct infp_env *env, uint64_t ticks)
{
        int64_t ns;

        return __builtin_mul_overflow(ticks, INFP_NS_PER_S / env->ticks_per_s, &ns) ? 0 : ns;
}

void process_share_update(const struct infp_env *env, const struct infp_process *p, struct process_user *u,
                          const struct process_cells *c)
{
        int64_t own = ticks_to_ns(env, p->utime + p->stime), *v = u->share.v;

        if (p->cpu_ns > own)
                own = p->cpu_ns;
        v[COUNTER_USER] = plus(p->utime, (uint64_t) p->cutime);
        v[COUNTER_SYSTEM] = plus(p->stime, (uint64_t) p->cstime);
        v[COUNTER_CPU_NS] =
                plus((uint64_t) own, (uint64_t) ticks_to_ns(env, (uint64_t) p->cutime + (uint64_t) p->cstime));
        v[COUNTER_MINOR_FAULTS] = plus(p->minor_faults, p->child_minor_faults);
        v[COUNTER_MAJOR_FAULTS] = plus(p->major_faults, p->child_major_faults);
        v[COUNTER_READ_CHARS] = c->v[PROCESS_READ_CHARS]; /* 0 where there is none */
        v[COUNTER_WRITE_CHARS] = c->v[PROCESS_WRITE_CHARS];
        v[COUNTER_READ_BYTES] = c->v[PROCESS_READ_BYTES];
        v[COUNTER_WRITE_BYTES] = c->v[PROCESS_WRITE_BYTES];
        v[COUNTER_VOLUNTARY] = c->v[PROCESS_VOLUNTARY];
        v[COUNTER_INVOLUNTARY] = c->v[PROCESS_NONVOLUNTARY];
        v[COUNTER_RUN_DELAY] = c->v[PROCESS_RUN_DELAY];
}

/* The entity of a process: who it is. */

enum { CHECKS_AFTER_EXEC = 2, CHECKS_WITHOUT_IMAGE = 3 };

/* The command line, masked, in s->masked; 0 bytes: none (kernel threads, zombies, the middle of an exec). */
static size_t read_cmdline(struct processes *s, const struct infp_env *env, struct infp_process *p)
{
        ssize_t n = read_memory(env, p, "cmdline", s->cmdline, sizeof(s->cmdline));

        return n > 0 ? infp_mask_cmdline(s->cmdline, (size_t) n, s->keeps_secrets, s->masked, sizeof(s->masked)) : 0;
}

static void find_start(struct processes *s, const struct infp_env *env, const struct infp_process *p,
                       struct process_user *u)
{
        uint64_t since_boot = p->start_ticks / env->ticks_per_s * INFP_NS_PER_S +
                              p->start_ticks % env->ticks_per_s * (INFP_NS_PER_S / env->ticks_per_s);
        int64_t boot = s->boot_unix_ns;

        if (s->is_live) /* btime has whole seconds only */
                boot = (int64_t) (infp_clock_ns(CLOCK_REALTIME) - infp_clock_ns(CLOCK_BOOTTIME));
        u->has_start = (s->is_live || s->has_boot) && p->start_ticks / env->ticks_per_s < INT32_MAX &&
                       !__builtin_add_overflow(boot, since_boot, &u->start_unix_ns);
}

static void emit_entity(struct infp_emit *emit, const struct infp_process *p, const struct process_user *u)
{
        struct infp_row *row = infp_emit_begin(emit, &infp_table_process, p->t_ns);

        infp_row_id(row, ENTITY_ID, p->id);
        infp_row_i64(row, ENTITY_PID, p->pid);
        infp_row_i64(row, ENTITY_PARENT, u->first_parent);
        infp_row_bytes(row, ENTITY_NAME, u->name, u->name_size);
        if (u->cmdline_size)
                infp_row_bytes(row, ENTITY_CMDLINE, u->cmdline, u->cmdline_size);
        if (u->has_start)
                infp_row_ts(row, ENTITY_START, u->start_unix_ns);
        if (u->has_uid)
                infp_row_i64(row, ENTITY_UID, u->uid);
        infp_emit_commit(emit);
}

static int set_cmdline(struct infp_process *p, const char *text, size_t size)
{
        struct process_user *u = realloc(p->user, sizeof(*u) + size);

        if (!u)
                return -ENOMEM;
        memcpy(u->cmdline, text, size);
        u->cmdline_size = (uint32_t) size;
        p->user = u;
        return 0;
}

int process_first_sight(struct processes *s, const struct infp_env *env, struct infp_process *p)
{
        struct process_user *u = calloc(1, sizeof(*u));

        if (!u)
                return -ENOMEM;
        p->user = u;
        u->first_parent = p->ppid;
        u->n_checks = CHECKS_WITHOUT_IMAGE;
        u->has_changed = true;
        find_start(s, env, p, u);
        return 0;
}

static void compare_name(const struct infp_process *p, struct process_user *u)
{
        if (p->comm_size == u->name_size && !memcmp(p->comm, u->name, p->comm_size))
                return;
        memcpy(u->name, p->comm, p->comm_size);
        u->name_size = p->comm_size;
        u->n_checks = CHECKS_AFTER_EXEC;
        u->has_changed = true;
}

/* An empty one is no change: an ending process has none any more. The last look's is that of the first exec: for what came and
 * went between two samples. */
static int compare_cmdline(struct processes *s, const struct infp_env *env, struct infp_process *p)
{
        struct process_user *u = p->user;
        size_t size = p->last && u->cmdline_size ? 0 : read_cmdline(s, env, p);

        if (!size || (size == u->cmdline_size && !memcmp(s->masked, u->cmdline, size)))
                return 0;
        INFP_TRY(set_cmdline(p, s->masked, size));
        u = p->user;
        u->has_changed = true;
        return 0;
}

int process_entity(struct processes *s, const struct infp_env *env, struct infp_emit *emit, struct infp_process *p,
                   bool is_due)
{
        struct process_user *u = p->user;

        compare_name(p, u);
        if (p->image != u->image)
                u->n_checks = CHECKS_AFTER_EXEC;
        u->image = p->image;
        if (u->n_checks || is_due) {
                u->n_checks -= u->n_checks > 0;
                INFP_TRY(compare_cmdline(s, env, p));
                u = p->user;
        }
        if (u->has_changed)
                emit_entity(emit, p, u);
        u->has_changed = false;
        return 0;
}
