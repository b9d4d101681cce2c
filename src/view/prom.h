/* Prometheus text (exposition format 0.0.4) from rows of any table: help and unit factor come from the column's line, the name
 * by model/prom_name.h, labels from the keys, and from those label columns that have a Prometheus name (also of the things that
 * ids name). */
#pragma once

#include <stdbool.h>

#include "model/batch.h"
#include "model/last.h"
#include "view/format.h"

struct infp_prom;

/* stamped: each sample carries its row's time (many rows of a key: an export). Else it is a page: one row a key. */
int infp_prom_new(bool stamped, struct infp_prom **ret);
struct infp_prom *infp_prom_free(struct infp_prom *prom); /* returns NULL */

/* last (may be NULL): where the labels of entities are found. Samples of one name are kept together, as the format wants it;
 * what exceeds 1 MiB a name waits in an unlinked temporary file. 0 or a negative errno. */
int infp_prom_add(struct infp_prom *prom, const struct infp_batch *batch, const struct infp_last *last);
int infp_prom_write(struct infp_prom *prom, struct infp_out *out);

/* The last rows of all tables but entities, as one page. */
int infp_prom_page(struct infp_out *out, const struct infp_last *last);
