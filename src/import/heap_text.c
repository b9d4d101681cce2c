/* Heap profiles as text: jemalloc's (heap_v2) and tcmalloc's of gperftools (HEAPPROFILE, MallocExtension). Stacks are addresses; where
 * they lie is told after them, in the lines of /proc/PID/maps. Counts are "blocks: bytes [blocks: bytes]": of what is in use, and of all
 * that was allocated (of jemalloc with prof_accum alone). Of sampled ones the count is of samples. */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/str.h"
#include "import/format.h"
#include "import/name.h"

enum { MAX_ADDRESSES = 1 << 26, MAX_MAPPINGS = 1 << 20 };
/* A program that is not relocated lies below it, in the memory of all systems; what is relocated lies above it. */
static const uint64_t lowest_relocated = 0x10000000;

struct counts {
        uint64_t blocks, bytes;
};

struct stack {
        size_t first; /* of `addresses`, innermost first */
        uint32_t n;
        bool has_counts;
        struct counts live, allocated;
};

struct mapping {
        uint64_t start, end, offset;
        uint64_t base; /* where the first mapping of the file begins */
        size_t path, path_size;
        bool is_code, is_deleted;
        bool is_here; /* the file of that path is the same, as far as one can see: code in it can get names */
};

struct heap_text {
        struct infp_import_input *input;
        struct infp_import_writer *writer;
        bool has_begun, is_jemalloc, has_allocated;
        bool is_in_maps;
        uint64_t mean; /* bytes from one sample to the next, on average; 0, 1: each block was counted */
        struct stack *stacks;
        uint64_t *addresses;
        struct mapping *mappings;
        size_t n_stacks, cap_stacks, n_addresses, cap_addresses, n_mappings, cap_mappings;
        struct infp_str paths, name;
        struct infp_map frames; /* hash of an address: its frame */
        struct infp_import_place place;
};

static int wrong(const struct heap_text *h, const char *why, struct infp_err *err)
{
        return infp_fail(err, -EBADMSG, "%s, line %llu: %s", infp_import_path(h->input),
                         (unsigned long long) infp_import_line_number(h->input), why);
}

static int no_room(const struct heap_text *h, size_t n, size_t max, struct infp_err *err)
{
        return n < max ? infp_fail(err, -ENOMEM, "not enough memory to read %s", infp_import_path(h->input))
                       : wrong(h, "more addresses or mappings than a profile has", err);
}

/* A decimal number, and the character that ends it. */
static bool take_number(struct infp_import_text *text, char end, uint64_t *ret)
{
        const struct infp_import_text all = infp_import_trim(*text);
        const char *at = all.size ? memchr(all.data, end, all.size) : NULL;
        struct infp_import_text number;

        if (!at)
                return false;
        number = infp_import_trim(infp_import_upto(all, at));
        *text = infp_import_from(all, at + 1);
        return infp_parse_u64(number.data, number.size, ret) == 0 && *ret <= INT64_MAX;
}

static bool take_counts(struct infp_import_text *text, struct counts *live, struct counts *allocated)
{
        return take_number(text, ':', &live->blocks) && take_number(text, '[', &live->bytes) &&
               take_number(text, ':', &allocated->blocks) && take_number(text, ']', &allocated->bytes);
}

static bool take_mean(struct infp_import_text text, uint64_t *ret)
{
        return infp_parse_u64(text.data, text.size, ret) == 0 && *ret > 0 && *ret <= INT64_MAX;
}

/* "heap_v2/524288", or "heap profile: 1: 2 [3: 4] @ heapprofile", where what comes last may be heap_v2/524288, too. */
static int take_head(struct heap_text *h, struct infp_import_text line, struct infp_err *err)
{
        struct counts live, allocated;
        const char *slash = infp_import_last(line, '/');

        h->has_begun = true;
        h->is_jemalloc = h->has_allocated = infp_import_begins(line, "heap_v2/");
        if (!h->is_jemalloc) {
                if (!infp_import_begins(line, "heap profile:"))
                        return wrong(h,
                                     "the line that such profiles begin with (heap_v2/BYTES, heap profile:) is missing",
                                     err);
                line = infp_import_from(line, line.data + strlen("heap profile:"));
                if (!take_counts(&line, &live, &allocated))
                        return wrong(h, "the sums of the profile are not numbers", err);
                /* A profile without what was allocated repeats here what is in use; Google's pprof goes by that, too. */
                h->has_allocated =
                        allocated.blocks && (allocated.blocks != live.blocks || allocated.bytes != live.bytes);
                line = infp_import_trim(line);
                if (infp_import_is(line, "@ heapprofile"))
                        return 0;
                if (!infp_import_begins(line, "@ heap_v2/") && !infp_import_begins(line, "@ heapz_v2/"))
                        return wrong(h, "this kind of profile is not known; heapprofile and heap_v2/BYTES are", err);
        }
        return take_mean(infp_import_from(line, slash + 1), &h->mean)
                       ? 0
                       : wrong(h, "the bytes from one sample to the next (after the slash) are not a number", err);
}

