/* What the memory of the largest processes holds: in the text report and in its JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "base/mem.h"
#include "base/text.h"
#include "model/tables.h"
#include "view/report/parts.h"

enum { SHOWN = 3, BAR_WIDTH = 60, KIND_WIDTH = 14, QUALITY_WIDTH = 9, LEAST_ROWS = 6 };

/* Of the bar; each begins the lines of its kind. */
static const char letters[INFP_MEMORY_KINDS] = {
        [INFP_MEMORY_FILE] = 'f',        [INFP_MEMORY_SHARED] = 's', [INFP_MEMORY_HEAP] = 'h',
        [INFP_MEMORY_ANONYMOUS] = 'a',   [INFP_MEMORY_STACK] = 't',  [INFP_MEMORY_CODE] = 'c',
        [INFP_MEMORY_DATA] = 'd',        [INFP_MEMORY_DEVICE] = 'v', [INFP_MEMORY_VDSO] = 'k',
        [INFP_MEMORY_UNEXPLAINED] = '?', [INFP_MEMORY_SWAP] = 'w',   [INFP_MEMORY_GPU] = 'g',
};

static double share(const struct infp_memory_process *p, const struct infp_memory_row *row)
{
        const double whole = row->kind == INFP_MEMORY_GPU    ? p->gpu_bytes
                             : row->kind == INFP_MEMORY_SWAP ? p->swap_bytes
                                                             : p->rss_bytes;

        return whole > 0 ? 100 * row->bytes / whole : NAN;
}

static void put_bar(struct infp_out *out, const struct infp_memory_process *p)
{
        double end = 0;
        unsigned at = 0;

        infp_report_put(out, "  ");
        for (size_t i = 0; i < p->n; i++) {
                const struct infp_memory_row *row = &p->rows[i];

                if (!infp_memory_kind_is_rss(row->kind) || row->bytes < 0)
                        continue;
                end += row->bytes / p->rss_bytes * BAR_WIDTH;
                for (; at < BAR_WIDTH && at + 0.5 < end; at++)
                        infp_report_put(out, "%c", letters[row->kind]);
        }
        infp_report_end(out);
}

static void put_line(struct infp_out *out, char letter, const char *kind, const char *name, double bytes,
                     double percent, const char *quality)
{
        char figures[80];
        unsigned used;

        infp_report_put(out, "  %c %-*s ", letter, KIND_WIDTH, kind);
        used = (unsigned) snprintf(figures, sizeof(figures), " %10s %5s %%", infp_report_bytes(bytes).text,
                                   infp_fixed(percent, 1).text);
        used += 2 + 2 + KIND_WIDTH + 1 + 2 + QUALITY_WIDTH;
        infp_report_put_padded(out, name, used + 12 < infp_report_width(out) ? infp_report_width(out) - used : 12,
                               false);
        infp_report_put(out, "%s%s%s", figures, *quality ? "  " : "", quality);
        infp_report_end(out);
}

static const char *quality_of(const struct infp_memory_row *row)
{
        return row->quality ? row->quality : "";
}

static const char *name_of(const struct infp_memory_row *row)
{
        return !row->name ? "" : *row->name == '/' ? infp_base_name(row->name) : row->name;
}

/* Lines of at least a hundredth, and the first ones; the others are summed up, so that all lines add up. */
static void put_rows(struct infp_out *out, const struct infp_memory_process *p)
{
        double rest = 0;
        unsigned n_rest = 0;
        char words[40];

        for (size_t i = 0; i < p->n; i++) {
                const struct infp_memory_row *row = &p->rows[i];

                if (!infp_memory_kind_is_rss(row->kind))
                        continue;
                if (row->kind != INFP_MEMORY_UNEXPLAINED && share(p, row) < 1 && p->n > LEAST_ROWS) {
                        rest += row->bytes;
                        n_rest++;
                } else {
                        put_line(out, letters[row->kind], infp_memory_kind_name(row->kind), name_of(row), row->bytes,
                                 share(p, row), quality_of(row));
                }
        }
        snprintf(words, sizeof(words), "%u smaller", n_rest);
        if (n_rest)
                put_line(out, ' ', words, "", rest, 100 * rest / p->rss_bytes, "");
}

