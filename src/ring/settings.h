/* The settings of a process, in its ring file (wire.h): what they are, and how to ask for other values. The file is input: whatever it holds,
 * texts end within their bounds and are printable ASCII. It is read and written by system calls, never mapped. */
#pragma once

#include "base/err.h"
#include "ring/reader.h"
#include "ring/wire.h"

enum infp_ring_setting_state {
        INFP_RING_SETTING_APPLIED, /* `value` is what was asked for, or nobody has asked */
        INFP_RING_SETTING_PENDING, /* the process has not looked since */
        INFP_RING_SETTING_REFUSED, /* and says why */
};
struct infp_ring_setting {
        uint32_t number;
        enum infp_ring_setting_state state;
        char key[33], value[65], wanted[65], source[17], refused[97], may_be[97];
};

/* Those of a ring file, at most INFP_WIRE_SETTINGS: their number; 0: it has none (of an agent, of an older library). Else as
 * infp_ring_open. */
int infp_ring_settings(int file, const struct infp_ring_owner *owner, struct infp_ring_setting *ret,
                       struct infp_err *err);
/* file: opened for writing. value: -EINVAL when it is longer than 63 bytes or not printable ASCII. -EBUSY: another infprof asks, without
 * end. */
int infp_ring_ask(int file, const struct infp_ring_owner *owner, uint32_t number, const char *value,
                  struct infp_err *err);
