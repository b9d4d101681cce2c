#include "app/compare_runs.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "app/open_run.h"
#include "app/run_words.h"
#include "base/fd.h"
#include "base/human.h"
#include "base/mem.h"

enum { WORDS = 200 };

void infp_compared_done(struct infp_compared *compared)
{
        for (unsigned i = 0; i < compared->n_runs; i++) {
                infp_compare_run_free(compared->runs[i].numbers);
                infp_reader_close(compared->runs[i].run, compared->notices);
                infp_close(compared->runs[i].lock);
        }
        for (unsigned i = 0; i < compared->n; i++) {
                free((void *) (uintptr_t) compared->sides[i].runs);
                free(compared->words[i]);
        }
        free(compared->runs);
        free(compared->unlike);
        *compared = (struct infp_compared){ 0 };
}

static int no_memory(struct infp_err *err)
{
        return infp_fail(err, -ENOMEM, "not enough memory");
}

static bool is_directory(const char *path)
{
        struct stat status;

        return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static int read_run(struct infp_compared *c, const char *spec, const struct infp_compare_part *part, unsigned side,
                    struct infp_err *err)
{
        struct infp_compared_run *one;

        if (!INFP_MAKE_ROOM(c->runs, c->n_runs, c->cap, 8))
                return no_memory(err);
        one = &c->runs[c->n_runs++];
        *one = (struct infp_compared_run){ .lock = -1, .side = side };
        INFP_TRY(infp_reader_open(*spec ? spec : NULL, &one->run, &one->lock, err));
        infp_progress(c->notices, "compare: reading run %.13s", one->run->info.uuid);
        return infp_compare_read(one->run, part, &one->numbers, err);
}

/* Cuts the range off the text. */
static int take_range(char *text, struct infp_compare_part *part, struct infp_err *err)
{
        char *at = strrchr(text, '@'), *dots;

        if (!at || is_directory(text))
                return 0;
        *at++ = 0;
        if (!*at) /* "@": the newest run, whole */
                return 0;
        dots = strstr(at, "..");
        if (!dots)
                return infp_fail(err, -EINVAL, "%s@%s: a range is FROM..TO, as RUN@warm..done or RUN@+30s..", text, at);
        *dots = 0;
        part->from = *at ? at : NULL;
        part->to = dots[2] ? dots + 2 : NULL;
        return 0;
}

struct newest {
        char (*uuids)[37];
        unsigned n, cap;
};

static int take_uuid(void *context, const char *uuid)
{
        struct newest *newest = context;

        if (!INFP_MAKE_ROOM(newest->uuids, newest->n, newest->cap, 16))
                return -ENOMEM;
        snprintf(newest->uuids[newest->n++], sizeof(*newest->uuids), "%s", uuid);
        return 0;
}

static int read_newest(struct infp_compared *c, const char *directory, const struct infp_compare_part *part,
                       unsigned wanted, unsigned side, struct infp_err *err)
{
        struct newest newest = { .n = 0 };
        int r = infp_run_each(directory, take_uuid, &newest, err);

        if (r == -ENOMEM)
                no_memory(err);
        else if (r >= 0 && newest.n < wanted)
                r = infp_fail(err, -ENOENT, "%s has %u runs, and --replicates wants %u a side", directory, newest.n,
                              wanted);
        for (unsigned i = newest.n - wanted; r >= 0 && i < newest.n; i++) {
                infp_autofree char *path = NULL;

                if (asprintf(&path, "%s/%s.infprof", directory, newest.uuids[i]) < 0)
                        r = no_memory(err);
                else
                        r = read_run(c, path, part, side, err);
        }
        free(newest.uuids);
        return r;
}

static int read_side(struct infp_compared *c, const struct infp_compare_request *request, unsigned side,
                     struct infp_err *err)
{
        const struct infp_compare_operand *operand = &request->sides[side];
        infp_autofree char *copy = strdup(operand->text);
        const unsigned n_before = c->n_runs;
        char *rest = NULL;

        if (!copy)
                return no_memory(err);
        for (char *text = is_directory(copy) || !*copy ? copy : strtok_r(copy, ",", &rest); text;
             text = rest ? strtok_r(NULL, ",", &rest) : NULL) {
                struct infp_compare_part part = { operand->from, operand->to, request->mode };

                INFP_TRY(take_range(text, &part, err));
                INFP_TRY(request->replicates ? read_newest(c, text, &part, request->replicates, side, err)
                                             : read_run(c, text, &part, side, err));
        }
        return c->n_runs > n_before ? 0 : infp_fail(err, -EINVAL, "'%.80s' names no run", operand->text);
}

/* "run 0198f3a2-77c1: python serve.py, 58.3 s"; "5 runs, 0198f3a2-77c1 to 0198f3a4-11d0: python serve.py, 5.1 s". */
static int describe(struct infp_compared *c, unsigned side)
{
        const struct infp_compare_side *s = &c->sides[side];
        const struct infp_compare_run *first = s->runs[0], *last = s->runs[s->n - 1];
        infp_autostr struct infp_str text = { 0 };

        if (s->n > 1)
                infp_str_printf(&text, "%u runs, %.13s to %.13s: ", s->n, first->run->info.uuid, last->run->info.uuid);
        else
                infp_str_printf(&text, "run %.13s: ", first->run->info.uuid);
        infp_run_words(&text, first->run, WORDS);
        infp_str_puts(&text, ", ");
        infp_human_seconds(&text, first->wall_s);
        if (first->is_part)
                infp_str_puts(&text, " of it");
        c->words[side] = infp_str_take(&text);
        return c->words[side] ? 0 : -ENOMEM;
}

/* The lists of the sides, when all runs are read. */
static int gather(struct infp_compared *c, struct infp_err *err)
{
        for (unsigned k = 0; k < c->n; k++) {
                const struct infp_compare_run **list = calloc((size_t) c->n_runs + 1, sizeof(*list));

                c->sides[k].runs = list;
                for (unsigned i = 0; list && i < c->n_runs; i++)
                        if (c->runs[i].side == k)
                                list[c->sides[k].n++] = c->runs[i].numbers;
                if (!list || describe(c, k) < 0)
                        return no_memory(err);
        }
        return 0;
}

static int refuse_unlike(struct infp_compared *c, bool anyway, struct infp_err *err)
{
        infp_autostr struct infp_str unlike = { 0 };

        infp_compare_unlike(c->sides, c->n, &unlike);
        if (unlike.failed)
                return no_memory(err);
        if (!unlike.size)
                return 0;
        if (!anyway)
                return infp_fail(
                        err, -EPERM,
                        "the runs differ in more than what is compared: %.300s; --anyway compares them all the same",
                        unlike.data);
        c->unlike = infp_str_take(&unlike);
        return c->unlike ? 0 : no_memory(err);
}

int infp_compare_runs_read(const struct infp_compare_request *request, const struct infp_notices *notices,
                           struct infp_compared *ret, struct infp_err *err)
{
        int r = 0;

        *ret = (struct infp_compared){ .n = request->n, .notices = notices };
        for (unsigned i = 0; r >= 0 && i < request->n; i++)
                r = read_side(ret, request, i, err);
        if (r >= 0)
                r = gather(ret, err);
        if (r >= 0)
                r = refuse_unlike(ret, request->anyway, err);
        if (r < 0)
                infp_compared_done(ret);
        return r;
}
