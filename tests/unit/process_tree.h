/* Processes for tests: written into fixture trees, or forked. */
#pragma once

#include "machine.h"

#include <sys/prctl.h>
#include <sys/wait.h>

#include "base/time.h"
#include "collect/target.h"

struct fake_process {
        int pid, ppid;
        const char *name;
        unsigned long long start, utime, stime, cutime, cstime, minflt, cminflt;
};

static inline void put_process(const char *top, struct fake_process p)
{
        char path[64], text[512];

        snprintf(path, sizeof(path), "proc/%d/stat", p.pid);
        snprintf(text, sizeof(text),
                 "%d (%s) S %d 1 1 0 -1 0 %llu %llu 0 0 %llu %llu %llu %llu 20 0 1 0 %llu 4096000 10 0 0 0 0 0 0 0 0 0 "
                 "0 "
                 "0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
                 p.pid, p.name ? p.name : "x", p.ppid, p.minflt, p.cminflt, p.utime, p.stime, p.cutime, p.cstime,
                 p.start ? p.start : (unsigned long long) p.pid);
        tree_put(top, path, text);
}

static inline void remove_process(const char *top, int pid)
{
        tree_command("rm -r '%s/proc/%d'", top, pid);
}

static inline struct infp_target *new_target(enum infp_mode mode, bool all, pid_t root)
{
        struct infp_target *target;
        struct infp_err err;

        assert_int_equal(infp_target_new(mode, all, &target, &err), 0);
        if (root)
                infp_target_set_root(target, &root, 1);
        return target;
}

static inline void refresh(struct infp_target *target, const struct infp_env *env)
{
        struct infp_err err = { "" };

        if (infp_target_refresh(target, env, &err) < 0)
                fail_msg("refresh: %s", err.text);
}

/* The live one, or the gone one, of a pid; NULL when it is not followed. */
static inline struct infp_process *process_of(struct infp_target *target, int pid, bool is_gone)
{
        for (size_t i = 0; i < infp_target_count(target); i++)
                if (infp_target_at(target, i)->pid == pid && infp_target_at(target, i)->is_gone == is_gone)
                        return infp_target_at(target, i);
        return NULL;
}

static inline bool is_live(struct infp_target *target, int pid)
{
        return process_of(target, pid, false) != NULL;
}

/* The machine itself, with its own clock. */
static inline struct machine *live_machine(void)
{
        struct machine *m = machine_open("/");
        struct infp_env env;
        struct infp_err err;

        assert_int_equal(infp_env_open(&env, "/", &err), 0);
        m->env.now_ns = env.now_ns;
        infp_env_close(&env);
        return m;
}

static inline void sleep_ms(unsigned ms)
{
        struct timespec t = infp_timespec(ms * INFP_NS_PER_MS);

        while (nanosleep(&t, &t))
                ;
}

/* A child that ends with this test whatever happens. */
static inline pid_t fork_child(void)
{
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (!pid)
                prctl(PR_SET_PDEATHSIG, SIGKILL);
        return pid;
}

_Noreturn static inline void stand(void)
{
        alarm(60);
        for (;;)
                pause();
}

static inline void end_child(pid_t pid)
{
        kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Makes the next pid of this pid namespace; false where we may not. */
static inline bool set_next_pid(pid_t pid)
{
        FILE *file = fopen("/proc/sys/kernel/ns_last_pid", "w");
        bool ok = file && fprintf(file, "%d", pid - 1) > 0;

        return file && fclose(file) == 0 && ok;
}
