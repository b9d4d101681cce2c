/* What this process may do, and advice about a right that is missing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum infp_right {
        INFP_MAY_TRACE,  /* see the memory, files and namespaces of processes of others: CAP_SYS_PTRACE */
        INFP_MAY_SAMPLE, /* perf events of processes of others: CAP_PERFMON */
        INFP_MAY_BPF,    /* programs in the kernel that read other processes: CAP_BPF, with CAP_PERFMON */
        INFP_MAY_GPU,    /* what a GPU driver keeps for administrators: CAP_SYS_ADMIN */
};

bool infp_has_capability(unsigned number); /* CAP_..., in the effective set of the calling thread */

/* Whether the calling thread has the capability, or one that includes it. */
bool infp_rights_has(enum infp_right right);

/* The fix of a refusal, as `sources` and errors have it: the start of a sentence, static. "Run as root" is no advice to root, who
 * lacks the capability in a container and has no power over processes of another user namespace. */
const char *infp_rights_fix(enum infp_right right);

/* The same of a thread that may not be stopped (ptrace): who traces it already, or what the kernel forbids, with the commands that permit
 * it, in containers too. Returns ret. root_fd: where /proc lies. command: what is to be run as root, up to the number of the process. */
enum { INFP_RIGHTS_TEXT = 480 };
const char *infp_rights_stop_fix(int root_fd, pid_t pid, pid_t tid, const char *command, char *ret, size_t cap);
