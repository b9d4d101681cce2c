/* What was lost of a process's records, and why: in table `sources`, and as counts in table `self`. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "model/tables.h"
#include "record/rings_parts.h"

static void put(struct infp_rings *rings, const char *instance, const char *table, enum infp_source_state state,
                const char *reason, const char *fix)
{
        struct infp_row *row = &rings->row;

        infp_row_begin(row, &infp_table_sources, rings->now_ns);
        infp_row_str(row, INFP_SOURCES_COLLECTOR, "rings");
        infp_row_str(row, INFP_SOURCES_INSTANCE, instance);
        infp_row_str(row, INFP_SOURCES_TABLE, table);
        infp_row_str(row, INFP_SOURCES_COLUMN, "*");
        infp_row_str(row, INFP_SOURCES_STATE, infp_source_state_name(state));
        if (reason)
                infp_row_str(row, INFP_SOURCES_REASON, reason);
        if (fix)
                infp_row_str(row, INFP_SOURCES_FIX, fix);
        infp_recorder_put(rings->options.recorder, row);
}

static const char *instance_of(int32_t pid, const char *name, char *ret, size_t cap)
{
        if (pid > 0)
                snprintf(ret, cap, "process %d", (int) pid);
        else
                snprintf(ret, cap, "%s", name);
        return ret;
}

static const char *instance(const struct ring_entry *entry, char *ret, size_t cap)
{
        /* What has ended is still known by its number, where that is ours. */
        const int32_t pid = entry->pid ? entry->pid : entry->owner.process ? entry->owner.pid : 0;

        return instance_of(pid, entry->name, ret, cap);
}

void rings_say_refusal(struct infp_rings *rings, int32_t pid, const char *name, int r, const char *why)
{
        char text[128], reason[640];

        if (r == -ESTALE)
                return; /* an earlier process had the pid: nothing is missing */
        snprintf(reason, sizeof(reason), "its ring file %s %s", name, why);
        put(rings, instance_of(pid, name, text, sizeof(text)), "*", r == -EPERM ? INFP_DENIED : INFP_BROKEN, reason,
            NULL);
}

void rings_say_follower(struct infp_rings *rings, const struct ring_entry *entry, const char *why)
{
        char text[128], reason[640];

        snprintf(reason, sizeof(reason),
                 "its ring file %s: data that it has read may be overwritten before it is read here",
                 why[0] ? why : "belongs to the recording in which the process was started");
        put(rings, instance(entry, text, sizeof(text)), "*", INFP_LATE, reason, "end the other recording");
}

/* ", N what" where there are any. */
static void add(struct infp_str *to, uint64_t now, uint64_t before, const char *what)
{
        if (now > before)
                infp_str_printf(to, "%s%" PRIu64 " %s", to->size ? ", " : "", now - before, what);
}

static void say(struct infp_rings *rings, const struct ring_entry *entry, const char *table,
                enum infp_source_state state, struct infp_str *reason, const char *fix)
{
        char text[128];

        if (reason->size && !reason->failed)
                put(rings, instance(entry, text, sizeof(text)), table, state, reason->data, fix);
        infp_str_clear(reason);
}

static void say_keep(struct infp_rings *rings, struct ring_entry *entry, const struct infp_ring_counts *c,
                     struct infp_str *text)
{
        const struct infp_ring_counts *f = &entry->first;
        const uint64_t sum = c->dropped_full + c->dropped_busy + c->cut_texts + c->grow_failed + c->spans_forgotten +
                             c->cut_attributes;
        const char *fix = NULL;

        if (sum == entry->told.keep)
                return;
        entry->told.keep = sum;
        add(text, c->dropped_full, f->dropped_full,
            "spans, attributes and marks were dropped because its ring file was full");
        if (text->size)
                fix = "set INFPROF_RING_BYTES=16m (the maximum) in its environment, or record fewer spans";
        add(text, c->dropped_busy, f->dropped_busy,
            "records were dropped because a signal handler interrupted another record");
        add(text, c->cut_texts, f->cut_texts, "texts were cut, because they were longer than a record");
        add(text, c->spans_forgotten, f->spans_forgotten,
            "spans are shown only when they have ended: too many were open");
        add(text, c->cut_attributes, f->cut_attributes, "attributes did not fit into their spans (16 KiB each)");
        add(text, c->grow_failed, f->grow_failed, "times its ring file could not grow");
        if (c->grow_failed > f->grow_failed) {
                infp_str_printf(text, " (%s)", strerror((int) c->grow_errno));
                fix = "free space on the file system of its ring file";
        }
        say(rings, entry, "spans", INFP_LATE, text, fix);
}

static void say_recent(struct infp_rings *rings, struct ring_entry *entry, const struct infp_ring_counts *c,
                       struct infp_str *text)
{
        const struct infp_ring_counts *f = &entry->first;
        const uint64_t sum = c->evicted_chunks + c->evicted_bytes + c->refused_metrics + c->refused_values;

        if (sum == entry->told.recent)
                return;
        entry->told.recent = sum;
        add(text, c->evicted_bytes, f->evicted_bytes,
            "bytes of changes of counters were overwritten before they were read; the newest values are kept");
        add(text, c->refused_metrics, f->refused_metrics,
            "counters were refused: there are 1,024 already, or their names did not fit");
        add(text, c->refused_values, f->refused_values,
            "values were refused: not a number, or a counter that would fall");
        say(rings, entry, "counters", INFP_LATE, text, "fewer counters, or changes of them; or INFPROF_RING_BYTES=16m");
}

static void say_whole(struct infp_rings *rings, struct ring_entry *entry, const struct infp_ring_counts *c,
                      struct infp_str *text)
{
        const uint64_t sum = c->broken + c->unknown + c->missed_chunks + c->was_cut;
        const char *fix = c->missed_chunks ? "end the other recording" : NULL;

        if (sum == entry->told.whole)
                return;
        entry->told.whole = sum;
        add(text, c->missed_chunks, 0, "pieces of 4 KiB were overwritten, because another recording read them");
        add(text, c->unknown, 0, "records are of unknown kinds");
        if (c->unknown)
                fix = "use an infprof as new as the library in the program";
        add(text, c->broken, 0, "records are damaged");
        if (c->was_cut)
                infp_str_printf(text, "%sits ring file was truncated while it was read", text->size ? ", " : "");
        say(rings, entry, "*", c->broken || c->was_cut ? INFP_BROKEN : INFP_LATE, text, fix);
}

void rings_say_losses(struct infp_rings *rings, struct ring_entry *entry)
{
        const struct infp_ring_counts *c = infp_ring_counts(entry->ring);
        infp_autostr struct infp_str text = { 0 };

        say_keep(rings, entry, c, &text);
        say_recent(rings, entry, c, &text);
        say_whole(rings, entry, c, &text);
}

void rings_count(struct infp_rings *rings, struct ring_entry *entry)
{
        struct infp_stats *stats = rings->options.stats;
        const struct infp_ring_counts *c = infp_ring_counts(entry->ring);
        const uint64_t rows = c->rows[0] + c->rows[1] + c->rows[2], dropped = c->dropped_full + c->dropped_busy -
                                                                              entry->first.dropped_full -
                                                                              entry->first.dropped_busy;

        if (stats && dropped >= entry->dropped) {
                infp_stats_add(&stats->ring_rows, rows - entry->rows);
                infp_stats_add(&stats->ring_dropped, dropped - entry->dropped);
        }
        entry->rows = rows;
        entry->dropped = dropped;
}
