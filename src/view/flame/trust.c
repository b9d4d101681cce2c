#include "view/flame/trust.h"

#include <math.h>
#include <string.h>

#include "base/human.h"
#include "base/mem.h"
#include "view/flame/words.h"

static const double most_rejected = 0.1; /* of reads; above it the profile is biased */

void infp_trust_count(struct infp_str *out, double v, const char *one, const char *many)
{
        infp_human_number(out, v);
        infp_str_printf(out, " %s", v == 1 ? one : many);
}

void infp_trust_share(struct infp_str *out, double part, double whole)
{
        infp_str_printf(out, "%s %%",
                        infp_fixed(whole > 0 ? 100 * part / whole : 0, part > 0 && part / whole < 0.001 ? 3 : 1).text);
}

static void put_taken(struct infp_str *out, const struct infp_sampling_mode *s)
{
        if (isnan(s->taken))
                return;
        infp_str_puts(out, "Taken: ");
        infp_trust_count(out, s->taken, "sample", "samples");
        if (!isnan(s->wanted) && s->wanted > 0) {
                infp_str_puts(out, " of ");
                infp_human_number(out, s->wanted);
                infp_str_puts(out, " wanted (");
                infp_trust_share(out, s->taken, s->wanted);
                infp_str_putc(out, ')');
        }
        if (!isnan(s->rate_hz)) {
                infp_str_puts(out, " at ");
                infp_human_number(out, s->rate_hz);
                infp_str_puts(out, " Hz");
        }
        if (*s->method)
                infp_str_printf(out, " by %s", s->method);
        infp_str_puts(out, ". ");
}

/* Each thread runs a whole period before its first sample (docs/cpu.md). */
static void put_unseen(struct infp_str *out, const struct infp_sampling_mode *s, bool is_nothing_lost)
{
        if (is_nothing_lost && s->rate_hz > 0 && s->taken < 0.9 * s->wanted && s->wanted - s->taken >= 10)
                infp_str_printf(out,
                                "The missing time cannot be sampled: threads and processes that live for less than %s "
                                "ms (a higher rate shows them), and the kernel where its stacks are not permitted. ",
                                infp_number(1000 / s->rate_hz).text);
}

static void put_lost(struct infp_str *out, const struct infp_sampling_mode *s)
{
        const bool is_timed = !strncmp(s->method, "BPF at switches", 15),
                   /* threads are read in rounds, without records of the kernel */
                is_wall = s->mode == INFP_STACK_WALL, is_async = s->mode == INFP_STACK_ASYNC,
                   is_lag = s->mode == INFP_STACK_LAG, is_stopped = !strncmp(s->method, "stops", 5);
        const struct {
                double n;
                const char *one, *many;
        } losses[] = {
                { s->lost,
                  is_wall      ? "sample of a round that came too late"
                  : is_async   ? "read of a task put off to bound the cost, or beyond 1,024 tasks"
                  : is_lag     ? "look at an event loop whose callbacks cannot be read"
                  : is_stopped ? "stop that took too long, or was left out after such a one"
                  : is_timed   ? "wait without a sample, since there was no room for it"
                               : "record lost by the kernel",
                  is_wall      ? "samples of rounds that came too late"
                  : is_async   ? "reads of tasks put off to bound the cost, or beyond 1,024 tasks"
                  : is_lag     ? "looks at event loops whose callbacks cannot be read"
                  : is_stopped ? "stops that took too long, or were left out after such a one"
                  : is_timed   ? "waits without a sample, since there was no room for it"
                               : "records lost by the kernel" },
                { s->dropped, "dropped because a buffer was full", "dropped because a buffer was full" },
                { s->throttled, "pause by the kernel", "pauses by the kernel" },
                { s->skipped_threads, "thread not sampled", "threads not sampled" },
        };
        bool is_first = true;

        for (unsigned i = 0; i < INFP_COUNT(losses); i++)
                if (losses[i].n > 0) {
                        infp_str_puts(out, is_first ? "Missing: " : ", ");
                        infp_trust_count(out, losses[i].n, losses[i].one, losses[i].many);
                        is_first = false;
                }
        infp_str_puts(out, is_first && !isnan(s->lost) ? "Nothing was lost. " : is_first ? "" : ". ");
        put_unseen(out, s, is_first);
}