/* " 0x5f86da8 0x5f5a1dc": return addresses; the call lies before them. */
static int add_stack(struct heap_text *h, struct infp_import_text text, const struct stack *is, struct infp_err *err)
{
        struct stack *stack;

        if (!INFP_MAKE_ROOM(h->stacks, h->n_stacks, h->cap_stacks, 1024))
                return no_room(h, 0, 1, err);
        stack = &h->stacks[h->n_stacks++];
        *stack = *is;
        stack->first = h->n_addresses;
        for (;;) {
                struct infp_import_text word = infp_import_word(&text);
                uint64_t address;

                if (!word.size)
                        return 0;
                if (infp_import_begins(word, "0x"))
                        word = infp_import_from(word, word.data + 2);
                if (!infp_import_hex(&word, &address) || word.size || !address)
                        return wrong(h, "an address of a stack is not a hexadecimal number", err);
                if (h->n_addresses >= MAX_ADDRESSES ||
                    !INFP_MAKE_ROOM(h->addresses, h->n_addresses, h->cap_addresses, 4096))
                        return no_room(h, h->n_addresses, MAX_ADDRESSES, err);
                h->addresses[h->n_addresses++] = address - 1;
                stack->n++;
        }
}

/* "  t*: 13: 6688 [0: 0]" of all threads; "  t3: ..." of one. Before the first stack they are those of the whole. */
static int take_jemalloc(struct heap_text *h, struct infp_import_text line, struct infp_err *err)
{
        struct stack *stack = h->n_stacks ? &h->stacks[h->n_stacks - 1] : NULL;
        const char *colon = memchr(line.data, ':', line.size);
        const bool is_all = infp_import_begins(line, "t*:");
        struct counts live, allocated;

        if (*line.data == '@') {
                if (stack && !stack->has_counts)
                        return wrong(h, "the stack before it has no counts (t*:)", err);
                return add_stack(h, infp_import_from(line, line.data + 1), &(struct stack){ 0 }, err);
        }
        if (*line.data != 't')
                return wrong(h, "this is neither a stack (@) nor its counts (t*:)", err);
        line = infp_import_from(line, colon ? colon + 1 : line.data + line.size);
        if (!take_counts(&line, &live, &allocated))
                return wrong(h, "counts of a stack are not whole, or not numbers", err);
        if (!stack || !is_all)
                return 0;
        stack->has_counts = true;
        stack->live = live;
        stack->allocated = allocated;
        return 0;
}

static int take_tcmalloc(struct heap_text *h, struct infp_import_text line, struct infp_err *err)
{
        struct stack stack = { .has_counts = true };

        if (!take_counts(&line, &stack.live, &stack.allocated))
                return wrong(h, "counts of a stack are not whole, or not numbers", err);
        line = infp_import_trim(line);
        if (!infp_import_begins(line, "@"))
                return wrong(h, "a stack is missing after its counts", err);
        return add_stack(h, infp_import_from(line, line.data + 1), &stack, err);
}

/* Whether the file is that which was mapped: by its inode, and since it is not newer than the profile. Names of another file of that path
 * would be wrong. */
static bool is_here(const struct heap_text *h, struct infp_import_text path, struct infp_import_text inode)
{
        infp_autofree char *name = strndup(path.data, path.size);
        uint64_t number;
        struct stat st;

        return name && infp_parse_u64(inode.data, inode.size, &number) == 0 && number && stat(name, &st) == 0 &&
               S_ISREG(st.st_mode) && st.st_ino == number && st.st_mtime <= infp_import_written(h->input);
}

