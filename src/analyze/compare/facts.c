/* On what a run was: what makes two of them unlike. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "analyze/compare/parts.h"
#include "analyze/gpus.h"
#include "analyze/scan_some.h"
#include "base/str.h"

enum { SEPARATOR = '\n', MOST_TEXT = 4096 /* of a run that somebody else has made */ };

static const char *const host_columns[] = { "vCpuType", "vNumProcessors", NULL };
static const char *const engine_columns[] = { "make", "model", NULL };
static const char *const gpu_columns[] = { "gName", NULL };

/* Texts of a column, each once, in the order of their appearance; a text within another is one of its own. */
static void add_text(struct infp_str *list, const char *text, size_t size)
{
        for (const char *at = list->data; at && *at;) {
                const size_t n = (size_t) (strchrnul(at, SEPARATOR) - at);

                if (n == size && !memcmp(at, text, n))
                        return;
                at += n + (at[n] == SEPARATOR);
        }
        if (!size || list->size + size > MOST_TEXT)
                return;
        if (list->size)
                infp_str_putc(list, SEPARATOR);
        infp_str_put(list, text, size);
}

enum { MOST_COLUMNS = 2 };
struct gathered {
        const char *const *columns;
        struct infp_str texts[MOST_COLUMNS]; /* of the columns that are texts */
        double number;                       /* of the one that is not */
};

static int take(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct gathered *g = context;

        for (unsigned i = 0; g->columns[i]; i++) {
                if (at[i] < 0)
                        continue;
                const struct infp_column *c = infp_table_column(batch->table, (unsigned) at[i]);
                size_t size;

                if (c->type == INFP_STR) {
                        const char *text = infp_cell_str(batch, at[i], row, &size);

                        add_text(&g->texts[i], text, size);
                } else if (infp_cell_has(batch, at[i], row)) {
                        g->number = infp_cell_number(batch, at[i], row);
                }
        }
        return 0;
}

static int keep(struct infp_compare_run *run, enum infp_compare_fact fact, struct infp_str *text, struct infp_err *err)
{
        const char *kept;

        for (size_t i = 0; i < text->size; i++)
                if (text->data[i] == SEPARATOR)
                        text->data[i] = '+';
        kept = text->failed ? NULL : infp_strings_keep(&run->strings, text->data ? text->data : "");
        if (!kept)
                return infp_fail(err, -ENOMEM, "no memory for the comparison");
        run->facts[fact] = kept;
        return 0;
}

static int gather(struct infp_compare_reading *reading, const char *table, const char *const *columns,
                  const struct infp_scan_options *options, struct gathered *g, struct infp_err *err)
{
        g->columns = columns;
        return infp_scan_rows(reading->run, table, columns, options, take, g, err);
}

static void gathered_done(struct gathered *g)
{
        infp_str_done(&g->texts[0]);
        infp_str_done(&g->texts[1]);
}

int infp_compare_facts(struct infp_compare_reading *reading, struct infp_err *err)
{
        /* Entities and `host` have their rows before the range. */
        const struct infp_scan_options until = { .t1 = reading->options.t1, .catalog = reading->options.catalog };
        __attribute__((cleanup(gathered_done))) struct gathered host = { .number = -1 }, engines = { .number = -1 },
                                                                gpus = { .number = -1 };
        infp_autostr struct infp_str cpus = { 0 };

        INFP_TRY(gather(reading, "host", host_columns, &until, &host, err));
        INFP_TRY(gather(reading, "engines", engine_columns, &until, &engines, err));
        for (unsigned i = 0; infp_gpu_tables[i]; i++)
                INFP_TRY(gather(reading, infp_gpu_tables[i], gpu_columns, &reading->options, &gpus, err));
        reading->ret->n_cpus = host.number > 0 ? host.number : NAN;
        if (host.number > 0)
                infp_str_i64(&cpus, (int64_t) host.number);
        INFP_TRY(keep(reading->ret, INFP_FACT_CPU, &host.texts[0], err));
        INFP_TRY(keep(reading->ret, INFP_FACT_CPUS, &cpus, err));
        INFP_TRY(keep(reading->ret, INFP_FACT_ENGINE, &engines.texts[0], err));
        INFP_TRY(keep(reading->ret, INFP_FACT_MODEL, &engines.texts[1], err));
        return keep(reading->ret, INFP_FACT_GPUS, &gpus.texts[0], err);
}
