/* 64-bit content hashes (XXH64 of libxxhash): equal on every machine and in every run. Not for secrets. */
#pragma once

#include <stddef.h>
#include <stdint.h>

uint64_t infp_hash64(const void *data, size_t size, uint64_t seed);
