/* What `infprof heap` shows: for people, and as members of a JSON object. */
#pragma once

#include "analyze/memory/blocks.h"
#include "analyze/memory/heap.h"
#include "analyze/profile/sampling.h"
#include "base/json/json.h"
#include "view/format.h"

struct infp_heap_view {
        const char *run; /* uuid */
        const struct infp_heap *heap;
        const struct infp_heap_blocks *blocks; /* of temporary and sizes */
        const struct infp_sampling *sampling;
};

typedef int infp_heap_text_fn(struct infp_out *out, const struct infp_heap_view *view); /* 0 or -ENOMEM */
typedef void infp_heap_json_fn(struct infp_json *json, const struct infp_heap_view *view);
infp_heap_text_fn infp_heap_report_text, infp_heap_leaks_text, infp_heap_temporary_text, infp_heap_sizes_text;
infp_heap_json_fn infp_heap_report_json, infp_heap_leaks_json, infp_heap_temporary_json, infp_heap_sizes_json;
