/* Named Python frames: a function, a file and a line, each once, and found by the id of its frame. Bounded. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/map.h"
#include "base/strings.h"

struct infp_python_name {
        const char *function, *file; /* function NULL: it could not be read; then address has its code object */
        uint32_t line, first_line;   /* 0: not known */
        uint64_t address;
};

struct infp_python_names {
        struct infp_map by_id; /* to struct infp_python_name */
        struct infp_strings texts;
};

void infp_python_names_done(struct infp_python_names *names);
/* A text that stays. Where there is no room it is one whose frames are those that infp_python_names_add has no room for. */
const char *infp_python_names_text(struct infp_python_names *names, const char *text);
/* The id of the frame, which is equal in all runs. The texts are those of infp_python_names_text. Where there are too many lines it is
 * that of its function, and then one for all that are left; 0: no memory. */
uint64_t infp_python_names_add(struct infp_python_names *names, const struct infp_python_name *name);
/* Of a frame without a name, in the memory of a process. 0: no memory. */
uint64_t infp_python_names_add_unnamed(struct infp_python_names *names, uint64_t process, uint64_t address);
const struct infp_python_name *infp_python_names_get(const struct infp_python_names *names, uint64_t id);
