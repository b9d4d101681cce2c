/* A sink that writes static_<uuid>.json from the first row of table `host`, and of each GPU. */
#pragma once

#include "base/err.h"
#include "model/sink.h"
#include "store/run.h"

/* run is borrowed. */
int infp_static_sink_new(const struct infp_run *run, struct infp_sink **ret, struct infp_err *err);
struct infp_sink *infp_static_sink_free(struct infp_sink *sink); /* returns NULL */
