/* The threads that open the files of mappings and make their unwind tables: a job in, an image out, any order. Nothing waits for
 * them: a file system that hangs keeps a thread, and no more. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sampler/fifo.h"
#include "sampler/objects/image.h"
#include "sampler/objects/open.h"

struct infp_object_job {
        struct infp_fifo_item item;
        void *context; /* of the caller */
        struct infp_object_place place;
        bool is_vdso;
        uint8_t build_id[INFP_MAX_BUILD_ID];
        /* Filled by a thread. The image is a reference of the taker's. */
        struct infp_object_image *image; /* NULL: error says why */
        int error;
        bool is_deleted; /* under its path there is nothing, or something else */
        char path[];
};

struct infp_loader;

/* cache_directory NULL: none. Threads begin with the first job. */
int infp_loader_new(int root_fd, const char *cache_directory, struct infp_loader **ret, struct infp_err *err);
/* Threads that are at work end when they can; what they hold is freed then. */
struct infp_loader *infp_loader_free(struct infp_loader *loader);

/* A job for a place, whose texts are copied; free() it. NULL: no memory. */
struct infp_object_job *infp_object_job_new(const struct infp_object_place *place);
/* Consumes the job. 0, or a negative errno of starting a thread: the job is as good as taken again, with that error. */
void infp_loader_put(struct infp_loader *loader, struct infp_object_job *job);
/* A job that is done, or NULL. The caller frees it, and releases its image in the end. */
struct infp_object_job *infp_loader_take(struct infp_loader *loader);
int infp_loader_wake_fd(const struct infp_loader *loader); /* readable when there is one */
void infp_loader_release(struct infp_loader *loader, struct infp_object_image *image);

struct infp_loader_work {
        uint64_t n_built, n_from_cache, cpu_ns;
        uint64_t n_tables, table_bytes; /* now */
};
struct infp_loader_work infp_loader_work(struct infp_loader *loader);
