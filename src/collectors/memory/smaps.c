#include "collectors/memory/smaps.h"

#include <stddef.h>
#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "base/procfile.h"
#include "base/sort.h"

/* Guard pages below the stack of a thread: one as a rule, the JVM has up to five. Larger holes belong to allocators. */
static const uint64_t most_guard = 64 * 1024, least_stack = 16 * 1024;
/* Before Linux 6.7 the kernel makes one mapping of a stack and what is mapped right above it: a larger one is hardly a stack any more. */
static const uint64_t most_stack = UINT64_C(64) << 20;
/* Arenas of glibc begin at multiples of this, and one may follow the unused end of another. */
static const uint64_t arena_step = UINT64_C(64) << 20;

void infp_smaps_begin(struct infp_smaps *smaps)
{
        memset(smaps, 0, offsetof(struct infp_smaps, line));
        smaps->now.into = &smaps->nothing;
}

static bool take_hex(struct infp_span *s, char end, uint64_t *ret)
{
        uint64_t v = 0;
        size_t n = 0;

        for (; n < s->size && s->at[n] != end; n++) {
                const char c = s->at[n];
                const unsigned digit = c >= '0' && c <= '9'   ? (unsigned) (c - '0')
                                       : c >= 'a' && c <= 'f' ? (unsigned) (c - 'a') + 10
                                                              : 16;

                if (digit == 16 || v >> 60)
                        return false;
                v = v << 4 | digit;
        }
        if (!n || n == s->size)
                return false;
        *s = (struct infp_span){ s->at + n + 1, s->size - n - 1 };
        *ret = v;
        return true;
}

/* The sum of a name; NULL: there is no room for more names. */
static uint64_t *named(struct infp_smaps *s, enum infp_memory_kind kind, struct infp_span name)
{
        const uint64_t hash = infp_hash64(name.at, name.size, 0);
        uint16_t *slot = NULL;
        struct smaps_named *to;

        for (uint64_t i = hash;; i++) {
                slot = &s->slots[i % INFP_COUNT(s->slots)];
                to = &s->named[*slot];
                if (!*slot ||
                    (to->hash == hash && to->size == name.size && !memcmp(s->names + to->at, name.at, name.size)))
                        break;
        }
        if (!*slot) {
                /* bound: the bytes of the others are summed up by kind (named_or_other) */
                if (s->n_named + 1 == INFP_SMAPS_NAMES || name.size > sizeof(s->names) - s->names_size)
                        return NULL;
                *slot = (uint16_t) ++s->n_named;
                to = &s->named[*slot];
                *to = (struct smaps_named){
                        .hash = hash, .at = s->names_size, .size = (uint32_t) name.size, .kind = kind
                };
                memcpy(s->names + to->at, name.at, name.size);
                s->names_size += to->size;
        }
        s->now.named = *slot;
        /* A file of which a part can be executed is a program or a library; parts before that one are met first. */
        if (to->kind == INFP_MEMORY_FILE && s->now.is_executable)
                to->kind = INFP_MEMORY_CODE;
        return &to->bytes;
}

static uint64_t *named_or_other(struct infp_smaps *s, enum infp_memory_kind kind, struct infp_span name)
{
        uint64_t *into = named(s, kind, name);

        return into ? into : &s->others[kind == INFP_MEMORY_FILE && s->now.is_executable ? INFP_MEMORY_CODE : kind];
}

static uint64_t *sum_of_unnamed(struct infp_smaps *s)
{
        const struct smaps_mapping *now = &s->now, *before = &s->before;
        const bool follows = before->end == now->begin, is_data = now->is_writable && !now->is_executable;
        const uint64_t size = now->end - now->begin;

        /* .bss of the program: nothing else is put there. Those of libraries cannot be told from what the program maps. */
        if (follows && is_data && before->named && before->named == s->program && before->is_writable)
                return &s->sums[INFP_MEMORY_DATA];
        if (!follows || !is_data || !before->is_guard || size < least_stack || now->begin % arena_step == 0)
                return &s->sums[INFP_MEMORY_ANONYMOUS];
        if (s->stack_bytes && size > s->stack_bytes && s->n_joined < INFP_COUNT(s->joined)) {
                struct smaps_joined *joined = &s->joined[s->n_joined++];

                *joined = (struct smaps_joined){ .begin = now->begin, .is_long = size > most_stack };
                return &joined->rss;
        }
        return size <= most_stack ? &s->guessed_stacks : &s->sums[INFP_MEMORY_ANONYMOUS];
}

