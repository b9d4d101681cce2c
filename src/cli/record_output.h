/* The end of a captured output: what has been written but not yet copied to standard output. */
#pragma once

#include <stdbool.h>

#include "record/capture.h"
#include "record/signals.h"

/* Waits as long as it is copied on: until nobody has read for patience_ms, or somebody wants us to end. True: all has been
 * copied, or there is nobody to copy it to. */
bool infp_record_show_output(struct infp_capture *capture, struct infp_signals *signals, unsigned patience_ms);
/* What was not shown, in a sentence. child_left: it writes on, where nobody follows. */
void infp_record_say_output(struct infp_capture *capture, bool child_left);
