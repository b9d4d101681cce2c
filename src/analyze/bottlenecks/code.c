#include "analyze/bottlenecks/code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

/* Each is one of: the beginning of the base name of the object, of the function's name, a part of the path of its source. */
static const struct sign {
        enum infp_code_kind kind;
        const char *object, *function, *file;
} signs[] = {
        { INFP_CODE_ALLOCATOR, NULL, "_int_malloc", NULL },
        { INFP_CODE_ALLOCATOR, NULL, "__libc_malloc", NULL },
        { INFP_CODE_ALLOCATOR, NULL, "__libc_calloc", NULL },
        { INFP_CODE_ALLOCATOR, NULL, "__libc_realloc", NULL },
        { INFP_CODE_ALLOCATOR, NULL, "__libc_free", NULL },
        { INFP_CODE_ALLOCATOR, NULL, "_int_free", NULL },
        { INFP_CODE_ALLOCATOR, NULL, "_int_realloc", NULL },
        { INFP_CODE_ALLOCATOR, NULL, "posix_memalign", NULL },
        { INFP_CODE_ALLOCATOR, NULL, "aligned_alloc", NULL },
        { INFP_CODE_ALLOCATOR, NULL, "operator new", NULL },
        { INFP_CODE_ALLOCATOR, NULL, "operator delete", NULL },
        { INFP_CODE_ALLOCATOR, "libjemalloc", NULL, NULL },
        { INFP_CODE_ALLOCATOR, "libtcmalloc", NULL, NULL },
        { INFP_CODE_ALLOCATOR, "libmimalloc", NULL, NULL },
        { INFP_CODE_TOKENIZER, "tokenizers.", NULL, NULL },
        { INFP_CODE_TOKENIZER, "_tiktoken", NULL, NULL },
        { INFP_CODE_TOKENIZER, "_sentencepiece", NULL, NULL },
        { INFP_CODE_TOKENIZER, "libsentencepiece", NULL, NULL },
        { INFP_CODE_TOKENIZER, NULL, "llama_tokenize", NULL },
        { INFP_CODE_TOKENIZER, NULL, "llama_vocab::impl::tokenize", NULL },
        { INFP_CODE_TOKENIZER, NULL, "llm_tokenizer_", NULL },
        { INFP_CODE_TOKENIZER, NULL, "common_tokenize", NULL },
        { INFP_CODE_TOKENIZER, NULL, "tokenizers::", NULL },
        { INFP_CODE_TOKENIZER, NULL, "sentencepiece::", NULL },
        { INFP_CODE_TOKENIZER, NULL, NULL, "/transformers/tokenization_" },
        { INFP_CODE_TOKENIZER, NULL, NULL, "/tiktoken/" },
        { INFP_CODE_SAMPLING, NULL, "llama_sampler_", NULL },
        { INFP_CODE_SAMPLING, NULL, "common_sampler_", NULL },
        { INFP_CODE_SAMPLING, NULL, NULL, "/vllm/v1/sample/" },
        { INFP_CODE_SAMPLING, NULL, NULL, "/layers/sampler.py" },
        { INFP_CODE_SAMPLING, NULL, NULL, "/transformers/generation/logits_process.py" },
        { INFP_CODE_LOCK, NULL, "pthread_mutex_lock", NULL },
        { INFP_CODE_LOCK, NULL, "__pthread_mutex_lock", NULL },
        { INFP_CODE_LOCK, NULL, "___pthread_mutex_lock", NULL },
        { INFP_CODE_LOCK, NULL, "pthread_mutex_timedlock", NULL },
        { INFP_CODE_LOCK, NULL, "pthread_mutex_clocklock", NULL },
        { INFP_CODE_LOCK, NULL, "pthread_rwlock_", NULL },
        { INFP_CODE_LOCK, NULL, "__pthread_rwlock_", NULL },
        { INFP_CODE_LOCK, NULL, "___pthread_rwlock_", NULL },
        { INFP_CODE_LOCK, NULL, "__lll_lock_wait", NULL },
        { INFP_CODE_LOCK, NULL, "absl::Mutex::Lock", NULL },
        { INFP_CODE_LOCK, NULL, "std::sys::sync::mutex", NULL },
        { INFP_CODE_LOCK, NULL, "parking_lot::raw_mutex", NULL },
        { INFP_CODE_LOCK, NULL, "sync.(*Mutex).lockSlow", NULL },
};

static bool starts(const char *text, const char *with)
{
        return with && text && !strncmp(text, with, strlen(with));
}

/* Short names begin those of many others. */
static bool is_c_allocator(const char *function)
{
        static const char *const names[] = { "malloc", "calloc", "realloc", "free", "cfree", "malloc_consolidate" };

        for (size_t i = 0; function && i < INFP_COUNT(names); i++)
                if (!strcmp(function, names[i]))
                        return true;
        return false;
}

static bool is_sign(const struct sign *sign, const char *object, const char *function, const char *file)
{
        return starts(object, sign->object) || starts(function, sign->function) ||
               (sign->file && file && strstr(file, sign->file));
}

