/* What the waits of --off-cpu are made of. */
#include "sampler/waits/off_cpu_parts.h"

#include <stdlib.h>
#include <string.h>

#include "base/time.h"

enum { MAX_STATES = 16384, MAX_PLACES = INFP_OFF_CPU_MAX_WAITS + INFP_OFF_CPU_MAX_THREADS };

const char *infp_off_cpu_word(struct infp_off_cpu_waits *waits, const char *text)
{
        const char *word = infp_wall_word(&waits->words, text);

        return word ? word : "blocked";
}

/* ---- copies ---- */

struct infp_off_cpu_copy *infp_off_cpu_copy_new(struct infp_off_cpu_waits *waits, const struct infp_perf_sample *sample)
{
        struct infp_off_cpu_copy *copy;

        if (waits->n_copies >= INFP_OFF_CPU_MAX_COPIES || sample->n_kernel > INFP_PERF_MAX_KERNEL_FRAMES)
                return NULL;
        copy = malloc(sizeof(*copy) + sample->stack_size);
        if (!copy)
                return NULL;
        waits->n_copies++;
        copy->sample = *sample;
        if (sample->n_kernel)
                memcpy(copy->kernel, sample->kernel, sample->n_kernel * sizeof(copy->kernel[0]));
        if (sample->stack_size)
                memcpy(copy->stack, sample->stack, sample->stack_size);
        copy->sample.kernel = copy->kernel;
        copy->sample.stack = copy->stack;
        return copy;
}

void infp_off_cpu_copy_free(struct infp_off_cpu_waits *waits, struct infp_off_cpu_copy *copy)
{
        waits->n_copies -= copy != NULL;
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

static void free_place(struct infp_off_cpu_waits *waits, struct infp_off_cpu_place *place)
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
                free_place(waits, place);
        else
                place->is_orphan = true;
}

void infp_off_cpu_place_found(struct infp_off_cpu_waits *waits, struct infp_off_cpu_place *place,
                              const struct infp_stack_found *found)
{
        struct infp_stack_found *own = &place->found;

        place->is_found = true;
        if (place->is_orphan) {
                free_place(waits, place);
                return;
        }
        *own = *found;
        own->mode = INFP_STACK_OFF_CPU;
        own->cpu = -1;
        if (place->call)
                infp_stacks_extend(waits->stacks, own, INFP_FRAME_KERNEL, place->call);
        if (place->wchan)
                infp_stacks_extend(waits->stacks, own, INFP_FRAME_KERNEL, place->wchan);
        /* One that is closed is told with the others at the end of the turn. */
        if (place->wait && place->wait->list == &waits->telling && !place->wait->is_closing)
                infp_off_cpu_wait_tell(waits, place->wait, place->wait->in_ns);
}

void infp_off_cpu_place_unread(struct infp_off_cpu_waits *waits, struct infp_off_cpu_place *place)
{
        struct infp_stack_found found = { .cpu = -1 };

        infp_stacks_thread(waits->stacks, place->pid, place->tid, &found);
        found.stack = found.depth = 0;
        infp_off_cpu_place_found(waits, place, &found);
}

static void free_waits(struct infp_off_cpu_waits *waits, struct infp_off_cpu_wait *wait)
{
        while (wait) {
                struct infp_off_cpu_wait *next = wait->next;

                infp_off_cpu_copy_free(waits, wait->copy);
                free(wait);
                wait = next;
        }
}

void infp_off_cpu_places_done(struct infp_off_cpu_waits *waits)
{
        free_waits(waits, waits->open);
        free_waits(waits, waits->closed);
        free_waits(waits, waits->telling);
        while (waits->places)
                free_place(waits, waits->places);
        infp_wall_words_done(&waits->words);
        infp_map_done(&waits->states);
        waits->open = waits->closed = waits->telling = NULL;
}

/* ---- waits ---- */

struct infp_off_cpu_wait *infp_off_cpu_wait_new(struct infp_off_cpu_waits *waits, int32_t pid, int32_t tid)
{
        struct infp_off_cpu_wait *wait = waits->n_waits < INFP_OFF_CPU_MAX_WAITS ? malloc(sizeof(*wait)) : NULL;

        if (!wait)
                return NULL;
        *wait = (struct infp_off_cpu_wait){ .pid = pid, .tid = tid };
        waits->n_waits++;
        return wait;
}

void infp_off_cpu_wait_link(struct infp_off_cpu_wait **list, struct infp_off_cpu_wait *wait)
{
        wait->list = list;
        wait->previous = NULL;
        wait->next = *list;
        if (*list)
                (*list)->previous = wait;
        *list = wait;
}

void infp_off_cpu_wait_unlink(struct infp_off_cpu_wait *wait)
{
        if (!wait->list)
                return;
        if (wait->previous)
                wait->previous->next = wait->next;
        else
                *wait->list = wait->next;
        if (wait->next)
                wait->next->previous = wait->previous;
        wait->list = NULL;
}

