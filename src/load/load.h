/* The load client: requests to an OpenAI-compatible server by a schedule, and what the client saw of each.
 *
 * A request's clock starts at its arrival: in an open loop when the schedule wanted it, whether or not it could be sent then; in a
 * closed loop when its slot became free. So a server that stalls, or a client that falls behind, cannot hide (no coordinated
 * omission). Tokens are those that the server counts (usage); pieces of text are counted apart and never taken for tokens. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "load/prompts.h"
#include "model/row.h"

struct infp_load_range {
        uint64_t low, high; /* evenly from both and what lies between */
};

struct infp_load_state;

struct infp_load_options {
        const char *url;       /* of the endpoint, whole */
        const char *shown_url; /* the same without secrets, for the rows */
        bool is_chat;          /* messages, not a prompt */
        const char *model;     /* NULL: the request names none */
        const char *name;      /* of the load, column `load` */

        double rate;            /* requests a second of an open loop; 0: closed */
        bool is_constant;       /* evenly spaced, else Poisson */
        unsigned concurrency;   /* in flight at most; 0: as many as are due, up to max_in_flight */
        unsigned max_in_flight; /* what descriptors allow */
        uint64_t n_requests;    /* 0: no limit */
        uint64_t duration_ns;   /* no new arrivals after that; 0: no limit */
        uint64_t grace_ns;      /* those in flight may go on so much longer, then they are cut off */
        uint32_t timeout_ms;    /* of one request from its sending; 0: none */

        const struct infp_prompts *prompts; /* NULL: words */
        struct infp_load_range input_tokens, output_tokens;
        uint64_t shared_prefix, seed;
        bool ignore_eos, no_stream;
        double temperature; /* NAN: the server's own */
        const char *extra;  /* NULL, or members of a JSON object to be added to each request: "\"a\":1,\"b\":2" */
        const char *const *headers; /* ended by NULL; may be NULL */
        const char *token_file;

        int stop_fd; /* -1: none; when it is readable is_stop is asked: true cuts off what is in flight and ends the load */
        bool (*is_stop)(void *context);
        /* A row of table `requests` for each request that ended, in the order of their ends; borrowed for the call. It must not
         * block: everybody's clock stands still meanwhile. */
        void (*row)(void *context, const struct infp_row *row);
        /* At most ten times a second; may be NULL. */
        void (*progress)(void *context, const struct infp_load_state *state);
        void *context;
};

struct infp_load_state {
        uint64_t n_arrived, n_sent, n_ended, n_failed; /* failed: of the ended */
        uint64_t n_pieces;
        unsigned n_in_flight;
        uint64_t n_waiting; /* due, but not sent */
        uint64_t n_held;    /* were due while all slots were taken */
        uint64_t start_t_ns, now_t_ns;
        bool is_ending; /* no new arrivals */
};

/* Until the load is over. 0, or a negative errno before anything was sent. Requests that fail are rows, not errors. */
int infp_load_run(const struct infp_load_options *options, struct infp_load_state *ret, struct infp_err *err);
