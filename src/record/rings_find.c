/* Finds ring files: watches the directories that processes use, opens what belongs to the target, removes old files. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/time.h"
#include "collect/collector.h"
#include "model/id.h"
#include "record/processes.h"
#include "record/rings_parts.h"
#include "ring/where.h"
#include "sampler/inside/inside.h"
#include "sampler/sampler.h"
#include "store/live.h"

static const uint64_t unwatched_ns = INFP_NS_PER_S;

static void watch(struct infp_rings *rings, struct ring_place *place)
{
        char path[48];

        place->watch = -1;
        if (rings->inotify_fd < 0)
                return;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", place->fd);
        place->watch = inotify_add_watch(rings->inotify_fd, path, IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF);
}

static int add_place(void *context, int fd, const char *path)
{
        struct infp_rings *rings = context;
        struct ring_place *place;
        struct stat status;

        (void) path;
        if (fstat(fd, &status) < 0) {
                infp_close(fd);
                return 0;
        }
        for (unsigned i = 0; i < rings->n_places; i++)
                if (rings->places[i].device == status.st_dev && rings->places[i].inode == status.st_ino) {
                        infp_close(fd);
                        return 0;
                }
        if (rings->n_places == RINGS_PLACES || infp_fd_is_scarce(fd)) {
                infp_close(fd);
                return 0;
        }
        place = &rings->places[rings->n_places++];
        *place = (struct ring_place){
                .fd = fd, .device = status.st_dev, .inode = status.st_ino, .uid = status.st_uid, .look_ns = 0
        };
        watch(rings, place);
        return 0;
}

static void open_place(struct infp_rings *rings, const char *path, bool is_default)
{
        struct stat status;
        const unsigned n = rings->n_places;
        const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd >= 0 && fstat(fd, &status) == 0 && status.st_uid == geteuid() && !(status.st_mode & 077))
                add_place(rings, fd, path);
        else
                infp_close(fd);
        if (n < rings->n_places)
                rings->places[n].is_default = is_default;
}

/* The directory that the command inherits, and those of where.h. The first of these is made where it is missing: a directory
 * that does not exist cannot be watched. */
void rings_open_places(struct infp_rings *rings)
{
        const char *inherited = getenv(INFP_RING_ENV);
        char path[PATH_MAX];
        int n;

        if (inherited && inherited[0] == '/')
                open_place(rings, inherited, false);

        for (unsigned i = 0;
             (n = infp_ring_directory(i, geteuid(), getenv("XDG_RUNTIME_DIR"), path, sizeof(path))) >= 0; i++) {
                if (i == 0)
                        (void) !mkdir(path, 0700);
                if (n > 0)
                        open_place(rings, path, true);
        }
}

static void remove_place(struct infp_rings *rings, struct ring_place *place)
{
        infp_close(place->fd);
        *place = rings->places[--rings->n_places];
}

static void take_event(struct infp_rings *rings, const struct inotify_event *event)
{
        if (event->mask & IN_Q_OVERFLOW) {
                rings_look_again(rings);
                return;
        }
        for (unsigned i = 0; i < rings->n_places; i++) {
                struct ring_place *place = &rings->places[i];

                if (place->watch != event->wd)
                        continue;
                if (event->mask & (IN_DELETE_SELF | IN_IGNORED))
                        remove_place(rings, place);
                else
                        place->look_ns = place->pause_ns = 0;
                return;
        }
}

void rings_take_events(struct infp_rings *rings)
{
        _Alignas(struct inotify_event) char buffer[16384];
        ssize_t n;

        while (rings->inotify_fd >= 0 && (n = read(rings->inotify_fd, buffer, sizeof(buffer))) > 0)
                for (char *at = buffer; at < buffer + n;) {
                        const struct inotify_event *event = (const void *) at;

                        take_event(rings, event);
                        at += sizeof(*event) + event->len;
                }
        for (unsigned i = 0; i < rings->n_places; i++)
                if (rings->places[i].watch < 0 && rings->places[i].look_ns == UINT64_MAX)
                        rings->places[i].look_ns = rings->now_ns + unwatched_ns;
}

void rings_look_again(struct infp_rings *rings)
{
        for (unsigned i = 0; i < rings->n_places; i++)
                rings->places[i].look_ns = 0;
}

void rings_close_places(struct infp_rings *rings)
{
        while (rings->n_places)
                remove_place(rings, &rings->places[0]);
        rings->inotify_fd = infp_close(rings->inotify_fd);
}

