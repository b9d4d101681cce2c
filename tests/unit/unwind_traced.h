/* Moments of another process: registers and stack, taken by ptrace. */
#pragma once

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include "unwind_space.h"

enum { TRACED_STACK = 65536 };

struct traced_moment {
        uint64_t values[INFP_N_REGISTERS];
        struct infp_unwind_dump dump;
        uint8_t stack[TRACED_STACK];
};

/* Waits until a process has used so much CPU time, however long a busy machine takes to give it: before, it is still this program,
 * or in the loader, whose first function has no unwind table. */
static void traced_wait(pid_t pid, unsigned cpu_ms)
{
        const struct timespec pause = { 0, 5000000 };
        struct timespec used;
        clockid_t clock;

        if (clock_getcpuclockid(pid, &clock) != 0)
                return;
        for (unsigned i = 0; i < 12000; i++) {
                if (clock_gettime(clock, &used) < 0 || used.tv_sec * 1000 + used.tv_nsec / 1000000 >= cpu_ms)
                        return;
                nanosleep(&pause, NULL);
        }
}

/* Runs a program until it is at work: its process, or -1. */
static inline pid_t traced_begin(char *const *command, unsigned cpu_ms)
{
        pid_t pid = fork();

        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nothing behind */
                execvp(command[0], command);
                _exit(127);
        }
        if (pid > 0)
                traced_wait(pid, cpu_ms);
        if (pid > 0 && ptrace(PTRACE_SEIZE, pid, NULL, NULL) < 0) {
                kill(pid, SIGKILL);
                waitpid(pid, NULL, 0);
                return -1;
        }
        return pid;
}

static void traced_end(pid_t pid)
{
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
}

/* Stops it for a moment. False: it has ended. */
static inline bool traced_take(pid_t pid, struct traced_moment *ret)
{
        struct user_regs_struct r;
        struct iovec local = { ret->stack, sizeof(ret->stack) }, remote;
        ssize_t n;
        int status;

        if (ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) < 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status) ||
            ptrace(PTRACE_GETREGS, pid, NULL, &r) < 0)
                return false;
        {
                const uint64_t all[INFP_N_REGISTERS] = { r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi, r.rbp, r.rsp, r.r8,
                                                         r.r9,  r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rip };

                memcpy(ret->values, all, sizeof(all));
        }
        /* Up to the end of the stack, page by page. */
        ret->dump = (struct infp_unwind_dump){ ret->stack, r.rsp, 0, true };
        while (ret->dump.size < sizeof(ret->stack)) {
                size_t size = 4096 - (r.rsp + ret->dump.size) % 4096;

                if (size > sizeof(ret->stack) - ret->dump.size)
                        size = sizeof(ret->stack) - ret->dump.size;
                local = (struct iovec){ ret->stack + ret->dump.size, size };
                remote = (struct iovec){ (void *) (r.rsp + ret->dump.size), size };
                n = process_vm_readv(pid, &local, 1, &remote, 1, 0);
                if (n <= 0) {
                        ret->dump.is_cut = false;
                        break;
                }
                ret->dump.size += (uint64_t) n;
        }
        return ptrace(PTRACE_CONT, pid, NULL, 0L) == 0;
}

/* A file that keeps a compiler busy, at a path like "/tmp/x-XXXXXX.c". */
static inline void traced_write_source(char *path)
{
        const int fd = mkstemps(path, 2);
        FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

        if (!file)
                abort(); /* benches include this, too, and have no cmocka */
        for (int i = 0; i < 4000; i++)
                fprintf(file,
                        "int f%d(int *a, int n) { int s = %d; for (int i = 0; i < n; i++) { if (a[i] > %d) s += a[i] * "
                        "%d; else s ^= a[i] / (n + %d); a[i] = s; } return s; }\n",
                        i, i, i % 7, i % 13, i % 5 + 1);
        fclose(file);
}

/* Something to do for a while: many callers, C callbacks, several libraries. */
#define TRACED_PYTHON                                                                  \
        "import json, re, zlib, random\n"                                              \
        "r = random.Random(1)\n"                                                       \
        "def step(n):\n"                                                               \
        "    if n: return step(n - 1)\n"                                               \
        "    t = json.dumps([{'k%d' % i: [r.random(), str(i)]} for i in range(30)])\n" \
        "    re.sub('[0-9]+', lambda m: m.group(0)[::-1], t)\n"                        \
        "    zlib.decompress(zlib.compress(t.encode()))\n"                             \
        "    return sorted(json.loads(t), key=lambda d: str(d))\n"                     \
        "while True: step(r.randrange(12))\n"
