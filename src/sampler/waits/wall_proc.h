/* What /proc says of a thread that nobody stops. A thread that is blocked in the kernel does not move: what is read of it, and is
 * still the same afterwards, is true. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/map.h"
#include "unwind/rule.h"

enum {
        INFP_WALL_WCHAN = 64,
        INFP_WALL_CALL_TEXT = 208, /* /proc/TID/syscall: a number and eight of 18 digits */
        INFP_WALL_SCHED_TEXT = 72, /* /proc/TID/schedstat: three numbers */
};

/* A moment of a thread. */
struct infp_wall_moment {
        uint64_t t_ns;
        char letter;                 /* as in stat: R (runs, or would if it had a CPU), S, D, T, t ...; 0: not told */
        bool has_call;               /* `call` is known; else the kernel hides it, or the thread runs */
        int64_t call;                /* its system call; -1: it blocked elsewhere, in a page fault for instance */
        char wchan[INFP_WALL_WCHAN]; /* kernel function that it waits in; "": not told */
        bool has_registers;
        uint64_t registers[INFP_N_REGISTERS]; /* by DWARF number */
        uint32_t unknown;                     /* bit r: registers[r] is not told */
};

/* The text of /proc/TID/syscall: letter ('R' or 0), the call and the registers. 0 or -EBADMSG. */
int infp_wall_parse_call(const char *text, size_t size, struct infp_wall_moment *ret);
/* The state in the text of /proc/TID/stat; 0 when there is none. */
char infp_wall_parse_letter(const char *text, size_t size);

/* Which turns on a CPU a thread has begun and ended. */
struct infp_wall_turns {
        uint64_t n_begun; /* /proc/TID/schedstat */
        uint64_t n_ended; /* /proc/TID/sched */
        /* When its CPU time was counted last, by its CPU's clock: as its last turn ended, or in a turn. */
        uint64_t counted_ns;
};

/* n_ended and counted_ns in the text of /proc/TID/sched: 0 or -EBADMSG. */
int infp_wall_parse_turns(const char *text, size_t size, struct infp_wall_turns *ret);

/* Descriptors that may be kept. */
struct infp_wall_keeper {
        uint32_t n_kept, cap;
};

enum infp_wall_file {
        INFP_WALL_FILE_SCHEDSTAT,
        INFP_WALL_FILE_CHECK, /* syscall, or stat where that is refused */
        INFP_WALL_FILE_STAT,
        INFP_WALL_FILE_WCHAN,
        INFP_WALL_FILE_SCHED,
        INFP_WALL_FILES,
};

struct infp_wall_thread {
        int32_t pid, tid;
        int fd[INFP_WALL_FILES]; /* -1: not kept */
        bool hides_call;         /* /proc/TID/syscall is refused: the check is by stat */
        bool is_known;           /* what was read last is below */
        bool was_blocked;
        uint8_t n_whole;      /* times that it was read whole; stops at a few */
        uint32_t stack_bytes; /* to copy next time */
        /* Of another reader: CPU time and turns on a CPU that it has seen, and its last state; looks at which it had a CPU, and CPU time
         * meanwhile, CPU time since the last one; samples that are due. Turns begun less turns ended while it has a CPU. */
        bool is_met;
        char letter;
        uint64_t cpu_ns, n_turns, n_looks, used_ns, unseen_ns;
        double due;
        int64_t open_turns;
        uint8_t sched_size, check_size;
        char sched[INFP_WALL_SCHED_TEXT];
        char check[INFP_WALL_CALL_TEXT];
        /* Of Python, as wall_python.c keeps it; zeros at first. */
        int32_t own_number; /* in its own pid namespace */
        uint32_t python_place;
        uint64_t python_program, python_list;
        uint64_t python_again_ns, python_pause_ns;
        bool waits_in_gil; /* when it was read last it slept in one of the GIL's condition variables */
};

/* What else is read of a thread that is blocked, between the looks that prove that it did not move meanwhile. */
struct infp_wall_also {
        void (*read)(void *context, struct infp_wall_thread *thread, const struct infp_wall_moment *moment);
        void *context;
};

enum infp_wall_found {
        INFP_WALL_IDLE,    /* it has not run since it was read last */
        INFP_WALL_CHANGED, /* ret_moment is new */
        INFP_WALL_TORN,    /* the same, but it moved while its stack was read, twice: there is none */
        INFP_WALL_GONE,    /* it has ended, or is about to */
        INFP_WALL_FAILED,  /* no descriptor was free: not read this time */
};

/* What of it could not be had, for table `sources`; errno's, 0 when nothing was refused. */
struct infp_wall_refused {
        int call, stack;
        int32_t pid;
};

void infp_wall_thread_init(struct infp_wall_thread *thread, int32_t pid, int32_t tid, uint32_t stack_bytes);
void infp_wall_thread_close(struct infp_wall_keeper *keeper, struct infp_wall_thread *thread);

/* Reads it. stack: room of cap bytes for a copy of the stack from the stack pointer on, NULL: none is wanted; *ret_size: what was
 * copied, 0 where that is not possible. also NULL: nothing; it is not called where the kernel cannot prove anything. */
enum infp_wall_found infp_wall_thread_read(struct infp_wall_keeper *keeper, int proc_fd,
                                           struct infp_wall_thread *thread, struct infp_wall_moment *ret,
                                           uint8_t *stack, uint32_t cap, uint32_t *ret_size,
                                           const struct infp_wall_also *also, struct infp_wall_refused *refused);

/* CPU time that it has used, as of the kernel's last tick at least, and its state (0: not told). 0 or a negative errno. */
int infp_wall_thread_time(struct infp_wall_keeper *keeper, int proc_fd, struct infp_wall_thread *thread,
                          uint64_t *ret_ns, char *ret_letter);

/* The turns of it, of one moment. 0 or a negative errno; -ENOENT: a kernel that does not tell. */
int infp_wall_thread_turns(struct infp_wall_keeper *keeper, int proc_fd, struct infp_wall_thread *thread,
                           struct infp_wall_turns *ret);

/* The pages from an address on that can be read, up to cap bytes: how many bytes, or a negative errno. */
ssize_t infp_wall_read_stack(int32_t tid, uint64_t from, uint8_t *stack, uint32_t cap);

/* "sys_futex": the frame of its system call; "" when that is not told. */
void infp_wall_call_name(const struct infp_wall_moment *moment, char *ret, size_t cap);
/* "sleeping in futex". */
void infp_wall_state(const struct infp_wall_moment *moment, char *ret, size_t cap);

/* The one copy of a text, which stays until infp_wall_words_done; zeroed memory is an empty map. NULL: there are too many, or no memory. */
const char *infp_wall_word(struct infp_map *words, const char *text);
void infp_wall_words_done(struct infp_map *words);
