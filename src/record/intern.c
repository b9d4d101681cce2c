#include "record/intern.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/time.h"

enum {
        MIN_PLACES = 256,
        FREE_BYTES = 256 * 1024, /* room for the largest row, always; untouched memory costs nothing */
        FORGET_SEGMENTS = 2,
};

/* What is named at least this often is kept while there is memory: rows of `processes` come every 60 s at the latest. */
static const uint64_t keep_ns = 120 * INFP_NS_PER_S;

/* A slot may hold an id that facts have named and no entity row has described yet: then it has no row. */
struct slot {
        struct infp_entity entity;
        uint64_t named_t_ns;
        uint32_t row;                                          /* its place, in words of the rows, from 1; 0: none */
        uint32_t seen_segment, named_segment, written_segment; /* segments count from 1; 0 = never */
};

struct packed {
        uint64_t t_ns, valid[2];
        uint32_t n_cells, text_size;
        uint32_t cap;  /* bytes of room after this head */
        uint32_t slot; /* number of its slot, from 0; the slot may have another row by now */
        union infp_cell cell[];
};

enum { WORD = 8 };

/* Slots and rows are one array each, in order of arrival; make_room closes the gaps. The hash table is separate, since most
 * of it is empty. */
struct infp_intern {
        uint32_t *places; /* number of a slot, from 1; 0: free */
        size_t n_places;  /* a power of two */
        struct slot *slots;
        size_t n_slots;
        char *rows;
        size_t rows_cap, rows_used;
        size_t max_bytes;
        uint32_t segment;
        bool is_new_segment; /* something may be due to be forgotten */
};

static size_t packed_size(const struct infp_row *row)
{
        size_t size = sizeof(struct packed) + (row->table->n_keys + row->table->n_columns) * sizeof(union infp_cell);

        return (size + row->text_size + WORD - 1) & ~(size_t) (WORD - 1);
}

static size_t live_size(const struct packed *row)
{
        return sizeof *row + row->cap;
}

static struct packed *row_at(const struct infp_intern *intern, size_t offset)
{
        return (struct packed *) (void *) (intern->rows + offset);
}

/* NULL: not described yet. */
static struct packed *row_of(const struct infp_intern *intern, const struct slot *slot)
{
        return slot->row ? row_at(intern, (size_t) (slot->row - 1) * WORD) : NULL;
}

static void set_row(struct slot *slot, size_t offset)
{
        slot->row = (uint32_t) (offset / WORD) + 1;
}

static size_t hash(const struct infp_table *table, uint64_t id)
{
        uint64_t key[2] = { (uintptr_t) table, id };

        return (size_t) infp_hash64(key, sizeof key, 0);
}

/* The place of the id, or the free place where it belongs. */
static uint32_t *find(const struct infp_intern *intern, const struct infp_table *table, uint64_t id)
{
        for (size_t i = hash(table, id);; i++) {
                uint32_t *place = &intern->places[i & (intern->n_places - 1)];
                const struct infp_entity *entity = &intern->slots[*place ? *place - 1 : 0].entity;

                if (!*place || (entity->id == id && entity->table == table))
                        return place;
        }
}

/* Three quarters of the places can be taken: untouched memory costs nothing. */
static size_t most_slots(size_t n_places)
{
        return n_places / 4 * 3;
}

int infp_intern_new(size_t max_bytes, struct infp_intern **ret)
{
        struct infp_intern *intern = calloc(1, sizeof *intern);

        if (!intern)
                return -ENOMEM;
        intern->max_bytes = max_bytes;
        intern->segment = 1;
        intern->n_places = MIN_PLACES;
        intern->places = calloc(intern->n_places, sizeof *intern->places);
        intern->slots = malloc(most_slots(intern->n_places) * sizeof *intern->slots);
        intern->rows_cap = 2 * FREE_BYTES;
        intern->rows = malloc(intern->rows_cap);
        if (!intern->places || !intern->slots || !intern->rows) {
                infp_intern_free(intern);
                return -ENOMEM;
        }
        *ret = intern;
        return 0;
}

