/* Makes pictures of trees with known answers (tests/e2e/flame_tree.py): reads a tree from standard input, writes the page or picture to
 * standard output, and how much CPU time writing took to standard error.
 *
 *   flame_tool html|svg [theme=hot] [title=T] [subtitle=T] [base=T] [note=T] [min=0.1] [width=1200] [below] [reversed] [normalised] [plain]
 *
 * Lines, fields split by tabs, texts as base/text.h escapes them:
 *   M mode unit buckets seconds truncated unnamed guessed base(0|1)
 *   F kind flags line object file name      a function, in order (flags: 1 guessed, 2 inlined, 4 unnamed, 8 group; "" is none)
 *   S samples weight bucket base_samples f f f ...      a stack, root first; bucket -1: none */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "view/flame/html.h"
#include "view/flame/svg.h"

struct maker {
        struct infp_flame flame;
        double squares; /* of the samples' weights, summed */
        uint32_t cap_nodes, cap_functions, cap_moments;
};

static void *grow(void *array, uint32_t n, uint32_t *cap, size_t size)
{
        if (n < *cap)
                return array;
        *cap = *cap ? *cap * 2 : 1024;
        array = realloc(array, *cap * size);
        if (!array)
                abort();
        return array;
}

static char *text_of(const char *field)
{
        const size_t size = strlen(field);
        char *text = calloc(1, size + 1);
        const ssize_t n = infp_text_unescape(field, size, text, size);

        if (n < 0)
                abort();
        text[n] = 0;
        return text;
}

static const char *optional(const char *field)
{
        return *field ? text_of(field) : NULL;
}

static uint32_t new_node(struct maker *maker, uint32_t parent, uint32_t function)
{
        struct infp_flame *flame = &maker->flame;

        if (flame->base && flame->n_nodes >= maker->cap_nodes)
                flame->base =
                        realloc(flame->base, (maker->cap_nodes ? maker->cap_nodes * 2 : 1024) * sizeof *flame->base);
        flame->nodes = grow(flame->nodes, flame->n_nodes, &maker->cap_nodes, sizeof *flame->nodes);
        if (flame->base)
                flame->base[flame->n_nodes] = (struct infp_flame_base){ 0 };
        flame->nodes[flame->n_nodes] =
                (struct infp_flame_node){ .parent = parent,
                                          .function = function,
                                          .depth = flame->n_nodes ? (uint16_t) (flame->nodes[parent].depth + 1) : 0 };
        return flame->n_nodes++;
}

/* The child with that function; siblings stay in order of names. */
static uint32_t child_of(struct maker *maker, uint32_t parent, uint32_t function)
{
        const char *name = maker->flame.functions[function].name;
        uint32_t before = 0, at = maker->flame.nodes[parent].first_child, node;

        for (; at; before = at, at = maker->flame.nodes[at].next_sibling) {
                const uint32_t other = maker->flame.nodes[at].function;
                const int r = strcmp(maker->flame.functions[other].name, name);

                if (other == function)
                        return at;
                if (r > 0 || (r == 0 && other > function))
                        break;
        }
        node = new_node(maker, parent, function);
        maker->flame.nodes[node].next_sibling = at;
        if (before)
                maker->flame.nodes[before].next_sibling = node;
        else
                maker->flame.nodes[parent].first_child = node;
        return node;
}

static void take_stack(struct maker *maker, char *fields)
{
        struct infp_flame *flame = &maker->flame;
        char *at = fields;
        const uint64_t samples = strtoull(at, &at, 10);
        const double given = strtod(at, &at);
        const long bucket = strtol(at, &at, 10);
        const uint64_t base = strtoull(at, &at, 10);
        /* Of a stack that is gone it is the weight of before. */
        const double weight = samples ? given : 0,
                     base_weight = samples ? (double) base * given / (double) samples : given;
        uint32_t node = 0;
        uint64_t *const self = &flame->samples;

        *self += samples;
        flame->weight += weight;
        maker->squares += samples ? weight * weight / (double) samples : 0;
        flame->base_samples += base;
        flame->base_weight += base_weight;
        for (;;) {
                flame->nodes[node].total_samples += samples;
                flame->nodes[node].total_weight += weight;
                if (flame->base)
                        flame->base[node].total_samples += base;
                while (*at == '\t')
                        at++;
                if (*at < '0' || *at > '9')
                        break;
                node = child_of(maker, node, (uint32_t) strtoul(at, &at, 10));
        }
        flame->nodes[node].self_samples += samples;
        flame->nodes[node].self_weight += weight;
        if (flame->base) {
                flame->base[node].self_samples += base;
                flame->base[node].self_weight += base_weight;
        }
        if (bucket < 0)
                return;
        flame->moments = grow(flame->moments, flame->n_moments, &maker->cap_moments, sizeof *flame->moments);
        flame->moments[flame->n_moments++] = (struct infp_flame_moment){ (uint32_t) bucket, node, samples, weight };
}

static void take_function(struct maker *maker, char *fields)
{
        struct infp_flame *flame = &maker->flame;
        char *part[6] = { 0 };

        for (unsigned i = 0; i < 6; i++)
                part[i] = strsep(&fields, "\t");
        if (!part[5])
                abort();
        flame->functions = grow(flame->functions, flame->n_functions, &maker->cap_functions, sizeof *flame->functions);
        flame->functions[flame->n_functions++] = (struct infp_flame_function){
                .kind = (enum infp_frame_kind) atoi(part[0]),
                .guessed_samples = atoi(part[1]) & 1, /* all of its samples: sum_functions */
                .is_inlined = (atoi(part[1]) & 2) != 0,
                .is_unnamed = (atoi(part[1]) & 4) != 0,
                .is_group = (atoi(part[1]) & 8) != 0,
                .line = atoll(part[2]),
                .object = optional(part[3]),
                .file = optional(part[4]),
                .name = text_of(part[5]),
        };
}

