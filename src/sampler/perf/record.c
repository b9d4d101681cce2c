#include "sampler/perf/record.h"

#include <string.h>

#include "base/mem.h"

/* Behind each record that is not a sample: u32 pid, tid; u64 time; u32 cpu, reserved. */
enum { TRAILER = 24, HEAD = sizeof(struct perf_event_header), MAX_CHAIN = 1024 };
/* Of a sample, after its head: u32 pid, tid; u64 time; u32 cpu, reserved; u64 period. */
enum { SAMPLE_FIXED = 32 };

/* By the bits of INFP_PERF_REGISTERS, from the lowest: rax rbx rcx rdx rsi rdi rbp rsp rip r8 ... r15. */
static const uint8_t dwarf_numbers[] = { INFP_RAX, INFP_RBX, INFP_RCX, INFP_RDX, INFP_RSI, INFP_RDI,
                                         INFP_RBP, INFP_RSP, INFP_RIP, INFP_R8,  INFP_R9,  INFP_R10,
                                         INFP_R11, INFP_R12, INFP_R13, INFP_R14, INFP_R15 };
_Static_assert(INFP_COUNT(dwarf_numbers) == INFP_N_REGISTERS, "each register once");

/* What is left of a record. */
struct part {
        const uint8_t *at;
        size_t left;
};

static const void *take(struct part *part, size_t size)
{
        const void *ret = part->at;

        if (size > part->left)
                return NULL;
        part->at += size;
        part->left -= size;
        return ret;
}

static bool take_u64(struct part *part, uint64_t *ret)
{
        const void *at = take(part, sizeof(*ret));

        if (at)
                memcpy(ret, at, sizeof(*ret));
        return at != NULL;
}

static bool take_u32(struct part *part, uint32_t *ret)
{
        const void *at = take(part, sizeof(*ret));

        if (at)
                memcpy(ret, at, sizeof(*ret));
        return at != NULL;
}

static bool take_i32(struct part *part, int32_t *ret)
{
        uint32_t v;
        const bool is_there = take_u32(part, &v);

        if (is_there)
                *ret = (int32_t) v;
        return is_there;
}

uint64_t infp_perf_record_time(const uint8_t *record, size_t size)
{
        struct perf_event_header head;
        uint64_t t_ns;

        if (size < HEAD + TRAILER)
                return 0;
        memcpy(&head, record, sizeof(head));
        memcpy(&t_ns, head.type == PERF_RECORD_SAMPLE ? record + HEAD + 8 : record + size - TRAILER + 8, sizeof(t_ns));
        return t_ns;
}

/* The kernel's frames, without the marks between parts of a chain. */
static bool take_chain(struct part *part, uint64_t *kernel, struct infp_perf_sample *sample)
{
        uint64_t n, ip;

        if (!take_u64(part, &n) || n > MAX_CHAIN || n * sizeof(ip) > part->left)
                return false;
        for (uint64_t i = 0; i < n; i++) {
                if (!take_u64(part, &ip))
                        return false;
                if (ip < (uint64_t) PERF_CONTEXT_MAX && sample->n_kernel < INFP_PERF_MAX_KERNEL_FRAMES)
                        kernel[sample->n_kernel++] = ip;
        }
        sample->kernel = kernel;
        return true;
}

/* What a program in the kernel has put beside it. */
static bool take_wait(struct part *part, struct infp_switch *ret)
{
        const uint8_t *data;
        uint32_t size;

        if (!take_u32(part, &size) || size < sizeof(*ret))
                return false;
        data = take(part, size);
        if (data)
                memcpy(ret, data, sizeof(*ret));
        return data != NULL;
}

/* The kernel's frames of the wait alone: without those of the program that had perf take them, and of what has called it as the thread
 * got its CPU. */
static void leave_program(const struct infp_switch *wait, struct infp_perf_sample *sample)
{
        for (uint32_t i = 0; i < sample->n_kernel; i++)
                if (sample->kernel[i] == wait->place) {
                        sample->kernel += i;
                        sample->n_kernel -= i;
                        return;
                }
}

