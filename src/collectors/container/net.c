/* The network of a container: /proc/PID/net/dev of one of its processes. A file of /proc/PID/net that stays open would keep the
 * namespace alive, and with it the interfaces of a container that was removed: it is opened anew each time. The directory of
 * the process is kept: it fails once the process has ended, even if another process has its pid now. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "collectors/container/state.h"
#include "collectors/fields.h"

/* The number in "net:[4026531833]" (or that of another kind), the text of the link; trees that cannot hold links have it in a file. 0: not available, errno. */
uint64_t container_net_of(const struct infp_env *env, int dir_fd, const char *path)
{
        char text[64];
        ssize_t n = readlinkat(dir_fd, path, text, sizeof(text) - 1);
        struct infp_span rest = { "", 0 };
        uint64_t ret = 0;

        if (n < 0 && errno == EINVAL && !env->is_live)
                n = infp_read_at(dir_fd, path, text, sizeof(text));
        if (n <= 0)
                return 0;
        infp_span_cut((struct infp_span){ text, (size_t) n }, '[', &rest);
        return infp_span_u64(infp_span_cut(rest, ']', &rest), &ret) ? 0 : ret;
}

/* Cards have a device, a virtual machine's as well; what a runtime makes for a container has none. By the names that /proc
 * shows, since /sys may have been mounted in another namespace. False also when nothing is known. */
static bool is_without_hardware(struct containers *s, const struct infp_env *env)
{
        ssize_t n = infp_read_at(env->root_fd, "proc/self/net/dev", s->text, sizeof(s->text));
        struct infp_span text = { s->text, n > 0 ? (size_t) n : 0 }, line, rest;
        unsigned n_names = 0;
        char path[64];

        while (infp_span_line(&text, &line)) {
                struct infp_span name = infp_span_trim(infp_span_cut_last(line, ':', &rest));

                if (!name.size || name.size == line.size || name.size > 32)
                        continue; /* the heading */
                n_names++;
                snprintf(path, sizeof(path), "sys/class/net/%.*s/device", (int) name.size, name.at);
                if (faccessat(env->root_fd, path, F_OK, 0) == 0)
                        return false;
        }
        return n_names > 0;
}

/* Inside of a container process 1 is the container's: what looks like the machine's namespace is its own, unless it was given
 * the machine's, whose interfaces it then sees. Of cgroups below the container's it is still everybody's. */
static bool is_own_of_our_container(struct containers *s, const struct infp_env *env, const struct container *c)
{
        static const uint64_t pids_of_machine = 0xeffffffc; /* the kernel's PROC_PID_INIT_INO */
        const uint64_t pids = container_net_of(env, env->root_fd, "proc/self/ns/pid");
        const bool is_ours = !strcmp(c->path, "/") || (c->has_infprof && strncmp(c->cid, "in-", 3) != 0);

        return is_ours && pids && pids != pids_of_machine && is_without_hardware(s, env);
}

/* Looked up once a sample, where it is asked for at all. */
static uint64_t net_of_machine(struct containers *s, const struct infp_env *env)
{
        if (s->net_of_machine && s->net_of_machine_ns == s->now_ns)
                return s->net_of_machine;
        s->net_of_machine_ns = s->now_ns;
        s->net_of_machine = container_net_of(env, env->root_fd, "proc/1/ns/net");
        if (!s->net_of_machine)
                s->net_of_machine = container_net_of(env, env->root_fd, "proc/self/ns/net");
        return s->net_of_machine;
}

void container_find_network(struct containers *s, const struct infp_env *env, struct container *c)
{
        char path[32];
        uint64_t net;

        c->network = NETWORK_NO_MEMBER;
        if (!c->pid)
                return;
        snprintf(path, sizeof(path), "proc/%d", (int) c->pid);
        c->pid_fd = openat(env->root_fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (c->pid_fd < 0)
                return;
        net = container_net_of(env, c->pid_fd, "ns/net");
        if (!net)
                c->network = errno == EACCES || errno == EPERM ? NETWORK_DENIED : NETWORK_UNKNOWN;
        else
                c->network = net == net_of_machine(s, env) && !is_own_of_our_container(s, env, c) ? NETWORK_HOST
                                                                                                  : NETWORK_OWN;
}

/* "  eth0: 1 2 3 ...", after the last colon, since names may hold one: bytes and packets are words 0, 1 (received) and 8, 9 (sent). */
static bool add_line(struct infp_span line, uint64_t sums[4])
{
        static const unsigned at[] = { 0, 1, 8, 9 };
        struct infp_span rest = { "", 0 }, name = infp_span_trim(infp_span_cut_last(line, ':', &rest)), words[16];
        size_t n = infp_span_words(rest, words, 16);
        uint64_t v;

        if (!n || !name.size || infp_span_is(name, "lo"))
                return true;
        for (unsigned i = 0; i < 4; i++)
                if (n < 16 || infp_span_u64(words[at[i]], &v) || __builtin_add_overflow(sums[i], v, &sums[i]))
                        return false;
        return true;
}

void container_network(struct containers *s, const struct infp_env *env, struct container *c, struct infp_row *row)
{
        static const unsigned cells[] = { C_NET_RECEIVED, C_NET_PACKETS_RECEIVED, C_NET_SENT, C_NET_PACKETS_SENT };
        struct infp_span text, line;
        uint64_t sums[4] = { 0 };
        ssize_t n;

        (void) env;
        if (c->network != NETWORK_OWN || c->pid_fd < 0)
                return;
        n = infp_read_at(c->pid_fd, "net/dev", s->text, sizeof(s->text));
        if (n < 0) { /* the process has ended: another one is looked for at once */
                c->procs_ns = 0;
                return;
        }
        text = (struct infp_span){ s->text, (size_t) n };
        if (!text.size || text.at[text.size - 1] != '\n')
                return; /* half of it: a sum without the rest would be taken for one that fell */
        while (infp_span_line(&text, &line))
                if (!add_line(line, sums))
                        return;
        for (unsigned i = 0; i < 4; i++)
                infp_row_raw(row, cells[i], sums[i]);
}
