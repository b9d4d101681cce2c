/* Whose ring files are found, below a /proc that is made here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>

#include "ring/find.h"
#include "ring_sample.h"

enum { PID = 300 };
#define INNER 17 /* its number in its own namespace */
#define FILE_NAME "17-5555-1000.ring"

struct world {
        char top[64];
        int proc_fd;
        char names[512];
        struct infp_err err;
};

static void make_directory(const struct world *w, const char *name, mode_t mode)
{
        char path[512];

        snprintf(path, sizeof(path), "%s/%s", w->top, name);
        assert_int_equal(mkdir(path, mode), 0);
}

static void write_file(const struct world *w, const char *name, const void *text, size_t size)
{
        char path[512];
        int fd;

        snprintf(path, sizeof(path), "%s/%s", w->top, name);
        fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(write(fd, text, size), (ssize_t) size);
        close(fd);
}

static void write_text(const struct world *w, const char *name, const char *text)
{
        write_file(w, name, text, strlen(text));
}

static void write_process(const struct world *w, const char *environment, size_t size)
{
        char status[256];

        write_text(w, "proc/300/stat",
                   "300 (a) b (c)) S 1 300 300 0 -1 4194560 10 0 0 0 1 2 0 0 20 0 1 0 5555 1000 10 "
                   "18446744073709551615\n");
        snprintf(status, sizeof(status), "Name:\tx\nUid:\t%u\t%u\t%u\t%u\nNSpid:\t300\t17\n", geteuid(), geteuid(),
                 geteuid(), geteuid());
        write_text(w, "proc/300/status", status);
        write_text(w, "proc/300/uid_map", "         0          0 4294967295\n");
        write_file(w, "proc/300/environ", environment, size);
}

static char own_directory[64];

static int setup(void **state)
{
        struct world *w = calloc(1, sizeof(*w));
        char path[256], link[256];

        strcpy(w->top, "/tmp/infprof-find-XXXXXX");
        assert_non_null(mkdtemp(w->top));
        make_directory(w, "proc", 0755);
        make_directory(w, "proc/300", 0755);
        make_directory(w, "root", 0755);
        make_directory(w, "root/dev", 0755);
        make_directory(w, "root/dev/shm", 0755);
        make_directory(w, "root/tmp", 0755);
        snprintf(own_directory, sizeof(own_directory), "root/dev/shm/infprof-%u", geteuid());
        make_directory(w, own_directory, 0700);
        snprintf(path, sizeof(path), "%s/root", w->top);
        snprintf(link, sizeof(link), "%s/proc/300/root", w->top);
        assert_int_equal(symlink(path, link), 0);
        write_process(w, "A=1", 4);
        snprintf(path, sizeof(path), "%s/proc", w->top);
        w->proc_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        *state = w;
        return 0;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *place)
{
        (void) status;
        (void) type;
        (void) place;
        return remove(path);
}

