#include "script.h"

#include <fnmatch.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "shapes.h"

enum { LINES = 4096, CALLS = 4096 };

static struct fake_line lines[LINES];
static unsigned n_lines;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct timespec begun, begun_wall;
static unsigned n_inits;
static bool was_read;
/* How often each function was called for each device. */
static struct call {
        const char *function;
        int index, part;
        unsigned n;
} calls[CALLS];
static unsigned n_calls;
static _Thread_local unsigned call_now;

static __attribute__((noreturn, format(printf, 1, 2))) void die(const char *format, ...)
{
        va_list list;

        va_start(list, format);
        fputs("fake NVML: ", stderr);
        vfprintf(stderr, format, list);
        fputc('\n', stderr);
        va_end(list);
        _exit(99);
}

static char *copy(const char *text)
{
        char *ret = strdup(text);

        if (!ret)
                die("no memory");
        return ret;
}

/* "*", "2", "0-9", "0/1", "0/ *", "system" */
static void read_who(struct fake_line *line, const char *who)
{
        char *end;

        *line = (struct fake_line){ .first = 0, .last = FAKE_DEVICES - 1, .part = FAKE_WHOLE, .until_ms = INFINITY };
        if (!strcmp(who, "system")) {
                line->first = line->last = FAKE_SYSTEM;
                return;
        }
        if (*who == '*') {
                end = (char *) who + 1;
        } else {
                line->first = line->last = (int) strtol(who, &end, 10);
                if (*end == '-')
                        line->last = (int) strtol(end + 1, &end, 10);
        }
        if (*end == '/') {
                line->any_part = end[1] == '*';
                line->part = line->any_part ? 0 : (int) strtol(end + 1, &end, 10);
        } else if (*end) {
                die("\"%s\" is no device", who);
        }
}

/* NAME=V at the end of a line. false: a word of the value. */
static bool read_option(struct fake_line *line, const char *word)
{
        const char *v = strchr(word, '=');
        const struct {
                const char *name;
                double *to;
        } numbers[] = { { "at", &line->at_ms },
                        { "until", &line->until_ms },
                        { "rate", &line->rate },
                        { "step", &line->step_ms } };

        if (!v)
                return false;
        v++;
        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
                if (!strncmp(word, numbers[i].name, (size_t) (v - 1 - word)) && !numbers[i].name[v - 1 - word]) {
                        *numbers[i].to = strtod(v, NULL);
                        return true;
                }
        if (!strncmp(word, "call=", 5)) {
                line->from_call = (unsigned) atoi(v);
        } else if (!strncmp(word, "rc=", 3)) {
                line->code = atoi(v);
                line->has_code = true;
        } else if (!strncmp(word, "delay=", 6)) {
                line->delay_ms = (unsigned) atoi(v);
        } else if (!strncmp(word, "while=", 6)) {
                line->path = copy(v);
        } else {
                return false;
        }
        return true;
}

static void read_script(const char *path, const char *who);

static void read_line(char *text, const char *who, unsigned number)
{
        struct fake_line *line = &lines[n_lines];
        char value[512] = "", *save = NULL, *word;

        text[strcspn(text, "\n")] = '\0';
        if (!who)
                who = strtok_r(text, " \t", &save);
        word = save || !who ? strtok_r(NULL, " \t", &save) : strtok_r(text, " \t", &save);
        if (!who || *who == '#' || !word || *word == '#')
                return;
        if (n_lines == LINES)
                die("more than %d lines", LINES);
        read_who(line, who);
        line->number = number;
        line->key = copy(word);
        while ((word = strtok_r(NULL, " \t", &save))) {
                if (read_option(line, word))
                        continue;
                if (*value)
                        strncat(value, " ", sizeof(value) - strlen(value) - 1);
                strncat(value, word, sizeof(value) - strlen(value) - 1);
        }
        line->value = copy(value);
        if (!strcmp(line->key, "profile")) {
                char path[1024];

                snprintf(path, sizeof(path), "%s/%s", FAKE_NVML_PROFILES, value);
                free(line->key);
                free(line->value);
                word = copy(who);
                read_script(path, word);
                free(word);
                return;
        }
        n_lines++;
}

