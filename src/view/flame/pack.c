#include "view/flame/pack.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <zlib.h>

#include "base/mem.h"
#include "base/sort.h"
#include "view/flame/palette.h"

struct reference {
        const char *text;
        uint32_t slot;
};

struct pack {
        const struct infp_flame *flame;
        struct infp_flame_packing *packing;
        struct infp_str raw;
        uint32_t *order;    /* nodes, parents first, a subtree without gaps */
        uint32_t *position; /* of a node in it */
        uint32_t *strings;  /* three a function: name, object, file; 0: none, else 1 + place among the strings */
};

static void pack_done(struct pack *pack)
{
        infp_str_done(&pack->raw);
        free(pack->order);
        free(pack->position);
        free(pack->strings);
}

static void put(struct pack *pack, uint64_t v)
{
        char bytes[10];
        size_t n = 0;

        for (; v >= 0x80; v >>= 7)
                bytes[n++] = (char) (v | 0x80);
        bytes[n++] = (char) v;
        infp_str_put(&pack->raw, bytes, n);
}

static void put_weight(struct pack *pack, double weight)
{
        put(pack, weight > 0 ? (uint64_t) llround(weight / pack->packing->step) : 0);
}

static int by_text(const void *a, const void *b)
{
        return strcmp(((const struct reference *) a)->text, ((const struct reference *) b)->text);
}

/* All strings, each once and sorted: how many bytes it shares with the previous one, how many more it has, and those bytes. */
static int put_strings(struct pack *pack)
{
        const struct infp_flame *flame = pack->flame;
        infp_autofree struct reference *references = calloc((size_t) flame->n_functions * 3 + 1, sizeof *references);
        infp_autofree const char **unique = calloc((size_t) flame->n_functions * 3 + 1, sizeof *unique);
        uint32_t n = 0, n_unique = 0;

        if (!references || !unique)
                return -ENOMEM;
        for (uint32_t i = 0; i < flame->n_functions; i++) {
                const struct infp_flame_function *function = &flame->functions[i];
                const char *const texts[] = { function->name, function->object, function->file };

                for (uint32_t k = 0; k < 3; k++)
                        if (texts[k])
                                references[n++] = (struct reference){ texts[k], 3 * i + k };
        }
        infp_sort(references, n, sizeof *references, by_text);
        for (uint32_t i = 0; i < n; i++) {
                if (!n_unique || strcmp(unique[n_unique - 1], references[i].text) != 0)
                        unique[n_unique++] = references[i].text;
                pack->strings[references[i].slot] = n_unique;
        }
        pack->packing->n_strings = n_unique;
        put(pack, n_unique);
        for (unsigned what = 0; what < 3; what++) {
                for (uint32_t i = 0; i < n_unique; i++) {
                        const char *text = unique[i], *before = i ? unique[i - 1] : "";
                        size_t shared = 0;

                        while (text[shared] && text[shared] == before[shared])
                                shared++;
                        if (what == 0)
                                put(pack, shared);
                        else if (what == 1)
                                put(pack, strlen(text + shared));
                        else
                                infp_str_puts(&pack->raw, text + shared);
                }
        }
        return 0;
}

static void put_functions(struct pack *pack)
{
        const struct infp_flame *flame = pack->flame;

        for (uint32_t k = 0; k < 3; k++)
                for (uint32_t i = 0; i < flame->n_functions; i++)
                        put(pack, pack->strings[3 * i + k]);
        for (uint32_t i = 0; i < flame->n_functions; i++)
                put(pack, flame->functions[i].line > 0 ? (uint64_t) flame->functions[i].line : 0);
        for (uint32_t i = 0; i < flame->n_functions; i++) {
                const struct infp_flame_function *function = &flame->functions[i];

                put(pack, (uint64_t) function->kind | (infp_flame_is_guessed(function) ? INFP_FLAME_PACK_GUESSED : 0U) |
                                  (function->is_inlined ? INFP_FLAME_PACK_INLINED : 0U) |
                                  (function->is_unnamed ? INFP_FLAME_PACK_UNNAMED : 0U) |
                                  (function->is_group ? INFP_FLAME_PACK_GROUP : 0U));
        }
        for (uint32_t i = 0; i < flame->n_functions; i++)
                put(pack, flame->functions[i].guessed_samples);
        for (uint32_t i = 0; i < flame->n_functions; i++)
                put(pack, infp_flame_shade(&flame->functions[i]));
}

