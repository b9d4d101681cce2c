#include "collectors/cpus.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/fd.h"
#include "base/names.h"
#include "base/number.h"

static void add(struct infp_cpus *cpus, uint64_t cpu)
{
        uint64_t bit = UINT64_C(1) << (cpu % 64);

        if (!(cpus->bits[cpu / 64] & bit))
                cpus->n++;
        cpus->bits[cpu / 64] |= bit;
}

static int add_range(struct infp_cpus *cpus, struct infp_span range)
{
        struct infp_span last = { range.at, 0 }, first = infp_span_cut(range, '-', &last);
        uint64_t a, b;

        if (infp_span_u64(first, &a))
                return -EBADMSG;
        b = a;
        if (first.size < range.size && infp_span_u64(last, &b))
                return -EBADMSG;
        if (b < a || b >= INFP_CPUS_MAX)
                return -EBADMSG;
        for (; a <= b; a++)
                add(cpus, a);
        return 0;
}

int infp_cpus_parse(struct infp_cpus *cpus, struct infp_span list)
{
        struct infp_span rest = infp_span_trim(list);

        memset(cpus, 0, sizeof(*cpus));
        while (rest.size) {
                struct infp_span text = rest;

                if (add_range(cpus, infp_span_cut(text, ',', &rest)) < 0) {
                        memset(cpus, 0, sizeof(*cpus));
                        return -EBADMSG;
                }
                if (rest.at == text.at)
                        break;
        }
        return 0;
}

void infp_cpus_add(struct infp_cpus *to, const struct infp_cpus *cpus)
{
        to->n = 0;
        for (size_t i = 0; i < sizeof(to->bits) / sizeof(to->bits[0]); i++) {
                to->bits[i] |= cpus->bits[i];
                to->n += (unsigned) __builtin_popcountll(to->bits[i]);
        }
}

int infp_cpus_list(struct infp_cpus *cpus, int root_fd)
{
        infp_autoclose int fd = openat(root_fd, "sys/devices/system/cpu", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct infp_names names;
        const char *name;
        uint64_t cpu;

        memset(cpus, 0, sizeof(*cpus));
        if (fd < 0)
                return -errno;
        infp_names_begin(&names, fd);
        while ((name = infp_names_next(&names)))
                if (!strncmp(name, "cpu", 3) && !infp_parse_u64(name + 3, strlen(name + 3), &cpu) &&
                    cpu < INFP_CPUS_MAX)
                        add(cpus, cpu);
        return names.n < 0 ? -errno : 0;
}
