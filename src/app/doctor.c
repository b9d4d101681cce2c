#include "app/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "app/one_shot.h"
#include "app/preload.h"
#include "app/python_start.h"
#include "base/debug.h"
#include "base/fd.h"
#include "base/human.h"
#include "base/mem.h"
#include "base/number.h"
#include "collect/cgroup.h"
#include "collect/run_one.h"
#include "collectors/container/table.h"
#include "collectors/engine/engine.h"
#include "collectors/engine/tables.h"
#include "collectors/gpu/table.h"
#include "fetch/http.h"
#include "model/tables.h"
#include "query/duck.h"
#include "sampler/perf/front.h"
#include "sampler/python/bpf.h"
#include "sampler/sampler.h"
#include "store/live.h"
#include "store/run.h"
#include "symbols/symbols.h"

void infp_findings_done(struct infp_findings *findings)
{
        for (size_t i = 0; i < findings->n; i++) {
                free(findings->list[i].group);
                free(findings->list[i].name);
                free(findings->list[i].text);
                free(findings->list[i].fix);
        }
        free(findings->list);
        *findings = (struct infp_findings){ 0 };
}

static char *copy(const char *text, bool *failed)
{
        char *ret = text && *text ? strdup(text) : NULL;

        *failed |= text && *text && !ret;
        return ret;
}

void infp_findings_add(struct infp_findings *findings, const char *group, const char *name, const char *state,
                       bool essential, const char *text, const char *fix)
{
        if (!INFP_MAKE_ROOM(findings->list, findings->n, findings->cap, 32)) {
                findings->failed = true;
                return;
        }
        findings->list[findings->n++] = (struct infp_finding){
                .group = copy(group, &findings->failed),
                .name = copy(name, &findings->failed),
                .state = state,
                .text = copy(text, &findings->failed),
                .fix = copy(fix, &findings->failed),
                .essential = essential,
        };
}

/* Findings beyond files: engines that answer, GPUs, our control group. */
static void put_text(struct infp_str *out, const char *before, const struct infp_batch *batch, unsigned cell,
                     uint32_t row)
{
        size_t size;
        const char *text = infp_batch_str(batch, INFP_FIXED_COLUMNS + cell, row, &size);

        if (!size)
                return;
        infp_str_puts(out, before);
        infp_str_put(out, text, size);
}

/* "http://127.0.0.1:8000/metrics: vllm 0.32.0, model x". */
static void put_engine(struct infp_str *out, const struct infp_last *last, uint64_t id)
{
        struct infp_batch engine;

        if (!last->entity(last->context, infp_table_engines.name, id, &engine))
                return;
        put_text(out, "", &engine, INFP_ENGINES_URL, 0);
        put_text(out, ": ", &engine, INFP_ENGINES_MAKE, 0);
        put_text(out, " ", &engine, INFP_ENGINES_VERSION, 0);
        put_text(out, ", model ", &engine, INFP_ENGINES_MODEL, 0);
}

static void add_engine(struct infp_findings *findings, const struct infp_last *last, const struct infp_batch *scrapes,
                       uint32_t row, unsigned number)
{
        infp_autostr struct infp_str text = { 0 }, name = { 0 };
        const bool ok = infp_batch_bool(scrapes, INFP_FIXED_COLUMNS + INFP_SCRAPES_OK, row);

        infp_str_printf(&name, "engine %u", number);
        put_engine(&text, last, infp_batch_u64(scrapes, INFP_FIXED_COLUMNS + INFP_SCRAPES_ENGINE, row));
        if (ok) {
                infp_str_puts(&text, "; ");
                infp_human_bytes(&text, (double) infp_batch_i64(scrapes, INFP_FIXED_COLUMNS + INFP_SCRAPES_BYTES, row));
                infp_str_printf(
                        &text, ", %lld series in %s ms",
                        (long long) infp_batch_i64(scrapes, INFP_FIXED_COLUMNS + INFP_SCRAPES_SERIES_COUNT, row),
                        infp_fixed(infp_batch_f64(scrapes, INFP_FIXED_COLUMNS + INFP_SCRAPES_MS, row), 1).text);
        }
        if (!ok) { /* the reason includes the address */
                infp_str_clear(&text);
                put_text(&text, "", scrapes, INFP_SCRAPES_REASON, row);
        }
        infp_findings_add(findings, "engines", name.data, ok ? "ok" : "absent", false, text.data, NULL);
}

