/* A fixture tree as a machine: its own clock, and every row that collectors give away is kept. For unit tests only. */
#pragma once

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "collect/run_one.h"

/* The texts of all rows share one room: a command line of the machine that tests run on may take all that a row holds. */
enum { KEPT_ROWS = 2560, KEPT_TEXT = 16 << 20 };

struct kept {
        const struct infp_table *table;
        uint64_t t_ns, valid[2];
        union infp_cell cell[INFP_MAX_COLUMNS];
        const char *text;
};

struct machine {
        struct infp_env env;
        uint64_t clock_ns;
        struct infp_emit emit;
        struct kept rows[KEPT_ROWS];
        size_t n;
        char text[KEPT_TEXT];
        size_t text_size;
        bool is_full; /* put refuses */
        unsigned n_notices;
        char notice[512];
};

static inline uint64_t machine_clock(const struct infp_env *env)
{
        return *(const uint64_t *) env->clock_context;
}

static inline int machine_keep(void *context, const struct infp_row *row)
{
        struct machine *m = context;
        struct kept *k = &m->rows[m->n];

        if (m->is_full)
                return -ENOSPC;
        assert_true(m->n < KEPT_ROWS);
        assert_true(row->text_size <= KEPT_TEXT - m->text_size);
        k->table = row->table;
        k->t_ns = row->t_ns;
        memcpy(k->valid, row->valid, sizeof(k->valid));
        memcpy(k->cell, row->cell, sizeof(k->cell));
        memcpy(m->text + m->text_size, row->text, row->text_size);
        k->text = m->text + m->text_size;
        m->text_size += row->text_size;
        m->n++;
        return 0;
}

static inline void machine_notice(void *context, const char *text)
{
        struct machine *m = context;

        m->n_notices++;
        snprintf(m->notice, sizeof(m->notice), "%s", text);
}

/* The memory is large: one for all tests of a program. */
static inline struct machine *machine_open(const char *root)
{
        static struct machine m;
        struct infp_err err;

        m.n = m.n_notices = m.text_size = 0;
        m.is_full = false;
        m.notice[0] = 0;
        m.clock_ns = UINT64_C(1000000000);
        assert_int_equal(infp_env_open(&m.env, root, &err), 0);
        m.env.now_ns = machine_clock;
        m.env.clock_context = &m.clock_ns;
        infp_emit_init(&m.emit, machine_keep, &m);
        return &m;
}

static inline void machine_close(struct machine *m)
{
        infp_env_close(&m->env);
}

/* Opens, samples once, closes. What open or sample returned. */
static inline int machine_sample(struct machine *m, const struct infp_collector *collector)
{
        struct infp_collector_state state = { 0 };
        int r = infp_collector_open(&state, collector, &m->env, &m->emit, machine_notice, m);

        if (!r)
                r = infp_collector_sample(&state, &m->env, &m->emit, machine_notice, m);
        infp_collector_close(&state);
        return r;
}

static inline const char *kept_text(const struct kept *k, unsigned cell, char *text, size_t size)
{
        snprintf(text, size, "%.*s", (int) k->cell[cell].text.size, k->text + k->cell[cell].text.offset);
        return text;
}

static inline bool kept_has(const struct kept *k, unsigned cell)
{
        return k->valid[cell / 64] >> (cell % 64) & 1;
}

static inline unsigned kept_cell(const struct kept *k, const char *column)
{
        int i = infp_table_find(k->table, column);

        if (i < 0)
                fail_msg("table %s has no column %s", k->table->name, column);
        return (unsigned) i - INFP_FIXED_COLUMNS;
}

/* The last row of a table, of a key where it has one; NULL when there is none. */
static inline const struct kept *machine_row(const struct machine *m, const char *table, const char *key)
{
        char text[256];

        for (size_t i = m->n; i-- > 0;) {
                const struct kept *k = &m->rows[i];

                if (strcmp(k->table->name, table))
                        continue;
                if (!key)
                        return k;
                if (k->table->keys[0].type == INFP_I64)
                        snprintf(text, sizeof(text), "%" PRId64, k->cell[0].i64);
                else
                        kept_text(k, 0, text, sizeof(text));
                if (!strcmp(text, key))
                        return k;
        }
        return NULL;
}

static inline size_t machine_count(const struct machine *m, const char *table)
{
        size_t n = 0;

        for (size_t i = 0; i < m->n; i++)
                n += !strcmp(m->rows[i].table->name, table);
        return n;
}

static inline const struct kept *machine_need(const struct machine *m, const char *table, const char *key)
{
        const struct kept *k = machine_row(m, table, key);

        if (!k)
                fail_msg("no row of %s %s", table, key ? key : "");
        return k;
}

/* One expectation; `what` says of which kind it is. */
struct expect {
        const char *table, *key, *column;
        enum { IS_I64 = 1, IS_F64, IS_TEXT, IS_TRUE, IS_FALSE, IS_ABSENT } what;
        int64_t i64;
        double f64;
        const char *text;
};

#define I64(table, key, column, v)                     \
        {                                              \
                table, key, column, IS_I64, v, 0, NULL \
        }
#define F64(table, key, column, v)                     \
        {                                              \
                table, key, column, IS_F64, 0, v, NULL \
        }
