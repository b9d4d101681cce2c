/* What is known of an engine, and its row. */
#include "collectors/engine/about.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "collectors/engine/about_parts.h"
#include "collectors/engine/tables.h"

enum { CONFIG_BYTES = 48 * 1024 };

void infp_engine_about_done(struct infp_engine_about *about)
{
        json_decref(about->config);
        about->config = NULL;
}

void infp_engine_about_make(struct infp_engine_about *about, enum infp_engine_make make)
{
        if (about->make == make)
                return;
        json_decref(about->config);
        about->config = NULL;
        about->make = make;
        about->has_changed = true;
        memset(&about->version, 0, sizeof(about->version));
        memset(&about->quantisation, 0, sizeof(about->quantisation));
        memset(&about->dtype, 0, sizeof(about->dtype));
        about->max_seqs = about->context = about->block_size = about->blocks = (struct infp_about_number){ 0 };
        about->n_models = about->models_are_cut = 0;
        about->models_rank = INFP_ABOUT_NOTHING;
        infp_about_read_command(about);
}

/* Facts of the old server stay until the new one has said its own; a page of the new one may say less than a side page of the
 * old one did, so all ranks fall to the lowest that counts. */
void infp_engine_about_restart(struct infp_engine_about *about)
{
        struct infp_about_text *texts[] = { &about->version, &about->quantisation, &about->dtype };
        struct infp_about_number *numbers[] = { &about->max_seqs, &about->context, &about->block_size, &about->blocks };

        for (size_t i = 0; i < INFP_COUNT(texts); i++)
                texts[i]->rank = texts[i]->rank ? INFP_ABOUT_FROM_NAME : INFP_ABOUT_NOTHING;
        for (size_t i = 0; i < INFP_COUNT(numbers); i++)
                numbers[i]->rank = numbers[i]->rank ? INFP_ABOUT_FROM_NAME : INFP_ABOUT_NOTHING;
        about->models_rank = about->n_models ? INFP_ABOUT_FROM_NAME : INFP_ABOUT_NOTHING;
}

/* The beginning of a text that fits, cut between characters. */
static size_t fitting(const char *s, size_t size, size_t cap)
{
        if (size < cap)
                return size;
        size = cap - 1;
        while (size > 0 && (s[size] & 0xc0) == 0x80)
                size--;
        return size;
}

static void set_text(struct infp_engine_about *about, struct infp_about_text *text, const char *s, size_t size,
                     enum infp_about_rank rank)
{
        size_t n = fitting(s, size, sizeof(text->at));

        if (!size || rank < text->rank)
                return;
        about->has_changed |= strlen(text->at) != n || memcmp(text->at, s, n) != 0;
        memcpy(text->at, s, n);
        text->at[n] = 0;
        text->rank = (uint8_t) rank;
}

void infp_about_set_number(struct infp_engine_about *about, struct infp_about_number *number, int64_t value,
                           enum infp_about_rank rank)
{
        if (value <= 0 || rank < number->rank)
                return;
        about->has_changed |= !number->rank || number->value != value;
        number->value = value;
        number->rank = (uint8_t) rank;
}

/* "q4_k_m", "IQ3_XXS", "FP8", "AWQ", "w4a16", "4bit": a word of a model's name that is a number format. */
static bool is_format(const char *word, size_t size)
{
        static const char *const formats[] = { "f16",   "f32",  "bf16", "fp16",  "fp8",  "fp4",   "nvfp4",
                                               "mxfp4", "int4", "int8", "awq",   "gptq", "w4a16", "w8a16",
                                               "w8a8",  "4bit", "8bit", "tq1_0", "tq2_0" };
        size_t q = size > 0 && (word[0] == 'i' || word[0] == 'I');

        if (size >= q + 2 && (word[q] == 'q' || word[q] == 'Q') && word[q + 1] >= '1' && word[q + 1] <= '8' &&
            (size == q + 2 || word[q + 2] == '_'))
                return true;
        for (size_t i = 0; i < INFP_COUNT(formats); i++) {
                if (strlen(formats[i]) == size && strncasecmp(formats[i], word, size) == 0)
                        return true;
        }
        return false;
}

static void read_format(struct infp_engine_about *about, const char *name, size_t size)
{
        for (size_t begin = 0; begin < size;) {
                size_t end = begin;

                while (end < size && !strchr("-./: \\", name[end]))
                        end++;
                if (is_format(name + begin, end - begin))
                        set_text(about, &about->quantisation, name + begin, end - begin, INFP_ABOUT_FROM_NAME);
                begin = end + 1;
        }
}

void infp_about_add_model(struct infp_engine_about *about, const char *s, size_t size, enum infp_about_rank rank)
{
        struct infp_about_text *model;

        size = fitting(s, size, INFP_ABOUT_TEXT);
        if (!size || rank < about->models_rank)
                return;
        if (rank > about->models_rank)
                about->n_models = about->models_are_cut = 0;
        about->models_rank = (uint8_t) rank;
        for (unsigned i = 0; i < about->n_models; i++) {
                if (strlen(about->model[i].at) == size && memcmp(about->model[i].at, s, size) == 0)
                        return;
        }
        if (about->n_models == INFP_ABOUT_MODELS) {
                about->models_are_cut = true;
                return;
        }
        /* What the place held before is compared: a list that is given again has not changed. */
        model = &about->model[about->n_models++];
        model->rank = INFP_ABOUT_NOTHING;
        set_text(about, model, s, size, rank);
        read_format(about, s, size);
}

