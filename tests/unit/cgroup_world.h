/* A machine with control groups and a target, for one collector. */
#pragma once

#include "process_tree.h"

struct world {
        char top[64];
        struct machine *m;
        struct infp_target *target;
        struct infp_collector_state state;
};

static inline void world_begin(struct world *w, const char *mountinfo, const char *own_cgroup)
{
        *w = (struct world){ .m = NULL };
        tree_new(w->top);
        tree_put(w->top, "proc/self/mountinfo", mountinfo);
        tree_put(w->top, "proc/self/cgroup", own_cgroup);
}

static inline void world_watch(struct world *w, const char *collector, const struct infp_setting *settings,
                               enum infp_mode mode, pid_t root)
{
        w->m = machine_open(w->top);
        w->m->env.settings = settings;
        w->target = new_target(mode, false, root);
        w->m->env.target = w->target;
        refresh(w->target, &w->m->env);
        assert_int_equal(infp_collector_open(&w->state, infp_collector_find(collector), &w->m->env, &w->m->emit,
                                             machine_notice, w->m),
                         0);
}

static inline void world_sample(struct world *w)
{
        w->m->clock_ns += INFP_NS_PER_S;
        refresh(w->target, &w->m->env);
        assert_int_equal(infp_collector_sample(&w->state, &w->m->env, &w->m->emit, machine_notice, w->m), 0);
}

static inline void world_done(struct world *w)
{
        infp_collector_close(&w->state);
        infp_target_free(w->target);
        machine_close(w->m);
        tree_remove(w->top);
}