static void put_gpus(struct infp_out *out, const struct infp_memory_process *p)
{
        for (size_t i = 0; i < p->n; i++) {
                const struct infp_memory_row *row = &p->rows[i];

                if (row->kind == INFP_MEMORY_GPU)
                        put_line(out, letters[row->kind], "memory of GPU", name_of(row), row->bytes, share(p, row),
                                 quality_of(row));
        }
}

static void put_split(struct infp_out *out, const struct infp_memory_process *p)
{
        const struct infp_memory_split split = infp_memory_split(p->anonymous_bytes, p->blocks.bytes);
        infp_autostr struct infp_str words = { 0 };

        if (!p->blocks.has)
                return;
        infp_str_printf(&words, "blocks in use then: %s (estimated; 95 %% interval %s to %s)",
                        infp_report_bytes(p->blocks.bytes).text,
                        infp_report_bytes(fmax(p->blocks.bytes - p->blocks.error_bytes, 0)).text,
                        infp_report_bytes(p->blocks.bytes + p->blocks.error_bytes).text);
        if (isnan(split.rest))
                infp_str_printf(&words,
                                ", more than the %s of heap and anonymous memory that are in RAM: the program has not "
                                "touched all of them, or they are swapped out",
                                infp_report_bytes(p->anonymous_bytes).text);
        else
                infp_str_printf(&words,
                                ". They explain at most %s of the %s of heap and anonymous memory; at least %s is what "
                                "the allocator keeps and needs, and mappings that are not counted",
                                infp_report_bytes(split.in_use).text, infp_report_bytes(p->anonymous_bytes).text,
                                infp_report_bytes(split.rest).text);
        infp_report_line(out, "heap", "%s", words.data ? words.data : "");
}

/* No part of RSS. */
static void put_swap(struct infp_out *out, const struct infp_memory_process *p)
{
        if (p->swap_bytes > 0)
                infp_report_line(out, "swap", "%s of its memory were swapped out, beside what was in RAM",
                                 infp_report_bytes(p->swap_bytes).text);
}

/* What it held at its end is not known: nobody is told of that before. */
static void put_age(struct infp_out *out, const struct infp_memory_process *p)
{
        static const double worth_saying_s = 1.5;
        const double age_s = p->seen_ns > p->last_ns ? (double) (p->seen_ns - p->last_ns) / 1e9 : 0;

        if (age_s < worth_saying_s)
                return;
        infp_report_line(out, "last", "its last account is of %s before it was looked at last%s%s",
                         infp_report_seconds(age_s).text, isnan(p->seen_rss_bytes) ? "" : "; then its RSS was ",
                         isnan(p->seen_rss_bytes) ? "" : infp_report_bytes(p->seen_rss_bytes).text);
}

static double since_start_s(const struct infp_report *report, const struct infp_memory_process *p)
{
        return ((double) p->t_ns - (double) report->range.start) / 1e9;
}

static void put_process(struct infp_out *out, const struct infp_report *report, const struct infp_memory_process *p)
{
        infp_autostr struct infp_str title = { 0 };

        infp_str_printf(&title, "Memory of %s", p->name ? p->name : "a process");
        if (p->pid >= 0)
                infp_str_printf(&title, " (%lld)", (long long) p->pid);
        infp_str_printf(&title, " in its largest account, after %s: %s in RAM",
                        infp_report_seconds(since_start_s(report, p)).text, infp_report_bytes(p->rss_bytes).text);
        infp_report_title(out, title.data ? title.data : "");
        put_bar(out, p);
        put_rows(out, p);
        put_split(out, p);
        put_swap(out, p);
        put_gpus(out, p);
        put_age(out, p);
}

