#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "finish/symbolize_parts.h"
#include "model/builder.h"
#include "model/tables.h"

enum { ROWS = 4096, MOST_TRIES = 16 };

/* A number after all segments of the run, even if its recorder died before it saved the last one. */
static uint32_t next_segment(struct infp_run *run)
{
        static const struct infp_table *const tables[] = { &infp_table_symbols, &infp_table_sources };
        uint32_t last = run->info.last_seq;

        for (unsigned i = 0; i < INFP_COUNT(tables); i++) {
                char **paths;
                const int n = infp_run_segments(run, tables[i]->name, &paths, NULL);

                for (int j = 0; j < n; j++) {
                        const char *slash = strrchr(paths[j], '/');
                        const unsigned long number = slash ? strtoul(slash + 1, NULL, 10) : 0;

                        if (number > last && number < UINT32_MAX)
                                last = (uint32_t) number;
                        free(paths[j]);
                }
                if (n >= 0)
                        free(paths);
        }
        return last + 1;
}

static int open_writer(struct infp_naming *naming, struct infp_err *err)
{
        struct infp_run *run = naming->run;
        const uint32_t before = run->info.last_seq, seq = next_segment(run);
        int r;

        naming->row = calloc(1, sizeof(*naming->row));
        naming->scratch = malloc(INFP_ROW_TEXT);
        naming->builder = infp_builder_new(&infp_table_symbols, ROWS);
        if (!naming->row || !naming->scratch || !naming->builder)
                return infp_fail(err, -ENOMEM, "no memory for rows of symbols");
        naming->row->text = naming->scratch;
        naming->row->text_cap = INFP_ROW_TEXT;
        /* All rows of this pass have one stamp, later than all earlier ones. */
        naming->t_ns = run->info.ended_t_ns > naming->last_t_ns ? run->info.ended_t_ns : naming->last_t_ns + 1;
        r = infp_store_sink_new(run, NULL, &naming->sink, err);
        if (r == 0)
                r = naming->sink->rotate(naming->sink, seq, err);
        if (r < 0)
                run->info.last_seq = before;
        return r;
}

static int64_t unix_of(const struct infp_naming *naming)
{
        const struct infp_run_info *info = &naming->run->info;

        return info->ended_unix_ns + (int64_t) (naming->t_ns - info->ended_t_ns);
}

static int flush(struct infp_naming *naming, struct infp_err *err)
{
        const struct infp_batch batch = infp_builder_batch(naming->builder, 0);
        const int r = batch.n_rows ? naming->sink->batch(naming->sink, &batch, err) : 0;

        infp_builder_reset(naming->builder);
        return r;
}

static int append(struct infp_naming *naming, struct infp_err *err)
{
        int r = infp_builder_append(naming->builder, naming->row, unix_of(naming));

        for (unsigned i = 0; r == -ENOSPC && i < MOST_TRIES; i++) {
                INFP_TRY(flush(naming, err));
                r = infp_builder_append(naming->builder, naming->row, unix_of(naming));
                if (r == -ENOSPC && infp_builder_grow(naming->builder, naming->row->text_size) < 0)
                        return infp_fail(err, -ENOMEM, "no memory for rows of symbols");
        }
        return r < 0 ? infp_fail(err, r, "a row of symbols is too large") : 0;
}

static bool is_better(const struct infp_asked_frame *frame, const struct infp_symbol *levels, unsigned n)
{
        const unsigned rank = infp_name_rank(levels[0].from, strlen(levels[0].from));
        bool has_line = false;

        for (unsigned i = 0; i < n; i++)
                has_line |= levels[i].file != NULL;
        if (frame->has_line != has_line)
                return has_line;
        return rank > frame->rank || (frame->raw && rank == frame->rank && strcmp(frame->raw, levels[0].name) != 0);
}