/* "Stacks without their outer frames: 7.7 %." */
static void put_ends(struct infp_str *out, const struct infp_flame *f)
{
        const uint64_t truncated = f->truncated_samples - f->cut_samples;

        if (!f->truncated_samples) {
                infp_str_puts(out, "Every stack reaches its outermost frame. ");
                return;
        }
        infp_str_puts(out, "Stacks without their outermost frames: ");
        infp_trust_share(out, (double) truncated, (double) f->samples);
        infp_flame_cut_bytes(out, f);
        if (f->cut_samples) {
                infp_str_puts(out, ", cut because the run's tables are damaged: ");
                infp_trust_share(out, (double) f->cut_samples, (double) f->samples);
        }
        infp_str_puts(out, ". ");
}

/* Frames beyond the kernel's copies, of which those that were read after the sample may be another call's; and of what is missing, what a
 * larger copy would not have helped. */
static void put_copies(struct infp_str *out, const struct infp_sampling_mode *s)
{
        const struct {
                double n;
                const char *what;
        } parts[] = { { s->deep, "Stacks deeper than their copy, read further at the same moment: " },
                      { s->completed, "Stacks completed from memory just after the sample: " },
                      { s->moved,
                        "Stacks that stayed cut, since the thread had moved on before their rest was read: " },
                      { s->incomplete, "Stacks that were copied but could not be unwound to their end: " } };

        const bool is_one_each = s->mode == INFP_STACK_CPU; /* a stack of a wait stands for many samples, or for none */

        for (unsigned i = 0; i < INFP_COUNT(parts) && s->taken > 0; i++)
                if (parts[i].n > 0) {
                        infp_str_puts(out, parts[i].what);
                        if (is_one_each)
                                infp_trust_share(out, parts[i].n, s->taken);
                        else
                                infp_human_number(out, parts[i].n);
                        infp_str_puts(out, ". ");
                }
}

static void put_names(struct infp_str *out, const struct infp_flame *f, const struct infp_sampling_mode *s)
{
        if (f->guessed_samples) {
                infp_str_puts(out, "Samples with a guessed frame: ");
                infp_trust_share(out, (double) f->guessed_samples, (double) f->samples);
                if (s && s->frames > 0 && s->guessed_frames > 0) {
                        infp_str_puts(out, " (");
                        infp_trust_share(out, s->guessed_frames, s->frames);
                        infp_str_puts(out, " of all frames)");
                }
                infp_str_puts(out, ". ");
        } else {
                infp_str_puts(out, "No frame was guessed. ");
        }
        if (f->wait_samples)
                infp_str_puts(out, "Waits count as self time of the innermost function outside the kernel. ");
        if (f->unnamed_samples) {
                infp_str_puts(out, "Samples whose innermost function has no name: ");
                infp_trust_share(out, (double) f->unnamed_samples, (double) f->samples);
                infp_str_puts(out, ". ");
        } else {
                infp_str_puts(out, "Every innermost function has a name. ");
        }
}

/* "Python frames: 99.9 % of 1,384 stacks have theirs, by a BPF program; native frames alone has 1 that does not fit its native frames." */
static void put_python_share(struct infp_str *out, const struct infp_sampling_mode *s)
{
        const struct {
                double n;
                const char *one, *many;
        } without[] = {
                { s->python_unmerged, "that does not fit its native frames", "that do not fit their native frames" },
                { s->python_torn, "whose Python frames could not be read whole",
                  "whose Python frames could not be read whole" },
                { s->python_missed, "whose frames were not read", "whose frames were not read" },
        };
        const double native = s->python_merged + s->python_unmerged + s->python_torn + s->python_missed,
                     alone = s->python_alone > 0 ? s->python_alone : 0, all = native + alone;
        bool is_first = true;

        if (!(all > 0))
                return;
        infp_str_puts(out, "Python frames: ");
        infp_trust_share(out, s->python_merged + alone, all);
        infp_str_puts(out, " of ");
        infp_trust_count(out, all, "stack has", "stacks have");
        infp_str_printf(out, " theirs, by %s", s->python_method);
        if (alone > 0) {
                infp_str_puts(out, "; ");
                infp_trust_count(out, alone, "of them has", "of them have");
                infp_str_puts(out, " no native frames");
        }
        for (unsigned i = 0; i < INFP_COUNT(without); i++)
                if (without[i].n > 0) {
                        infp_str_puts(out, is_first ? "; native frames alone have " : ", ");
                        infp_trust_count(out, without[i].n, without[i].one, without[i].many);
                        is_first = false;
                }
        infp_str_puts(out, ". ");
}

/* Of tasks of asyncio, whose frames are Python's alone. */
static void put_tasks(struct infp_str *out, const struct infp_sampling_mode *s)
{
        const double torn = s->python_torn > 0 ? s->python_torn : 0, all = s->taken + torn;

        if (!(all > 0))
                return;
        infp_str_puts(out, "Of ");
        infp_trust_count(out, all, "read of a task", "reads of tasks");
        infp_str_puts(out, ", torn since it changed meanwhile: ");
        infp_trust_share(out, torn, all);
        infp_str_puts(out, ". ");
}

