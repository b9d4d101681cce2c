/* Containers and pressure in the report: use beside limits. Nothing here is estimated. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "view/report/parts.h"

enum { SHOWN = 8, NAME_WIDTH = 40 };

static double machine_memory(const struct infp_report *report)
{
        return infp_report_max(report, "vMemoryTotal");
}

static void put_title(struct infp_out *out, const struct infp_container_use *use)
{
        infp_autostr struct infp_str name = { 0 };
        const char *full = use->name ? use->name : "";

        infp_text_tame(&name, full, strlen(full));
        infp_report_line(out, use->cid ? use->cid : "-", "%s%s%.*s%s%s", use->runtime ? use->runtime : "cgroup",
                         name.size ? ", " : "", NAME_WIDTH, name.size ? name.data : "",
                         name.size > NAME_WIDTH ? "..." : "", use->is_target ? ", the target's" : "");
}

static void put_cpu(struct infp_out *out, const struct infp_report *report, const struct infp_container_use *use)
{
        double total = infp_container_total(use, INFP_CONTAINER_CPU), cpus = infp_container_cpus(use);
        double allowed = infp_container_cpus_allowed(use, report->n_cpus);
        double throttled = infp_container_throttled(use);
        char share[96] = "";

        if (isnan(total))
                return;
        if (allowed > 0)
                snprintf(share, sizeof(share), " of %s allowed (%s %%)", infp_number(allowed).text,
                         infp_fixed(100 * cpus / allowed, 1).text);
        infp_report_line(out, "  CPU", "%s, %s CPUs on average%s", infp_report_seconds(total).text,
                         infp_number(cpus).text, share);
        if (throttled > 0)
                infp_report_line(out, "  throttled", "in %s %% of %s periods, %s in total over all CPUs",
                                 infp_fixed(100 * throttled, 1).text,
                                 infp_fixed(infp_container_total(use, INFP_CONTAINER_PERIODS), 0).text,
                                 infp_report_seconds(infp_container_total(use, INFP_CONTAINER_THROTTLED_NS)).text);
        else if (!isnan(throttled))
                infp_report_line(out, "  throttled", "never in %s periods",
                                 infp_fixed(infp_container_total(use, INFP_CONTAINER_PERIODS), 0).text);
}

static void put_memory(struct infp_out *out, const struct infp_report *report, const struct infp_container_use *use)
{
        bool is_limit;
        double peak = infp_container_memory_peak(use);
        double allowed = infp_container_memory_allowed(use, machine_memory(report), &is_limit);
        double kills = infp_container_total(use, INFP_CONTAINER_OOM_KILLS);
        double hits = infp_container_total(use, INFP_CONTAINER_LIMIT_HITS);
        char share[160] = "", events[160] = "";

        if (isnan(peak))
                return;
        if (allowed > 0)
                snprintf(share, sizeof(share), " of %s (%s %%), %s", infp_report_bytes(allowed).text,
                         infp_fixed(100 * peak / allowed, 1).text,
                         is_limit ? "its limit" : "the machine's memory: no limit is set");
        if (kills > 0 || hits > 0)
                snprintf(events, sizeof(events), "; the limit was hit %s times, %s processes were killed",
                         infp_fixed(hits > 0 ? hits : 0, 0).text, infp_fixed(kills > 0 ? kills : 0, 0).text);
        infp_report_line(out, "  memory", "peak %s%s%s", infp_report_bytes(peak).text, share, events);
}

static void put_traffic(struct infp_out *out, const struct infp_container_use *use)
{
        double read = infp_container_total(use, INFP_CONTAINER_READ),
               written = infp_container_total(use, INFP_CONTAINER_WRITTEN);
        double received = infp_container_total(use, INFP_CONTAINER_RECEIVED),
               sent = infp_container_total(use, INFP_CONTAINER_SENT);

        if (read > 0 || written > 0)
                infp_report_line(out, "  disk", "%s read, %s written", infp_report_bytes(read).text,
                                 infp_report_bytes(written).text);
        if (!isnan(received) && !isnan(sent))
                infp_report_line(out, "  network", "%s received, %s sent (of its network namespace)",
                                 infp_report_bytes(received).text, infp_report_bytes(sent).text);
}

static void put_share(struct infp_str *text, const char *name, double some, double full)
{
        if (isnan(some) && isnan(full))
                return;
        infp_str_printf(text, "%s%s %s %%", text->size ? ", " : "", name,
                        infp_fixed(100 * (isnan(some) ? full : some), 1).text);
        if (!isnan(some) && full > 0.0005)
                infp_str_printf(text, " (all tasks at once: %s %%)", infp_fixed(100 * full, 1).text);
}

static void put_waits(struct infp_out *out, const struct infp_container_use *use)
{
        infp_autostr struct infp_str text = { 0 };

        put_share(&text, "a CPU", infp_container_waited(use, INFP_CONTAINER_CPU_SOME),
                  infp_container_waited(use, INFP_CONTAINER_CPU_FULL));
        put_share(&text, "memory", infp_container_waited(use, INFP_CONTAINER_MEMORY_SOME),
                  infp_container_waited(use, INFP_CONTAINER_MEMORY_FULL));
        put_share(&text, "I/O", infp_container_waited(use, INFP_CONTAINER_IO_SOME),
                  infp_container_waited(use, INFP_CONTAINER_IO_FULL));
        if (text.size)
                infp_report_line(out, "  waited", "for %s of the time", text.data);
}

static void put_container(struct infp_out *out, const struct infp_report *report, const struct infp_container_use *use)
{
        put_title(out, use);
        put_cpu(out, report, use);
        put_memory(out, report, use);
        put_traffic(out, use);
        put_waits(out, use);
        if (use->stat[INFP_CONTAINER_OTHERS].n && use->stat[INFP_CONTAINER_OTHERS].max > 0)
                infp_report_line(out, "  shared", "it also holds other processes, and its figures include them");
}

static void put_pressure(struct infp_out *out, const struct infp_containers *c)
{
        infp_autostr struct infp_str text = { 0 };

        for (unsigned i = 0; i < c->n_pressure; i++)
                put_share(&text,
                          !strcmp(c->pressure[i].resource, "cpu")   ? "a CPU"
                          : !strcmp(c->pressure[i].resource, "io")  ? "I/O"
                          : !strcmp(c->pressure[i].resource, "irq") ? "interrupts"
                                                                    : c->pressure[i].resource,
                          infp_pressure_waited(&c->pressure[i], false), infp_pressure_waited(&c->pressure[i], true));
        if (!text.size)
                return;
        infp_report_title(out, "Pressure");
        infp_report_line(out, "machine", "at least one task waited for %s of the time", text.data);
}

void infp_report_containers(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_containers *c = &report->containers;

        if (c->n)
                infp_report_title(out, "Containers");
        for (unsigned i = 0; i < c->n && i < SHOWN; i++) /* bound: the rest is counted below */
                put_container(out, report, &c->list[i]);
        if (c->n > SHOWN)
                infp_report_line(out, "", "%u more with less CPU time; --json has them all", c->n - SHOWN);
        if (c->n_rows_left_out)
                infp_report_line(out, "", "%s rows of containers beyond the first %d were left out",
                                 infp_count(c->n_rows_left_out).text, INFP_CONTAINERS_MOST);
        put_pressure(out, c);
}

