/* ../shared/fixtures/reports/20: the kernel's symbols, hidden and shown. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
// clang-format off
#include <cmocka.h>
// clang-format on

#include "skip_because.h"
#include "symbols/symbols.h"

static const char folder[] = "../../../shared/fixtures/reports/20-kernel-symbols-hidden";

static int open_root(const char *name)
{
        char path[512];
        int fd;

        snprintf(path, sizeof(path), "%s/%s/%s", getenv("INFP_FIXTURES"), folder, name);
        fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                SKIP_BECAUSE("../shared/fixtures is not here");
        return fd;
}

static void hidden(void **state)
{
        const int root = open_root("hidden");
        struct infp_kernel_symbols *kernel = NULL;
        struct infp_err err = { "" };

        (void) state;
        assert_int_equal(infp_kernel_symbols_open(root, &kernel, &err), -EACCES);
        assert_null(kernel);
        assert_non_null(strstr(err.text, "kptr_restrict is 2"));
        close(root);
}

/* Copies that compilers make of a function have its name; the other stays beside it. */
static void without_clones(void **state)
{
        static const char text[] =
                "ffffffff81000000 T _text\nffffffff81000010 t do_it.isra.0\nffffffff81000020 t "
                "do_it.constprop.0.cold\t[ext4]\nffffffff81000030 T plain\nffffffff81000100 T _etext\n";
        char top[] = "/tmp/infprof-test-XXXXXX", path[64];
        struct infp_kernel_symbols *kernel;
        struct infp_symbol symbol;
        struct infp_err err = { "" };
        int root;
        FILE *file;

        (void) state;
        assert_non_null(mkdtemp(top));
        snprintf(path, sizeof(path), "%s/proc", top);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(path, sizeof(path), "%s/proc/kallsyms", top);
        file = fopen(path, "we");
        assert_non_null(file);
        fputs(text, file);
        fclose(file);
        root = open(top, O_PATH | O_DIRECTORY | O_CLOEXEC);
        assert_int_equal(infp_kernel_symbols_open(root, &kernel, &err), 0);
        assert_true(infp_kernel_symbols_at(kernel, 0xffffffff81000014, &symbol, NULL));
        assert_string_equal(symbol.name, "do_it");
        assert_string_equal(symbol.mangled, "do_it.isra.0");
        assert_true(infp_kernel_symbols_at(kernel, 0xffffffff81000024, &symbol, NULL));
        assert_string_equal(symbol.name, "do_it [ext4]");
        assert_string_equal(symbol.mangled, "do_it.constprop.0.cold [ext4]");
        assert_true(infp_kernel_symbols_at(kernel, 0xffffffff81000034, &symbol, NULL));
        assert_string_equal(symbol.name, "plain");
        assert_null(symbol.mangled);
        infp_kernel_symbols_free(kernel);
        close(root);
        unlink(path);
        snprintf(path, sizeof(path), "%s/proc", top);
        rmdir(path);
        rmdir(top);
}

static void shown(void **state)
{
        const int root = open_root("shown");
        struct infp_kernel_symbols *kernel;
        struct infp_err err = { "" };
        char path[512], line[512];
        unsigned n = 0;
        FILE *file;

        (void) state;
        assert_int_equal(infp_kernel_symbols_open(root, &kernel, &err), 0);
        snprintf(path, sizeof(path), "%s/%s/lookups.tsv", getenv("INFP_FIXTURES"), folder);
        file = fopen(path, "re");
        assert_non_null(file);
        while (fgets(line, sizeof(line), file)) {
                struct infp_symbol symbol = { 0 };
                char *hidden_name = strchr(line, '\t'), *name = hidden_name ? strchr(hidden_name + 1, '\t') : NULL;
                const char *module = NULL;
                bool is_found;

                if (!name || !strncmp(line, "address", 7))
                        continue;
                name[strcspn(name, "\n")] = 0;
                is_found = infp_kernel_symbols_at(kernel, strtoull(line, NULL, 16), &symbol, &module);
                assert_string_equal(is_found ? symbol.name : "-", name + 1);
                if (is_found)
                        assert_int_equal(module != NULL, strchr(name, '[') != NULL);
                n++;
        }
        fclose(file);
        assert_int_equal(n, 4);
        /* Data name no code, and behind the last function there is none. */
        for (unsigned i = 0; i < 3; i++) {
                static const uint64_t none[] = { 0xffffffff814c2201, 0xffffffff82000001, 0xffffffffc0c01200 };
                struct infp_symbol symbol;

                assert_false(infp_kernel_symbols_at(kernel, none[i], &symbol, NULL));
        }
        infp_kernel_symbols_free(kernel);
        close(root);
}

int main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(hidden), cmocka_unit_test(without_clones),
                                            cmocka_unit_test(shown) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
