#include "sampler/sampler_tree.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"
#include "collect/process_stat.h"

struct pair {
        int32_t pid, ppid;
        bool is_in;
};

static size_t list_processes(struct pair **ret)
{
        infp_autoclose int root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = opendir("/proc");
        const struct dirent *entry;
        struct pair *list = NULL;
        size_t n = 0, cap = 0;

        while (dir && (entry = readdir(dir))) {
                struct infp_process process = { 0 };
                char path[64], text[2048];
                uint64_t pid;
                ssize_t size;

                if (infp_parse_u64(entry->d_name, strlen(entry->d_name), &pid) < 0 || pid > INT32_MAX)
                        continue;
                snprintf(path, sizeof(path), "proc/%d/stat", (int) pid);
                size = infp_read_at(root_fd, path, text, sizeof(text));
                if (size <= 0 || infp_process_stat_parse(text, (size_t) size, &process) < 0)
                        continue;
                if (!INFP_MAKE_ROOM(list, n, cap, 256))
                        break;
                list[n++] = (struct pair){ .pid = (int32_t) pid, .ppid = process.ppid };
        }
        if (dir)
                closedir(dir);
        *ret = list;
        return n;
}

static bool is_in(const struct pair *list, size_t n, int32_t pid)
{
        for (size_t i = 0; i < n; i++)
                if (list[i].pid == pid)
                        return list[i].is_in;
        return false;
}

size_t infp_sampler_tree(const pid_t *roots, size_t n_roots, int32_t *ret, size_t cap)
{
        infp_autofree struct pair *list = NULL;
        const size_t n = list_processes(&list);
        size_t n_ret = 0;
        bool is_new = true;

        for (size_t i = 0; i < n; i++)
                for (size_t k = 0; k < n_roots; k++)
                        list[i].is_in |= list[i].pid == roots[k];
        while (is_new) {
                is_new = false;
                for (size_t i = 0; i < n; i++)
                        if (!list[i].is_in && is_in(list, n, list[i].ppid))
                                is_new = list[i].is_in = true;
        }
        for (size_t i = 0; i < n && n_ret < cap; i++)
                if (list[i].is_in)
                        ret[n_ret++] = list[i].pid;
        return n_ret;
}
