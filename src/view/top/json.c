#include "view/top/json.h"

#include <math.h>

#include "base/time.h"
#include "model/stack_tables.h"

static void put_figures(struct infp_json *json, const struct infp_watch_figures *f)
{
        infp_json_key(json, "host");
        infp_json_object(json);
        infp_json_member_f64(json, "cpu_cores", f->host_cores);
        infp_json_member_f64(json, "cpus", f->cores);
        infp_json_member_f64(json, "memory_total_bytes", f->memory_total);
        infp_json_member_f64(json, "memory_available_bytes", f->memory_available);
        infp_json_object_end(json);
        infp_json_key(json, "target");
        infp_json_object(json);
        infp_json_member_f64(json, "cpu_cores", f->tree_cores);
        infp_json_member_f64(json, "rss_bytes", f->tree_rss);
        infp_json_member_f64(json, "processes", f->processes);
        infp_json_member_f64(json, "threads", f->threads);
        infp_json_object_end(json);
        infp_json_key(json, "engine");
        if (!f->n_engines) {
                infp_json_null(json);
                return;
        }
        infp_json_object(json);
        infp_json_member_str(json, "make", f->engine);
        infp_json_member_str(json, "model", f->model);
        infp_json_member_u64(json, "engines", f->n_engines);
        infp_json_member_f64(json, "tokens_per_s", f->tokens_s);
        infp_json_member_f64(json, "prompt_tokens_per_s", f->prompt_tokens_s);
        infp_json_member_f64(json, "requests_running", f->running);
        infp_json_member_f64(json, "requests_waiting", f->waiting);
        infp_json_member_f64(json, "kv_cache_share", f->kv_share);
        infp_json_object_end(json);
}

static void put_gpus(struct infp_json *json, const struct infp_watch_figures *f)
{
        infp_json_key(json, "gpus");
        infp_json_array(json);
        for (unsigned i = 0; i < f->n_gpus; i++) {
                infp_json_object(json);
                infp_json_member_f64(json, "utilization_percent", f->gpus[i].percent);
                infp_json_member_f64(json, "memory_used_bytes", f->gpus[i].used);
                infp_json_member_f64(json, "memory_total_bytes", f->gpus[i].total);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

static void put_code(struct infp_json *json, const struct infp_watch_row *row, enum infp_watch_by by)
{
        infp_json_member_str(json, by == INFP_WATCH_LINES ? "line" : "name", row->name);
        infp_json_member_str(json, by == INFP_WATCH_LINES ? "function" : "object", row->place);
        infp_json_member_str(json, "kind", infp_frame_kind_name((enum infp_frame_kind) row->kind));
        infp_json_member_f64(json, "self_s", row->self);
        infp_json_member_f64(json, "total_s", row->total);
        infp_json_member_f64(json, "since_self_s", row->since_self);
        infp_json_member_f64(json, "since_total_s", row->since_total);
}

static void put_thread(struct infp_json *json, const struct infp_watch_row *row)
{
        infp_json_member_str(json, "name", row->name);
        infp_json_member_i64(json, "tid", row->tid);
        infp_json_key(json, "pid");
        if (row->pid > 0)
                infp_json_i64(json, row->pid);
        else
                infp_json_null(json);
        infp_json_member_str(json, "process", row->process);
        infp_json_member_str(json, "state", row->place);
        infp_json_member_f64(json, "cpu_s", row->total);
        infp_json_member_f64(json, "since_cpu_s", row->since_total);
        infp_json_member_f64(json, "gil_waits_s", row->gil_known > 0 ? row->gil_waits : NAN);
        infp_json_member_f64(json, "gil_holds_s", row->gil_known > 0 ? row->gil_holds : NAN);
        infp_json_member_f64(json, "gil_known_s", row->gil_known);
}

static int put_rows(struct infp_json *json, struct infp_watch *watch, const struct infp_top_choice *choice,
                    const struct infp_top_about *about, enum infp_watch_by by)
{
        const struct infp_watch_query query = infp_top_query(choice, watch, by);
        struct infp_watch_view view;

        INFP_TRY(infp_watch_view(watch, &query, &view));
        if (by == INFP_WATCH_FUNCTIONS) {
                infp_json_member_f64(json, "window_s", view.window_s);
                infp_json_member_f64(json, "since_s", view.since_s);
                infp_json_member_u64(json, "samples", view.samples);
                infp_json_member_f64(json, "sampled_s", view.seconds);
                infp_json_member_u64(json, "since_samples", view.since_samples);
                infp_json_member_f64(json, "since_sampled_s", view.since_used);
        }
        infp_json_key(json, infp_watch_by_names[by]);
        infp_json_array(json);
        for (size_t i = 0; i < view.n && i < about->max_rows; i++) {
                infp_json_object(json);
                if (by == INFP_WATCH_THREADS)
                        put_thread(json, &view.rows[i]);
                else
                        put_code(json, &view.rows[i], by);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
        return 0;
}

int infp_top_json(struct infp_json *json, struct infp_watch *watch, const struct infp_top_choice *choice,
                  const struct infp_top_about *about)
{
        const uint64_t newest = infp_watch_newest_ns(watch);
        struct infp_watch_figures figures;
        struct infp_watch_sampling sampling;

        infp_watch_figures(watch, 0, choice->window_ns, &figures);
        infp_watch_sampling(watch, choice->mode, &sampling);
        infp_json_object(json);
        infp_json_member_i64(json, "time_unix_ms",
                             ((int64_t) newest + about->unix_minus_mono) / (int64_t) INFP_NS_PER_MS);
        infp_json_member_str(json, "what", about->title);
        infp_json_member_str(json, "mode", infp_stack_modes[choice->mode].name);
        infp_json_member_bool(json, "ended", about->is_over);
        infp_json_member_str(json, "problem", sampling.problem);
        infp_json_member_str(json, "fix", sampling.fix);
        for (int by = 0; by < INFP_WATCH_BYS; by++)
                INFP_TRY(put_rows(json, watch, choice, about, (enum infp_watch_by) by));
        put_figures(json, &figures);
        put_gpus(json, &figures);
        infp_json_object_end(json);
        return 0;
}
