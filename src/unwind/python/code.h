/* Names and lines of Python's code objects, read from memory of another process; bounded, and checked before it is believed.
 *
 * No allocation, lock or output, and errno stays; it needs 5 KiB of stack. */
#pragma once

#include "unwind/python/walk.h"

enum { INFP_PYTHON_TEXT = 1024, INFP_PYTHON_LINE_TABLE = 64 * 1024 };

/* What lines are computed from. */
struct infp_python_lines {
        uint64_t bytes, bytes_size; /* the object's byte code; size before 3.11: 0 */
        uint32_t first_line, table_size;
        const uint8_t *table; /* NULL: it is too long, and lines are not known */
};

struct infp_python_code {
        /* UTF-8, cut at a character's edge, ended by 0. A byte that Python could not decode is \\xHH, and so is 0. */
        char file[INFP_PYTHON_TEXT];
        char function[INFP_PYTHON_TEXT]; /* qualified where the version has it: Model.forward */
        struct infp_python_lines lines;  /* table: the one below */
        uint8_t line_table[INFP_PYTHON_LINE_TABLE];
};

/* 0, or -EBADMSG: no code object, or damaged; -EFAULT: memory cannot be read. type: address of PyCode_Type, 0 when not known. */
int infp_python_code_read(const struct infp_python_layout *layout, const struct infp_python_memory *memory,
                          uint64_t type, uint64_t address, struct infp_python_code *ret);
/* The line of a frame's instruction; 0: it has none, or it is not known. */
uint32_t infp_python_code_line(const struct infp_python_layout *layout, const struct infp_python_lines *lines,
                               uint64_t instruction);
/* A str object as UTF-8, as struct infp_python_code has its texts, in INFP_PYTHON_TEXT bytes. 0, -EBADMSG or -EFAULT. */
int infp_python_text_read(const struct infp_python_layout *layout, const struct infp_python_memory *memory,
                          uint64_t address, char *ret);
