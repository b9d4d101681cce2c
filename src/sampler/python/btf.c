#include "sampler/python/btf.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/btf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"

enum {
        MOST_NAMES = 16,
        MOST_HOPS = 32,  /* from a type to what it is another name of */
        MOST_DEPTH = 16, /* of structures without a name in one another */
        FIRST_ROOM = 1024,
        MOST_WORDS = 1 << 18, /* some 2,000 are written */
        MOST_TEXTS = 1 << 20,
        MOST_BYTES = 64 << 20, /* of the whole */
        POINTER = 1,           /* ids of ours */
        INTEGER = 2,           /* of 1, 2, 4, 8 bytes */
};

struct cut {
        const uint8_t *types; /* of the whole */
        size_t types_size, next;
        const char *texts;
        size_t texts_size;
        uint32_t *at; /* where its types begin, as far as they have been read; at[0] is that of the first one */
        size_t n_at, cap_at;

        const char *const *names;
        size_t n_names;
        uint32_t whole_ids[MOST_NAMES], own_ids[MOST_NAMES]; /* 0: not found; not written yet */

        uint32_t *words; /* our types, and texts */
        size_t n_words, cap_words;
        char *own_texts;
        size_t n_texts, cap_texts;
        uint32_t n_types;
        bool is_short; /* of memory, or of what is sensible */
};

/* ---- the whole ---- */

/* Bytes after the head of a type; -1: not known. */
static ssize_t more_bytes(const struct btf_type *type)
{
        const ssize_t n = BTF_INFO_VLEN(type->info);

        switch (BTF_INFO_KIND(type->info)) {
        case BTF_KIND_PTR:
        case BTF_KIND_FWD:
        case BTF_KIND_TYPEDEF:
        case BTF_KIND_VOLATILE:
        case BTF_KIND_CONST:
        case BTF_KIND_RESTRICT:
        case BTF_KIND_FUNC:
        case BTF_KIND_FLOAT:
        case BTF_KIND_TYPE_TAG:
                return 0;
        case BTF_KIND_INT:
        case BTF_KIND_VAR:
        case BTF_KIND_DECL_TAG:
                return 4;
        case BTF_KIND_ENUM:
        case BTF_KIND_FUNC_PROTO:
                return 8 * n;
        case BTF_KIND_ARRAY:
                return sizeof(struct btf_array);
        case BTF_KIND_STRUCT:
        case BTF_KIND_UNION:
        case BTF_KIND_DATASEC:
        case BTF_KIND_ENUM64:
                return 12 * n;
        default:
                return -1;
        }
}

/* 1; 0: there are no more; or a negative errno. */
static int read_next(struct cut *cut)
{
        const struct btf_type *type = (const void *) (cut->types + cut->next);
        ssize_t more;

        if (cut->next == cut->types_size)
                return 0;
        if (cut->types_size - cut->next < sizeof(*type))
                return -EBADMSG;
        more = more_bytes(type);
        if (more < 0 || cut->types_size - cut->next - sizeof(*type) < (size_t) more)
                return -EBADMSG;
        if (!INFP_MAKE_ROOM(cut->at, cut->n_at, cut->cap_at, FIRST_ROOM))
                return -ENOMEM;
        cut->at[cut->n_at++] = (uint32_t) cut->next;
        cut->next += sizeof(*type) + (size_t) more;
        return 1;
}

static int type_of(struct cut *cut, uint32_t id, const struct btf_type **ret)
{
        while (cut->n_at < id) {
                const int r = read_next(cut);

                if (r <= 0)
                        return r < 0 ? r : -EBADMSG;
        }
        if (!id)
                return -EBADMSG;
        *ret = (const void *) (cut->types + cut->at[id - 1]);
        return 0;
}

/* Texts end within the whole: its last byte is 0. */
static const char *text_of(const struct cut *cut, uint32_t at)
{
        return cut->texts + (at < cut->texts_size ? at : 0);
}

static int find_names(struct cut *cut)
{
        size_t n_found = 0;

        while (n_found < cut->n_names) {
                const struct btf_type *type;
                const int r = read_next(cut);

                if (r <= 0)
                        return r < 0 ? r : -ENOENT;
                type = (const void *) (cut->types + cut->at[cut->n_at - 1]);
                if (BTF_INFO_KIND(type->info) != BTF_KIND_STRUCT)
                        continue;
                for (size_t i = 0; i < cut->n_names; i++) {
                        if (cut->whole_ids[i] || strcmp(text_of(cut, type->name_off), cut->names[i]) != 0)
                                continue;
                        cut->whole_ids[i] = (uint32_t) cut->n_at;
                        n_found++;
                }
        }
        return 0;
}

