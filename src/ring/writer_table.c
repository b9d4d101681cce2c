/* Tables of rows: registered in memory of the process, as metrics are; each file that it opens, after fork too, gets the record of
 * a table when its first row comes. */
#include "ring/writer_parts.h"

#include <string.h>

enum { NAME_MAX_BYTES = 63, COLUMNS_MAX_BYTES = 1023 };

struct table {
        uint32_t name_size, columns_size;
        _Atomic uint64_t place; /* number of the file that has its record << 32 | id there */
        char name[NAME_MAX_BYTES + 1], columns[COLUMNS_MAX_BYTES + 1];
};
static struct table tables[INFP_WRITER_TABLES]; /* pages of zeros until there is one */
static _Atomic uint32_t n_tables;

static unsigned count_columns(const char *text)
{
        unsigned n = 0;

        for (; *text; text++)
                n += *text != ' ' && (text[1] == ' ' || !text[1]);
        return n;
}

/* Number + 1, or 0. The same name with other columns is another table to us: the reader puts both into one. */
static uint32_t find(const char *name, const char *columns)
{
        const uint32_t n = atomic_load_explicit(&n_tables, memory_order_acquire);

        for (uint32_t i = 0; i < n; i++)
                if (strcmp(tables[i].name, name) == 0 && strcmp(tables[i].columns, columns) == 0)
                        return i + 1;
        return 0;
}

/* Under metric_lock. */
static uint32_t add(const char *name, uint32_t name_size, const char *columns, uint32_t columns_size)
{
        const uint32_t n = atomic_load(&n_tables);
        struct table *table = &tables[n];

        if (n == INFP_WRITER_TABLES)
                return 0;
        /* With their ends: a fork may have come into the middle of another one here. */
        memcpy(table->name, name, name_size + 1);
        memcpy(table->columns, columns, columns_size + 1);
        table->name_size = name_size;
        table->columns_size = columns_size;
        atomic_store_explicit(&n_tables, n + 1, memory_order_release);
        return n + 1;
}

static uint32_t find_or_add(const char *name, const char *columns)
{
        const uint32_t name_size = (uint32_t) strnlen(name, NAME_MAX_BYTES + 1),
                       columns_size = (uint32_t) strnlen(columns, COLUMNS_MAX_BYTES + 1);
        struct infp_writer_page *page;
        uint32_t found;

        if (!name_size || name_size > NAME_MAX_BYTES || columns_size > COLUMNS_MAX_BYTES || !count_columns(columns) ||
            count_columns(columns) > INFP_WIRE_COLUMNS)
                return 0;
        found = find(name, columns);
        if (found || infp_writer_make_page() < 0)
                return found;
        page = atomic_load(&infp_writer_page);
        if (!infp_writer_wait_lock(&page->metric_lock))
                return 0;
        found = find(name, columns);
        if (!found)
                found = add(name, name_size, columns, columns_size);
        infp_writer_unlock(&page->metric_lock);
        return found;
}

uint32_t infp_writer_table(const char *name, const char *columns)
{
        struct infp_writer_quiet quiet;
        uint32_t found = 0;

        if (!atomic_exchange_explicit(&infp_writer_self.busy, 1, memory_order_relaxed)) {
                quiet = infp_writer_quiet_begin();
                found = find_or_add(name ? name : "", columns ? columns : "");
                infp_writer_quiet_end(quiet);
                infp_writer_end();
        }
        if (!found && atomic_load(&atomic_load(&infp_writer_page)->epoch))
                infp_writer_add(&infp_writer_file.head->refused_tables, 1);
        return found;
}

/* Of two threads that write it at once each may have a record of its own: both say the same. */
static uint32_t put(struct infp_writer_thread *thread, struct table *table)
{
        struct infp_wire_table record = { .record = { .kind = INFP_WIRE_TABLE, .t_ns = infp_writer_now_ns() } };
        const struct infp_writer_text texts[] = { { &record.name, table->name, table->name_size },
                                                  { &record.columns, table->columns, table->columns_size } };
        const uint64_t *at = infp_writer_put(thread, INFP_WIRE_STAY, &record, sizeof record, texts, 2);
        uint32_t id;

        if (!at)
                return 0;
        id = (uint32_t) (at - (const uint64_t *) (infp_writer_file.base + INFP_WRITER_CHUNKS_AT));
        atomic_store_explicit(&table->place, (uint64_t) infp_writer_file_number() << 32 | id, memory_order_release);
        return id;
}

uint32_t infp_writer_table_id(struct infp_writer_thread *thread, uint32_t number)
{
        struct table *table = number < INFP_WRITER_TABLES ? &tables[number] : NULL;
        uint64_t place;

        if (!table)
                return 0;
        place = atomic_load_explicit(&table->place, memory_order_acquire);
        if (__builtin_expect(place >> 32 == infp_writer_file_number(), 1))
                return (uint32_t) place;
        return table->name_size ? put(thread, table) : 0;
}
