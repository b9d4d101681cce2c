/* Asks an engine: its page, then its make's page of running requests, and once the pages with its facts. */
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/time.h"
#include "collect/target.h"
#include "collectors/engine/parts.h"
#include "collectors/engine/tables.h"
#include "model/mask.h"

enum { KEPT_BODY = 1 << 20, LIVE_MAX = 4 << 20, SIDE_ROUNDS = 5, FIRST_LOOKS = 5 };
static const uint64_t longest_pause_ns = 10 * INFP_NS_PER_S, row_again_ns = 60 * INFP_NS_PER_S;
/* The default address is asked rarely: the user did not name it. At first more often: a server takes its time to listen. */
static const uint64_t first_pause_ns = 2 * INFP_NS_PER_S, default_pause_ns = 10 * INFP_NS_PER_S,
                      stranger_pause_ns = 60 * INFP_NS_PER_S;
/* A page that takes this much CPU each time is read less often, so that it uses at most a fiftieth of a CPU. */
static const uint64_t costly_ns = 25 * INFP_NS_PER_MS, cost_factor = 50;
static const uint64_t say_pause_ns = 10 * INFP_NS_PER_S;
static const uint64_t busy_part = 10; /* of a CPU: a tenth */

/* Two addresses that differ only in a secret look alike, but are two engines. */
static void set_name(struct engine *engine)
{
        const struct engines *all = engine->all;
        size_t n = infp_mask_cmdline(engine->url, strlen(engine->url), all->keeps_secrets, engine->shown,
                                     sizeof(engine->shown) - 32);
        unsigned n_alike = 1;

        engine->shown[n] = 0;
        engine->shown_size = n;
        for (unsigned i = 0; i < all->n_engines; i++)
                n_alike += all->engine[i] != engine && all->engine[i]->shown_size == n &&
                           !strncmp(all->engine[i]->shown, engine->shown, n);
        if (n_alike > 1)
                n += (size_t) snprintf(engine->shown + n, 32, " (%u)", n_alike);
        engine->id = infp_hash64(engine->shown, n, 0);
        engine->id = engine->id ? engine->id : 1;
}

int infp_engine_new(struct engines *all, const char *url, enum engine_origin origin, struct engine **ret,
                    struct infp_err *err)
{
        struct engine *engine;

        if (all->n_engines == ENGINES_MAX)
                return infp_fail(err, -E2BIG, "more than %d engines", ENGINES_MAX);
        engine = calloc(1, sizeof(*engine));
        if (!engine)
                return infp_fail_errno(err, -ENOMEM, "engines");
        engine->all = all;
        snprintf(engine->url, sizeof(engine->url), "%s", url);
        set_name(engine);
        engine->origin = origin;
        engine->is_listed = engine->has_number = origin == ENGINE_NAMED;
        engine->number = engine->has_number ? all->n_numbered++ : 0;
        engine->start_time = NAN;
        engine->about.keeps_secrets = all->keeps_secrets;
        engine->page = (struct engine_transfer){ .engine = engine, .ask = ENGINE_ASK_PAGE };
        engine->live = (struct engine_transfer){ .engine = engine, .ask = ENGINE_ASK_LIVE };
        engine->sleep = (struct engine_transfer){ .engine = engine, .ask = ENGINE_ASK_SLEEP };
        for (unsigned i = 0; i < ENGINE_SIDES; i++)
                engine->sides[i] = (struct engine_transfer){ .engine = engine, .ask = ENGINE_ASK_SIDE, .side = i };
        all->engine[all->n_engines++] = engine;
        *ret = engine;
        return 0;
}

struct engine *infp_engine_free(struct engine *engine)
{
        if (!engine)
                return NULL;
        infp_str_done(&engine->page.body);
        infp_str_done(&engine->live.body);
        infp_str_done(&engine->sleep.body);
        for (unsigned i = 0; i < ENGINE_SIDES; i++)
                infp_str_done(&engine->sides[i].body);
        infp_engine_series_done(&engine->series);
        infp_engine_about_done(&engine->about);
        free(engine);
        return NULL;
}

