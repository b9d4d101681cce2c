#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/human.h"
#include "base/time.h"
#include "collectors/engine/parts.h"
#include "collectors/engine/vllm.h"

/* Models of one Triton that contain one another. A request to an ensemble counts in it and again in each of its steps, so
 * that sums over models are multiples. The page does not show which models are ensembles. These count as ensembles: a model
 * without a line of nv_inference_pending_request_count where others have one (ensembles have no queue of their own), and, for
 * releases before 24.01, which have no such lines, models named as in NVIDIA's examples ("ensemble", "..._bls": a model that
 * calls others by itself). */

static bool is_name(const struct infp_prom_sample *sample, const char *name)
{
        return sample->name.size == strlen(name) && !memcmp(sample->name.at, name, sample->name.size);
}

static const struct infp_prom_text *model_of(const struct infp_prom_sample *sample)
{
        for (unsigned i = 0; i < sample->n_labels; i++)
                if (sample->labels[i].name.size == 5 && !memcmp(sample->labels[i].name.at, "model", 5))
                        return &sample->labels[i].value;
        return NULL;
}

static struct engine_model *find_model(struct engine_models *models, uint64_t id)
{
        for (unsigned i = 0; i < models->n; i++)
                if (models->all[i].id == id)
                        return &models->all[i];
        return NULL;
}

static void look_at_model(struct engine_models *models, const struct infp_prom_sample *sample)
{
        const bool is_count = is_name(sample, "nv_inference_request_success"),
                   is_queue = is_name(sample, "nv_inference_pending_request_count");
        const struct infp_prom_text *name = is_count || is_queue ? model_of(sample) : NULL;
        struct engine_model *model;
        uint64_t id;

        if (!name)
                return;
        id = infp_hash64(name->at, name->size, 0);
        model = find_model(models, id);
        if (!model && models->n == ENGINE_MODELS_MAX) {
                models->has_more = true;
                return;
        }
        if (!model) {
                model = &models->all[models->n++];
                *model = (struct engine_model){ .id = id };
                snprintf(model->name, sizeof(model->name), "%.*s", (int) (name->size < 64 ? name->size : 64), name->at);
        }
        model->has_queue |= is_queue;
        model->is_counted |= is_count;
}

static bool is_named_so(const char *name)
{
        static const char end[] = "_bls";
        const size_t size = strlen(name), n = sizeof(end) - 1;

        return strstr(name, "ensemble") || (size > n && !strcmp(name + size - n, end));
}

static void end_models(struct engine_models *models)
{
        bool has_queue = false;

        for (unsigned i = 0; i < models->n; i++)
                has_queue |= models->all[i].has_queue;
        models->n_counted = models->n_ensembles = 0;
        for (unsigned i = 0; i < models->n; i++) {
                struct engine_model *model = &models->all[i];

                model->is_ensemble = !models->has_more && model->is_counted &&
                                     ((has_queue && !model->has_queue) || is_named_so(model->name));
                models->n_counted += model->is_counted;
                models->n_ensembles += model->is_ensemble;
        }
}

static enum infp_engine_share share_of(struct engine_models *models, const struct infp_prom_sample *sample)
{
        const struct infp_prom_text *name = models->n_ensembles ? model_of(sample) : NULL;
        const struct engine_model *model = name ? find_model(models, infp_hash64(name->at, name->size, 0)) : NULL;

        return !model ? INFP_ENGINE_ALL : model->is_ensemble ? INFP_ENGINE_WHOLE : INFP_ENGINE_PARTS;
}

/* Which figures belong to which models: one row of `sources`. */
static void say_models(const struct engine *engine)
{
        const struct engine_models *models = &engine->models;
        char text[512] = "";
        size_t n = 0;

        if (models->n_ensembles) {
                n = (size_t) snprintf(text, sizeof(text),
                                      "counts and durations of requests are those of the ensemble%s",
                                      models->n_ensembles > 1 ? "s" : "");
                /* bound: a sentence; engine_samples has all names */
                for (unsigned i = 0, k = 0; i < models->n && n < sizeof(text); i++)
                        if (models->all[i].is_ensemble)
                                n += (size_t) snprintf(text + n, sizeof(text) - n, "%s %s", k++ ? "," : "",
                                                       models->all[i].name);
                if (n < sizeof(text))
                        snprintf(text + n, sizeof(text) - n,
                                 ", since each of its steps counts the same request again; a model that no ensemble "
                                 "uses is in "
                                 "engine_samples alone");
        } else if (models->n_counted > 1) {
                snprintf(text, sizeof(text),
                         "counts and durations of requests are sums over %u models: a request that passes several of "
                         "them (an "
                         "ensemble, a model that calls others) is counted in each; engine_samples has them apart",
                         models->n_counted);
        }
        infp_emit_source(engine->all->emit, &infp_table_vllm, INFP_VLLM_FINISHED, engine->shown, INFP_OK,
                         *text ? text : NULL, NULL);
}

