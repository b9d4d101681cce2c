/* The library's generated readers of Arrow messages, which do not compile with our warnings. */
#pragma once

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#pragma GCC diagnostic ignored "-Wunused-function"
#include "nanoarrow/ipc/flatcc_generated.h"
#pragma GCC diagnostic pop

#define fb(name) org_apache_arrow_flatbuf_##name
