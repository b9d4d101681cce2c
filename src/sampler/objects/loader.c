#include "sampler/objects/loader.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/procfile.h"
#include "base/thread.h"
#include "base/time.h"
#include "sampler/objects/tables_cache.h"

/* Two, so that a large table does not keep the small ones waiting. */
enum { MAX_THREADS = 2, MAX_KEPT_FDS = 64, STACK_BYTES = 256 * 1024 };
static const uint64_t max_copied_bytes = UINT64_C(96)
                                         << 20; /* of files that are read from the memory of their processes */

/* Belongs to its owner and to each of its threads together: the last one frees it. */
struct infp_loader {
        pthread_mutex_t lock;
        pthread_cond_t has_job;
        struct infp_fifo jobs, done; /* of struct infp_object_job */
        unsigned n_owners, n_threads, n_idle, n_kept_fds;
        bool is_over;
        int root_fd, wake_fd;
        struct infp_tables_cache *cache;
        struct infp_object_image *images; /* all that somebody refers to */
        uint64_t n_built, n_from_cache, cpu_ns, copied_bytes;
};

/* Under the lock, which is gone then. */
static void leave(struct infp_loader *loader)
{
        const bool is_last = --loader->n_owners == 0;
        struct infp_object_image *image;

        pthread_mutex_unlock(&loader->lock);
        if (!is_last)
                return;
        infp_fifo_done(&loader->jobs);
        infp_fifo_done(&loader->done);
        while ((image = loader->images)) {
                loader->images = image->next;
                infp_object_image_free(image);
        }
        infp_tables_cache_close(loader->cache);
        infp_close(loader->root_fd);
        infp_close(loader->wake_fd);
        pthread_cond_destroy(&loader->has_job);
        pthread_mutex_destroy(&loader->lock);
        free(loader);
}

int infp_loader_new(int root_fd, const char *cache_directory, struct infp_loader **ret, struct infp_err *err)
{
        struct infp_loader *loader = calloc(1, sizeof(*loader));
        int r = 0;

        if (!loader)
                return infp_fail(err, -ENOMEM, "no memory for unwind tables");
        loader->n_owners = 1;
        loader->root_fd = fcntl(root_fd, F_DUPFD_CLOEXEC, 0); /* a thread may outlive the owner's */
        loader->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        pthread_mutex_init(&loader->lock, NULL);
        infp_cond_init(&loader->has_job);
        if (loader->root_fd < 0 || loader->wake_fd < 0)
                r = infp_fail_errno(err, -errno, "cannot open files that the sampler's helpers need");
        else if (cache_directory)
                /* Without it tables are built anew: no reason not to record. */
                infp_tables_cache_open(cache_directory, (uint64_t) INFP_TABLES_CACHE_MIB << 20, &loader->cache, NULL);
        if (r < 0) {
                infp_loader_free(loader);
                return r;
        }
        *ret = loader;
        return 0;
}

struct infp_loader *infp_loader_free(struct infp_loader *loader)
{
        if (loader) {
                pthread_mutex_lock(&loader->lock);
                loader->is_over = true;
                pthread_cond_broadcast(&loader->has_job);
                leave(loader);
        }
        return NULL;
}

static bool is_same(const struct infp_file_identity *a, const struct infp_file_identity *b)
{
        return a->device == b->device && a->inode == b->inode && a->size == b->size && a->changed_ns == b->changed_ns;
}

/* A reference to the image of this very file, or NULL. */
static struct infp_object_image *find_image(struct infp_loader *loader, const struct infp_file_identity *identity)
{
        struct infp_object_image *image;

        pthread_mutex_lock(&loader->lock);
        for (image = loader->images; image; image = image->next)
                if (is_same(&image->identity, identity)) {
                        atomic_fetch_add(&image->n_refs, 1);
                        break;
                }
        pthread_mutex_unlock(&loader->lock);
        return image;
}