static void add_joined(struct infp_smaps *s)
{
        for (uint32_t i = 0; i < s->n_joined; i++) {
                const struct smaps_joined *joined = &s->joined[i];
                const uint64_t all = joined->is_long ? 0 : joined->rss, stack = !joined->has_stack ? all
                                                                                : joined->stack < joined->rss
                                                                                        ? joined->stack
                                                                                        : joined->rss;

                s->guessed_stacks += stack;
                s->sums[INFP_MEMORY_ANONYMOUS] += joined->rss - stack;
        }
}

/* Names that the kernel gives, and those that programs give by prctl(PR_SET_VMA_ANON_NAME). */
static uint64_t *sum_of_bracket(struct infp_smaps *s, struct infp_span name)
{
        static const char *const of_kernel[] = { "[vdso]", "[vvar", "[vsyscall]", "[vectors]", "[sigpage]" };
        static const char *const of_threads[] = { "[stack:", "[anon: glibc: pthread ", "[anon:stack_and_tls:" };

        if (infp_span_is(name, "[heap]"))
                return &s->sums[INFP_MEMORY_HEAP];
        if (infp_span_is(name, "[stack]"))
                return &s->sums[INFP_MEMORY_STACK];
        for (size_t i = 0; i < INFP_COUNT(of_threads); i++)
                if (infp_span_starts(name, of_threads[i]))
                        return &s->thread_stacks;
        for (size_t i = 0; i < INFP_COUNT(of_kernel); i++)
                if (infp_span_starts(name, of_kernel[i]))
                        return &s->sums[INFP_MEMORY_VDSO];
        return named_or_other(s, infp_span_starts(name, "[anon_shmem:") ? INFP_MEMORY_SHARED : INFP_MEMORY_ANONYMOUS,
                              name);
}

static uint64_t *sum_of_path(struct infp_smaps *s, struct infp_span path)
{
        static const char *const shared[] = { "/dev/shm/", "/memfd:", "/SYSV", "/dev/zero" };

        if (!s->now.is_shared && infp_span_starts(path, "/dev/zero")) {
                s->now.is_backed = false;
                return &s->sums[INFP_MEMORY_ANONYMOUS];
        }
        for (size_t i = 0; i < INFP_COUNT(shared); i++)
                if (infp_span_starts(path, shared[i]))
                        return named_or_other(s, INFP_MEMORY_SHARED, path);
        /* "anon_inode:[io_uring]", "/dmabuf:" and the like are buffers that a driver has made. */
        if (infp_span_starts(path, "/dev/") || infp_span_starts(path, "/dmabuf:") || *path.at != '/')
                return named_or_other(s, INFP_MEMORY_DEVICE, path);
        return named_or_other(s, INFP_MEMORY_FILE, path);
}

static void close_mapping(struct infp_smaps *s)
{
        const struct smaps_mapping *m = &s->now;
        const uint64_t copied = m->anonymous < m->rss ? m->anonymous : m->rss, own = m->is_backed ? copied : 0;

        s->swap += m->swap;
        s->sums[INFP_MEMORY_DATA] += own;
        *m->into += m->rss - own;
}

/* "7f0c00000000-7f0c00021000 rw-p 00000000 08:02 1234     /path" */
static void open_mapping(struct infp_smaps *s, struct infp_span line)
{
        struct smaps_mapping m = { 0 };
        struct infp_span rest = line, permissions;

        if (!take_hex(&rest, '-', &m.begin) || !take_hex(&rest, ' ', &m.end) || m.begin >= m.end)
                return;
        permissions = infp_span_word(&rest);
        if (permissions.size < 4)
                return;
        for (unsigned i = 0; i < 3; i++) /* offset, device, inode */
                infp_span_word(&rest);
        while (rest.size && *rest.at == ' ')
                rest = (struct infp_span){ rest.at + 1, rest.size - 1 };
        m.is_writable = permissions.at[1] == 'w';
        m.is_executable = permissions.at[2] == 'x';
        m.is_shared = permissions.at[3] == 's';
        m.is_guard = !rest.size && !memcmp(permissions.at, "---p", 4) && m.end - m.begin <= most_guard;
        m.is_backed = rest.size && *rest.at != '[';
        close_mapping(s);
        s->n_mappings++;
        s->before = s->now;
        s->now = m;
        s->now.into = !rest.size ? sum_of_unnamed(s) : !m.is_backed ? sum_of_bracket(s, rest) : sum_of_path(s, rest);
        if (!s->program && m.is_backed)
                s->program = s->now.named;
}

/* false: it is another field, or no number. */
static bool take_field(const struct infp_span *line, const char *name, uint64_t *ret)
{
        struct infp_span rest = *line;
        uint64_t kb;

        if (!infp_span_starts(rest, name))
                return false;
        infp_span_word(&rest);
        if (infp_span_u64(infp_span_word(&rest), &kb) || kb >= UINT64_C(1) << 43)
                return false;
        *ret = kb << 10;
        return true;
}

