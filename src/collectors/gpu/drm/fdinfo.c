#include "collectors/gpu/drm/fdinfo.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/procfile.h"

/* How well a key describes the memory that a client uses now. */
enum rank { RANK_NONE, RANK_TOTAL, RANK_RESIDENT, RANK_MEMORY };
enum { REGIONS = 8 };

struct region {
        struct infp_span name;
        enum rank rank;
        uint64_t bytes;
};

struct regions {
        struct region list[REGIONS];
        unsigned n;
};

static int engine_of(struct infp_span name)
{
        static const struct {
                const char *name;
                enum gpu_engine engine;
        } known[] = {
                { "gfx", GPU_ENGINE_RENDER },   { "render", GPU_ENGINE_RENDER },
                { "rcs", GPU_ENGINE_RENDER },   { "compute", GPU_ENGINE_COMPUTE },
                { "ccs", GPU_ENGINE_COMPUTE },  { "dma", GPU_ENGINE_COPY },
                { "copy", GPU_ENGINE_COPY },    { "bcs", GPU_ENGINE_COPY },
                { "dec", GPU_ENGINE_VIDEO },    { "video", GPU_ENGINE_VIDEO },
                { "vcs", GPU_ENGINE_VIDEO },    { "enc", GPU_ENGINE_ENCODE },
                { "enc_1", GPU_ENGINE_ENCODE }, { "jpeg", GPU_ENGINE_JPEG },
                { "vecs", GPU_ENGINE_ENHANCE }, { "video-enhance", GPU_ENGINE_ENHANCE },
                { "vpe", GPU_ENGINE_ENHANCE },
        };

        for (size_t i = 0; i < INFP_COUNT(known); i++)
                if (infp_span_is(name, known[i].name))
                        return (int) known[i].engine;
        return -1;
}

static struct infp_span after(struct infp_span s, size_t n)
{
        return (struct infp_span){ s.at + n, s.size - n };
}

static bool take_prefix(struct infp_span *s, const char *prefix)
{
        if (!infp_span_starts(*s, prefix))
                return false;
        *s = after(*s, strlen(prefix));
        return true;
}

static void copy(char *ret, size_t cap, struct infp_span s)
{
        size_t n = s.size < cap ? s.size : cap - 1;

        memcpy(ret, s.at, n);
        ret[n] = 0;
}

/* "123 KiB", "123" (bytes), "123 kB" of old kernels. */
static bool bytes_of(struct infp_span value, uint64_t *ret)
{
        static const struct {
                const char *unit;
                unsigned shift;
        } units[] = { { "", 0 }, { "B", 0 }, { "KiB", 10 }, { "kB", 10 }, { "MiB", 20 }, { "GiB", 30 } };
        struct infp_span number = infp_span_word(&value), unit = infp_span_word(&value);
        uint64_t v;

        if (infp_span_u64(number, &v))
                return false;
        for (size_t i = 0; i < INFP_COUNT(units); i++)
                if (infp_span_is(unit, units[i].unit) && v <= UINT64_MAX >> units[i].shift) {
                        *ret = v << units[i].shift;
                        return true;
                }
        return false;
}

static void take_memory(struct regions *regions, struct infp_span name, enum rank rank, struct infp_span value)
{
        struct region *region = regions->list;
        uint64_t bytes;

        if (!name.size || !bytes_of(value, &bytes))
                return;
        for (; region < regions->list + regions->n; region++)
                if (region->name.size == name.size && !memcmp(region->name.at, name.at, name.size))
                        break;
        if (region == regions->list + REGIONS)
                return;
        if (region == regions->list + regions->n) {
                *region = (struct region){ .name = name };
                regions->n++;
        }
        if (rank <= region->rank)
                return;
        region->rank = rank;
        region->bytes = bytes;
}

static void take_busy(struct gpu_fdinfo *ret, struct infp_span name, struct infp_span value)
{
        int engine = engine_of(name);
        uint64_t ns;

        if (engine < 0 || infp_span_u64(infp_span_word(&value), &ns))
                return;
        ret->engine[engine].busy_ns += ns; /* enc and enc_1 are one kind */
        ret->engine[engine].has_busy = true;
}

static void take_capacity(struct gpu_fdinfo *ret, struct infp_span name, struct infp_span value)
{
        int engine = engine_of(name);
        uint64_t n;

        if (engine >= 0 && !infp_span_u64(infp_span_word(&value), &n) && n >= 1 && n <= 1024)
                ret->engine[engine].capacity = (uint32_t) n;
}

