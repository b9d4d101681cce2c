/* What `infprof config` shows and sets: the settings in the ring files of one process. */
#pragma once

#include <sys/types.h>

#include "ring/settings.h"

struct infp_wish {
        char key[40];
        const char *value;
};
enum { INFP_WISHES = 16 };

/* Asks process `pid` for what is wished, waits up to wait_ms until it has answered all of that, and calls back for each setting that was
 * wished (n 0: for all that there are). Nothing is asked for unless all keys are there. -ENOENT: the process does not record, or has no
 * such setting; -ESRCH, -EPERM, -EACCES; -EBADMSG: its file is damaged. */
int infp_settings_of(pid_t pid, const struct infp_wish *wishes, size_t n, unsigned wait_ms,
                     int (*each)(void *context, const struct infp_ring_setting *setting), void *context,
                     struct infp_err *err);
