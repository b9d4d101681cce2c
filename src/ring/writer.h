/* Writes records into the ring file of this process (wire.h). libc only, no heap, no locks that wait: libinfprof and the agents
 * include this inside targets. Each library that links it has a file of its own.
 *
 *      if (!infp_writer_is_off() && (thread = infp_writer_begin())) {
 *              infp_writer_put(thread, INFP_WIRE_KEEP, &record, sizeof record, texts, n_texts);
 *              infp_writer_end();
 *      }
 *
 * Between begin and end a signal handler of the same thread gets NULL, so nothing of ours is ever entered twice. After fork the
 * child's first begin makes a file of its own; vfork's child writes into that of its parent, whose thread waits. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "ring/wire.h"

enum infp_writer_state {
        INFP_WRITER_OFF,
        INFP_WRITER_ON,
        INFP_WRITER_PAUSED, /* by a setting: calls still look whether it has changed */
        INFP_WRITER_DUE /* to record, but there is no file yet: the next begin makes it, or has to wait after a failure */
};
extern _Atomic uint32_t infp_writer_state;

static inline bool infp_writer_is_off(void)
{
        return atomic_load_explicit(&infp_writer_state, memory_order_relaxed) == INFP_WRITER_OFF;
}

/* Records from now on. 0, or -errno of why no file could be made. */
int infp_writer_enable(void);
void infp_writer_disable(void);
void infp_writer_remove(void); /* the file's name: nobody will read it */
bool infp_writer_is_on(void);  /* false also while no file can be made */

enum { INFP_WRITER_OWN = 960 };
struct infp_writer_thread {
        struct infp_writer_slot {
                struct infp_wire_chunk *chunk;
                uint32_t used; /* INFP_WRITER_ROOM: claim a chunk first */
        } slot[INFP_WIRE_CLASSES];
        uint64_t next_id;
        _Atomic uint32_t tid; /* 0: nobody's */
        _Atomic uint32_t next_free;
        uint32_t index;
        uint64_t begin_ns;
        _Alignas(64) unsigned char own[INFP_WRITER_OWN]; /* the caller's; zeros at first and after enable */
};
enum { INFP_WRITER_ROOM = INFP_WIRE_CHUNK - (int) sizeof(struct infp_wire_chunk) };

/* Lies in a page that the kernel gives to a child of fork as zeros: so the child knows, and no lock stays held by a thread that
 * it does not have. */
struct infp_writer_page {
        _Atomic uint32_t epoch; /* of the recording; 0: no file that is ours */
        _Atomic uint32_t opening, arena_lock, metric_lock, grow_lock, reap_lock, settings_lock;
};
extern struct infp_writer_page *_Atomic infp_writer_page;

struct infp_writer_self {
        struct infp_writer_thread *thread;
        uint32_t epoch;
        _Atomic uint32_t busy;
};
/* Initial-exec: no call to find it, and no memory that the loader gets at a thread's first use, maybe in a signal handler. */
extern _Thread_local struct infp_writer_self infp_writer_self __attribute__((tls_model("initial-exec")));

/* In the file's page of settings, and how much of it is dealt with (writer_settings.c). */
extern _Atomic uint32_t *_Atomic infp_writer_asked;
extern _Atomic uint32_t infp_writer_heard;
static inline bool infp_writer_is_asked(void)
{
        const _Atomic uint32_t *asked = atomic_load_explicit(&infp_writer_asked, memory_order_relaxed);

        return atomic_load_explicit(asked, memory_order_relaxed) !=
               atomic_load_explicit(&infp_writer_heard, memory_order_relaxed);
}

struct infp_writer_thread *infp_writer_begin_anew(void);
void infp_writer_count_busy(void);

static inline void infp_writer_end(void)
{
        atomic_signal_fence(memory_order_seq_cst);
        atomic_store_explicit(&infp_writer_self.busy, 0, memory_order_relaxed);
}

/* NULL: does not record, or interrupted itself; then no end. */
static inline struct infp_writer_thread *infp_writer_begin(void)
{
        struct infp_writer_self *self = &infp_writer_self;
        struct infp_writer_page *page;
        uint32_t epoch;

        if (__builtin_expect(atomic_load_explicit(&self->busy, memory_order_relaxed), 0)) {
                infp_writer_count_busy();
                return NULL;
        }
        atomic_store_explicit(&self->busy, 1, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
        page = atomic_load_explicit(&infp_writer_page, memory_order_acquire);
        epoch = atomic_load_explicit(&page->epoch, memory_order_acquire);
        if (__builtin_expect(epoch && epoch == self->epoch && !infp_writer_is_asked(), 1))
                return self->thread;
        return infp_writer_begin_anew();
}

static inline uint64_t infp_writer_now_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
}

