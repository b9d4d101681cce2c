/* Whether code objects are still those of which names are known: the check of unwind/python/check.h, of a whole stack at once. */
#pragma once

#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "unwind/python/check.h"

enum { INFP_PYTHON_CHECKS = 248, INFP_PYTHON_CHECKS_TEXTS = INFP_PYTHON_CHECKS * INFP_PYTHON_CHECK_TEXTS };

struct infp_python_checks {
        /* Copies n pieces of the process's memory, `size` bytes in all, one after the other. Returns how many bytes were copied, from the first
         * on, or a negative number. */
        ssize_t (*gather)(void *context, const struct iovec *pieces, unsigned n, void *ret_bytes, size_t size);
        void *context;
        uint32_t n;
        uint64_t codes[INFP_PYTHON_CHECKS]; /* n addresses, which the caller writes */
        uint32_t ret[INFP_PYTHON_CHECKS];
        /* What is read. */
        uint64_t words[INFP_PYTHON_CHECKS][INFP_PYTHON_CHECK_WORDS];
        uint64_t addresses[INFP_PYTHON_CHECKS_TEXTS];
        struct infp_python_check_text texts[INFP_PYTHON_CHECKS_TEXTS];
        uint64_t ends[INFP_PYTHON_CHECKS_TEXTS];
        struct iovec remote[INFP_PYTHON_CHECKS_TEXTS];
};

/* By at most three readings. Returns how many of the checks could be made, from the first on. */
uint32_t infp_python_checks_make(struct infp_python_checks *checks, const struct infp_python_layout *layout,
                                 const struct infp_python_check *check);