/* False: it is there, but more was copied than may be. */
static bool add_image(struct infp_loader *loader, struct infp_object_image *image)
{
        bool has_room;

        pthread_mutex_lock(&loader->lock);
        loader->copied_bytes += image->copied_bytes;
        has_room = !image->copied_bytes || loader->copied_bytes <= max_copied_bytes;
        image->next = loader->images;
        loader->images = image;
        loader->n_built += image->table && !image->is_from_cache;
        loader->n_from_cache += image->is_from_cache;
        pthread_mutex_unlock(&loader->lock);
        return has_room;
}

void infp_loader_release(struct infp_loader *loader, struct infp_object_image *image)
{
        if (!image)
                return;
        pthread_mutex_lock(&loader->lock);
        if (atomic_fetch_sub(&image->n_refs, 1) == 1) {
                for (struct infp_object_image **at = &loader->images; *at; at = &(*at)->next)
                        if (*at == image) {
                                *at = image->next;
                                break;
                        }
                loader->n_kept_fds -= image->fd >= 0;
                loader->copied_bytes -= image->copied_bytes;
                infp_object_image_free(image);
        }
        pthread_mutex_unlock(&loader->lock);
}

static bool may_keep_fd(struct infp_loader *loader, int fd, unsigned most)
{
        unsigned limit;
        bool may;

        pthread_mutex_lock(&loader->lock);
        may = loader->n_kept_fds < most && !infp_fd_is_scarce(fd) && !infp_fds_are_few(&limit);
        loader->n_kept_fds += may;
        pthread_mutex_unlock(&loader->lock);
        return may;
}

/* Where programs put objects that they may remove again. A server's environment may lie there as well: a descriptor is kept, and
 * whether the file was removed is seen when names are needed. */
static bool is_temporary(const char *path)
{
        static const char *const folders[] = { "/tmp/", "/var/tmp/", "/dev/shm/", "/run/" };

        for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
                if (strncmp(path, folders[i], strlen(folders[i])) == 0)
                        return true;
        return false;
}

static void keep_fd(struct infp_loader *loader, struct infp_object_image *image, const char *path, int *fd)
{
        if (!image->is_elf || (image->is_reachable && !is_temporary(path)) ||
            !may_keep_fd(loader, *fd, image->is_reachable ? MAX_KEPT_FDS / 2 : MAX_KEPT_FDS))
                return;
        image->fd = *fd;
        *fd = -1;
}

/* By one way. -ESTALE: that is another file. */
static int load_by(struct infp_loader *loader, struct infp_object_job *job, enum infp_object_way way)
{
        const struct infp_object_place *place = &job->place;
        struct infp_file_identity identity;
        struct infp_object_image *image;
        infp_autoclose int fd = infp_object_open(loader->root_fd, place, way, &identity);
        int r;

        if (fd < 0)
                return fd;
        image = find_image(loader, &identity);
        if (!image) {
                r = infp_object_image_read(fd, &identity, way == INFP_BY_MEMORY ? NULL : loader->cache, &image);
                if (r < 0)
                        return r;
                image->is_reachable = way == INFP_BY_OUR_ROOT;
                image->copied_bytes = way == INFP_BY_MEMORY ? identity.size : 0;
                keep_fd(loader, image, place->path, &fd);
                if (!add_image(loader, image)) {
                        infp_loader_release(loader, image);
                        return -EFBIG;
                }
        }
        if (place->build_id_size && image->is_elf &&
            (image->build_id_size < place->build_id_size ||
             memcmp(image->build_id, place->build_id, place->build_id_size) != 0)) {
                infp_loader_release(loader, image);
                return -ESTALE;
        }
        job->image = image;
        job->is_deleted = way > INFP_BY_ITS_ROOT;
        return 0;
}

static void load(struct infp_loader *loader, struct infp_object_job *job)
{
        if (job->is_vdso) {
                job->error = infp_object_image_vdso(&job->image);
                if (job->error == 0)
                        add_image(loader, job->image);
                return;
        }
        job->place.pid = infp_proc_thread(loader->root_fd, "proc/", job->place.pid);
        for (enum infp_object_way way = 0; way < INFP_OBJECT_WAYS && !job->image; way++) {
                int r;

                /* It is not under its path: how the process has it now shows more than the record did. */
                if (way == INFP_BY_MAP_FILES && !infp_object_find(loader->root_fd, &job->place))
                        break;
                r = load_by(loader, job, way);

                /* What is said last is not why: the file that is not there by its path is. */
                if (way == 0 || r == 0 || job->error == -ENOENT || job->error == -ESTALE)
                        job->error = r;
        }
}

