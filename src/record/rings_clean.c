/* Ring files that nobody will read: of processes that were killed without a recording, or whose recorder was. Never that of a
 * process that lives, nor one that another recorder is reading. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "record/rings_parts.h"
#include "store/live.h"

/* A recorder may be about to open it: the process has only just ended. */
static const uint64_t fresh_ns = 10 * INFP_NS_PER_S;
#define INITIAL_PID_NAMESPACE UINT64_C(0xEFFFFFFC) /* PROC_PID_INIT_INO: whose processes see all others */

struct clean {
        struct infp_rings *rings;
        const struct ring_place *place;
};

static bool run_lives(const char *run)
{
        struct infp_live_entry live = { .output = NULL };
        const bool lives = run[0] && infp_live_find(run, &live, NULL) == 0;

        free(live.output);
        return lives;
}

static bool process_lives(const struct infp_rings *rings, const struct infp_ring_head *head)
{
        if (strcmp(head->boot_id, rings->options.env->boot_id) != 0)
                return !rings->options.env->boot_id[0]; /* of an earlier boot; unless we do not know ours */
        if (!head->pid_ns || !rings->own_pid_ns || head->pid_ns == rings->own_pid_ns)
                return rings_is_alive(rings, head->pid, head->start_ticks);
        /* Where we do not see all processes it may live unseen. */
        return rings->own_pid_ns != INITIAL_PID_NAMESPACE || rings_find_in_namespace(rings, head) > 0;
}

static int look_at(void *context, const char *name, const struct infp_ring_name *parsed)
{
        const struct clean *c = context;
        const struct infp_rings *rings = c->rings;
        infp_autoclose int file = infp_ring_file_open(c->place->fd, name, geteuid(), true);
        struct infp_ring_head head;
        int r;

        if (file < 0 || (parsed->created_ns <= rings->now_ns && rings->now_ns - parsed->created_ns < fresh_ns))
                return 0;
        r = infp_ring_head_read(file, &head, NULL);
        if (r == -EAGAIN && rings_is_alive(rings, parsed->pid, parsed->start_ticks))
                return 0;
        if (r == 0 && (process_lives(rings, &head) || run_lives(head.run)))
                return 0;
        if ((r < 0 && r != -EAGAIN) || flock(file, LOCK_EX | LOCK_NB) < 0)
                return 0; /* no ring file, whatever it is called; or somebody reads it */
        unlinkat(c->place->fd, name, 0);
        return 0;
}

void rings_clean(struct infp_rings *rings, const struct ring_place *place)
{
        struct clean clean = { .rings = rings, .place = place };

        infp_ring_names(place->fd, look_at, &clean);
}
