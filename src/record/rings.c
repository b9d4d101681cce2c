#include "record/rings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/time.h"
#include "model/tables.h"
#include "record/processes.h"
#include "record/rings_parts.h"

/* Losses and their reasons go to table `sources`, their counts to table `self`. */
static void put_source(struct infp_rings *rings, const char *instance, const char *table, enum infp_source_state state,
                       const char *reason, const char *fix)
{
        struct infp_row *row = &rings->row;

        infp_row_begin(row, &infp_table_sources, rings->now_ns);
        infp_row_str(row, INFP_SOURCES_COLLECTOR, "rings");
        infp_row_str(row, INFP_SOURCES_INSTANCE, instance);
        infp_row_str(row, INFP_SOURCES_TABLE, table);
        infp_row_str(row, INFP_SOURCES_COLUMN, "*");
        infp_row_str(row, INFP_SOURCES_STATE, infp_source_state_name(state));
        if (reason)
                infp_row_str(row, INFP_SOURCES_REASON, reason);
        if (fix)
                infp_row_str(row, INFP_SOURCES_FIX, fix);
        infp_recorder_put(rings->options.recorder, row);
}

static const char *instance_of(int32_t pid, const char *name, char *ret, size_t cap)
{
        if (pid > 0)
                snprintf(ret, cap, "process %d", (int) pid);
        else
                snprintf(ret, cap, "%s", name);
        return ret;
}

static const char *instance(const struct ring_entry *entry, char *ret, size_t cap)
{
        /* An ended process is still known by its number, where that is in our namespace. */
        const int32_t pid = entry->pid ? entry->pid : entry->owner.process ? entry->owner.pid : 0;

        return instance_of(pid, entry->name, ret, cap);
}

void rings_say_refusal(struct infp_rings *rings, int32_t pid, const char *name, int r, const char *why)
{
        char text[128], reason[640];

        if (r == -ESTALE)
                return; /* an earlier process had the pid: nothing is missing */
        snprintf(reason, sizeof(reason), "its ring file %s %s", name, why);
        put_source(rings, instance_of(pid, name, text, sizeof(text)), "*", r == -EPERM ? INFP_DENIED : INFP_BROKEN,
                   reason, NULL);
}

void rings_say_follower(struct infp_rings *rings, const struct ring_entry *entry, const char *why)
{
        char text[128], reason[640];

        snprintf(reason, sizeof(reason),
                 "its ring file %s: data that it has read may be overwritten before it is read here",
                 why[0] ? why : "belongs to the recording in which the process was started");
        put_source(rings, instance(entry, text, sizeof(text)), "*", INFP_LATE, reason, "end the other recording");
}

/* ", N what" where there are any. */
static void add(struct infp_str *to, uint64_t now, uint64_t before, const char *what)
{
        if (now > before)
                infp_str_printf(to, "%s%" PRIu64 " %s", to->size ? ", " : "", now - before, what);
}

static void say_about(struct infp_rings *rings, const struct ring_entry *entry, const char *table,
                      enum infp_source_state state, struct infp_str *reason, const char *fix)
{
        char text[128];

        if (reason->size && !reason->failed)
                put_source(rings, instance(entry, text, sizeof(text)), table, state, reason->data, fix);
        infp_str_clear(reason);
}

static void say_keep(struct infp_rings *rings, struct ring_entry *entry, const struct infp_ring_counts *c,
                     struct infp_str *text)
{
        const struct infp_ring_counts *f = &entry->first;
        const uint64_t sum = c->dropped_full + c->dropped_busy + c->cut_texts + c->grow_failed + c->spans_forgotten +
                             c->cut_attributes;
        const char *fix = NULL;

        if (sum == entry->told.keep)
                return;
        entry->told.keep = sum;
        add(text, c->dropped_full, f->dropped_full,
            "spans, attributes, marks and rows were dropped because its ring file was full");
        if (text->size)
                fix = "set INFPROF_RING_BYTES=16m (the maximum) in its environment, or record fewer spans";
        add(text, c->dropped_busy, f->dropped_busy,
            "records were dropped because a signal handler interrupted another record");
        add(text, c->cut_texts, f->cut_texts, "texts were cut, because they were longer than a record");
        add(text, c->spans_forgotten, f->spans_forgotten,
            "spans are shown only when they have ended: too many were open");
        add(text, c->cut_attributes, f->cut_attributes, "attributes did not fit into their spans (16 KiB each)");
        add(text, c->grow_failed, f->grow_failed, "times its ring file could not grow");
        if (c->grow_failed > f->grow_failed) {
                infp_str_printf(text, " (%s)", strerror((int) c->grow_errno));
                fix = "free space on the file system of its ring file";
        }
        say_about(rings, entry, "spans", INFP_LATE, text, fix);
}

