/* Python's frames of the thread that is interrupted, read and named in its signal handler. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "agent/core/memory.h"
#include "ring/writer.h"
#include "unwind/python/checks.h"
#include "unwind/python/code.h"

enum { INFP_AGENT_PYTHON_THREADS = 4096 };

/* What one handler needs for it. */
struct infp_agent_python {
        struct infp_agent_memory memory;
        struct infp_python_frame frames[INFP_WIRE_FRAMES];
        struct infp_python_checks checks;
        uint16_t copies[INFP_WIRE_FRAMES]; /* of each frame: which of the checks */
        struct infp_python_code code;
        struct infp_python_thread threads[INFP_AGENT_PYTHON_THREADS];
};

/* Which Python the process has from its start. *ret_version as infp_wire_head.sampler_python. -ENOENT: none; -ENOTSUP: one that is not
 * known. Not for handlers. */
int infp_agent_python_find(uint32_t *ret_version);

bool infp_agent_python_is_free_threaded(void); /* of the one that was found */

/* Whether an address is in the interpreter's loop: then the thread has Python frames. */
bool infp_agent_python_is_loop(uint64_t pc);

/* Fills ret (INFP_WIRE_FRAMES), the innermost first, and says in *flags what is missing. Returns how many. must_have: the thread runs Python, so it
 * is looked for again where it was not found before. Between begin and end of the writer. */
uint32_t infp_agent_python_frames(struct infp_agent_python *python, struct infp_writer_thread *thread, bool must_have,
                                  struct infp_wire_python *ret, uint8_t *flags);
