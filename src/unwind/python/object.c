#include "unwind/python/object.h"

#include <errno.h>
#include <string.h>

/* Members that have the same place after an object's head in all versions. */
enum {
        TYPE_NAME = 8,
        TYPE_SIZE = 16,
        TYPE_FLAGS = 152,
        TYPE_BASE = 240,
        TYPE_DICT_OFFSET = 272,
        TYPE_BYTES = 280, /* with all members above */
        DICT_KEYS = 16,   /* then the values */
        INT_SIZE = 0,
        INT_DIGITS = 8, /* 30 bits each, the lowest first */
        MODULE_DICT = 0,
        SET_MASK = 16, /* then the table */
        LIST_SIZE = 0,
        LIST_ITEMS = 8, /* a pointer to them; a tuple's own follow its size */
};

/* Of a type. */
#define INLINE_VALUES (UINT64_C(1) << 2)
#define MANAGED_DICT (UINT64_C(1) << 4)
#define HEAP_TYPE (UINT64_C(1) << 9)
#define IS_LIST (UINT64_C(1) << 25)
#define IS_TUPLE (UINT64_C(1) << 26)
#define IS_DICT (UINT64_C(1) << 29)

enum {
        MOST_ENTRIES = 1 << 20, /* of a dict or a set */
        MOST_BASES = 64,
        CHUNK = 128, /* entries that are read at once */
        KEY = 64,    /* texts that are looked for are shorter */
};

static uint64_t word_at(const uint8_t *bytes, unsigned offset)
{
        uint64_t word;

        memcpy(&word, bytes + offset, sizeof(word));
        return word;
}

static int read_bytes(const struct infp_python_objects *o, uint64_t address, void *ret, size_t size)
{
        return o->memory.read(o->memory.context, address, ret, size) < 0 ? -EFAULT : 0;
}

int infp_python_word(const struct infp_python_objects *o, uint64_t address, uint64_t *ret)
{
        return read_bytes(o, address, ret, sizeof(*ret));
}

static int read_members(const struct infp_python_objects *o, uint64_t object, unsigned offset, void *ret, size_t size)
{
        return read_bytes(o, object + infp_python_head(o) + offset, ret, size);
}

/* ---- types ---- */

/* Up to its 0, which may be the last byte before memory that is not there. */
static void read_name(const struct infp_python_objects *o, uint64_t address, char *ret)
{
        for (size_t n = 0; n < INFP_PYTHON_TYPE_NAME - 1;) {
                const size_t to_line = 32 - (size_t) ((address + n) % 32), left = INFP_PYTHON_TYPE_NAME - 1 - n,
                             size = to_line < left ? to_line : left;

                ret[n] = 0;
                if (read_bytes(o, address + n, ret + n, size) < 0 || memchr(ret + n, 0, size))
                        return;
                n += size;
        }
        ret[INFP_PYTHON_TYPE_NAME - 1] = 0;
}

static int read_type(const struct infp_python_objects *o, uint64_t address, struct infp_python_object_type *ret)
{
        uint8_t bytes[TYPE_BYTES];
        struct infp_python_object_type type = { .address = address };

        if (!address || read_members(o, address, 0, bytes, sizeof(bytes)) < 0)
                return -EFAULT;
        type.flags = word_at(bytes, TYPE_FLAGS);
        type.size = (int64_t) word_at(bytes, TYPE_SIZE);
        type.base = word_at(bytes, TYPE_BASE);
        type.dict_offset = (int64_t) word_at(bytes, TYPE_DICT_OFFSET);
        if (type.size < (int64_t) infp_python_head(o) || type.size > 1 << 20)
                return -EBADMSG;
        if (type.flags & HEAP_TYPE)
                infp_python_word(o, address + o->tasks->type_cached_keys, &type.cached_keys);
        read_name(o, word_at(bytes, TYPE_NAME), type.name);
        *ret = type;
        return 0;
}

const struct infp_python_object_type *infp_python_type_at(struct infp_python_objects *o, uint64_t address)
{
        struct infp_python_object_type *known =
                &o->types[(address >> 4 ^ address >> 12) & (INFP_PYTHON_KNOWN_TYPES - 1)];

        if (known->address == address && address)
                return known;
        return read_type(o, address, known) < 0 ? NULL : known;
}

const struct infp_python_object_type *infp_python_type_of(struct infp_python_objects *o, uint64_t object)
{
        uint64_t type;

        if (!object || infp_python_word(o, object + o->layout->object_type, &type) < 0)
                return NULL;
        return infp_python_type_at(o, type);
}