/* Turns a page of an engine into rows: the first pass checks whether it is complete and which make's, the second reads it. */

static const uint64_t forgive_ns = 60 * INFP_NS_PER_S; /* a finding is taken back after this long without another */

/* The first pass. Names of one family are adjacent. */
struct look {
        uint64_t n[INFP_ENGINE_N], n_all;
        struct engine_models *models;
        const char *name;
        size_t size;
        enum infp_engine_make make;
};

static enum infp_engine_make make_of(struct look *look, const struct infp_prom_sample *sample)
{
        if (look->name && look->size == sample->name.size && !memcmp(look->name, sample->name.at, look->size))
                return look->make;
        look->make = infp_engine_make_of(sample->name.at, sample->name.size);
        look->name =
                sample->series.at; /* in the page itself, which stays; begins with the name unless that is quoted */
        look->size = sample->name.size;
        if (sample->series.size < look->size)
                look->name = NULL;
        return look->make;
}

static int look_at(void *context, const struct infp_prom_sample *sample)
{
        struct look *look = context;

        const enum infp_engine_make make = make_of(look, sample);

        look->n[make]++;
        if (make == INFP_ENGINE_TRITON)
                look_at_model(look->models, sample);
        look->n_all++;
        return 0;
}

/* Ray Serve is only the frame when an engine in it reports itself. */
static enum infp_engine_make winner(const struct look *look)
{
        enum infp_engine_make best = INFP_ENGINE_UNKNOWN;

        for (unsigned make = INFP_ENGINE_UNKNOWN + 1; make < INFP_ENGINE_N; make++)
                if (make != INFP_ENGINE_RAY_SERVE && look->n[make] &&
                    (best == INFP_ENGINE_UNKNOWN || look->n[make] > look->n[best]))
                        best = (enum infp_engine_make) make;
        return best == INFP_ENGINE_UNKNOWN && look->n[INFP_ENGINE_RAY_SERVE] ? INFP_ENGINE_RAY_SERVE : best;
}

static int check(const struct engine *engine, const struct infp_prom_page *page, struct infp_err *err)
{
        if (!page->ends_in_line)
                return infp_fail(err, -EBADMSG, "%s: the page is truncated: its last line has no end", engine->shown);
        if (page->is_openmetrics && !page->has_eof)
                return infp_fail(err, -EBADMSG, "%s: the page is truncated: it is OpenMetrics and has no # EOF",
                                 engine->shown);
        if (page->n_bad_lines > page->n_samples)
                return infp_fail(err, -EBADMSG,
                                 "%s: %" PRIu64 " lines are not samples, more than are; the first is line %" PRIu32
                                 ": %s",
                                 engine->shown, page->n_bad_lines, page->first_bad_line, page->bad);
        return 0;
}

/* The second pass. */
struct reading {
        struct engine *engine;
        struct look look;
        bool only_own; /* the page has more than is kept: series that no known engine has are dropped first */
};

static bool is_start_time(const struct infp_prom_sample *sample)
{
        static const char name[] = "process_start_time_seconds";

        return sample->name.size == sizeof(name) - 1 && !memcmp(sample->name.at, name, sample->name.size);
}

static void feed(struct engine *engine, const struct infp_engine_alias *const *feeds, size_t n,
                 enum infp_engine_share share, double value)
{
        for (size_t i = 0; i < n; i++) {
                if (!infp_engine_alias_is_of(feeds[i], share))
                        continue;
                infp_engine_fields_add(&engine->fields, feeds[i], value);
                engine->n_running_feeds += feeds[i]->cell == INFP_VLLM_RUNNING;
        }
}

/* Without room for the series itself the fields must still be right. */
static void leave_out(struct engine *engine, const struct infp_prom_sample *sample)
{
        const struct infp_engine_alias *feeds[INFP_ENGINE_FEEDS];

        engine->n_left_out++;
        feed(engine, feeds, infp_engine_alias_find(engine->about.make, sample, feeds),
             share_of(&engine->models, sample), sample->value);
}

/* Ray puts its whole node on the page, 600 kB, of which a few hundred series are about serving. */
static bool is_wanted(struct reading *reading, const struct infp_prom_sample *sample)
{
        static const char ray[] = "ray_";
        struct engine *engine = reading->engine;
        bool is_ray = sample->name.size >= sizeof(ray) && !memcmp(sample->name.at, ray, sizeof(ray) - 1);

        if (!is_ray && !reading->only_own && engine->about.make != INFP_ENGINE_RAY_SERVE)
                return true;
        if (make_of(&reading->look, sample) != INFP_ENGINE_UNKNOWN)
                return true;
        if (is_ray)
                engine->has_core = true;
        else
                engine->n_left_out++;
        return false;
}

