/* The ring file: what a target's thread writes and any reader maps. One file a process, in a directory of mode 0700; libc only,
 * since lib and agents include this inside targets. All integers are those of the machine that made it (it is never moved).
 *
 *      0                head (one page)
 *      kinds_at         the schema: one struct infp_wire_kind a record kind
 *      metrics_at       registered counters and gauges, each with its newest value
 *      arena_at         texts that many records name, written once, never moved
 *      settings_at      what may be changed while the process runs (one page)
 *      chunks_at        n_chunks chunks of INFP_WIRE_CHUNK bytes; grows by whole chunks, at most to max_chunks
 *
 * A thread owns at most one active chunk of each class and is its only writer. It writes a record after `used`, then stores the
 * new `used` (release). Bytes below `used` do not change while the chunk's generation stays, so a reader loads `stamp`, then
 * `used` (acquire), copies, and believes the copy only when the generation is still the same after an acquire fence: a torn
 * record is never shown, a killed writer leaves at most bytes after `used`. Readers never write, but for the one consumer (the
 * recorder), which says in `drained` how far it has come; a sealed chunk that is drained may be claimed again.
 *
 * But for the sums of a stack of the heap (INFP_WIRE_SITE): those count on where they lie, so that a reader has them also of a process that
 * was killed. Each word of them is whole, and is of a moment of its own.
 *
 * Payload is read and written in words of 64 bits, relaxed atomics, so that a copy that loses that race is no undefined behaviour.
 *
 * What many records name and is too large for the arena (stacks of agents, code of Python) is written once, as a record of class
 * `stay`, whose chunks are never used for anything else. Its id is its place: (offset of the record - chunks_at) / 8, never 0, valid
 * for this file alone. A reader looks it up when a record names it, so it may come at any time, and in any order. An id without a
 * record there is absent.
 *
 * Version 1. Stacks, samples and rows of tables were appended to it: an older reader counts their records as unknown. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
#error "C only: the records are made by src/ring/writer.c"
#endif

#include <stdatomic.h>

#define INFP_WIRE_MAGIC "infpring"
#define INFP_WIRE_SUFFIX ".ring" /* <pid as the target sees it>-<start ticks>-<created ns>.ring */

enum {
        INFP_WIRE_VERSION = 1, /* another one is refused; within one, fields are only appended to records */
        INFP_WIRE_PAGE = 4096,
        INFP_WIRE_CHUNK = 4096,
        INFP_WIRE_MAX_RECORD = 2048, /* but for stacks; longer texts are cut at a character's edge and flagged */
        INFP_WIRE_KINDS = 25,        /* a page of them */
        INFP_WIRE_FIELDS = 8,
        INFP_WIRE_COLUMNS = 32, /* of a table: 2 bits each say what a row's cell is */
        INFP_WIRE_METRICS = 1024,
        INFP_WIRE_ARENA = 64 * 1024,
        INFP_WIRE_MAX_BYTES = 16 * 1024 * 1024, /* of a file */
        INFP_WIRE_EXACT_BYTES =
                64 * 1024 * 1024, /* of one of an agent that counts every block, which has many stacks */
};

/* What happens when no chunk is free. */
enum infp_wire_class {
        INFP_WIRE_KEEP = 0,   /* the new record is dropped and counted: marks, spans, heap */
        INFP_WIRE_RECENT = 1, /* the oldest chunk of this class is taken: counters, samples, torch_trace */
        INFP_WIRE_STAY =
                2, /* as keep; what is written stays, and takes at most half of the chunks (of an agent that counts every block
                                 seven eighths): stacks, code */
        INFP_WIRE_CLASSES,
};

enum infp_wire_state {
        INFP_WIRE_FREE = 0,
        INFP_WIRE_CLAIMING = 1, /* between the CAS and the new head: to be skipped */
        INFP_WIRE_ACTIVE = 2,
        INFP_WIRE_PARKED =
                3, /* its thread has ended, there is room left: the next thread of its class goes on after `used` */
        INFP_WIRE_SEALED = 4, /* full */
};

