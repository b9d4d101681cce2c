/* Runs in the kernel, in the interrupt of each sample: reads the Python frames of the interrupted thread, and lets perf's own sample of
 * that moment through. Linux 5.17 and later (bpf_loop), with BTF; compiled once, for all of them. Also under the licences MIT and GPL-2.0
 * (NOTICE): the kernel lets only GPL programs read memory.
 *
 * All that is read belongs to somebody else: addresses are never believed, and every loop has an end. */
#include <linux/bpf.h>
#include <linux/bpf_perf_event.h>

#include "sampler/python/frames.h"

#define SECTION(name) __attribute__((section(name), used))
#define INLINE inline __attribute__((always_inline))
/* The kernel's verifier looks at such a function once, and not on each path that leads to it. It takes pointers that may be NULL. Weak, so
 * that the compiler does not believe that it knows what is returned: the verifier does not. */
#define ALONE __attribute__((noinline, weak))
char infp_license[] SECTION("license") = "Dual MIT/GPL";

/* The kernel's functions, by their numbers. */
static void *(*const map_lookup)(void *map, const void *key) = (void *) BPF_FUNC_map_lookup_elem;
static long (*const map_update)(void *map, const void *key, const void *value,
                                __u64 flags) = (void *) BPF_FUNC_map_update_elem;
static __u64 (*const ktime_get_ns)(void) = (void *) BPF_FUNC_ktime_get_ns;
static void *(*const get_current_task)(void) = (void *) BPF_FUNC_get_current_task;
static long (*const read_user)(void *to, __u32 size, const void *from) = (void *) BPF_FUNC_probe_read_user;
static long (*const read_kernel)(void *to, __u32 size, const void *from) = (void *) BPF_FUNC_probe_read_kernel;
static long (*const loop)(__u32 n, void *step, void *context, __u64 flags) = (void *) BPF_FUNC_loop;
static long (*const ring_output)(void *ring, void *data, __u64 size, __u64 flags) = (void *) BPF_FUNC_ringbuf_output;

/* What is needed of the kernel's own structures: the loader finds out where these members are in the kernel that runs. */
#define OF_KERNEL __attribute__((preserve_access_index))
struct OF_KERNEL ns_common {
        unsigned int inum;
};
struct OF_KERNEL pid_namespace {
        struct ns_common ns;
};
struct OF_KERNEL upid {
        int nr;
        struct pid_namespace *ns;
};
struct OF_KERNEL pid {
        unsigned int level;
        struct upid numbers[1];
};
struct OF_KERNEL thread_struct {
        unsigned long fsbase;
};
struct OF_KERNEL mm_struct {
        unsigned long start_stack;
};
struct OF_KERNEL task_struct {
        unsigned int flags;
        int pid, tgid;
        struct pid *thread_pid;
        struct task_struct *group_leader, *real_parent;
        struct mm_struct *mm;
        unsigned long sas_ss_sp, sas_ss_size;
        struct thread_struct thread;
};
#define READ(to, from) read_kernel(&(to), sizeof(to), __builtin_preserve_access_index(&(from)))
enum { FORKED_WITHOUT_EXEC = 0x40, NAMESPACES = 8 };

#define MAP_TYPE(value) int(*type)[value]
#define MAP_SIZE(value) int(*max_entries)[value]

struct {
        MAP_TYPE(BPF_MAP_TYPE_HASH);
        MAP_SIZE(INFP_FRAMES_PROCESSES);
        int *key;
        struct infp_frames_process *value;
} processes SECTION(".maps");

struct thread_key {
        __u64 fs_base; /* its pthread_t */
        __u64 pid;
};
/* Where the thread's state was found. */
struct thread_value {
        __u64 state;              /* 0: the thread had none */
        __u64 link;               /* address of the pointer that leads to the state */
        __u64 again_ns, pause_ns; /* when to look again, of a thread without one */
};
struct {
        MAP_TYPE(BPF_MAP_TYPE_LRU_HASH);
        MAP_SIZE(8192);
        struct thread_key *key;
        struct thread_value *value;
} threads SECTION(".maps");

struct {
        MAP_TYPE(BPF_MAP_TYPE_RINGBUF);
        MAP_SIZE(1 << 20); /* the loader sets it */
} records SECTION(".maps");

struct {
        MAP_TYPE(BPF_MAP_TYPE_ARRAY);
        MAP_SIZE(1);
        __u32 *key;
        struct infp_frames_counts *value;
} counts SECTION(".maps");