static void find_engines(struct infp_findings *findings, const struct infp_one_shot *shot)
{
        const struct infp_last *last = &shot->last;
        struct infp_batch batch;
        unsigned n = 0;

        for (uint32_t from = 0; last->rows(last->context, &infp_table_engine_scrapes, from, &batch);
             from += batch.n_rows)
                for (uint32_t row = 0; row < batch.n_rows; row++)
                        add_engine(findings, last, &batch, row, n++);
}

/* "NVIDIA H100 80GB HBM3, 79.65 GiB, at 0000:18:00.0". A lost GPU has an empty row and is reported above. */
static void add_gpu(struct infp_findings *findings, const struct infp_table *table, const struct infp_batch *gpus,
                    uint32_t row)
{
        infp_autostr struct infp_str text = { 0 }, name = { 0 };
        const unsigned memory = INFP_FIXED_COLUMNS + GPU_MEMORY_TOTAL_BYTES;
        bool has_any = infp_batch_has(gpus, memory, row);

        for (unsigned cell = GPU_UTILIZATION_GPU; cell <= GPU_CLOCK_VIDEO; cell++)
                has_any |= infp_batch_has(gpus, INFP_FIXED_COLUMNS + cell, row);
        if (!has_any)
                return;
        infp_str_printf(&name, "%s%lld", table->name,
                        (long long) infp_batch_i64(gpus, INFP_FIXED_COLUMNS + GPU_INDEX, row));
        put_text(&text, "", gpus, GPU_NAME, row);
        if (infp_batch_has(gpus, memory, row)) {
                infp_str_puts(&text, text.size ? ", " : "");
                infp_human_bytes(&text, (double) infp_batch_i64(gpus, memory, row));
        }
        put_text(&text, text.size ? ", at " : "at ", gpus, GPU_PCI_BUS_ID, row);
        infp_findings_add(findings, "gpus", name.data, "ok", false, text.data, NULL);
}

static void find_gpus(struct infp_findings *findings, const struct infp_one_shot *shot)
{
        static const struct infp_table *const tables[] = { &infp_table_nvidia, &infp_table_amdgpu, &infp_table_intel };
        const struct infp_last *last = &shot->last;
        struct infp_batch batch;

        for (size_t i = 0; i < INFP_COUNT(tables); i++)
                for (uint32_t from = 0; last->rows(last->context, tables[i], from, &batch); from += batch.n_rows)
                        for (uint32_t row = 0; row < batch.n_rows; row++)
                                add_gpu(findings, tables[i], &batch, row);
}

/* A group for the command can be made only in a directory that we may write. */
static void add_delegation(struct infp_findings *findings, const struct infp_env *env,
                           const struct infp_cgroup_place *place)
{
        infp_autostr struct infp_str text = { 0 };
        const bool can = !faccessat(env->root_fd, place->path, W_OK | X_OK, AT_EACCESS);

        infp_str_printf(&text, "/%s %s", place->path,
                        can ? "is writable: record --own-cgroup can run the command in its own group"
                            : "is not writable: record --own-cgroup does not work here");
        infp_findings_add(findings, "cgroups", "delegation", can ? "ok" : "info", false, text.data,
                          can ? NULL : "systemd-run --user --scope -p Delegate=yes infprof record --own-cgroup ...");
}

/* Our container, if the collector found one. */
static void put_container(struct infp_str *out, const struct infp_last *last)
{
        struct infp_batch batch, who;

        if (!last->rows(last->context, &infp_table_containers, 0, &batch) ||
            !last->entity(last->context, infp_table_container.name, infp_batch_u64(&batch, INFP_FIXED_COLUMNS, 0),
                          &who))
                return;
        put_text(out, ", container ", &who, WHO_CID, 0);
        put_text(out, " of ", &who, WHO_RUNTIME, 0);
}

