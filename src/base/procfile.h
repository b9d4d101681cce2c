/* A file of /proc, /sys or a cgroup: the descriptor is kept, each read is one pread into a buffer that sizes itself, lines
 * and words are found without copying, and no accessor can leave the buffer: a missing word is an empty span. Kernel text
 * is input; nothing here asserts. Steady state: no allocation. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct infp_span {
        const char *at; /* never NULL; not terminated */
        size_t size;
};

struct infp_procfile {
        int fd;     /* -1 while closed */
        char *data; /* size bytes and a 0 */
        size_t size, cap;
        bool reopen;    /* the file lies in a fixture tree and can be replaced: open it anew each time */
        bool is_scarce; /* descriptors are few, or this is one of the last: given back after each read */
};

#define INFP_PROCFILE_INIT \
        {                  \
                .fd = -1   \
        }
/* The largest text that is taken; a longer one is -EFBIG. */
#define INFP_PROCFILE_MAX (16u << 20)

/* Opens lazily below root_fd. 0, or a negative errno of open. */
int infp_procfile_open(struct infp_procfile *file, int root_fd, const char *path, bool reopen);
void infp_procfile_done(struct infp_procfile *file);

/* Reads the file anew (opens it at first and after -ENODEV, -ESTALE). 0 or a negative errno: -ENOENT, -EACCES, -EIO,
 * -EFBIG, -ENODATA for an empty file. After a failure the text is empty. */
int infp_procfile_read(struct infp_procfile *file, int root_fd, const char *path);
struct infp_span infp_procfile_text(const struct infp_procfile *file);

/* Takes the next line (without '\n') off *text; false when there is none. */
bool infp_span_line(struct infp_span *text, struct infp_span *ret_line);
/* Takes the next word (blanks and tabs between) off *line; an empty span when there is none. */
struct infp_span infp_span_word(struct infp_span *line);
/* Splits into at most max words; returns their number; the rest of ret is empty spans. */
size_t infp_span_words(struct infp_span line, struct infp_span *ret, size_t max);
/* Splits at the first `c`: the part before it is returned, *rest stands after it; without c the whole is returned. */
struct infp_span infp_span_cut(struct infp_span text, char c, struct infp_span *ret_rest);
/* The same at the last `c`: after a name that may hold it, before numbers that cannot. */
struct infp_span infp_span_cut_last(struct infp_span text, char c, struct infp_span *ret_rest);
struct infp_span infp_span_trim(struct infp_span s);
bool infp_span_is(struct infp_span s, const char *text);
bool infp_span_starts(struct infp_span s, const char *prefix);
int infp_span_u64(struct infp_span s, uint64_t *ret);
int infp_span_i64(struct infp_span s, int64_t *ret);
int infp_span_f64(struct infp_span s, double *ret);

/* The thread whose files in /proc show what its process has (maps, statm, root, fd ...): those of a first thread that has ended
 * while others go on are empty. pid itself but for such a process, whose number in /proc and in /proc/PID/task is returned. Where
 * nothing can be read, pid. proc: where /proc lies below dir_fd, "proc/" or "". */
int32_t infp_proc_thread(int dir_fd, const char *proc, int32_t pid);

/* A number of a file whose lines begin with names, as /proc/PID/status and fdinfo have them: the one with this index after `name`
 * ("NSpid:"). False when the file has no such line. dir_fd, path: as infp_read_at. */
enum { INFP_PROC_LAST = -1 };
bool infp_proc_number(int dir_fd, const char *path, const char *name, int index, uint64_t *ret);

/* The number of a thread (of a process: tid is pid) in its own pid namespace, by which itself and its files' names call it; tid where that
 * is not told. dir_fd, proc: as infp_proc_thread. */
int32_t infp_proc_own_number(int dir_fd, const char *proc, int32_t pid, int32_t tid);
