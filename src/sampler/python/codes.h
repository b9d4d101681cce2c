/* Names of the code objects that samples hit, read from the process when one is seen first, and of each of their lines. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "sampler/python/find.h"
#include "sampler/python/frames.h"
#include "sampler/python/names.h"

struct infp_python_codes;

/* names is borrowed. NULL: no memory. */
struct infp_python_codes *infp_python_codes_new(struct infp_python_names *names);
struct infp_python_codes *infp_python_codes_free(struct infp_python_codes *codes); /* NULL is fine; returns NULL */

/* A process with its Python; id: another one for each program that a process executes. */
struct infp_python_process {
        uint64_t id;
        pid_t pid;
        const struct infp_python *python;
        const struct infp_frames_process *frames;
};

/* The id of the named frame. Where the code object is gone (or another one lies in its place) it is that of a frame without a name;
 * 0: no memory. */
uint64_t infp_python_codes_frame(struct infp_python_codes *codes, const struct infp_python_process *process,
                                 const struct infp_frames_one *frame);
/* Code objects that could not be read. */
uint64_t infp_python_codes_unread(const struct infp_python_codes *codes);