/* ---- ours ---- */

static void put_word(struct cut *cut, uint32_t word)
{
        if (cut->n_words < MOST_WORDS && INFP_MAKE_ROOM(cut->words, cut->n_words, cut->cap_words, FIRST_ROOM))
                cut->words[cut->n_words++] = word;
        else
                cut->is_short = true;
}

/* Returns where it lies; the empty one is the first. */
static uint32_t put_text(struct cut *cut, const char *text)
{
        const size_t at = cut->n_texts;

        if (!*text && at)
                return 0;
        do {
                if (cut->n_texts == MOST_TEXTS ||
                    !INFP_MAKE_ROOM(cut->own_texts, cut->n_texts, cut->cap_texts, FIRST_ROOM)) {
                        cut->is_short = true;
                        return 0;
                }
                cut->own_texts[cut->n_texts++] = *text;
        } while (*text++);
        return (uint32_t) at;
}

/* Returns its id. */
static uint32_t put_head(struct cut *cut, const char *name, uint32_t info, uint32_t size)
{
        put_word(cut, put_text(cut, name));
        put_word(cut, info);
        put_word(cut, size);
        return ++cut->n_types;
}

static uint32_t info_of(uint32_t kind)
{
        return kind << 24;
}

/* libbpf knows the size of pointers by that of "long". */
static void put_plain_types(struct cut *cut)
{
        static const char *const names[] = { "char", "short", "int", "long" };

        put_text(cut, "");
        put_head(cut, "", info_of(BTF_KIND_PTR), 0);
        for (uint32_t i = 0; i < INFP_COUNT(names); i++) {
                put_head(cut, names[i], info_of(BTF_KIND_INT), 1u << i);
                put_word(cut, 8u << i);
        }
}

static int put_structure(struct cut *cut, uint32_t id, unsigned depth);

static int put_array(struct cut *cut, uint32_t element, uint32_t n)
{
        const uint32_t ret = put_head(cut, "", info_of(BTF_KIND_ARRAY), 0);

        put_word(cut, element);
        put_word(cut, INTEGER + 2);
        put_word(cut, n);
        return (int) ret;
}

/* Our id of a member's type; 0: it has none; or a negative errno. */
static int own_type(struct cut *cut, uint32_t id, unsigned depth)
{
        for (unsigned hops = 0; id && hops < MOST_HOPS && depth < MOST_DEPTH; hops++) {
                const struct btf_type *type = NULL;
                const struct btf_array *array;
                int r;

                INFP_TRY(type_of(cut, id, &type));
                array = (const void *) (type + 1);
                switch (BTF_INFO_KIND(type->info)) {
                case BTF_KIND_TYPEDEF:
                case BTF_KIND_VOLATILE:
                case BTF_KIND_CONST:
                case BTF_KIND_RESTRICT:
                case BTF_KIND_TYPE_TAG:
                        id = type->type;
                        continue;
                case BTF_KIND_PTR:
                        return POINTER;
                case BTF_KIND_INT:
                        for (int i = 0; i < 4; i++)
                                if (type->size == 1u << i)
                                        return INTEGER + i;
                        return 0;
                case BTF_KIND_ARRAY:
                        r = own_type(cut, array->type, depth + 1);
                        return r < 0 ? r : put_array(cut, (uint32_t) r, array->nelems);
                case BTF_KIND_STRUCT:
                case BTF_KIND_UNION:
                        for (size_t i = 0; i < cut->n_names; i++)
                                if (cut->whole_ids[i] == id)
                                        return (int) cut->own_ids[i];
                        return *text_of(cut, type->name_off) ? 0 : put_structure(cut, id, depth + 1);
                default:
                        return 0;
                }
        }
        return 0;
}

