#!/bin/sh
# Every C file is as .clang-format says; prints what differs.
cd "$(dirname "$0")/../.." || exit 1
git -c safe.directory='*' ls-files '*.c' '*.h' | xargs clang-format-14 --dry-run --Werror
