#include "record/shelf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"
#include "model/tables.h"

enum { FIRST_SLOTS = 16, GROW_TEXT = 4096 };

void infp_shelf_init(struct infp_shelf *s, const struct infp_table *table)
{
        const int state = infp_table_find(table, "pState");

        *s = (struct infp_shelf){
                .table = table,
                .n_cells = (unsigned) table->n_keys + table->n_columns,
                /* `sources` declares no key, since its rows are events; its first four cells name the source whose state a
                 * row gives. */
                .n_key_cells = table == &infp_table_sources ? INFP_SOURCES_STATE : table->n_keys,
                .state_cell = state < 0 ? -1 : state - INFP_FIXED_COLUMNS,
                .entity_cell = -1,
        };
        for (unsigned i = 0; i < s->n_key_cells; i++)
                if (infp_table_column(table, INFP_FIXED_COLUMNS + i)->type == INFP_ID64)
                        s->entity_cell = (int) i;
}

void infp_shelf_done(struct infp_shelf *s)
{
        for (size_t i = 0; i < s->n_slots; i++) {
                free(s->slots[i].cells);
                infp_str_done(&s->slots[i].texts);
                infp_str_done(&s->slots[i].view_text);
        }
        free(s->slots);
        free(s->order);
        free(s->spare);
        infp_map_done(&s->by_key);
        s->view = infp_builder_free(s->view);
        s->one = infp_builder_free(s->one);
        *s = (struct infp_shelf){ 0 };
}

static enum infp_type type_of(const struct infp_shelf *s, unsigned cell)
{
        return infp_table_column(s->table, INFP_FIXED_COLUMNS + cell)->type;
}

static bool slot_has(const struct infp_slot *slot, unsigned cell)
{
        return slot->valid[cell / 64] >> (cell % 64) & 1;
}

static union infp_cell cell_of(const struct infp_batch *batch, enum infp_type type, unsigned column, uint32_t row)
{
        union infp_cell cell = { .u64 = 0 };

        switch (type) {
        case INFP_U64:
        case INFP_ID64:
                cell.u64 = infp_batch_u64(batch, column, row);
                break;
        case INFP_F64:
                cell.f64 = infp_batch_f64(batch, column, row);
                break;
        case INFP_BOOL:
                cell.b = infp_batch_bool(batch, column, row);
                break;
        case INFP_I64:
        case INFP_TS_NS:
                cell.i64 = infp_batch_i64(batch, column, row);
                break;
        case INFP_STR:
                break;
        }
        return cell;
}

/* Without keys all rows have the same. */
static uint64_t key_of(const struct infp_shelf *s, const struct infp_batch *batch, uint32_t row)
{
        uint64_t hash = 0;

        for (unsigned i = 0; i < s->n_key_cells; i++) {
                const unsigned column = INFP_FIXED_COLUMNS + i;
                union infp_cell cell;
                size_t size = sizeof(cell.u64);
                const void *data = &cell.u64;

                if (!infp_batch_has(batch, column, row)) {
                        hash = infp_hash64("", 0, hash + 2);
                        continue;
                }
                cell = cell_of(batch, type_of(s, i), column, row);
                if (type_of(s, i) == INFP_STR)
                        data = infp_batch_str(batch, column, row, &size);
                hash = infp_hash64(data, size, hash + 1);
        }
        return hash;
}

struct infp_slot *infp_shelf_by_id(const struct infp_shelf *s, uint64_t id)
{
        const uint64_t *index = infp_map_get(&s->by_key, infp_hash64(&id, sizeof(id), 1));

        return index && s->entity_cell == 0 && s->n_key_cells == 1 ? &s->slots[*index] : NULL;
}

static int compare_texts(const struct infp_slot *a, const struct infp_slot *b, unsigned i)
{
        const uint32_t n = a->cells[i].text.size, k = b->cells[i].text.size;
        const uint32_t shorter = n < k ? n : k;
        const int r = shorter ? memcmp(a->texts.data + a->cells[i].text.offset, b->texts.data + b->cells[i].text.offset,
                                       shorter)
                              : 0;

        return r ? r : (n > k) - (n < k);
}

