#define FORMAT "speedscope"
#include "fuzz_import.h"
