/* What a session does about its target: starts it, waits for its tree, passes signals on, finds it again. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "collect/target.h"
#include "record/processes.h"
#include "record/session_parts.h"

static const uint64_t say_waiting_ns = 300 * INFP_NS_PER_MS; /* helpers of a command often end just after it */
static const uint64_t look_again_ns = INFP_NS_PER_S;
static const uint64_t same_press_ns = 300 * INFP_NS_PER_MS; /* no user presses faster than that */

void infp_session_release(struct infp_session *s)
{
        struct infp_child *child = s->options->child;
        struct infp_err err = { "" };

        s->is_released = true;
        s->release_ns = infp_session_now();
        if (!child)
                return;
        for (unsigned i = 0; i < child->n_strangers; i++)
                infp_target_exclude(s->options->env->target, child->strangers[i]);
        if (s->sampler)
                infp_sampler_launch(s->sampler, child->pid);
        if (infp_child_release(child, &err) < 0)
                infp_notice(&s->options->notices, "%s", err.text);
}

/* As the kernel has it: a script's begins with its interpreter. For a command that has already ended, its arguments. */
static void note_cmdline(struct infp_session *s)
{
        const struct infp_child *child = s->options->child;
        char path[48];
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%d/cmdline", (int) child->pid);
        n = infp_read_at(s->options->env->root_fd, path, s->cmdline, sizeof(s->cmdline));
        s->cmdline_size = n > 0 ? (size_t) n : 0;
        for (char **arg = child->argv; n <= 0 && *arg; arg++) {
                const size_t size = strlen(*arg) + 1;

                if (size > sizeof(s->cmdline) - s->cmdline_size)
                        return;
                memcpy(s->cmdline + s->cmdline_size, *arg, size);
                s->cmdline_size += size;
        }
}

static void ended(void *context, pid_t pid, const struct rusage *usage)
{
        const struct infp_session *s = context;
        const struct infp_child *child = s->options->child;
        const bool is_command = pid == child->pid;
        struct rusage own = *usage;
        struct infp_last_look *look;

        if (child->state == INFP_CHILD_FAILED || child->state == INFP_CHILD_WAITING)
                return;
        if (is_command && (uint64_t) usage->ru_maxrss * 1024 <= child->fork_peak_bytes + (256 << 10))
                own.ru_maxrss = 0; /* the kernel's peak is that of the fork of us that it first was */
        look = infp_last_look_new(s->options->env->root_fd, pid, &own, is_command ? child->io_fd : -1,
                                  is_command ? s->cmdline : NULL, is_command ? s->cmdline_size : 0);
        if (look)
                infp_target_add_last(s->options->env->target, look);
}

static void reaped(void *context, pid_t pid, const struct rusage *usage)
{
        struct infp_session *s = context;

        (void) pid;
        infp_target_add_reaped(s->options->env->target, usage);
}

/* A stop of the whole job (Ctrl-Z, or an editor that stops its process group) reaches us, too: the shell waits for us, so we
 * stop with the command, after writing what we hold. Someone who stops the command alone wants to look at it: the recording
 * continues. SIGTTIN and SIGTTOU of the whole job have stopped us already. */
static void stop_with_child(struct infp_session *s)
{
        if (s->options->child->stopped_by != SIGTSTP || !s->is_told_to_stop)
                return;
        s->is_told_to_stop = false;
        infp_recorder_flush(s->recorder, NULL);
        kill(getpid(), SIGSTOP);
}

static void command_ended(struct infp_session *s)
{
        struct infp_child *child = s->options->child;

        s->is_command_over = true;
        s->over_ns = infp_session_now();
        s->result->exit_code = infp_child_exit_code(child);
        s->result->exit_signal = WIFSIGNALED(child->status) ? WTERMSIG(child->status) : 0;
        s->result->was_run = true;
}

