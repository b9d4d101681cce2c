/* GPUs in the report. What a GPU does not report is left out, never 0; its joules are as in section energy. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "view/report/parts.h"

enum { SHOWN = 16, SHOWN_SHORT = 4, PROCESSES_SHOWN = 5 };

static const struct {
        enum infp_gpu_figure figure;
        const char *what, *key;
} held[] = {
        { INFP_GPU_HELD_POWER, "its power limit", "power_limit" },
        { INFP_GPU_HELD_THERMAL, "heat", "thermal" },
        { INFP_GPU_HELD_SW_THERMAL, "heat (by software)", "sw_thermal" },
        { INFP_GPU_HELD_HW_THERMAL, "heat (by hardware)", "hw_thermal" },
        { INFP_GPU_HELD_HW_BRAKE, "the power supply", "hw_power_brake" },
        { INFP_GPU_HELD_BOARD, "a limit of the board", "board_limit" },
        { INFP_GPU_HELD_RELIABILITY, "the board's reliability limit", "reliability" },
        { INFP_GPU_HELD_SYNC_BOOST, "another GPU of its group", "sync_boost" },
};
static const double never = 0.0005; /* less than 0.1 % */

static const struct infp_energy_domain *energy_of(const struct infp_report *report, const struct infp_gpu *gpu)
{
        for (unsigned i = 0; i < report->energy.n; i++)
                if (report->energy.list[i].is_gpu && !strcmp(report->energy.list[i].name, gpu->domain))
                        return &report->energy.list[i];
        return NULL;
}

static void put_title(struct infp_out *out, const struct infp_gpu *gpu)
{
        infp_report_line(out, gpu->domain, "%s%s%s%s",
                         gpu->name     ? gpu->name
                         : gpu->vendor ? gpu->vendor
                                       : "a GPU",
                         gpu->uuid ? " (" : "", gpu->uuid ? gpu->uuid : "", gpu->uuid ? ")" : "");
}

static void put_use(struct infp_out *out, const struct infp_gpu *gpu)
{
        static const struct {
                enum infp_gpu_figure figure;
                const char *what;
        } more[] = { { INFP_GPU_MEMORY_ACTIVE, "of the time its memory was read or written" },
                     { INFP_GPU_SM_ACTIVE, "of its multiprocessors were busy" },
                     { INFP_GPU_TENSOR_ACTIVE, "of the time its tensor cores worked" },
                     { INFP_GPU_BANDWIDTH, "of the bandwidth of its memory was used" } };
        infp_autostr struct infp_str text = { 0 };

        if (isnan(infp_gpu_mean(gpu, INFP_GPU_USED)))
                infp_str_puts(&text, "not reported by the driver");
        else
                infp_str_printf(&text, "%s %% of the time on average, %s %% at most",
                                infp_fixed(infp_gpu_mean(gpu, INFP_GPU_USED), 1).text,
                                infp_fixed(infp_gpu_most(gpu, INFP_GPU_USED), 0).text);
        for (unsigned i = 0; i < INFP_COUNT(more); i++)
                if (!isnan(infp_gpu_mean(gpu, more[i].figure)))
                        infp_str_printf(&text, "; %s %% %s", infp_fixed(infp_gpu_mean(gpu, more[i].figure), 1).text,
                                        more[i].what);
        infp_report_line(out, "  busy", "%s", text.data);
}

static void put_memory(struct infp_out *out, const struct infp_gpu *gpu)
{
        const double used = infp_gpu_most(gpu, INFP_GPU_MEMORY_USED), total = infp_gpu_most(gpu, INFP_GPU_MEMORY_TOTAL);

        if (isnan(used))
                return;
        if (total > 0)
                infp_report_line(out, "  memory", "%s at most of %s (%s %%)", infp_report_bytes(used).text,
                                 infp_report_bytes(total).text, infp_fixed(100 * used / total, 1).text);
        else
                infp_report_line(out, "  memory", "%s at most", infp_report_bytes(used).text);
}

