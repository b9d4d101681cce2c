#define FORMAT "perf-script"
#include "fuzz_import.h"
