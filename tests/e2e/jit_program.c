/* Spins for SECONDS of CPU time in code that it made itself, and says its names as asked: "map" writes /tmp/perf-PID.map, "dump" a
 * jitdump that it maps as programs do. "delete": removes its own file first. What it wrote is gone when it ends. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* mov ecx, edi; loop: dec ecx; jnz loop; ret */
static const unsigned char code[] = { 0x89, 0xf9, 0xff, 0xc9, 0x75, 0xfc, 0xc3 };

static void put_dump(FILE *file, uint64_t address)
{
        struct timespec now;
        const char name[] = "py::hot:/srv/model.py";
        uint64_t t_ns;

        clock_gettime(CLOCK_MONOTONIC, &now);
        t_ns = (uint64_t) now.tv_sec * 1000000000 + (uint64_t) now.tv_nsec;
        fwrite((uint32_t[]){ 0x4a695444, 1, 40, 62, 0, (uint32_t) getpid() }, 4, 6, file);
        fwrite((uint64_t[]){ t_ns, 0 }, 8, 2, file);
        fwrite((uint32_t[]){ 2, 16 + 16 + 16 + 14 }, 4, 2, file);
        fwrite((uint64_t[]){ t_ns, address, 1, address }, 8, 4, file);
        fwrite((uint32_t[]){ 42, 0 }, 4, 2, file);
        fwrite("/srv/model.py", 1, 14, file);
        fwrite((uint32_t[]){ 0, (uint32_t) (16 + 40 + sizeof(name) + sizeof(code)) }, 4, 2, file);
        fwrite(&t_ns, 8, 1, file);
        fwrite((uint32_t[]){ (uint32_t) getpid(), (uint32_t) getpid() }, 4, 2, file);
        fwrite((uint64_t[]){ address, address, sizeof(code), 1 }, 8, 4, file);
        fwrite(name, 1, sizeof(name), file);
        fwrite(code, 1, sizeof(code), file);
}

__attribute__((noinline)) static void spin(void (*function)(int), double seconds)
{
        const clock_t end = clock() + (clock_t) (seconds * CLOCKS_PER_SEC);

        while (clock() < end)
                function(1000000);
}

int main(int argc, char **argv)
{
        unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        const char *how = argc > 2 ? argv[2] : "";
        char path[256];
        FILE *file = NULL;

        if (page == MAP_FAILED)
                return 2;
        memcpy(page, code, sizeof(code));
        if (strcmp(how, "map") == 0) {
                snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
                file = fopen(path, "we");
                fprintf(file, "%lx %zx JS:hot /srv/a b.js:3\n", (unsigned long) page, sizeof(code));
        } else if (strcmp(how, "dump") == 0) {
                snprintf(path, sizeof(path), "%s/jit-%d.dump", argv[3], getpid());
                file = fopen(path, "w+e");
                put_dump(file, (uint64_t) page);
                fflush(file);
                if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(file), 0) == MAP_FAILED)
                        return 3;
        } else if (strcmp(how, "delete") == 0) {
                unlink(argv[0]);
        }
        if (file)
                fclose(file);
        spin((void (*)(int)) page, atof(argv[1]));
        if (file)
                unlink(path);
        return 0;
}
