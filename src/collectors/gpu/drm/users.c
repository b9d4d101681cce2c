#include "collectors/gpu/drm/users.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/rights.h"
#include "base/text.h"
#include "base/time.h"
#include "collect/process_stat.h"
#include "collect/target.h"
#include "collectors/gpu/bounds.h"
#include "model/id.h"

enum { USERS_MAX = 4096, REST = 9 /* times the CPU time of a sample */ };

void infp_gpu_users_open(struct gpu_users *users, const struct infp_env *env)
{
        users->pids_are_ours = infp_gpu_pids_are_ours(env);
        users->all = env->target && infp_target_all(env->target);
        users->has_target = env->target && infp_target_mode(env->target) != INFP_MODE_HOST;
}

void infp_gpu_users_done(struct gpu_users *users)
{
        infp_gpu_tree_done(&users->tree);
        free(users->looked);
        free(users->merged);
        free(users->clients);
        free(users->users);
        infp_str_done(&users->words);
}

bool infp_gpu_users_begin_cost(struct gpu_users *users, const struct infp_env *env, uint64_t now_ns)
{
        if (env->stats && now_ns < users->rest_until_ns)
                return false;
        users->begun_cpu_ns = infp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        return true;
}

void infp_gpu_users_end_cost(struct gpu_users *users, const struct infp_env *env)
{
        users->rest_until_ns = env->now_ns(env) + REST * (infp_clock_ns(CLOCK_THREAD_CPUTIME_ID) - users->begun_cpu_ns);
}

void infp_gpu_users_begin(struct gpu_users *users, const struct infp_env *env)
{
        infp_gpu_tree_read(&users->tree, env);
        for (size_t i = 0; i < users->n_users; i++) {
                struct gpu_user *user = &users->users[i];

                user->is_live = user->is_kfd = user->has_vram = user->has_system = false;
                user->has_kfd_vram = user->has_copy = false;
                user->vram_bytes = user->system_bytes = user->kfd_vram_bytes = user->copy_ns = 0;
                user->occupied = user->units = 0;
                memset(user->has_percent, 0, sizeof(user->has_percent));
                memset(user->percent, 0, sizeof(user->percent));
        }
}

struct gpu_user *infp_gpu_user(struct gpu_users *users, struct gpu_card *card, int32_t pid)
{
        struct gpu_user *user;

        for (size_t i = 0; i < users->n_users; i++) {
                user = &users->users[i];
                if (user->card == card && user->pid == pid) {
                        user->is_live = true;
                        return user;
                }
        }
        if (users->n_users == users->cap_users) {
                size_t cap = users->cap_users ? 2 * users->cap_users : 16;
                struct gpu_user *grown =
                        cap <= USERS_MAX ? reallocarray(users->users, cap, sizeof(*users->users)) : NULL;

                if (!grown)
                        return NULL;
                users->users = grown;
                users->cap_users = cap;
        }
        user = &users->users[users->n_users++];
        *user = (struct gpu_user){ .card = card, .pid = pid, .is_live = true };
        return user;
}

/* Another process may have the pid by now: all that is known of it is that of the one that was before. False: it has ended. */
static bool know(const struct infp_env *env, struct gpu_user *user)
{
        struct infp_process process = { 0 };
        char file[64], text[1024];
        ssize_t n;

        snprintf(file, sizeof(file), "proc/%" PRId32 "/stat", user->pid);
        n = infp_read_at(env->root_fd, file, text, sizeof(text));
        if (n == -ENOENT || n == -ESRCH)
                return false;
        if (n <= 0 || infp_process_stat_parse(text, (size_t) n, &process) < 0)
                return true;
        if (user->is_known && user->start_ticks == process.start_ticks)
                return true;
        user->start_ticks = process.start_ticks;
        user->id = *env->boot_id ? infp_process_id(env->boot_id, user->pid, process.start_ticks) : 0;
        snprintf(user->name, sizeof(user->name), "%.*s", (int) process.comm_size, process.comm);
        infp_gpu_container(env, user->pid, user->container);
        user->is_known = true;
        return true;
}

