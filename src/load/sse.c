#include "load/sse.h"

#include <errno.h>
#include <string.h>

void infp_sse_done(struct infp_sse *sse)
{
        infp_str_done(&sse->line);
        infp_str_done(&sse->data);
        infp_str_done(&sse->type);
        infp_str_done(&sse->bare);
        *sse = (struct infp_sse){ 0 };
}

static int dispatch(struct infp_sse *sse, infp_sse_event *event, void *context)
{
        int r = 0;

        if (sse->has_data)
                r = event(context, sse->type.data ? sse->type.data : "", sse->data.data ? sse->data.data : "",
                          sse->data.size);
        sse->has_data = false;
        infp_str_clear(&sse->data);
        infp_str_clear(&sse->type);
        return r;
}

/* The value of a line "name: value"; false: it is another line. */
static bool is_field(const char *line, size_t size, const char *name, const char **ret, size_t *ret_size)
{
        const size_t n = strlen(name);
        size_t at;

        if (size < n || memcmp(line, name, n) || (size > n && line[n] != ':'))
                return false;
        at = size > n ? n + 1 : n;
        at += at < size && line[at] == ' ';
        *ret = line + at;
        *ret_size = size - at;
        return true;
}

static int take_data(struct infp_sse *sse, const char *value, size_t size)
{
        if (sse->data.size + size + 1 > INFP_SSE_MAX)
                return -EMSGSIZE;
        if (sse->has_data)
                infp_str_putc(&sse->data, '\n');
        sse->has_data = true;
        infp_str_put(&sse->data, value, size);
        return sse->data.failed ? -ENOMEM : 0;
}

static void take_bare(struct infp_sse *sse, const char *line, size_t size)
{
        if ((!sse->bare.size && line[0] != '{') || sse->bare.size + size + 1 > INFP_SSE_BARE_MAX)
                return;
        infp_str_put(&sse->bare, line, size);
        infp_str_putc(&sse->bare, '\n');
}

static int take_line(struct infp_sse *sse, const char *line, size_t size, infp_sse_event *event, void *context)
{
        static const char mark[] = "\xef\xbb\xbf";
        const char *value;
        size_t n;

        if (!sse->has_begun && size >= 3 && !memcmp(line, mark, 3)) {
                line += 3;
                size -= 3;
        }
        sse->has_begun = true;
        if (size == 0)
                return dispatch(sse, event, context);
        if (is_field(line, size, "data", &value, &n))
                return take_data(sse, value, n);
        if (is_field(line, size, "event", &value, &n)) {
                infp_str_clear(&sse->type);
                infp_str_put(&sse->type, value, n);
                return sse->type.failed ? -ENOMEM : 0;
        }
        take_bare(sse, line, size);
        return 0;
}

/* A line that came whole is not copied. */
static int take_part(struct infp_sse *sse, const char *bytes, size_t size, bool is_end, infp_sse_event *event,
                     void *context)
{
        int r;

        if (is_end && sse->line.size == 0)
                return take_line(sse, bytes, size, event, context);
        if (sse->line.size + size > INFP_SSE_MAX)
                return -EMSGSIZE;
        infp_str_put(&sse->line, bytes, size);
        if (sse->line.failed)
                return -ENOMEM;
        if (!is_end)
                return 0;
        r = take_line(sse, sse->line.data, sse->line.size, event, context);
        infp_str_clear(&sse->line);
        return r;
}

int infp_sse_feed(struct infp_sse *sse, const char *bytes, size_t size, infp_sse_event *event, void *context)
{
        while (size) {
                const char *lf, *cr;
                size_t n, used;
                int r;

                if (sse->is_after_cr && *bytes == '\n') {
                        sse->is_after_cr = false;
                        bytes++;
                        size--;
                        continue;
                }
                sse->is_after_cr = false;
                lf = memchr(bytes, '\n', size);
                n = lf ? (size_t) (lf - bytes) : size;
                cr = memchr(bytes, '\r', n);
                n = cr ? (size_t) (cr - bytes) : n;
                used = n + (cr || lf);
                sse->is_after_cr = cr != NULL;
                r = take_part(sse, bytes, n, cr || lf, event, context);
                if (r)
                        return r;
                bytes += used;
                size -= used;
        }
        return 0;
}

int infp_sse_end(struct infp_sse *sse, infp_sse_event *event, void *context)
{
        int r = 0;

        if (sse->line.size)
                r = take_part(sse, "", 0, true, event, context);
        return r ? r : dispatch(sse, event, context);
}
