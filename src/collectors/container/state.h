/* What the files of the collector `containers` share. open.c finds and identifies containers, read.c reads their files and network,
 * device.c their block devices, limits.c their limits and members, and why.c says why a value is missing. */
#pragma once

#include "collect/cgroup.h"
#include "collect/collector.h"
#include "collect/target.h"
#include "collectors/container/table.h"

/* What is read at each sample. */
enum container_file {
        FILE_CPU_STAT,
        FILE_CPU_USAGE,
        FILE_CPU_USER,
        FILE_CPU_SYSTEM,
        FILE_CPU_TICKS,
        FILE_CPU_EACH,
        FILE_MEMORY,
        FILE_MEMORY_PEAK,
        FILE_MEMORY_STAT,
        FILE_MEMORY_EVENTS,
        FILE_MEMORY_FAILS,
        FILE_MEMORY_KERNEL,
        FILE_SWAP,
        FILE_IO,
        FILE_IO_CALLS,
        FILE_PIDS,
        FILE_PIDS_EVENTS,
        FILE_PSI_CPU,
        FILE_PSI_MEMORY,
        FILE_PSI_IO,
        FILE_PSI_IRQ,
        FILE_N,
};

enum { CONTAINER_DEVICES = 64, CONTAINER_PIDS = 4096, CONTAINER_MOST = 1024, READ_TEXT = 64 * 1024 };

/* Errors of our own, where a file was never opened. */
enum {
        WHY_MACHINE = -EXDEV,        /* the controller counts the whole machine there */
        WHY_NO_CONTROLLER = -ENXIO,  /* no hierarchy has the controller, or it is outside our namespace */
        WHY_OTHER_VERSION = -ENOSYS, /* this version of control groups has no such file */
        WHY_OTHER_CGROUP = -ELOOP,   /* in that hierarchy it is in another one, with other processes */
};

#define NO_LIMIT UINT64_MAX

struct container_limits {
        uint64_t quota_us, period_us, weight, shares; /* 0: no limit, or not known */
        double cpus, cpus_effective;
        uint64_t memory, memory_effective, memory_hierarchy;
        uint64_t high, swap, pids; /* NO_LIMIT: no limit, or not known; 0 swap: no swap at all */
        uint64_t n_cpus;
        char *cpuset;                                                    /* NULL: not known */
        int r_cpu, r_memory, r_high, r_swap, r_pids, r_cpuset, r_weight; /* results of reading them */
};

enum container_network { NETWORK_UNKNOWN, NETWORK_OWN, NETWORK_HOST, NETWORK_NO_MEMBER, NETWORK_DENIED };

/* The text of a file as it was read last. */
struct container_text {
        char *at;
        size_t size, cap;
};

struct container {
        uint64_t id, inode;
        char *path; /* in its hierarchy */
        char cid[80], name[256], pod[40], qos[16];
        const char *runtime; /* NULL: not known */
        int version;

        char *dir[INFP_CG_N]; /* below the root directory; NULL: not available, see why[] */
        uint16_t base_size[INFP_CG_N];
        bool is_v2[INFP_CG_N];
        int why[INFP_CG_N];

        int fd[FILE_N];           /* -1: not open */
        bool is_scarce[FILE_N];   /* few descriptors are left: closed after each read */
        int r[FILE_N];            /* of the last read */
        bool is_hopeless[FILE_N]; /* no such file: not opened again before the limits are read again */

        struct container_text kept[FILE_N]; /* of files that are not read while it does not run; v1 only */
        uint64_t usage_ns;                  /* CPU time, to see whether it ran */
        bool has_usage;
        bool is_all_read;       /* at this sample, whether it ran or not */
        unsigned n_still;       /* consecutive samples without a run since the one before */
        unsigned n_same_memory; /* consecutive samples with the same memory as the one before */

        uint64_t last_valid[2]; /* of the sample before */
        union infp_cell last[C_N];

        struct container_limits limits;
        uint64_t limits_ns, procs_ns; /* when they were read; 0: never */
        int32_t pid;                  /* a member; 0: none */
        int pid_fd;                   /* its directory in /proc; -1 */
        enum container_network network;
        uint32_t n_members, n_others; /* n_others: not the target's, found twice in a row */
        uint32_t n_others_now;
        bool has_infprof, has_looked;

        bool is_target, is_found; /* of the target; found by --containers; neither: it is dropped */
        bool is_gone, is_said;    /* its directory is gone; its entity row is written */
        bool is_seen;             /* by the current look at the target */
        int32_t said_pid;
};

/* A directory of cgroupfs that the search has seen. */
struct found_dir {
        char *path;    /* below the root directory */
        uint64_t hash; /* of it */
        uint64_t inode;
        uint32_t n_links;
        bool is_container, is_new, is_gone;
};

