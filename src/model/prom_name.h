/* The Prometheus name of a column. A detail table shares its column array with its sum; were the names the same as well, sum()
 * over the family would count everything twice. So in tables with keys the table takes the place of `host`, and a word that it
 * repeats is dropped: infprof_host_cpu_user_seconds_total of table cpu_core is infprof_cpu_core_user_seconds_total. Names
 * without `host`, those of labels, and those that were made here already stay as they are. */
#pragma once

#include <stdbool.h>

#include "base/str.h"
#include "model/schema.h"

/* Appends the name; false: the column has none. */
bool infp_prom_name(struct infp_str *out, const struct infp_table *table, const struct infp_column *column);