static void say_recent(struct infp_rings *rings, struct ring_entry *entry, const struct infp_ring_counts *c,
                       struct infp_str *text)
{
        const struct infp_ring_counts *f = &entry->first;
        const uint64_t sum = c->evicted_chunks + c->evicted_bytes + c->refused_metrics + c->refused_values +
                             c->evicted_rows + c->refused_tables;

        if (sum == entry->told.recent)
                return;
        entry->told.recent = sum;
        add(text, c->evicted_rows, f->evicted_rows,
            "rows of tables were overwritten before they were read; the newest are kept");
        add(text, c->refused_tables, f->refused_tables,
            "tables were refused: there are 64 already, or they have too many columns");
        say_about(rings, entry, "*", INFP_LATE, text, "fewer rows; or INFPROF_RING_BYTES=16m");
        add(text, c->evicted_bytes, f->evicted_bytes,
            c->evicted_rows > f->evicted_rows ? "bytes of rows and of changes of counters were overwritten before they "
                                                "were read; the newest values "
                                                "of counters are kept"
                                              : "bytes of changes of counters were overwritten before they were read; "
                                                "the newest values are kept");
        add(text, c->refused_metrics, f->refused_metrics,
            "counters were refused: there are 1,024 already, or their names did not fit");
        add(text, c->refused_values, f->refused_values,
            "values were refused: not a number, or a counter that would fall");
        say_about(rings, entry, "counters", INFP_LATE, text,
                  "fewer counters, or changes of them; or INFPROF_RING_BYTES=16m");
}

static void say_whole(struct infp_rings *rings, struct ring_entry *entry, const struct infp_ring_counts *c,
                      struct infp_str *text)
{
        const uint64_t sum = c->broken + c->unknown + c->missed_chunks + c->was_cut;
        const char *fix = c->missed_chunks ? "end the other recording" : NULL;

        if (sum == entry->told.whole)
                return;
        entry->told.whole = sum;
        add(text, c->missed_chunks, 0, "pieces of 4 KiB were overwritten, because another recording read them");
        add(text, c->unknown, 0, "records are of unknown kinds");
        if (c->unknown)
                fix = "use an infprof as new as the library in the program";
        add(text, c->broken, 0, "records are damaged");
        if (c->was_cut)
                infp_str_printf(text, "%sits ring file was truncated while it was read", text->size ? ", " : "");
        say_about(rings, entry, "*", c->broken || c->was_cut ? INFP_BROKEN : INFP_LATE, text, fix);
}

static void say_losses(struct infp_rings *rings, struct ring_entry *entry)
{
        const struct infp_ring_counts *c = infp_ring_counts(entry->ring);
        infp_autostr struct infp_str text = { 0 };

        say_keep(rings, entry, c, &text);
        say_recent(rings, entry, c, &text);
        say_whole(rings, entry, c, &text);
}

static void count_rows(struct infp_rings *rings, struct ring_entry *entry)
{
        struct infp_stats *stats = rings->options.stats;
        const struct infp_ring_counts *c = infp_ring_counts(entry->ring);
        const uint64_t rows = infp_ring_rows(c), dropped = c->dropped_full + c->dropped_busy -
                                                           entry->first.dropped_full - entry->first.dropped_busy;

        if (stats && dropped >= entry->dropped) {
                infp_stats_add(&stats->ring_rows, rows - entry->rows);
                infp_stats_add(&stats->ring_dropped, dropped - entry->dropped);
        }
        entry->rows = rows;
        entry->dropped = dropped;
}

/* Flooded: more came within one pause than one read takes. */
static const uint64_t flooded_pause_ns = 20 * INFP_NS_PER_MS, busy_pause_ns = 100 * INFP_NS_PER_MS,
                      idle_pause_ns = INFP_NS_PER_S;
static const uint64_t alive_ns = INFP_NS_PER_S;
enum { READS_AT_ONCE = 4, MAX_MAPS = 64 << 20 };

