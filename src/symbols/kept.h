/* Names that were found before, on disk by the build id of their file: reading debug symbols takes tens of milliseconds of CPU each time. A
 * private directory of small files, each written whole or not at all. Whatever is wrong with a file, it is not there. A directory of more
 * than 512 files is emptied. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"
#include "symbols/symbols.h"

struct infp_kept_names;

/* Makes the directory. 0, or why it is not used (base/cache_directory.h): -EPERM: it is not ours alone; -EREMOTE: on a network file system;
 * what making or opening it failed with; -ENOMEM. */
int infp_kept_names_open(const char *directory, struct infp_kept_names **ret, struct infp_err *err);
struct infp_kept_names *infp_kept_names_close(struct infp_kept_names *kept); /* NULL is fine; returns NULL */

/* The names of one file, as symbols.h gives them: mangled and from are left out. */
struct infp_kept_file {
        const char *build_id; /* hexadecimal, not "" */
        const char *path;     /* where the file lies, for us */
};
/* Calls back for each address that is kept; texts are borrowed for the call. Nothing is known where the file, or its debug file below
 * /usr/lib/debug, is another one than it was. */
void infp_kept_names_each(const struct infp_kept_names *kept, const struct infp_kept_file *file,
                          void (*take)(void *context, uint64_t address, const struct infp_symbol *levels, unsigned n),
                          void *context);

/* Adds names to `to`, which becomes the file's: begin with an empty one, and add the old names too. to->failed: no
 * memory. levels: at most INFP_SYMBOL_MAX_LEVELS, each with a name. */
void infp_kept_names_add(struct infp_str *to, uint64_t address, const struct infp_symbol *levels, unsigned n);
/* Keeps them, in place of what was kept of the file. More than 256 KiB, or what cannot be written, is not kept: no error, since the names
 * can be read again. */
void infp_kept_names_put(const struct infp_kept_names *kept, const struct infp_kept_file *file,
                         const struct infp_str *names);
