/* Any content taken for one foreign format: it becomes rows whose sums are numbers, or is refused with a sentence and leaves
 * nothing. Defines the target; FORMAT names the format. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "import/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char directory[] = "/dev/shm/infprof-fuzz-XXXXXX"; /* in memory: each input is brought to the disk */
static struct infp_run *run;

static void expect(bool truth)
{
        if (!truth)
                abort();
}

static void remove_run(void)
{
        char path[128];

        snprintf(path, sizeof(path), "%s/%s.infprof", directory, run->info.uuid);
        infp_import_discard(run);
        rmdir(path);
        rmdir(directory);
        infp_run_close(run);
}

static void make_run(void)
{
        static char none[] = "", mode[] = "import";
        struct infp_run_info info = { .command = none,
                                      .mode = mode,
                                      .format = none,
                                      .version = none,
                                      .hostname = none,
                                      .target_name = none,
                                      .target_command = none,
                                      .started_unix_ns = 1 };

        if (!mkdtemp(directory)) {
                strcpy(directory, "/tmp/infprof-fuzz-XXXXXX");
                expect(mkdtemp(directory) != NULL);
        }
        infp_uuid_make(info.uuid);
        expect(infp_run_create(directory, &info, &run, NULL) == 0);
        atexit(remove_run);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct infp_import_options options = { .path = "FILE", .format = FORMAT, .stop_fd = -1 };
        struct infp_imported found;
        struct infp_err err = { "" };
        int r;

        if (!run)
                make_run();
        options.fd = memfd_create("fuzz", MFD_CLOEXEC);
        expect(options.fd >= 0 && write(options.fd, data, size) == (ssize_t) size && !lseek(options.fd, 0, SEEK_SET));
        r = infp_import(run, &options, &found, &err);
        close(options.fd);
        infp_import_discard(run);
        if (r < 0) {
                expect(err.text[0] != 0);
                return 0;
        }
        expect(found.rows > 0 && found.samples <= INT64_MAX && found.n_modes > 0);
        expect(found.first_t_ns <= found.last_t_ns && run->info.started_t_ns < run->info.ended_t_ns);
        for (unsigned i = 0; i < found.n_modes; i++)
                expect(found.modes[i].weight >= 0 && isfinite(found.modes[i].weight) && found.modes[i].mode[0]);
        return 0;
}
