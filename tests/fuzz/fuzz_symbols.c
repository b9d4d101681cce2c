/* ELF files of any bytes: their tables of symbols, linkage tables, debug links, packed tables and call frame information, as the
 * recorder reads them (without DWARF). Looking up stays inside. Files of an odd size are asked for many addresses at once. */
#include <fcntl.h>
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

static void look_up(struct infp_symbols *symbols, unsigned object, uint64_t address)
{
        struct infp_symbol levels[INFP_SYMBOL_MAX_LEVELS];
        const unsigned n = infp_symbols_at(symbols, object, address, levels);

        for (unsigned i = 0; i < n; i++)
                expect(levels[i].name && levels[i].name[0] && levels[i].from && strlen(levels[i].name) < 5000);
}

static void take_name(void *context, size_t index, const struct infp_symbol *symbol)
{
        (void) context;
        expect(index < 4 && symbol->name[0] && symbol->from);
}

/* Where no debug files are. */
static int empty_root(void)
{
        char path[] = "/tmp/fuzz-symbols-XXXXXX";
        const int fd = mkdtemp(path) ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;

        expect(fd >= 0 && rmdir(path) == 0);
        return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const uint64_t few[4] = { 0, 0x400, 0x1000, UINT64_MAX };
        static int root = -1, fd = -1; /* making a file takes longer than reading it */
        struct infp_symbols *symbols;
        struct infp_err err = { "" };
        unsigned object;

        if (fd < 0)
                fd = memfd_create("object", MFD_CLOEXEC);
        if (root < 0)
                root = empty_root();
        expect(fd >= 0 && pwrite(fd, data, size, 0) == (ssize_t) size && ftruncate(fd, (off_t) size) == 0);
        expect(infp_symbols_new(&(struct infp_symbols_options){ .root_fd = root, .no_lines = true }, &symbols, &err) ==
               0);
        if (size % 2) {
                infp_symbols_all(symbols, "/libgomp.so", fd, NULL, few, 4, take_name, NULL, &err);
        } else if (infp_symbols_object(symbols, "/libgomp.so", fd, NULL, &object, &err) == 0) {
                for (uint64_t address = 0x100 + size % 211; address < 0x1200; address += 211)
                        look_up(symbols, object, address);
                look_up(symbols, object, 0);
                look_up(symbols, object, UINT64_MAX);
        } else {
                expect(err.text[0]);
        }
        infp_symbols_free(symbols);
        return 0;
}