struct infp_wire_chunk {
        _Atomic uint64_t stamp; /* generation << 3 | state */
        _Atomic uint32_t used;  /* bytes of records after this head */
        uint32_t class;
        _Atomic uint64_t drained; /* by the consumer: low word of the generation << 32 | bytes */
        _Atomic uint32_t tid;     /* owner */
        uint32_t unused;
        _Atomic uint64_t thread_start; /* of the owner, clock ticks since boot; 0: not known */
        _Atomic uint64_t first_ns;     /* of the first record: which one is the oldest */
        uint64_t reserved[2];
};
_Static_assert(sizeof(struct infp_wire_chunk) == 64, "a cache line");

struct infp_wire_head {
        char magic[8];
        uint32_t version, head_bytes;
        uint8_t boot_id[16];
        int32_t pid; /* as the target sees itself */
        uint32_t uid;
        uint64_t pid_ns; /* inode of its pid namespace; 0: /proc is not there */
        uint64_t
                start_ticks; /* of the process, clock ticks since boot as field 22 of its stat; exec does not change it */
        uint64_t created_ns; /* CLOCK_MONOTONIC; of files of one process the newest is that of its present program */
        uint32_t kinds_at, n_kinds;
        uint32_t metrics_at, max_metrics;
        uint32_t arena_at, arena_bytes;
        uint32_t chunks_at, max_chunks;
        char library[32]; /* version of the writer */

        _Alignas(64) _Atomic uint32_t ready; /* 1: all above is written (release) */
        _Atomic uint32_t n_chunks;           /* allocated on disk; chunks beyond may not be touched (SIGBUS) */
        _Atomic uint32_t n_metrics, arena_used;
        _Atomic uint32_t ended;     /* 1: exited in order */
        _Atomic uint32_t n_threads; /* that have recorded so far */
        _Atomic uint64_t step;      /* of infp_step() */

        /* Lost, by reason, since the file was made. */
        _Alignas(64) _Atomic uint64_t dropped_full; /* records of keep: no chunk was free */
        _Atomic uint64_t dropped_busy; /* a signal handler came into the middle of a record of its own thread */
        _Atomic uint64_t evicted_chunks, evicted_bytes; /* recent: overwritten before the consumer had read them */
        _Atomic uint64_t cut_texts;                     /* longer than a record takes */
        _Atomic uint64_t refused_metrics;               /* beyond max_metrics, or no room for the name */
        _Atomic uint64_t grow_failed;                   /* the disk had no room for more chunks (errno in grow_errno) */
        _Atomic uint64_t grow_errno;

        /* The consumer; 0: none. Only it writes these and `drained`. */
        _Alignas(64) _Atomic uint64_t consumer_pid, consumer_start_ticks, consumer_seen_ns;

        /* INFPROF_RUN of its environment when the file was made, ended by 0: the recording in whose tree it was started. So that
         * recorder knows the file as its own also when the process has ended before anyone saw it. Written before `ready`. */
        char run[40];

        _Atomic uint64_t refused_values; /* of metrics: no number, or a counter that would fall; by the writer */

        /* Of the process when the file was made, for readers who come when it has ended. */
        char name[16]; /* comm, ended by 0; "": /proc is not there */
        int32_t parent;
        int32_t forked_from; /* the process of the same namespace whose program it runs, with what that had mapped; 0: none */

        _Atomic uint64_t refused_stacks; /* and code: no room; what named them has id 0 */

        /* Of a sampler inside the process (src/agent/sampler), which is the only one that makes samples. Written before `ready`: */
        uint32_t sampler_hz_1000; /* the rate that it was asked for, times 1000; 0: the file is no sampler's */
        /* By the writer: */
        _Atomic uint32_t sampler_state;     /* enum infp_wire_sampler */
        _Atomic uint32_t sampler_period_ns; /* CPU time between two samples of a thread */
        _Atomic uint32_t sampler_python;    /* PY_VERSION_HEX's first two bytes: 3.11 is 0x030b; 0: not known */
        _Atomic uint64_t sampler_busy;      /* samples that found no room to work in */
        _Atomic uint64_t sampler_skipped;   /* threads that got no timer: too many */
        _Atomic uint64_t sampler_own_ns;    /* time that its handlers took */
        _Atomic uint64_t sampler_cpu_ns;    /* CPU time of the process while it sampled */
        _Atomic uint64_t sampler_unmapped;  /* samples in code of which its tables do not know: it needs newer ones */
        /* By the consumer: the number of the newest file of unwind tables (struct infp_wire_tables); 0: wait for the first. */
        _Atomic uint64_t tables;

