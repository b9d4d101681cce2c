#include "collectors/gpu/drm/users.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/number.h"
#include "base/procfile.h"
#include "base/rights.h"
#include "base/sort.h"
#include "base/text.h"
#include "base/time.h"
#include "collect/process_stat.h"
#include "collect/target.h"
#include "collectors/gpu/account.h"
#include "collectors/gpu/bounds.h"
#include "model/id.h"

/* Open cards of processes: found by the links of /proc/PID/fd (a link can be read without touching its target, which may be
 * on a file system that hangs), read from /proc/PID/fdinfo. */

/* Links read in one sample, about 1 us each; of one process; and how often all processes are listed. */
enum { BUDGET = 4096, LINKS_OF_ONE = 65536, CLIENTS_MAX = 4096, LOOKED_MAX = 65536 };
static const uint64_t first_step_ns = INFP_NS_PER_S, last_step_ns = 32 * INFP_NS_PER_S;
static const uint64_t list_period_ns = 5 * INFP_NS_PER_S;
/* Two clock readings are some microseconds off the driver's. */
static const double slack = 1.05;

#define DRI "/dev/dri/"

/* Appends to the new list, with what is known of the pid. */
static bool take_pid(struct gpu_users *users, size_t *n, int32_t pid)
{
        const struct gpu_looked *known = infp_find_i32(users->looked, users->n_looked, sizeof(*users->looked), pid);

        if (*n == LOOKED_MAX || !INFP_MAKE_ROOM(users->merged, *n, users->cap_merged, 16))
                return false;
        users->merged[(*n)++] = known ? *known : (struct gpu_looked){ .pid = pid, .step_ns = first_step_ns };
        return true;
}

static void swap_lists(struct gpu_users *users, size_t n)
{
        struct gpu_looked *list = users->looked;
        size_t cap = users->cap_looked;

        users->looked = users->merged;
        users->cap_looked = users->cap_merged;
        users->n_looked = n;
        users->merged = list;
        users->cap_merged = cap;
}

static bool to_number(const char *name, int32_t *ret)
{
        uint64_t n;

        if (infp_parse_u64(name, strlen(name), &n) || n > INT32_MAX)
                return false;
        *ret = (int32_t) n;
        return true;
}

