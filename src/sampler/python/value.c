#include "sampler/python/value.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "model/mask.h"
#include "sampler/python/tensor.h"
#include "unwind/python/code.h"

enum {
        MOST_ITEMS = 10,     /* of a container */
        MOST_LOOKED_AT = 64, /* places of a table that are looked at for them */
        MOST_TEXT = 200,     /* bytes of a str or bytes */
        MOST_DIGITS = 64,    /* of 30 bits */
        MOST_LOCALS = 256,   /* of a frame */
        HEAP_TYPE = 1 << 9,  /* of a type's flags: Python code made it */
        FROM_HEAD_TO_FLAGS = 152,
        HIDDEN = 0x10, /* of the kinds of variables: a comprehension's own */
        CELL = 0x40,
        FREE = 0x80,
};

enum kind { OTHER, INT, BOOL, FLOAT, STR, BYTES, NONE, LIST, TUPLE, DICT, SET, FROZENSET, TENSOR };

static const struct {
        const char *name;
        enum kind kind;
} builtins[] = {
        { "int", INT },     { "bool", BOOL },     { "float", FLOAT },         { "str", STR },
        { "bytes", BYTES }, { "NoneType", NONE }, { "list", LIST },           { "tuple", TUPLE },
        { "dict", DICT },   { "set", SET },       { "frozenset", FROZENSET },
};

/* ---- reading ---- */

static bool read(const struct infp_python_values *v, uint64_t address, void *ret, size_t size)
{
        return address && v->memory.read(v->memory.context, address, ret, size) == 0;
}

static bool read_word(const struct infp_python_values *v, uint64_t address, uint64_t *ret)
{
        return read(v, address, ret, sizeof(*ret));
}

/* The size of an object's head: its type is the last of it. */
static unsigned head_of(const struct infp_python_values *v)
{
        return v->layout->object_type + 8u;
}

/* A name of a type, cut where there is no more room. Its memory may end with its page. */
static bool read_name(const struct infp_python_values *v, uint64_t address, char *ret, size_t cap)
{
        const uint64_t to_edge = 4096 - address % 4096;
        const size_t first = to_edge < cap - 1 ? (size_t) to_edge : cap - 1;

        memset(ret, 0, cap);
        if (!read(v, address, ret, first))
                return false;
        if (strlen(ret) == first && first < cap - 1)
                read(v, address + first, ret + first, cap - 1 - first);
        return *ret;
}

static const struct infp_python_type *type_at(struct infp_python_values *v, uint64_t address)
{
        struct infp_python_type *type = &v->types[address / 64 % INFP_PYTHON_TYPES];
        uint64_t name, flags;

        if (type->address == address)
                return type;
        type->address = 0;
        if (!read_word(v, address + head_of(v) + 8, &name) ||
            !read_word(v, address + head_of(v) + FROM_HEAD_TO_FLAGS, &flags) ||
            !read_name(v, name, type->name, sizeof(type->name)))
                return NULL;
        type->kind = OTHER;
        for (size_t i = 0; i < INFP_COUNT(builtins); i++)
                if (!(flags & HEAP_TYPE) && strcmp(type->name, builtins[i].name) == 0)
                        type->kind = builtins[i].kind;
        if (flags & HEAP_TYPE && (strcmp(type->name, "Tensor") == 0 || strcmp(type->name, "Parameter") == 0))
                type->kind = TENSOR;
        type->address = address;
        return type;
}

static const struct infp_python_type *type_of(struct infp_python_values *v, uint64_t object)
{
        uint64_t address;

        return read_word(v, object + v->layout->object_type, &address) ? type_at(v, address) : NULL;
}

/* ---- scalars ---- */

/* Digits of 30 bits, the lowest first, in decimal. They are used up. */
static void put_decimal(uint32_t *digits, unsigned n, struct infp_str *out)
{
        char text[20 * MOST_DIGITS / 2];
        unsigned at = sizeof(text);

        while (n && !digits[n - 1])
                n--;
        do {
                uint64_t rest = 0;

                for (unsigned i = n; i-- > 0;) {
                        rest = rest << 30 | digits[i];
                        digits[i] = (uint32_t) (rest / 1000000000);
                        rest %= 1000000000;
                }
                while (n && !digits[n - 1])
                        n--;
                for (unsigned i = 0; i < 9 && (i == 0 || n || rest); i++, rest /= 10)
                        text[--at] = (char) ('0' + rest % 10);
        } while (n);
        infp_str_put(out, text + at, sizeof(text) - at);
}