enum {
        MEMOS = 256,       /* a power of two */
        PAGE = 4096,       /* is mapped as a whole, or not */
        WINDOW = 2048,     /* bytes of frames that are read at once */
        NEAR_BYTES = 1024, /* between two frames: then they lie in one stack */
        TEXT_BYTES = 64    /* of a text, where its last word may begin */
};

/* What was found out of an object at this address during this sample: it cannot change, since a frame holds it. */
struct memo {
        __u64 address;
        __u32 sample, sum;
};

struct work {
        struct infp_frames_record record;
        /* Of the walk. */
        __u64 frame, base;
        __u64 before;     /* the frame before; 0: frames do not lie in one stack */
        __u64 mark;       /* one of the frames before, which comes again where they go round */
        __u64 begin, end; /* addresses of what the window has */
        __u8 window[WINDOW + INFP_PYTHON_MAX_FRAME + 8];
        uint64_t words[16]; /* INFP_PYTHON_CHECK_WORDS of them are read */
        struct {
                struct infp_python_check_text head;
                __u8 rest[TEXT_BYTES + 8 - sizeof(struct infp_python_check_text)];
                __u8 unused[TEXT_BYTES]; /* the verifier knows the distance by its mask alone */
        } text;
        __u64 code; /* the last one, and its sum: a recursion has it again; 0: none */
        __u32 sum;
        __u32 sample; /* another number for each */
        struct memo codes[MEMOS], texts[MEMOS];
        struct infp_frames_process process; /* of a fork */
};
struct {
        MAP_TYPE(BPF_MAP_TYPE_PERCPU_ARRAY);
        MAP_SIZE(2); /* of samples, and of waits */
        __u32 *key;
        struct work *value;
} work SECTION(".maps");

/* Inode of the pid namespace in which pids count; 0: the first one. */
const volatile __u32 infp_pid_namespace = 0;

/* ---- who was interrupted ---- */

ALONE int infp_number_of(__u64 address)
{
        const struct pid *of = (const struct pid *) address;
        const __u32 wanted = infp_pid_namespace;
        __u32 level = 0;

        READ(level, of->level);
        for (int i = 0; i < NAMESPACES; i++) {
                struct pid_namespace *ns = 0;
                unsigned int inode = 0;
                int number = 0;

                if (level < (__u32) i)
                        break;
                READ(ns, of->numbers[level - i].ns);
                READ(inode, ns->ns.inum);
                READ(number, of->numbers[level - i].nr);
                if (inode == wanted)
                        return number;
        }
        return 0;
}

static INLINE int process_number(struct task_struct *task)
{
        struct task_struct *leader = 0;
        struct pid *pid = 0;
        int number = 0;

        if (!infp_pid_namespace) {
                READ(number, task->tgid);
                return number;
        }
        READ(leader, task->group_leader);
        READ(pid, leader->thread_pid);
        return infp_number_of((__u64) pid);
}

static INLINE int thread_number(struct task_struct *task)
{
        struct pid *pid = 0;
        int number = 0;

        if (!infp_pid_namespace) {
                READ(number, task->pid);
                return number;
        }
        READ(pid, task->thread_pid);
        return infp_number_of((__u64) pid);
}

static INLINE void count(_Bool is_full)
{
        __u32 zero = 0;
        struct infp_frames_counts *all = map_lookup(&counts, &zero);

        if (all)
                __sync_fetch_and_add(is_full ? &all->full : &all->dropped, 1);
}

/* A child that has the memory of its parent, and that the loader has not heard of yet. */
static INLINE struct infp_frames_process *process_of_fork(struct task_struct *task, int pid, struct work *own)
{
        struct infp_frames_process *process;
        struct task_struct *parent = 0;
        unsigned int flags = 0;
        int parent_pid;

        READ(flags, task->flags);
        if (!(flags & FORKED_WITHOUT_EXEC))
                return 0;
        READ(parent, task->real_parent);
        parent_pid = process_number(parent);
        process = map_lookup(&processes, &parent_pid);
        if (!process)
                return 0;
        own->process = *process;
        if (map_update(&processes, &pid, &own->process, BPF_NOEXIST))
                count(1);
        return &own->process;
}

/* ---- the thread's state ---- */

enum { MOST_THREADS = 4096, FIRST_PAUSE_NS = 1000 * 1000, LAST_PAUSE_NS = 320 * 1000 * 1000 };

static INLINE __u64 read_pointer(__u64 address)
{
        __u64 ret = 0;

        return read_user(&ret, sizeof(ret), (const void *) address) ? 0 : ret;
}