/* Depth first, siblings in order: a parent is then coded as levels up from the previous node. */
static int find_order(struct pack *pack)
{
        const struct infp_flame *flame = pack->flame;
        uint32_t node = 0, n = 0;

        pack->order = calloc((size_t) flame->n_nodes + 1, sizeof *pack->order);
        pack->position = calloc((size_t) flame->n_nodes + 1, sizeof *pack->position);
        pack->strings = calloc((size_t) flame->n_functions * 3 + 1, sizeof *pack->strings);
        if (!pack->order || !pack->position || !pack->strings)
                return -ENOMEM;
        while (n < flame->n_nodes) {
                pack->position[node] = n;
                pack->order[n++] = node;
                if (flame->nodes[node].first_child) {
                        node = flame->nodes[node].first_child;
                        continue;
                }
                while (node && !flame->nodes[node].next_sibling)
                        node = flame->nodes[node].parent;
                if (!node)
                        break;
                node = flame->nodes[node].next_sibling;
        }
        /* All nodes must hang on the root. */
        return n == flame->n_nodes ? 0 : -EINVAL;
}

static void put_nodes(struct pack *pack)
{
        const struct infp_flame *flame = pack->flame;
        const uint32_t *order = pack->order;

        for (uint32_t i = 1; i < flame->n_nodes; i++)
                put(pack, (uint64_t) (flame->nodes[order[i - 1]].depth + 1 - flame->nodes[order[i]].depth));
        for (uint32_t i = 1; i < flame->n_nodes; i++)
                put(pack, flame->nodes[order[i]].function);
        for (uint32_t i = 0; i < flame->n_nodes; i++)
                put(pack, flame->nodes[order[i]].self_samples);
        if (pack->packing->has_weights)
                for (uint32_t i = 0; i < flame->n_nodes; i++)
                        put_weight(pack, flame->nodes[order[i]].self_weight);
        if (pack->packing->has_waits)
                for (uint32_t i = 0; i < flame->n_nodes; i++)
                        put(pack, flame->nodes[order[i]].is_wait);
        if (!flame->base)
                return;
        for (uint32_t i = 0; i < flame->n_nodes; i++)
                put(pack, flame->base[order[i]].self_samples);
        if (pack->packing->has_weights)
                for (uint32_t i = 0; i < flame->n_nodes; i++)
                        put_weight(pack, flame->base[order[i]].self_weight);
}

static int by_number(const void *a, const void *b)
{
        const uint64_t x = *(const uint64_t *) a, y = *(const uint64_t *) b;

        return x < y ? -1 : x > y;
}

/* Each bucket's number of entries, then of all entries the node (the distance from the one before), samples, weight. */
static int put_moments(struct pack *pack)
{
        const struct infp_flame *flame = pack->flame;
        const uint32_t n = flame->moments ? flame->n_moments : 0;
        infp_autofree uint32_t *counts = calloc((size_t) flame->n_buckets + 1, sizeof *counts);
        infp_autofree uint64_t *keys =
                calloc((size_t) n + 1, sizeof *keys); /* (place of the node, moment), a bucket at a time */
        uint64_t before = 0;

        if (!counts || !keys)
                return -ENOMEM;
        for (uint32_t i = 0; i < n; i++) {
                if (flame->moments[i].bucket >= flame->n_buckets || flame->moments[i].node >= flame->n_nodes ||
                    (i && flame->moments[i].bucket < flame->moments[i - 1].bucket))
                        return -EINVAL;
                counts[flame->moments[i].bucket]++;
                keys[i] = (uint64_t) pack->position[flame->moments[i].node] << 32 | i;
        }
        for (uint32_t bucket = 0, from = 0; bucket < flame->n_buckets; from += counts[bucket++]) {
                infp_sort(keys + from, counts[bucket], sizeof *keys, by_number);
                put(pack, counts[bucket]);
        }
        for (uint32_t bucket = 0, i = 0; bucket < flame->n_buckets; bucket++) {
                before = 0;
                for (uint32_t k = 0; k < counts[bucket]; k++, i++) {
                        put(pack, (keys[i] >> 32) - before);
                        before = keys[i] >> 32;
                }
        }
        for (uint32_t i = 0; i < n; i++)
                put(pack, flame->moments[(uint32_t) keys[i]].samples);
        if (pack->packing->has_weights)
                for (uint32_t i = 0; i < n; i++)
                        put_weight(pack, flame->moments[(uint32_t) keys[i]].weight);
        return 0;
}

