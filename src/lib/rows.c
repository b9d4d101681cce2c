/* Rows of tables that infprof knows. */
#include "infprof/infprof.h"

#include <string.h>

#include "ring/wire.h"
#include "ring/writer.h"

enum { TEXTS_MAX = INFP_WIRE_MAX_RECORD - (int) sizeof(struct infp_wire_row) - 8 * INFP_WIRE_COLUMNS };
_Static_assert(INFP_CELL_NONE == (int) INFP_WIRE_CELL_NONE && INFP_CELL_INT == (int) INFP_WIRE_CELL_INT &&
                       INFP_CELL_DOUBLE == (int) INFP_WIRE_CELL_DOUBLE && INFP_CELL_TEXT == (int) INFP_WIRE_CELL_TEXT,
               "they are the same on the wire");

/* A row that is made: its record, and the texts that lie in it. */
struct draft {
        struct {
                struct infp_wire_row row;
                union infp_wire_cell cells[INFP_WIRE_COLUMNS];
        } record;
        uint32_t n_cells, room; /* room: bytes left for texts */
        unsigned n_texts;
        struct infp_writer_text texts[INFP_WIRE_COLUMNS];
};

/* A table is known by its number, which is the same in the file of each child. */
static infp_table *to_table(uint32_t number_and_1)
{
        return (infp_table *) (uintptr_t) number_and_1;
}

static uint32_t number_of(const infp_table *table)
{
        return (uint32_t) (uintptr_t) table - 1;
}

INFP_API infp_table *infp_table_open(const char *name, const char *columns)
{
        return to_table(infp_writer_table(name, columns));
}

/* Into the arena when it fits and will come again, else into the record. */
static union infp_wire_cell put_text(struct draft *draft, const char *text, bool is_once)
{
        const uint32_t name = is_once ? 0 : INFP_WRITER_NAME, most = draft->room > name ? draft->room : name;
        uint8_t *flags = &draft->record.row.record.flags;
        uint32_t size = infp_writer_measure(text, most, flags);
        union infp_wire_cell cell = { .text = { .at = is_once ? 0 : infp_writer_intern(text, size), .size = size } };

        if (cell.text.at || !size)
                return cell;
        if (size > draft->room)
                size = infp_writer_measure(text, draft->room, flags);
        draft->room -= (size + 7) & ~UINT32_C(7);
        draft->texts[draft->n_texts++] =
                (struct infp_writer_text){ &draft->record.cells[draft->n_cells].text, text, size };
        return cell;
}

static void put_cell(struct draft *draft, unsigned column, const infp_cell *cell)
{
        union infp_wire_cell *to = &draft->record.cells[draft->n_cells];
        uint64_t type = cell->type;

        switch (cell->type) {
        case INFP_CELL_INT:
                to->bits = (uint64_t) cell->value.i;
                break;
        case INFP_CELL_DOUBLE:
                memcpy(&to->bits, &cell->value.d, sizeof to->bits);
                break;
        case INFP_CELL_TEXT:
        case INFP_CELL_TEXT_ONCE:
                if (!cell->value.text)
                        return;
                *to = put_text(draft, cell->value.text, cell->type == INFP_CELL_TEXT_ONCE);
                type = INFP_CELL_TEXT;
                break;
        default:
                return;
        }
        draft->record.row.types |= type << 2 * column;
        draft->n_cells++;
}

static void put(struct infp_writer_thread *thread, uint32_t number, uint64_t t_ns, const infp_cell *cells, size_t n)
{
        struct draft draft;
        uint32_t id = infp_writer_table_id(thread, number);

        if (!id) { /* the table's own record found no room */
                atomic_fetch_add_explicit(&infp_writer_head()->dropped_full, 1, memory_order_relaxed);
                return;
        }
        draft.record.row = (struct infp_wire_row){ .record = { .kind = INFP_WIRE_ROW, .t_ns = t_ns }, .table = id };
        draft.n_cells = draft.n_texts = 0;
        draft.room = TEXTS_MAX;
        for (unsigned i = 0; i < n && i < INFP_WIRE_COLUMNS; i++)
                put_cell(&draft, i, &cells[i]);
        infp_writer_put(thread, INFP_WIRE_RECENT, &draft.record,
                        (uint32_t) (sizeof draft.record.row + draft.n_cells * sizeof draft.record.cells[0]),
                        draft.texts, draft.n_texts);
}

INFP_API void infp_row(infp_table *table, uint64_t t_ns, const infp_cell *cells, size_t n)
{
        struct infp_writer_thread *thread;
        uint64_t now_ns;

        if (infp_writer_is_off() || !table || !cells)
                return;
        now_ns = infp_writer_now_ns();
        thread = infp_writer_begin();
        if (!thread)
                return;
        /* Not later than now: readers take what lies ahead for damage. */
        put(thread, number_of(table), t_ns && t_ns < now_ns ? t_ns : now_ns, cells, n);
        infp_writer_end();
}
