/* What the memory of the target's processes holds, by /proc/PID/smaps. To read it the kernel walks all pages that a process has in RAM
 * (11 ms a GiB of small pages on one machine, and 1.4 us a mapping), and holds the lock of its mappings for some of them at a time: so it is
 * read rarely, and in the long run for no more than a share of the time of one CPU. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/procfile.h"
#include "base/rights.h"
#include "base/sort.h"
#include "base/time.h"
#include "collect/collector.h"
#include "collect/process_stat.h"
#include "collect/target.h"
#include "collectors/memory/smaps.h"

enum { PERIOD_MS = 1000, MOST_PROCESSES = 4096, PIECE = 64 * 1024 };
/* An account of each process soon after it was seen first, and whenever its RSS has changed by a tenth; else rarely. */
static const uint64_t first_ns = 900 * INFP_NS_PER_MS, rarely_ns = INFP_MEMORY_ACCOUNT_PERIOD_S * INFP_NS_PER_S,
                      late_ns = 60 * INFP_NS_PER_S;
static const int64_t least_change_bytes = 1 << 20;
/* 0.5 % of a CPU; what was not used is kept for a burst: a tree that begins. */
enum { CPU_SHARE = 200 };
static const int64_t most_saved_ns = 50 * (int64_t) INFP_NS_PER_MS;

struct memory {
        struct infp_target_member members[MOST_PROCESSES];
        struct memory_process {
                int32_t pid; /* first: infp_find_i32 */
                bool is_denied;
                uint64_t id, start_ticks, seen_ns, read_ns; /* read_ns 0: not yet */
                int64_t rss, read_rss;                      /* now (-1: not known); in its last account */
        } lists[2][MOST_PROCESSES], *now;
        size_t n;
        unsigned turn;
        int64_t saved_ns; /* of CPU time that may be used; negative: too much was */
        uint64_t earned_ns;
        bool is_late, is_left_out, has_denied;
        struct infp_smaps smaps;
        char piece[PIECE];
};

static int memory_open(void *state, const struct infp_env *env, struct infp_err *err)
{
        struct memory *s = state;

        if (!env->target || infp_target_mode(env->target) == INFP_MODE_HOST)
                return infp_fail(err, -ENODEV, "no process is the target: only its processes have an account");
        s->now = s->lists[0];
        s->saved_ns = most_saved_ns;
        return 0;
}

/* Of statm, which has the sum over all CPUs; -1: the process has ended, or has no memory. */
static int64_t rss_of(const struct infp_env *env, int32_t number)
{
        char path[64], text[128];
        struct infp_span line = { .at = text };
        uint64_t pages;
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%" PRId32 "/statm", number);
        n = infp_read_at(env->root_fd, path, text, sizeof(text));
        line.size = n > 0 ? (size_t) n : 0;
        infp_span_word(&line);
        if (infp_span_u64(infp_span_word(&line), &pages) || !pages || pages > INT64_MAX / env->page_size)
                return -1;
        return (int64_t) (pages * env->page_size);
}

/* *ret_number: whose files show it; that of another thread once the first one has ended. */
static int64_t rss_of_process(const struct infp_env *env, int32_t pid, int32_t *ret_number)
{
        const int64_t rss = rss_of(env, *ret_number = pid);

        return rss >= 0 ? rss : rss_of(env, *ret_number = infp_proc_thread(env->root_fd, "proc/", pid));
}

static void look(struct memory *s, const struct infp_env *env, uint64_t now)
{
        struct memory_process *const before = s->now, *const list = s->lists[s->turn = !s->turn];
        const size_t n_before = s->n, n = infp_target_members(env->target, s->members, MOST_PROCESSES);

        s->is_left_out |= n > MOST_PROCESSES;
        s->n = n < MOST_PROCESSES ? n : MOST_PROCESSES;
        s->now = list;
        for (size_t i = 0; i < s->n; i++) {
                const struct infp_target_member *m = &s->members[i];
                const struct memory_process *known = infp_find_i32(before, n_before, sizeof(*before), m->pid);

                list[i] = known && known->id == m->id
                                  ? *known
                                  : (struct memory_process){
                                            .pid = m->pid, .id = m->id, .start_ticks = m->start_ticks, .seen_ns = now
                                    };
                list[i].rss = rss_of_process(env, m->pid, &(int32_t){ 0 });
        }
}

