/* Names, versions and settings of the machine, each from a small file or a system call of its own. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/timex.h>
#include <sys/utsname.h>

#include "base/mem.h"
#include "collectors/host/host.h"

static void set_id(const struct infp_env *env, struct infp_row *row)
{
        static const char *const paths[] = { "sys/class/dmi/id/product_uuid", "etc/machine-id" };
        char text[128];

        for (size_t i = 0; i < INFP_COUNT(paths); i++) {
                struct infp_span value = infp_host_read(env, paths[i], text, sizeof(text));
                size_t n = value.size;

                /* Boards whose maker forgot it have all 0 or all F. */
                while (n && strchr("0Ff-", value.at[n - 1]))
                        n--;
                if (n && !memchr(value.at, '\n', value.size)) {
                        infp_row_bytes(row, HOST_ID, value.at, value.size);
                        return;
                }
        }
        infp_row_str(row, HOST_ID, "unavailable");
}

static void set_kernel(const struct infp_env *env, struct infp_row *row)
{
        static const char *const parts[] = { "ostype", "osrelease", "version", "arch" };
        char path[64], text[1024], all[2048];
        size_t n = 0;
        struct utsname name;

        /* The file is there since Linux 6.1. */
        if (!infp_row_has(row, HOST_ARCHITECTURE) && env->is_live && !uname(&name))
                infp_row_str(row, HOST_ARCHITECTURE, name.machine);
        for (size_t i = 0; i < INFP_COUNT(parts); i++) {
                struct infp_span value;

                snprintf(path, sizeof(path), "proc/sys/kernel/%s", parts[i]);
                value = infp_host_read(env, path, text, sizeof(text));
                if (!value.size && i == 3 && infp_row_has(row, HOST_ARCHITECTURE))
                        value.at = infp_row_text(row, HOST_ARCHITECTURE, &value.size);
                if (!value.size || n + value.size + 1 > sizeof(all))
                        continue;
                if (n)
                        all[n++] = ' ';
                memcpy(all + n, value.at, value.size);
                n += value.size;
        }
        if (n)
                infp_row_bytes(row, HOST_KERNEL_INFO, all, n);
}

/* The word in brackets of "always [madvise] never". */
static void set_thp(const struct infp_env *env, struct infp_row *row)
{
        char text[128];
        struct infp_span all = infp_host_read(env, "sys/kernel/mm/transparent_hugepage/enabled", text, sizeof(text)),
                         word;

        while ((word = infp_span_word(&all)).size)
                if (word.size > 2 && word.at[0] == '[' && word.at[word.size - 1] == ']')
                        infp_row_bytes(row, HOST_THP, word.at + 1, word.size - 2);
}

static void set_os(const struct infp_env *env, struct infp_row *row)
{
        char text[4096];
        struct infp_span all = infp_host_read(env, "etc/os-release", text, sizeof(text)), line, value;

        while (infp_span_line(&all, &line)) {
                if (!infp_span_starts(line, "PRETTY_NAME="))
                        continue;
                infp_span_cut(line, '=', &value);
                while (value.size && strchr("\"'", value.at[0]))
                        value.at++, value.size--;
                while (value.size && strchr("\"'", value.at[value.size - 1]))
                        value.size--;
                if (value.size)
                        infp_row_bytes(row, HOST_OS, value.at, value.size);
        }
}

static void set_machine(const struct infp_env *env, struct infp_row *row)
{
        char vendor[128], product[128], both[260];
        struct infp_span v = infp_host_read(env, "sys/class/dmi/id/sys_vendor", vendor, sizeof(vendor));
        struct infp_span p = infp_host_read(env, "sys/class/dmi/id/product_name", product, sizeof(product));
        int n = snprintf(both, sizeof(both), "%.*s%s%.*s", (int) v.size, v.at, v.size && p.size ? " " : "",
                         (int) p.size, p.at);

        if (n > 0)
                infp_row_bytes(row, HOST_MACHINE, both, (size_t) n);
}

static void set_settings(const struct infp_env *env, struct infp_row *row)
{
        struct infp_cpus nodes;
        char text[256];

        set_thp(env, row);
        set_os(env, row);
        set_machine(env, row);
        if (!infp_cpus_parse(&nodes, infp_host_read(env, "sys/devices/system/node/online", text, sizeof(text))) &&
            nodes.n)
                infp_row_i64(row, HOST_NUMA_NODES, nodes.n);
        /* Of another machine's files they are only assumed. */
        if (env->is_live) {
                infp_row_i64(row, HOST_PAGE_SIZE, env->page_size);
                infp_row_i64(row, HOST_TICKS, env->ticks_per_s);
        }
}

static void no_time(struct infp_emit *emit, int r, const char *reason)
{
        for (unsigned cell = HOST_TIME_SYNCED; cell <= HOST_TIME_MAX_ERROR; cell++)
                infp_emit_source(emit, emit->row.table, (int) cell, NULL, r < 0 ? infp_source_state_of(r) : INFP_ABSENT,
                                 reason, NULL);
}

/* Only the running kernel can be asked, by a system call that a sandbox may refuse. */
static void set_time_sync(const struct infp_env *env, struct infp_emit *emit)
{
        struct timex t = { 0 };
        int state;

        if (!env->is_live) {
                no_time(emit, 0, "asked of the running machine only");
                return;
        }
        state = adjtimex(&t);
        if (state < 0) {
                no_time(emit, -errno, "the kernel does not let adjtimex be called");
                return;
        }
        infp_row_bool(&emit->row, HOST_TIME_SYNCED, state != TIME_ERROR && !(t.status & STA_UNSYNC));
        infp_row_i64(&emit->row, HOST_TIME_OFFSET, t.status & STA_NANO ? t.offset : t.offset * 1000);
        infp_row_i64(&emit->row, HOST_TIME_MAX_ERROR, t.maxerror);
}

void infp_host_facts(const struct infp_env *env, struct infp_emit *emit)
{
        set_id(env, &emit->row);
        set_kernel(env, &emit->row);
        set_settings(env, &emit->row);
        set_time_sync(env, emit);
}
