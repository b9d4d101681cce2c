#include "query/sql_views.h"

#include <string.h>

#include "base/mem.h"
#include "model/python_tables.h"
#include "query/engine_quantiles.h"

// clang-format off
/* Of the column `function`. */
#define FUNCTION_COLUMNS \
        INFP_COLUMN(fKind, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Its kind, as in frames."), \
        INFP_COLUMN(fObject, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Path of its object, or its module."), \
        INFP_COLUMN(file, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its source file."), \
        INFP_COLUMN(line, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Line that was executed.")
static const struct infp_column samples_columns[] = {
        INFP_COLUMN(t_ns, I64, LABEL, ns, MEASURED, NO, NULL, 0, NULL, "CLOCK_MONOTONIC of the sample."),
        INFP_COLUMN(time, TS_NS, LABEL, none, DERIVED, NO, NULL, 0, NULL, "UTC of t_ns."),
        INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Process."),
        INFP_COLUMN(pId, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its pid."),
        INFP_COLUMN(pName, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its name then, as it was seen once a tick."),
        INFP_COLUMN(tid, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Thread."),
        INFP_COLUMN(tName, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its name then."),
        INFP_COLUMN(tPythonName, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Name that Python has for it, as in threads."),
        INFP_COLUMN(cpu, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "CPU that it ran on."),
        INFP_COLUMN(mode, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "As in stack_samples."),
        INFP_COLUMN(state, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "What the thread waited for, or did; null = it was running."),
        INFP_COLUMN(samples, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Samples in the row."),
        INFP_COLUMN(weight, F64, GAUGE, none, DERIVED, NO, NULL, 0, NULL, "What the row stands for, as in stack_samples."),
        INFP_COLUMN(function, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Innermost function, inlined ones too; [object] where nothing names it."),
        FUNCTION_COLUMNS,
        INFP_COLUMN(stack_text, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "All functions, the outermost first, with ; between them; [truncated] before those whose callers are missing."),
        INFP_COLUMN(is_truncated, BOOL, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Outer frames are missing."),
        INFP_COLUMN(stack, ID64, LABEL, none, MEASURED, NO, "stacks", 0, NULL, "Innermost node."),
};
// clang-format on

static const struct infp_table samples_named_table = {
        .name = "samples_named",
        .help = "Samples of stacks with the names of their functions, threads and processes.",
        .columns = samples_columns,
        .n_columns = INFP_COUNT(samples_columns),
        .plain = true,
};

/* The last set of a frame's rows in `symbols` is valid; level 0 begins a set. Stacks are walked from their roots, so that cycles
 * in a broken run are never entered; ids in several segments are taken once. A process that renames itself has a row for each
 * name it was seen under; the first also covers the time before it. One that lived between two looks at the processes is known by its
 * threads alone; recordings of before have no tPid and no tPythonName. */
// clang-format off
#define NAMED_LEVELS \
        "WITH RECURSIVE last AS (SELECT frame, max(t_ns) AS t FROM symbols WHERE sLevel = 0 GROUP BY frame), " \
        "levels AS (SELECT s.frame, s.sLevel AS level, " \
        "max_by(struct_pack(name := s.sName, file := s.sFile, line := s.sLine), s.t_ns) AS what " \
        "FROM symbols s LEFT JOIN last l ON s.frame = l.frame WHERE l.t IS NULL OR s.t_ns >= l.t " \
        "GROUP BY s.frame, s.sLevel), "
#define PROCESSES_KNOWN \
        "processes_known AS (SELECT id, pId, pName, CASE WHEN t_ns = min(t_ns) OVER (PARTITION BY id) THEN -1 ELSE " \
        "t_ns " \
        "END AS since FROM process), "
#define THREADS_KNOWN \
        "every_thread AS (SELECT t_ns, id, process, tid, tName, tPid, tPythonName FROM (SELECT * FROM threads UNION " \
        "ALL " \
        "BY NAME SELECT NULL::BIGINT AS tPid, NULL::VARCHAR AS tPythonName WHERE false)), " \
        "threads_known AS (SELECT id, max(tName) AS tName, max(tPid) AS tPid, max_by(tPythonName, t_ns) AS " \
        "tPythonName FROM every_thread GROUP BY id)"
#define NAMED_STACKS \
        NAMED_LEVELS \
        "names AS (SELECT frame, string_agg(replace(what.name, ';', ':'), ';' ORDER BY level) AS text, " \
        "max_by(what, level) AS leaf FROM levels GROUP BY frame), " \
        "objects AS (SELECT DISTINCT id, fKind, fObject, list_last(string_split(fObject, '/')) AS base FROM frames), " \
        "places AS (SELECT o.id, o.fKind, o.fObject, coalesce(n.leaf.name, CASE WHEN o.base IS NULL THEN '[unknown]' " \
        "WHEN o.base LIKE '[%' THEN o.base ELSE '[' || o.base || ']' END) AS function, " \
        "n.leaf.file AS file, n.leaf.line AS line, n.text AS text FROM objects o LEFT JOIN names n ON n.frame = o.id), " \
        "nodes AS (SELECT DISTINCT id, parent, frame FROM stacks), " \
        "known AS (SELECT n.id, n.parent, p.fKind, p.fObject, coalesce(p.function, '[unknown]') AS function, p.file, " \
        "p.line, coalesce(p.text, p.function, '[unknown]') AS text FROM nodes n LEFT JOIN places p ON p.id = n.frame), " \
        "paths AS (SELECT id, text, 0 AS depth FROM known WHERE parent IS NULL UNION ALL " \
        "SELECT k.id, p.text || ';' || k.text, p.depth + 1 FROM known k JOIN paths p ON k.parent = p.id " \
        "WHERE p.depth < 4096), " PROCESSES_KNOWN
// clang-format on
static const char samples_named_sql[] = NAMED_STACKS THREADS_KNOWN
        ", first_threads AS (SELECT process, min(tName) AS tName FROM every_thread WHERE tid = tPid GROUP BY process) "
        "SELECT s.t_ns, s.time, s.process, coalesce(pr.pId, th.tPid) AS pId, coalesce(pr.pName, f.tName) AS pName, "
        "s.tid, th.tName, th.tPythonName, s.cpu, s.mode, s.state, s.samples, "
        "s.weight, "
        "k.function, k.fKind, k.fObject, k.file, k.line, CASE WHEN s.is_truncated OR p.text IS NULL "
        "THEN '[truncated]' || coalesce(';' || coalesce(p.text, k.text), '') ELSE p.text END AS stack_text, "
        "s.is_truncated, s.stack FROM stack_samples s LEFT JOIN known k ON k.id = s.stack "
        "LEFT JOIN paths p ON p.id = s.stack "
        "ASOF LEFT JOIN processes_known pr ON pr.id = s.process AND pr.since <= s.t_ns "
        "LEFT JOIN threads_known th ON th.id = s.thread "
        "LEFT JOIN first_threads f ON f.process = s.process";

// clang-format off
static const struct infp_column live_columns[] = {
        INFP_COLUMN(t_ns, I64, LABEL, ns, MEASURED, NO, NULL, 0, NULL, "CLOCK_MONOTONIC of what is the last known of it: the end of a window."),
        INFP_COLUMN(time, TS_NS, LABEL, none, DERIVED, NO, NULL, 0, NULL, "UTC of t_ns."),
        INFP_COLUMN(process, ID64, LABEL, none, MEASURED, NO, "process", 0, NULL, "Process."),
        INFP_COLUMN(pId, I64, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its pid."),
        INFP_COLUMN(pName, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Its name."),
        INFP_COLUMN(live, F64, GAUGE, bytes, ESTIMATED, NO, NULL, 0, NULL, "Bytes in use, as in heap_windows."),
        INFP_COLUMN(variance, F64, GAUGE, none, ESTIMATED, NO, NULL, 0, NULL, "Their variance by sampling, in bytes squared."),
        INFP_COLUMN(blocks, I64, GAUGE, count, MEASURED, NO, NULL, 0, NULL, "Sampled blocks in use."),
        INFP_COLUMN(oldest_s, F64, GAUGE, s, DERIVED, NO, NULL, 0, NULL, "Age of the oldest of them at t_ns."),
        INFP_COLUMN(function, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "Innermost function of the stack that allocated them, as in samples_named."),
        FUNCTION_COLUMNS,
        INFP_COLUMN(stack_text, STR, LABEL, none, DERIVED, NO, NULL, 0, NULL, "All functions, the outermost first, with ; between them."),
        INFP_COLUMN(stack, ID64, LABEL, none, MEASURED, NO, "stacks", 0, NULL, "Innermost node."),
};
// clang-format on
static const struct infp_table live_table = {
        .name = "heap_live",
        .help = "Heap in use as it was known last, by process and stack: at the end of the process or of the "
                "recording, or now.",
        .columns = live_columns,
        .n_columns = INFP_COUNT(live_columns),
        .plain = true,
};

/* The last row of a stack holds until the next one; what a program held that its process has replaced by another is gone. */
static const char heap_live_sql[] = NAMED_STACKS
        "newest AS (SELECT *, max(t_ns) OVER (PARTITION BY process) AS newest FROM heap_windows "
        "QUALIFY row_number() OVER (PARTITION BY process, stack ORDER BY t_ns DESC) = 1) "
        "SELECT w.t_ns, w.time, w.process, pr.pId, pr.pName, w.live, w.variance, w.blocks, "
        "(w.t_ns - w.oldest_ns) / 1e9 AS oldest_s, k.function, k.fKind, k.fObject, k.file, k.line, "
        "coalesce(p.text, k.text) AS stack_text, w.stack FROM newest w LEFT JOIN known k ON k.id = w.stack "
        "LEFT JOIN paths p ON p.id = w.stack "
        "ASOF LEFT JOIN processes_known pr ON pr.id = w.process AND pr.since <= w.t_ns "
        "WHERE w.blocks > 0 AND NOT (w.is_last AND w.t_ns < w.newest)";

// clang-format off
static const struct infp_column watts_columns[] = {
        INFP_COLUMN(t_ns, I64, LABEL, ns, MEASURED, NO, NULL, 0, NULL, "CLOCK_MONOTONIC at the end of the interval."),
        INFP_COLUMN(time, TS_NS, LABEL, none, DERIVED, NO, NULL, 0, NULL, "UTC of t_ns."),
        INFP_COLUMN(domain, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "Meter."),
        INFP_COLUMN(eIsCounted, BOOL, LABEL, none, DERIVED, NO, NULL, 0, NULL, "It counts in the total of the machine."),
        INFP_COLUMN(eQuality, STR, LABEL, none, MEASURED, NO, NULL, 0, NULL, "measured or estimated."),
        INFP_COLUMN(joules, F64, GAUGE, joules, DERIVED, NO, NULL, 0, NULL, "Energy of the interval, wraps included; absent if none of it was measured."),
        INFP_COLUMN(seconds, F64, GAUGE, s, DERIVED, NO, NULL, 0, NULL, "Seconds of the interval that were measured: 0 in a gap."),
        INFP_COLUMN(watts, F64, GAUGE, watts, DERIVED, NO, NULL, 0, NULL, "Mean power in those seconds."),
};
// clang-format on
static const struct infp_table watts_table = {
        .name = "energy_watts",
        .help = "Watts of each meter of energy between two readings.",
        .columns = watts_columns,
        .n_columns = INFP_COUNT(watts_columns),
        .plain = true,
};

/* Watts are not stored: this view is the only way to get them by SQL. */
static const char watts[] =
        "SELECT t_ns, time, domain, eIsCounted, eQuality, CASE WHEN seconds > 0 THEN joules END AS joules, seconds, "
        "joules / nullif(seconds, 0) AS watts FROM (SELECT t_ns, time, domain, eIsCounted, eQuality, "
        "infp_increase('gap', lag(coalesce(eJoules, 0.0)) OVER w, eJoules) AS joules, "
        "eMeasuredS - lag(eMeasuredS) OVER w AS seconds FROM energy "
        "WINDOW w AS (PARTITION BY domain ORDER BY t_ns)) WHERE joules IS NOT NULL";

/* A stack is walked from its leaf by the depth of its nodes, which falls, so that it ends in a broken run too. */
static const char backtrace_sql[] = NAMED_LEVELS PROCESSES_KNOWN THREADS_KNOWN
        ", places AS (SELECT id, any_value(fKind) AS kind, any_value(fAddress) AS address, "
        "any_value(list_last(string_split(fObject, '/'))) AS base FROM frames GROUP BY id), "
        "nodes AS (SELECT id, any_value(parent) AS parent, any_value(frame) AS frame, any_value(depth) AS depth FROM "
        "stacks GROUP BY id), "
        "chain AS (SELECT n.id AS stack, n.parent, n.frame, n.depth, 0 AS up FROM nodes n WHERE n.id IN (SELECT stack "
        "FROM stack_samples) UNION ALL "
        "SELECT c.stack, n.parent, n.frame, n.depth, c.up + 1 FROM chain c JOIN nodes n ON n.id = c.parent WHERE "
        "n.depth < c.depth), "
        "named AS (SELECT c.stack, row_number() OVER (PARTITION BY c.stack ORDER BY c.up, l.level DESC) - 1 AS depth, "
        "p.address AS ip, l.what.file AS file, coalesce(l.what.name, CASE WHEN p.base IS NULL THEN '[unknown]' "
        "WHEN p.base LIKE '[%' THEN p.base ELSE '[' || p.base || coalesce('+0x' || lower(to_hex(p.address)), '') || "
        "']' END) AS func, l.what.line AS lineno, CASE p.kind WHEN 'python' THEN 'Python' WHEN 'kernel' THEN 'Kernel' "
        "WHEN 'jit' THEN 'JIT' ELSE 'Native' END AS frame_type "
        "FROM chain c LEFT JOIN places p ON p.id = c.frame LEFT JOIN levels l ON l.frame = c.frame) "
        "SELECT s.t_ns, s.time, coalesce(pr.pId, th.tPid) AS pid, s.tid, coalesce(th.tPythonName, th.tName) AS thread, "
        "s.sample, n.depth, n.ip, n.file, n.func, n.lineno, n.frame_type, s.mode, NULL::VARCHAR AS trigger, "
        "NULL::VARCHAR AS cause "
        "FROM (SELECT *, row_number() OVER () - 1 AS sample FROM stack_samples) s JOIN named n ON n.stack = s.stack "
        "ASOF LEFT JOIN processes_known pr ON pr.id = s.process AND pr.since <= s.t_ns "
        "LEFT JOIN threads_known th ON th.id = s.thread ORDER BY s.sample, n.depth";

static const char own_stacks_sql[] =
        "SELECT t_ns, time, pId AS pid, tid, thread, -dense_rank() OVER (ORDER BY process, sample) AS sample, depth, "
        "NULL::UBIGINT AS ip, file, func, lineno, 'Python' AS frame_type, NULL::VARCHAR AS mode, trigger, cause "
        "FROM python.own_stacks ORDER BY t_ns, sample DESC, depth";

const struct infp_sql_view_def infp_sql_views[INFP_SQL_VIEWS] = {
        { &infp_engine_quantiles_table,
          { { "engine_samples", "SELECT * FROM " INFP_QUANTILES_FUNCTION "(NULL, NULL)" } },
          false },
        { &watts_table, { { "energy", watts } }, true },
        { &samples_named_table, { { "stack_samples", samples_named_sql } }, true },
        { &live_table, { { "heap_windows", heap_live_sql } }, true },
        { &infp_table_backtrace,
          { { "stack_samples", backtrace_sql },
            { "stacks_now", "SELECT * FROM python.stacks_now" },
            { "own_stacks", own_stacks_sql } },
          true },
};

static bool has(const struct infp_sql_view_part *part, const struct infp_catalog *catalog)
{
        return part->wants && infp_catalog_find(catalog, part->wants);
}

bool infp_sql_view_is_in(const struct infp_sql_view_def *def, const struct infp_catalog *catalog)
{
        for (unsigned i = 0; i < INFP_SQL_VIEW_PARTS; i++)
                if (has(&def->part[i], catalog))
                        return true;
        return false;
}

void infp_sql_view_put(const struct infp_sql_view_def *def, const struct infp_catalog *catalog, struct infp_str *sql)
{
        const char *between = "";

        for (unsigned i = 0; i < INFP_SQL_VIEW_PARTS; i++) {
                if (!has(&def->part[i], catalog))
                        continue;
                infp_str_printf(sql, "%sSELECT * FROM (%s)", between, def->part[i].sql);
                between = " UNION ALL BY NAME ";
        }
}

const struct infp_sql_view_def *infp_sql_view_find(const char *name)
{
        for (unsigned i = 0; i < INFP_SQL_VIEWS; i++)
                if (!strcmp(infp_sql_views[i].table->name, name))
                        return &infp_sql_views[i];
        return NULL;
}
