/* infprof query: SQL over a run, in a process of its own, so that a heavy query cannot harm a recording. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "app/open_run.h"
#include "app/ring_run.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/output.h"
#include "collect/collector.h"
#include "model/python_tables.h"
#include "query/duck.h"

enum { MAX_SQL = 16 << 20, EXIT_INTERRUPTED = 128 + SIGINT };

static const struct infp_option options[] = {
        INFP_RUN_OPTION,
        { 'p', "pid", "PID",
          "read the marks, spans, counters and rows of Python's tables that this process still holds, without a run; "
          "not its children's",
          false },
        { 'f', "format", "FORMAT",
          INFP_OUTPUT_FORMATS " (default: the file's extension, table on a terminal, else tsv)", false },
        { 0, "restricted", NULL,
          "allow one SELECT that reads this run and no other file: for a run or a statement that you do not trust",
          false },
        { 0, "csv-safe", NULL, INFP_CSV_SAFE_HELP, false },
        { 0, "json", NULL, "an array of objects: the same as -f json", false },
        { 'o', "output", "FILE", "write there instead of standard output (-); without -f its extension decides",
          false },
        { 0 },
};

/* For the signal handler: what runs now. */
static struct infp_duck *volatile running;
static volatile sig_atomic_t is_interrupted;

/* An interrupt between two statements is lost, so it is repeated. */
static void on_interrupt(int signal)
{
        static const struct itimerval again = { { 0, 50000 }, { 0, 50000 } };

        if (signal == SIGINT) {
                is_interrupted = 1;
                setitimer(ITIMER_REAL, &again, NULL);
        }
        if (running)
                infp_duck_interrupt(running);
}

static void catch_interrupts(void)
{
        struct sigaction first = { .sa_handler = on_interrupt,
                                   .sa_flags = SA_RESETHAND }, /* a second signal ends at once */
                repeated = { .sa_handler = on_interrupt, .sa_flags = SA_RESTART };

        sigaction(SIGINT, &first, NULL);
        sigaction(SIGALRM, &repeated, NULL);
}

/* Started with signals blocked, so that DuckDB's threads take none: the handler runs in this thread, which knows what is open. */
static int open_duck(struct infp_duck **ret, struct infp_err *err)
{
        sigset_t ours, before;
        int r;

        sigemptyset(&ours);
        sigaddset(&ours, SIGINT);
        sigaddset(&ours, SIGALRM);
        pthread_sigmask(SIG_BLOCK, &ours, &before);
        catch_interrupts();
        r = infp_duck_open(ret, err);
        running = r == 0 ? *ret : NULL;
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        return r;
}

struct request {
        const char *sql, *path, *format;
        bool is_restricted, is_csv_safe;
};

static int write_result(struct infp_duck_result *result, const struct request *request, struct infp_err *err)
{
        infp_cleanup(infp_output_done) struct infp_output output = INFP_OUTPUT_INIT;
        const struct infp_table *table = infp_duck_result_table(result);
        struct infp_batch batch;
        int r;

        if (!infp_table_width(table))
                return 0; /* SET, CREATE: there is nothing to show */
        INFP_TRY(infp_output_open(&output, request->path, request->format, err));
        output.out.is_csv_safe = request->is_csv_safe;
        r = infp_output_begin(&output, table, err);
        while (r == 0 && (r = infp_duck_result_next(result, &batch, err)) > 0)
                r = infp_output_batch(&output, &batch, err);
        return r < 0 ? r : infp_output_end(&output, table, err);
}

static int answer(struct infp_duck *duck, const struct request *request, struct infp_err *err)
{
        struct infp_duck_result *result;
        int r;

        if (request->is_restricted)
                INFP_TRY(infp_duck_restrict(duck, err));
        if (strcmp(request->format, "parquet") == 0)
                return infp_duck_to_parquet(duck, request->sql, infp_output_path(request->path), NULL, err);
        INFP_TRY(infp_duck_query(duck, request->sql, &result, err));
        r = write_result(result, request, err);
        infp_duck_result_free(result);
        return r;
}

static int query(const char *spec, const struct request *request, struct infp_err *err)
{
        struct infp_run *run = NULL;
        struct infp_duck *duck = NULL;
        int reader = -1, r = open_duck(&duck, err);

        if (r == 0)
                r = infp_reader_open(spec, &run, &reader, err);
        if (r == 0)
                r = infp_duck_attach(duck, run, err);
        if (r == 0)
                r = answer(duck, request, err);
        running = NULL;
        infp_duck_close(duck);
        infp_reader_close(run, &infp_said);
        infp_close(reader);
        return r;
}

