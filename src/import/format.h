/* A foreign format: one const record a file, src/import/<name>.c, listed by its name in src/import/meson.build. */
#pragma once

#include "import/input.h"
#include "import/writer.h"

/* What a head of a file shows a format: how sure it is. Surer ones win. */
enum infp_import_sure {
        INFP_IMPORT_NO,
        INFP_IMPORT_MAYBE, /* it is a text that could be read so */
        INFP_IMPORT_LIKELY,
        INFP_IMPORT_SURE,
};

struct infp_import_format {
        const char *name;
        const char *help; /* what it is, and who writes it */
        bool takes_mode;  /* it does not say what its bytes are of: the user may (infp_import_wanted()) */
        enum infp_import_sure (*look)(const char *head, size_t size);
        int (*read)(struct infp_import_input *input, struct infp_import_writer *writer, struct infp_err *err);
};
