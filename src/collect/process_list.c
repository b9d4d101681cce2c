#include "collect/process_list.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/sort.h"
#include "base/time.h"

enum { BUFFER = 64 * 1024, LAST_ENTRY = 4096, FIRST_ITEMS = 1024 };

/* A process gets its pid before it becomes visible: one that fork(2) delays in between is found if the delay is shorter than
 * this. A longer one is found by the next whole list. */
#define MARK_AGE_NS (100 * INFP_NS_PER_MS)
#define WHOLE_LIST_NS (5 * INFP_NS_PER_S)

struct linux_dirent64 { /* as the kernel writes it; glibc has no header of it */
        uint64_t d_ino;
        int64_t d_off;
        unsigned short d_reclen;
        unsigned char d_type;
        char d_name[];
};

static bool is_procfs(int fd)
{
        struct statfs s;

        return !fstatfs(fd, &s) && s.f_type == PROC_SUPER_MAGIC;
}

static int32_t parse_pid(const char *name, size_t size)
{
        uint64_t v;

        if (size == 0 || *name < '1' || *name > '9' || infp_parse_u64(name, size, &v) < 0 || v > INT32_MAX)
                return -1;
        return (int32_t) v;
}

static int32_t read_self(int proc_fd)
{
        char link[32];
        ssize_t n = readlinkat(proc_fd, "self", link, sizeof(link));
        int32_t pid = n > 0 ? parse_pid(link, (size_t) n) : -1;

        return pid > 0 ? pid : 0;
}

int infp_process_list_open(struct infp_process_list *list, const struct infp_env *env, struct infp_err *err)
{
        int r;

        *list = (struct infp_process_list){
                .proc_fd = -1, .loadavg_fd = -1, .seek_offset = -1, .older = { -1, 0 }, .newer = { -1, 0 }
        };
        list->proc_fd = openat(env->root_fd, "proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (list->proc_fd < 0) {
                r = -errno;
                return infp_fail_errno(err, r, "/proc cannot be opened");
        }
        list->buffer = malloc(BUFFER);
        if (!list->buffer)
                return infp_fail(err, -ENOMEM, "no memory for the list of processes");
        list->is_procfs = is_procfs(list->proc_fd);
        list->self_pid = read_self(list->proc_fd);
        list->is_own = list->is_procfs && env->is_live && list->self_pid == getpid();
        /* The last pid in loadavg is that of the reader's namespace. */
        if (list->is_own) {
                list->loadavg_fd = openat(list->proc_fd, "loadavg", O_RDONLY | O_CLOEXEC);
                if (list->loadavg_fd >= 0 && !is_procfs(list->loadavg_fd)) /* lxcfs mounts its own over it */
                        list->loadavg_fd = infp_close(list->loadavg_fd);
        }
        return 0;
}

void infp_process_list_done(struct infp_process_list *list)
{
        list->proc_fd = infp_close(list->proc_fd);
        list->loadavg_fd = infp_close(list->loadavg_fd);
        free(list->buffer);
        free(list->items);
        list->buffer = NULL;
        list->items = NULL;
        list->n = list->cap = 0;
}

/* The last pid given out, or -1. */
static int32_t read_last_pid(const struct infp_process_list *list)
{
        char text[128], *word;
        ssize_t n;

        if (list->loadavg_fd < 0)
                return -1;
        n = pread(list->loadavg_fd, text, sizeof(text) - 1, 0);
        if (n <= 0)
                return -1;
        if (text[n - 1] == '\n')
                n--;
        text[n] = 0;
        word = strrchr(text, ' ');
        return word ? parse_pid(word + 1, strlen(word + 1)) : -1;
}

static int add_item(struct infp_process_list *list, uint64_t ino, int32_t pid)
{
        if (!INFP_MAKE_ROOM(list->items, list->n, list->cap, FIRST_ITEMS))
                return -ENOMEM;
        list->items[list->n++] = (struct infp_listed){ .ino = ino, .pid = pid };
        return 0;
}

/* procfs positions a pid at the pid plus a constant; the constant is learned here and checked. */
struct seek_probe {
        int64_t position, offset;
        bool is_broken;
};

