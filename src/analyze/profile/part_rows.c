#include "analyze/profile/part_rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/profile/parts.h"
#include "base/map.h"
#include "base/mem.h"
#include "model/builder.h"

/* What a column says of a node. */
enum what { ID, PARENT, FRAME, DEPTH };

/* By table: the column whose id decides about the row, and the columns that say something of a node: of the row's own, or of its
 * parent (columns that the scan joins). */
static const struct kind_of_table {
        const char *table, *key;
        bool is_frame; /* the key is a frame's id; else a node's */
        bool climbs;   /* a row whose node is not left is that of the nearest caller */
        struct told {
                const char *column;
                enum what what;
                bool of_parent;
        } told[7];
} kinds[] = {
        { "frames", "id", .is_frame = true },
        { "symbols", "frame", .is_frame = true },
        { "stacks", "id",
          .told = { { "parent", PARENT, false },
                    { "depth", DEPTH, false },
                    { "parent_parent", PARENT, true },
                    { "parent_frame", FRAME, true },
                    { "parent_depth", DEPTH, true } } },
        { "stack_samples", "stack", .climbs = true,
          .told = { { "stack", ID, false },
                    { "parent", PARENT, false },
                    { "frame", FRAME, false },
                    { "depth", DEPTH, false } } },
};

struct node {
        uint64_t id, frame, parent_id;
        uint32_t up;    /* 1 + the nearest node that is left, itself too; 0: none; unless is_known: not looked for */
        uint32_t depth; /* among those that are left */
        bool is_known;
};

enum { NEVER = UINT32_MAX };

struct infp_part_rows {
        const struct kind_of_table *kind;
        enum infp_profile_part part;
        struct infp_scan *scan;
        struct infp_builder *builder;
        struct infp_map frames, by_id; /* frames: ids that are left; by_id: of nodes to their places */
        struct node *nodes;
        uint32_t n_nodes, cap_nodes;
        unsigned key;           /* column */
        int8_t told_of[256];    /* of a column: its place in kind->told, -1: it is copied */
        struct infp_batch from; /* rows that are left to copy */
        uint32_t row;
};

static const struct kind_of_table *kind_of(const char *table)
{
        for (unsigned i = 0; i < INFP_COUNT(kinds); i++)
                if (!strcmp(kinds[i].table, table))
                        return &kinds[i];
        return NULL;
}

bool infp_part_rows_knows(const char *table)
{
        return kind_of(table) != NULL;
}

static int read_all(struct infp_part_rows *rows, struct infp_run *run, const char *table, const char *const *columns,
                    int (*take)(struct infp_part_rows *rows, const struct infp_batch *batch, const int *at,
                                uint32_t row, struct infp_err *err),
                    struct infp_err *err)
{
        const struct infp_scan_options options = { .columns = columns };
        struct infp_scan *scan;
        struct infp_batch batch;
        int at[4], r = infp_scan_open(run, table, &options, &scan, err);

        if (r == -ENOENT)
                return 0;
        INFP_TRY(r);
        for (unsigned i = 0; columns[i]; i++)
                at[i] = infp_table_find(infp_scan_table(scan), columns[i]);
        while ((r = infp_scan_next(scan, &batch, err)) > 0)
                for (uint32_t row = 0; row < batch.n_rows && r > 0; row++)
                        if (at[0] >= 0 && infp_batch_has(&batch, (unsigned) at[0], row) &&
                            take(rows, &batch, at, row, err) < 0)
                                r = -ENOMEM;
        infp_scan_close(scan);
        return r < 0 ? r : 0;
}

static uint64_t id_at(const struct infp_batch *batch, int at, uint32_t row)
{
        return at >= 0 && infp_batch_has(batch, (unsigned) at, row) ? infp_batch_u64(batch, (unsigned) at, row) : 0;
}

static int take_frame(struct infp_part_rows *rows, const struct infp_batch *batch, const int *at, uint32_t row,
                      struct infp_err *err)
{
        size_t size = 0;
        const char *text = at[1] >= 0 ? infp_batch_str(batch, (unsigned) at[1], row, &size) : "";
        const int kind = infp_frame_kind_by_name(text, size);

        if (!infp_profile_part_has(rows->part, kind < 0 ? INFP_FRAME_UNKNOWN : (enum infp_frame_kind) kind))
                return 0;
        return infp_map_put(&rows->frames, id_at(batch, at[0], row), 1) < 0 ? infp_profile_no_memory(err) : 0;
}

