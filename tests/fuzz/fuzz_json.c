/* Any bytes as run.json and as a message of the live socket: values or a sentence; what was read is written and read back as
 * the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/tables.h"
#include "store/live.h"
#include "store/run_json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sum;

static void expect(bool truth)
{
        if (!truth)
                abort();
}

static void run_json(const char *text, size_t size)
{
        infp_autostr struct infp_str once = { 0 }, twice = { 0 };
        struct infp_run_info info, again;
        struct infp_err err = { "" };
        bool finished;

        if (infp_run_json_read(text, size, &info, &finished, &err) < 0) {
                expect(err.text[0] && !info.command && !info.collectors);
                return;
        }
        infp_run_json_write(&once, &info, finished);
        expect(infp_run_json_read(once.data, once.size, &again, &finished, &err) == 0);
        infp_run_json_write(&twice, &again, finished);
        expect(once.size == twice.size && memcmp(once.data, twice.data, once.size) == 0);
        infp_run_info_done(&info);
        infp_run_info_done(&again);
}

static int take(void *context, const struct infp_row *row)
{
        unsigned *left = context;
        const char *text;
        size_t size;

        expect(row->t_ns > 0 && row->text_size <= row->text_cap);
        for (unsigned i = 0; i + INFP_FIXED_COLUMNS < infp_table_width(row->table); i++) {
                if (infp_table_column(row->table, i + INFP_FIXED_COLUMNS)->type != INFP_STR)
                        continue;
                text = infp_row_text(row, i, &size);
                for (size_t k = 0; k < size; k++)
                        sum += (unsigned char) text[k];
        }
        return --*left ? 0 : -1;
}

static void message(const char *text, size_t size)
{
        static const struct infp_table *const tables[] = { &infp_table_marks, &infp_table_sources, &infp_table_ticks,
                                                           NULL };
        static struct infp_row row;
        static char scratch[300];
        unsigned left = 5, n;
        struct infp_live_taker taker = { .tables = tables, .row = take, .context = &left };
        struct infp_err err = { "" };

        row.text = scratch;
        row.text_cap = sizeof(scratch);
        if (infp_live_message_take(text, size, &taker, &row, &n, &err) < 0)
                expect(err.text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        run_json((const char *) data, size);
        message((const char *) data, size);
        return 0;
}
