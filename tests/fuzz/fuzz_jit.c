/* Perf maps and jitdumps of any bytes, in two parts as a program that goes on writing shows them: the first byte says which format,
 * the second where the first part ends. Look-ups stay inside, names are one line. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols/symbols.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool truth)
{
        if (!truth)
                abort();
}

static void check_name(const char *name)
{
        for (; *name; name++)
                expect((unsigned char) *name >= 0x20 && *name != 0x7f);
}

static void look_up(const struct infp_jit_symbols *jit, uint64_t address, uint64_t t_ns)
{
        struct infp_symbol symbol;

        if (!infp_jit_symbols_at(jit, address, t_ns, &symbol))
                return;
        check_name(symbol.name);
        if (symbol.file)
                check_name(symbol.file);
}

static void read_file(struct infp_jit_symbols *jit, int fd, bool is_dump)
{
        struct infp_err err = { "" };
        const int r =
                is_dump ? infp_jit_symbols_read_jitdump(jit, fd, &err) : infp_jit_symbols_read_perf_map(jit, fd, &err);

        expect(r == 0 || err.text[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct infp_jit_symbols *jit = NULL;
        const bool is_dump = size && data[0] & 1;
        static int fd = -1; /* making a file takes longer than reading it */
        size_t first;

        if (size < 2)
                return 0;
        if (fd < 0)
                fd = memfd_create("jit", MFD_CLOEXEC);
        expect(fd >= 0 && infp_jit_symbols_new(&jit) == 0);
        first = data[1] * (size - 2) / 255;
        expect(ftruncate(fd, 0) == 0 && pwrite(fd, data + 2, first, 0) == (ssize_t) first);
        read_file(jit, fd, is_dump);
        expect(pwrite(fd, data + 2 + first, size - 2 - first, (off_t) first) == (ssize_t) (size - 2 - first));
        read_file(jit, fd, is_dump);
        for (size_t i = 2; i + 8 <= size; i += 8) { /* addresses that may be in it */
                uint64_t address;

                memcpy(&address, data + i, sizeof(address));
                look_up(jit, address, 0);
                look_up(jit, __builtin_bswap64(address), address);
        }
        look_up(jit, 0x1000, 0);
        look_up(jit, UINT64_MAX, UINT64_MAX);
        infp_jit_symbols_free(jit);
        return 0;
}