static void find_cgroups(struct infp_findings *findings, const struct infp_one_shot *shot)
{
        infp_autofree struct infp_cgroups *cgroups = calloc(1, sizeof(*cgroups));
        infp_autofree struct infp_cgroup_paths *paths = calloc(1, sizeof(*paths));
        infp_autostr struct infp_str text = { 0 };
        struct infp_cgroup_place place;
        const char *mode;

        if (!cgroups || !paths) {
                findings->failed = true;
                return;
        }
        /* --root has no group of ours. */
        if (!shot->env.is_live || infp_cgroup_paths_read(&shot->env, 0, paths) < 0)
                return;
        mode = infp_cgroup_mode(paths);
        if (infp_cgroups_find(&shot->env, cgroups) < 0 ||
            !infp_cgroup_place(cgroups, paths, INFP_CG_CPU, true, &place)) {
                infp_str_printf(&text, "%s, but its files are not mounted here", mode ? mode : "unknown version");
                infp_findings_add(findings, "cgroups", "version", "absent", false, text.data,
                                  "mount cgroupfs in this container: docker run -v /sys/fs/cgroup:/sys/fs/cgroup:ro");
                return;
        }
        infp_str_printf(&text, "%s; infprof is in /%s", mode ? mode : "unknown version", place.path);
        put_container(&text, &shot->last);
        infp_findings_add(findings, "cgroups", "version", "ok", false, text.data, NULL);
        add_delegation(findings, &shot->env, &place);
}

/* A text of a row of `sources`, to free. */
static char *word(const struct infp_batch *batch, unsigned cell, uint32_t row)
{
        size_t size;
        const char *text = infp_batch_str(batch, INFP_FIXED_COLUMNS + cell, row, &size);

        return strndup(text, size);
}

/* The names of states are constants, so that findings can point to them. */
static const char *state_of(const char *text)
{
        for (int state = INFP_OK; state <= INFP_LATE; state++)
                if (!strcmp(infp_source_state_name((enum infp_source_state) state), text))
                        return infp_source_state_name((enum infp_source_state) state);
        return "broken";
}

struct source_row {
        char *collector, *instance, *table, *column, *state, *reason, *fix;
};

static void source_row_done(struct source_row *row)
{
        free(row->collector);
        free(row->instance);
        free(row->table);
        free(row->column);
        free(row->state);
        free(row->reason);
        free(row->fix);
}

static bool is_whole(const char *name)
{
        return !*name || !strcmp(name, "*");
}

/* Row number `row` of the collector's; 0 after the last. */
static bool read_row(const struct infp_batch *batch, uint32_t row, struct source_row *ret)
{
        *ret = (struct source_row){
                .collector = word(batch, INFP_SOURCES_COLLECTOR, row),
                .instance = word(batch, INFP_SOURCES_INSTANCE, row),
                .table = word(batch, INFP_SOURCES_TABLE, row),
                .column = word(batch, INFP_SOURCES_COLUMN, row),
                .state = word(batch, INFP_SOURCES_STATE, row),
                .reason = word(batch, INFP_SOURCES_REASON, row),
                .fix = word(batch, INFP_SOURCES_FIX, row),
        };
        if (ret->collector && ret->instance && ret->table && ret->column && ret->state && ret->reason && ret->fix)
                return true;
        source_row_done(ret);
        return false;
}

/* "package-0", "vTime of sda", "mem_numa". */
static void add_part(struct infp_findings *findings, const char *collector, const struct source_row *s)
{
        infp_autostr struct infp_str name = { 0 };

        if (!is_whole(s->column))
                infp_str_puts(&name, s->column);
        if (*s->instance)
                infp_str_printf(&name, "%s%s", name.size ? " of " : "", s->instance);
        if (!name.size)
                infp_str_puts(&name, s->table);
        infp_findings_add(findings, collector, name.data, state_of(s->state), false, s->reason, s->fix);
}

/* First the collector as a whole, then what it lacks: the view merges equal reasons. */
static void add_collector(struct infp_findings *findings, const struct infp_one_shot *shot,
                          const struct infp_collector *collector, bool whole)
{
        const bool essential = !strcmp(collector->name, "cpu") || !strcmp(collector->name, "mem") ||
                               !strcmp(collector->name, "processes");
        bool found = false;
        struct infp_batch batch;

        for (uint32_t from = 0; shot->last.rows(shot->last.context, &infp_table_sources, from, &batch);
             from += batch.n_rows)
                for (uint32_t row = 0; row < batch.n_rows; row++) {
                        struct source_row s;

                        if (!read_row(&batch, row, &s)) {
                                findings->failed = true;
                                return;
                        }
                        const bool is_own = !strcmp(s.collector, collector->name);
                        const bool is_all = is_whole(s.table) && is_whole(s.column) && !*s.instance;

                        if (is_own && is_all && whole) {
                                found = true;
                                infp_findings_add(findings, "sources", collector->name, state_of(s.state), essential,
                                                  *s.reason ? s.reason : collector->help, s.fix);
                        } else if (is_own && !is_all && !whole && strcmp(s.state, "ok")) {
                                add_part(findings, collector->name, &s);
                        }
                        source_row_done(&s);
                }
        if (whole && !found)
                infp_findings_add(findings, "sources", collector->name, "ok", essential, collector->help, NULL);
}

