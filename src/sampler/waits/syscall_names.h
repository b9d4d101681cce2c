/* Names of system calls, from the kernel headers that this was built with (tools/syscall-names). */
#pragma once

#include <stdint.h>

const char *infp_syscall_name(int64_t number); /* NULL: newer than those headers, or none */
