#include <math.h>

#include "view/compare/parts.h"

static void put_runs(struct infp_json *json, const struct infp_compare_side *side)
{
        infp_json_key(json, "runs");
        infp_json_array(json);
        for (unsigned i = 0; i < side->n; i++) {
                const struct infp_compare_run *run = side->runs[i];

                infp_json_object(json);
                infp_json_member_str(json, "uuid", run->run->info.uuid);
                infp_json_member_f64(json, "seconds", run->wall_s);
                infp_json_member_u64(json, "blocks", run->n_blocks);
                infp_json_member_f64(json, "cpu_of_others", run->others);
                infp_json_member_u64(json, "samples", run->samples);
                infp_json_member_u64(json, "truncated_samples", run->truncated_samples);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

static void put_sides(struct infp_json *json, const struct infp_compare_view *view)
{
        infp_json_key(json, "sides");
        infp_json_array(json);
        for (unsigned i = 0; i < view->compare->n_sides; i++) {
                const char letter[] = { infp_compare_letter(i), 0 };

                infp_json_object(json);
                infp_json_member_str(json, "side", letter);
                infp_json_member_str(json, "words", view->words[i]);
                put_runs(json, &view->compare->sides[i]);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
}

static void put_row(struct infp_json *json, const struct infp_compare_row *row)
{
        const struct infp_difference *d = &row->difference;
        const char letter[] = { infp_compare_letter(row->side), 0 };

        infp_json_object(json);
        infp_json_member_str(json, "section", infp_compare_titles[row->section].name);
        infp_json_member_str(json, "name", row->name);
        infp_json_member_str(json, "object", row->object);
        infp_json_member_str(json, "side", letter);
        infp_json_member_str(json, "unit", d->is_points ? "ratio" : row->number ? row->number->base : "seconds");
        infp_json_member_str(json, "better", infp_better_name(row->better));
        infp_json_member_f64(json, "before", d->before);
        infp_json_member_f64(json, "after", d->after);
        infp_json_member_str(json, "difference_is", d->is_points ? "absolute" : "relative");
        infp_json_member_f64(json, "difference", d->difference);
        infp_json_member_f64(json, "low", d->low);
        infp_json_member_f64(json, "high", d->high);
        infp_json_member_f64(json, "p", d->p);
        infp_json_member_f64(json, "p_corrected", d->p_all);
        infp_json_member_f64(json, "noise", d->noise);
        infp_json_member_f64(json, "detectable", d->detectable);
        infp_json_member_u64(json, "n_before", d->n_before);
        infp_json_member_u64(json, "n_after", d->n_after);
        infp_json_member_str(json, "verdict", infp_verdict_name(d->verdict));
        infp_json_member_str(json, "why", d->why);
        infp_json_object_end(json);
}

static void put_gate(struct infp_json *json, const struct infp_gate_result *result)
{
        const char letter[] = { infp_compare_letter(result->side), 0 };

        infp_json_object(json);
        infp_json_member_str(json, "condition", result->gate->text);
        infp_json_member_str(json, "side", letter);
        infp_json_member_str(json, "state", infp_gate_state_name(result->state));
        infp_json_member_f64(json, "difference", result->row ? result->row->difference.difference : NAN);
        infp_json_member_f64(json, "low", result->low);
        infp_json_member_f64(json, "high", result->high);
        infp_json_object_end(json);
}

void infp_compare_json(struct infp_json *json, const struct infp_compare_view *view)
{
        const struct infp_compare *compare = view->compare;
        const bool is_of_runs = compare->sides[0].n > 1;

        put_sides(json, view);
        infp_json_member_str(json, "unlike", view->unlike);
        infp_json_member_str(json, "method",
                             is_of_runs ? "Welch's t test between runs" : "bootstrap of blocks of time");
        infp_json_member_str(json, "correction", "Holm");
        infp_json_member_f64(json, "alpha", INFP_COMPARE_ALPHA);
        infp_json_member_u64(json, "tested", compare->n_tested);
        infp_json_member_str(json, "mode", *compare->mode ? compare->mode : NULL);
        infp_json_member_str(json, "no_functions", compare->no_functions);
        infp_json_key(json, "conditions");
        infp_json_array(json);
        for (unsigned i = 0; i < view->n_gates; i++)
                put_gate(json, &view->gates[i]);
        infp_json_array_end(json);
        infp_json_key(json, "rows");
        infp_json_array(json);
        for (unsigned i = 0; i < compare->n; i++)
                put_row(json, &compare->rows[i]);
        infp_json_array_end(json);
}
