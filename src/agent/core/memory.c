#include "agent/core/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
        PLACES = 2 * INFP_AGENT_LINES,
        KEPT = 16, /* samples: a line that none of so many has read is given up */
};
#define NONE UINT32_MAX
_Static_assert(INFP_AGENT_LINES <= 1024, "the kernel takes so many pieces in a call");

/* Into this process itself, not from it: the kernel then reads the pieces as the program would, and looks up the pages of `into` alone, which
 * are few. Seven times as fast for 22 pieces. Not by getpid(), whose value glibc kept before 2.25: it must not be another's. */
static ssize_t transfer(const struct iovec *pieces, unsigned n, void *into, size_t size)
{
        const struct iovec to = { into, size };
        const int error = errno;
        ssize_t done = process_vm_writev((pid_t) syscall(SYS_getpid), pieces, n, &to, 1, 0);

        if (done < 0)
                done = -errno;
        errno = error;
        return done;
}

ssize_t infp_agent_memory_copy(uint64_t address, void *ret_bytes, size_t size)
{
        const struct iovec piece = { (void *) (uintptr_t) address, size };

        return transfer(&piece, 1, ret_bytes, size);
}

int infp_agent_memory_read_once(void *context, uint64_t address, void *ret_bytes, size_t size)
{
        (void) context;
        return infp_agent_memory_copy(address, ret_bytes, size) == (ssize_t) size ? 0 : -EFAULT;
}

/* ---- lines ---- */

static uint16_t *place_of(struct infp_agent_memory *memory, uint64_t line)
{
        uint32_t at = (uint32_t) (line / INFP_AGENT_LINE * UINT64_C(0x9e3779b97f4a7c15) >> 32) % PLACES;

        while (memory->places[at] && memory->lines[memory->places[at] - 1] != line)
                at = (at + 1) % PLACES;
        return &memory->places[at];
}

/* The number of a line. Samples read much the same in the same order: mostly it is the one after the last. */
static uint32_t find(struct infp_agent_memory *memory, uint64_t line)
{
        if (memory->next >= memory->n || memory->lines[memory->next] != line)
                memory->next = (uint32_t) *place_of(memory, line) - 1;
        return memory->next == NONE ? NONE : memory->next++;
}

static void add(struct infp_agent_memory *memory, uint64_t line)
{
        uint16_t *place = place_of(memory, line);

        memory->lines[memory->n++] = line;
        *place = (uint16_t) memory->n;
}

/* Those from `first` on, as pieces: adjacent ones are one. */
static unsigned list(struct infp_agent_memory *memory, uint32_t first)
{
        struct iovec *piece = memory->pieces;

        *piece = (struct iovec){ (void *) (uintptr_t) memory->lines[first], INFP_AGENT_LINE };
        for (uint32_t i = first + 1; i < memory->n; i++)
                if (memory->lines[i] == memory->lines[i - 1] + INFP_AGENT_LINE)
                        piece->iov_len += INFP_AGENT_LINE;
                else
                        *++piece = (struct iovec){ (void *) (uintptr_t) memory->lines[i], INFP_AGENT_LINE };
        return (unsigned) (piece - memory->pieces) + 1;
}

/* Those from `first` on. The kernel stops where something cannot be read: what follows of that page is left out. */
static void fetch(struct infp_agent_memory *memory, uint32_t first)
{
        for (uint32_t at = first; at < memory->n;) {
                const unsigned n_pieces = list(memory, at);
                const ssize_t done = transfer(memory->pieces, n_pieces, memory->bytes[at],
                                              (size_t) (memory->n - at) * INFP_AGENT_LINE);
                uint64_t page;

                at += done > 0 ? (uint32_t) done / INFP_AGENT_LINE : 0;
                if (at >= memory->n)
                        return;
                memory->has_gaps = true;
                page = memory->lines[at] / INFP_AGENT_PAGE;
                while (at < memory->n && memory->lines[at] / INFP_AGENT_PAGE == page)
                        memory->lines[at++] = 0;
        }
}

/* Keeps the lines that are still read. */
static void tidy(struct infp_agent_memory *memory)
{
        const uint32_t n = memory->was_full ? 0 : memory->n;

        memset(memory->places, 0, sizeof(memory->places));
        memory->n = 0;
        memory->has_gaps = memory->was_full = false;
        for (uint32_t i = 0; i < n; i++)
                if (memory->lines[i] && memory->is_used[i])
                        add(memory, memory->lines[i]);
        memset(memory->is_used, 0, sizeof(memory->is_used));
}

void infp_agent_memory_begin(struct infp_agent_memory *memory)
{
        if (memory->n_samples++ % KEPT == 0 || memory->has_gaps || memory->was_full)
                tidy(memory);
        memory->next = 0;
        fetch(memory, 0);
}

/* The lines of a piece, which are to be fetched where they are new. False: there is no room. */
static bool want(struct infp_agent_memory *memory, const struct iovec *piece)
{
        const uint64_t begin = (uint64_t) (uintptr_t) piece->iov_base, end = begin + piece->iov_len;

        for (uint64_t line = begin & ~(uint64_t) (INFP_AGENT_LINE - 1); line && line < end; line += INFP_AGENT_LINE) {
                uint32_t i = find(memory, line);

                if (i == NONE) {
                        if (memory->n == INFP_AGENT_LINES)
                                return false;
                        i = memory->n;
                        add(memory, line);
                }
                memory->is_used[i] = true;
        }
        return true;
}

static bool give(struct infp_agent_memory *memory, const struct iovec *piece, uint8_t *ret)
{
        uint64_t address = (uint64_t) (uintptr_t) piece->iov_base;

        for (size_t left = piece->iov_len; left;) {
                const size_t at = address % INFP_AGENT_LINE, rest = INFP_AGENT_LINE - at, n = rest < left ? rest : left;
                const uint32_t i = address > at ? find(memory, address - at) : NONE;

                if (i == NONE)
                        return false;
                memcpy(ret, memory->bytes[i] + at, n);
                ret += n;
                address += n;
                left -= n;
        }
        return true;
}

ssize_t infp_agent_memory_gather(void *context, const struct iovec *pieces, unsigned n, void *ret_bytes, size_t size)
{
        struct infp_agent_memory *memory = context;
        const uint32_t first = memory->n, next = memory->next;
        size_t at = 0;

        for (unsigned i = 0; i < n; i++)
                if (!want(memory, &pieces[i])) {
                        memset(memory->lines + first, 0, (memory->n - first) * sizeof(*memory->lines));
                        memory->was_full = true;
                        return transfer(pieces, n, ret_bytes, size);
                }
        fetch(memory, first);
        memory->next = next;
        for (unsigned i = 0; i < n && give(memory, &pieces[i], (uint8_t *) ret_bytes + at); i++)
                at += pieces[i].iov_len;
        return (ssize_t) at;
}

int infp_agent_memory_read(void *context, uint64_t address, void *ret_bytes, size_t size)
{
        const struct iovec piece = { (void *) (uintptr_t) address, size };

        return infp_agent_memory_gather(context, &piece, 1, ret_bytes, size) == (ssize_t) size ? 0 : -EFAULT;
}