static void say(struct engine *engine, enum infp_source_state state, const char *reason, const char *fix)
{
        uint64_t now = engine->asked_t_ns;
        size_t size = engine->shown_size;

        if (reason && !strncmp(reason, engine->shown, size) && reason[size] == ':')
                reason += size + 2; /* the row has its process */
        /* The number of missing bytes differs each time. */
        if (engine->has_said && engine->said_state == state && state != INFP_OK &&
            now - engine->said_t_ns < say_pause_ns)
                return;
        engine->has_said = true;
        engine->said_state = state;
        engine->said_t_ns = now;
        infp_emit_source(engine->all->emit, NULL, -1, engine->shown, state, reason, fix);
}

/* The row of `engines`: before the first fact, when something new is known, and again now and then, since the recorder
 * forgets. */
static void write_engine(struct engine *engine)
{
        struct infp_emit *emit = engine->all->emit;
        struct infp_row *row;

        if (engine->has_row && !engine->about.has_changed && engine->t_ns - engine->row_t_ns < row_again_ns)
                return;
        if (!engine->has_number)
                engine->number = engine->all->n_numbered++;
        engine->has_number = engine->has_row = true;
        engine->row_t_ns = engine->t_ns;
        row = infp_emit_begin(emit, &infp_table_engines, engine->t_ns);
        infp_row_id(row, INFP_ENGINES_ID, engine->id);
        infp_row_i64(row, INFP_ENGINES_NUMBER, engine->number);
        infp_row_foreign(row, INFP_ENGINES_URL, engine->shown);
        if (engine->process_id)
                infp_row_id(row, INFP_ENGINES_PROCESS, engine->process_id);
        infp_engine_about_row(&engine->about, row);
        infp_emit_commit(emit);
}

/* One reading; reason NULL: success. */
static void write_scrape(struct engine *engine, const struct infp_http_result *result,
                         const struct infp_prom_page *page, bool is_ok, const char *reason)
{
        struct infp_emit *emit = engine->all->emit;
        struct infp_row *row;

        write_engine(engine);
        row = infp_emit_begin(emit, &infp_table_engine_scrapes, engine->t_ns);
        infp_row_id(row, INFP_SCRAPES_ENGINE, engine->id);
        infp_row_bool(row, INFP_SCRAPES_OK, is_ok);
        engine->has_answered |= is_ok;
        if (reason)
                infp_row_foreign(row, INFP_SCRAPES_REASON, reason);
        infp_row_i64(row, INFP_SCRAPES_RESTARTS, (int64_t) engine->n_restarts);
        if (result && result->status)
                infp_row_i64(row, INFP_SCRAPES_STATUS, result->status);
        if (result && result->sent_t_ns) {
                infp_row_f64(row, INFP_SCRAPES_MS, (double) (result->done_t_ns - result->sent_t_ns) / 1e6);
                infp_row_i64(row, INFP_SCRAPES_BYTES, (int64_t) result->n_bytes);
        }
        if (page) {
                infp_row_i64(row, INFP_SCRAPES_SERIES_COUNT, engine->n_series);
                infp_row_i64(row, INFP_SCRAPES_BAD_LINES, (int64_t) page->n_bad_lines);
        }
        infp_emit_commit(emit);
}

static const char *fix_of(const struct engine *engine, int r, long status)
{
        if (status == 401 || status == 403)
                return engine->all->token_file
                               ? "check the token in the file of --engine-token"
                               : "--engine-token FILE sends a bearer token, --header LINE another header";
        if (status == 501)
                return "start the server with --metrics"; /* llama.cpp */
        if (status == 404)
                return "start the server with its metrics switched on, or name the page by --engine URL";
        if (r == -ECONNREFUSED && engine->has_answered)
                return NULL; /* it has ended, perhaps as intended */
        if (r == -ECONNREFUSED)
                return "start the server, or name another page by --engine URL";
        return NULL;
}

static enum infp_source_state state_of(int r, long status)
{
        if (status == 401 || status == 403 || r == -EKEYREJECTED)
                return INFP_DENIED;
        if (r == -ETIMEDOUT || status == 503)
                return INFP_LATE;
        if (r == -ECONNREFUSED || status == 404 || status == 501)
                return INFP_ABSENT;
        return infp_source_state_of(r);
}