int infp_doctor_sources(struct infp_findings *findings, const char *root, const struct infp_setting *settings,
                        struct infp_err *err)
{
        struct infp_one_shot shot;

        INFP_TRY(infp_one_shot_take(root, settings, true, &shot, err));
        for (const struct infp_collector *const *c = infp_collectors; *c; c++) {
                if (!infp_collector_enabled(*c, &shot.env)) {
                        infp_findings_add(findings, "sources", (*c)->name, "off", false, (*c)->help, NULL);
                        continue;
                }
                add_collector(findings, &shot, *c, true);
                add_collector(findings, &shot, *c, false);
        }
        find_engines(findings, &shot);
        find_gpus(findings, &shot);
        find_cgroups(findings, &shot);
        infp_one_shot_done(&shot);
        return 0;
}

/* One word of a file below root; "" when it cannot be read. */
static void read_word(int root_fd, const char *path, char *ret, size_t cap)
{
        const ssize_t n = infp_read_at(root_fd, path, ret, cap);

        ret[n > 0 ? strcspn(ret, "\n") : 0] = 0;
}

static void check_delays(struct infp_findings *findings, int root_fd)
{
        char text[32];

        read_word(root_fd, "proc/sys/kernel/task_delayacct", text, sizeof(text));
        if (!strcmp(text, "1"))
                infp_findings_add(findings, "kernel", "delay accounting", "ok", false, "pBlockIODelays is counted",
                                  NULL);
        else
                infp_findings_add(findings, "kernel", "delay accounting", "info", false,
                                  *text ? "off: pBlockIODelays is absent"
                                        : "the kernel does not say: pBlockIODelays is absent",
                                  *text ? "sysctl kernel.task_delayacct=1" : NULL);
}

static void check_perf(struct infp_findings *findings, int root_fd)
{
        char text[32];
        infp_autostr struct infp_str say = { 0 };

        read_word(root_fd, "proc/sys/kernel/perf_event_paranoid", text, sizeof(text));
        infp_str_printf(&say,
                        *text ? "perf_event_paranoid is %s" : "perf_event_paranoid cannot be read: no perf events here",
                        text);
        infp_findings_add(findings, "kernel", "perf events", "info", false, say.data, NULL);
}

/* hpet and acpi_pm take a microsecond per reading, and every row is stamped. */
static void check_clock(struct infp_findings *findings, int root_fd)
{
        char text[64];

        read_word(root_fd, "sys/devices/system/clocksource/clocksource0/current_clocksource", text, sizeof(text));
        if (!*text)
                infp_findings_add(findings, "kernel", "clock source", "info", false, "the kernel does not say", NULL);
        else if (!strcmp(text, "hpet") || !strcmp(text, "acpi_pm") || !strcmp(text, "refined-jiffies") ||
                 !strcmp(text, "jiffies"))
                infp_findings_add(findings, "kernel", "clock source", "info", false, text,
                                  "a slow clock: boot with clocksource=tsc if the machine's TSC is stable");
        else
                infp_findings_add(findings, "kernel", "clock source", "ok", false, text, NULL);
}

void infp_doctor_kernel(struct infp_findings *findings, const char *root)
{
        infp_autoclose int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0)
                return;
        check_clock(findings, fd);
        check_delays(findings, fd);
        check_perf(findings, fd);
}

/* The directory, or the one in which it would be made. */
static void check_output(struct infp_findings *findings)
{
        const char *path = INFP_DEFAULT_OUTPUT, *where = access(path, F_OK) ? "." : path;
        infp_autostr struct infp_str text = { 0 };
        struct statvfs fs;

        if (access(where, W_OK | X_OK)) {
                infp_str_printf(&text, "%s cannot be written: %s", where, strerror(errno));
                infp_findings_add(findings, "program", "output", errno == EACCES ? "denied" : "broken", true, text.data,
                                  "change to a directory that you can write, or name one with -o DIR");
                return;
        }
        infp_str_printf(&text, "%s can be written", path);
        if (!statvfs(where, &fs)) {
                infp_str_puts(&text, ", ");
                infp_human_bytes(&text, (double) fs.f_bavail * (double) fs.f_frsize);
                infp_str_puts(&text, " free");
        }
        infp_findings_add(findings, "program", "output", "ok", true, text.data, NULL);
}

