#include "app/watch_run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "app/move_run.h"
#include "app/open_run.h"
#include "app/private_run.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "base/time.h"
#include "finish/name_frames.h"
#include "store/live.h"

enum {
        LOOK_MS = 20,
        MESSAGE = 1024,
        NAMES_SHARE = 10,  /* naming takes at most 1/10 of a core at first, ... */
        NAMES_LATER = 100, /* ... and 1/100 after it has taken a second */
        END_MS = 10000,    /* for the recorder to write its end */
};

struct infp_watch_run {
        struct infp_run *run;
        int lock_fd;
        struct infp_watch *watch;
        struct infp_name_frames *names;
        uint64_t names_due_ns, names_cpu_ns;

        char *directory; /* of our own run; NULL: somebody else's */
        int held_fd;     /* keeps others from sweeping it */
        pid_t recorder;  /* 0: it has ended */
        int status;      /* of the ended one */
        int said_fd;     /* what it says */
        char said[MESSAGE];
        size_t said_size;
        char last[MESSAGE]; /* sentence that it said last */
        uint64_t alive_ns;  /* when somebody else's run was last seen to be recorded */
        bool is_over;
};

static struct infp_watch_run *new_run(struct infp_err *err)
{
        struct infp_watch_run *run = calloc(1, sizeof(*run));

        if (!run) {
                infp_fail(err, -ENOMEM, "out of memory");
                return NULL;
        }
        run->lock_fd = run->said_fd = run->held_fd = -1;
        return run;
}

/* A live run by its entry. */
static int attach_newest(struct infp_watch_run *run, struct infp_err *err)
{
        struct infp_live_entry entry;
        char *path = NULL;
        int r = infp_live_find(NULL, &entry, err);

        if (r < 0)
                return r;
        if (asprintf(&path, "%s/%s.infprof", entry.output, entry.uuid) < 0)
                r = infp_fail(err, -ENOMEM, "out of memory");
        else
                r = infp_reader_open(path, &run->run, &run->lock_fd, err);
        free(entry.output);
        free(path);
        return r;
}

int infp_watch_run_attach(const char *spec, struct infp_watch_run **ret, struct infp_err *err)
{
        struct infp_watch_run *run = new_run(err);
        int r;

        if (!run)
                return -ENOMEM;
        r = spec ? infp_reader_open(spec, &run->run, &run->lock_fd, err) : attach_newest(run, err);
        if (r >= 0 && run->run->state != INFP_RUN_RECORDING)
                r = infp_fail(err, -ENODATA, "run %s is no longer recorded; `infprof report -r %s` shows it",
                              run->run->info.uuid, run->run->info.uuid);
        if (r < 0) {
                infp_watch_run_close(run, NULL, NULL, NULL);
                return r;
        }
        *ret = run;
        return 0;
}

static void be_recorder(int (*record)(void *context, const char *directory), void *context, const char *directory,
                        int said_fd, pid_t parent)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC), code;

        /* The terminal's signals are for the view. */
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (getppid() != parent || null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(null, STDOUT_FILENO) < 0 ||
            dup2(said_fd, STDERR_FILENO) < 0)
                _exit(EXIT_FAILURE);
        code = record(context, directory);
        fflush(NULL);
        _exit(infp_thread_exit_code(code));
}

int infp_watch_run_record(int (*record)(void *context, const char *directory), void *context,
                          struct infp_watch_run **ret, struct infp_err *err)
{
        struct infp_watch_run *run = new_run(err);
        const pid_t parent = getpid();
        int fds[2] = { -1, -1 }, r = 0;

        if (!run)
                return -ENOMEM;
        infp_private_sweep("top");
        run->directory = infp_private_directory("top", false, &run->held_fd, err);
        if (!run->directory)
                r = -ENOSPC;
        else if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) < 0)
                r = infp_fail_errno(err, -errno, "cannot make a pipe for the recorder");
        if (r == 0) {
                fflush(NULL);
                run->recorder = fork();
                if (run->recorder == 0)
                        be_recorder(record, context, run->directory, fds[1], parent);
                if (run->recorder < 0)
                        r = infp_fail_errno(err, -errno, "cannot start the recorder");
        }
        infp_close(fds[1]);
        run->said_fd = fds[0];
        if (r < 0) {
                infp_watch_run_close(run, NULL, NULL, NULL);
                return r;
        }
        *ret = run;
        return 0;
}

/* Not worth a line: the view shows it. */
static bool is_usual(const char *line)
{
        static const char usual[] = "recording process ";

        return strncmp(line, usual, strlen(usual)) == 0;
}

static void take_line(struct infp_watch_run *run, const char *line, const struct infp_notices *notices)
{
        static const char name[] = "infprof: ", verb[] = "record: ";

        if (strncmp(line, name, strlen(name)) == 0)
                line += strlen(name);
        if (strncmp(line, verb, strlen(verb)) == 0)
                line += strlen(verb);
        snprintf(run->last, sizeof(run->last), "%s", line);
        if (!is_usual(line))
                infp_notice(notices, "%s", line);
}

