#pragma once

#include "finish/finish.h"

/* Notices as lines on stderr. */
extern const struct infp_finish_notices infp_said_notices;
