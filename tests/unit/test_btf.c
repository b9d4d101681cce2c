/* Descriptions of structures that are cut out of a larger one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <linux/btf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "sampler/python/btf.h"

#define INFO(kind, n) ((uint32_t) (kind) << 24 | (n))
#define STRUCT(n) INFO(BTF_KIND_STRUCT, n)

/* Texts, by where they begin. */
static const char texts[] = "\0int\0long\0upid\0pid\0nr\0ns\0level\0numbers\0hidden\0other\0next\0";
enum {
        NONE = 0,
        INT = 1,
        LONG = 5,
        UPID = 10,
        PID = 15,
        NR = 19,
        NS = 22,
        LEVEL = 25,
        NUMBERS = 31,
        HIDDEN = 39,
        OTHER = 46,
        NEXT = 52
};

/* name, info, size or type, and what belongs to the kind */
/* clang-format off */
static const uint32_t words[] = {
        INT, INFO(BTF_KIND_INT, 0), 4, 32,               /* 1 */
        LONG, INFO(BTF_KIND_INT, 0), 8, 64,              /* 2 */
        NONE, INFO(BTF_KIND_CONST, 0), 1,                /* 3 */
        NR, INFO(BTF_KIND_TYPEDEF, 0), 3,                /* 4 */
        NONE, INFO(BTF_KIND_PTR, 0), 9,                  /* 5 */
        NONE, STRUCT(1), 8, HIDDEN, 2, 0,                /* 6 */
        NONE, INFO(BTF_KIND_ARRAY, 0), 0, 8, 1, 0,       /* 7 */
        UPID, STRUCT(2), 16, NR, 4, 0, NS, 5, 64,        /* 8 */
        PID, STRUCT(5), 48, LEVEL, 1, 0, NONE, 6, 64, OTHER, 10, 128, NEXT, 5, 256, NUMBERS, 7, 320, /* 9 */
        OTHER, STRUCT(1), 16, NR, 1, 0,                  /* 10 */
        NONE, INFO(BTF_KIND_UNION, 2), 8, NONE, 11, 0, NONE, 11, 0, /* 11: it holds itself */
        NEXT, STRUCT(1), 8, NONE, 11, 0,                 /* 12 */
        NR, INFO(BTF_KIND_TYPEDEF, 0), 13,               /* 13: another name of itself */
        HIDDEN, STRUCT(1), 8, NR, 13, 0,                 /* 14 */
        NONE, INFO(31, 0), 0,                            /* 15: of a kind that is not known */
        LONG, STRUCT(0), 0,                              /* 16 */
};
/* clang-format on */

struct whole {
        struct btf_header head;
        uint32_t words[INFP_COUNT(words)];
        char texts[sizeof(texts)];
};

static struct whole whole_of(void)
{
        struct whole ret = { .head = { .magic = BTF_MAGIC,
                                       .version = BTF_VERSION,
                                       .hdr_len = sizeof(struct btf_header),
                                       .type_len = sizeof(words),
                                       .str_off = sizeof(words),
                                       .str_len = sizeof(texts) } };

        memcpy(ret.words, words, sizeof(words));
        memcpy(ret.texts, texts, sizeof(texts));
        return ret;
}

static int cut(const void *whole, size_t size, const char *first, const char *second, void **ret, size_t *ret_size)
{
        const char *const names[] = { first, second };

        return infp_btf_cut(whole, size, names, second ? 2 : 1, ret, ret_size);
}

