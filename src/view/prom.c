#include "view/prom.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/new_file.h"
#include "model/prom_name.h"

enum { SPILL_BYTES = 1 << 20, COPY_BYTES = 64 * 1024 };

struct family {
        char *name, *help;
        enum infp_kind kind;
        struct infp_str text; /* its samples */
        int fd;               /* those that no longer fit into memory; -1 */
};

struct infp_prom {
        bool stamped;
        struct family *families;
        unsigned n_families;
        struct infp_str labels, name; /* scratch */
        struct infp_map stamps;       /* hash of table and labels: Unix ms of the row that was written last */
        struct infp_map owners;       /* hash of table and labels: hash of the ids whose labels they are */
};

int infp_prom_new(bool stamped, struct infp_prom **ret)
{
        struct infp_prom *prom = calloc(1, sizeof(*prom));

        if (!prom)
                return -ENOMEM;
        prom->stamped = stamped;
        *ret = prom;
        return 0;
}

struct infp_prom *infp_prom_free(struct infp_prom *prom)
{
        if (!prom)
                return NULL;
        for (unsigned i = 0; i < prom->n_families; i++) {
                free(prom->families[i].name);
                free(prom->families[i].help);
                infp_str_done(&prom->families[i].text);
                if (prom->families[i].fd >= 0)
                        infp_close(prom->families[i].fd);
        }
        free(prom->families);
        infp_str_done(&prom->labels);
        infp_str_done(&prom->name);
        infp_map_done(&prom->stamps);
        infp_map_done(&prom->owners);
        free(prom);
        return NULL;
}

/* The index of the family, or -ENOMEM. */
static int family_of(struct infp_prom *prom, const struct infp_table *table, const struct infp_column *column)
{
        struct family *families, *f;

        infp_str_clear(&prom->name);
        infp_prom_name(&prom->name, table, column);
        if (prom->name.failed)
                return -ENOMEM;
        for (unsigned i = 0; i < prom->n_families; i++)
                if (!strcmp(prom->families[i].name, prom->name.data))
                        return (int) i;
        families = reallocarray(prom->families, prom->n_families + 1, sizeof(*families));
        if (!families)
                return -ENOMEM;
        prom->families = families;
        f = &families[prom->n_families];
        *f = (struct family){
                .name = strdup(prom->name.data), .help = strdup(column->help), .kind = column->kind, .fd = -1
        };
        if (!f->name || !f->help) {
                free(f->name);
                free(f->help);
                return -ENOMEM;
        }
        return (int) prom->n_families++;
}

/* Label values and help texts: backslash, line feed, and in values the quote. */
static void put_escaped(struct infp_str *out, const char *text, size_t size, bool quote)
{
        for (size_t i = 0; i < size; i++) {
                if (text[i] == '\n') {
                        infp_str_puts(out, "\\n");
                        continue;
                }
                if (text[i] == '\\' || (quote && text[i] == '"'))
                        infp_str_putc(out, '\\');
                infp_str_putc(out, text[i]);
        }
}

static void put_label(struct infp_str *out, const struct infp_batch *batch, unsigned i, uint32_t row)
{
        const struct infp_column *c = infp_table_column(batch->table, i);
        const char *name = c->prom ? c->prom : c->name;
        size_t size;
        const char *text;

        if (!infp_batch_has(batch, i, row))
                return;
        if (out->size)
                infp_str_putc(out, ',');
        infp_str_puts(out, name);
        infp_str_puts(out, "=\"");
        if (c->type == INFP_STR) {
                text = infp_batch_str(batch, i, row, &size);
                put_escaped(out, text, size, true);
        } else {
                infp_cell_text(out, batch, i, row);
        }
        infp_str_putc(out, '"');
}

static bool is_label(const struct infp_column *column)
{
        return column->kind == INFP_LABEL && column->prom && column->type != INFP_ID64;
}

/* The labels of the thing that an id names; false when it is unknown or has none. */
static bool put_entity_labels(struct infp_str *out, const struct infp_last *last, const char *table, uint64_t id)
{
        const size_t before = out->size;
        struct infp_batch thing;

        if (!last || !table || !*table || !last->entity(last->context, table, id, &thing))
                return false;
        for (unsigned i = INFP_FIXED_COLUMNS; i < infp_table_width(thing.table); i++)
                if (is_label(infp_table_column(thing.table, i)))
                        put_label(out, &thing, i, 0);
        return out->size > before;
}

static void put_labels(struct infp_str *out, const struct infp_batch *batch, uint32_t row, const struct infp_last *last)
{
        const struct infp_table *table = batch->table;
        const unsigned first = table->plain ? 0 : INFP_FIXED_COLUMNS;
        bool has_attributes = false; /* joined columns that stand after an id */

        infp_str_clear(out);
        for (unsigned i = first; i < infp_table_width(table); i++) {
                const struct infp_column *c = infp_table_column(table, i);
                const bool is_key = i < first + table->n_keys;

                if (c->type == INFP_ID64 && is_key) {
                        const struct infp_column *next = infp_table_column(table, i + 1);

                        has_attributes = (next && is_label(next)) ||
                                         put_entity_labels(out, last, c->key, infp_batch_u64(batch, i, row));
                        if (!has_attributes)
                                put_label(out, batch, i, row);
                } else if (is_key || is_label(c)) {
                        put_label(out, batch, i, row);
                }
        }
}

