#include "sampler/objects/object.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/text.h"
#include "base/time.h"
#include "sampler/perf/perf.h"

enum {
        MAX_OBJECTS = 16384,
        MANY_OBJECTS = 4096, /* beyond it those that no mapping has are forgotten */
        IDLE_S = 10,         /* a table that was used since is kept */
        LOST_S = 2,          /* between two looks for tables that their file system no longer gives */
};
/* Tables beyond this are given back when they were not used lately; beyond the second none is made. */
static const uint64_t many_table_bytes = UINT64_C(64) << 20, max_table_bytes = UINT64_C(512) << 20;
/* Page faults of the thread that unwinds after which the pages of mapped tables are given back: each brings 64 KiB (fault_around_bytes).
 * A program that starts makes us touch 40 MiB in 10 s. Giving back a PyTorch program's tables and reading them again takes some
 * 200 us: the pause bounds the cost where each second brings many faults. */
static const long many_faults = 128;
static const uint64_t pages_pause_ns = 250 * INFP_NS_PER_MS;
/* A file that was mapped again after this is looked at again: it may have been replaced by one with its inode. */
static const uint64_t look_again_ns = 2 * INFP_NS_PER_S;

struct infp_objects {
        struct infp_loader *loader;
        struct infp_map by_key;
        struct infp_object *first;
        uint64_t n, n_unread, generation, turns;
        uint64_t idle_since_turn; /* what was not used since this turn was idle for IDLE_S */
        uint64_t next_turn, next_ns, next_lost_ns;
        long faults;                         /* of that thread, when pages were given back last */
        uint64_t next_pages_ns;              /* not given back before this */
        struct infp_guarded_map *table_maps; /* of all images, each once; listed anew when it is asked for */
        uint64_t n_listings;
        bool are_maps_listed;
};

int infp_objects_new(int root_fd, const char *cache_directory, struct infp_objects **ret, struct infp_err *err)
{
        struct infp_objects *objects = calloc(1, sizeof(*objects));
        int r;

        if (!objects)
                return infp_fail(err, -ENOMEM, "no memory for the objects that are sampled");
        objects->generation = objects->turns = 1;
        r = infp_loader_new(root_fd, cache_directory, &objects->loader, err);
        if (r < 0) {
                free(objects);
                return r;
        }
        *ret = objects;
        return 0;
}

static void drop(struct infp_objects *objects, struct infp_object *object)
{
        if (object->is_indexed)
                infp_map_delete(&objects->by_key, object->key);
        if (object->next)
                object->next->previous = object->previous;
        if (object->previous)
                object->previous->next = object->next;
        else
                objects->first = object->next;
        objects->n--;
        objects->are_maps_listed = false;
        infp_loader_release(objects->loader, object->image);
        free(object);
}

struct infp_objects *infp_objects_free(struct infp_objects *objects)
{
        if (objects) {
                struct infp_object_job *job;

                while ((job = infp_loader_take(objects->loader))) {
                        infp_loader_release(objects->loader, job->image);
                        free(job);
                }
                while (objects->first)
                        drop(objects, objects->first);
                infp_loader_free(objects->loader);
                infp_map_done(&objects->by_key);
                free(objects);
        }
        return NULL;
}

static bool starts_with(const char *text, const char *begin)
{
        return strncmp(text, begin, strlen(begin)) == 0;
}

bool infp_object_is_memory(const char *path)
{
        static const char *const names[] = { "//anon", "/anon_hugepage", "/dev/zero", "/SYSV",
                                             "[heap]", "[stack",         "[anon" };

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
                if (starts_with(path, names[i]))
                        return true;
        return path[0] == 0;
}

static bool is_cxx_runtime(const char *path)
{
        const char *name = infp_base_name(path);

        return path[0] == '/' && infp_is_cxx_runtime(name, strlen(name));
}

static bool is_jitdump(const char *path)
{
        const char *at = infp_base_name(path);
        size_t digits;

        if (!starts_with(at, "jit-"))
                return false;
        digits = strspn(at + 4, "0123456789");
        return digits > 0 && strcmp(at + 4 + digits, ".dump") == 0;
}

/* The name that rows give it. ret_size: without the kernel's " (deleted)". */
static const char *name_of(const char *path, size_t *ret_size, bool *ret_is_deleted)
{
        static const char deleted[] = " (deleted)";
        const size_t n = sizeof(deleted) - 1;

        *ret_is_deleted = false;
        if (infp_object_is_memory(path))
                path = path[0] == '[' && path[1] != 'a' ? path : "[anon]";
        *ret_size = strlen(path);
        if (*ret_size > n && memcmp(path + *ret_size - n, deleted, n) == 0) {
                *ret_size -= n;
                *ret_is_deleted = true;
        }
        if (starts_with(path, "/memfd:")) {
                *ret_size -= 1;
                return path + 1;
        }
        return path;
}

