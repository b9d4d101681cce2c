/* Two threads pass a byte to and fro through pipes: ping_pong [ROUNDS]. A round is a wait of each. Prints
   what that took: CPU time, wall-clock time, switches. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static int to[2], from[2];

static void *pong(void *unused)
{
        char c;
        while (read(to[0], &c, 1) == 1 && write(from[1], &c, 1) == 1)
                ;
        return unused;
}

int main(int argc, char **argv)
{
        const int n = argc > 1 ? atoi(argv[1]) : 20000;
        char c = 'x';
        struct timespec begin, end;
        pthread_t id;

        if (pipe(to) || pipe(from) || pthread_create(&id, NULL, pong, NULL))
                return 1;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (int i = 0; i < n; i++)
                if (write(to[1], &c, 1) != 1 || read(from[0], &c, 1) != 1)
                        return 1;
        clock_gettime(CLOCK_MONOTONIC, &end);
        printf("{\"program\": \"ping_pong\", \"cpu_s\": %.6f, \"wall_s\": %.6f, \"switches\": %d}\n",
               (double) clock() / CLOCKS_PER_SEC,
               (double) (end.tv_sec - begin.tv_sec) + (double) (end.tv_nsec - begin.tv_nsec) / 1e9, 2 * n);
        close(to[1]);
        return pthread_join(id, NULL);
}
