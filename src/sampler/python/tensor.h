/* Tensors of PyTorch in the memory of another process: shape, type and device, as far as its own fields prove where they are. */
#pragma once

#include "base/str.h"
#include "unwind/python/walk.h"

/* head: bytes of an object's head. name: of its class. False: it is no tensor that is known. */
bool infp_python_tensor_put(const struct infp_python_memory *memory, uint64_t object, unsigned head, const char *name,
                            struct infp_str *out);
