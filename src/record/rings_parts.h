/* Shared by rings.c (reads ring files, reports losses) and rings_find.c (finds them) alone. */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "base/map.h"
#include "collect/target.h"
#include "record/rings.h"
#include "ring/find.h"

enum {
        RINGS_MAX = 1024,      /* files at once */
        RINGS_PLACES = 64,     /* directories at once */
        RINGS_MEMBERS = 16384, /* processes that are followed */
        RINGS_NAME = 96,
};

/* A directory that is watched. */
struct ring_place {
        int fd, watch; /* watch -1: inotify does not report it, it is read each second */
        dev_t device;
        ino_t inode;
        uint32_t uid;
        uint64_t look_ns, pause_ns; /* due; UINT64_MAX: no change. Pause while a file is being made */
        bool is_default;            /* of where.h: leftovers of ended processes are removed */
};

/* A process of the tree. */
struct ring_member {
        struct infp_target_member target; /* first: infp_find_i32 */
        struct infp_ring_owner owner;     /* owner.pid 0: not read yet */
        uint64_t look_ns, pause_ns;       /* when to look for its directories (again); UINT64_MAX: they are known */
};

/* The losses of a file that were reported, so that only changes are. */
struct ring_told {
        uint64_t keep, recent, whole;
};

struct ring_entry {
        struct infp_ring *ring;
        int file, dir_fd; /* dir_fd: a duplicate of its place's */
        ino_t inode;
        char name[RINGS_NAME];
        struct infp_ring_owner owner;
        int32_t pid; /* as we see it; 0: not known */
        uint64_t image;
        bool is_consumer, is_over, has_more; /* over: its writer is gone */
        uint64_t look_ns;                    /* next look at the process */
        uint64_t rows, dropped;              /* already in the stats */
        struct infp_ring_counts first;       /* as it was when we came: earlier losses are not this recording's */
        struct ring_told told;
};

struct infp_rings {
        struct infp_rings_options options;
        enum infp_mode mode;
        struct infp_sampler *sampler; /* NULL: none */
        struct infp_map given;        /* files that it has taken, by the hash of their names */
        int proc_fd, inotify_fd;
        uint64_t own_pid_ns;
        struct ring_place places[RINGS_PLACES];
        unsigned n_places;
        struct ring_member *members; /* by pid */
        struct infp_target_member *fresh;
        size_t n_members, cap_members;
        uint64_t members_ns, ripe_ns; /* not before; the first of them is due then */
        struct ring_entry *entries;
        unsigned n_entries, next_entry;
        struct infp_map refused; /* files that cannot be read, reported once */
        uint64_t pause_ns, drain_ns;
        uint64_t start_ns, now_ns;
        bool has_more, said_full;
        bool is_busy, is_flooded; /* of this round through the files: some rows came; more than one read takes */
        bool was_flooded;         /* since the last pause */
        struct infp_row row;
        char text[8192];
};

/* rings_find.c: directories. */
void rings_open_places(struct infp_rings *rings); /* the default directories of our own user */
void rings_take_events(struct infp_rings *rings);
void rings_close_places(struct infp_rings *rings);
void rings_look_again(struct infp_rings *rings);                              /* at all of them */
void rings_look_at_place(struct infp_rings *rings, struct ring_place *place); /* sets when it is due again */
void rings_clean(struct infp_rings *rings,
                 const struct ring_place *place); /* removes our user's files of ended processes */

/* rings_find.c: processes of the tree as the target saw it last. */
void rings_look_at_members(struct infp_rings *rings);
uint64_t rings_members_due_ns(const struct infp_rings *rings);
struct ring_member *rings_member(struct infp_rings *rings, int32_t pid);
bool rings_is_alive(const struct infp_rings *rings, int32_t pid, uint64_t start_ticks);

/* rings.c */
void rings_say_refusal(struct infp_rings *rings, int32_t pid, const char *name, int r, const char *why);
void rings_say_follower(struct infp_rings *rings, const struct ring_entry *entry, const char *why);
