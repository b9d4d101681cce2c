/* `infprof report A B C --group`: a row for each number and variant. */
#pragma once

#include "cli/command.h"

int infp_report_group(const struct infp_arguments *arguments); /* exit code */