void infp_off_cpu_wait_free(struct infp_off_cpu_waits *waits, struct infp_off_cpu_wait *wait)
{
        infp_off_cpu_wait_unlink(wait);
        infp_off_cpu_copy_free(waits, wait->copy);
        infp_off_cpu_place_drop(waits, wait->place);
        free(wait);
        waits->n_waits--;
}

static void on_found(void *context, uint64_t cookie, const struct infp_stack_found *found)
{
        infp_off_cpu_place_found(context, (struct infp_off_cpu_place *) (uintptr_t) cookie, found);
}

void infp_off_cpu_wait_find(struct infp_off_cpu_waits *waits, struct infp_off_cpu_wait *wait)
{
        struct infp_off_cpu_copy *copy = wait->copy;
        struct infp_off_cpu_place *place = wait->place;

        if (!copy && place)
                return;
        place = infp_off_cpu_place_new(waits);
        if (!place)
                return;
        if (wait->place && !wait->state)
                wait->state = wait->place->state;
        infp_off_cpu_place_drop(waits, wait->place);
        wait->place = place;
        wait->copy = NULL;
        place->wait = wait;
        place->pid = wait->pid;
        place->tid = wait->tid;
        wait->has_kernel = copy && copy->sample.n_kernel;
        wait->is_closing = true; /* found at once: the caller reports it */
        if (copy)
                infp_stacks_take(waits->stacks, &copy->sample, INFP_STACK_OFF_CPU, on_found, waits,
                                 (uint64_t) (uintptr_t) place);
        else
                infp_off_cpu_place_unread(waits, place);
        wait->is_closing = false;
        infp_off_cpu_copy_free(waits, copy);
}

/* The state of a wait by what the reader says. Where it did not come by in time: of an earlier wait with the very same stack, the
 * kernel's frames included, since that waits for the same. */
static const char *state_of(struct infp_off_cpu_waits *waits, const struct infp_off_cpu_wait *wait, uint64_t stack)
{
        const char *state = wait->state ? wait->state : wait->place->state;
        const uint64_t *learned;

        if (wait->is_preempted)
                return infp_off_cpu_word(waits, "runnable");
        if (!wait->has_kernel)
                return state ? state : infp_off_cpu_word(waits, "blocked");
        learned = infp_map_get(&waits->states, stack);
        if (state) {
                if (!learned && waits->states.n < MAX_STATES)
                        infp_map_put(&waits->states, stack, (uint64_t) (uintptr_t) state);
                return state;
        }
        return learned ? (const char *) (uintptr_t) *learned : infp_off_cpu_word(waits, "blocked");
}

void infp_off_cpu_wait_tell(struct infp_off_cpu_waits *waits, struct infp_off_cpu_wait *wait, uint64_t until_ns)
{
        struct infp_off_cpu_place *place = wait->place;

        if (!place) /* there was no room for one */
                waits->n_refused += wait->is_over;
        if (place && !place->is_found) {
                place->wait = wait;
                return;
        }
        if (place && until_ns > wait->told_ns) {
                struct infp_stack_found found = place->found;

                if (!found.stack)
                        infp_stacks_extend(waits->stacks, &found, INFP_FRAME_UNKNOWN,
                                           wait->is_preempted ? "[waits for a CPU]" : "[no stack was read]");
                found.t_ns = wait->told_ns;
                found.samples = !wait->has_row;
                infp_stacks_put(waits->stacks, &found, (double) (until_ns - wait->told_ns) / 1e9,
                                state_of(waits, wait, found.stack));
                waits->n_taken += !wait->has_row;
                wait->has_row = true;
                wait->told_ns = until_ns;
        }
        if (wait->is_over)
                infp_off_cpu_wait_free(waits, wait);
}

void infp_off_cpu_thread_free(struct infp_off_cpu_waits *waits, struct infp_off_cpu_thread *thread)
{
        if (thread->wait)
                infp_off_cpu_wait_free(waits, thread->wait);
        infp_off_cpu_copy_free(waits, thread->copy);
        infp_off_cpu_place_drop(waits, thread->place);
        free(thread);
}

/* ---- cost ---- */

bool infp_off_cpu_is_costly(struct infp_off_cpu_cost *cost, uint64_t n_switches, double cpu_s, uint64_t now_ns)
{
        static const double cheap = 0.05, news = 1.5;
        const struct infp_off_cpu_cost last = *cost;
        const uint64_t ns = now_ns - last.looked_ns;

        if (last.looked_ns && ns < INFP_NS_PER_S)
                return false;
        cost->looked_ns = now_ns;
        cost->looked_switches = n_switches;
        cost->looked_cpu_s = cpu_s;
        if (!last.looked_ns)
                return false;
        cost->rate = (double) (n_switches - last.looked_switches) * 1e9 / (double) ns;
        cost->share = (cpu_s - last.looked_cpu_s) * 1e9 / (double) ns;
        if (cost->share <= cheap || cost->share <= news * cost->said_share)
                return false;
        cost->said_share = cost->share;
        return true;
}
