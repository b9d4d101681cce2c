#include "record/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/procfile.h"
#include "record/processes.h"

enum { CODE_NOT_EXECUTABLE = 126, CODE_NOT_FOUND = 127 };

static bool is_directory(const char *path)
{
        struct stat st;

        return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The sentence for an errno of exec, and the exit code that env(1) has for it. */
static int explain(const char *name, const char *path, int r, int *ret_code, struct infp_err *err)
{
        *ret_code = r == -ENOENT ? CODE_NOT_FOUND : CODE_NOT_EXECUTABLE;
        if (!name[0])
                return infp_fail(err, r, "cannot run '': the name of the command is empty");
        if (is_directory(path))
                return infp_fail(err, r, "cannot run %s: it is a directory", path);
        if (r == -ENOENT && !strchr(name, '/'))
                return infp_fail(err, r, "cannot run %s: there is no such command in PATH", name);
        if (r == -ENOENT && access(path, F_OK) == 0)
                return infp_fail(
                        err, r, "cannot run %s: the interpreter that its first line or its ELF header names is missing",
                        path);
        if (r == -EACCES && access(path, X_OK) < 0 && access(path, F_OK) == 0)
                return infp_fail(err, r, "cannot run %s: it is not executable (chmod +x makes it so)", path);
        if (r == -ENOEXEC)
                return infp_fail(err, r, "cannot run %s: this machine cannot execute it", path);
        return infp_fail_errno(err, r, "cannot run %s", path);
}

/* One candidate: 0 when exec may work. */
static int try_path(const char *path)
{
        struct stat st;

        if (stat(path, &st) < 0)
                return -errno;
        if (S_ISDIR(st.st_mode) || faccessat(AT_FDCWD, path, X_OK, AT_EACCESS) < 0)
                return -EACCES;
        return 0;
}

/* Walks PATH as execvp does: the first file that can be run wins; one that may not be run gives EACCES, none at all ENOENT. */
static int look_in_path(const char *name, char *ret, size_t cap)
{
        const char *path = getenv("PATH");
        int r = -ENOENT;

        if (!path)
                path = "/bin:/usr/bin"; /* glibc's default */
        for (;;) {
                size_t size = strcspn(path, ":");
                char candidate[4096];
                int own;

                if (snprintf(candidate, sizeof candidate, "%.*s%s%s", (int) size, path, size ? "/" : "", name) <
                    (int) sizeof candidate) {
                        own = try_path(candidate);
                        if (own == 0 || (own == -EACCES && r == -ENOENT))
                                snprintf(ret, cap, "%s", candidate);
                        if (own == 0)
                                return 0;
                        r = own == -EACCES ? own : r;
                }
                if (!path[size])
                        return r;
                path += size + 1;
        }
}

int infp_child_check(char *const *argv, int *ret_code, struct infp_err *err)
{
        const char *name = argv[0];
        char found[4096];
        int r;

        snprintf(found, sizeof found, "%s", name);
        if (!name[0])
                r = -ENOENT;
        else
                r = strchr(name, '/') ? try_path(name) : look_in_path(name, found, sizeof found);
        return r < 0 ? explain(name, found, r, ret_code, err) : 0;
}

/* Calls back for each child of this process; stops when that returns true. */
struct walk {
        struct infp_child *child;
        bool (*is_it)(struct infp_child *child, pid_t pid);
        bool found;
};

static bool visit(void *context, const struct infp_process *process)
{
        struct walk *walk = context;

        walk->found = process->ppid == getpid() && walk->is_it(walk->child, process->pid);
        return !walk->found;
}

static bool any_child(bool (*is_it)(struct infp_child *child, pid_t pid), struct infp_child *child)
{
        struct walk walk = { child, is_it, false };
        int root_fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        infp_process_each(root_fd, visit, &walk);
        infp_close(root_fd);
        return walk.found;
}

static bool note_stranger(struct infp_child *child, pid_t pid)
{
        child->strangers[child->n_strangers++] = pid;
        return child->n_strangers == INFP_CHILD_STRANGERS;
}

static void find_strangers(struct infp_child *child)
{
        siginfo_t info;

        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0) /* else ECHILD: no children, the usual case */
                any_child(note_stranger, child);
}

bool infp_child_is_stranger(const struct infp_child *child, pid_t pid)
{
        for (unsigned i = 0; i < child->n_strangers; i++)
                if (child->strangers[i] == pid)
                        return true;
        return false;
}

static bool is_of_the_tree(struct infp_child *child, pid_t pid)
{
        return !infp_child_is_stranger(child, pid);
}

