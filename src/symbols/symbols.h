/* Names of places in code: functions, what was inlined there, files and lines. Reads files, never a running process's memory;
 * what they say is input. Used beside a recording for what will be gone when it ends (code made at run time, objects of other
 * mount namespaces), and after it for the rest. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/stack_tables.h"

/* One function at an address. Text is borrowed until the next call. */
struct infp_symbol {
        const char *
                name; /* demangled, one line of UTF-8; of a place without a name "[libfoo.so+0x1200]": the begin of its function */
        const char *mangled;         /* NULL: the same */
        const char *file;            /* NULL: not known */
        int64_t line, function_line; /* 0: not known */
        const char *from;            /* as in symbols.sFrom */
};
enum { INFP_SYMBOL_MAX_LEVELS = 64 };

struct infp_symbols_options {
        int root_fd;                          /* where paths of objects begin: "/" of the target's mount namespace */
        const char *const *debug_directories; /* searched besides the usual; ended by NULL; may be NULL */
        /* When the program began: a file without a build id that was changed since is not what ran. 0: it is taken as it is. */
        int64_t ran_unix_ns;
        /* Of memory: tables that would take more are not read, and objects are closed earlier. 0: what a child of `finish` may use. */
        uint64_t most_bytes;
        bool no_lines;      /* no DWARF is read, which takes elfutils and can crash on hostile files */
        bool no_demangling; /* names as the object has them: demangling can crash on hostile names */
};
struct infp_symbols;
int infp_symbols_new(const struct infp_symbols_options *options, struct infp_symbols **ret, struct infp_err *err);
struct infp_symbols *infp_symbols_free(struct infp_symbols *symbols); /* NULL is fine; returns NULL */
/* libdw is on this machine; it is loaded. Without it names have no files, lines and inlined functions. */
bool infp_symbols_have_lines(void);

/* What was found of an object. */
struct infp_symbols_about {
        const char *names; /* the best table of names: "symtab", "gopclntab", "debugdata", "dynsym"; NULL: none */
        const char
                *debug_file; /* where debug symbols come from, when not from the object itself; NULL: none was found */
        bool has_lines;      /* DWARF is read */
        const char *problem; /* why something of it cannot be read; NULL: nothing is wrong */
};

/* An object by what `frames` says of it: a path below root_fd (or an open descriptor, which is borrowed for the call), its build
 * id in hexadecimal (NULL: none). "[vdso]" is our own, if its build id is that one. A file that has another build id is not the
 * object: -ESTALE, unless a debug file of the right build id is found. ret: number for infp_symbols_at; some 32 objects are open at
 * once, the least recently used gives way to a new one. */
int infp_symbols_object(struct infp_symbols *symbols, const char *path, int fd, const char *build_id, unsigned *ret,
                        struct infp_err *err);
/* Texts are borrowed as long as the object is open. False: it is not any more. */
bool infp_symbols_object_about(const struct infp_symbols *symbols, unsigned object, struct infp_symbols_about *ret);

/* The functions at an address of the object, outermost (level 0: the compiled function) first. Returns their number, at most
 * INFP_SYMBOL_MAX_LEVELS, 1 with from "range" when nothing names it, 0 when nothing is known at all. */
unsigned infp_symbols_at(struct infp_symbols *symbols, unsigned object, uint64_t address, struct infp_symbol *ret);

/* The outermost functions at n ascending addresses of an object, which is closed again: memory is what names these, not what the
 * file has. take: called for each address with a name; texts are borrowed for the call. Errors as infp_symbols_object's. */
int infp_symbols_all(struct infp_symbols *symbols, const char *path, int fd, const char *build_id,
                     const uint64_t *addresses, size_t n,
                     void (*take)(void *context, size_t index, const struct infp_symbol *symbol), void *context,
                     struct infp_err *err);

/* A name by itself, as symbols.sName has it: demangled, one line of UTF-8. True: it was mangled. Text is borrowed until the next
 * call of anything of the same `symbols`. */
bool infp_symbols_demangle(struct infp_symbols *symbols, const char *name, size_t size, const char **ret);

/* Files that name code made at run time: /tmp/perf-PID.map, and jitdump. Addresses are those of the process. Files are read on from
 * where they ended: an unfinished last line or record waits for its rest, a file that was replaced is read anew. What is no entry is
 * skipped and counted. Beyond a bound (a million entries, 128 MiB of text) the rest is left out. */
struct infp_jit_symbols;
int infp_jit_symbols_new(struct infp_jit_symbols **ret);
struct infp_jit_symbols *infp_jit_symbols_free(struct infp_jit_symbols *jit);
int infp_jit_symbols_read_perf_map(struct infp_jit_symbols *jit, int fd, struct infp_err *err);
int infp_jit_symbols_read_jitdump(struct infp_jit_symbols *jit, int fd, struct infp_err *err);
/* The newest entry with the address at t_ns (perf maps know no times). False: none. */
bool infp_jit_symbols_at(const struct infp_jit_symbols *jit, uint64_t address, uint64_t t_ns, struct infp_symbol *ret);
struct infp_jit_counts {
        uint64_t entries, rejected; /* lines or records that are not entries */
        bool is_full;               /* some were left out */
};
void infp_jit_symbols_counts(const struct infp_jit_symbols *jit, struct infp_jit_counts *ret);

/* The kernel's, by /proc/kallsyms and /proc/modules: 0; -EACCES when addresses are hidden (kptr_restrict). Functions alone; of a
 * module's the name is "name [module]". */
struct infp_kernel_symbols;
int infp_kernel_symbols_open(int root_fd, struct infp_kernel_symbols **ret, struct infp_err *err);
struct infp_kernel_symbols *infp_kernel_symbols_free(struct infp_kernel_symbols *kernel);
bool infp_kernel_symbols_at(struct infp_kernel_symbols *kernel, uint64_t address, struct infp_symbol *ret,
                            const char **ret_module);
