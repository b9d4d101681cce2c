/* The rows of a scan: segment after segment, cut to the range, with the columns of its table. */
#include "query/scan.h"

#include <errno.h>
#include <stdlib.h>

#include "query/scan_state.h"

const struct infp_table *infp_scan_table(const struct infp_scan *scan)
{
        return &scan->out->table;
}

/* Types that lie in memory alike. */
static bool is_alike(enum infp_type a, enum infp_type b)
{
        bool is_signed = (a == INFP_I64 || a == INFP_TS_NS) && (b == INFP_I64 || b == INFP_TS_NS);
        bool is_unsigned = (a == INFP_U64 || a == INFP_ID64) && (b == INFP_U64 || b == INFP_ID64);

        return a == b || is_signed || is_unsigned;
}

static int map_columns(struct infp_scan *scan, struct infp_err *err)
{
        const struct infp_table *table = &scan->base->table, *source = infp_source_table(scan->source);

        for (unsigned i = 0; source && i < infp_table_width(table); i++) {
                const struct infp_column *column = infp_table_column(table, i);
                int at = infp_table_find(source, column->name);

                if (at >= 0 && !is_alike(infp_table_column(source, (unsigned) at)->type, column->type))
                        return infp_fail(err, -EBADMSG, "a segment of table %s holds column %s as %s, the run says %s",
                                         table->name, column->name,
                                         infp_type_name(infp_table_column(source, (unsigned) at)->type),
                                         infp_type_name(column->type));
                scan->map[i] = at >= 0 ? at : -1;
        }
        return 0;
}

/* What began before the range and reaches into it. */
static bool reaches(const struct infp_scan *scan, uint64_t t, uint32_t row)
{
        const int at = scan->duration < 0 ? -1 : scan->map[scan->duration];

        if (at < 0)
                return false;
        return !infp_batch_has(&scan->batch, (unsigned) at, row) ||
               t + (uint64_t) infp_batch_i64(&scan->batch, (unsigned) at, row) > scan->t0;
}

static bool in_range(const struct infp_scan *scan, const int64_t *t_ns, uint32_t row)
{
        uint64_t t = (uint64_t) t_ns[scan->batch.first + row];

        return (!scan->t1 || t < scan->t1) && (t >= scan->t0 || reaches(scan, t, row));
}

/* The next rows of the batch, one after the other, that lie in the range. False: none is left. */
static bool next_slice(struct infp_scan *scan, uint32_t *ret_row, uint32_t *ret_n)
{
        const int64_t *t_ns;
        uint32_t from = scan->at, to = scan->batch.n_rows;

        if (from >= to)
                return false;
        if (scan->t0 || scan->t1) {
                if (scan->base->table.plain || scan->map[0] < 0)
                        return false;
                t_ns = scan->batch.columns[scan->map[0]].values;
                while (from < scan->batch.n_rows && !in_range(scan, t_ns, from))
                        from++;
                to = from;
                while (to < scan->batch.n_rows && in_range(scan, t_ns, to))
                        to++;
        }
        scan->at = to;
        *ret_row = from;
        *ret_n = to - from;
        return to > from;
}

/* The next segment, or row of segments. 1, 0 when there is none, or a negative errno. */
static int next_source(struct infp_scan *scan, struct infp_err *err)
{
        struct infp_source_hint hint = { scan->duration < 0 ? scan->t0 : 0, scan->t1, scan->needed, false };
        unsigned n;

        scan->source = infp_source_close(scan->source);
        if (scan->next_part >= scan->parts->n)
                return 0;
        INFP_TRY(infp_source_open(scan->run, scan->parts, scan->next_part, &hint, &scan->source, &n, err));
        scan->next_part += n;
        INFP_TRY(map_columns(scan, err));
        return 1;
}

/* Reads until there is a batch. 1, 0 at the end, or a negative errno. */
static int next_batch(struct infp_scan *scan, struct infp_err *err)
{
        int r;

        scan->at = 0;
        scan->batch.n_rows = 0;
        for (;;) {
                r = scan->source ? infp_source_next(scan->source, &scan->batch, err) : 0;
                if (r != 0)
                        return r;
                r = next_source(scan, err);
                if (r <= 0)
                        return r;
        }
}

/* A column that this segment lacks: null in every row. */
static int null_vector(struct infp_scan *scan, uint32_t n, struct infp_vector *ret)
{
        size_t size = ((size_t) n + 1) * 8;

        if (size > scan->zeros_size) {
                free(scan->zeros);
                scan->zeros_size = 0;
                scan->zeros = calloc(1, size);
                if (!scan->zeros)
                        return -ENOMEM;
                scan->zeros_size = size;
        }
        *ret = (struct infp_vector){ .valid = scan->zeros, .values = scan->zeros, .offsets = scan->zeros };
        return 0;
}

static int fill(struct infp_scan *scan, uint32_t first, uint32_t n)
{
        for (unsigned i = 0; i < scan->shown.n; i++) {
                const struct infp_shown *shown = &scan->shown.shown[i];
                int at = scan->map[shown->column];

                if (at < 0)
                        INFP_TRY(null_vector(scan, first + n, &scan->vectors[i]));
                else if (shown->entity)
                        INFP_TRY(infp_join_vector_fill(&scan->joins[i].vector, scan->joins[i].entities,
                                                       &scan->batch.columns[at], first + n, &scan->vectors[i]));
                else
                        scan->vectors[i] = scan->batch.columns[at];
        }
        return 0;
}

int infp_scan_next(struct infp_scan *scan, struct infp_batch *ret, struct infp_err *err)
{
        uint32_t row, n;
        int r;

        while (!next_slice(scan, &row, &n)) {
                r = next_batch(scan, err);
                if (r <= 0)
                        return r;
        }
        row += scan->batch.first;
        if (fill(scan, row, n) < 0)
                return infp_fail(err, -ENOMEM, "out of memory");
        *ret = (struct infp_batch){ .table = &scan->out->table, .columns = scan->vectors, .first = row, .n_rows = n };
        return 1;
}