static bool take_registers(struct part *part, struct infp_perf_sample *sample)
{
        uint64_t abi;

        if (!take_u64(part, &abi))
                return false;
        if (abi == PERF_SAMPLE_REGS_ABI_NONE)
                return true;
        for (size_t i = 0; i < INFP_COUNT(dwarf_numbers); i++)
                if (!take_u64(part, &sample->registers[dwarf_numbers[i]]))
                        return false;
        sample->has_registers = abi == PERF_SAMPLE_REGS_ABI_64; /* programs of 32 bits are not unwound */
        return true;
}

static bool take_stack(struct part *part, struct infp_perf_sample *sample)
{
        uint64_t size, used;

        if (!take_u64(part, &size))
                return false;
        if (!size)
                return true;
        sample->stack = take(part, size);
        if (!sample->stack || !take_u64(part, &used) || used > size)
                return false;
        sample->stack_size = (uint32_t) used;
        sample->is_cut =
                true; /* a short copy, too: the kernel stops at a page of the stack that is not in memory yet */
        return true;
}

static bool give_sample(struct infp_perf_reader *reader, struct part part, uint16_t misc)
{
        struct infp_perf_sample sample = { .is_in_kernel =
                                                   (misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL };
        const bool has_wait = reader->has_waits && reader->is_of_switches;
        uint64_t kernel[INFP_PERF_MAX_KERNEL_FRAMES];
        struct infp_switch wait;
        uint32_t reserved;

        if (!take_i32(&part, &sample.pid) || !take_i32(&part, &sample.tid) || !take_u64(&part, &sample.t_ns) ||
            !take_i32(&part, &sample.cpu) || !take_u32(&part, &reserved) || !take_u64(&part, &sample.period))
                return false;
        /* Nobody's: the thread has left its process already. */
        if (sample.pid <= 0 || sample.tid <= 0 ||
            (reader->is_wanted && !reader->is_wanted(reader->context, sample.pid, sample.tid))) {
                reader->n_foreign++;
                return true;
        }
        if ((reader->has_callchain && !take_chain(&part, kernel, &sample)) || (has_wait && !take_wait(&part, &wait)) ||
            !take_registers(&part, &sample) || !take_stack(&part, &sample))
                return false;
        sample.is_switch = has_wait || sample.period == INFP_PERF_SWITCH_PERIOD;
        if (has_wait) {
                sample.wait = &wait;
                leave_program(&wait, &sample);
        }
        reader->n_samples += !sample.is_switch;
        if (reader->handler->sample)
                reader->handler->sample(reader->handler->context, &sample);
        return true;
}

/* The text that fills the rest; NULL: it does not end. */
static const char *text_of(const struct part *part)
{
        return memchr(part->at, 0, part->left) ? (const char *) part->at : NULL;
}

static bool give_mapping(struct infp_perf_reader *reader, struct part part, uint16_t misc, uint64_t t_ns)
{
        struct infp_perf_mapping mapping = { .t_ns = t_ns };
        const uint8_t *identity, *rest;

        if (!take_i32(&part, &mapping.pid) || !take_i32(&part, &mapping.tid) || !take_u64(&part, &mapping.begin) ||
            !take_u64(&part, &mapping.size) || !take_u64(&part, &mapping.offset))
                return false;
        identity = take(&part, 24); /* u32 major, minor; u64 inode, generation; or u8 size, u8[3], u8 build_id[20] */
        rest = take(&part, 8);      /* u32 protection, flags */
        mapping.path = text_of(&part);
        if (!identity || !rest || !mapping.path)
                return false;
        if (misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
                if (identity[0] > 20)
                        return false;
                mapping.build_id = identity + 4;
                mapping.build_id_size = identity[0];
        } else {
                memcpy(&mapping.major, identity, 4);
                memcpy(&mapping.minor, identity + 4, 4);
                memcpy(&mapping.inode, identity + 8, 8);
        }
        if (reader->is_wanted && !reader->is_wanted(reader->context, mapping.pid, mapping.tid))
                return true;
        if (reader->handler->mapping && mapping.size)
                reader->handler->mapping(reader->handler->context, &mapping);
        return true;
}

static bool give_name(struct infp_perf_reader *reader, struct part part, uint16_t misc, uint64_t t_ns)
{
        const char *name;
        int32_t pid, tid;

        if (!take_i32(&part, &pid) || !take_i32(&part, &tid))
                return false;
        name = text_of(&part);
        if (!name)
                return false;
        if (reader->handler->name && (!reader->is_wanted || reader->is_wanted(reader->context, pid, tid)))
                reader->handler->name(reader->handler->context, t_ns, pid, tid, name,
                                      misc & PERF_RECORD_MISC_COMM_EXEC);
        return true;
}

static bool give_task(struct infp_perf_reader *reader, struct part part, bool is_fork, uint64_t t_ns)
{
        const struct infp_perf_handler *handler = reader->handler;
        int32_t pid, parent_pid, tid, parent_tid;
        bool is_wanted;

        if (!take_i32(&part, &pid) || !take_i32(&part, &parent_pid) || !take_i32(&part, &tid) ||
            !take_i32(&part, &parent_tid))
                return false;
        if (is_fork && reader->task)
                reader->task(reader->context, t_ns, true, pid, tid, parent_pid);
        is_wanted = !reader->is_wanted || reader->is_wanted(reader->context, pid, tid);
        if (is_wanted && is_fork && handler->fork)
                handler->fork(handler->context, t_ns, pid, tid, parent_pid, parent_tid);
        if (is_wanted && !is_fork && handler->exit)
                handler->exit(handler->context, t_ns, pid, tid);
        if (!is_fork && reader->task)
                reader->task(reader->context, t_ns, false, pid, tid, parent_pid);
        return true;
}

static bool give_switch(struct infp_perf_reader *reader, const uint8_t *trailer, uint16_t misc, uint64_t t_ns)
{
        struct part part = { trailer, TRAILER };
        int32_t pid, tid;

        if (!take_i32(&part, &pid) || !take_i32(&part, &tid))
                return false;
        if (pid > 0 && reader->handler->run && (!reader->is_wanted || reader->is_wanted(reader->context, pid, tid)))
                reader->handler->run(reader->handler->context, t_ns, pid, tid, !(misc & PERF_RECORD_MISC_SWITCH_OUT),
                                     misc & PERF_RECORD_MISC_SWITCH_OUT_PREEMPT);
        return true;
}

static bool count_lost(struct infp_perf_reader *reader, struct part part)
{
        uint64_t id, n;

        if (!take_u64(&part, &id) || !take_u64(&part, &n))
                return false;
        if (reader->is_of_switches)
                reader->n_lost_switches += n;
        else
                reader->n_lost += n;
        return true;
}

static bool give(struct infp_perf_reader *reader, const uint8_t *record, size_t size)
{
        struct perf_event_header head;
        struct part part = { record + HEAD, size - HEAD };
        const uint64_t t_ns = infp_perf_record_time(record, size);

        memcpy(&head, record, sizeof(head));
        if (head.type == PERF_RECORD_SAMPLE)
                return size >= HEAD + SAMPLE_FIXED && give_sample(reader, part, head.misc);
        if (size < HEAD + TRAILER)
                return false;
        part.left -= TRAILER;
        switch (head.type) {
        case PERF_RECORD_MMAP2:
                return give_mapping(reader, part, head.misc, t_ns);
        case PERF_RECORD_COMM:
                return give_name(reader, part, head.misc, t_ns);
        case PERF_RECORD_FORK:
        case PERF_RECORD_EXIT:
                return give_task(reader, part, head.type == PERF_RECORD_FORK, t_ns);
        case PERF_RECORD_SWITCH:
        case PERF_RECORD_SWITCH_CPU_WIDE:
                return give_switch(reader, record + size - TRAILER, head.misc, t_ns);
        case PERF_RECORD_LOST:
                return count_lost(reader, part);
        case PERF_RECORD_THROTTLE:
                reader->n_throttled++;
                return true;
        default:
                return true;
        }
}

void infp_perf_record_give(struct infp_perf_reader *reader, const uint8_t *record, size_t size)
{
        if (size < HEAD || !give(reader, record, size))
                reader->n_broken++;
}