static void the_structures_that_are_named(void **state)
{
        /* Plain types first: a pointer, integers of 1, 2, 4, 8 bytes. */
        static const struct {
                unsigned kind;
                const char *name;
                uint32_t size;
                struct {
                        const char *name;
                        uint32_t type, offset;
                } members[5];
        } wanted[] = {
                { BTF_KIND_PTR, "", 0, { { 0 } } },
                { BTF_KIND_INT, "char", 1, { { 0 } } },
                { BTF_KIND_INT, "short", 2, { { 0 } } },
                { BTF_KIND_INT, "int", 4, { { 0 } } },
                { BTF_KIND_INT, "long", 8, { { 0 } } },
                { BTF_KIND_STRUCT, "upid", 16, { { "nr", 4, 0 }, { "ns", 1, 64 } } },
                { BTF_KIND_STRUCT, "", 8, { { "hidden", 5, 0 } } },
                { BTF_KIND_ARRAY, "", 0, { { 0 } } },
                { BTF_KIND_STRUCT,
                  "pid",
                  48,
                  { { "level", 4, 0 },
                    { "", 7, 64 },
                    { "other", 0, 128 },
                    { "next", 1, 256 },
                    { "numbers", 8, 320 } } },
        };
        const struct whole whole = whole_of();
        infp_autofree void *own = NULL;
        const struct btf_header *head;
        const char *names;
        const uint32_t *at;
        size_t size;

        (void) state;
        assert_int_equal(cut(&whole, sizeof(whole), "upid", "pid", &own, &size), 0);
        head = own;
        assert_int_equal(head->magic, BTF_MAGIC);
        assert_int_equal(head->hdr_len + head->str_off + head->str_len, size);
        assert_int_equal(head->str_off, head->type_len);
        at = (const void *) (head + 1);
        names = (const char *) at + head->str_off;
        for (size_t i = 0; i < INFP_COUNT(wanted); i++) {
                assert_string_equal(names + at[0], wanted[i].name);
                assert_int_equal(BTF_INFO_KIND(at[1]), wanted[i].kind);
                assert_int_equal(at[2], wanted[i].size);
                if (wanted[i].kind == BTF_KIND_ARRAY)
                        assert_int_equal(at[3], 6); /* of upid */
                for (size_t k = 0; k < BTF_INFO_VLEN(at[1]); k++) {
                        assert_string_equal(names + at[3 + 3 * k], wanted[i].members[k].name);
                        assert_int_equal(at[4 + 3 * k], wanted[i].members[k].type);
                        assert_int_equal(at[5 + 3 * k], wanted[i].members[k].offset);
                }
                at += 3 + 3 * (wanted[i].kind == BTF_KIND_ARRAY) + (wanted[i].kind == BTF_KIND_INT) +
                      3 * BTF_INFO_VLEN(at[1]);
        }
        assert_ptr_equal(at, (const char *) (head + 1) + head->type_len);
}

static void what_cannot_be_read(void **state)
{
        struct whole whole = whole_of();
        infp_autofree void *loop = NULL;
        void *own = NULL;
        size_t size;

        (void) state;
        assert_int_equal(cut(&whole, sizeof(whole), "next", NULL, &own, &size), -ENOMEM); /* without an end */
        assert_int_equal(cut(&whole, sizeof(whole), "hidden", NULL, &loop, &size), 0);
        assert_int_equal(cut(&whole, sizeof(whole), "upid", "long", &own, &size), -EBADMSG); /* after an unknown kind */
        whole.head.type_len = 4 * 50;                                                        /* within 9 */
        assert_int_equal(cut(&whole, sizeof(whole), "other", NULL, &own, &size), -EBADMSG);
        whole = whole_of();
        whole.head.magic++;
        assert_int_equal(cut(&whole, sizeof(whole), "pid", NULL, &own, &size), -EBADMSG);
        whole = whole_of();
        whole.texts[sizeof(texts) - 1] = 'x';
        assert_int_equal(cut(&whole, sizeof(whole), "pid", NULL, &own, &size), -EBADMSG);
        whole = whole_of();
        for (size_t n = 0; n < offsetof(struct whole, texts) + sizeof(texts); n++) {
                infp_autofree uint8_t *part = malloc(n + 1);

                memcpy(part, &whole, n);
                assert_int_equal(cut(part, n, "pid", NULL, &own, &size), -EBADMSG);
        }
}

static void one_is_not_there(void **state)
{
        struct whole whole = whole_of();
        void *own = NULL;
        size_t size;

        (void) state;
        whole.head.type_len -= 6 * sizeof(uint32_t); /* without the unknown kind */
        assert_int_equal(cut(&whole, sizeof(whole), "upid", "task_struct", &own, &size), -ENOENT);
}

static void of_this_kernel(void **state)
{
        static const char *const names[] = { "thread_struct", "mm_struct", "task_struct" };
        infp_autoclose int fd = -1;
        struct stat st;

        (void) state;
        if (access("/sys/kernel/btf/vmlinux", R_OK) < 0)
                skip();
        fd = infp_btf_open(names, INFP_COUNT(names));
        assert_true(fd >= 0);
        assert_int_equal(fstat(fd, &st), 0);
        assert_in_range(st.st_size, 4096, 1 << 17);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(the_structures_that_are_named),
                cmocka_unit_test(what_cannot_be_read),
                cmocka_unit_test(one_is_not_there),
                cmocka_unit_test(of_this_kernel),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
