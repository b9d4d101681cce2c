/* Is it a ring file, and one that can be read: its head and its schema. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "ring/reader_parts.h"

enum {
        HEAD_LEAST = offsetof(struct infp_wire_head, run), /* what follows is read where it is there */
        METRICS_MOST = 4 * INFP_WIRE_METRICS,
        CHUNKS_MOST = INFP_WIRE_MAX_BYTES / INFP_WIRE_CHUNK,
        KIND_NAME = sizeof(((struct infp_wire_kind *) 0)->name),
};

static int bad(struct infp_err *err, const char *what)
{
        return infp_fail(err, -EBADMSG, "is not a ring file of libinfprof: %s; remove it", what);
}

/* A part of the file: aligned, after the head, before the chunks. */
static bool is_part(const struct ring_layout *layout, uint64_t at, uint64_t size, uint64_t alignment)
{
        return at % alignment == 0 && at >= layout->head_bytes && size <= layout->chunks_at &&
               at <= layout->chunks_at - size;
}

int ring_check(const struct infp_wire_head *head, uint64_t file_size, struct ring_layout *ret, struct infp_err *err)
{
        struct ring_layout l = {
                .head_bytes = head->head_bytes,
                .kinds_at = head->kinds_at,
                .n_kinds = head->n_kinds,
                .metrics_at = head->metrics_at,
                .max_metrics = head->max_metrics,
                .arena_at = head->arena_at,
                .arena_bytes = head->arena_bytes,
                .chunks_at = head->chunks_at,
                .max_chunks = head->max_chunks,
        };

        if (memcmp(head->magic, INFP_WIRE_MAGIC, sizeof(head->magic)) != 0)
                return bad(err, "its header is wrong");
        if (head->version != INFP_WIRE_VERSION)
                return infp_fail(err, -EBADMSG,
                                 "is of version %" PRIu32 " (libinfprof %.31s), this infprof reads version %d: use an "
                                 "infprof as new as the library",
                                 head->version, head->library, INFP_WIRE_VERSION);
        if (l.head_bytes < HEAD_LEAST || l.head_bytes > INFP_WIRE_PAGE)
                return bad(err, "its header has an impossible size");
        if (l.chunks_at % INFP_WIRE_PAGE || l.chunks_at > INFP_WIRE_MAX_BYTES || l.chunks_at > file_size)
                return bad(err, "its chunks lie outside");
        if (l.max_chunks == 0 || l.max_chunks > CHUNKS_MOST)
                return bad(err, "it has an impossible number of chunks");
        if (l.n_kinds > INFP_WIRE_KINDS ||
            !is_part(&l, l.kinds_at, l.n_kinds * (uint64_t) sizeof(struct infp_wire_kind), 8))
                return bad(err, "its schema lies outside");
        if (l.max_metrics > METRICS_MOST ||
            !is_part(&l, l.metrics_at, l.max_metrics * (uint64_t) sizeof(struct infp_wire_metric), 8))
                return bad(err, "its counters lie outside");
        if (!is_part(&l, l.arena_at, l.arena_bytes, 1))
                return bad(err, "its texts lie outside");
        l.size = l.chunks_at + (size_t) l.max_chunks * INFP_WIRE_CHUNK;
        *ret = l;
        return 0;
}

struct field {
        const char *name;
        uint8_t offset, type;
};
#define FIELD(record, member, type_)                            \
        {                                                       \
#member, offsetof(struct record, member), type_ \
        }

/* What this version reads of each kind. A file that says another place for a field of this name is none of version 1. */
static const struct {
        uint16_t size;
        struct field fields[INFP_WIRE_FIELDS];
} ours[INFP_RING_KNOWN_KINDS] = {
        [INFP_WIRE_MARK] = { sizeof(struct infp_wire_mark), { FIELD(infp_wire_mark, text, INFP_WIRE_TEXT_FIELD) } },
        [INFP_WIRE_SPAN_BEGIN] = { sizeof(struct infp_wire_span_begin),
                                   { FIELD(infp_wire_span_begin, id, INFP_WIRE_U64),
                                     FIELD(infp_wire_span_begin, parent, INFP_WIRE_U64),
                                     FIELD(infp_wire_span_begin, name, INFP_WIRE_TEXT_FIELD) } },
        [INFP_WIRE_SPAN_ATTR] = { sizeof(struct infp_wire_span_attr),
                                  { FIELD(infp_wire_span_attr, id, INFP_WIRE_U64),
                                    FIELD(infp_wire_span_attr, key, INFP_WIRE_TEXT_FIELD),
                                    FIELD(infp_wire_span_attr, text, INFP_WIRE_TEXT_FIELD),
                                    FIELD(infp_wire_span_attr, value, INFP_WIRE_U64),
                                    FIELD(infp_wire_span_attr, type, INFP_WIRE_U32) } },
        [INFP_WIRE_SPAN_END] = { sizeof(struct infp_wire_span_end),
                                 { FIELD(infp_wire_span_end, id, INFP_WIRE_U64),
                                   FIELD(infp_wire_span_end, parent, INFP_WIRE_U64),
                                   FIELD(infp_wire_span_end, begin_ns, INFP_WIRE_U64),
                                   FIELD(infp_wire_span_end, name, INFP_WIRE_TEXT_FIELD),
                                   FIELD(infp_wire_span_end, begin_tid, INFP_WIRE_U32),
                                   FIELD(infp_wire_span_end, status, INFP_WIRE_U32) } },
        [INFP_WIRE_VALUE] = { sizeof(struct infp_wire_value),
                              { FIELD(infp_wire_value, value, INFP_WIRE_F64),
                                FIELD(infp_wire_value, metric, INFP_WIRE_U32) } },
        [INFP_WIRE_THREAD] = { sizeof(struct infp_wire_mark), { FIELD(infp_wire_mark, text, INFP_WIRE_TEXT_FIELD) } },
        [INFP_WIRE_STACK] = { sizeof(struct infp_wire_stack),
                              { FIELD(infp_wire_stack, epoch, INFP_WIRE_U32),
                                FIELD(infp_wire_stack, native, INFP_WIRE_BYTES_FIELD),
                                FIELD(infp_wire_stack, python, INFP_WIRE_BYTES_FIELD) } },
        [INFP_WIRE_CODE] = { sizeof(struct infp_wire_code),
                             { FIELD(infp_wire_code, line, INFP_WIRE_U32),
                               FIELD(infp_wire_code, file, INFP_WIRE_TEXT_FIELD),
                               FIELD(infp_wire_code, function, INFP_WIRE_TEXT_FIELD) } },
};

