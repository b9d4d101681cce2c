/* The histograms of an engine as a snapshot shows them: {"<metric>_<labels>_histogram": {"0.001": 3, "inf": 12}}, cumulative as
 * the engine counts them, from the last samples of its series (collectors/engine/tables.c).
 *
 * Which sample is which bucket is worked out once and kept: it changes only with the series. */
#pragma once

#include "base/json/json.h"
#include "model/last.h"

struct infp_histograms;

struct infp_histograms *infp_histograms_new(void); /* NULL without memory */
struct infp_histograms *infp_histograms_free(struct infp_histograms *histograms);

/* Takes the values of this moment; `samples`: name of the table. 0, also where nothing keeps such a table, or -ENOMEM. */
int infp_histograms_refresh(struct infp_histograms *histograms, const struct infp_last *last, const char *samples);

/* One object: those of the thing `owner`. */
void infp_histograms_put(const struct infp_histograms *histograms, struct infp_json *json, uint64_t owner);