static void probe_seek(struct seek_probe *probe, int32_t pid, int64_t next_position)
{
        int64_t offset = probe->position - pid;

        if (probe->position > 0 && probe->offset >= 0 && offset != probe->offset)
                probe->is_broken = true;
        if (probe->position > 0)
                probe->offset = offset;
        probe->position = next_position;
}

static int take_entries(struct infp_process_list *list, size_t size, struct seek_probe *probe)
{
        for (size_t at = 0; at < size;) {
                const struct linux_dirent64 *e = (const void *) (list->buffer + at);
                int32_t pid = parse_pid(e->d_name, strlen(e->d_name));

                at += e->d_reclen;
                if (pid < 0)
                        continue;
                probe_seek(probe, pid, e->d_off);
                INFP_TRY(add_item(list, e->d_ino, pid));
        }
        return 0;
}

/* procfs lists by pid; a directory of a fixture tree has any order. */
static void sort_items(struct infp_process_list *list)
{
        for (size_t i = 1; i < list->n; i++)
                if (list->items[i].pid < list->items[i - 1].pid) {
                        infp_sort(list->items, list->n, sizeof(*list->items), infp_compare_i32);
                        return;
                }
}

static int list_from(struct infp_process_list *list, int64_t position, struct seek_probe *probe)
{
        list->n = 0;
        if (lseek(list->proc_fd, position, SEEK_SET) < 0)
                return -errno;
        for (;;) {
                long size = syscall(SYS_getdents64, list->proc_fd, list->buffer, BUFFER);

                if (size < 0)
                        return -errno;
                INFP_TRY(take_entries(list, (size_t) size, probe));
                /* With room left for another entry the list is complete; that saves the call that would say so. */
                if (size == 0 || (list->is_procfs && size < BUFFER - LAST_ENTRY))
                        break;
        }
        sort_items(list);
        return 0;
}

static int list_whole(struct infp_process_list *list, uint64_t now, struct infp_err *err)
{
        struct seek_probe probe = { .offset = -1 };
        /* Past entries that are not processes, once it is known where they end. */
        int r = list_from(list, list->seek_offset >= 0 ? 1 + list->seek_offset : 0, &probe);

        if (r < 0)
                return infp_fail_errno(err, r, "/proc cannot be listed");
        list->from = 0;
        list->n_lists++;
        list->next_whole_ns = now + WHOLE_LIST_NS;
        list->seek_offset = list->is_procfs && !probe.is_broken ? probe.offset : -1;
        return 0;
}

static int list_tail(struct infp_process_list *list, int32_t from, struct infp_err *err)
{
        struct seek_probe probe = { .offset = -1 };
        int r = list_from(list, from + list->seek_offset, &probe);

        if (r < 0)
                return infp_fail_errno(err, r, "/proc cannot be listed");
        list->from = from;
        list->n_tails++;
        return 0;
}

static void move_marks(struct infp_process_list *list, int32_t last, uint64_t now)
{
        bool has_wrapped = last < list->newer.pid || last < list->older.pid;

        if (last < 0 || has_wrapped || list->newer.pid < 0) {
                /* The next reads list the whole until a mark is old enough. */
                list->older = (struct infp_pid_mark){ -1, 0 };
                list->newer = (struct infp_pid_mark){ last, now };
        } else if (now - list->newer.t_ns >= MARK_AGE_NS) {
                list->older = list->newer;
                list->newer = (struct infp_pid_mark){ last, now };
        }
}

int infp_process_list_read(struct infp_process_list *list, const struct infp_env *env, bool whole, struct infp_err *err)
{
        uint64_t now = env->now_ns(env);
        int32_t last = read_last_pid(list); /* before the list: what comes after it is found next time */

        move_marks(list, last, now);
        if (whole || list->older.pid < 0 || list->seek_offset < 0 || now >= list->next_whole_ns)
                return list_whole(list, now, err);
        list->n = 0;
        list->from = INT32_MAX;
        return last == list->older.pid ? 0 : list_tail(list, list->older.pid + 1, err);
}
