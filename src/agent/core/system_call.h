/* A system call without libc. Returns what the kernel does: a negative errno where it fails. */
#pragma once

#include <stdint.h>

static inline int64_t infp_system_call(long number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                                       uint64_t f)
{
#ifdef __x86_64__
        register uint64_t r10 __asm__("r10") = d;
        register uint64_t r8 __asm__("r8") = e;
        register uint64_t r9 __asm__("r9") = f;
        int64_t ret;

        __asm__ volatile("syscall"
                         : "=a"(ret)
                         : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                         : "rcx", "r11", "memory");
        return ret;
#elif defined(__aarch64__)
        register long x8 __asm__("x8") = number;
        register uint64_t x0 __asm__("x0") = a;
        register uint64_t x1 __asm__("x1") = b;
        register uint64_t x2 __asm__("x2") = c;
        register uint64_t x3 __asm__("x3") = d;
        register uint64_t x4 __asm__("x4") = e;
        register uint64_t x5 __asm__("x5") = f;

        __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
        return (int64_t) x0;
#else
        (void) number, (void) a, (void) b, (void) c, (void) d, (void) e, (void) f;
        __builtin_trap();
#endif
}
