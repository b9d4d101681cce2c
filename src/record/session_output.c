/* Rows of what the command writes: table `output`, and marks for the labels in it. */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/human.h"
#include "base/time.h"
#include "model/mask.h"
#include "record/session_parts.h"

/* How long the last look at the file may take: it may lie on a file system that hangs. */
static const uint64_t patience_ns = 10 * INFP_NS_PER_S;
/* A label's time is that of the command's own clock reading, shortly before it was seen at the latest. Clocks of seconds
 * without a fraction may be up to one late or early. */
static const int64_t tolerance_ns = 2 * (int64_t) INFP_NS_PER_S;

enum { TAKEN_AT_ONCE = 256 };

int infp_session_start_output(struct infp_session *s, struct infp_err *err)
{
        if (!s->options->capture)
                return 0;
        s->output_row.text = s->output_text;
        s->output_row.text_cap = sizeof(s->output_text);
        return infp_capture_start(s->options->capture, STDOUT_FILENO, s->wake_fd, &s->options->notices, err);
}

static void put_part(struct infp_session *s, const struct infp_capture_event *event)
{
        struct infp_row *row = &s->output_row;

        infp_row_begin(row, &infp_table_output, event->t_ns);
        infp_row_str(row, INFP_OUTPUT_STREAM, event->kind == INFP_CAPTURE_NEW ? "output" : "removed");
        infp_row_i64(row, INFP_OUTPUT_OFFSET, (int64_t) event->offset);
        infp_row_i64(row, INFP_OUTPUT_LENGTH, (int64_t) event->length);
        infp_recorder_put(s->recorder, row);
}

/* The moment of a label on our clock: by its own time where that lies within the recording, else when it was seen. */
static uint64_t moment(const struct infp_session *s, const struct infp_capture_event *event, char *ret_stamp,
                       size_t cap)
{
        const int64_t seen_unix_ns = infp_recorder_unix_ns(s->recorder, event->t_ns),
                      start_unix_ns = infp_recorder_unix_ns(s->recorder, s->start_ns);

        if (event->epoch == INFP_LABEL_HAS_TIME && event->unix_ns >= start_unix_ns - tolerance_ns &&
            event->unix_ns <= seen_unix_ns + tolerance_ns) {
                const int64_t ago = seen_unix_ns - event->unix_ns;

                snprintf(ret_stamp, cap, "line");
                return ago > 0 && (uint64_t) ago > event->t_ns ? 0 : event->t_ns - (uint64_t) ago;
        }
        if (event->epoch == INFP_LABEL_HAS_TIME)
                snprintf(ret_stamp, cap, "seen: its time %" PRId64 ".%09" PRId64 " is not within the recording",
                         event->unix_ns / (int64_t) INFP_NS_PER_S, event->unix_ns % (int64_t) INFP_NS_PER_S);
        else
                snprintf(ret_stamp, cap, "seen: %s",
                         event->epoch == INFP_LABEL_NO_TIME ? "the line has no time" : "its time cannot be read");
        return event->t_ns;
}

static void put_label(struct infp_session *s, const struct infp_capture_event *event)
{
        struct infp_row *row = &s->output_row;
        char stamp[128], name[INFP_LABEL_TAG + 16];
        uint64_t t_ns = event->t_ns;
        int size;

        if (event->is_filename)
                snprintf(stamp, sizeof(stamp), "seen");
        else
                t_ns = moment(s, event, stamp, sizeof(stamp));
        infp_row_begin(row, &infp_table_marks, t_ns);
        infp_row_str(row, INFP_MARKS_SOURCE, "output");
        size = snprintf(name, sizeof(name), "%s", event->is_filename ? "filename: " : "");
        if (infp_env_flag(s->options->env, "keep-secrets")) {
                memcpy(name + size, event->tag, event->tag_size);
                size += (int) event->tag_size;
        } else {
                size += (int) infp_mask_text(event->tag, event->tag_size, name + size, sizeof(name) - (size_t) size);
        }
        infp_row_bytes(row, INFP_MARKS_TAG, name, (size_t) size);
        infp_row_str(row, INFP_MARKS_STAMP, stamp);
        infp_recorder_put(s->recorder, row);
}

void infp_session_take_output(struct infp_session *s)
{
        struct infp_capture_event event;

        /* No more than wait there now: a command that writes without end must not keep us from the rest. */
        for (unsigned i = 0; s->options->capture && i < TAKEN_AT_ONCE; i++) {
                if (!infp_capture_take(s->options->capture, &event))
                        return;
                if (event.kind == INFP_CAPTURE_LABEL)
                        put_label(s, &event);
                else
                        put_part(s, &event);
        }
}

static void say_sums(struct infp_session *s)
{
        const struct infp_capture_sums sums = infp_capture_sums(s->options->capture);

        if (sums.removed)
                infp_notice(&s->options->notices,
                            "of %s bytes of output the first %s were removed by --capture-limit: %s begins with a hole",
                            infp_count(sums.bytes).text, infp_count(sums.removed).text,
                            infp_capture_path(s->options->capture));
        if (sums.labels_missed)
                infp_notice(&s->options->notices,
                            "%s labels did not become marks: the command printed more than %d in a second",
                            infp_count(sums.labels_missed).text, INFP_CAPTURE_LABELS);
}

void infp_session_end_output(struct infp_session *s)
{
        struct infp_capture *capture = s->options->capture;
        const uint64_t end_ns = infp_session_now() + patience_ns;

        if (!capture)
                return;
        infp_capture_stop(capture);
        while (!infp_capture_is_over(capture) && infp_session_now() < end_ns) {
                struct pollfd fd = { .fd = s->wake_fd, .events = POLLIN };
                uint64_t count;

                infp_session_take_output(s);
                if (poll(&fd, 1, 50) > 0)
                        (void) !read(s->wake_fd, &count, sizeof(count));
        }
        infp_session_take_output(s);
        if (!infp_capture_is_over(capture))
                infp_notice(&s->options->notices, "%s cannot be read to its end within %d s",
                            infp_capture_path(capture), (int) (patience_ns / INFP_NS_PER_S));
        say_sums(s);
}