static int read_sample(void *context, const struct infp_prom_sample *sample)
{
        struct reading *reading = context;
        struct engine *engine = reading->engine;
        struct engine_slot *slot;
        bool is_new;

        if (sample->part == INFP_PROM_CREATED)
                return 0;
        if (!is_wanted(reading, sample))
                return 0;
        slot = infp_engine_slot(engine, sample, &is_new);
        if (!slot) {
                leave_out(engine, sample);
                return 0;
        }
        if (is_new)
                infp_engine_about_sample(&engine->about, sample);
        if (slot->round == engine->round) {
                engine->n_twice++;
                return 0;
        }
        slot->round = engine->round;
        engine->n_series++;
        slot->share = share_of(&engine->models, sample);
        feed(engine, slot->feeds, slot->n_feeds, slot->share, sample->value);
        if (is_start_time(sample))
                engine->page_start_time = sample->value;
        infp_engine_write(engine, slot, sample);
        return 0;
}

static void say_fall(struct engine *engine)
{
        struct infp_emit *emit = engine->all->emit;
        char text[480];

        if (!engine->fell_t_ns || engine->t_ns - engine->fell_t_ns > forgive_ns) {
                snprintf(text, sizeof(text),
                         "%s fell from %s to %s, and %u other counters fell, though the server did not restart: "
                         "several processes may answer in turn",
                         engine->falls.name, infp_number(engine->falls.from).text, infp_number(engine->falls.to).text,
                         engine->falls.n - 1);
                infp_emit_source(emit, &infp_table_engine_samples, -1, engine->shown, INFP_BROKEN, text, NULL);
        }
        engine->fell_t_ns = engine->t_ns;
}

/* Counters that fell mean a restart, unless the server or its process shows that there was none. */
static void see_restart(struct engine *engine)
{
        bool has_both = isfinite(engine->page_start_time) && isfinite(engine->start_time);
        bool is_moved = has_both && fabs(engine->page_start_time - engine->start_time) > 0.5;
        bool is_same = (has_both && !is_moved) || (engine->pid && engine->is_there && !engine->is_new_process);
        bool is_first = engine->round == 1;
        bool is_restart = !is_first && (is_moved || engine->is_new_process || (engine->falls.n && !is_same));

        engine->start_time = engine->page_start_time;
        engine->is_new_process = false;
        if (is_restart) {
                engine->n_restarts++;
                engine->live_is_off = engine->sides_are_asked = false;
                engine->n_good = engine->n_side_rounds = 0;
                infp_engine_series_drop_kept(engine);
                infp_engine_about_restart(&engine->about);
        } else if (engine->falls.n) {
                say_fall(engine);
        }
        if (engine->fell_t_ns && engine->t_ns - engine->fell_t_ns > forgive_ns) {
                engine->fell_t_ns = 0;
                infp_emit_source(engine->all->emit, &infp_table_engine_samples, -1, engine->shown, INFP_OK, NULL, NULL);
        }
}

static void say_limits(const struct engine *engine)
{
        char text[160];
        enum infp_source_state state = engine->n_left_out || engine->has_core ? INFP_ABSENT : INFP_OK;

        if (engine->n_left_out)
                snprintf(text, sizeof(text), "the page has more than %d series; the rest is left out",
                         ENGINE_SERIES_MAX);
        else
                snprintf(text, sizeof(text), "series of Ray's core are left out: only those about serving are kept");
        infp_emit_source(engine->all->emit, &infp_table_series, -1, engine->shown, state,
                         state == INFP_OK ? NULL : text, NULL);
}

static void note_odd(struct engine *engine, const struct infp_prom_page *page)
{
        engine->odd[0] = 0;
        if (page->n_bad_lines)
                snprintf(engine->odd, sizeof(engine->odd),
                         "%" PRIu64 " lines are not samples and were skipped; the first is line %" PRIu32 ": %s",
                         page->n_bad_lines, page->first_bad_line, page->bad);
        else if (engine->n_twice)
                snprintf(engine->odd, sizeof(engine->odd), "%" PRIu32 " series are on the page twice; the first counts",
                         engine->n_twice);
        else if (!page->n_samples)
                snprintf(engine->odd, sizeof(engine->odd), "the page has no samples");
}

static bool says_openmetrics(const char *content_type)
{
        static const char type[] = "application/openmetrics-text";

        return !strncasecmp(content_type, type, sizeof(type) - 1);
}

static void begin(struct engine *engine)
{
        engine->n_twice = engine->n_left_out = engine->n_series = engine->n_running_feeds = 0;
        engine->has_core = false;
        engine->falls = (struct engine_falls){ 0 };
        engine->page_start_time = NAN;
        infp_engine_series_begin(engine);
        infp_engine_fields_begin(&engine->fields);
}

