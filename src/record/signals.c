#include "record/signals.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

/* All signals that a process can send to a program on purpose. Not among them: those that the CPU raises (SIGSEGV), SIGTTIN
 * and SIGTTOU (stop us like any program), SIGXCPU (the user's limit). */
static const int taken[] = {
        SIGHUP,    SIGINT,  SIGQUIT,  SIGTERM, SIGUSR1, SIGUSR2, SIGALRM,
        SIGVTALRM, SIGPROF, SIGWINCH, SIGURG,  SIGIO,   SIGPWR,  SIGCHLD,
};
/* Writes return EPIPE or EFBIG instead. */
static const int blocked[] = { SIGPIPE, SIGXFSZ };

static void note_ignored(struct infp_signals *signals, int number)
{
        struct sigaction action;

        if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
                sigaddset(&signals->was_ignored, number);
}

int infp_signals_open(struct infp_signals *signals, bool for_command, struct infp_err *err)
{
        sigset_t set, block;

        sigemptyset(&signals->was_ignored);
        sigemptyset(&set);
        for (size_t i = 0; i < INFP_COUNT(taken); i++) {
                sigaddset(&set, taken[i]);
                note_ignored(signals, taken[i]);
        }
        for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
                sigaddset(&set, number);
        if (for_command) {
                sigaddset(&set, SIGTSTP);
                sigaddset(&set, SIGCONT);
                /* systemd's watchdog sends the first to the command. Our own abort(3) is not affected. */
                sigaddset(&set, SIGABRT);
                sigaddset(&set, SIGSTKFLT);
        }
        block = set;
        for (size_t i = 0; i < INFP_COUNT(blocked); i++)
                sigaddset(&block, blocked[i]);
        /* Where SIGCHLD was ignored the kernel would drop what wait returns. */
        signal(SIGCHLD, SIG_DFL);
        pthread_sigmask(SIG_BLOCK, &block, &signals->old_mask);
        signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        return signals->fd < 0 ? infp_fail_errno(err, -errno, "cannot receive signals by a descriptor") : 0;
}

void infp_signals_close(struct infp_signals *signals)
{
        signals->fd = infp_close(signals->fd);
}

bool infp_signals_next(struct infp_signals *signals, struct infp_signal *ret)
{
        struct signalfd_siginfo info;
        ssize_t n;

        do
                n = read(signals->fd, &info, sizeof info);
        while (n < 0 && errno == EINTR);
        if (n != sizeof info)
                return false;
        *ret = (struct infp_signal){
                .number = (int) info.ssi_signo,
                .by_process = info.ssi_code == SI_USER || info.ssi_code == SI_QUEUE || info.ssi_code == SI_TKILL,
                .sender = (pid_t) info.ssi_pid,
                .value = info.ssi_int,
                .has_value = info.ssi_code == SI_QUEUE,
        };
        return true;
}

bool infp_signal_is_end(int number)
{
        return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT || number == SIGABRT;
}

bool infp_signals_end(struct infp_signals *signals, int wait_ms)
{
        struct pollfd fd = { .fd = signals->fd, .events = POLLIN };
        struct infp_signal signal;
        bool ret = false;

        poll(&fd, 1, wait_ms);
        while (infp_signals_next(signals, &signal))
                ret |= infp_signal_is_end(signal.number);
        return ret;
}