static int take_node(struct infp_part_rows *rows, const struct infp_batch *batch, const int *at, uint32_t row,
                     struct infp_err *err)
{
        const uint64_t id = id_at(batch, at[0], row);

        if (!id || infp_map_get(&rows->by_id, id))
                return 0;
        INFP_TRY(infp_profile_room(&rows->nodes, &rows->cap_nodes, rows->n_nodes, sizeof(*rows->nodes), err));
        if (infp_map_put(&rows->by_id, id, rows->n_nodes) < 0)
                return infp_profile_no_memory(err);
        rows->nodes[rows->n_nodes++] =
                (struct node){ .id = id, .parent_id = id_at(batch, at[1], row), .frame = id_at(batch, at[2], row) };
        return 0;
}

static bool is_left(const struct infp_part_rows *rows, const struct node *node)
{
        return infp_map_get(&rows->frames, node->frame) != NULL;
}

static uint32_t place_of(const struct infp_part_rows *rows, uint64_t id)
{
        const uint64_t *at = id ? infp_map_get(&rows->by_id, id) : NULL;

        return at ? (uint32_t) *at : NEVER;
}

/* Finds `up` and depth of a node and its callers. The table is input: a cycle ends where it was entered. */
static int climb(struct infp_part_rows *rows, uint32_t from, struct infp_err *err)
{
        infp_autofree uint32_t *path = NULL;
        uint32_t n = 0, cap = 0, at = from, up = 0;

        while (at != NEVER && !rows->nodes[at].is_known) {
                INFP_TRY(infp_profile_room(&path, &cap, n, sizeof(*path), err));
                path[n++] = at;
                rows->nodes[at].is_known = true;
                at = place_of(rows, rows->nodes[at].parent_id);
        }
        up = at != NEVER ? rows->nodes[at].up : 0;
        while (n) {
                struct node *node = &rows->nodes[path[--n]];

                if (is_left(rows, node)) {
                        node->depth = up ? rows->nodes[up - 1].depth + 1 : 0;
                        up = path[n] + 1;
                }
                node->up = up;
        }
        return 0;
}

static int read_nodes(struct infp_part_rows *rows, struct infp_run *run, struct infp_err *err)
{
        static const char *const frame_columns[] = { "id", "fKind", NULL };
        static const char *const node_columns[] = { "id", "parent", "frame", NULL };

        INFP_TRY(read_all(rows, run, "frames", frame_columns, take_frame, err));
        if (rows->kind->is_frame)
                return 0;
        INFP_TRY(read_all(rows, run, "stacks", node_columns, take_node, err));
        for (uint32_t i = 0; i < rows->n_nodes; i++)
                INFP_TRY(climb(rows, i, err));
        return 0;
}

static void find_columns(struct infp_part_rows *rows, const struct infp_table *table)
{
        memset(rows->told_of, -1, sizeof(rows->told_of));
        for (int8_t i = 0; rows->kind->told[i].column; i++) {
                const int at = infp_table_find(table, rows->kind->told[i].column);

                if (at >= 0 && at < (int) INFP_COUNT(rows->told_of))
                        rows->told_of[at] = i;
        }
}

int infp_part_rows_open(struct infp_run *run, const char *table, enum infp_profile_part part,
                        const struct infp_scan_options *options, struct infp_part_rows **ret, struct infp_err *err)
{
        struct infp_part_rows *rows = calloc(1, sizeof(*rows));
        int key, r;

        *ret = NULL;
        if (!rows)
                return infp_profile_no_memory(err);
        rows->kind = kind_of(table);
        rows->part = part;
        r = infp_scan_open(run, table, options, &rows->scan, err);
        if (r >= 0)
                r = read_nodes(rows, run, err);
        if (r >= 0) {
                const struct infp_table *is = infp_scan_table(rows->scan);

                find_columns(rows, is);
                key = infp_table_find(is, rows->kind->key);
                rows->key = key >= 0 ? (unsigned) key : 0;
                rows->builder = infp_builder_new(is, INFP_BATCH_ROWS);
                if (key < 0)
                        r = infp_fail(err, -EBADMSG, "table %s of the run has no column %s", table, rows->kind->key);
                else if (!rows->builder)
                        r = infp_profile_no_memory(err);
        }
        if (r < 0)
                infp_part_rows_close(rows);
        else
                *ret = rows;
        return r < 0 ? r : 0;
}

struct infp_part_rows *infp_part_rows_close(struct infp_part_rows *rows)
{
        if (!rows)
                return NULL;
        infp_scan_close(rows->scan);
        infp_builder_free(rows->builder);
        infp_map_done(&rows->frames);
        infp_map_done(&rows->by_id);
        free(rows->nodes);
        free(rows);
        return NULL;
}

