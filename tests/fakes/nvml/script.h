/* What the fake answers: a table read from the file FAKE_NVML_SCRIPT. README.md beside this says how it is written. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { FAKE_DEVICES = 16, FAKE_PARTS = 7, FAKE_WHOLE = -1, FAKE_SYSTEM = -2 };

/* A GPU, or a MIG device of one: what a handle points at. */
struct fake_device {
        int index;
        int part; /* FAKE_WHOLE, or the number of the MIG device */
};

struct fake_line {
        char *key, *value;
        int first, last; /* devices; FAKE_SYSTEM */
        int part;        /* FAKE_WHOLE: of GPUs alone */
        bool any_part;
        double at_ms, until_ms; /* since nvmlInit */
        unsigned from_call;     /* of this function on this device; 0: all */
        char *path;             /* holds while this file exists */
        double rate;            /* the number grows by this each second, from at_ms on */
        double step_ms;         /* and does so in steps */
        int code;
        bool has_code;
        unsigned delay_ms;
        unsigned number; /* of the line */
};

/* Each exported function begins with this (ENTER): what the script says of it, after its delay, else NVML_OK. */
int fake_enter(const struct fake_device *device, const char *function);
/* Of nvmlInit: reads the script once; an unreadable script ends the process. */
int fake_begin(const char *function);
void fake_end(void);

double fake_ms(void);       /* since the first nvmlInit */
uint64_t fake_us(void);     /* of the wall clock, as NVML stamps */
double fake_clock_us(void); /* of the wall clock at nvmlInit */

/* The last line that holds now. NULL device: the system. NULL: none. */
const struct fake_line *fake_line(const struct fake_device *device, const char *key);
const struct fake_line *fake_line_at(const struct fake_device *device, const char *key, double ms);
/* Lines of `process`, each process by its last one; *at begins at 0. NULL: no more. */
const struct fake_line *fake_next(const struct fake_device *device, const char *key, unsigned *at);

const char *fake_text(const struct fake_device *device, const char *key); /* NULL: not there */
bool fake_number(const struct fake_device *device, const char *key, double *ret);
bool fake_u64(const struct fake_device *device, const char *key, uint64_t *ret);
double fake_number_of(const struct fake_line *line, double ms);
/* The word NAME=V of a value. */
double fake_word(const struct fake_line *line, const char *name, double otherwise);
