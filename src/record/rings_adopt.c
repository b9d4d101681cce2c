/* Whose a ring file is, and whether it is ours to drain. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "collect/collector.h"
#include "model/id.h"
#include "record/process_row.h"
#include "record/processes.h"
#include "record/rings_parts.h"
#include "store/live.h"

enum { ANCESTORS = 64, MOST_REFUSED = 4096 };

/* A file that is not ready so long after it was begun never will be: its maker has died. */
static const uint64_t patience_ns = 10 * INFP_NS_PER_S;
static const uint64_t others_first_ns = 3 * INFP_NS_PER_S;
static const uint64_t unready_ns = INFP_NS_PER_MS, early_ns = INFP_NS_PER_S / 2;

bool rings_is_alive(const struct infp_rings *rings, int32_t pid, uint64_t start_ticks)
{
        struct infp_process process;

        return pid > 0 && infp_process_look(rings->options.env->root_fd, pid, &process) &&
               process.start_ticks == start_ticks;
}

struct wanted {
        const struct infp_rings *rings;
        const struct infp_ring_head *head;
        int32_t pid;
};

static bool compare_process(void *context, const struct infp_process *process)
{
        struct wanted *w = context;
        struct infp_ring_owner owner;

        if (process->start_ticks != w->head->start_ticks ||
            infp_ring_owner_read(w->rings->proc_fd, process->pid, &owner, NULL) < 0 || owner.pid != w->head->pid ||
            (owner.pid_ns && owner.pid_ns != w->head->pid_ns))
                return true;
        w->pid = process->pid;
        return false;
}

int32_t rings_find_in_namespace(const struct infp_rings *rings, const struct infp_ring_head *head)
{
        struct wanted wanted = { .rings = rings, .head = head };

        infp_process_each(rings->options.env->root_fd, compare_process, &wanted);
        return wanted.pid;
}

/* Descends from the tree by what /proc says now. */
static bool is_descendant(struct infp_rings *rings, int32_t pid)
{
        struct infp_process process;

        for (unsigned i = 0; i < ANCESTORS && pid > 1; i++) {
                if (rings_member(rings, pid))
                        return true;
                if (!infp_process_look(rings->options.env->root_fd, pid, &process))
                        return false;
                pid = process.ppid;
        }
        return false;
}

/* Its process, alive or not. False: none of ours. */
static bool find_owner(struct infp_rings *rings, const struct infp_ring_head *head, uint32_t uid,
                       struct infp_ring_owner *ret, int32_t *ret_pid)
{
        const bool is_here = !head->pid_ns || !rings->own_pid_ns || head->pid_ns == rings->own_pid_ns;
        const bool is_named = rings->options.run && rings->options.run[0] && !strcmp(head->run, rings->options.run);
        int32_t pid = 0;

        if (!is_named && rings->mode == INFP_MODE_RUN && is_here &&
            !rings_is_alive(rings, head->pid, head->start_ticks))
                return false;
        if (is_here)
                pid = rings_is_alive(rings, head->pid, head->start_ticks) ? head->pid : 0;
        else if (is_named || rings->mode == INFP_MODE_HOST)
                pid = rings_find_in_namespace(rings, head);
        if (!is_named && !(rings->mode == INFP_MODE_HOST ? pid > 0 : pid > 0 && is_descendant(rings, pid)))
                return false;
        *ret_pid = pid;
        if (pid && infp_ring_owner_read(rings->proc_fd, pid, ret, NULL) == 0 && ret->start_ticks == head->start_ticks)
                return true;
        /* Ended already: what its head says is all that is known. In another pid namespace its number here is not. */
        *ret = (struct infp_ring_owner){
                .pid = head->pid, .start_ticks = head->start_ticks, .pid_ns = head->pid_ns, .uid = uid
        };
        if (is_here)
                ret->process = infp_process_id(rings->options.env->boot_id, head->pid, head->start_ticks);
        *ret_pid = 0;
        snprintf(ret->boot_id, sizeof(ret->boot_id), "%s", rings->options.env->boot_id);
        return true;
}

struct look {
        struct infp_rings *rings;
        struct ring_place *place;
        bool is_unready, is_early;
};

