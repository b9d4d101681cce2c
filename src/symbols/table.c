#include "symbols/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "base/str.h"
#include "symbols/dynamic.h"

enum {
        MOST_SYMBOLS = 16 << 20,
        MOST_NAME = 1 << 16,
        WINDOW = 1024, /* symbols that are read at once */
        NEAR = 4096,   /* how far a function without a size is looked for, where few addresses are wanted */
};

struct candidate {
        uint64_t begin, end;
        uint32_t name;
        uint16_t section;
        uint8_t rank; /* less is better */
};

int infp_symbol_name_order(const char *a, const char *b)
{
        const size_t a_lines = strspn(a, "_"), b_lines = strspn(b, "_");
        /* Names of C++ and Rust begin with _Z or _R: that underscore is not one of the author's. */
        const size_t a_score = a_lines == 1 && (a[1] == 'Z' || a[1] == 'R') ? 0 : a_lines,
                     b_score = b_lines == 1 && (b[1] == 'Z' || b[1] == 'R') ? 0 : b_lines;
        const size_t a_size = strlen(a), b_size = strlen(b);

        if (a_score != b_score)
                return a_score < b_score ? -1 : 1;
        if (a_size != b_size)
                return a_size < b_size ? -1 : 1;
        return strcmp(a, b);
}

/* Marks of assemblers and compilers that name no function: $x, .L12, and the like. */
static bool is_mark(const char *name)
{
        return !name[0] || name[0] == '$' || (name[0] == '.' && name[1] == 'L');
}

/* A function, by all but its name. */
static bool take(const struct infp_image *image, const Elf64_Sym *symbol, struct candidate *ret)
{
        const unsigned type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info);
        unsigned section = symbol->st_shndx;

        if (symbol->st_shndx == SHN_UNDEF || !symbol->st_value)
                return false;
        if (type != STT_FUNC && type != STT_NOTYPE && type != STT_GNU_IFUNC)
                return false;
        if (section >= SHN_LORESERVE || section >= image->n_sections) {
                if (type != STT_FUNC) /* absolute: a number, not a place */
                        return false;
                section = 0;
        } else if (!(image->sections[section].sh_flags & SHF_EXECINSTR)) {
                return false;
        }
        *ret = (struct candidate){ symbol->st_value, symbol->st_value, symbol->st_name, (uint16_t) section, 0 };
        if (symbol->st_size && symbol->st_value + symbol->st_size > symbol->st_value)
                ret->end = symbol->st_value + symbol->st_size;
        ret->rank = (uint8_t) ((type == STT_NOTYPE) << 2 | (binding == STB_LOCAL) << 1 | (type == STT_GNU_IFUNC));
        return true;
}

enum use { NOT_USED, USED_BY_PLACE, USED_BY_NAME };

/* What a function is to the addresses that are wanted: it names one, or says what lies shortly before one. */
static enum use use_of(const struct infp_wanted *wanted, const struct candidate *c)
{
        size_t low = 0, high = wanted->n;

