/* What was found beside files: engines that answer, GPUs, the control group in which we are. */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "app/doctor.h"
#include "app/one_shot.h"
#include "base/fd.h"
#include "base/human.h"
#include "base/mem.h"
#include "collect/cgroup.h"
#include "collectors/container/table.h"
#include "collectors/engine/engine.h"
#include "collectors/engine/tables.h"
#include "collectors/gpu/table.h"

static void put_text(struct infp_str *out, const char *before, const struct infp_batch *batch, unsigned cell,
                     uint32_t row)
{
        size_t size;
        const char *text = infp_batch_str(batch, INFP_FIXED_COLUMNS + cell, row, &size);

        if (!size)
                return;
        infp_str_puts(out, before);
        infp_str_put(out, text, size);
}

/* "http://127.0.0.1:8000/metrics: vllm 0.32.0, model x". */
static void put_engine(struct infp_str *out, const struct infp_last *last, uint64_t id)
{
        struct infp_batch engine;

        if (!last->entity(last->context, infp_table_engines.name, id, &engine))
                return;
        put_text(out, "", &engine, INFP_ENGINES_URL, 0);
        put_text(out, ": ", &engine, INFP_ENGINES_MAKE, 0);
        put_text(out, " ", &engine, INFP_ENGINES_VERSION, 0);
        put_text(out, ", model ", &engine, INFP_ENGINES_MODEL, 0);
}

static void add_engine(struct infp_findings *findings, const struct infp_last *last, const struct infp_batch *scrapes,
                       uint32_t row, unsigned number)
{
        infp_autostr struct infp_str text = { 0 }, name = { 0 };
        const bool ok = infp_batch_bool(scrapes, INFP_FIXED_COLUMNS + INFP_SCRAPES_OK, row);

        infp_str_printf(&name, "engine %u", number);
        put_engine(&text, last, infp_batch_u64(scrapes, INFP_FIXED_COLUMNS + INFP_SCRAPES_ENGINE, row));
        if (ok) {
                infp_str_puts(&text, "; ");
                infp_human_bytes(&text, (double) infp_batch_i64(scrapes, INFP_FIXED_COLUMNS + INFP_SCRAPES_BYTES, row));
                infp_str_printf(
                        &text, ", %lld series in %s ms",
                        (long long) infp_batch_i64(scrapes, INFP_FIXED_COLUMNS + INFP_SCRAPES_SERIES_COUNT, row),
                        infp_fixed(infp_batch_f64(scrapes, INFP_FIXED_COLUMNS + INFP_SCRAPES_MS, row), 1).text);
        }
        if (!ok) { /* the reason names the address itself */
                infp_str_clear(&text);
                put_text(&text, "", scrapes, INFP_SCRAPES_REASON, row);
        }
        infp_findings_add(findings, "engines", name.data, ok ? "ok" : "absent", false, text.data, NULL);
}

void infp_doctor_engines(struct infp_findings *findings, const struct infp_one_shot *shot)
{
        const struct infp_last *last = &shot->last;
        struct infp_batch batch;
        unsigned n = 0;

        for (uint32_t from = 0; last->rows(last->context, &infp_table_engine_scrapes, from, &batch);
             from += batch.n_rows)
                for (uint32_t row = 0; row < batch.n_rows; row++)
                        add_engine(findings, last, &batch, row, n++);
}

/* "NVIDIA H100 80GB HBM3, 79.65 GiB, at 0000:18:00.0". One that is lost has a row of nothing, and is told of above. */
static void add_gpu(struct infp_findings *findings, const struct infp_table *table, const struct infp_batch *gpus,
                    uint32_t row)
{
        infp_autostr struct infp_str text = { 0 }, name = { 0 };
        const unsigned memory = INFP_FIXED_COLUMNS + GPU_MEMORY_TOTAL_BYTES;
        bool has_any = infp_batch_has(gpus, memory, row);

        for (unsigned cell = GPU_UTILIZATION_GPU; cell <= GPU_CLOCK_VIDEO; cell++)
                has_any |= infp_batch_has(gpus, INFP_FIXED_COLUMNS + cell, row);
        if (!has_any)
                return;
        infp_str_printf(&name, "%s%lld", table->name,
                        (long long) infp_batch_i64(gpus, INFP_FIXED_COLUMNS + GPU_INDEX, row));
        put_text(&text, "", gpus, GPU_NAME, row);
        if (infp_batch_has(gpus, memory, row)) {
                infp_str_puts(&text, text.size ? ", " : "");
                infp_human_bytes(&text, (double) infp_batch_i64(gpus, memory, row));
        }
        put_text(&text, text.size ? ", at " : "at ", gpus, GPU_PCI_BUS_ID, row);
        infp_findings_add(findings, "gpus", name.data, "ok", false, text.data, NULL);
}

