/* What the files of DuckDB's side share. */
#pragma once

#include <pthread.h>

#include "query/duck.h"
#include "query/duck_api.h"
#include "query/joins.h"
#include "query/parts.h"

/* What is attached: the run, seen as it was then. */
struct infp_duck_run {
        struct infp_run *run;
        struct infp_catalog catalog;
        struct infp_parts *arrow; /* of each table of the catalog: the parts that are not Parquet */
        struct infp_duck_entities {
                char *table;
                struct infp_entities *entities; /* loaded when first asked for */
                struct infp_err err;
                int failed;
        } * entities;
        unsigned n_entities;
        pthread_mutex_t lock; /* of entities: DuckDB calls from its threads */
};

struct infp_duck_database {
        duckdb_database handle;
        unsigned n_users;
};

struct infp_duck {
        const struct infp_duck_api *api;
        struct infp_duck_database *database;
        duckdb_connection connection;
        duckdb_connection helper; /* for queries that this side asks while a result of `connection` is open */
        struct infp_duck_run *attached;
        bool is_restricted;
        unsigned n_attached;          /* how often: shows what was made for an earlier one */
        const struct infp_rows *rows; /* of a running infp_duck_rows_to_parquet */
        bool is_trimmed;              /* when it wrote its first one */
        bool has_failed;              /* one of those: after some errors a database refuses all further work */
        /* The chunk whose cells are turned into texts (duck_cast.c). */
        struct {
                duckdb_data_chunk chunk;
                bool is_read;
        } cast;
};

/* SQL of our own that has no result. */
int infp_duck_do(struct infp_duck *duck, const char *sql, uint64_t *ret_rows, struct infp_err *err);
/* -EINVAL, -EINTR or -ENOSPC with DuckDB's text; result may have none. */
int infp_duck_fail(const struct infp_duck *duck, duckdb_result *result, struct infp_err *err);
int infp_duck_fail_text(const char *text, struct infp_err *err);

/* -EINVAL unless it is one SELECT; what: the beginning of the error, "Parquet needs". */
int infp_duck_check_select(struct infp_duck *duck, const char *sql, const char *what, struct infp_err *err);

void infp_duck_detach(struct infp_duck *duck);

duckdb_type infp_duck_type(enum infp_type type);

/* Table functions infp_scan, infp_timeseries, infp_rows (duck_feed.c) and infp_chunk (duck_cast.c). */
int infp_duck_register_feeds(struct infp_duck *duck, struct infp_err *err);
int infp_duck_register_cast(struct infp_duck *duck, struct infp_err *err);
/* infp_increase (duck_functions.c). */
int infp_duck_register_functions(struct infp_duck *duck, struct infp_err *err);
/* The function behind an attribute of an entity (duck_attribute.c). */
int infp_duck_register_attribute(struct infp_duck *duck, const struct infp_shown *shown, struct infp_err *err);

/* The columns `which` (n of them) of the chunk as VARCHAR, in a chunk of the result that the caller destroys. */
int infp_duck_cast(struct infp_duck *duck, duckdb_data_chunk chunk, const unsigned *which, unsigned n,
                   duckdb_result *ret, duckdb_data_chunk *ret_chunk, struct infp_err *err);

/* Null bits of DuckDB's vectors: NULL = all valid. */
static inline bool infp_duck_has(const uint64_t *validity, idx_t row)
{
        return !validity || validity[row / 64] >> (row % 64) & 1;
}
void infp_duck_set_null(const struct infp_duck_api *api, duckdb_vector vector, idx_t row);
/* Rows of one column of a batch into a vector. */
void infp_duck_fill(const struct infp_duck_api *api, duckdb_vector vector, const struct infp_batch *batch,
                    unsigned column, uint32_t from, uint32_t n);
