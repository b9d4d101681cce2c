/* A part of the program in the kernel (frames.bpf.c): reads what perf's copy of a stack lacks, up to the stack's base, into a ring of its
 * own. Nothing is read of stacks that fit into the copy. */
#pragma once

#include "sampler/python/deep_piece.h"

static struct task_struct *(*const get_current_task_btf)(void) = (void *) BPF_FUNC_get_current_task_btf;
static long (*const task_pt_regs)(struct task_struct *task) = (void *) BPF_FUNC_task_pt_regs;
static void *(*const ring_reserve)(void *ring, __u64 size, __u64 flags) = (void *) BPF_FUNC_ringbuf_reserve;
static void (*const ring_submit)(void *data, __u64 flags) = (void *) BPF_FUNC_ringbuf_submit;

struct {
        MAP_TYPE(BPF_MAP_TYPE_RINGBUF);
        MAP_SIZE(1 << 20); /* the loader sets it */
} deep_pieces SECTION(".maps");

struct {
        MAP_TYPE(BPF_MAP_TYPE_ARRAY);
        MAP_SIZE(1);
        __u32 *key;
        struct infp_deep_state *value;
} deep_state SECTION(".maps");

struct {
        MAP_TYPE(BPF_MAP_TYPE_LRU_HASH);
        MAP_SIZE(INFP_DEEP_THREADS);
        int *key;
        struct infp_deep_wanted *value;
} deep_wanted SECTION(".maps");

struct deep_walk {
        __u64 t_ns, address, at, end;
        int pid, tid;
        __u64 is_wanted; /* pages that are wanted of the thread; else those from `at` to `end` */
};

static INLINE __u64 next_page(struct deep_walk *walk, const struct infp_deep_wanted *wanted, __u32 i)
{
        __u64 page = walk->at;

        if (wanted) {
                page = wanted->pages[i & (INFP_DEEP_WANTED - 1)];
                return page > walk->at ? page : 0;
        }
        walk->at += INFP_DEEP_PAGE;
        return page < walk->end ? page : 0;
}

/* True: that was the last one. */
ALONE int infp_deep_piece(struct deep_walk *walk, __u32 i)
{
        const struct infp_deep_wanted *wanted = 0;
        struct infp_deep_piece *piece;

        if (!walk)
                return 1;
        if (walk->is_wanted)
                wanted = map_lookup(&deep_wanted, &walk->tid);
        if (walk->is_wanted ? !wanted : walk->at >= walk->end)
                return 1;
        piece = ring_reserve(&deep_pieces, sizeof(*piece), 0);
        if (!piece)
                return 1;
        piece->t_ns = walk->t_ns;
        piece->address = walk->address;
        piece->pid = walk->pid;
        piece->tid = walk->tid;
        for (int k = 0; k < INFP_DEEP_PAGES; k++) {
                __u64 page = next_page(walk, wanted, i * INFP_DEEP_PAGES + (__u32) k);

                if (page && read_user(piece->bytes + k * INFP_DEEP_PAGE, INFP_DEEP_PAGE, (const void *) page))
                        page = 0;
                piece->pages[k] = page;
        }
        ring_submit(piece, BPF_RB_NO_WAKEUP);
        return 0;
}

/* A page that was never touched fails alone, and takes no room in the ring: of a stack of 8 MiB most are such. */
static long deep_skip(__u32 i, struct deep_walk *walk)
{
        __u8 byte;

        (void) i;
        if (walk->at >= walk->end || !read_user(&byte, sizeof(byte), (const void *) walk->at))
                return 1;
        walk->at += INFP_DEEP_PAGE;
        return 0;
}

static long deep_step(__u32 i, struct deep_walk *walk)
{
        if (!walk->is_wanted)
                loop(INFP_DEEP_PAGES * (INFP_DEEP_PIECES + 1), deep_skip, walk, 0);
        return infp_deep_piece(walk, i) != 0;
}

static INLINE void deep_read(struct deep_walk *walk, __u64 begin, __u64 end, __u32 n)
{
        walk->at = begin & ~(__u64) (INFP_DEEP_PAGE - 1);
        walk->end = end;
        loop(n, deep_step, walk, 0);
}

