/* Folded stacks: root first, names with ';' between them, a blank, the number of samples, of the heap bytes. What would break a line apart is
 * replaced as stackcollapse-perf.pl does. Kernel frames end in _[k], code made at run time in _[j]: flamegraph.pl and inferno
 * colour by it and show the name alone. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/profile/profile.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/text.h"
#include "view/profile/profile_formats.h"

/* Bytes at `text` that some readers take for the end of a line: control characters, U+0085, U+2028, U+2029. */
static unsigned line_end(const char *text)
{
        const unsigned char *at = (const unsigned char *) text;

        if (*at < ' ' || *at == 127)
                return 1;
        if (at[0] == 0xc2 && at[1] == 0x85)
                return 2;
        return at[0] == 0xe2 && at[1] == 0x80 && (at[2] == 0xa8 || at[2] == 0xa9) ? 3 : 0;
}

/* A name whose last word is a number gets "_" before that word: readers take "stage 2 7" for two counts. */
static void bind_number(struct infp_str *out, size_t begin)
{
        size_t at = out->size;
        double number;

        while (at > begin && out->data[at - 1] != ' ')
                at--;
        if (at > begin && infp_parse_f64(out->data + at, out->size - at, &number) == 0)
                out->data[at - 1] = '_';
}

static void put_name(struct infp_str *out, const char *name)
{
        const size_t begin = out->size;

        while (*name) {
                const unsigned n = line_end(name);

                infp_str_putc(out, n ? ' ' : *name == ';' ? ':' : *name);
                name += n ? n : 1;
        }
        bind_number(out, begin);
}

static void put_frame(struct infp_str *out, const struct infp_flame *f, const struct infp_flame_node *node)
{
        const struct infp_flame_function *function = &f->functions[node->function];

        put_name(out, function->name);
        if (function->is_line && function->line) {
                infp_str_puts(out, " (");
                if (function->file) {
                        put_name(out, infp_base_name(function->file));
                        infp_str_putc(out, ':');
                }
                infp_str_i64(out, function->line);
                infp_str_putc(out, ')');
        }
        if (function->kind == INFP_FRAME_KERNEL)
                infp_str_puts(out, "_[k]");
        else if (function->kind == INFP_FRAME_JIT)
                infp_str_puts(out, "_[j]");
}

int infp_folded_write(struct infp_out *out, const struct infp_flame *f, struct infp_err *err)
{
        infp_autostr struct infp_str path = { 0 };
        infp_autofree size_t *ends = NULL; /* of the path at each depth */
        const bool is_weighed = strcmp(f->unit, "bytes") == 0 || infp_stack_mode_of_objects(f->mode) < INFP_STACK_MODES;
        uint32_t deepest = 0;

        for (uint32_t i = 0; i < f->n_nodes; i++)
                deepest = f->nodes[i].depth > deepest ? f->nodes[i].depth : deepest;
        ends = calloc((size_t) deepest + 1, sizeof(*ends));
        for (uint32_t i = 1; ends && i < f->n_nodes && !out->error; i++) {
                const struct infp_flame_node *node = &f->nodes[i];

                path.size = ends[node->depth - 1];
                if (node->depth > 1)
                        infp_str_putc(&path, ';');
                put_frame(&path, f, node);
                ends[node->depth] = path.size;
                if (!node->self_samples)
                        continue;
                infp_str_put(&out->text, path.data, path.size);
                infp_str_putc(&out->text, ' ');
                infp_str_u64(&out->text, is_weighed ? (uint64_t) llround(node->self_weight) : node->self_samples);
                infp_str_putc(&out->text, '\n');
                infp_out_drain(out);
        }
        return !ends || path.failed || out->text.failed ? infp_fail(err, -ENOMEM, "no memory for the folded stacks")
                                                        : 0;
}
