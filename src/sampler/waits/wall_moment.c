/* The texts of /proc of one thread, and the words for them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/procfile.h"
#include "sampler/waits/syscall_names.h"
#include "sampler/waits/wall_proc.h"

/* The arguments of a system call, in their order. */
static const uint8_t argument_registers[] = { INFP_RDI, INFP_RSI, INFP_RDX, INFP_R10, INFP_R8, INFP_R9 };

#define ALL_REGISTERS ((UINT32_C(1) << INFP_N_REGISTERS) - 1)

static bool parse_hex(struct infp_span s, uint64_t *ret)
{
        uint64_t v = 0;

        if (s.size < 3 || s.size > 18 || s.at[0] != '0' || s.at[1] != 'x')
                return false;
        for (size_t i = 2; i < s.size; i++) {
                const char c = s.at[i];
                const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;

                if (digit < 0)
                        return false;
                v = v << 4 | (uint64_t) digit;
        }
        *ret = v;
        return true;
}

static void know(struct infp_wall_moment *moment, unsigned r, uint64_t value)
{
        moment->registers[r] = value;
        moment->unknown &= ~(UINT32_C(1) << r);
}

/* "202 0x7ffd... (six arguments) SP PC", or "-1 SP PC". */
int infp_wall_parse_call(const char *text, size_t size, struct infp_wall_moment *ret)
{
        enum { N_ARGUMENTS = sizeof(argument_registers), MOST = N_ARGUMENTS + 4 };
        struct infp_span words[MOST], line;
        uint64_t values[MOST] = { 0 };
        size_t n;

        line = infp_span_trim((struct infp_span){ text, size });
        ret->letter = 0;
        ret->has_call = ret->has_registers = false;
        ret->unknown = ALL_REGISTERS;
        if (infp_span_is(line, "running")) {
                ret->letter = 'R';
                return 0;
        }
        n = infp_span_words(line, words, MOST);
        if ((n != 3 && n != N_ARGUMENTS + 3) || infp_span_i64(words[0], &ret->call) < 0)
                return -EBADMSG;
        for (size_t i = 1; i < n; i++)
                if (!parse_hex(words[i], &values[i]))
                        return -EBADMSG;
        /* A thread that is about to end has no stack in the kernel, and so neither; numbers of 32-bit programs are others. */
        if (values[n - 2] == 0 || values[n - 2] <= UINT32_MAX)
                return 0;
        ret->has_call = ret->has_registers = true;
        know(ret, INFP_RSP, values[n - 2]);
        know(ret, INFP_RIP, values[n - 1]);
        for (size_t i = 0; n > 3 && i < N_ARGUMENTS; i++)
                know(ret, argument_registers[i], values[i + 1]);
        return 0;
}

char infp_wall_parse_letter(const char *text, size_t size)
{
        const char *close = size ? memrchr(text, ')', size) : NULL;

        return close && text + size - close > 2 && close[1] == ' ' ? close[2] : 0;
}

static const char *word_of(char letter)
{
        switch (letter) {
        case 'S':
        case 'I':
                return "sleeping";
        case 'D':
                return "uninterruptible";
        case 'T':
                return "stopped";
        case 't':
                return "traced";
        case 'P':
                return "parked";
        default:
                return "blocked";
        }
}

void infp_wall_call_name(const struct infp_wall_moment *moment, char *ret, size_t cap)
{
        const char *call = NULL;

        *ret = 0;
        if (!moment->has_call || moment->call < 0)
                return;
        call = infp_syscall_name(moment->call);
        if (call)
                snprintf(ret, cap, "sys_%s", call);
        else
                snprintf(ret, cap, "sys_%lld", (long long) moment->call);
}

void infp_wall_state(const struct infp_wall_moment *moment, char *ret, size_t cap)
{
        const char *word = word_of(moment->letter), *call = NULL;

        if (moment->has_call && moment->call >= 0)
                call = infp_syscall_name(moment->call);
        if (call)
                snprintf(ret, cap, "%s in %s", word, call);
        else if (moment->has_call && moment->call >= 0)
                snprintf(ret, cap, "%s in system call %lld", word, (long long) moment->call);
        else if (*moment->wchan)
                snprintf(ret, cap, "%s in %s", word, moment->wchan);
        else
                snprintf(ret, cap, "%s", word);
}

enum { MAX_WORDS = 4096 }; /* names of calls and of functions of the kernel: some hundred */

const char *infp_wall_word(struct infp_map *words, const char *text)
{
        const uint64_t key = infp_hash64(text, strlen(text), 1) | 1;
        const uint64_t *known = infp_map_get(words, key);
        char *copy;

        if (known)
                return (const char *) (uintptr_t) *known;
        if (words->n >= MAX_WORDS || !(copy = strdup(text)))
                return NULL;
        if (infp_map_put(words, key, (uint64_t) (uintptr_t) copy) < 0) {
                free(copy);
                return NULL;
        }
        return copy;
}

void infp_wall_words_done(struct infp_map *words)
{
        for (size_t i = 0; i < words->cap; i++)
                if (words->slots[i].key)
                        free((void *) (uintptr_t) words->slots[i].value);
        infp_map_done(words);
}
