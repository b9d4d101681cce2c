#include "record/intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/time.h"

enum {
        MIN_PLACES = 256,
        FREE_BYTES = 256 * 1024, /* room for the largest row, always; memory that was never touched costs nothing */
        FORGET_SEGMENTS = 2,
};

/* What is named at least this often is kept as long as there is memory: rows of `processes` come each 60 s at the latest. */
static const uint64_t keep_ns = 120 * INFP_NS_PER_S;

/* A slot may stand for an id that facts have named and nobody has described yet: then there is no row. */
struct slot {
        struct infp_entity entity;
        struct packed *row;
        uint64_t named_t_ns;
        uint32_t seen_segment, named_segment, written_segment; /* segments count from 1; 0 = never */
};

struct packed {
        uint64_t t_ns, valid[2];
        uint32_t n_cells, text_size;
        uint32_t cap; /* bytes of room behind this head */
        union infp_cell cell[];
};

/* Slots and rows each lie in one piece, in the order in which they came; make_room copies what is kept into larger or smaller
 * pieces. The hash table is apart, since most of it is empty. */
struct infp_intern {
        uint32_t *places; /* number of a slot, from 1; 0: free */
        size_t n_places;  /* a power of two */
        struct slot *slots;
        size_t n_slots;
        char *rows;
        size_t rows_cap, rows_used;
        size_t max_bytes;
        uint32_t segment;
        bool is_new_segment; /* there may be something to forget */
};

static size_t packed_size(const struct infp_row *row)
{
        size_t size = sizeof(struct packed) + (row->table->n_keys + row->table->n_columns) * sizeof(union infp_cell);

        return (size + row->text_size + 7) & ~(size_t) 7;
}

static size_t live_size(const struct packed *row)
{
        return sizeof *row + row->cap;
}

static size_t hash(const struct infp_table *table, uint64_t id)
{
        uint64_t key[2] = { (uintptr_t) table, id };

        return (size_t) infp_hash64(key, sizeof key, 0);
}

/* Where the id is, or the free place where it belongs. */
static uint32_t *find(const struct infp_intern *intern, const struct infp_table *table, uint64_t id)
{
        for (size_t i = hash(table, id);; i++) {
                uint32_t *place = &intern->places[i & (intern->n_places - 1)];
                const struct infp_entity *entity = &intern->slots[*place ? *place - 1 : 0].entity;

                if (!*place || (entity->id == id && entity->table == table))
                        return place;
        }
}

/* The caller knows that there is room. */
static struct slot *add(struct infp_intern *intern, uint32_t *place, struct slot slot)
{
        intern->slots[intern->n_slots] = slot;
        *place = (uint32_t) ++intern->n_slots;
        return &intern->slots[intern->n_slots - 1];
}

/* Three quarters of the places can be taken: memory that was never touched costs nothing. */
static size_t most_slots(size_t n_places)
{
        return n_places / 4 * 3;
}

static int get_memory(struct infp_intern *intern, size_t n_places, size_t rows_cap)
{
        intern->n_places = n_places;
        intern->places = calloc(n_places, sizeof *intern->places);
        intern->slots = malloc(most_slots(n_places) * sizeof *intern->slots);
        intern->rows_cap = rows_cap;
        intern->rows = malloc(rows_cap);
        return intern->places && intern->slots && intern->rows ? 0 : -ENOMEM;
}

static void free_memory(struct infp_intern *intern)
{
        free(intern->places);
        free(intern->slots);
        free(intern->rows);
}

int infp_intern_new(size_t max_bytes, struct infp_intern **ret)
{
        struct infp_intern *intern = calloc(1, sizeof *intern);

        if (!intern)
                return -ENOMEM;
        intern->max_bytes = max_bytes;
        intern->segment = 1;
        if (get_memory(intern, MIN_PLACES, 2 * FREE_BYTES) < 0) {
                infp_intern_free(intern);
                return -ENOMEM;
        }
        *ret = intern;
        return 0;
}

