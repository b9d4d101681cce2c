/* What `flamegraph` was asked for, and its writing. */
#pragma once

#include "analyze/profile/flame.h"
#include "app/flame_formats.h"
#include "base/notice.h"
#include "store/run.h"
#include "view/flame/look.h"
#include "view/format.h"

struct infp_flame_request {
        struct infp_flame_options flame; /* t0, t1 follow from from and to */
        struct infp_flame_look look;
        enum infp_flame_format format;
        bool is_json;
        uint32_t top;
        const char *run, *older, *path, *from, *to; /* older: of --diff */
};

int infp_flame_write(struct infp_run *run, const struct infp_flame_request *request, struct infp_out *out,
                     const struct infp_notices *notices, struct infp_err *err);
