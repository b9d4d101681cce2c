#include "agent/core/memory.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PIECES = 64 };

void infp_agent_memory_forget(struct infp_agent_memory *memory)
{
        memset(memory->page, 0, sizeof(memory->page));
}

/* The kernel copies whole pieces only, so each page is one. */
ssize_t infp_agent_memory_copy(uint64_t address, void *ret_bytes, size_t size)
{
        const struct iovec local = { ret_bytes, size };
        struct iovec remote[PIECES];
        const int error = errno;
        unsigned n = 0;
        ssize_t done;

        for (size_t at = 0; at < size && n < PIECES; n++) {
                const size_t rest = INFP_AGENT_PAGE - (address + at) % INFP_AGENT_PAGE,
                             piece = rest < size - at ? rest : size - at;

                remote[n] = (struct iovec){ (void *) (uintptr_t) (address + at), piece };
                at += piece;
        }
        done = syscall(SYS_process_vm_readv, getpid(), &local, 1, remote, n, 0);
        if (done < 0)
                done = -errno;
        errno = error;
        return done;
}

static const uint8_t *page_at(struct infp_agent_memory *memory, uint64_t page)
{
        unsigned i;

        for (i = 0; i < INFP_AGENT_PAGES; i++)
                if (memory->page[i] == page)
                        return memory->bytes[i];
        i = memory->next++ % INFP_AGENT_PAGES;
        memory->page[i] = 0;
        if (infp_agent_memory_copy(page, memory->bytes[i], INFP_AGENT_PAGE) != INFP_AGENT_PAGE)
                return NULL;
        memory->page[i] = page;
        return memory->bytes[i];
}

int infp_agent_memory_read(void *context, uint64_t address, void *ret_bytes, size_t size)
{
        struct infp_agent_memory *memory = context;
        char *into = ret_bytes;

        if (address + size < address || !address)
                return -EFAULT;
        while (size) {
                const uint64_t page = address & ~(uint64_t) (INFP_AGENT_PAGE - 1);
                const size_t at = address - page, rest = INFP_AGENT_PAGE - at, n = rest < size ? rest : size;
                const uint8_t *bytes = page ? page_at(memory, page) : NULL;

                if (!bytes)
                        return -EFAULT;
                memcpy(into, bytes + at, n);
                into += n;
                address += n;
                size -= n;
        }
        return 0;
}
