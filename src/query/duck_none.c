/* What duck.h says in a build without DuckDB's header. */
#include <errno.h>

#include "query/duck.h"

static int fail(struct infp_err *err)
{
        return infp_fail(
                err, -ENOPKG,
                "this infprof was built without DuckDB, so it has no SQL and no Parquet; `make build` fetches DuckDB");
}

bool infp_duck_available(struct infp_err *err)
{
        fail(err);
        return false;
}

int infp_duck_open(struct infp_duck **ret, struct infp_err *err)
{
        *ret = NULL;
        return fail(err);
}

int infp_duck_open_writer(struct infp_duck **ret, struct infp_err *err)
{
        return infp_duck_open(ret, err);
}

int infp_duck_open_shared(struct infp_duck **ret, struct infp_err *err)
{
        return infp_duck_open(ret, err);
}

struct infp_duck *infp_duck_close(struct infp_duck *duck)
{
        (void) duck;
        return NULL;
}

void infp_duck_interrupt(struct infp_duck *duck)
{
        (void) duck;
}

int infp_duck_attach(struct infp_duck *duck, struct infp_run *run, struct infp_err *err)
{
        (void) duck, (void) run;
        return fail(err);
}

int infp_duck_query(struct infp_duck *duck, const char *sql, struct infp_duck_result **ret, struct infp_err *err)
{
        (void) duck, (void) sql;
        *ret = NULL;
        return fail(err);
}

const struct infp_table *infp_duck_result_table(const struct infp_duck_result *result)
{
        (void) result;
        return NULL;
}

int infp_duck_result_next(struct infp_duck_result *result, struct infp_batch *ret, struct infp_err *err)
{
        (void) result, (void) ret;
        return fail(err);
}

int infp_duck_restrict(struct infp_duck *duck, struct infp_err *err)
{
        (void) duck;
        return fail(err);
}

struct infp_duck_result *infp_duck_result_free(struct infp_duck_result *result)
{
        (void) result;
        return NULL;
}

int infp_duck_to_parquet(struct infp_duck *duck, const char *sql, const char *path, uint64_t *ret_rows,
                         struct infp_err *err)
{
        (void) duck, (void) sql, (void) path, (void) ret_rows;
        return fail(err);
}

int infp_duck_rows_to_parquet(struct infp_duck *duck, const struct infp_rows *rows, int dir_fd, const char *name,
                              mode_t mode, uint64_t *ret_rows, struct infp_err *err)
{
        (void) duck, (void) rows, (void) dir_fd, (void) name, (void) mode, (void) ret_rows;
        return fail(err);
}
