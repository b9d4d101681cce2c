/* Members of the page's data that are lists: processes, requests, marks, spans, gaps. Times are ms since the grid's begin. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json/text.h"
#include "base/mem.h"
#include "view/html/parts.h"

static double ms_of(const struct infp_timeline *timeline, uint64_t t_ns)
{
        return (double) ((int64_t) t_ns - (int64_t) timeline->grid.t0) / 1e6;
}

static void put_ms(struct infp_json *json, const char *key, double ms)
{
        infp_json_key(json, key);
        infp_html_number(json, ms, 1e-3);
}

static void put_id(struct infp_json *json, const char *key, int64_t id)
{
        infp_json_key(json, key);
        if (id >= 0)
                infp_json_i64(json, id);
        else
                infp_json_null(json);
}

static void put_spark(struct infp_json *json, const char *key, const float *values, unsigned n, double step)
{
        infp_json_key(json, key);
        infp_json_array(json);
        for (unsigned i = 0; i < n; i++)
                infp_html_number(json, values ? (double) values[i] : NAN, step);
        infp_json_array_end(json);
}

/* To 1/200 of the maximum: a sparkline is 30 pixels high. */
static double step_of(const float *values, unsigned n)
{
        double most = 0;

        for (unsigned i = 0; values && i < n; i++)
                if ((double) values[i] > most)
                        most = (double) values[i];
        return most > 0 ? pow(10, floor(log10(most / 200))) : 1;
}

