#include "base/procfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"

/* Files that the kernel writes by one call (fs/proc: single_open): a short read is their end. For all others only a read
 * of 0 bytes is: seq_file hands out whole records, at most a page at a time, so that an ordinary piece of mountinfo or maps
 * is short as well. The spared pread counts: three such files a process and tick. */
static bool comes_in_one_piece(const char *path)
{
        static const char *const names[] = { "stat",      "statm",   "status",  "io",
                                             "schedstat", "meminfo", "loadavg", "uptime" };
        const char *slash = strrchr(path, '/');
        const char *name = slash ? slash + 1 : path;

        for (size_t i = 0; i < INFP_COUNT(names); i++) {
                if (strcmp(name, names[i]) == 0)
                        return true;
        }
        return false;
}

static void set_size(struct infp_procfile *file, size_t size)
{
        file->size = size;
        if (file->data)
                file->data[size] = 0;
}

int infp_procfile_open(struct infp_procfile *file, int root_fd, const char *path, bool reopen)
{
        unsigned limit;

        file->reopen = reopen;
        if (file->fd >= 0)
                return 0;
        /* O_NONBLOCK: a FIFO in a fixture tree must not hold the sampler. */
        file->fd = openat(root_fd, infp_relative(path), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (file->fd < 0) {
                file->fd = -1;
                return -errno;
        }
        file->is_scarce = infp_fd_is_scarce(file->fd) || infp_fds_are_few(&limit);
        return 0;
}

void infp_procfile_done(struct infp_procfile *file)
{
        infp_close(file->fd);
        free(file->data);
        *file = (struct infp_procfile) INFP_PROCFILE_INIT;
}

static int grow(struct infp_procfile *file)
{
        size_t cap = file->cap ? file->cap * 2 : 1024;
        char *data;

        if (cap > INFP_PROCFILE_MAX * 2)
                return -EFBIG;
        data = realloc(file->data, cap);
        if (!data)
                return -ENOMEM;
        file->data = data;
        file->cap = cap;
        return 0;
}

static int read_all(struct infp_procfile *file, bool one_piece)
{
        size_t size = 0;

        for (;;) {
                size_t room;
                ssize_t n;

                if (size + 1 >= file->cap)
                        INFP_TRY(grow(file));
                room = file->cap - size - 1;
                n = pread(file->fd, file->data + size, room, (off_t) size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                size += (size_t) n;
                if (size > INFP_PROCFILE_MAX)
                        return -EFBIG;
                if (n == 0 || (one_piece && (size_t) n < room))
                        break;
        }
        if (size == 0)
                return -ENODATA;
        set_size(file, size);
        return 0;
}

int infp_procfile_read(struct infp_procfile *file, int root_fd, const char *path)
{
        bool one_piece = comes_in_one_piece(path), was_open = file->fd >= 0;
        int r;

        set_size(file, 0);
        if (file->reopen)
                file->fd = infp_close(file->fd);
        r = infp_procfile_open(file, root_fd, path, file->reopen);
        if (r < 0)
                return r;
        r = read_all(file, one_piece);
        if (r == -ENODEV || r == -ESTALE) {
                /* A cgroup or device that went away; another of its name may have come. */
                file->fd = infp_close(file->fd);
                if (was_open && !file->reopen) {
                        r = infp_procfile_open(file, root_fd, path, false);
                        if (r == 0)
                                r = read_all(file, one_piece);
                }
        }
        if (r == -EFBIG || r == -ENOMEM) { /* 32 MiB would stay for a text that nobody gets */
                free(file->data);
                file->data = NULL;
                file->cap = 0;
        }
        if (r < 0)
                set_size(file, 0);
        if (file->reopen || file->is_scarce)
                file->fd = infp_close(file->fd);
        return r;
}

struct infp_span infp_procfile_text(const struct infp_procfile *file)
{
        if (file->size == 0)
                return (struct infp_span){ .at = "" };
        return (struct infp_span){ .at = file->data, .size = file->size };
}

/* memchr of an empty span is not asked: its pointer may stand after an object. */
static const char *find(struct infp_span s, char c)
{
        return s.size ? memchr(s.at, c, s.size) : NULL;
}

static struct infp_span cut_at(struct infp_span text, const char *found, struct infp_span *ret_rest)
{
        struct infp_span before = text, rest = { .at = text.at + text.size };

        if (found) {
                before.size = (size_t) (found - text.at);
                rest = (struct infp_span){ .at = found + 1, .size = text.size - before.size - 1 };
        }
        if (ret_rest)
                *ret_rest = rest;
        return before;
}

struct infp_span infp_span_cut(struct infp_span text, char c, struct infp_span *ret_rest)
{
        return cut_at(text, find(text, c), ret_rest);
}

struct infp_span infp_span_cut_last(struct infp_span text, char c, struct infp_span *ret_rest)
{
        return cut_at(text, text.size ? memrchr(text.at, c, text.size) : NULL, ret_rest);
}

bool infp_span_line(struct infp_span *text, struct infp_span *ret_line)
{
        if (text->size == 0)
                return false;
        *ret_line = infp_span_cut(*text, '\n', text);
        return true;
}

static bool blank(char c)
{
        return c == ' ' || c == '\t';
}

struct infp_span infp_span_word(struct infp_span *line)
{
        struct infp_span s = *line, word;
        size_t n = 0;

        while (s.size > 0 && blank(*s.at)) {
                s.at++;
                s.size--;
        }
        while (n < s.size && !blank(s.at[n]))
                n++;
        word = (struct infp_span){ .at = s.at, .size = n };
        *line = (struct infp_span){ .at = s.at + n, .size = s.size - n };
        return word;
}

size_t infp_span_words(struct infp_span line, struct infp_span *ret, size_t max)
{
        size_t n = 0;

        for (size_t i = 0; i < max; i++) {
                ret[i] = infp_span_word(&line);
                if (ret[i].size)
                        n++;
        }
        return n;
}

static bool space(char c)
{
        return blank(c) || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

struct infp_span infp_span_trim(struct infp_span s)
{
        while (s.size > 0 && space(*s.at)) {
                s.at++;
                s.size--;
        }
        while (s.size > 0 && space(s.at[s.size - 1]))
                s.size--;
        return s;
}

bool infp_span_is(struct infp_span s, const char *text)
{
        return strlen(text) == s.size && memcmp(s.at, text, s.size) == 0;
}

bool infp_span_starts(struct infp_span s, const char *prefix)
{
        size_t n = strlen(prefix);

        return n <= s.size && memcmp(s.at, prefix, n) == 0;
}

int infp_span_u64(struct infp_span s, uint64_t *ret)
{
        return infp_parse_u64(s.at, s.size, ret);
}

int infp_span_i64(struct infp_span s, int64_t *ret)
{
        return infp_parse_i64(s.at, s.size, ret);
}

int infp_span_f64(struct infp_span s, double *ret)
{
        return infp_parse_f64(s.at, s.size, ret);
}

static bool has_ended(int dir_fd, const char *path)
{
        char text[1024];
        const char *end = infp_read_at(dir_fd, path, text, sizeof(text)) > 0 ? strrchr(text, ')') : NULL;

        return end && end[1] == ' ' && (end[2] == 'Z' || end[2] == 'X');
}

int32_t infp_proc_thread(int dir_fd, const char *proc, int32_t pid)
{
        const struct dirent *entry;
        int32_t ret = pid;
        char path[64];
        DIR *tasks;
        int fd;

        snprintf(path, sizeof(path), "%s%d/stat", proc, (int) pid);
        if (!has_ended(dir_fd, path))
                return pid;
        snprintf(path, sizeof(path), "%s%d/task", proc, (int) pid);
        fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        tasks = fd < 0 ? NULL : fdopendir(fd);
        if (!tasks)
                infp_close(fd);
        while (tasks && ret == pid && (entry = readdir(tasks))) {
                uint64_t tid;

                if (infp_parse_u64(entry->d_name, strlen(entry->d_name), &tid) < 0 || tid > INT32_MAX ||
                    tid == (uint64_t) pid)
                        continue;
                snprintf(path, sizeof(path), "%s%d/task/%d/stat", proc, (int) pid, (int) tid);
                ret = has_ended(dir_fd, path) ? pid : (int32_t) tid;
        }
        if (tasks)
                closedir(tasks);
        return ret;
}

bool infp_proc_number(int dir_fd, const char *path, const char *name, int index, uint64_t *ret)
{
        char text[8192];
        const ssize_t size = infp_read_at(dir_fd, path, text, sizeof(text));
        struct infp_span rest = { text, size > 0 ? (size_t) size : 0 }, line, words[34];

        while (infp_span_line(&rest, &line)) {
                int n;

                if (!infp_span_starts(line, name))
                        continue;
                n = (int) infp_span_words(line, words, INFP_COUNT(words)) - 1;
                index = index == INFP_PROC_LAST ? n - 1 : index;
                return index >= 0 && index < n && infp_span_u64(words[index + 1], ret) == 0;
        }
        return false;
}

int32_t infp_proc_own_number(int dir_fd, const char *proc, int32_t pid, int32_t tid)
{
        char path[64];
        uint64_t number;

        snprintf(path, sizeof(path), "%s%" PRId32 "/task/%" PRId32 "/status", proc, pid, tid);
        return infp_proc_number(dir_fd, path, "NSpid:", INFP_PROC_LAST, &number) ? (int32_t) number : tid;
}
