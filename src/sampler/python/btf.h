/* The kernel's description of its own structures (BTF), cut down to the few that the program in the kernel needs: the whole of it has some
 * 150,000 types, which libbpf would copy, list and search for every member. */
#pragma once

#include <stddef.h>

#include "base/err.h"

/* Of the whole, the first structure of each of these names, with the places of all its members; those that are in another one stand before
 * it. Members that are themselves structures of other names have no type. 0: *ret is the new description, for free(); -ENOENT: one is not
 * there; -EBADMSG: the whole cannot be read; -ENOMEM. */
int infp_btf_cut(const void *whole, size_t size, const char *const *names, size_t n_names, void **ret,
                 size_t *ret_size);

/* The same of the kernel that runs, as a file without a name: a descriptor, or a negative errno. */
int infp_btf_open(const char *const *names, size_t n_names);
