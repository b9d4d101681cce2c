#include "collect/process_stat.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"

/* Fields after the name, as proc(5) numbers them less 3. The last ones came with Linux 3.3 and 3.5. */
enum stat_field {
        STATE,
        PPID,
        PGRP,
        SESSION,
        MINFLT = 7,
        CMINFLT,
        MAJFLT,
        CMAJFLT,
        UTIME,
        STIME,
        CUTIME,
        CSTIME,
        NUM_THREADS = 17,
        STARTTIME = 19,
        VSIZE,
        RSS,
        START_CODE = 23,
        END_CODE,
        START_STACK,
        PROCESSOR = 36,
        BLKIO = 39,
        ARG_START = 45,
        ARG_END,
        ENV_START,
        ENV_END,
        N_FIELDS,
        N_NEEDED = BLKIO + 2, /* one more than is used: the end of a cut text may be half a number */
};

struct cursor {
        const char *at, *end;
};

/* Each field is a blank and a decimal number, perhaps negative; unsigned ones reach 2^64 - 1. Negative ones come back as
 * two's complement. */
static bool take_number(struct cursor *c, uint64_t *ret)
{
        bool is_negative = false;
        uint64_t v = 0;
        const char *start;

        if (c->at == c->end || *c->at != ' ')
                return false;
        c->at++;
        if (c->at < c->end && *c->at == '-') {
                is_negative = true;
                c->at++;
        }
        for (start = c->at; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
                if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t) (*c->at - '0'), &v))
                        return false;
        if (c->at == start || (is_negative && v > INT64_MAX))
                return false;
        *ret = is_negative ? -v : v;
        return true;
}

static bool take_pid(struct cursor *c, int32_t *ret)
{
        uint64_t v = 0;
        const char *start = c->at;

        for (; c->at < c->end && *c->at >= '0' && *c->at <= '9' && v <= INT32_MAX; c->at++)
                v = v * 10 + (uint64_t) (*c->at - '0');
        if (c->at == start || v > INT32_MAX)
                return false;
        *ret = (int32_t) v;
        return true;
}

static bool fits(const uint64_t *f)
{
        static const enum stat_field ints[] = { PPID, PGRP, SESSION, NUM_THREADS, PROCESSOR };

        for (size_t i = 0; i < sizeof(ints) / sizeof(*ints); i++)
                if ((int64_t) f[ints[i]] != (int32_t) f[ints[i]])
                        return false;
        return true;
}

/* Where the program is in memory: random at each exec, and shown only to those who may trace the process (else 0 or 1). */
static uint64_t image_of(const uint64_t *f)
{
        static const enum stat_field layout[] = { START_CODE, END_CODE,  START_STACK, ARG_START,
                                                  ARG_END,    ENV_START, ENV_END };
        uint64_t h = 0;

        if (f[START_CODE] <= 1)
                return 0;
        for (size_t i = 0; i < sizeof(layout) / sizeof(*layout); i++)
                h = (h ^ f[layout[i]]) * UINT64_C(0x9E3779B97F4A7C15);
        return h ? h : 1;
}

static void fill(struct infp_process *p, char state, const uint64_t *f)
{
        p->state = state;
        p->ppid = (int32_t) f[PPID];
        p->pgrp = (int32_t) f[PGRP];
        p->session = (int32_t) f[SESSION];
        p->minor_faults = f[MINFLT];
        p->child_minor_faults = f[CMINFLT];
        p->major_faults = f[MAJFLT];
        p->child_major_faults = f[CMAJFLT];
        p->utime = f[UTIME];
        p->stime = f[STIME];
        p->cutime = (int64_t) f[CUTIME];
        p->cstime = (int64_t) f[CSTIME];
        p->n_threads = (int32_t) f[NUM_THREADS];
        p->start_ticks = f[STARTTIME];
        p->vsize_bytes = f[VSIZE];
        p->rss_pages = f[RSS];
        p->processor = (int32_t) f[PROCESSOR];
        p->blkio_ticks = f[BLKIO];
        p->image = image_of(f);
}

int infp_process_stat_parse(const char *text, size_t size, struct infp_process *ret)
{
        struct cursor c = { text, text + size };
        uint64_t f[N_FIELDS] = { 0 };
        const char *open, *close;
        size_t name_size;
        int32_t pid;
        char state;
        int n;

        /* The name is between the first '(' and the last ')': it may contain both, and blanks and line feeds. */
        if (!take_pid(&c, &pid) || c.end - c.at < 2 || c.at[0] != ' ' || c.at[1] != '(')
                return -EBADMSG;
        open = c.at + 2;
        close = memrchr(open, ')', (size_t) (c.end - open));
        if (!close || c.end - close < 4 || close[1] != ' ')
                return -EBADMSG;
        state = close[2];
        c.at = close + 3;
        for (n = PPID; n < N_FIELDS && take_number(&c, &f[n]); n++)
                ;
        if (n < N_NEEDED || !fits(f))
                return -EBADMSG;
        name_size = (size_t) (close - open);
        if (name_size > sizeof(ret->comm))
                name_size = sizeof(ret->comm);
        ret->pid = pid;
        memcpy(ret->comm, open, name_size);
        ret->comm_size = (uint8_t) name_size;
        fill(ret, state, f);
        return 0;
}

int infp_process_stat_read(int root_fd, int32_t pid, struct infp_process *ret)
{
        char path[32], text[1024];
        ssize_t n;

        snprintf(path, sizeof(path), "proc/%" PRId32 "/stat", pid);
        n = infp_read_at(root_fd, path, text, sizeof(text));
        *ret = (struct infp_process){ 0 };
        return n < 0 ? (int) n : infp_process_stat_parse(text, (size_t) n, ret);
}