static void set(struct infp_row *row, const struct infp_asked_frame *frame, unsigned level,
                const struct infp_symbol *symbol, uint64_t t_ns)
{
        infp_row_begin(row, &infp_table_symbols, t_ns);
        infp_row_id(row, INFP_SYMBOLS_FRAME, frame->id);
        infp_row_i64(row, INFP_SYMBOLS_LEVEL, level);
        infp_row_str(row, INFP_SYMBOLS_NAME, symbol->name);
        if (symbol->mangled)
                infp_row_str(row, INFP_SYMBOLS_MANGLED, symbol->mangled);
        if (symbol->file)
                infp_row_str(row, INFP_SYMBOLS_FILE, symbol->file);
        if (symbol->line)
                infp_row_i64(row, INFP_SYMBOLS_LINE, symbol->line);
        if (symbol->function_line)
                infp_row_i64(row, INFP_SYMBOLS_FUNCTION_LINE, symbol->function_line);
        infp_row_str(row, INFP_SYMBOLS_FROM, symbol->from);
}

int infp_naming_put(struct infp_naming *naming, uint32_t index, const struct infp_symbol *levels, unsigned n,
                    struct infp_err *err)
{
        struct infp_asked_frame *frame = &naming->frames[index];

        if (frame->is_done || !frame->is_asked)
                return 0;
        frame->is_done = n > 0;
        if (!n || !is_better(frame, levels, n))
                return 0;
        if (!naming->sink)
                INFP_TRY(open_writer(naming, err));
        frame->has_line = false;
        for (unsigned i = 0; i < n; i++) {
                set(naming->row, frame, i, &levels[i], naming->t_ns);
                INFP_TRY(append(naming, err));
                frame->has_line |= levels[i].file != NULL;
        }
        frame->rank = (uint8_t) infp_name_rank(levels[0].from, strlen(levels[0].from));
        naming->n_written++;
        return 0;
}

int infp_naming_put_source(struct infp_naming *naming, const char *instance, const char *state, const char *reason,
                           const char *fix, struct infp_err *err)
{
        struct infp_builder *builder;
        struct infp_batch batch;
        int r;

        if (!naming->sink && naming->options->again) /* reported when the run was finished */
                return 0;
        if (!naming->sink)
                INFP_TRY(open_writer(naming, err));
        builder = infp_builder_new(&infp_table_sources, 1);
        if (!builder)
                return infp_fail(err, -ENOMEM, "no memory for a row of sources");
        infp_row_begin(naming->row, &infp_table_sources, naming->t_ns);
        infp_row_str(naming->row, INFP_SOURCES_COLLECTOR, "symbols");
        if (instance)
                infp_row_str(naming->row, INFP_SOURCES_INSTANCE, instance);
        infp_row_str(naming->row, INFP_SOURCES_TABLE, infp_table_symbols.name);
        infp_row_str(naming->row, INFP_SOURCES_COLUMN, "*");
        infp_row_str(naming->row, INFP_SOURCES_STATE, state);
        infp_row_str(naming->row, INFP_SOURCES_REASON, reason);
        if (fix)
                infp_row_str(naming->row, INFP_SOURCES_FIX, fix);
        r = infp_builder_append(builder, naming->row, unix_of(naming));
        if (r == -ENOSPC && infp_builder_grow(builder, naming->row->text_size) == 0)
                r = infp_builder_append(builder, naming->row, unix_of(naming));
        batch = infp_builder_batch(builder, 0);
        r = r == 0 ? naming->sink->batch(naming->sink, &batch, err)
                   : infp_fail(err, r, "a row of sources is too large");
        infp_builder_free(builder);
        return r;
}

int infp_naming_end(struct infp_naming *naming, struct infp_err *err)
{
        int r, q;

        if (!naming->sink)
                return 0;
        r = flush(naming, err);
        q = naming->sink->end(naming->sink, r == 0 ? err : NULL);
        return r < 0 ? r : q;
}

void infp_naming_free_writer(struct infp_naming *naming)
{
        if (naming->sink)
                infp_store_sink_free(naming->sink);
        infp_builder_free(naming->builder);
        free(naming->row);
        free(naming->scratch);
}
