#include "record/processes.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/fd.h"
#include "base/mem.h"
#include "collect/process_stat.h"

bool infp_process_look(int root_fd, pid_t pid, struct infp_process *ret)
{
        char path[32], text[1024];
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%d/stat", (int) pid);
        n = infp_read_at(root_fd, path, text, sizeof(text));
        *ret = (struct infp_process){ 0 };
        if (n <= 0 || infp_process_stat_parse(text, (size_t) n, ret) < 0)
                return false;
        /* A main thread that has ended before the others is a zombie, too. */
        return (ret->state != 'Z' && ret->state != 'X') || ret->n_threads > 1;
}

int infp_process_each(int root_fd, bool (*each)(void *context, const struct infp_process *process), void *context)
{
        int fd = openat(root_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *proc = fd < 0 ? NULL : fdopendir(fd);
        struct dirent *entry;
        bool goes_on = true;

        if (!proc) {
                int r = -errno;

                infp_close(fd);
                return r;
        }
        while (goes_on && (entry = readdir(proc))) {
                struct infp_process process;

                if (isdigit((unsigned char) entry->d_name[0]) &&
                    infp_process_look(root_fd, atoi(entry->d_name), &process))
                        goes_on = each(context, &process);
        }
        closedir(proc);
        return 0;
}

struct link {
        pid_t pid, ppid;
        bool is_in;
};

struct links {
        struct link *all;
        size_t n, cap;
};

static bool add_link(void *context, const struct infp_process *process)
{
        struct links *links = context;

        if (links->n == links->cap) {
                size_t cap = links->cap ? 2 * links->cap : 256;
                struct link *all = reallocarray(links->all, cap, sizeof(*all));

                if (!all)
                        return false;
                links->all = all;
                links->cap = cap;
        }
        links->all[links->n++] = (struct link){ .pid = process->pid, .ppid = process->ppid };
        return true;
}

static bool is_among(pid_t pid, const pid_t *pids, unsigned n)
{
        for (unsigned i = 0; i < n; i++)
                if (pids[i] == pid)
                        return true;
        return false;
}

static bool is_member(const struct links *links, pid_t pid)
{
        for (size_t i = 0; i < links->n; i++)
                if (links->all[i].pid == pid)
                        return links->all[i].is_in;
        return false;
}

unsigned infp_process_count_descendants(pid_t ancestor, const pid_t *without, unsigned n_without)
{
        int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct links links = { 0 };
        unsigned n = 0;

        infp_process_each(root_fd, add_link, &links);
        infp_close(root_fd);
        /* Parents can have larger numbers than their children: again until nothing is added. */
        for (unsigned before = UINT32_MAX; before != n;) {
                before = n;
                for (size_t i = 0; i < links.n; i++) {
                        struct link *link = &links.all[i];

                        if (link->is_in || is_among(link->pid, without, n_without))
                                continue;
                        link->is_in = link->ppid == ancestor || is_member(&links, link->ppid);
                        n += link->is_in;
                }
        }
        free(links.all);
        return n;
}
