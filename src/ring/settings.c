#include "ring/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

enum { TRIES = 200, PAUSE_NS = 1000000 };

static void wait_a_moment(void)
{
        nanosleep(&(struct timespec){ .tv_nsec = PAUSE_NS }, NULL);
}

/* Where the page lies; 0: there is none. */
static int64_t locate(int file, const struct infp_ring_owner *owner, struct infp_err *err)
{
        struct infp_wire_head head;
        struct infp_ring *ring;

        INFP_TRY(infp_ring_open(file, owner, false, &ring, err)); /* all that it checks */
        infp_ring_close(ring);
        if (pread(file, &head, sizeof(head), 0) != (ssize_t) sizeof(head))
                return infp_fail(err, -EBADMSG, "has become shorter");
        if (head.head_bytes < offsetof(struct infp_wire_head, settings_at) + sizeof(head.settings_at) ||
            !head.settings_at)
                return 0;
        if (head.settings_at % INFP_WIRE_PAGE || head.settings_at < head.head_bytes ||
            head.settings_at > head.chunks_at - INFP_WIRE_PAGE)
                return infp_fail(err, -EBADMSG, "says that its settings lie outside of their place");
        return head.settings_at;
}

static bool is_same(const struct infp_wire_settings *a, const struct infp_wire_settings *b)
{
        for (unsigned i = 0; i < INFP_WIRE_SETTINGS; i++) {
                const struct infp_wire_setting *one = &a->setting[i], *other = &b->setting[i];

                if (one->asked != other->asked || one->answered != other->answered || one->said != other->said ||
                    one->asked & 1 || one->said & 1)
                        return false;
        }
        return true;
}

/* Twice the same, so that no text is a mixture of two; a process that was stopped in the middle of one may leave that. */
static int read_page(int file, int64_t at, struct infp_wire_settings *ret, struct infp_err *err)
{
        struct infp_wire_settings before;

        for (unsigned i = 0; i < TRIES; i++) {
                if (pread(file, &before, sizeof(before), at) != (ssize_t) sizeof(before) ||
                    pread(file, ret, sizeof(*ret), at) != (ssize_t) sizeof(*ret))
                        return infp_fail(err, -EBADMSG, "has become shorter");
                if (is_same(&before, ret))
                        break;
                wait_a_moment();
        }
        return 0;
}

static void copy_text(char *ret, const uint64_t *words, size_t size)
{
        memcpy(ret, words, size);
        ret[size] = 0;
        for (char *c = ret; *c; c++)
                if (*c < ' ' || *c > '~')
                        *c = '?';
}
#define COPY(to, from) copy_text(to, from, sizeof(from))

int infp_ring_settings(int file, const struct infp_ring_owner *owner, struct infp_ring_setting *ret,
                       struct infp_err *err)
{
        const int64_t at = locate(file, owner, err);
        struct infp_wire_settings page;
        int n = 0;

        if (at <= 0)
                return (int) at;
        INFP_TRY(read_page(file, at, &page, err));
        for (uint32_t i = 0; i < INFP_WIRE_SETTINGS; i++) {
                const struct infp_wire_setting *from = &page.setting[i];
                struct infp_ring_setting *to = &ret[n];

                if (!from->said)
                        continue;
                to->number = i;
                COPY(to->key, from->is.key);
                COPY(to->value, from->is.value);
                COPY(to->wanted, from->wanted);
                COPY(to->source, from->is.source);
                COPY(to->refused, from->is.refused);
                COPY(to->may_be, from->is.may_be);
                to->state = from->asked != from->answered ? INFP_RING_SETTING_PENDING
                            : to->refused[0]              ? INFP_RING_SETTING_REFUSED
                                                          : INFP_RING_SETTING_APPLIED;
                n += to->key[0] != 0;
        }
        return n;
}

/* Not flock, which the recorder holds. */
static int lock(int file, int64_t at, struct infp_err *err)
{
        struct flock range = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = INFP_WIRE_PAGE };

        for (unsigned i = 0; i < TRIES; i++) {
                if (fcntl(file, F_OFD_SETLK, &range) == 0)
                        return 0;
                if (errno != EAGAIN && errno != EACCES && errno != EINTR)
                        return infp_fail_errno(err, -errno, "cannot be locked");
                wait_a_moment();
        }
        return infp_fail(err, -EBUSY, "is locked by another infprof");
}

static int put(int file, int64_t at, const void *from, size_t size, struct infp_err *err)
{
        if (pwrite(file, from, size, at) == (ssize_t) size)
                return 0;
        return infp_fail_errno(err, -errno, "cannot be written");
}

static int ask(int file, int64_t page, uint32_t number, const uint64_t *wanted, struct infp_err *err)
{
        const int64_t at = page + (int64_t) offsetof(struct infp_wire_settings, setting[number]);
        uint32_t asked, all;

        if (pread(file, &asked, sizeof(asked), at) != (ssize_t) sizeof(asked) ||
            pread(file, &all, sizeof(all), page) != (ssize_t) sizeof(all))
                return infp_fail(err, -EBADMSG, "has become shorter");
        asked |= 1; /* it may be odd already: an infprof was killed there */
        INFP_TRY(put(file, at, &asked, sizeof(asked), err));
        INFP_TRY(put(file, at + (int64_t) offsetof(struct infp_wire_setting, wanted), wanted,
                     sizeof(((struct infp_wire_setting *) NULL)->wanted), err));
        asked++;
        INFP_TRY(put(file, at, &asked, sizeof(asked), err));
        all++;
        return put(file, page, &all, sizeof(all), err);
}

int infp_ring_ask(int file, const struct infp_ring_owner *owner, uint32_t number, const char *value,
                  struct infp_err *err)
{
        uint64_t wanted[8] = { 0 };
        const size_t size = strlen(value);
        int64_t at;
        int r;

        if (number >= INFP_WIRE_SETTINGS || size >= sizeof(wanted))
                return infp_fail(err, -EINVAL, "takes values of at most %zu bytes", sizeof(wanted) - 1);
        for (size_t i = 0; i < size; i++)
                if (value[i] < ' ' || value[i] > '~')
                        return infp_fail(err, -EINVAL, "takes values of printable ASCII");
        memcpy(wanted, value, size);
        at = locate(file, owner, err);
        if (at <= 0)
                return at < 0 ? (int) at : infp_fail(err, -ENOENT, "has no settings");
        INFP_TRY(lock(file, at, err));
        r = ask(file, at, number, wanted, err);
        fcntl(file, F_OFD_SETLK,
              &(struct flock){ .l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = at, .l_len = INFP_WIRE_PAGE });
        return r;
}