/* The command's exec, its end, and the end of its tree. */
void infp_session_follow_child(struct infp_session *s)
{
        struct infp_child *child = s->options->child;

        if (!child)
                return;
        if (child->error_fd >= 0 && child->state != INFP_CHILD_WAITING) {
                infp_child_hear(child, &s->exec_code, &s->exec_err);
                if (child->error_fd < 0 && child->state != INFP_CHILD_FAILED)
                        note_cmdline(s);
                if (child->error_fd < 0 && child->state != INFP_CHILD_FAILED)
                        infp_target_set_root(s->options->env->target, &child->pid, 1);
        }
        /* After the exec: a failed one is no process of the command. */
        infp_child_reap(child, &(struct infp_child_ends){ .ended = ended, .reaped = reaped, .context = s });
        if (child->state == INFP_CHILD_FAILED) {
                s->result->exit_code = s->exec_code;
                s->is_ending = true;
                return;
        }
        if (child->stopped_by)
                stop_with_child(s);
        if (child->state == INFP_CHILD_ENDED && !s->is_command_over)
                command_ended(s);
        if (!s->is_command_over)
                return;
        if (s->options->child_only || !child->has_children)
                s->is_ending = true;
        if (!s->is_ending && !s->said_waiting && infp_session_now() - s->over_ns >= say_waiting_ns) {
                unsigned n = infp_process_count_descendants(getpid(), child->strangers, child->n_strangers);

                s->said_waiting = true;
                infp_notice(&s->options->notices,
                            "the command has ended; waiting for %u of its descendant%s (Ctrl-C ends the recording; "
                            "--wait child does not wait)",
                            n, n == 1 ? "" : "s");
        }
}

static void set_roots(struct infp_session *s)
{
        pid_t pids[INFP_FOLLOW_PIDS];
        size_t n = infp_follow_pids(s->options->follow, pids, INFP_FOLLOW_PIDS);

        infp_target_set_root(s->options->env->target, pids, n);
}

/* The processes that the ended target has left behind, as a part of a sentence; "": none. */
static void describe_left(struct infp_session *s, char *ret, size_t size)
{
        static struct infp_target_member members[INFP_FOLLOW_PIDS];
        size_t n = infp_target_members(s->options->env->target, members, INFP_FOLLOW_PIDS);
        uint64_t bytes = 0;
        unsigned n_left = 0;

        /* bound: of more the sentence says "at least" */
        for (size_t i = 0; i < n && i < INFP_FOLLOW_PIDS; i++) {
                struct infp_process process;

                if (!infp_process_look(s->options->env->root_fd, members[i].pid, &process) ||
                    process.start_ticks != members[i].start_ticks)
                        continue;
                bytes += process.rss_pages * s->options->env->page_size;
                n_left++;
        }
        *ret = 0;
        if (n_left)
                snprintf(ret, size, ", but %s%u process%s that it started live%s on (%" PRIu64 " MiB in RAM)",
                         n > INFP_FOLLOW_PIDS ? "at least " : "", n_left, n_left == 1 ? "" : "es",
                         n_left == 1 ? "s" : "", bytes >> 20);
}

static void say_ended(struct infp_session *s)
{
        char left[128];

        describe_left(s, left, sizeof(left));
        if (infp_follow_can_return(s->options->follow))
                infp_notice(&s->options->notices,
                            "the target has ended%s; waiting for its return (Ctrl-C ends the recording)%s", left,
                            *left ? ", which are still recorded" : "");
        else
                infp_notice(&s->options->notices, "the target has ended%s%s", left,
                            *left ? "; the recording ends with the target (--pid of one of them records it)" : "");
}

static void say_target(struct infp_session *s, bool had)
{
        const struct infp_follow *follow = s->options->follow;

        if (follow->n_roots)
                infp_notice(&s->options->notices, had ? "recording process %d%s now" : "recording process %d%s",
                            (int) follow->roots[0].pid, follow->n_roots > 1 ? " and others" : "");
        else if (had || !infp_follow_can_return(follow))
                say_ended(s);
        else
                infp_notice(&s->options->notices, "waiting for the target to appear (Ctrl-C ends the recording)");
}