static void put_processes(struct infp_json *json, const struct infp_timeline *timeline)
{
        const unsigned n = timeline->spark.n;

        infp_json_key(json, "processes");
        infp_json_array(json);
        for (unsigned i = 0; i < timeline->n_processes; i++) {
                const struct infp_timeline_process *p = &timeline->processes[i];
                const double start =
                        p->start_unix_ns ? (double) (p->start_unix_ns - timeline->start_unix_ns) / 1e6 : NAN;

                infp_json_object(json);
                put_id(json, "pid", p->pid);
                put_id(json, "ppid", p->ppid);
                put_id(json, "parent", p->parent);
                infp_json_member_str(json, "name", p->name);
                infp_json_member_str(json, "cmdline", p->cmdline);
                put_ms(json, "start", start);
                put_ms(json, "end", p->end_t_ns ? ms_of(timeline, p->end_t_ns) : NAN);
                infp_json_member_f64(json, "cpu_s", p->cpu_s);
                infp_json_member_f64(json, "rss_max", p->rss_max);
                put_spark(json, "cpu", p->cpu, n, 0.1);
                put_spark(json, "rss", p->rss, n, step_of(p->rss, n));
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

enum request_member { ARRIVAL, TTFT, E2E, TOKENS, OK, LOAD, FAILURE };

static void put_request_member(struct infp_json *json, const struct infp_timeline *timeline,
                               const struct infp_timeline_request *r, enum request_member member)
{
        switch (member) {
        case ARRIVAL:
                infp_html_number(json, ms_of(timeline, r->t_ns), 0.1);
                break;
        case TTFT:
                infp_html_number(json, r->ttft_s, 1e-5);
                break;
        case E2E:
                infp_html_number(json, r->e2e_s, 1e-5);
                break;
        case TOKENS:
                infp_html_number(json, r->tokens, 1);
                break;
        case OK:
                infp_html_number(json, r->ok < 0 ? NAN : r->ok, 1);
                break;
        case LOAD:
                infp_json_u64(json, r->load);
                break;
        case FAILURE:
                /* A request that ended well has none. */
                infp_html_number(json, r->ok == 1 ? NAN : r->failure, 1);
                break;
        }
}

static void put_names(struct infp_json *json, const char *key, char **names, unsigned n)
{
        infp_json_key(json, key);
        infp_json_array(json);
        for (unsigned i = 0; i < n; i++)
                infp_json_str(json, names[i]);
        infp_json_array_end(json);
}

static void put_requests(struct infp_json *json, const struct infp_timeline *timeline)
{
        static const char *const keys[] = {
                [ARRIVAL] = "t", [TTFT] = "ttft", [E2E] = "e2e",         [TOKENS] = "tokens",
                [OK] = "ok",     [LOAD] = "load", [FAILURE] = "failure",
        };

        infp_json_key(json, "requests");
        if (!timeline->n_requests) {
                infp_json_null(json);
                return;
        }
        infp_json_object(json);
        for (unsigned member = 0; member <= FAILURE; member++) {
                infp_json_key(json, keys[member]);
                infp_json_array(json);
                for (unsigned i = 0; i < timeline->n_requests; i++)
                        put_request_member(json, timeline, &timeline->requests[i], (enum request_member) member);
                infp_json_array_end(json);
        }
        put_names(json, "loads", timeline->loads, timeline->n_loads);
        put_names(json, "failures", timeline->failures, timeline->n_failures);
        infp_json_object_end(json);
}

static void put_marks(struct infp_json *json, const struct infp_timeline *timeline)
{
        infp_json_key(json, "marks");
        infp_json_array(json);
        for (unsigned i = 0; i < timeline->n_marks; i++) {
                const struct infp_timeline_mark *mark = &timeline->marks[i];

                infp_json_object(json);
                put_ms(json, "t", ms_of(timeline, mark->t_ns));
                infp_json_member_str(json, "tag", mark->tag);
                infp_json_member_str(json, "source", mark->source);
                infp_json_member_str(json, "process", mark->process);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

/* The number of a text, for columns with few distinct texts. */
struct texts {
        const char **list;
        unsigned n;
};

static unsigned text_number(struct texts *texts, const char *text)
{
        unsigned i = 0;

        while (i < texts->n && strcmp(texts->list[i], text))
                i++;
        if (i == texts->n)
                texts->list[texts->n++] = text;
        return i;
}

static void put_texts(struct infp_json *json, const char *key, const struct texts *texts)
{
        infp_json_key(json, key);
        infp_json_array(json);
        for (unsigned i = 0; i < texts->n; i++)
                infp_json_str(json, texts->list[i]);
        infp_json_array_end(json);
}

enum span_member { BEGIN, DURATION, LANE, DEPTH, ID, PARENT, NAME, STATUS, ATTRIBUTES };

static void put_span_member(struct infp_json *json, const struct infp_timeline *timeline,
                            const struct infp_timeline_span *span, enum span_member member, struct texts *texts)
{
        const char *attributes = span->attributes;

        switch (member) {
        case BEGIN:
                infp_html_number(json, ms_of(timeline, span->t_ns), 1e-3);
                break;
        case DURATION:
                infp_html_number(json, span->duration_ns >= 0 ? (double) span->duration_ns / 1e6 : NAN, 1e-3);
                break;
        case LANE:
                infp_json_u64(json, span->lane);
                break;
        case DEPTH:
                infp_json_u64(json, span->depth);
                break;
        case ID:
        case PARENT:
                if ((member == ID ? span->id : span->parent) >= 0)
                        infp_json_i64(json, member == ID ? span->id : span->parent);
                else
                        infp_json_null(json);
                break;
        case NAME:
                infp_json_u64(json, text_number(texts, span->name ? span->name : ""));
                break;
        case STATUS:
                infp_json_u64(json, text_number(texts, span->status ? span->status : ""));
                break;
        case ATTRIBUTES:
                if (attributes && infp_json_is_valid(attributes, strlen(attributes)))
                        infp_json_text(json, attributes, strlen(attributes));
                else
                        infp_json_null(json);
                break;
        }
}

static void put_spans(struct infp_json *json, const struct infp_timeline *timeline)
{
        static const char *const keys[] = {
                [BEGIN] = "t",       [DURATION] = "d", [LANE] = "lane",     [DEPTH] = "depth",           [ID] = "id",
                [PARENT] = "parent", [NAME] = "name",  [STATUS] = "status", [ATTRIBUTES] = "attributes",
        };
        infp_autofree const char **list = calloc(2 * (size_t) timeline->n_spans + 2, sizeof(*list));
        struct texts names = { list, 0 }, states = { list ? list + timeline->n_spans + 1 : NULL, 0 };

        infp_json_key(json, "lanes");
        infp_json_array(json);
        for (unsigned i = 0; i < timeline->n_lanes; i++) {
                infp_json_object(json);
                infp_json_member_str(json, "name", timeline->lanes[i]);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
        infp_json_key(json, "spans");
        if (!timeline->n_spans || !list) {
                infp_json_null(json);
                json->out->failed |= !list;
                return;
        }
        infp_json_object(json);
        for (unsigned member = 0; member <= ATTRIBUTES; member++) {
                infp_json_key(json, keys[member]);
                infp_json_array(json);
                for (unsigned i = 0; i < timeline->n_spans; i++)
                        put_span_member(json, timeline, &timeline->spans[i], (enum span_member) member,
                                        member == STATUS ? &states : &names);
                infp_json_array_end(json);
        }
        put_texts(json, "names", &names);
        put_texts(json, "states", &states);
        infp_json_object_end(json);
}

static void put_gaps(struct infp_json *json, const struct infp_timeline *timeline)
{
        infp_json_key(json, "gaps");
        infp_json_array(json);
        for (unsigned i = 0; i < timeline->n_gaps; i++) {
                infp_json_object(json);
                put_ms(json, "from", ms_of(timeline, timeline->gaps[i].from));
                put_ms(json, "to", ms_of(timeline, timeline->gaps[i].to));
                infp_json_member_str(json, "reason", timeline->gaps[i].reason);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

void infp_html_events(struct infp_json *json, const struct infp_timeline *timeline)
{
        put_processes(json, timeline);
        put_requests(json, timeline);
        put_marks(json, timeline);
        put_spans(json, timeline);
        put_gaps(json, timeline);
}