static void put_power(struct infp_out *out, const struct infp_report *report, const struct infp_gpu *gpu)
{
        const struct infp_energy_domain *energy = energy_of(report, gpu);
        const double mean = infp_gpu_mean(gpu, INFP_GPU_POWER), limit = infp_gpu_most(gpu, INFP_GPU_POWER_LIMIT);
        char of[96] = "";

        if (limit > 0)
                snprintf(of, sizeof(of), "; its limit is %s", infp_report_watts(limit).text);
        if (!isnan(mean))
                infp_report_line(out, "  power", "%s on average, %s at most%s", infp_report_watts(mean).text,
                                 infp_report_watts(infp_gpu_most(gpu, INFP_GPU_POWER)).text, of);
        if (energy)
                infp_report_line(out, "  energy", "%s in %s, by its %s%s", infp_report_joules(energy->joules).text,
                                 infp_report_seconds(energy->seconds).text, energy->source ? energy->source : "driver",
                                 energy->is_estimated ? ": ESTIMATED from power" : "");
}

static void put_clock(struct infp_out *out, const struct infp_gpu *gpu)
{
        const double mean = infp_gpu_mean(gpu, INFP_GPU_CLOCK), max = infp_gpu_most(gpu, INFP_GPU_CLOCK_MAX);
        const double heat = infp_gpu_most(gpu, INFP_GPU_TEMPERATURE),
                     memory = infp_gpu_most(gpu, INFP_GPU_TEMPERATURE_MEMORY);
        char of[64] = "", also[64] = "";

        if (max > 0)
                snprintf(of, sizeof(of), " of %s MHz", infp_fixed(max, 0).text);
        if (!isnan(mean))
                infp_report_line(out, "  clock", "%s%s on average", infp_fixed(mean, 0).text, max > 0 ? of : " MHz");
        if (!isnan(memory))
                snprintf(also, sizeof(also), ", its memory %s", infp_fixed(memory, 0).text);
        if (!isnan(heat))
                infp_report_line(out, "  heat",
                                 "%s \xc2\xb0"
                                 "C at most%s",
                                 infp_fixed(heat, 0).text, also);
}

static bool knows_held(const struct infp_gpu *gpu)
{
        for (unsigned i = 0; i < INFP_COUNT(held); i++)
                if (!isnan(infp_gpu_held(gpu, held[i].figure)))
                        return true;
        return false;
}

static void put_held(struct infp_out *out, const struct infp_gpu *gpu)
{
        infp_autostr struct infp_str text = { 0 }, seen = { 0 };

        for (unsigned i = 0; i < INFP_COUNT(held); i++)
                if (infp_gpu_held(gpu, held[i].figure) >= never)
                        infp_str_printf(&text, "%s%s %% of the time by %s", text.size ? ", " : "",
                                        infp_fixed(100 * infp_gpu_held(gpu, held[i].figure), 1).text, held[i].what);
        for (unsigned i = 0; i < gpu->n_reasons; i++)
                infp_str_printf(&seen, "%s%s (%s %% of samples)", seen.size ? ", " : "", gpu->reasons[i].text,
                                infp_fixed(100.0 * (double) gpu->reasons[i].n / (double) gpu->n_asked, 0).text);
        if (text.size)
                infp_report_line(out, "  held back", "%s", text.data);
        else if (knows_held(gpu))
                infp_report_line(out, "  held back", "never (driver counters)");
        if (seen.size)
                infp_report_line(out, "  reasons", "%s", seen.data);
}

static void put_faults(struct infp_out *out, const struct infp_gpu *gpu)
{
        const double ecc = infp_gpu_total(gpu, INFP_GPU_ECC_UNCORRECTED), xids = infp_gpu_total(gpu, INFP_GPU_XIDS);

        if (ecc > 0)
                infp_report_line(out, "  faults", "%s memory errors that could not be corrected",
                                 infp_fixed(ecc, 0).text);
        if (xids > 0)
                infp_report_line(out, "  faults", "%s Xid errors (see gXidLast and the kernel's log)",
                                 infp_fixed(xids, 0).text);
}