static void say_problem(struct infp_session *s)
{
        const struct infp_follow *follow = s->options->follow;

        if (!follow->problem[0] || s->said_problem)
                return;
        s->said_problem = true;
        infp_notice(&s->options->notices, "%s", follow->problem);
}

/* Each second: is the attached target alive, has it returned? */
void infp_session_follow_target(struct infp_session *s)
{
        struct infp_follow *follow = s->options->follow;
        uint64_t now = infp_session_now();
        bool is_first = s->look_ns == 0, is_changed;

        if (!follow || now < s->look_ns)
                return;
        s->look_ns = now + look_again_ns;
        is_changed = is_first || infp_follow_look(follow, s->options->env);
        infp_target_set_missing(s->options->env->target, follow->is_denied, follow->reason);
        if (is_changed) {
                set_roots(s);
                infp_session_follow_sampler(s);
                say_target(s, s->has_target);
        }
        say_problem(s);
        if (!is_changed)
                return;
        if (follow->n_roots && !s->has_target && s->options->found)
                s->options->found(s->options->found_context, follow->roots[0].pid);
        s->has_target |= follow->n_roots > 0;
        if (follow->n_roots == 0 && !infp_follow_can_return(follow))
                s->is_ending = true;
}

uint64_t infp_session_target_due_ns(const struct infp_session *s)
{
        if (s->options->follow)
                return s->look_ns;
        if (s->is_command_over && !s->said_waiting)
                return s->over_ns + say_waiting_ns;
        return UINT64_MAX;
}

static void pass_on(struct infp_session *s, const struct infp_signal *signal)
{
        struct infp_child *child = s->options->child;

        /* The shell continues the whole job at once: a second SIGCONT would be one too many. */
        if (signal->number == SIGCONT && !infp_child_is_stopped(child))
                return;
        if (signal->has_value)
                sigqueue(child->pid, signal->number, (union sigval){ .sival_int = signal->value });
        else
                kill(child->pid, signal->number);
}

static bool is_end(int number)
{
        return number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGABRT;
}

/* `timeout -s INT` and the like send a signal to us and then to our group: that is one request, not two. */
static bool is_another_press(struct infp_session *s)
{
        const uint64_t now = infp_session_now();

        if (s->press_ns && now - s->press_ns < same_press_ns)
                return false;
        s->press_ns = now;
        return true;
}

/* While the command lives, signals are for it. */
static void take_for_child(struct infp_session *s, const struct infp_signal *signal)
{
        const struct infp_child *child = s->options->child;

        if (signal->number == SIGINT && !signal->by_process && is_another_press(s) && ++s->n_interrupts > 1)
                s->result->skip_finish = true;
        if (signal->number == SIGTSTP || signal->number == SIGCONT)
                s->is_told_to_stop = signal->number == SIGTSTP;
        if (s->is_command_over || child->state == INFP_CHILD_FAILED) {
                /* Only descendants of the command are left: the user does not want to wait for them. */
                s->is_ending |= is_end(signal->number);
                return;
        }
        /* What the command sends to its parent is not meant for the command. */
        if (signal->by_process && signal->sender != child->pid && signal->sender != getpid())
                pass_on(s, signal);
}

static void take_for_us(struct infp_session *s, const struct infp_signal *signal)
{
        /* nohup, or a script's background job: the terminal's signals are not for us. */
        bool is_ignored = sigismember(&s->options->signals->was_ignored, signal->number) == 1;

        if (!is_end(signal->number) || (is_ignored && (!signal->by_process || signal->number == SIGHUP)))
                return;
        if (is_another_press(s) && s->is_ending)
                s->result->skip_finish = true;
        s->is_ending = true;
}

void infp_session_take_signals(struct infp_session *s)
{
        struct infp_signal signal;

        while (infp_signals_next(s->options->signals, &signal)) {
                if (signal.number == SIGCHLD)
                        continue;
                if (!s->options->child)
                        take_for_us(s, &signal);
                else
                        take_for_child(s, &signal);
        }
}