/* Finds a page that cannot be read: perf's copy ends below it. */
static long deep_probe(__u32 i, struct deep_walk *walk)
{
        __u8 byte;

        (void) i;
        if (walk->at >= walk->end || read_user(&byte, sizeof(byte), (const void *) walk->at))
                return 1;
        walk->at = (walk->at | (INFP_DEEP_PAGE - 1)) + 1;
        return 0;
}

/* The program's own, while the kernel works for it. */
static INLINE __u64 user_stack_pointer(void)
{
        const struct pt_regs *regs = (const struct pt_regs *) task_pt_regs(get_current_task_btf());
        __u64 ret = 0;

        return read_kernel(&ret, sizeof(ret), &regs->rsp) ? 0 : ret;
}

/* What a thread uses of its stack is less than that, and whatever else is mapped lies further below the first thread's. */
#define DEEPEST ((__u64) 128 << 20)

/* The base of the stack that sp is in: that of the first thread is where its program began, and of all others the C library's own data of
 * the thread lie there, whose first word is their address. 0: not known (a stack that the program has made for itself). */
static INLINE __u64 base_of(struct task_struct *task, __u64 start, __u64 sp)
{
        __u64 fs_base = 0;

        if (start - sp < DEEPEST)
                return start;
        READ(fs_base, task->thread.fsbase);
        return fs_base - sp < DEEPEST && read_pointer(fs_base) == fs_base ? fs_base : 0;
}

/* Of a thread that runs on its alternate stack: where its own has its base, which is its outer end. 0: it does not. */
static INLINE __u64 base_of_other(struct task_struct *task, __u64 start, __u64 sp)
{
        unsigned long begin = 0, size = 0;
        struct task_struct *leader = 0;
        __u64 fs_base = 0;

        READ(size, task->sas_ss_size);
        READ(begin, task->sas_ss_sp);
        if (sp - begin >= size)
                return 0;
        READ(leader, task->group_leader);
        if (leader == task)
                return start;
        READ(fs_base, task->thread.fsbase);
        return read_pointer(fs_base) == fs_base ? fs_base : 0;
}

/* sp: the program's stack pointer, 0 while the kernel works for it; address: as in a piece; is_wait: of a wait that is over. */
ALONE int infp_deep_take(int pid, __u64 sp, __u64 address, int is_wait)
{
        const __u64 part = (__u64) INFP_DEEP_PIECES / 2 * sizeof(((struct infp_deep_piece *) 0)->bytes);
        struct task_struct *task = get_current_task();
        const struct infp_deep_state *state;
        struct deep_walk walk = { .pid = pid, .address = address };
        __u64 base, start = 0, above, copied;
        struct mm_struct *mm = 0;
        __u32 zero = 0;
        _Bool is_wanted;

        state = map_lookup(&deep_state, &zero);
        copied = !state ? 0 : is_wait ? state->copied[1] : state->copied[0];
        if (!copied)
                return 0;
        READ(mm, task->mm);
        if (!sp)
                sp = user_stack_pointer();
        if (!mm || !sp)
                return 0;
        READ(start, mm->start_stack);
        walk.tid = thread_number(task);
        walk.t_ns = ktime_get_ns();
        base = base_of_other(task, start, sp);
        if (base) {
                above = base - 2 * part;
        } else {
                base = base_of(task, start, sp);
                above = sp + copied;
                walk.at = sp;
                walk.end = base < above ? base : above;
                loop(INFP_DEEP_PAGES * INFP_DEEP_PIECES, deep_probe, &walk, 0);
                if (walk.at < walk.end)
                        above = walk.at;
        }
        if (base > above && base - above <= 2 * part) {
                deep_read(&walk, above, base, INFP_DEEP_PIECES + 1);
                return 0;
        }
        is_wanted = map_lookup(&deep_wanted, &walk.tid) != 0;
        if (is_wanted || base > above)
                deep_read(&walk, above, above + part, INFP_DEEP_PIECES / 2 + 1);
        if (base > above)
                deep_read(&walk, base - part, base, INFP_DEEP_PIECES / 2 + 1);
        walk.is_wanted = is_wanted;
        walk.at = sp;
        if (is_wanted)
                loop(INFP_DEEP_WANTED / INFP_DEEP_PAGES, deep_step, &walk, 0);
        return 0;
}
