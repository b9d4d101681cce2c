#include "agent/core/tables.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/wire.h"

enum {
        PATH = 512,
        MOST_FILES = 4096, /* of tables, which stay: libraries are rarely closed */
        NAME = 192,
};

/* The bytes of a file of the directory. */
struct file {
        uint64_t hash; /* of its name, of a file of a table */
        const uint8_t *bytes;
        uint64_t size;
};

static char path[PATH];
static size_t directory_size; /* with the slash */

/* Users of the space; -1: it is being replaced. */
static _Atomic int32_t users;
static struct infp_unwind_space space;
static uint64_t space_bytes; /* of its mappings */
static struct file offer;    /* that it was made of, which has some tables itself */
static uint64_t number;
static uint32_t last_id; /* of spaces: never used again, since cached rules name it */
static struct file files[MOST_FILES];
static unsigned n_files;

bool infp_agent_tables_set_directory(const char *directory)
{
        const size_t size = strlen(directory);

        if (size + 1 + NAME > sizeof(path))
                return false;
        memcpy(path, directory, size);
        path[size] = '/';
        directory_size = size + 1;
        return true;
}

static bool try_write(void)
{
        int32_t nobody = 0;

        return atomic_compare_exchange_strong_explicit(&users, &nobody, -1, memory_order_acq_rel, memory_order_relaxed);
}

const struct infp_unwind_space *infp_agent_tables_begin(uint64_t *ret_number)
{
        int32_t n = atomic_load_explicit(&users, memory_order_relaxed);

        do
                if (n < 0)
                        return NULL;
        while (!atomic_compare_exchange_weak_explicit(&users, &n, n + 1, memory_order_acquire, memory_order_relaxed));
        *ret_number = number;
        if (space.n_mappings)
                return &space;
        infp_agent_tables_end();
        return NULL;
}

void infp_agent_tables_end(void)
{
        atomic_fetch_sub_explicit(&users, 1, memory_order_release);
}

uint64_t infp_agent_tables_number(void)
{
        return __atomic_load_n(&number, __ATOMIC_RELAXED);
}

void infp_agent_tables_reset(void)
{
        number = 0;
        atomic_store(&users, 0);
}

/* Under an id of their own: what others have cached, or are about to, is of the id before. */
bool infp_agent_tables_forget(uint64_t begin, uint64_t end)
{
        uint64_t its_number;
        const struct infp_unwind_space *all = infp_agent_tables_begin(&its_number);
        bool ret = false;

        for (uint32_t i = 0; all && i < all->n_mappings; i++) {
                struct infp_unwind_mapping *mapping = (struct infp_unwind_mapping *) &all->mappings[i];

                if (mapping->begin < begin || mapping->end > end || mapping->begin == mapping->end)
                        continue;
                __atomic_store_n(&mapping->end, mapping->begin, __ATOMIC_RELAXED);
                ret = true;
        }
        if (ret)
                __atomic_store_n(&space.id, __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED), __ATOMIC_RELEASE);
        if (all)
                infp_agent_tables_end();
        return ret;
}

/* A copy: to touch a mapped file that is cut short would end the program. NULL: it cannot be read whole. */
static const uint8_t *copy_of(int fd, uint64_t size)
{
        uint8_t *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (bytes == MAP_FAILED)
                return NULL;
        for (uint64_t at = 0; at < size;) {
                const ssize_t n = pread(fd, bytes + at, size - at, (off_t) at);

                if (n <= 0) {
                        munmap(bytes, size);
                        return NULL;
                }
                at += (uint64_t) n;
        }
        return bytes;
}

/* Copies a file of the directory: ours, and nobody else may write to it. */
static const uint8_t *read_file(const char *name, uint64_t *ret_size)
{
        const size_t size = strlen(name);
        const uint8_t *bytes = NULL;
        struct stat status;
        int fd;

        if (!size || size >= NAME || memchr(name, '/', size))
                return NULL;
        memcpy(path + directory_size, name, size + 1);
        fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (fd < 0)
                return NULL;
        if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
            !(status.st_mode & 022) && status.st_size > 0)
                bytes = copy_of(fd, (uint64_t) status.st_size);
        close(fd);
        *ret_size = bytes ? (uint64_t) status.st_size : 0;
        return bytes;
}

static uint64_t hash_of(const char *name)
{
        uint64_t hash = UINT64_C(0xcbf29ce484222325);

        for (; *name; name++)
                hash = (hash ^ (unsigned char) *name) * UINT64_C(0x100000001b3);
        return hash;
}

