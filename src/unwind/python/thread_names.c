#include "unwind/python/thread_names.h"

/* A name that is the Thread's before and after it was read: neither was freed meanwhile. */
static bool read_name(struct infp_python_objects *o, uint64_t thread, char ret[INFP_PYTHON_TEXT])
{
        uint64_t name, again;

        return infp_python_attribute(o, thread, "_name", &name) == 0 && infp_python_is(o, name, "str") &&
               infp_python_text_read(o->layout, &o->memory, name, ret) == 0 &&
               infp_python_attribute(o, thread, "_name", &again) == 0 && again == name;
}

int infp_python_thread_names(struct infp_python_objects *o, uint64_t interpreter, struct infp_python_item *items,
                             void (*take)(void *context, uint64_t pthread, const char *name), void *context)
{
        char name[INFP_PYTHON_TEXT];
        uint64_t module, active, pthread;
        int n = infp_python_module(o, interpreter, "threading", &module);

        if (n == 0)
                n = infp_python_dict_get(o, module, "_active", &active); /* {identifier: Thread} */
        if (n == 0)
                n = infp_python_dict_items(o, active, items, INFP_PYTHON_NAMED_THREADS);
        for (int i = 0; i < n; i++)
                if (infp_python_int(o, items[i].key, &pthread) == 0 && read_name(o, items[i].value, name))
                        take(context, pthread, name);
        return n < 0 ? n : 0;
}
