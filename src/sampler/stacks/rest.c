#include "sampler/stacks/rest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/mem.h"

/* Of a frame, its saved registers lie below the return address, and may be asked for later. */
enum { BELOW = 128, MOST_WITNESS = 1 << 16 };

void infp_rest_begin(struct infp_rest *rest, const struct infp_perf_sample *sample, uint64_t witness)
{
        const uint64_t begin = sample->registers[INFP_RSP], end = begin + sample->stack_size;

        rest->pid = sample->pid;
        rest->copy = (struct infp_unwind_dump){ sample->stack, begin, sample->stack_size, true };
        if (witness + INFP_REST_WITNESS > end)
                witness = end - INFP_REST_WITNESS;
        rest->witness = witness < begin || sample->stack_size < INFP_REST_WITNESS ? begin : witness;
        rest->n_dumps = sample->n_rest;
        rest->n_pieces = 0;
        for (uint32_t i = 0; i < sample->n_rest; i++)
                rest->dumps[i] = sample->rest[i];
}

/* The witness as it is now, and in the same call a piece, if there is one. The number of the piece's bytes, or a negative errno; -EAGAIN:
 * the witness has changed. */
static ssize_t look(const struct infp_rest *rest, const struct iovec *piece, uint64_t address)
{
        const uint64_t at = rest->witness - rest->copy.begin, size = rest->copy.size - at;
        uint8_t *now = rest->bytes + (size_t) INFP_REST_PIECE * INFP_REST_PIECES;
        struct iovec local[2] = { { now, size } }, remote[2] = { { (void *) rest->witness, size } };
        ssize_t n;

        if (piece) {
                local[1] = *piece;
                remote[1] = (struct iovec){ (void *) address, piece->iov_len };
        }
        n = process_vm_readv(rest->pid, local, piece ? 2 : 1, remote, piece ? 2 : 1, 0);
        if (n < 0)
                return -errno;
        return n < (ssize_t) size || memcmp(now, rest->copy.bytes + at, size) != 0 ? -EAGAIN : n - (ssize_t) size;
}

/* From a little below the address on, up to what is known already. */
static struct iovec place(const struct infp_rest *rest, uint64_t address, uint64_t *ret_begin)
{
        uint64_t begin = address > BELOW ? (address - BELOW) & ~UINT64_C(7) : 0, end = begin + INFP_REST_PIECE;

        for (uint32_t i = 0; i <= rest->n_dumps; i++) {
                const struct infp_unwind_dump *dump = i ? &rest->dumps[i - 1] : &rest->copy;

                if (dump->begin + dump->size <= address && dump->begin + dump->size > begin)
                        begin = dump->begin + dump->size;
                if (dump->begin > address && dump->begin < end)
                        end = dump->begin;
        }
        *ret_begin = begin;
        return (struct iovec){ rest->bytes + rest->n_pieces * (size_t) INFP_REST_PIECE, end - begin };
}

enum infp_rest_read infp_rest_add(struct infp_rest *rest, uint64_t address)
{
        struct iovec piece;
        uint64_t begin;
        ssize_t n;

        if (!rest->bytes)
                rest->bytes = malloc((size_t) INFP_REST_PIECE * INFP_REST_PIECES + MOST_WITNESS);
        if (!rest->bytes || rest->n_pieces == INFP_REST_PIECES || rest->n_dumps == INFP_PERF_REST ||
            rest->copy.size < 8 || rest->copy.size > MOST_WITNESS)
                return INFP_REST_NONE;
        piece = place(rest, address, &begin);
        n = look(rest, &piece, begin);
        if (n == -EAGAIN)
                return INFP_REST_MOVED;
        if (n == -EPERM || n == -EACCES || n == -ENOSYS)
                return INFP_REST_DENIED;
        if (n < 8 || (uint64_t) n < address + 8 - begin)
                return INFP_REST_NONE;
        rest->dumps[rest->n_dumps++] =
                (struct infp_unwind_dump){ piece.iov_base, begin, (uint64_t) n & ~UINT64_C(7), true };
        rest->n_pieces++;
        return INFP_REST_READ;
}

bool infp_rest_holds(const struct infp_rest *rest)
{
        return look(rest, NULL, 0) == 0;
}

void infp_rest_done(struct infp_rest *rest)
{
        free(rest->bytes);
        rest->bytes = NULL;
}
