/* run.json <-> struct infp_run_info, inside src/store. */
#pragma once

#include "base/str.h"
#include "store/run.h"

enum { INFP_RUN_JSON_MAX = 1 << 20 };

int infp_run_info_copy(const struct infp_run_info *from,
                       struct infp_run_info *ret); /* 0 or -ENOMEM; NULL texts become "" */

void infp_run_json_write(struct infp_str *out, const struct infp_run_info *info, bool is_finished);
/* Unknown members are ignored, absent ones are 0, "" or -1 (exit_code). *ret_finished: it says so. -EBADMSG with what is wrong
 * and where; -ENOMEM. On failure *ret is empty. */
int infp_run_json_read(const char *text, size_t size, struct infp_run_info *ret, bool *ret_finished,
                       struct infp_err *err);
