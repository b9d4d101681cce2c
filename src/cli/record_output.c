#include "cli/record_output.h"

#include <poll.h>
#include <signal.h>

#include "base/human.h"
#include "base/time.h"
#include "cli/command.h"

enum { LOOK_MS = 10 };

static bool is_told_to_end(struct infp_signals *signals)
{
        struct pollfd fd = { .fd = signals->fd, .events = POLLIN };
        struct infp_signal signal;
        bool ret = false;

        if (poll(&fd, 1, LOOK_MS) > 0)
                while (infp_signals_next(signals, &signal))
                        ret |= infp_signal_is_end(signal.number);
        return ret;
}

bool infp_record_show_output(struct infp_capture *capture, struct infp_signals *signals, unsigned patience_ms)
{
        uint64_t bytes = 0, since_ns = infp_clock_ns(CLOCK_MONOTONIC);

        for (;;) {
                const struct infp_capture_shown shown = infp_capture_shown(capture);
                const uint64_t now = infp_clock_ns(CLOCK_MONOTONIC);

                if (shown.is_over)
                        return true;
                if (shown.bytes != bytes) {
                        bytes = shown.bytes;
                        since_ns = now;
                }
                if (now - since_ns >= patience_ms * INFP_NS_PER_MS || is_told_to_end(signals))
                        return false;
        }
}

void infp_record_say_output(struct infp_capture *capture, bool child_left)
{
        const struct infp_capture_shown shown = infp_capture_shown(capture);
        const struct infp_capture_sums sums = infp_capture_sums(capture);

        if (!shown.is_over)
                infp_say("standard output was closed before the last %s bytes of the command: they are in %s",
                         infp_count(shown.of - shown.bytes).text, infp_capture_path(capture));
        if (sums.skipped)
                infp_say("%s bytes of what the command wrote were removed by --capture-limit before they "
                         "could be copied to standard output",
                         infp_count(sums.skipped).text);
        if (child_left)
                infp_say("its further output goes only to %s, whose size is no longer limited",
                         infp_capture_path(capture));
}
