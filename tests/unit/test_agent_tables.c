/* The tables that a sampler inside a process is given: what it takes, and what it leaves alone without harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/core/tables.h"
#include "ring/wire.h"

static char directory[] = "/tmp/infprof-tables-XXXXXX";

struct offer {
        struct infp_wire_tables head;
        struct infp_wire_mapping mapping[2];
        char name[16];
        _Alignas(8) struct infp_unwind_table table;
};

static struct offer sound(uint64_t number)
{
        struct offer offer = {
                .head = { .version = INFP_WIRE_TABLES_VERSION, .n = 2, .number = number },
                .mapping = { { .begin = 0x1000, .end = 0x2000, .bias = 0x800, .entry = 0x1800 },
                             { .begin = 0x3000,
                               .end = 0x4000,
                               .table_at = offsetof(struct offer, table),
                               .table_size = sizeof(struct infp_unwind_table) } },
                .name = "other",
                .table = { .magic = INFP_UNWIND_TABLE_MAGIC, .size = sizeof(struct infp_unwind_table) },
        };

        memcpy(offer.head.magic, INFP_WIRE_TABLES_MAGIC, sizeof(offer.head.magic));
        return offer;
}

static void put(const char *name, const void *bytes, size_t size, mode_t mode)
{
        char path[256];
        int fd;

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        unlink(path);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600); /* a test's own folder */
        assert_true(fd >= 0);
        assert_int_equal(write(fd, bytes, size), size);
        assert_int_equal(fchmod(fd, mode), 0);
        close(fd);
}

static void give(const struct offer *offer, size_t size, mode_t mode)
{
        char name[64];

        snprintf(name, sizeof(name), ".sampler-7-99-%llu", (unsigned long long) offer->head.number);
        put(name, offer, size, mode);
        infp_agent_tables_load(offer->head.number, 7, 99);
}

static const struct infp_unwind_space *now(void)
{
        uint64_t number;
        const struct infp_unwind_space *space = infp_agent_tables_begin(&number);

        if (space)
                infp_agent_tables_end();
        return space;
}

static void test_sound(void **state)
{
        struct offer offer = sound(1);
        const struct infp_unwind_space *space;
        uint64_t number;
        uint32_t id;

        (void) state;
        assert_null(now());
        assert_int_equal(infp_agent_tables_number(), 0);
        give(&offer, sizeof(offer), 0600);
        assert_int_equal(infp_agent_tables_number(), 1);
        space = now();
        assert_non_null(space);
        assert_int_equal(space->n_mappings, 2);
        assert_int_equal(space->mappings[0].bias, 0x800);
        assert_int_equal(space->mappings[0].entry, 0x1800);
        assert_null(space->mappings[0].table);
        assert_non_null(space->mappings[1].table);
        assert_int_equal(space->mappings[1].table->size, sizeof(struct infp_unwind_table));
        id = space->id;

        /* A table in a file of its own; it stays mapped when the next tables name it again. */
        put("other", &offer.table, sizeof(offer.table), 0600);
        offer = sound(2);
        offer.mapping[0].name_at = offsetof(struct offer, name);
        offer.mapping[0].table_size = sizeof(struct infp_unwind_table);
        give(&offer, sizeof(offer), 0600);
        assert_int_equal(infp_agent_tables_number(), 2);
        assert_non_null(now()->mappings[0].table);
        assert_int_not_equal(now()->id, id);

        /* While a walk uses them they stay. */
        assert_ptr_equal(infp_agent_tables_begin(&number), space);
        assert_int_equal(number, 2);
        offer.head.number = 3;
        give(&offer, sizeof(offer), 0600);
        assert_int_equal(infp_agent_tables_number(), 2);
        infp_agent_tables_end();
        infp_agent_tables_load(3, 7, 99);
        assert_int_equal(infp_agent_tables_number(), 3);
}

/* Files that are cut short later: what was taken from them stays. */
static void test_cut_short(void **state)
{
        struct offer offer = sound(4);
        char path[256];

        (void) state;
        put("cut", &offer.table, sizeof(offer.table), 0600);
        offer.mapping[0].name_at = offsetof(struct offer, name);
        offer.mapping[0].table_size = sizeof(struct infp_unwind_table);
        memcpy(offer.name, "cut", 4);
        give(&offer, sizeof(offer), 0600);
        snprintf(path, sizeof(path), "%s/cut", directory);
        assert_int_equal(truncate(path, 0), 0);
        snprintf(path, sizeof(path), "%s/.sampler-7-99-4", directory);
        assert_int_equal(truncate(path, 0), 0);
        for (unsigned i = 0; i < 2; i++)
                assert_int_equal(now()->mappings[i].table->size, sizeof(struct infp_unwind_table));
}

