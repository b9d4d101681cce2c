#include "app/preload.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/core/preload.h"
#include "agent/heap/hooks.h"
#include "app/own_files.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/rights.h"
#include "sampler/python/bpf.h"

/* A map of one word: what a seccomp filter or the kernel says to it, it says to the program that reads frames. */
static bool may_bpf(void)
{
        union bpf_attr attributes = {
                .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 4, .max_entries = 1
        };
        infp_autoclose int fd = (int) syscall(SYS_bpf, BPF_MAP_CREATE, &attributes, sizeof(attributes));

        return fd >= 0;
}

static bool may_sample(void)
{
        struct perf_event_attr attributes = {
                .type = PERF_TYPE_SOFTWARE, .size = sizeof(attributes), .config = PERF_COUNT_SW_DUMMY, .disabled = 1
        };
        infp_autoclose int fd = (int) syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

        return fd >= 0;
}

bool infp_preload_is_wanted(const struct infp_sampler_options *options)
{
        if (options->cpu_hz <= 0 || options->is_blocking || options->python == INFP_PYTHON_OFF ||
            options->python == INFP_PYTHON_OUTSIDE)
                return false;
        return options->python == INFP_PYTHON_INSIDE || infp_bpf_is_here(NULL, NULL) < 0 ||
               !infp_rights_has(INFP_MAY_BPF) || !infp_rights_has(INFP_MAY_SAMPLE) || !may_bpf() || !may_sample();
}

/* Of other machines than x86-64 agents cannot read registers and stacks (agent/core/machine.h), and are not built. */
static int find(const char *file, char *ret, size_t size, struct infp_err *err)
{
#ifdef __x86_64__
        return infp_own_folder(file, ret, size, err);
#else
        (void) file, (void) ret, (void) size;
        return infp_fail(err, -ENOTSUP,
                         "agents, which take stacks and blocks of the heap inside programs, are there for x86-64 only");
#endif
}

int infp_preload_find(struct infp_err *err)
{
        char directory[PATH_MAX];

        return find(INFP_PRELOAD_FILE, directory, sizeof(directory), err);
}

/* A program with the address sanitizer wants its library to be the first. */
static void set_asan(struct infp_preload *ret)
{
        const char *before = getenv("ASAN_OPTIONS");

        snprintf(ret->asan, sizeof(ret->asan), "ASAN_OPTIONS=%s%sverify_asan_link_order=0", before ? before : "",
                 before && *before ? ":" : "");
}

int infp_preload_variables(const struct infp_sampler_options *options, bool has_sampler, struct infp_preload *ret,
                           const char *variables[INFP_PRELOAD_VARIABLES + 1], struct infp_err *err)
{
        const char *before = getenv("LD_PRELOAD"),
                   *file = options->heap_bytes ? INFP_PRELOAD_HEAP_FILE : INFP_PRELOAD_FILE;
        const bool is_first = options->heap_bytes;
        char directory[PATH_MAX];
        int n = 0;

        if (!options->cache_directory)
                return infp_fail(
                        err, -ENOENT,
                        "what is preloaded needs a directory for unwind tables, and neither XDG_CACHE_HOME nor "
                        "HOME is set");
        INFP_TRY(find(file, directory, sizeof(directory), err));
        if (strpbrk(directory, " :"))
                return infp_fail(err, -EINVAL,
                                 "%s cannot be preloaded: its path has a blank or a colon, at which LD_PRELOAD ends a "
                                 "name; install infprof elsewhere",
                                 directory);
        /* An allocator that is preloaded is the next one of ours; else what is there stays in front. */
        if ((size_t) snprintf(ret->preload, sizeof(ret->preload), "LD_PRELOAD=%s%s%s/%s%s%s",
                              before && !is_first ? before : "", before && *before && !is_first ? ":" : "", directory,
                              file, before && *before && is_first ? ":" : "",
                              before && is_first ? before : "") >= sizeof(ret->preload))
                return infp_fail(err, -EINVAL, "LD_PRELOAD is too long already");
        snprintf(ret->agent, sizeof(ret->agent), INFP_AGENT_ENV "=%s/%s", directory, INFP_AGENT_FILE);
        snprintf(ret->hz, sizeof(ret->hz), INFP_AGENT_ENV_HZ "=%" PRIu64 ".%03" PRIu64,
                 (uint64_t) (options->cpu_hz * 1000) / 1000, (uint64_t) (options->cpu_hz * 1000) % 1000);
        snprintf(ret->tables, sizeof(ret->tables), INFP_AGENT_ENV_TABLES "=%s", options->cache_directory);
        snprintf(ret->heap, sizeof(ret->heap), INFP_AGENT_ENV_HEAP "=%" PRIu64 "-%" PRIu64, options->heap_bytes,
                 options->heap_bytes == INFP_SAMPLER_HEAP_EXACT ? (uint64_t) getpid() : options->heap_most_bytes);
        set_asan(ret);
        variables[n++] = ret->preload;
        variables[n++] = ret->agent;
        variables[n++] = ret->tables;
        variables[n++] = ret->asan;
        if (has_sampler)
                variables[n++] = ret->hz;
        if (options->heap_bytes)
                variables[n++] = ret->heap;
        variables[n] = NULL;
        return n;
}
