/* infprof load: sends requests to an inference server and measures them. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "app/load_record.h"
#include "base/human.h"
#include "base/json/json.h"
#include "base/mem.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/load_options.h"
#include "cli/output.h"
#include "load/target.h"
#include "model/mask.h"
#include "view/report/parts.h"

enum { SPARE_DESCRIPTORS = 64, MANY_DESCRIPTORS = 1 << 16, URL_MAX = 4096 };

struct load {
        struct infp_load_wishes wishes;
        struct infp_load_target target;
        struct infp_load_record *record;
        struct infp_requests *requests, *warming; /* warming: of the warm-up, while it runs */
        struct infp_load_state state;
        struct infp_signals signals;
        char *model, shown_url[URL_MAX];
        unsigned n_models;
        bool is_terminal, is_stopped;
        double cpu_s;
};

/* Ctrl-C or kill. Other signals are ignored. */
static bool is_stop(void *context)
{
        struct load *l = context;
        struct infp_signal signal;

        while (infp_signals_next(&l->signals, &signal))
                l->is_stopped |= infp_signal_is_end(signal.number);
        return l->is_stopped;
}

static void take_row(void *context, const struct infp_row *row)
{
        struct load *l = context;

        infp_requests_add_row(l->requests, row);
        infp_load_record_put(l->record, row);
}

static void show_progress(void *context, const struct infp_load_state *state)
{
        char failed[64] = "", waiting[64] = "";

        (void) context;
        if (state->n_failed)
                snprintf(failed, sizeof(failed), ", %s failed", infp_count(state->n_failed).text);
        if (state->n_waiting)
                snprintf(waiting, sizeof(waiting), ", %s waiting", infp_count(state->n_waiting).text);
        infp_say_progress("%5s s  %s requests ended%s, %u in flight%s, %s pieces%s",
                          infp_fixed((double) (state->now_t_ns - state->start_t_ns) / 1e9, 1).text,
                          infp_count(state->n_ended).text, failed, state->n_in_flight, waiting,
                          infp_count(state->n_pieces).text, state->is_ending ? ", ending" : "");
}

