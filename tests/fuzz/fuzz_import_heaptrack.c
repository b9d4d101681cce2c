#define FORMAT "heaptrack"
#include "fuzz_import.h"
