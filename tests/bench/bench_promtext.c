/* How fast pages of metrics are read: MB of page per second of CPU time.
 *
 *   bench_promtext FLOOR FILE...   best of several rounds a file; exit code 1 when the slowest is below FLOOR MB/s */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/number.h"
#include "base/promtext/promtext.h"

enum { ROUNDS = 7 };

struct sum {
        double value;
        uint64_t n_labels;
};

static int add(void *context, const struct infp_prom_sample *sample)
{
        struct sum *sum = context;

        sum->value += sample->value;
        sum->n_labels += sample->n_labels;
        return 0;
}

static double cpu_s(void)
{
        struct timespec now;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
        return (double) now.tv_sec + (double) now.tv_nsec / 1e9;
}

/* MB/s, or negative. */
static double measure(struct infp_promtext *parser, const char *text, size_t size, uint64_t *ret_samples)
{
        double best = -1;

        for (int round = 0; round < ROUNDS; round++) {
                double start = cpu_s(), spent;
                uint64_t bytes = 0;

                do {
                        struct infp_prom_page page;
                        struct sum sum = { 0 };

                        if (infp_promtext_parse(parser, text, size, false, add, &sum, &page, NULL) < 0 ||
                            page.n_bad_lines)
                                return -1;
                        bytes += size;
                        *ret_samples = page.n_samples;
                        spent = cpu_s() - start;
                } while (spent < 0.03);
                if ((double) bytes / 1e6 / spent > best)
                        best = (double) bytes / 1e6 / spent;
        }
        return best;
}

int main(int argc, char **argv)
{
        struct infp_promtext *parser = infp_promtext_new();
        infp_autoclose int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
        double slowest = 1e9, floor_mb;
        int code = 0;

        if (!parser || argc < 3)
                return 2;
        floor_mb = strtod(argv[1], NULL);
        for (int i = 2; i < argc; i++) {
                infp_autofree char *text = NULL;
                ssize_t size = infp_read_all_at(argv[i][0] == '/' ? root : AT_FDCWD, argv[i], 64u << 20, &text);
                uint64_t samples = 0;
                double speed = size < 0 ? -1 : measure(parser, text, (size_t) size, &samples);

                if (speed < 0) {
                        fprintf(stderr, "%s: cannot be read\n", argv[i]);
                        code = 2;
                        continue;
                }
                printf("%8.0f MB/s  %8zd bytes  %6llu samples  %s\n", speed, size, (unsigned long long) samples,
                       argv[i]);
                slowest = speed < slowest ? speed : slowest;
        }
        if (slowest < floor_mb) {
                printf("over budget: the slowest page is read at %.0f MB/s, it should be %.0f\n", slowest, floor_mb);
                code = 1;
        }
        infp_promtext_free(parser);
        return code;
}
