/* What a process executes from, where: its executable mappings, and how the unwinder sees them. New mappings lie on top of old ones,
 * since nothing reports memory that was given back. Spaces are shared by copy on write: a fork costs a reference. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sampler/objects/object.h"
#include "unwind/walk.h"

enum { INFP_SPACE_MAX_MAPPINGS = 16384 };

struct infp_space_mapping {
        uint64_t begin, end, offset;
        struct infp_object *object;
};

struct infp_space {
        uint32_t n_refs;
        uint32_t n, cap;
        struct infp_space_mapping *mappings; /* sorted, disjoint */
        /* Made of them by infp_space_view. */
        struct infp_unwind_mapping *view;
        uint32_t view_cap, view_n;
        uint32_t id;
        uint64_t generation; /* of objects, when the view was made; 0: none is */
        bool is_full;        /* some mapping found no room */
};

struct infp_space *infp_space_new(void); /* NULL: no memory */
static inline struct infp_space *infp_space_ref(struct infp_space *space)
{
        space->n_refs++;
        return space;
}
struct infp_space *infp_space_unref(struct infp_space *space); /* NULL is fine; returns NULL */

/* Puts a mapping into *space, which becomes another space when it is shared. Consumes the reference to the object. 0 (also when it
 * was there already), -ENOMEM, or -ENOSPC: too many mappings. */
int infp_space_map(struct infp_space **space, uint64_t begin, uint64_t end, uint64_t offset,
                   struct infp_object *object);

/* The space for the unwinder, made anew when mappings or images have changed; valid until either does. last_id: the last that was
 * given to any space. 0 or -ENOMEM. */
int infp_space_view(struct infp_space *space, const struct infp_objects *objects, uint32_t *last_id,
                    struct infp_unwind_space *ret);

/* The mapping with address in it, or NULL. */
struct infp_space_mapping *infp_space_find(const struct infp_space *space, uint64_t address);

/* Reads the text of /proc/PID/maps: its lines in their order. What is no such line is left out. */
struct infp_maps_line {
        uint64_t begin, end, offset, inode;
        uint32_t major, minor;
        bool is_readable, is_executable;
        const char *path; /* borrowed from the text, which is changed: ended by 0; "" for none */
};
bool infp_maps_next(char **text, struct infp_maps_line *ret);
/* Loaders for huge pages copy a program's code into memory without a file, at the same addresses. Memory that fills the hole between
 * two mappings of one file, in its code, is that file's: the line becomes one of it, between the lines before and after. */
void infp_maps_fill_hole(struct infp_maps_line *line, const struct infp_maps_line *before,
                         const struct infp_maps_line *after);
