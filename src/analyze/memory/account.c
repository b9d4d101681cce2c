#include "analyze/memory/account.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyze/scan_some.h"
#include "base/map.h"
#include "base/mem.h"
#include "model/stack_tables.h"

enum { PROCESS, KIND, NAME, BYTES, QUALITY };
static const char *const columns[] = { "process", "kind", "name", "bytes", "quality", NULL };
enum { BLOCK_PROCESS, BLOCK_SIZE, BLOCK_WEIGHT, BLOCK_FREED };
static const char *const block_columns[] = { "process", "size", "weight", "freed_ns", NULL };
static const char *const end_columns[] = { "process", "is_last", "seconds", NULL };
static const char *const seen_columns[] = { "process", "pResidentSetSize", NULL };
static const char *const entity_columns[] = { "id", "pId", "pName", NULL };

/* Of each process the account that is being added up and the largest one. */
struct sums {
        struct sum {
                uint64_t id, t_ns, most_t_ns;
                double bytes, most_bytes;
        } * list;
        size_t n, cap;
        struct infp_map by_id;
};

struct row {
        uint64_t process, t_ns;
        enum infp_memory_kind kind;
        double bytes;
};

static bool take_row(const struct infp_batch *batch, const int *at, uint32_t row, struct row *ret)
{
        size_t size;
        const char *kind = infp_cell_str(batch, at[KIND], row, &size);

        if (!infp_cell_has(batch, at[PROCESS], row) || !infp_cell_has(batch, at[BYTES], row))
                return false;
        ret->process = infp_batch_u64(batch, (unsigned) at[PROCESS], row);
        ret->t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        ret->kind = infp_memory_kind_by_name(kind, size);
        ret->bytes = infp_cell_number(batch, at[BYTES], row);
        return ret->kind < INFP_MEMORY_KINDS;
}

static int add_up(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct sums *sums = context;
        const uint64_t *known;
        struct row r;
        struct sum *s;

        if (!take_row(batch, at, row, &r) || !infp_memory_kind_is_rss(r.kind))
                return 0;
        known = infp_map_get(&sums->by_id, r.process);
        if (!known) {
                if (!INFP_MAKE_ROOM(sums->list, sums->n, sums->cap, 64) ||
                    infp_map_put(&sums->by_id, r.process, sums->n) < 0)
                        return -ENOMEM;
                sums->list[sums->n++] = (struct sum){ .id = r.process };
        }
        s = &sums->list[known ? *known : sums->n - 1];
        s->bytes = s->t_ns == r.t_ns ? s->bytes + r.bytes : r.bytes;
        s->t_ns = r.t_ns;
        /* The last row of an account may be negative. */
        if (s->bytes > s->most_bytes || s->most_t_ns == s->t_ns) {
                s->most_bytes = s->bytes;
                s->most_t_ns = s->t_ns;
        }
        return 0;
}

static void choose(struct sums *sums, struct infp_memory_accounts *ret)
{
        ret->n_seen = sums->n;
        while (ret->n < INFP_MEMORY_LARGEST) {
                struct sum *most = NULL;

                for (size_t i = 0; i < sums->n; i++)
                        if (sums->list[i].most_t_ns && (!most || sums->list[i].most_bytes > most->most_bytes))
                                most = &sums->list[i];
                if (!most)
                        return;
                ret->list[ret->n++] = (struct infp_memory_process){
                        .id = most->id,
                        .t_ns = most->most_t_ns,
                        .last_ns = most->t_ns,
                        .pid = -1,
                        .gpu_bytes = NAN,
                        .swap_bytes = NAN,
                        .seen_rss_bytes = NAN,
                };
                most->most_t_ns = 0;
        }
}

static struct infp_memory_process *find(struct infp_memory_accounts *accounts, uint64_t id)
{
        for (unsigned i = 0; i < accounts->n; i++)
                if (accounts->list[i].id == id)
                        return &accounts->list[i];
        return NULL;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
        return a > b ? a - b : b - a;
}