/* The environment, with `more` in place of variables of the same names. The texts are borrowed. */
static char **make_environment(const char *const *more)
{
        size_t n = 0, n_more = 0, used = 0;
        char **ret;

        while (environ && environ[n])
                n++;
        while (more[n_more])
                n_more++;
        ret = calloc(n + n_more + 1, sizeof *ret);
        if (!ret)
                return NULL;
        for (size_t i = 0; i < n; i++) {
                bool is_replaced = false;

                for (size_t k = 0; k < n_more; k++)
                        is_replaced |= strncmp(environ[i], more[k], strcspn(more[k], "=") + 1) == 0;
                if (!is_replaced)
                        ret[used++] = environ[i];
        }
        for (size_t k = 0; k < n_more; k++)
                ret[used++] = (char *) more[k];
        return ret;
}

/* The forked side. Only the output changes, where it is captured: the command gets what infprof had. */
static void be_the_command(char **argv, char **environment, int output_fd, int gate_fd, int error_fd)
{
        char go;
        ssize_t n;
        int r;

        do
                n = read(gate_fd, &go, 1);
        while (n < 0 && errno == EINTR);
        if (n != 1) /* infprof failed or ended before the first sample: nothing runs */
                _exit(CODE_NOT_EXECUTABLE);
        if (output_fd < 0 || (dup2(output_fd, STDOUT_FILENO) >= 0 && dup2(output_fd, STDERR_FILENO) >= 0))
                execvpe(argv[0], argv, environment);
        r = errno;
        (void) !write(error_fd, &r, sizeof r);
        _exit(r == ENOENT ? CODE_NOT_FOUND : CODE_NOT_EXECUTABLE);
}

static int open_io(pid_t pid)
{
        char path[32];

        snprintf(path, sizeof(path), "/proc/%d/io", (int) pid);
        return open(path, O_RDONLY | O_CLOEXEC);
}

int infp_child_fork(struct infp_child *child, char **argv, const char *const *more, int output_fd, struct infp_err *err)
{
        infp_autofree char **environment = make_environment(more);
        int gate[2] = { -1, -1 }, error[2] = { -1, -1 };
        int r = 0;

        *child = (struct infp_child){ .argv = argv, .gate_fd = -1, .error_fd = -1, .io_fd = -1 };
        if (!environment)
                return infp_fail(err, -ENOMEM, "no memory for the environment of %s", argv[0]);
        find_strangers(child);
        /* Orphans of the tree become our children, and their CPU time ours. Not inherited by the child. */
        if (prctl(PR_SET_CHILD_SUBREAPER, 1) < 0)
                return infp_fail_errno(err, -errno, "cannot become the reaper of the processes that %s starts",
                                       argv[0]);
        if (pipe2(gate, O_CLOEXEC) < 0 || pipe2(error, O_CLOEXEC) < 0)
                r = infp_fail_errno(err, -errno, "cannot make a pipe to start %s", argv[0]);
        if (r == 0) {
                child->pid = fork();
                if (child->pid == 0) {
                        close(gate[1]);
                        be_the_command(argv, environment, output_fd, gate[0], error[1]);
                }
                if (child->pid < 0)
                        r = infp_fail_errno(err, -errno, "cannot start a process for %s", argv[0]);
        }
        infp_close(gate[0]);
        infp_close(error[1]);
        if (r < 0) {
                infp_close(gate[1]);
                infp_close(error[0]);
                return r;
        }
        child->gate_fd = gate[1];
        child->error_fd = error[0];
        child->io_fd = open_io(child->pid);
        fcntl(child->error_fd, F_SETFL, O_NONBLOCK);
        child->state = INFP_CHILD_WAITING;
        child->has_children = true;
        return 0;
}

/* Its peak memory so far; 0: cannot be read. */
static uint64_t memory_peak(pid_t pid)
{
        char path[32];
        uint64_t kib;

        snprintf(path, sizeof(path), "/proc/%d/status", (int) pid);
        return infp_proc_number(AT_FDCWD, path, "VmHWM:", 0, &kib) ? kib * 1024 : 0;
}

int infp_child_release(struct infp_child *child, struct infp_err *err)
{
        ssize_t n;
        int r;

        child->fork_peak_bytes = memory_peak(child->pid);
        n = write(child->gate_fd, "", 1);
        r = n < 0 ? -errno : 0;

        child->gate_fd = infp_close(child->gate_fd);
        if (child->state == INFP_CHILD_WAITING)
                child->state = INFP_CHILD_STARTING;
        if (r < 0 && r != -EPIPE) /* EPIPE: a signal ended it at the gate; wait reports that */
                return infp_fail_errno(err, r, "cannot let %s start", child->argv[0]);
        return 0;
}

