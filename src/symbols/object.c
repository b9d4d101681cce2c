#include "symbols/object.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "symbols/debugdata.h"
#include "symbols/dwarf.h"
#include "symbols/go.h"
#include "symbols/plt.h"
#include "symbols/range.h"
#include "symbols/table.h"

enum { TABLES = 4 };

struct infp_symbol_object {
        char *path;
        struct infp_image image, debug_file, debugdata;
        bool has_image, has_debug_file, has_debugdata;
        struct {
                struct infp_functions functions;
                struct infp_image *image;
                const char *from;
        } tables[TABLES]; /* the best first */
        unsigned n_tables;
        struct infp_go go;
        bool has_go; /* its table is the first */
        struct infp_dwarf *dwarf;
        struct infp_ranges ranges;
        bool has_ranges; /* they were read, whatever came of it */
        char debug_path[PATH_MAX];
        struct infp_err problem;
        char text[512]; /* of a name that we make */
};

/* The image of the machine's own vDSO, which all processes share. */
static int open_vdso(struct infp_image *image, struct infp_err *err)
{
        const uint8_t *bytes = (const uint8_t *) getauxval(AT_SYSINFO_EHDR);
        const Elf64_Ehdr *head = (const Elf64_Ehdr *) (const void *) bytes;
        enum { MOST = 1 << 16 };

        if (!bytes || head->e_shoff > MOST || !head->e_shnum)
                return infp_fail(err, -ENOENT, "this process has no vDSO to compare [vdso] with");
        return infp_image_open_bytes(image, (void *) bytes,
                                     head->e_shoff + (uint64_t) head->e_shnum * head->e_shentsize, false, "[vdso]",
                                     err);
}

static int open_image(const struct infp_debug_places *places, const char *path, int fd, struct infp_image *ret,
                      struct infp_err *err)
{
        int own;

        if (fd < 0 && strcmp(path, "[vdso]") == 0)
                return open_vdso(ret, err);
        own = fd < 0 ? infp_open_in_root(places->root_fd, path) : fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (own < 0)
                return infp_fail_errno(err, fd < 0 ? own : -errno, "cannot open %s for its symbols", path);
        return infp_image_open(ret, own, path, err);
}

static bool was_changed(const struct infp_debug_places *places, const struct infp_image *image)
{
        struct stat st;

        return places->ran_unix_ns && image->fd >= 0 && fstat(image->fd, &st) == 0 &&
               (int64_t) st.st_ctim.tv_sec * 1000000000 + st.st_ctim.tv_nsec > places->ran_unix_ns;
}

static int open_right_image(const struct infp_debug_places *places, const char *path, int fd, const char *build_id,
                            struct infp_image *ret, struct infp_err *err)
{
        bool is_right;

        INFP_TRY(open_image(places, path, fd, ret, err));
        ret->most_bytes = places->most_bytes;
        is_right = *build_id ? infp_image_is_build(ret, build_id) : fd >= 0 || !was_changed(places, ret);
        if (is_right)
                return 0;
        infp_image_close(ret);
        if (!*build_id)
                return infp_fail(err, -ESTALE,
                                 "%s has changed since it ran, and has no build id to verify it: no names", path);
        return infp_fail(err, -ESTALE,
                         "%s is not the file that ran: its build id differs; names need that file, or its debug "
                         "symbols in --debug-dir",
                         path);
}

static bool has_dwarf(struct infp_image *image)
{
        const Elf64_Shdr *section = infp_image_section(image, ".debug_info", 0);

        if (!section)
                section = infp_image_section(image, ".zdebug_info", 0);
        return section && section->sh_type != SHT_NOBITS && section->sh_size;
}

static void add_table(struct infp_symbol_object *object, struct infp_image *image, uint32_t section, const char *from,
                      const struct infp_wanted *wanted)
{
        if (object->n_tables == TABLES ||
            infp_functions_read(image, section, wanted, &object->tables[object->n_tables].functions) < 0)
                return;
        object->tables[object->n_tables].image = image;
        object->tables[object->n_tables++].from = from;
}

static void add_go_table(struct infp_symbol_object *object)
{
        object->has_go = infp_go_functions_read(&object->image, &object->go, &object->tables[0].functions) == 0;
        if (object->has_go) {
                object->tables[0].image = &object->image;
                object->tables[object->n_tables++].from = "gopclntab";
        }
}

