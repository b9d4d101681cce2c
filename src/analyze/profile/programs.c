/* Programs that a process ran one after the other, by exec. What one of them held is gone with it: in use at the end is what the last one held, and
 * the peak of the process is the greatest of theirs. Each has rows of its own. */
#include <stdlib.h>

#include "analyze/profile/parts.h"
#include "base/mem.h"

/* Of a process that has ended more than once. */
struct infp_profile_replaced {
        uint64_t end_ns; /* of the last program */
        uint64_t peak_ns, most_ns;
        double peak_bytes, most_bytes; /* of the rows that are being added up; the greatest */
};

enum { END_PROCESS, END_IS_LAST };
static const struct infp_profile_column end_columns[] = {
        [END_PROCESS] = { "process", INFP_ID64 }, [END_IS_LAST] = { "is_last", INFP_BOOL }
};
enum { PEAK_PROCESS, PEAK_MODE, PEAK_WEIGHT };
static const struct infp_profile_column peak_columns[] = { [PEAK_PROCESS] = { "process", INFP_ID64 },
                                                           [PEAK_MODE] = { "mode", INFP_STR },
                                                           [PEAK_WEIGHT] = { "weight", INFP_F64 } };

static struct infp_profile_replaced *find(const struct infp_profile_reader *reader, uint64_t process)
{
        const uint64_t *at = infp_map_get(&reader->replaced, process);

        return at ? &reader->replaced_list[*at] : NULL;
}

static int see_end(struct infp_profile_reader *reader, struct infp_map *ends, uint64_t process, uint64_t t_ns,
                   struct infp_err *err)
{
        const uint64_t *before = infp_map_get(ends, process);
        struct infp_profile_replaced *known = find(reader, process);

        if (known) {
                known->end_ns = t_ns > known->end_ns ? t_ns : known->end_ns;
        } else if (before && *before != t_ns) {
                INFP_TRY(infp_profile_room(&reader->replaced_list, &reader->cap_replaced, reader->n_replaced,
                                           sizeof(*reader->replaced_list), err));
                reader->replaced_list[reader->n_replaced] =
                        (struct infp_profile_replaced){ .end_ns = t_ns > *before ? t_ns : *before };
                if (infp_map_put(&reader->replaced, process, reader->n_replaced++) < 0)
                        return infp_profile_no_memory(err);
        }
        return infp_map_put(ends, process, t_ns) < 0 ? infp_profile_no_memory(err) : 0;
}

static int read_ends(struct infp_profile_reader *reader, struct infp_profile_scan *scan, struct infp_err *err)
{
        infp_cleanup(infp_map_done) struct infp_map ends = { 0 };
        int r;

        while ((r = infp_profile_scan_next(scan, err)) > 0)
                if (infp_profile_bool(scan, END_IS_LAST))
                        INFP_TRY(see_end(reader, &ends, infp_profile_id(scan, END_PROCESS),
                                         (uint64_t) infp_batch_i64(&scan->batch, 0, scan->row), err));
        return r;
}

/* All rows of a program's peak have its time. */
static int read_peaks(struct infp_profile_reader *reader, struct infp_profile_scan *scan, struct infp_err *err)
{
        int r;

        while ((r = infp_profile_scan_next(scan, err)) > 0) {
                const uint64_t t_ns = (uint64_t) infp_batch_i64(&scan->batch, 0, scan->row);
                struct infp_profile_replaced *of = find(reader, infp_profile_id(scan, PEAK_PROCESS));
                uint32_t mode = 0;

                if (!of || !infp_profile_has(scan, PEAK_WEIGHT))
                        continue;
                INFP_TRY(infp_profile_text(reader, scan, PEAK_MODE, &mode, err));
                if (mode != reader->peak_mode)
                        continue;
                of->peak_bytes = (of->peak_ns == t_ns ? of->peak_bytes : 0) + infp_profile_number(scan, PEAK_WEIGHT);
                of->peak_ns = t_ns;
                if (of->peak_bytes > of->most_bytes) {
                        of->most_bytes = of->peak_bytes;
                        of->most_ns = t_ns;
                }
        }
        return r;
}

int infp_profile_read_programs(struct infp_profile_reader *reader, struct infp_err *err)
{
        for (uint32_t i = 0; i < reader->n_modes; i++) {
                const enum infp_stack_mode mode =
                        infp_stack_mode_of(infp_profile_str(reader->profile, reader->modes[i]));

                reader->heap_mode = mode == INFP_STACK_HEAP ? reader->modes[i] : reader->heap_mode;
                reader->peak_mode = mode == INFP_STACK_HEAP_PEAK ? reader->modes[i] : reader->peak_mode;
        }
        if (!reader->heap_mode && !reader->peak_mode)
                return 0;
        INFP_TRY(infp_profile_read_table(reader, infp_table_heap_windows.name, end_columns, INFP_COUNT(end_columns),
                                         true, read_ends, err));
        return reader->n_replaced && reader->peak_mode
                       ? infp_profile_read_table(reader, infp_table_stack_samples.name, peak_columns,
                                                 INFP_COUNT(peak_columns), true, read_peaks, err)
                       : 0;
}

bool infp_profile_is_replaced(const struct infp_profile_reader *reader, uint64_t process, uint32_t mode, uint64_t t_ns)
{
        const struct infp_profile_replaced *of = reader->n_replaced ? find(reader, process) : NULL;

        return of && mode &&
               ((mode == reader->heap_mode && t_ns < of->end_ns) || (mode == reader->peak_mode && t_ns != of->most_ns));
}
