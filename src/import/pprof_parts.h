/* A pprof profile (profile.proto) in memory: what samples name, and what their values are. */
#pragma once

#include "base/map.h"
#include "base/str.h"
#include "import/format.h"
#include "import/protobuf.h"

enum {
        PPROF_MAX = 256 << 20,      /* bytes of content */
        PPROF_MAX_THINGS = 4000000, /* strings, functions, locations */
        PPROF_MAX_MAPPINGS = 100000,
        PPROF_MAX_TYPES = 64,
        PPROF_MESSAGES = 15, /* numbers of fields of Profile end below it */
};

/* Fields of Profile. */
enum {
        PPROF_SAMPLE_TYPE = 1,
        PPROF_SAMPLE,
        PPROF_MAPPING,
        PPROF_LOCATION,
        PPROF_FUNCTION,
        PPROF_STRING,
        PPROF_DROP_FRAMES,
        PPROF_KEEP_FRAMES,
        PPROF_TIME,
        PPROF_DURATION,
        PPROF_PERIOD_TYPE,
        PPROF_PERIOD,
        PPROF_COMMENT,
        PPROF_DEFAULT_TYPE,
};

struct pprof_function {
        uint64_t name, system_name, file; /* strings */
        int64_t line;
};

struct pprof_location {
        uint64_t mapping, address;
        struct infp_proto message; /* its lines are read when a sample names it */
        uint64_t frame;            /* 0: not yet made */
};

struct pprof_mapping {
        uint64_t id, start, end, offset, path, build_id;
};

struct pprof_type {
        uint64_t type, unit; /* strings */
};

/* How values of a sample become a row. */
struct pprof_mode {
        char mode[INFP_IMPORT_MODE_TEXT];
        int weight, samples; /* positions; samples -1: the file has no such count */
        double factor;       /* of the weight */
};

struct pprof {
        struct infp_import_input *input;
        struct infp_import_writer *writer;
        const uint8_t *begin; /* of the content, for messages */
        struct infp_proto all;
        struct infp_import_text *strings;
        size_t n_strings, cap_strings;
        struct pprof_function *functions;
        size_t n_functions, cap_functions;
        struct pprof_location *locations;
        size_t n_locations, cap_locations;
        struct pprof_mapping *mappings;
        size_t n_mappings, cap_mappings;
        struct infp_map function_by_id, location_by_id, mapping_by_id;
        struct pprof_type types[PPROF_MAX_TYPES], period_type;
        unsigned n_types;
        int64_t period, time_ns, duration_ns;
        struct pprof_mode modes[PPROF_MAX_TYPES];
        unsigned n_modes;
        struct infp_import_place place;
        struct infp_str name; /* of a place without a function */
};

/* -EBADMSG: names the file and the byte where `at` lies. */
int pprof_broken(const struct pprof *p, const void *at, const char *why, struct infp_err *err);
/* A string by number; -EBADMSG beyond the table. */
int pprof_string(const struct pprof *p, uint64_t number, const void *at, struct infp_import_text *ret,
                 struct infp_err *err);

/* Reads all but the samples. */
int pprof_read_tables(struct pprof *p, struct infp_err *err);
void pprof_done(struct pprof *p);
int pprof_read_type(const struct pprof *p, const struct infp_proto_field *field, struct pprof_type *ret,
                    struct infp_err *err);

/* The frame of a location. */
int pprof_frame(struct pprof *p, uint64_t location, const void *at, uint64_t *ret, struct infp_err *err);
int pprof_put_mappings(struct pprof *p, struct infp_err *err);

/* What the sample types mean. */
int pprof_choose_modes(struct pprof *p, struct infp_err *err);
