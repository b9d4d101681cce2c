/* The threads that read what processes execute from, while somebody changes those files. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "base/fd.h"
#include "sampler/objects/loader.h"

enum { CUT = 10, MOST_TRIES = 1000 };

static char folder[] = "/tmp/infp-loader-XXXXXX", path[64];
static char *bytes;
static ssize_t size;
static int root_fd, file;

/* The C library: it takes milliseconds to read, so that a cut in the middle of it is likely on any machine. */
static int begin(void **state)
{
        Dl_info info;

        (void) state;
        if (!dladdr(__extension__(void *) fopen, &info))
                return -1;
        root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        size = infp_read_all_at(root_fd, info.dli_fname, 64 << 20, &bytes);
        return root_fd >= 0 && size > 4096 && mkdtemp(folder) ? 0 : -1;
}

static int end(void **state)
{
        (void) state;
        free(bytes);
        close(root_fd);
        return rmdir(folder);
}

static void ask(struct infp_loader *loader)
{
        struct stat status;

        assert_int_equal(fstat(file, &status), 0);
        infp_loader_put(loader, infp_object_job_new(&(struct infp_object_place){ .pid = getpid(),
                                                                                 .major = major(status.st_dev),
                                                                                 .minor = minor(status.st_dev),
                                                                                 .inode = status.st_ino,
                                                                                 .build_id = (const uint8_t *) "",
                                                                                 .path = path }));
}

static int answer(struct infp_loader *loader)
{
        struct pollfd poll_fd = { .fd = infp_loader_wake_fd(loader), .events = POLLIN };
        struct infp_object_job *job;
        int r;

        while (!(job = infp_loader_take(loader)))
                poll(&poll_fd, 1, -1);
        r = job->error;
        infp_loader_release(loader, job->image);
        free(job);
        return r;
}

/* As the sampler does, which takes no signal: the kernel kills where SIGBUS is blocked. */
static void files_cut_while_they_are_read_are_an_error(void **state)
{
        struct infp_loader *loader;
        sigset_t all;
        unsigned n_cut = 0;

        (void) state;
        snprintf(path, sizeof(path), "%s/file", folder);
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, NULL);
        assert_int_equal(infp_loader_new(root_fd, NULL, &loader, NULL), 0);
        for (unsigned i = 0; n_cut < CUT && i < MOST_TRIES; i++) {
                const struct timespec some = { .tv_nsec = i % 32 * 100000 };

                file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
                assert_int_equal(write(file, bytes, (size_t) size), size);
                ask(loader);
                nanosleep(&some, NULL); /* a reading takes some milliseconds */
                unlink(path);           /* else the short file is read by the next way */
                assert_int_equal(ftruncate(file, 4096), 0);
                n_cut += answer(loader) == -EIO;
                close(file);
        }
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