static double own_cpu_s(void)
{
        struct rusage usage;

        getrusage(RUSAGE_SELF, &usage);
        return (double) (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
               (double) (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

/* A connection per request in flight. */
static unsigned raise_descriptor_limit(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
                return 0;
        if (limit.rlim_cur < MANY_DESCRIPTORS && limit.rlim_cur < limit.rlim_max) {
                limit.rlim_cur = limit.rlim_max < MANY_DESCRIPTORS ? limit.rlim_max : MANY_DESCRIPTORS;
                setrlimit(RLIMIT_NOFILE, &limit);
                getrlimit(RLIMIT_NOFILE, &limit);
        }
        if (limit.rlim_cur <= 2 * SPARE_DESCRIPTORS)
                return 1 + (unsigned) limit.rlim_cur / 4;
        return (unsigned) (limit.rlim_cur < MANY_DESCRIPTORS ? limit.rlim_cur : MANY_DESCRIPTORS) - SPARE_DESCRIPTORS;
}

/* Different prompts, lengths and arrivals, so that the warm-up does not fill the server's cache for the load. */
static void forget_row(void *context, const struct infp_row *row)
{
        infp_requests_add_row(((struct load *) context)->warming, row);
}

static int warm_up(struct load *l, struct infp_err *err)
{
        struct infp_requests *requests = calloc(1, sizeof(*requests));
        struct infp_load_options options = l->wishes.load;
        struct infp_load_state state;
        int r = requests ? 0 : infp_fail(err, -ENOMEM, "not enough memory");

        options.rate = 0;
        options.n_requests = l->wishes.n_warmup;
        options.duration_ns = 0;
        options.seed = ~options.seed;
        options.concurrency = options.concurrency && options.concurrency < 4 ? options.concurrency : 4;
        options.row = forget_row;
        options.progress = NULL;
        l->warming = requests;
        if (r == 0)
                r = infp_load_run(&options, &state, err);
        if (r == 0 && l->is_stopped)
                r = infp_fail(err, -ECANCELED, "stopped in the warm-up");
        else if (r == 0 && !requests->n_ok)
                r = infp_fail(err, -EIO, "all %s requests of the warm-up failed, such as: %s",
                              infp_count(requests->n).text, requests->failures[0].example);
        if (requests)
                infp_requests_done(requests);
        free(requests);
        return r;
}

static int find_target(struct load *l, struct infp_err *err)
{
        struct infp_load_wishes *w = &l->wishes;
        const struct infp_load_access access = { .headers = w->headers,
                                                 .token_file = w->load.token_file,
                                                 .wait_ns = w->wait_ns,
                                                 .is_stop = is_stop,
                                                 .context = l };
        size_t n = infp_mask_cmdline(l->target.endpoint, strlen(l->target.endpoint), false, l->shown_url, URL_MAX - 1);

        l->shown_url[n] = 0;
        w->load.url = l->target.endpoint;
        w->load.shown_url = l->shown_url;
        w->load.is_chat = l->target.is_chat;
        w->load.model = w->model;
        INFP_TRY(infp_load_target_look(&l->target, &access, w->model ? NULL : &l->model, &l->n_models, err));
        if (!w->model)
                w->load.model = l->model;
        if (l->n_models > 1 && !w->is_json)
                infp_say("load: the server has %u models, %s is asked (--model NAME chooses)", l->n_models, l->model);
        return 0;
}

static int measure(struct load *l, struct infp_err *err)
{
        struct infp_load_options *options = &l->wishes.load;
        double before;
        int r;

        options->max_in_flight = raise_descriptor_limit();
        options->stop_fd = l->signals.fd;
        options->is_stop = is_stop;
        options->row = take_row;
        options->progress = l->is_terminal ? show_progress : NULL;
        options->context = l;
        l->requests->goals = l->wishes.goals;
        if (l->wishes.n_warmup)
                INFP_TRY(warm_up(l, err));
        before = own_cpu_s();
        r = infp_load_run(options, &l->state, err);
        l->cpu_s = own_cpu_s() - before;
        infp_end_progress();
        return r;
}

/* Our own CPU time per 1,000 tokens, in ms; NAN: the server reports no tokens. */
static double cpu_ms(const struct load *l)
{
        return l->requests->output_tokens ? l->cpu_s * 1e6 / (double) l->requests->output_tokens : NAN;
}

static void print_json(struct infp_out *out, const struct load *l, const char *uuid, const char *output)
{
        const struct infp_load_options *options = &l->wishes.load;
        struct infp_json json;

        infp_json_begin(&json, &out->text, 2);
        infp_json_object(&json);
        infp_json_member_str(&json, "url", l->shown_url);
        infp_json_member_str(&json, "model", options->model);
        infp_json_member_str(&json, "load", options->name);
        infp_json_member_str(&json, "run", uuid);
        infp_json_member_str(&json, "output", output);
        infp_json_member_str(&json, "loop", options->rate > 0 ? "open" : "closed");
        infp_json_member_str(&json, "arrival",
                             options->rate <= 0     ? NULL
                             : options->is_constant ? "constant"
                                                    : "poisson");
        infp_json_member_f64(&json, "request_rate", options->rate > 0 ? options->rate : NAN);
        infp_json_member_f64(&json, "max_concurrency", options->concurrency ? options->concurrency : NAN);
        infp_json_member_u64(&json, "seed", options->seed);
        infp_json_member_bool(&json, "stopped", l->is_stopped);
        infp_json_member_u64(&json, "held_back", l->state.n_held);
        infp_requests_json(&json, l->requests);
        infp_json_member_f64(&json, "client_cpu_s", l->cpu_s);
        infp_json_member_f64(&json, "client_cpu_ms_per_1000_tokens", cpu_ms(l));
        infp_json_object_end(&json);
        infp_str_putc(&out->text, '\n');
}

static void print_text(struct infp_out *out, const struct load *l)
{
        const struct infp_load_options *options = &l->wishes.load;
        const char *model = options->model ? options->model : "no model named";
        char title[256];

        if (options->rate > 0)
                snprintf(title, sizeof(title), "Load (client-side): %s requests a second, %s",
                         infp_number(options->rate).text, options->is_constant ? "evenly spaced" : "Poisson");
        else
                snprintf(title, sizeof(title), "Load (client-side): %u at a time", options->concurrency);
        infp_requests_text(out, l->requests, title);
        infp_report_line(out, "server", "%s", l->shown_url);
        infp_report_line(out, "model", "%s", model);
        if (l->state.n_held)
                infp_report_line(out, "held back", "%s requests were due while all %u slots were taken (--concurrency)",
                                 infp_count(l->state.n_held).text,
                                 options->concurrency ? options->concurrency : options->max_in_flight);
        if (isnan(cpu_ms(l)))
                infp_report_line(out, "load client", "%s of CPU", infp_report_seconds(l->cpu_s).text);
        else
                infp_report_line(out, "load client", "%s of CPU (%s per 1,000 tokens)",
                                 infp_report_seconds(l->cpu_s).text, infp_report_seconds(cpu_ms(l) / 1e3).text);
}

static int print(const struct load *l, const char *uuid, const char *output, struct infp_err *err)
{
        struct infp_output to;
        int r;

        INFP_TRY(infp_output_open(&to, NULL, "csv", err));
        if (l->wishes.is_json)
                print_json(&to.out, l, uuid, output);
        else
                print_text(&to.out, l);
        r = infp_output_finish(&to, err);
        infp_output_done(&to);
        return r;
}

/* One line each: where the rows are, and what is missing. */
static void say_where(const struct load *l, bool is_live, const char *uuid, const char *output)
{
        if (!uuid)
                return;
        if (is_live)
                infp_say("%s requests are in run %s, which is recorded in %s", infp_count(l->requests->n).text, uuid,
                         output);
        else
                infp_say("%s requests recorded; read them with `infprof report -r %s/%s.infprof`",
                         infp_count(l->requests->n).text, output, uuid);
}

/* Lost rows are a failure only if recording was asked for; the summary is complete. The failure was already printed. */
static bool close_record(struct load *l)
{
        const char *given = infp_load_record_uuid(l->record);
        char uuid[37] = "", output[1024] = "";
        const bool is_live = infp_load_record_is_live(l->record);
        struct infp_err lost_err = { "" }, err = { "" };
        uint64_t n_lost;
        int r;

        if (given) {
                snprintf(uuid, sizeof(uuid), "%s", given);
                snprintf(output, sizeof(output), "%s", infp_load_record_output(l->record));
        }
        r = infp_load_record_close(INFP_TAKE(l->record), &l->signals, &n_lost, &lost_err);
        if (r < 0)
                infp_say("load: %s of %s requests were not recorded: %s", infp_count(n_lost).text,
                         infp_count(l->requests->n).text, lost_err.text);
        else
                say_where(l, is_live, given ? uuid : NULL, output);
        if (print(l, given ? uuid : NULL, given ? output : NULL, &err) < 0) {
                infp_say_failure(&err);
                return false;
        }
        return r >= 0 || !(l->wishes.record.run || l->wishes.record.output);
}

static int verdict(const struct load *l)
{
        const struct infp_requests *requests = l->requests;

        if (requests->n_failed) {
                const char *example = requests->n_failures ? requests->failures[0].example : "";

                infp_say("load: %s: %s of %s requests failed%s%s", l->shown_url, infp_count(requests->n_failed).text,
                         infp_count(requests->n).text, *example ? ", such as: " : "", example);
                return INFP_EXIT_FAILURE;
        }
        if (!requests->n_ok && !l->is_stopped) {
                infp_say("load: no request finished in time: give more time (--grace, --duration), or ask for fewer "
                         "tokens");
                return INFP_EXIT_FAILURE;
        }
        return INFP_EXIT_OK;
}

static int load_it(struct load *l)
{
        struct infp_err err = { "" };
        int r = find_target(l, &err);

        l->wishes.record.server = l->shown_url;
        if (r >= 0)
                r = infp_load_record_open(&l->wishes.record, &l->record, &err);
        if (r >= 0)
                r = measure(l, &err);
        if (r >= 0)
                return close_record(l) ? verdict(l) : INFP_EXIT_FAILURE;
        if (l->record) {
                struct infp_err other = { "" };
                uint64_t n_lost;

                infp_load_record_close(l->record, &l->signals, &n_lost, &other);
        }
        return infp_say_failure(&err);
}

static int run(const struct infp_arguments *arguments)
{
        struct infp_err err = { "" };
        struct load *l = calloc(1, sizeof(*l));
        int code = INFP_EXIT_OK;

        if (l)
                l->requests = calloc(1, sizeof(*l->requests));
        if (!l || !l->requests) {
                infp_say("load: not enough memory");
                free(l);
                return INFP_EXIT_FAILURE;
        }
        l->signals.fd = -1;
        l->is_terminal = isatty(STDERR_FILENO);
        if (infp_load_wishes_read(arguments, &l->wishes, &err) < 0 ||
            infp_load_target_init(&l->target, l->wishes.url, l->wishes.endpoint, l->wishes.prompts.has_messages, &err) <
                    0) {
                infp_say("load: %s", err.text);
                code = INFP_EXIT_USAGE;
        } else if (infp_signals_open(&l->signals, false, &err) < 0)
                code = infp_say_failure(&err);
        if (code == INFP_EXIT_OK)
                code = load_it(l);
        infp_signals_close(&l->signals);
        infp_requests_done(l->requests);
        infp_load_target_done(&l->target);
        infp_load_wishes_done(&l->wishes);
        free(l->model);
        free(l->requests);
        free(l);
        return code;
}

const struct infp_command infp_command_load = {
        .name = "load",
        .summary =
                "send requests to an inference server and measure tokens/s, time to first token, inter-token latency",
        .operands = "URL",
        .options = infp_load_option_table,
        .more = "The server needs an OpenAI API: vLLM, llama.cpp, SGLang, TGI and others. Each request is a row of "
                "table requests, in\n"
                "the run that is being recorded, else in a new run. All times are the client's and count from when a "
                "request was due,\n"
                "so a server that stalls cannot hide it. Tokens are counted by the server. Ctrl-C stops the load and "
                "still reports.\n"
                "Exit code 1: a request failed, or the server cannot be reached.\n"
                "\n"
                "examples:\n"
                "  infprof load http://127.0.0.1:8000                       4 at a time for 20 s\n"
                "  infprof load localhost:8000 --rate 5 --duration 1m       5 a second, Poisson\n"
                "  infprof load http://127.0.0.1:8091 -c 8 -n 200 --endpoint chat --json\n"
                "  infprof load http://127.0.0.1:8000 --prompts chats.jsonl --goodput ttft:500 --goodput tpot:50",
        .run = run,
};
