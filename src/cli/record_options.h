/* The options of `record`. */
#pragma once

#include "app/record_options.h"
#include "base/err.h"
#include "cli/command.h"

extern const struct infp_option infp_record_option_table[];

/* 0 or -EINVAL with the sentence. */
int infp_record_options_read(const struct infp_arguments *arguments, struct infp_record_options *ret,
                             struct infp_err *err);