/* Where the file names a field of ours it lies where ours does. */
static bool agrees(const struct infp_wire_kind *kind, const struct field *fields)
{
        for (unsigned i = 0; i < kind->n_fields; i++)
                for (const struct field *f = fields; f < fields + INFP_WIRE_FIELDS && f->name; f++)
                        if (strncmp(kind->fields[i].name, f->name, sizeof(kind->fields[i].name)) == 0 &&
                            kind->fields[i].offset != f->offset)
                                return false;
        return true;
}

int ring_check_kinds(const struct infp_wire_kind *kinds, struct ring_layout *layout, struct infp_err *err)
{
        for (unsigned i = 0; i < layout->n_kinds; i++) {
                const struct infp_wire_kind *k = &kinds[i];
                const bool is_known = k->kind < INFP_RING_KNOWN_KINDS && ours[k->kind].size;

                if (k->kind == 0 || k->kind >= INFP_COUNT(layout->fixed) || layout->fixed[k->kind] || k->size % 8 ||
                    k->size < sizeof(struct infp_wire_record) || k->size > INFP_WIRE_MAX_RECORD ||
                    k->n_fields > INFP_WIRE_FIELDS)
                        return bad(err, "its schema makes no sense");
                if (is_known && (k->size < ours[k->kind].size || !agrees(k, ours[k->kind].fields)))
                        return infp_fail(err, -EBADMSG,
                                         "has records '%.*s' in another format than this infprof reads: use an infprof "
                                         "as new as the library",
                                         KIND_NAME, k->name);
                layout->fixed[k->kind] = k->size;
        }
        return 0;
}

static void put_boot_id(const uint8_t id[16], char *ret, size_t cap)
{
        snprintf(ret, cap, "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", id[0], id[1], id[2],
                 id[3], id[4], id[5], id[6], id[7], id[8], id[9], id[10], id[11], id[12], id[13], id[14], id[15]);
}

int infp_ring_head_read(int file, struct infp_ring_head *ret, struct infp_err *err)
{
        union {
                struct infp_wire_head head;
                unsigned char bytes[INFP_WIRE_PAGE];
        } page = { .bytes = { 0 } };
        const struct infp_wire_head *head = &page.head;
        const ssize_t n = pread(file, &page, sizeof(page), 0);

        if (n < 0)
                return infp_fail_errno(err, -errno, "cannot be read");
        if (n == 0 || (n == sizeof(page) && !atomic_load_explicit(&head->ready, memory_order_relaxed) &&
                       (!head->magic[0] || !memcmp(head->magic, INFP_WIRE_MAGIC, sizeof(head->magic)))))
                return infp_fail(err, -EAGAIN, "is being made");
        if (n != sizeof(page) || memcmp(head->magic, INFP_WIRE_MAGIC, sizeof(head->magic)) != 0)
                return bad(err, "its header is wrong");
        *ret = (struct infp_ring_head){
                .start_ticks = head->start_ticks,
                .pid_ns = head->pid_ns,
                .created_ns = head->created_ns,
                .pid = head->pid,
        };
        put_boot_id(head->boot_id, ret->boot_id, sizeof(ret->boot_id));
        if (head->head_bytes >= HEAD_LEAST + sizeof(head->run))
                snprintf(ret->run, sizeof(ret->run), "%.*s", (int) sizeof(head->run) - 1, head->run);
        if (head->head_bytes >= offsetof(struct infp_wire_head, unused) + sizeof(head->unused)) {
                snprintf(ret->name, sizeof(ret->name), "%.*s", (int) sizeof(head->name) - 1, head->name);
                ret->parent = head->parent;
        }
        return 0;
}
