/* What -h and `infprof help` print, wrapped at the terminal's width. */
#pragma once

#include "cli/command.h"

/* Of every verb: -h. */
extern const struct infp_option infp_help_option;

void infp_help_command(const struct infp_command *command);
void infp_help_overview(void);
/* All of it as one JSON object, from which tools/manual makes manual pages and completion. */
void infp_help_json(void);
