#include "import/name.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"

/* "[nf_tables]" of the kernel's modules looks like "[heap]", "[anon]" and "[stack]" of a process. */
static bool is_own_memory(struct infp_import_text object)
{
        static const char *const names[] = { "[heap]", "[stack]", "[anon]", "[unknown]", "[vsyscall]", "[uprobes]" };

        for (unsigned i = 0; i < INFP_COUNT(names); i++)
                if (infp_import_is(object, names[i]))
                        return true;
        return infp_import_begins(object, "[anon:") || infp_import_begins(object, "[stack:");
}

static bool is_kernel(struct infp_import_text object)
{
        struct infp_import_text base = infp_import_base(object);

        if (infp_import_begins(object, "[kernel") || infp_import_begins(object, "[guest.kernel") ||
            infp_import_begins(base, "vmlinux"))
                return true;
        if (infp_import_ends(base, ".ko") || infp_import_ends(base, ".ko.xz") || infp_import_ends(base, ".ko.zst") ||
            infp_import_ends(base, ".ko.gz"))
                return true;
        return infp_import_begins(object, "bpf_prog_") || infp_import_is(object, "[bpf]");
}

static bool is_jit(struct infp_import_text object)
{
        struct infp_import_text base = infp_import_base(object);

        return infp_import_begins(object, "[JIT]") || infp_import_begins(object, "[JIT ") ||
               (infp_import_begins(base, "perf-") && infp_import_ends(base, ".map")) ||
               (infp_import_begins(base, "jitted-") && infp_import_ends(base, ".so"));
}

enum infp_frame_kind infp_import_kind_of_object(struct infp_import_text object)
{
        struct infp_import_text base = infp_import_base(object);

        if (!object.size || infp_import_is(object, "[unknown]"))
                return INFP_FRAME_UNKNOWN;
        if (is_kernel(object))
                return INFP_FRAME_KERNEL;
        if (infp_import_is(object, "[vdso]"))
                return INFP_FRAME_VDSO;
        if (infp_import_is(object, INFP_PYTHON_OBJECT))
                return INFP_FRAME_PYTHON;
        if (is_jit(object))
                return INFP_FRAME_JIT;
        if (base.size && infp_is_cxx_runtime(base.data, base.size))
                return INFP_FRAME_CXX_RUNTIME;
        if (object.data[0] == '[' && infp_import_ends(object, "]") && !is_own_memory(object))
                return INFP_FRAME_KERNEL; /* a module of it */
        return INFP_FRAME_NATIVE;
}

static bool is_python_file(struct infp_import_text file)
{
        return infp_import_ends(file, ".py") || infp_import_begins(file, "<frozen ") ||
               infp_import_is(file, "<string>") || infp_import_is(file, "<stdin>");
}

enum infp_frame_kind infp_import_kind_of_file(struct infp_import_text file, enum infp_frame_kind otherwise)
{
        if (is_python_file(file) || infp_import_ends(file, ".pyx"))
                return INFP_FRAME_PYTHON;
        if (infp_import_ends(file, ".go"))
                return INFP_FRAME_GO;
        return otherwise;
}

static bool parse_line(struct infp_import_text text, int64_t *ret)
{
        return infp_parse_i64(text.data, text.size, ret) == 0 && *ret >= 0;
}

/* py-spy and its like: NAME (FILE:LINE), NAME (FILE). */
static bool take_pyspy(struct infp_import_text name, struct infp_import_level *ret, bool *ret_is_python)
{
        const char *open = name.size > 4 && infp_import_ends(name, ")") ? infp_import_last(name, '(') : NULL, *colon;
        struct infp_import_text file;
        int64_t line = 0;

        if (!open || open < name.data + 2 || open[-1] != ' ')
                return false;
        file = (struct infp_import_text){ open + 1, (size_t) (name.data + name.size - 1 - (open + 1)) };
        colon = infp_import_last(file, ':');
        if (colon) {
                struct infp_import_text number = { colon + 1, (size_t) (file.data + file.size - (colon + 1)) };

                if (!parse_line(number, &line))
                        return false;
                file.size = (size_t) (colon - file.data);
        }
        *ret_is_python = is_python_file(file);
        if (!*ret_is_python)
                return false;
        ret->name = (struct infp_import_text){ name.data, (size_t) (open - 1 - name.data) };
        ret->file = file;
        ret->line = line;
        return true;
}

/* Austin: FILE:NAME:LINE. */
static bool take_austin(struct infp_import_text name, struct infp_import_level *ret)
{
        const char *last = infp_import_last(name, ':'), *first;
        struct infp_import_text file, function, number;
        int64_t line;

        if (!last || last == name.data)
                return false;
        first = infp_import_last(infp_import_upto(name, last), ':');
        if (!first)
                return false;
        file = (struct infp_import_text){ name.data, (size_t) (first - name.data) };
        function = (struct infp_import_text){ first + 1, (size_t) (last - (first + 1)) };
        number = (struct infp_import_text){ last + 1, (size_t) (name.data + name.size - (last + 1)) };
        if (!function.size || !is_python_file(file) || !parse_line(number, &line))
                return false;
        ret->file = file;
        ret->name = function;
        ret->line = line;
        return true;
}

/* "[libfoo.so]", "[libfoo.so+0x1200]": code of the object that nothing names. */
static void take_unnamed(struct infp_import_text name, struct infp_import_place *ret)
{
        struct infp_import_text object = { name.data + 1, name.size - 2 };
        const char *plus = infp_import_last(object, '+');

        if (plus && object.data + object.size - plus > 3 && plus[1] == '0' && plus[2] == 'x')
                object.size = (size_t) (plus - object.data);
        ret->is_unnamed = true;
        ret->kind = INFP_FRAME_UNKNOWN;
        if (!object.size || infp_import_is(object, "unknown"))
                return;
        ret->object = object;
        if (infp_import_begins(object, "kernel") || infp_import_begins(object, "guest.kernel") ||
            infp_import_begins(object, "vmlinux"))
                ret->kind = INFP_FRAME_KERNEL;
}

void infp_import_name(struct infp_import_text name, struct infp_import_place *ret)
{
        struct infp_import_level *level = &ret->levels[0];
        bool is_python = false;

        ret->kind = INFP_FRAME_NATIVE;
        ret->object = ret->build_id = (struct infp_import_text){ NULL, 0 };
        ret->is_unnamed = false;
        ret->n_levels = 1;
        *level = (struct infp_import_level){ .name = name };
        if (name.size > 2 && name.data[0] == '[' && name.data[name.size - 1] == ']')
                take_unnamed(name, ret);
        else if (take_pyspy(name, level, &is_python) || take_austin(name, level))
                ret->kind = INFP_FRAME_PYTHON;
}

struct infp_import_text infp_import_place_name(struct infp_str *out, struct infp_import_text object,
                                               const uint64_t *address)
{
        struct infp_import_text base = infp_import_base(object);

        if (infp_import_begins(base, "[") && !address)
                return base;
        if (infp_import_begins(base, "[") && infp_import_cut(&base, "]"))
                base = infp_import_from(base, base.data + 1);
        infp_str_clear(out);
        infp_str_putc(out, '[');
        if (base.size)
                infp_str_put(out, base.data, base.size);
        else if (!address)
                infp_str_puts(out, "unknown");
        if (address)
                infp_str_printf(out, "%s0x%" PRIx64, base.size ? "+" : "", *address);
        infp_str_putc(out, ']');
        return (struct infp_import_text){ out->data, out->size };
}
