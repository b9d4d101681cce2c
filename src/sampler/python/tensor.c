#include "sampler/python/tensor.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"

/* c10::TensorImpl changes from version to version, and no offsets are published. It has a pointer back to its Python object, though, after
 * which all versions since 1.10 have the same members: the number of dimensions, room for 5 sizes and 5 strides (or a pointer to them), the
 * offset in the storage, the number of elements, the type, the device. The elements must be the product of the sizes, or nothing is
 * believed. */
enum {
        IMPL_BYTES = 320,
        MOST_DIMENSIONS = 64,
        INLINE_DIMENSIONS = 5,
        AFTER_SIZES = 8 * (1 + 2 * INLINE_DIMENSIONS), /* from the number of dimensions to the storage's offset */
};

struct impl {
        uint64_t n_dimensions, n_elements;
        int64_t sizes[MOST_DIMENSIONS];
        uint8_t type, device[3];
};

static uint64_t word_at(const uint8_t *bytes, size_t offset)
{
        uint64_t word;

        memcpy(&word, bytes + offset, sizeof(word));
        return word;
}

static bool fits(const struct impl *impl)
{
        uint64_t n = 1;

        for (uint64_t i = 0; i < impl->n_dimensions; i++)
                if (impl->sizes[i] < 0 || __builtin_mul_overflow(n, (uint64_t) impl->sizes[i], &n))
                        return false;
        return n == impl->n_elements;
}

/* at: of the number of dimensions. */
static bool take(const struct infp_python_memory *memory, const uint8_t *bytes, size_t at, struct impl *ret)
{
        ret->n_dimensions = word_at(bytes, at);
        if (ret->n_dimensions > MOST_DIMENSIONS)
                return false;
        if (ret->n_dimensions <= INLINE_DIMENSIONS)
                memcpy(ret->sizes, bytes + at + 8, ret->n_dimensions * 8);
        else if (memory->read(memory->context, word_at(bytes, at + 8), ret->sizes, ret->n_dimensions * 8) < 0)
                return false;
        ret->n_elements = word_at(bytes, at + AFTER_SIZES + 8);
        ret->type = bytes[at + AFTER_SIZES + 16];
        memcpy(ret->device, bytes + at + AFTER_SIZES + 18, sizeof(ret->device));
        return bytes[at + AFTER_SIZES + 17] == 0 && fits(ret);
}

static bool find(const struct infp_python_memory *memory, uint64_t object, uint64_t impl, struct impl *ret)
{
        uint8_t bytes[IMPL_BYTES];

        if (!impl || memory->read(memory->context, impl, bytes, sizeof(bytes)) < 0)
                return false;
        for (size_t at = 16; at + 8 + AFTER_SIZES + 24 <= sizeof(bytes); at += 8)
                if ((word_at(bytes, at) & ~UINT64_C(1)) == object && take(memory, bytes, at + 8, ret))
                        return true;
        return false;
}

static void put_type(unsigned type, struct infp_str *out)
{
        static const char *const names[] = { "uint8",   "int8",    "int16",     "int32",     "int64",      "float16",
                                             "float32", "float64", "complex32", "complex64", "complex128", "bool",
                                             "qint8",   "quint8",  "qint32",    "bfloat16" };

        if (type < INFP_COUNT(names))
                infp_str_printf(out, " torch.%s", names[type]);
        else
                infp_str_printf(out, " type %u", type);
}

/* An optional of two bytes, type and index: c10's has the mark that it is there before them, the standard library's after. */
static void put_device(const uint8_t *device, struct infp_str *out)
{
        static const char *const names[] = { "cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip" };
        const bool is_standard = device[2] == 1 && device[0] < INFP_COUNT(names);
        const uint8_t type = is_standard ? device[0] : device[1], index = is_standard ? device[1] : device[2];

        if ((!is_standard && device[0] != 1) || type >= INFP_COUNT(names))
                return;
        infp_str_printf(out, " %s", names[type]);
        if (index < 128)
                infp_str_printf(out, ":%u", index);
}

bool infp_python_tensor_put(const struct infp_python_memory *memory, uint64_t object, unsigned head, const char *name,
                            struct infp_str *out)
{
        uint64_t words[2];
        struct impl impl;

        /* The pointer to it, or a mark and the pointer (c10::MaybeOwned). */
        if (memory->read(memory->context, object + head, words, sizeof(words)) < 0 ||
            (!find(memory, object, words[1], &impl) && !find(memory, object, words[0], &impl)))
                return false;
        infp_str_printf(out, "<%s (", name);
        for (uint64_t i = 0; i < impl.n_dimensions; i++)
                infp_str_printf(out, "%s%" PRId64, i ? ", " : "", impl.sizes[i]);
        infp_str_putc(out, ')');
        put_type(impl.type, out);
        put_device(impl.device, out);
        infp_str_putc(out, '>');
        return true;
}