void infp_child_hear(struct infp_child *child, int *ret_code, struct infp_err *err)
{
        int r = 0;
        ssize_t n = read(child->error_fd, &r, sizeof r);

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        child->error_fd = infp_close(child->error_fd);
        if (n == sizeof r) {
                char path[4096];

                snprintf(path, sizeof path, "%s", child->argv[0]);
                if (!strchr(path, '/'))
                        look_in_path(child->argv[0], path, sizeof path);
                child->state = INFP_CHILD_FAILED;
                explain(child->argv[0], path, -r, ret_code, err);
        } else if (child->state == INFP_CHILD_STARTING) {
                child->state = INFP_CHILD_RUNNING;
                if (child->io_fd < 0) /* with capabilities we are not dumpable, nor is a fork of us */
                        child->io_fd = open_io(child->pid);
        }
}

void infp_child_abandon(struct infp_child *child)
{
        child->gate_fd = infp_close(child->gate_fd);
        child->error_fd = infp_close(child->error_fd);
        child->io_fd = infp_close(child->io_fd);
        if (child->state != INFP_CHILD_WAITING)
                return;
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        child->state = INFP_CHILD_NONE;
}

/* waitid as the kernel has it, with the usage that glibc leaves out. The pid, 0: no change, or -ECHILD. Children of
 * this thread only: it forked the command, and orphans come to the first live thread. A child of a collector's thread
 * (GPU drivers start nvidia-modprobe) is neither the target's nor ours to wait for. */
static pid_t look(int what, siginfo_t *ret, struct rusage *ret_usage)
{
        long r;

        *ret = (siginfo_t){ .si_pid = 0 };
        do
                r = syscall(SYS_waitid, P_ALL, 0, ret, what | WNOHANG | __WNOTHREAD, ret_usage);
        while (r < 0 && errno == EINTR);
        return r < 0 ? -errno : ret->si_pid;
}

static void wait_for_ended(struct infp_child *child, pid_t pid, const struct rusage *seen,
                           const struct infp_child_ends *ends)
{
        const bool is_told = ends && !infp_child_is_stranger(child, pid);
        struct rusage usage = *seen;
        int status = 0;
        pid_t r;

        if (is_told)
                ends->ended(ends->context, pid, &usage);
        do
                r = wait4(pid, &status, __WNOTHREAD, &usage);
        while (r < 0 && errno == EINTR);
        if (pid == child->pid) {
                child->io_fd = infp_close(child->io_fd);
                child->status = status;
                if (child->state != INFP_CHILD_FAILED)
                        child->state = INFP_CHILD_ENDED;
        }
        if (is_told)
                ends->reaped(ends->context, pid, &usage);
}

void infp_child_reap(struct infp_child *child, const struct infp_child_ends *ends)
{
        struct rusage usage;
        siginfo_t info;
        pid_t pid;

        while ((pid = look(WEXITED | WNOWAIT, &info, &usage)) > 0)
                wait_for_ended(child, pid, &usage, ends);
        child->has_children = pid == 0;
        if (!child->has_children)
                return;
        while ((pid = look(WSTOPPED | WCONTINUED, &info, NULL)) > 0)
                if (pid == child->pid)
                        child->stopped_by = info.si_code == CLD_CONTINUED ? 0 : info.si_status;
        /* Needed only after the command's end, and expensive with strangers. */
        if (child->n_strangers && child->state == INFP_CHILD_ENDED)
                child->has_children = any_child(is_of_the_tree, child);
}

bool infp_child_is_stopped(const struct infp_child *child)
{
        siginfo_t info = { .si_pid = 0 };

        if (!child->stopped_by)
                return false;
        return waitid(P_PID, (id_t) child->pid, &info, WCONTINUED | WEXITED | WNOHANG | WNOWAIT) == 0 &&
               info.si_pid == 0;
}

int infp_child_exit_code(const struct infp_child *child)
{
        return WIFSIGNALED(child->status) ? 128 + WTERMSIG(child->status) : WEXITSTATUS(child->status);
}

unsigned infp_jit_names_variables(struct infp_jit_names *memory, const char **ret)
{
        static const char node_option[] = "--perf-basic-prof-only-functions";
        const char *node = getenv("NODE_OPTIONS");
        unsigned n = 0;

        /* oneDNN knows both names; 2 is a perf map. */
        if (!getenv("ONEDNN_JIT_PROFILE") && !getenv("DNNL_JIT_PROFILE"))
                ret[n++] = "ONEDNN_JIT_PROFILE=2";
        if (!getenv("DOTNET_PerfMapEnabled") && !getenv("COMPlus_PerfMapEnabled"))
                ret[n++] = "DOTNET_PerfMapEnabled=1";
        if (!node || !strstr(node, "--perf-")) {
                const int size = snprintf(memory->node, sizeof(memory->node), "NODE_OPTIONS=%s%s%s", node ? node : "",
                                          node && *node ? " " : "", node_option);

                if (size > 0 && (size_t) size < sizeof(memory->node)) /* else the user's value stays complete */
                        ret[n++] = memory->node;
        }
        return n;
}
