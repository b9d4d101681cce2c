/* Processes of a GPU: the three lists in all their versions, the list of details, use, accounting. */
#include <stdlib.h>
#include <string.h>

#include "answer.h"

static bool is_of_type(const struct fake_line *line, char type)
{
        const char *at = strstr(line->value, " type=");

        /* Without a word it computes. */
        return at ? strcspn(at + 6, " ") > strcspn(at + 6, (char[]){ type, '\0' }) : type == 'C';
}

/* A process that is on no part of the GPU has none (all bits set), and so does memory that the driver does not know. */
static struct nvml_process_long process_of(const struct fake_line *line)
{
        const double memory = fake_word(line, "memory", -1);

        return (struct nvml_process_long){ .pid = (uint32_t) fake_word(line, "pid", strtod(line->value, NULL)),
                                           .memory = memory < 0 ? UINT64_MAX : (uint64_t) memory,
                                           .gi = (uint32_t) (int64_t) fake_word(line, "gi", -1),
                                           .ci = (uint32_t) (int64_t) fake_word(line, "ci", -1),
                                           .protected_memory = (uint64_t) fake_word(line, "protected", 0) };
}

static void put(void *list, uint32_t i, unsigned size, const struct nvml_process_long *p)
{
        char *to = (char *) list + (size_t) i * size;

        if (size == sizeof(struct nvml_process_v1))
                memcpy(to, &(struct nvml_process_v1){ p->pid, p->memory }, size);
        else if (size == sizeof(struct nvml_process))
                memcpy(to, &(struct nvml_process){ p->pid, p->memory, p->gi, p->ci }, size);
        else
                memcpy(to, p, size);
}

struct walk {
        const struct fake_device *device;
        int part; /* of a GPU that is cut into parts: whose processes come next */
        unsigned at;
};

/* The list of a whole GPU has those of its parts, too. */
static const struct fake_line *next_process(struct walk *walk)
{
        const struct fake_line *line;

        while (!(line = fake_next(fake_device_at(walk->device->index, walk->part), "process", &walk->at))) {
                if (walk->device->part != FAKE_WHOLE || ++walk->part == FAKE_PARTS)
                        return NULL;
                walk->at = 0;
        }
        return line;
}

static int give(const struct fake_device *device, char type, unsigned size, uint32_t *n, void *list)
{
        struct walk walk = { .device = device, .part = device->part };
        const struct fake_line *line;
        unsigned there = 0;

        if (!n)
                return NVML_INVALID_ARGUMENT;
        while ((line = next_process(&walk)))
                there += is_of_type(line, type);
        if (*n < there || (there && !list)) {
                *n = there;
                return NVML_INSUFFICIENT_SIZE;
        }
        *n = 0;
        walk = (struct walk){ .device = device, .part = device->part };
        while (*n < there && (line = next_process(&walk)))
                if (is_of_type(line, type)) {
                        const struct nvml_process_long p = process_of(line);

                        put(list, (*n)++, size, &p);
                }
        return NVML_OK;
}

/* What a driver writes behind _v3: 24 bytes, but for a few drivers' 32. */
static unsigned newest_size(void)
{
        double size;

        return fake_number(NULL, "process_record", &size) ? (unsigned) size : sizeof(struct nvml_process);
}

