/* The instances of a keyed table in the time series: numbered by their first key where that is a number (GPUs), else in the
 * order in which they first appear in the run. A table under
 * bare names has one: that whose thing has the lowest number (engines), else its first; a table without keys has one as well. */
#pragma once

#include "base/str.h"
#include "query/scan.h"

struct infp_instances {
        struct infp_instance {
                char *key; /* the key cells as bytes */
                size_t key_size;
                char *prefix; /* "container0_", "" */
                uint64_t id;  /* the first key where it is an id; 0 */
        } * list;
        unsigned n;
        struct infp_str scratch;
};

/* Reads the whole run. The table must be the catalog's. */
int infp_instances_find(struct infp_run *run, const struct infp_table *table, const struct infp_catalog *catalog,
                        struct infp_instances *ret, struct infp_err *err);
void infp_instances_done(struct infp_instances *instances);
/* The number of a row's instance; -1: none (one that came later, or the second of a table under bare names). */
int infp_instances_of(struct infp_instances *instances, const struct infp_batch *batch, uint32_t row);

/* The second key of an instance, a number. False: it has none. */
bool infp_instance_second(const struct infp_instance *instance, int64_t *ret);

/* The key cells of a row, appended as bytes. */
void infp_instance_key(struct infp_str *key, const struct infp_batch *batch, uint32_t row);