struct container_finder {
        struct found_dir *dirs;
        size_t n, cap;
        size_t base_size;
        const char *root;                /* the part of the hierarchy that is mounted; "" is the whole */
        enum infp_controller controller; /* the hierarchy that is walked */
        bool is_v2, is_full;             /* there are more directories than the list can hold */
        uint64_t next_ns, next_full_ns, next_deep_ns;
};

/* A block device, looked up once. */
struct block_device {
        uint32_t major, minor;
        char name[32];
        uint32_t lower[8][2]; /* whole disks under it */
        uint8_t n_lower;
        bool is_virtual; /* loop, zram, ram: their bytes are counted elsewhere, or reach no disk */
};

struct block_devices {
        struct block_device *list;
        unsigned n, cap;
};

/* Processes with the same text in /proc/PID/cgroup are in the same container. */
enum { CONTAINER_SEEN = 64, CONTAINER_TARGETS = 32 };
struct container_seen {
        uint64_t hash;
        struct container *container; /* NULL: none, r says why */
        int r;
};

/* Limits of a directory above containers, read once for all its children. */
enum { CONTAINER_LEVELS = 64 };
struct container_level {
        uint64_t hash, t_ns; /* t_ns: when it was read */
        double cpus;
        uint64_t memory;
};

struct containers {
        struct infp_cgroups cgroups;
        struct infp_cgroup_paths paths, own; /* scratch; of infprof itself */
        bool all, has_sampled, has_run;      /* has_run: the target had processes */
        struct container_seen seen[CONTAINER_SEEN];
        unsigned n_seen;
        int target_r;    /* why the target has no container: the reason of the last of its processes without one */
        uint64_t has[2]; /* cells that some container had at this sample */
        struct container **list;
        size_t n, cap;
        struct container_finder finder;
        struct block_devices devices;
        uint64_t now_ns, next_target_ns, next_look_ns, look_step_ns;
        uint64_t pids_hash; /* of the target's processes whose cgroups were last read */
        struct container_level levels[CONTAINER_LEVELS];
        uint64_t net_of_machine;    /* the network namespace that is the machine's; 0: not known */
        uint64_t net_of_machine_ns; /* of the sample that looked it up */
        int32_t pids[CONTAINER_PIDS];
        size_t n_pids;
        char text[READ_TEXT], small[4096];
};

/* The mode of the run; HOST where there is no target at all (one sample in a test). */
enum infp_mode container_mode(const struct infp_env *env);

/* open.c. The container that the paths of a process belong to; if there is none and `any`, the process's own cgroup. NULL sets
 * *ret_r: -ENOENT no container, -EXDEV the whole machine, -EACCES, -ENOMEM. */
struct container *container_of_paths(struct containers *s, const struct infp_env *env,
                                     const struct infp_cgroup_paths *paths, bool any, int *ret_r);
/* The container at this directory of the hierarchy that the search walks. */
struct container *container_of_dir(struct containers *s, const struct infp_env *env, const char *dir, int *ret_r);
struct container *container_free(struct container *c); /* NULL is fine; returns NULL */
void container_close_files(struct container *c);

/* open.c. Looks for new and vanished directories when due; calls back for each new container. 0 or -ENOMEM. */
int container_find(struct containers *s, const struct infp_env *env,
                   void (*found)(struct containers *s, const struct infp_env *env, const char *dir));
void container_finder_done(struct container_finder *finder);

/* limits.c */
void container_read_limits(struct containers *s, const struct infp_env *env, struct container *c);
void container_read_members(struct containers *s, const struct infp_env *env, struct container *c);
void container_fill_limits(const struct container *c, struct infp_row *row);

/* read.c. One row, and those of its CPUs and devices. -ENODEV: it is gone. */
int container_sample(struct containers *s, const struct infp_env *env, struct infp_emit *emit, struct container *c);
/* The file of a cell of the row; false: none. */
bool container_file_of_cell(const struct container *c, unsigned cell, enum container_file *ret);

/* read.c. The place of a file and its name in this version; NULL: that version has none. */
enum infp_controller container_controller(const struct container *c, enum container_file file);
const char *container_file_name(const struct container *c, enum container_file file);
/* Into s->text; the descriptor is kept. 1: it cannot have changed since the sample before and is not read; *ret is its last
 * text. */
int container_read_file(struct containers *s, const struct infp_env *env, struct container *c, enum container_file file,
                        struct infp_span *ret);

/* device.c: bytes and calls of all devices, into the row and rows of their own. */
void container_devices(struct containers *s, const struct infp_env *env, struct infp_emit *emit, struct container *c,
                       struct infp_row *sums);
void container_devices_done(struct block_devices *devices);

/* why.c: reports why values are missing, and who else the target's container counts. */
void container_explain(struct containers *s, const struct infp_env *env, struct infp_emit *emit);
void container_explain_one(const struct containers *s, struct infp_emit *emit, const struct container *c,
                           const uint64_t missing[2], bool by_name);

/* read.c */
void container_find_network(struct containers *s, const struct infp_env *env, struct container *c);
