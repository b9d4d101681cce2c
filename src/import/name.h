/* What a frame's name shows besides the name: its kind, the object of unnamed code, file and line of a Python function. */
#pragma once

#include "base/str.h"
#include "import/writer.h"

/* Of an object's path: kernel, vdso, C++ runtime, JIT; INFP_FRAME_NATIVE for any other, INFP_FRAME_UNKNOWN without one. */
enum infp_frame_kind infp_import_kind_of_object(struct infp_import_text object);
/* Of a source file: Python, Go; else `otherwise`. */
enum infp_frame_kind infp_import_kind_of_file(struct infp_import_text file, enum infp_frame_kind otherwise);

/* Fills the one level and the kind of a place from a name alone, as texts have it: "[unknown]", "[libfoo.so]" and
 * "[libfoo.so+0x1200]" are unnamed, "run (server.py:12)" and "server.py:run:12" are Python's. Points into the name. */
void infp_import_name(struct infp_import_text name, struct infp_import_place *ret);

/* Names a place by its object, and by the address in it unless `address` is NULL: "[libfoo.so+0x1200]", "[libfoo.so]", "[0x1200]",
 * "[unknown]"; "[vdso]" stays as it is. Points into `out`, which it fills, or into the object's. */
struct infp_import_text infp_import_place_name(struct infp_str *out, struct infp_import_text object,
                                               const uint64_t *address);
