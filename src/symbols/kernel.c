/* /proc/kallsyms: "address type name", of modules with "\t[module]" after it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/procfile.h"
#include "base/sort.h"
#include "base/str.h"
#include "symbols/name.h"
#include "symbols/symbols.h"
#include "symbols/table.h"

enum { MOST_TEXT = 256 << 20, MOST_SYMBOLS = 8 << 20, MOST_MODULES = 4096 };
/* The last function of a module, or of anything, ends nobody says where. */
enum { MOST_FUNCTION = 1 << 20 };

struct symbol {
        uint64_t address;
        uint32_t name, module; /* in text; module 0: the kernel's own */
        uint16_t name_size, module_size;
        bool is_code, is_local;
};

struct module {
        uint64_t begin, end;
};

struct infp_kernel_symbols {
        char *text;
        struct symbol *symbols;
        size_t n, cap;
        struct module *modules;
        unsigned n_modules;
        uint64_t n_zeros;
        struct infp_str name, mangled, module;
};

static bool parse_hex(struct infp_span s, uint64_t *ret)
{
        *ret = 0;
        if (!s.size || s.size > 16)
                return false;
        for (size_t i = 0; i < s.size; i++) {
                const char c = s.at[i] | 32;

                if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'f'))
                        return false;
                *ret = *ret << 4 | (uint64_t) (c <= '9' ? c - '0' : c - 'a' + 10);
        }
        return true;
}

/* Where code ends, as the linker names it: what follows is not code. */
static bool is_end(struct infp_span name)
{
        return infp_span_is(name, "_etext") || infp_span_is(name, "_einittext") || infp_span_is(name, "_end") ||
               infp_span_is(name, "__end_rodata");
}

static int add(struct infp_kernel_symbols *k, struct infp_span line)
{
        struct infp_span w[4];
        const size_t n = infp_span_words(line, w, 4);
        struct symbol symbol = { 0 };
        char type;

        if (n < 3 || !parse_hex(w[0], &symbol.address) || w[1].size != 1)
                return 0;
        type = w[1].at[0];
        if (type == 'A' || type == 'a' || type == 'U' || type == 'u') /* numbers, and places within per-CPU memory */
                return 0;
        if (!symbol.address) {
                k->n_zeros++;
                return 0;
        }
        symbol.is_code = (type | 32) == 't' || (type | 32) == 'w';
        if (is_end(w[2]))
                symbol.is_code = false;
        symbol.is_local = type == 't';
        symbol.name = (uint32_t) (w[2].at - k->text);
        symbol.name_size = (uint16_t) (w[2].size < 4096 ? w[2].size : 4096);
        if (n > 3 && w[3].size > 2 && w[3].at[0] == '[') {
                symbol.module = (uint32_t) (w[3].at - k->text);
                symbol.module_size = (uint16_t) (w[3].size < 256 ? w[3].size : 256);
        }
        if (k->n >= MOST_SYMBOLS || !INFP_MAKE_ROOM(k->symbols, k->n, k->cap, 4096))
                return -ENOMEM;
        k->symbols[k->n++] = symbol;
        return 0;
}

static int by_address(const void *left, const void *right, void *context)
{
        const struct infp_kernel_symbols *k = context;
        const struct symbol *a = left, *b = right;
        char a_name[128], b_name[128];

        if (a->address != b->address)
                return a->address < b->address ? -1 : 1;
        if (a->is_code != b->is_code)
                return a->is_code ? -1 : 1;
        if (a->is_local != b->is_local)
                return a->is_local ? 1 : -1;
        snprintf(a_name, sizeof(a_name), "%.*s", a->name_size, k->text + a->name);
        snprintf(b_name, sizeof(b_name), "%.*s", b->name_size, k->text + b->name);
        return infp_symbol_name_order(a_name, b_name);
}

/* "name size uses users state address": where modules end. Without rights addresses are 0, and nothing is known. */
static void read_modules(struct infp_kernel_symbols *k, int root_fd)
{
        infp_autofree char *text = NULL;
        const ssize_t size = infp_read_all_at(root_fd, "/proc/modules", MOST_TEXT, &text);
        struct infp_span all = { text ? text : "", size > 0 ? (size_t) size : 0 }, line, w[6];

        k->modules = size > 0 ? calloc(MOST_MODULES, sizeof(*k->modules)) : NULL;
        while (k->modules && k->n_modules < MOST_MODULES && infp_span_line(&all, &line)) {
                uint64_t begin, bytes;

                if (infp_span_words(line, w, 6) < 6 || infp_span_u64(w[1], &bytes) < 0 || w[5].size < 3 ||
                    !parse_hex((struct infp_span){ w[5].at + 2, w[5].size - 2 }, &begin) || !begin ||
                    begin + bytes < begin)
                        continue;
                k->modules[k->n_modules++] = (struct module){ begin, begin + bytes };
        }
}

