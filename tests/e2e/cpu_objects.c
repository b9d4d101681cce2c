/* Burns CPU in code that is hard to find: for tests of what infprof opens and how it unwinds.
 *
 *   cpu_objects static MS               burn_main, nothing else
 *   cpu_objects library MS FILE [OTHER] burn_a of a library whose FILE is removed (or replaced by OTHER) once it is loaded
 *   cpu_objects made MS                 code that is made at run time, with frame pointers, calls burn_called
 *   cpu_objects bare MS                 the same without frame pointers */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NO_INLINE __attribute__((noinline, noclone))
static volatile uint64_t sink;
static double limit;

static double cpu_now(void)
{
        struct timespec now;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static void spin(void)
{
        const double begin = cpu_now();
        uint64_t x = 1;

        do {
                for (unsigned i = 0; i < 20000; i++) {
                        x = x * 6364136223846793005u + 1442695040888963407u;
                        __asm__ volatile("" : "+r"(x));
                }
                sink = x;
        } while (cpu_now() - begin < limit);
}

NO_INLINE void burn_main(void)
{
        spin();
        sink++;
}

NO_INLINE void burn_called(void)
{
        spin();
        sink++;
}

static int make_code(int has_frame_pointer)
{
        /* push %rbp; mov %rsp,%rbp; call *%rdi; pop %rbp; ret */
        static const uint8_t framed[] = { 0x55, 0x48, 0x89, 0xe5, 0xff, 0xd7, 0x5d, 0xc3 };
        /* sub $24,%rsp; call *%rdi; add $24,%rsp; ret */
        static const uint8_t bare[] = { 0x48, 0x83, 0xec, 0x18, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x18, 0xc3 };
        uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        void (*made)(void (*)(void));

        if (code == MAP_FAILED)
                return 1;
        memcpy(code, has_frame_pointer ? framed : bare, has_frame_pointer ? sizeof(framed) : sizeof(bare));
        if (mprotect(code, 4096, PROT_READ | PROT_EXEC) < 0)
                return 1;
        memcpy(&made, &code, sizeof(made));
        made(burn_called);
        sink++;
        return 0;
}

static int use_library(const char *file, const char *other, unsigned ms)
{
#ifdef STATIC
        (void) file, (void) other, (void) ms;
        return 1;
#else
        void *library = dlopen(file, RTLD_NOW), *symbol = library ? dlsym(library, "burn_a") : NULL;
        void (*burn)(unsigned, double *);
        double cpu;

        if (!symbol || (other ? rename(other, file) : unlink(file)) < 0)
                return 1;
        memcpy(&burn, &symbol, sizeof(burn));
        burn(ms, &cpu);
        return 0;
#endif
}

int main(int argc, char **argv)
{
        const unsigned ms = argc > 2 ? (unsigned) atoi(argv[2]) : 0;

        limit = ms / 1e3;
        if (argc == 3 && strcmp(argv[1], "static") == 0)
                burn_main();
        else if (argc == 3 && (strcmp(argv[1], "made") == 0 || strcmp(argv[1], "bare") == 0))
                return make_code(argv[1][0] == 'm');
        else if (argc > 3 && strcmp(argv[1], "library") == 0)
                return use_library(argv[3], argv[4], ms);
        else
                return 2;
        return 0;
}