static uint64_t key_of(const struct infp_perf_mapping *mapping, const char *name, size_t size)
{
        const uint64_t parts[] = { mapping->major, mapping->minor, mapping->inode,
                                   infp_hash64(mapping->build_id, mapping->build_id_size, 0),
                                   infp_hash64(name, size, 0) };

        return infp_hash64(parts, sizeof(parts), 0);
}

static struct infp_object *add(struct infp_objects *objects, const struct infp_perf_mapping *mapping, const char *name,
                               size_t size, bool is_deleted)
{
        struct infp_object *object;

        if (objects->n >= MAX_OBJECTS || mapping->build_id_size > INFP_MAX_BUILD_ID)
                return NULL;
        object = calloc(1, sizeof(*object) + size + 1);
        if (!object)
                return NULL;
        memcpy(object->name, name, size);
        object->is_deleted = is_deleted;
        object->major = mapping->major;
        object->minor = mapping->minor;
        object->inode = mapping->inode;
        object->build_id_size = mapping->build_id_size;
        if (mapping->build_id_size)
                memcpy(object->build_id, mapping->build_id, mapping->build_id_size);
        object->told_ns = mapping->t_ns;
        object->kind = INFP_FRAME_UNKNOWN;
        object->is_file = name[0] != '[';
        object->is_jitdump = object->is_file && is_jitdump(object->name);
        if (infp_object_is_memory(mapping->path)) {
                object->kind = INFP_FRAME_JIT;
                object->state = INFP_OBJECT_READY;
        } else if (strcmp(object->name, "[vdso]") == 0) {
                object->kind = INFP_FRAME_VDSO;
        } else if (!object->is_file) {
                object->state = INFP_OBJECT_READY;
        }
        object->next = objects->first;
        if (object->next)
                object->next->previous = object;
        objects->first = object;
        objects->n++;
        return object;
}

struct infp_object *infp_objects_get(struct infp_objects *objects, const struct infp_perf_mapping *mapping)
{
        bool is_deleted;
        size_t size;
        const char *name = name_of(mapping->path, &size, &is_deleted);
        const bool is_sure = mapping->build_id_size || name[0] == '[';
        const uint64_t key = key_of(mapping, name, size), *known = infp_map_get(&objects->by_key, key);
        struct infp_object *object = known ? (struct infp_object *) (uintptr_t) *known : NULL;

        if (object && (is_sure || mapping->t_ns < object->told_ns + look_again_ns))
                return infp_object_ref(object);
        if (object) {
                object->is_indexed = false;
                infp_map_delete(&objects->by_key, key);
        }
        object = add(objects, mapping, name, size, is_deleted);
        if (!object)
                return NULL;
        object->key = key;
        object->is_indexed = infp_map_put(&objects->by_key, key, (uintptr_t) object) == 0;
        return infp_object_ref(object);
}

void infp_object_unref(struct infp_object *object)
{
        if (object)
                object->n_refs--;
}

void infp_objects_request(struct infp_objects *objects, struct infp_object *object, pid_t pid, uint64_t begin,
                          uint64_t end)
{
        struct infp_object_place place = { pid,
                                           begin,
                                           end,
                                           object->major,
                                           object->minor,
                                           object->inode,
                                           object->build_id,
                                           object->build_id_size,
                                           object->name };
        struct infp_object_job *job;

        if (object->state != INFP_OBJECT_NEW)
                return;
        job = infp_loader_work(objects->loader).table_bytes < max_table_bytes ? infp_object_job_new(&place) : NULL;
        if (!job) {
                object->state = INFP_OBJECT_READY;
                object->error = -ENOMEM;
                objects->n_unread += !object->was_counted;
                object->was_counted = true;
                return;
        }
        job->context = infp_object_ref(object);
        job->is_vdso = object->kind == INFP_FRAME_VDSO;
        object->state = INFP_OBJECT_WAITING;
        infp_loader_put(objects->loader, job);
}

/* What frames of it are, now that it was read. */
static enum infp_frame_kind kind_of(const struct infp_object *object)
{
        if (object->kind == INFP_FRAME_VDSO)
                return INFP_FRAME_VDSO;
        if (!object->image)
                return INFP_FRAME_UNKNOWN;
        if (!object->image->is_elf)
                return INFP_FRAME_JIT; /* a program maps its own code from a file */
        return is_cxx_runtime(object->name) ? INFP_FRAME_CXX_RUNTIME : INFP_FRAME_NATIVE;
}

static void take(struct infp_objects *objects, struct infp_object_job *job)
{
        struct infp_object *object = job->context;

        object->state = INFP_OBJECT_READY;
        object->image = job->image;
        object->error = job->image ? 0 : job->error;
        object->is_deleted |= job->is_deleted;
        object->kind = kind_of(object);
        object->used = objects->turns;
        objects->are_maps_listed = false;
        objects->n_unread += !job->image && !object->was_counted;
        object->was_counted |= !job->image;
        infp_object_unref(object);
        free(job);
}

