#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/rights.h"
#include "skip_because.h"

static int drop_all(void)
{
        struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };

        return (int) syscall(SYS_capset, &head, data);
}

/* In a child of its own: every fix must have the words. */
static void check(int (*become)(void), const char *words)
{
        static const enum infp_right rights[] = { INFP_MAY_TRACE, INFP_MAY_SAMPLE, INFP_MAY_BPF, INFP_MAY_GPU };
        const pid_t pid = fork();
        int status;

        if (pid == 0) {
                if (become() < 0)
                        _exit(100);
                for (int i = 0; i < 4; i++)
                        if (!strstr(infp_rights_fix(rights[i]), words))
                                _exit(i + 1);
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
}

static int become_user(void)
{
        return geteuid() ? 0 : setuid(65534);
}

static void users_may_become_root(void **state)
{
        (void) state;
        check(become_user, "as root");
}

static void root_without_a_capability_is_given_its_name(void **state)
{
        (void) state;
        if (geteuid() != 0)
                SKIP_BECAUSE("needs root");
        check(drop_all, "root lacks CAP_");
}

/* Of CAP_SYS_ADMIN alone, which includes the capabilities that were split off it. */
static void administrators_may_sample(void **state)
{
        struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
        struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3] = { { 0 } };
        int status;
        pid_t pid;

        (void) state;
        if (geteuid() != 0)
                SKIP_BECAUSE("needs root");
        assert_true((pid = fork()) >= 0);
        if (pid == 0) {
                data[0].effective = data[0].permitted = 1U << CAP_SYS_ADMIN;
                if (syscall(SYS_capset, &head, data) < 0)
                        _exit(100);
                _exit(infp_rights_has(INFP_MAY_TRACE) << 3 | infp_rights_has(INFP_MAY_SAMPLE) << 2 |
                      infp_rights_has(INFP_MAY_BPF) << 1 | infp_rights_has(INFP_MAY_GPU));
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 7 << 8);
}

static void capabilities_are_those_of_the_thread(void **state)
{
        (void) state;
        assert_false(infp_has_capability(63));
        assert_false(infp_has_capability(1000));
        if (geteuid() != 0)
                SKIP_BECAUSE("needs root");
        assert_true(infp_has_capability(CAP_SETUID));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(users_may_become_root),
                cmocka_unit_test(root_without_a_capability_is_given_its_name),
                cmocka_unit_test(administrators_may_sample),
                cmocka_unit_test(capabilities_are_those_of_the_thread),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