static void put_process(struct infp_out *out, const char *label, const struct infp_gpu_process *p)
{
        const double sm = infp_stat_mean(&p->sm_percent), compute = infp_stat_mean(&p->compute_ns) / 1e7;
        char memory[80] = "", use[80] = "";

        if (p->memory_bytes.n)
                snprintf(memory, sizeof(memory), ", %s at most", infp_report_bytes(p->memory_bytes.max).text);
        if (!isnan(sm) || !isnan(compute))
                snprintf(use, sizeof(use), ", busy for it %s %% of the time",
                         infp_fixed(isnan(sm) ? compute : sm, 1).text);
        infp_report_line(out, label, "%s (%lld%s)%s%s%s", p->name ? p->name : "a process", (long long) p->pid,
                         p->is_host_pid ? " on the host" : "", p->is_target ? ", the target's" : "", memory, use);
}

static void put_processes(struct infp_out *out, const struct infp_gpu *gpu)
{
        unsigned n = 0;

        for (; n < gpu->n_processes && (n < PROCESSES_SHOWN || gpu->processes[n].is_target); n++)
                put_process(out, n ? "" : "  on it", &gpu->processes[n]);
        if (n < gpu->n_processes)
                infp_report_line(out, "", "%u more with less memory; --json has them all", gpu->n_processes - n);
}

void infp_report_gpus(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_gpus *gpus = &report->gpus;

        if (gpus->n)
                infp_report_title(out, "GPUs");
        for (unsigned i = 0; i < gpus->n && i < SHOWN; i++) { /* bound: the rest is counted below */
                const struct infp_gpu *gpu = &gpus->list[i];

                put_title(out, gpu);
                put_use(out, gpu);
                put_memory(out, gpu);
                put_power(out, report, gpu);
                put_clock(out, gpu);
                put_held(out, gpu);
                put_faults(out, gpu);
                put_processes(out, gpu);
        }
        if (gpus->n > SHOWN)
                infp_report_line(out, "", "%u more; --json has them all", gpus->n - SHOWN);
        if (gpus->n_rows_left_out)
                infp_report_line(out, "", "%s rows beyond the first %d GPUs and %d processes of each were left out",
                                 infp_count(gpus->n_rows_left_out).text, INFP_GPUS_MOST, INFP_GPU_PROCESSES_MOST);
}

void infp_report_gpus_short(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_gpus *gpus = &report->gpus;

        for (unsigned i = 0; i < gpus->n && i < SHOWN_SHORT; i++) { /* bound: the rest is counted below */
                const struct infp_gpu *gpu = &gpus->list[i];
                const double busy = infp_gpu_mean(gpu, INFP_GPU_USED), watts = infp_gpu_mean(gpu, INFP_GPU_POWER);
                const double used = infp_gpu_most(gpu, INFP_GPU_MEMORY_USED);
                infp_autostr struct infp_str text = { 0 };

                infp_str_puts(&text, gpu->name ? gpu->name : gpu->vendor ? gpu->vendor : "a GPU");
                if (!isnan(busy))
                        infp_str_printf(&text, ", %s %% busy", infp_fixed(busy, 1).text);
                if (!isnan(used))
                        infp_str_printf(&text, ", memory %s at most", infp_report_bytes(used).text);
                if (!isnan(watts))
                        infp_str_printf(&text, ", %s on average", infp_report_watts(watts).text);
                infp_report_line(out, gpu->domain, "%s", text.data ? text.data : "");
        }
        if (gpus->n > SHOWN_SHORT)
                infp_report_line(out, "", "%u more GPUs", gpus->n - SHOWN_SHORT);
}

static void put_str(struct infp_json *json, const char *key, const char *text)
{
        infp_json_member_str(json, key, text && *text ? text : NULL);
}

static void put_held_json(struct infp_json *json, const struct infp_gpu *gpu)
{
        infp_json_key(json, "held_back_ratio");
        infp_json_object(json);
        for (unsigned i = 0; i < INFP_COUNT(held); i++)
                infp_json_member_f64(json, held[i].key, infp_gpu_held(gpu, held[i].figure));
        infp_json_object_end(json);
        infp_json_key(json, "reasons_ratio");
        infp_json_object(json);
        for (unsigned i = 0; i < gpu->n_reasons; i++)
                infp_json_member_f64(json, gpu->reasons[i].text, (double) gpu->reasons[i].n / (double) gpu->n_asked);
        infp_json_object_end(json);
}

