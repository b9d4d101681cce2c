#define FORMAT "heap-text"
#include "fuzz_import.h"
