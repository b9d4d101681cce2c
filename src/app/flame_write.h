/* A request of `flamegraph`, and its output. */
#pragma once

#include "analyze/profile/flame.h"
#include "base/notice.h"
#include "store/run.h"
#include "view/flame/look.h"
#include "view/format.h"

/* Formats of flame graphs and profiles: option, file names, and what they are made from. */
enum infp_flame_format {
        INFP_FLAME_HTML,
        INFP_FLAME_SVG,
        INFP_FLAME_FOLDED,
        INFP_FLAME_PPROF,
        INFP_FLAME_SPEEDSCOPE,
        INFP_FLAME_CHROME,
        INFP_FLAME_PERF_SCRIPT,
        INFP_FLAME_TOP,
        INFP_FLAME_FORMATS
};

struct infp_flame_format_is {
        const char *option;     /* of the verb */
        const char *extensions; /* of files, separated by blanks; the first is the default */
        bool is_tree;           /* made from the merged tree; else from the stacks as they were taken */
        bool is_picture;
        bool is_for_reading; /* readable on a terminal; others go into a file there */
};
extern const struct infp_flame_format_is infp_flame_formats[INFP_FLAME_FORMATS];

/* By the end of the file's name; -1: unknown. */
int infp_flame_format_of(const char *path);

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