void infp_gpu_users_end(struct gpu_users *users, const struct infp_env *env)
{
        size_t kept = 0;

        for (size_t i = 0; i < users->n_users; i++) {
                struct gpu_user *user = &users->users[i];

                /* What asleep cards held stays known until the process ends. */
                if (!user->is_live && user->card->state == GPU_AWAKE)
                        continue;
                if (users->pids_are_ours && !know(env, user))
                        continue;
                user->in_tree = infp_gpu_tree_has(&users->tree, user->pid);
                if (user->has_kfd_vram && user->kfd_vram_bytes > user->vram_bytes)
                        user->vram_bytes = user->kfd_vram_bytes;
                user->has_vram |= user->has_kfd_vram;
                users->users[kept++] = *user;
        }
        users->n_users = kept;
}

bool infp_gpu_card_is_used(const struct gpu_users *users, const struct gpu_card *card)
{
        for (size_t i = 0; i < users->n_clients; i++)
                if (users->clients[i].card == card)
                        return true;
        for (size_t i = 0; i < users->n_users; i++)
                if (users->users[i].card == card && users->users[i].is_live)
                        return true;
        return false;
}

/* Memory beyond what the card has is not known; a buffer that two files share may count in both. */
static void refuse_memory(struct gpu_users *users, const struct gpu_card *card, const struct infp_row *row)
{
        const bool has_total = infp_row_has(row, GPU_MEMORY_TOTAL_BYTES);
        const uint64_t most = has_total ? (uint64_t) row->cell[GPU_MEMORY_TOTAL_BYTES].i64 : INT64_MAX;

        users->refused_bytes = 0;
        for (size_t i = 0; i < users->n_users; i++) {
                struct gpu_user *user = &users->users[i];

                if (user->card != card || !user->is_live || user->vram_bytes <= most)
                        continue;
                users->refused_bytes = user->vram_bytes;
                user->has_vram = false;
        }
}

void infp_gpu_users_put(struct gpu_users *users, const struct gpu_card *card, struct infp_row *row)
{
        struct infp_json json;
        char text[320], memory[32];
        int64_t n = 0;

        refuse_memory(users, card, row);
        infp_str_clear(&users->words);
        infp_json_begin(&json, &users->words, 0);
        infp_json_array(&json);
        for (size_t i = 0; i < users->n_users; i++) {
                const struct gpu_user *user = &users->users[i];
                char name[256];

                if (user->card != card || !user->is_live)
                        continue;
                n++;
                name[infp_text_escape(user->name, strlen(user->name), name, sizeof(name) - 1)] = 0;
                snprintf(memory, sizeof(memory), "%" PRIu64 " MB", user->vram_bytes >> 20);
                snprintf(text, sizeof(text), "%" PRId32 ": %s (%s)", user->pid, *name ? name : "?",
                         user->has_vram || !user->vram_bytes ? memory : "memory not known");
                infp_json_str(&json, text);
        }
        infp_json_array_end(&json);
        /* Of processes that nobody looked at nothing is known. */
        if (users->all)
                infp_row_i64(row, GPU_PROCESS_COUNT, n);
        if ((users->all || n) && users->words.data && !users->words.failed)
                infp_row_str(row, GPU_PROCESSES, users->words.data);
}

static void put_percent(struct infp_row *row, unsigned cell, const struct gpu_user *user, enum gpu_engine a,
                        enum gpu_engine b)
{
        const double percent = user->percent[a] + (a != b ? user->percent[b] : 0);

        if (user->has_percent[a] || user->has_percent[b])
                infp_gpu_put(row, cell, percent < 100 ? percent : 100);
}

static void put_ns(struct infp_row *row, unsigned cell, bool has, uint64_t ns)
{
        if (has && ns <= INT64_MAX)
                infp_row_i64(row, cell, (int64_t) ns);
}

/* C: it computes, G: it draws; nothing is known of one that has done neither yet. */
static void put_type(const struct gpu_user *user, struct infp_row *row)
{
        const bool computes =
                user->is_kfd || user->busy_ns[GPU_ENGINE_COMPUTE] || user->percent[GPU_ENGINE_COMPUTE] > 0;
        const bool draws = user->busy_ns[GPU_ENGINE_RENDER] || user->percent[GPU_ENGINE_RENDER] > 0;

        if (computes || draws)
                infp_row_str(row, GPU_PROCESS_TYPE, computes && draws ? "CG" : computes ? "C" : "G");
}

