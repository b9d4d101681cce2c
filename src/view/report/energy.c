/* Joules in the report: what was measured, then what is estimated from it, each named so. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/json/json.h"
#include "view/report/parts.h"

enum { NAME_WIDTH = 26, CELL_WIDTH = 12 };
static const double all_of_it = 0.98; /* of the range; the last reading may lie half a period before its end */

static const char *const tokens_from[] = {
        [INFP_TOKENS_NONE] = "",
        [INFP_TOKENS_ENGINE] = "the engine's counters",
        [INFP_TOKENS_REQUESTS] = "the client's requests",
};

/* What `sources` has for the collector as a whole, else for one of its domains; or NULL. */
static const struct infp_absence *why(const struct infp_report *report)
{
        const struct infp_absence *ret = NULL;

        for (unsigned i = 0; i < report->absences.n; i++) {
                const struct infp_absence *a = &report->absences.list[i];

                if (strcmp(a->collector, "energy") || (ret && *a->instance))
                        continue;
                ret = a;
                if (!*a->instance)
                        break;
        }
        return ret;
}

const struct infp_absence *infp_report_energy_absence(const struct infp_report *report)
{
        return report->energy.has_host ? NULL : why(report);
}

static void put_names(struct infp_str *text, const struct infp_energy *e)
{
        for (unsigned i = 0, n = 0; i < e->n; i++)
                if (e->list[i].is_counted)
                        infp_str_printf(text, "%s%s", n++ ? ", " : "", e->list[i].name);
}

/* One line with the reason and the fix. */
static void put_absence(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_absence *a = why(report);

        infp_report_title(out, "Energy");
        infp_report_line(out, "machine", "not measured: %s",
                         a && *a->reason           ? a->reason
                         : report->energy.has_rows ? "no meter that counts has moved in this time"
                                                   : "nothing was read");
        if (a && *a->fix)
                infp_report_line(out, "fix", "%s", a->fix);
}

static void put_domain(struct infp_out *out, const struct infp_energy_domain *d)
{
        infp_autostr struct infp_str line = { 0 };

        infp_str_printf(&line, "  %-*s%*s%*s  ", NAME_WIDTH, d->name, CELL_WIDTH, infp_report_joules(d->joules).text,
                        CELL_WIDTH, infp_report_watts(d->watts).text);
        if (d->is_counted)
                infp_str_puts(&line, "counts");
        else if (d->same_as)
                infp_str_printf(&line, "the same as %s", d->same_as);
        else if (d->part_of)
                infp_str_printf(&line, "a part of %s", d->part_of);
        else
                infp_str_puts(&line, "not in the total");
        if (d->is_gpu)
                infp_str_printf(&line, ", by its %s", d->source ? d->source : "driver");
        if (d->is_estimated)
                infp_str_puts(&line, ", ESTIMATED from power");
        infp_report_put(out, "%s", line.data ? line.data : "");
        infp_report_end(out);
}

static void put_idle(struct infp_out *out, const struct infp_energy *e)
{
        const char *when = e->baseline_is_before ? "before the command started"
                                                 : "in the first seconds of the recording, whatever ran then";

        if (!isnan(e->idle_watts)) {
                infp_report_line(out, "idle", "%s, measured for %s %s: %s of it", infp_report_watts(e->idle_watts).text,
                                 infp_report_seconds(e->baseline_s).text, when,
                                 infp_report_joules(e->idle_joules).text);
                infp_report_line(out, "above idle", "%s", infp_report_joules(e->dynamic_joules).text);
        } else if (e->baseline.t1) {
                infp_report_line(
                        out, "idle",
                        "not known: fewer than two readings in the baseline of %s (use a longer one, or a shorter -t)",
                        infp_report_seconds((double) (e->baseline.t1 - e->baseline.t0) / 1e9).text);
        } else {
                infp_report_line(out, "idle", "not measured (record --energy-baseline 10s does)");
        }
}

static void put_tokens(struct infp_out *out, const struct infp_energy *e)
{
        const struct infp_energy_tokens *t = &e->tokens;
        infp_autostr struct infp_str names = { 0 }, more = { 0 };

        if (t->from == INFP_TOKENS_NONE)
                return;
        put_names(&names, e);
        if (!isnan(e->j_per_token))
                infp_str_printf(&more, "; %s per prompt or generated token", infp_report_joules(e->j_per_token).text);
        if (!isnan(e->gpu_j_per_generated) && e->has_host)
                infp_str_printf(&more, "; GPUs alone %s per generated token",
                                infp_report_joules(e->gpu_j_per_generated).text);
        if (!isnan(e->j_per_request))
                infp_str_printf(&more, "; %s per request", infp_report_joules(e->j_per_request).text);
        infp_report_line(out, "per token", "%s per generated token%s", infp_report_joules(e->j_per_generated).text,
                         more.data ? more.data : "");
        infp_str_clear(&more);
        if (!isnan(t->prompt))
                infp_str_printf(&more, ", %s prompt", infp_fixed(t->prompt, 0).text);
        if (!isnan(t->requests))
                infp_str_printf(&more, ", %s requests", infp_fixed(t->requests, 0).text);
        infp_report_line(out, "", "%s in %s, all of %s, idle included; tokens by %s: %s generated%s",
                         infp_report_joules(t->joules).text, infp_report_seconds(t->seconds).text,
                         names.data ? names.data : "", tokens_from[t->from], infp_fixed(t->generated, 0).text,
                         more.data ? more.data : "");
}