/* In base units. A factor like 0.01 is applied as a division by 100, whose result is the nearest double: 43.21, not
 * 43.210000000000001. */
static void put_value(struct infp_str *out, const struct infp_batch *batch, unsigned i, uint32_t row)
{
        const struct infp_column *c = infp_table_column(batch->table, i);
        const double factor = c->unit->factor, inverse = rint(1 / factor);
        double v;

        if (factor == 1 && c->type != INFP_BOOL && c->type != INFP_TS_NS) {
                infp_cell_text(out, batch, i, row);
                return;
        }
        v = infp_batch_number(batch, i, row);
        if (c->type == INFP_TS_NS)
                v /= 1e9;
        else
                v = factor < 1 && fabs(inverse * factor - 1) < 1e-12 ? v / inverse : v * factor;
        infp_str_f64(out, v);
}

static int spill(struct family *f)
{
        if (f->text.failed)
                return -ENOMEM;
        if (f->text.size < SPILL_BYTES)
                return 0;
        if (f->fd < 0)
                f->fd = infp_unnamed_file();
        if (f->fd < 0)
                return f->fd;
        INFP_TRY(infp_write_all(f->fd, f->text.data, f->text.size, NULL));
        infp_str_clear(&f->text);
        return 0;
}

/* The column with the time of a time series' row; -1: another table. A time series has the columns of all instances in one
 * row: labels are not shared between them, and columns with the same Prometheus name are distinguished by their own names. */
static int tick_of(const struct infp_table *table)
{
        return table->plain ? infp_table_find(table, "timestamp") : -1;
}

static bool when(const struct infp_prom *prom, const struct infp_batch *batch, uint32_t row, int64_t *ret_ms)
{
        const int tick = tick_of(batch->table);

        if (!prom->stamped || (tick < 0 && batch->table->plain) ||
            !infp_batch_has(batch, tick < 0 ? 1 : (unsigned) tick, row))
                return false;
        *ret_ms = tick < 0 ? infp_unix_ms(infp_batch_i64(batch, 1, row)) : infp_batch_i64(batch, (unsigned) tick, row);
        return true;
}

static void put_sample(const struct infp_prom *prom, struct family *f, const struct infp_batch *batch, unsigned i,
                       uint32_t row)
{
        int64_t ms;

        infp_str_puts(&f->text, f->name);
        if (prom->labels.size) {
                infp_str_putc(&f->text, '{');
                infp_str_put(&f->text, prom->labels.data, prom->labels.size);
                infp_str_putc(&f->text, '}');
        }
        infp_str_putc(&f->text, ' ');
        put_value(&f->text, batch, i, row);
        if (when(prom, batch, row, &ms)) {
                infp_str_putc(&f->text, ' ');
                infp_str_i64(&f->text, ms);
        }
        infp_str_putc(&f->text, '\n');
}

static uint64_t hash_of_labels(const struct infp_prom *prom, const struct infp_table *table)
{
        const uint64_t hash = infp_hash64(table->name, strlen(table->name), 0);

        return infp_hash64(prom->labels.size ? prom->labels.data : "", prom->labels.size, hash);
}

/* Readable labels can be equal for two instances (two services of one name): then the ids are added, since Prometheus refuses
 * a whole page with a duplicate sample. */
static int tell_apart(struct infp_prom *prom, const struct infp_batch *batch, uint32_t row)
{
        const struct infp_table *table = batch->table;
        uint64_t ids = 0, labels;
        const uint64_t *owner;
        bool has_id = false;

        for (unsigned i = 0; i < table->n_keys && !table->plain; i++)
                if (table->keys[i].type == INFP_ID64) {
                        const uint64_t id = infp_batch_u64(batch, INFP_FIXED_COLUMNS + i, row);

                        ids = infp_hash64(&id, sizeof(id), ids);
                        has_id = true;
                }
        if (!has_id)
                return 0;
        labels = hash_of_labels(prom, table);
        owner = infp_map_get(&prom->owners, labels);
        if (!owner)
                return infp_map_put(&prom->owners, labels, ids);
        if (*owner == ids)
                return 0;
        for (unsigned i = 0; i < table->n_keys; i++)
                if (table->keys[i].type == INFP_ID64)
                        put_label(&prom->labels, batch, INFP_FIXED_COLUMNS + i, row);
        return 0;
}

/* Two rows of one thing within one millisecond would be two samples with the same labels and stamp, which Prometheus refuses:
 * the first stands. 1: already there; 0; -ENOMEM. */
static int is_stamp_taken(struct infp_prom *prom, const struct infp_batch *batch, uint32_t row)
{
        uint64_t key;
        const uint64_t *last;
        int64_t ms;

        if (!when(prom, batch, row, &ms))
                return 0;
        key = hash_of_labels(prom, batch->table);
        last = infp_map_get(&prom->stamps, key);
        if (last && *last == (uint64_t) ms)
                return 1;
        return infp_map_put(&prom->stamps, key, (uint64_t) ms);
}

