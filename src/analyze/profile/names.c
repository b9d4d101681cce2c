/* What frames are, and what they are called. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/profile/parts.h"
#include "base/mem.h"
#include "base/text.h"

enum { F_ID, F_KIND, F_OBJECT, F_BUILD_ID, F_ADDRESS, F_IS_GUESSED };
static const struct infp_profile_column frame_columns[] = {
        [F_ID] = { "id", INFP_ID64 },           [F_KIND] = { "fKind", INFP_STR },
        [F_OBJECT] = { "fObject", INFP_STR },   [F_BUILD_ID] = { "fBuildId", INFP_STR },
        [F_ADDRESS] = { "fAddress", INFP_U64 }, [F_IS_GUESSED] = { "fIsGuessed", INFP_BOOL },
};
enum { FRAME, LEVEL, NAME, MANGLED, FILE_, LINE, FUNCTION_LINE, FROM };
static const struct infp_profile_column symbol_columns[] = {
        [FRAME] = { "frame", INFP_ID64 },
        [LEVEL] = { "sLevel", INFP_I64 },
        [NAME] = { "sName", INFP_STR },
        [MANGLED] = { "sMangled", INFP_STR },
        [FILE_] = { "sFile", INFP_STR },
        [LINE] = { "sLine", INFP_I64 },
        [FUNCTION_LINE] = { "sFunctionLine", INFP_I64 },
        [FROM] = { "sFrom", INFP_STR },
};

/* Rows of table symbols for the wanted frames, as lists: a later set of a frame replaces an earlier one. */
struct rows {
        struct row {
                struct infp_profile_level is;
                uint32_t next;
                uint8_t level;
        } * rows; /* 0: no row */
        uint32_t n, cap, free;
        uint32_t *first; /* of each frame */
};

static void rows_done(struct rows *rows)
{
        free(rows->rows);
        free(rows->first);
}

static int read_kinds(struct infp_profile_reader *reader, struct infp_profile_scan *scan, struct infp_err *err)
{
        int r;

        while ((r = infp_profile_scan_next(scan, err)) > 0) {
                const uint64_t *at = infp_map_get(&reader->frames, infp_profile_id(scan, F_ID));
                struct infp_profile_frame *frame = at ? &reader->profile->frames[*at] : NULL;
                const char *kind;
                size_t size;
                int number = -ENOENT;

                if (!frame || !frame->id)
                        continue;
                if (infp_profile_has(scan, F_KIND)) {
                        kind = infp_batch_str(&scan->batch, (unsigned) scan->at[F_KIND], scan->row, &size);
                        number = infp_frame_kind_by_name(kind, size);
                }
                frame->kind = (uint8_t) (number >= 0 ? number : INFP_FRAME_UNKNOWN);
                INFP_TRY(infp_profile_text(reader, scan, F_OBJECT, &frame->object, err));
                INFP_TRY(infp_profile_text(reader, scan, F_BUILD_ID, &frame->build_id, err));
                frame->has_address = infp_profile_has(scan, F_ADDRESS);
                frame->address = infp_profile_id(scan, F_ADDRESS);
                frame->is_guessed = infp_profile_bool(scan, F_IS_GUESSED);
                frame->n_levels = 1; /* that there is a row */
        }
        return r;
}

static void forget(struct rows *rows, uint32_t frame)
{
        while (rows->first[frame]) {
                const uint32_t row = rows->first[frame];

                rows->first[frame] = rows->rows[row].next;
                rows->rows[row].next = rows->free;
                rows->free = row;
        }
}

/* A row of the array to use, numbered from 1. */
static int take(struct rows *rows, uint32_t *ret, struct infp_err *err)
{
        *ret = rows->free;
        if (*ret) {
                rows->free = rows->rows[*ret].next;
                return 0;
        }
        INFP_TRY(infp_profile_room(&rows->rows, &rows->cap, rows->n + 1, sizeof(*rows->rows), err));
        *ret = ++rows->n;
        return 0;
}

/* Puts the row at its level; the last one of a level wins. */
static int keep(struct rows *rows, uint32_t frame, const struct row *is, struct infp_err *err)
{
        uint32_t before = 0, at = rows->first[frame];

        for (; at && rows->rows[at].level < is->level; at = rows->rows[at].next)
                before = at;
        if (at && rows->rows[at].level == is->level) {
                rows->rows[at].is = is->is;
                return 0;
        }
        INFP_TRY(take(rows, &at, err));
        rows->rows[at] = *is;
        rows->rows[at].next = before ? rows->rows[before].next : rows->first[frame];
        *(before ? &rows->rows[before].next : &rows->first[frame]) = at;
        return 0;
}

