"""record --heap beside allocators that are libraries: functions of theirs that are not malloc. Blocks are so large that each is a sample."""
import collections
import glob
import os
import pathlib
import re
import shutil

import pytest

import waits
from namespaces import unshare
from program import run
from pythons import PYTHONS

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
    done = run([words[0], source, *words[1:], "-O1", "-g", "-fno-builtin", "-o", tmp_path / name])
    assert done.returncode == 0, done.stderr
    return tmp_path / name


def link(name):
    path = library(name)
    return [f"-Wl,--no-as-needed,{path}"]


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


@needs_gxx
def test_operators_that_a_library_defines_for_itself(record, tmp_path):
    """One that is opened later, by a program without C++, keeps its own new and delete: its blocks have a head that it reads."""
    library = build(tmp_path, """\
#include <cstdio>
#include <cstdlib>
#include <new>
static int n;
void *operator new(std::size_t size)
{
        char *block = static_cast<char *>(std::malloc(size + 64));
        if (!block)
                throw std::bad_alloc();
        *reinterpret_cast<std::size_t *>(block) = size;
        n++;
        return block + 64;
}
void operator delete(void *block) noexcept { std::free(static_cast<char *>(block) - 64); }
void operator delete(void *block, std::size_t) noexcept { std::free(static_cast<char *>(block) - 64); }
extern "C" int later()
{
        char *volatile block = static_cast<char *>(::operator new(40000));
        std::printf("%d %zu\\n", n, *reinterpret_cast<std::size_t *>(block - 64));
        ::operator delete(block);
        return 7;
}
""", "g++", "-fPIC", "-shared", name="own.so")
    path = build(tmp_path, """\
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv)
{
        void *library = dlopen(argv[argc - 1], RTLD_NOW | RTLD_LOCAL);
        int (*later)(void) = library ? (int (*)(void)) dlsym(library, "later") : NULL;
        printf("%d\\n", dlsym(RTLD_DEFAULT, "_Znwm") != NULL);
        return later ? later() : 1;
}
""", "gcc", "-D_GNU_SOURCE")
    alone = run([path, library])
    done = record(EACH, "--no-snapshots", command=[path, library])
    assert (alone.returncode, done.returncode, done.stdout) == (7, 7, alone.stdout), done.stderr
    assert counts(done.run)[40064, "malloc"] == (1, 1)


