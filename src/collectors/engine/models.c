/* Models of one Triton that contain one another. A request to an ensemble counts in it and again in each of its steps, so that sums
 * over models are multiples. The page does not say which models are ensembles. Taken for one: a model that has no line of
 * nv_inference_pending_request_count where others have one (ensembles have no queue of their own), and, for releases before 24.01
 * that have no such lines, what is named as NVIDIA's examples are ("ensemble", "..._bls": a model that calls others by itself). */
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "collectors/engine/parts.h"
#include "collectors/engine/vllm.h"

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

static struct engine_model *find(struct engine_models *models, uint64_t id)
{
        for (unsigned i = 0; i < models->n; i++)
                if (models->all[i].id == id)
                        return &models->all[i];
        return NULL;
}

void infp_engine_models_look(struct engine_models *models, const struct infp_prom_sample *sample)
{
        const bool is_count = is_name(sample, "nv_inference_request_success"),
                   is_queue = is_name(sample, "nv_inference_pending_request_count");
        const struct infp_prom_text *name = is_count || is_queue ? model_of(sample) : NULL;
        struct engine_model *model;
        uint64_t id;

        if (!name)
                return;
        id = infp_hash64(name->at, name->size, 0);
        model = find(models, id);
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

void infp_engine_models_end(struct engine_models *models)
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

enum infp_engine_share infp_engine_models_share(struct engine_models *models, const struct infp_prom_sample *sample)
{
        const struct infp_prom_text *name = models->n_ensembles ? model_of(sample) : NULL;
        const struct engine_model *model = name ? find(models, infp_hash64(name->at, name->size, 0)) : NULL;

        return !model ? INFP_ENGINE_ALL : model->is_ensemble ? INFP_ENGINE_WHOLE : INFP_ENGINE_PARTS;
}

/* Which figures are of which models: one row of `sources`. */
void infp_engine_models_say(const struct engine *engine)
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