/* Types of C modules have a name with the module's, or are no heap types. */
static bool is_of_c(const struct infp_python_object_type *type)
{
        return !(type->flags & HEAP_TYPE) || memchr(type->name, '.', strlen(type->name));
}

bool infp_python_is(struct infp_python_objects *o, uint64_t object, const char *name)
{
        const struct infp_python_object_type *type = infp_python_type_of(o, object);

        return type && strcmp(type->name, name) == 0 && is_of_c(type);
}

bool infp_python_is_none(struct infp_python_objects *o, uint64_t object)
{
        if (!o->none && infp_python_is(o, object, "NoneType"))
                o->none = object;
        return object && object == o->none;
}

bool infp_python_is_instance(struct infp_python_objects *o, uint64_t object, uint64_t type, const char *name)
{
        const struct infp_python_object_type *at = infp_python_type_of(o, object);

        for (unsigned i = 0; at && i < MOST_BASES; i++) {
                if ((type && at->address == type) || (name && is_of_c(at) && strcmp(at->name, name) == 0))
                        return true;
                at = at->base ? infp_python_type_at(o, at->base) : NULL;
        }
        return false;
}

/* ---- dicts ---- */

struct keys {
        uint64_t entries, n, values; /* values: 0: they are in the entries */
        unsigned entry_size, key_at;
};

static int read_old_keys(const struct infp_python_objects *o, uint64_t address, struct keys *ret)
{
        uint8_t head[40];
        uint64_t size;

        if (read_bytes(o, address, head, sizeof(head)) < 0)
                return -EFAULT;
        size = word_at(head, 8);
        ret->n = word_at(head, 32);
        if (!size || size & (size - 1) || size > 2 * MOST_ENTRIES || ret->n > size)
                return -EBADMSG;
        ret->entries = address + sizeof(head) + size * (size <= 0xff ? 1 : size <= 0xffff ? 2 : 4);
        ret->entry_size = 24;
        ret->key_at = 8;
        return 0;
}

static int read_keys(const struct infp_python_objects *o, uint64_t address, struct keys *ret)
{
        uint8_t head[32];

        if (!o->tasks->has_unicode_keys)
                return read_old_keys(o, address, ret);
        if (read_bytes(o, address, head, sizeof(head)) < 0)
                return -EFAULT;
        ret->n = word_at(head, 24);
        /* log2 of its size and of the size of its index in bytes, and its kind: any keys, texts, texts without values */
        if (head[8] > 21 || head[9] > 24 || head[10] > 2 || ret->n > UINT64_C(1) << head[8])
                return -EBADMSG;
        ret->entries = address + sizeof(head) + (UINT64_C(1) << head[9]);
        ret->entry_size = head[10] ? 16 : 24;
        ret->key_at = head[10] ? 0 : 8;
        return 0;
}

/* Whether an object is a str with that text. */
static bool is_text(const struct infp_python_objects *o, uint64_t object, const char *text, size_t size)
{
        const struct infp_python_layout *l = o->layout;
        uint8_t bytes[INFP_PYTHON_MAX_HEAD];
        uint32_t state;

        if (read_bytes(o, object, bytes, l->str_ascii) < 0)
                return false;
        memcpy(&state, bytes + l->str_state, sizeof(state));
        state >>= l->str_kind_shift;
        if (word_at(bytes, l->str_length) != size || (state & 31) != (1 | 8 | 16)) /* a byte each, compact, ASCII */
                return false;
        return read_bytes(o, object + l->str_ascii, bytes, size) == 0 && memcmp(bytes, text, size) == 0;
}

static int take_value(const struct infp_python_objects *o, const struct keys *keys, uint64_t i, const uint8_t *entry,
                      uint64_t *ret)
{
        *ret = word_at(entry, keys->key_at + 8);
        if (keys->values && infp_python_word(o, keys->values + 8 * i, ret) < 0)
                return -EFAULT;
        return *ret ? 0 : -ENOENT;
}