static int compare_cells(enum infp_type type, const struct infp_slot *a, const struct infp_slot *b, unsigned i)
{
        const union infp_cell x = a->cells[i], y = b->cells[i];

        if (!slot_has(a, i) || !slot_has(b, i))
                return slot_has(a, i) - slot_has(b, i);
        switch (type) {
        case INFP_STR:
                return compare_texts(a, b, i);
        case INFP_F64:
                return (x.f64 > y.f64) - (x.f64 < y.f64);
        case INFP_BOOL:
                return x.b - y.b;
        case INFP_U64:
        case INFP_ID64:
                return (x.u64 > y.u64) - (x.u64 < y.u64);
        case INFP_I64:
        case INFP_TS_NS:
                return (x.i64 > y.i64) - (x.i64 < y.i64);
        }
        return 0;
}

static int compare_keys(const struct infp_shelf *s, const struct infp_slot *a, const struct infp_slot *b)
{
        for (unsigned i = 0; i < s->n_key_cells; i++) {
                const int r = compare_cells(type_of(s, i), a, b, i);

                if (r)
                        return r;
        }
        return 0;
}

/* By key, so that core 2 comes before core 3 even if it returned later. Ids are hashes, whose order means nothing: those stay
 * in order of arrival. */
static void put_in_order(struct infp_shelf *s, uint32_t index)
{
        size_t place = s->n_order;

        if (s->entity_cell < 0)
                while (place && compare_keys(s, infp_shelf_at(s, place - 1), &s->slots[index]) > 0)
                        place--;
        memmove(s->order + place + 1, s->order + place, (s->n_order - place) * sizeof(*s->order));
        s->order[place] = index;
        s->n_order++;
}

static int grow(struct infp_shelf *s)
{
        size_t cap = s->cap_slots, order_cap = cap, spare_cap = cap;

        if (!INFP_MAKE_ROOM(s->slots, s->cap_slots, cap, FIRST_SLOTS) ||
            !INFP_MAKE_ROOM(s->order, s->cap_slots, order_cap, FIRST_SLOTS) ||
            !INFP_MAKE_ROOM(s->spare, s->cap_slots, spare_cap, FIRST_SLOTS))
                return -ENOMEM;
        s->cap_slots = cap;
        return 0;
}

/* A spare slot, or a new one with its memory. */
static int slot_new(struct infp_shelf *s, uint32_t *ret)
{
        union infp_cell *cells;

        if (s->n_spare) {
                *ret = s->spare[--s->n_spare];
                return 0;
        }
        if (s->n_slots >= INFP_SHELF_SLOTS)
                return -ENOSPC;
        if (s->n_slots == s->cap_slots)
                INFP_TRY(grow(s));
        cells = calloc(s->n_cells + 1, sizeof(*cells));
        if (!cells)
                return -ENOMEM;
        s->slots[s->n_slots] = (struct infp_slot){ .cells = cells };
        *ret = (uint32_t) s->n_slots++;
        return 0;
}

static bool has_values(const struct infp_shelf *s, const struct infp_slot *slot)
{
        for (unsigned i = s->n_key_cells; i < s->n_cells; i++)
                if (slot_has(slot, i))
                        return true;
        return false;
}

static int fill(struct infp_shelf *s, struct infp_slot *slot, const struct infp_batch *batch, uint32_t row,
                uint64_t tick)
{
        infp_str_clear(&slot->texts);
        slot->valid[0] = slot->valid[1] = 0;
        slot->t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        slot->unix_ns = infp_batch_i64(batch, 1, row);
        slot->tick = tick;
        slot->is_last = false;
        slot->version = ++s->n_versions;
        for (unsigned i = 0; i < s->n_cells; i++) {
                const unsigned column = INFP_FIXED_COLUMNS + i;
                size_t size;
                const char *text;

                if (!infp_batch_has(batch, column, row))
                        continue;
                slot->cells[i] = cell_of(batch, type_of(s, i), column, row);
                if (type_of(s, i) == INFP_STR) {
                        text = infp_batch_str(batch, column, row, &size);
                        slot->cells[i].text.offset = (uint32_t) slot->texts.size;
                        slot->cells[i].text.size = (uint32_t) size;
                        infp_str_put(&slot->texts, text, size);
                        slot->is_last |= (int) i == s->state_cell && size == 1 && *text == 'X';
                }
                slot->valid[i / 64] |= UINT64_C(1) << (i % 64);
        }
        /* For a thing whose rows have no state, a row without values means that no more follows (engine_samples). */
        if (s->table->on_change && s->entity_cell >= 0 && s->state_cell < 0)
                slot->is_last = !has_values(s, slot);
        if (!slot->texts.failed)
                return 0;
        infp_str_done(&slot->texts);
        slot->valid[0] = slot->valid[1] = 0;
        return -ENOMEM;
}