struct infp_intern *infp_intern_free(struct infp_intern *intern)
{
        if (intern) {
                free_memory(intern);
                free(intern);
        }
        return NULL;
}

/* Takes a slot for the id, new or known. NULL: the table is three quarters full. */
static struct slot *get_slot(struct infp_intern *intern, const struct infp_table *table, uint64_t id, uint64_t t_ns)
{
        uint32_t *place = find(intern, table, id);

        if (*place)
                return &intern->slots[*place - 1];
        if (intern->n_slots >= most_slots(intern->n_places))
                return NULL;
        return add(intern, place, (struct slot){ .entity = { .table = table, .id = id }, .named_t_ns = t_ns });
}

static bool says_the_same(const struct packed *packed, const struct infp_row *row)
{
        size_t cells = packed->n_cells * sizeof packed->cell[0];

        if (packed->valid[0] != row->valid[0] || packed->valid[1] != row->valid[1] ||
            packed->text_size != row->text_size)
                return false;
        for (unsigned i = 0; i < packed->n_cells; i++) /* cells without a value hold whatever was there */
                if (infp_row_has(row, i) && memcmp(&packed->cell[i], &row->cell[i], sizeof row->cell[i]) != 0)
                        return false;
        return packed->text_size == 0 || memcmp((const char *) packed->cell + cells, row->text, row->text_size) == 0;
}

static void pack(struct packed *packed, const struct infp_row *row)
{
        size_t cells;

        packed->t_ns = row->t_ns;
        packed->valid[0] = row->valid[0];
        packed->valid[1] = row->valid[1];
        packed->n_cells = row->table->n_keys + row->table->n_columns;
        packed->text_size = row->text_size;
        cells = packed->n_cells * sizeof packed->cell[0];
        memcpy(packed->cell, row->cell, cells);
        if (row->text_size)
                memcpy((char *) packed->cell + cells, row->text, row->text_size);
}

/* Memory for the row in the slot; the old place when it fits there. */
static struct packed *get_packed(struct infp_intern *intern, struct slot *slot, size_t size)
{
        struct packed *packed = slot->row;

        if (packed && live_size(packed) >= size)
                return packed;
        if (size > intern->rows_cap - intern->rows_used)
                return NULL;
        packed = (struct packed *) (void *) (intern->rows + intern->rows_used);
        packed->cap = (uint32_t) (size - sizeof *packed);
        intern->rows_used += size;
        slot->row = packed;
        return packed;
}

int infp_intern_put(struct infp_intern *intern, const struct infp_row *row, struct infp_entity **ret)
{
        struct packed *packed;
        struct slot *slot;

        if (!infp_row_has(row, 0))
                return 0;
        slot = get_slot(intern, row->table, row->cell[0].u64, row->t_ns);
        if (!slot)
                return -ENOSPC;
        slot->seen_segment = intern->segment;
        if (slot->row && says_the_same(slot->row, row))
                return 0;
        packed = get_packed(intern, slot, packed_size(row));
        if (!packed)
                return -ENOSPC;
        pack(packed, row);
        slot->written_segment = 0;
        if (slot->named_segment != intern->segment)
                return 0;
        slot->written_segment = intern->segment;
        *ret = &slot->entity;
        return 1;
}

int infp_intern_refer(struct infp_intern *intern, const struct infp_table *table, uint64_t id, uint64_t t_ns,
                      struct infp_entity **ret)
{
        struct slot *slot = get_slot(intern, table, id, t_ns);

        if (!slot)
                return -ENOSPC;
        slot->seen_segment = slot->named_segment = intern->segment;
        slot->named_t_ns = t_ns;
        if (!slot->row || slot->written_segment == intern->segment)
                return 0;
        slot->written_segment = intern->segment;
        *ret = &slot->entity;
        return 1;
}

