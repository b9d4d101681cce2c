/* Open cards of processes: found by the links of /proc/PID/fd (a link can be read without touching what it points at, which may
 * be a file system that hangs), read from /proc/PID/fdinfo. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/procfile.h"
#include "base/sort.h"
#include "base/time.h"
#include "collect/target.h"
#include "collectors/gpu/drm/users.h"

/* Links read in one sample, about 1 us each; of one process; and how often all processes are listed. */
enum { BUDGET = 4096, LINKS_OF_ONE = 65536, CLIENTS_MAX = 4096, LOOKED_MAX = 65536 };
static const uint64_t first_step_ns = INFP_NS_PER_S, last_step_ns = 32 * INFP_NS_PER_S;
static const uint64_t list_period_ns = 5 * INFP_NS_PER_S;
/* Two readings of the clock lie some microseconds off the driver's. */
static const double slack = 1.05;

#define DRI "/dev/dri/"

static bool grow(void **list, size_t *cap, size_t need, size_t size)
{
        size_t more = *cap ? *cap : 16;
        void *grown;

        if (need <= *cap)
                return true;
        while (more < need)
                more *= 2;
        grown = reallocarray(*list, more, size);
        if (!grown)
                return false;
        *list = grown;
        *cap = more;
        return true;
}

static struct gpu_looked *looked_of(const struct gpu_users *users, int32_t pid)
{
        size_t low = 0, high = users->n_looked;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (users->looked[middle].pid < pid)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < users->n_looked && users->looked[low].pid == pid ? &users->looked[low] : NULL;
}

/* Appends to the new list; what is known of the pid goes over. */
static bool take_pid(struct gpu_users *users, size_t *n, int32_t pid)
{
        const struct gpu_looked *known = looked_of(users, pid);

        if (*n == LOOKED_MAX || !grow((void **) &users->merged, &users->cap_merged, *n + 1, sizeof(*users->merged)))
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

static int compare(const void *a, const void *b)
{
        int32_t x = ((const struct gpu_looked *) a)->pid, y = ((const struct gpu_looked *) b)->pid;

        return x < y ? -1 : x > y;
}

static bool to_number(const char *name, int32_t *ret)
{
        int64_t n = 0;

        if (!isdigit((unsigned char) *name))
                return false;
        for (; isdigit((unsigned char) *name) && n <= INT32_MAX; name++)
                n = n * 10 + (*name - '0');
        *ret = (int32_t) n;
        return !*name && n <= INT32_MAX;
}

/* procfs lists pids in their order; a directory of files need not. */
static void list_all(struct gpu_users *users, int root_fd)
{
        infp_autoclose int fd = openat(root_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _Alignas(struct dirent64) char buffer[8192];
        bool is_sorted = true;
        size_t n_pids = 0;
        ssize_t n;

        while (fd >= 0 && (n = getdents64(fd, buffer, sizeof(buffer))) > 0)
                for (ssize_t at = 0; at < n;) {
                        const struct dirent64 *entry = (const void *) (buffer + at);
                        int32_t pid;

                        at += entry->d_reclen;
                        if (!to_number(entry->d_name, &pid) || pid <= 0 || !take_pid(users, &n_pids, pid))
                                continue;
                        is_sorted &= n_pids < 2 || users->merged[n_pids - 2].pid < pid;
                }
        swap_lists(users, n_pids);
        if (!is_sorted)
                infp_sort(users->looked, n_pids, sizeof(*users->looked), compare);
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
        /* bound: more open GPU files than a machine has clients */
        if (is_known(users, pid, fd) || users->n_clients == CLIENTS_MAX)
                return;
        card = card_of_node(cards, env->root_fd, link + strlen(DRI));
        if (!card ||
            !grow((void **) &users->clients, &users->cap_clients, users->n_clients + 1, sizeof(*users->clients)))
                return;
        users->clients[users->n_clients++] = (struct gpu_client){ .card = card, .pid = pid, .fd = fd };
}

/* Returns how many links were read; -EACCES: somebody else's process. */
static int look_at(struct gpu_users *users, const struct infp_env *env, const struct gpu_cards *cards, int32_t pid)
{
        char path[64];
        infp_autoclose int fd = -1;
        _Alignas(struct dirent64) char buffer[4096];
        int n_links = 0;
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%" PRId32 "/fd", pid);
        fd = openat(env->root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return errno == EACCES || errno == EPERM ? -EACCES : 0;
        /* bound: one process must not hold up the look at all others */
        while (n_links < LINKS_OF_ONE && (n = getdents64(fd, buffer, sizeof(buffer))) > 0)
                for (ssize_t at = 0; at < n;) {
                        const struct dirent64 *entry = (const void *) (buffer + at);

                        take_descriptor(users, env, cards, fd, pid, entry->d_name);
                        at += entry->d_reclen;
                        n_links++;
                }
        return n_links;
}

static size_t index_of(const struct gpu_users *users, int32_t pid)
{
        size_t i = 0;

        while (i < users->n_looked && users->looked[i].pid < pid)
                i++;
        return i;
}

/* Those whose turn it is, until the budget is spent: the next look goes on there, even if others are due again by then. */
static void look(struct gpu_users *users, const struct infp_env *env, const struct gpu_cards *cards, uint64_t now_ns)
{
        const size_t first = index_of(users, users->next_pid);
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

/* A value may go down for a moment: the larger stays until it is passed. dt_ns 0: the client is new. */
static void count_busy(struct gpu_user *user, int engine, const struct gpu_engine_use *now, struct gpu_engine_use *last,
                       uint64_t dt_ns)
{
        const uint64_t more = now->busy_ns > last->busy_ns ? now->busy_ns - last->busy_ns : 0;
        const double most = (double) dt_ns * now->capacity;

        if (more)
                last->busy_ns = now->busy_ns;
        /* More than the time that has passed cannot have been used in it: a driver that adds up late. */
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
        if (!client->has_id || client->id != info.client) { /* new, or another after the same number */
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

                /* Drivers of Intel wake a card for this text. */
                if (client->card->state != GPU_AWAKE)
                        client->t_ns = 0;
                else
                        read_client(users, env, client);
        }
        drop_lost(users);
}