/* Through the lists of all threads of all interpreters. */
struct search {
        const struct infp_frames_process *process;
        __u64 fs_base, interpreter, link, state;
};

/* One of the steps of a loop: true ends it. */
static long search_step(__u32 i, struct search *search)
{
        const struct infp_python_layout *layout = &search->process->layout;

        (void) i;
        search->state = read_pointer(search->link);
        if (!search->state) {
                search->interpreter = read_pointer(search->interpreter + layout->interp_next);
                search->link = search->interpreter + layout->interp_threads;
                return !search->interpreter;
        }
        if (read_pointer(search->state + layout->thread_pthread) == search->fs_base)
                return 1;
        search->link = search->state + layout->thread_next;
        search->state = 0;
        return 0;
}

/* False: there are no threads yet. */
static INLINE _Bool search_thread(const struct infp_frames_process *process, __u64 fs_base, struct thread_value *ret)
{
        struct search search;

        search.process = process;
        search.fs_base = fs_base;
        search.interpreter = read_pointer(process->runtime + process->layout.runtime_interpreters);
        search.link = search.interpreter + process->layout.interp_threads;
        search.state = 0;
        if (!search.interpreter) /* it has not begun */
                return 0;
        loop(MOST_THREADS, search_step, &search, 0);
        ret->state = search.state;
        ret->link = search.link;
        return 1;
}

/* A state that was freed may still look like one, but nothing leads to it. */
static INLINE _Bool is_still(const struct infp_frames_process *process, __u64 fs_base, const struct thread_value *value)
{
        return read_pointer(value->link) == value->state &&
               read_pointer(value->state + process->layout.thread_pthread) == fs_base;
}

static INLINE __u64 state_of(const struct infp_frames_process *process, struct task_struct *task, int pid, __u64 now_ns)
{
        struct thread_value fresh;
        struct thread_key key;
        const struct thread_value *known;

        key.pid = (__u32) pid;
        key.fs_base = 0;
        READ(key.fs_base, task->thread.fsbase);
        fresh.pause_ns = FIRST_PAUSE_NS;
        if (!key.fs_base)
                return 0;
        known = map_lookup(&threads, &key);
        if (known && known->state && is_still(process, key.fs_base, known))
                return known->state;
        if (known && !known->state) {
                if (now_ns < known->again_ns)
                        return 0;
                if (known->pause_ns < LAST_PAUSE_NS)
                        fresh.pause_ns = known->pause_ns * 2;
                else
                        fresh.pause_ns = LAST_PAUSE_NS;
        }
        if (!search_thread(process, key.fs_base, &fresh))
                return 0;
        fresh.again_ns = now_ns + fresh.pause_ns;
        map_update(&threads, &key, &fresh, BPF_ANY);
        return fresh.state;
}

/* ---- its frames ---- */

/* at: of the frame in the window. */
static INLINE const __u8 *member_at(const struct work *own, __u32 at, __u32 offset)
{
        return own->window + (at & (WINDOW - 1)) + (offset & (INFP_PYTHON_MAX_FRAME - 1));
}

static INLINE __u64 word_at(const struct work *own, __u32 at, __u32 offset)
{
        return *(const __u64 *) member_at(own, at, offset);
}

static INLINE __u8 byte_at(const struct work *own, __u32 at, __u32 offset)
{
        return offset == INFP_PYTHON_ABSENT ? 0 : *member_at(own, at, offset);
}

/* A thread of a free-threaded build runs a copy of the byte code: its instruction as it is in the code object. */
static INLINE void move_to_object(const struct infp_python_layout *layout, const struct work *own, __u32 at,
                                  struct infp_frames_one *ret)
{
        __u64 index, copies, copy;

        if (layout->frame_bytecode_index == INFP_PYTHON_ABSENT)
                return;
        index = *(const __u32 *) member_at(own, at, layout->frame_bytecode_index);
        if (!index)
                return;
        copies = read_pointer(ret->code + layout->code_per_thread);
        copy = read_pointer(copies + 8 + 8 * index);
        if (copy)
                ret->instruction += ret->code + layout->code_bytes - copy;
}

static INLINE struct memo *memo_of(struct memo *memos, __u64 address)
{
        return &memos[(address >> 4 ^ address >> 12) & (MEMOS - 1)];
}

