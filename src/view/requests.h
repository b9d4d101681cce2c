/* Requests as text and JSON: the same in `load` and in the report. */
#pragma once

#include "analyze/requests.h"
#include "base/json.h"
#include "view/format.h"

/* A section of the text report with its title; nothing without requests. */
void infp_requests_text(struct infp_out *out, struct infp_requests *requests, const char *title);
/* Members of an object that is open, under the names that people know from `vllm bench serve`; absent is null. Times in ms. */
void infp_requests_json(struct infp_json *json, struct infp_requests *requests);
