/* One cell of a batch as a JSON value: integers exact, moments as Unix ms, texts that are JSON as what they are, null when
 * absent. */
#pragma once

#include "base/json/json.h"
#include "model/batch.h"

void infp_cell_json(struct infp_json *json, const struct infp_batch *batch, unsigned column, uint32_t row);
