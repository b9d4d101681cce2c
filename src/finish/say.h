#pragma once

#include "finish/finish.h"

/* A sentence for the user; notices may be NULL. */
void infp_finish_say(const struct infp_finish_notices *notices, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
