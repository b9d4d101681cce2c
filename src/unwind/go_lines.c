/* Where in the source a Go function, and an instruction of it, is. */
#include <string.h>

#include "unwind/go_parts.h"

enum { INLINED = 2 /* PCDATA_InlTreeIndex */, MOST_TEXT = 4096 };

/* The value that holds at an address. */
struct search {
        uint64_t address;
        int32_t value;
};

static int seek(void *context, uint64_t pc, int32_t value)
{
        struct search *search = context;

        if (pc > search->address)
                return -1; /* it was the one before */
        search->value = value;
        return 0;
}

static int32_t value_at(struct infp_go *go, const struct infp_go_function *function, uint64_t field, uint64_t address)
{
        struct search search = { address, -1 };
        uint64_t values;

        if (infp_go_read(go, function->at + field, 4, &values))
                infp_go_values(go, function, (uint32_t) values, seek, &search);
        return search.value;
}

static const char *text_at(const struct infp_go *go, uint64_t at)
{
        const uint64_t room = at < go->size ? go->size - at : 0;

        return room && memchr(go->bytes + at, 0, room < MOST_TEXT ? room : MOST_TEXT) ? (const char *) go->bytes + at
                                                                                      : NULL;
}

/* Files have numbers; since 1.16 each compilation has its own. */
static const char *file_of(const struct infp_go *go, const struct infp_go_function *function, int32_t number)
{
        const uint64_t first = INFP_GO_FIRST(go);
        uint64_t unit = 0, at;

        if (number < 0)
                return NULL;
        if (go->version == 2)
                return infp_go_read(go, go->files + (uint64_t) number * 4, 4, &at) ? text_at(go, at) : NULL;
        if (!infp_go_read(go, function->at + first + 28, 4, &unit) ||
            !infp_go_read(go, go->units + (unit + (uint64_t) number) * 4, 4, &at))
                return NULL;
        return text_at(go, go->files + at);
}

bool infp_go_place(struct infp_go *go, uint64_t address, struct infp_go_place *ret)
{
        const uint64_t first = INFP_GO_FIRST(go), data = first + (go->version == 2 ? 32 : go->version == 20 ? 40 : 36);
        struct infp_go_function function;
        uint64_t n_data, line;

        *ret = (struct infp_go_place){ 0 };
        go->work_left = go->size; /* of one function: it is asked for a line at a time */
        if (!infp_go_find(go, address, &function))
                return false;
        ret->file = file_of(go, &function, value_at(go, &function, first + 16, function.begin));
        if (go->version == 20 && infp_go_read(go, function.at + 36, 4, &line))
                ret->function_line = (int32_t) line;
        /* The line of what was inlined is of another function, and often of another file. */
        if (go->version == 2 || !infp_go_read(go, function.at + first + 24, 4, &n_data) ||
            (n_data > INLINED && value_at(go, &function, data + INLINED * 4, address) >= 0))
                return ret->file != NULL;
        ret->line = value_at(go, &function, first + 20, address);
        return ret->file != NULL;
}