static void put_split(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_energy *e = &report->energy;
        const bool has_idle = !isnan(e->idle_joules);

        if (isnan(infp_energy_share(e, 0)) || (isnan(e->tree_joules) && !report->processes.n))
                return;
        infp_report_line(out, "split", "ESTIMATED by CPU time%s",
                         e->gpu_inside_joules > 0 ? has_idle ? ", of the energy above idle that no GPU used"
                                                             : ", of the energy that no GPU used, idle included"
                         : has_idle               ? ", of the energy above idle"
                                                  : ", idle included (it was not measured)");
        if (!isnan(e->tree_joules))
                infp_report_line(out, "", "target %s, others %s, idle %s; residual %s",
                                 infp_report_joules(e->tree_joules).text, infp_report_joules(e->others_joules).text,
                                 has_idle ? infp_report_joules(e->split_idle_joules).text : "not apart",
                                 infp_report_joules(e->residual_joules).text);
        /* bound: the list of processes says how many there are */
        for (unsigned i = 0; i < report->processes.n && i < INFP_REPORT_BUSIEST; i++) {
                const struct infp_report_process *p = &report->processes.list[i];

                if (infp_energy_share(e, p->cpu_s) > 0)
                        infp_report_line(out, "", "%s (%lld): %s", p->name ? p->name : "a process", (long long) p->pid,
                                         infp_report_joules(infp_energy_share(e, p->cpu_s)).text);
        }
}

void infp_report_energy(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_energy *e = &report->energy;
        infp_autostr struct infp_str names = { 0 };
        char of[96] = "";

        if (isnan(e->joules)) {
                if (why(report) || e->has_rows)
                        put_absence(out, report);
                return;
        }
        infp_report_title(out, "Energy");
        put_names(&names, e);
        if (e->seconds < all_of_it * report->wall_s)
                snprintf(of, sizeof(of), " (measured for that part of %s)", infp_report_seconds(report->wall_s).text);
        infp_report_line(out, e->has_host ? "machine" : "GPUs", "%s in %s%s: %s on average%s, by %s",
                         infp_report_joules(e->joules).text, infp_report_seconds(e->seconds).text, of,
                         infp_report_watts(e->watts).text, e->is_estimated ? ", ESTIMATED from power" : "",
                         names.data ? names.data : "");
        for (unsigned i = 0; i < e->n; i++)
                put_domain(out, &e->list[i]);
        if (!e->has_host)
                infp_report_line(out, "not included", "processors, memory and the rest of the machine: %s",
                                 why(report) && *why(report)->reason ? why(report)->reason
                                                                     : "no meter for them was read");
        if (!e->has_host && why(report) && *why(report)->fix)
                infp_report_line(out, "fix", "%s", why(report)->fix);
        put_idle(out, e);
        put_tokens(out, e);
        put_split(out, report);
        if (e->is_interpolated && report->is_part)
                infp_report_line(out, "note", "the ends of the range fall between readings and are interpolated");
}

void infp_report_energy_short(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_energy *e = &report->energy;
        char token[64] = "";

        if (isnan(e->joules)) {
                if (why(report) || e->has_rows)
                        infp_report_line(out, "energy", "not measured (`infprof report energy` says why)");
                return;
        }
        if (e->tokens.from != INFP_TOKENS_NONE && !isnan(e->j_per_generated))
                snprintf(token, sizeof(token), "; %s per generated token", infp_report_joules(e->j_per_generated).text);
        infp_report_line(out, "energy", "%s of %s, %s on average%s%s", infp_report_joules(e->joules).text,
                         e->has_host ? "the machine" : "the GPUs alone", infp_report_watts(e->watts).text,
                         e->is_estimated ? ", ESTIMATED from power" : "", token);
}

static void put_str(struct infp_json *json, const char *key, const char *text)
{
        infp_json_member_str(json, key, text && *text ? text : NULL);
}

static const char *quality(bool is_estimated)
{
        return infp_quality_name(is_estimated ? INFP_ESTIMATED : INFP_MEASURED);
}

