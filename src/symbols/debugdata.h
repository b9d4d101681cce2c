/* .gnu_debugdata: the symbol table that some distributions leave in stripped programs, an ELF file packed by xz. */
#pragma once

#include "symbols/image.h"

/* 0: *ret is the unpacked image. -ENOENT: the file has none; -ENOPKG: liblzma is not there; -EBADMSG, -EFBIG, -ENOMEM. */
int infp_debugdata_open(struct infp_image *image, const char *path, struct infp_image *ret, struct infp_err *err);
