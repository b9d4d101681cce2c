/* The run that an import makes: run.json, the static record, the file's rows. */
#pragma once

#include "base/notice.h"
#include "import/import.h"
#include "record/signals.h"

struct infp_import_wishes {
        const char *path;   /* the file; "-" or NULL: standard input */
        const char *output; /* directory of runs */
        const char *format; /* NULL: by the content */
        const char *mode;   /* as infp_import_options */
        const char *name;   /* what the run is called; NULL: its command line */
        const struct infp_notices *notices;
};

struct infp_import_made {
        char uuid[37];
        char *path; /* of its own directory; the caller frees */
        struct infp_imported found;
        bool is_finished;
};

/* Members about what was read, for a JSON object. */
struct infp_json;
void infp_import_json(struct infp_json *json, const struct infp_import_wishes *wishes,
                      const struct infp_imported *found);

int infp_import_run(const struct infp_import_wishes *wishes, struct infp_signals *signals, struct infp_import_made *ret,
                    struct infp_err *err);
