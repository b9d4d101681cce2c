#include "app/run_words.h"

#include <string.h>

#include "base/mem.h"
#include "view/report/report.h"

const char *infp_run_state_name(enum infp_run_state state)
{
        static const char *const names[] = {
                [INFP_RUN_RECORDING] = "recording",
                [INFP_RUN_INTERRUPTED] = "interrupted",
                [INFP_RUN_ENDED] = "ended",
                [INFP_RUN_FINISHED] = "finished",
        };

        return names[state];
}

const char *infp_run_command(const struct infp_run *run)
{
        return run->info.command[0] ? run->info.command : run->info.target_command;
}

void infp_run_words(struct infp_str *out, const struct infp_run *run, unsigned width)
{
        infp_autostr struct infp_str words = { 0 }, tame = { 0 };
        size_t size;

        infp_str_puts(&words, infp_run_command(run));
        if (!words.size) {
                infp_str_puts(&words, "(");
                infp_run_target_words(&words, run);
                infp_str_puts(&words, ")");
        }
        if (words.data)
                infp_text_tame(&tame, words.data, words.size);
        if (!tame.data)
                return;
        size = width ? infp_text_fit(tame.data, tame.size, width, NULL) : tame.size;
        if (size == tame.size) {
                infp_str_put(out, tame.data, size);
                return;
        }
        infp_str_put(out, tame.data, infp_text_fit(tame.data, tame.size, width - 1, NULL));
        infp_str_puts(out, "\u2026");
}
