#include "app/finish_child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FINISH_NICE = 10 };

static int spawn_finish(const char *path, const struct infp_signals *signals, pid_t *ret)
{
        char *const argv[] = { (char *) "infprof", (char *) "finish", (char *) "-r", (char *) path, NULL };
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        int r;

        posix_spawn_file_actions_init(&actions);
        posix_spawnattr_init(&attributes);
        posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO); /* stdout is the command's alone */
        posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDERR_FILENO); /* even where it is closed at exec */
        posix_spawnattr_setsigmask(&attributes, &signals->old_mask);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
        /* Inherited by the child; we only wait from here on. It gives way, and still gets a tenth of a CPU that somebody else wants: with
         * 19 it took more than two minutes beside three busy threads on two CPUs. */
        setpriority(PRIO_PROCESS, 0, FINISH_NICE);
        r = posix_spawn(ret, "/proc/self/exe", &actions, &attributes, argv, environ);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&actions);
        return -r;
}

static void wait_for_signal(const struct infp_signals *signals)
{
        struct pollfd fd = { .fd = signals->fd, .events = POLLIN };

        poll(&fd, 1, 1000);
}

bool infp_finish_child(const char *path, struct infp_signals *signals, const struct infp_notices *notices)
{
        struct infp_signal signal;
        int status = 0, r;
        pid_t pid;

        r = spawn_finish(path, signals, &pid);
        if (r < 0) {
                infp_notice(notices, "cannot start `infprof finish`: %s", strerror(-r));
                return false;
        }
        for (;;) {
                pid_t got = waitpid(pid, &status, WNOHANG);

                if (got == pid)
                        break;
                if (got < 0 && errno != EINTR)
                        return false;
                wait_for_signal(signals);
                while (infp_signals_next(signals, &signal))
                        if (infp_signal_is_end(signal.number))
                                kill(pid, SIGTERM);
        }
        return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
