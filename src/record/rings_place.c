/* The directories in which ring files lie, and what inotify says of them. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "record/rings_parts.h"
#include "ring/where.h"

static const uint64_t unwatched_ns = INFP_NS_PER_S;

static void watch(struct infp_rings *rings, struct ring_place *place)
{
        char path[48];

        place->watch = -1;
        if (rings->inotify_fd < 0)
                return;
        snprintf(path, sizeof(path), "/proc/self/fd/%d", place->fd);
        place->watch = inotify_add_watch(rings->inotify_fd, path, IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF);
}

int rings_add_place(void *context, int fd, const char *path)
{
        struct infp_rings *rings = context;
        struct ring_place *place;
        struct stat status;

        (void) path;
        if (fstat(fd, &status) < 0) {
                infp_close(fd);
                return 0;
        }
        for (unsigned i = 0; i < rings->n_places; i++)
                if (rings->places[i].device == status.st_dev && rings->places[i].inode == status.st_ino) {
                        infp_close(fd);
                        return 0;
                }
        if (rings->n_places == RINGS_PLACES || infp_fd_is_scarce(fd)) {
                infp_close(fd);
                return 0;
        }
        place = &rings->places[rings->n_places++];
        *place = (struct ring_place){
                .fd = fd, .device = status.st_dev, .inode = status.st_ino, .uid = status.st_uid, .look_ns = 0
        };
        watch(rings, place);
        return 0;
}

static void open_place(struct infp_rings *rings, const char *path, bool is_default)
{
        struct stat status;
        const unsigned n = rings->n_places;
        const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (fd >= 0 && fstat(fd, &status) == 0 && status.st_uid == geteuid() && !(status.st_mode & 077))
                rings_add_place(rings, fd, path);
        else
                infp_close(fd);
        if (n < rings->n_places)
                rings->places[n].is_default = is_default;
}

/* That which the command inherits, and those of where.h, of which the first is made where it is missing: a directory that does
 * not exist cannot be watched. */
void rings_open_places(struct infp_rings *rings)
{
        const char *inherited = getenv(INFP_RING_ENV);
        char path[PATH_MAX];
        int n;

        if (inherited && inherited[0] == '/')
                open_place(rings, inherited, false);

        for (unsigned i = 0;
             (n = infp_ring_directory(i, geteuid(), getenv("XDG_RUNTIME_DIR"), path, sizeof(path))) >= 0; i++) {
                if (i == 0)
                        (void) !mkdir(path, 0700);
                if (n > 0)
                        open_place(rings, path, true);
        }
}

static void remove_place(struct infp_rings *rings, struct ring_place *place)
{
        infp_close(place->fd);
        *place = rings->places[--rings->n_places];
}

static void take_event(struct infp_rings *rings, const struct inotify_event *event)
{
        if (event->mask & IN_Q_OVERFLOW) {
                rings_look_again(rings);
                return;
        }
        for (unsigned i = 0; i < rings->n_places; i++) {
                struct ring_place *place = &rings->places[i];

                if (place->watch != event->wd)
                        continue;
                if (event->mask & (IN_DELETE_SELF | IN_IGNORED))
                        remove_place(rings, place);
                else
                        place->look_ns = place->pause_ns = 0;
                return;
        }
}

void rings_take_events(struct infp_rings *rings)
{
        _Alignas(struct inotify_event) char buffer[16384];
        ssize_t n;

        while (rings->inotify_fd >= 0 && (n = read(rings->inotify_fd, buffer, sizeof(buffer))) > 0)
                for (char *at = buffer; at < buffer + n;) {
                        const struct inotify_event *event = (const void *) at;

                        take_event(rings, event);
                        at += sizeof(*event) + event->len;
                }
        for (unsigned i = 0; i < rings->n_places; i++)
                if (rings->places[i].watch < 0 && rings->places[i].look_ns == UINT64_MAX)
                        rings->places[i].look_ns = rings->now_ns + unwatched_ns;
}

void rings_look_again(struct infp_rings *rings)
{
        for (unsigned i = 0; i < rings->n_places; i++)
                rings->places[i].look_ns = 0;
}

void rings_close_places(struct infp_rings *rings)
{
        while (rings->n_places)
                remove_place(rings, &rings->places[0]);
        rings->inotify_fd = infp_close(rings->inotify_fd);
}
