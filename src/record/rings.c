#include "record/rings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/time.h"
#include "record/processes.h"
#include "record/rings_parts.h"

/* Flooded: more came within one pause than is read at once. */
static const uint64_t flooded_pause_ns = 20 * INFP_NS_PER_MS, busy_pause_ns = 100 * INFP_NS_PER_MS,
                      idle_pause_ns = INFP_NS_PER_S;
static const uint64_t alive_ns = INFP_NS_PER_S;
enum { READS_AT_ONCE = 4, LAST_TURNS = 256, MAX_MAPS = 64 << 20 };

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
                return 0; /* a fixture tree, or a machine without /proc: there is nobody who could be found */
        if (fstatat(rings->proc_fd, "self/ns/pid", &status, 0) == 0)
                rings->own_pid_ns = status.st_ino;
        rings->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
        rings_open_places(rings);
        for (unsigned i = 0; i < rings->n_places; i++)
                if (rings->places[i].is_default)
                        rings_clean(rings, &rings->places[i]);
        return 0;
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

static int put(void *context, const struct infp_row *row)
{
        struct infp_rings *rings = context;

        infp_recorder_put_at(rings->options.recorder, row, rings->now_ns);
        return 0;
}

/* What it wrote is on its way to the disk, and nobody else reads it. */
static void remove_file(const struct ring_entry *entry)
{
        struct stat status;

        if (entry->is_consumer && entry->dir_fd >= 0 &&
            fstatat(entry->dir_fd, entry->name, &status, AT_SYMLINK_NOFOLLOW) == 0 && status.st_ino == entry->inode)
                unlinkat(entry->dir_fd, entry->name, 0);
}

static void finish(struct infp_rings *rings, struct ring_entry *entry)
{
        infp_ring_read(entry->ring, true, put, rings, NULL);
        rings_say_losses(rings, entry);
        rings_count(rings, entry);
}

static void drop(struct infp_rings *rings, unsigned index)
{
        entry_done(&rings->entries[index]);
        memmove(rings->entries + index, rings->entries + index + 1,
                (rings->n_entries - index - 1) * sizeof(*rings->entries));
        rings->n_entries--;
}

/* exec takes the memory away, and with it the writer. The name of the file is in /proc/PID/maps as long as it is mapped. */
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

/* All were read to their ends. The next time comes soon where more came than one read takes, later and later where nothing does. */
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
        const struct infp_ring_counts *counts = infp_ring_counts(entry->ring);
        const uint64_t before = counts->rows[0] + counts->rows[1] + counts->rows[2];

        entry->has_more = infp_ring_read(entry->ring, false, put, rings, NULL) == 1;
        rings_count(rings, entry);
        rings->is_flooded |= entry->has_more;
        rings->was_flooded |= entry->has_more;
        rings->is_busy |= entry->has_more || entry->rows > before || infp_ring_is_waiting(entry->ring);
}

/* Every file in turn, so many reads at most: the rest waits until the others that need this thread have had it. */
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
                rings_say_losses(rings, entry);
                entry->is_over = entry->is_over || is_over(rings, entry);
                if (!entry->is_over || entry->has_more) { /* the last read is of what is left, all at once */
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
        rings->has_more = rings->n_entries > 0;
        for (unsigned i = 0; i < LAST_TURNS && rings->has_more; i++) {
                rings->now_ns = infp_clock_ns(CLOCK_MONOTONIC);
                drain_some(rings);
        }
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
