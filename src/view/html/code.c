/* The panel of functions: a flame graph a mode, packed as those of `flamegraph --html`, for any time range of the page. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/human.h"
#include "base/mem.h"
#include "view/flame/html.h"
#include "view/flame/pack.h"
#include "view/flame/page.h"
#include "view/html/parts.h"

enum { FEWEST_BUCKETS = 60, MOST_TURNS = 60 };

void infp_html_code_done(struct infp_html_code *code)
{
        for (unsigned i = 0; i < code->n; i++) {
                infp_str_done(&code->modes[i].packed);
                infp_str_done(&code->modes[i].facts);
        }
        code->n = 0;
}

/* Frames are merged into their callers and moments joined, by turns, until it fits. */
static int fit(struct infp_html_code_mode *mode, struct infp_flame *flame, size_t room, struct infp_err *err)
{
        const uint32_t nodes = flame->n_nodes;
        double least = flame->weight * 5e-6;

        for (unsigned turn = 0;; turn++) {
                /* At the very least: what is far too much is not packed to learn how much it is. */
                size_t size = flame->n_nodes + flame->n_moments;

                infp_str_clear(&mode->packed);
                infp_str_clear(&mode->facts);
                if (size <= room || turn == MOST_TURNS) {
                        INFP_TRY(infp_flame_html_data(&mode->packed, &mode->facts, flame, err));
                        size = mode->packed.size + mode->facts.size;
                }
                if (size <= room || turn == MOST_TURNS)
                        break;
                if (turn % 3 == 2 && flame->n_buckets > FEWEST_BUCKETS) {
                        infp_flame_coarsen(flame, 2);
                        continue;
                }
                least *= fmax(2, fmin(4, (double) size / (double) room));
                mode->least_percent = 100 * least / flame->weight;
                INFP_TRY(infp_flame_prune(flame, least, err));
        }
        mode->merged = nodes - flame->n_nodes;
        mode->step_s = flame->n_buckets ? (double) (flame->t1 - flame->t0) / 1e9 / flame->n_buckets : 0;
        return 0;
}

int infp_html_code_make(struct infp_html_code *ret, struct infp_timeline *timeline, size_t room, struct infp_err *err)
{
        *ret = (struct infp_html_code){ .n = 0 };
        for (unsigned i = 0; i < timeline->code.n; i++) {
                struct infp_html_code_mode *mode = &ret->modes[ret->n++];
                struct infp_flame *flame = &timeline->code.flames[i];

                if (flame->n_nodes < 2 || !(flame->weight > 0))
                        continue; /* the mode has no picture */
                INFP_TRY(fit(mode, flame, room / (timeline->code.n - i), err));
                mode->from_ms = ((double) flame->t0 - (double) timeline->grid.t0) / 1e6;
                room -= mode->packed.size + mode->facts.size < room ? mode->packed.size + mode->facts.size : room;
        }
        return 0;
}

bool infp_html_code_has(const struct infp_html_code *code)
{
        for (unsigned i = 0; i < code->n; i++)
                if (code->modes[i].packed.size)
                        return true;
        return false;
}

void infp_html_code_place(struct infp_str *out, const struct infp_html_code *code, unsigned i)
{
        const struct infp_html_code_mode *mode = i < code->n ? &code->modes[i] : NULL;

        if (!mode || !mode->packed.size)
                return;
        infp_str_printf(out, "<div class=\"code\" data-mode=\"%u\" data-from=\"%.3f\" data-note=\"Time has steps of ",
                        i, mode->from_ms);
        infp_human_seconds(out, mode->step_s);
        infp_str_puts(out, ". ");
        if (mode->merged) {
                infp_human_number(out, mode->merged);
                infp_str_printf(out,
                                " frames with less than %s %% of the whole time each are merged into their callers, "
                                "to keep this page small.",
                                infp_number(mode->least_percent).text);
        }
        infp_str_puts(out, "\"></div>");
}

void infp_html_code_scripts(struct infp_str *out, const struct infp_html_code *code)
{
        if (infp_html_code_has(code)) {
                infp_str_puts(out, "<template id=\"code-style\"><style>");
                infp_str_put(out, infp_flame_page_style, infp_flame_page_style_size);
                infp_str_puts(out, "</style></template>\n");
        }
        for (unsigned i = 0; i < code->n; i++) {
                const struct infp_html_code_mode *mode = &code->modes[i];

                if (!mode->packed.size)
                        continue;
                infp_str_printf(out, "<script type=\"application/json\" id=\"code-facts-%u\">", i);
                infp_html_json(out, mode->facts.data, mode->facts.size);
                infp_str_printf(out, "</script>\n<script type=\"application/octet-stream\" id=\"code-packed-%u\">", i);
                infp_str_put(out, mode->packed.data, mode->packed.size);
                infp_str_puts(out, "</script>\n");
        }
}