const struct infp_table *infp_part_rows_table(const struct infp_part_rows *rows)
{
        return infp_scan_table(rows->scan);
}

/* The node that the row is about; NULL: of a table of frames. false: the row is left out. */
static bool node_of_row(const struct infp_part_rows *rows, const struct node **ret)
{
        const uint64_t id = id_at(&rows->from, (int) rows->key, rows->row);
        uint32_t at;

        *ret = NULL;
        if (rows->kind->is_frame)
                return infp_map_get(&rows->frames, id) != NULL;
        at = place_of(rows, id);
        if (at == NEVER || !rows->nodes[at].up || (!rows->kind->climbs && rows->nodes[at].up != at + 1))
                return false;
        *ret = &rows->nodes[rows->nodes[at].up - 1];
        return true;
}

static const struct node *caller_of(const struct infp_part_rows *rows, const struct node *node)
{
        const uint32_t at = place_of(rows, node->parent_id);

        return at != NEVER && rows->nodes[at].up ? &rows->nodes[rows->nodes[at].up - 1] : NULL;
}

/* Says what the node is among those that are left; nothing of a caller that there is not. */
static void tell(struct infp_part_rows *rows, unsigned column, const struct told *told, const struct node *node)
{
        union infp_cell cell = { .u64 = 0 };

        if (node && told->of_parent)
                node = caller_of(rows, node);
        if (node && told->what == PARENT) {
                node = caller_of(rows, node);
                cell.u64 = node ? node->id : 0;
        } else if (node && told->what == DEPTH)
                cell.i64 = (int64_t) node->depth;
        else if (node)
                cell.u64 = told->what == FRAME ? node->frame : node->id;
        if (node)
                infp_builder_set(rows->builder, column, cell, NULL, 0);
}

static void copy_cell(struct infp_part_rows *rows, unsigned column)
{
        const struct infp_batch *from = &rows->from;
        union infp_cell cell = { .u64 = 0 };
        const char *text = NULL;
        size_t size = 0;

        if (!infp_batch_has(from, column, rows->row))
                return;
        switch (infp_table_column(from->table, column)->type) {
        case INFP_STR:
                text = infp_batch_str(from, column, rows->row, &size);
                break;
        case INFP_F64:
                infp_builder_set_f64(rows->builder, column, infp_batch_f64(from, column, rows->row));
                return;
        case INFP_BOOL:
                cell.b = infp_batch_bool(from, column, rows->row);
                break;
        case INFP_U64:
        case INFP_ID64:
                cell.u64 = infp_batch_u64(from, column, rows->row);
                break;
        default:
                cell.i64 = infp_batch_i64(from, column, rows->row);
        }
        infp_builder_set(rows->builder, column, cell, text, size);
}

/* 0, or -ENOSPC: the builder is full. */
static int copy_row(struct infp_part_rows *rows)
{
        const struct infp_batch *from = &rows->from;
        const struct node *node;
        int r;

        if (!node_of_row(rows, &node))
                return 0;
        r = infp_builder_row_begin(rows->builder, (uint64_t) infp_batch_i64(from, 0, rows->row),
                                   infp_batch_i64(from, 1, rows->row));
        if (r < 0)
                return r;
        for (unsigned column = 2; column < infp_table_width(from->table); column++) {
                const int told = column < INFP_COUNT(rows->told_of) ? rows->told_of[column] : -1;

                if (told >= 0)
                        tell(rows, column, &rows->kind->told[told], node);
                else
                        copy_cell(rows, column);
        }
        return infp_builder_row_end(rows->builder);
}

int infp_part_rows_next(struct infp_part_rows *rows, struct infp_batch *ret, struct infp_err *err)
{
        int r = 1;

        infp_builder_reset(rows->builder);
        while (r > 0 && !infp_builder_rows(rows->builder)) {
                if (rows->row >= rows->from.n_rows) {
                        rows->row = 0;
                        r = infp_scan_next(rows->scan, &rows->from, err);
                        if (r <= 0)
                                return r;
                }
                while (rows->row < rows->from.n_rows) {
                        if (copy_row(rows) == 0) {
                                rows->row++;
                                continue;
                        }
                        if (infp_builder_rows(rows->builder))
                                break;
                        /* One row's texts are more than the room for all: names of functions can be long. */
                        if (infp_builder_grow(rows->builder, 1U << 20) < 0)
                                return infp_profile_no_memory(err);
                }
        }
        *ret = infp_builder_batch(rows->builder, 0);
        return 1;
}