/* Up to 3.11 the sign is the size's; from 3.12 on a tag has both. */
static bool put_int(const struct infp_python_values *v, uint64_t object, bool is_bool, struct infp_str *out)
{
        uint32_t digits[MOST_DIGITS];
        uint64_t tag, n;
        bool is_negative;

        if (!read_word(v, object + head_of(v), &tag))
                return false;
        if (v->layout->version >= 0x30c) {
                is_negative = (tag & 3) == 2;
                n = (tag & 3) == 1 ? 0 : tag >> 3;
        } else {
                is_negative = tag >> 63;
                n = is_negative ? -tag : tag;
        }
        if (n > MOST_DIGITS) {
                infp_str_printf(out, "<int of about %" PRIu64 " bits>", n * 30);
                return true;
        }
        if (n && !read(v, object + head_of(v) + 8, digits, n * sizeof(*digits)))
                return false;
        if (is_bool) {
                infp_str_puts(out, n && digits[0] ? "True" : "False");
                return true;
        }
        if (is_negative)
                infp_str_putc(out, '-');
        put_decimal(digits, (unsigned) n, out);
        return true;
}

static bool put_float(const struct infp_python_values *v, uint64_t object, struct infp_str *out)
{
        double value;

        if (!read(v, object + head_of(v), &value, sizeof(value)))
                return false;
        infp_str_f64(out, value);
        return true;
}

/* In quotes, as repr does, cut at MOST_TEXT; control characters as \xHH. */
static void put_quoted(const char *text, size_t size, bool is_bytes, bool is_cut, struct infp_str *out)
{
        infp_str_putc(out, '\'');
        for (size_t i = 0; i < size; i++) {
                const unsigned char c = (unsigned char) text[i];

                if (c == '\n')
                        infp_str_puts(out, "\\n");
                else if (c == '\'' || (c == '\\' && is_bytes))
                        infp_str_printf(out, "\\%c", c);
                else if (c < 0x20 || c == 0x7f || (is_bytes && c >= 0x80))
                        infp_str_printf(out, "\\x%02x", c);
                else
                        infp_str_putc(out, (char) c);
        }
        infp_str_puts(out, is_cut ? "...'" : "'");
}

/* Masks the secrets in a text of up to INFP_PYTHON_TEXT bytes. Returns its size then. */
static size_t mask(const struct infp_python_values *v, char *text, size_t size)
{
        char masked[INFP_PYTHON_TEXT];
        unsigned alone = 0;

        if (v->keep_secrets)
                return size;
        size = infp_mask_next(v->said ? v->said : &alone, text, size, masked, sizeof(masked));
        memcpy(text, masked, size);
        return size;
}

static bool put_str(const struct infp_python_values *v, uint64_t object, struct infp_str *out)
{
        char text[INFP_PYTHON_TEXT];
        size_t size, shown;

        if (infp_python_text_read(v->layout, &v->memory, object, text) < 0)
                return false;
        size = mask(v, text, strlen(text));
        shown = infp_utf8_cut(text, size, MOST_TEXT);
        put_quoted(text, shown, false, shown < size, out);
        return true;
}

/* The first bytes of a bytes object. */
static bool read_bytes(const struct infp_python_values *v, uint64_t object, char ret[INFP_PYTHON_TEXT], size_t *ret_n,
                       bool *ret_is_cut)
{
        uint64_t size;

        if (!read_word(v, object + v->layout->bytes_size, &size) || size >> 63)
                return false;
        *ret_is_cut = size > INFP_PYTHON_TEXT;
        *ret_n = *ret_is_cut ? INFP_PYTHON_TEXT : (size_t) size;
        return !size || read(v, object + v->layout->bytes_data, ret, *ret_n);
}

static bool put_bytes(const struct infp_python_values *v, uint64_t object, struct infp_str *out)
{
        char bytes[INFP_PYTHON_TEXT];
        size_t size;
        bool is_cut;

        if (!read_bytes(v, object, bytes, &size, &is_cut))
                return false;
        size = mask(v, bytes, size);
        infp_str_putc(out, 'b');
        put_quoted(bytes, size < MOST_TEXT ? size : MOST_TEXT, true, is_cut || size > MOST_TEXT, out);
        return true;
}

