/* The directory of live runs, inside src/store. */
#pragma once

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/err.h"

/* Opens the directory (made when missing, checked); the path into ret. A descriptor or a negative errno. */
int infp_live_open_directory(char *ret, size_t cap, struct infp_err *err);

/* Calls back for each live run of the directory; what the dead left is removed. A callback's non-zero ends the walk and is
 * returned. */
int infp_live_each(int dir_fd, int (*each)(void *context, const char *uuid, const char *output), void *context,
                   struct infp_err *err);

/* Removes the files of a run: entry, socket, lock of readers. */
void infp_live_remove(int dir_fd, const char *uuid);

/* The address of a run's socket, however long the directory's path is: dir_fd must stay open while it is used. */
socklen_t infp_live_address(int dir_fd, const char *directory, const char *uuid, struct sockaddr_un *ret);
