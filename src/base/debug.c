#include "base/debug.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"

enum { LINES = 512, LINE_SIZE = 256 };

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool is_on;
static char (*lines)[LINE_SIZE];
static unsigned long n_lines;
static uint64_t start_ns;

static void lock_it(void)
{
        pthread_mutex_lock(&lock);
}

static void unlock_it(void)
{
        pthread_mutex_unlock(&lock);
}

static void begin(void)
{
        const char *wanted = getenv("INFPROF_DEBUG");

        if (!wanted || !*wanted || !strcmp(wanted, "0"))
                return;
        lines = calloc(LINES, LINE_SIZE);
        start_ns = infp_clock_ns(CLOCK_MONOTONIC);
        is_on = lines != NULL;
        pthread_atfork(lock_it, unlock_it, unlock_it); /* a child must not inherit it held by another thread */
}

bool infp_debug_is_on(void)
{
        pthread_once(&once, begin);
        return is_on;
}

void infp_debug(const char *format, ...)
{
        unsigned long long us;
        char *line;
        va_list ap;
        int n;

        if (!infp_debug_is_on())
                return;
        us = (infp_clock_ns(CLOCK_MONOTONIC) - start_ns) / 1000;
        pthread_mutex_lock(&lock);
        line = lines[n_lines++ % LINES];
        n = snprintf(line, LINE_SIZE, "+%llu.%03llu ms ", us / 1000, us % 1000);
        va_start(ap, format);
        vsnprintf(line + n, LINE_SIZE - (size_t) n, format, ap);
        va_end(ap);
        pthread_mutex_unlock(&lock);
}

unsigned long infp_debug_each(void (*each)(void *context, const char *line), void *context)
{
        unsigned long first;

        if (!infp_debug_is_on())
                return 0;
        pthread_mutex_lock(&lock);
        first = n_lines > LINES ? n_lines - LINES : 0;
        for (unsigned long i = first; i < n_lines; i++)
                each(context, lines[i % LINES]);
        pthread_mutex_unlock(&lock);
        return first;
}