/* ---- containers, one level deep ---- */

static bool put_object(struct infp_python_values *v, uint64_t object, bool is_inner, struct infp_str *out);

static void put_more(uint64_t n, uint64_t n_shown, struct infp_str *out)
{
        if (n > n_shown)
                infp_str_printf(out, "%s... %" PRIu64 " more", n_shown ? ", " : "", n - n_shown);
}

static bool put_items(struct infp_python_values *v, uint64_t items, uint64_t n, struct infp_str *out)
{
        uint64_t objects[MOST_ITEMS];
        const uint64_t n_shown = n < MOST_ITEMS ? n : MOST_ITEMS;
        unsigned said = 0;
        bool is_good = true;

        if (n_shown && !read(v, items, objects, n_shown * sizeof(*objects)))
                return false;
        v->said = &said;
        for (uint64_t i = 0; i < n_shown && is_good; i++) {
                if (i)
                        infp_str_puts(out, ", ");
                is_good = put_object(v, objects[i], true, out);
        }
        v->said = NULL;
        if (is_good)
                put_more(n, n_shown, out);
        return is_good;
}

static bool put_sequence(struct infp_python_values *v, uint64_t object, bool is_list, struct infp_str *out)
{
        uint64_t n, items = object + v->layout->tuple_items;

        if (!read_word(v, object + v->layout->bytes_size, &n) || n >> 63 ||
            (is_list && n && !read_word(v, object + v->layout->bytes_size + 8, &items)))
                return false;
        infp_str_putc(out, is_list ? '[' : '(');
        if (!put_items(v, items, n, out))
                return false;
        infp_str_puts(out, is_list ? "]" : n == 1 ? ",)" : ")");
        return true;
}

struct set_entry {
        uint64_t key, hash;
};

/* fill, used, mask, table. A key that was removed is an object that means nothing, with hash -1. */
static bool put_set(struct infp_python_values *v, uint64_t object, bool is_frozen, struct infp_str *out)
{
        uint64_t head[4], n_shown = 0;

        if (!read(v, object + head_of(v), head, sizeof(head)) || head[1] >> 63)
                return false;
        if (!head[1]) {
                infp_str_puts(out, is_frozen ? "frozenset()" : "set()");
                return true;
        }
        infp_str_puts(out, is_frozen ? "frozenset({" : "{");
        for (uint64_t i = 0; i <= head[2] && i < MOST_LOOKED_AT && n_shown < MOST_ITEMS && n_shown < head[1]; i++) {
                struct set_entry entry;

                if (!read(v, head[3] + i * sizeof(entry), &entry, sizeof(entry)))
                        return false;
                if (!entry.key || entry.hash == UINT64_MAX)
                        continue;
                if (n_shown++)
                        infp_str_puts(out, ", ");
                if (!put_object(v, entry.key, true, out))
                        return false;
        }
        put_more(head[1], n_shown, out);
        infp_str_puts(out, is_frozen ? "})" : "}");
        return true;
}

struct entries {
        uint64_t at, n;
        unsigned size, key; /* of an entry; where in it the key is, before the value */
};

static bool find_entries(const struct infp_python_values *v, uint64_t keys, struct entries *ret)
{
        uint8_t head[40];
        uint64_t size;

        if (!read(v, keys, head, sizeof(head)))
                return false;
        if (v->layout->version >= 0x30b) {
                /* references, log2 of its size and of its indices' bytes, kind (a byte each), version, usable, entries */
                if (head[9] > 40)
                        return false;
                memcpy(&ret->n, head + 24, sizeof(ret->n));
                ret->at = keys + 32 + (UINT64_C(1) << head[9]);
                ret->size = head[10] == 0 ? 24 : 16;
                ret->key = head[10] == 0 ? 8 : 0;
                return ret->n < UINT32_MAX;
        }
        memcpy(&size, head + 8, sizeof(size));
        memcpy(&ret->n, head + 32, sizeof(ret->n));
        if (!size || size > UINT32_MAX || ret->n > size)
                return false;
        ret->at = keys + 40 + size * (size <= 0xff ? 1 : size <= 0xffff ? 2 : 4);
        ret->size = 24;
        ret->key = 8;
        return true;
}

