#include "symbols/name.h"

#include <errno.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/thread.h"

enum {
        SHORT_NAME = 1000, /* libiberty bounds the recursion by itself up to 1,024 bytes, and refuses longer ones */
        DEEP_STACK = 256 << 20,            /* for those that it would refuse; only what is used of it costs memory */
        OPTIONS = DMGL_ANSI,               /* no parameters: `mangled` tells overloads apart */
        MOST_OUTPUT = INFP_SYMBOL_MAX_NAME /* a name of a few bytes can stand for gigabytes */
};

struct demangling {
        const char *name;
        int options;
        struct infp_str *ret;
        bool is_good;
        jmp_buf enough;
};

/* The demanglers cannot be told to stop: we leave by a jump. They hold no lock, and at most the memory of one identifier. */
static void print(const char *text, size_t size, void *opaque)
{
        struct demangling *d = opaque;
        const size_t room = MOST_OUTPUT - d->ret->size;

        infp_str_put(d->ret, text, size < room ? size : room);
        if (size > room || d->ret->failed)
                longjmp(d->enough, 1);
}

static void demangle(struct demangling *d)
{
        d->is_good = false;
        if (setjmp(d->enough)) {
                d->is_good = !d->ret->failed;
                return;
        }
        d->is_good = rust_demangle_callback(d->name, d->options, print, d) == 1;
        if (d->is_good)
                return;
        infp_str_clear(d->ret);
        d->is_good = cplus_demangle_v3_callback(d->name, d->options, print, d) == 1;
}

static void *demangle_deep(void *d)
{
        demangle(d);
        return NULL;
}

static bool run_deep(struct demangling *d)
{
        pthread_t thread;

        d->options |= DMGL_NO_RECURSE_LIMIT;
        return infp_thread_start(&thread, "infprof-name", DEEP_STACK, demangle_deep, d) == 0 &&
               pthread_join(thread, NULL) == 0;
}

static bool is_mangled(const char *name, size_t size)
{
        return size > 3 && name[0] == '_' && (name[1] == 'Z' || name[1] == 'R');
}

bool infp_demangle(const char *name, size_t size, struct infp_str *ret)
{
        struct demangling d = { .options = OPTIONS, .ret = ret };
        char *copy;

        infp_str_clear(ret);
        if (!is_mangled(name, size) || size > INFP_SYMBOL_MAX_MANGLED)
                return false;
        copy = strndup(name, size);
        if (!copy)
                return false;
        d.name = copy;
        if (size <= SHORT_NAME)
                demangle(&d);
        else if (!run_deep(&d))
                d.is_good = false;
        free(copy);
        if (!d.is_good || !ret->size)
                infp_str_clear(ret);
        return ret->size > 0;
}

/* The size of one suffix that ends the name: ".cold", ".isra.0". 0: there is none. */
static size_t clone_suffix(const char *name, size_t size)
{
        static const char *const words[] = { ".cold", ".isra", ".constprop", ".part", ".lto_priv", ".llvm" };
        size_t end = size;

        while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9')
                end--;
        if (end < size && end > 0 && name[end - 1] == '.')
                end--;
        else
                end = size;
        for (unsigned i = 0; i < sizeof(words) / sizeof(*words); i++) {
                const size_t n = strlen(words[i]);

                if (end > n && memcmp(name + end - n, words[i], n) == 0)
                        return size - end + n;
        }
        return 0;
}

size_t infp_without_clones(const char *name, size_t size)
{
        size_t suffix;

        while ((suffix = clone_suffix(name, size)) > 0)
                size -= suffix;
        return size;
}

static bool is_control(unsigned char c)
{
        return c < 0x20 || c == 0x7f;
}

void infp_symbol_text(struct infp_str *ret, const char *name, size_t size)
{
        static const char hex[] = "0123456789ABCDEF";
        bool is_cut = false;

        infp_str_clear(ret);
        for (size_t i = 0; i < size && !is_cut;) {
                const size_t length = infp_utf8_length(name + i, size - i);
                const unsigned char c = (unsigned char) name[i];
                /* C1 control characters, too: U+0080 to U+009F. */
                const bool is_odd =
                        !length || is_control(c) || (length == 2 && c == 0xc2 && (unsigned char) name[i + 1] < 0xa0);
                const size_t n = length ? length : 1;

                for (size_t j = 0; j < n && !is_cut; j++) {
                        const unsigned char b = (unsigned char) name[i + j];
                        char escaped[] = { '\\', 'x', hex[b >> 4], hex[b & 15] };

                        if (is_odd)
                                infp_str_put(ret, escaped, sizeof(escaped));
                }
                if (!is_odd && c == '\\')
                        infp_str_puts(ret, "\\\\");
                else if (!is_odd)
                        infp_str_put(ret, name + i, n);
                i += n;
                is_cut = ret->size >= INFP_SYMBOL_MAX_NAME - 16 && i < size;
        }
        if (is_cut)
                infp_str_puts(ret, "...");
}