static int read_row(struct infp_profile_reader *reader, const struct infp_profile_scan *scan,
                    struct infp_profile_level *ret, struct infp_err *err)
{
        const char *from = "";
        size_t size = 0;

        INFP_TRY(infp_profile_text(reader, scan, NAME, &ret->name, err));
        INFP_TRY(infp_profile_text(reader, scan, MANGLED, &ret->mangled, err));
        INFP_TRY(infp_profile_text(reader, scan, FILE_, &ret->file, err));
        ret->line = infp_profile_i64(scan, LINE);
        ret->function_line = infp_profile_i64(scan, FUNCTION_LINE);
        if (infp_profile_has(scan, FROM))
                from = infp_batch_str(&scan->batch, (unsigned) scan->at[FROM], scan->row, &size);
        ret->is_unnamed = size == 5 && !memcmp(from, "range", 5);
        return 0;
}

/* The rows of a frame come by level: one of level 0 begins a set, which replaces what was known (`infprof symbolize`). */
static int read_symbols(struct infp_profile_reader *reader, struct infp_profile_scan *scan, struct rows *rows,
                        struct infp_err *err)
{
        int r;

        while ((r = infp_profile_scan_next(scan, err)) > 0) {
                const uint64_t *frame = infp_map_get(&reader->frames, infp_profile_id(scan, FRAME));
                const int64_t level = infp_profile_i64(scan, LEVEL);
                struct row row = { .level = (uint8_t) level };

                if (!frame || level < 0 || level >= INFP_PROFILE_LEVELS)
                        continue;
                INFP_TRY(read_row(reader, scan, &row.is, err));
                if (level == 0)
                        forget(rows, (uint32_t) *frame);
                INFP_TRY(keep(rows, (uint32_t) *frame, &row, err));
        }
        return r;
}

/* The text for a function without a name. */
static int unnamed(struct infp_profile *s, const struct infp_profile_frame *frame, uint32_t *ret, struct infp_err *err)
{
        const char *object = infp_profile_str(s, frame->object);
        char text[512] = "[unknown]";

        if (object) {
                object = infp_base_name(object);
                if (*object == '[')
                        snprintf(text, sizeof(text), "%.500s", object);
                else
                        snprintf(text, sizeof(text), "[%.500s]", object);
        }
        return infp_strings_add(&s->strings, text, strlen(text), ret) < 0 ? infp_profile_no_memory(err) : 0;
}

static int put_level(struct infp_profile *s, uint32_t *cap, const struct infp_profile_frame *frame,
                     const struct infp_profile_level *is, struct infp_err *err)
{
        struct infp_profile_level *level;

        INFP_TRY(infp_profile_room(&s->levels, cap, s->n_levels, sizeof(*s->levels), err));
        level = &s->levels[s->n_levels];
        *level = *is;
        if (!level->name) {
                level->is_unnamed = true;
                INFP_TRY(unnamed(s, frame, &level->name, err));
        }
        s->n_levels++;
        return 0;
}

static int name_frames(struct infp_profile *s, const struct rows *rows, bool only_first, struct infp_err *err)
{
        uint32_t cap = 0;

        for (uint32_t i = 0; i < s->n_frames; i++) {
                struct infp_profile_frame *frame = &s->frames[i];

                frame->first_level = s->n_levels;
                for (uint32_t row = rows->first[i]; row && (!only_first || s->n_levels == frame->first_level);
                     row = rows->rows[row].next)
                        INFP_TRY(put_level(s, &cap, frame, &rows->rows[row].is, err));
                if (s->n_levels == frame->first_level)
                        INFP_TRY(put_level(s, &cap, frame, &(const struct infp_profile_level){ 0 }, err));
                frame->n_levels = (uint16_t) (s->n_levels - frame->first_level);
        }
        return 0;
}

int infp_profile_read_frames(struct infp_profile_reader *reader, struct infp_err *err)
{
        infp_cleanup(rows_done) struct rows rows = { 0 };
        struct infp_profile_scan scan;
        int r;

        rows.first = calloc((size_t) reader->profile->n_frames + 1, sizeof(*rows.first));
        if (!rows.first)
                return infp_profile_no_memory(err);
        INFP_TRY(infp_profile_scan_open(reader, "frames", frame_columns, INFP_COUNT(frame_columns), false, &scan, err));
        r = read_kinds(reader, &scan, err);
        infp_profile_scan_close(&scan);
        INFP_TRY(r);
        INFP_TRY(infp_profile_scan_open(reader, "symbols", symbol_columns, INFP_COUNT(symbol_columns), false, &scan,
                                        err));
        r = read_symbols(reader, &scan, &rows, err);
        infp_profile_scan_close(&scan);
        INFP_TRY(r);
        return name_frames(reader->profile, &rows, reader->options->no_inlined, err);
}