/* Of a time series: the column's own name, where another column has the same one. */
static void put_column_label(struct infp_prom *prom, const struct infp_column *column, bool is_shared)
{
        infp_str_clear(&prom->labels);
        if (is_shared)
                infp_str_printf(&prom->labels, "column=\"%s\"", column->name);
}

int infp_prom_add(struct infp_prom *prom, const struct infp_batch *batch, const struct infp_last *last)
{
        const struct infp_table *table = batch->table;
        const unsigned width = infp_table_width(table);
        const bool is_series = tick_of(table) >= 0;
        infp_autofree int *families = calloc(width + 1, sizeof(*families));
        infp_autofree unsigned *n_of = NULL; /* columns of each family */

        if (!families)
                return -ENOMEM;
        for (unsigned i = 0; i < width; i++) {
                const struct infp_column *c = infp_table_column(table, i);

                families[i] = -1;
                if (!c->prom || c->kind == INFP_LABEL || c->type == INFP_STR || c->type == INFP_ID64)
                        continue;
                families[i] = family_of(prom, table, c);
                if (families[i] < 0)
                        return families[i];
        }
        n_of = calloc(prom->n_families + 1, sizeof(*n_of));
        if (!n_of)
                return -ENOMEM;
        for (unsigned i = 0; i < width; i++)
                if (families[i] >= 0)
                        n_of[families[i]]++;
        for (uint32_t row = 0; row < batch->n_rows; row++) {
                int taken;

                infp_str_clear(&prom->labels);
                if (!is_series)
                        put_labels(&prom->labels, batch, row, last);
                INFP_TRY(tell_apart(prom, batch, row));
                taken = is_stamp_taken(prom, batch, row);
                if (taken < 0)
                        return taken;
                for (unsigned i = 0; !taken && i < width; i++) {
                        if (families[i] < 0 || !infp_batch_has(batch, i, row))
                                continue;
                        if (is_series)
                                put_column_label(prom, infp_table_column(table, i), n_of[families[i]] > 1);
                        put_sample(prom, &prom->families[families[i]], batch, i, row);
                        INFP_TRY(spill(&prom->families[families[i]]));
                }
        }
        return prom->labels.failed ? -ENOMEM : 0;
}

static int copy_spilled(const struct family *f, struct infp_out *out)
{
        infp_autofree char *buffer = malloc(COPY_BYTES);
        ssize_t n;

        if (!buffer)
                return -ENOMEM;
        for (off_t at = 0; (n = pread(f->fd, buffer, COPY_BYTES, at)) > 0; at += n) {
                infp_str_put(&out->text, buffer, (size_t) n);
                infp_out_drain(out);
        }
        return n < 0 ? -errno : 0;
}

int infp_prom_write(struct infp_prom *prom, struct infp_out *out)
{
        for (unsigned i = 0; i < prom->n_families; i++) {
                const struct family *f = &prom->families[i];

                if (!f->text.size && f->fd < 0)
                        continue;
                infp_str_printf(&out->text, "# HELP %s ", f->name);
                put_escaped(&out->text, f->help, strlen(f->help), false);
                infp_str_printf(&out->text, "\n# TYPE %s %s\n", f->name, f->kind == INFP_COUNTER ? "counter" : "gauge");
                if (f->fd >= 0)
                        INFP_TRY(copy_spilled(f, out));
                infp_str_put(&out->text, f->text.data, f->text.size);
                infp_out_drain(out);
        }
        return out->error == -EPIPE ? 0 : out->error;
}

/* As a table format. */

static void format_free(void *state)
{
        infp_prom_free(state);
}

static int format_begin(struct infp_out *out, const struct infp_table *table)
{
        struct infp_prom *prom;

        (void) table;
        INFP_TRY(infp_prom_new(true, &prom));
        out->state = prom;
        out->state_free = format_free;
        return 0;
}

static int format_batch(struct infp_out *out, const struct infp_batch *batch)
{
        return infp_prom_add(out->state, batch, NULL);
}

static int format_end(struct infp_out *out, const struct infp_table *table)
{
        const int r = infp_prom_write(out->state, out);

        (void) table;
        out->state = infp_prom_free(out->state);
        return r;
}

const struct infp_format infp_format_prom = {
        .name = "prom",
        .extension = "prom",
        .help = "Prometheus text in base units, each sample with its time.",
        .begin = format_begin,
        .batch = format_batch,
        .end = format_end,
};

int infp_prom_page(struct infp_out *out, const struct infp_last *last)
{
        const struct infp_table *table;
        struct infp_prom *prom = NULL;
        struct infp_batch batch;
        int r = infp_prom_new(false, &prom);

        for (unsigned i = 0; r >= 0 && (table = last->table(last->context, i)); i++) {
                if (table->entity)
                        continue;
                for (uint32_t from = 0; r >= 0 && last->rows(last->context, table, from, &batch); from += batch.n_rows)
                        r = infp_prom_add(prom, &batch, last);
        }
        if (r >= 0)
                r = infp_prom_write(prom, out);
        infp_prom_free(prom);
        return r;
}