        if (!wanted->addresses)
                return USED_BY_NAME;
        while (low < high) {
                const size_t middle = low + (high - low) / 2;

                if (wanted->addresses[middle] < c->begin)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (low == wanted->n)
                return NOT_USED;
        if (wanted->addresses[low] < c->end)
                return USED_BY_NAME;
        return wanted->addresses[low] - c->begin > NEAR ? NOT_USED : c->end == c->begin ? USED_BY_NAME : USED_BY_PLACE;
}

static int by_place(const void *left, const void *right, void *names)
{
        const struct candidate *a = left, *b = right;
        const bool a_open = a->end == a->begin, b_open = b->end == b->begin;

        if (a->begin != b->begin)
                return a->begin < b->begin ? -1 : 1;
        if (a_open != b_open)
                return a_open ? 1 : -1;
        if (a->rank != b->rank)
                return a->rank < b->rank ? -1 : 1;
        return a->name == b->name ? 0 : infp_symbol_name_order((char *) names + a->name, (char *) names + b->name);
}

/* Of those that begin at the same address the first, which is the best. */
static size_t drop_aliases(struct candidate *c, size_t n)
{
        size_t kept = 0;

        for (size_t i = 0; i < n; i++)
                if (!kept || c[kept - 1].begin != c[i].begin)
                        c[kept++] = c[i];
        return kept;
}

struct flattening {
        struct infp_functions *functions;
        const struct candidate **outer; /* those that have not ended, the innermost last */
        size_t n_outer;
        uint64_t at; /* all before it is told */
};

static void tell(struct flattening *f, const struct candidate *c, uint64_t end)
{
        if (f->at < end)
                f->functions->sized[f->functions->n_sized++] =
                        (struct infp_function){ f->at, end, c->name, c->section };
        if (f->at < end)
                f->at = end;
}

/* All that ends at or before an address. */
static void end_until(struct flattening *f, uint64_t address)
{
        while (f->n_outer && f->outer[f->n_outer - 1]->end <= address) {
                tell(f, f->outer[f->n_outer - 1], f->outer[f->n_outer - 1]->end);
                f->n_outer--;
        }
}

static void flatten(struct flattening *f, const struct candidate *c, size_t n)
{
        for (size_t i = 0; i < n; i++) {
                if (c[i].end == c[i].begin) {
                        f->functions->open[f->functions->n_open++] =
                                (struct infp_function){ c[i].begin, c[i].begin, c[i].name, c[i].section };
                        continue;
                }
                end_until(f, c[i].begin);
                if (f->n_outer)
                        tell(f, f->outer[f->n_outer - 1], c[i].begin);
                f->at = c[i].begin;
                f->outer[f->n_outer++] = &c[i];
        }
        end_until(f, UINT64_MAX);
}

static int fill(struct infp_functions *ret, struct candidate *c, size_t n)
{
        struct flattening f = { .functions = ret };
        void *fitted;

        infp_sort_r(c, n, sizeof(*c), by_place, (void *) ret->names);
        n = drop_aliases(c, n);
        ret->sized = malloc((2 * n + 1) * sizeof(*ret->sized));
        ret->open = malloc((n + 1) * sizeof(*ret->open));
        f.outer = malloc((n + 1) * sizeof(*f.outer));
        if (!ret->sized || !ret->open || !f.outer) {
                free(f.outer);
                return -ENOMEM;
        }
        flatten(&f, c, n);
        free(f.outer);
        fitted = realloc(ret->sized, (ret->n_sized + 1) * sizeof(*ret->sized));
        ret->sized = fitted ? fitted : ret->sized;
        fitted = realloc(ret->open, (ret->n_open + 1) * sizeof(*ret->open));
        ret->open = fitted ? fitted : ret->open;
        return ret->n_sized + ret->n_open ? 0 : -ENOENT;
}

struct reading {
        struct infp_image *image;
        const Elf64_Shdr *texts;
        const struct infp_wanted *wanted;
        const uint8_t *all_names;  /* NULL: */
        struct infp_str own_names; /* those that are used; the first is "" */
        struct candidate *list;
        size_t n, cap;
};

static int add(struct reading *reading, const struct candidate *c)
{
        const size_t cap = reading->cap ? 2 * reading->cap : WINDOW;
        struct candidate *grown;

        if (reading->n == reading->cap) {
                if (reading->image->most_bytes && cap * sizeof(*grown) > reading->image->most_bytes)
                        return -EFBIG;
                grown = realloc(reading->list, cap * sizeof(*grown));
                if (!grown)
                        return -ENOMEM;
                reading->list = grown;
                reading->cap = cap;
        }
        reading->list[reading->n++] = *c;
        return 0;
}

/* The candidate's name in what is kept of names. False: it has none that means something. */
static bool find_name(struct reading *reading, struct candidate *c, enum use use)
{
        const uint32_t at = (uint32_t) reading->own_names.size;
        const char *name;

        if (reading->all_names) {
                name = infp_image_text(reading->all_names, reading->texts->sh_size, c->name, MOST_NAME);
                return name && !is_mark(name);
        }
        if (use == USED_BY_NAME) {
                if (!infp_image_read_text(reading->image, reading->texts, c->name, MOST_NAME, &reading->own_names))
                        return false;
                if (is_mark(reading->own_names.data + at)) {
                        reading->own_names.size = at;
                        return false;
                }
        }
        c->name = use == USED_BY_NAME ? at : 0;
        return true;
}

static int read_symbols(struct reading *reading, const Elf64_Shdr *table)
{
        const uint64_t all = table->sh_size / sizeof(Elf64_Sym), n_symbols = all < MOST_SYMBOLS ? all : MOST_SYMBOLS;
        Elf64_Sym window[WINDOW];

        for (uint64_t at = 0; at < n_symbols; at += WINDOW) {
                const size_t n = n_symbols - at < WINDOW ? n_symbols - at : WINDOW;

                if (!infp_image_read(reading->image, table->sh_offset + at * sizeof(*window), window,
                                     n * sizeof(*window)))
                        return -ENOENT;
                for (size_t i = 0; i < n; i++) {
                        struct candidate c;
                        enum use use;

                        if (!take(reading->image, &window[i], &c))
                                continue;
                        use = use_of(reading->wanted, &c);
                        if (use != NOT_USED && find_name(reading, &c, use))
                                INFP_TRY(add(reading, &c));
                        if (reading->image->most_bytes && reading->own_names.size > reading->image->most_bytes)
                                return -EFBIG;
                }
        }
        return 0;
}

/* By the headers of sections, else by what the loader goes by. */
static bool find_sections(struct infp_image *image, uint32_t section, struct infp_symbol_sections *ret)
{
        const Elf64_Shdr *table = infp_image_section(image, NULL, section);

        if (!image->n_sections && section == SHT_DYNSYM)
                return infp_symbol_sections_by_loader(image, ret);
        if (!table || table->sh_link >= image->n_sections || table->sh_entsize != sizeof(Elf64_Sym) ||
            table->sh_type == SHT_NOBITS || (table->sh_flags & SHF_COMPRESSED))
                return false;
        *ret = (struct infp_symbol_sections){ *table, image->sections[table->sh_link] };
        return true;
}

int infp_functions_read(struct infp_image *image, uint32_t section, const struct infp_wanted *wanted,
                        struct infp_functions *ret)
{
        struct reading reading = { .image = image, .wanted = wanted };
        struct infp_symbol_sections found;
        int r;

