/* Where threads wait: the time between the loss of a CPU and the next one, by the records of switches, with the stack of that moment.
 * The stack comes from perf, taken as the thread left its CPU, where that is allowed; else from the reader of wall_reader.h, if it
 * read the thread during that very wait. A wait that nobody has a stack of is told without one.
 * Belongs to the thread that makes stacks. */
#pragma once

#include "base/map.h"
#include "sampler/stacks/stack.h"
#include "sampler/waits/wall_reader.h"

struct infp_off_cpu_wait;
struct infp_off_cpu_place;

struct infp_off_cpu_waits {
        struct infp_stacks *stacks;
        const struct infp_mode_context *context; /* NULL: there is no Python */
        uint64_t least_ns;                       /* shorter waits are told in sums, without stacks */
        struct infp_wall_reader *reader;         /* NULL: nobody reads larger copies of stacks */
        struct infp_map threads;                 /* tid -> struct thread */
        struct infp_map words;                   /* hash -> text */
        struct infp_map states;                  /* stack -> text: what those who wait there wait for */
        struct infp_off_cpu_wait *open;          /* a thread waits */
        struct infp_off_cpu_wait *closed;        /* over; what was read during it may still come */
        struct infp_off_cpu_wait *telling;       /* over; their stacks are not known yet */
        struct infp_off_cpu_place *places;       /* all that infp_stacks or a thread has */
        bool is_timed; /* the kernel times the waits of each thread, from its first turn on a CPU on */
        uint32_t n_waits, n_places;
        size_t copied_bytes;
        uint64_t told_ns;                  /* last look at sums */
        uint64_t round_ns;                 /* of the reader, that ended last */
        uint64_t n_taken, n_short, n_lost; /* waits: told, too short, with a begin or end that is missing */
        uint64_t n_filtered;               /* of the short ones: the kernel has summed them */
        uint64_t n_switches, switched_ns;  /* threads lost a CPU so often; the last time */
        uint64_t n_refused;                /* waits for which there was no room: each once */
};

enum { INFP_OFF_CPU_MAX_THREADS = 65536, INFP_OFF_CPU_MAX_WAITS = 65536, INFP_OFF_CPU_MAX_COPIED = 16 << 20 };

void infp_off_cpu_waits_init(struct infp_off_cpu_waits *waits, struct infp_stacks *stacks, uint64_t least_ns);
void infp_off_cpu_waits_done(struct infp_off_cpu_waits *waits); /* not before infp_stacks_end */

/* Records, in the order of time. A sample comes just before the record of its switch. */
void infp_off_cpu_moved(struct infp_off_cpu_waits *waits, const struct infp_perf_sample *sample);
void infp_off_cpu_run(struct infp_off_cpu_waits *waits, uint64_t t_ns, int32_t pid, int32_t tid, bool is_in,
                      bool is_preempted);
/* The same of waits that the kernel has timed: one that is over; and a thread of its map, which is a sum of short ones and says whether
 * one goes on: that is believed if it has begun before began_ns, since a sample of it may be on its way. */
void infp_off_cpu_waited(struct infp_off_cpu_waits *waits, const struct infp_perf_sample *sample);
void infp_off_cpu_look(struct infp_off_cpu_waits *waits, int key, const struct infp_switch_thread *seen,
                       uint64_t began_ns);
/* The key of a thread in that map, as far as it is known. */
int infp_off_cpu_key(const struct infp_off_cpu_waits *waits, int32_t tid);
void infp_off_cpu_fork(struct infp_off_cpu_waits *waits, int32_t pid, int32_t tid);
void infp_off_cpu_exit(struct infp_off_cpu_waits *waits, uint64_t t_ns, int32_t tid);
/* What the reader reports. */
void infp_off_cpu_take(void *waits, const struct infp_wall_message *message);

/* Behind the records and messages of one reading: what is over becomes rows. */
void infp_off_cpu_turn(struct infp_off_cpu_waits *waits, uint64_t now_ns);
/* The recording ends: what is still open gets its time until now. */
void infp_off_cpu_end(struct infp_off_cpu_waits *waits, uint64_t now_ns);
