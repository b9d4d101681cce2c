/* Ring files as tests read them: the layout taken at its word, with no care for hostile files (that is src/ring/reader's). */
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "infprof/infprof.h"
#include "ring/reader.h"
#include "ring/writer_parts.h"

/* Of this process alone, whatever the environment says. */
static inline void use_directory(const char *in)
{
        infp_writer_state = INFP_WRITER_OFF;
        infp_writer_config = (struct infp_writer_config){ 0 };
        snprintf(infp_writer_config.directory, sizeof infp_writer_config.directory, "%s", in);
}

/* Runs `body` in a child of fork, which has a writer of its own; its files go to `in`. Fails when the child does. */
static inline void in_child(const char *in, void (*body)(void))
{
        int status;
        pid_t pid;

        fflush(stdout);
        pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
                use_directory(in);
                alarm(100);
                body();
                fflush(stdout);
                _exit(0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
}

/* In children, where cmocka's asserts would run its own clean-up. */
#define CHECK(claim)                                                                        \
        do {                                                                                \
                if (!(claim)) {                                                             \
                        fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #claim); \
                        _exit(1);                                                           \
                }                                                                           \
        } while (0)
#define CHECK_EQUAL(a, b)                                                                                 \
        do {                                                                                              \
                long long a_ = (long long) (a), b_ = (long long) (b);                                     \
                if (a_ != b_) {                                                                           \
                        fprintf(stderr, "%s:%d: %s is %lld, not %lld\n", __FILE__, __LINE__, #a, a_, b_); \
                        _exit(1);                                                                         \
                }                                                                                         \
        } while (0)

static inline struct infp_wire_head *ring_head(void)
{
        return infp_writer_file.head;
}

static inline struct infp_wire_chunk *ring_chunk(uint32_t i)
{
        return (struct infp_wire_chunk *) (infp_writer_file.base + INFP_WRITER_CHUNKS_AT +
                                           (size_t) i * INFP_WIRE_CHUNK);
}

/* Of this process's file. */
static inline struct infp_ring *ring_reader(bool is_consumer)
{
        const struct infp_ring_owner owner = {
                .process = 1, .start_ticks = ring_head()->start_ticks, .pid = getpid(), .uid = geteuid()
        };
        int file = open(infp_writer_file.path, (is_consumer ? O_RDWR : O_RDONLY) | O_CLOEXEC);
        struct infp_ring *ring = NULL;
        struct infp_err err;

        CHECK_EQUAL(infp_ring_open(file, &owner, is_consumer, &ring, &err), 0);
        return ring;
}

static inline enum infp_wire_state ring_state(uint32_t i)
{
        return (enum infp_wire_state)(ring_chunk(i)->stamp & 7);
}

static inline uint32_t ring_count(enum infp_wire_state state)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < ring_head()->n_chunks; i++)
                n += ring_state(i) == state;
        return n;
}

/* Calls back for each record of this process's file, chunk by chunk; nothing may write meanwhile. */
static inline uint32_t ring_each(void (*each)(const struct infp_wire_record *record, void *context), void *context)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < ring_head()->n_chunks; i++) {
                const char *data = (const char *) (ring_chunk(i) + 1);

                if (ring_state(i) == INFP_WIRE_FREE)
                        continue;
                for (uint32_t at = 0; at < ring_chunk(i)->used; n++) {
                        const struct infp_wire_record *record = (const void *) (data + at);

                        CHECK(record->size >= sizeof *record && record->size % 8 == 0);
                        CHECK(at + record->size <= ring_chunk(i)->used);
                        if (each)
                                each(record, context);
                        at += record->size;
                }
        }
        return n;
}

/* Record `number` of the kind, in the order of the file; NULL: there are not so many. */
struct ring_search {
        uint8_t kind;
        uint32_t left;
        const struct infp_wire_record *found;
};

static inline void ring_search_one(const struct infp_wire_record *record, void *context)
{
        struct ring_search *search = context;

        if (record->kind == search->kind && search->left-- == 0)
                search->found = record;
}

static inline const void *ring_record(uint8_t kind, uint32_t number)
{
        struct ring_search search = { kind, number, NULL };

        ring_each(ring_search_one, &search);
        return search.found;
}

static inline void ring_count_one(const struct infp_wire_record *record, void *context)
{
        uint32_t *counts = context;

        counts[record->kind]++;
}

static inline uint32_t ring_count_kind(uint8_t kind)
{
        uint32_t counts[256] = { 0 };

        ring_each(ring_count_one, counts);
        return counts[kind];
}

/* The text of a record, in one of a few buffers. */
static inline const char *ring_text(const void *record, const struct infp_wire_text *text)
{
        static char texts[4][2048];
        static unsigned next;
        char *ret = texts[next++ % 4];
        const char *from = text->at & INFP_WIRE_INLINE ? (const char *) record + (text->at & ~INFP_WIRE_INLINE)
                                                       : infp_writer_file.arena + text->at;

        memcpy(ret, from, text->size);
        ret[text->size] = 0;
        return ret;
}

/* A directory for the files of one program's tests. */
static char directory[64];

static inline int setup(void **state)
{
        (void) state;
        unsetenv("INFPROF_RUN");
        strcpy(directory, access("/dev/shm", W_OK) == 0 ? "/dev/shm/infprof-test-XXXXXX" : "/tmp/infprof-test-XXXXXX");
        return mkdtemp(directory) ? 0 : -1;
}

static inline int teardown(void **state)
{
        char command[128];

        (void) state;
        snprintf(command, sizeof command, "rm -rf %s", directory);
        return system(command);
}
