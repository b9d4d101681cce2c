#include "import/json_load.h"

#include <errno.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>

static size_t used, most;
static bool is_full;

static void *take(size_t size)
{
        void *ret = used + size <= most ? malloc(size) : NULL;

        is_full |= used + size > most;
        if (ret)
                used += malloc_usable_size(ret);
        return ret;
}

static void give(void *memory)
{
        if (memory)
                used -= malloc_usable_size(memory);
        free(memory);
}

int infp_import_json_load(const char *path, const char *data, size_t size, size_t max_bytes, json_t **ret,
                          struct infp_err *err)
{
        json_malloc_t old_take;
        json_free_t old_give;
        json_error_t error;

        json_get_alloc_funcs(&old_take, &old_give);
        used = 0;
        most = max_bytes;
        is_full = false;
        json_set_alloc_funcs(take, give);
        *ret = json_loadb(data, size, 0, &error);
        json_set_alloc_funcs(old_take, old_give); /* both are malloc: what was taken may be given to either */
        if (*ret)
                return 0;
        if (is_full)
                return infp_fail(err, -EFBIG, "%s is too large: in memory it takes more than %zu MiB", path,
                                 max_bytes >> 20);
        return infp_fail(err, -EBADMSG, "%s, line %d: not JSON: %.160s", path, error.line, error.text);
}

void infp_import_json_free(json_t *json)
{
        json_decref(json);
}