/* What follows is for between begin and end. */

/* A text that lies in the record itself; put fills the field. */
struct infp_writer_text {
        struct infp_wire_text *field;
        const char *text;
        uint32_t size;
};
/* record: starts with struct infp_wire_record whose kind, flags and t_ns are set. size: of its fixed part, a multiple of 8. With
 * its texts (each rounded up to 8) at most INFP_WIRE_MAX_RECORD; a stack may fill a chunk. Returns where it lies; NULL: there is no
 * room, it is dropped and counted. */
uint64_t *infp_writer_put(struct infp_writer_thread *thread, enum infp_wire_class class, void *record, uint32_t size,
                          const struct infp_writer_text *texts, unsigned n_texts);

/* Bytes of text, at most `max` of them, cut at a character's edge: then flagged and counted. */
uint32_t infp_writer_measure(const char *text, uint32_t max, uint8_t *flags);

/* Where the text lies in the arena; 0: it has no room there (or is longer than INFP_WRITER_NAME): put it into the record. */
uint32_t infp_writer_intern(const char *text, uint32_t size);
enum { INFP_WRITER_NAME = 255 };

/* Unique within the file, and with all likelihood among all processes; never 0. */
static inline uint64_t infp_writer_new_id(struct infp_writer_thread *thread)
{
        uint64_t id = thread->next_id++;

        return id ? id : thread->next_id++;
}

/* Interned stacks and code (writer_stack.c), for agents alone: the stacks are for the heap agent to come, since today's sampler agent sends
 * whole samples, which name code alone. Ids belong to this file: a child of fork gets others. 0: no room (counted), or no frame.
 * One that was sent before costs only a look-up. Safe in signal handlers, as all else here. */
struct infp_writer_stack {
        const uint64_t *native; /* innermost first; beyond INFP_WIRE_FRAMES they are cut, and flagged */
        const struct infp_wire_python *python;
        uint32_t n_native, n_python;
        uint32_t epoch;
        uint8_t flags; /* enum infp_wire_flags */
};
uint32_t infp_writer_stack(struct infp_writer_thread *thread, const struct infp_writer_stack *stack);
bool infp_writer_is_full(void); /* there is no room for new ones, and never will be */
uint32_t infp_writer_code(struct infp_writer_thread *thread, const char *file, const char *function, uint32_t line);

/* A site (wire.h) of a stack, which may be 0, in the list of the head: its place, and where that is. 0: no room. */
uint32_t infp_writer_site(struct infp_writer_thread *thread, uint32_t stack);
struct infp_wire_site *infp_writer_site_at(uint32_t place);

struct infp_writer_thread *infp_writer_thread_at(uint32_t index); /* of any thread; NULL: there was none */
/* Set before the first file: it is that of a sampler, or of a heap agent (wire.h). */
extern uint32_t infp_writer_sampler_hz_1000;
extern uint64_t infp_writer_heap_mean;
uint32_t
infp_writer_file_number(void); /* differs between a process and its children: handles of another file are not ours */
struct infp_wire_head *infp_writer_head(void);

/* Counters and gauges. They may be registered before anything is recorded, outside of begin and end. Returns number + 1; 0: no
 * room, no name, or there is one of the other kind. */
uint32_t infp_writer_metric(const char *name, const char *unit, const char *help, enum infp_wire_metric_kind kind);
/* NULL: not in the file. Between begin and end. */
struct infp_wire_metric *infp_writer_metric_at(uint32_t number);

/* Tables of rows (writer_table.c), registered as metrics are. Returns number + 1; 0: no room, no name, no column, or too many. */
uint32_t infp_writer_table(const char *name, const char *columns);
enum { INFP_WRITER_TABLES = 64 };
/* Between begin and end: the table's id in this file, which gets its record when it has none; 0: there is no room for that. */
uint32_t infp_writer_table_id(struct infp_writer_thread *thread, uint32_t number);

/* Settings (writer_settings.c), registered as metrics are, each with its value as long as nobody has asked for another. Returns number + 1;
 * 0: no room, no name, or too long. */
uint32_t infp_writer_setting(const char *key, const char *value, const char *may_be);
/* The text that was asked for and not answered yet; false: none. */
bool infp_writer_setting_asked(uint32_t number, char *ret, size_t cap);
void infp_writer_setting_is(uint32_t number, const char *value, const char *source);
void infp_writer_setting_answer(uint32_t number, const char *refused);
enum { INFP_WRITER_VALUE = 64 }; /* bytes of a value, with its end */