        /* Of a heap agent (src/agent/heap). Written before `ready`: */
        uint64_t
                heap_mean; /* bytes between two samples, on average, at least, or INFP_WIRE_HEAP_EXACT; 0: no heap is sampled */
        /* By the writer: */
        _Atomic uint64_t heap_state;  /* enum infp_wire_heap */
        _Atomic uint64_t heap_missed; /* samples that found no room: they are missing in all sums */
        _Atomic uint64_t heap_kept;   /* blocks that were freed, and whose BLOCK_END found no room: they look alive */
        _Atomic uint64_t heap_own_ns; /* time that samples took */

        /* Of an agent that counts every block: the newest INFP_WIRE_SITE, the head of a list (0: none); bytes in use when the process had the
         * most, and when that was (to within what wire_site's peak says); looks at that, odd while sites are written to. */
        _Alignas(64) _Atomic uint64_t heap_sites;
        _Atomic uint64_t heap_peak, heap_peak_ns, heap_looks;
        _Atomic uint64_t heap_aged; /* the window at whose begin the ages of all blocks were added up */
        /* By the consumer: INFP_WIRE_WINDOW(number of the window that began last, of the first that did not end in the first half of the time). */
        _Alignas(64) _Atomic uint64_t heap_window;

        _Atomic uint64_t evicted_rows;   /* of tables: those among evicted_bytes; by the writer, as the next */
        _Atomic uint64_t refused_tables; /* too many, or too many columns */
        _Atomic uint64_t tables_closed;  /* libraries of its unwind tables that it has closed: it needs newer ones */

        /* Written before `ready`. 0: there are no settings (an agent's file). */
        uint32_t settings_at, unused;
};
#define INFP_WIRE_WINDOW(number, half) ((uint64_t) (half) << 32 | (number))
enum {
        INFP_WIRE_HEAP_EXACT = 1, /* as heap_mean: every block is counted, and none is told of by itself */
        INFP_WIRE_HEAP_WINDOWS = (1 << 20) - 1, /* that can be told apart: then all are one */
        INFP_WIRE_HEAP_LOW = 44,                /* bits of bytes in wire_site's low */
};
enum infp_wire_heap {
        INFP_WIRE_HEAP_RUNS = 1,
        INFP_WIRE_HEAP_OTHER = 2, /* the program has an allocator of its own, which is called in place of ours */
        INFP_WIRE_HEAP_FULL = 4,  /* there was no memory to begin */
        INFP_WIRE_HEAP_LEFT = 3,  /* nobody has read for long: it no longer counts, and never will */
};
enum infp_wire_sampler {
        INFP_WIRE_SAMPLER_WAITS = 1, /* for a consumer and its tables, or for one that no longer reads */
        INFP_WIRE_SAMPLER_RUNS = 2,
        /* It has stopped for good: */
        INFP_WIRE_SAMPLER_LEFT = 3,    /* the program handles SIGPROF itself */
        INFP_WIRE_SAMPLER_ALONE = 4,   /* its consumer is gone */
        INFP_WIRE_SAMPLER_UNKNOWN = 5, /* this version of Python is not known: sampler_python */
        INFP_WIRE_SAMPLER_REFUSED = 6, /* the kernel gives no timers, or does not let the process read its own memory */
};
_Static_assert(sizeof(struct infp_wire_head) <= INFP_WIRE_PAGE, "one page");

/* A text: in the arena, or in the record itself (offset from the record's start). */
struct infp_wire_text {
        uint32_t at; /* INFP_WIRE_INLINE | offset from the record's start, or offset in the arena */
        uint32_t size;
};
#define INFP_WIRE_INLINE 0x80000000U

struct infp_wire_metric {
        _Atomic uint64_t value; /* bits of a double: the newest */
        _Atomic uint64_t t_ns;  /* of it */
        _Atomic uint64_t n;     /* updates so far, so that a reader knows how many it did not see */
        struct infp_wire_text name, unit, help;
        _Atomic uint32_t ready; /* 1: name, unit, help, kind are written */
        uint32_t kind;          /* enum infp_wire_metric_kind */
        uint64_t reserved;
};
_Static_assert(sizeof(struct infp_wire_metric) == 64, "a cache line");
enum infp_wire_metric_kind { INFP_WIRE_COUNTER = 1, INFP_WIRE_GAUGE = 2 };

