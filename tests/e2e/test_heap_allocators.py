"""record --heap beside allocators that are libraries: functions of theirs that are not malloc. Blocks are so large that each is a sample."""
import collections
import os
import pathlib
import shutil

import pytest

from program import run

FOLDERS = [pathlib.Path("/usr/lib/x86_64-linux-gnu"), pathlib.Path("/usr/lib/aarch64-linux-gnu")]
LIBRARIES = {"tcmalloc": "libtcmalloc_minimal.so.4", "jemalloc": "libjemalloc.so.2", "mimalloc": "libmimalloc.so.2.0"}
EACH = "--heap=1K"  # of blocks of 40,000 bytes one in 1e17 is missed
needs_gxx = pytest.mark.skipif(not shutil.which("g++"), reason="no g++ here")
pytestmark = pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc here")


def library(name):
    for folder in FOLDERS:
        if (folder / LIBRARIES[name]).exists():
            return folder / LIBRARIES[name]
    return pytest.skip(f"no {LIBRARIES[name]} here")


def build(tmp_path, text, *words, name="program"):
    source = tmp_path / (name + (".c" if words[0] == "gcc" else ".cpp"))
    source.write_text(text)
    done = run([*words, "-O1", "-g", "-fno-builtin", source, "-o", tmp_path / name])
    assert done.returncode == 0, done.stderr
    return tmp_path / name


def link(name):
    path = library(name)
    return [path, f"-Wl,--no-as-needed,{path}"]


def counts(recorded):
    """{(size, allocator): (blocks, freed ones)} of 40,000 to 60,000 bytes."""
    found = collections.defaultdict(lambda: [0, 0])
    for row in recorded.table("heap_samples"):
        if 40000 <= row["size"] < 60000:
            found[row["size"], row["allocator"]][0] += 1
            found[row["size"], row["allocator"]][1] += row["freed_ns"] is not None
            assert row["weight"] == pytest.approx(row["size"])
    return {key: tuple(value) for key, value in found.items()}


# Each kind of new with each kind of delete that fits.
OPERATORS = """\
#include <cstddef>
#include <cstdio>
#include <new>
using std::align_val_t;
using std::nothrow;
static void *volatile kept;
#define MAKE(make) for (int i = 0; i < 3; i++) { kept = make; } size += 64
#define DROP(make, ...) for (int i = 0; i < 4; i++) { void *p = make; kept = p; __VA_ARGS__; } size += 64
#define NEW(...) ::operator new(size __VA_OPT__(,) __VA_ARGS__)
#define ARRAY(...) ::operator new[](size __VA_OPT__(,) __VA_ARGS__)
int PROGRAM()
{
        const align_val_t a{64};
        size_t size = 40000;
        kept = ::operator new(39000); // a thread's first 64 KiB may not be counted
        kept = ::operator new(39000);
        MAKE(NEW());
        MAKE(ARRAY());
        MAKE(NEW(nothrow));
        MAKE(ARRAY(nothrow));
        MAKE(NEW(a));
        MAKE(ARRAY(a));
        MAKE(NEW(a, nothrow));
        MAKE(ARRAY(a, nothrow));
        DROP(NEW(), ::operator delete(p));
        DROP(NEW(), ::operator delete(p, size));
        DROP(NEW(nothrow), ::operator delete(p, nothrow));
        DROP(ARRAY(), ::operator delete[](p));
        DROP(ARRAY(), ::operator delete[](p, size));
        DROP(ARRAY(nothrow), ::operator delete[](p, nothrow));
        DROP(NEW(a), ::operator delete(p, a));
        DROP(NEW(a), ::operator delete(p, size, a));
        DROP(NEW(a, nothrow), ::operator delete(p, a, nothrow));
        DROP(ARRAY(a), ::operator delete[](p, a));
        DROP(ARRAY(a), ::operator delete[](p, size, a));
        DROP(ARRAY(a, nothrow), ::operator delete[](p, a, nothrow));
        ::operator delete(nullptr);
        std::printf("%d\\n", (int) size);
        if (REFUSED) {
                const volatile size_t much = (size_t) -1 / 4;
                int thrown = 0;
                try { kept = ::operator new(much); } catch (const std::bad_alloc &) { thrown |= 1; }
                try { kept = ::operator new[](much); } catch (const std::bad_alloc &) { thrown |= 2; }
                try { kept = ::operator new(much, a); } catch (const std::bad_alloc &) { thrown |= 4; }
                std::set_new_handler([] { std::puts("handler"); std::set_new_handler(nullptr); });
                void *none = ::operator new[](much, nothrow);
                std::printf("%d %d %d\\n", thrown, none == nullptr, ::operator new(much, a, nothrow) == nullptr);
        }
        return 7;
}
"""
OF_OPERATORS = {(40000 + 64 * i, "malloc"): (3, 0) if i < 8 else (4, 4) for i in range(20)}