/* Its members' own types first. Returns its id. */
static int put_structure(struct cut *cut, uint32_t id, unsigned depth)
{
        infp_autofree uint32_t *own = NULL;
        const struct btf_member *members;
        const struct btf_type *type = NULL;
        uint32_t n, ret;

        INFP_TRY(type_of(cut, id, &type));
        members = (const void *) (type + 1);
        n = BTF_INFO_VLEN(type->info);
        own = calloc(n + 1, sizeof(*own));
        if (!own || cut->is_short)
                return -ENOMEM;
        for (uint32_t i = 0; i < n; i++) {
                const int r = own_type(cut, members[i].type, depth);

                if (r < 0)
                        return r;
                own[i] = (uint32_t) r;
        }
        ret = put_head(cut, text_of(cut, type->name_off), type->info, type->size);
        for (uint32_t i = 0; i < n; i++) {
                put_word(cut, put_text(cut, text_of(cut, members[i].name_off)));
                put_word(cut, own[i]);
                put_word(cut, members[i].offset);
        }
        return (int) ret;
}

static int join(const struct cut *cut, void **ret, size_t *ret_size)
{
        const uint32_t types_size = (uint32_t) (cut->n_words * sizeof(*cut->words));
        const struct btf_header head = { .magic = BTF_MAGIC,
                                         .version = BTF_VERSION,
                                         .hdr_len = sizeof(head),
                                         .type_len = types_size,
                                         .str_off = types_size,
                                         .str_len = (uint32_t) cut->n_texts };
        uint8_t *bytes = cut->is_short ? NULL : malloc(sizeof(head) + types_size + cut->n_texts);

        if (!bytes)
                return -ENOMEM;
        memcpy(bytes, &head, sizeof(head));
        memcpy(bytes + sizeof(head), cut->words, types_size);
        memcpy(bytes + sizeof(head) + types_size, cut->own_texts, cut->n_texts);
        *ret = bytes;
        *ret_size = sizeof(head) + types_size + cut->n_texts;
        return 0;
}

static int read_head(struct cut *cut, const uint8_t *whole, size_t size)
{
        const struct btf_header *head = (const void *) whole;
        uint64_t types, texts;

        if (size < sizeof(*head) || size > MOST_BYTES || head->magic != BTF_MAGIC || head->version != BTF_VERSION)
                return -EBADMSG;
        types = (uint64_t) head->hdr_len + head->type_off;
        texts = (uint64_t) head->hdr_len + head->str_off;
        if (types % 4 || types > size || head->type_len > size - types || texts > size ||
            head->str_len > size - texts || !head->str_len || whole[texts + head->str_len - 1])
                return -EBADMSG;
        cut->types = whole + types;
        cut->types_size = head->type_len;
        cut->texts = (const char *) whole + texts;
        cut->texts_size = head->str_len;
        return 0;
}

static int write_all(struct cut *cut)
{
        INFP_TRY(find_names(cut));
        put_plain_types(cut);
        for (size_t i = 0; i < cut->n_names; i++) {
                const int r = put_structure(cut, cut->whole_ids[i], 0);

                if (r < 0)
                        return r;
                cut->own_ids[i] = (uint32_t) r;
        }
        return 0;
}

int infp_btf_cut(const void *whole, size_t size, const char *const *names, size_t n_names, void **ret, size_t *ret_size)
{
        struct cut cut = { .names = names, .n_names = n_names };
        int r = n_names <= MOST_NAMES ? read_head(&cut, whole, size) : -EINVAL;

        if (r == 0)
                r = write_all(&cut);
        if (r == 0)
                r = join(&cut, ret, ret_size);
        free(cut.at);
        free(cut.words);
        free(cut.own_texts);
        return r;
}

static int file_of(const void *bytes, size_t size)
{
        const int fd = memfd_create("infprof-btf", MFD_CLOEXEC);
        const int r = fd < 0 ? -errno : infp_write_all(fd, bytes, size, NULL);

        if (r >= 0)
                return fd;
        infp_close(fd);
        return r;
}

int infp_btf_open(const char *const *names, size_t n_names)
{
        static const char path[] = "/sys/kernel/btf/vmlinux";
        infp_autoclose int fd = open(path, O_RDONLY | O_CLOEXEC);
        infp_autofree char *copy = NULL;
        infp_autofree void *own = NULL;
        void *whole = MAP_FAILED;
        size_t own_size;
        struct stat st;
        ssize_t size;
        int r;

        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        size = st.st_size;
        whole = mmap(NULL, (size_t) size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (whole == MAP_FAILED) /* before Linux 6.16 */
                size = infp_read_all_at(AT_FDCWD, path, MOST_BYTES, &copy);
        if (size < 0)
                return (int) size;
        r = infp_btf_cut(copy ? copy : whole, (size_t) size, names, n_names, &own, &own_size);
        if (whole != MAP_FAILED)
                munmap(whole, (size_t) size);
        return r < 0 ? r : file_of(own, own_size);
}
