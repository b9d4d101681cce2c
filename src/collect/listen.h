/* Who listens where: sockets by their port or path, and the processes that have them open. Sockets belong to a network
 * namespace, whose lists can be read through any process in it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "collect/env.h"

/* Zero-initialised is empty. */
struct infp_listen {
        struct infp_listen_socket {
                uint64_t inode;
                char host[64]; /* as a URL has it: "127.0.0.1", "[::1]"; "" of a socket in the file system */
                unsigned port; /* 0 of a socket in the file system */
                bool is_any;   /* it listens at every address, not at that one alone */
        } * socket;
        unsigned n, cap;
};
void infp_listen_done(struct infp_listen *listen);

/* Adds the TCP sockets that listen on the port (0: any) in the network of process pid (0: ours). */
void infp_listen_port(const struct infp_env *env, int32_t pid, unsigned port, struct infp_listen *ret);
/* Adds those that listen at a path of the file system, or under an abstract name ("@name"). */
void infp_listen_path(const struct infp_env *env, int32_t pid, const char *path, struct infp_listen *ret);
/* Which of them the process has open: its number; -ENOENT: none; -EACCES: that cannot be seen. */
int infp_listen_open(const struct infp_env *env, int32_t pid, const struct infp_listen *listen);

/* The network namespace of a process, 0: ours. Processes in one namespace have the same number. -ENOENT: the process is gone,
 * -EACCES. */
int infp_listen_network(const struct infp_env *env, int32_t pid, uint64_t *ret);

/* Is the host of a URL ("[::1]" without its brackets) this machine: the loopback, an address of its own, its name? */
bool infp_listen_is_loopback(const char *host);
bool infp_listen_is_own_address(const char *host);
bool infp_listen_is_own_name(const char *host);
/* Is it an address in the network of process pid? */
bool infp_listen_has_address(const struct infp_env *env, int32_t pid, const char *host);