static bool is_known(const struct infp_rings *rings, const struct ring_place *place, const char *name)
{
        struct stat status;

        for (unsigned i = 0; i < rings->n_entries; i++)
                if (!strcmp(rings->entries[i].name, name) &&
                    fstatat(place->fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                    status.st_ino == rings->entries[i].inode)
                        return true;
        return false;
}

static struct ring_entry *entry_new(struct infp_rings *rings)
{
        if (rings->n_entries == RINGS_MAX) /* bound: a notice says that not all is recorded */
                return NULL;
        if ((rings->n_entries & (rings->n_entries - 1)) == 0) {
                const size_t cap = rings->n_entries ? 2 * (size_t) rings->n_entries : 4;
                struct ring_entry *more = reallocarray(rings->entries, cap, sizeof(*more));

                if (!more)
                        return NULL;
                rings->entries = more;
        }
        rings->entries[rings->n_entries] = (struct ring_entry){ .file = -1, .dir_fd = -1 };
        return &rings->entries[rings->n_entries];
}

/* The recorder in whose tree the process was started lives, and is not us: it comes first. */
static bool is_anothers(const struct infp_rings *rings, const struct infp_ring_head *head)
{
        struct infp_live_entry live = { .output = NULL };
        int r;

        if (!head->run[0] || (rings->options.run && !strcmp(head->run, rings->options.run)))
                return false;
        r = infp_live_find(head->run, &live, NULL);
        free(live.output);
        return r == 0;
}

static void refuse(struct infp_rings *rings, ino_t inode)
{
        if (rings->refused.n >= MOST_REFUSED)
                infp_map_done(&rings->refused);
        infp_map_put(&rings->refused, inode, 1);
}

static int open_reader(struct infp_rings *rings, struct ring_entry *entry, const struct infp_ring_head *head)
{
        struct infp_err err = { "" };
        int r = -EBUSY;

        entry->is_consumer = !is_anothers(rings, head);
        if (entry->is_consumer)
                r = infp_ring_open(entry->file, &entry->owner, true, &entry->ring, &err);
        if (r == -EBUSY) {
                struct infp_err why = err;

                entry->is_consumer = false;
                r = infp_ring_open(entry->file, &entry->owner, false, &entry->ring, &err);
                if (r == 0)
                        rings_say_follower(rings, entry, why.text);
        }
        if (r < 0 && r != -EAGAIN) {
                rings_say_refusal(rings, entry->pid, entry->name, r, err.text);
                refuse(rings, entry->inode);
        }
        return r;
}

/* The row that names the process, where no collector has written it. */
static void put_process(struct infp_rings *rings, const struct ring_entry *entry, const struct infp_ring_head *head)
{
        const struct infp_env *env = rings->options.env;
        const struct infp_table *table = infp_table_by_name("process");
        bool has_row = false;

        if (!entry->owner.process || !table || infp_recorder_has(rings->options.recorder, table, entry->owner.process))
                return;
        if (entry->pid)
                has_row = infp_process_row(&rings->row, env, entry->pid, entry->owner.start_ticks);
        /* Where its pid namespace is not ours its own number and its parent's are not to be shown. */
        if (!has_row && infp_process_id(env->boot_id, head->pid, head->start_ticks) == entry->owner.process)
                has_row = infp_process_row_ended(&rings->row, env, head->pid, head->start_ticks, head->parent,
                                                 head->name, entry->owner.uid);
        if (has_row)
                infp_recorder_put(rings->options.recorder, &rings->row);
}

static void adopt(struct look *look, const char *name, int file, const struct infp_ring_head *head,
                  const struct infp_ring_owner *owner, int32_t pid)
{
        struct infp_rings *rings = look->rings;
        struct ring_entry *entry = entry_new(rings);
        struct ring_member *member = rings_member(rings, pid);
        struct stat status;

        if (!entry || infp_fd_is_scarce(file)) {
                if (!rings->said_full)
                        infp_notice(&rings->options.notices,
                                    "not all spans and marks are recorded: %u ring files are open, which is the limit "
                                    "(ulimit -n raises it)",
                                    rings->n_entries);
                rings->said_full = true;
                infp_close(file);
                return;
        }
        entry->file = file;
        entry->owner = *owner;
        entry->pid = pid;
        entry->is_over = pid == 0;
        entry->image = member ? member->target.image : 0;
        snprintf(entry->name, sizeof(entry->name), "%s", name);
        if (fstat(file, &status) == 0)
                entry->inode = status.st_ino;
        if (infp_map_get(&rings->refused, entry->inode) || open_reader(rings, entry, head) < 0) {
                infp_close(file);
                return;
        }
        entry->dir_fd = fcntl(look->place->fd, F_DUPFD_CLOEXEC, 3);
        if (head->created_ns < rings->start_ns) /* what was lost before we came is not this recording's */
                entry->first = *infp_ring_counts(entry->ring);
        put_process(rings, entry, head);
        rings->n_entries++;
        rings->drain_ns = 0;
        rings->pause_ns = 0;
}

/* The recorder in whose tree it was started may be about to open it. */
static bool is_young_and_anothers(const struct infp_rings *rings, const struct infp_ring_head *head)
{
        return head->run[0] && (!rings->options.run || strcmp(head->run, rings->options.run) != 0) &&
               head->created_ns + others_first_ns > rings->now_ns;
}

static int look_at_name(void *context, const char *name, const struct infp_ring_name *parsed)
{
        struct look *look = context;
        struct infp_rings *rings = look->rings;
        struct ring_member *member;
        struct infp_ring_owner owner;
        struct infp_ring_head head;
        int32_t pid;
        int file, r;

        if (is_known(rings, look->place, name))
                return 0;
        file = infp_ring_file_open(look->place->fd, name, look->place->uid, true);
        if (file < 0)
                return 0;
        r = infp_ring_head_read(file, &head, NULL);
        if (r < 0) {
                look->is_unready |= r == -EAGAIN && parsed->created_ns + patience_ns > rings->now_ns;
                infp_close(file);
                return 0;
        }
        if (is_young_and_anothers(rings, &head)) {
                look->is_early = true;
                infp_close(file);
                return 0;
        }
        member = rings_member_of(rings, parsed);
        if (member) {
                owner = member->owner;
                pid = member->target.pid;
        } else if (!find_owner(rings, &head, look->place->uid, &owner, &pid)) {
                infp_close(file);
                return 0;
        }
        adopt(look, name, file, &head, &owner, pid);
        return 0;
}

void rings_look_at_place(struct infp_rings *rings, struct ring_place *place)
{
        struct look look = { .rings = rings, .place = place };

        infp_ring_names(place->fd, look_at_name, &look);
        place->pause_ns = !look.is_unready ? 0 : place->pause_ns ? 2 * place->pause_ns : unready_ns;
        place->pause_ns = place->pause_ns < early_ns ? place->pause_ns : early_ns;
        place->look_ns = look.is_unready ? rings->now_ns + place->pause_ns
                         : look.is_early ? rings->now_ns + early_ns
                                         : UINT64_MAX;
}
