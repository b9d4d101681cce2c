#include "collect/emit.h"

#include <errno.h>
#include <string.h>

#include "base/debug.h"
#include "base/hash.h"

/* `said` of a slot holds a hash of state and texts whose low bits are the state. A table as a whole also has a slot under
 * another key that counts its columns which are not ok, so that a row without gaps costs one look-up. */
enum { STATE_MASK = 7, SLOTS = INFP_EMIT_STATES, SLOTS_USED_AT_MOST = SLOTS - SLOTS / 8 };
enum { COLUMN_OF_TABLE = -1, COLUMN_OF_COUNT = -2 };

static const char default_reason[] = "the source does not provide it here";

void infp_emit_init(struct infp_emit *emit, int (*put)(void *context, const struct infp_row *row), void *context)
{
        /* The texts after these are written before they are read; most collectors touch few pages of them. */
        memset(emit, 0, offsetof(struct infp_emit, text));
        emit->put = put;
        emit->context = context;
        emit->collector = "";
        emit->row.text = emit->text;
        emit->row.text_cap = sizeof(emit->text);
        emit->source_row.text = emit->source_text;
        emit->source_row.text_cap = sizeof(emit->source_text);
}

struct infp_row *infp_emit_begin(struct infp_emit *emit, const struct infp_table *table, uint64_t t_ns)
{
        infp_row_begin(&emit->row, table, t_ns);
        emit->quiet[0] = emit->quiet[1] = 0;
        return &emit->row;
}

enum infp_source_state infp_source_state_of(int r)
{
        switch (r) {
        case -ENOENT:
        case -ENODEV:
        case -ENOPKG:
                return INFP_ABSENT;
        case -EACCES:
        case -EPERM:
                return INFP_DENIED;
        default:
                return INFP_BROKEN;
        }
}

static uint64_t key_of(const struct infp_emit *emit, const struct infp_table *table, int column, const char *instance)
{
        uint64_t h = table ? infp_hash64(table->name, strlen(table->name), 1)
                           : infp_hash64(emit->collector, strlen(emit->collector), 2);

        if (instance)
                h = infp_hash64(instance, strlen(instance), h);
        h = infp_hash64(&column, sizeof(column), h);
        return h ? h : 1; /* 0 is a free slot */
}

/* The slot of `key`: an existing one, else a free one, else NULL: there is no room to remember more. */
static struct infp_emit_state *slot_of(struct infp_emit *emit, uint64_t key)
{
        for (unsigned i = 0; i < SLOTS; i++) {
                struct infp_emit_state *s = &emit->states[(key + i) % SLOTS];

                if (s->key == key || !s->key)
                        return s;
        }
        return NULL;
}

static struct infp_emit_state *find(struct infp_emit *emit, const struct infp_table *table, int column)
{
        struct infp_emit_state *s = slot_of(emit, key_of(emit, table, column, NULL));

        return s && s->key ? s : NULL;
}

static bool is_full(const struct infp_emit *emit)
{
        unsigned n = 0;

        for (unsigned i = 0; i < SLOTS; i++)
                n += emit->states[i].key != 0;
        return n >= SLOTS_USED_AT_MOST;
}

static uint64_t text_hash(const char *text, uint64_t seed)
{
        return text ? infp_hash64(text, strlen(text), seed) : seed + 1;
}

static int send(struct infp_emit *emit, const struct infp_row *row)
{
        int r = emit->put(emit->context, row);

        if (r < 0)
                emit->n_dropped++;
        else
                emit->n_rows++;
        return r;
}

static int send_source(struct infp_emit *emit, const struct infp_table *table, int column, const char *instance,
                       enum infp_source_state state, const char *reason, const char *fix)
{
        struct infp_row *row = &emit->source_row;

        infp_row_begin(row, &infp_table_sources, emit->t_ns);
        infp_row_str(row, INFP_SOURCES_COLLECTOR, emit->collector);
        if (instance)
                infp_row_bytes(row, INFP_SOURCES_INSTANCE, instance, strlen(instance));
        infp_row_str(row, INFP_SOURCES_TABLE, table ? table->name : "*");
        infp_row_str(row, INFP_SOURCES_COLUMN,
                     table && column >= 0 ? infp_table_column(table, INFP_FIXED_COLUMNS + (unsigned) column)->name
                                          : "*");
        infp_row_str(row, INFP_SOURCES_STATE, infp_source_state_name(state));
        if (reason)
                infp_row_str(row, INFP_SOURCES_REASON, reason);
        if (fix)
                infp_row_str(row, INFP_SOURCES_FIX, fix);
        return send(emit, row);
}