/* A str or bytes that says that what it is the key of is secret. */
static bool is_secret_key(struct infp_python_values *v, uint64_t object)
{
        char name[INFP_PYTHON_TEXT];
        const struct infp_python_type *type = type_of(v, object);
        bool is_cut;
        size_t n = 0;

        if (type && type->kind == STR && infp_python_text_read(v->layout, &v->memory, object, name) == 0)
                n = strlen(name);
        else if (!type || type->kind != BYTES || !read_bytes(v, object, name, &n, &is_cut))
                return false;
        return infp_mask_is_secret_name(name, n);
}

static bool put_pair(struct infp_python_values *v, const uint64_t *pair, struct infp_str *out)
{
        const bool is_secret = !v->keep_secrets && is_secret_key(v, pair[0]);

        if (!put_object(v, pair[0], true, out))
                return false;
        infp_str_puts(out, ": ");
        if (is_secret)
                infp_str_puts(out, "***");
        return is_secret || put_object(v, pair[1], true, out);
}

/* used, version, keys, values: with values of its own the keys are shared, which is rare outside of an object's attributes. */
static bool put_dict(struct infp_python_values *v, uint64_t object, struct infp_str *out)
{
        uint64_t head[4], n_shown = 0;
        struct entries entries = { 0 };

        if (!read(v, object + head_of(v), head, sizeof(head)) || head[0] >> 63)
                return false;
        if (head[0] && head[3]) {
                infp_str_printf(out, "<dict of %" PRIu64 ">", head[0]);
                return true;
        }
        if (head[0] && !find_entries(v, head[2], &entries))
                return false;
        infp_str_putc(out, '{');
        for (uint64_t i = 0; head[0] && i < entries.n && i < MOST_LOOKED_AT && n_shown < MOST_ITEMS; i++) {
                uint64_t pair[2];

                if (!read(v, entries.at + i * entries.size + entries.key, pair, sizeof(pair)))
                        return false;
                if (!pair[0] || !pair[1])
                        continue;
                if (n_shown++)
                        infp_str_puts(out, ", ");
                if (!put_pair(v, pair, out))
                        return false;
        }
        put_more(head[0], n_shown, out);
        infp_str_putc(out, '}');
        return true;
}

/* A container within another. */
static void put_size(const struct infp_python_values *v, uint64_t object, const struct infp_python_type *type,
                     struct infp_str *out)
{
        const bool is_set = type->kind == SET || type->kind == FROZENSET;
        uint64_t n;

        if (read_word(v, object + head_of(v) + (is_set ? 8 : 0), &n) && !(n >> 63))
                infp_str_printf(out, "<%s of %" PRIu64 ">", type->name, n);
        else
                infp_str_printf(out, "<%s at 0x%" PRIx64 ">", type->name, object);
}

static bool put_known(struct infp_python_values *v, uint64_t object, const struct infp_python_type *type, bool is_inner,
                      struct infp_str *out)
{
        if (is_inner && type->kind >= LIST && type->kind <= FROZENSET) {
                put_size(v, object, type, out);
                return true;
        }
        switch ((enum kind) type->kind) {
        case INT:
        case BOOL:
                return put_int(v, object, type->kind == BOOL, out);
        case FLOAT:
                return put_float(v, object, out);
        case STR:
                return put_str(v, object, out);
        case BYTES:
                return put_bytes(v, object, out);
        case NONE:
                infp_str_puts(out, "None");
                return true;
        case LIST:
        case TUPLE:
                return put_sequence(v, object, type->kind == LIST, out);
        case DICT:
                return put_dict(v, object, out);
        case SET:
        case FROZENSET:
                return put_set(v, object, type->kind == FROZENSET, out);
        case TENSOR:
                return infp_python_tensor_put(&v->memory, object, head_of(v), type->name, out);
        default:
                return false;
        }
}

/* False: it cannot be read; what was put of it stays. */
static bool put_object(struct infp_python_values *v, uint64_t object, bool is_inner, struct infp_str *out)
{
        const size_t before = out->size;
        const struct infp_python_type *type = type_of(v, object);

        if (!type)
                return false;
        if (v->said && type->kind != STR && type->kind != BYTES)
                *v->said = 0;
        if (put_known(v, object, type, is_inner, out))
                return true;
        if (out->data)
                out->data[out->size = before] = 0;
        infp_str_printf(out, "<%s at 0x%" PRIx64 ">", type->name, object);
        return true;
}

