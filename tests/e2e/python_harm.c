/* A program that must run as it does without infprof: says how, and how many libraries named infprof it has mapped. It is built for other C
 * libraries, statically, for 32 bits, as setuid, with the address sanitizer. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t n_signals;

static void count(int number)
{
        n_signals += number == SIGPROF;
}

int main(int argc, char **argv)
{
        struct sigaction old;
        char line[4096];
        FILE *maps = fopen("/proc/self/maps", "r");
        int n = 0;

        while (maps && fgets(line, sizeof(line), maps))
                n += strstr(line, "libinfprof-agent") != NULL;
        sigaction(SIGPROF, NULL, &old);
        printf("default %d agent %d", old.sa_handler == SIG_DFL, n);
        if (signal(SIGPROF, count) == SIG_DFL && raise(SIGPROF) == 0 && signal(SIGPROF, SIG_DFL) == count)
                printf(" signals %d", (int) n_signals);
        printf(" words %d %s\n", argc, argc > 1 ? argv[1] : "");
        return 7;
}