/* START-END PERMISSIONS OFFSET DEVICE INODE PATH. Mappings of a file follow each other, with nameless ones between them. */
static int take_mapping(struct heap_text *h, struct infp_import_text line, struct infp_err *err)
{
        struct mapping m = { .path = h->paths.size }, *before = h->n_mappings ? &h->mappings[h->n_mappings - 1] : NULL;
        struct infp_import_text path, rights, inode;

        if (!infp_import_hex(&line, &m.start) || !infp_import_begins(line, "-"))
                goto not_one;
        line = infp_import_from(line, line.data + 1);
        if (!infp_import_hex(&line, &m.end) || m.end <= m.start)
                goto not_one;
        rights = infp_import_word(&line);
        m.is_code = rights.size > 2 && rights.data[2] == 'x';
        if (!infp_import_hex(&line, &m.offset))
                goto not_one;
        infp_import_word(&line); /* the device: file systems in layers have another one here than for stat() */
        inode = infp_import_word(&line);
        path = infp_import_trim(line);
        if (!path.size)
                return 0;
        m.is_deleted = infp_import_cut(&path, " (deleted)");
        m.path_size = path.size;
        m.base = m.start;
        m.is_here = !m.is_deleted && m.is_code && is_here(h, path, inode);
        if (before && before->path_size == path.size && !memcmp(h->paths.data + before->path, path.data, path.size))
                m.base = before->base;
        infp_str_put(&h->paths, path.data, path.size);
        if (h->n_mappings >= MAX_MAPPINGS || h->paths.failed ||
            !INFP_MAKE_ROOM(h->mappings, h->n_mappings, h->cap_mappings, 256))
                return no_room(h, h->n_mappings, MAX_MAPPINGS, err);
        h->mappings[h->n_mappings++] = m;
        return 0;

not_one:
        infp_import_skip(h->writer, "lines of MAPPED_LIBRARIES that are not a mapping", 1,
                         infp_import_line_number(h->input));
        return 0;
}

static int take_line(struct heap_text *h, struct infp_import_text line, struct infp_err *err)
{
        if (!h->has_begun)
                return take_head(h, line, err);
        if (infp_import_is(line, "MAPPED_LIBRARIES:")) {
                h->is_in_maps = true;
                return 0;
        }
        if (h->is_in_maps)
                return take_mapping(h, line, err);
        return h->is_jemalloc ? take_jemalloc(h, line, err) : take_tcmalloc(h, line, err);
}

static struct infp_import_text path_of(const struct heap_text *h, const struct mapping *m)
{
        return m ? (struct infp_import_text){ h->paths.data + m->path, m->path_size } : infp_import_text(NULL);
}

