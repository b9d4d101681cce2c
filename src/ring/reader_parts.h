/* The inside of a reader: reader.c copies records out of the file, reader_row.c makes rows of them, reader_table.c rows of
 * tables that the program names, reader_stack.c looks up stacks. */
#pragma once

#include "base/guarded_map.h"
#include "base/map.h"
#include "base/str.h"
#include "ring/reader.h"
#include "ring/wire.h"

enum {
        INFP_RING_TEXT = INFP_WIRE_MAX_RECORD, /* no writer makes a longer one */
        INFP_RING_THREADS = 16384,             /* names of threads that are kept */
        INFP_RING_ROW_TEXT = 48 * 1024,
        INFP_RING_TABLES = 64, /* that are kept */
};

/* Where the parts of the file lie, as its head said once: checked, and never asked again. */
struct ring_layout {
        size_t size; /* of the mapping: with all chunks that there may be */
        uint32_t head_bytes, kinds_at, n_kinds, metrics_at, max_metrics, arena_at, arena_bytes, chunks_at, max_chunks;
        uint16_t fixed[256]; /* by kind: bytes of its fixed part; 0: the file's writer makes no such records */
};

/* How far a chunk was read. */
struct ring_seen {
        uint64_t generation; /* 0: never looked at; generations of files count from 0, so it is kept plus one */
        uint32_t offset;     /* bytes taken of it */
        bool is_sealed;      /* and it was full then */
};

struct ring_visit {
        uint64_t first_ns;
        uint32_t index;
};

/* A record that was copied: bytes `at` of taken. */
struct ring_event {
        uint64_t t_ns, thread_start; /* thread_start 0: not known */
        uint32_t at;
};

struct ring_span {
        uint64_t id, parent, begin_ns, end_ns, begin_start; /* begin_start: of the thread */
        uint64_t ended_pass;
        uint32_t begin_tid, end_tid;
        uint8_t status; /* enum infp_wire_span_status */
        bool is_used, has_begin, has_end;
        struct infp_str name, attributes; /* attributes: JSON members "key":value, with commas */
};

struct ring_spans {
        struct infp_map by_id; /* hash of the id -> index */
        struct ring_span *all;
        uint32_t *spare;   /* indices that are free */
        uint32_t *waiting; /* ended ones, in the order of their ends */
        uint32_t n, n_spare, n_waiting, cap;
        uint64_t seed;        /* nobody can choose ids that collide */
        uint64_t strays_pass; /* in which those were forgotten of which only attributes were seen, plus one */
        size_t attribute_bytes;
};

struct ring_thread {
        uint64_t start;
        char *name;
};

struct ring_slot {
        uint64_t n, t_ns, value;
};

struct ring_metric {
        uint64_t given_ns;     /* stamp of the newest row */
        uint64_t largest;      /* bits of the largest sum so far */
        struct ring_slot slot; /* as it was when the last pass was over */
};

/* What a table's record says, in our columns. */
struct ring_table {
        uint32_t id;
        const struct infp_table *table;  /* NULL: this version does not know it */
        int16_t cell[INFP_WIRE_COLUMNS]; /* of its column i; -1: not known */
};

struct infp_ring {
        struct infp_guarded_map map;
        struct ring_layout layout;
        struct infp_ring_owner owner;
        struct infp_ring_counts counts;
        int file;
        bool is_consumer;

        /* A pass visits every chunk once that has something; a call may do less. */
        struct ring_seen *seen;
        struct ring_visit *visits; /* of this pass: chunks that had something new when it began */
        uint32_t next_visit, n_visits;
        bool is_in_pass;
        uint64_t pass;
        uint64_t now_ns; /* of this call: what is stamped later is no record of a writer */

        struct infp_str taken; /* copied records */
        struct ring_event *events;
        size_t n_events, cap_events;

        struct ring_spans spans;
        struct infp_map threads; /* tid -> index */
        struct ring_thread *names;
        uint32_t n_names, cap_names;
        struct ring_metric *metrics;
        struct ring_table *tables; /* INFP_RING_TABLES that were met; NULL before the first */
        uint32_t n_tables;
        struct ring_stacks *stacks; /* what infp_ring_stack and infp_ring_code gave; NULL before the first call */
        bool is_in_read;

        int (*put)(void *context, const struct infp_row *row);
        void *context;
        infp_ring_sample_fn *take_sample; /* NULL: samples are left out */
        void *sample_context;
        struct infp_ring_heap_fns heap; /* NULL: left out */
        struct infp_row row;
        char text[INFP_RING_ROW_TEXT];
};

static inline struct infp_wire_head *ring_head(const struct infp_ring *ring)
{
        return (struct infp_wire_head *) (void *) ring->map.at;
}

/* reader.c */
/* Copies the record that has this id, of class stay, into ret (a chunk's room). -ENOENT: there is none; -EBADMSG: no writer makes it. */
int ring_copy_staying(struct infp_ring *ring, uint32_t id, uint8_t kind, struct infp_wire_record *ret);
/* The text, copied, at most cap - 1 bytes; false: no writer makes such a one. record: with its inline texts. */
bool ring_text(struct infp_ring *ring, const struct infp_wire_record *record, struct infp_wire_text text, char *ret,
               size_t cap, size_t *ret_size);

/* reader_stack.c */
int ring_give_sample(struct infp_ring *ring, const struct infp_wire_sample *sample); /* 0 or -ENOMEM */
int ring_give_block(struct infp_ring *ring, const struct infp_wire_block *block);    /* the same */

/* reader_table.c */
int ring_give_row(struct infp_ring *ring, const struct ring_event *event, const struct infp_wire_row *row);

/* reader_row.c */
const char *ring_thread_name(const struct infp_ring *ring, uint32_t tid, uint64_t start); /* NULL: none */
int ring_give_events(struct infp_ring *ring);
int ring_give_metrics(struct infp_ring *ring, bool last); /* newest values whose records are gone */
int ring_give_spans(struct infp_ring *ring);              /* that ended in an earlier pass */
int ring_give_open_spans(struct infp_ring *ring);         /* all that are left */
void ring_spans_done(struct ring_spans *spans);
void ring_threads_done(struct infp_ring *ring);