static struct infp_object_job *next_job(struct infp_loader *loader)
{
        loader->n_idle++;
        while (!loader->jobs.n && !loader->is_over)
                pthread_cond_wait(&loader->has_job, &loader->lock);
        loader->n_idle--;
        return loader->is_over ? NULL : infp_fifo_take(&loader->jobs);
}

static void finish_job(struct infp_loader *loader, struct infp_object_job *job)
{
        static const uint64_t one = 1;

        infp_fifo_put(&loader->done, &job->item);
        if (write(loader->wake_fd, &one, sizeof(one)) < 0) {
                /* It is readable already. */
        }
}

static void *work(void *context)
{
        struct infp_loader *loader = context;
        struct infp_object_job *job;
        uint64_t used = 0;

        pthread_mutex_lock(&loader->lock);
        while ((job = next_job(loader))) {
                uint64_t now;

                pthread_mutex_unlock(&loader->lock);
                load(loader, job);
                now = infp_clock_ns(CLOCK_THREAD_CPUTIME_ID);
                pthread_mutex_lock(&loader->lock);
                loader->cpu_ns += now - used;
                used = now;
                finish_job(loader, job);
        }
        leave(loader);
        return NULL;
}

static void start_thread(struct infp_loader *loader)
{
        if (infp_thread_start(NULL, "infprof-unwind", STACK_BYTES, work, loader) == 0) {
                loader->n_threads++;
                loader->n_owners++;
        }
}

struct infp_object_job *infp_object_job_new(const struct infp_object_place *place)
{
        const size_t size = strlen(place->path) + 1;
        struct infp_object_job *job = calloc(1, sizeof(*job) + size);

        if (!job)
                return NULL;
        memcpy(job->path, place->path, size);
        job->place = *place;
        job->place.path = job->path;
        job->place.build_id = job->build_id;
        if (place->build_id_size > sizeof(job->build_id))
                job->place.build_id_size = 0;
        memcpy(job->build_id, place->build_id, job->place.build_id_size);
        return job;
}

void infp_loader_put(struct infp_loader *loader, struct infp_object_job *job)
{
        pthread_mutex_lock(&loader->lock);
        if (loader->n_idle == 0 && loader->n_threads < MAX_THREADS)
                start_thread(loader);
        if (loader->n_threads == 0) {
                job->error = -EAGAIN;
                finish_job(loader, job);
        } else {
                infp_fifo_put(&loader->jobs, &job->item);
                pthread_cond_signal(&loader->has_job);
        }
        pthread_mutex_unlock(&loader->lock);
}

struct infp_object_job *infp_loader_take(struct infp_loader *loader)
{
        struct infp_object_job *job;
        uint64_t n;

        pthread_mutex_lock(&loader->lock);
        job = infp_fifo_take(&loader->done);
        if (job && !loader->done.n && read(loader->wake_fd, &n, sizeof(n)) < 0) {
                /* It was read already. */
        }
        pthread_mutex_unlock(&loader->lock);
        return job;
}

int infp_loader_wake_fd(const struct infp_loader *loader)
{
        return loader->wake_fd;
}

struct infp_loader_work infp_loader_work(struct infp_loader *loader)
{
        struct infp_loader_work work;

        pthread_mutex_lock(&loader->lock);
        work = (struct infp_loader_work){ loader->n_built, loader->n_from_cache, loader->cpu_ns, 0, 0 };
        for (const struct infp_object_image *image = loader->images; image; image = image->next)
                if (image->table) {
                        work.n_tables++;
                        work.table_bytes += infp_object_image_table_bytes(image);
                }
        pthread_mutex_unlock(&loader->lock);
        return work;
}
