#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"
#include "model/id.h"

static const char boot[] = "3f1c8e6a-0b7d-4a52-9c11-5d2e8f7a6b90";

/* The layout lies in files: boot id (36 bytes), pid (4, little endian), start (8, little endian). */
static void layout(void **state)
{
        unsigned char bytes[48];
        static const unsigned char numbers[] = {
                0x04, 0x03, 0x02, 0x01, 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0x01
        };

        (void) state;
        memcpy(bytes, boot, 36);
        memcpy(bytes + 36, numbers, 12);
        assert_int_equal(infp_process_id(boot, 0x01020304, UINT64_C(0x0102030405060708)), infp_hash64(bytes, 48, 0));
}

static void differs(void **state)
{
        uint64_t id = infp_process_id(boot, 100, 5000);

        (void) state;
        assert_int_equal(infp_process_id(boot, 100, 5000), id);
        assert_true(infp_process_id(boot, 101, 5000) != id);
        assert_true(infp_process_id(boot, 100, 5001) != id); /* the pid again, another process */
        assert_true(infp_process_id("3f1c8e6a-0b7d-4a52-9c11-5d2e8f7a6b91", 100, 5000) != id);
        assert_true(infp_process_id("", 0, 0) != 0);
        /* As read from the file, with its newline. */
        assert_int_equal(infp_process_id("3f1c8e6a-0b7d-4a52-9c11-5d2e8f7a6b90\n", 100, 5000), id);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(layout), cmocka_unit_test(differs) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