/* Of threads that are read from outside. What is rejected is mostly what calls and returns, or sleeps, without end. */
static void put_rejected(struct infp_str *out, const struct infp_sampling_mode *s, bool is_stopped)
{
        const double all = s->taken + s->python_rejected + (s->python_torn > 0 ? s->python_torn : 0);

        if (!(all > 0))
                return;
        if (!is_stopped)
                infp_str_printf(out,
                                "These are Python frames alone, by %s: native stacks of the same time are mode cpu, "
                                "and are never merged with them. ",
                                s->python_method);
        infp_str_puts(out, "Of ");
        infp_trust_count(out, all, "read", "reads");
        infp_str_puts(out, ", rejected since the thread had moved on: ");
        infp_trust_share(out, s->python_rejected, all);
        infp_str_puts(out, ", torn: ");
        infp_trust_share(out, s->python_torn > 0 ? s->python_torn : 0, all);
        infp_str_puts(out, ". ");
        if (s->python_rejected > most_rejected * all)
                infp_str_printf(out,
                                "This profile is biased: functions that make few calls, and do not sleep, are seen too "
                                "often. With CAP_BPF and CAP_PERFMON%s it is not. ",
                                is_stopped ? "" : ", or by --blocking,");
}

/* Native stacks contain Python functions only if we read them, or if the interpreter names them for perf. */
static void put_python(struct infp_str *out, const struct infp_flame *f, const struct infp_sampling_mode *s)
{
        uint64_t evaluated = 0;

        if (s && s->mode == INFP_STACK_ASYNC)
                put_tasks(out, s);
        else if (s && *s->python_method && s->mode != INFP_STACK_PYTHON && s->mode != INFP_STACK_LAG)
                put_python_share(out, s);
        if (s && *s->python_method && !isnan(s->python_rejected))
                put_rejected(out, s, s->mode != INFP_STACK_PYTHON);
        if (s && s->python_unknown > 0) {
                infp_trust_count(out, s->python_unknown, "program runs", "programs run");
                infp_str_puts(out, " a Python that is not known, or may not be read: `sources` says which. ");
        }
        for (uint32_t i = 0; i < f->n_functions; i++) {
                const struct infp_flame_function *function = &f->functions[i];

                if (function->kind == INFP_FRAME_PYTHON && !function->is_group)
                        return;
                if (!strcmp(function->name, "_PyEval_EvalFrameDefault") && function->total_samples > evaluated)
                        evaluated = function->total_samples;
        }
        if (20 * evaluated > f->samples)
                infp_str_puts(out,
                              "Python functions have no names: `infprof doctor` says which right is missing to read "
                              "them; else run Python 3.12 or later with -X perf, or for any version use `py-spy "
                              "record -f raw` and `infprof import`. ");
}

void infp_sampling_words(struct infp_str *out, const struct infp_flame *flame, const struct infp_sampling_mode *s)
{
        if (s) {
                put_taken(out, s);
                put_lost(out, s);
        }
        if (flame && infp_stack_mode_of(flame->mode) == INFP_STACK_LAG)
                infp_str_puts(out, "A callback that held its event loop for 100 ms or more counts from the first look "
                                   "at it to the last, which is less than it took. ");
        if (flame && flame->samples)
                put_ends(out, flame);
        if (s)
                put_copies(out, s);
        if (flame && flame->samples) {
                put_names(out, flame, s);
                put_python(out, flame, s);
        }
        if (s && !isnan(s->own_cpu_s)) {
                infp_str_puts(out, "Sampling took ");
                infp_human_seconds(out, s->own_cpu_s);
                infp_str_puts(out, " of CPU.");
        }
        while (out->size && out->data[out->size - 1] == ' ')
                out->data[--out->size] = 0;
}

void infp_sampling_none(struct infp_str *out, const struct infp_sampling_mode *s, const struct infp_absence *refused)
{
        if (refused) {
                infp_str_printf(out, "no stack samples: %s%s%s", refused->reason, *refused->fix ? "; fix: " : "",
                                refused->fix);
                return;
        }
        infp_str_puts(out, "no stack samples, of ");
        infp_human_number(out, s->wanted);
        infp_str_puts(out, " expected from the target's CPU time: it waited (`infprof record --wall` shows where), or "
                           "its threads lived shorter than a period (a higher rate, --cpu=999, shows them)");
}