/* When it is asked again. Other engines keep their second beside one that does not answer. */
static uint64_t pause_of(struct engine *engine, int r)
{
        uint64_t pause;

        if (!engine->is_listed)
                return r != -ECONNREFUSED                   ? stranger_pause_ns
                       : engine->n_timeouts++ < FIRST_LOOKS ? first_pause_ns
                                                            : default_pause_ns;
        engine->n_timeouts = r == -ETIMEDOUT || r == -EFBIG ? engine->n_timeouts + 1 : 0;
        if (!engine->n_timeouts)
                return 0;
        pause = (UINT64_C(1) << (engine->n_timeouts < 4 ? engine->n_timeouts : 4)) * INFP_NS_PER_S;
        return pause < longest_pause_ns ? pause : longest_pause_ns;
}

/* It is, or will be, found through that. */
static bool has_known_command(const struct engines *all)
{
        bool ret = false;

        for (size_t i = 0; i < all->finder.n_processes; i++)
                ret |= all->finder.processes[i].command.make != INFP_ENGINE_UNKNOWN;
        return ret;
}

/* The user did not name this address. A port on which the target listens is reported, since it may be the server that is
 * meant. */
static void say_refused(const struct engine *engine, int r)
{
        static const char refused[] = INFP_NOT_ASKED "no engine at the default address";
        static const char other[] = INFP_NOT_ASKED "the answer at the default address is not an engine's page";
        const struct engines *all = engine->all;
        struct engine_listener listener;
        char reason[256], fix[256];
        unsigned port;

        if (has_known_command(all) || infp_engine_listens_anywhere(all->env, &all->finder, &listener, &port) < 0) {
                infp_emit_source(
                        all->emit, NULL, -1, engine->shown, INFP_ABSENT, r == -ECONNREFUSED ? refused : other,
                        !all->env->target || infp_target_mode(all->env->target) == INFP_MODE_HOST
                                ? "name the page by --engine URL, or start the server under `infprof record -- COMMAND`"
                                : "name the page by --engine URL");
                return;
        }
        snprintf(reason, sizeof(reason),
                 "process %" PRId32
                 " of the target listens on port %u, but its command line is not that of a known inference server",
                 listener.pid, port);
        snprintf(fix, sizeof(fix), "if it is one: --engine http://%s:%u/metrics", listener.host, port);
        infp_emit_source(all->emit, NULL, -1, engine->shown, INFP_ABSENT, reason, fix);
}

static void fail(struct engine *engine, int r, const struct infp_http_result *result, const struct infp_prom_page *page,
                 const char *reason)
{
        long status = result && result->r >= 0 && result->status != 200 ? result->status : 0;
        char shown[512];

        if (reason && !engine->all->keeps_secrets) { /* a server may repeat what it was sent */
                shown[infp_mask_text(reason, strlen(reason), shown, sizeof(shown) - 1)] = 0;
                reason = shown;
        }

        engine->due_ns = engine->asked_t_ns + pause_of(engine, r);
        engine->n_good = 0;
        if (!engine->is_listed) {
                say_refused(engine, r);
                return;
        }
        /* Found by its process: check who listens there now before the next request. */
        if (engine->origin == ENGINE_FOUND && (r == -ECONNREFUSED || r == -ECONNRESET)) {
                engine->is_there = false;
                snprintf(engine->why_not, sizeof(engine->why_not), "no process of the target listens there any more");
        }
        say(engine, state_of(r, status), reason, fix_of(engine, r, status));
        write_scrape(engine, result, page, false, reason);
}

void infp_engine_not_there(struct engine *engine, uint64_t now)
{
        engine->t_ns = engine->asked_t_ns = now;
        engine->n_good = 0;
        say(engine, INFP_ABSENT, engine->why_not, NULL);
        write_scrape(engine, NULL, NULL, false, engine->why_not);
}

