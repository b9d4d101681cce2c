/* The program that reads Python frames in the kernel (frames.bpf.c): loads it, says to it which processes run Python, and takes what it
 * has read. libbpf is loaded when it is needed. Belongs to one thread. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "sampler/python/find.h"
#include "sampler/python/frames.h"
#include "sampler/waits/switches.h"

struct infp_bpf;

/* Whether there is a program, and a libbpf that loads it; whether the kernel allows it is another question. 0; -ENOTSUP: this infprof was built
 * without the program; -ENOPKG: no libbpf, ret_fix says what would help. ret_fix may be NULL. */
int infp_bpf_is_here(const char **ret_fix, struct infp_err *err);
/* ring_bytes: of records, deep_bytes: of pieces of stacks (deep.h), each a power of two of pages. least_wait_ns: waits are timed in the
 * kernel, if it allows that, and shorter ones summed; 0: they are not. 0; as infp_bpf_is_here; or
 * what the kernel answered: err has the reason, ret_fix what would help or NULL. The kernel's log goes to INFPROF_DEBUG. */
int infp_bpf_open(uint32_t ring_bytes, uint32_t deep_bytes, uint64_t least_wait_ns, struct infp_bpf **ret,
                  const char **ret_fix, struct infp_err *err);
struct infp_bpf *infp_bpf_free(struct infp_bpf *bpf); /* NULL is fine; returns NULL */

/* Descriptor of the program, for PERF_EVENT_IOC_SET_BPF. */
int infp_bpf_program(const struct infp_bpf *bpf);

/* What the program is told of an interpreter. */
struct infp_frames_process infp_bpf_process(const struct infp_python *python);
/* The process runs this Python from now on. 0 or a negative errno. */
int infp_bpf_put(struct infp_bpf *bpf, pid_t pid, const struct infp_frames_process *process);
/* It does no longer. */
void infp_bpf_drop(struct infp_bpf *bpf, pid_t pid);

/* Gives the records that lie in the ring to `take`, in about the order of their time. Their sizes were checked. */
typedef void infp_bpf_take_fn(void *context, const struct infp_frames_record *record);
void infp_bpf_drain(struct infp_bpf *bpf, infp_bpf_take_fn *take, void *context);

/* Has the rest of stacks read from now on, of which perf copies so much at least. Returns the descriptor of their ring. */
int infp_bpf_begin_deep(struct infp_bpf *bpf, uint32_t copied, uint32_t copied_of_waits);

/* What is wanted of a thread's stack from now on. */
struct infp_deep_wanted;
void infp_bpf_want(struct infp_bpf *bpf, int32_t tid, const struct infp_deep_wanted *wanted);

struct infp_frames_counts infp_bpf_counts(struct infp_bpf *bpf);

/* Descriptor of the program for events of switches (waits/switches.bpf.h); -1: waits are not timed in the kernel. */
int infp_bpf_switch_program(const struct infp_bpf *bpf);
/* What follows is for those who have that. The event of a CPU by which perf writes the samples of waits. 0 or a negative errno. */
int infp_bpf_put_switch_event(struct infp_bpf *bpf, int cpu, int fd, bool is_shallow);
/* All threads that have switched. */
typedef void infp_bpf_switch_thread_fn(void *context, int key, const struct infp_switch_thread *thread);
void infp_bpf_switch_threads(struct infp_bpf *bpf, infp_bpf_switch_thread_fn *take, void *context);
bool infp_bpf_switch_thread(struct infp_bpf *bpf, int key, struct infp_switch_thread *ret);
void infp_bpf_forget_switches(struct infp_bpf *bpf, int key);
uint64_t infp_bpf_switches_full(struct infp_bpf *bpf); /* switches of threads for which there was no room */

/* The object that frames.bpf.c was compiled to; size 0: it was not. */
extern const unsigned char infp_frames_object[];
extern const size_t infp_frames_object_size;