/* 32 bits of what its content adds to the sum. */
ALONE __u32 infp_text_sum(const struct infp_frames_process *process, struct work *own, __u64 address)
{
        const struct infp_python_layout *layout;
        struct memo *memo;
        __u64 end_at, end = 0, distance;
        _Bool is_whole;

        if (!process || !own)
                return 0;
        memo = memo_of(own->texts, address);
        if (memo->address == address && memo->sample == own->sample)
                return memo->sum;
        layout = &process->layout;
        /* Mostly all of it lies within so many bytes, which is one reading instead of two. */
        is_whole = !read_user(&own->text, TEXT_BYTES + 8, (const void *) (address + layout->str_length));
        if (!is_whole &&
            read_user(&own->text.head, sizeof(own->text.head), (const void *) (address + layout->str_length)))
                own->text.head.length = own->text.head.hash = own->text.head.state = 0;
        end_at = infp_python_check_end(layout, address, &own->text.head);
        distance = end_at - address - layout->str_length;
        if (end_at && is_whole && distance <= TEXT_BYTES)
                end = *(const __u64 *) ((const __u8 *) &own->text + (distance & (2 * TEXT_BYTES - 1)));
        else if (end_at)
                end = read_pointer(end_at);
        memo->address = address;
        memo->sample = own->sample;
        memo->sum = infp_python_check_text(layout, &own->text.head, end);
        return memo->sum;
}

/* Into own->sum. 0: there is no code object. */
ALONE int infp_code_sum(const struct infp_frames_process *process, struct work *own, __u64 code)
{
        const struct infp_python_check *check;
        struct memo *memo;
        __u64 sum;

        if (!process || !own)
                return 0;
        memo = memo_of(own->codes, code);
        own->sum = memo->sum;
        if (memo->address == code && memo->sample == own->sample)
                return 1;
        check = &process->check;
        if (read_user(own->words, sizeof(own->words[0]) * INFP_PYTHON_CHECK_WORDS,
                      (const void *) (code + check->begin)))
                return 0;
        sum = infp_python_check_words(check, own->words);
        for (int i = 0; i < INFP_PYTHON_CHECK_TEXTS && i < check->n_texts; i++)
                sum = infp_python_check_add(sum, infp_text_sum(process, own, own->words[check->texts[i] & 15]));
        own->sum = infp_python_check_done(sum);
        memo->address = code;
        memo->sample = own->sample;
        memo->sum = own->sum;
        return 1;
}

/* Where the frame is in the window, which is filled for it; -1: it could not be read. is_near: the one before lies above it, so that
 * others may lie below: they are read with it, as far as their page goes. */
static INLINE int fill_window(const struct infp_frames_process *process, struct work *own, __u64 frame, _Bool is_near)
{
        __u32 size = process->layout.frame_size, more = 0;

        if (size > INFP_PYTHON_MAX_FRAME || size < 8)
                size = INFP_PYTHON_MAX_FRAME;
        if (frame >= own->begin && frame + size <= own->end)
                return (int) (frame - own->begin);
        if (is_near) {
                more = frame & (PAGE - 1);
                if (more > WINDOW - INFP_PYTHON_MAX_FRAME)
                        more = WINDOW - INFP_PYTHON_MAX_FRAME;
        }
        own->begin = frame - more;
        own->end = frame + size;
        if (!read_user(own->window, more + size, (const void *) own->begin))
                return (int) more;
        own->begin = own->end = 0;
        return -1;
}

/* Record i, of the frame at this place of the window, as infp_python_walk has it. 0: it could not be read. */
static INLINE int take_frame(const struct infp_frames_process *process, struct work *own, __u32 at, _Bool is_base,
                             __u32 i)
{
        const struct infp_python_layout *layout = &process->layout;
        struct infp_frames_one *ret;

        if (i >= INFP_FRAMES_MOST)
                return 0;
        ret = &own->record.frames[i];
        ret->code = ret->instruction = 0;
        ret->check = 0;
        ret->owner = is_base ? INFP_PYTHON_OWNER_C_STACK : byte_at(own, at, layout->frame_owner);
        if (layout->frame_is_entry != INFP_PYTHON_ABSENT)
                ret->is_entry = byte_at(own, at, layout->frame_is_entry) != 0;
        else
                ret->is_entry = layout->frame_owner == INFP_PYTHON_ABSENT || ret->owner == INFP_PYTHON_OWNER_SHIM;
        if (ret->owner == INFP_PYTHON_OWNER_SHIM || ret->owner == INFP_PYTHON_OWNER_C_STACK)
                return 1;
        ret->code = word_at(own, at, layout->frame_code) & ~(__u64) layout->code_tag_mask;
        ret->instruction = word_at(own, at, layout->frame_instruction);
        if (layout->instruction_unit)
                ret->instruction = (__u64) (__s64) (__s32) ret->instruction; /* -1: it has not begun */
        if (ret->code != own->code || !ret->code) {
                if (!infp_code_sum(process, own, ret->code))
                        return 0;
                own->code = ret->code;
        }
        ret->check = own->sum;
        move_to_object(layout, own, at, ret);
        return 1;
}