static int take_bytes(void *context, const char *bytes, size_t size, uint64_t t_ns)
{
        struct engine_transfer *transfer = context;

        (void) t_ns;
        infp_str_put(&transfer->body, bytes, size);
        return transfer->body.failed ? -ENOMEM : 0;
}

static void take_end(void *context, const struct infp_http_result *result);

/* Where the paths of its other pages begin: after host and port, and after any prefix of a server or a proxy. */
static size_t root_size(const struct engine *engine)
{
        const char *host = strstr(engine->url, "://") + 3, *page = infp_engine_makes[engine->about.make].path;
        const bool is_socket = !strncmp(engine->url, "unix://", 7);
        const size_t bare = is_socket ? (size_t) (strrchr(host, ':') + 1 - engine->url)
                                      : (size_t) (host - engine->url) + strcspn(host, "/?#"),
                     whole = bare + strcspn(engine->url + bare, "?#"), size = strlen(page);

        return whole >= bare + size && !strncmp(engine->url + whole - size, page, size) ? whole - size : bare;
}

/* Path "" is the metrics page itself. */
static int start(struct engine_transfer *transfer, const char *path, uint64_t max_bytes, struct infp_err *err)
{
        struct engine *engine = transfer->engine;
        const bool is_stranger =
                engine->origin == ENGINE_DEFAULT && !engine->is_there; /* they must not see our secrets */
        const struct engines *all = engine->all;
        char url[2 * ENGINE_URL_MAX];
        struct infp_http_request request = {
                .url = engine->url,
                .headers = is_stranger ? all->headers + all->n_own : all->headers,
                .token_file = is_stranger ? NULL : all->token_file,
                .timeout_ms = ENGINE_TIMEOUT_MS,
                .max_bytes = max_bytes,
                .data = take_bytes,
                .done = take_end,
                .context = transfer,
        };

        if (*path) {
                snprintf(url, sizeof(url), "%.*s%s", (int) root_size(engine), engine->url, path);
                request.url = url;
        }
        infp_str_clear(&transfer->body);
        return infp_http_start(engine->all->http, &request, &transfer->running, err);
}

static void ask_page(struct engine *engine)
{
        struct infp_err err = { "" };
        int r = start(&engine->page, "", ENGINE_PAGE_MAX, &err);

        if (r < 0)
                fail(engine, r, NULL, NULL, err.text);
}

void infp_engine_ask(struct engine *engine, uint64_t now)
{
        struct infp_err err;

        engine->t_ns = engine->asked_t_ns = now;
        engine->due_ns = 0;
        /* Where that cannot be asked, its page is, which shows why. */
        if (!engine->sleep_page || start(&engine->sleep, engine->sleep_page, INFP_ABOUT_SIDE_BYTES, &err) < 0)
                ask_page(engine);
}

/* A server that sleeps when idle counts the reading of its page as a request: it would never sleep while it is recorded, or
 * be woken. So it is read while its process works, and once more after that; the cost of reading is far below the limit. */
bool infp_engine_rests(struct engine *engine, uint64_t now)
{
        const struct infp_env *env = engine->all->env;
        uint64_t ticks, before = engine->cpu_ticks, since = now - engine->cpu_t_ns;
        bool is_busy, was_busy = engine->was_busy;

        if (!engine->sleep_page || !engine->is_there || !env->ticks_per_s)
                return false;
        ticks = infp_engine_cpu_ticks(env, engine->pid);
        is_busy = !before || ticks < before || engine->is_new_process ||
                  (ticks - before) * (INFP_NS_PER_S / env->ticks_per_s) > since / busy_part;
        engine->cpu_ticks = ticks;
        engine->cpu_t_ns = now;
        engine->was_busy = is_busy;
        if (is_busy || was_busy)
                return false;
        engine->t_ns = engine->asked_t_ns = now;
        say(engine, INFP_ABSENT,
            "it is idle and not read, since reading would keep it from sleeping (its --sleep-idle-seconds)", NULL);
        return true;
}

