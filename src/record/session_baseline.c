/* The idle power: a quiet time before the command goes, or at the start of a recording of what runs already. The two marks tell
 * readers where it lies; nothing else differs. */
#include <inttypes.h>

#include "base/human.h"
#include "base/time.h"
#include "model/baseline.h"
#include "record/session_parts.h"

static void put_mark(struct infp_session *s, const char *tag, uint64_t t_ns)
{
        char text[128];
        struct infp_row row = { .text = text, .text_cap = sizeof(text) };

        infp_row_begin(&row, &infp_table_marks, t_ns);
        infp_row_str(&row, INFP_MARKS_SOURCE, INFP_BASELINE_SOURCE);
        infp_row_str(&row, INFP_MARKS_TAG, tag);
        infp_recorder_put(s->recorder, &row);
}

static void begin(struct infp_session *s, uint64_t now)
{
        const double seconds = (double) s->options->baseline_ns / 1e9;

        s->baseline = INFP_BASELINE_RUNS;
        s->baseline_end_ns = now + s->options->baseline_ns;
        put_mark(s, INFP_BASELINE_START, now);
        infp_notice(&s->options->notices,
                    s->options->child ? "measuring the idle power for %s s before the command starts"
                                      : "measuring the power of the first %s s as the idle power",
                    infp_number(seconds).text);
}

/* Called at each turn once everything was sampled for the first time. True: the command may go. */
bool infp_session_baseline(struct infp_session *s)
{
        const uint64_t now = infp_session_now();

        if (!s->options->baseline_ns || s->baseline == INFP_BASELINE_OVER)
                return true;
        if (s->baseline == INFP_BASELINE_NOT_BEGUN)
                begin(s, now);
        if (now < s->baseline_end_ns)
                return !s->options->child;
        s->baseline = INFP_BASELINE_OVER;
        put_mark(s, INFP_BASELINE_END, now);
        return true;
}

uint64_t infp_session_baseline_due_ns(const struct infp_session *s)
{
        return s->baseline == INFP_BASELINE_RUNS ? s->baseline_end_ns : UINT64_MAX;
}
