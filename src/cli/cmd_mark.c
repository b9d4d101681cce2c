/* infprof mark: puts a tag on the time line of a live run. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/str.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/command.h"
#include "store/live.h"

enum { MAX_TAG = 4096, ANSWER_MS = 10000 };

static const struct infp_option options[] = {
        { 'r', "run", "UUID",
          "the beginning of a live run's uuid (default: the run we are in, else your newest, in any directory)",
          false },
        { 0 },
};

static void put_message(struct infp_str *out, const char *tag, size_t size, uint64_t t_ns)
{
        struct infp_json json;

        infp_json_begin(&json, out, 0);
        infp_json_object(&json);
        infp_json_key(&json, "table");
        infp_json_str(&json, "marks");
        infp_json_key(&json, "rows");
        infp_json_array(&json);
        infp_json_object(&json);
        infp_json_key(&json, "t_ns");
        infp_json_u64(&json, t_ns);
        infp_json_key(&json, "source");
        infp_json_str(&json, "mark");
        infp_json_key(&json, "tag");
        infp_json_strn(&json, tag, size);
        infp_json_object_end(&json);
        infp_json_array_end(&json);
        infp_json_object_end(&json);
}

static int run(const struct infp_arguments *arguments)
{
        /* First of all: the moment is the caller's, not the one when the recorder has been found. */
        uint64_t t_ns = infp_clock_ns(CLOCK_MONOTONIC);
        infp_autostr struct infp_str message = { 0 };
        struct infp_err err = { "" };
        char tag[MAX_TAG];
        size_t size;

        if (arguments->n_rest != 1 || !arguments->rest[0][0]) {
                infp_say("mark: it takes one TAG; see `infprof mark -h`");
                return INFP_EXIT_USAGE;
        }
        size = infp_text_escape(arguments->rest[0], strlen(arguments->rest[0]), tag, sizeof(tag));
        put_message(&message, tag, size, t_ns);
        if (message.failed) {
                infp_say("mark: not enough memory");
                return INFP_EXIT_FAILURE;
        }
        if (infp_live_send(infp_argument(arguments, "run"), message.data, message.size, ANSWER_MS, &err) < 0)
                return infp_say_failure(&err);
        return INFP_EXIT_OK;
}

const struct infp_command infp_command_mark = {
        .name = "mark",
        .summary = "put a tag on the time line of a live run (table marks)",
        .operands = "TAG",
        .options = options,
        .more = "It returns when the tag is on disk. `infprof report --from TAG --to TAG` reads between two of "
                "them.\n\n"
                "examples:\n"
                "  infprof mark warm-up-done",
        .run = run,
};