static const struct file *table_file(const char *name)
{
        const uint64_t hash = hash_of(name);
        const uint8_t *bytes;
        uint64_t size;

        for (unsigned i = 0; i < n_files; i++)
                if (files[i].hash == hash)
                        return &files[i];
        if (n_files == MOST_FILES)
                return NULL;
        bytes = read_file(name, &size);
        if (!bytes)
                return NULL;
        files[n_files] = (struct file){ hash, bytes, size };
        return &files[n_files++];
}

/* Whether the table's parts lie in it: what they hold was checked by who offers it, and reading all of them here would take long. */
static const struct infp_unwind_table *table_at(const struct file *file, const struct infp_wire_mapping *mapping)
{
        const struct infp_unwind_table *table;

        if (!file || mapping->table_at % 8 || mapping->table_size < sizeof(*table) || mapping->table_at > file->size ||
            mapping->table_size > file->size - mapping->table_at)
                return NULL;
        table = (const void *) (file->bytes + mapping->table_at);
        return table->magic == INFP_UNWIND_TABLE_MAGIC && table->size == mapping->table_size ? table : NULL;
}

/* The text at a place of the file of tables, which ends by 0; NULL: none. */
static const char *text_at(const uint8_t *bytes, uint64_t size, uint32_t at)
{
        return at && at < size && memchr(bytes + at, 0, size - at) ? (const char *) bytes + at : NULL;
}

static void fill(const struct file *from, struct infp_unwind_mapping *ret)
{
        const struct infp_wire_tables *head = (const void *) from->bytes;
        const struct infp_wire_mapping *all = (const void *) (head + 1);

        for (uint32_t i = 0; i < head->n; i++) {
                const char *name = text_at(from->bytes, from->size, all[i].name_at);

                ret[i] = (struct infp_unwind_mapping){ .begin = all[i].begin,
                                                       .end = all[i].end,
                                                       .bias = all[i].bias,
                                                       .entry = all[i].entry,
                                                       .flags = all[i].flags,
                                                       .id = i };
                if (all[i].table_size)
                        ret[i].table = table_at(name ? table_file(name) : from, &all[i]);
        }
}

static bool is_sound(const uint8_t *bytes, uint64_t size, uint64_t wanted)
{
        const struct infp_wire_tables *head = (const void *) bytes;
        const struct infp_wire_mapping *all = (const void *) (head + 1);

        if (size < sizeof(*head) || memcmp(head->magic, INFP_WIRE_TABLES_MAGIC, sizeof(head->magic)) != 0 ||
            head->version != INFP_WIRE_TABLES_VERSION || head->number != wanted || !head->n ||
            head->n > INFP_WIRE_MAPPINGS || sizeof(*head) + head->n * sizeof(*all) > size)
                return false;
        for (uint32_t i = 0; i < head->n; i++)
                if (all[i].begin >= all[i].end || (i && all[i].begin < all[i - 1].end))
                        return false;
        return true;
}

static void unmap(const void *at, uint64_t size)
{
        if (at)
                munmap((void *) (uintptr_t) at, size);
}

/* Consumes the file. */
static void replace(const struct file *from)
{
        const struct infp_wire_tables *head = (const void *) from->bytes;
        const uint64_t room = head->n * sizeof(*space.mappings);
        void *mappings = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (mappings == MAP_FAILED) {
                unmap(from->bytes, from->size);
                return;
        }
        fill(from, mappings);
        unmap(space.mappings, space_bytes);
        unmap(offer.bytes, offer.size);
        offer = *from;
        space = (struct infp_unwind_space){ mappings, head->n, ++last_id };
        space_bytes = room;
        __atomic_store_n(&number, head->number, __ATOMIC_RELAXED);
}

static size_t put_number(char *to, uint64_t value)
{
        char digits[20];
        size_t n = 0;

        do
                digits[n++] = (char) ('0' + value % 10);
        while (value /= 10);
        for (size_t i = 0; i < n; i++)
                to[i] = digits[n - 1 - i];
        return n;
}

void infp_agent_tables_load(uint64_t wanted, int32_t pid, uint64_t start_ticks)
{
        char name[NAME] = INFP_WIRE_TABLES_FILE;
        size_t at = strlen(name);
        struct file from = { 0 };

        if (!directory_size || !try_write())
                return;
        at += put_number(name + at, (uint64_t) pid);
        name[at++] = '-';
        at += put_number(name + at, start_ticks);
        name[at++] = '-';
        at += put_number(name + at, wanted);
        name[at] = 0;
        from.bytes = read_file(name, &from.size);
        if (from.bytes && is_sound(from.bytes, from.size, wanted))
                replace(&from);
        else
                unmap(from.bytes, from.size);
        atomic_store_explicit(&users, 0, memory_order_release);
}
