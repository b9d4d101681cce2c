/* Ends the process at once, without libc. */
#pragma once

#include <sys/syscall.h>

static inline void infp_exit_group(long code)
{
#ifdef __x86_64__
        long number = SYS_exit_group;

        __asm__ volatile("syscall" : "+a"(number) : "D"(code) : "rcx", "r11", "memory");
#elif defined(__aarch64__)
        register long number __asm__("x8") = SYS_exit_group;
        register long first __asm__("x0") = code;

        __asm__ volatile("svc 0" : "+r"(first) : "r"(number) : "memory");
#else
        (void) code;
        __builtin_trap();
#endif
}
