/* What readers left out of a run. DuckDB's threads read tables side by side, hence the lock. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/run.h"

enum { MOST_NOTES = 16 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static bool is_noted(const struct infp_run_notes *notes, const char *text)
{
        for (unsigned i = 0; i < notes->n; i++)
                if (!strcmp(notes->list[i], text))
                        return true;
        return false;
}

static void add(struct infp_run_notes *notes, const char *text)
{
        char **more = notes->n < MOST_NOTES ? reallocarray(notes->list, notes->n + 1, sizeof(*more)) : NULL;

        if (more)
                notes->list = more;
        if (!more || !(more[notes->n] = strdup(text)))
                notes->n_more++;
        else
                notes->n++;
}

void infp_run_note(struct infp_run *run, const char *format, ...)
{
        char text[1024];
        va_list ap;

        va_start(ap, format);
        vsnprintf(text, sizeof(text), format, ap);
        va_end(ap);
        pthread_mutex_lock(&lock);
        if (!is_noted(&run->notes, text))
                add(&run->notes, text);
        pthread_mutex_unlock(&lock);
}

void infp_run_notes_done(struct infp_run_notes *notes)
{
        for (unsigned i = 0; i < notes->n; i++)
                free(notes->list[i]);
        free(notes->list);
        *notes = (struct infp_run_notes){ 0 };
}