/* The lines of a profile name no device: `who` is theirs. */
static void read_script(const char *path, const char *who)
{
        FILE *file = fopen(path, "re");
        char text[1024];
        unsigned number = 0;

        if (!file)
                die("%s cannot be read", path);
        while (fgets(text, sizeof(text), file))
                read_line(text, who, ++number);
        fclose(file);
}

/* When the library is unloaded; leak checkers would miss them. */
static __attribute__((destructor)) void forget(void)
{
        for (unsigned i = 0; i < n_lines; i++) {
                free(lines[i].key);
                free(lines[i].value);
                free(lines[i].path);
        }
        n_lines = 0;
}

int fake_begin(const char *function)
{
        const char *path = getenv("FAKE_NVML_SCRIPT");

        pthread_mutex_lock(&mutex);
        if (!was_read) {
                was_read = true;
                clock_gettime(CLOCK_MONOTONIC, &begun);
                clock_gettime(CLOCK_REALTIME, &begun_wall);
                if (!path)
                        die("FAKE_NVML_SCRIPT is not set");
                read_script(path, NULL);
        }
        pthread_mutex_unlock(&mutex);
        return fake_enter(NULL, function);
}

void fake_end(void)
{
        pthread_mutex_lock(&mutex);
        n_inits -= n_inits > 0;
        pthread_mutex_unlock(&mutex);
}

double fake_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double) (now.tv_sec - begun.tv_sec) * 1e3 + (double) (now.tv_nsec - begun.tv_nsec) / 1e6;
}

double fake_clock_us(void)
{
        return (double) begun_wall.tv_sec * 1e6 + (double) begun_wall.tv_nsec / 1e3;
}

uint64_t fake_us(void)
{
        return (uint64_t) (fake_clock_us() + fake_ms() * 1e3);
}

static bool is_of(const struct fake_line *line, const struct fake_device *device)
{
        if (!device)
                return line->first == FAKE_SYSTEM;
        if (device->index < line->first || device->index > line->last)
                return false;
        return device->part == line->part || (line->any_part && device->part != FAKE_WHOLE);
}

static bool holds(const struct fake_line *line, double ms)
{
        return ms >= line->at_ms && ms < line->until_ms && (!line->from_call || call_now >= line->from_call) &&
               (!line->path || access(line->path, F_OK) == 0);
}

const struct fake_line *fake_line_at(const struct fake_device *device, const char *key, double ms)
{
        for (unsigned i = n_lines; i-- > 0;)
                if (!strcmp(lines[i].key, key) && is_of(&lines[i], device) && holds(&lines[i], ms))
                        return &lines[i];
        return NULL;
}

const struct fake_line *fake_line(const struct fake_device *device, const char *key)
{
        return fake_line_at(device, key, fake_ms());
}

/* Another line of the same thing comes later and holds too. */
static bool is_replaced(unsigned at, const struct fake_device *device, double ms)
{
        for (unsigned i = at + 1; i < n_lines; i++)
                if (!strcmp(lines[i].key, lines[at].key) && atoi(lines[i].value) == atoi(lines[at].value) &&
                    is_of(&lines[i], device) && holds(&lines[i], ms))
                        return true;
        return false;
}

const struct fake_line *fake_next(const struct fake_device *device, const char *key, unsigned *at)
{
        const double ms = fake_ms();

        while (*at < n_lines) {
                const unsigned i = (*at)++;

                if (!strcmp(lines[i].key, key) && is_of(&lines[i], device) && holds(&lines[i], ms) &&
                    !strstr(lines[i].value, "gone") && !is_replaced(i, device, ms))
                        return &lines[i];
        }
        return NULL;
}

