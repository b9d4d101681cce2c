/* SQL text: the views through which a run is seen, made from its catalog. Nothing here runs SQL. */
#pragma once

#include "base/str.h"
#include "model/schema.h"
#include "query/joins.h"
#include "query/parts.h"
#include "store/run.h"

/* "a name", whatever it holds. */
void infp_sql_name(struct infp_str *sql, const char *name);
void infp_sql_table(struct infp_str *sql, const struct infp_table *table); /* with its schema */
/* 'a text'. */
void infp_sql_text(struct infp_str *sql, const char *text);
/* DuckDB's word for our type. */
const char *infp_sql_type(enum infp_type type);

/* read_parquet([...]) over n parts from `index` on, by paths below the run's descriptor: they hold no character of the output
 * directory's name, and the run may be moved meanwhile. */
void infp_sql_read_parquet(struct infp_str *sql, const struct infp_run *run, const struct infp_parts *parts,
                           unsigned index, unsigned n);

/* The scalar function that looks up an attribute by an id; a name that no function of DuckDB has. */
void infp_sql_attribute_function(struct infp_str *sql, const struct infp_shown *shown);

/* CREATE OR REPLACE VIEW: what `shown` says of the table. Parquet parts are read by DuckDB itself, the others through the table
 * function infp_scan. exact: the Parquet files hold every column of the table and no other part exists, so that they alone can
 * stand for it (count(*) then reads no data); DuckDB refuses the view when that is not so. */
void infp_sql_view(struct infp_str *sql, const struct infp_run *run, const struct infp_table *table,
                   const struct infp_shown_list *shown, const struct infp_parts *parts, bool exact);
/* Whether to try `exact`. */
bool infp_sql_all_parquet(const struct infp_parts *parts);
