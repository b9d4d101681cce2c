#include "base/guarded_map.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>

static _Thread_local struct infp_guarded_map *touched;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sigaction before;

/* Somebody else's: the access is repeated, and has the effect that it had before us. */
static void pass_on(void)
{
        sigaction(SIGBUS, &before, NULL);
}

static void on_bus(int number, siginfo_t *info, void *context)
{
        struct infp_guarded_map *map = touched;
        const int saved = errno;

        (void) number;
        (void) context;
        while (map && (uintptr_t) info->si_addr - (uintptr_t) map->at >= map->size)
                map = map->next;
        /* Zeros in place of the file: no address of the mapping is ever invalid. mmap is a plain system call. */
        if (map && mmap(map->at, map->size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED)
                atomic_store(&map->is_lost, true);
        else
                pass_on();
        errno = saved;
}

/* With each mapping: somebody else may have taken it since. */
static void take_signal(void)
{
        struct sigaction ours = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO }, now;

        sigemptyset(&ours.sa_mask);
        pthread_mutex_lock(&lock);
        if (sigaction(SIGBUS, NULL, &now) == 0 && now.sa_sigaction != on_bus) {
                before = now;
                sigaction(SIGBUS, &ours, NULL);
        }
        pthread_mutex_unlock(&lock);
}

int infp_guarded_map_open(struct infp_guarded_map *map, int file, size_t size, bool writable)
{
        void *at;

        take_signal();
        at = mmap(NULL, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, file, 0);
        if (at == MAP_FAILED)
                return -errno;
        map->at = at;
        map->size = size;
        map->next = NULL;
        atomic_store(&map->is_lost, false);
        return 0;
}

void infp_guarded_map_close(struct infp_guarded_map *map)
{
        if (map->at)
                munmap(map->at, map->size);
        map->at = NULL;
}

/* Once in each thread: its starter may have blocked all signals, and main's mask is its parent's. */
static void unblock_signal(void)
{
        static _Thread_local bool is_done;
        sigset_t set;

        if (is_done)
                return;
        sigemptyset(&set);
        sigaddset(&set, SIGBUS);
        pthread_sigmask(SIG_UNBLOCK, &set, NULL);
        is_done = true;
}

void infp_guarded_map_begin(struct infp_guarded_map *map)
{
        unblock_signal();
        touched = map;
        atomic_signal_fence(memory_order_seq_cst);
}

void infp_guarded_map_end(void)
{
        atomic_signal_fence(memory_order_seq_cst);
        touched = NULL;
}