void infp_python_value_put(struct infp_python_values *values, const char *name, uint64_t object, struct infp_str *out)
{
        const size_t before = out->size;

        if (!values->keep_secrets && infp_mask_is_secret_name(name, strlen(name))) {
                infp_str_puts(out, "***");
                return;
        }
        if (put_object(values, object, false, out))
                return;
        if (out->data)
                out->data[out->size = before] = 0;
        infp_str_puts(out, "<it cannot be read>");
}

/* ---- the variables of a frame ---- */

struct names {
        uint64_t tuple;
        uint64_t n;
        uint8_t default_kind;
};

static bool read_names(const struct infp_python_values *v, uint64_t code, uint16_t offset, uint8_t kind,
                       struct names *ret)
{
        ret->default_kind = kind;
        return read_word(v, code + offset, &ret->tuple) && read_word(v, ret->tuple + v->layout->bytes_size, &ret->n) &&
               ret->n <= MOST_LOCALS;
}

/* The variable itself, of a cell its content. 0: it has none now. */
static uint64_t value_of(const struct infp_python_values *v, uint64_t word, uint8_t kind)
{
        const bool is_tagged = v->layout->version >= 0x30e;
        uint64_t content;

        if (is_tagged && (word & 3) == 3) /* a number of the interpreter's own */
                return 0;
        word &= is_tagged ? ~UINT64_C(3) : ~UINT64_C(0);
        if (!word || !(kind & (CELL | FREE)))
                return word;
        return read_word(v, word + head_of(v), &content) ? content : 0;
}

/* A variable that is a cell is one only when its function has begun. */
static bool is_cell(struct infp_python_values *v, uint64_t word)
{
        const struct infp_python_type *type = type_of(v, v->layout->version >= 0x30e ? word & ~UINT64_C(3) : word);

        return type && strcmp(type->name, "cell") == 0;
}

/* False: no more are wanted. */
static bool put_local(struct infp_python_values *v, const struct names *names, uint64_t i, uint64_t word, uint8_t kind,
                      bool (*take)(void *context, const char *name, const char *value), void *context)
{
        infp_autostr struct infp_str text = { 0 };
        char name[INFP_PYTHON_TEXT];
        uint64_t object, object_of_name;

        if (!word || kind & HIDDEN || !read_word(v, names->tuple + v->layout->tuple_items + 8 * i, &object_of_name) ||
            infp_python_text_read(v->layout, &v->memory, object_of_name, name) < 0)
                return true;
        if (kind & (CELL | FREE) && !is_cell(v, word))
                kind = 0;
        object = value_of(v, word, kind);
        if (!object)
                return true;
        infp_python_value_put(v, name, object, &text);
        return text.failed || !text.size || take(context, name, text.data);
}

void infp_python_locals(struct infp_python_values *values, const struct infp_python_frame *frame,
                        bool (*take)(void *context, const char *name, const char *value), void *context)
{
        const struct infp_python_layout *l = values->layout;
        const bool has_kinds = l->code_local_kinds != INFP_PYTHON_ABSENT;
        struct names names[3];
        unsigned n_names = 1;
        uint64_t words[MOST_LOCALS], at = frame->address + l->frame_locals, kinds_at = 0;
        uint8_t kinds[MOST_LOCALS];

        if (!frame->code || !read_names(values, frame->code, l->code_local_names, 0, &names[0]))
                return;
        if (!has_kinds && read_names(values, frame->code, l->code_cell_names, CELL, &names[1]) &&
            read_names(values, frame->code, l->code_free_names, FREE, &names[2]))
                n_names = 3;
        if (has_kinds && (!read_word(values, frame->code + l->code_local_kinds, &kinds_at) ||
                          !read(values, kinds_at + l->bytes_data, kinds, names[0].n)))
                return;
        for (unsigned k = 0; k < n_names; k++) {
                if (!names[k].n || !read(values, at, words, names[k].n * sizeof(*words)))
                        continue;
                for (uint64_t i = 0; i < names[k].n; i++)
                        if (!put_local(values, &names[k], i, words[i], has_kinds ? kinds[i] : names[k].default_kind,
                                       take, context))
                                return;
                at += names[k].n * sizeof(*words);
        }
}