static void take_mode(struct maker *maker, char *fields)
{
        struct infp_flame *flame = &maker->flame;
        char *part[8] = { 0 };

        for (unsigned i = 0; i < 8; i++)
                part[i] = strsep(&fields, "\t");
        if (!part[7])
                abort();
        snprintf(flame->mode, sizeof flame->mode, "%s", part[0]);
        flame->unit = text_of(part[1]);
        flame->n_buckets = (uint32_t) atoi(part[2]);
        flame->t1 = (uint64_t) (atof(part[3]) * 1e9);
        flame->truncated_samples = strtoull(part[4], NULL, 10);
        flame->unnamed_samples = strtoull(part[5], NULL, 10);
        flame->guessed_samples = strtoull(part[6], NULL, 10);
        if (atoi(part[7]))
                flame->base = calloc(1024, sizeof *flame->base);
}

/* What functions have in all: each sample once a stack. */
static void sum_functions(struct infp_flame *flame)
{
        for (uint32_t i = 1; i < flame->n_nodes; i++) {
                const struct infp_flame_node *node = &flame->nodes[i];
                uint32_t above = node->parent;

                flame->functions[node->function].self_samples += node->self_samples;
                flame->functions[node->function].self_weight += node->self_weight;
                while (above && flame->nodes[above].function != node->function)
                        above = flame->nodes[above].parent;
                if (above)
                        continue;
                flame->functions[node->function].total_samples += node->total_samples;
                flame->functions[node->function].total_weight += node->total_weight;
        }
        for (uint32_t i = 0; i < flame->n_functions; i++)
                flame->functions[i].guessed_samples *= flame->functions[i].total_samples;
}

static int by_bucket(const void *a, const void *b)
{
        const struct infp_flame_moment *x = a, *y = b;

        if (x->bucket != y->bucket)
                return x->bucket < y->bucket ? -1 : 1;
        return x->node < y->node ? -1 : x->node > y->node;
}

static void read_tree(struct maker *maker)
{
        char *line = NULL;
        size_t cap = 0;
        ssize_t n;

        new_node(maker, 0, UINT32_MAX);
        while ((n = getline(&line, &cap, stdin)) > 0) {
                if (line[n - 1] == '\n')
                        line[n - 1] = 0;
                if (line[0] == 'M')
                        take_mode(maker, line + 2);
                else if (line[0] == 'F')
                        take_function(maker, line + 2);
                else if (line[0] == 'S')
                        take_stack(maker, line + 2);
        }
        free(line);
        if (maker->flame.moments)
                qsort(maker->flame.moments, maker->flame.n_moments, sizeof *maker->flame.moments, by_bucket);
}

static void take_option(struct infp_flame_look *look, const char *word, const char **ret_note)
{
        const char *value = strchr(word, '=');

        if (!value)
                value = "";
        else
                value++;
        if (!strncmp(word, "theme=", 6))
                look->theme = (enum infp_flame_theme) infp_flame_theme_by_name(value);
        else if (!strncmp(word, "title=", 6))
                look->title = value;
        else if (!strncmp(word, "subtitle=", 9))
                look->subtitle = value;
        else if (!strncmp(word, "base=", 5))
                look->base = value;
        else if (!strncmp(word, "note=", 5)) {
                *ret_note = value;
                look->notes = ret_note;
                look->n_notes = 1;
        } else if (!strncmp(word, "min=", 4))
                look->min_width_percent = atof(value);
        else if (!strncmp(word, "width=", 6))
                look->width = (unsigned) atoi(value);
        look->has_root_below |= !strcmp(word, "below");
        look->is_reversed |= !strcmp(word, "reversed");
        look->is_normalised |= !strcmp(word, "normalised");
        look->has_no_script |= !strcmp(word, "plain");
}

int main(int argc, char **argv)
{
        static struct maker maker; /* its memory lives as long as the process */
        struct infp_flame_look look = { 0 };
        struct infp_str out = { 0 };
        struct infp_err err = { 0 };
        const char *note = NULL;
        clock_t before;
        int r;

        for (int i = 2; i < argc; i++)
                take_option(&look, argv[i], &note);
        read_tree(&maker);
        sum_functions(&maker.flame);
        maker.flame.all_samples = maker.flame.samples;
        maker.flame.effective_samples = maker.squares > 0 ? maker.flame.weight * maker.flame.weight / maker.squares : 0;
        before = clock();
        r = argc > 1 && !strcmp(argv[1], "svg") ? infp_flame_svg(&out, &maker.flame, &look, &err)
                                                : infp_flame_html(&out, &maker.flame, &look, &err);
        if (r < 0) {
                fprintf(stderr, "%s\n", err.text);
                return 1;
        }
        fprintf(stderr, "{\"cpu_s\": %.4f, \"nodes\": %u, \"bytes\": %zu}\n",
                (double) (clock() - before) / CLOCKS_PER_SEC, maker.flame.n_nodes, out.size);
        fwrite(out.data, 1, out.size, stdout);
        infp_str_done(&out);
        return 0;
}