static void check_live(struct infp_findings *findings)
{
        char path[512];
        struct infp_err err = { "" };

        if (infp_live_directory(path, sizeof(path), &err) < 0)
                infp_findings_add(
                        findings, "program", "live runs", "denied", false, err.text,
                        "set XDG_RUNTIME_DIR to your own directory; without it mark and live queries do not work");
        else
                infp_findings_add(findings, "program", "live runs", "ok", false, path, NULL);
}

/* The path of the loaded library, from the kernel's map of this process. */
static void find_library(const char *name, char *ret, size_t cap)
{
        infp_autoclose int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        infp_autofree char *maps = NULL;
        char *save = NULL;

        *ret = 0;
        if (infp_read_all_at(root, "proc/self/maps", 8 << 20, &maps) < 0)
                return;
        for (char *line = strtok_r(maps, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
                const char *path = strchr(line, '/');

                if (path && strstr(path, name)) {
                        snprintf(ret, cap, "%s", path);
                        return;
                }
        }
}

/* A library that infprof loads on demand, and has now tried to load. */
static void add_library(struct infp_findings *findings, const char *name, const char *file, bool is_there,
                        const char *why, const char *fix)
{
        char path[512] = "";

        if (is_there)
                find_library(file, path, sizeof(path));
        infp_findings_add(findings, "program", name, is_there ? "ok" : "absent", false,
                          !is_there ? why
                          : *path   ? path
                                    : "found",
                          is_there ? NULL : fix);
}

static void check_libraries(struct infp_findings *findings)
{
        struct infp_err err = { "" };

        add_library(findings, "DuckDB", "libduckdb", infp_duck_available(&err), err.text, NULL);
        add_library(findings, "libcurl", "libcurl", infp_http_available(&err) >= 0, err.text, NULL);
        add_library(findings, "libdw", "libdw", infp_symbols_have_lines(),
                    "libdw.so.1 is not here: names of code have no files, lines and inlined functions",
                    "apt-get install libdw1 (Debian)");
}

/* The package that record --python loads into programs. */
static void check_package(struct infp_findings *findings)
{
        infp_autostr struct infp_str text = { 0 };
        bool has_extension = false;
        struct infp_err err = { "" };
        char folder[PATH_MAX];

        if (infp_python_start_find(folder, sizeof(folder), &has_extension, &err) < 0) {
                infp_findings_add(findings, "program", "Python package", "absent", false, err.text, NULL);
                return;
        }
        infp_str_printf(
                &text,
                "%s/python: record --python and --torch load it into Python programs that are started without -I, "
                "-S and -E%s",
                folder, has_extension ? "" : "; it has no extension in C, so that a call takes ten times as long");
        infp_findings_add(findings, "program", "Python package", has_extension ? "ok" : "info", false, text.data,
                          has_extension ? NULL : "apt-get install python3-dev (Debian), and build infprof again");
}

static void check_descriptors(struct infp_findings *findings)
{
        infp_autostr struct infp_str text = { 0 };
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit))
                return;
        infp_str_printf(&text, "%llu descriptors (hard limit %llu)", (unsigned long long) limit.rlim_cur,
                        (unsigned long long) limit.rlim_max);
        infp_findings_add(findings, "program", "descriptors", limit.rlim_cur < 256 ? "info" : "ok", false, text.data,
                          limit.rlim_cur < 256
                                  ? "ulimit -n 1024: with fewer, files of processes are reopened at each sample"
                                  : NULL);
}

void infp_doctor_program(struct infp_findings *findings)
{
        check_output(findings);
        check_live(findings);
        check_libraries(findings);
        check_package(findings);
        check_descriptors(findings);
}

static void add_line(void *context, const char *line)
{
        const char *text = strstr(line, " ms ");
        char when[32];

        if (!text)
                return;
        snprintf(when, sizeof(when), "%.*s", (int) (text + 3 - line), line);
        infp_findings_add(context, "debug", when, "info", false, text + 4, NULL);
}

void infp_doctor_debug(struct infp_findings *findings)
{
        const unsigned long n_lost = infp_debug_each(add_line, findings);

        if (n_lost)
                infp_findings_add(findings, "debug", "before", "info", false, "older lines were overwritten", NULL);
}

/* Which stacks may be sampled, by opening the events of `record --cpu`. */
static void add_right(struct infp_findings *findings, const char *name, bool is_allowed, const char *text,
                      const char *fix)
{
        infp_findings_add(findings, "sampling", name, is_allowed ? "ok" : "denied", false, text, fix);
}

