#define FORMAT "folded"
#include "fuzz_import.h"