static int say_hidden(int root_fd, struct infp_err *err)
{
        char text[16];
        const ssize_t n = infp_read_at(root_fd, "/proc/sys/kernel/kptr_restrict", text, sizeof(text));
        const char how = n > 0 ? text[0] : '?';

        if (how == '2')
                return infp_fail(err, -EACCES,
                                 "the kernel hides its addresses from all users (kernel.kptr_restrict is 2): kernel "
                                 "frames have no names; `sysctl kernel.kptr_restrict=1` shows them to root");
        if (how == '0')
                return infp_fail(err, -EACCES,
                                 "the kernel hides its addresses: kernel frames have no names; CAP_SYSLOG (root has "
                                 "it) or `sysctl kernel.perf_event_paranoid=1` shows them");
        return infp_fail(err, -EACCES,
                         "the kernel hides its addresses (kernel.kptr_restrict is %c): kernel frames have no names; "
                         "CAP_SYSLOG (root has it) or `sysctl kernel.kptr_restrict=0` shows them",
                         how);
}

static int read_all(struct infp_kernel_symbols *k, int root_fd, struct infp_err *err)
{
        const ssize_t size = infp_read_all_at(root_fd, "/proc/kallsyms", MOST_TEXT, &k->text);
        struct infp_span all, line;

        if (size == -EACCES || size == -EPERM)
                return say_hidden(root_fd, err);
        if (size <= 0)
                return infp_fail_errno(err, size < 0 ? (int) size : -ENODATA,
                                       "cannot read /proc/kallsyms: kernel frames have no names");
        all = (struct infp_span){ k->text, (size_t) size };
        while (infp_span_line(&all, &line))
                INFP_TRY(add(k, line));
        if (!k->n)
                return k->n_zeros
                               ? say_hidden(root_fd, err)
                               : infp_fail(err, -EBADMSG, "/proc/kallsyms names no code: kernel frames have no names");
        infp_sort_r(k->symbols, k->n, sizeof(*k->symbols), by_address, k);
        read_modules(k, root_fd);
        return 0;
}

int infp_kernel_symbols_open(int root_fd, struct infp_kernel_symbols **ret, struct infp_err *err)
{
        struct infp_kernel_symbols *k = calloc(1, sizeof(*k));
        int r;

        if (!k)
                return infp_fail(err, -ENOMEM, "no memory for the kernel's symbols");
        r = read_all(k, root_fd, err);
        if (r < 0) {
                infp_kernel_symbols_free(k);
                return r == -ENOMEM ? infp_fail(err, r, "no memory for the kernel's symbols") : r;
        }
        *ret = k;
        return 0;
}

struct infp_kernel_symbols *infp_kernel_symbols_free(struct infp_kernel_symbols *k)
{
        if (!k)
                return NULL;
        free(k->text);
        free(k->symbols);
        free(k->modules);
        infp_str_done(&k->name);
        infp_str_done(&k->mangled);
        infp_str_done(&k->module);
        free(k);
        return NULL;
}

/* Where the module that has the address ends; 0: not known. */
static uint64_t module_end(const struct infp_kernel_symbols *k, uint64_t address)
{
        for (unsigned i = 0; i < k->n_modules; i++)
                if (address >= k->modules[i].begin && address < k->modules[i].end)
                        return k->modules[i].end;
        return 0;
}

static const struct symbol *find(const struct infp_kernel_symbols *k, uint64_t address)
{
        size_t low = 0, high = k->n;
        const struct symbol *found;

        while (low < high) {
                const size_t middle = low + (high - low) / 2;

                if (k->symbols[middle].address <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        if (!low)
                return NULL;
        /* Of aliases the first. */
        for (low--; low > 0 && k->symbols[low - 1].address == k->symbols[low].address;)
                low--;
        found = &k->symbols[low];
        if (!found->is_code || address - found->address >= MOST_FUNCTION)
                return NULL;
        if (found->module && k->n_modules && module_end(k, found->address) && address >= module_end(k, found->address))
                return NULL;
        return found;
}

/* "name [module]", of the name its first `size` bytes. */
static void put_name(const struct infp_kernel_symbols *k, const struct symbol *symbol, size_t size,
                     struct infp_str *ret)
{
        infp_autostr struct infp_str name = { 0 };

        infp_str_put(&name, k->text + symbol->name, size);
        if (symbol->module) {
                infp_str_putc(&name, ' ');
                infp_str_put(&name, k->text + symbol->module, symbol->module_size);
        }
        infp_symbol_text(ret, name.data ? name.data : "", name.size);
}

bool infp_kernel_symbols_at(struct infp_kernel_symbols *kernel, uint64_t address, struct infp_symbol *ret,
                            const char **ret_module)
{
        const struct symbol *found = find(kernel, address);
        size_t own;

        if (!found)
                return false;
        own = infp_without_clones(kernel->text + found->name, found->name_size);
        put_name(kernel, found, own, &kernel->name);
        put_name(kernel, found, found->name_size, &kernel->mangled);
        infp_str_clear(&kernel->module);
        if (found->module)
                infp_str_put(&kernel->module, kernel->text + found->module + 1, found->module_size - 2u);
        *ret = (struct infp_symbol){ .name = kernel->name.data,
                                     .mangled = own < found->name_size ? kernel->mangled.data : NULL,
                                     .from = "kallsyms" };
        if (ret_module)
                *ret_module = found->module ? kernel->module.data : NULL;
        return !kernel->name.failed && kernel->name.size;
}