static void hear(struct infp_watch_run *run, const struct infp_notices *notices)
{
        ssize_t n;

        while (run->said_fd >= 0 &&
               (n = read(run->said_fd, run->said + run->said_size, sizeof(run->said) - 1 - run->said_size)) > 0) {
                char *end;

                run->said_size += (size_t) n;
                run->said[run->said_size] = 0;
                while ((end = memchr(run->said, '\n', run->said_size)) || run->said_size == sizeof(run->said) - 1) {
                        const size_t size = end ? (size_t) (end - run->said) : run->said_size;

                        run->said[size] = 0;
                        take_line(run, run->said, notices);
                        run->said_size -= end ? size + 1 : size;
                        memmove(run->said, run->said + size + 1, end ? run->said_size : 0);
                }
        }
        if (run->said_fd >= 0 && n == 0)
                run->said_fd = infp_close(run->said_fd);
}

static void look_after_recorder(struct infp_watch_run *run, const struct infp_notices *notices)
{
        hear(run, notices);
        if (run->recorder <= 0 || waitpid(run->recorder, &run->status, WNOHANG) != run->recorder)
                return;
        run->recorder = 0;
        run->is_over = true;
        hear(run, notices);
}

static int fail_recorder(const struct infp_watch_run *run, struct infp_err *err)
{
        if (WIFSIGNALED(run->status))
                return infp_fail(err, -ECHILD, "the recorder was killed by signal %d (%s)", WTERMSIG(run->status),
                                 strsignal(WTERMSIG(run->status)));
        if (run->last[0] && !is_usual(run->last))
                return infp_fail(err, -ECHILD, "%s", run->last);
        return infp_fail(err, -ECHILD, "the recorder ended with exit code %d", WEXITSTATUS(run->status));
}

/* Until our own recorder has begun its run: it makes the directory first, and then the file that says what the run is of. */
static int wait_for_run(struct infp_watch_run *run, struct infp_signals *signals, struct infp_err *err)
{
        while (!run->run) {
                look_after_recorder(run, NULL);
                if (infp_run_open(run->directory, NULL, &run->run, NULL) < 0)
                        run->run = NULL;
                if (run->run && run->run->problem)
                        run->run = infp_run_close(run->run);
                if (!run->run && run->is_over)
                        return fail_recorder(run, err);
                if (infp_signals_end(signals, LOOK_MS))
                        return infp_fail(err, -EINTR, "interrupted");
        }
        return 0;
}

/* What the recorder says before it fails is the caller's error, and no notice as well. */
int infp_watch_run_wait(struct infp_watch_run *run, struct infp_signals *signals, uint64_t history_ns,
                        const struct infp_notices *notices, struct infp_err *err)
{
        INFP_TRY(wait_for_run(run, signals, err));
        INFP_TRY(infp_watch_new(run->run, history_ns, &run->watch, err));
        INFP_TRY(infp_name_frames_new(run->run->info.started_unix_ns, &run->names, err));
        for (;;) {
                look_after_recorder(run, NULL);
                /* The recorder publishes the run after it has made it. */
                if (run->directory && run->lock_fd < 0 && !run->is_over)
                        run->lock_fd = infp_live_read_lock(run->run->info.uuid, NULL);
                INFP_TRY(infp_watch_run_read(run, err));
                if (infp_watch_newest_ns(run->watch)) {
                        if (run->last[0] && !is_usual(run->last))
                                infp_notice(notices, "%s", run->last);
                        return 0;
                }
                if (run->is_over)
                        return fail_recorder(run, err);
                if (infp_signals_end(signals, LOOK_MS))
                        return infp_fail(err, -EINTR, "interrupted");
        }
}

unsigned infp_watch_run_pollfds(const struct infp_watch_run *run, struct pollfd ret[INFP_WATCH_RUN_FDS])
{
        const int names_fd = run->names ? infp_name_frames_fd(run->names) : -1;
        unsigned n = 0;

        if (run->said_fd >= 0)
                ret[n++] = (struct pollfd){ .fd = run->said_fd, .events = POLLIN };
        if (names_fd >= 0)
                ret[n++] = (struct pollfd){ .fd = names_fd, .events = POLLIN };
        return n;
}

static void take_name(void *context, uint64_t id, const struct infp_symbol *levels, unsigned n)
{
        struct infp_watch_run *run = context;
        struct infp_watch_name names[INFP_SYMBOL_MAX_LEVELS];

        for (unsigned i = 0; i < n; i++)
                names[i] = (struct infp_watch_name){ levels[i].name, levels[i].file, levels[i].from, levels[i].line,
                                                     levels[i].function_line };
        infp_watch_set_name(run->watch, id, names, n);
}