static void ask_sides(struct engine *engine)
{
        const char *const *path = infp_engine_about_paths(engine->about.make);
        struct infp_err err;

        engine->sides_are_asked = true;
        engine->n_side_rounds++;
        for (unsigned i = 0; path[i] && i < ENGINE_SIDES; i++)
                if (!engine->sides[i].running)
                        start(&engine->sides[i], path[i], INFP_ABOUT_SIDE_BYTES, &err);
}

/* A complete and valid page came. */
static void succeed(struct engine *engine)
{
        const char *live = infp_engine_live_path(engine->about.make);
        struct infp_err err;

        /* Its other pages are asked once it is stable: not while it starts, or stops. */
        bool is_firm = ++engine->n_good > 1 || !engine->all->env->stats;

        engine->is_listed = true;
        engine->n_timeouts = 0;
        say(engine, INFP_OK, engine->odd[0] ? engine->odd : NULL, NULL);
        if (is_firm && !engine->sides_are_asked)
                ask_sides(engine);
        if (!live || engine->live_is_off || start(&engine->live, live, LIVE_MAX, &err) < 0)
                infp_engine_end_of_page(engine);
}

static int read_page(struct engine *engine, const struct infp_http_result *result, struct infp_prom_page *ret,
                     struct infp_err *err)
{
        struct infp_str *body = &engine->page.body;
        uint64_t begin = infp_clock_ns(CLOCK_THREAD_CPUTIME_ID), before = engine->cost_ns, cost;
        int r;

        /* The parser takes a last line without an end for a cut one, but the end of this page is known. */
        if (result->is_whole && body->size && body->data[body->size - 1] != '\n')
                infp_str_putc(body, '\n');
        r = infp_engine_page(engine, body->data ? body->data : "", body->size, result->content_type, ret, err);
        engine->cost_ns = infp_clock_ns(CLOCK_THREAD_CPUTIME_ID) - begin;
        /* The first page costs more than later ones. */
        cost = before < engine->cost_ns ? before : engine->cost_ns;
        if (cost < costly_ns)
                return r;
        cost *= cost_factor;
        engine->due_ns = engine->asked_t_ns + (cost < longest_pause_ns ? cost : longest_pause_ns);
        if (!engine->odd[0])
                snprintf(engine->odd, sizeof(engine->odd),
                         "the page is so long that it is read less often than each second");
        return r;
}

/* The server's own words say more than its number. A page of HTML does not. */
static void put_words(const struct engine *engine, struct infp_str *out)
{
        const struct infp_str *body = &engine->page.body;
        infp_autostr struct infp_str words = { 0 };
        char masked[1024];
        size_t n;

        if (!body->size || *body->data == '<')
                return;
        infp_http_words(body->data, body->size, &words);
        if (words.failed || words.size < 3)
                return;
        for (char *c = words.data;
             (c = strchr(c, ' '));) /* each word as an argument: a text with blanks would be quoted */
                *c++ = 0;
        n = infp_mask_cmdline(words.data, words.size, engine->all->keeps_secrets, masked, sizeof(masked));
        infp_str_puts(out, ": ");
        infp_str_put(out, masked, n);
}

static void fail_status(struct engine *engine, const struct infp_http_result *result)
{
        infp_autostr struct infp_str words = { 0 };
        struct infp_err err = { "" };

        put_words(engine, &words);
        infp_fail(&err, -EBADMSG, "%s answers with HTTP status %ld%s%s", engine->shown, result->status,
                  words.size || result->status != 503 ? "" : ", it may still be loading", words.data ? words.data : "");
        fail(engine, -EBADMSG, result, NULL, err.text);
}

/* --engine URL/llm means the page below it, as `load URL/llm` means the API below it; tried once, when the path itself is not
 * a page. Returns whether to wait for another answer. */
static bool try_below(struct engine *engine, long status)
{
        static const char page[] = "/metrics";
        size_t size = strlen(engine->url);

        if (status == 404 && engine->named_size && !engine->has_row) { /* not there either */
                engine->url[engine->named_size] = 0;
                engine->named_size = 0;
                set_name(engine);
        }
        if (status != 404 || engine->origin != ENGINE_NAMED || engine->was_below || engine->has_row ||
            strpbrk(engine->url, "?#") || strstr(engine->url, "metrics"))
                return false;
        engine->was_below = true;
        size -= engine->url[size - 1] == '/';
        if (size + sizeof(page) > sizeof(engine->url))
                return false;
        engine->named_size = strlen(engine->url);
        memcpy(engine->url + size, page, sizeof(page));
        set_name(engine);
        ask_page(engine);
        return true;
}

