/* What `compare` and `report --diff` do alike: read, compare, print, judge conditions. */
#pragma once

#include "analyze/compare/gate.h"
#include "app/compare_runs.h"
#include "cli/command.h"

struct infp_compare_wants {
        const char *verb; /* for messages */
        struct infp_compare_request request;
        struct infp_gate gates[INFP_GATES];
        unsigned n_gates;
        bool is_json;
        const char *path, *markdown, *junit; /* files; NULL: standard output, none, none */
};

/* Exit code: INFP_EXIT_GATE when a condition fails. */
int infp_compare_print(const struct infp_compare_wants *wants);
