/* Blocks that the program maps itself: sampled as those of malloc are, and all are remembered, since a part of one may be unmapped, and what
 * mremap moves may be a file. */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>

#include "agent/heap/heap_parts.h"
#include "agent/heap/maps.h"
#include "ring/writer.h"

enum { PAGE = 4096 };

static struct infp_preload_heap *hooks;
static unsigned n_own;

static uint64_t page_end(uint64_t address)
{
        return (address + PAGE - 1) & ~(uint64_t) (PAGE - 1);
}

bool infp_agent_mapped_put(uint64_t address, uint64_t size, uint64_t id, uint64_t mean)
{
        return infp_agent_maps_put(&(struct infp_agent_map){ address, page_end(address + size), id, mean });
}

static int64_t mapped(uint64_t address, uint64_t size, int64_t left, bool is_new)
{
        return infp_agent_heap_allocated(address, size, left, is_new, INFP_WIRE_MAPPED);
}

/* Two ids, whether they will be needed or not. */
static bool new_ids(uint64_t ids[2])
{
        struct infp_writer_thread *thread = infp_writer_begin();

        if (!thread)
                return false;
        ids[0] = infp_writer_new_id(thread);
        ids[1] = infp_writer_new_id(thread);
        infp_writer_end();
        return true;
}

static bool unmapped(uint64_t begin, uint64_t end, uint64_t since)
{
        const int error = errno;
        struct infp_agent_cut cut;
        uint64_t ids[2];
        bool ret = false;
        bool was;

        end = page_end(end);
        was = hooks->busy(true);
        while (infp_agent_maps_has(begin, end, since) && new_ids(ids) &&
               infp_agent_maps_cut(begin, end, since, ids, &cut)) {
                ret = true;
                if (!cut.old.id)
                        continue;
                infp_agent_heap_freed(cut.old.id);
                for (unsigned i = 0; i < cut.n_rest; i++)
                        infp_agent_heap_again(cut.rest[i].id, cut.rest[i].begin, cut.rest[i].end - cut.rest[i].begin,
                                              cut.rest[i].mean, INFP_WIRE_MAPPED);
        }
        hooks->busy(was);
        errno = error;
        return ret;
}

/* From the object's own headers, which lie at its begin: no lock of the loader is needed. */
void infp_agent_mapped_leave_out(const void *function)
{
        const ElfW(Ehdr) * head;
        const ElfW(Phdr) * parts;
        Dl_info info;

        if (!hooks || n_own >= INFP_HEAP_OWN || !function || !dladdr(function, &info))
                return;
        head = info.dli_fbase;
        parts = (const ElfW(Phdr) *) ((const char *) info.dli_fbase + head->e_phoff);
        for (unsigned i = 0; i < head->e_phnum; i++) {
                const uint64_t bias = head->e_type == ET_DYN ? (uintptr_t) info.dli_fbase : 0,
                               begin = bias + parts[i].p_vaddr;

                if (parts[i].p_type != PT_LOAD || !(parts[i].p_flags & PF_X) || (uintptr_t) function < begin ||
                    (uintptr_t) function >= begin + parts[i].p_memsz)
                        continue;
                hooks->own[n_own].begin = begin;
                hooks->own[n_own++].end = begin + parts[i].p_memsz;
                return;
        }
}

void infp_agent_mapped_begin(struct infp_preload_heap *given)
{
        hooks = given;
        if (infp_agent_maps_make() < 0)
                return;
        infp_agent_mapped_leave_out((const void *) infp_agent_mapped_begin);
        infp_agent_mapped_leave_out((const void *) hooks->allocator);
        hooks->mapping = infp_agent_maps_now;
        hooks->unmapped = unmapped;
        atomic_store(&hooks->mapped, mapped);
}
