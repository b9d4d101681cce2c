/* Attaching: finds the processes that the user names by pid, name or port, and finds them again after a restart. */
#pragma once

#include <regex.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "collect/target.h"

enum { INFP_FOLLOW_PIDS = INFP_TARGET_ROOTS, INFP_FOLLOW_NETWORKS = 256 };

struct infp_follow_options {
        const pid_t *pids; /* these processes; the run ends with the last of them */
        size_t n_pids;
        const char *name; /* extended regular expression for the name or the command line; NULL: not by name */
        unsigned port;    /* who listens on this TCP port; 0: not by port */
};

struct infp_follow {
        struct infp_follow_options options;
        regex_t regex;
        bool has_regex;
        struct infp_followed {
                pid_t pid;
                uint64_t start_ticks;
        } roots[INFP_FOLLOW_PIDS];
        unsigned n_roots;
        struct infp_follow_network {
                uint64_t id;              /* as infp_listen_network gives it */
                pid_t pid;                /* lives in it */
        } networks[INFP_FOLLOW_NETWORKS]; /* besides ours, as found last */
        unsigned n_networks;
        uint64_t networks_ns; /* when to look for them again */
        bool was_found;       /* at any time */
        bool is_denied;       /* a process is there that we may not see */
        char reason[256];     /* why there are no roots; "" with roots */
        char problem[256];    /* why nothing, or not all, was found although it is there; else "" */
};

/* Compiles and looks once. -ESRCH: a pid is not alive. A name or port that no process has yet is no error: n_roots is 0. */
int infp_follow_init(struct infp_follow *follow, const struct infp_follow_options *options, const struct infp_env *env,
                     struct infp_err *err);
void infp_follow_done(struct infp_follow *follow);

/* Looks again. True when the roots have changed. */
bool infp_follow_look(struct infp_follow *follow, const struct infp_env *env);
/* True when an ended target can return: it is named by its name or port. */
bool infp_follow_can_return(const struct infp_follow *follow);
/* The roots' pids, for infp_target_set_root. */
size_t infp_follow_pids(const struct infp_follow *follow, pid_t *ret, size_t cap);
