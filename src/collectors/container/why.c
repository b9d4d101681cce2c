/* Why something is missing: for many containers only what all of them lack, and what the target's lacks. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/rights.h"
#include "collect/target.h"
#include "collectors/container/state.h"

static const char no_limit[] = "no limit is set";
_Static_assert(CONTAINER_MOST == 1024, "it is named below");

static const char *why_of_errno(const struct container *c, enum container_file file, int r, char *reason, size_t cap)
{
        static const char enable[] = "enable the controller in cgroup.subtree_control of the cgroup above it";
        const char *name = container_file_name(c, file);

        if (r == WHY_MACHINE)
                snprintf(reason, cap, "the counters of the root cgroup, which it is in, are machine-wide");
        else if (r == WHY_NO_CONTROLLER)
                snprintf(reason, cap, "no hierarchy with its controller is visible");
        else if (r == WHY_OTHER_CGROUP)
                snprintf(reason, cap, "that controller counts it with other processes, in another cgroup");
        else if (r == WHY_OTHER_VERSION)
                snprintf(reason, cap, "version %d of control groups does not report it", c->version);
        else if (r == -EOPNOTSUPP)
                snprintf(reason, cap, "%s does not exist in a threaded cgroup", name ? name : "it");
        else if (r == -ENOENT && file == FILE_PSI_IRQ)
                snprintf(reason, cap, "%s is missing: it needs Linux 6.1 with CONFIG_IRQ_TIME_ACCOUNTING",
                         name ? name : "it");
        else if (r == -ENOENT && container_controller(c, file) == INFP_CG_UNIFIED)
                snprintf(reason, cap, "%s is missing: the kernel keeps no pressure figures", name ? name : "it");
        else if (r == -ENOENT)
                snprintf(reason, cap, "%s is missing: the kernel is too old, or the controller is not enabled",
                         name ? name : "it");
        else
                snprintf(reason, cap, "%s: %s", name ? name : "it", strerror(-r));
        return r == -ENOENT && container_controller(c, file) != INFP_CG_UNIFIED && c->version == 2 ? enable : NULL;
}

static bool why_file(const struct container *c, unsigned cell, char *reason, size_t cap, const char **ret_fix,
                     enum infp_source_state *ret_state)
{
        enum container_file file;

        if (!container_file_of_cell(c, cell, &file))
                return false;
        if (!c->r[file]) {
                snprintf(reason, cap, "%s has no number for it", container_file_name(c, file));
                return true;
        }
        if (c->r[file] != -EOPNOTSUPP && c->r[file] != WHY_MACHINE && c->r[file] != WHY_NO_CONTROLLER &&
            c->r[file] != WHY_OTHER_VERSION && c->r[file] != WHY_OTHER_CGROUP)
                *ret_state = infp_source_state_of(c->r[file]);
        *ret_fix = why_of_errno(c, file, c->r[file], reason, cap);
        return true;
}

/* Cells of limits: the reason when the file was read, and the result of reading it. */
static bool why_limit(const struct container *c, unsigned cell, const char **ret_reason, int *ret_r)
{
        const struct container_limits *l = &c->limits;
        const bool is_v2 = c->version == 2;

        *ret_reason = no_limit;
        switch (cell) {
        case C_QUOTA:
        case C_CPU_LIMIT:
        case C_CPU_LIMIT_EFFECTIVE:
        case C_PERIOD:
                *ret_r = l->r_cpu;
                return true;
        case C_WEIGHT:
        case C_SHARES:
                *ret_r = (cell == C_WEIGHT) == is_v2 ? l->r_weight : WHY_OTHER_VERSION;
                *ret_reason = "it cannot be read";
                return true;
        case C_MEMORY_LIMIT:
        case C_MEMORY_LIMIT_EFFECTIVE:
                *ret_r = l->r_memory;
                return true;
        case C_MEMORY_HIGH:
                *ret_r = l->r_high;
                return true;
        case C_SWAP_LIMIT:
                *ret_r = l->r_swap;
                return true;
        case C_PIDS_LIMIT:
                *ret_r = l->r_pids;
                return true;
        case C_PROCESSORS:
        case C_CPUSET:
                *ret_r = l->r_cpuset;
                *ret_reason = "the kernel lists no CPUs for it";
                return true;
        default:
                return false;
        }
}

static const char *words_of(int r, const struct container *c, char *text, size_t cap)
{
        switch (r) {
        case WHY_MACHINE:
                return "it is in the root cgroup, whose limits are those of the machine";
        case WHY_NO_CONTROLLER:
                return "no hierarchy with its controller is visible";
        case WHY_OTHER_CGROUP:
                return "that controller counts it with other processes, in another cgroup";
        case WHY_OTHER_VERSION:
                snprintf(text, cap, "version %d of control groups has no such setting", c->version);
                return text;
        case -ENOENT:
                return "its file is missing: the controller is not enabled, or it is the root cgroup";
        default:
                return strerror(-r);
        }
}