        *ret = (struct infp_functions){ 0 };
        if (!find_sections(image, section, &found))
                return -ENOENT;
        reading.texts = &found.texts;
        if (wanted->addresses)
                infp_str_put(&reading.own_names, "", 1);
        else
                reading.all_names = infp_image_data(image, reading.texts);
        r = reading.all_names || wanted->addresses ? read_symbols(&reading, &found.symbols) : -ENOENT;
        ret->own_names = infp_str_take(&reading.own_names);
        ret->names = reading.all_names ? (const char *) reading.all_names : ret->own_names;
        if (r == 0)
                r = ret->names ? fill(ret, reading.list, reading.n) : -ENOMEM;
        free(reading.list);
        if (r < 0)
                infp_functions_done(ret);
        return r;
}

void infp_functions_done(struct infp_functions *functions)
{
        free(functions->sized);
        free(functions->open);
        free(functions->own_names);
        *functions = (struct infp_functions){ 0 };
}

/* The last one that begins at or before the address. */
static const struct infp_function *last_before(const struct infp_function *all, uint32_t n, uint64_t address)
{
        uint32_t low = 0, high = n;

        while (low < high) {
                const uint32_t middle = low + (high - low) / 2;

                if (all[middle].begin <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low ? &all[low - 1] : NULL;
}

const struct infp_function *infp_functions_find(const struct infp_functions *functions, uint64_t address)
{
        const struct infp_function *found = last_before(functions->sized, functions->n_sized, address);

        return found && address < found->end ? found : NULL;
}

const struct infp_function *infp_functions_find_open(const struct infp_functions *functions,
                                                     const struct infp_image *image, uint64_t address)
{
        const struct infp_function *found = last_before(functions->open, functions->n_open, address),
                                   *sized = last_before(functions->sized, functions->n_sized, address);
        const Elf64_Shdr *section;

        if (!found || !found->section || found->section >= image->n_sections)
                return NULL;
        section = &image->sections[found->section];
        if (address < section->sh_addr || address - section->sh_addr >= section->sh_size)
                return NULL;
        return sized && sized->begin >= found->begin ? NULL : found;
}

const char *infp_function_name(const struct infp_functions *functions, const struct infp_function *function,
                               size_t *ret_size)
{
        const char *name = functions->names + function->name, *version = strchr(name, '@');

        *ret_size = version && version > name ? (size_t) (version - name) : strlen(name);
        return name;
}