@needs_gxx
@pytest.mark.parametrize("name, way", [(None, "linked"), *((name, way) for name in LIBRARIES for way in ("linked", "preloaded"))])
def test_operators(record, tmp_path, name, way):
    """new and delete of C++, those of libstdc++ and of allocators: each block once, what the program does is unchanged."""
    # Debian's mimalloc ends a program that it has no memory for.
    words = ["g++", "-std=c++20", "-DPROGRAM=main", f"-DREFUSED={int(name != 'mimalloc')}", *(link(name) if name and way == "linked" else [])]
    path = build(tmp_path, OPERATORS, *words)
    environment = {**os.environ, **({"LD_PRELOAD": str(library(name))} if way == "preloaded" else {})}
    alone = run([path], env=environment)
    done = record(EACH, "--no-snapshots", command=[path], env=environment)
    assert (alone.returncode, done.returncode, done.stdout) == (7, 7, alone.stdout), done.stderr
    assert counts(done.run) == OF_OPERATORS


@needs_gxx
@pytest.mark.parametrize("name", [None, "tcmalloc"])
def test_operators_of_a_library_that_is_opened_later(record, tmp_path, name):
    """By a program without C++: new and delete of its libstdc++ are not among those that come after ours."""
    build(tmp_path, OPERATORS, "g++", "-std=c++20", "-DPROGRAM=later", "-DREFUSED=1", "-fPIC", "-shared", name="later.so")
    path = build(tmp_path, """\
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
        void *library = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
        int (*later)(void) = library ? (int (*)(void)) dlsym(library, "_Z5laterv") : NULL;
        const char *error = dlerror();
        if (error)
                puts(error);
        return later ? later() : 1;
}
""", "gcc")
    environment = {**os.environ, **({"LD_PRELOAD": str(library(name))} if name else {})}
    alone = run([path, tmp_path / "later.so"], env=environment)
    done = record(EACH, "--no-snapshots", command=[path, tmp_path / "later.so"], env=environment)
    assert (alone.returncode, done.returncode, done.stdout) == (7, 7, alone.stdout), done.stderr
    assert counts(done.run) == OF_OPERATORS


def test_sized_free_of_c23(record, tmp_path):
    """Also where libc has none: a program that looks for it finds one that works."""
    path = build(tmp_path, """\
#include <stdlib.h>
void free_sized(void *, size_t) __attribute__((weak));
void free_aligned_sized(void *, size_t, size_t) __attribute__((weak));
static void *volatile kept;
int main(void)
{
        kept = malloc(100000);
        for (int i = 0; i < 10; i++) {
                void *p = kept = malloc(40000), *q = kept = aligned_alloc(64, 40064);
                free_sized ? free_sized(p, 40000) : free(p);
                free_aligned_sized ? free_aligned_sized(q, 64, 40064) : free(q);
        }
        return 7;
}
""", "gcc")
    done = record(EACH, "--no-snapshots", command=[path])
    assert run([path]).returncode == done.returncode == 7, done.stderr
    assert counts(done.run) == {(40000, "malloc"): (10, 10), (40064, "malloc"): (10, 10)}