void infp_doctor_gpus(struct infp_findings *findings, const struct infp_one_shot *shot)
{
        static const struct infp_table *const tables[] = { &infp_table_nvidia, &infp_table_amdgpu, &infp_table_intel };
        const struct infp_last *last = &shot->last;
        struct infp_batch batch;

        for (size_t i = 0; i < INFP_COUNT(tables); i++)
                for (uint32_t from = 0; last->rows(last->context, tables[i], from, &batch); from += batch.n_rows)
                        for (uint32_t row = 0; row < batch.n_rows; row++)
                                add_gpu(findings, tables[i], &batch, row);
}

/* Another group can be made beside our processes only below a directory that we may write. */
static void add_delegation(struct infp_findings *findings, const struct infp_env *env,
                           const struct infp_cgroup_place *place)
{
        infp_autostr struct infp_str text = { 0 };
        const bool can = !faccessat(env->root_fd, place->path, W_OK | X_OK, AT_EACCESS);

        infp_str_printf(&text, "/%s %s", place->path,
                        can ? "is writable: record --own-cgroup can run the command in its own group"
                            : "is not writable: record --own-cgroup does not work here");
        infp_findings_add(findings, "cgroups", "delegation", can ? "ok" : "info", false, text.data,
                          can ? NULL : "systemd-run --user --scope -p Delegate=yes infprof record --own-cgroup ...");
}

/* The container as the collector has found it, when we are in one. */
static void put_container(struct infp_str *out, const struct infp_last *last)
{
        struct infp_batch batch, who;

        if (!last->rows(last->context, &infp_table_containers, 0, &batch) ||
            !last->entity(last->context, infp_table_container.name, infp_batch_u64(&batch, INFP_FIXED_COLUMNS, 0),
                          &who))
                return;
        put_text(out, ", container ", &who, WHO_CID, 0);
        put_text(out, " of ", &who, WHO_RUNTIME, 0);
}

void infp_doctor_cgroups(struct infp_findings *findings, const struct infp_one_shot *shot)
{
        infp_autofree struct infp_cgroups *cgroups = calloc(1, sizeof(*cgroups));
        infp_autofree struct infp_cgroup_paths *paths = calloc(1, sizeof(*paths));
        infp_autostr struct infp_str text = { 0 };
        struct infp_cgroup_place place;
        const char *mode;

        if (!cgroups || !paths) {
                findings->failed = true;
                return;
        }
        /* A tree of files has none of our own. */
        if (!shot->env.is_live || infp_cgroup_paths_read(&shot->env, 0, paths) < 0)
                return;
        mode = infp_cgroup_mode(paths);
        if (infp_cgroups_find(&shot->env, cgroups) < 0 ||
            !infp_cgroup_place(cgroups, paths, INFP_CG_CPU, true, &place)) {
                infp_str_printf(&text, "%s, but its files are not mounted here", mode ? mode : "unknown version");
                infp_findings_add(findings, "cgroups", "version", "absent", false, text.data,
                                  "mount cgroupfs in this container: docker run -v /sys/fs/cgroup:/sys/fs/cgroup:ro");
                return;
        }
        infp_str_printf(&text, "%s; infprof is in /%s", mode ? mode : "unknown version", place.path);
        put_container(&text, &shot->last);
        infp_findings_add(findings, "cgroups", "version", "ok", false, text.data, NULL);
        add_delegation(findings, &shot->env, &place);
}
