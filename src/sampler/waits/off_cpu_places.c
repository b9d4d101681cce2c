#include "sampler/waits/off_cpu_places.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PLACES = INFP_OFF_CPU_MAX_WAITS + INFP_OFF_CPU_MAX_THREADS };

/* ---- copies ---- */

struct infp_off_cpu_copy *infp_off_cpu_copy_new(struct infp_off_cpu_waits *waits, const struct infp_perf_sample *sample)
{
        const size_t python = infp_python_moment_bytes(sample->python), rest = infp_perf_rest_bytes(sample);
        struct infp_off_cpu_copy *copy;
        const size_t bytes = sizeof(*copy) + python + rest + sample->stack_size;

        if (waits->copied_bytes + bytes > INFP_OFF_CPU_MAX_COPIED || sample->n_kernel > INFP_PERF_MAX_KERNEL_FRAMES)
                return NULL;
        copy = malloc(bytes);
        if (!copy)
                return NULL;
        waits->copied_bytes += bytes;
        copy->bytes = bytes;
        copy->sample = *sample;
        copy->sample.wait = NULL; /* borrowed for the call */
        if (sample->n_kernel)
                memcpy(copy->kernel, sample->kernel, sample->n_kernel * sizeof(copy->kernel[0]));
        if (sample->stack_size)
                memcpy(copy->data + python + rest, sample->stack, sample->stack_size);
        copy->sample.kernel = copy->kernel;
        copy->sample.python = infp_python_moment_copy(sample->python, copy->data, &copy->python);
        infp_perf_rest_copy(sample, copy->data + python, &copy->sample);
        copy->sample.stack = copy->data + python + rest;
        return copy;
}

void infp_off_cpu_copy_free(struct infp_off_cpu_waits *waits, struct infp_off_cpu_copy *copy)
{
        waits->copied_bytes -= copy ? copy->bytes : 0;
        free(copy);
}

/* ---- places ---- */

struct infp_off_cpu_place *infp_off_cpu_place_new(struct infp_off_cpu_waits *waits)
{
        struct infp_off_cpu_place *place = waits->n_places < MAX_PLACES ? calloc(1, sizeof(*place)) : NULL;

        if (!place)
                return NULL;
        waits->n_places++;
        place->next = waits->places;
        if (waits->places)
                waits->places->previous = place;
        waits->places = place;
        return place;
}

void infp_off_cpu_place_free(struct infp_off_cpu_waits *waits, struct infp_off_cpu_place *place)
{
        if (place->previous)
                place->previous->next = place->next;
        else
                waits->places = place->next;
        if (place->next)
                place->next->previous = place->previous;
        waits->n_places--;
        free(place);
}

void infp_off_cpu_place_drop(struct infp_off_cpu_waits *waits, struct infp_off_cpu_place *place)
{
        if (!place)
                return;
        place->wait = NULL;
        if (place->is_found)
                infp_off_cpu_place_free(waits, place);
        else
                place->is_orphan = true;
}
