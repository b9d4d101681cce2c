/* Any bytes as what a server says of itself: first byte: the make and which of its side pages (or /slots, or its command line); the
 * rest is the body. Facts stay bounded, a configuration stays JSON, and it can all be written. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "collectors/engine/about.h"
#include "collectors/engine/tables.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool truth)
{
        if (!truth)
                abort();
}

static void write_row(struct infp_engine_about *about)
{
        static struct infp_row row;
        static char scratch[INFP_ROW_TEXT];
        const char *text;
        size_t n;

        row.text = scratch;
        row.text_cap = sizeof(scratch);
        infp_row_begin(&row, &infp_table_engines, 1);
        infp_engine_about_row(about, &row);
        expect(!about->has_changed && row.text_size <= sizeof(scratch));
        expect(about->n_models <= INFP_ABOUT_MODELS);
        text = infp_row_text(&row, INFP_ENGINES_CONFIG, &n);
        if (n) {
                json_t *config = json_loadb(text, n, 0, NULL);

                expect(json_is_object(config));
                json_decref(config);
        }
}

static void slots(const char *body, size_t size)
{
        static struct infp_engine_fields fields;
        struct infp_err err = { "" };

        expect(infp_engine_fields_slots(&fields, body, size, &err) == 0 || err.text[0]);
        expect(fields.live.n_busy <= INFP_ENGINE_SLOTS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct infp_engine_about *about;
        const char *const *paths, *body = (const char *) data + 1;
        enum infp_engine_make make;
        struct infp_err err = { "" };
        unsigned which;

        if (!size--)
                return 0;
        make = data[0] % INFP_ENGINE_N;
        which = data[0] / INFP_ENGINE_N;
        about = calloc(1, sizeof(*about));
        expect(about != NULL);
        infp_engine_about_make(about, make);
        paths = infp_engine_about_paths(make);
        while (*paths && which > 0) {
                paths++;
                which--;
        }
        if (*paths) {
                /* Twice: the second time nothing is new. */
                if (infp_engine_about_body(about, *paths, body, size, &err) < 0)
                        expect(err.text[0]);
                write_row(about);
                infp_engine_about_body(about, *paths, body, size, &err);
                expect(!about->has_changed);
                infp_engine_about_restart(about);
        } else {
                slots(body, size);
                about->keeps_secrets = size > 64; /* fuzz_mask has the others: masking takes longer than all else */
                infp_engine_about_command(about, body, size);
        }
        write_row(about);
        infp_engine_about_done(about);
        free(about);
        return 0;
}
