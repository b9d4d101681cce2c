#include "cli/prom_page.h"

#include "view/prom.h"

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
