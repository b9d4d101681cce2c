/* SQL views beside the tables of a run: computed when read, stored nowhere. */
#pragma once

#include "base/str.h"
#include "model/schema.h"
#include "query/scan.h"

enum { INFP_SQL_VIEW_PARTS = 3 };
struct infp_sql_view_def {
        const struct infp_table *table; /* its name, its help, and what its columns are */
        struct infp_sql_view_part {
                const char *wants; /* a table that it reads; NULL: there are no more */
                const char *sql;   /* what the view has of it, after CREATE VIEW ... AS */
        } part[INFP_SQL_VIEW_PARTS];
        bool is_optional; /* the tables may be another program's, with other columns: then there is no view */
};

enum { INFP_SQL_VIEWS = 5 };
extern const struct infp_sql_view_def infp_sql_views[INFP_SQL_VIEWS];

const struct infp_sql_view_def *infp_sql_view_find(const char *name); /* NULL: none has this name */
/* Whether the run has a table that the view reads: without one there is no such view. */
bool infp_sql_view_is_in(const struct infp_sql_view_def *def, const struct infp_catalog *catalog);
/* Appends the SQL over those that there are. */
void infp_sql_view_put(const struct infp_sql_view_def *def, const struct infp_catalog *catalog, struct infp_str *sql);
