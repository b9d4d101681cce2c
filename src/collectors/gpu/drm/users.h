/* Which processes use cards of the DRM drivers, and how much: one entry per process and card, filled from the cards that a
 * process has open (fdinfo) and, by amdgpu.c, from ROCm's own list; and their rows.
 *
 * Descriptors are looked for in processes of the target (with -p in all): soon after a process appears, then less and less
 * often, down to every half minute, and never more than BUDGET in a sample. Found ones are read at each sample. */
#pragma once

#include "base/str.h"
#include "collectors/gpu/drm/card.h"
#include "collectors/gpu/pids.h"

enum { GPU_FDINFO_TEXT = 16384 };

/* A process on a card. */
struct gpu_user {
        struct gpu_card *card;
        int32_t pid;
        uint64_t start_ticks, id; /* id 0: not known */
        char name[64], container[INFP_GPU_CONTAINER];
        bool is_known, in_tree;
        bool is_live; /* it was seen at this sample */
        bool is_kfd;  /* it computes through ROCm */

        bool has_vram, has_system;
        uint64_t vram_bytes, system_bytes;
        bool has_busy[GPU_ENGINE_N], has_percent[GPU_ENGINE_N];
        uint64_t busy_ns[GPU_ENGINE_N]; /* of all its clients, including closed ones */
        double percent[GPU_ENGINE_N];
        /* From KFD: memory, time of the copy engines, occupied compute units and their number. */
        bool has_kfd_vram, has_copy;
        uint64_t kfd_vram_bytes, copy_ns, occupied, units; /* units 0: not known */
};

/* One opening of a card, by the descriptor through which it is read. */
struct gpu_client {
        struct gpu_card *card;
        int32_t pid;
        int fd;
        uint64_t id, t_ns; /* t_ns: when it was read last */
        bool has_id, is_read, is_lost;
        struct gpu_engine_use last[GPU_ENGINE_N];
};

/* A process whose descriptors are looked at. */
struct gpu_looked {
        int32_t pid;
        bool is_denied;
        uint64_t look_ns, step_ns;
};

struct gpu_users {
        bool all, has_target, pids_are_ours;
        struct infp_gpu_tree tree;
        struct gpu_looked *looked, *merged; /* by pid */
        size_t n_looked, cap_looked, cap_merged;
        uint64_t list_ns;
        int32_t next_pid; /* where the next look continues */
        struct gpu_client *clients;
        size_t n_clients, cap_clients;
        struct gpu_user *users;
        size_t n_users, cap_users;
        char text[GPU_FDINFO_TEXT];
        struct infp_str words;
        uint64_t begun_cpu_ns, rest_until_ns;
        uint64_t account_ns; /* when memory_account is due again */
        bool is_account_due;
        uint64_t refused_bytes; /* impossible memory of a process of the card that was put last; 0: none */
};

void infp_gpu_users_open(struct gpu_users *users, const struct infp_env *env);
void infp_gpu_users_done(struct gpu_users *users);
/* A process with thousands of open cards makes each sample expensive. A recording spends at most a tenth of a CPU on it:
 * begin_cost is false while the collector must rest, end_cost measures what its thread has used since. */
bool infp_gpu_users_begin_cost(struct gpu_users *users, const struct infp_env *env, uint64_t now_ns);
void infp_gpu_users_end_cost(struct gpu_users *users, const struct infp_env *env);
/* At each sample: begin, the sources (clients, KFD), end. */
void infp_gpu_users_begin(struct gpu_users *users, const struct infp_env *env);
void infp_gpu_clients_read(struct gpu_users *users, const struct infp_env *env, const struct gpu_cards *cards,
                           uint64_t now_ns);
void infp_gpu_users_end(struct gpu_users *users, const struct infp_env *env);

/* The entry of a process on a card, made if there is none; NULL: no memory. Valid until the next call. */
struct gpu_user *infp_gpu_user(struct gpu_users *users, struct gpu_card *card, int32_t pid);
bool infp_gpu_card_is_used(const struct gpu_users *users, const struct gpu_card *card);

/* gProcessCount and gProcesses of a card. */
void infp_gpu_users_put(struct gpu_users *users, const struct gpu_card *card, struct infp_row *row);
void infp_gpu_users_emit(const struct gpu_users *users, const struct gpu_card *card, struct infp_emit *emit,
                         const struct infp_table *table, const char *vendor, uint64_t t_ns);
/* Reports whose processes were looked at. */
void infp_gpu_users_say(const struct gpu_users *users, struct infp_emit *emit, const struct infp_table *table);