/* None of these replaces what is there. */
static void test_refused(void **state)
{
        const uint64_t before = infp_agent_tables_number();

        (void) state;
        for (unsigned i = 0; i < 9; i++) {
                struct offer offer = sound(10 + i);
                size_t size = sizeof(offer);
                mode_t mode = 0600;

                switch (i) {
                case 0:
                        offer.head.magic[0] = 'x';
                        break;
                case 1:
                        offer.head.version++;
                        break;
                case 2:
                        offer.head.n = 0;
                        break;
                case 3:
                        offer.head.n = UINT32_MAX;
                        break;
                case 4:
                        size = sizeof(offer.head) + sizeof(offer.mapping[0]);
                        break;
                case 5:
                        size = 3;
                        break;
                case 6:
                        offer.mapping[1].begin = 0x1800; /* in the one before */
                        break;
                case 7:
                        offer.mapping[0].end = offer.mapping[0].begin;
                        break;
                default:
                        mode = 0622; /* others could write to it */
                }
                give(&offer, size, mode);
                assert_int_equal(infp_agent_tables_number(), before);
        }
        infp_agent_tables_load(77, 7, 99); /* no such file */
        assert_int_equal(infp_agent_tables_number(), before);
}

/* Mappings are taken; tables that are not sound are left out. */
static void test_broken_tables(void **state)
{
        (void) state;
        for (unsigned i = 0; i < 8; i++) {
                struct offer offer = sound(100 + i);
                struct infp_wire_mapping *mapping = &offer.mapping[1];

                switch (i) {
                case 0:
                        mapping->table_at = sizeof(offer);
                        break;
                case 1:
                        mapping->table_at = UINT64_MAX - 7;
                        break;
                case 2:
                        mapping->table_size = UINT64_MAX;
                        break;
                case 3:
                        mapping->table_size = 8;
                        break;
                case 4:
                        offer.table.magic++;
                        break;
                case 5:
                        mapping->table_at++;
                        break;
                case 6:
                        mapping->name_at = sizeof(offer) + 5;
                        offer.table.size++;
                        break;
                default:
                        mapping->name_at = offsetof(struct offer, name);
                        memcpy(offer.name, "../../etc/hosts", sizeof(offer.name));
                }
                give(&offer, sizeof(offer), 0600);
                assert_int_equal(infp_agent_tables_number(), 100 + i);
                assert_int_equal(now()->n_mappings, 2);
                assert_null(now()->mappings[1].table);
        }
}

static int make_directory(void **state)
{
        (void) state;
        return mkdtemp(directory) && infp_agent_tables_set_directory(directory) ? 0 : -1;
}

static int remove_directory(void **state)
{
        char command[64];

        (void) state;
        snprintf(command, sizeof(command), "rm -r %s", directory);
        return system(command);
}

/* What is forgotten has no length, under another id, until there are newer ones. */
static void test_forgotten(void **state)
{
        struct offer offer = sound(1);
        uint32_t id;

        (void) state;
        infp_agent_tables_reset();
        give(&offer, sizeof(offer), 0600);
        assert_non_null(now());
        id = now()->id;
        assert_false(infp_agent_tables_forget(0x2000, 0x3fff) || infp_agent_tables_forget(0x5000, 0x9000));
        assert_int_equal(now()->id, id);
        assert_true(infp_agent_tables_forget(0x2000, 0x4000));
        assert_false(infp_agent_tables_forget(0x2000, 0x4000));
        assert_int_not_equal(now()->id, id);
        assert_int_equal(now()->mappings[1].end, now()->mappings[1].begin);
        assert_int_equal(now()->mappings[0].end, 0x2000);
        offer.head.number = 2;
        give(&offer, sizeof(offer), 0600);
        assert_int_equal(now()->mappings[1].end, 0x4000);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_sound),         cmocka_unit_test(test_cut_short), cmocka_unit_test(test_refused),
                cmocka_unit_test(test_broken_tables), cmocka_unit_test(test_forgotten),
        };

        return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