/* What `infprof config` shows and sets. The process writes which settings there are; infprof writes what is asked for, and counts `asked` of
 * the setting and then that of the page, at which the process looks when it is in the library anyway. It believes nothing of it: it takes
 * one text of printable ASCII, and says what it made of it. Texts end with a byte 0. */
struct infp_wire_setting {
        _Atomic uint32_t asked;    /* by infprof: odd while it writes `wanted` */
        _Atomic uint32_t answered; /* by the process: the `asked` that it has dealt with */
        _Atomic uint32_t said;     /* by the process: odd while it writes what follows; 0: there is no such setting */
        uint32_t unused;
        uint64_t wanted[8];
        struct infp_wire_said {
                uint64_t key[4], value[8], source[2];
                uint64_t refused[12]; /* why what was asked for last is not what it has; "": it is */
                uint64_t may_be[12];  /* in words */
        } is;
};
enum { INFP_WIRE_SETTINGS = 10 };
struct infp_wire_settings {
        _Atomic uint32_t asked;
        uint32_t unused[15];
        struct infp_wire_setting setting[INFP_WIRE_SETTINGS];
};
_Static_assert(sizeof(struct infp_wire_setting) == 384 && sizeof(struct infp_wire_settings) <= INFP_WIRE_PAGE,
               "one page");

/* Record kinds; never renumber. Later agents append theirs. */
enum infp_wire_record_kind {
        INFP_WIRE_MARK = 1,
        INFP_WIRE_SPAN_BEGIN = 2, /* shows a span that has no end yet; what ends is whole in its end */
        INFP_WIRE_SPAN_ATTR = 3,  /* before the span's end in the order of the program */
        INFP_WIRE_SPAN_END = 4,
        INFP_WIRE_VALUE = 5,      /* of a counter or gauge */
        INFP_WIRE_THREAD = 6,     /* name of the thread that wrote it */
        INFP_WIRE_STACK = 7,      /* class stay; t_ns and tid: of the first that had it */
        INFP_WIRE_CODE = 8,       /* class stay: a function of Python */
        INFP_WIRE_SAMPLE = 9,     /* class recent: the stack of a thread, by the clock of its CPU time */
        INFP_WIRE_BLOCK = 10,     /* a block of the heap that was sampled, and its stack */
        INFP_WIRE_BLOCK_END = 11, /* it is no more; may be read before its BLOCK */
        INFP_WIRE_SITE = 12,      /* class stay: the sums of all blocks of a stack */
        INFP_WIRE_TABLE = 13,     /* class stay: names of a table and of its columns */
        INFP_WIRE_ROW = 14,       /* class recent: a row of a table */
        INFP_WIRE_OUR_KINDS = INFP_WIRE_ROW,
};
enum infp_wire_flags {
        INFP_WIRE_CUT = 1,               /* a text was cut */
        INFP_WIRE_TRUNCATED = 2,         /* of a stack: outer frames are missing, there was no room for them */
        INFP_WIRE_INCOMPLETE = 4,        /* of a stack: the walk ended before the outermost frame */
        INFP_WIRE_PYTHON_INCOMPLETE = 8, /* of a stack: Python's frames could not be read to the outermost one */
        INFP_WIRE_OBJECT = 16,           /* of a block: an allocator of Python's own gave it */
        INFP_WIRE_MAPPED = 32,           /* of a block: the program has mapped it */
};

