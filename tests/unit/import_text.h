/* Imports a content and shows what became of it. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyze/profile/flame.h"
#include "import/import.h"
#include "view/profile/profile_formats.h"

struct imported {
        char dir[64];
        struct infp_run *run;
        struct infp_imported found;
        struct infp_err err;
        int r;
};

static inline int import_remove(const char *path, const struct stat *status, int kind, struct FTW *walk)
{
        (void) status, (void) kind, (void) walk;
        return remove(path);
}

static inline int import_file(const void *data, size_t size)
{
        int fd = memfd_create("import", MFD_CLOEXEC);

        assert_true(fd >= 0);
        assert_int_equal(write(fd, data, size), size);
        assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
        return fd;
}

static inline struct imported *import_with(const struct infp_import_options *options)
{
        static char none[] = "", mode[] = "import", parquet[] = "parquet", version[] = "0.1.0";
        struct imported *i = calloc(1, sizeof(*i));
        struct infp_run_info info = { .command = none,
                                      .mode = mode,
                                      .format = parquet,
                                      .version = version,
                                      .hostname = none,
                                      .target_name = none,
                                      .target_command = none,
                                      .recorder_pid = 4242,
                                      .recorder_start_ticks = 77,
                                      .started_unix_ns = 1700000000000000000,
                                      .exit_code = -1 };

        assert_non_null(i);
        strcpy(i->dir, "/tmp/infprof-test-XXXXXX");
        assert_non_null(mkdtemp(i->dir));
        infp_uuid_make(info.uuid);
        assert_int_equal(infp_run_create(i->dir, &info, &i->run, &i->err), 0);
        i->r = infp_import(i->run, options, &i->found, &i->err);
        close(options->fd);
        return i;
}

static inline struct imported *import_fd(int fd, const char *format)
{
        return import_with(&(struct infp_import_options){ .fd = fd, .path = "FILE", .format = format, .stop_fd = -1 });
}

static inline struct imported *import_bytes(const void *data, size_t size, const char *format)
{
        return import_fd(import_file(data, size), format);
}

static inline struct imported *import_text(const char *text)
{
        return import_bytes(text, strlen(text), NULL);
}

static inline void import_done(struct imported *i)
{
        infp_run_close(i->run);
        nftw(i->dir, import_remove, 16, FTW_DEPTH | FTW_PHYS);
        free(i);
}

/* Lines "outermost;...;innermost COUNT", sorted. mode NULL: the only one. The caller frees. */
static inline char *import_folded(struct imported *i, const char *mode)
{
        const struct infp_flame_options options = { .mode = mode };
        struct infp_out out;
        struct infp_flame flame;
        char *ret;

        if (i->r < 0)
                fail_msg("%s", i->err.text);
        if (infp_flame_read(i->run, &options, &flame, &i->err) < 0)
                fail_msg("%s", i->err.text);
        infp_out_init(&out, -1, "memory");
        assert_int_equal(infp_folded_write(&out, &flame, &i->err), 0);
        infp_flame_done(&flame);
        infp_str_puts(&out.text, "");
        ret = infp_str_take(&out.text);
        infp_out_done(&out);
        return ret;
}

static inline void import_expect(struct imported *i, const char *mode, const char *folded)
{
        char *text = import_folded(i, mode);

        assert_string_equal(text, folded);
        free(text);
}

/* It is refused with a sentence that has this in it, and nothing of it stays. */
static inline void import_refused(struct imported *i, const char *part)
{
        char **tables;

        assert_true(i->r < 0);
        if (!strstr(i->err.text, part))
                fail_msg("'%s' is not in '%s'", part, i->err.text);
        infp_import_discard(i->run);
        assert_int_equal(infp_run_tables(i->run, &tables, NULL), 0);
        free(tables);
        import_done(i);
}

static inline const struct infp_imported_skip *import_skip(const struct imported *i, const char *what)
{
        for (unsigned n = 0; n < i->found.n_skips; n++)
                if (strstr(i->found.skips[n].what, what))
                        return &i->found.skips[n];
        fail_msg("nothing is said of '%s'", what);
        return NULL;
}