static void end_page(struct engine *engine, const struct infp_http_result *result)
{
        struct infp_prom_page page = { 0 };
        struct infp_err err = { "" };
        int r;

        if (result->sent_t_ns)
                engine->t_ns = result->sent_t_ns;
        if (result->r < 0) {
                fail(engine, result->r, result, NULL, result->error);
                return;
        }
        if (result->status != 200) {
                if (!try_below(engine, result->status))
                        fail_status(engine, result);
                return;
        }
        r = read_page(engine, result, &page, &err);
        if (r < 0) {
                fail(engine, r, result, &page, err.text);
                return;
        }
        engine->is_listed = true;
        if (!page.n_samples) {
                engine->n_good = 0;
                say(engine, INFP_ABSENT, engine->odd, "if the page is elsewhere, name it with --engine URL");
                write_scrape(engine, result, &page, false, engine->odd);
                return;
        }
        write_scrape(engine, result, &page, true, engine->odd[0] ? engine->odd : NULL);
        succeed(engine);
}

static void end_live(struct engine *engine, const struct infp_http_result *result)
{
        struct infp_str *body = &engine->live.body;
        struct infp_err err = { "" };

        if (result->r >= 0 && result->status == 200) {
                if (infp_engine_fields_slots(&engine->fields, body->data ? body->data : "", body->size, &err) < 0)
                        engine->live_is_off = true;
        } else if (result->r >= 0) {
                engine->live_is_off = true; /* disabled there: not asked again until a restart */
        }
        infp_engine_end_of_page(engine);
}

/* Whether it sleeps: then its page is not read, since reading it would wake the server. */
static void end_sleep(struct engine *engine, const struct infp_http_result *result)
{
        const struct infp_str *body = &engine->sleep.body;
        json_t *root = result->r == 0 && result->status == 200 && body->size
                               ? json_loadb(body->data, body->size, 0, NULL)
                               : NULL;
        const bool is_asleep = json_is_true(json_object_get(root, "is_sleeping"));

        json_decref(root);
        if (is_asleep)
                say(engine, INFP_ABSENT, "it sleeps (is_sleeping of /props) and is not read, since that would wake it",
                    NULL);
        else
                ask_page(engine);
}

static void end_side(struct engine *engine, const struct engine_transfer *transfer,
                     const struct infp_http_result *result)
{
        const char *path = infp_engine_about_paths(engine->about.make)[transfer->side];
        const struct infp_str *body = &transfer->body;

        /* A busy server at our start, or a token that is replaced: its version is asked once more. */
        if (result->r < 0 && engine->n_side_rounds < SIDE_ROUNDS)
                engine->sides_are_asked = false;
        if (result->r < 0 || result->status != 200 || !path)
                return;
        infp_engine_about_body(&engine->about, path, body->data ? body->data : "", body->size, NULL);
        if (engine->about.has_changed)
                write_engine(engine);
}

static void take_end(void *context, const struct infp_http_result *result)
{
        struct engine_transfer *transfer = context;
        struct engine *engine = transfer->engine;

        transfer->running = NULL;
        if (engine->all->emit) {
                switch (transfer->ask) {
                case ENGINE_ASK_PAGE:
                        end_page(engine, result);
                        break;
                case ENGINE_ASK_LIVE:
                        end_live(engine, result);
                        break;
                case ENGINE_ASK_SIDE:
                        end_side(engine, transfer, result);
                        break;
                case ENGINE_ASK_SLEEP:
                        end_sleep(engine, result);
                        break;
                }
        }
        /* Only pages that are asked each second keep their memory, except that of a large page. */
        if (transfer->ask == ENGINE_ASK_SIDE || transfer->body.cap > KEPT_BODY)
                infp_str_done(&transfer->body);
}
