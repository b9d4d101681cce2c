/* Buffers of perf events with any bytes in them: whatever the kernel is said to have written, what is given on lies inside a record,
 * texts end, and a pass over the buffer comes to its end. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sampler/perf/record.h"
#include "sampler/perf/ring.h"

enum { PAGE = 4096, RING = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
        const struct infp_perf_ring *ring;
        uint64_t sum; /* of all that was given: it is read to its last byte */
};

static void expect(bool truth)
{
        if (!truth)
                abort();
}

static void inside(const struct seen *seen, const void *at, size_t size)
{
        const uint8_t *begin = at;
        const struct infp_perf_ring *ring = seen->ring;

        expect(begin >= ring->record && size <= ring->record_size &&
               (size_t) (begin - ring->record) <= ring->record_size - size);
}

static void read_all(struct seen *seen, const void *at, size_t size)
{
        inside(seen, at, size);
        for (size_t i = 0; i < size; i++)
                seen->sum += ((const uint8_t *) at)[i];
}

static void sample(void *context, const struct infp_perf_sample *sample)
{
        struct seen *seen = context;

        expect(sample->pid > 0 && sample->tid > 0 && sample->n_kernel <= INFP_PERF_MAX_KERNEL_FRAMES);
        expect(!sample->n_kernel || sample->kernel);
        for (uint32_t i = 0; i < sample->n_kernel; i++)
                seen->sum += sample->kernel[i];
        for (unsigned i = 0; sample->has_registers && i < INFP_N_REGISTERS; i++)
                seen->sum += sample->registers[i];
        if (sample->stack_size)
                read_all(seen, sample->stack, sample->stack_size);
}

static void mapping(void *context, const struct infp_perf_mapping *mapping)
{
        expect(mapping->size > 0 && mapping->build_id_size <= 20);
        if (mapping->build_id_size)
                read_all(context, mapping->build_id, mapping->build_id_size);
        read_all(context, mapping->path, strlen(mapping->path) + 1);
}

static void name(void *context, uint64_t t_ns, int32_t pid, int32_t tid, const char *text, bool is_exec)
{
        ((struct seen *) context)->sum += t_ns + (uint32_t) pid + (uint32_t) tid + is_exec;
        read_all(context, text, strlen(text) + 1);
}

static void task(void *context, uint64_t t_ns, int32_t pid, int32_t tid, int32_t parent_pid, int32_t parent_tid)
{
        ((struct seen *) context)->sum +=
                t_ns + (uint32_t) pid + (uint32_t) tid + (uint32_t) parent_pid + (uint32_t) parent_tid;
}

static void end(void *context, uint64_t t_ns, int32_t pid, int32_t tid)
{
        ((struct seen *) context)->sum += t_ns + (uint32_t) pid + (uint32_t) tid;
}

static void run(void *context, uint64_t t_ns, int32_t pid, int32_t tid, bool is_in, bool is_preempted)
{
        ((struct seen *) context)->sum += t_ns + (uint32_t) pid + (uint32_t) tid + is_in + is_preempted;
}

static bool is_wanted(void *context, int32_t pid, int32_t tid)
{
        (void) context;
        return (pid ^ tid) % 8 != 7;
}

/* The first byte says what was asked for and where in the ring the first record lies; the rest is the records. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct infp_perf_ring ring;
        struct seen seen = { &ring, 0 };
        const struct infp_perf_handler handler = { &seen, sample, mapping, name, task, end, run };
        struct infp_perf_reader reader = { .handler = &handler, .is_wanted = is_wanted };
        struct perf_event_mmap_page *page;
        uint64_t begin, n_records = 0;

        if (size < 1 || size - 1 > RING)
                return 0;
        page = calloc(1, PAGE + RING);
        if (!page || infp_perf_ring_init(&ring, page, PAGE, RING) < 0)
                abort();
        reader.has_callchain = data[0] & 1;
        begin = (uint64_t) (data[0] >> 1) * (RING / 128); /* some lie over the end */
        for (size_t i = 1; i < size; i++)
                ((uint8_t *) page)[PAGE + (begin + i - 1) % RING] = data[i];
        page->data_tail = ring.tail = begin;
        page->data_head = begin + size - 1;
        infp_perf_ring_look(&ring);
        while (infp_perf_ring_peek(&ring)) {
                /* Memory of exactly this size, so that the sanitizer sees one byte too many. */
                uint8_t *exact = malloc(ring.record_size);

                if (!exact)
                        abort();
                memcpy(exact, ring.record, ring.record_size);
                expect(infp_perf_record_time(exact, ring.record_size) == ring.t_ns);
                ring.record = exact;
                infp_perf_record_give(&reader, exact, ring.record_size);
                infp_perf_ring_pop(&ring);
                free(exact);
                expect(++n_records <= size / 8);
        }
        expect(page->data_tail == page->data_head);
        infp_perf_ring_done(&ring);
        free(page);
        return 0;
}
