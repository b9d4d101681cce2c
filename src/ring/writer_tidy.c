/* Removes files of processes that were killed or left by _exit while no recorder was there: nobody else would before the next
 * recording, and a server with a child a request would fill the memory. What belongs to a recording is left to it. */
#include "ring/writer_parts.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BYTES = 8192, MOST_LOOKS = 512, MOST_REMOVED = 64 };
#define FRESH_NS UINT64_C(2000000000) /* a recorder may be about to open it */

struct entry { /* as the kernel gives it: readdir would need the heap */
        uint64_t inode;
        int64_t offset;
        uint16_t size;
        uint8_t type;
        char name[];
};

/* Under page->opening; not on the stack, which may be a handler's. */
static _Alignas(struct entry) char entries[BYTES];
static struct infp_wire_head head;

static bool is_dead(int32_t pid)
{
        return pid > 0 && kill(pid, 0) < 0 && errno == ESRCH;
}

static bool is_left_over(int fd, uint64_t pid_ns, uint64_t now_ns)
{
        struct stat st;

        return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
               pread(fd, &head, sizeof head, 0) == sizeof head &&
               memcmp(head.magic, INFP_WIRE_MAGIC, sizeof head.magic) == 0 && head.version == INFP_WIRE_VERSION &&
               !head.run[0] && head.pid_ns == pid_ns && is_dead(head.pid) && head.created_ns + FRESH_NS < now_ns &&
               flock(fd, LOCK_EX | LOCK_NB) == 0; /* no recorder reads it */
}

static bool tidy(int directory, const char *name, uint64_t pid_ns, uint64_t now_ns)
{
        const char *at = name;
        uint64_t pid = infp_writer_parse(&at);
        bool is_removed = false;
        int fd;

        if (*at != '-' || pid > INT32_MAX || !is_dead((int32_t) pid))
                return false;
        fd = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0)
                return false;
        if (is_left_over(fd, pid_ns, now_ns))
                is_removed = unlinkat(directory, name, 0) == 0;
        close(fd);
        return is_removed;
}

void infp_writer_tidy(int directory, uint64_t now_ns)
{
        uint64_t pid_ns = infp_writer_pid_namespace();
        unsigned looks = 0, removed = 0;
        long n;

        while (pid_ns && (n = syscall(SYS_getdents64, directory, entries, sizeof entries)) > 0)
                for (long at = 0; at < n;) {
                        const struct entry *entry = (const struct entry *) (void *) (entries + at);

                        at += entry->size;
                        removed += tidy(directory, entry->name, pid_ns, now_ns);
                        if (++looks == MOST_LOOKS || removed == MOST_REMOVED)
                                return;
                }
}
