#include "analyze/scan_some.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"

enum { MOST_COLUMNS = 64 };

int infp_scan_some(struct infp_run *run, const char *table, const char *const *wanted,
                   const struct infp_scan_options *given, struct infp_scan **ret, struct infp_err *err)
{
        const struct infp_table *known = infp_catalog_find(given->catalog, table);
        struct infp_scan_options options = *given;
        infp_autofree const char **names = NULL;
        size_t n = 0;

        if (!known)
                return -ENOENT;
        while (wanted[n])
                n++;
        names = calloc(n + 1, sizeof(*names));
        if (!names)
                return infp_fail(err, -ENOMEM, "no memory for the report");
        for (n = 0; *wanted; wanted++)
                if (infp_table_find(known, *wanted) >= 0)
                        names[n++] = *wanted;
        options.columns = names;
        return infp_scan_open(run, table, &options, ret, err);
}

static int take_rows(struct infp_scan *scan, const char *const *wanted, infp_scan_row *take, void *context,
                     struct infp_err *err)
{
        struct infp_batch batch;
        int at[MOST_COLUMNS], r;

        for (unsigned i = 0; wanted[i]; i++) {
                assert(i < MOST_COLUMNS);
                at[i] = infp_table_find(infp_scan_table(scan), wanted[i]);
        }
        while ((r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows; row++) {
                        r = take(context, &batch, at, row);
                        if (r < 0)
                                return r == -ENOMEM ? infp_fail(err, r, "no memory for the report") : r;
                }
        return r;
}

int infp_scan_rows(struct infp_run *run, const char *table, const char *const *wanted,
                   const struct infp_scan_options *given, infp_scan_row *take, void *context, struct infp_err *err)
{
        infp_cleanup(infp_catalog_done) struct infp_catalog catalog = { 0 };
        struct infp_scan_options options = *given;
        struct infp_scan *scan;
        int r;

        if (!options.catalog) {
                INFP_TRY(infp_catalog_read(run, &catalog, err));
                options.catalog = &catalog;
        }
        r = infp_scan_some(run, table, wanted, &options, &scan, err);
        if (r < 0)
                return r == -ENOENT ? 0 : r;
        r = take_rows(scan, wanted, take, context, err);
        infp_scan_close(scan);
        return r;
}

int infp_cell_keep(char **ret, const struct infp_batch *batch, int column, uint32_t row)
{
        size_t size;
        const char *text = infp_cell_str(batch, column, row, &size);

        if (!infp_cell_has(batch, column, row) || (*ret && strlen(*ret) == size && !memcmp(*ret, text, size)))
                return 0;
        free(*ret);
        *ret = strndup(text, size);
        return *ret ? 0 : -ENOMEM;
}