struct infp_wire_record {
        uint16_t size; /* with this head and inline texts; a multiple of 8 */
        uint8_t kind, flags;
        uint32_t tid;
        uint64_t t_ns; /* CLOCK_MONOTONIC at the call */
};
struct infp_wire_mark { /* and INFP_WIRE_THREAD */
        struct infp_wire_record record;
        struct infp_wire_text text;
};
/* Span ids are unique within the file and never 0; parent 0: none. */
struct infp_wire_span_begin {
        struct infp_wire_record record;
        uint64_t id, parent;
        struct infp_wire_text name;
};
enum infp_wire_value_type { INFP_WIRE_TEXT = 1, INFP_WIRE_INT = 2, INFP_WIRE_DOUBLE = 3, INFP_WIRE_BOOL = 4 };
struct infp_wire_span_attr {
        struct infp_wire_record record;
        uint64_t id;
        struct infp_wire_text key, text; /* text: of type TEXT */
        uint64_t value;                  /* of the others: its bits */
        uint32_t type, unused;
};
enum infp_wire_span_status { INFP_WIRE_UNSET = 0, INFP_WIRE_OK = 1, INFP_WIRE_ERROR = 2 };
struct infp_wire_span_end {
        struct infp_wire_record record; /* t_ns: the end; tid: that which ended it */
        uint64_t id, parent, begin_ns;
        struct infp_wire_text name; /* size 0: as in its begin */
        uint32_t begin_tid, status;
};
/* Of two threads that add to one counter at once, the smaller sum may have the later time, by less than a microsecond: readers
 * take the largest so far, which is what the sum was then. */
struct infp_wire_value {
        struct infp_wire_record record;
        uint64_t value; /* bits of a double; of counters the sum so far */
        uint32_t metric, unused;
};

/* A stack, innermost frames first. The native part is return addresses (the first one: the instruction itself) as the process had
 * them; each is 64 bits. What lay there depends on what was mapped: `epoch` counts the changes of that, by the agent, and the same
 * addresses in another epoch are another stack. The Python part is of the same moment, or it is left out. */
struct infp_wire_stack {
        struct infp_wire_record record;
        uint32_t epoch, unused;
        struct infp_wire_text native, python; /* in the record; size in bytes */
};
/* It stands for size / (1 - e^(-size / mean)) bytes. */
struct infp_wire_block {
        struct infp_wire_record record;
        uint64_t id;                  /* of the block, within the file */
        uint64_t address, size, mean; /* mean: bytes between two samples then, on average */
        uint32_t stack, tid;          /* stack: id of an INFP_WIRE_STACK; 0: absent */
};
struct infp_wire_block_end {
        struct infp_wire_record record;
        uint64_t id;
};
/* Bytes and blocks of a stack, since the file was made: what is in use is what was allocated less what was freed. A stack may have several
 * sites, so that threads do not write to the same one: they add up. */
struct infp_wire_site {
        struct infp_wire_record record; /* as that of its first block */
        uint32_t stack,
                previous; /* stack: id of an INFP_WIRE_STACK; 0: all that found no room. previous: of the list */
        _Atomic uint64_t allocated, allocations, freed, frees;
        _Atomic uint64_t temporary; /* bytes that were freed in the window in which they were allocated */
        _Atomic uint64_t low; /* number of a window << INFP_WIRE_HEAP_LOW | least bytes in use after a free in it */
        _Atomic uint64_t old,
                oldest; /* as heap_aged's window began: bytes of windows before its half, and the window of the oldest block */
        _Atomic uint64_t peak,
                peak_blocks; /* in use when the process had the most: looked at when that had grown by 1/64, or 1/32 of many */
};
enum { INFP_WIRE_FRAMES = 248 }; /* of each part at most: a stack is at most a chunk */
struct infp_wire_python {
        uint32_t
                code; /* id of an INFP_WIRE_CODE; 0: absent; in samples INFP_WIRE_SHIM, and 0 is a frame without a name */
        uint32_t line; /* INFP_WIRE_ENTRY | line in the file; 0: not known */
};
#define INFP_WIRE_ENTRY 0x80000000U /* C called the interpreter for this frame: where it meets the native part */
#define INFP_WIRE_SHIM 1U           /* no place: a frame of the interpreter's own, which runs no code */
struct infp_wire_code {
        struct infp_wire_record record;
        uint32_t line, unused; /* first line of the function; 0: not known */
        struct infp_wire_text file, function;
};
/* A stack and when it was. It is not interned: the innermost address makes nearly each stack another one, and what stays would fill
 * the file within minutes. Frames as in struct infp_wire_stack. */