const char *fake_text(const struct fake_device *device, const char *key)
{
        const struct fake_line *line = fake_line(device, key);

        return line && *line->value && strcmp(line->value, "none") ? line->value : NULL;
}

double fake_number_of(const struct fake_line *line, double ms)
{
        double since = ms - line->at_ms;

        if (line->step_ms > 0)
                since = floor(since / line->step_ms) * line->step_ms;
        /* Whole numbers past 2^53 (N/A is 2^64 - 1) stay what they are. */
        return strtod(line->value, NULL) + line->rate * since / 1e3;
}

bool fake_number(const struct fake_device *device, const char *key, double *ret)
{
        const struct fake_line *line = fake_line(device, key);

        if (!line || !*line->value || !strcmp(line->value, "none"))
                return false;
        *ret = fake_number_of(line, fake_ms());
        return true;
}

bool fake_u64(const struct fake_device *device, const char *key, uint64_t *ret)
{
        const struct fake_line *line = fake_line(device, key);

        if (!line || !*line->value || !strcmp(line->value, "none"))
                return false;
        *ret = strtoull(line->value, NULL, 0) +
               (uint64_t) (int64_t) (fake_number_of(line, fake_ms()) - strtod(line->value, NULL));
        return true;
}

double fake_word(const struct fake_line *line, const char *name, double otherwise)
{
        const size_t size = strlen(name);

        for (const char *at = line->value; (at = strstr(at, name)); at += size)
                if (at > line->value && at[-1] == ' ' && at[size] == '=')
                        return strtod(at + size + 1, NULL);
        return otherwise;
}

static unsigned count_call(const struct fake_device *device, const char *function)
{
        const int index = device ? device->index : FAKE_SYSTEM, part = device ? device->part : FAKE_WHOLE;

        for (unsigned i = 0; i < n_calls; i++)
                if (calls[i].index == index && calls[i].part == part && !strcmp(calls[i].function, function))
                        return ++calls[i].n;
        if (n_calls == CALLS)
                die("more than %d functions and devices", CALLS);
        calls[n_calls++] = (struct call){ .function = function, .index = index, .part = part, .n = 1 };
        return 1;
}

static void wait_ms(unsigned ms)
{
        struct timespec rest = { .tv_sec = ms / 1000, .tv_nsec = (long) (ms % 1000) * 1000000 };

        while (nanosleep(&rest, &rest) < 0)
                ;
}

/* The last line that names the function, or a pattern that it fits. */
static const struct fake_line *line_of(const struct fake_device *device, const char *function, bool code)
{
        const double ms = fake_ms();

        for (unsigned i = n_lines; i-- > 0;)
                if ((code ? lines[i].has_code : lines[i].delay_ms) && is_of(&lines[i], device) &&
                    holds(&lines[i], ms) && fnmatch(lines[i].key, function, 0) == 0)
                        return &lines[i];
        return NULL;
}

int fake_enter(const struct fake_device *device, const char *function)
{
        const bool is_init = !strncmp(function, "nvmlInit", 8);
        const struct fake_line *line;
        double is_lost = 0;

        pthread_mutex_lock(&mutex);
        if (!n_inits && !is_init) {
                pthread_mutex_unlock(&mutex);
                return NVML_UNINITIALIZED;
        }
        call_now = count_call(device, function);
        pthread_mutex_unlock(&mutex);
        line = line_of(device, function, false);
        if (line)
                wait_ms(line->delay_ms);
        line = line_of(device, function, true);
        if (line && line->code)
                return line->code;
        if (is_init) {
                pthread_mutex_lock(&mutex);
                n_inits++;
                pthread_mutex_unlock(&mutex);
        }
        if (!device)
                return NVML_OK;
        return fake_number(device, "lost", &is_lost) && is_lost ? NVML_GPU_IS_LOST : NVML_OK;
}