#define TEXT(table, key, column, v)                  \
        {                                            \
                table, key, column, IS_TEXT, 0, 0, v \
        }
#define YES(table, key, column)                         \
        {                                               \
                table, key, column, IS_TRUE, 0, 0, NULL \
        }
#define ABSENT(table, key, column)                        \
        {                                                 \
                table, key, column, IS_ABSENT, 0, 0, NULL \
        }

static inline void machine_expect_one(const struct machine *m, const struct expect *e)
{
        const struct kept *k = machine_need(m, e->table, e->key);
        unsigned cell = kept_cell(k, e->column);
        char text[1024];

        if (kept_has(k, cell) != (e->what != IS_ABSENT))
                fail_msg("%s %s is %s", e->table, e->column, e->what == IS_ABSENT ? "there" : "absent");
        switch (e->what) {
        case IS_I64:
                if (k->cell[cell].i64 != e->i64)
                        fail_msg("%s %s is %" PRId64 ", not %" PRId64, e->table, e->column, k->cell[cell].i64, e->i64);
                break;
        case IS_F64:
                if (k->cell[cell].f64 - e->f64 > 1e-9 * e->f64 || e->f64 - k->cell[cell].f64 > 1e-9 * e->f64)
                        fail_msg("%s %s is %.17g, not %.17g", e->table, e->column, k->cell[cell].f64, e->f64);
                break;
        case IS_TEXT:
                assert_string_equal(kept_text(k, cell, text, sizeof(text)), e->text);
                break;
        case IS_TRUE:
        case IS_FALSE:
                assert_int_equal(k->cell[cell].b, e->what == IS_TRUE);
                break;
        case IS_ABSENT:
                break;
        }
}

static inline void machine_expect(const struct machine *m, const struct expect *expects, size_t n)
{
        for (size_t i = 0; i < n; i++)
                machine_expect_one(m, &expects[i]);
}
#define EXPECT(m, ...)                                                               \
        do {                                                                         \
                static const struct expect expects_[] = { __VA_ARGS__ };             \
                machine_expect(m, expects_, sizeof(expects_) / sizeof(expects_[0])); \
        } while (0)

/* What `sources` said last of a column (NULL: of the table; table "*" : of the collector): its state, or "" for nothing. */
static inline const char *machine_state(const struct machine *m, const char *table, const char *column,
                                        char *ret_reason, size_t size)
{
        static char state[32];
        char text[256];

        for (size_t i = m->n; i-- > 0;) {
                const struct kept *k = &m->rows[i];

                if (k->table != &infp_table_sources ||
                    strcmp(kept_text(k, INFP_SOURCES_TABLE, text, sizeof(text)), table) ||
                    strcmp(kept_text(k, INFP_SOURCES_COLUMN, text, sizeof(text)), column ? column : "*"))
                        continue;
                if (ret_reason)
                        kept_has(k, INFP_SOURCES_REASON) ? (void) kept_text(k, INFP_SOURCES_REASON, ret_reason, size)
                                                         : (void) (ret_reason[0] = 0);
                return kept_text(k, INFP_SOURCES_STATE, state, sizeof(state));
        }
        return "";
}

/* <repository>/tests/fixtures/NAME, or ../shared/fixtures/reports/NAME below the reports. */
static inline const char *fixture(const char *name)
{
        static char path[PATH_MAX];
        const char *top = getenv("INFP_FIXTURES");

        snprintf(path, sizeof(path), "%s/%s", top ? top : "tests/fixtures", name);
        return path;
}

static inline const char *report_root(const char *name)
{
        static char path[PATH_MAX];
        const char *top = getenv("INFP_FIXTURES");

        snprintf(path, sizeof(path), "%s/../../../shared/fixtures/reports/%s", top ? top : "tests/fixtures", name);
        if (access(path, F_OK)) {
                print_message("%s is not here\n", path);
                skip();
        }
        return path;
}

/* A directory of this test's own, removed with all below it by tree_remove. */
static inline char *tree_new(char path[64])
{
        snprintf(path, 64, "/tmp/infp-test-XXXXXX");
        assert_non_null(mkdtemp(path));
        return path;
}

static inline void tree_command(const char *format, ...)
{
        char command[PATH_MAX * 2 + 128];
        va_list ap;

        va_start(ap, format);
        vsnprintf(command, sizeof(command), format, ap);
        va_end(ap);
        assert_int_equal(system(command), 0);
}

static inline void tree_remove(const char *path)
{
        tree_command("rm -rf '%s'", path);
}

/* Writes a file below a directory, folders made. */
static inline void tree_put_bytes(const char *top, const char *name, const void *data, size_t size)
{
        char path[PATH_MAX];
        FILE *file;

        snprintf(path, sizeof(path), "%s/%s", top, name);
        for (char *at = path + strlen(top) + 1; (at = strchr(at, '/')); at++) {
                *at = 0;
                mkdir(path, 0777);
                *at = '/';
        }
        file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(data, 1, size, file), size);
        assert_int_equal(fclose(file), 0);
}

static inline void tree_put(const char *top, const char *name, const char *text)
{
        tree_put_bytes(top, name, text, strlen(text));
}