static int find_key(const struct infp_python_objects *o, const struct keys *keys, const char *key, uint64_t *ret)
{
        const size_t size = strlen(key);
        uint8_t entries[CHUNK * 24];

        if (size >= KEY || keys->n > MOST_ENTRIES)
                return -EBADMSG;
        for (uint64_t at = 0; at < keys->n; at += CHUNK) {
                const uint64_t n = keys->n - at < CHUNK ? keys->n - at : CHUNK;

                if (read_bytes(o, keys->entries + at * keys->entry_size, entries, n * keys->entry_size) < 0)
                        return -EFAULT;
                for (uint64_t i = 0; i < n; i++) {
                        const uint8_t *entry = entries + i * keys->entry_size;
                        const uint64_t object = word_at(entry, keys->key_at);

                        if (object && is_text(o, object, key, size))
                                return take_value(o, keys, at + i, entry, ret);
                }
        }
        return -ENOENT;
}

static int open_dict(struct infp_python_objects *o, uint64_t dict, struct keys *ret)
{
        const struct infp_python_object_type *type = infp_python_type_of(o, dict);
        uint64_t members[2]; /* keys, values */
        int r;

        if (!type)
                return -EFAULT;
        if (!(type->flags & IS_DICT))
                return -EBADMSG;
        if (read_members(o, dict, DICT_KEYS, members, sizeof(members)) < 0)
                return -EFAULT;
        r = read_keys(o, members[0], ret);
        ret->values = members[1] ? members[1] + o->tasks->values_offset : 0;
        return r;
}

int infp_python_dict_get(struct infp_python_objects *o, uint64_t dict, const char *key, uint64_t *ret)
{
        struct keys keys = { 0 };
        const int r = open_dict(o, dict, &keys);

        return r < 0 ? r : find_key(o, &keys, key, ret);
}

int infp_python_dict_items(struct infp_python_objects *o, uint64_t dict, struct infp_python_item *ret, uint32_t max)
{
        uint8_t entries[CHUNK * 24];
        struct keys keys = { 0 };
        uint32_t n = 0;
        const int r = open_dict(o, dict, &keys);

        if (r < 0)
                return r;
        if (keys.n > MOST_ENTRIES)
                return -EBADMSG;
        for (uint64_t at = 0; at < keys.n; at += CHUNK) {
                const uint64_t some = keys.n - at < CHUNK ? keys.n - at : CHUNK;

                if (read_bytes(o, keys.entries + at * keys.entry_size, entries, some * keys.entry_size) < 0)
                        return -EFAULT;
                for (uint64_t i = 0; i < some && n < max; i++) {
                        const uint8_t *entry = entries + i * keys.entry_size;

                        ret[n].key = word_at(entry, keys.key_at);
                        n += ret[n].key && take_value(o, &keys, at + i, entry, &ret[n].value) == 0;
                }
        }
        return (int) n;
}

int infp_python_module(struct infp_python_objects *o, uint64_t interpreter, const char *name, uint64_t *ret)
{
        uint64_t modules, module;
        int r;

        if (infp_python_word(o, interpreter + o->tasks->interp_modules, &modules) < 0)
                return -EFAULT;
        if (!modules)
                return -ENOENT;
        r = infp_python_dict_get(o, modules, name, &module);
        return r < 0 ? r : read_members(o, module, MODULE_DICT, ret, sizeof(*ret));
}

int infp_python_int(struct infp_python_objects *o, uint64_t object, uint64_t *ret)
{
        struct {
                uint64_t size; /* how many digits; from 3.12 on after three bits: 1 of zero, 2 of a negative one */
                uint32_t digits[2];
        } value = { 0 };
        const unsigned shift = o->layout->version >= 0x30c ? 3 : 0;

        if (!infp_python_is(o, object, "int"))
                return -EBADMSG;
        if (read_members(o, object, INT_SIZE, &value.size, sizeof(value.size)) < 0)
                return -EFAULT;
        if (shift && value.size & 2)
                return -EBADMSG;
        value.size >>= shift;
        if (value.size > 2)
                return -EBADMSG;
        if (value.size && read_members(o, object, INT_DIGITS, value.digits, 4 * value.size) < 0)
                return -EFAULT;
        *ret = value.digits[0] | (uint64_t) value.digits[1] << 30;
        return 0;
}

/* ---- instances ---- */

