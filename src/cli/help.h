/* What -h and `infprof help` print, wrapped at the terminal's width. */
#pragma once

#include "cli/command.h"

/* Everybody's: -h. */
extern const struct infp_option infp_help_option;

void infp_help_command(const struct infp_command *command);
void infp_help_overview(void);
/* All of it as one object, which tools/manual makes manual pages and completion of. */
void infp_help_json(void);