static void read_tables(struct infp_symbol_object *object, const struct infp_wanted *wanted)
{
        struct infp_err why = { "" };
        int r;

        if (object->has_image)
                add_table(object, &object->image, SHT_SYMTAB, "symtab", wanted);
        if (object->has_debug_file && !object->n_tables)
                add_table(object, &object->debug_file, SHT_SYMTAB, "symtab", wanted);
        if (object->n_tables || !object->has_image)
                return;
        add_go_table(object);
        r = infp_debugdata_open(&object->image, object->path, &object->debugdata, &why);
        object->has_debugdata = r == 0;
        if (object->has_debugdata)
                add_table(object, &object->debugdata, SHT_SYMTAB, "debugdata", wanted);
        else if (r != -ENOENT)
                object->problem = why;
        add_table(object, &object->image, SHT_DYNSYM, "dynsym", wanted);
}

static void open_dwarf(struct infp_symbol_object *object, const struct infp_debug_places *places)
{
        struct infp_image *image = object->has_image && has_dwarf(&object->image)             ? &object->image
                                   : object->has_debug_file && has_dwarf(&object->debug_file) ? &object->debug_file
                                                                                              : NULL;
        struct infp_err why = { "" };

        if (image && image->fd >= 0 &&
            infp_dwarf_open(image->fd, image == &object->image ? object->path : object->debug_path, places,
                            &object->dwarf, &why) < 0)
                object->problem = why;
}

int infp_symbol_object_open(const struct infp_debug_places *places, const char *path, int fd, const char *build_id,
                            bool with_lines, const struct infp_wanted *wanted, struct infp_symbol_object **ret,
                            struct infp_err *err)
{
        struct infp_symbol_object *object = calloc(1, sizeof(*object));
        struct infp_err why = { "" };
        char own_id[2 * INFP_IMAGE_MAX_BUILD_ID + 1] = "";
        bool is_whole;
        int r;

        if (!object)
                return infp_fail(err, -ENOMEM, "no memory for symbols of %s", path);
        object->path = strdup(path);
        r = object->path ? open_right_image(places, path, fd, build_id, &object->image, &why) : -ENOMEM;
        object->has_image = r == 0;
        for (unsigned i = 0; object->has_image && i < object->image.build_id_size; i++)
                snprintf(own_id + 2 * i, 3, "%02x", object->image.build_id[i]);
        /* A file that has it all needs no other one. */
        is_whole = object->has_image && infp_image_section(&object->image, NULL, SHT_SYMTAB) &&
                   (!with_lines || has_dwarf(&object->image));
        if (object->path && !is_whole && *path == '/')
                object->has_debug_file = infp_debug_file_find(places, object->has_image ? &object->image : NULL, path,
                                                              *build_id ? build_id : own_id, &object->debug_file,
                                                              object->debug_path, sizeof(object->debug_path)) == 0;
        if (!object->has_image && !object->has_debug_file) {
                infp_symbol_object_close(object);
                return infp_fail(err, r, "%s", why.text);
        }
        read_tables(object, wanted);
        if (with_lines)
                open_dwarf(object, places);
        *ret = object;
        return 0;
}

struct infp_symbol_object *infp_symbol_object_close(struct infp_symbol_object *object)
{
        if (!object)
                return NULL;
        infp_dwarf_close(object->dwarf);
        for (unsigned i = 0; i < object->n_tables; i++)
                infp_functions_done(&object->tables[i].functions);
        infp_ranges_done(&object->ranges);
        if (object->has_image)
                infp_image_close(&object->image);
        if (object->has_debug_file)
                infp_image_close(&object->debug_file);
        if (object->has_debugdata)
                infp_image_close(&object->debugdata);
        free(object->path);
        free(object);
        return NULL;
}

void infp_symbol_object_about(const struct infp_symbol_object *object, struct infp_symbols_about *ret)
{
        *ret = (struct infp_symbols_about){
                .names = object->n_tables ? object->tables[0].from : NULL,
                .debug_file = object->has_debug_file ? object->debug_path : NULL,
                .has_lines = object->dwarf != NULL,
                .problem = *object->problem.text ? object->problem.text : NULL,
        };
}

uint64_t infp_symbol_object_bytes(const struct infp_symbol_object *object)
{
        uint64_t sum = object->image.n_read + object->debug_file.n_read + object->debugdata.size;

        for (unsigned i = 0; i < object->n_tables; i++)
                sum += ((uint64_t) object->tables[i].functions.n_sized + object->tables[i].functions.n_open) *
                       sizeof(struct infp_function);
        return sum + (object->ranges.table ? object->ranges.table->size : 0);
}

static void read_ranges(struct infp_symbol_object *object)
{
        if (!object->has_ranges && object->has_image)
                infp_ranges_read(&object->image, &object->ranges);
        object->has_ranges = true;
}

/* A symbol with a size. */
static bool name_by_size(struct infp_symbol_object *object, uint64_t address, struct infp_object_level *ret)
{
        for (unsigned i = 0; i < object->n_tables; i++) {
                const struct infp_function *f = infp_functions_find(&object->tables[i].functions, address);

                if (f) {
                        ret->name = infp_function_name(&object->tables[i].functions, f, &ret->name_size);
                        ret->from = object->tables[i].from;
                        return true;
                }
        }
        return false;
}