/* procfs lists pids in order; a directory of files need not. */
static void list_all(struct gpu_users *users, int root_fd)
{
        infp_autoclose int fd = openat(root_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct infp_names names;
        const char *name;
        int32_t pid;
        bool is_sorted = true;
        size_t n_pids = 0;

        infp_names_begin(&names, fd);
        while ((name = infp_names_next(&names)))
                if (to_number(name, &pid) && pid > 0 && take_pid(users, &n_pids, pid))
                        is_sorted &= n_pids < 2 || users->merged[n_pids - 2].pid < pid;
        swap_lists(users, n_pids);
        if (!is_sorted)
                infp_sort(users->looked, n_pids, sizeof(*users->looked), infp_compare_i32);
}

static void list_tree(struct gpu_users *users)
{
        size_t n_pids = 0;

        for (size_t i = 0; i < users->tree.n; i++)
                take_pid(users, &n_pids, users->tree.pids[i]);
        swap_lists(users, n_pids);
}

static bool is_known(const struct gpu_users *users, int32_t pid, int fd)
{
        for (size_t i = 0; i < users->n_clients; i++)
                if (users->clients[i].pid == pid && users->clients[i].fd == fd)
                        return true;
        return false;
}

/* "renderD128" or "card0": the card whose device it is; NULL: none of ours. */
static struct gpu_card *card_of_node(const struct gpu_cards *cards, int root_fd, const char *node)
{
        struct infp_span rest, line, value;
        char path[64], text[1024], pci[GPU_PCI_NAME];
        ssize_t n;

        if (strlen(node) > 20 || strspn(node, "abcdefghijklmnopqrstuvwxyzD0123456789") != strlen(node))
                return NULL;
        snprintf(path, sizeof(path), "sys/class/drm/%s/device/uevent", node);
        n = infp_read_at(root_fd, path, text, sizeof(text));
        rest = (struct infp_span){ text, n > 0 ? (size_t) n : 0 };
        while (infp_span_line(&rest, &line)) {
                if (!infp_span_is(infp_span_cut(line, '=', &value), "PCI_SLOT_NAME") || value.size >= sizeof(pci))
                        continue;
                memcpy(pci, value.at, value.size);
                pci[value.size] = 0;
                return infp_gpu_card_by_pci(cards, pci);
        }
        return NULL;
}

static void take_descriptor(struct gpu_users *users, const struct infp_env *env, const struct gpu_cards *cards,
                            int dir_fd, int32_t pid, const char *name)
{
        char link[64];
        ssize_t n = readlinkat(dir_fd, name, link, sizeof(link) - 1);
        struct gpu_card *card;
        int32_t fd;

        if (n <= (ssize_t) strlen(DRI) || strncmp(link, DRI, strlen(DRI)) || !to_number(name, &fd))
                return;
        link[n] = 0;
        /* bound: no machine has so many open GPU files */
        if (is_known(users, pid, fd) || users->n_clients == CLIENTS_MAX)
                return;
        card = card_of_node(cards, env->root_fd, link + strlen(DRI));
        if (!card || !INFP_MAKE_ROOM(users->clients, users->n_clients, users->cap_clients, 16))
                return;
        users->clients[users->n_clients++] = (struct gpu_client){ .card = card, .pid = pid, .fd = fd };
}

/* Returns the number of links that were read; -EACCES: another user's process. */
static int look_at(struct gpu_users *users, const struct infp_env *env, const struct gpu_cards *cards, int32_t pid)
{
        char path[64];
        infp_autoclose int fd = -1;
        struct infp_names names;
        const char *name;
        int n_links = 0;

        snprintf(path, sizeof(path), "proc/%" PRId32 "/fd", pid);
        fd = openat(env->root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return errno == EACCES || errno == EPERM ? -EACCES : 0;
        infp_names_begin(&names, fd);
        /* bound: one process must not hold up all others */
        while (n_links < LINKS_OF_ONE && (name = infp_names_next(&names))) {
                take_descriptor(users, env, cards, fd, pid, name);
                n_links++;
        }
        return n_links;
}

/* Looks at processes whose turn it is, until the budget is spent: the next look continues there, even if others are due again
 * by then. */
static void look(struct gpu_users *users, const struct infp_env *env, const struct gpu_cards *cards, uint64_t now_ns)
{
        const size_t first = infp_first_i32(users->looked, users->n_looked, sizeof(*users->looked), users->next_pid);
        int budget = BUDGET;

        users->next_pid = 0;
        for (size_t i = 0; i < users->n_looked; i++) {
                struct gpu_looked *looked = &users->looked[(first + i) % users->n_looked];
                int r;

                if (looked->look_ns > now_ns)
                        continue;
                if (budget <= 0) {
                        users->next_pid = looked->pid;
                        return;
                }
                r = look_at(users, env, cards, looked->pid);
                budget -= r > 0 ? r : 1;
                looked->is_denied = r == -EACCES;
                looked->look_ns = now_ns + looked->step_ns;
                looked->step_ns = looked->step_ns < last_step_ns ? 2 * looked->step_ns : last_step_ns;
        }
}

static void note_percent(struct gpu_user *user, int engine, double percent)
{
        user->percent[engine] += percent;
        user->has_percent[engine] = true;
}

static void note_busy(struct gpu_user *user, int engine, uint64_t ns)
{
        user->busy_ns[engine] += ns;
        user->has_busy[engine] = true;
}

/* A value may decrease for a moment: the larger stays until it is passed. dt_ns 0: the client is new. */
static void count_busy(struct gpu_user *user, int engine, const struct gpu_engine_use *now, struct gpu_engine_use *last,
                       uint64_t dt_ns)
{
        const uint64_t more = now->busy_ns > last->busy_ns ? now->busy_ns - last->busy_ns : 0;
        const double most = (double) dt_ns * now->capacity;

        if (more)
                last->busy_ns = now->busy_ns;
        /* More than the elapsed time cannot have been used in it: a driver that adds up late. */
        if (dt_ns && (double) more <= most * slack)
                note_percent(user, engine, (double) more >= most ? 100 : 100 * (double) more / most);
        note_busy(user, engine, more);
}

static void count_cycles(struct gpu_user *user, int engine, const struct gpu_engine_use *now,
                         struct gpu_engine_use *last, uint64_t dt_ns)
{
        const uint64_t more = now->cycles > last->cycles ? now->cycles - last->cycles : 0;
        const uint64_t total = now->total_cycles > last->total_cycles ? now->total_cycles - last->total_cycles : 0;
        double share;

        if (more)
                last->cycles = now->cycles;
        last->total_cycles = now->total_cycles;
        if (!dt_ns || !total)
                return;
        share = (double) more / (double) total;
        if (share > slack * now->capacity)
                return;
        note_percent(user, engine, share >= now->capacity ? 100 : 100 * share / now->capacity);
        note_busy(user, engine, (uint64_t) (share * (double) dt_ns));
}

static void count(struct gpu_user *user, const struct gpu_fdinfo *info, struct gpu_client *client, uint64_t dt_ns)
{
        for (int i = 0; i < GPU_ENGINE_N; i++) {
                const struct gpu_engine_use *now = &info->engine[i];

                if (now->has_busy)
                        count_busy(user, i, now, &client->last[i], dt_ns);
                else if (now->has_cycles)
                        count_cycles(user, i, now, &client->last[i], dt_ns);
                else if (now->has_percent)
                        note_percent(user, i, now->percent < 100 ? now->percent : 100);
        }
        if (info->has_vram) {
                user->vram_bytes += info->vram_bytes;
                user->has_vram = true;
        }
        if (info->has_system) {
                user->system_bytes += info->system_bytes;
                user->has_system = true;
        }
}

/* The same opening through a descriptor that was read before: dup(), or a child that inherited it. */
static bool is_counted(const struct gpu_users *users, const struct gpu_client *client)
{
        for (const struct gpu_client *other = users->clients; other < client; other++)
                if (other->is_read && other->card == client->card && other->id == client->id)
                        return true;
        return false;
}

static void read_client(struct gpu_users *users, const struct infp_env *env, struct gpu_client *client)
{
        const uint64_t t_ns = env->now_ns(env);
        struct gpu_fdinfo info;
        struct gpu_user *user;
        char path[64];
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%" PRId32 "/fdinfo/%d", client->pid, client->fd);
        n = infp_read_at(env->root_fd, path, users->text, sizeof(users->text));
        if (n == -EMFILE || n == -ENFILE)
                return;
        if (n <= 0 || !infp_gpu_fdinfo_parse(users->text, (size_t) n, &info) || !info.has_client) {
                client->is_lost = true;
                return;
        }
        if (!client->has_id || client->id != info.client) { /* new, or another one with the same number */
                memset(client->last, 0, sizeof(client->last));
                client->t_ns = 0;
                client->id = info.client;
                client->has_id = true;
        }
        if (is_counted(users, client)) {
                client->is_lost = true;
                return;
        }
        client->is_read = true;
        user = infp_gpu_user(users, client->card, client->pid);
        if (user)
                count(user, &info, client, client->t_ns && t_ns > client->t_ns ? t_ns - client->t_ns : 0);
        client->t_ns = t_ns;
}

static void drop_lost(struct gpu_users *users)
{
        size_t kept = 0;

        for (size_t i = 0; i < users->n_clients; i++)
                if (!users->clients[i].is_lost && !users->clients[i].card->is_gone)
                        users->clients[kept++] = users->clients[i];
        users->n_clients = kept;
}

void infp_gpu_clients_read(struct gpu_users *users, const struct infp_env *env, const struct gpu_cards *cards,
                           uint64_t now_ns)
{
        if (!users->all)
                list_tree(users);
        else if (!users->list_ns || now_ns - users->list_ns >= list_period_ns || !env->is_live) {
                users->list_ns = now_ns;
                list_all(users, env->root_fd);
        }
        look(users, env, cards, now_ns);
        for (size_t i = 0; i < users->n_clients; i++)
                users->clients[i].is_read = false;
        for (size_t i = 0; i < users->n_clients; i++) {
                struct gpu_client *client = &users->clients[i];

                /* Intel's drivers wake a card for this text. */
                if (client->card->state != GPU_AWAKE)
                        client->t_ns = 0;
                else
                        read_client(users, env, client);
        }
        drop_lost(users);
}

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
        /* bound: no machine has so many processes on its GPUs */
        if (users->n_users == USERS_MAX || !INFP_MAKE_ROOM(users->users, users->n_users, users->cap_users, 16))
                return NULL;
        user = &users->users[users->n_users++];
        *user = (struct gpu_user){ .card = card, .pid = pid, .is_live = true };
        return user;
}

/* Another process may have the pid by now: then nothing that is known holds. False: it has ended. */
static bool know(const struct infp_env *env, struct gpu_user *user)
{
        struct infp_process process;
        const int r = infp_process_stat_read(env->root_fd, user->pid, &process);

        if (r == -ENOENT || r == -ESRCH)
                return false;
        if (r < 0)
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

                /* What sleeping cards held stays known until the process ends. */
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

/* Memory beyond the card's is not known; a buffer that two files share may count in both. */
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
        /* Without -p not all processes are looked at. */
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

/* C: it computes, G: it draws; unknown before it has done either. */
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
                infp_row_foreign(row, GPU_PROCESS_UUID, card->uuid);
                infp_row_i64(row, GPU_PROCESS_PID, user->pid);
                infp_row_str(row, GPU_PROCESS_VENDOR, vendor);
                infp_row_foreign(row, GPU_PROCESS_NAME, user->name);
                put_type(user, row);
                infp_row_bool(row, GPU_PROCESS_IS_HOST_PID, user->is_kfd && !users->pids_are_ours);
                if (users->has_target)
                        infp_row_bool(row, GPU_PROCESS_IN_TREE, user->in_tree);
                infp_row_foreign(row, GPU_PROCESS_CONTAINER, user->container);
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
                if (users->is_account_due && user->in_tree && user->id && user->has_vram)
                        infp_gpu_account_put(emit, t_ns, user->id, card->uuid, user->vram_bytes);
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
                infp_emit_source(emit, table, -1, NULL, INFP_DENIED,
                                 "the open files of some processes cannot be read: their use of the GPU is missing",
                                 infp_rights_fix(INFP_MAY_TRACE));
        } else {
                infp_emit_source(emit, table, -1, NULL, INFP_OK, NULL, NULL);
        }
}
