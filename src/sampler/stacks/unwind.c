/* From a sample to the addresses of its frames, with the tables that are there; what is missing is asked for. */
#include <string.h>

#include "base/guarded_map.h"
#include "sampler/stacks/parts.h"

enum {
        AHEAD_WORDS = 4096, /* of a stack that are looked at for objects that will be needed */
        GUESS_WORDS = 512,  /* where a guess may find its caller */
};

static struct infp_object *object_of(const struct infp_space *space, uint32_t mapping)
{
        return mapping == INFP_NO_MAPPING ? NULL : space->mappings[mapping].object;
}

static void request(struct infp_stacks *stacks, const struct infp_space_mapping *mapping, int32_t pid)
{
        infp_objects_request(stacks->objects, mapping->object, pid, mapping->begin, mapping->end);
}

/* Asks for all objects that words of the stack, from sp on, point into: mostly they are callers, and one after the other would take
 * a turn each. Returns one of them that is not there yet. */
static const struct infp_object *request_ahead(struct infp_stacks *stacks, struct infp_space *space,
                                               const struct infp_perf_sample *sample, uint64_t sp, uint32_t n_words)
{
        const uint64_t begin = sample->registers[INFP_RSP];
        const struct infp_object *missing = NULL;
        uint64_t low, high, at = sp > begin ? sp - begin : 0;

        if (!space->n)
                return NULL;
        low = space->mappings[0].begin;
        high = space->mappings[space->n - 1].end;
        for (; n_words && at + 8 <= sample->stack_size; at += 8, n_words--) {
                const struct infp_space_mapping *mapping;
                uint64_t word;

                memcpy(&word, sample->stack + at, sizeof(word));
                if (word < low || word >= high)
                        continue;
                mapping = infp_space_find(space, word);
                if (!mapping || mapping->object->state == INFP_OBJECT_READY)
                        continue;
                request(stacks, mapping, sample->pid);
                if (mapping->object->state == INFP_OBJECT_WAITING)
                        missing = mapping->object;
        }
        return missing;
}

/* With the code of all objects at hand: files that may become shorter while they are looked at, as entries of the cache may. */
static void guess(struct infp_stacks *stacks, const struct infp_space *space, struct infp_unwind_start *start,
                  struct infp_unwind_result *ret)
{
        struct infp_guarded_map *first = infp_objects_table_maps(stacks->objects);

        stacks->n_guesses++;
        for (uint32_t i = 0; i < space->n; i++) {
                struct infp_object_image *image = space->mappings[i].object->image;

                if (!space->view[i].code || !image->file_map.at || image->mark == stacks->n_guesses)
                        continue;
                image->mark = stacks->n_guesses; /* one image may be mapped in several places */
                image->file_map.next = first;
                first = &image->file_map;
        }
        start->may_guess = true;
        infp_guarded_map_begin(first);
        infp_unwind(start, &stacks->cache, stacks->frames, stacks->max_depth, ret);
        infp_guarded_map_end();
}

/* An unwind that ended in code without a table. True: *ret_object may bring one. */
static bool ask(struct infp_stacks *stacks, struct infp_space *space, const struct infp_perf_sample *sample,
                const struct infp_unwind_frame *last, bool *ret_is_guessable, const struct infp_object **ret_object)
{
        struct infp_object *object = object_of(space, last->mapping);
        const struct infp_object *missing;

        *ret_is_guessable = false;
        if (!object)
                return false;
        if (object->state != INFP_OBJECT_READY) {
                request(stacks, &space->mappings[last->mapping], sample->pid);
                request_ahead(stacks, space, sample, last->sp, AHEAD_WORDS);
                *ret_object = object;
                return object->state == INFP_OBJECT_WAITING;
        }
        if (sample->unknown)
                return false;
        *ret_is_guessable = true;
        missing = request_ahead(stacks, space, sample, last->sp, GUESS_WORDS);
        if (missing)
                *ret_object = missing;
        return missing != NULL;
}

bool infp_stack_unwind(struct infp_stacks *stacks, struct infp_space *space, const struct infp_perf_sample *sample,
                       bool may_wait, struct infp_unwound *ret, struct infp_unwind_result *ret_result,
                       const struct infp_object **ret_object)
{
        const struct infp_unwind_dump dump = { sample->stack, sample->registers[INFP_RSP], sample->stack_size,
                                               sample->is_cut };
        struct infp_unwind_start start = {
                .dumps = &dump, .n_dumps = 1, .values = sample->registers, .unknown = sample->unknown
        };
        struct infp_unwind_space view;
        bool is_guessable = false;

        *ret = (struct infp_unwound){ .space = space, .frames = stacks->frames };
        *ret_result = (struct infp_unwind_result){ .end = INFP_UNWIND_BROKEN };
        if (infp_space_view(space, stacks->objects, &stacks->last_space_id, &view) < 0)
                return true;
        start.space = &view;
        infp_guarded_map_begin(infp_objects_table_maps(stacks->objects));
        infp_unwind(&start, &stacks->cache, stacks->frames, stacks->max_depth, ret_result);
        infp_guarded_map_end();
        if ((ret_result->end == INFP_UNWIND_NO_TABLE || ret_result->end == INFP_UNWIND_UNSUPPORTED) &&
            ret_result->n_frames) {
                const struct infp_unwind_frame last = stacks->frames[ret_result->n_frames - 1];

                if (ask(stacks, space, sample, &last, &is_guessable, ret_object) && may_wait)
                        return false;
                if (is_guessable)
                        guess(stacks, space, &start, ret_result);
        }
        ret->n_frames = ret_result->n_frames;
        ret->space_id = view.id;
        return true;
}
