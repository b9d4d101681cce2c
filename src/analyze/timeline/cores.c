/* The load of each core over time: a matrix of a row a core, or a group of cores, and a column a bucket. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyze/timeline/parts.h"
#include "base/mem.h"

struct matrix {
        unsigned group; /* cores a row */
        struct infp_cores cores;
        uint64_t *last_t_ns; /* by index in the report's cores */
        double *sums, *weights;
        const struct infp_timeline_cores *to;
        const struct infp_cores *known; /* of the report */
        uint64_t gap_ns;
};

static void matrix_done(struct matrix *matrix)
{
        infp_cores_done(&matrix->cores);
        free(matrix->last_t_ns);
        free(matrix->sums);
        free(matrix->weights);
}

static int core_index(const struct infp_cores *cores, int64_t number)
{
        unsigned low = 0, high = cores->n;

        while (low < high) {
                const unsigned middle = (low + high) / 2;

                if (cores->cores[middle].number == number)
                        return (int) middle;
                if (cores->cores[middle].number < number)
                        low = middle + 1;
                else
                        high = middle;
        }
        return -1;
}

static int take(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct matrix *matrix = context;
        const struct infp_timeline_cores *to = matrix->to;
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        const int column = infp_grid_bucket(&to->grid, t_ns);
        int64_t number;
        int index, core;
        uint64_t before;
        size_t cell;

        INFP_TRY(infp_cores_add(&matrix->cores, batch, row));
        if (!infp_cell_has(batch, at[INFP_CORE_PARTS], row))
                return 0;
        number = infp_batch_i64(batch, (unsigned) at[INFP_CORE_PARTS], row);
        index = core_index(matrix->known, number);
        core = core_index(&matrix->cores, number);
        if (index < 0 || core < 0)
                return 0;
        before = matrix->last_t_ns[index];
        matrix->last_t_ns[index] = t_ns;
        if (column < 0 || !before || t_ns <= before || t_ns - before > matrix->gap_ns ||
            !matrix->cores.cores[core].has_load)
                return 0;
        cell = (size_t) ((unsigned) index / matrix->group) * to->grid.n + (unsigned) column;
        matrix->sums[cell] += matrix->cores.cores[core].load * (double) (t_ns - before);
        matrix->weights[cell] += (double) (t_ns - before);
        return 0;
}

static int name_rows(struct infp_timeline_cores *to, const struct infp_cores *known, unsigned group)
{
        const unsigned n = (known->n + group - 1) / group;

        to->names = calloc(n, sizeof(*to->names));
        if (!to->names)
                return -ENOMEM;
        for (; to->n < n; to->n++) {
                const long long first = known->cores[to->n * group].number;
                const unsigned last = to->n * group + group < known->n ? to->n * group + group - 1 : known->n - 1;

                if (asprintf(&to->names[to->n], group > 1 ? "cpu%lld-%lld" : "cpu%lld", first,
                             (long long) known->cores[last].number) < 0)
                        return -ENOMEM;
        }
        if (group > 1 &&
            asprintf(&to->note, "%u cores are too many for a row each: a row is the mean of %u.", known->n, group) < 0)
                return -ENOMEM;
        return 0;
}

static int fill(struct infp_timeline_cores *to, const struct matrix *matrix)
{
        const size_t n = (size_t) to->n * to->grid.n;

        to->cells = malloc(n * sizeof(*to->cells));
        if (!to->cells)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                to->cells[i] = matrix->weights[i] > 0 ? (float) (matrix->sums[i] / matrix->weights[i]) : NAN;
        return 0;
}

int infp_timeline_cores(struct infp_timeline_reading *reading, struct infp_err *err)
{
        struct infp_timeline_cores *to = &reading->timeline->cores;
        const struct infp_cores *known = &reading->report->cores;
        infp_cleanup(matrix_done) struct matrix matrix = { .to = to,
                                                           .known = known,
                                                           .gap_ns = reading->timeline->period_ms * UINT64_C(2500000) };
        unsigned rows, k;

        reading->table = "cpu_core";
        if (!known->n)
                return 0;
        matrix.group = (known->n + INFP_TIMELINE_CORES - 1) / INFP_TIMELINE_CORES;
        rows = (known->n + matrix.group - 1) / matrix.group;
        k = (rows * reading->timeline->grid.n + INFP_TIMELINE_CORE_CELLS - 1) / INFP_TIMELINE_CORE_CELLS;
        to->grid = reading->timeline->grid;
        to->grid.step_ns *= k;
        to->grid.n = (to->grid.n + k - 1) / k;
        matrix.last_t_ns = calloc(known->n, sizeof(*matrix.last_t_ns));
        matrix.sums = calloc((size_t) rows * to->grid.n, sizeof(*matrix.sums));
        matrix.weights = calloc((size_t) rows * to->grid.n, sizeof(*matrix.weights));
        if (!matrix.last_t_ns || !matrix.sums || !matrix.weights || name_rows(to, known, matrix.group) < 0)
                return -ENOMEM;
        INFP_TRY(infp_scan_rows(reading->run, "cpu_core", infp_cores_columns, reading->scan, take, &matrix, err));
        return fill(to, &matrix);
}
