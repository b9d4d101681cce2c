#include "query/source.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "query/duck.h"
#include "query/views.h"
#include "store/store.h"

struct infp_source {
        struct infp_run *run;
        struct infp_segment *segment;
        struct infp_duck *duck;
        struct infp_duck_result *result;
};

/* Opening a database costs more than reading a small segment: all readers share one, and one idle connection keeps it open. */
static struct infp_duck *idle;
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER;

static int take_duck(struct infp_duck **ret, struct infp_err *err)
{
        pthread_mutex_lock(&idle_lock);
        *ret = INFP_TAKE(idle);
        pthread_mutex_unlock(&idle_lock);
        return *ret ? 0 : infp_duck_open_shared(ret, err);
}

/* The empty query makes DuckDB release the previous one: its plan and its open files. The idle connection is never closed at
 * exit: the library's thread-local objects are gone before a handler of ours could close it. */
static void give_duck(struct infp_duck *duck)
{
        struct infp_duck_result *nothing = NULL;

        if (infp_duck_query(duck, "SELECT 1", &nothing, NULL) == 0) {
                while (infp_duck_result_next(nothing, &(struct infp_batch){ 0 }, NULL) > 0)
                        ;
                infp_duck_result_free(nothing);
                pthread_mutex_lock(&idle_lock);
                if (!idle)
                        idle = INFP_TAKE(duck);
                pthread_mutex_unlock(&idle_lock);
        }
        infp_duck_close(duck);
}

struct infp_source *infp_source_close(struct infp_source *source)
{
        if (source) {
                infp_segment_close(source->segment);
                infp_duck_result_free(source->result);
                if (source->duck)
                        give_duck(source->duck);
                free(source);
        }
        return NULL;
}

static void free_source(struct infp_source **source)
{
        infp_source_close(*source);
}

/* Selects the columns that exist, in one pass over the files: a day has hundreds. */
static void put_existing(struct infp_str *sql, const char *const *columns)
{
        infp_str_puts(sql, "COLUMNS(c -> c IN (");
        for (unsigned i = 0; columns[i]; i++) {
                infp_str_puts(sql, i ? "," : "");
                infp_sql_text(sql, columns[i]);
        }
        infp_str_puts(sql, "))");
}

/* Only existing columns can be named, so look first. */
static int select_list(struct infp_source *source, const char *from, const char *const *columns, struct infp_str *ret,
                       struct infp_err *err)
{
        infp_autostr struct infp_str sql = { 0 };
        struct infp_duck_result *probe;
        unsigned n = 0;

        infp_str_printf(&sql, "SELECT * FROM %s LIMIT 0", from);
        if (sql.failed)
                return infp_fail(err, -ENOMEM, "out of memory");
        INFP_TRY(infp_duck_query(source->duck, sql.data, &probe, err));
        for (unsigned i = 0; columns[i]; i++)
                if (infp_table_find(infp_duck_result_table(probe), columns[i]) >= 0) {
                        if (n++)
                                infp_str_putc(ret, ',');
                        infp_sql_name(ret, columns[i]);
                }
        infp_duck_result_free(probe);
        if (!n)
                infp_str_puts(ret, "NULL AS nothing");
        return 0;
}

static int select_rows(struct infp_source *source, const char *from, const struct infp_str *list,
                       const struct infp_source_hint *hint, struct infp_err *err)
{
        infp_autostr struct infp_str sql = { 0 };

        infp_str_printf(&sql, "SELECT %s FROM %s", list->failed ? "*" : list->data, from);
        if (hint->no_rows)
                infp_str_puts(&sql, " LIMIT 0");
        else if (hint->t0 || hint->t1)
                infp_str_printf(&sql, " WHERE t_ns >= %llu", (unsigned long long) hint->t0);
        if (!hint->no_rows && hint->t1)
                infp_str_printf(&sql, " AND t_ns < %llu", (unsigned long long) hint->t1);
        if (sql.failed)
                return infp_fail(err, -ENOMEM, "out of memory");
        return infp_duck_query(source->duck, sql.data, &source->result, err);
}

static int open_parquet(struct infp_source *source, const struct infp_parts *parts, unsigned index, unsigned n,
                        const struct infp_source_hint *hint, struct infp_err *err)
{
        infp_autostr struct infp_str from = { 0 }, list = { 0 };

        INFP_TRY(take_duck(&source->duck, err));
        infp_sql_read_parquet(&from, source->run, parts, index, n);
        if (from.failed)
                return infp_fail(err, -ENOMEM, "out of memory");
        if (!hint->columns || !hint->columns[0]) {
                infp_str_puts(&list, hint->columns ? "NULL AS nothing" : "*");
                return select_rows(source, from.data, &list, hint, err);
        }
        put_existing(&list, hint->columns);
        if (select_rows(source, from.data, &list, hint, NULL) == 0)
                return 0;
        /* None of them is there, or the files are broken. */
        infp_str_clear(&list);
        INFP_TRY(select_list(source, from.data, hint->columns, &list, err));
        return select_rows(source, from.data, &list, hint, err);
}

int infp_source_open(struct infp_run *run, const struct infp_parts *parts, unsigned index,
                     const struct infp_source_hint *hint, struct infp_source **ret, unsigned *ret_n,
                     struct infp_err *err)
{
        infp_cleanup(free_source) struct infp_source *source = calloc(1, sizeof(*source));
        struct infp_err why = { "" };
        unsigned n = 0;
        int r = -ENOENT;

        *ret = NULL;
        if (!source)
                return infp_fail(err, -ENOMEM, "out of memory");
        source->run = run;
        while (index + n < parts->n && parts->parts[index + n].is_parquet)
                n++;
        if (!n)
                r = infp_segment_open(run->fd, parts->parts[index].path, &source->segment, &why);
        /* -ENODATA: nothing whole is in it yet. -ENOENT: `finish` may have made Parquet of it since the names were read. */
        if (r == -ENOENT)
                r = open_parquet(source, parts, index, n ? n : 1, hint, &why);
        if (r < 0 && r != -ENODATA)
                return infp_parts_fail(run, r, &why, err);
        *ret = INFP_TAKE(source);
        *ret_n = n ? n : 1;
        return 0;
}

const struct infp_table *infp_source_table(const struct infp_source *source)
{
        if (source->segment)
                return infp_segment_table(source->segment);
        return source->result ? infp_duck_result_table(source->result) : NULL;
}

int infp_source_next(struct infp_source *source, struct infp_batch *ret, struct infp_err *err)
{
        struct infp_err why = { "" };
        int r = 0;

        if (source->segment) {
                r = infp_segment_next(source->segment, ret, NULL, &why);
                if (r == 0)
                        infp_segment_note(source->segment, source->run);
        } else if (source->result)
                r = infp_duck_result_next(source->result, ret, &why);
        return r < 0 ? infp_parts_fail(source->run, r, &why, err) : r;
}
