/* Unwind tables on disk, by build id: a private directory of small files, each written whole or not at all, the least recently used
 * removed beyond a bound. Another file with the same build id is another entry. Whatever is wrong with an entry, it is not there;
 * whatever is wrong with the directory, there is no cache. Used by several threads and processes at once. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/guarded_map.h"
#include "unwind/table.h"

enum { INFP_TABLES_CACHE_MIB = 256 };

struct infp_file_identity;
struct infp_tables_cache;

/* Makes the directory (0700) and those above it. One that others can write to, that is not ours or is a link is refused: -EPERM. */
int infp_tables_cache_open(const char *directory, uint64_t max_bytes, struct infp_tables_cache **ret,
                           struct infp_err *err);
struct infp_tables_cache *infp_tables_cache_close(struct infp_tables_cache *cache); /* NULL is fine; returns NULL */

/* The name of an entry's file in the directory. */
enum { INFP_TABLES_CACHE_NAME = 160 };
void infp_tables_cache_name(const uint8_t *build_id, uint32_t build_id_size, const struct infp_file_identity *identity,
                            char ret[INFP_TABLES_CACHE_NAME]);

/* An entry's table, checked. The entry stays mapped by ret_map, which is the caller's to close: of a table of many MiB only what is
 * looked at is in memory. 0, or a negative errno: not there. */
int infp_tables_cache_get(struct infp_tables_cache *cache, const uint8_t *build_id, uint32_t build_id_size,
                          const struct infp_file_identity *identity, struct infp_guarded_map *ret_map,
                          const struct infp_unwind_table **ret);
/* Makes an entry, and maps it as infp_tables_cache_get does. 0, or a negative errno: it is not kept, and nothing is lost but time
 * and memory. */
int infp_tables_cache_put(struct infp_tables_cache *cache, const uint8_t *build_id, uint32_t build_id_size,
                          const struct infp_file_identity *identity, const struct infp_unwind_table *table,
                          struct infp_guarded_map *ret_map, const struct infp_unwind_table **ret);