/* An image that is gone is read again when it is needed again: from the cache, mostly. */
static void give_back(struct infp_objects *objects, struct infp_object *object)
{
        infp_loader_release(objects->loader, object->image);
        object->image = NULL;
        objects->are_maps_listed = false;
        object->state = INFP_OBJECT_NEW;
        objects->generation++;
}

/* What was missing then may be there now: descriptors, memory, threads. */
static bool is_worth_another_try(const struct infp_object *object)
{
        return object->state == INFP_OBJECT_READY && !object->image &&
               (object->error == -EMFILE || object->error == -ENFILE || object->error == -ENOMEM ||
                object->error == -EAGAIN);
}

struct infp_guarded_map *infp_objects_table_maps(struct infp_objects *objects)
{
        if (objects->are_maps_listed)
                return objects->table_maps;
        objects->table_maps = NULL;
        objects->n_listings++;
        for (struct infp_object *object = objects->first; object; object = object->next) {
                struct infp_object_image *image = object->image;

                if (!image || !image->table_map.at || image->listing == objects->n_listings)
                        continue;
                image->listing = objects->n_listings; /* several objects may share it */
                image->table_map.next = objects->table_maps;
                objects->table_maps = &image->table_map;
        }
        objects->are_maps_listed = true;
        return objects->table_maps;
}

/* A table that its file system no longer gives reads as zeros: made again when it is needed. */
static void give_back_lost(struct infp_objects *objects)
{
        for (struct infp_object *object = objects->first; object; object = object->next)
                if (object->image && atomic_load(&object->image->table_map.is_lost))
                        give_back(objects, object);
}

/* What was looked at counts as ours as long as it is mapped; what is needed again comes from the page cache. */
void infp_objects_forget_pages(struct infp_objects *objects)
{
        const uint64_t now_ns = infp_clock_ns(CLOCK_MONOTONIC);
        struct rusage usage;

        if (now_ns < objects->next_pages_ns || getrusage(RUSAGE_THREAD, &usage) < 0 ||
            usage.ru_minflt - objects->faults < many_faults)
                return;
        objects->faults = usage.ru_minflt;
        objects->next_pages_ns = now_ns + pages_pause_ns;
        for (const struct infp_guarded_map *map = infp_objects_table_maps(objects); map; map = map->next)
                madvise(map->at, map->size, MADV_DONTNEED);
}

static void forget_idle(struct infp_objects *objects)
{
        uint64_t bytes = infp_loader_work(objects->loader).table_bytes;
        struct infp_object *next;

        for (struct infp_object *object = objects->first; object; object = next) {
                const bool is_idle = object->used < objects->idle_since_turn;

                next = object->next;
                if (object->n_refs == 0 && (objects->n > MANY_OBJECTS || !object->is_indexed)) {
                        drop(objects, object);
                } else if (object->image && object->image->table && is_idle && bytes > many_table_bytes) {
                        const uint64_t own = infp_object_image_table_bytes(object->image);

                        bytes -= own < bytes ? own : bytes;
                        give_back(objects, object);
                } else if (is_worth_another_try(object)) {
                        give_back(objects, object);
                }
        }
}

void infp_objects_release(struct infp_objects *objects, struct infp_object_image *image)
{
        infp_loader_release(objects->loader, image);
}

bool infp_objects_turn(struct infp_objects *objects)
{
        const uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);
        struct infp_object_job *job;
        bool is_news = false;

        objects->turns++;
        while ((job = infp_loader_take(objects->loader))) {
                take(objects, job);
                is_news = true;
        }
        if (is_news)
                objects->generation++;
        if (now >= objects->next_ns) {
                forget_idle(objects);
                objects->idle_since_turn = objects->next_turn;
                objects->next_turn = objects->turns;
                objects->next_ns = now + IDLE_S * INFP_NS_PER_S;
        }
        if (now >= objects->next_lost_ns) {
                give_back_lost(objects);
                objects->next_lost_ns = now + LOST_S * INFP_NS_PER_S;
        }
        return is_news;
}

uint64_t infp_objects_generation(const struct infp_objects *objects)
{
        return objects->generation;
}

uint64_t infp_objects_turns(const struct infp_objects *objects)
{
        return objects->turns;
}

int infp_objects_wake_fd(const struct infp_objects *objects)
{
        return infp_loader_wake_fd(objects->loader);
}

void infp_objects_counts(const struct infp_objects *objects, struct infp_objects_counts *ret)
{
        *ret = (struct infp_objects_counts){ objects->n, objects->n_unread, infp_loader_work(objects->loader) };
}