static bool says_nothing(const char *s, size_t size)
{
        static const char *const nothing[] = { "", "None", "none", "null", "auto" };

        for (size_t i = 0; i < INFP_COUNT(nothing); i++) {
                if (strlen(nothing[i]) == size && memcmp(nothing[i], s, size) == 0)
                        return true;
        }
        return false;
}

/* "32k" is 32,000 and "32K" 32,768, as vLLM reads them; "1024.0" is a whole number too. */
static int64_t number_of(const char *s, size_t size)
{
        static const struct {
                char letter;
                int64_t factor;
        } units[] = { { 'k', 1000 }, { 'K', 1024 }, { 'm', 1000000 }, { 'M', 1 << 20 } };
        int64_t factor = 1;
        double v;

        for (size_t i = 0; size > 1 && i < INFP_COUNT(units); i++) {
                if (s[size - 1] == units[i].letter) {
                        factor = units[i].factor;
                        size--;
                        break;
                }
        }
        if (infp_parse_f64(s, size, &v) < 0 || !(v > 0) || v * (double) factor >= 0x1p62)
                return 0;
        return (int64_t) (v * (double) factor);
}

/* llama.cpp that was built outside of its repository. */
static const char unknown_build[] = "b0-unknown";

void infp_about_set_fact(struct infp_engine_about *about, enum infp_about_fact fact, const char *s, size_t size,
                         enum infp_about_rank rank)
{
        if (says_nothing(s, size))
                return;
        switch (fact) {
        case INFP_FACT_NONE:
                break;
        case INFP_FACT_MODEL:
        case INFP_FACT_SERVED_NAME:
                infp_about_add_model(about, s, size, rank);
                break;
        case INFP_FACT_VERSION:
                if (size == strlen(unknown_build) && memcmp(s, unknown_build, size) == 0)
                        break;
                set_text(about, &about->version, s, size, rank);
                break;
        case INFP_FACT_QUANTISATION:
                set_text(about, &about->quantisation, s, size, rank);
                break;
        case INFP_FACT_DTYPE:
                set_text(about, &about->dtype, s, size, rank);
                break;
        case INFP_FACT_MAX_SEQS:
                infp_about_set_number(about, &about->max_seqs, number_of(s, size), rank);
                break;
        case INFP_FACT_CONTEXT:
                infp_about_set_number(about, &about->context, number_of(s, size), rank);
                break;
        case INFP_FACT_BLOCK_SIZE:
                infp_about_set_number(about, &about->block_size, number_of(s, size), rank);
                break;
        case INFP_FACT_BLOCKS:
                infp_about_set_number(about, &about->blocks, number_of(s, size), rank);
                break;
        }
}

static void row_number(struct infp_row *row, unsigned cell, const struct infp_about_number *number)
{
        if (number->rank)
                infp_row_i64(row, cell, number->value);
}

static void row_text(struct infp_row *row, unsigned cell, const char *s)
{
        if (*s)
                infp_row_bytes(row, cell, s, strlen(s));
}

static void row_models(const struct infp_engine_about *about, struct infp_row *row)
{
        char text[INFP_ABOUT_MODELS * (INFP_ABOUT_TEXT + 1) + sizeof("...")];
        size_t size = 0;

        for (unsigned i = 0; i < about->n_models; i++) {
                size_t n = strlen(about->model[i].at);

                if (i)
                        text[size++] = ',';
                memcpy(text + size, about->model[i].at, n);
                size += n;
        }
        if (about->models_are_cut) {
                memcpy(text + size, ",...", 4);
                size += 4;
        }
        if (size)
                infp_row_bytes(row, INFP_ENGINES_MODEL, text, size);
}

static void row_config(const struct infp_engine_about *about, struct infp_row *row)
{
        infp_autofree char *text = about->config ? json_dumps(about->config, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        size_t size = text ? strlen(text) : 0;

        /* What does not fit would be cut, and then it were no JSON. */
        if (size && size <= CONFIG_BYTES)
                infp_row_str(row, INFP_ENGINES_CONFIG, text);
}

void infp_engine_about_row(struct infp_engine_about *about, struct infp_row *row)
{
        row_text(row, INFP_ENGINES_MAKE, infp_engine_makes[about->make ? about->make : about->commanded_make].name);
        row_text(row, INFP_ENGINES_VERSION, about->version.at);
        row_models(about, row);
        row_text(row, INFP_ENGINES_QUANTISATION, about->quantisation.rank ? about->quantisation.at : about->dtype.at);
        if (about->command_size)
                infp_row_bytes(row, INFP_ENGINES_COMMAND, about->command, about->command_size);
        row_number(row, INFP_ENGINES_MAX_SEQS, &about->max_seqs);
        row_number(row, INFP_ENGINES_CONTEXT, &about->context);
        row_number(row, INFP_ENGINES_BLOCK_SIZE, &about->block_size);
        row_number(row, INFP_ENGINES_BLOCKS, &about->blocks);
        row_config(about, row);
        about->has_changed = false;
}