/* One without a size reaches to the next symbol, but not into a function of which the unwind table knows another begin. */
static bool name_by_place(struct infp_symbol_object *object, uint64_t address, struct infp_object_level *ret)
{
        uint64_t begin, end;

        for (unsigned i = 0; i < object->n_tables; i++) {
                const struct infp_function *f =
                        infp_functions_find_open(&object->tables[i].functions, object->tables[i].image, address);

                if (!f)
                        continue;
                read_ranges(object);
                if (infp_ranges_find(&object->ranges, &object->image, address, &begin, &end) && begin > f->begin)
                        continue;
                ret->name = infp_function_name(&object->tables[i].functions, f, &ret->name_size);
                ret->from = object->tables[i].from;
                return true;
        }
        return false;
}

static void set_made(struct infp_symbol_object *object, const char *from, struct infp_object_level *ret)
{
        ret->name = object->text;
        ret->name_size = strlen(object->text);
        ret->from = from;
}

static bool name_by_plt(struct infp_symbol_object *object, uint64_t address, struct infp_object_level *ret)
{
        if (!object->has_image || !infp_plt_name(&object->image, address, object->text, sizeof(object->text)))
                return false;
        set_made(object, "dynsym", ret);
        return true;
}

static bool is_code(const struct infp_image *image, uint64_t address)
{
        for (unsigned i = 0; image->segments && i < image->head.e_phnum; i++) {
                const Elf64_Phdr *load = &image->segments[i];

                if (load->p_type == PT_LOAD && (load->p_flags & PF_X) && address >= load->p_vaddr &&
                    address - load->p_vaddr < load->p_memsz)
                        return true;
        }
        return false;
}

/* Between known functions may lie one without call frame information, or thousands in programs that are built without it. */
enum { MOST_BETWEEN = 16 << 10 };

static bool name_by_range(struct infp_symbol_object *object, uint64_t address, struct infp_object_level *ret)
{
        const char *base = infp_base_name(object->path);
        const bool is_wrapped = base[0] == '[';
        uint64_t begin, end;
        const char *what = "";
        bool is_function;

        if (!object->has_image || !is_code(&object->image, address))
                return false;
        read_ranges(object);
        is_function = infp_ranges_find(&object->ranges, &object->image, address, &begin, &end);
        if (!is_function && end - begin > MOST_BETWEEN)
                return false;
        if (is_function && infp_range_is_openmp_wait(&object->image, object->path, begin, end))
                what = "OpenMP wait ";
        snprintf(object->text, sizeof(object->text), "%s[%.*s+0x%llx]", what,
                 (int) (is_wrapped ? strcspn(base + 1, "]") : strnlen(base, 200)), base + is_wrapped,
                 (unsigned long long) begin);
        set_made(object, *what ? "code" : "range", ret);
        return true;
}

/* The compiled function is named by the symbol, which says more than DWARF of its name (aliases that people know, .cold), and by
 * DWARF where there is no symbol. */
static bool name_function(struct infp_symbol_object *object, uint64_t address, struct infp_object_level *ret)
{
        const bool has_dwarf_name = ret->name != NULL;

        return name_by_size(object, address, ret) || has_dwarf_name || name_by_place(object, address, ret) ||
               name_by_plt(object, address, ret) || name_by_range(object, address, ret);
}

static void place_by_go(struct infp_symbol_object *object, uint64_t address, struct infp_object_level *ret)
{
        struct infp_go_place place;

        if (!infp_go_place(&object->go, address, &place))
                return;
        ret->file = place.file;
        ret->line = place.line;
        ret->function_line = place.function_line;
}

unsigned infp_symbol_object_at(struct infp_symbol_object *object, uint64_t address, struct infp_object_level *ret)
{
        struct infp_dwarf_level levels[INFP_SYMBOL_MAX_LEVELS];
        unsigned n = object->dwarf ? infp_dwarf_at(object->dwarf, address, levels, INFP_SYMBOL_MAX_LEVELS) : 0;

        for (unsigned i = 0; i < n; i++) {
                const char *name = levels[i].linkage ? levels[i].linkage : levels[i].name;

                if (!name && i)
                        name = "?";
                ret[i] = (struct infp_object_level){ .name = name,
                                                     .name_size = name ? strlen(name) : 0,
                                                     .file = levels[i].file,
                                                     .line = levels[i].line,
                                                     .function_line = levels[i].function_line,
                                                     .from = "dwarf" };
        }
        if (!n)
                ret[n++] = (struct infp_object_level){ 0 };
        if (!ret[0].name && object->has_go)
                place_by_go(object, address, &ret[0]);
        return name_function(object, address, &ret[0]) ? n : 0;
}