static void take_names(struct infp_watch_run *run)
{
        const int fd = infp_name_frames_fd(run->names);
        struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
        uint64_t cost;

        if (fd < 0 || poll(&poll_fd, 1, 0) <= 0)
                return;
        infp_name_frames_read(run->names, take_name, run, NULL);
        if (infp_name_frames_fd(run->names) >= 0)
                return;
        cost = infp_name_frames_cpu_ns(run->names);
        run->names_cpu_ns += cost;
        run->names_due_ns =
                infp_clock_ns(CLOCK_MONOTONIC) + cost * (run->names_cpu_ns < INFP_NS_PER_S ? NAMES_SHARE : NAMES_LATER);
}

static void ask_names(struct infp_watch_run *run)
{
        struct infp_watch_frame frame;

        if (infp_name_frames_fd(run->names) >= 0 || infp_clock_ns(CLOCK_MONOTONIC) < run->names_due_ns)
                return;
        while (infp_watch_nameless(run->watch, &frame))
                infp_name_frames_add(run->names, frame.id, (enum infp_frame_kind) frame.kind, frame.object,
                                     frame.build_id, frame.address);
        infp_name_frames_begin(run->names, NULL);
}

/* Whether somebody else's recorder lives: a look at a lock. */
static void look_after_other(struct infp_watch_run *run)
{
        const uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);

        if (run->directory || now < run->alive_ns + INFP_NS_PER_S)
                return;
        run->alive_ns = now;
        run->is_over |= !infp_run_is_recording(run->run);
}

bool infp_watch_run_turn(struct infp_watch_run *run, const struct infp_notices *notices)
{
        if (run->directory)
                look_after_recorder(run, notices);
        look_after_other(run);
        take_names(run);
        return run->is_over;
}

int infp_watch_run_failure(const struct infp_watch_run *run, struct infp_err *err)
{
        if (!run->directory || run->recorder || (WIFEXITED(run->status) && WEXITSTATUS(run->status) == 0))
                return 0;
        return fail_recorder(run, err);
}

/* The recorder writes the attached target's command when it has found it. */
static int learn_target(struct infp_watch_run *run, struct infp_err *err)
{
        const struct infp_run_info *info = &run->run->info;

        if (strcmp(info->mode, "pid") != 0 || info->target_command[0] || run->is_over)
                return 0;
        return infp_run_reload(run->run, err);
}

int infp_watch_run_read(struct infp_watch_run *run, struct infp_err *err)
{
        INFP_TRY(learn_target(run, err));
        INFP_TRY(infp_watch_read(run->watch, err));
        ask_names(run);
        return 0;
}

struct infp_watch *infp_watch_run_watch(struct infp_watch_run *run)
{
        return run->watch;
}

const struct infp_run *infp_watch_run_of(const struct infp_watch_run *run)
{
        return run->run;
}

/* Ends our recorder, and does not wait for it longer than a while. */
static void end_recorder(struct infp_watch_run *run)
{
        const uint64_t deadline = infp_clock_ns(CLOCK_MONOTONIC) + END_MS * INFP_NS_PER_MS;

        if (run->recorder > 0)
                kill(run->recorder, SIGINT);
        while (run->recorder > 0 && infp_clock_ns(CLOCK_MONOTONIC) < deadline) {
                struct pollfd fd = { .fd = run->said_fd, .events = POLLIN };

                look_after_recorder(run, NULL);
                if (run->recorder > 0)
                        poll(&fd, 1, LOOK_MS);
        }
        if (run->recorder <= 0)
                return;
        kill(run->recorder, SIGKILL);
        waitpid(run->recorder, NULL, 0);
        run->recorder = 0;
}

static int save_run(struct infp_watch_run *run, const char *output, char **ret_path, struct infp_err *err)
{
        INFP_TRY(infp_run_reload(run->run, err));
        INFP_TRY(infp_move_run(run->run, output, err));
        if (ret_path && asprintf(ret_path, "%s/%s.infprof", output, run->run->info.uuid) < 0)
                *ret_path = NULL;
        return 0;
}

int infp_watch_run_close(struct infp_watch_run *run, const char *save, char **ret_path, struct infp_err *err)
{
        struct infp_err why = { "" };
        int r = 0;

        if (!run)
                return 0;
        infp_name_frames_free(run->names);
        infp_watch_free(run->watch);
        end_recorder(run);
        if (save && run->run && run->directory)
                r = save_run(run, save, ret_path, &why);
        if (r < 0) {
                run->directory = infp_private_keep(run->directory);
                infp_fail(err, r, "%s; the run is in %s", why.text, run->directory);
                free(run->directory);
        } else {
                infp_private_remove(run->directory);
        }
        infp_run_close(run->run);
        infp_close(run->lock_fd);
        infp_close(run->said_fd);
        infp_close(run->held_fd);
        free(run);
        return r;
}
