/* What differs from one machine to the other: the registers that a signal handler is given, and the stack that it runs on. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

#include "unwind/rule.h"

#ifdef __x86_64__
enum { INFP_AGENT_IS_SUPPORTED = 1 };

static inline void infp_agent_registers(const ucontext_t *context, uint64_t ret[INFP_N_REGISTERS])
{
        static const uint8_t places[INFP_N_REGISTERS] = {
                [INFP_RAX] = REG_RAX, [INFP_RDX] = REG_RDX, [INFP_RCX] = REG_RCX, [INFP_RBX] = REG_RBX,
                [INFP_RSI] = REG_RSI, [INFP_RDI] = REG_RDI, [INFP_RBP] = REG_RBP, [INFP_RSP] = REG_RSP,
                [INFP_R8] = REG_R8,   [INFP_R9] = REG_R9,   [INFP_R10] = REG_R10, [INFP_R11] = REG_R11,
                [INFP_R12] = REG_R12, [INFP_R13] = REG_R13, [INFP_R14] = REG_R14, [INFP_R15] = REG_R15,
                [INFP_RIP] = REG_RIP,
        };

        for (unsigned i = 0; i < INFP_N_REGISTERS; i++)
                ret[i] = (uint64_t) context->uc_mcontext.gregs[places[i]];
}

/* Of the function that this is in: those from which its callers' can be had. */
static inline __attribute__((always_inline)) void infp_agent_registers_here(uint64_t ret[INFP_N_REGISTERS])
{
        for (unsigned i = 0; i < INFP_N_REGISTERS; i++)
                ret[i] = 0;
        __asm__ volatile("lea 0f(%%rip), %%rax\n"
                         "0:\n\t"
                         "mov %%rax, %c[rip](%[ret])\n\t"
                         "mov %%rsp, %c[rsp](%[ret])\n\t"
                         "mov %%rbp, %c[rbp](%[ret])\n\t"
                         "mov %%rbx, %c[rbx](%[ret])\n\t"
                         "mov %%r12, %c[r12](%[ret])\n\t"
                         "mov %%r13, %c[r13](%[ret])\n\t"
                         "mov %%r14, %c[r14](%[ret])\n\t"
                         "mov %%r15, %c[r15](%[ret])"
                         :
                         : [ret] "r"(ret), [rip] "i"(8 * INFP_RIP), [rsp] "i"(8 * INFP_RSP), [rbp] "i"(8 * INFP_RBP),
                           [rbx] "i"(8 * INFP_RBX), [r12] "i"(8 * INFP_R12), [r13] "i"(8 * INFP_R13),
                           [r14] "i"(8 * INFP_R14), [r15] "i"(8 * INFP_R15)
                         : "rax", "memory");
}

/* pthread_self() without a call. */
static inline uint64_t infp_agent_thread_pointer(void)
{
        uint64_t pointer;

        __asm__("mov %%fs:0, %0" : "=r"(pointer));
        return pointer;
}

/* Calls function(context) on the stack that ends at top, which is aligned to 16: the thread's own may be an alternate stack of 8 KiB,
 * most of which the kernel's frame takes. */
static inline void infp_agent_call_on(char *top, void (*function)(void *context), void *context)
{
        __asm__ volatile("mov %%rsp, %%rbx\n\t"
                         "mov %[top], %%rsp\n\t"
                         "call *%[function]\n\t"
                         "mov %%rbx, %%rsp"
                         : "+D"(context)
                         : [top] "r"(top), [function] "r"(function)
                         : "rbx", "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11", "cc", "memory", "mm0", "mm1",
                           "mm2", "mm3", "mm4", "mm5", "mm6", "mm7", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5",
                           "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15");
}
#else
enum { INFP_AGENT_IS_SUPPORTED = 0 };

static inline void infp_agent_registers(const ucontext_t *context, uint64_t ret[INFP_N_REGISTERS])
{
        (void) context;
        for (unsigned i = 0; i < INFP_N_REGISTERS; i++)
                ret[i] = 0;
}

static inline void infp_agent_registers_here(uint64_t ret[INFP_N_REGISTERS])
{
        for (unsigned i = 0; i < INFP_N_REGISTERS; i++)
                ret[i] = 0;
}

static inline uint64_t infp_agent_thread_pointer(void)
{
        return (uint64_t) (uintptr_t) __builtin_thread_pointer();
}

static inline void infp_agent_call_on(char *top, void (*function)(void *context), void *context)
{
        (void) top;
        function(context);
}
#endif