/* GPUs are asked at moments of their own: of each the row nearest in time. NULL with *ret_r 0: there is a nearer one. */
static struct infp_memory_row *place_of(struct infp_memory_process *p, const struct row *r,
                                        const struct infp_batch *batch, int name, uint32_t row, int *ret_r)
{
        for (size_t i = 0; i < p->n && r->kind == INFP_MEMORY_GPU; i++)
                if (p->rows[i].kind == r->kind && p->rows[i].name && infp_cell_is(batch, name, row, p->rows[i].name))
                        return distance(r->t_ns, p->t_ns) < distance(p->rows[i].t_ns, p->t_ns) ? &p->rows[i] : NULL;
        if (!INFP_MAKE_ROOM(p->rows, p->n, p->cap, 32)) {
                *ret_r = -ENOMEM;
                return NULL;
        }
        p->rows[p->n] = (struct infp_memory_row){ .kind = r->kind };
        return &p->rows[p->n++];
}

static int take(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_memory_process *p;
        struct infp_memory_row *to;
        int ret = 0;
        struct row r;

        if (!take_row(batch, at, row, &r))
                return 0;
        p = find(context, r.process);
        if (!p || (r.kind != INFP_MEMORY_GPU && r.t_ns != p->t_ns))
                return 0;
        to = place_of(p, &r, batch, at[NAME], row, &ret);
        if (!to)
                return ret;
        to->bytes = r.bytes;
        to->t_ns = r.t_ns;
        if (r.t_ns == p->t_ns)
                p->unix_ns = infp_batch_i64(batch, 1, row);
        INFP_TRY(infp_cell_keep(&to->name, batch, at[NAME], row));
        return infp_cell_keep(&to->quality, batch, at[QUALITY], row);
}

static void add_rows(struct infp_memory_process *p)
{
        for (size_t i = 0; i < p->n; i++) {
                const struct infp_memory_row *row = &p->rows[i];

                if (row->kind == INFP_MEMORY_GPU)
                        p->gpu_bytes = isnan(p->gpu_bytes) ? row->bytes : p->gpu_bytes + row->bytes;
                else if (row->kind == INFP_MEMORY_SWAP)
                        p->swap_bytes = row->bytes;
                else
                        p->rss_bytes += row->bytes;
                if (row->kind == INFP_MEMORY_HEAP || row->kind == INFP_MEMORY_ANONYMOUS)
                        p->anonymous_bytes += row->bytes;
        }
}

static int take_process(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_memory_process *p =
                infp_cell_has(batch, at[0], row) ? find(context, infp_batch_u64(batch, (unsigned) at[0], row)) : NULL;

        if (!p)
                return 0;
        if (infp_cell_has(batch, at[1], row))
                p->pid = infp_batch_i64(batch, (unsigned) at[1], row);
        return infp_cell_keep(&p->name, batch, at[2], row);
}

static int take_seen(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        struct infp_memory_process *p =
                infp_cell_has(batch, at[0], row) ? find(context, infp_batch_u64(batch, (unsigned) at[0], row)) : NULL;

        if (!p)
                return 0;
        p->seen_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        p->seen_rss_bytes = infp_cell_number(batch, at[1], row);
        return 0;
}

/* From their last accounts on: there is nothing to say of one that was not seen since. */
static int read_seen(struct infp_run *run, const struct infp_scan_options *options, struct infp_memory_accounts *ret,
                     struct infp_err *err)
{
        struct infp_scan_options late = *options;

        late.t0 = ret->list[0].last_ns;
        for (unsigned i = 1; i < ret->n; i++)
                late.t0 = ret->list[i].last_ns < late.t0 ? ret->list[i].last_ns : late.t0;
        return infp_scan_rows(run, "processes", seen_columns, &late, take_seen, ret, err);
}

/* A block of `size` bytes is sampled with the chance size / weight: the square of what that one sample adds to the error. */
static double variance(double size, double weight)
{
        return weight > size ? weight * (weight - size) : 0;
}

static int take_end(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        struct infp_memory_process *p =
                infp_cell_has(batch, at[0], row) ? find(context, infp_batch_u64(batch, (unsigned) at[0], row)) : NULL;
        const double length_ns = 1e9 * infp_cell_number(batch, at[2], row);

        if (!p)
                return 0;
        /* When it is seen that there is another program, that one has blocks already. */
        if (infp_cell_bool(batch, at[1], row) && t_ns < p->t_ns && t_ns > p->program_ns)
                p->program_ns = t_ns;
        else if (t_ns > p->program_ns && length_ns < (double) t_ns && t_ns - (uint64_t) length_ns < p->program_ns)
                p->program_ns = t_ns - (uint64_t) length_ns;
        return 0;
}

