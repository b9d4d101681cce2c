/* One meter. Counters wrap at a range of their own; watts are integrated between readings; a counter that never moves
 * (virtual machines show such) measures nothing. */
#include "collectors/energy/energy.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/time.h"
#include "model/rate.h"

/* RAPL is updated each millisecond, and an idle package draws more than a quantum in it. */
static const uint64_t dead_after_ns = 2 * INFP_NS_PER_S;
enum { DEAD_AFTER_READS = 3 };
/* A zone that draws more has a larger range: 65 kJ is the smallest that hardware has. */
static const double most_watts = 2000;
/* More than any zone draws: such a counter was reset (its driver was reloaded), and did not count. */
static const double impossible_watts = 5000, step_s = 0.1;
/* More than a machine's supplies deliver. */
static const double impossible_machine_watts = 30000;
/* A battery's controller is read over a slow bus. */
static const uint64_t battery_period_ns = 900 * INFP_NS_PER_MS;

/* The first word of a small file as a number. Signed: some batteries report a negative current while they discharge. */
static int read_number(const struct infp_env *env, const char *directory, const char *name, double *ret)
{
        char path[ENERGY_PATH + 32], text[64];
        struct infp_span s = { .at = text };
        ssize_t n;
        int64_t v;

        snprintf(path, sizeof(path), "%s%s%s", directory, *name ? "/" : "", name);
        n = infp_read_at(env->root_fd, path, text, sizeof(text));
        if (n < 0)
                return (int) n;
        s.size = (size_t) n;
        s = infp_span_trim(s);
        if (infp_span_i64(s, &v))
                return -EBADMSG;
        *ret = fabs((double) v);
        return 0;
}

/* Watts that the battery delivers; -ENODATA while it delivers none: then the machine's power bypasses it. */
static int read_battery(const struct infp_env *env, const char *path, double *ret)
{
        char file[ENERGY_PATH + 32], status[32];
        struct infp_span s = { .at = status };
        double uw = 0, ua = 0, uv = 0;
        ssize_t n;
        int r;

        snprintf(file, sizeof(file), "%s/status", path);
        n = infp_read_at(env->root_fd, file, status, sizeof(status));
        if (n < 0)
                return (int) n;
        s.size = (size_t) n;
        if (!infp_span_is(infp_span_trim(s), "Discharging"))
                return -ENODATA;
        r = read_number(env, path, "power_now", &uw);
        if (r == 0) {
                *ret = uw / 1e6;
                return 0;
        }
        if (r != -ENOENT && r != -ENODEV)
                return r;
        INFP_TRY(read_number(env, path, "current_now", &ua));
        INFP_TRY(read_number(env, path, "voltage_now", &uv));
        *ret = ua * 1e-6 * uv * 1e-6;
        return 0;
}

static int read_counter(struct energy_domain *d, const struct infp_env *env, uint64_t *ret)
{
        d->file.reopen = !env->is_live;
        INFP_TRY(infp_procfile_read(&d->file, env->root_fd, d->path));
        return infp_span_u64(infp_span_trim(infp_procfile_text(&d->file)), ret) ? -EBADMSG : 0;
}

void infp_meter_forget(struct energy_domain *d)
{
        d->has_last = false;
        d->more_ns = d->more_uj = 0;
        d->more_j = 0;
}

static void begin(struct energy_domain *d, uint64_t t_ns)
{
        if (!d->n_reads)
                d->first_ns = t_ns;
        d->n_reads++;
        d->was_read = true;
        d->more_ns = d->more_uj = 0;
        d->more_j = 0;
}

/* The increase since the reading before. Where that cannot be known it is 0, and is_lost. */
static uint64_t increase(struct energy_domain *d, uint64_t raw, double seconds)
{
        const bool wraps = d->range_uj || d->source == ENERGY_POWERCAP;
        const uint64_t more = infp_increase_u64(wraps ? INFP_RESET_WRAP : INFP_RESET_ZERO, d->raw_uj, raw, d->range_uj);

        d->is_lost = (raw < d->raw_uj && (!wraps || d->raw_uj - raw > d->range_uj)) ||
                     (double) more > impossible_watts * 1e6 * (seconds + step_s);
        return d->is_lost ? 0 : more;
}

static void take_counter(struct energy_domain *d, uint64_t raw, uint64_t t_ns)
{
        const double seconds = (double) (t_ns - d->t_ns) / 1e9;

        begin(d, t_ns);
        d->is_late = d->is_lost = false;
        if (d->has_last) {
                d->more_uj = increase(d, raw, seconds);
                d->more_ns = d->is_lost ? 0 : t_ns - d->t_ns;
                d->n_wraps += raw < d->raw_uj;
                d->has_moved |= raw != d->raw_uj;
                d->is_late = d->range_uj && seconds * most_watts * 1e6 > (double) d->range_uj;
        }
        d->sum_uj += d->more_uj;
        d->sum_ns += d->more_ns;
        d->raw_uj = raw;
        d->t_ns = t_ns;
        d->has_last = true;
        d->is_dead = !d->has_moved && d->n_reads >= DEAD_AFTER_READS && t_ns - d->first_ns >= dead_after_ns;
}

static void take_power(struct energy_domain *d, double watts, uint64_t t_ns)
{
        begin(d, t_ns);
        if (d->has_last) {
                d->more_j = (d->power_w + watts) / 2 * ((double) (t_ns - d->t_ns) / 1e9);
                d->more_ns = t_ns - d->t_ns;
                d->has_moved = true;
        }
        d->sum_j += d->more_j;
        d->sum_ns += d->more_ns;
        d->power_w = watts;
        d->t_ns = t_ns;
        d->has_last = true;
}

/* A reading wakes a sleeping GPU, and delays the sleep of one that may. These files are the kernel's own. */
static bool may_sleep(const struct energy_domain *d, const struct infp_env *env)
{
        char path[ENERGY_PATH + 48], word[16];
        ssize_t n;

        if (!*d->gpu)
                return false;
        snprintf(path, sizeof(path), "%.*s/device/power/control", (int) (strrchr(d->path, '/') - d->path), d->path);
        n = infp_read_at(env->root_fd, path, word, sizeof(word));
        return n >= 4 && !strncmp(word, "auto", 4);
}

void infp_meter_read(struct energy_domain *d, const struct infp_env *env)
{
        const uint64_t t_ns = env->now_ns(env);
        uint64_t raw;
        double watts;

        d->was_read = false;
        if (d->source == ENERGY_BATTERY && d->has_last && t_ns - d->t_ns < battery_period_ns)
                return;
        if (may_sleep(d, env))
                d->r = -ENODATA;
        else if (!d->is_power)
                d->r = read_counter(d, env, &raw);
        else if (d->source == ENERGY_BATTERY)
                d->r = read_battery(env, d->path, &watts);
        else if ((d->r = read_number(env, d->path, "", &watts)) == 0)
                watts /= 1e6;
        if (d->r == 0 && d->is_power && watts > impossible_machine_watts)
                d->r = -ERANGE;
        if (d->r < 0) {
                /* What is drawn meanwhile is not known. A counter continues without us, and is used again once it can be
                 * read; but another file of that name is another counter. */
                if (d->is_power || d->r == -ENOENT || d->r == -ENODEV)
                        infp_meter_forget(d);
                d->is_gone = d->r == -ENOENT || d->r == -ENODEV;
                return;
        }
        if (d->is_power)
                take_power(d, watts, t_ns);
        else
                take_counter(d, raw, t_ns);
}

double infp_meter_joules(const struct energy_domain *d)
{
        return d->is_power ? d->sum_j : (double) d->sum_uj / 1e6;
}
