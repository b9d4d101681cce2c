/* The threads that read what processes execute from, while somebody changes those files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fd.h"
#include "sampler/objects/loader.h"

enum { CUT = 10, MOST_JOBS = 100000 };

static char path[] = "/tmp/infp-loader-XXXXXX";
static char *bytes;
static ssize_t size;
static int root_fd, file;
static atomic_bool is_over;

static int begin(void **state)
{
        (void) state;
        root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        size = infp_read_all_at(root_fd, "/proc/self/exe", 64 << 20, &bytes);
        file = mkstemp(path);
        return root_fd >= 0 && size > 4096 && file >= 0 && write(file, bytes, (size_t) size) == size ? 0 : -1;
}

static int end(void **state)
{
        (void) state;
        free(bytes);
        close(root_fd);
        close(file);
        return unlink(path);
}

static struct infp_object_job *load(struct infp_loader *loader)
{
        struct pollfd poll_fd = { .fd = infp_loader_wake_fd(loader), .events = POLLIN };
        struct infp_object_job *job;
        struct stat status;

        assert_int_equal(fstat(file, &status), 0);
        job = infp_object_job_new(&(struct infp_object_place){ .pid = getpid(),
                                                               .major = major(status.st_dev),
                                                               .minor = minor(status.st_dev),
                                                               .inode = status.st_ino,
                                                               .build_id = (const uint8_t *) "",
                                                               .path = path });
        assert_non_null(job);
        infp_loader_put(loader, job);
        while (!(job = infp_loader_take(loader)))
                poll(&poll_fd, 1, -1);
        return job;
}

static void *cut_and_write(void *context)
{
        (void) context;
        while (!atomic_load(&is_over)) {
                assert_int_equal(ftruncate(file, 4096), 0);
                assert_int_equal(pwrite(file, bytes, (size_t) size, 0), size);
        }
        return NULL;
}

/* As the sampler does, which takes no signal: the kernel kills where SIGBUS is blocked. */
static void files_cut_while_they_are_read_are_an_error(void **state)
{
        struct infp_loader *loader;
        pthread_t thread;
        sigset_t all;
        unsigned n_cut = 0;

        (void) state;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, NULL);
        assert_int_equal(infp_loader_new(root_fd, NULL, &loader, NULL), 0);
        assert_int_equal(pthread_create(&thread, NULL, cut_and_write, NULL), 0);
        for (unsigned i = 0; n_cut < CUT && i < MOST_JOBS; i++) {
                struct infp_object_job *job = load(loader);

                n_cut += job->error == -EIO;
                infp_loader_release(loader, job->image);
                free(job);
        }
        atomic_store(&is_over, true);
        assert_int_equal(pthread_join(thread, NULL), 0);
        infp_loader_free(loader);
        assert_int_equal(n_cut, CUT);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(files_cut_while_they_are_read_are_an_error),
        };

        return cmocka_run_group_tests(tests, begin, end);
}