/* A process is asked for its directories, which costs about 0.1 ms, at this age: most processes that a shell starts never reach it.
 * Their files usually lie in the default directories, which are watched. */
static const uint64_t ripe_ns = INFP_NS_PER_S;
static const uint64_t longest_pause_ns = 60 * INFP_NS_PER_S;
static const uint64_t members_pause_ns = 200 * INFP_NS_PER_MS;
enum { AT_ONCE = 32 };

struct ring_member *rings_member(struct infp_rings *rings, int32_t pid)
{
        return infp_find_i32(rings->members, rings->n_members, sizeof(*rings->members), pid);
}

static struct ring_member *member_of(struct infp_rings *rings, const struct infp_ring_name *name)
{
        for (size_t i = 0; i < rings->n_members; i++) {
                struct ring_member *m = &rings->members[i];

                if (m->target.start_ticks != name->start_ticks)
                        continue;
                if (!m->owner.pid && infp_ring_owner_read(rings->proc_fd, m->target.pid, &m->owner, NULL) < 0)
                        continue;
                if (m->owner.pid == name->pid && m->owner.start_ticks == name->start_ticks)
                        return m;
        }
        return NULL;
}

static bool reserve(struct infp_rings *rings, size_t n)
{
        struct ring_member *members;
        struct infp_target_member *fresh;
        const size_t cap = n + n / 2 + 64;

        if (n <= rings->cap_members)
                return true;
        if (n > RINGS_MEMBERS) /* bound: checked by the caller */
                return false;
        members = reallocarray(rings->members, cap, sizeof(*members));
        if (!members)
                return false;
        rings->members = members;
        fresh = reallocarray(rings->fresh, cap, sizeof(*fresh));
        if (!fresh)
                return false;
        rings->fresh = fresh;
        rings->cap_members = cap;
        return true;
}

/* Since the boot, as start times are. */
static uint64_t age_ns(const struct infp_rings *rings, const struct infp_target_member *member)
{
        const uint64_t ticks = rings->options.env->ticks_per_s, since = infp_clock_ns(CLOCK_BOOTTIME),
                       start = member->start_ticks / ticks * INFP_NS_PER_S +
                               member->start_ticks % ticks * (INFP_NS_PER_S / ticks);

        return since > start ? since - start : 0;
}

static struct ring_member member_new(const struct infp_rings *rings, const struct infp_target_member *target)
{
        const uint64_t age = age_ns(rings, target);

        return (struct ring_member){ .target = *target,
                                     .look_ns = age < ripe_ns ? rings->now_ns + ripe_ns - age : 0,
                                     .pause_ns = ripe_ns };
}

static bool is_same(const struct ring_member *known, const struct infp_target_member *target)
{
        return known->target.pid == target->pid && known->target.start_ticks == target->start_ticks;
}

/* Keeps what is known of processes that stay; true: some are new, or run another program. */
static bool merge(struct infp_rings *rings, size_t n)
{
        struct ring_member *merged = calloc(n ? n : 1, sizeof(*merged));
        bool is_new = false;

        if (!merged)
                return false;
        for (size_t i = 0; i < n; i++) {
                const struct ring_member *known = rings_member(rings, rings->fresh[i].pid);

                if (known && is_same(known, &rings->fresh[i]) && known->target.image == rings->fresh[i].image) {
                        merged[i] = *known;
                        continue;
                }
                merged[i] = member_new(rings, &rings->fresh[i]);
                is_new = true;
        }
        if (n)
                memcpy(rings->members, merged, n * sizeof(*merged));
        free(merged);
        rings->n_members = n;
        return is_new;
}

static bool has_changed(const struct infp_rings *rings, size_t n)
{
        if (n != rings->n_members)
                return true;
        for (size_t i = 0; i < n; i++)
                if (!is_same(&rings->members[i], &rings->fresh[i]) ||
                    rings->members[i].target.image != rings->fresh[i].image)
                        return true;
        return false;
}

/* Its directories, watched from now on; looked for again, less and less often, while one that it would use does not exist. */
static void look_at_member(struct infp_rings *rings, struct ring_member *m)
{
        struct infp_ring_wish wish;

        m->look_ns = UINT64_MAX;
        if (!m->owner.pid && infp_ring_owner_read(rings->proc_fd, m->target.pid, &m->owner, NULL) < 0)
                return;
        if (infp_ring_directories(rings->proc_fd, m->target.pid, &m->owner, &wish, add_place, rings, NULL) < 0)
                return;
        if (!wish.is_first_missing)
                return;
        m->look_ns = rings->now_ns + m->pause_ns;
        m->pause_ns = m->pause_ns < longest_pause_ns ? 2 * m->pause_ns : longest_pause_ns;
}