static void add_buffers(struct infp_findings *findings, const struct infp_perf *perf)
{
        const bool is_enough = infp_perf_stack_bytes(perf) == INFP_SAMPLER_MAX_STACK_BYTES;
        infp_autostr struct infp_str text = { 0 };

        infp_human_bytes(&text, infp_perf_ring_bytes(perf));
        infp_str_puts(&text, " may be locked for the buffer of each CPU");
        if (!is_enough) {
                infp_str_puts(&text, ": only ");
                infp_human_bytes(&text, infp_perf_stack_bytes(perf));
                infp_str_puts(&text, " of each stack can be copied");
        }
        add_right(findings, "buffers", is_enough, text.data, is_enough ? NULL : "ulimit -l 8192");
}

/* Which of them `record --cpu` takes here. */
static void add_way(struct infp_findings *findings, bool has_program)
{
        infp_findings_add(findings, "sampling", "Python way", "info", false,
                          has_program
                                  ? "the BPF program, for commands that are started and for running processes"
                                  : "commands that record --cpu starts: a sampler inside; running processes (record "
                                    "--cpu --pid, top): Python frames alone, read without a stop, as a profile of its "
                                    "own (mode python) beside native stacks; with --blocking both, while threads are "
                                    "stopped",
                          NULL);
}

static bool add_python(struct infp_findings *findings)
{
        enum { SOME_BYTES = 256 * 1024 };
        struct infp_err err = { "" };
        struct infp_bpf *bpf;
        const char *fix;

        if (infp_bpf_open(SOME_BYTES, SOME_BYTES, 0, &bpf, &fix, &err) < 0) {
                add_right(findings, "Python frames", false, err.text, fix);
                return false;
        }
        add_right(findings, "Python frames", true, "a BPF program may read them: record --cpu shows Python functions",
                  NULL);
        infp_bpf_free(bpf);
        return true;
}

/* What is done without that right, or without perf events. */
static void add_inside(struct infp_findings *findings)
{
        struct infp_err err = { "" };
        const bool is_there = infp_preload_find(&err) >= 0;

        add_right(findings, "Python inside", is_there,
                  is_there ? "without rights record --cpu loads a sampler into the Python programs that it starts; the "
                             "loader (ld.so) of a 32-bit program says on standard error that it ignores it"
                           : err.text,
                  NULL);
}

void infp_doctor_sampler(struct infp_findings *findings)
{
        const struct infp_perf_options options = {
                .hz = INFP_SAMPLER_DEFAULT_HZ,
                .stack_bytes = INFP_SAMPLER_MAX_STACK_BYTES,
        };
        static const char capability[] = "setcap cap_perfmon+ep infprof, or sysctl kernel.perf_event_paranoid=1";
        struct infp_perf_may may;
        struct infp_err err = { "" };
        struct infp_perf *perf;
        bool has_program;
        const char *fix;

        if (infp_perf_open(&options, &perf, &fix, &err) < 0) {
                add_right(findings, "CPU sampling", false, err.text, fix);
                add_inside(findings);
                add_way(findings, false);
                return;
        }
        may = infp_perf_may(perf);
        add_right(findings, "CPU sampling", true,
                  "perf_event_open is permitted: record --cpu samples stacks of this user's processes", NULL);
        add_right(findings, "kernel frames", may.kernel,
                  may.kernel
                          ? "kernel stacks and time in the kernel are sampled too"
                          : "kernel stacks are not permitted: kernel frames, and time in the kernel, are not sampled",
                  may.kernel ? NULL : capability);
        add_right(findings, "blocked time", may.switch_samples,
                  may.switch_samples ? "record --off-cpu has the stacks of threads that wait"
                                     : "record --off-cpu measures how long threads wait, but not their stacks",
                  may.switch_samples ? NULL : capability);
        add_right(
                findings, "whole machine", may.machine,
                may.machine
                        ? "record --cpu without a target samples all processes"
                        : "record --cpu needs a command, --pid, --name or --port: events of whole CPUs are not allowed",
                may.machine ? NULL : "setcap cap_perfmon+ep infprof, or sysctl kernel.perf_event_paranoid=0");
        add_buffers(findings, perf);
        infp_perf_free(perf);
        has_program = add_python(findings);
        add_inside(findings);
        add_way(findings, has_program);
}
