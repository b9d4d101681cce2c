#include "symbols/debugdata.h"

#include <dlfcn.h>
#include <errno.h>
#include <lzma.h>
#include <stdlib.h>

/* What a packed table may need while it is unpacked, and may be then: those of whole distributions are below 5 MiB. */
enum { MOST_PACKED = 64 << 20, MOST_UNPACKED = 256 << 20, MOST_STATE = 256 << 20 };

/* Loaded when it is needed: few systems have such programs. */
struct lzma {
        __typeof__(lzma_stream_decoder) *stream_decoder;
        __typeof__(lzma_code) *code;
        __typeof__(lzma_end) *end;
};

static bool load(struct lzma *lzma)
{
        void *library = dlopen("liblzma.so.5", RTLD_NOW | RTLD_LOCAL); /* stays */

        if (!library)
                return false;
        *(void **) &lzma->stream_decoder = dlsym(library, "lzma_stream_decoder");
        *(void **) &lzma->code = dlsym(library, "lzma_code");
        *(void **) &lzma->end = dlsym(library, "lzma_end");
        return lzma->stream_decoder && lzma->code && lzma->end;
}

static int unpack(const struct lzma *lzma, lzma_stream *stream, uint64_t most, uint8_t **memory, uint64_t *ret_size)
{
        size_t cap = 0;

        for (;;) {
                lzma_ret r;

                if (stream->avail_out == 0) {
                        uint8_t *grown;

                        if (cap >= most)
                                return -EFBIG;
                        cap = cap ? cap * 2 : 1 << 20;
                        grown = realloc(*memory, cap);
                        if (!grown)
                                return -ENOMEM;
                        *memory = grown;
                        stream->next_out = grown + stream->total_out;
                        stream->avail_out = cap - stream->total_out;
                }
                r = lzma->code(stream, LZMA_FINISH);
                if (r == LZMA_STREAM_END) {
                        *ret_size = stream->total_out;
                        return 0;
                }
                if (r != LZMA_OK)
                        return r == LZMA_MEM_ERROR ? -ENOMEM : r == LZMA_MEMLIMIT_ERROR ? -EFBIG : -EBADMSG;
        }
}

int infp_debugdata_open(struct infp_image *image, const char *path, struct infp_image *ret, struct infp_err *err)
{
        const Elf64_Shdr *section = infp_image_section(image, ".gnu_debugdata", 0);
        const uint8_t *packed = section && section->sh_size <= MOST_PACKED ? infp_image_data(image, section) : NULL;
        lzma_stream stream = LZMA_STREAM_INIT;
        const uint64_t most =
                image->most_bytes && image->most_bytes < MOST_UNPACKED ? image->most_bytes : MOST_UNPACKED;
        uint8_t *memory = NULL;
        struct lzma lzma;
        uint64_t size = 0;
        int r;

        if (!packed)
                return -ENOENT;
        if (!load(&lzma))
                return infp_fail(err, -ENOPKG, "%s: its packed symbols need liblzma.so.5 (Debian: liblzma5)", path);
        if (lzma.stream_decoder(&stream, most < MOST_STATE ? most : MOST_STATE, LZMA_CONCATENATED) != LZMA_OK)
                return infp_fail(err, -ENOMEM, "%s: no memory for its packed symbols", path);
        stream.next_in = packed;
        stream.avail_in = section->sh_size;
        r = unpack(&lzma, &stream, most, &memory, &size);
        lzma.end(&stream);
        if (r < 0)
                infp_fail_errno(err, r, "%s: its packed symbols cannot be unpacked", path);
        else
                r = infp_image_open_bytes(ret, memory, size, true, path, err);
        if (r < 0)
                free(memory);
        return r;
}
