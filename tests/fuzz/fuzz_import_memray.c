#define FORMAT "memray"
#include "fuzz_import.h"