/* A bit a kind. */
static unsigned kinds_of(const struct infp_profile *profile, const struct infp_profile_frame *frame)
{
        const char *path = infp_profile_str(profile, frame->object), *object = path ? infp_base_name(path) : NULL;
        unsigned ret = 0;

        for (uint16_t k = 0; k < frame->n_levels; k++) {
                const struct infp_profile_level *level = &profile->levels[frame->first_level + k];
                const char *function = infp_profile_str(profile, level->name),
                           *file = infp_profile_str(profile, level->file);

                for (size_t i = 0; i < INFP_COUNT(signs); i++)
                        if (is_sign(&signs[i], object, function, file))
                                ret |= 1U << signs[i].kind;
                if (is_c_allocator(function))
                        ret |= 1U << INFP_CODE_ALLOCATOR;
        }
        return ret;
}

static bool is_libc(const struct infp_profile *profile, const struct infp_profile_frame *frame)
{
        const char *path = infp_profile_str(profile, frame->object), *object = path ? infp_base_name(path) : NULL;

        return starts(object, "libc.so") || starts(object, "libc-") || starts(object, "libpthread") ||
               starts(object, "ld-musl");
}

/* What a stack is: of the allocator and of locks by the frames that the program called, of the others by any frame. */
static unsigned kinds_of_stack(const struct infp_profile *profile, const uint8_t *of_frames, uint32_t node)
{
        const unsigned own = 1U << INFP_CODE_ALLOCATOR | 1U << INFP_CODE_LOCK;
        bool is_inside = true;
        unsigned ret = 0;

        for (; node != INFP_PROFILE_NONE; node = profile->nodes[node].parent) {
                const uint32_t at = profile->nodes[node].frame;
                const struct infp_profile_frame *frame = &profile->frames[at];

                ret |= of_frames[at] & (is_inside ? ~0U : ~own);
                is_inside &= frame->kind == INFP_FRAME_KERNEL || is_libc(profile, frame);
        }
        return ret;
}

/* The innermost frame of the program: what the kernel does for it says nothing about where it is. */
static uint32_t outside_kernel(const struct infp_profile *profile, uint32_t node)
{
        while (node != INFP_PROFILE_NONE && profile->frames[profile->nodes[node].frame].kind == INFP_FRAME_KERNEL)
                node = profile->nodes[node].parent;
        return node;
}

static int add(const struct infp_profile *profile, const struct infp_profile_sum *sum, unsigned kinds,
               struct infp_code *code)
{
        for (unsigned kind = 0; kind < INFP_CODE_KINDS; kind++) {
                struct infp_code_sum *of = &code->of[kind];

                if (!(kinds >> kind & 1))
                        continue;
                of->seconds += sum->weight;
                of->samples += sum->samples;
                INFP_TRY(
                        infp_profile_places_add(&of->places, profile, outside_kernel(profile, sum->node), sum->weight));
        }
        return 0;
}

/* Runnable threads do not wait for a lock. */
static unsigned kinds_of_mode(const struct infp_profile *profile, const struct infp_profile_sum *sum)
{
        const char *state = infp_profile_str(profile, sum->state);

        switch (infp_stack_mode_of(infp_profile_str(profile, sum->mode))) {
        case INFP_STACK_CPU:
                return ~(1U << INFP_CODE_LOCK);
        case INFP_STACK_OFF_CPU:
                return state && !strcmp(state, "runnable") ? 0 : 1U << INFP_CODE_LOCK;
        default:
                return 0;
        }
}

static int read_sums(const struct infp_profile *profile, const uint8_t *of_frames, struct infp_code *ret)
{
        for (uint32_t i = 0; i < profile->n_sums; i++) {
                const struct infp_profile_sum *sum = &profile->sums[i];
                const unsigned wanted = kinds_of_mode(profile, sum);

                if (wanted & 1U << INFP_CODE_ALLOCATOR) {
                        ret->samples += sum->samples;
                        ret->seconds += sum->weight;
                        ret->squares += sum->squares;
                }
                if (wanted && sum->node != INFP_PROFILE_NONE)
                        INFP_TRY(add(profile, sum, wanted & kinds_of_stack(profile, of_frames, sum->node), ret));
        }
        for (unsigned kind = 0; kind < INFP_CODE_KINDS; kind++)
                infp_profile_places_sort(&ret->of[kind].places);
        return 0;
}

int infp_code_read(const struct infp_profile *profile, struct infp_code *ret)
{
        infp_autofree uint8_t *of_frames = calloc((size_t) profile->n_frames + 1, 1);

        *ret = (struct infp_code){ 0 };
        if (!of_frames)
                return -ENOMEM;
        for (uint32_t i = 0; i < profile->n_frames; i++)
                of_frames[i] = (uint8_t) kinds_of(profile, &profile->frames[i]);
        return read_sums(profile, of_frames, ret);
}

void infp_code_done(struct infp_code *code)
{
        for (unsigned kind = 0; kind < INFP_CODE_KINDS; kind++)
                infp_profile_places_done(&code->of[kind].places);
        *code = (struct infp_code){ 0 };
}

double infp_code_effective(const struct infp_code *code)
{
        return code->squares > 0 ? code->seconds * code->seconds / code->squares : 0;
}
