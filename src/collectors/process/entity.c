/* The entity of a process: who it is. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "collectors/process/state.h"
#include "model/mask.h"

enum { CHECKS_AFTER_EXEC = 2, CHECKS_WITHOUT_IMAGE = 3 };

/* The command line, masked, in s->masked; 0 bytes: none (kernel threads, zombies, the middle of an exec). */
static size_t read_cmdline(struct processes *s, const struct infp_env *env, struct infp_process *p)
{
        ssize_t n = process_read_memory(env, p, "cmdline", s->cmdline, sizeof(s->cmdline));

        return n > 0 ? infp_mask_cmdline(s->cmdline, (size_t) n, s->keeps_secrets, s->masked, sizeof(s->masked)) : 0;
}

static void find_start(struct processes *s, const struct infp_env *env, const struct infp_process *p,
                       struct process_user *u)
{
        uint64_t since_boot = p->start_ticks / env->ticks_per_s * INFP_NS_PER_S +
                              p->start_ticks % env->ticks_per_s * (INFP_NS_PER_S / env->ticks_per_s);
        int64_t boot = s->boot_unix_ns;

        if (s->is_live) /* btime has whole seconds only */
                boot = (int64_t) (infp_clock_ns(CLOCK_REALTIME) - infp_clock_ns(CLOCK_BOOTTIME));
        u->has_start = (s->is_live || s->has_boot) && p->start_ticks / env->ticks_per_s < INT32_MAX &&
                       !__builtin_add_overflow(boot, since_boot, &u->start_unix_ns);
}

static void emit_entity(struct infp_emit *emit, const struct infp_process *p, const struct process_user *u)
{
        struct infp_row *row = infp_emit_begin(emit, &infp_table_process, p->t_ns);

        infp_row_id(row, ENTITY_ID, p->id);
        infp_row_i64(row, ENTITY_PID, p->pid);
        infp_row_i64(row, ENTITY_PARENT, u->first_parent);
        infp_row_bytes(row, ENTITY_NAME, u->name, u->name_size);
        if (u->cmdline_size)
                infp_row_bytes(row, ENTITY_CMDLINE, u->cmdline, u->cmdline_size);
        if (u->has_start)
                infp_row_ts(row, ENTITY_START, u->start_unix_ns);
        if (u->has_uid)
                infp_row_i64(row, ENTITY_UID, u->uid);
        infp_emit_commit(emit);
}

static int set_cmdline(struct infp_process *p, const char *text, size_t size)
{
        struct process_user *u = realloc(p->user, sizeof(*u) + size);

        if (!u)
                return -ENOMEM;
        memcpy(u->cmdline, text, size);
        u->cmdline_size = (uint32_t) size;
        p->user = u;
        return 0;
}

int process_first_sight(struct processes *s, const struct infp_env *env, struct infp_process *p)
{
        struct process_user *u = calloc(1, sizeof(*u));

        if (!u)
                return -ENOMEM;
        p->user = u;
        u->first_parent = p->ppid;
        u->n_checks = CHECKS_WITHOUT_IMAGE;
        u->has_changed = true;
        find_start(s, env, p, u);
        return 0;
}

static void compare_name(const struct infp_process *p, struct process_user *u)
{
        if (p->comm_size == u->name_size && !memcmp(p->comm, u->name, p->comm_size))
                return;
        memcpy(u->name, p->comm, p->comm_size);
        u->name_size = p->comm_size;
        u->n_checks = CHECKS_AFTER_EXEC;
        u->has_changed = true;
}

/* An empty one says nothing new: a process that ends has none any more. */
static int compare_cmdline(struct processes *s, const struct infp_env *env, struct infp_process *p)
{
        struct process_user *u = p->user;
        size_t size = read_cmdline(s, env, p);

        if (!size || (size == u->cmdline_size && !memcmp(s->masked, u->cmdline, size)))
                return 0;
        INFP_TRY(set_cmdline(p, s->masked, size));
        u = p->user;
        u->has_changed = true;
        return 0;
}

int process_entity(struct processes *s, const struct infp_env *env, struct infp_emit *emit, struct infp_process *p,
                   bool is_due)
{
        struct process_user *u = p->user;

        compare_name(p, u);
        if (p->image != u->image)
                u->n_checks = CHECKS_AFTER_EXEC;
        u->image = p->image;
        if (u->n_checks || is_due) {
                u->n_checks -= u->n_checks > 0;
                INFP_TRY(compare_cmdline(s, env, p));
                u = p->user;
        }
        if (u->has_changed)
                emit_entity(emit, p, u);
        u->has_changed = false;
        return 0;
}