/* Whether samples differ in weight, so that weights must be written. */
static bool weighs_differently(const struct infp_flame *flame)
{
        const double each = flame->samples ? flame->weight / (double) flame->samples : 0;
        const double slack = 1e-6 * (fabs(flame->weight) + fabs(flame->base_weight));

        for (uint32_t i = 0; i < flame->n_nodes; i++)
                if (fabs(flame->nodes[i].self_weight - each * (double) flame->nodes[i].self_samples) > slack)
                        return true;
        for (uint32_t i = 0; flame->base && i < flame->n_nodes; i++)
                if (fabs(flame->base[i].self_weight - each * (double) flame->base[i].self_samples) > slack)
                        return true;
        return false;
}

static void look_at(const struct infp_flame *flame, struct infp_flame_packing *ret)
{
        const double whole = fmax(flame->weight, flame->base_weight);

        *ret = (struct infp_flame_packing){ .has_weights = weighs_differently(flame), .step = 1 };
        if (whole > 0)
                ret->step = pow(10, floor(log10(whole * 1e-7)));
        for (uint32_t i = 0; i < flame->n_nodes; i++)
                ret->has_waits |= flame->nodes[i].is_wait;
}

static void put_base64(struct infp_str *out, const unsigned char *bytes, size_t size)
{
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

        if (!infp_str_reserve(out, (size + 2) / 3 * 4))
                return;
        for (size_t i = 0; i < size; i += 3) {
                const size_t left = size - i;
                const uint32_t three = (uint32_t) bytes[i] << 16 | (left > 1 ? (uint32_t) bytes[i + 1] << 8 : 0) |
                                       (left > 2 ? bytes[i + 2] : 0);
                const char four[] = { digits[three >> 18], digits[three >> 12 & 63],
                                      left > 1 ? digits[three >> 6 & 63] : '=', left > 2 ? digits[three & 63] : '=' };

                infp_str_put(out, four, sizeof four);
        }
}

static int deflate_into(struct infp_str *out, const struct infp_str *raw)
{
        z_stream stream = { 0 };
        infp_autofree unsigned char *bytes = NULL;
        uLong bound, size;
        int r;

        if (raw->size > UINT32_MAX / 2)
                return -EFBIG;
        /* Raw, as DecompressionStream has it; level 6 is within 2 % of 9 at a third of its time. */
        if (deflateInit2(&stream, 6, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
                return -ENOMEM;
        bound = deflateBound(&stream, raw->size);
        bytes = malloc(bound);
        if (!bytes) {
                deflateEnd(&stream);
                return -ENOMEM;
        }
        stream.next_in = (Bytef *) raw->data;
        stream.avail_in = (uInt) raw->size;
        stream.next_out = bytes;
        stream.avail_out = (uInt) bound;
        r = deflate(&stream, Z_FINISH);
        size = stream.total_out;
        deflateEnd(&stream);
        if (r != Z_STREAM_END)
                return -EIO;
        put_base64(out, bytes, size);
        return 0;
}

int infp_flame_pack(struct infp_str *out, const struct infp_flame *flame, struct infp_flame_packing *ret,
                    struct infp_err *err)
{
        infp_cleanup(pack_done) struct pack pack = { .flame = flame, .packing = ret };
        int r;

        look_at(flame, ret);
        r = find_order(&pack);
        if (r >= 0)
                r = put_strings(&pack);
        if (r >= 0) {
                put_functions(&pack);
                if (flame->n_nodes)
                        put_nodes(&pack);
                r = put_moments(&pack);
        }
        if (r >= 0 && pack.raw.failed)
                r = -ENOMEM;
        if (r >= 0)
                r = deflate_into(out, &pack.raw);
        if (r == -EINVAL)
                return infp_fail(err, r, "a flame graph's tree is not one: a node or a moment hangs on nothing");
        if (r < 0)
                return infp_fail_errno(err, r, "cannot pack a flame graph of %u nodes", (unsigned) flame->n_nodes);
        return out->failed ? -ENOMEM : 0;
}