/* Counts the columns of a table that are not ok. */
static void count(struct infp_emit *emit, const struct infp_table *table, int step)
{
        uint64_t key = key_of(emit, table, COLUMN_OF_COUNT, NULL);
        struct infp_emit_state *s = slot_of(emit, key);

        if (!s)
                return;
        s->key = key;
        s->said += (uint64_t) step;
}

void infp_emit_source(struct infp_emit *emit, const struct infp_table *table, int column, const char *instance,
                      enum infp_source_state state, const char *reason, const char *fix)
{
        uint64_t key = key_of(emit, table, column, instance), said;
        struct infp_emit_state *s = slot_of(emit, key);
        bool is_new = s && !s->key, was_ok = !s || is_new || (s->said & STATE_MASK) == INFP_OK;

        /* A table or column that works and was never reported needs no row. */
        if (table && state == INFP_OK && !reason && (!s || is_new))
                return;
        said = (text_hash(fix, text_hash(reason, state)) & ~(uint64_t) STATE_MASK) | (uint64_t) state;
        if (s && !is_new && s->said == said)
                return;
        /* Without room to remember it would be reported at each tick: it is not reported at all, but counted. */
        if (!s || (is_new && is_full(emit))) {
                emit->n_dropped++;
                return;
        }
        if (send_source(emit, table, column, instance, state, reason, fix) < 0)
                return; /* not reported, so it is tried again */
        infp_debug("source %s%s%s%s%s%s%s: %s%s%s", emit->collector ? emit->collector : "", table ? " " : "",
                   table ? table->name : "", table && column >= 0 ? "." : "",
                   table && column >= 0 ? infp_table_column(table, INFP_FIXED_COLUMNS + (unsigned) column)->name : "",
                   instance ? " " : "", instance ? instance : "", infp_source_state_name(state), reason ? ", " : "",
                   reason ? reason : "");
        s->key = key;
        s->said = said;
        if (table && column >= 0 && !instance && was_ok != (state == INFP_OK))
                count(emit, table, was_ok ? 1 : -1);
}

/* What commit reports of a column by itself. */
static void explain(struct infp_emit *emit, const struct infp_table *table, unsigned column, bool has_value)
{
        const struct infp_emit_state *s = find(emit, table, (int) column);
        bool is_ok = !s || (s->said & STATE_MASK) == INFP_OK;

        if (has_value && !is_ok)
                infp_emit_source(emit, table, (int) column, NULL, INFP_OK, NULL, NULL);
        else if (!has_value && is_ok && !(emit->quiet[column / 64] >> column % 64 & 1))
                infp_emit_source(emit, table, (int) column, NULL, INFP_ABSENT, default_reason, NULL);
}

static bool has_gap(const struct infp_row *row)
{
        unsigned n = row->table->n_columns;
        uint64_t all[2] = { n >= 64 ? UINT64_MAX : (UINT64_C(1) << n) - 1, n >= 128 ? UINT64_MAX
                                                                           : n > 64 ? (UINT64_C(1) << (n - 64)) - 1
                                                                                    : 0 };

        return (row->valid[0] & all[0]) != all[0] || (row->valid[1] & all[1]) != all[1];
}

void infp_emit_quiet(struct infp_emit *emit, unsigned cell)
{
        emit->quiet[cell / 64] |= UINT64_C(1) << cell % 64;
}

void infp_emit_commit(struct infp_emit *emit)
{
        struct infp_row *row = &emit->row;
        const struct infp_table *table = row->table;
        const struct infp_emit_state *missing;

        send(emit, row);
        if (table->n_keys)
                return;
        missing = find(emit, table, COLUMN_OF_COUNT);
        if (!has_gap(row) && (!missing || !missing->said))
                return;
        for (unsigned i = 0; i < table->n_columns; i++)
                explain(emit, table, i, infp_row_has(row, i));
}
