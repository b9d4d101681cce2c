/* What the files of the writer share: writer.c (calls), writer_file.c (the file), writer_pool.c (threads and their chunks),
 * writer_text.c (texts, counters and gauges), writer_settings.c (settings), writer_table.c (tables of rows), writer_stack.c (stacks). */
#pragma once

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/types.h>

#include "ring/writer.h"

enum {
        INFP_WRITER_PATH = 384,
        INFP_WRITER_FIRST_BYTES = 1024 * 1024, /* about 10,000 spans */
        INFP_WRITER_STEP_CHUNKS = 256,
        INFP_WRITER_LEAST_BYTES = 256 * 1024,
        INFP_WRITER_KINDS_AT = INFP_WIRE_PAGE,
        INFP_WRITER_METRICS_AT = 2 * INFP_WIRE_PAGE,
        INFP_WRITER_ARENA_AT = INFP_WRITER_METRICS_AT + INFP_WIRE_METRICS * (int) sizeof(struct infp_wire_metric),
        INFP_WRITER_SETTINGS_AT = INFP_WRITER_ARENA_AT + INFP_WIRE_ARENA,
        INFP_WRITER_CHUNKS_AT = INFP_WRITER_SETTINGS_AT + INFP_WIRE_PAGE,
        INFP_WRITER_MAX_CHUNKS = (INFP_WIRE_EXACT_BYTES - INFP_WRITER_CHUNKS_AT) / INFP_WIRE_CHUNK,
};

/* What the environment said when the program started: getenv is not for later, when other threads may change it. */
struct infp_writer_config {
        char directory[256]; /* empty: those of where.h */
        char runtime_directory[256];
        char run[40];
        uint32_t bytes; /* INFPROF_RING_BYTES; 0: not given */
};
extern struct infp_writer_config infp_writer_config;

/* The file of this process. Written while page->epoch is 0, by the thread that holds page->opening. */
struct infp_writer_file {
        char *base;
        size_t mapped;
        struct infp_wire_head *head;
        struct infp_wire_metric *metrics;
        char *arena;
        struct infp_wire_settings *settings;
        _Atomic uint32_t max_chunks; /* that it may have; no more than are mapped */
        _Atomic uint32_t n_chunks;   /* that may be touched; the head's is for readers, and others could write it */
        uint64_t salt;               /* of span ids */
        dev_t device;
        ino_t inode;
        char path[INFP_WRITER_PATH];
};
extern struct infp_writer_file infp_writer_file;

/* writer.c */
int infp_writer_make_page(void); /* 0 or -ENOMEM */
uint32_t infp_writer_fork_epoch(void);
bool infp_writer_try_lock(_Atomic uint32_t *lock, unsigned tries); /* never sleeps */
bool infp_writer_wait_lock(_Atomic uint32_t *lock); /* for what is done once: sleeps, for 20 ms or some more */
static inline void infp_writer_unlock(_Atomic uint32_t *lock)
{
        atomic_store_explicit(lock, 0, memory_order_release);
}
/* Around whatever makes system calls: for the program no call of ours changes errno or is a point of cancellation, at which its
 * thread would leave with a lock of ours, and out of a destructor of C++, which ends the program. */
struct infp_writer_quiet {
        int error, cancel_state;
};
static inline struct infp_writer_quiet infp_writer_quiet_begin(void)
{
        struct infp_writer_quiet quiet = { .error = errno };

        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &quiet.cancel_state);
        return quiet;
}
static inline void infp_writer_quiet_end(struct infp_writer_quiet quiet)
{
        pthread_setcancelstate(quiet.cancel_state, NULL);
        errno = quiet.error;
}
/* Around what takes a lock and system calls: a signal handler that leaves by siglongjmp would leave the lock held, and each call of
 * other threads waiting. Not those that a fault, a limit or a sandbox sends for what the thread itself does. */
static inline void infp_writer_block_signals(sigset_t *ret_before)
{
        static const int kept[] = { SIGSYS, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGXFSZ };
        sigset_t set;

        sigfillset(&set);
        for (unsigned i = 0; i < sizeof kept / sizeof kept[0]; i++)
                sigdelset(&set, kept[i]);
        pthread_sigmask(SIG_BLOCK, &set, ret_before);
}
static inline void infp_writer_add(_Atomic uint64_t *counter, uint64_t n)
{
        atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

/* Puts texts after the fixed part of a record: fills their fields and the record's size, which is returned. */
static inline uint32_t infp_writer_lay(struct infp_wire_record *record, uint32_t size,
                                       const struct infp_writer_text *texts, unsigned n_texts)
{
        for (unsigned i = 0; i < n_texts; i++) {
                texts[i].field->at = INFP_WIRE_INLINE | size;
                texts[i].field->size = texts[i].size;
                size += (texts[i].size + 7) & ~UINT32_C(7);
        }
        record->size = (uint16_t) size;
        return size;
}

/* writer_file.c */
int infp_writer_make_file(struct infp_writer_file *ret); /* makes, maps and fills it, up to head->ready. 0 or -errno */
void infp_writer_unmap(struct infp_writer_file *file);
void infp_writer_unlink(const struct infp_writer_file *file);
bool infp_writer_is_growing(void);
/* By a step; for threads, which may be many and come fast, by as much as there is. */
int infp_writer_grow(struct infp_writer_file *file, bool is_held, uint64_t now_ns);
uint32_t infp_writer_chunk_limit(const struct infp_writer_file *file, bool is_held, uint64_t now_ns);
uint64_t infp_writer_start_ticks(const char *stat_path); /* field 22; 0 where /proc does not say */
uint64_t infp_writer_parse(const char **text);           /* decimal digits */

/* writer_pool.c */
int infp_writer_pool_reset(void); /* before a file is used. -ENOMEM */
/* A chunk with room for `size` bytes. */
bool infp_writer_claim(struct infp_writer_thread *thread, enum infp_wire_class class, uint32_t size, uint64_t now_ns);
void infp_writer_thread_setup(void); /* once, early: later keys would need the heap */
void infp_writer_thread_done(void);
void infp_writer_thread_reset(void); /* in a child: nobody but us */
struct infp_writer_thread *infp_writer_thread_new(void);

/* writer_text.c */
extern _Atomic uint64_t *infp_writer_interned;
enum { INFP_WRITER_INTERNED = 4096 };
uint32_t infp_writer_size(const char *text, uint32_t max); /* cut at a character's edge */
uint64_t infp_writer_hash(const void *data, uint32_t size, uint64_t seed);
void infp_writer_metric_all(void); /* into a new file, under metric_lock */

/* writer_settings.c */
extern _Atomic uint32_t infp_writer_limit_bytes; /* asked for while it runs; 0: not */
void infp_writer_settings_all(void);             /* into a new file, before anyone uses it */
void infp_writer_settings_look(void);            /* between begin and end: does what is asked for of ours */
void infp_writer_settings_switch(bool is_on);    /* the program has done it itself */
bool infp_writer_pause(bool is_paused);          /* writer.c; false: the program itself has stopped recording */

/* writer_stack.c: upper bits of a hash | place. */
extern _Atomic uint64_t *infp_writer_stacks;
enum { INFP_WRITER_STACKS = 1 << 18 };

/* writer.c */
void infp_writer_copy(uint64_t *to, const char *text, uint32_t size);