static bool is_due(const struct memory_process *p, const struct infp_env *env, uint64_t now)
{
        const int64_t change = p->rss > p->read_rss ? p->rss - p->read_rss : p->read_rss - p->rss;

        if (p->rss < 0 || (p->is_denied && now - p->read_ns < late_ns))
                return false;
        if (!p->read_ns)
                return !env->stats || now - p->seen_ns >= first_ns;
        return now - p->read_ns >= rarely_ns ||
               (now - p->read_ns >= first_ns && change > least_change_bytes && change > p->read_rss / 10);
}

/* Those that have waited longest, weighted by their memory: of a thousand small ones none keeps the server from its turn. */
static struct memory_process *next_due(struct memory *s, const struct infp_env *env, uint64_t now)
{
        struct memory_process *ret = NULL;
        double most = -1;

        for (size_t i = 0; i < s->n; i++) {
                struct memory_process *p = &s->now[i];
                const uint64_t since = p->read_ns ? p->read_ns : p->seen_ns;
                const double weight = (double) p->rss * (double) (now - since + 1);

                if (!is_due(p, env, now))
                        continue;
                s->is_late |= !p->is_denied && now - since >= late_ns;
                if (weight > most) {
                        most = weight;
                        ret = p;
                }
        }
        return ret;
}

/* How long the stack of a thread is that asks for nothing else, as glibc does it: the limit when the program began; 0: not known. */
static uint64_t stack_bytes(const struct infp_env *env, int32_t number)
{
        static const uint64_t without_limit = 2 << 20, most = 64 << 20;
        char path[64], text[4096];
        struct infp_span rest = { .at = text }, line;
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%" PRId32 "/limits", number);
        n = infp_read_at(env->root_fd, path, text, sizeof(text));
        rest.size = n > 0 ? (size_t) n : 0;
        while (infp_span_line(&rest, &line)) {
                struct infp_span words[4];
                uint64_t bytes;

                if (!infp_span_starts(line, "Max stack size ") || infp_span_words(line, words, 4) < 4)
                        continue;
                if (infp_span_is(words[3], "unlimited"))
                        return without_limit;
                return !infp_span_u64(words[3], &bytes) && bytes <= most ? bytes / env->page_size * env->page_size : 0;
        }
        return 0;
}

enum {
        PAGE_IS_PRESENT = 63,
        PAGE_IS_SWAPPED = 62
}; /* bits of an entry of pagemap, Documentation/admin-guide/mm/pagemap.rst */

/* A thread's own data lies in the topmost page of its stack, so that this one has been touched; that of a longer stack hardly has. */
static void look_at_joined(struct memory *s, const struct infp_env *env, int pagemap, struct smaps_joined *joined)
{
        const uint64_t n_pages = s->smaps.stack_bytes / env->page_size;
        uint64_t entry = 0, n_present = 0;

        for (uint64_t i = 0; i < n_pages;) {
                const uint64_t left = (n_pages - i) * sizeof(entry);
                const ssize_t n = pread(pagemap, s->piece, left < sizeof(s->piece) ? left : sizeof(s->piece),
                                        (off_t) ((joined->begin / env->page_size + i) * sizeof(entry)));

                if (n < (ssize_t) sizeof(entry))
                        return;
                for (size_t at = 0; at + sizeof(entry) <= (size_t) n; at += sizeof(entry), i++) {
                        memcpy(&entry, s->piece + at, sizeof(entry));
                        n_present += entry >> PAGE_IS_PRESENT;
                }
        }
        joined->has_stack = entry >> PAGE_IS_SWAPPED;
        joined->stack = n_present * env->page_size;
}

