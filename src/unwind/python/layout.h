/* Where CPython keeps what a walk over its frames needs: offsets in bytes, as data, for each version.
 *
 * Shared by the remote reader, the agent and the BPF program, so it needs <stdint.h> alone. x86-64. Sources: the DWARF of each version's
 * interpreter, and from 3.13 on the interpreter's own `_Py_DebugOffsets`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INFP_PYTHON_ABSENT UINT16_MAX /* this version has no such member */

/* No layout has larger ones, so that readers know how much room they need: thread_size, frame_size, code_size, and the head of a str
 * or bytes up to its last member. */
enum {
        INFP_PYTHON_MAX_THREAD = 1024,
        INFP_PYTHON_MAX_FRAME = 128,
        INFP_PYTHON_MAX_CODE = 512,
        INFP_PYTHON_MAX_HEAD = 128
};

enum infp_python_owner { /* of a frame; the numbers are those of all versions since 3.11 */
                         INFP_PYTHON_OWNER_THREAD = 0,
                         INFP_PYTHON_OWNER_GENERATOR = 1,
                         INFP_PYTHON_OWNER_FRAME_OBJECT = 2,
                         INFP_PYTHON_OWNER_SHIM =
                                 3, /* 3.12 and later: lies between a C call and the frames that it runs; has no code */
                         INFP_PYTHON_OWNER_C_STACK = 4, /* 3.14 and later: no loop's and no function's; has no code */
};

struct infp_python_layout {
        uint16_t version; /* major << 8 | minor */
        bool is_free_threaded;

        /* _PyRuntime */
        uint16_t runtime_interpreters;                   /* pointer to the first interpreter */
        uint16_t runtime_gil_holder, runtime_gil_locked; /* ABSENT: the GIL belongs to the interpreter */

        /* PyInterpreterState */
        uint16_t interp_next, interp_id, interp_threads;
        uint16_t interp_gil;             /* pointer to the GIL's struct; ABSENT: in the runtime, or none */
        uint16_t gil_holder, gil_locked; /* in that struct */

        /* PyThreadState */
        uint16_t thread_size; /* bytes that hold all members below */
        uint16_t thread_next, thread_interp;
        uint16_t thread_frame;      /* pointer to the innermost frame, or to the C frame */
        uint16_t cframe_frame;      /* in the C frame (3.11, 3.12); ABSENT: thread_frame points to the frame */
        uint16_t thread_base;       /* 3.15: pointer to its own first frame, which looks like a shim */
        uint16_t thread_pthread;    /* pthread_t: the thread's FS base */
        uint16_t thread_native_id;  /* ABSENT before 3.11 */
        uint16_t thread_data_chunk; /* pointer to the newest chunk of the frames' stack; ABSENT before 3.11 */

        /* PyFrameObject (3.8 to 3.10) or _PyInterpreterFrame */
        uint16_t frame_size; /* bytes that hold all members below */
        uint16_t frame_previous, frame_code, frame_instruction;
        uint16_t frame_owner;          /* 1 byte; ABSENT before 3.11 */
        uint16_t frame_is_entry;       /* 1 byte; 3.11 only */
        uint16_t frame_locals;         /* pointers to objects: the variables of its function; after frame_size */
        uint16_t frame_bytecode_index; /* tlbc_index of free-threaded builds from 3.14 on, 4 bytes; ABSENT elsewhere */
        uint8_t instruction_unit;      /* 0: the instruction is a pointer; 1, 2: an index of this many bytes a unit */
        uint8_t code_tag_mask;         /* low bits of frame_code that are no address (3.14: 3) */

        /* PyCodeObject */
        uint16_t code_size;                           /* bytes that hold all members below but the byte code */
        uint16_t code_file, code_name, code_qualname; /* qualname ABSENT before 3.11 */
        uint16_t code_first_line, code_line_table;
        uint16_t code_version;    /* 4 bytes, another number for each code object that is made; ABSENT before 3.12 */
        uint16_t code_bytes;      /* first byte of the byte code in the object (3.11 and later), or pointer to bytes */
        uint16_t code_units;      /* how many units of 2 bytes it has; ABSENT where the bytes say it */
        uint16_t code_per_thread; /* co_tlbc; ABSENT where code is not copied for each thread */
        /* Tuples of the names of its variables, in the frame's order. From 3.11 on one tuple has all, and bytes say of which kind each is;
         * before, tuples of local variables, of cells and of free variables, and `kinds` is ABSENT. */
        uint16_t code_local_names, code_cell_names, code_free_names, code_local_kinds;
        uint8_t line_table_form; /* enum infp_python_line_table */

        /* PyObject, str, bytes */
        uint16_t object_type;
        uint16_t str_length, str_state, str_ascii, str_compact;
        uint8_t str_kind_shift; /* of the state: kind is 3 bits there, then compact, then ascii */
        uint16_t bytes_size, bytes_data;
        uint16_t tuple_items;
};

enum infp_python_line_table {
        INFP_PYTHON_LNOTAB,    /* up to 3.9 */
        INFP_PYTHON_PAIRS,     /* 3.10, PEP 626 */
        INFP_PYTHON_LOCATIONS, /* 3.11 and later, PEP 657 */
};

/* The layout of a version without _Py_DebugOffsets: 3.8 to 3.12. false: not known, which is refused and never guessed. */
bool infp_python_layout_of(uint16_t version, struct infp_python_layout *ret);
/* How _Py_DebugOffsets begins, and the most bytes of it that are read. */
#define INFP_PYTHON_COOKIE "xdebugpy"
enum { INFP_PYTHON_DEBUG_OFFSETS = 768 };
/* From the bytes at _PyRuntime of 3.13 and later. *ret_version is what they say, also where the version is not known (false), and 0
 * where they are no _Py_DebugOffsets. */
bool infp_python_layout_of_runtime(const uint8_t *bytes, size_t size, struct infp_python_layout *ret,
                                   uint32_t *ret_version);
