/* Calls of every kind, and the files that they leave. For one test file. */
#pragma once

#include <dirent.h>

#include "ring_file.h"

static inline unsigned n_files(void)
{
        DIR *stream = opendir(directory);
        unsigned n = 0;

        for (struct dirent *entry; stream && (entry = readdir(stream));)
                n += strstr(entry->d_name, ".ring") != NULL;
        closedir(stream);
        return n;
}

static inline void clean(void)
{
        char command[128];

        snprintf(command, sizeof command, "rm -f %s/*.ring", directory);
        CHECK(system(command) == 0);
}

static infp_metric *counter, *gauge;

static inline void call_all(unsigned n)
{
        for (unsigned i = 0; i < n; i++) {
                infp_span span = infp_span_begin("span"), request = infp_span_start("request", &span);

                infp_span_text(&request, INFP_GEN_AI_REQUEST_MODEL, "tiny");
                infp_span_int(&span, "n", i);
                infp_mark("mark");
                infp_add(counter, 1);
                infp_set(gauge, i);
                infp_step();
                infp_span_fail(&request, "none");
                infp_span_end(&span);
        }
}

static inline void open_all(void)
{
        CHECK_EQUAL(infp_enable(), 0);
        counter = infp_counter("c", NULL, NULL);
        gauge = infp_gauge("g", NULL, NULL);
}