static int take_block(void *context, const struct infp_batch *batch, const int *at, uint32_t row)
{
        const uint64_t t_ns = (uint64_t) infp_batch_i64(batch, 0, row);
        const double weight = infp_cell_number(batch, at[BLOCK_WEIGHT], row),
                     size = infp_cell_number(batch, at[BLOCK_SIZE], row);
        struct infp_memory_process *p;

        if (!infp_cell_has(batch, at[BLOCK_PROCESS], row) || isnan(weight))
                return 0;
        p = find(context, infp_batch_u64(batch, (unsigned) at[BLOCK_PROCESS], row));
        if (!p)
                return 0;
        p->blocks.has = true;
        if (t_ns > p->t_ns || t_ns < p->program_ns ||
            (infp_cell_has(batch, at[BLOCK_FREED], row) &&
             (uint64_t) infp_batch_i64(batch, (unsigned) at[BLOCK_FREED], row) <= p->t_ns))
                return 0;
        p->blocks.bytes += weight;
        p->blocks.error_bytes += variance(size, weight); /* its square, until all are added */
        return 0;
}

static int read_blocks(struct infp_run *run, const struct infp_scan_options *options, struct infp_memory_accounts *ret,
                       struct infp_err *err)
{
        const struct infp_scan_options whole = { .catalog = options->catalog };

        INFP_TRY(infp_scan_rows(run, infp_table_heap_windows.name, end_columns, &whole, take_end, ret, err));
        INFP_TRY(infp_scan_rows(run, infp_table_heap_samples.name, block_columns, &whole, take_block, ret, err));
        for (unsigned i = 0; i < ret->n; i++)
                ret->list[i].blocks.error_bytes = 1.96 * sqrt(ret->list[i].blocks.error_bytes);
        return 0;
}

struct infp_memory_split infp_memory_split(double anonymous_bytes, double blocks_bytes)
{
        if (blocks_bytes > anonymous_bytes)
                return (struct infp_memory_split){ anonymous_bytes, NAN };
        return (struct infp_memory_split){ blocks_bytes, anonymous_bytes - blocks_bytes };
}

static int read_chosen(struct infp_run *run, const struct infp_scan_options *options, bool has_end,
                       struct infp_memory_accounts *ret, const char **ret_table, struct infp_err *err)
{
        const struct infp_scan_options whole = { .catalog = options->catalog };

        INFP_TRY(infp_scan_rows(run, *ret_table, columns, options, take, ret, err));
        for (unsigned i = 0; i < ret->n; i++)
                add_rows(&ret->list[i]);
        *ret_table = "process";
        INFP_TRY(infp_scan_rows(run, *ret_table, entity_columns, &whole, take_process, ret, err));
        *ret_table = "processes";
        INFP_TRY(read_seen(run, options, ret, err));
        *ret_table = infp_table_heap_samples.name;
        return has_end ? read_blocks(run, options, ret, err) : 0;
}

int infp_memory_accounts_read(struct infp_run *run, const struct infp_scan_options *options, bool has_end,
                              struct infp_memory_accounts *ret, const char **ret_table, struct infp_err *err)
{
        struct sums sums = { 0 };
        int r;

        *ret = (struct infp_memory_accounts){ 0 };
        *ret_table = infp_table_memory_account.name;
        r = infp_scan_rows(run, *ret_table, columns, options, add_up, &sums, err);
        if (r >= 0)
                choose(&sums, ret);
        free(sums.list);
        infp_map_done(&sums.by_id);
        if (r >= 0 && ret->n)
                r = read_chosen(run, options, has_end, ret, ret_table, err);
        if (r < 0)
                infp_memory_accounts_done(ret);
        return r;
}

void infp_memory_accounts_done(struct infp_memory_accounts *accounts)
{
        for (unsigned i = 0; i < accounts->n; i++) {
                struct infp_memory_process *p = &accounts->list[i];

                for (size_t k = 0; k < p->n; k++) {
                        free(p->rows[k].name);
                        free(p->rows[k].quality);
                }
                free(p->rows);
                free(p->name);
        }
        *accounts = (struct infp_memory_accounts){ 0 };
}
