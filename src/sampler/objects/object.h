/* What processes execute from: files, the vDSO, memory that was filled at run time. One object is shared by all mappings of it, in
 * all processes. It is opened when a sample hits it, and not before; of one thread, which never waits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/stack_tables.h"
#include "sampler/objects/image.h"
#include "sampler/objects/loader.h"

enum infp_object_state {
        INFP_OBJECT_NEW,     /* nobody asked for it */
        INFP_OBJECT_WAITING, /* for a helper */
        INFP_OBJECT_READY,   /* image is there, or none is available */
};

struct infp_object {
        uint32_t n_refs; /* of mappings and of a job */
        enum infp_object_state state;
        enum infp_frame_kind kind; /* of its frames; of a file without its image INFP_FRAME_UNKNOWN */
        bool is_file;
        bool is_deleted;
        bool is_indexed;                 /* new mappings of the file get it */
        bool was_counted;                /* as one that could not be read */
        bool is_jitdump;                 /* "jit-PID.dump": how programs say where their jitdump file is */
        struct infp_object_image *image; /* of READY; NULL: could not be read, or is no file */
        int error;                       /* why */
        uint32_t major, minor;
        uint64_t inode, key;
        uint64_t told_ns; /* of the first mapping */
        uint64_t used;    /* turn of its last use, about */
        uint8_t build_id[INFP_MAX_BUILD_ID];
        uint32_t build_id_size;
        struct infp_object *next, *previous; /* of all */
        char name[];                         /* as in frames.fObject: a path, "[anon]", "[vdso]", "memfd:NAME" */
};

struct infp_objects;
struct infp_perf_mapping;

int infp_objects_new(int root_fd, const char *cache_directory, struct infp_objects **ret, struct infp_err *err);
struct infp_objects *infp_objects_free(struct infp_objects *objects); /* NULL is fine; returns NULL */

/* Whether the kernel means memory by that path, without a file that one can open. */
bool infp_object_is_memory(const char *path);

/* The object of a mapping, with a reference. NULL: no memory, or too many. */
struct infp_object *infp_objects_get(struct infp_objects *objects, const struct infp_perf_mapping *mapping);
static inline struct infp_object *infp_object_ref(struct infp_object *object)
{
        object->n_refs++;
        return object;
}
void infp_object_unref(struct infp_object *object); /* NULL is fine; it stays for a while */

/* Asks for the image of an object that is NEW, through a process that has it at [begin, end). */
void infp_objects_request(struct infp_objects *objects, struct infp_object *object, pid_t pid, uint64_t begin,
                          uint64_t end);
/* Gives back a reference to an image that was taken beside its object. NULL is fine. */
void infp_objects_release(struct infp_objects *objects, struct infp_object_image *image);
/* Takes what the helpers have done, forgets what nobody has used for long. True: some state is another one. */
bool infp_objects_turn(struct infp_objects *objects);
/* Gives the pages of mapped tables back when many were touched. By the thread that unwinds, between two stacks. */
void infp_objects_forget_pages(struct infp_objects *objects);
/* The tables that are mapped, to be touched between infp_guarded_map_begin and _end; until the next call of any function. */
struct infp_guarded_map *infp_objects_table_maps(struct infp_objects *objects);
/* Another one whenever an image came or went: mappings are to be filled again. */
uint64_t infp_objects_generation(const struct infp_objects *objects);
uint64_t infp_objects_turns(const struct infp_objects *objects);
int infp_objects_wake_fd(const struct infp_objects *objects);

struct infp_objects_counts {
        uint64_t n_objects, n_unread;
        struct infp_loader_work work;
};
void infp_objects_counts(const struct infp_objects *objects, struct infp_objects_counts *ret);

static inline void infp_object_use(const struct infp_objects *objects, struct infp_object *object)
{
        object->used = infp_objects_turns(objects);
}