/* One of the frames, from the innermost outwards: the next one is own->frame then. 0: that was the last one. */
ALONE int infp_walk_frame(const struct infp_frames_process *process, struct work *own, __u32 i)
{
        const struct infp_python_layout *layout;
        int at;

        if (!process || !own)
                return 0;
        layout = &process->layout;
        own->record.end = INFP_PYTHON_CYCLE;
        if (own->frame == own->mark)
                return 0;
        if (!(i & (i + 1)))
                own->mark = own->frame;
        own->record.end = INFP_PYTHON_TORN;
        at = fill_window(process, own, own->frame, own->before - own->frame < NEAR_BYTES);
        if (at < 0 || !take_frame(process, own, (__u32) at, own->frame == own->base, i))
                return 0;
        own->record.n = i + 1;
        own->record.end = INFP_PYTHON_TOO_DEEP;
        if (layout->thread_data_chunk != INFP_PYTHON_ABSENT)
                own->before = own->frame;
        own->frame = word_at(own, (__u32) at, layout->frame_previous);
        if (own->frame)
                return 1;
        own->record.end = INFP_PYTHON_WHOLE;
        return 0;
}

struct walk {
        const struct infp_frames_process *process;
        struct work *own;
};

static long walk_step(__u32 i, struct walk *walk)
{
        return !infp_walk_frame(walk->process, walk->own, i);
}

static INLINE void walk(const struct infp_frames_process *process, struct work *own, __u64 state)
{
        struct walk walk;

        walk.process = process;
        walk.own = own;
        own->mark = own->base = own->before = 0;
        own->begin = own->end = own->code = 0;
        own->sample++;
        if (process->layout.thread_base != INFP_PYTHON_ABSENT)
                own->base = read_pointer(state + process->layout.thread_base);
        own->record.n = 0;
        loop(INFP_FRAMES_MOST, walk_step, &walk, 0);
}

static INLINE void put(struct work *own)
{
        __u32 n = own->record.n;
        __u64 size;

        if (n > INFP_FRAMES_MOST)
                n = INFP_FRAMES_MOST;
        size = __builtin_offsetof(struct infp_frames_record, frames) + n * sizeof(struct infp_frames_one);
        /* A wake-up would be another interrupt, as expensive as the sample. */
        if (ring_output(&records, &own->record, size, BPF_RB_NO_WAKEUP))
                count(0);
}

/* The frames of the thread that runs here. address: as in the record. */
ALONE int infp_take(const struct infp_frames_process *process, struct work *own, int pid, __u64 address)
{
        struct task_struct *task = get_current_task();
        const __u64 now_ns = ktime_get_ns();
        __u64 state;

        if (!process || !own)
                return 0;
        state = state_of(process, task, pid, now_ns);
        if (!state)
                return 0;
        own->frame = read_pointer(state + process->layout.thread_frame);
        if (own->frame && process->layout.cframe_frame != INFP_PYTHON_ABSENT)
                own->frame = read_pointer(own->frame + process->layout.cframe_frame);
        if (!own->frame)
                return 0;
        own->record.t_ns = now_ns;
        own->record.address = address;
        own->record.pid = pid;
        own->record.tid = thread_number(task);
        walk(process, own, state);
        put(own);
        return 0;
}

#include "sampler/python/deep.bpf.h"

SECTION("perf_event")
int infp_frames(struct bpf_perf_event_data *context)
{
        struct task_struct *task = get_current_task();
        const int pid = process_number(task);
        const struct infp_frames_process *process = map_lookup(&processes, &pid);
        __u32 zero = 0;
        struct work *own = map_lookup(&work, &zero);

        if (own && !process)
                process = process_of_fork(task, pid, own);
        if (own && process)
                infp_take(process, own, pid, context->regs.rip);
        if (context->sample_period != 1) /* switches are too many */
                infp_deep_take(pid, context->regs.cs & 3 ? context->regs.rsp : 0, context->regs.rip, 0);
        return 1; /* perf's own sample goes on */
}

#include "sampler/waits/switches.bpf.h"
