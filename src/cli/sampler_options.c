#include "cli/sampler_options.h"
#include "base/human.h"

#include <errno.h>
#include <string.h>

#include "base/number.h"

enum { MIN_DEPTH = 128, MIN_STACK_BYTES = 1024 };

/* "--NAME", "--NAME=HZ". Stays 0 when it is not given. */
static int read_rate(const struct infp_arguments *arguments, const char *name, double standard, double most,
                     double *ret, struct infp_err *err)
{
        const char *text = infp_argument(arguments, name);
        double hz;

        if (!text)
                return 0;
        *ret = standard;
        if (!*text)
                return 0;
        if (infp_parse_f64(text, strlen(text), &hz) < 0 || !(hz >= 1 && hz <= most))
                return infp_fail(err, -EINVAL, "--%s=%s: the rate must be 1 to %s times a second", name, text,
                                 infp_number(most).text);
        *ret = hz;
        return 0;
}

static int read_sizes(const struct infp_arguments *arguments, struct infp_sampler_options *ret, struct infp_err *err)
{
        const char *size = infp_argument(arguments, "stack-size"), *depth = infp_argument(arguments, "max-stack-depth");
        uint64_t v;

        ret->stack_bytes =
                ret->cpu_hz > INFP_SAMPLER_FAST_HZ ? INFP_SAMPLER_FAST_STACK_BYTES : INFP_SAMPLER_MAX_STACK_BYTES;
        ret->max_depth = INFP_SAMPLER_DEFAULT_DEPTH;
        if (size) {
                if (infp_parse_size(size, &v) < 0 || v < MIN_STACK_BYTES || v > INFP_SAMPLER_MAX_STACK_BYTES + 8)
                        return infp_fail(err, -EINVAL, "--stack-size %s: must be from %d to %d bytes", size,
                                         MIN_STACK_BYTES, INFP_SAMPLER_MAX_STACK_BYTES);
                v = v > INFP_SAMPLER_MAX_STACK_BYTES ? INFP_SAMPLER_MAX_STACK_BYTES : v; /* 64K is what people write */
                ret->stack_bytes = (uint32_t) (v & ~UINT64_C(7));
        }
        if (depth) {
                if (infp_parse_u64(depth, strlen(depth), &v) < 0 || v < MIN_DEPTH || v > INFP_SAMPLER_MAX_DEPTH)
                        return infp_fail(err, -EINVAL, "--max-stack-depth %s: from %d to %d frames", depth, MIN_DEPTH,
                                         INFP_SAMPLER_MAX_DEPTH);
                ret->max_depth = (uint32_t) v;
        }
        if ((size || depth) && !infp_sampler_is_asked(ret))
                return infp_fail(err, -EINVAL, "--%s needs --cpu, --wall or --off-cpu",
                                 size ? "stack-size" : "max-stack-depth");
        return 0;
}

int infp_sampler_options_read(const struct infp_arguments *arguments, struct infp_sampler_options *ret,
                              struct infp_err *err)
{
        const char *root = infp_argument(arguments, "root");

        *ret = (struct infp_sampler_options){ .off_cpu = infp_argument_given(arguments, "off-cpu") };
        INFP_TRY(read_rate(arguments, "cpu", INFP_SAMPLER_DEFAULT_HZ, INFP_SAMPLER_MAX_HZ, &ret->cpu_hz, err));
        INFP_TRY(read_rate(arguments, "wall", INFP_SAMPLER_DEFAULT_WALL_HZ, INFP_SAMPLER_MAX_WALL_HZ, &ret->wall_hz,
                           err));
        if (root && strcmp(root, "/") != 0 && infp_sampler_is_asked(ret))
                return infp_fail(err, -EINVAL, "--root %s: stacks can be sampled only on this machine", root);
        return read_sizes(arguments, ret, err);
}
