/* Fixture trees with GPUs: copied, and their gpu_metrics.txt turned into the binary table. The text names all fields of a layout in
 * the order of the kernel's struct, so that offsets come from the compiler's rule of alignment, not from the parser under test:
 *     u16 temperature_edge = 61          one value
 *     u16*4 temperature_hbm = 1 2        several, the last one repeated; no "=": all ones, which is "not given"
 *     pad 8                              alignment without a field */
#pragma once

#include "process_tree.h"

enum { GPU_TABLE_MAX = 8192 };

static inline size_t gpu_pad(uint8_t *table, size_t at, size_t width)
{
        while (at % width)
                table[at++] = 0;
        return at;
}

static inline size_t gpu_put_field(uint8_t *table, size_t at, unsigned width, unsigned n, const char *values)
{
        uint64_t v = UINT64_MAX;

        at = gpu_pad(table, at, width);
        for (unsigned i = 0; i < n; i++) {
                char *end;
                unsigned long long next = values ? strtoull(values, &end, 0) : 0;

                if (values && end != values) {
                        v = next;
                        values = end;
                }
                assert_true(at + width <= GPU_TABLE_MAX);
                for (unsigned k = 0; k < width; k++)
                        table[at++] = (uint8_t) (v >> 8 * k);
        }
        return at;
}

/* Its size. */
static inline size_t gpu_table_from_text(const char *text, uint8_t table[GPU_TABLE_MAX])
{
        size_t at = 0;

        while (*text) {
                char line[512];
                const char *values;
                unsigned bits, n = 1;
                const size_t size = strcspn(text, "\n");

                assert_true(size < sizeof(line));
                memcpy(line, text, size);
                line[size] = 0;
                text += size;
                text += *text == '\n';
                if (!*line || *line == '#')
                        continue;
                if (sscanf(line, "pad %u", &n) == 1) {
                        at = gpu_pad(table, at, n);
                        continue;
                }
                if (sscanf(line, "u%u*%u", &bits, &n) < 1)
                        fail_msg("no field: %s", line);
                values = strchr(line, '=');
                at = gpu_put_field(table, at, bits / 8, n, values ? values + 1 : NULL);
        }
        return at;
}

static inline void gpu_put_table(const char *top, const char *path, const char *text)
{
        static uint8_t table[GPU_TABLE_MAX];

        tree_put_bytes(top, path, table, gpu_table_from_text(text, table));
}

static inline char *gpu_read_text(const char *path, char *text, size_t cap)
{
        FILE *file = fopen(path, "r");
        size_t n;

        assert_non_null(file);
        n = fread(text, 1, cap - 1, file);
        fclose(file);
        text[n] = 0;
        return text;
}

/* Turns the text of a card anew, with one field's values replaced: "average_gfx_activity = 50". NULL: as it is. */
static inline void gpu_set_metrics(const char *top, unsigned card, const char *field)
{
        char place[96], path[192], text[8192], changed[9000], name[64];
        char *at;

        snprintf(place, sizeof(place), "sys/class/drm/card%u/device/gpu_metrics.txt", card);
        snprintf(path, sizeof(path), "%.64s/%s", top, place);
        gpu_read_text(path, text, sizeof(text));
        snprintf(changed, sizeof(changed), "%s", text);
        if (field) {
                snprintf(name, sizeof(name), " %.*s", (int) strcspn(field, " ="), field);
                at = strstr(text, name);
                if (!at)
                        fail_msg("no field%s", name);
                *at = 0;
                snprintf(changed, sizeof(changed), "%s %.64s%s", text, field, at + 1 + strcspn(at + 1, "\n"));
                tree_put(top, place, changed);
        }
        *strrchr(place, '.') = 0;
        gpu_put_table(top, place, changed);
}

static inline void gpu_tree(const char *name, char top[64])
{
        char path[192];

        tree_new(top);
        tree_command("cp -r --no-dereference --no-preserve=mode '%s/.' '%s'", fixture(name), top);
        for (unsigned card = 0; card < 8; card++) {
                snprintf(path, sizeof(path), "%.64s/sys/class/drm/card%u/device/gpu_metrics.txt", top, card);
                if (access(path, F_OK) == 0)
                        gpu_set_metrics(top, card, NULL);
        }
}

/* A collector on such a tree, tick by tick. */
struct gpu_world {
        char top[64];
        struct machine *m;
        struct infp_target *target;
        struct infp_collector_state state;
};

static inline int gpu_world_open(struct gpu_world *w, const char *collector, enum infp_mode mode, bool all, pid_t root)
{
        w->m = machine_open(w->top);
        w->target = new_target(mode, all, root);
        w->m->env.target = w->target;
        refresh(w->target, &w->m->env);
        return infp_collector_open(&w->state, infp_collector_find(collector), &w->m->env, &w->m->emit, machine_notice,
                                   w->m);
}

static inline void gpu_world_new(struct gpu_world *w, const char *name, const char *collector, enum infp_mode mode,
                                 bool all, pid_t root)
{
        *w = (struct gpu_world){ .m = NULL };
        gpu_tree(name, w->top);
        assert_int_equal(gpu_world_open(w, collector, mode, all, root), 0);
}

static inline void gpu_tick(struct gpu_world *w, double seconds)
{
        w->m->n = w->m->text_size = 0;
        w->m->clock_ns += (uint64_t) (seconds * 1e9);
        refresh(w->target, &w->m->env);
        assert_int_equal(infp_collector_sample(&w->state, &w->m->env, &w->m->emit, machine_notice, w->m), 0);
}

static inline void gpu_world_done(struct gpu_world *w)
{
        infp_collector_close(&w->state);
        infp_target_free(w->target);
        machine_close(w->m);
        tree_remove(w->top);
}

static inline void gpu_put(const struct gpu_world *w, const char *path, const char *text)
{
        tree_put(w->top, path, text);
}

/* The row of a pid on a GPU; NULL: none. */
static inline const struct kept *gpu_process(const struct gpu_world *w, const char *table, int64_t gpu, int64_t pid)
{
        for (size_t i = w->m->n; i-- > 0;) {
                const struct kept *k = &w->m->rows[i];

                if (!strcmp(k->table->name, table) && k->cell[0].i64 == gpu && k->cell[kept_cell(k, "gPid")].i64 == pid)
                        return k;
        }
        return NULL;
}

static inline int64_t gpu_i64(const struct kept *k, const char *column)
{
        assert_non_null(k);
        if (!kept_has(k, kept_cell(k, column)))
                fail_msg("%s is absent", column);
        return k->cell[kept_cell(k, column)].i64;
}

static inline double gpu_f64(const struct kept *k, const char *column)
{
        assert_non_null(k);
        if (!kept_has(k, kept_cell(k, column)))
                fail_msg("%s is absent", column);
        return k->cell[kept_cell(k, column)].f64;
}

static inline bool gpu_is_absent(const struct kept *k, const char *column)
{
        assert_non_null(k);
        return !kept_has(k, kept_cell(k, column));
}

static inline void gpu_is_text(const struct kept *k, const char *column, const char *right)
{
        char text[1024];

        assert_non_null(k);
        if (!kept_has(k, kept_cell(k, column)))
                fail_msg("%s is absent", column);
        assert_string_equal(kept_text(k, kept_cell(k, column), text, sizeof(text)), right);
}