static void put_engines(const struct gpu_user *user, struct infp_row *row)
{
        put_percent(row, GPU_PROCESS_SM, user, GPU_ENGINE_RENDER, GPU_ENGINE_COMPUTE);
        put_percent(row, GPU_PROCESS_ENCODER, user, GPU_ENGINE_ENCODE, GPU_ENGINE_ENCODE);
        put_percent(row, GPU_PROCESS_DECODER, user, GPU_ENGINE_VIDEO, GPU_ENGINE_VIDEO);
        put_percent(row, GPU_PROCESS_JPEG, user, GPU_ENGINE_JPEG, GPU_ENGINE_JPEG);
        put_ns(row, GPU_PROCESS_RENDER_NS, user->has_busy[GPU_ENGINE_RENDER], user->busy_ns[GPU_ENGINE_RENDER]);
        put_ns(row, GPU_PROCESS_COMPUTE_NS, user->has_busy[GPU_ENGINE_COMPUTE], user->busy_ns[GPU_ENGINE_COMPUTE]);
        put_ns(row, GPU_PROCESS_COPY_NS, user->has_busy[GPU_ENGINE_COPY] || user->has_copy,
               user->busy_ns[GPU_ENGINE_COPY] + (user->has_copy ? user->copy_ns : 0));
        put_ns(row, GPU_PROCESS_VIDEO_NS, user->has_busy[GPU_ENGINE_VIDEO] || user->has_busy[GPU_ENGINE_ENHANCE],
               user->busy_ns[GPU_ENGINE_VIDEO] + user->busy_ns[GPU_ENGINE_ENHANCE]);
        put_ns(row, GPU_PROCESS_ENCODE_NS, user->has_busy[GPU_ENGINE_ENCODE], user->busy_ns[GPU_ENGINE_ENCODE]);
}

void infp_gpu_users_emit(const struct gpu_users *users, const struct gpu_card *card, struct infp_emit *emit,
                         const struct infp_table *table, const char *vendor, uint64_t t_ns)
{
        infp_gpu_say_memory(emit, table, card->uuid, users->refused_bytes);
        for (size_t i = 0; i < users->n_users; i++) {
                const struct gpu_user *user = &users->users[i];
                struct infp_row *row;

                if (user->card != card || !user->is_live)
                        continue;
                row = infp_emit_begin(emit, table, t_ns);
                infp_row_i64(row, GPU_PROCESS_INDEX, card->index);
                infp_row_bytes(row, GPU_PROCESS_UUID, card->uuid, strlen(card->uuid));
                infp_row_i64(row, GPU_PROCESS_PID, user->pid);
                infp_row_str(row, GPU_PROCESS_VENDOR, vendor);
                if (*user->name)
                        infp_row_bytes(row, GPU_PROCESS_NAME, user->name, strlen(user->name));
                put_type(user, row);
                infp_row_bool(row, GPU_PROCESS_IS_HOST_PID, user->is_kfd && !users->pids_are_ours);
                if (users->has_target)
                        infp_row_bool(row, GPU_PROCESS_IN_TREE, user->in_tree);
                if (*user->container)
                        infp_row_bytes(row, GPU_PROCESS_CONTAINER, user->container, strlen(user->container));
                if (user->has_vram && user->vram_bytes <= INT64_MAX)
                        infp_row_i64(row, GPU_PROCESS_MEMORY_BYTES, (int64_t) user->vram_bytes);
                if (user->has_system && user->system_bytes <= INT64_MAX)
                        infp_row_i64(row, GPU_PROCESS_SYSTEM_MEMORY_BYTES, (int64_t) user->system_bytes);
                put_engines(user, row);
                if (user->id)
                        infp_row_id(row, GPU_PROCESS_ID, user->id);
                if (user->units && user->occupied <= user->units)
                        infp_gpu_put(row, GPU_PROCESS_OCCUPANCY, 100 * (double) user->occupied / (double) user->units);
                infp_emit_commit(emit);
        }
}

void infp_gpu_users_say(const struct gpu_users *users, struct infp_emit *emit, const struct infp_table *table)
{
        size_t n_denied = 0;

        for (size_t i = 0; i < users->n_looked; i++)
                n_denied += users->looked[i].is_denied;
        if (!users->all && !users->has_target) {
                infp_emit_source(emit, table, -1, NULL, INFP_ABSENT,
                                 INFP_NOT_ASKED "there is no target; -p looks at all processes", NULL);
        } else if (n_denied) {
                infp_emit_source(
                        emit, table, -1, NULL, INFP_DENIED,
                        "the open files of some processes may not be seen: what these use of the GPU is missing",
                        infp_rights_fix(INFP_MAY_TRACE));
        } else {
                infp_emit_source(emit, table, -1, NULL, INFP_OK, NULL, NULL);
        }
}
