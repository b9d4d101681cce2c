/* Repairs what a killed recorder left behind. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "store/path.h"
#include "store/segment.h"

static const uint8_t end_marker[8] = { 0xff, 0xff, 0xff, 0xff };

/* Cut first, then write the end mark: a crash in between leaves whole messages, which the next repair ends. */
static int end_at(int dir_fd, const char *path, uint64_t good, struct infp_err *err)
{
        infp_autoclose int fd = infp_store_open(dir_fd, path, O_WRONLY);
        int r = fd < 0 ? fd : 0;

        if (r == 0 && ftruncate(fd, (off_t) good) < 0)
                r = -errno;
        if (r == 0)
                r = infp_pwrite_all(fd, end_marker, sizeof(end_marker), (off_t) good);
        if (r == 0 && fdatasync(fd) < 0 && errno != EINVAL)
                r = -errno;
        return r < 0 ? infp_fail_errno(err, r, "cannot mend %s", path) : 0;
}

/* Reads to the end of the good part. 0, or an error of reading itself (a broken message is not one). */
static int read_through(struct infp_segment *s, struct infp_err *err)
{
        struct infp_batch batch;
        int r;

        do
                r = infp_segment_next(s, &batch, NULL, err);
        while (r == 1);
        return r == -EBADMSG || r == -EOVERFLOW ? 0 : r;
}

static int mend(int dir_fd, const char *path, bool *ret_mended, uint64_t *ret_cut,
                struct infp_segment_damage *ret_damage, struct infp_err *err)
{
        struct infp_segment *s;
        uint64_t good, size;
        bool is_whole;
        int r, n;

        *ret_mended = false;
        *ret_cut = 0;
        *ret_damage = (struct infp_segment_damage){ 0 };
        INFP_TRY(infp_segment_open(dir_fd, path, &s, err));
        r = read_through(s, err);
        is_whole = r == 0 && s->has_marker;
        *ret_damage = s->damage;
        ret_damage->n -= s->damaged_tail > 0; /* that is cut off */
        ret_damage->bytes -= s->damaged_tail;
        good = s->good;
        size = s->size;
        n = (int) s->n_batches;
        infp_segment_close(s);
        if (r < 0)
                return r;
        if (is_whole)
                return n;
        INFP_TRY(end_at(dir_fd, path, good, err));
        *ret_mended = true;
        *ret_cut = size - good;
        return n;
}

int infp_segment_mend(int dir_fd, const char *path, uint64_t *ret_cut, struct infp_err *err)
{
        struct infp_segment_damage damage;
        uint64_t cut = 0;
        bool mended;
        int r = mend(dir_fd, path, &mended, &cut, &damage, err);

        if (ret_cut)
                *ret_cut = cut;
        return r;
}

struct mending {
        struct infp_run *run;
        struct infp_mend *counts;
        struct infp_err *err;
        int r; /* the first error */
};

static void note(struct mending *m, int r, const struct infp_err *why)
{
        if (m->r == 0) {
                m->r = r;
                infp_fail(m->err, r, "%s", why->text);
        }
}

static void remove_file(struct mending *m, int dir_fd, const char *name)
{
        struct infp_err why = { "" };

        if (unlinkat(dir_fd, name, 0) == 0)
                m->counts->n_removed++;
        else if (errno != ENOENT)
                note(m, -errno, (infp_fail_errno(&why, -errno, "cannot remove %s", name), &why));
}

static void set_aside(struct mending *m, const char *path)
{
        struct infp_err why = { "" };
        char aside[400];

        snprintf(aside, sizeof(aside), "%s.broken", path);
        if (renameat(m->run->fd, path, m->run->fd, aside) == 0)
                m->counts->n_broken++;
        else
                note(m, -errno, (infp_fail_errno(&why, -errno, "cannot rename %s", path), &why));
}

static void mend_one(struct mending *m, const char *path)
{
        struct infp_err why = { "" };
        struct infp_segment_damage damage;
        uint64_t cut = 0;
        bool mended = false;
        int r = mend(m->run->fd, path, &mended, &cut, &damage, &why);

        m->counts->n_segments++;
        m->counts->n_empty += r == -ENODATA;
        if (r == -ENODATA)
                remove_file(m, m->run->fd, path);
        else if (r == -EBADMSG)
                set_aside(m, path);
        else if (r < 0)
                note(m, r, &why);
        m->counts->n_damaged += damage.n;
        m->counts->bytes_damaged += damage.bytes;
        if (r < 0 || !mended)
                return;
        m->counts->n_mended++;
        m->counts->n_batches += (uint64_t) r;
        m->counts->bytes_cut += cut;
}

static bool is_part(const char *name)
{
        size_t size = strlen(name);

        return size > 5 && strcmp(name + size - 5, ".part") == 0;
}

static DIR *list(int dir_fd, const char *name)
{
        int fd = infp_store_open(dir_fd, name, O_RDONLY | O_DIRECTORY);
        DIR *dir = fd < 0 ? NULL : fdopendir(fd);

        if (!dir)
                infp_close(fd);
        return dir;
}

static void mend_table(struct mending *m, const char *table)
{
        DIR *dir = list(m->run->fd, table);
        struct dirent *entry;

        while (dir && (entry = readdir(dir))) {
                char path[384];
                bool is_parquet;
                unsigned seq;

                snprintf(path, sizeof(path), "%s/%s", table, entry->d_name);
                if (is_part(entry->d_name))
                        remove_file(m, m->run->fd, path);
                else if (infp_store_parse_segment(entry->d_name, &seq, &is_parquet) && !is_parquet)
                        mend_one(m, path);
        }
        if (dir)
                closedir(dir);
        unlinkat(m->run->fd, table, AT_REMOVEDIR); /* only if it is empty */
}

static void mend_tables(struct mending *m)
{
        DIR *dir = list(m->run->fd, ".");
        struct dirent *entry;

        while (dir && (entry = readdir(dir))) {
                if (is_part(entry->d_name))
                        remove_file(m, m->run->fd, entry->d_name);
                else if (infp_store_is_table_name(entry->d_name))
                        mend_table(m, entry->d_name);
        }
        if (dir)
                closedir(dir);
}

static void remove_output_parts(struct mending *m)
{
        DIR *dir = list(m->run->output_fd, ".");
        struct dirent *entry;

        while (dir && (entry = readdir(dir)))
                if (is_part(entry->d_name) && strstr(entry->d_name, m->run->info.uuid))
                        remove_file(m, m->run->output_fd, entry->d_name);
        if (dir)
                closedir(dir);
}

int infp_store_mend_run(struct infp_run *run, struct infp_mend *ret, struct infp_err *err)
{
        struct mending m = { .run = run, .counts = ret, .err = err };

        *ret = (struct infp_mend){ 0 };
        if (run->state == INFP_RUN_RECORDING || infp_run_is_recording(run))
                return infp_fail(err, -EBUSY, "run %s is being recorded: end its recorder first", run->info.uuid);
        /* Two processes that repair at once do the same, which is harmless. */
        mend_tables(&m);
        remove_output_parts(&m);
        return m.r;
}
