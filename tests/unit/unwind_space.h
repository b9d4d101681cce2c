/* Unwind tables of real files, and the space of the test's own process, for tests of src/unwind. */
#pragma once

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unwind/elf_image.h"
#include "unwind/table.h"
#include "unwind/walk.h"

struct unwind_file {
        char path[512];
        const uint8_t *bytes;
        size_t size;
        struct infp_elf elf;
        const struct infp_unwind_table *table; /* NULL: it has none */
        size_t room;
};

/* Maps path (or takes bytes) and builds its table. 0 or a negative errno. */
static int unwind_build(struct unwind_file *file)
{
        struct infp_unwind_room room;
        void *memory;
        int r = infp_elf_open(&file->elf, file->bytes, file->size, NULL);

        if (r == 0)
                r = infp_unwind_table_measure(&file->elf, &room);
        if (r < 0)
                return r;
        file->room = room.bytes;
        memory = mmap(NULL, room.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
                abort();
        r = infp_unwind_table_build(&file->elf, &room, memory, &file->table);
        if (r == 0 && file->table->size > room.bytes)
                abort();
        return r;
}

static int unwind_open(struct unwind_file *file, const char *path)
{
        struct stat status;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        void *bytes;

        *file = (struct unwind_file){ 0 };
        snprintf(file->path, sizeof(file->path), "%s", path);
        if (fd < 0 || fstat(fd, &status) < 0 || status.st_size == 0)
                return fd < 0 ? -1 : (close(fd), -1);
        bytes = mmap(NULL, (size_t) status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        close(fd);
        if (bytes == MAP_FAILED)
                return -1;
        file->bytes = bytes;
        file->size = (size_t) status.st_size;
        return unwind_build(file);
}

static inline int unwind_open_vdso(struct unwind_file *file)
{
        unsigned long at = getauxval(AT_SYSINFO_EHDR);

        *file = (struct unwind_file){ .path = "[vdso]", .bytes = (const uint8_t *) at, .size = 8192 };
        return at ? unwind_build(file) : -1;
}

enum { UNWIND_MAPPINGS = 1024 };
struct unwind_self {
        struct infp_unwind_space space;
        struct infp_unwind_mapping mappings[UNWIND_MAPPINGS];
        struct unwind_file files[UNWIND_MAPPINGS];
        uint64_t stack_end; /* of the main thread */
};

/* The executable mappings of a process, with tables; 0: this one. */
static inline void unwind_process(struct unwind_self *self, int pid)
{
        char line[1024];
        FILE *maps;

        snprintf(line, sizeof(line), "/proc/%d/maps", pid ? pid : (int) getpid());
        maps = fopen(line, "re");
        memset(self, 0, sizeof(*self));
        while (maps && fgets(line, sizeof(line), maps)) {
                uint64_t begin, end, offset, vaddr;
                char rights[8], path[512] = "";
                struct infp_unwind_mapping *mapping = &self->mappings[self->space.n_mappings];
                struct unwind_file *file = &self->files[self->space.n_mappings];

                if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %*s %*s %511s", &begin, &end, rights, &offset,
                           path) < 4)
                        abort();
                if (strcmp(path, "[stack]") == 0)
                        self->stack_end = end;
                if (rights[2] != 'x' || self->space.n_mappings == UNWIND_MAPPINGS || strcmp(path, "[vsyscall]") == 0)
                        continue;
                *mapping = (struct infp_unwind_mapping){ .begin = begin, .end = end, .id = self->space.n_mappings };
                if (rights[0] == 'r' && pid == 0)
                        mapping->code = (const uint8_t *) begin;
                self->space.n_mappings++;
                if (strcmp(path, "[vdso]") == 0) {
                        if (unwind_open_vdso(file) == 0)
                                mapping->bias = begin;
                } else if (path[0] != '/' || unwind_open(file, path) < 0) {
                        continue;
                }
                if (file->bytes && infp_elf_vaddr(&file->elf, offset, &vaddr))
                        mapping->bias = begin - vaddr;
                mapping->table = file->table;
                if (pid && file->bytes && path[0] == '/' && offset <= file->size && end - begin <= file->size - offset)
                        mapping->code = file->bytes + offset;
        }
        if (maps)
                fclose(maps);
        self->space.mappings = self->mappings;
        self->space.id = 1;
}

static inline void unwind_self(struct unwind_self *self)
{
        unwind_process(self, 0);
}
