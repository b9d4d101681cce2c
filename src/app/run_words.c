#include "app/run_words.h"

#include <string.h>

#include "base/mem.h"
#include "view/format.h"

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

/* What was recorded where no command line is known. */
static void put_what(struct infp_str *out, const struct infp_run *run)
{
        if (run->problem)
                infp_str_puts(out, "(its run.json cannot be read)");
        else if (strcmp(run->info.mode, "host") == 0)
                infp_str_puts(out, "(this machine)");
        else if (run->info.target_port)
                infp_str_printf(out, "(the process that listens on port %u)", run->info.target_port);
        else if (run->info.target_name[0])
                infp_str_printf(out, "(processes named %s)", run->info.target_name);
        else if (run->info.n_target_pids)
                infp_str_printf(out, "(process %d)", run->info.target_pids[0]);
        else
                infp_str_puts(out, "(a process that was already running)");
}

void infp_run_words(struct infp_str *out, const struct infp_run *run, unsigned width)
{
        infp_autostr struct infp_str words = { 0 }, tame = { 0 };
        size_t size;

        infp_str_puts(&words, infp_run_command(run));
        if (!words.size)
                put_what(&words, run);
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
