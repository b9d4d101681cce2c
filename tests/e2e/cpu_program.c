/* Burns CPU in functions whose names say where: for tests of the sampler. Each process prints one JSON line at its end: the CPU
 * seconds of each function, as its threads' own clocks have them.
 *
 *   cpu_program MODE MS [ARGUMENT...]     MS: CPU time of each function */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NO_INLINE __attribute__((noinline, noclone))
enum { MAX_FUNCTIONS = 16, STACK_BYTES = 1 << 16 };

extern char **environ;
static unsigned ms;
static struct {
        const char *name;
        double cpu;
} functions[MAX_FUNCTIONS];
static _Atomic unsigned n_functions;
static volatile uint64_t sink;

static double cpu_now(void)
{
        struct timespec now;

        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

static void note(const char *name, double cpu)
{
        const unsigned i = atomic_fetch_add(&n_functions, 1);

        if (i < MAX_FUNCTIONS) {
                functions[i].name = name;
                functions[i].cpu = cpu;
        }
}

__attribute__((always_inline)) static inline void spin(const char *name)
{
        const double begin = cpu_now();
        uint64_t x = 1;
        double now;

        do {
                for (unsigned i = 0; i < 100000; i++) {
                        x = x * 6364136223846793005u + 1442695040888963407u;
                        __asm__ volatile("" : "+r"(x));
                }
                now = cpu_now();
        } while (now - begin < ms / 1e3);
        sink += x;
        note(name, now - begin);
}

/* After the call something is to be done, lest it become a jump. */
#define BURN(what)                              \
        static NO_INLINE void burn_##what(void) \
        {                                       \
                spin("burn_" #what);            \
                sink++;                         \
        }
BURN(parent)
BURN(child)
BURN(grandchild)
BURN(before)
BURN(after)
BURN(vfork)
BURN(new)
BURN(main)
BURN(signal)

static void end(void)
{
        printf("{\"pid\":%d,\"functions\":{", (int) getpid());
        for (unsigned i = 0; i < n_functions && i < MAX_FUNCTIONS; i++)
                printf("%s\"%s\":%.4f", i ? "," : "", functions[i].name, functions[i].cpu);
        printf("}}\n");
        fflush(stdout);
}

static void die(const char *what)
{
        perror(what);
        exit(2);
}

static void wait_all(void)
{
        while (wait(NULL) > 0 || errno == EINTR) {
        }
}

static void mode_fork(void)
{
        if (fork() == 0) {
                if (fork() == 0) {
                        burn_grandchild();
                        end();
                        _exit(0);
                }
                burn_child();
                wait_all();
                end();
                _exit(0);
        }
        burn_parent();
        wait_all();
}

static void mode_exec(char **argv)
{
        char *again[] = { argv[0], (char *) "after", argv[2], NULL };

        burn_before();
        end();
        execv("/proc/self/exe", again);
        die("execv");
}

/* The child works in its parent's memory, then becomes another program. */
static void mode_vfork(char **argv)
{
        char *again[] = { argv[0], (char *) "after", argv[2], NULL };
        pid_t pid = vfork();

        if (pid == 0) {
                burn_vfork();
                execv("/proc/self/exe", again);
                _exit(127);
        }
        burn_parent();
        wait_all();
}

static atomic_bool is_over;

/* Until the others have ended. */
static NO_INLINE void burn_old(void)
{
        const double begin = cpu_now();
        uint64_t x = 1;

        while (!is_over) {
                for (unsigned i = 0; i < 100000; i++) {
                        x = x * 6364136223846793005u + 1442695040888963407u;
                        __asm__ volatile("" : "+r"(x));
                }
        }
        sink += x;
        note("burn_old", cpu_now() - begin);
}

static void *run_old(void *unused)
{
        (void) unused;
        burn_old();
        return NULL;
}

static void *run_new(void *unused)
{
        (void) unused;
        burn_new();
        return NULL;
}

/* A thread that begins with the first line on stdin, and one with the second. */
static void mode_late(void)
{
        pthread_t old, new;
        char line[8];

        puts("ready");
        fflush(stdout);
        if (!fgets(line, sizeof(line), stdin))
                exit(0);
        if (pthread_create(&old, NULL, run_old, NULL) || !fgets(line, sizeof(line), stdin) ||
            pthread_create(&new, NULL, run_new, NULL))
                die("pthread_create");
        burn_main();
        pthread_join(new, NULL);
        is_over = true;
        pthread_join(old, NULL);
}

static void run_in(const char *path, const char *name)
{
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        void (*burn)(unsigned, double *) = NULL;
        double cpu;

        if (library)
                *(void **) &burn = dlsym(library, name);
        if (!burn) {
                fprintf(stderr, "%s: %s\n", path, dlerror());
                exit(2);
        }
        burn(ms, &cpu);
        note(name, cpu);
        dlclose(library);
}

/* Two libraries one after the other, mostly at the same address. */
static void mode_dlopen(char **argv)
{
        for (unsigned i = 0; i < 3; i++) {
                run_in(argv[3], "burn_a");
                run_in(argv[4], "burn_b");
        }
}

static int copy_to_memory(const char *path)
{
        int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create("copied", 0);
        struct stat status;

        if (from < 0 || to < 0 || fstat(from, &status) < 0 || sendfile(to, from, NULL, (size_t) status.st_size) < 0)
                die("memfd");
        close(from);
        return to;
}

static void mode_memfd(char **argv)
{
        char path[64], *again[] = { argv[0], (char *) "after", argv[2], NULL };

        if (argv[3]) {
                snprintf(path, sizeof(path), "/proc/self/fd/%d", copy_to_memory(argv[3]));
                run_in(path, "burn_a");
        }
        end();
        fexecve(copy_to_memory("/proc/self/exe"), again, environ);
        die("fexecve");
}

static void on_signal(int number)
{
        (void) number;
        burn_signal();
        sink++;
}

static NO_INLINE void interrupted(void)
{
        raise(SIGUSR1);
        sink++;
}

static void mode_signal(void)
{
        static uint8_t bytes[STACK_BYTES];
        const stack_t stack = { .ss_sp = bytes, .ss_size = sizeof(bytes) };
        const struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };

        sigaltstack(&stack, NULL);
        sigaction(SIGUSR1, &action, NULL);
        interrupted();
        burn_main();
}

static void *nothing(void *unused)
{
        return unused;
}

static void mode_storm(unsigned n)
{
        pthread_t id;

        for (unsigned i = 0; i < n; i++) {
                if (pthread_create(&id, NULL, nothing, NULL))
                        die("pthread_create");
                pthread_join(id, NULL);
        }
        burn_main();
}

static void mode_execs(unsigned n, char *command)
{
        char *const words[] = { command, NULL };

        for (unsigned i = 0; i < n; i++) {
                pid_t pid;

                if (posix_spawn(&pid, command, NULL, NULL, words, environ))
                        die(command);
                waitpid(pid, NULL, 0);
        }
        burn_main();
}

static void *sleeper(void *unused)
{
        (void) unused;
        pause();
        return NULL;
}

static void mode_many(unsigned n)
{
        pthread_attr_t attributes;
        pthread_t id;
        char line[8];

        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 16384);
        for (unsigned i = 0; i < n; i++)
                if (pthread_create(&id, &attributes, sleeper, NULL))
                        die("pthread_create");
        puts("ready");
        fflush(stdout);
        if (fgets(line, sizeof(line), stdin))
                burn_main();
}

int main(int argc, char **argv)
{
        const char *mode = argc > 2 ? argv[1] : "";
        const unsigned n = argc > 3 ? (unsigned) atoi(argv[3]) : 0;

        ms = argc > 2 ? (unsigned) atoi(argv[2]) : 0;
        if (!strcmp(mode, "fork"))
                mode_fork();
        else if (!strcmp(mode, "exec"))
                mode_exec(argv);
        else if (!strcmp(mode, "after"))
                burn_after();
        else if (!strcmp(mode, "vfork"))
                mode_vfork(argv);
        else if (!strcmp(mode, "late"))
                mode_late();
        else if (!strcmp(mode, "dlopen") && argc > 4)
                mode_dlopen(argv);
        else if (!strcmp(mode, "memfd"))
                mode_memfd(argv);
        else if (!strcmp(mode, "signal"))
                mode_signal();
        else if (!strcmp(mode, "storm"))
                mode_storm(n);
        else if (!strcmp(mode, "execs") && argc > 4)
                mode_execs(n, argv[4]);
        else if (!strcmp(mode, "many"))
                mode_many(n);
        else
                return 2;
        end();
        return 0;
}
