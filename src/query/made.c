#include "query/made.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct infp_made *infp_made_new(const char *name, bool plain)
{
        struct infp_made *made = calloc(1, sizeof(*made));

        if (!made)
                return NULL;
        made->table.name = infp_made_text(made, name, strlen(name));
        made->table.help = "";
        made->table.plain = plain;
        return made->table.name ? made : infp_made_free(made);
}

struct infp_made *infp_made_free(struct infp_made *made)
{
        if (made) {
                for (unsigned i = 0; i < made->n_memory; i++)
                        free(made->memory[i]);
                free(made->memory);
                free(made->list);
                free(made);
        }
        return NULL;
}

/* Zeroed, freed with the table. */
static void *allocate(struct infp_made *made, size_t size)
{
        void *p;

        if (!INFP_ONE_MORE(made->memory, made->n_memory))
                return NULL;
        p = calloc(1, size);
        if (p)
                made->memory[made->n_memory++] = p;
        return p;
}

const char *infp_made_text(struct infp_made *made, const char *text, size_t size)
{
        char *copy = text ? allocate(made, size + 1) : NULL;

        if (copy)
                memcpy(copy, text, size);
        return copy;
}

const struct infp_unit *infp_made_unit(struct infp_made *made, const char *name)
{
        const struct infp_unit *known = infp_unit_by_name(name);
        struct infp_unit *unit;

        if (known)
                return known;
        unit = allocate(made, sizeof(*unit));
        if (!unit)
                return NULL;
        *unit = (struct infp_unit){ infp_made_text(made, name, strlen(name)), "", 1 };
        return unit->name ? unit : NULL;
}

static int copy_text(struct infp_made *made, const char **text)
{
        if (!*text)
                return 0;
        *text = infp_made_text(made, *text, strlen(*text));
        return *text ? 0 : -ENOMEM;
}

static int copy_column(struct infp_made *made, struct infp_column *column)
{
        column->unit = column->unit ? infp_made_unit(made, column->unit->name) : &infp_unit_none;
        if (!column->unit)
                return -ENOMEM;
        INFP_TRY(copy_text(made, &column->name));
        INFP_TRY(copy_text(made, &column->key));
        INFP_TRY(copy_text(made, &column->prom));
        return copy_text(made, &column->help);
}

int infp_made_add(struct infp_made *made, const struct infp_column *column, bool is_key)
{
        struct infp_table *table = &made->table;
        unsigned n = table->n_keys + table->n_columns, at = is_key ? table->n_keys : n;
        struct infp_column copy = *column;

        if (n >= INFP_MADE_MAX)
                return -E2BIG;
        if (n == made->cap) {
                unsigned cap = n ? 2 * n : 16;
                struct infp_column *more = realloc(made->list, cap * sizeof(*more));

                if (!more)
                        return -ENOMEM;
                made->list = more;
                made->cap = cap;
        }
        INFP_TRY(copy_column(made, &copy));
        memmove(made->list + at + 1, made->list + at, (n - at) * sizeof(*made->list));
        made->list[at] = copy;
        if (is_key)
                table->n_keys++;
        else
                table->n_columns++;
        table->keys = made->list;
        table->columns = made->list + table->n_keys;
        return 0;
}