void rings_look_at_members(struct infp_rings *rings)
{
        struct infp_target *target = rings->options.env->target;
        size_t n;
        unsigned looks = 0;

        if (rings->mode == INFP_MODE_HOST || rings->now_ns < rings->members_ns)
                return;
        rings->members_ns = rings->now_ns + members_pause_ns;
        n = infp_target_members(target, rings->fresh, rings->cap_members);
        if (n > rings->cap_members) {
                if (!reserve(rings, n))
                        return;
                n = infp_target_members(target, rings->fresh, rings->cap_members);
                n = n < rings->cap_members ? n : rings->cap_members;
        }
        if (has_changed(rings, n) && merge(rings, n))
                rings_look_again(rings);
        rings->ripe_ns = UINT64_MAX;
        for (size_t i = 0; i < rings->n_members; i++) {
                struct ring_member *m = &rings->members[i];

                if (m->look_ns <= rings->now_ns && looks < AT_ONCE) {
                        look_at_member(rings, m);
                        looks++;
                }
                rings->ripe_ns = m->look_ns < rings->ripe_ns ? m->look_ns : rings->ripe_ns;
        }
}

uint64_t rings_members_due_ns(const struct infp_rings *rings)
{
        return rings->ripe_ns > rings->members_ns ? rings->ripe_ns : rings->members_ns;
}

enum { ANCESTORS = 64, MOST_REFUSED = 4096 };

/* A file that is not ready this long after its start never will be: its maker has died. */
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

static int32_t find_in_namespace(const struct infp_rings *rings, const struct infp_ring_head *head)
{
        struct wanted wanted = { .rings = rings, .head = head };

        infp_process_each(rings->options.env->root_fd, compare_process, &wanted);
        return wanted.pid;
}

/* Is a descendant of the tree, as /proc shows it now. */
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

/* Its process, alive or not. False: not ours. */
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
                pid = find_in_namespace(rings, head);
        if (!is_named && !(rings->mode == INFP_MODE_HOST ? pid > 0 : pid > 0 && is_descendant(rings, pid)))
                return false;
        *ret_pid = pid;
        if (pid && infp_ring_owner_read(rings->proc_fd, pid, ret, NULL) == 0 && ret->start_ticks == head->start_ticks) {
                if (!ret->pid_ns) /* it is about to end, and is in none any more */
                        ret->pid_ns = head->pid_ns;
                return true;
        }
        /* It has ended: its head is all that is known. Its number in another pid namespace does not hold here. */
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
        if (!INFP_ONE_MORE(rings->entries, rings->n_entries))
                return NULL;
        rings->entries[rings->n_entries] = (struct ring_entry){ .file = -1, .dir_fd = -1 };
        return &rings->entries[rings->n_entries];
}

static bool run_lives(const char *run)
{
        struct infp_live_entry live = { .output = NULL };
        const bool lives = run[0] && infp_live_find(run, &live, NULL) == 0;

        free(live.output);
        return lives;
}