static void put_json_domains(struct infp_json *json, const struct infp_energy *e)
{
        infp_json_key(json, "domains");
        infp_json_array(json);
        for (unsigned i = 0; i < e->n; i++) {
                const struct infp_energy_domain *d = &e->list[i];

                infp_json_object(json);
                put_str(json, "domain", d->name);
                put_str(json, "source", d->source);
                infp_json_member_f64(json, "joules", d->joules);
                infp_json_member_f64(json, "seconds", d->seconds);
                infp_json_member_f64(json, "mean_watts", d->watts);
                infp_json_member_f64(json, "idle_watts", d->idle_watts);
                infp_json_member_bool(json, "in_total", d->is_counted);
                infp_json_member_bool(json, "is_gpu", d->is_gpu);
                put_str(json, "part_of", d->part_of);
                put_str(json, "same_as", d->same_as);
                put_str(json, "quality", quality(d->is_estimated));
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

static void put_json_idle(struct infp_json *json, const struct infp_energy *e)
{
        infp_json_key(json, "idle");
        if (isnan(e->idle_watts)) {
                infp_json_null(json);
                return;
        }
        infp_json_object(json);
        infp_json_member_f64(json, "watts", e->idle_watts);
        infp_json_member_f64(json, "measured_for_s", e->baseline_s);
        put_str(json, "measured",
                e->baseline_is_before ? "before the command" : "in the first seconds of the recording");
        infp_json_member_f64(json, "joules", e->idle_joules);
        infp_json_member_f64(json, "joules_above", e->dynamic_joules);
        infp_json_object_end(json);
}

/* What the joules per token are made of. */
static void put_json_names(struct infp_json *json, const struct infp_energy *e)
{
        infp_json_key(json, "domains");
        infp_json_array(json);
        for (unsigned i = 0; i < e->n; i++)
                if (e->list[i].is_counted)
                        infp_json_str(json, e->list[i].name);
        infp_json_array_end(json);
}

static void put_json_tokens(struct infp_json *json, const struct infp_energy *e)
{
        infp_json_key(json, "tokens");
        if (e->tokens.from == INFP_TOKENS_NONE) {
                infp_json_null(json);
                return;
        }
        infp_json_object(json);
        put_str(json, "counted_by", tokens_from[e->tokens.from]);
        infp_json_member_f64(json, "generated", e->tokens.generated);
        infp_json_member_f64(json, "prompt", e->tokens.prompt);
        infp_json_member_f64(json, "requests", e->tokens.requests);
        infp_json_member_f64(json, "joules", e->tokens.joules);
        infp_json_member_f64(json, "gpu_joules", e->tokens.gpu_joules);
        infp_json_member_f64(json, "seconds", e->tokens.seconds);
        infp_json_member_f64(json, "joules_per_generated_token", e->j_per_generated);
        infp_json_member_f64(json, "joules_per_token", e->j_per_token);
        infp_json_member_f64(json, "joules_per_request", e->j_per_request);
        infp_json_member_f64(json, "gpu_joules_per_generated_token", e->gpu_j_per_generated);
        put_json_names(json, e);
        put_str(json, "idle_power", "included");
        infp_json_object_end(json);
}

static void put_json_split(struct infp_json *json, const struct infp_report *report)
{
        const struct infp_energy *e = &report->energy;

        infp_json_key(json, "split");
        if (isnan(infp_energy_share(e, 0))) {
                infp_json_null(json);
                return;
        }
        infp_json_object(json);
        put_str(json, "quality", quality(true));
        put_str(json, "by", "CPU time");
        put_str(json, "of",
                e->gpu_inside_joules > 0 ? isnan(e->idle_joules) ? "joules that no GPU used, idle power included"
                                                                 : "joules above idle that no GPU used"
                : isnan(e->idle_joules)  ? "joules, idle power included"
                                         : "joules above idle");
        infp_json_member_f64(json, "target_joules", e->tree_joules);
        infp_json_member_f64(json, "others_joules", e->others_joules);
        infp_json_member_f64(json, "idle_joules", e->split_idle_joules);
        infp_json_member_f64(json, "residual_joules", e->residual_joules);
        infp_json_key(json, "processes");
        infp_json_array(json);
        for (unsigned i = 0; i < report->processes.n; i++) {
                const struct infp_report_process *p = &report->processes.list[i];

                infp_json_object(json);
                infp_json_member_i64(json, "pid", p->pid);
                put_str(json, "name", p->name);
                infp_json_member_f64(json, "joules", infp_energy_share(e, p->cpu_s));
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
        infp_json_object_end(json);
}

void infp_report_json_energy(struct infp_json *json, const struct infp_report *report)
{
        const struct infp_energy *e = &report->energy;
        const struct infp_absence *a = infp_report_energy_absence(report);

        infp_json_key(json, "energy");
        infp_json_object(json);
        infp_json_member_f64(json, "joules", e->joules);
        infp_json_member_f64(json, "seconds", e->seconds);
        infp_json_member_f64(json, "mean_watts", e->watts);
        put_str(json, "quality", isnan(e->joules) ? NULL : quality(e->is_estimated));
        infp_json_member_f64(json, "gpu_joules", e->gpu_joules);
        put_str(json, "gpu_quality", isnan(e->gpu_joules) ? NULL : quality(e->gpu_is_estimated));
        put_json_domains(json, e);
        put_json_idle(json, e);
        put_json_tokens(json, e);
        put_json_split(json, report);
        put_str(json, "borders", e->is_interpolated ? "interpolated between two readings" : NULL);
        put_str(json, "state", a ? a->state : NULL);
        put_str(json, "reason", a ? a->reason : NULL);
        put_str(json, "fix", a ? a->fix : NULL);
        infp_json_object_end(json);
}
