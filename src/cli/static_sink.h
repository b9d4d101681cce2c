/* A sink that writes static_<uuid>.json from the first row of table `host`, and of each GPU. */
#pragma once

#include "base/err.h"
#include "model/sink.h"

/* output_fd and uuid are borrowed. */
int infp_static_sink_new(int output_fd, const char *uuid, struct infp_sink **ret, struct infp_err *err);
struct infp_sink *infp_static_sink_free(struct infp_sink *sink); /* returns NULL */
