/* The marks around the time in which the idle power is measured: set by the recorder, found by the report. */
#pragma once

#define INFP_BASELINE_SOURCE "infprof"
#define INFP_BASELINE_START "energy-baseline-start"
#define INFP_BASELINE_END "energy-baseline-end"