static void take_cycles(struct gpu_fdinfo *ret, struct infp_span name, struct infp_span value, bool is_total)
{
        int engine = engine_of(name);
        uint64_t cycles;

        if (engine < 0 || infp_span_u64(infp_span_word(&value), &cycles))
                return;
        if (is_total) {
                ret->engine[engine].total_cycles = cycles;
        } else {
                ret->engine[engine].cycles = cycles;
                ret->engine[engine].has_cycles = true;
        }
}

/* "gfx0: 12.34%": an engine's name and its number. */
static void take_percent(struct gpu_fdinfo *ret, struct infp_span name, struct infp_span value)
{
        double percent;
        int engine;

        if (!value.size || value.at[value.size - 1] != '%' || !name.size)
                return;
        while (name.size && name.at[name.size - 1] >= '0' && name.at[name.size - 1] <= '9')
                name.size--;
        value.size--;
        engine = engine_of(name);
        if (engine < 0 || infp_span_f64(value, &percent) || percent < 0)
                return;
        ret->engine[engine].percent += percent;
        ret->engine[engine].has_percent = true;
}

static void take_client(struct gpu_fdinfo *ret, struct infp_span value)
{
        if (!infp_span_u64(value, &ret->client))
                ret->has_client = true;
}

/* Keys of amdgpu before 5.19, which name no driver. */
static void take_old(struct gpu_fdinfo *ret, struct regions *regions, struct infp_span key, struct infp_span value)
{
        if (infp_span_is(key, "pdev"))
                copy(ret->pci, sizeof(ret->pci), value);
        else if (infp_span_is(key, "pasid") && !ret->has_client)
                take_client(ret, value);
        else if (infp_span_is(key, "vram mem"))
                take_memory(regions, (struct infp_span){ "vram", 4 }, RANK_MEMORY, value);
        else if (infp_span_is(key, "gtt mem"))
                take_memory(regions, (struct infp_span){ "gtt", 3 }, RANK_MEMORY, value);
        else
                take_percent(ret, key, value);
}

static void take_line(struct gpu_fdinfo *ret, struct regions *regions, struct infp_span line)
{
        struct infp_span value, key = infp_span_trim(infp_span_cut(line, ':', &value));

        value = infp_span_trim(value);
        if (!take_prefix(&key, "drm-")) {
                take_old(ret, regions, key, value);
                return;
        }
        if (infp_span_is(key, "driver"))
                copy(ret->driver, sizeof(ret->driver), value);
        else if (infp_span_is(key, "pdev"))
                copy(ret->pci, sizeof(ret->pci), value);
        else if (infp_span_is(key, "client-id"))
                take_client(ret, value);
        else if (take_prefix(&key, "engine-capacity-"))
                take_capacity(ret, key, value);
        else if (take_prefix(&key, "engine-"))
                take_busy(ret, key, value);
        else if (take_prefix(&key, "total-cycles-"))
                take_cycles(ret, key, value, true);
        else if (take_prefix(&key, "cycles-"))
                take_cycles(ret, key, value, false);
        else if (take_prefix(&key, "memory-"))
                take_memory(regions, key, RANK_MEMORY, value);
        else if (take_prefix(&key, "resident-"))
                take_memory(regions, key, RANK_RESIDENT, value);
        else if (take_prefix(&key, "total-"))
                take_memory(regions, key, RANK_TOTAL, value);
}

static void add_up(struct gpu_fdinfo *ret, const struct regions *regions)
{
        for (unsigned i = 0; i < regions->n; i++) {
                const struct region *region = &regions->list[i];

                if (infp_span_starts(region->name, "vram") || infp_span_starts(region->name, "local")) {
                        ret->vram_bytes += region->bytes;
                        ret->has_vram = true;
                } else if (infp_span_is(region->name, "gtt") || infp_span_starts(region->name, "system")) {
                        ret->system_bytes += region->bytes;
                        ret->has_system = true;
                }
        }
}

bool infp_gpu_fdinfo_parse(const char *text, size_t size, struct gpu_fdinfo *ret)
{
        struct infp_span rest = { text, size }, line;
        struct regions regions = { .n = 0 };
        bool has_percent = false;

        *ret = (struct gpu_fdinfo){ .driver = "" };
        for (int i = 0; i < GPU_ENGINE_N; i++)
                ret->engine[i].capacity = 1;
        while (infp_span_line(&rest, &line))
                take_line(ret, &regions, line);
        add_up(ret, &regions);
        for (int i = 0; i < GPU_ENGINE_N; i++)
                has_percent |= ret->engine[i].has_percent;
        if (!*ret->driver && *ret->pci && (has_percent || ret->has_vram))
                snprintf(ret->driver, sizeof(ret->driver), "amdgpu");
        return *ret->driver;
}