struct infp_wire_sample {
        struct infp_wire_record record;
        uint32_t cpu, periods; /* it stands for so many periods of CPU time: more where the kernel was late */
        uint64_t epoch;        /* number of the tables that it was unwound with */
        uint32_t tid, unused;  /* whose stack it is; another thread may have unwound and written it */
        struct infp_wire_text native, python;
};
/* A table of which rows may come. Columns are separated by blanks; a column's number is its place among them. */
struct infp_wire_table {
        struct infp_wire_record record;
        struct infp_wire_text name, columns;
};
/* After the fixed part comes a cell for each column that has a value, in their order, then the texts that lie in the record. */
struct infp_wire_row {
        struct infp_wire_record record; /* t_ns: of what the row is about, no later than the call */
        uint32_t table, unused;         /* table: id of an INFP_WIRE_TABLE */
        uint64_t types;                 /* enum infp_wire_cell_type of column i: bits 2 i and 2 i + 1 */
};
enum infp_wire_cell_type {
        INFP_WIRE_CELL_NONE = 0,
        INFP_WIRE_CELL_INT = 1,
        INFP_WIRE_CELL_DOUBLE = 2,
        INFP_WIRE_CELL_TEXT = 3
};
union infp_wire_cell {
        uint64_t bits; /* of an int64_t or a double */
        struct infp_wire_text text;
};

/* What a sampler unwinds with: the executable memory of its process, and for each piece a table (unwind/table.h). The consumer writes
 * it as .sampler-<pid>-<start ticks>-<number> into the directory of tables that the sampler's environment names, where the tables
 * lie, too. Written once, then named in the head of the ring. Mappings are sorted and disjoint; texts and tables follow them. */
#define INFP_WIRE_TABLES_FILE ".sampler-"
#define INFP_WIRE_TABLES_MAGIC "infptabl"
struct infp_wire_tables {
        char magic[8];
        uint32_t version, n; /* of the mappings that follow */
        uint64_t number;
};
struct infp_wire_mapping {
        uint64_t begin, end, bias, entry; /* as in struct infp_unwind_mapping */
        uint64_t table_at, table_size;    /* of the table, in its file; size 0: no table */
        uint32_t flags;                   /* as in struct infp_unwind_mapping */
        uint32_t name_at; /* of the table's file, in this file, ended by 0; 0: the table lies in this file */
};
enum { INFP_WIRE_TABLES_VERSION = 1, INFP_WIRE_MAPPINGS = 16384 };

/* The schema block: fixed part of each record kind, so that a reader of another age knows what it may read. */
enum infp_wire_field_type {
        INFP_WIRE_U16 = 1,
        INFP_WIRE_U32,
        INFP_WIRE_U64,
        INFP_WIRE_F64,
        INFP_WIRE_TEXT_FIELD,
        INFP_WIRE_BYTES_FIELD
};
struct infp_wire_field {
        char name[14];
        uint8_t offset, type;
};
struct infp_wire_kind {
        char name[16];
        uint16_t kind, class, size, n_fields; /* size: of the fixed part */
        struct infp_wire_field fields[INFP_WIRE_FIELDS];
        uint64_t reserved;
};
extern const struct infp_wire_kind infp_wire_kinds[INFP_WIRE_OUR_KINDS]; /* number 1 first */
_Static_assert(sizeof(struct infp_wire_kind) == 160, "pinned");
_Static_assert(sizeof(struct infp_wire_kind) * 25 <= INFP_WIRE_PAGE, "25 kinds fit into a page");
_Static_assert(sizeof(struct infp_wire_record) == 16 && sizeof(struct infp_wire_mark) == 24 &&
                       sizeof(struct infp_wire_span_begin) == 40 && sizeof(struct infp_wire_span_attr) == 56 &&
                       sizeof(struct infp_wire_span_end) == 56 && sizeof(struct infp_wire_value) == 32 &&
                       sizeof(struct infp_wire_stack) == 40 && sizeof(struct infp_wire_code) == 40 &&
                       sizeof(struct infp_wire_python) == 8 && sizeof(struct infp_wire_sample) == 56 &&
                       sizeof(struct infp_wire_block) == 56 && sizeof(struct infp_wire_block_end) == 24 &&
                       sizeof(struct infp_wire_site) == 104 && sizeof(struct infp_wire_table) == 32 &&
                       sizeof(struct infp_wire_row) == 32 && sizeof(union infp_wire_cell) == 8 &&
                       sizeof(struct infp_wire_tables) == 24 && sizeof(struct infp_wire_mapping) == 56,
               "records are the same for every compiler");