/* Files lie in ascending order. */
static const struct mapping *find_mapping(const struct heap_text *h, uint64_t address)
{
        size_t low = 0, high = h->n_mappings;

        while (low < high) {
                const size_t middle = low + (high - low) / 2;

                if (h->mappings[middle].end <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < h->n_mappings && h->mappings[low].start <= address ? &h->mappings[low] : NULL;
}

static int frame_of(struct heap_text *h, uint64_t address, uint64_t *ret, struct infp_err *err)
{
        const uint64_t key = infp_hash64(&address, sizeof(address), 0), *known = infp_map_get(&h->frames, key);
        const struct mapping *m = known ? NULL : find_mapping(h, address);
        struct infp_import_place *place = &h->place;

        if (known) {
                *ret = *known;
                return 0;
        }
        *place = (struct infp_import_place){ .object = path_of(h, m), .is_unnamed = true, .n_levels = 1 };
        place->kind = infp_import_kind_of_object(place->object);
        if (m && !m->is_here && place->kind == INFP_FRAME_NATIVE) {
                place->kind = INFP_FRAME_UNKNOWN;
                infp_import_skip(h->writer,
                                 "addresses in files that are not here as they were (they stay without names)", 1, 0);
        }
        place->address = m && m->base >= lowest_relocated ? address - m->base : address;
        place->has_address = infp_import_begins(place->object, "/");
        place->levels[0].name = infp_import_place_name(&h->name, place->object, &place->address);
        INFP_TRY(infp_import_frame(h->writer, place, ret, err));
        return h->name.failed || infp_map_put(&h->frames, key, *ret) < 0 ? no_room(h, 0, 1, err) : 0;
}

/* The allocator's own functions say nothing; linked statically they stay. */
static bool is_allocator(const struct heap_text *h, uint64_t address)
{
        const struct infp_import_text base = infp_import_base(path_of(h, find_mapping(h, address)));

        return infp_import_begins(base, "libjemalloc") || infp_import_begins(base, "libtcmalloc");
}

static int put_row(struct heap_text *h, struct infp_import_sample *row, enum infp_stack_mode mode,
                   const struct counts *counts, struct infp_err *err)
{
        const double n = (double) counts->blocks, bytes = (double) counts->bytes,
                     each = h->mean > 1 && n > 0 ? infp_heap_objects(bytes / n, (double) h->mean) : 1;

        row->mode = infp_stack_modes[mode].name;
        row->samples = (int64_t) counts->blocks;
        row->objects = n * each;
        row->weight = bytes * each;
        return counts->blocks ? infp_import_sample(h->writer, row, err) : 0;
}

static int put_stack(struct heap_text *h, const struct stack *stack, uint64_t *frames, struct infp_err *err)
{
        struct infp_import_sample row = { .cpu = -1, .t_ns = infp_import_begin_t_ns(h->writer) };
        const uint64_t *addresses = stack->n ? h->addresses + stack->first : NULL;
        uint32_t n = stack->n, own = 0;
        bool is_cut;

        while (own < n && is_allocator(h, addresses[own]))
                own++;
        own = own < n ? own : 0;
        infp_import_skip(h->writer, "innermost frames in the allocator itself", own, 0);
        if (own)
                addresses += own;
        n -= own;
        n = n > INFP_IMPORT_MAX_DEPTH + 1 ? INFP_IMPORT_MAX_DEPTH + 1 : n; /* one more marks the stack as cut */
        for (uint32_t i = 0; i < n; i++)
                INFP_TRY(frame_of(h, addresses[i], &frames[i], err));
        INFP_TRY(infp_import_stack(h->writer, frames, n, true, &row.stack, &is_cut, err));
        row.is_truncated = is_cut || !n;
        INFP_TRY(put_row(h, &row, INFP_STACK_HEAP, &stack->live, err));
        return h->has_allocated ? put_row(h, &row, INFP_STACK_HEAP_ALLOCATED, &stack->allocated, err) : 0;
}

static int put_mappings(struct heap_text *h, struct infp_err *err)
{
        for (size_t i = 0; i < h->n_mappings; i++) {
                const struct mapping *m = &h->mappings[i];

                if (m->is_code)
                        INFP_TRY(infp_import_mapping(h->writer,
                                                     &(struct infp_import_mapping){ .path = path_of(h, m),
                                                                                    .has_range = true,
                                                                                    .is_deleted = m->is_deleted,
                                                                                    .start = m->start,
                                                                                    .end = m->end,
                                                                                    .offset = m->offset },
                                                     err));
        }
        return 0;
}

static int put_all(struct heap_text *h, struct infp_err *err)
{
        infp_autofree uint64_t *frames = calloc(INFP_IMPORT_MAX_DEPTH + 1, sizeof(*frames));

        if (!frames)
                return no_room(h, 0, 1, err);
        if (h->n_stacks && !h->stacks[h->n_stacks - 1].has_counts)
                return wrong(h, "it ends before the counts of its last stack (t*:)", err);
        if (!h->is_in_maps)
                infp_import_skip(h->writer,
                                 "lists of MAPPED_LIBRARIES that are missing (the file is cut, or its program had "
                                 "no /proc)",
                                 1, infp_import_line_number(h->input));
        INFP_TRY(infp_import_begin_now(h->writer, err));
        INFP_TRY(put_mappings(h, err));
        for (size_t i = 0; i < h->n_stacks; i++) {
                INFP_TRY(infp_import_stopped(h->input, i, err));
                INFP_TRY(put_stack(h, &h->stacks[i], frames, err));
        }
        return infp_import_heap_method(h->writer, h->is_jemalloc ? "jemalloc" : "tcmalloc", h->mean, INFP_IMPORT_EXACT,
                                       err);
}

static int read_lines(struct heap_text *h, struct infp_err *err)
{
        struct infp_import_text line;
        int r;

        while ((r = infp_import_line(h->input, &line.data, &line.size, err)) > 0) {
                line = infp_import_trim(line);
                if (line.size)
                        INFP_TRY(take_line(h, line, err));
        }
        return r < 0 ? r : put_all(h, err);
}

static int read_heap_text(struct infp_import_input *input, struct infp_import_writer *writer, struct infp_err *err)
{
        struct heap_text *h = calloc(1, sizeof(*h));
        int r;

        if (!h)
                return infp_fail(err, -ENOMEM, "not enough memory to import");
        h->input = input;
        h->writer = writer;
        r = read_lines(h, err);
        infp_map_done(&h->frames);
        infp_str_done(&h->paths);
        infp_str_done(&h->name);
        free(h->stacks);
        free(h->addresses);
        free(h->mappings);
        free(h);
        return r;
}

static enum infp_import_sure look(const char *head, size_t size)
{
        const struct infp_import_text text = { head, size };

        return infp_import_begins(text, "heap_v2/") || infp_import_begins(text, "heap profile:") ? INFP_IMPORT_SURE
                                                                                                 : INFP_IMPORT_NO;
}

const struct infp_import_format infp_import_heap_text = {
        .name = "heap-text",
        .help = "heap profiles of jemalloc (heap_v2) and of tcmalloc (gperftools' HEAPPROFILE) as text",
        .look = look,
        .read = read_heap_text,
};
