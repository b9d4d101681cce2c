/* Rows of tables that the program names (schema `python`): their columns are found by the names in the table's record. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/python_tables.h"
#include "ring/reader_parts.h"

static bool has_cell(const struct ring_table *table, int cell)
{
        for (unsigned i = 0; i < INFP_WIRE_COLUMNS; i++)
                if (table->cell[i] == cell)
                        return true;
        return false;
}

/* Cells of the table by the columns that the record names, none twice. The process is always the file's. A table that names `tid` is about
 * other threads than the one that wrote it. */
static void find_columns(char *names, struct ring_table *ret)
{
        char *rest = names, *name;

        for (unsigned i = 0; i < INFP_WIRE_COLUMNS; i++)
                ret->cell[i] = -1;
        for (unsigned i = 0; i < INFP_WIRE_COLUMNS && (name = strtok_r(rest, " ", &rest)); i++) {
                const int at = infp_table_find(ret->table, name);

                if (at >= INFP_FIXED_COLUMNS + INFP_PYTHON_TID && !has_cell(ret, at - INFP_FIXED_COLUMNS))
                        ret->cell[i] = (int16_t) (at - INFP_FIXED_COLUMNS);
        }
}

/* 0; -ENOENT, -EBADMSG: no writer makes what lies there. */
static int read_table(struct infp_ring *ring, uint32_t id, struct ring_table *ret)
{
        _Alignas(8) char buffer[INFP_WIRE_CHUNK];
        char text[INFP_RING_TEXT];
        const struct infp_wire_table *table = (const void *) buffer;
        size_t size;

        *ret = (struct ring_table){ .id = id };
        INFP_TRY(ring_copy_staying(ring, id, INFP_WIRE_TABLE, (void *) buffer));
        if (!ring_text(ring, &table->record, table->name, text, sizeof(text), &size))
                return -EBADMSG;
        ret->table = infp_python_table_find(text);
        if (!ret->table)
                return 0;
        if (!ring_text(ring, &table->record, table->columns, text, sizeof(text), &size))
                return -EBADMSG;
        find_columns(text, ret);
        return 0;
}

/* When there are more than are kept, the last one's place is for each that is asked for. */
static int find_table(struct infp_ring *ring, uint32_t id, const struct ring_table **ret)
{
        struct ring_table *table;
        int r;

        if (!ring->tables && !(ring->tables = calloc(INFP_RING_TABLES, sizeof(*ring->tables))))
                return -ENOMEM;
        for (uint32_t i = 0; i < ring->n_tables; i++)
                if (ring->tables[i].id == id) {
                        *ret = &ring->tables[i];
                        return 0;
                }
        if (ring->n_tables == INFP_RING_TABLES)
                ring->n_tables--;
        table = &ring->tables[ring->n_tables];
        r = read_table(ring, id, table);
        if (r < 0)
                return r;
        ring->n_tables++;
        *ret = table;
        return 0;
}

static void put_int(struct infp_row *row, unsigned cell, enum infp_type type, int64_t value)
{
        switch (type) {
        case INFP_I64:
                infp_row_i64(row, cell, value);
                break;
        case INFP_F64:
                infp_row_f64(row, cell, (double) value);
                break;
        case INFP_BOOL:
                infp_row_bool(row, cell, value != 0);
                break;
        case INFP_TS_NS:
                infp_row_ts(row, cell, value);
                break;
        case INFP_U64:
                if (value >= 0)
                        infp_row_u64(row, cell, (uint64_t) value);
                break;
        case INFP_ID64:
                infp_row_id(row, cell, (uint64_t) value);
                break;
        case INFP_STR:
                break;
        }
}

/* A value that the column cannot have is absent. False: no writer makes such a text. */
static bool put_cell(struct infp_ring *ring, const struct infp_wire_row *from, unsigned cell,
                     enum infp_wire_cell_type type, union infp_wire_cell value)
{
        struct infp_row *row = &ring->row;
        const enum infp_type wanted = infp_table_column(row->table, INFP_FIXED_COLUMNS + cell)->type;
        char text[INFP_RING_TEXT];
        double number;
        size_t size;

        switch (type) {
        case INFP_WIRE_CELL_NONE:
                break;
        case INFP_WIRE_CELL_INT:
                put_int(row, cell, wanted, (int64_t) value.bits);
                break;
        case INFP_WIRE_CELL_DOUBLE:
                memcpy(&number, &value.bits, sizeof(number));
                if (wanted == INFP_F64)
                        infp_row_f64(row, cell, number);
                break;
        case INFP_WIRE_CELL_TEXT:
                if (wanted != INFP_STR)
                        break;
                if (!ring_text(ring, &from->record, value.text, text, sizeof(text), &size))
                        return false;
                infp_row_bytes(row, cell, text, size);
                break;
        }
        return true;
}

/* False: no writer makes such a row. */
static bool put_cells(struct infp_ring *ring, const struct infp_wire_row *row, const struct ring_table *table)
{
        const uint32_t fixed = ring->layout.fixed[INFP_WIRE_ROW];
        const union infp_wire_cell *cells = (const void *) ((const char *) row + fixed);
        const unsigned n = (row->record.size - fixed) / sizeof(*cells);
        bool has_unknown = false;
        unsigned at = 0;

        for (unsigned i = 0; i < INFP_WIRE_COLUMNS; i++) {
                const enum infp_wire_cell_type type = row->types >> 2 * i & 3;

                if (type == INFP_WIRE_CELL_NONE)
                        continue;
                if (at == n)
                        return false;
                if (table->cell[i] < 0)
                        has_unknown = true;
                else if (!put_cell(ring, row, (unsigned) table->cell[i], type, cells[at]))
                        return false;
                at++;
        }
        ring->counts.unknown += has_unknown;
        return true;
}

/* The thread that wrote it. */
static void put_writer(struct infp_ring *ring, uint32_t tid, uint64_t thread_start)
{
        const char *name = ring_thread_name(ring, tid, thread_start);

        infp_row_i64(&ring->row, INFP_PYTHON_TID, tid);
        if (name)
                infp_row_bytes(&ring->row, INFP_PYTHON_THREAD, name, strlen(name));
}

int ring_give_row(struct infp_ring *ring, const struct ring_event *event, const struct infp_wire_row *row)
{
        const struct ring_table *table;
        int r = find_table(ring, row->table, &table);

        if (r == -ENOMEM)
                return r;
        if (r < 0) {
                ring->counts.broken++;
                return 0;
        }
        if (!table->table) {
                ring->counts.unknown++;
                return 0;
        }
        infp_row_begin(&ring->row, table->table, row->record.t_ns);
        if (ring->owner.process)
                infp_row_id(&ring->row, INFP_PYTHON_PROCESS, ring->owner.process);
        if (!has_cell(table, INFP_PYTHON_TID))
                put_writer(ring, row->record.tid, event->thread_start);
        if (!put_cells(ring, row, table)) {
                ring->counts.broken++;
                return 0;
        }
        ring->counts.rows[INFP_RING_PYTHON]++;
        return ring->put(ring->context, &ring->row);
}
