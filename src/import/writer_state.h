/* What the writer's two files share. */
#pragma once

#include "base/ids.h"
#include "base/str.h"
#include "import/rows.h"
#include "import/writer.h"

struct infp_import_writer {
        struct infp_import_rows rows;
        const char *path;
        const struct infp_table *process;
        int process_pid, process_name; /* cells */
        struct infp_imported *found;
        char uuid[37];
        bool has_begun;
        uint64_t begin_t_ns;
        struct infp_ids frames;   /* of the run: a symbol is written once */
        struct infp_ids entities; /* of this segment: nodes, threads, processes */
        uint64_t truncated;       /* frame that stands for outer ones that are missing; 0: not seen */
        uint64_t *nodes;          /* of the stack in hand */
        size_t cap_nodes;
        struct infp_str text; /* of the name in hand */
};

/* Texts of a cell; none stays absent. */
void infp_import_put_text(struct infp_import_writer *writer, struct infp_row *row, unsigned cell,
                          struct infp_import_text text);
/* As a C string that lasts until the next one: no NUL in it, not longer than the bound. */
const char *infp_import_plain(struct infp_import_writer *writer, struct infp_import_text text);
/* 1: an entity is to be written now. A full set forgets all: what is written twice is the same. */
int infp_import_is_new(struct infp_import_writer *writer, uint64_t id, struct infp_err *err);
