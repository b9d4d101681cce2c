#include "app/doctor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "app/one_shot.h"
#include "base/debug.h"
#include "base/fd.h"
#include "base/human.h"
#include "base/mem.h"
#include "base/number.h"
#include "collect/run_one.h"
#include "fetch/http.h"
#include "model/tables.h"
#include "query/duck.h"
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
        if (findings->n == findings->cap) {
                const size_t cap = findings->cap ? 2 * findings->cap : 32;
                struct infp_finding *more = reallocarray(findings->list, cap, sizeof(*more));

                if (!more) {
                        findings->failed = true;
                        return;
                }
                findings->list = more;
                findings->cap = cap;
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

/* A word of a row of `sources`; free it. */
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

/* The row number `row` of those that belong to the collector; 0 after the last. */
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

/* First the collector as a whole, then what it lacks: the view puts those with the same reason together. */
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
        infp_doctor_engines(findings, &shot);
        infp_doctor_gpus(findings, &shot);
        infp_doctor_cgroups(findings, &shot);
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

/* hpet and acpi_pm take a microsecond a reading, and every row is stamped. */
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

/* Where the library was loaded from: the loader shows only the kernel. */
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

/* A library that infprof loads when a verb needs it, and now has loaded if it is there. */
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
