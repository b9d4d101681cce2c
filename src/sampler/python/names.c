#include "sampler/python/names.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "model/stack_tables.h"

enum {
        MOST_LINES = 61440,
        MOST_NAMES = 65536,    /* the rest is for functions without lines */
        MOST_BYTES = 16 << 20, /* of texts */
};
static const char more[] = "[more functions]";

void infp_python_names_done(struct infp_python_names *names)
{
        for (size_t i = 0; i < names->by_id.cap; i++)
                if (names->by_id.slots[i].key)
                        free((void *) (uintptr_t) names->by_id.slots[i].value);
        infp_map_done(&names->by_id);
        infp_strings_done(&names->texts);
}

const char *infp_python_names_text(struct infp_python_names *names, const char *text)
{
        const char *kept;

        names->texts.most_bytes = MOST_BYTES;
        kept = infp_strings_keep(&names->texts, text);
        return kept ? kept : more;
}

static const struct infp_python_name rest = { .function = more, .file = INFP_PYTHON_OBJECT };

static uint64_t id_of(const struct infp_python_name *name)
{
        return infp_named_frame_id(INFP_FRAME_PYTHON, name->file, name->function, name->file, name->line);
}

/* All that there is no room for has one name. */
static uint64_t add(struct infp_python_names *names, uint64_t id, const struct infp_python_name *name)
{
        struct infp_python_name *own;

        if (!id || infp_map_get(&names->by_id, id))
                return id;
        if (names->by_id.n >= MOST_NAMES && name != &rest)
                return add(names, id_of(&rest), &rest);
        own = malloc(sizeof(*own));
        if (!own || infp_map_put(&names->by_id, id, (uintptr_t) own) < 0) {
                free(own);
                return 0;
        }
        *own = *name;
        return id;
}

uint64_t infp_python_names_add(struct infp_python_names *names, const struct infp_python_name *name)
{
        const uint64_t id = id_of(name);
        struct infp_python_name function = *name;

        if (name->function == more || name->file == more)
                return add(names, id_of(&rest), &rest);
        if (names->by_id.n < MOST_LINES || infp_map_get(&names->by_id, id))
                return add(names, id, name);
        function.line = 0;
        return add(names, id_of(&function), &function);
}

uint64_t infp_python_names_add_unnamed(struct infp_python_names *names, uint64_t process, uint64_t address)
{
        const struct infp_python_name name = { .file = INFP_PYTHON_OBJECT, .address = address };

        return add(names, infp_frame_id(INFP_FRAME_PYTHON, &process, sizeof(process), address, false), &name);
}

const struct infp_python_name *infp_python_names_get(const struct infp_python_names *names, uint64_t id)
{
        const uint64_t *at = infp_map_get(&names->by_id, id);

        return at ? (const struct infp_python_name *) (uintptr_t) *at : NULL;
}