static void put_str(struct infp_json *json, const char *key, const char *v)
{
        infp_json_key(json, key);
        if (v)
                infp_json_str(json, v);
        else
                infp_json_null(json);
}

static void put_waits_json(struct infp_json *json, const struct infp_container_use *use)
{
        static const struct {
                enum infp_container_figure figure;
                const char *key;
        } all[] = {
                { INFP_CONTAINER_CPU_SOME, "cpu_some_ratio" },
                { INFP_CONTAINER_CPU_FULL, "cpu_full_ratio" },
                { INFP_CONTAINER_MEMORY_SOME, "memory_some_ratio" },
                { INFP_CONTAINER_MEMORY_FULL, "memory_full_ratio" },
                { INFP_CONTAINER_IO_SOME, "io_some_ratio" },
                { INFP_CONTAINER_IO_FULL, "io_full_ratio" },
        };

        infp_json_key(json, "pressure");
        infp_json_object(json);
        for (size_t i = 0; i < INFP_COUNT(all); i++)
                infp_json_member_f64(json, all[i].key, infp_container_waited(use, all[i].figure));
        infp_json_object_end(json);
}

static void put_container_json(struct infp_json *json, const struct infp_report *report,
                               const struct infp_container_use *use)
{
        static const struct {
                enum infp_container_figure figure;
                const char *key;
        } totals[] = {
                { INFP_CONTAINER_CPU, "cpu_s" },
                { INFP_CONTAINER_PERIODS, "cpu_periods" },
                { INFP_CONTAINER_THROTTLED, "cpu_throttled_periods" },
                { INFP_CONTAINER_THROTTLED_NS, "cpu_throttled_s" },
                { INFP_CONTAINER_OOM_KILLS, "oom_kills" },
                { INFP_CONTAINER_LIMIT_HITS, "memory_limit_hits" },
                { INFP_CONTAINER_READ, "disk_read_bytes" },
                { INFP_CONTAINER_WRITTEN, "disk_written_bytes" },
                { INFP_CONTAINER_RECEIVED, "network_received_bytes" },
                { INFP_CONTAINER_SENT, "network_sent_bytes" },
        };
        bool is_limit;
        double machine = machine_memory(report), peak = infp_container_memory_peak(use);
        double allowed = infp_container_memory_allowed(use, machine, &is_limit);

        infp_json_object(json);
        put_str(json, "cId", use->cid);
        put_str(json, "cName", use->name);
        put_str(json, "cRuntime", use->runtime);
        infp_json_member_bool(json, "is_target", use->is_target);
        infp_json_member_f64(json, "seconds", infp_container_seconds(use));
        for (size_t i = 0; i < INFP_COUNT(totals); i++)
                infp_json_member_f64(json, totals[i].key, infp_container_total(use, totals[i].figure));
        infp_json_member_f64(json, "cpus", infp_container_cpus(use));
        infp_json_member_f64(json, "cpus_allowed", infp_container_cpus_allowed(use, report->n_cpus));
        infp_json_member_f64(json, "throttled_ratio", infp_container_throttled(use));
        infp_json_member_f64(json, "memory_peak_bytes", peak);
        infp_json_member_f64(json, "memory_limit_bytes", is_limit ? allowed : NAN);
        infp_json_member_f64(json, "memory_allowed_bytes", allowed);
        infp_json_member_f64(json, "memory_peak_ratio", peak / allowed);
        infp_json_member_f64(json, "other_processes_max",
                             use->stat[INFP_CONTAINER_OTHERS].n ? use->stat[INFP_CONTAINER_OTHERS].max : NAN);
        put_waits_json(json, use);
        infp_json_object_end(json);
}

void infp_report_json_containers(struct infp_json *json, const struct infp_report *report)
{
        const struct infp_containers *c = &report->containers;

        infp_json_key(json, "containers");
        infp_json_array(json);
        for (unsigned i = 0; i < c->n; i++)
                put_container_json(json, report, &c->list[i]);
        infp_json_array_end(json);
        infp_json_key(json, "pressure");
        infp_json_object(json);
        for (unsigned i = 0; i < c->n_pressure; i++) {
                infp_json_key(json, c->pressure[i].resource);
                infp_json_object(json);
                infp_json_member_f64(json, "some_ratio", infp_pressure_waited(&c->pressure[i], false));
                infp_json_member_f64(json, "full_ratio", infp_pressure_waited(&c->pressure[i], true));
                infp_json_object_end(json);
        }
        infp_json_object_end(json);
}