def test_sized_free_of_c23(record, tmp_path):
    """Also where libc has none: a program that looks for it finds one that works."""
    path = build(tmp_path, """\
#include <stdlib.h>
void free_sized(void *, size_t) __attribute__((weak));
void free_aligned_sized(void *, size_t, size_t) __attribute__((weak));
static void *volatile kept;
int main(void)
{
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


# Each kind of mapping has a size of its own, in KiB from 40 on.
MAPS = """\
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
enum { RW = PROT_READ | PROT_WRITE, MEMORY = MAP_PRIVATE | MAP_ANONYMOUS };
static char *get(size_t kib, int protection, int flags)
{
        return mmap(NULL, kib << 10, protection, flags, -1, 0);
}
static void *thread(void *p) { return p; }
int main(void)
{
        char *p, *q;
        pthread_t one;
        int file = open("/proc/self/exe", O_RDONLY);

        for (int i = 0; i < 3; i++)
                memset(get(40, RW, MEMORY), 1, 40 << 10);
        for (int i = 0; i < 3; i++)
                munmap(get(44, RW, MEMORY), 44 << 10);
        p = mmap64(NULL, 45000, RW, MEMORY, -1, 0); /* not of whole pages */
        munmap(p, 45000);
        /* No memory: */
        get(48, PROT_NONE, MEMORY);
        get(48, RW, MEMORY | MAP_NORESERVE);
        get(48, RW, MEMORY | MAP_STACK);
        get(48, RW, MAP_SHARED | MAP_ANONYMOUS);
        get(48, PROT_READ, MEMORY);
        mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
        errno = 0;
        p = mmap(NULL, 0, RW, MEMORY, -1, 0);
        printf("%d %d\\n", p == MAP_FAILED, errno == EINVAL);
        errno = 0;
        printf("%d %d\\n", munmap((char *) 1, 4096), errno == EINVAL);
        errno = 99;
        /* The middle goes, then the begin, then the end: 160 in one, 40 and 100, 80, 60. */
        p = get(160, RW, MEMORY);
        memset(p, 1, 160 << 10);
        munmap(p + (40 << 10), 20 << 10);
        munmap(p, 40 << 10);
        munmap(p + (60 << 10), 40 << 10);
        munmap(p + (140 << 10), 20 << 10);
        printf("%d %d\\n", p[100 << 10], errno);
        /* Commits into a reservation, and one over another. */
        p = get(1000, PROT_NONE, MEMORY);
        q = mmap(p, 52 << 10, RW, MEMORY | MAP_FIXED, -1, 0);
        mmap(p + (100 << 10), 52 << 10, RW, MEMORY | MAP_FIXED, -1, 0);
        mmap(p, 52 << 10, PROT_NONE, MEMORY | MAP_FIXED | MAP_NORESERVE, -1, 0);
        printf("%d\\n", p == q);
        /* It grows, shrinks and moves. */
        p = get(56, RW, MEMORY);
        memset(p, 7, 56 << 10);
        p = mremap(p, 56 << 10, 1056 << 10, MREMAP_MAYMOVE);
        p = mremap(p, 1056 << 10, 57 << 10 & ~4095, MREMAP_MAYMOVE);
        q = get(400, PROT_NONE, MEMORY);
        p = mremap(p, 56 << 10, 56 << 10, MREMAP_MAYMOVE | MREMAP_FIXED, q);
        printf("%d %d\\n", p == q, p[1000]);
        q = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
        q = mremap(q, 4096, 48 << 10, MREMAP_MAYMOVE);
        printf("%d\\n", q != MAP_FAILED);
        for (int i = 0; i < 20; i++) {
                pthread_create(&one, NULL, thread, NULL);
                pthread_join(one, NULL);
                free(malloc(50000000));
        }
        return 7;
}
"""


def test_mappings(record, tmp_path):
    """What a program maps itself, once each, and what of it is no more; neither reservations nor files, nor what libc maps."""
    path = build(tmp_path, MAPS, "gcc", "-pthread")
    alone = run([path])
    done = record(EACH, "--no-snapshots", command=[path])
    assert (alone.returncode, done.returncode, done.stdout) == (7, 7, alone.stdout), done.stderr
    found = collections.Counter((row["size"] / 1024, row["freed_ns"] is not None) for row in done.run.table("heap_samples")
                                if row["allocator"] == "mmap" and row["size"] < 2000 << 10)
    assert found == {(40, False): 3 + 1, (44, True): 3, (45000 / 1024, True): 1, (160, True): 1, (40, True): 1, (100, True): 1, (60, True): 1,
                     (52, True): 1, (52, False): 1, (56, True): 2, (1056, True): 1, (56, False): 1}, found
    rows = [row for row in done.run.table("heap_samples") if row["allocator"] == "mmap"]
    assert all(row["weight"] == pytest.approx(row["size"]) for row in rows)
    assert {row["size"] for row in done.run.table("heap_samples") if row["size"] >= 50000000} == {50000000}


@pytest.mark.parametrize("way", ["linked", "preloaded"])
@pytest.mark.parametrize("name", LIBRARIES)
def test_mappings_of_an_allocator(record, tmp_path, name, way):
    """They hold blocks, which are counted: not twice."""
    path = build(tmp_path, """\
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
int main(void)
{
        for (int i = 0; i < 2000; i++)
                memset(malloc(50000), 1, 50000);
        memset(malloc(300 << 20), 1, 1000);
        memset(mmap(NULL, 41 << 10, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1, 41 << 10);
        return 7;
}
""", "gcc", *(link(name) if way == "linked" else []))
    done = record(EACH, "--no-snapshots", command=[path], env={**os.environ, **({"LD_PRELOAD": str(library(name))} if way == "preloaded" else {})})
    assert done.returncode == 7, done.stderr
    rows = done.run.table("heap_samples")
    assert [row["size"] for row in rows if row["allocator"] == "mmap"] == [41 << 10]
    assert sum(row["weight"] for row in rows if row["allocator"] == "malloc") == pytest.approx(2000 * 50000 + (300 << 20), rel=1e-3)


@pytest.mark.skipif(not PYTHONS, reason="no Python to record")
@pytest.mark.parametrize("name", PYTHONS)
def test_mappings_of_python(record, name):
    """Arenas hold objects, which are counted. What a program maps is not in them."""
    words, environment = PYTHONS[name]
    code = "import mmap\nkept = [b'%0100d' % i for i in range(300000)]\none = mmap.mmap(-1, 4100 << 10, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n"
    done = record("--heap=16K", "--no-snapshots", command=[*words, "-c", code], env={**os.environ, **environment})
    assert done.returncode == 0, done.stderr
    sizes = [row["size"] for row in done.run.table("heap_samples") if row["allocator"] == "mmap"]
    is_free_threaded = re.search(r"3\.[\d.]+t", name)  # all that the interpreter's own file maps is left out
    assert sizes == [4100 << 10] or (is_free_threaded and sizes == []), sizes


def test_mappings_of_many_threads(record, tmp_path):
    """Parts of one that threads unmap at once: none stays, and none is another thread's at the same place."""
    path = build(tmp_path, """\
#include <pthread.h>
#include <sys/mman.h>
enum { THREADS = 4, ROUNDS = 3000, PAGE = 4096 };
static char *shared;
static pthread_barrier_t barrier;
static void *work(void *which)
{
        for (int i = 0; i < ROUNDS; i++) {
                if (!which)
                        shared = mmap(NULL, THREADS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                pthread_barrier_wait(&barrier);
                munmap(shared + (long) which * PAGE, PAGE);
                char *own = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                munmap(own + PAGE, PAGE);
                pthread_barrier_wait(&barrier);
                munmap(own, PAGE);
                pthread_barrier_wait(&barrier);
        }
        return mmap(NULL, 7 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
int main(void)
{
        pthread_t threads[THREADS];
        pthread_barrier_init(&barrier, NULL, THREADS);
        for (long i = 0; i < THREADS; i++)
                pthread_create(&threads[i], NULL, work, (void *) i);
        for (long i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        return 7;
}
""", "gcc", "-pthread")
    done = record("--heap=4K", "--no-snapshots", command=[path])
    assert done.returncode == 7, done.stderr
    rows = [row for row in done.run.table("heap_samples") if row["allocator"] == "mmap"]
    assert len(rows) > 10000
    live = collections.Counter(row["size"] for row in rows if row["freed_ns"] is None)
    assert sum(n for size, n in live.items() if size != 7 * 4096) <= 0.001 * len(rows), live  # a thread that has no CPU is not waited for


# ---- functions with names of their own ----

# As programs find out which allocator they have: by weak references and by dlsym.
OWN = """\
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define WEAK __attribute__((weak))
void *mallocx(size_t, int) WEAK, *rallocx(void *, size_t, int) WEAK;
size_t xallocx(void *, size_t, size_t, int) WEAK;
void dallocx(void *, int) WEAK, sdallocx(void *, size_t, int) WEAK;
void *mi_malloc(size_t) WEAK, *mi_zalloc(size_t) WEAK, *mi_calloc(size_t, size_t) WEAK, *mi_realloc(void *, size_t) WEAK, *mi_recalloc(void *, size_t, size_t) WEAK,
        *mi_malloc_aligned(size_t, size_t) WEAK, *mi_memalign(size_t, size_t) WEAK, *mi_expand(void *, size_t) WEAK, *mi_reallocf(void *, size_t) WEAK;
int mi_posix_memalign(void **, size_t, size_t) WEAK;
char *mi_strdup(const char *) WEAK;
void mi_free(void *) WEAK, mi_free_size(void *, size_t) WEAK;
void *tc_malloc(size_t) WEAK, *tc_calloc(size_t, size_t) WEAK, *tc_realloc(void *, size_t) WEAK, *tc_new(size_t) WEAK, *tc_memalign(size_t, size_t) WEAK;
void tc_free(void *) WEAK, tc_delete_sized(void *, size_t) WEAK;
enum { SIZE = 40000, STEP = 64 };
static size_t size = SIZE;
static void *volatile kept;
#define GIVE(...) do { for (int i = 0; i < 3; i++) kept = __VA_ARGS__; size += STEP; } while (0)
#define END(make, ...) do { for (int i = 0; i < 4; i++) { void *p = kept = make; __VA_ARGS__; } size += STEP; } while (0)
static int jemalloc(void)
{
        void *p;
        GIVE(mallocx(size, 0));                                    /* 0 */
        END(mallocx(size, 0), dallocx(p, 0));                      /* 1 */
        END(mallocx(size, 0), sdallocx(p, size, 0));               /* 2 */
        END(malloc(size), dallocx(p, 0));                          /* 3 */
        END(mallocx(size, 0), free(p));                            /* 4 */
        GIVE(rallocx(mallocx(size - SIZE + 100, 0), size, 0));     /* 5 */
        p = mallocx(size, 0);                                      /* 6, which becomes 6 again */
        printf("%d", xallocx(p, size, 0, 0) >= size);
        printf("%d", xallocx(p, (size_t) 1 << 40, 0, 0) < (size_t) 1 << 40);
        return 2;
}
static int mimalloc(void)
{
        void *p;
        static char text[50000];
        memset(text, 'x', sizeof(text) - 1);
        GIVE(mi_malloc(size));                                     /* 0 */
        END(mi_zalloc(size), mi_free(p));                          /* 1 */
        END(mi_calloc(size / 64, 64), mi_free_size(p, size));      /* 2 */
        END(malloc(size), mi_free(p));                             /* 3 */
        END(mi_malloc_aligned(size, 64), free(p));                 /* 4 */
        GIVE(mi_realloc(mi_malloc(100), size));                    /* 5 */
        GIVE(mi_recalloc(NULL, size / 64, 64));                    /* 6 */
        GIVE(mi_memalign(64, size));                               /* 7 */
        GIVE((mi_posix_memalign(&p, 64, size), p));                /* 8 */
        GIVE(mi_reallocf(NULL, size));                             /* 9 */
        kept = mi_strdup(text);
        kept = p = mi_malloc(48000);
        printf("%d%d", mi_expand(p, 48000) == p, mi_expand(p, 1 << 30) == NULL);
        printf("%d", mi_posix_memalign(&p, 3, size) != 0);
        return 3;
}
static int tcmalloc(void)
{
        GIVE(tc_malloc(size));                                     /* 0 */
        END(tc_calloc(size / 64, 64), tc_free(p));                 /* 1 */
        END(tc_new(size), tc_delete_sized(p, size));               /* 2 */
        END(malloc(size), tc_free(p));                             /* 3 */
        END(tc_memalign(64, size), free(p));                       /* 4 */
        GIVE(tc_realloc(tc_malloc(100), size));                    /* 5 */
        return 4;
}
int PROGRAM(void)
{
        const char *const names[] = { "mallocx", "sdallocx", "mallctl", "mi_malloc", "tc_malloc" };
        int r = 1;
        for (int i = 0; i < 5; i++)
                printf("%d %s\\n", dlsym(RTLD_DEFAULT, names[i]) != NULL, dlerror() ? "error" : "");
        if (mallocx && rallocx && xallocx && dallocx && sdallocx)
                r = jemalloc();
        if (mi_malloc)
                r = mimalloc();
        if (tc_malloc)
                r = tcmalloc();
        return r;
}
"""
K, E = (3, 0), (4, 4)
OF_OWN = {"jemalloc": (2, [K, E, E, E, E, K, (2, 1)]), "mimalloc": (3, [K, E, E, E, E, K, K, K, K, K]), "tcmalloc": (4, [K, E, E, E, E, K]), None: (1, [])}
EXTRA = {"mimalloc": {(48000, "malloc"): (2, 1), (50000, "malloc"): (1, 0)}}


@pytest.mark.parametrize("way", [["-fPIE", "-pie", "-Wl,-z,lazy"], ["-fPIE", "-pie", "-Wl,-z,now"], ["-fno-pie", "-no-pie"], ["-fno-plt", "-fPIE", "-pie"], ["library"]],
                         ids=["lazy", "now", "no-pie", "no-plt", "library"])
@pytest.mark.parametrize("name", [None, *LIBRARIES])
def test_functions_of_an_allocator(record, tmp_path, name, way):
    """Blocks of functions that are not malloc, once each; programs find what they find without us, and in one without such an allocator nothing."""
    linked = link(name) if name else []
    if way == ["library"]:
        build(tmp_path, OWN, "gcc", "-fPIC", "-shared", "-DPROGRAM=of_library", *linked, name="libown.so")
        path = build(tmp_path, "int of_library(void); int main(void) { return of_library(); }", "gcc", *linked, "-Wl,--no-as-needed", tmp_path / "libown.so",
                     f"-Wl,-rpath,{tmp_path}")
    else:
        path = build(tmp_path, OWN, "gcc", *way, "-DPROGRAM=main", *linked)
    alone = run([path])
    done = record(EACH, "--no-snapshots", command=[path])
    code, expected = OF_OWN[name]
    assert (alone.returncode, done.returncode, done.stdout) == (code, code, alone.stdout), done.stderr
    assert ("1" in alone.stdout) == (name is not None)
    assert counts(done.run) == {**{(40000 + 64 * i, "malloc"): n for i, n in enumerate(expected)}, **EXTRA.get(name, {})}


@pytest.mark.parametrize("name", LIBRARIES)
def test_functions_of_an_allocator_that_is_preloaded(record, tmp_path, name):
    path = build(tmp_path, OWN, "gcc", "-DPROGRAM=main")
    environment = {**os.environ, "LD_PRELOAD": str(library(name))}
    alone = run([path], env=environment)
    done = record(EACH, "--no-snapshots", command=[path], env=environment)
    code, expected = OF_OWN[name]
    assert (alone.returncode, done.returncode, done.stdout) == (code, code, alone.stdout), done.stderr
    assert counts(done.run) == {**{(40000 + 64 * i, "malloc"): n for i, n in enumerate(expected)}, **EXTRA.get(name, {})}


def test_functions_that_the_program_defines_itself(record, tmp_path):
    """A library's call that was not bound yet goes to the program's own, not to those of the allocator that is loaded, too."""
    library_of_calls = build(tmp_path, """\
#include <stddef.h>
void *mi_malloc(size_t);
int mi_version(void);
void *get(void) { return mi_version() ? mi_malloc(40000) : NULL; }
""", "gcc", "-fPIC", "-shared", "-Wl,-z,lazy", *link("mimalloc"), name="calls.so")
    path = build(tmp_path, """\
#include <stddef.h>
static _Alignas(16) char block[40000];
void *mi_malloc(size_t size) { return size <= sizeof(block) ? block : NULL; }
void *get(void);
int main(void) { return get() == block ? 7 : 1; }
""", "gcc", "-rdynamic", library_of_calls, *link("mimalloc"))
    assert run([path]).returncode == 7
    done = record(EACH, "--no-snapshots", command=[path])
    assert done.returncode == 7, done.stderr


@needs_gxx
def test_each_block_is_counted_once(record, tmp_path):
    """Also where the next sample happens to be as far as the last one was: new of jemalloc asks malloc for aligned blocks, and not for others."""
    path = build(tmp_path, """\
#include <cstdlib>
#include <new>
int main()
{
        for (int i = 0; i < 20000; i++) {
                void *volatile p = ::operator new(40000, std::align_val_t{64}), *volatile q = ::operator new(50000);
                ::operator delete(p, std::align_val_t{64});
                ::operator delete(q);
        }
        return 7;
}
""", "g++", "-std=c++17", *link("jemalloc"))
    done = record(EACH, "--no-snapshots", command=[path])
    assert done.returncode == 7, done.stderr
    lost = [row["lost"] + row["dropped"] for row in done.run.table("sampler") if row["mode"] == "heap-allocated"][-1]
    found = counts(done.run)
    assert set(found) == {(40000, "malloc"), (50000, "malloc")} and all(20000 - lost <= n <= 20000 for n, _ in found.values()), (found, lost)


# ---- programs whose heap is not seen ----

LIVES = """\
#include <stdlib.h>
#include <unistd.h>
#ifdef TEXT
const char text[] = TEXT;
#endif
int main(void)
{
        for (int i = 0; i < 1000; i++) {
                char *volatile p = malloc(10000);
                p[0] = 1;
        }
        sleep(1);
        return 7;
}
"""
GO = next(iter(sorted(glob.glob("/usr/lib/go-1.*/bin/go"))), None) or shutil.which("go")
SLEEPS = "package main\nimport (\"os\"; \"time\")\nfunc main() { time.Sleep(time.Second); os.Exit(7) }\n"


def reasons(recorded):
    return [row["reason"] for row in recorded.table("sources") if row["collector"] == "sampler" and row["instance"] == "heap"]


@pytest.mark.parametrize("kind, words, sentence", [
    ("static", ["gcc", "-static"], "is not recorded: its program is linked statically"),
    ("musl", ["musl-gcc"], "is not recorded: its program is one of musl"),
    ("32-bit", ["gcc", "-m32"], "is not recorded: its program has 32 bits"),
    ("jemalloc", ["gcc", "-Wl,-Bstatic", "-ljemalloc", "-Wl,-Bdynamic", "-lstdc++", "-lm", "-pthread"], "lacks the blocks of jemalloc, which is linked statically"),
    ("tcmalloc", ["gcc", "-Wl,-Bstatic", "-ltcmalloc_minimal", "-Wl,-Bdynamic", "-lstdc++", "-lm", "-pthread"], "lacks the blocks of tcmalloc, which is linked statically"),
    ("glibc", ["gcc"], None),
    ("text", ["gcc", '-DTEXT="TCMALLOC_RELEASE_RATE"'], None),
])
def test_programs_that_are_not_seen(record, tmp_path, kind, words, sentence):
    source = tmp_path / "lives.c"
    source.write_text(LIVES)
    if not shutil.which(words[0]) or run([words[0], source, *words[1:], "-o", tmp_path / kind]).returncode != 0:
        pytest.skip(f"{' '.join(words)} cannot build a program here")
    done = record("--heap", "-t", "100", "--no-snapshots", command=[tmp_path / kind])
    assert done.returncode == 7, done.stderr
    said = [reason for reason in reasons(done.run) if sentence and sentence in reason]
    assert len(said) == (sentence is not None) and all(reason in done.stderr and f"({kind})" in reason for reason in said), done.stderr
    assert sentence or reasons(done.run) == []


def test_programs_of_the_same_number(infprof, run_dir, tmp_path):
    """Files of two file systems may have the same inode: each is looked at."""
    words = unshare()
    source = tmp_path / "lives.c"
    source.write_text(LIVES)
    if run(["gcc", "-static", source, "-o", tmp_path / "program"]).returncode != 0:
        pytest.skip("gcc -static cannot build a program here")
    script = "\n".join(f"mkdir {name} && mount -t tmpfs none {name} && cp program {name}/{name}" for name in ("one", "two"))
    script += f"\nstat -c %i one/one two/two\nexec {infprof} record --heap -t 100 --no-snapshots -o {run_dir} -- sh -c 'one/one & two/two; wait'"
    done = run([*words, "sh", "-c", script], cwd=tmp_path)
    if "mount" in done.stderr:
        pytest.skip("no tmpfs here")
    assert len(set(done.stdout.split()[:2])) == 1, done.stdout
    assert sorted(name for reason in reasons(run_dir.run()) for name in ("one", "two") if f"({name})" in reason) == ["one", "two"], done.stderr


@pytest.fixture(scope="module")
def build_go(tmp_path_factory):
    """build_go(text): a program of Go; what it needs of Go's library is compiled once."""
    if not GO:
        pytest.skip("needs golang-1.19-go")
    directory = tmp_path_factory.mktemp("go")

    def call(text):
        (directory / "main.go").write_text(text)
        made = run([GO, "build", "-o", directory / "program", directory / "main.go"],
                   env={"GOCACHE": str(directory / "cache"), "GO111MODULE": "off", "CGO_ENABLED": "1"})
        assert made.returncode == 0, made.stderr
        return directory / "program"

    return call


def test_programs_of_go(record, build_go):
    done = record("--heap", "-t", "100", "--no-snapshots", command=[build_go(SLEEPS)])
    assert done.returncode == 7 and any("is written in Go" in reason for reason in reasons(done.run)), done.stderr


CALLS_C = """\
package main
/*
#include <stdlib.h>
static void *keep(void) { return malloc(1000); }
*/
import "C"
import "sync"
func main() {
	var all sync.WaitGroup
	for t := 0; t < 8; t++ {
		all.Add(1)
		go func() { defer all.Done(); for i := 0; i < 2500; i++ { C.keep() } }()
	}
	all.Wait()
}
"""


def test_programs_of_go_and_c(record, build_go):
    """What C allocates in them, called by goroutines on stacks of Go's own: each block."""
    done = record("--heap=exact", "--no-snapshots", command=[build_go(CALLS_C)])
    assert done.returncode == 0, done.stderr
    kept = [row for row in waits.rows(done.run, "heap") if any((frame.name or "").endswith("_Cfunc_keep") for frame in row.frames)]
    assert (sum(row.samples for row in kept), sum(row.weight for row in kept)) == (20_000, 20_000_000), kept


@pytest.mark.skipif(not PYTHONS, reason="no Python to record")
@pytest.mark.parametrize("name", PYTHONS)
def test_python_is_seen(record, name):
    """Those with mimalloc in them, too."""
    words, environment = PYTHONS[name]
    done = record("--heap", "-t", "100", "--no-snapshots", command=[*words, "-c", "import time; time.sleep(1)"], env={**os.environ, **environment})
    assert done.returncode == 0 and reasons(done.run) == [], done.stderr