static int teardown(void **state)
{
        struct world *w = *state;

        close(w->proc_fd);
        nftw(w->top, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        free(w);
        return 0;
}

static int note(void *context, int file, const struct infp_ring_owner *owner, const char *name)
{
        struct world *w = context;

        assert_int_equal(owner->pid, INNER);
        assert_int_equal(owner->start_ticks, 5555);
        assert_int_equal(owner->uid, geteuid());
        assert_int_equal(fcntl(file, F_GETFD), FD_CLOEXEC);
        close(file);
        strcat(w->names, name);
        strcat(w->names, " ");
        return 0;
}

static int find(struct world *w)
{
        w->names[0] = 0;
        return infp_ring_find(w->proc_fd, PID, true, note, w, &w->err);
}

static void put_ring(const struct world *w, const char *directory, const char *name)
{
        char path[256];

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        write_text(w, path, "x");
}

static void files_of_the_process_are_found_by_its_own_number(void **state)
{
        struct world *w = *state;

        put_ring(w, own_directory, "17-5555-2000.ring");
        put_ring(w, own_directory, FILE_NAME);
        put_ring(w, own_directory, "17-5556-1000.ring");  /* another process of that number */
        put_ring(w, own_directory, "300-5555-1000.ring"); /* what we call it means nothing there */
        put_ring(w, own_directory, "17-5555-1000.ring.part");
        put_ring(w, own_directory, "17-5555-.ring");
        put_ring(w, own_directory, "x-5555-1000.ring");
        assert_int_equal(find(w), 2);
        assert_string_equal(w->names, FILE_NAME " 17-5555-2000.ring ");
}

static void the_environment_names_more_directories(void **state)
{
        static const char environment[] = "PATH=/bin\0INFPROF_RING=/rings\0XDG_RUNTIME_DIR=/run/user";
        struct world *w = *state;

        make_directory(w, "root/rings", 0700);
        make_directory(w, "root/run", 0755);
        make_directory(w, "root/run/user", 0755);
        make_directory(w, "root/run/user/infprof", 0700);
        put_ring(w, "root/rings", "17-5555-1.ring");
        put_ring(w, "root/run/user/infprof", "17-5555-2.ring");
        assert_int_equal(find(w), -ENOENT);
        write_process(w, environment, sizeof(environment));
        assert_int_equal(find(w), 2);
        assert_string_equal(w->names, "17-5555-1.ring 17-5555-2.ring ");
}

static void open_directories_links_and_pipes_are_left_alone(void **state)
{
        struct world *w = *state;
        char path[256], link[256];

        snprintf(path, sizeof(path), "%s/%s", w->top, own_directory);
        chmod(path, 0750);
        put_ring(w, own_directory, FILE_NAME);
        assert_int_equal(find(w), -ENOENT);
        chmod(path, 0700);
        assert_int_equal(find(w), 1);
        snprintf(link, sizeof(link), "%s/%s/17-5555-3000.ring", w->top, own_directory);
        assert_int_equal(symlink(FILE_NAME, link), 0);
        snprintf(link, sizeof(link), "%s/%s/17-5555-4000.ring", w->top, own_directory);
        assert_int_equal(mkfifo(link, 0600), 0);
        assert_int_equal(find(w), 1);

        /* The directory itself a link. */
        make_directory(w, "root/rings", 0700);
        put_ring(w, "root/rings", FILE_NAME);
        snprintf(path, sizeof(path), "%s/root/link", w->top);
        assert_int_equal(symlink("rings", path), 0);
        write_process(w, "INFPROF_RING=/link", sizeof("INFPROF_RING=/link"));
        assert_int_equal(find(w), 1);
}

/* A link within the process's root that leads out of it leads to nothing: below its root the path begins anew. */
static void no_link_leads_out_of_the_root(void **state)
{
        struct world *w = *state;
        char target[256], link[256], environment[64];

        make_directory(w, "outside", 0755);
        make_directory(w, "outside/rings", 0700);
        put_ring(w, "outside/rings", FILE_NAME);
        snprintf(target, sizeof(target), "%s/outside", w->top);
        snprintf(link, sizeof(link), "%s/root/out", w->top);
        assert_int_equal(symlink(target, link), 0);
        snprintf(environment, sizeof(environment), "INFPROF_RING=/out/rings");
        write_process(w, environment, strlen(environment) + 1);
        assert_int_equal(find(w), -ENOENT);
        write_process(w, "INFPROF_RING=/../outside/rings", sizeof("INFPROF_RING=/../outside/rings"));
        assert_int_equal(find(w), -ENOENT);
}

static void why_there_is_none_is_said(void **state)
{
        struct world *w = *state;

        assert_int_equal(find(w), -ENOENT);
        assert_non_null(strstr(w->err.text, "process 300 does not record: start it with INFPROF_RING=1"));
        write_process(w, "INFPROF_RING=1", sizeof("INFPROF_RING=1"));
        assert_int_equal(find(w), -ENOENT);
        assert_non_null(strstr(w->err.text, "but no ring file in /dev/shm/infprof-"));
        assert_int_equal(infp_ring_find(w->proc_fd, 301, true, note, w, &w->err), -ESRCH);
        assert_string_equal(w->err.text, "there is no process 301");
        write_text(w, "proc/300/stat", "300 (a) Z 1 300 300 0 -1 4194560 10 0 0 0 1 2 0 0 20 0 1 0 5555 1000 10\n");
        assert_int_equal(find(w), -ESRCH);
}

static void another_user_is_refused(void **state)
{
        struct world *w = *state;
        struct infp_ring_owner owner;
        int r;

        write_text(w, "proc/300/status", "Name:\tx\nUid:\t77\t77\t77\t77\n");
        r = infp_ring_owner_read(w->proc_fd, PID, &owner, &w->err);
        if (geteuid() == 0) { /* root may read all, but takes only what is that user's */
                assert_int_equal(r, 0);
                assert_int_equal(owner.uid, 77);
                assert_int_equal(owner.pid, PID);
                put_ring(w, own_directory, FILE_NAME);
                assert_int_equal(find(w), -ENOENT);
        } else {
                assert_int_equal(r, -EPERM);
                assert_non_null(strstr(w->err.text, "belongs to uid 77"));
        }
}

static void a_user_namespace_has_its_own_name_for_the_user(void **state)
{
        struct world *w = *state;
        char map[64];

        snprintf(map, sizeof(map), "0 %u 1\n1000 100000 65536\n", geteuid());
        write_text(w, "proc/300/uid_map", map);
        if (geteuid() != 0) {
                make_directory(w, "root/dev/shm/infprof-0", 0700);
                put_ring(w, "root/dev/shm/infprof-0", FILE_NAME);
        } else {
                put_ring(w, own_directory, FILE_NAME);
        }
        assert_int_equal(find(w), 1);
        snprintf(map, sizeof(map), "5 %u 1\n", geteuid());
        write_text(w, "proc/300/uid_map", map);
        assert_int_equal(find(w), -ENOENT);
        make_directory(w, "root/tmp/infprof-5", 0700);
        put_ring(w, "root/tmp/infprof-5", FILE_NAME);
        assert_int_equal(find(w), 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                TEST(files_of_the_process_are_found_by_its_own_number),
                TEST(the_environment_names_more_directories),
                TEST(open_directories_links_and_pipes_are_left_alone),
                TEST(no_link_leads_out_of_the_root),
                TEST(why_there_is_none_is_said),
                TEST(another_user_is_refused),
                TEST(a_user_namespace_has_its_own_name_for_the_user),
        };
        return cmocka_run_group_tests(tests, NULL, NULL);
}
