/* The live view as one JSON object a period. */
#pragma once

#include "base/json/json.h"
#include "view/top/page.h"

/* 0 or -ENOMEM. */
int infp_top_json(struct infp_json *json, struct infp_watch *watch, const struct infp_top_choice *choice,
                  const struct infp_top_about *about);