void infp_intern_row(const struct infp_entity *entity, struct infp_row *ret)
{
        const struct slot *slot = (const struct slot *) entity;
        struct packed *packed = slot->row;
        size_t cells = packed->n_cells * sizeof packed->cell[0];

        ret->table = entity->table;
        ret->t_ns = packed->t_ns;
        ret->valid[0] = packed->valid[0];
        ret->valid[1] = packed->valid[1];
        memcpy(ret->cell, packed->cell, cells);
        ret->text = (char *) packed->cell + cells;
        ret->text_size = ret->text_cap = packed->text_size;
}

void infp_intern_next_segment(struct infp_intern *intern)
{
        intern->segment++;
        intern->is_new_segment = true;
}

static bool is_stale(const struct infp_intern *intern, const struct slot *slot)
{
        return slot->seen_segment + FORGET_SEGMENTS < intern->segment;
}

/* Copies what was named since `since` and is not stale into new memory. */
static int copy_live(struct infp_intern *intern, uint64_t since, size_t n_places, size_t rows_cap)
{
        struct infp_intern new = { .max_bytes = intern->max_bytes, .segment = intern->segment };

        if (get_memory(&new, n_places, rows_cap) < 0) {
                free_memory(&new);
                return -ENOMEM;
        }
        for (size_t i = 0; i < intern->n_slots; i++) {
                const struct slot *from = &intern->slots[i];
                struct slot *to;

                if (from->named_t_ns < since || is_stale(intern, from))
                        continue;
                to = add(&new, find(&new, from->entity.table, from->entity.id), *from);
                if (!from->row)
                        continue;
                to->row = memcpy(new.rows + new.rows_used, from->row, live_size(from->row));
                new.rows_used += live_size(from->row);
        }
        free_memory(intern);
        *intern = new;
        return 0;
}

/* Slots and bytes of rows that stay when what was named before `since` is forgotten. */
static void count_live(const struct infp_intern *intern, uint64_t since, size_t *ret_slots, size_t *ret_bytes)
{
        *ret_slots = *ret_bytes = 0;
        for (size_t i = 0; i < intern->n_slots; i++) {
                const struct slot *slot = &intern->slots[i];

                if (slot->named_t_ns < since || is_stale(intern, slot))
                        continue;
                *ret_slots += 1;
                *ret_bytes += sizeof *slot + (slot->row ? live_size(slot->row) : 0);
        }
}

int infp_intern_make_room(struct infp_intern *intern, uint64_t t_ns)
{
        uint64_t since = 0, age = keep_ns;
        size_t n_live, bytes, n_places = MIN_PLACES;

        if (!intern->is_new_segment && intern->n_slots < intern->n_places / 2 &&
            intern->rows_cap - intern->rows_used >= FREE_BYTES)
                return 0;
        intern->is_new_segment = false;
        count_live(intern, since, &n_live, &bytes);
        while (bytes > intern->max_bytes && age > 0) {
                since = t_ns > age ? t_ns - age : 0;
                count_live(intern, since, &n_live, &bytes);
                age /= 2;
        }
        if (bytes > intern->max_bytes) { /* all of it within this moment */
                since = UINT64_MAX;
                n_live = bytes = 0;
        }
        while (n_places < n_live * 3)
                n_places *= 2;
        bytes -= n_live * sizeof(struct slot);
        return copy_live(intern, since, n_places, bytes + bytes / 2 + 2 * FREE_BYTES);
}

bool infp_intern_has(const struct infp_intern *intern, const struct infp_table *table, uint64_t id)
{
        const uint32_t place = *find(intern, table, id);

        return place && intern->slots[place - 1].row;
}

size_t infp_intern_count(const struct infp_intern *intern)
{
        return intern->n_slots;
}

size_t infp_intern_bytes(const struct infp_intern *intern)
{
        return intern->rows_used + intern->n_slots * sizeof(struct slot) + intern->n_places * sizeof(*intern->places);
}