struct infp_intern *infp_intern_free(struct infp_intern *intern)
{
        if (intern) {
                free(intern->places);
                free(intern->slots);
                free(intern->rows);
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
        intern->slots[intern->n_slots] = (struct slot){ .entity = { .table = table, .id = id }, .named_t_ns = t_ns };
        *place = (uint32_t) ++intern->n_slots;
        return &intern->slots[intern->n_slots - 1];
}

static bool says_the_same(const struct packed *packed, const struct infp_row *row)
{
        size_t cells = packed->n_cells * sizeof packed->cell[0];

        if (packed->valid[0] != row->valid[0] || packed->valid[1] != row->valid[1] ||
            packed->text_size != row->text_size)
                return false;
        for (unsigned i = 0; i < packed->n_cells; i++) /* cells without a value hold leftovers */
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
        struct packed *packed = row_of(intern, slot);

        if (packed && live_size(packed) >= size)
                return packed;
        if (size > intern->rows_cap - intern->rows_used)
                return NULL;
        packed = row_at(intern, intern->rows_used);
        packed->cap = (uint32_t) (size - sizeof *packed);
        packed->slot = (uint32_t) (slot - intern->slots);
        set_row(slot, intern->rows_used);
        intern->rows_used += size;
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
        if (slot->row && says_the_same(row_of(intern, slot), row))
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

void infp_intern_row(const struct infp_intern *intern, const struct infp_entity *entity, struct infp_row *ret)
{
        struct packed *packed = row_of(intern, (const struct slot *) entity);
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

/* Named since `since`, and recently. */
static bool is_live(const struct infp_intern *intern, const struct slot *slot, uint64_t since)
{
        return slot->named_t_ns >= since && slot->seen_segment + FORGET_SEGMENTS >= intern->segment;
}

/* Keeps the rows of the slots that stay. */
static void compact_rows(struct infp_intern *intern, uint64_t since)
{
        size_t to = 0, size;

        for (size_t from = 0; from < intern->rows_used; from += size) {
                struct packed *packed = row_at(intern, from);
                struct slot *slot = &intern->slots[packed->slot];

                size = live_size(packed);
                if (row_of(intern, slot) != packed || !is_live(intern, slot, since))
                        continue;
                memmove(intern->rows + to, packed, size);
                set_row(slot, to);
                to += size;
        }
        intern->rows_used = to;
}

static void compact_slots(struct infp_intern *intern, uint64_t since)
{
        size_t n = 0;

        for (size_t i = 0; i < intern->n_slots; i++) {
                if (!is_live(intern, &intern->slots[i], since))
                        continue;
                intern->slots[n] = intern->slots[i];
                if (intern->slots[n].row)
                        row_of(intern, &intern->slots[n])->slot = (uint32_t) n;
                n++;
        }
        intern->n_slots = n;
}

/* Large pieces grow in place, by the kernel's page tables. Without memory the old piece stays. */
static int resize(struct infp_intern *intern, size_t n_places, size_t rows_cap)
{
        uint32_t *places = calloc(n_places, sizeof *places);
        struct slot *slots = places ? realloc(intern->slots, most_slots(n_places) * sizeof *slots) : NULL;
        char *rows = realloc(intern->rows, rows_cap);

        if (rows) {
                intern->rows = rows;
                intern->rows_cap = rows_cap;
        }
        if (!slots) {
                free(places);
                memset(intern->places, 0, intern->n_places * sizeof *intern->places); /* they are filled again */
                return -ENOMEM;
        }
        free(intern->places);
        intern->places = places;
        intern->n_places = n_places;
        intern->slots = slots;
        return rows ? 0 : -ENOMEM;
}

static void fill_places(struct infp_intern *intern)
{
        for (size_t i = 0; i < intern->n_slots; i++) {
                const struct infp_entity *entity = &intern->slots[i].entity;

                *find(intern, entity->table, entity->id) = (uint32_t) i + 1;
        }
}

/* Slots and bytes of rows that stay when what was last named before `since` is forgotten. */
static void count_live(const struct infp_intern *intern, uint64_t since, size_t *ret_slots, size_t *ret_bytes)
{
        *ret_slots = *ret_bytes = 0;
        for (size_t i = 0; i < intern->n_slots; i++) {
                const struct slot *slot = &intern->slots[i];

                if (!is_live(intern, slot, since))
                        continue;
                *ret_slots += 1;
                *ret_bytes += sizeof *slot + (slot->row ? live_size(row_of(intern, slot)) : 0);
        }
}

int infp_intern_make_room(struct infp_intern *intern, uint64_t t_ns)
{
        uint64_t since = 0, age = keep_ns;
        size_t n_live, bytes, n_places = MIN_PLACES;
        int r;

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
        compact_rows(intern, since);
        compact_slots(intern, since);
        while (n_places < n_live * 3)
                n_places *= 2;
        bytes -= n_live * sizeof(struct slot);
        r = resize(intern, n_places, bytes + bytes / 2 + 2 * FREE_BYTES);
        fill_places(intern);
        return r;
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
