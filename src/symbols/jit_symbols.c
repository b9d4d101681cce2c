#include "symbols/jit_symbols.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/sort.h"
#include "symbols/name.h"

int infp_jit_symbols_new(struct infp_jit_symbols **ret)
{
        *ret = calloc(1, sizeof(**ret));
        return *ret ? 0 : -ENOMEM;
}

struct infp_jit_symbols *infp_jit_symbols_free(struct infp_jit_symbols *jit)
{
        if (!jit)
                return NULL;
        free(jit->entries);
        free(jit->most);
        free(jit->lines);
        infp_str_done(&jit->text);
        infp_str_done(&jit->made);
        free(jit);
        return NULL;
}

void infp_jit_symbols_counts(const struct infp_jit_symbols *jit, struct infp_jit_counts *ret)
{
        *ret = (struct infp_jit_counts){ jit->n, jit->n_rejected, jit->is_full };
}

/* One that became shorter, or another one in its place, is read from its begin. */
struct infp_jit_file *infp_jit_file(struct infp_jit_symbols *jit, int fd, uint64_t *ret_size)
{
        struct infp_jit_file *file = NULL;
        struct stat st;

        if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return NULL;
        for (unsigned i = 0; i < jit->n_files && !file; i++)
                if (jit->files[i].inode == (uint64_t) st.st_ino && jit->files[i].device == (uint64_t) st.st_dev)
                        file = &jit->files[i];
        if (!file && jit->n_files == INFP_JIT_MAX_FILES)
                return NULL;
        if (!file) {
                file = &jit->files[jit->n_files++];
                *file = (struct infp_jit_file){ .device = (uint64_t) st.st_dev, .inode = (uint64_t) st.st_ino };
        }
        *ret_size = (uint64_t) st.st_size;
        if (file->at > *ret_size)
                *file = (struct infp_jit_file){ .device = file->device, .inode = file->inode };
        return file;
}

int64_t infp_jit_text(struct infp_jit_symbols *jit, const char *text, size_t size)
{
        const size_t at = jit->text.size;

        if (size > INFP_JIT_MAX_NAME)
                size = INFP_JIT_MAX_NAME;
        if (at + size + 1 > INFP_JIT_MAX_TEXT) {
                jit->is_full = true;
                return -ENOSPC;
        }
        if (!infp_str_reserve(&jit->text, size + 1))
                return -ENOMEM;
        infp_str_put(&jit->text, text, strnlen(text, size));
        infp_str_putc(&jit->text, 0);
        return (int64_t) at;
}

int infp_jit_add(struct infp_jit_symbols *jit, const struct infp_jit_entry *entry)
{
        if (jit->n >= INFP_JIT_MAX_ENTRIES) {
                jit->is_full = true;
                return -ENOSPC;
        }
        if (!INFP_MAKE_ROOM(jit->entries, jit->n, jit->cap, 256))
                return -ENOMEM;
        jit->entries[jit->n] = *entry;
        jit->entries[jit->n].order = (uint32_t) jit->n;
        jit->n++;
        return 0;
}

static int by_begin(const void *left, const void *right)
{
        const struct infp_jit_entry *a = left, *b = right;

        if (a->begin != b->begin)
                return a->begin < b->begin ? -1 : 1;
        return a->order < b->order ? -1 : a->order > b->order;
}

int infp_jit_sort(struct infp_jit_symbols *jit)
{
        uint64_t *most;

        if (jit->n == jit->n_sorted)
                return 0;
        most = realloc(jit->most, jit->n * sizeof(*most));
        if (!most)
                return -ENOMEM;
        jit->most = most;
        infp_sort(jit->entries, jit->n, sizeof(*jit->entries), by_begin);
        for (size_t i = 0; i < jit->n; i++)
                most[i] = i && most[i - 1] > jit->entries[i].end ? most[i - 1] : jit->entries[i].end;
        jit->n_sorted = jit->n;
        return 0;
}

size_t infp_jit_up_to(const struct infp_jit_symbols *jit, uint64_t address)
{
        size_t low = 0, high = jit->n_sorted;

        while (low < high) {
                const size_t middle = low + (high - low) / 2;

                if (jit->entries[middle].begin <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

/* A later entry wins, and one that knows its time must have been there by then. */
static bool is_better(const struct infp_jit_entry *entry, const struct infp_jit_entry *than, uint64_t t_ns)
{
        if (entry->is_dump && t_ns && entry->t_ns > t_ns)
                return false;
        if (!than)
                return true;
        if (entry->is_dump && than->is_dump && entry->t_ns != than->t_ns)
                return entry->t_ns > than->t_ns;
        return entry->order > than->order;
}

enum { MOST_STEPS = 1 << 16 };

/* In good files few entries have an address: those that took the place of others. Hostile ones cost MOST_STEPS. */
static const struct infp_jit_entry *find(const struct infp_jit_symbols *jit, uint64_t address, uint64_t t_ns)
{
        const struct infp_jit_entry *found = NULL;
        size_t low = infp_jit_up_to(jit, address);

        for (size_t i = 0; i < MOST_STEPS && low > 0 && jit->most[low - 1] > address; i++) {
                low--;
                if (address < jit->entries[low].end && is_better(&jit->entries[low], found, t_ns))
                        found = &jit->entries[low];
        }
        return found;
}

static const struct infp_jit_line *find_line(const struct infp_jit_symbols *jit, const struct infp_jit_entry *entry,
                                             uint64_t address)
{
        const uint64_t at = address - entry->begin + entry->code;
        const struct infp_jit_line *found = NULL;

        for (uint32_t i = 0; i < entry->n_lines; i++) {
                const struct infp_jit_line *line = &jit->lines[entry->line + i];

                if (line->address <= at && (!found || line->address >= found->address))
                        found = line;
        }
        return found;
}

bool infp_jit_symbols_at(const struct infp_jit_symbols *jit, uint64_t address, uint64_t t_ns, struct infp_symbol *ret)
{
        const struct infp_jit_entry *entry = find(jit, address, t_ns);
        const struct infp_jit_line *line = entry ? find_line(jit, entry, address) : NULL;

        if (!entry)
                return false;
        *ret = (struct infp_symbol){ .name = jit->text.data + entry->name,
                                     .file = line ? jit->text.data + line->file : NULL,
                                     .line = line ? line->line : 0,
                                     .from = entry->is_dump ? "jitdump" : "perf map" };
        return true;
}