int infp_rings_new(const struct infp_rings_options *options, struct infp_rings **ret, struct infp_err *err)
{
        struct infp_rings *rings = calloc(1, sizeof(*rings));
        struct stat status;

        if (!rings)
                return infp_fail(err, -ENOMEM, "no memory for the rings of programs");
        rings->options = *options;
        rings->mode = infp_target_mode(options->env->target);
        rings->inotify_fd = -1;
        rings->ripe_ns = UINT64_MAX;
        rings->drain_ns = UINT64_MAX;
        rings->row.text = rings->text;
        rings->row.text_cap = sizeof(rings->text);
        rings->start_ns = rings->now_ns = infp_clock_ns(CLOCK_MONOTONIC);
        rings->proc_fd =
                options->env->is_live ? openat(options->env->root_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
        *ret = rings;
        if (rings->proc_fd < 0)
                return 0; /* a fixture tree, or a machine without /proc: no process can be found */
        if (fstatat(rings->proc_fd, "self/ns/pid", &status, 0) == 0)
                rings->own_pid_ns = status.st_ino;
        rings->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        rings_open_places(rings);
        for (unsigned i = 0; i < rings->n_places; i++)
                if (rings->places[i].is_default)
                        rings_clean(rings, &rings->places[i]);
        return 0;
}

void infp_rings_use(struct infp_rings *rings, struct infp_sampler *sampler)
{
        rings->sampler = sampler;
}

static void entry_done(struct ring_entry *entry)
{
        infp_ring_close(entry->ring);
        infp_close(entry->file);
        infp_close(entry->dir_fd);
}

struct infp_rings *infp_rings_free(struct infp_rings *rings)
{
        if (!rings)
                return NULL;
        for (unsigned i = 0; i < rings->n_entries; i++)
                entry_done(&rings->entries[i]);
        rings_close_places(rings);
        infp_close(rings->proc_fd);
        infp_map_done(&rings->refused);
        infp_map_done(&rings->given);
        free(rings->entries);
        free(rings->members);
        free(rings->fresh);
        free(rings);
        return NULL;
}

int infp_rings_fd(const struct infp_rings *rings)
{
        return rings->inotify_fd;
}

static int take_row(void *context, const struct infp_row *row)
{
        struct infp_rings *rings = context;

        infp_recorder_put_at(rings->options.recorder, row, rings->now_ns);
        return 0;
}

/* Its rows are on their way to the disk, and no other process reads the file. */
static void remove_file(const struct ring_entry *entry)
{
        struct stat status;

        if (entry->is_consumer && entry->dir_fd >= 0 &&
            fstatat(entry->dir_fd, entry->name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_ino == entry->inode)
                unlinkat(entry->dir_fd, entry->name, 0);
}

static void finish(struct infp_rings *rings, struct ring_entry *entry)
{
        infp_ring_read(entry->ring, true, take_row, rings, NULL);
        say_losses(rings, entry);
        count_rows(rings, entry);
}

static void drop(struct infp_rings *rings, unsigned index)
{
        entry_done(&rings->entries[index]);
        memmove(rings->entries + index, rings->entries + index + 1,
                (rings->n_entries - index - 1) * sizeof(*rings->entries));
        rings->n_entries--;
}

/* exec drops the memory, and with it the writer. /proc/PID/maps names the file as long as it is mapped. */
static bool is_mapped(const struct infp_rings *rings, const struct ring_entry *entry)
{
        infp_autofree char *maps = NULL;
        char path[32];

        snprintf(path, sizeof(path), "%d/maps", (int) entry->pid);
        return infp_read_all_at(rings->proc_fd, path, MAX_MAPS, &maps) <= 0 || strstr(maps, entry->name);
}

static bool is_over(struct infp_rings *rings, struct ring_entry *entry)
{
        const struct ring_member *member = rings_member(rings, entry->pid);

        if (infp_ring_has_ended(entry->ring) || !rings_is_alive(rings, entry->pid, entry->owner.start_ticks) ||
            infp_ring_counts(entry->ring)->was_cut)
                return true;
        if (!member || member->target.image == entry->image)
                return false;
        entry->image = member->target.image;
        return !is_mapped(rings, entry);
}

/* All files were read to their ends. The next round comes soon where more came than one read takes, later and later where
 * nothing comes. */
static void pause_drains(struct infp_rings *rings)
{
        if (rings->is_busy)
                rings->pause_ns = rings->was_flooded ? flooded_pause_ns : busy_pause_ns;
        else
                rings->pause_ns =
                        rings->pause_ns < idle_pause_ns / 2 ? 2 * rings->pause_ns + busy_pause_ns : idle_pause_ns;
        rings->was_flooded = false;
}

/* One read of one file. */
static void drain(struct infp_rings *rings, struct ring_entry *entry)
{
        const uint64_t before = infp_ring_rows(infp_ring_counts(entry->ring));

        entry->has_more = infp_ring_read(entry->ring, false, take_row, rings, NULL) == 1;
        count_rows(rings, entry);
        rings->is_flooded |= entry->has_more;
        rings->was_flooded |= entry->has_more;
        rings->is_busy |= entry->has_more || entry->rows > before || infp_ring_is_waiting(entry->ring);
}

/* Each file in turn, with a bound on reads: the others that need this thread come before the rest. */
static void drain_some(struct infp_rings *rings)
{
        if (rings->next_entry >= rings->n_entries)
                rings->next_entry = 0;
        if (rings->next_entry == 0)
                rings->is_flooded = rings->is_busy = false;
        /* bound: the rest waits for its turn */
        for (unsigned reads = 0; reads < rings->n_entries && reads < READS_AT_ONCE; reads++) {
                drain(rings, &rings->entries[rings->next_entry]);
                rings->next_entry = (rings->next_entry + 1) % rings->n_entries;
                if (rings->next_entry == 0)
                        break;
        }
        rings->has_more = rings->next_entry != 0 || rings->is_flooded;
        if (rings->next_entry == 0 && !rings->is_flooded)
                pause_drains(rings);
        rings->drain_ns = !rings->n_entries ? UINT64_MAX : rings->has_more ? 0 : rings->now_ns + rings->pause_ns;
}

static void look_at_processes(struct infp_rings *rings)
{
        for (unsigned i = 0; i < rings->n_entries;) {
                struct ring_entry *entry = &rings->entries[i];

                if (!entry->is_over && rings->now_ns < entry->look_ns) {
                        i++;
                        continue;
                }
                entry->look_ns = rings->now_ns + alive_ns;
                say_losses(rings, entry);
                entry->is_over = entry->is_over || is_over(rings, entry);
                if (!entry->is_over || entry->has_more) { /* the last read takes all that is left */
                        i++;
                        continue;
                }
                finish(rings, entry);
                remove_file(entry);
                drop(rings, i);
        }
}

static void look_at_places(struct infp_rings *rings)
{
        for (unsigned i = 0; i < rings->n_places; i++) {
                struct ring_place *place = &rings->places[i];

                if (rings->now_ns >= place->look_ns)
                        rings_look_at_place(rings, place);
        }
}

void infp_rings_turn(struct infp_rings *rings)
{
        if (rings->proc_fd < 0)
                return;
        rings->now_ns = infp_clock_ns(CLOCK_MONOTONIC);
        rings_look_at_members(rings);
        rings_take_events(rings);
        look_at_places(rings);
        if (rings->now_ns < rings->drain_ns)
                return;
        drain_some(rings);
        look_at_processes(rings);
}

uint64_t infp_rings_due_ns(const struct infp_rings *rings)
{
        uint64_t due = rings->drain_ns, members = rings_members_due_ns(rings);

        if (rings->proc_fd < 0)
                return UINT64_MAX;
        due = members < due ? members : due;
        for (unsigned i = 0; i < rings->n_places; i++)
                due = rings->places[i].look_ns < due ? rings->places[i].look_ns : due;
        return due;
}

static void look_at_all(struct infp_rings *rings)
{
        rings->now_ns = infp_clock_ns(CLOCK_MONOTONIC);
        rings->members_ns = 0;
        rings_look_at_members(rings);
        rings_look_again(rings);
        look_at_places(rings);
}

void infp_rings_drain(struct infp_rings *rings)
{
        if (rings->proc_fd < 0)
                return;
        look_at_all(rings);
        for (unsigned i = 0; i < rings->n_entries; i++)
                do { /* a pass has an end, also where a program writes faster than this reads */
                        rings->now_ns = infp_clock_ns(CLOCK_MONOTONIC);
                        drain(rings, &rings->entries[i]);
                } while (rings->entries[i].has_more);
}

void infp_rings_end(struct infp_rings *rings)
{
        if (rings->proc_fd < 0)
                return;
        look_at_all(rings);
        while (rings->n_entries) {
                struct ring_entry *entry = &rings->entries[rings->n_entries - 1];
                const bool is_dead = entry->is_over || is_over(rings, entry);

                finish(rings, entry);
                if (is_dead)
                        remove_file(entry);
                drop(rings, rings->n_entries - 1);
        }
}
