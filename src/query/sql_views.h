/* SQL views beside the tables of a run: computed when read, stored nowhere. */
#pragma once

#include "model/schema.h"

struct infp_sql_view_def {
        const struct infp_table *table; /* its name, its help, and what its columns are */
        const char *wants;              /* the table that it reads: without it there is no such view */
        const char *sql;                /* after CREATE VIEW ... AS */
        bool is_optional; /* the table may be another program's, with other columns: then there is no view */
};

enum { INFP_SQL_VIEWS = 5 };
extern const struct infp_sql_view_def infp_sql_views[INFP_SQL_VIEWS];

const struct infp_sql_view_def *infp_sql_view_find(const char *name); /* NULL: none has this name */