/* Without the right to read it they are what their length says. */
static void look_at_stacks(struct memory *s, const struct infp_env *env, int32_t number)
{
        infp_autoclose int fd = -1;
        char path[64];

        if (!s->smaps.n_joined)
                return;
        snprintf(path, sizeof(path), "proc/%" PRId32 "/pagemap", number);
        fd = openat(env->root_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        for (uint32_t i = 0; fd >= 0 && i < s->smaps.n_joined; i++)
                look_at_joined(s, env, fd, &s->smaps.joined[i]);
}

static int read_smaps(struct memory *s, const struct infp_env *env, int32_t number)
{
        infp_autoclose int fd = -1;
        char path[64];
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%" PRId32 "/smaps", number);
        fd = openat(env->root_fd, path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
                return -errno;
        infp_smaps_begin(&s->smaps);
        s->smaps.stack_bytes = stack_bytes(env, number);
        while ((n = read(fd, s->piece, sizeof(s->piece))) != 0) {
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                infp_smaps_add(&s->smaps, s->piece, (size_t) n);
        }
        look_at_stacks(s, env, number);
        return 0;
}

static void put_row(struct infp_emit *emit, uint64_t t_ns, uint64_t process, const struct infp_smaps_row *from,
                    int64_t bytes)
{
        struct infp_row *row = infp_emit_begin(emit, &infp_table_memory_account, t_ns);
        char name[PATH_MAX + 16];
        size_t n = 0;

        infp_row_id(row, INFP_MEMORY_ACCOUNT_PROCESS, process);
        infp_row_str(row, INFP_MEMORY_ACCOUNT_OF, infp_memory_kind_of(from->kind));
        infp_row_str(row, INFP_MEMORY_ACCOUNT_KIND, infp_memory_kind_name(from->kind));
        /* The kernel writes a newline in a path as \012, and nothing else so. bound: of a path, with " (deleted)" */
        for (size_t i = 0; i < from->size && n < sizeof(name);) {
                const bool is_newline = from->size - i >= 4 && !memcmp(from->name + i, "\\012", 4);

                name[n++] = is_newline ? '\n' : from->name[i];
                i += is_newline ? 4 : 1;
        }
        if (from->name)
                infp_row_bytes(row, INFP_MEMORY_ACCOUNT_NAME, name, n);
        else
                infp_emit_quiet(emit, INFP_MEMORY_ACCOUNT_NAME);
        infp_row_i64(row, INFP_MEMORY_ACCOUNT_BYTES, bytes);
        infp_row_str(row, INFP_MEMORY_ACCOUNT_QUALITY, infp_quality_name(from->quality));
        infp_emit_commit(emit);
}

/* RSS as it was read before and after: a sum between the two was right at some moment of the reading. */
static int64_t unexplained(int64_t before, int64_t after, int64_t sum)
{
        const int64_t least = before < after ? before : after, most = before < after ? after : before;

        return sum < least ? least - sum : sum > most ? most - sum : 0;
}

/* A process that has ended, or become another program, meanwhile has no account: absent, not small. -ENODEV: the kernel has no smaps. */
static int read_one(struct memory *s, const struct infp_env *env, struct infp_emit *emit, struct memory_process *p)
{
        const struct infp_smaps_row rest = { .kind = INFP_MEMORY_UNEXPLAINED, .quality = INFP_DERIVED };
        struct infp_smaps_row rows[INFP_SMAPS_MOST_ROWS];
        struct infp_process first, last;
        const uint64_t t_ns = env->now_ns(env);
        int64_t before, after;
        int32_t number;
        uint64_t bytes;
        unsigned n;
        int r;

        INFP_TRY(infp_process_stat_read(env->root_fd, p->pid, &first));
        before = rss_of_process(env, p->pid, &number);
        r = read_smaps(s, env, number);
        after = rss_of(env, number);
        INFP_TRY(infp_process_stat_read(env->root_fd, p->pid, &last));
        if (r == -ENOENT && number == p->pid && last.start_ticks == p->start_ticks)
                return -ENODEV;
        INFP_TRY(r);
        n = infp_smaps_end(&s->smaps, rows, &bytes);
        if (before < 0 || after < 0 || !bytes || bytes > INT64_MAX / 2 || first.start_ticks != p->start_ticks ||
            last.start_ticks != p->start_ticks || first.image != last.image)
                return -ESRCH;
        for (unsigned i = 0; i < n; i++)
                put_row(emit, t_ns, p->id, &rows[i], (int64_t) rows[i].bytes);
        bytes = (uint64_t) unexplained(before, after, (int64_t) bytes);
        if (bytes)
                put_row(emit, t_ns, p->id, &rest, (int64_t) bytes);
        p->read_rss = after;
        return 0;
}

static void say(const struct memory *s, struct infp_emit *emit)
{
        if (s->has_denied)
                infp_emit_source(emit, &infp_table_memory_account, -1, NULL, INFP_DENIED,
                                 "the kernel shows smaps of other users' processes only to those who may trace them",
                                 infp_rights_fix(INFP_MAY_TRACE));
        if (s->is_left_out)
                infp_emit_source(emit, &infp_table_memory_account, -1, "others", INFP_ABSENT,
                                 "only the first 4,096 processes of the target have an account", NULL);
        if (s->is_late)
                infp_emit_source(emit, &infp_table_memory_account, -1, "rare", INFP_LATE,
                                 "reading smaps may take 0.5 % of a CPU: some processes had no account for a minute",
                                 NULL);
}

static void charge(struct memory *s, uint64_t *used_ns)
{
        const uint64_t before_ns = *used_ns;

        *used_ns = infp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        s->saved_ns -= (int64_t) (*used_ns - before_ns);
}

/* One at least: to look at thousands of processes may have taken all the time that was saved. What is too much is owed. */
static int read_due(struct memory *s, const struct infp_env *env, struct infp_emit *emit, uint64_t now,
                    uint64_t *used_ns)
{
        struct memory_process *p;

        do {
                int r;

                p = next_due(s, env, now);
                if (!p)
                        return 0;
                r = read_one(s, env, emit, p);
                if (r == -ENODEV)
                        return r;
                p->is_denied = r == -EACCES || r == -EPERM;
                s->has_denied |= p->is_denied;
                p->read_ns = now;
                charge(s, used_ns);
        } while (s->saved_ns > 0);
        return 0;
}

static int memory_sample(void *state, const struct infp_env *env, struct infp_emit *emit, struct infp_err *err)
{
        struct memory *s = state;
        const uint64_t now = env->now_ns(env);
        uint64_t used_ns = infp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        int r = 0;

        if (s->earned_ns)
                s->saved_ns += (int64_t) ((now - s->earned_ns) / CPU_SHARE);
        s->saved_ns = s->saved_ns < most_saved_ns ? s->saved_ns : most_saved_ns;
        s->earned_ns = now;
        if (s->saved_ns > 0) {
                look(s, env, now);
                charge(s, &used_ns);
                r = read_due(s, env, emit, now, &used_ns);
        } else {
                next_due(s, env, now); /* only to see who is late */
        }
        say(s, emit);
        return r < 0 ? infp_fail(err, r,
                                 "/proc/PID/smaps does not exist: memory has accounts only where the kernel was built "
                                 "with CONFIG_PROC_PAGE_MONITOR")
                     : 0;
}

static void memory_close(void *state)
{
        (void) state;
}

static const struct infp_table *const tables[] = { &infp_table_memory_account, NULL };

const struct infp_collector infp_collector_memory = {
        .name = "memory",
        .help = "What the memory of the target's processes holds: files, heap, stacks, by /proc/PID/smaps.",
        .tables = tables,
        .period_ms = PERIOD_MS,
        .flags = INFP_MAY_BLOCK | INFP_OPT_IN,
        .state_size = sizeof(struct memory),
        .open = memory_open,
        .sample = memory_sample,
        .close = memory_close,
};
