#include "query/parts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void infp_parts_done(struct infp_parts *parts)
{
        for (unsigned i = 0; i < parts->n; i++)
                free(parts->parts[i].path);
        free(parts->parts);
        free(parts->table);
        *parts = (struct infp_parts){ 0 };
}

static bool ends_with(const char *text, const char *end)
{
        size_t size = strlen(text), n = strlen(end);

        return size >= n && memcmp(text + size - n, end, n) == 0;
}

int infp_parts_list(const struct infp_run *run, const char *table, struct infp_parts *ret, struct infp_err *err)
{
        char **paths;
        int n = infp_run_segments(run, table, &paths, err);

        *ret = (struct infp_parts){ 0 };
        if (n < 0)
                return n;
        ret->table = strdup(table);
        ret->parts = calloc((size_t) n + 1, sizeof(*ret->parts));
        if (ret->table && ret->parts)
                for (; ret->n < (unsigned) n; ret->n++)
                        ret->parts[ret->n] =
                                (struct infp_part){ paths[ret->n], ends_with(paths[ret->n], INFP_PARQUET_EXTENSION) };
        for (unsigned i = ret->n; i < (unsigned) n; i++)
                free(paths[i]);
        free(paths);
        if (ret->table && ret->parts)
                return 0;
        infp_parts_done(ret);
        return infp_fail(err, -ENOMEM, "out of memory");
}

void infp_part_path(struct infp_str *path, const struct infp_part *part, const char *extension)
{
        const char *dot = strrchr(part->path, '.');

        infp_str_put(path, part->path, dot ? (size_t) (dot - part->path) : strlen(part->path));
        infp_str_puts(path, extension);
}

static const char *help_for(int r)
{
        switch (r) {
        case -EACCES:
                return "; become its owner or ask for read access";
        case -EBADMSG:
        case -EINVAL:
                return "; move the broken file away to read the rest of the table";
        default:
                return "";
        }
}

int infp_parts_fail(const struct infp_run *run, int r, const struct infp_err *why, struct infp_err *err)
{
        const char *help = help_for(r), *place = strstr(why->text, "\n\nLINE ");
        int size = (int) (place ? (size_t) (place - why->text) : strlen(why->text));

        /* DuckDB passes on the text of our own functions, which has the advice already. */
        if (r == -ENOPKG || r == -EINTR || r == -ENOMEM || (*help && strstr(why->text, help)))
                return infp_fail(err, r, "%.*s", size, why->text);
        return infp_fail(err, r, "in %s/%s.infprof: %.*s%s", run->output, run->info.uuid, size, why->text, help);
}