static void set_make(struct engine *engine, enum infp_engine_make make)
{
        if (make == engine->about.make)
                return;
        /* Another server at this address: nothing of the old one continues. */
        if (engine->round) {
                engine->round++;
                infp_engine_series_end(engine);
                infp_engine_series_drop_kept(engine);
        }
        infp_engine_about_make(&engine->about, make);
}

int infp_engine_page(struct engine *engine, const char *body, size_t size, const char *content_type,
                     struct infp_prom_page *ret, struct infp_err *err)
{
        struct infp_promtext *parser = engine->all->parser;
        struct reading reading = { .engine = engine };
        bool is_openmetrics = says_openmetrics(content_type);
        struct look look = { .name = NULL, .models = &engine->models };
        enum infp_engine_make make;
        struct infp_err why = { "" };
        int r;

        engine->models = (struct engine_models){ .n = 0 };
        r = infp_promtext_parse(parser, body, size, is_openmetrics, look_at, &look, ret, &why);
        if (r < 0)
                return infp_fail(err, r, "%s: %s", engine->shown, why.text);
        INFP_TRY(check(engine, ret, err));
        /* An empty page (workers that have not written their parts yet) does not show which engine it is. */
        make = look.n_all ? winner(&look) : engine->about.make;
        if (make == INFP_ENGINE_UNKNOWN && !engine->is_listed)
                return infp_fail(err, -ENOMSG, "%s: the page is not an engine's", engine->shown);
        reading.only_own = look.n_all > ENGINE_SERIES_MAX && make != INFP_ENGINE_UNKNOWN;
        set_make(engine, make);
        end_models(&engine->models);
        begin(engine);
        r = infp_promtext_parse(parser, body, size, is_openmetrics, read_sample, &reading, ret, &why);
        if (r < 0)
                return infp_fail(err, r, "%s: %s", engine->shown, why.text);
        infp_engine_series_end(engine);
        see_restart(engine);
        infp_engine_series_add_kept(engine);
        note_odd(engine, ret);
        say_limits(engine);
        return 0;
}

/* Reports a finding about a field, or takes it back. Where infp_engine_fields_row has said why there is no value, that stays. */
static void find(struct engine *engine, int cell, bool is_wrong, const char *text)
{
        if (engine->fields.said[cell / 64] >> cell % 64 & 1)
                return;
        infp_emit_source(engine->all->emit, &infp_table_vllm, cell, engine->shown, is_wrong ? INFP_BROKEN : INFP_OK,
                         is_wrong ? text : NULL, NULL);
}

/* What is impossible by the engine's own figures. */
static void check_fields(struct engine *engine)
{
        const struct infp_row *row = &engine->all->emit->row;
        int64_t limit = engine->about.max_seqs.rank ? engine->about.max_seqs.value * engine->n_running_feeds : 0;
        char text[160];

        snprintf(text, sizeof(text), "more requests run than its limit (%" PRId64 ") allows", limit);
        find(engine, INFP_VLLM_RUNNING,
             limit > 0 && infp_row_has(row, INFP_VLLM_RUNNING) && row->cell[INFP_VLLM_RUNNING].f64 > (double) limit,
             text);
        find(engine, INFP_VLLM_KV_USAGE,
             infp_row_has(row, INFP_VLLM_KV_USAGE) && row->cell[INFP_VLLM_KV_USAGE].f64 > 1.0 + 1e-9,
             "more of the KV cache is in use than there is (a ratio above 1)");
        find(engine, INFP_VLLM_PREFIX_HITS,
             infp_row_has(row, INFP_VLLM_PREFIX_HITS) && infp_row_has(row, INFP_VLLM_PREFIX_QUERIES) &&
                     row->cell[INFP_VLLM_PREFIX_HITS].f64 > row->cell[INFP_VLLM_PREFIX_QUERIES].f64,
             "the prefix cache had more hits than queries");
}

void infp_engine_end_of_page(struct engine *engine)
{
        struct infp_emit *emit = engine->all->emit;
        struct infp_row *row;

        if (engine->about.make == INFP_ENGINE_UNKNOWN) {
                infp_emit_source(emit, &infp_table_vllm, -1, engine->shown, INFP_ABSENT,
                                 "the page is of no known engine: its series are kept, but feed no field", NULL);
                return;
        }
        row = infp_emit_begin(emit, &infp_table_vllm, engine->t_ns);
        infp_row_id(row, INFP_VLLM_ENGINE, engine->id);
        infp_engine_fields_row(&engine->fields, engine->about.make, engine->shown, emit);
        check_fields(engine);
        infp_emit_commit(emit);
        if (engine->about.make == INFP_ENGINE_TRITON)
                say_models(engine);
}
