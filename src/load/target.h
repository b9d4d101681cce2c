/* Whom to ask, from what the user gave: the URLs, whether the server is there, its model. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

struct infp_load_target {
        char *endpoint; /* where requests go */
        char *api;      /* ".../v1"; models are at <api>/models */
        char *root;     /* without "/v1"; NULL where the path is another: no /health is known then */
        char *query;    /* "" or "?..." of what was given: it goes after each path */
        char *shown;    /* api for messages: no secret in it */
        bool is_chat;
};

/* given: a base ("http://127.0.0.1:8091", "localhost:8000/v1", "unix:///run/x.sock") or the endpoint itself (".../chat/completions").
 * endpoint: "chat", "completions", or NULL: what the URL says, else is_chat. -EINVAL with a sentence. */
int infp_load_target_init(struct infp_load_target *target, const char *given, const char *endpoint, bool is_chat,
                          struct infp_err *err);
void infp_load_target_done(struct infp_load_target *target);

struct infp_load_access {
        const char *const *headers;     /* ended by NULL; may be NULL */
        const char *token_file;         /* may be NULL */
        uint64_t wait_ns;               /* how long the server may take to become ready */
        bool (*is_stop)(void *context); /* asked while it waits; may be NULL */
        void *context;
};

/* Waits until it is ready: -ECONNREFUSED ... with a sentence that names the URL and what would help; -ECANCELED: stopped. model:
 * NULL, or where the name of the first model that it has goes (stays NULL where it lists none; free). *ret_models: how many. */
int infp_load_target_look(const struct infp_load_target *target, const struct infp_load_access *access,
                          char **ret_model, unsigned *ret_models, struct infp_err *err);
