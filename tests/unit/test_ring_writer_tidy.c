/* Whose file is removed by the next process that makes one: of the dead, that no recorder was there for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <time.h>

#include "ring_calls.h"

#define LONG_AGO UINT64_C(5000000000)

/* A process that makes a file and is gone without a word; its path. */
static void leave_file(const char *run, uint64_t age_ns, char path[static INFP_WRITER_PATH])
{
        int ends[2], status;
        pid_t pid;

        CHECK(pipe(ends) == 0);
        pid = fork();
        if (pid == 0) {
                strcpy(infp_writer_config.run, run);
                open_all();
                ring_head()->created_ns -= age_ns;
                CHECK(write(ends[1], infp_writer_file.path, INFP_WRITER_PATH) == INFP_WRITER_PATH);
                _exit(0);
        }
        CHECK(read(ends[0], path, INFP_WRITER_PATH) == INFP_WRITER_PATH);
        CHECK(waitpid(pid, &status, 0) == pid && status == 0);
        close(ends[0]);
        close(ends[1]);
}

static void check_tidy(void)
{
        static char old[INFP_WRITER_PATH], fresh[INFP_WRITER_PATH], others[INFP_WRITER_PATH], last[INFP_WRITER_PATH];
        char foreign[128];
        int file;

        open_all();
        ring_head()->created_ns -= LONG_AGO; /* ours: we live */
        snprintf(foreign, sizeof foreign, "%s/999999999-1-1.ring", directory);
        file = open(foreign, O_WRONLY | O_CREAT, 0600);
        CHECK(file >= 0 && write(file, foreign, sizeof foreign) == sizeof foreign && close(file) == 0);
        leave_file("a-run", LONG_AGO, others);
        leave_file("", 0, fresh);
        leave_file("", LONG_AGO, old);
        CHECK(access(old, F_OK) == 0);
        leave_file("", 0, last);
        CHECK(access(old, F_OK) < 0);
        CHECK(access(infp_writer_file.path, F_OK) == 0 && access(others, F_OK) == 0 && access(fresh, F_OK) == 0 &&
              access(last, F_OK) == 0 && access(foreign, F_OK) == 0);
}

static void test_tidy(void **state)
{
        (void) state;
        in_child(directory, check_tidy);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_tidy),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