/* DuckDB cannot know the tables of a recording. */
static int explain_missing(int r, pid_t pid, struct infp_err *err)
{
        static const char before[] = "Table with name ", behind[] = " does not exist";
        const char *at = strstr(err->text, before), *end = at ? strstr(at, behind) : NULL;
        char name[65];
        int size;

        if (!end)
                return r;
        at += strlen(before);
        size = (int) (end - at < (int) sizeof(name) - 1 ? end - at : (int) sizeof(name) - 1);
        snprintf(name, sizeof(name), "%.*s", size, at);
        if (!infp_table_by_name(name) && strcmp(name, "timeseries") != 0)
                return r;
        return infp_fail(err, r,
                         "a process records only marks, spans, counters and tables of schema python: for table %s use "
                         "`infprof record --pid "
                         "%d`, then `infprof query` without --pid",
                         name, (int) pid);
}

/* It would be empty without samples. */
static int drop_timeseries(struct infp_duck *duck, struct infp_err *err)
{
        struct infp_duck_result *nothing = NULL;
        const int r = infp_duck_query(duck, "DROP VIEW IF EXISTS timeseries", &nothing, err);

        infp_duck_result_free(nothing);
        return r < 0 ? r : 0;
}

static int query_pid(pid_t pid, const struct request *request, struct infp_err *err)
{
        struct infp_ring_run run = { NULL, NULL };
        struct infp_duck *duck = NULL;
        int r = open_duck(&duck, err);

        if (r == 0)
                r = infp_ring_run_open(pid, strcasestr(request->sql, infp_table_backtrace.name) != NULL, &infp_said,
                                       &run, err);
        if (r == 0)
                r = infp_duck_attach(duck, run.run, err);
        if (r == 0)
                r = drop_timeseries(duck, err);
        if (r == 0) {
                r = answer(duck, request, err);
                r = r < 0 ? explain_missing(r, pid, err) : r;
        }
        running = NULL;
        infp_duck_close(duck);
        infp_ring_run_close(&run);
        return r;
}

static bool take_pid(const char *text, pid_t *ret)
{
        uint64_t pid;

        if (infp_parse_u64(text, strlen(text), &pid) < 0 || pid == 0 || pid > INT32_MAX)
                return false;
        *ret = (pid_t) pid;
        return true;
}

/* The SQL of the command line, or all of standard input for "-". */
static int take_sql(const char *operand, char **ret, struct infp_err *err)
{
        infp_autostr struct infp_str text = { 0 };
        char buffer[65536];
        ssize_t n;

        if (strcmp(operand, "-") != 0)
                infp_str_puts(&text, operand);
        else
                while ((n = read(STDIN_FILENO, buffer, sizeof(buffer))) != 0) {
                        if (n < 0)
                                return infp_fail_errno(err, -errno, "cannot read SQL from standard input");
                        if (text.size + (size_t) n > MAX_SQL)
                                return infp_fail(err, -E2BIG, "the SQL on standard input is longer than %d bytes",
                                                 MAX_SQL);
                        infp_str_put(&text, buffer, (size_t) n);
                }
        if (text.size && memchr(text.data, 0, text.size))
                return infp_fail(err, -EINVAL, "the SQL on standard input holds a byte 0");
        infp_str_puts(&text, "");
        *ret = infp_str_take(&text);
        return *ret ? 0 : infp_fail(err, -ENOMEM, "out of memory");
}

