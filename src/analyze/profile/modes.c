/* Chooses the samples of one mode: weights of different modes do not add up. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "analyze/profile/parts.h"
#include "base/mem.h"

enum { MODE, PROCESS };
static const struct infp_profile_column columns[] = { [MODE] = { "mode", INFP_STR } };

/* A mode's text; "" for rows without one. */
static const char *mode_text(const struct infp_profile *s, uint32_t mode)
{
        const char *text = infp_profile_str(s, mode);

        return text ? text : "";
}

static int see_mode(struct infp_profile_reader *reader, uint32_t mode, struct infp_err *err)
{
        for (uint32_t i = 0; i < reader->n_modes; i++)
                if (reader->modes[i] == mode)
                        return 0;
        if (reader->n_modes == INFP_COUNT(reader->modes))
                return infp_fail(err, -E2BIG, "the run's stack_samples name more than %u modes",
                                 (unsigned) INFP_COUNT(reader->modes));
        reader->modes[reader->n_modes++] = mode;
        return 0;
}

static int see_all(struct infp_profile_reader *reader, struct infp_profile_scan *scan, struct infp_err *err)
{
        struct infp_profile *s = reader->profile;
        int r;

        while ((r = infp_profile_scan_next(scan, err)) > 0) {
                const uint64_t t_ns = (uint64_t) infp_batch_i64(&scan->batch, 0, scan->row);
                uint32_t mode;

                if (!s->last_t_ns || t_ns < s->first_t_ns)
                        s->first_t_ns = t_ns;
                if (t_ns > s->last_t_ns)
                        s->last_t_ns = t_ns;
                INFP_TRY(infp_profile_text(reader, scan, MODE, &mode, err));
                INFP_TRY(see_mode(reader, mode, err));
        }
        return r;
}

static void name_modes(const struct infp_profile_reader *reader, char *ret, size_t size)
{
        size_t n = 0;

        *ret = 0;
        for (uint32_t i = 0; i < reader->n_modes && n < size; i++)
                n += (size_t) snprintf(ret + n, size - n, "%s%.64s", i ? ", " : "",
                                       mode_text(reader->profile, reader->modes[i]));
}

static bool has_mode(const struct infp_profile_reader *reader, enum infp_stack_mode mode)
{
        for (uint32_t i = 0; i < reader->n_modes; i++)
                if (infp_stack_mode_of(infp_profile_str(reader->profile, reader->modes[i])) == mode)
                        return true;
        return false;
}

/* The mode that is stored, of what the user calls it: "inuse_space", or "inuse_objects", which counts blocks. */
static const char *stored_name(struct infp_profile_reader *reader, const char *asked)
{
        const enum infp_stack_mode of = infp_stack_mode_of(asked), counted = infp_stack_mode_of_objects(asked);

        reader->takes_objects = of == INFP_STACK_MODES && counted < INFP_STACK_MODES;
        if (reader->takes_objects)
                return infp_stack_modes[counted].name;
        return of < INFP_STACK_MODES ? infp_stack_modes[of].name : asked;
}

/* The place of the chosen mode among those seen. */
static int choose(struct infp_profile_reader *reader, uint32_t *ret, struct infp_err *err)
{
        const bool prefers_python = has_mode(reader, INFP_STACK_PYTHON) &&
                                    (reader->options->part == INFP_PROFILE_PYTHON || !has_mode(reader, INFP_STACK_CPU));
        const char *asked = reader->options->mode
                                    ? stored_name(reader, reader->options->mode)
                                    : infp_stack_modes[prefers_python ? INFP_STACK_PYTHON : INFP_STACK_CPU].name;
        char names[256];

        if (reader->options->unit) {
                for (*ret = 0; *ret < reader->n_modes; ++*ret)
                        if (!strcmp(infp_profile_unit(mode_text(reader->profile, reader->modes[*ret])),
                                    reader->options->unit))
                                return 0;
                return infp_fail(err, -ENODATA, "the run has no stack samples in %s", reader->options->unit);
        }
        for (*ret = 0; *ret < reader->n_modes; ++*ret)
                if (!strcmp(mode_text(reader->profile, reader->modes[*ret]), asked))
                        return 0;
        *ret = 0;
        if (!reader->options->mode && reader->n_modes == 1)
                return 0;
        for (uint32_t i = 0; !reader->options->mode && reader->options->all_modes && i < reader->n_modes; i++)
                if (!strcmp(infp_profile_unit(mode_text(reader->profile, reader->modes[i])), "seconds")) {
                        *ret = i;
                        return 0;
                }
        name_modes(reader, names, sizeof(names));
        if (reader->options->mode)
                return infp_fail(err, -ENOENT, "the run has no samples of mode '%.64s' there; it has: %s",
                                 reader->options->mode, names);
        return infp_fail(err, -EINVAL,
                         "the run has samples of several modes, none of them cpu; choose one with --mode: %s", names);
}

static bool is_of_heap(const char *name)
{
        const enum infp_stack_mode mode = infp_stack_mode_of(name);

        return mode < INFP_STACK_MODES && infp_stack_modes[mode].space;
}

/* Leaves only the chosen one, or those of its unit. */
static void keep(struct infp_profile_reader *reader, uint32_t chosen)
{
        struct infp_profile *s = reader->profile;
        const char *text = mode_text(s, reader->modes[chosen]);
        const bool takes_heap = reader->options->of_heap && is_of_heap(text);
        uint32_t n = 0;

        s->unit = reader->takes_objects ? "count" : infp_profile_unit(text);
        snprintf(s->mode, sizeof(s->mode), "%s", reader->takes_objects ? reader->options->mode : text);
        for (uint32_t i = 0; i < reader->n_modes; i++)
                if (i == chosen || (takes_heap && is_of_heap(mode_text(s, reader->modes[i]))) ||
                    (reader->options->all_modes && !strcmp(infp_profile_unit(mode_text(s, reader->modes[i])), s->unit)))
                        reader->modes[n++] = reader->modes[i];
        reader->n_modes = n;
}

int infp_profile_read_modes(struct infp_profile_reader *reader, struct infp_err *err)
{
        struct infp_profile *s = reader->profile;
        struct infp_profile_scan scan;
        uint32_t chosen = 0;
        int r;

        INFP_TRY(infp_profile_scan_open(reader, "stack_samples", columns, INFP_COUNT(columns), true, &scan, err));
        r = see_all(reader, &scan, err);
        infp_profile_scan_close(&scan);
        INFP_TRY(r);
        if (!reader->n_modes)
                return infp_fail(err, -ENODATA, "the run has no stack samples in this time");
        INFP_TRY(choose(reader, &chosen, err));
        keep(reader, chosen);
        s->t0 = reader->options->t0 ? reader->options->t0 : s->first_t_ns;
        s->t1 = reader->options->t1 ? reader->options->t1 : s->last_t_ns + 1;
        s->first_t_ns = s->last_t_ns = 0;
        return 0;
}
