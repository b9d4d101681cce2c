#include "app/export_page.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "query/scan.h"
#include "record/tail.h"
#include "view/prom.h"

/* The tail keeps the last rows, as for a live page; it refers to the tables until the page is written. */
struct page {
        struct infp_catalog catalog;
        struct infp_sink *tail;
        struct infp_scan **scans;
        unsigned n_scans;
        uint64_t newest_ns;
        int64_t newest_unix_ns;
};

static void free_page(struct page *page)
{
        infp_tail_free(page->tail);
        for (unsigned i = 0; i < page->n_scans; i++)
                infp_scan_close(page->scans[i]);
        free(page->scans);
        infp_catalog_done(&page->catalog);
}

static int add_table(struct page *page, struct infp_run *run, const struct infp_table *table, uint64_t t0, uint64_t t1,
                     struct infp_err *err)
{
        struct infp_scan_options options = { .t0 = t0, .t1 = t1, .catalog = &page->catalog };
        struct infp_scan *scan;
        struct infp_batch batch;
        int r;

        INFP_TRY(infp_scan_open(run, table->name, &options, &scan, err));
        page->scans[page->n_scans++] = scan;
        if (infp_scan_table(scan)->plain)
                return 0;
        INFP_TRY(page->tail->table_begin(page->tail, infp_scan_table(scan), err));
        while ((r = infp_scan_next(scan, &batch, err)) > 0) {
                uint64_t t_ns = (uint64_t) infp_batch_i64(&batch, 0, batch.n_rows - 1);

                if (t_ns > page->newest_ns) {
                        page->newest_ns = t_ns;
                        page->newest_unix_ns = infp_batch_i64(&batch, 1, batch.n_rows - 1);
                }
                INFP_TRY(page->tail->batch(page->tail, &batch, err));
        }
        return r;
}

int infp_export_page(struct infp_run *run, uint64_t t0, uint64_t t1, struct infp_out *out, struct infp_err *err)
{
        infp_cleanup(free_page) struct page page = { 0 };
        struct infp_last last;

        INFP_TRY(infp_catalog_read(run, &page.catalog, err));
        INFP_TRY(infp_tail_new(run->info.period_ms, &page.tail, err));
        page.scans = calloc(page.catalog.n_tables + 1, sizeof(struct infp_scan *));
        if (!page.scans)
                return infp_fail(err, -ENOMEM, "out of memory");
        for (unsigned i = 0; i < page.catalog.n_tables; i++)
                /* Entities are written when first seen, perhaps before the range. */
                INFP_TRY(add_table(&page, run, &page.catalog.tables[i], page.catalog.tables[i].entity ? 0 : t0, t1,
                                   err));
        INFP_TRY(page.tail->tick_end(page.tail, page.newest_ns, infp_unix_ms(page.newest_unix_ns), err));
        last = infp_tail_last(page.tail);
        if (infp_prom_page(out, &last) < 0 && !out->error)
                return infp_fail(err, -ENOMEM, "cannot make the page");
        return infp_out_flush(out, err);
}