/* Where it has its values without a dict, or its dict: one of both becomes not 0. */
static int find_values(const struct infp_python_objects *o, const struct infp_python_object_type *type, uint64_t object,
                       uint64_t *ret_values, uint64_t *ret_dict)
{
        /* Before the object there are weak references and, unless it is free-threaded, the garbage collector's two words. */
        const uint64_t dict_at = object - (o->layout->is_free_threaded ? 8 : 24);
        uint8_t is_valid[4];

        *ret_values = *ret_dict = 0;
        if (!(type->flags & MANAGED_DICT) || o->tasks->instances == INFP_PYTHON_DICT_AT_OFFSET)
                return type->dict_offset <= 0 ? -ENOENT
                                              : infp_python_word(o, object + (uint64_t) type->dict_offset, ret_dict);
        if (infp_python_word(o, dict_at, ret_dict) < 0)
                return -EFAULT;
        switch ((enum infp_python_instances) o->tasks->instances) {
        case INFP_PYTHON_VALUES_APART:
                return infp_python_word(o, dict_at - 8, ret_values);
        case INFP_PYTHON_VALUES_TAGGED:
                if (*ret_dict & 1) {
                        *ret_values = *ret_dict + 1;
                        *ret_dict = 0;
                }
                return 0;
        default:
                if (*ret_dict || !(type->flags & INLINE_VALUES))
                        return 0;
                *ret_values = object + (uint64_t) type->size;
                /* their capacity, how many, whether they are in the object, whether they are its attributes */
                if (read_bytes(o, *ret_values, is_valid, sizeof(is_valid)) < 0)
                        return -EFAULT;
                *ret_values = is_valid[3] ? *ret_values + o->tasks->values_offset : 0;
                return 0;
        }
}

int infp_python_attribute(struct infp_python_objects *o, uint64_t object, const char *name, uint64_t *ret)
{
        const struct infp_python_object_type *type = infp_python_type_of(o, object);
        struct keys keys = { 0 };
        uint64_t dict;
        int r;

        if (!type)
                return -EFAULT;
        r = find_values(o, type, object, &keys.values, &dict);
        if (r < 0)
                return r;
        if (!keys.values)
                return dict ? infp_python_dict_get(o, dict, name, ret) : -ENOENT;
        if (!type->cached_keys)
                return -EBADMSG;
        r = read_keys(o, type->cached_keys, &keys);
        return r < 0 ? r : find_key(o, &keys, name, ret);
}

/* ---- sets, lists, tuples ---- */

int infp_python_set_members(struct infp_python_objects *o, uint64_t set, uint64_t *ret, uint32_t max,
                            bool *ret_is_whole)
{
        uint8_t entries[CHUNK * 16]; /* each a member and its hash */
        uint64_t head[2], now[2];    /* mask, table */
        uint32_t n = 0;

        if (!infp_python_is(o, set, "set"))
                return -EBADMSG;
        if (read_members(o, set, SET_MASK, head, sizeof(head)) < 0)
                return -EFAULT;
        if (head[0] >= 4 * MOST_ENTRIES || head[0] & (head[0] + 1))
                return -EBADMSG;
        for (uint64_t at = 0; at <= head[0]; at += CHUNK) {
                const uint64_t left = head[0] + 1 - at, some = left < CHUNK ? left : CHUNK;

                if (read_bytes(o, head[1] + at * 16, entries, some * 16) < 0)
                        return -EFAULT;
                for (uint64_t i = 0; i < some; i++) {
                        const uint64_t member = word_at(entries, (unsigned) i * 16);

                        if (!member || word_at(entries, (unsigned) i * 16 + 8) == UINT64_MAX) /* one that was removed */
                                continue;
                        if (n == max) {
                                *ret_is_whole = false;
                                return (int) n;
                        }
                        ret[n++] = member;
                }
        }
        if (read_members(o, set, SET_MASK, now, sizeof(now)) < 0 || memcmp(now, head, sizeof(now)) != 0)
                *ret_is_whole = false;
        return (int) n;
}

int infp_python_items(struct infp_python_objects *o, uint64_t list, uint64_t *ret, uint32_t max)
{
        const struct infp_python_object_type *type = infp_python_type_of(o, list);
        uint64_t head[2]; /* size; of a list, where its items are */

        if (!type)
                return -EFAULT;
        if (!(type->flags & (IS_LIST | IS_TUPLE)))
                return -EBADMSG;
        if (read_members(o, list, LIST_SIZE, head, sizeof(head)) < 0)
                return -EFAULT;
        if (head[0] > MOST_ENTRIES)
                return -EBADMSG;
        if (head[0] > max)
                head[0] = max;
        if (type->flags & IS_TUPLE)
                head[1] = list + infp_python_head(o) + LIST_ITEMS;
        if (head[0] && read_bytes(o, head[1], ret, 8 * head[0]) < 0)
                return -EFAULT;
        return (int) head[0];
}