static void take_line(struct infp_smaps *s, const char *at, size_t size)
{
        const struct infp_span line = { at, size };

        if (!size)
                return;
        if (*at == 'R')
                take_field(&line, "Rss:", &s->now.rss);
        else if (*at == 'A')
                take_field(&line, "Anonymous:", &s->now.anonymous);
        else if (*at == 'S')
                s->has_swap |= take_field(&line, "Swap:", &s->now.swap);
        else if (*at < 'A' || *at > 'Z')
                open_mapping(s, line);
}

void infp_smaps_add(struct infp_smaps *s, const char *text, size_t size)
{
        while (size) {
                const char *end = memchr(text, '\n', size);
                const size_t n = end ? (size_t) (end - text) : size, room = sizeof(s->line) - s->size;
                const size_t taken = n < room ? n : room;

                if (end && !s->size) {
                        take_line(s, text, n < sizeof(s->line) ? n : sizeof(s->line));
                } else {
                        memcpy(s->line + s->size, text, taken);
                        s->size += (uint32_t) taken;
                        if (end) {
                                take_line(s, s->line, s->size);
                                s->size = 0;
                        }
                }
                text += n + (end != NULL);
                size -= n + (end != NULL);
        }
}

static const char *const words_for_others[INFP_MEMORY_KINDS] = {
        [INFP_MEMORY_FILE] = "other files",           [INFP_MEMORY_CODE] = "other files",
        [INFP_MEMORY_SHARED] = "other shared memory", [INFP_MEMORY_DEVICE] = "other devices",
        [INFP_MEMORY_ANONYMOUS] = "other names",
};

struct rows {
        struct infp_smaps_row *list;
        unsigned n;
        uint64_t bytes;
};

static struct infp_smaps_row *add_row(struct rows *rows, enum infp_memory_kind kind, const char *name, uint64_t bytes)
{
        struct infp_smaps_row *row = &rows->list[rows->n];

        if (!bytes)
                return NULL;
        *row = (struct infp_smaps_row){
                .kind = kind, .quality = INFP_MEASURED, .name = name, .size = name ? strlen(name) : 0, .bytes = bytes
        };
        rows->n++;
        rows->bytes += bytes;
        return row;
}

static void add_named(struct infp_smaps *s, struct rows *rows)
{
        for (unsigned k = 0; k < INFP_SMAPS_SHOWN; k++) {
                struct smaps_named *most = &s->named[0];
                struct infp_smaps_row *row;

                for (uint32_t i = 1; i <= s->n_named; i++)
                        if (s->named[i].bytes > most->bytes)
                                most = &s->named[i];
                row = add_row(rows, most->kind, "", most->bytes);
                if (!row)
                        return;
                row->name = s->names + most->at;
                row->size = most->size;
                most->bytes = 0;
        }
        for (uint32_t i = 1; i <= s->n_named; i++)
                s->others[s->named[i].kind] += s->named[i].bytes;
}

static int by_kind(const void *a, const void *b)
{
        const struct infp_smaps_row *x = a, *y = b;

        if (x->kind != y->kind)
                return x->kind < y->kind ? -1 : 1;
        if (x->is_others != y->is_others)
                return x->is_others ? 1 : -1;
        return x->bytes > y->bytes ? -1 : x->bytes < y->bytes;
}

unsigned infp_smaps_end(struct infp_smaps *s, struct infp_smaps_row ret[INFP_SMAPS_MOST_ROWS], uint64_t *ret_bytes)
{
        struct rows rows = { .list = ret };
        struct infp_smaps_row *row;

        if (s->size)
                take_line(s, s->line, s->size);
        s->size = 0;
        close_mapping(s);
        s->now = (struct smaps_mapping){ .into = &s->nothing };
        add_joined(s);
        add_named(s, &rows);
        for (unsigned kind = 0; kind < INFP_MEMORY_KINDS; kind++) {
                row = add_row(&rows, kind, words_for_others[kind], s->others[kind]);
                if (row)
                        row->is_others = true;
                add_row(&rows, kind, kind == INFP_MEMORY_STACK ? "main thread" : NULL, s->sums[kind]);
        }
        row = add_row(&rows, INFP_MEMORY_STACK, "other threads", s->thread_stacks + s->guessed_stacks);
        if (row && s->guessed_stacks)
                row->quality = INFP_ESTIMATED;
        infp_sort(rows.list, rows.n, sizeof(*rows.list), by_kind);
        *ret_bytes = rows.bytes;
        if (s->has_swap)
                rows.list[rows.n++] =
                        (struct infp_smaps_row){ .kind = INFP_MEMORY_SWAP, .quality = INFP_MEASURED, .bytes = s->swap };
        return rows.n;
}
