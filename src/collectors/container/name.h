/* The container that a cgroup's path names: docker, containerd, CRI-O, podman, kubernetes, LXC, nspawn and libvirt, by the
 * conventions of their cgroup drivers. */
#pragma once

#include <stdbool.h>

#include "base/procfile.h"

struct infp_container_name {
        struct infp_span id;       /* 64 hexadecimal digits, or a name (LXC, nspawn) */
        const char *runtime;       /* NULL: not in the path */
        struct infp_span pod, qos; /* of kubernetes; empty: none */
        size_t size;               /* of the part of the path that ends with the container's own directory */
};

/* The deepest directory of the path that is a container's own. False: none. */
bool infp_container_name(struct infp_span path, struct infp_container_name *ret);
/* A container's id: 64 hexadecimal digits. */
bool infp_is_container_id(struct infp_span s);
