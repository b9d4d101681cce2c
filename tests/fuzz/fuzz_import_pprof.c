#define FORMAT "pprof"
#include "fuzz_import.h"