int infp_shelf_take(struct infp_shelf *s, const struct infp_batch *batch, uint32_t row, uint64_t tick)
{
        const uint64_t key = key_of(s, batch, row);
        const uint64_t *known = infp_map_get(&s->by_key, key);
        uint32_t index;
        int r;

        if (known)
                return fill(s, &s->slots[*known], batch, row, tick);
        r = slot_new(s, &index);
        if (r < 0)
                return r;
        r = infp_map_put(&s->by_key, key, index);
        if (r >= 0)
                r = fill(s, &s->slots[index], batch, row, tick);
        if (r < 0) {
                infp_map_delete(&s->by_key, key);
                s->spare[s->n_spare++] = index;
                return r;
        }
        s->slots[index].key = key;
        if (!s->n_changes++)
                s->first_key = key;
        put_in_order(s, index);
        return 0;
}

int64_t infp_shelf_first(const struct infp_shelf *s)
{
        const uint64_t *index = s->n_changes ? infp_map_get(&s->by_key, s->first_key) : NULL;

        for (size_t place = 0; index && place < s->n_order; place++)
                if (s->order[place] == *index)
                        return (int64_t) place;
        return -1;
}

void infp_shelf_drop(struct infp_shelf *s, size_t place)
{
        const uint32_t index = s->order[place];

        s->n_changes++;
        infp_map_delete(&s->by_key, s->slots[index].key);
        memmove(s->order + place, s->order + place + 1, (s->n_order - place - 1) * sizeof(*s->order));
        s->n_order--;
        s->spare[s->n_spare++] = index;
}

void infp_shelf_drop_unmarked(struct infp_shelf *s)
{
        size_t kept = 0;

        s->n_changes++;
        for (size_t place = 0; place < s->n_order; place++) {
                const uint32_t index = s->order[place];

                if (s->slots[index].mark) {
                        s->order[kept++] = index;
                } else {
                        infp_map_delete(&s->by_key, s->slots[index].key);
                        s->spare[s->n_spare++] = index;
                }
        }
        s->n_order = kept;
}

/* A builder takes the row as it is: the texts are in the slot. */
static int append(const struct infp_shelf *s, struct infp_builder *b, const struct infp_slot *slot)
{
        struct infp_row row;

        row.table = s->table;
        row.t_ns = slot->t_ns;
        row.valid[0] = slot->valid[0];
        row.valid[1] = slot->valid[1];
        memcpy(row.cell, slot->cells, s->n_cells * sizeof(*row.cell));
        row.text = slot->texts.data;
        row.text_size = row.text_cap = (uint32_t) slot->texts.size;
        return infp_builder_append(b, &row, slot->unix_ns);
}

/* Appends to an empty builder, which grows until the row fits. */
static bool append_first(const struct infp_shelf *s, struct infp_builder *b, const struct infp_slot *slot)
{
        infp_builder_reset(b);
        if (append(s, b, slot) >= 0)
                return true;
        return infp_builder_grow(b, slot->texts.size + 1) >= 0 && append(s, b, slot) >= 0;
}

bool infp_shelf_row(struct infp_shelf *s, const struct infp_slot *slot, struct infp_batch *ret)
{
        if (!s->one)
                s->one = infp_builder_new(s->table, 1);
        if (!s->one || !append_first(s, s->one, slot))
                return false;
        *ret = infp_builder_batch(s->one, 0);
        return true;
}

/* Appends the rows from `from` on; returns how many went in. */
static size_t append_from(const struct infp_shelf *s, struct infp_builder *b, uint32_t from)
{
        size_t n = 0;

        infp_builder_reset(b);
        while (from + n < s->n_order && append(s, b, infp_shelf_at(s, from + n)) >= 0)
                n++;
        return n;
}

bool infp_shelf_rows(struct infp_shelf *s, uint32_t from, struct infp_batch *ret)
{
        size_t n;

        if (from >= s->n_order)
                return false;
        if (!s->view)
                s->view = infp_builder_new(s->table, FIRST_SLOTS);
        if (!s->view)
                return false;
        /* Grows until all rows fit, or a batch is full. Later calls find the room. */
        for (;;) {
                n = append_from(s, s->view, from);
                if (from + n == s->n_order || n == INFP_BATCH_ROWS) /* bound: one batch; the next starts there */
                        break;
                infp_builder_reset(s->view);
                if (infp_builder_grow(s->view, infp_shelf_at(s, from + n)->texts.size + GROW_TEXT) < 0) {
                        n = append_from(s, s->view, from);
                        break;
                }
        }
        *ret = infp_builder_batch(s->view, 0);
        return n > 0;
}