/* The process was started by another run. */
static bool is_anothers(const struct infp_rings *rings, const struct infp_ring_head *head)
{
        return head->run[0] && (!rings->options.run || strcmp(head->run, rings->options.run) != 0);
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

        /* A live recorder that started the process comes before us. */
        entry->is_consumer = !(is_anothers(rings, head) && run_lives(head->run));
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

/* The row that names the process, where no collector has written one. */
static void put_process(struct infp_rings *rings, const struct ring_entry *entry, const struct infp_ring_head *head)
{
        const struct infp_env *env = rings->options.env;
        const struct infp_table *table = infp_table_by_name("process");
        bool has_row = false;

        if (!entry->owner.process || !table || infp_recorder_has(rings->options.recorder, table, entry->owner.process))
                return;
        if (entry->pid)
                has_row = infp_process_row(&rings->row, env, entry->pid, entry->owner.start_ticks);
        /* In another pid namespace its own number and its parent's must not be shown. */
        if (!has_row && infp_process_id(env->boot_id, head->pid, head->start_ticks) == entry->owner.process)
                has_row = infp_process_row_ended(&rings->row, env, head->pid, head->start_ticks, head->parent,
                                                 head->name, entry->owner.uid);
        if (has_row)
                infp_recorder_put(rings->options.recorder, &rings->row);
}

static uint64_t hash_of(const char *name)
{
        return infp_hash64(name, strlen(name), 0);
}

/* A sampler's file: its samples are the sampler's. False: nobody takes them. */
static bool give_to_sampler(struct look *look, const char *name, int file, const struct infp_ring_head *head,
                            const struct infp_ring_owner *owner, int32_t pid)
{
        struct infp_rings *rings = look->rings;
        const struct ring_entry entry = { .owner = *owner, .pid = pid };
        struct infp_inside_ring ring = {
                .file = file, .dir_fd = fcntl(look->place->fd, F_DUPFD_CLOEXEC, 3), .owner = *owner, .pid = pid
        };

        snprintf(ring.name, sizeof(ring.name), "%s", name);
        if (!rings->sampler || !infp_sampler_take_ring(rings->sampler, &ring)) {
                infp_close(ring.dir_fd);
                return false;
        }
        infp_map_put(&rings->given, hash_of(name), 1);
        put_process(rings, &entry, head);
        return true;
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
        if (head->created_ns < rings->start_ns) /* losses before we came are not this recording's */
                entry->first = *infp_ring_counts(entry->ring);
        put_process(rings, entry, head);
        rings->n_entries++;
        rings->drain_ns = 0;
        rings->pause_ns = 0;
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

        if (is_known(rings, look->place, name) || infp_map_get(&rings->given, hash_of(name)))
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
        if (is_anothers(rings, &head) && head.created_ns + others_first_ns > rings->now_ns) {
                /* the recorder that started the process may be about to open it */
                look->is_early = true;
                infp_close(file);
                return 0;
        }
        member = member_of(rings, parsed);
        if (member) {
                owner = member->owner;
                pid = member->target.pid;
        } else if (!find_owner(rings, &head, look->place->uid, &owner, &pid)) {
                infp_close(file);
                return 0;
        }
        if (!head.is_sampler || !give_to_sampler(look, name, file, &head, &owner, pid))
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

/* Removes ring files that are never read: of processes that were killed without a recording, or whose recorder was. Never the file
 * of a live process, nor one that another recorder reads. */
/* A recorder may be about to open it: the process has just ended. */
static const uint64_t fresh_ns = 10 * INFP_NS_PER_S;
#define INITIAL_PID_NAMESPACE UINT64_C(0xEFFFFFFC) /* PROC_PID_INIT_INO: its processes see all others */

struct clean {
        struct infp_rings *rings;
        const struct ring_place *place;
};

static bool process_lives(const struct infp_rings *rings, const struct infp_ring_head *head)
{
        if (strcmp(head->boot_id, rings->options.env->boot_id) != 0)
                return !rings->options.env->boot_id[0]; /* of an earlier boot; unless we do not know ours */
        if (!head->pid_ns || !rings->own_pid_ns || head->pid_ns == rings->own_pid_ns)
                return rings_is_alive(rings, head->pid, head->start_ticks);
        /* Where we do not see all processes it may be alive unseen. */
        return rings->own_pid_ns != INITIAL_PID_NAMESPACE || find_in_namespace(rings, head) > 0;
}

static int clean_file(void *context, const char *name, const struct infp_ring_name *parsed)
{
        const struct clean *c = context;
        const struct infp_rings *rings = c->rings;
        infp_autoclose int file = infp_ring_file_open(c->place->fd, name, geteuid(), true);
        struct infp_ring_head head;
        int r;

        if (file < 0 || (parsed->created_ns <= rings->now_ns && rings->now_ns - parsed->created_ns < fresh_ns))
                return 0;
        r = infp_ring_head_read(file, &head, NULL);
        if (r == -EAGAIN && rings_is_alive(rings, parsed->pid, parsed->start_ticks))
                return 0;
        if (r == 0 && (process_lives(rings, &head) || run_lives(head.run)))
                return 0;
        if ((r < 0 && r != -EAGAIN) || flock(file, LOCK_EX | LOCK_NB) < 0)
                return 0; /* not a ring file despite its name; or a process reads it */
        unlinkat(c->place->fd, name, 0);
        return 0;
}

void rings_clean(struct infp_rings *rings, const struct ring_place *place)
{
        struct clean clean = { .rings = rings, .place = place };

        infp_ring_names(place->fd, clean_file, &clean);
}