static void put_processes_json(struct infp_json *json, const struct infp_gpu *gpu)
{
        infp_json_key(json, "processes");
        infp_json_array(json);
        for (unsigned i = 0; i < gpu->n_processes; i++) {
                const struct infp_gpu_process *p = &gpu->processes[i];

                infp_json_object(json);
                infp_json_member_i64(json, "pid", p->pid);
                infp_json_member_bool(json, "pid_is_of_host", p->is_host_pid);
                put_str(json, "name", p->name);
                put_str(json, "type", p->type);
                infp_json_member_bool(json, "is_target", p->is_target);
                infp_json_member_f64(json, "memory_peak_bytes", p->memory_bytes.n ? p->memory_bytes.max : NAN);
                infp_json_member_f64(json, "sm_percent", infp_stat_mean(&p->sm_percent));
                infp_json_member_f64(json, "compute_percent", infp_stat_mean(&p->compute_ns) / 1e7);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

static void put_figures_json(struct infp_json *json, const struct infp_gpu *gpu)
{
        static const struct {
                enum infp_gpu_figure figure;
                const char *mean, *max;
        } all[] = {
                { INFP_GPU_USED, "utilization_percent", "utilization_max_percent" },
                { INFP_GPU_MEMORY_ACTIVE, "memory_utilization_percent", NULL },
                { INFP_GPU_SM_ACTIVE, "sm_active_percent", NULL },
                { INFP_GPU_TENSOR_ACTIVE, "tensor_active_percent", NULL },
                { INFP_GPU_BANDWIDTH, "memory_bandwidth_percent", NULL },
                { INFP_GPU_MEMORY_USED, "memory_used_bytes", "memory_peak_bytes" },
                { INFP_GPU_MEMORY_TOTAL, NULL, "memory_total_bytes" },
                { INFP_GPU_POWER, "power_watts", "power_max_watts" },
                { INFP_GPU_POWER_LIMIT, NULL, "power_limit_watts" },
                { INFP_GPU_TEMPERATURE, "temperature_celsius", "temperature_max_celsius" },
                { INFP_GPU_TEMPERATURE_MEMORY, NULL, "memory_temperature_max_celsius" },
                { INFP_GPU_CLOCK, "clock_mhz", "clock_seen_max_mhz" },
                { INFP_GPU_CLOCK_MAX, NULL, "clock_max_mhz" },
        };

        for (unsigned i = 0; i < INFP_COUNT(all); i++) {
                if (all[i].mean)
                        infp_json_member_f64(json, all[i].mean, infp_gpu_mean(gpu, all[i].figure));
                if (all[i].max)
                        infp_json_member_f64(json, all[i].max, infp_gpu_most(gpu, all[i].figure));
        }
}

void infp_report_json_gpus(struct infp_json *json, const struct infp_report *report)
{
        infp_json_key(json, "gpus");
        infp_json_array(json);
        for (unsigned i = 0; i < report->gpus.n; i++) {
                const struct infp_gpu *gpu = &report->gpus.list[i];
                const struct infp_energy_domain *energy = energy_of(report, gpu);

                infp_json_object(json);
                put_str(json, "gpu", gpu->domain);
                infp_json_member_i64(json, "index", gpu->index);
                put_str(json, "uuid", gpu->uuid);
                put_str(json, "name", gpu->name);
                put_str(json, "vendor", gpu->vendor);
                infp_json_member_u64(json, "samples", gpu->n_rows);
                put_figures_json(json, gpu);
                infp_json_member_f64(json, "energy_joules", energy ? energy->joules : NAN);
                infp_json_member_f64(json, "energy_seconds", energy ? energy->seconds : NAN);
                put_str(json, "energy_source", energy ? energy->source : NULL);
                put_str(json, "energy_quality",
                        energy ? infp_quality_name(energy->is_estimated ? INFP_ESTIMATED : INFP_MEASURED) : NULL);
                put_held_json(json, gpu);
                infp_json_member_f64(json, "ecc_uncorrected_errors", infp_gpu_total(gpu, INFP_GPU_ECC_UNCORRECTED));
                infp_json_member_f64(json, "xid_errors", infp_gpu_total(gpu, INFP_GPU_XIDS));
                put_processes_json(json, gpu);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}
