#include "finish/name_frames.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "finish/symbolize_parts.h"

enum { NICE = 10, CPU_SECONDS = 10 };

struct infp_name_frames {
        struct infp_symbolize_options options;
        struct infp_naming naming;
        struct infp_naming_child child;
        int64_t ran_unix_ns;
        bool is_running;
        void (*take)(void *context, uint64_t id, const struct infp_symbol *levels, unsigned n);
        void *context;
};

static int take_one(void *context, uint32_t frame, const struct infp_symbol *levels, unsigned n, struct infp_err *err)
{
        struct infp_name_frames *names = context;
        struct infp_asked_frame *asked = &names->naming.frames[frame];

        (void) err;
        if (asked->is_done)
                return 0;
        asked->is_done = n > 0;
        names->take(names->context, asked->id, levels, n);
        return 0;
}

static void begin_list(struct infp_name_frames *names)
{
        names->naming = (struct infp_naming){ .options = &names->options,
                                              .take = take_one,
                                              .take_context = names,
                                              .cpu_seconds = CPU_SECONDS,
                                              .ran_unix_ns = names->ran_unix_ns,
                                              .nice = NICE };
}

int infp_name_frames_new(int64_t ran_unix_ns, struct infp_name_frames **ret, struct infp_err *err)
{
        struct infp_name_frames *names = calloc(1, sizeof(*names));

        if (!names)
                return infp_fail(err, -ENOMEM, "out of memory");
        names->options.root_fd = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (names->options.root_fd < 0) {
                const int r = -errno;

                free(names);
                return infp_fail_errno(err, r, "cannot open / for files with symbols");
        }
        names->ran_unix_ns = ran_unix_ns;
        names->child.fd = -1;
        begin_list(names);
        *ret = names;
        return 0;
}

static void end(struct infp_name_frames *names)
{
        infp_naming_stop(&names->child);
        infp_naming_done(&names->naming);
        begin_list(names);
        names->is_running = false;
}

struct infp_name_frames *infp_name_frames_free(struct infp_name_frames *names)
{
        if (!names)
                return NULL;
        end(names);
        infp_close(names->options.root_fd);
        free(names);
        return NULL;
}

int infp_name_frames_add(struct infp_name_frames *names, uint64_t id, enum infp_frame_kind kind, const char *object,
                         const char *build_id, uint64_t address)
{
        const struct infp_asked_frame frame = { .id = id, .address = address, .kind = (uint8_t) kind };

        if (infp_map_get(&names->naming.by_id, id))
                return 0;
        return infp_naming_add(&names->naming, &frame, object, strlen(object), build_id, strlen(build_id));
}

int infp_name_frames_begin(struct infp_name_frames *names, struct infp_err *err)
{
        int r;

        if (!names->naming.n_frames)
                return 0;
        r = infp_naming_sort(&names->naming, err);
        if (r >= 0)
                r = infp_naming_begin(&names->child, &names->naming, err);
        names->is_running = r >= 0;
        if (r < 0)
                end(names);
        return r;
}

int infp_name_frames_fd(const struct infp_name_frames *names)
{
        return names->is_running ? names->child.fd : -1;
}

int infp_name_frames_read(struct infp_name_frames *names,
                          void (*take)(void *context, uint64_t id, const struct infp_symbol *levels, unsigned n),
                          void *context, struct infp_err *err)
{
        int r;

        if (!names->is_running)
                return 0;
        names->take = take;
        names->context = context;
        r = infp_naming_step(&names->child, err);
        if (r > 0)
                return 0;
        r = infp_naming_go_on(&names->child, r, err);
        if (r <= 0)
                end(names);
        return r < 0 ? r : 0;
}

uint64_t infp_name_frames_cpu_ns(const struct infp_name_frames *names)
{
        return names->child.cpu_ns;
}