/* Why some have none, or only few. */
static void put_absences(struct infp_out *out, const struct infp_report *report)
{
        for (unsigned i = 0; i < report->absences.n; i++) {
                const struct infp_absence *a = &report->absences.list[i];
                const bool is_of_some = !strcmp(a->table, infp_table_memory_account.name);

                if (!is_of_some && strcmp(a->collector, "memory") != 0)
                        continue;
                if (!strcmp(a->state, infp_source_state_name(INFP_LATE)))
                        infp_report_line(out, "rare", "accounts of some processes: %s", a->reason);
                else
                        infp_report_line(out, "no account", "%s%s", is_of_some ? "of some processes: " : "", a->reason);
                if (*a->fix)
                        infp_report_line(out, "fix", "%s", a->fix);
        }
}

void infp_report_memory_accounts(struct infp_out *out, const struct infp_report *report)
{
        const struct infp_memory_accounts *memory = &report->memory;

        for (unsigned i = 0; i < memory->n && i < SHOWN; i++) /* bound: the rest is counted below */
                put_process(out, report, &memory->list[i]);
        if (memory->n_seen > SHOWN)
                infp_report_line(out, "", "%s more processes have an account (table memory_account)",
                                 infp_count(memory->n_seen - SHOWN).text);
        put_absences(out, report);
}

static void put_json_row(struct infp_json *json, const struct infp_memory_process *p, const struct infp_memory_row *row)
{
        infp_json_object(json);
        infp_json_member_str(json, "of", infp_memory_kind_of(row->kind));
        infp_json_member_str(json, "kind", infp_memory_kind_name(row->kind));
        infp_json_member_str(json, "name", row->name);
        infp_json_member_i64(json, "bytes", (int64_t) row->bytes);
        infp_json_member_f64(json, "share_percent", share(p, row));
        infp_json_member_str(json, "quality", row->quality);
        infp_json_object_end(json);
}

static void put_json_blocks(struct infp_json *json, const struct infp_memory_process *p)
{
        const struct infp_memory_split split = infp_memory_split(p->anonymous_bytes, p->blocks.bytes);

        infp_json_key(json, "heap");
        if (!p->blocks.has) {
                infp_json_null(json);
                return;
        }
        infp_json_object(json);
        infp_json_member_f64(json, "anonymous_bytes", p->anonymous_bytes);
        infp_json_member_f64(json, "blocks_in_use_bytes", p->blocks.bytes);
        infp_json_member_f64(json, "blocks_in_use_error_bytes", p->blocks.error_bytes);
        infp_json_member_f64(json, "in_use_bytes", split.in_use);
        infp_json_member_f64(json, "rest_bytes", split.rest);
        infp_json_member_str(json, "quality", infp_quality_name(INFP_ESTIMATED));
        infp_json_object_end(json);
}

static void put_json_bytes(struct infp_json *json, const char *key, double bytes)
{
        infp_json_key(json, key);
        if (isnan(bytes))
                infp_json_null(json);
        else
                infp_json_i64(json, (int64_t) bytes);
}

/* An empty list: no account was recorded. */
void infp_report_json_memory(struct infp_json *json, const struct infp_report *report)
{
        infp_json_key(json, "memory_accounts");
        infp_json_array(json);
        for (unsigned i = 0; i < report->memory.n; i++) {
                const struct infp_memory_process *p = &report->memory.list[i];

                infp_json_object(json);
                infp_json_key(json, "pid");
                if (p->pid >= 0)
                        infp_json_i64(json, p->pid);
                else
                        infp_json_null(json);
                infp_json_member_str(json, "name", p->name);
                infp_json_member_i64(json, "time", infp_unix_ms(p->unix_ns));
                infp_json_member_i64(json, "rss_bytes", (int64_t) p->rss_bytes);
                put_json_bytes(json, "gpu_bytes", p->gpu_bytes);
                put_json_bytes(json, "swap_bytes", p->swap_bytes);
                infp_json_member_f64(json, "last_account_age_s",
                                     !p->seen_ns               ? NAN
                                     : p->seen_ns > p->last_ns ? (double) (p->seen_ns - p->last_ns) / 1e9
                                                               : 0);
                infp_json_key(json, "rows");
                infp_json_array(json);
                for (size_t k = 0; k < p->n; k++)
                        put_json_row(json, p, &p->rows[k]);
                infp_json_array_end(json);
                put_json_blocks(json, p);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
        infp_json_member_u64(json, "memory_accounts_seen", report->memory.n_seen);
}