static int run(const struct infp_arguments *arguments)
{
        infp_autofree char *sql = NULL;
        const char *path = infp_argument(arguments, "output");
        const char *given = infp_argument_given(arguments, "json") ? "json" : infp_argument(arguments, "format");
        const char *format =
                infp_output_format(given, path, infp_output_is_stdout(path) && isatty(STDOUT_FILENO) ? "table" : "tsv");
        const char *of = infp_argument(arguments, "pid");
        struct infp_err err = { "" };
        pid_t pid = 0;
        int r;

        if (of && infp_argument_given(arguments, "run")) {
                infp_say("query: give either --pid or --run");
                return INFP_EXIT_USAGE;
        }
        if (of && !take_pid(of, &pid)) {
                infp_say("query: --pid %s is not a process id", of);
                return INFP_EXIT_USAGE;
        }
        if (arguments->n_rest != 1) {
                infp_say("query: give one SQL statement in quotes, or - for standard input; see `infprof query -h`");
                return INFP_EXIT_USAGE;
        }
        if (!format)
                return infp_output_fail_extension("query", path);
        if (!infp_output_knows(format) || strcmp(format, "prom") == 0) {
                infp_say("query: there is no format '%s' here; " INFP_OUTPUT_FORMATS " are", format);
                return INFP_EXIT_USAGE;
        }
        if (strcmp(format, "parquet") == 0 && infp_argument_given(arguments, "restricted")) {
                infp_say("query: --restricted cannot write Parquet, because DuckDB writes it itself; use -f arrow or "
                         "csv");
                return INFP_EXIT_USAGE;
        }
        r = take_sql(arguments->rest[0], &sql, &err);
        const struct request request = { sql, path, format, infp_argument_given(arguments, "restricted"),
                                         infp_argument_given(arguments, "csv-safe") };

        if (r == 0)
                r = pid ? query_pid(pid, &request, &err) : query(infp_argument(arguments, "run"), &request, &err);
        if (is_interrupted)
                return EXIT_INTERRUPTED;
        return r < 0 ? infp_say_sql_failure(&err) : INFP_EXIT_OK;
}

const struct infp_command infp_command_query = {
        .name = "query",
        .summary = "query a run in SQL, also while it is recorded",
        .operands = "SQL|-",
        .options = options,
        .more = "Every table of `infprof tables` can be queried, and these views: timeseries (one row per sample), "
                "engine_quantiles\n"
                "(percentiles from engines' histograms; engine_quantiles_between(from_t_ns, to_t_ns) for one window,\n"
                "engine_quantiles_by(seconds) for consecutive windows), energy_watts, samples_named (stack samples "
                "with functions), heap_live\n"
                "(the heap that is in use, by stack), python.backtrace (stacks, a row a frame). Tables of "
                "infprof's "
                "Python package are\n"
                "in schema python: python.torch_trace.\n"
                "Where a row refers to an id, the columns of that row are joined (processes: pName, pCmdline). time "
                "is UTC with\n"
                "microseconds, printed as Unix milliseconds; t_ns is CLOCK_MONOTONIC. The SQL is DuckDB's. Counters "
                "are stored as the\n"
                "source gives them: a rate is infp_increase(reset, before, after) over the time between; table "
                "`columns` has reset.\n"
                "SQL has your rights: it can read and write files. --restricted reads only this run; see "
                "docs/security.md.\n"
                "INFPROF_SQL_THREADS=1 limits a query to one core, beside a server that needs the others.\n"
                "\n"
                "--pid reads a running program that records itself (libinfprof, INFPROF_RING=1 in its environment), "
                "without a recorder:\n"
                "the newest marks, spans, counters and rows of Python's tables of that process, not of its children. "
                "Spans "
                "that have not ended\n"
                "have status open. python.backtrace is what its threads do now: each is stopped for a moment when the "
                "SQL "
                "names it;\nand stacks that it took of itself.\n"
                "A recording of the same process loses nothing.\n"
                "\n"
                "examples:\n"
                "  infprof query 'SELECT max(vMemoryUsed), avg(vMemoryPercent) FROM mem'\n"
                "  infprof query 'SELECT metric, quantile, low, estimate, high FROM engine_quantiles'\n"
                "  infprof query \"SELECT time, infp_increase('zero', lag(vNetworkBytesRecvd)\n"
                "      OVER w, vNetworkBytesRecvd) / ((t_ns - lag(t_ns) OVER w) / 1e9) AS rate\n"
                "      FROM net WINDOW w AS (ORDER BY t_ns)\"\n"
                "  infprof query -f csv -o cpu.csv 'SELECT * FROM cpu'\n"
                "  infprof query \"SELECT fKind, file, line, sum(weight) AS s FROM samples_named WHERE mode = 'cpu'\n"
                "      GROUP BY ALL ORDER BY s DESC LIMIT 10\"\n"
                "  infprof query --pid 4711 'SELECT name, count(*), avg(duration_ns) / 1e6 AS ms FROM spans GROUP BY "
                "name'\n"
                "  infprof query 'SELECT table_name, column_name, unit, help FROM columns'",
        .run = run,
};