static const char *why_network(const struct container *c, const char **ret_fix, enum infp_source_state *ret_state)
{
        switch (c->network) {
        case NETWORK_HOST:
                return "a process of it is in the machine's network namespace: its traffic cannot be separated from "
                       "that of "
                       "others "
                       "(see table net)";
        case NETWORK_DENIED:
                *ret_state = INFP_DENIED;
                *ret_fix = infp_rights_fix(INFP_MAY_TRACE);
                return "no permission to read the network namespace of its processes";
        case NETWORK_NO_MEMBER:
                return "none of its processes is visible, so its network namespace is unknown";
        case NETWORK_OWN:
                return "the network namespace of its process could not be read this time";
        default:
                return "the network namespace of its processes is not known";
        }
}

static bool is_network(unsigned cell)
{
        return cell == C_NET_RECEIVED || cell == C_NET_SENT || cell == C_NET_PACKETS_RECEIVED ||
               cell == C_NET_PACKETS_SENT;
}

static void say(struct infp_emit *emit, const struct container *c, unsigned cell, bool by_name)
{
        enum infp_source_state state = INFP_ABSENT;
        const char *reason = NULL, *fix = NULL;
        char text[192];
        int r = 0;

        if (is_network(cell)) {
                reason = why_network(c, &fix, &state);
        } else if (why_limit(c, cell, &reason, &r)) {
                if (r == -EACCES || r == -EPERM)
                        state = INFP_DENIED;
                if (r)
                        reason = words_of(r, c, text, sizeof(text));
        } else {
                reason = why_file(c, cell, text, sizeof(text), &fix, &state) ? text : NULL;
        }
        if (reason)
                infp_emit_source(emit, &infp_table_containers, (int) cell, by_name ? c->cid : NULL, state, reason, fix);
}

static bool has(const uint64_t bits[2], unsigned cell)
{
        return bits[cell / 64] >> cell % 64 & 1;
}

void container_explain_one(const struct containers *s, struct infp_emit *emit, const struct container *c,
                           const uint64_t missing[2], bool by_name)
{
        for (unsigned cell = C_CONTAINER + 1; cell < C_N; cell++) {
                if (cell == C_OTHERS || cell == C_IS_TARGET)
                        continue;
                if (has(missing, cell) && has(s->has, cell) == by_name)
                        say(emit, c, cell, by_name);
                else if (!has(missing, cell))
                        infp_emit_source(emit, &infp_table_containers, (int) cell, by_name ? c->cid : NULL, INFP_OK,
                                         NULL, NULL);
        }
}

static void say_shared(const struct infp_env *env, struct infp_emit *emit, const struct container *c)
{
        const bool is_run = container_mode(env) == INFP_MODE_RUN;
        const char *reason = NULL;

        if (c->n_others)
                reason = c->has_infprof ? "infprof itself and maybe others than the profiled processes are in this "
                                          "cgroup: its figures are of all of them"
                                        : "others than the profiled processes are in this cgroup: its figures are of "
                                          "all of them";
        infp_emit_source(emit, NULL, -1, c->cid[0] ? c->cid : c->name, INFP_OK, reason,
                         reason && is_run ? "record --own-cgroup runs the command in one of its own" : NULL);
}

static void say_none(struct containers *s, const struct infp_env *env, struct infp_emit *emit)
{
        enum infp_mode mode = container_mode(env);
        enum infp_source_state state = INFP_ABSENT;
        const char *reason, *fix = NULL;

        if (mode == INFP_MODE_HOST && s->all) {
                reason = "no container was found";
        } else if (mode == INFP_MODE_HOST) {
                reason = "infprof runs in no container";
                fix = "--containers records all containers of the machine";
        } else if (!s->n_pids) {
                reason = "the target has no live process";
        } else if (s->target_r == -EXDEV) {
                reason = "the profiled process is in the root cgroup, which is the whole machine";
                fix = mode == INFP_MODE_RUN ? "record --own-cgroup runs the command in one of its own" : NULL;
        } else if (s->target_r == -EACCES || s->target_r == -EPERM) {
                state = INFP_DENIED;
                reason = "no permission to read the cgroup of the profiled process";
        } else {
                reason = "the cgroup of the profiled process is not visible from here";
        }
        infp_emit_source(emit, &infp_table_containers, -1, NULL, state, reason, fix);
}

void container_explain(struct containers *s, const struct infp_env *env, struct infp_emit *emit)
{
        if (!s->n) {
                say_none(s, env, emit);
                return;
        }
        infp_emit_source(emit, &infp_table_containers, -1, NULL, INFP_OK, NULL, NULL);
        if (s->n >= CONTAINER_MOST || s->finder.is_full)
                infp_emit_source(emit, NULL, -1, "others", INFP_ABSENT,
                                 s->n >= CONTAINER_MOST
                                         ? "1024 containers are followed, the limit: later ones are left out"
                                         : "only 4096 control groups are searched: others may contain containers",
                                 NULL);
        if (s->n_pids > CONTAINER_TARGETS && container_mode(env) != INFP_MODE_HOST)
                infp_emit_source(emit, NULL, -1, "target", INFP_ABSENT,
                                 "the containers of the target's first 32 processes are followed: those of later ones "
                                 "may be others",
                                 NULL);
        for (size_t i = 0; i < s->n; i++)
                if (s->list[i]->is_target && container_mode(env) != INFP_MODE_HOST)
                        say_shared(env, emit, s->list[i]);
}
