/* Objects of Python, read from memory of another process: types, attributes of instances, dicts, sets, lists. All is bounded, and what is
 * found is checked before it is believed.
 *
 * No allocation, lock or output, and errno stays; it needs 8 KiB of stack. Errors: -EFAULT: memory cannot be read; -EBADMSG: it is not
 * what it should be; -ENOENT: there is no such member. */
#pragma once

#include "unwind/python/task_layout.h"
#include "unwind/python/walk.h"

enum {
        INFP_PYTHON_TYPE_NAME = 96,
        INFP_PYTHON_KNOWN_TYPES = 256, /* that are remembered; a power of two */
};

struct infp_python_object_type {
        uint64_t address;
        char name[INFP_PYTHON_TYPE_NAME]; /* tp_name, cut: "dict", "_asyncio.Task" */
        uint64_t flags, base, cached_keys;
        int64_t size, dict_offset;
};

struct infp_python_objects {
        const struct infp_python_layout *layout;
        const struct infp_python_task_layout *tasks;
        struct infp_python_memory memory;
        uint64_t none; /* of _Py_NoneStruct; 0: not known, and learned */
        struct infp_python_object_type types[INFP_PYTHON_KNOWN_TYPES]; /* all zero at first */
};

int infp_python_word(const struct infp_python_objects *o, uint64_t address, uint64_t *ret);
/* The size of an object's head, which its type ends: members come after it. 16, and 32 in free-threaded builds. */
static inline unsigned infp_python_head(const struct infp_python_objects *o)
{
        return o->layout->object_type + 8u;
}
/* The type of an object, or the type at an address; NULL: it cannot be read. Valid until the next call. */
const struct infp_python_object_type *infp_python_type_of(struct infp_python_objects *o, uint64_t object);
const struct infp_python_object_type *infp_python_type_at(struct infp_python_objects *o, uint64_t address);
/* Whether an object's type has this name and was not made in Python. */
bool infp_python_is(struct infp_python_objects *o, uint64_t object, const char *name);
bool infp_python_is_none(struct infp_python_objects *o, uint64_t object);
/* Whether its type is that one, or a subclass: by address, or by name (one of C). */
bool infp_python_is_instance(struct infp_python_objects *o, uint64_t object, uint64_t type, const char *name);

/* The value of a text key. */
int infp_python_dict_get(struct infp_python_objects *o, uint64_t dict, const char *key, uint64_t *ret);
/* Up to max pairs, in the order of their insertion; a pair that was removed is left out. How many, or an error. */
struct infp_python_item {
        uint64_t key, value;
};
int infp_python_dict_items(struct infp_python_objects *o, uint64_t dict, struct infp_python_item *ret, uint32_t max);
/* The dict of an interpreter's module. -ENOENT: it was not imported. */
int infp_python_module(struct infp_python_objects *o, uint64_t interpreter, const char *name, uint64_t *ret);
/* An int, and no subclass of it, from 0 to 2^60 - 1. */
int infp_python_int(struct infp_python_objects *o, uint64_t object, uint64_t *ret);
/* An attribute that the instance itself has; those of its class are not looked for. */
int infp_python_attribute(struct infp_python_objects *o, uint64_t object, const char *name, uint64_t *ret);

/* Up to max members, in the order of memory: how many, or an error. *ret_is_whole becomes false where there are more, or where it changed
 * meanwhile; else it stays. */
int infp_python_set_members(struct infp_python_objects *o, uint64_t set, uint64_t *ret, uint32_t max,
                            bool *ret_is_whole);
/* Of a list or a tuple. */
int infp_python_items(struct infp_python_objects *o, uint64_t list, uint64_t *ret, uint32_t max);