#define LIST(name, type)                                                                          \
        NVML(name, const struct fake_device *device, uint32_t *n, struct nvml_process_v1 *list)   \
        {                                                                                         \
                ENTER(device);                                                                    \
                return give(device, type, sizeof(*list), n, list);                                \
        }                                                                                         \
        NVML(name##_v2, const struct fake_device *device, uint32_t *n, struct nvml_process *list) \
        {                                                                                         \
                ENTER(device);                                                                    \
                return give(device, type, sizeof(*list), n, list);                                \
        }                                                                                         \
        NVML(name##_v3, const struct fake_device *device, uint32_t *n, void *list)                \
        {                                                                                         \
                ENTER(device);                                                                    \
                return give(device, type, newest_size(), n, list);                                \
        }
LIST(nvmlDeviceGetComputeRunningProcesses, 'C')
LIST(nvmlDeviceGetGraphicsRunningProcesses, 'G')
LIST(nvmlDeviceGetMPSComputeRunningProcesses, 'M')

NVML(nvmlDeviceGetRunningProcessDetailList, const struct fake_device *device, struct nvml_detail_list *ret)
{
        static const char types[] = "CGM";

        ENTER(device);
        if (ret->version != fake_version(sizeof(*ret), 1))
                return NVML_VERSION_MISMATCH;
        return ret->mode < 3 ? give(device, types[ret->mode], sizeof(*ret->list), &ret->n, ret->list)
                             : NVML_INVALID_ARGUMENT;
}

static bool use_of(const struct fake_line *line, uint64_t since_us, struct nvml_process_use_v1 *ret)
{
        const double sm = fake_word(line, "sm", -1), age_ms = fake_word(line, "age", 0);

        *ret = (struct nvml_process_use_v1){ .us = fake_us() - (uint64_t) (age_ms * 1e3),
                                             .pid = (uint32_t) fake_word(line, "pid", strtod(line->value, NULL)),
                                             .sm = (uint32_t) sm,
                                             .memory = (uint32_t) fake_word(line, "mem", 0),
                                             .encoder = (uint32_t) fake_word(line, "enc", 0),
                                             .decoder = (uint32_t) fake_word(line, "dec", 0),
                                             .jpeg = (uint32_t) fake_word(line, "jpg", 0),
                                             .ofa = (uint32_t) fake_word(line, "ofa", 0) };
        return sm >= 0 && ret->us > since_us;
}

/* `use` lines are samples of processes that are in no list: what is left of dead ones. */
static unsigned give_uses(const struct fake_device *device, uint64_t since_us, struct nvml_process_use_v1 *list,
                          unsigned room)
{
        static const char *const keys[] = { "process", "use" };
        struct nvml_process_use_v1 use;
        const struct fake_line *line;
        unsigned n = 0;

        for (unsigned i = 0; i < 2; i++)
                for (unsigned at = 0; (line = fake_next(device, keys[i], &at));)
                        if (use_of(line, since_us, &use)) {
                                if (n < room)
                                        list[n] = use;
                                n++;
                        }
        return n;
}

NVML(nvmlDeviceGetProcessUtilization, const struct fake_device *device, struct nvml_process_use *list, uint32_t *n,
     uint64_t since_us)
{
        struct nvml_process_use_v1 uses[256];
        unsigned there;

        ENTER_WHOLE(device);
        if (fake_text(device, "mig.mode") && *fake_text(device, "mig.mode") == '1')
                return NVML_NOT_SUPPORTED;
        there = give_uses(device, since_us, uses, 256);
        if (!there)
                return NVML_NOT_FOUND;
        if (!list || *n < there) {
                *n = there;
                return NVML_INSUFFICIENT_SIZE;
        }
        *n = there;
        for (unsigned i = 0; i < there; i++)
                list[i] = (struct nvml_process_use){ .pid = uses[i].pid,
                                                     .us = uses[i].us,
                                                     .sm = uses[i].sm,
                                                     .memory = uses[i].memory,
                                                     .encoder = uses[i].encoder,
                                                     .decoder = uses[i].decoder };
        return NVML_OK;
}

NVML(nvmlDeviceGetProcessesUtilizationInfo, const struct fake_device *device, struct nvml_process_uses *ret)
{
        unsigned there;

        ENTER_WHOLE(device);
        if (ret->version != fake_version(sizeof(*ret), 1))
                return NVML_VERSION_MISMATCH;
        if (fake_text(device, "mig.mode") && *fake_text(device, "mig.mode") == '1')
                return NVML_NOT_SUPPORTED;
        there = give_uses(device, ret->since, ret->list, ret->list ? ret->n : 0);
        if (!there)
                return NVML_NOT_FOUND;
        if (!ret->list || ret->n < there) {
                ret->n = there;
                return NVML_INSUFFICIENT_SIZE;
        }
        ret->n = there;
        return NVML_OK;
}

NVML(nvmlDeviceGetAccountingMode, const struct fake_device *device, uint32_t *ret)
{
        ENTER_WHOLE(device);
        return fake_give_u32(device, "accounting", ret);
}

NVML(nvmlDeviceGetAccountingStats, const struct fake_device *device, uint32_t pid, struct nvml_accounting *ret)
{
        const struct fake_line *line;

        ENTER_WHOLE(device);
        for (unsigned at = 0; (line = fake_next(device, "account", &at));) {
                if ((uint32_t) strtod(line->value, NULL) != pid)
                        continue;
                *ret = (struct nvml_accounting){ .gpu = (uint32_t) fake_word(line, "gpu", 0),
                                                 .memory = (uint32_t) fake_word(line, "mem", 0),
                                                 .most_memory = (uint64_t) fake_word(line, "memory", 0),
                                                 .time_ms = (uint64_t) fake_word(line, "ms", 0),
                                                 .is_running = fake_word(line, "ms", 0) == 0 };
                return NVML_OK;
        }
        return NVML_NOT_FOUND;
}

NVML(nvmlDeviceGetConfComputeMemSizeInfo, const struct fake_device *device, struct nvml_protected_memory *ret)
{
        ENTER_WHOLE(device);
        *ret = (struct nvml_protected_memory){ 0 };
        return NVML_NOT_SUPPORTED;
}
