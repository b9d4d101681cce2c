#include "unwind/python/checks.h"

#include <assert.h>
#include <stdbool.h>

static_assert(INFP_PYTHON_CHECKS_TEXTS <= 1024, "the kernel takes so many pieces in a call");

/* n pieces of `size` bytes, of which `remote` has the addresses. Returns how many were copied, from the first on. */
static uint32_t gather(struct infp_python_checks *checks, uint32_t n, size_t size, void *ret_bytes)
{
        const ssize_t done = n ? checks->gather(checks->context, checks->remote, n, ret_bytes, n * size) : 0;

        return done < 0 ? 0 : (uint32_t) ((size_t) done / size);
}

static struct iovec piece(uint64_t address, size_t size)
{
        return (struct iovec){ (void *) (uintptr_t) address, size };
}

/* The ends of those texts that need them. */
static bool read_ends(struct infp_python_checks *checks, const struct infp_python_layout *layout, uint32_t n_texts)
{
        uint32_t n = 0;

        for (uint32_t i = 0; i < n_texts; i++) {
                const uint64_t at = infp_python_check_end(layout, checks->addresses[i], &checks->texts[i]);

                if (at)
                        checks->remote[n++] = piece(at, sizeof(checks->ends[0]));
        }
        if (gather(checks, n, sizeof(checks->ends[0]), checks->ends) < n)
                return false;
        for (uint32_t i = n_texts; n && i--;) /* apart again: each to the number of its text */
                if (infp_python_check_end(layout, checks->addresses[i], &checks->texts[i]))
                        checks->ends[i] = checks->ends[--n];
        return true;
}

/* How many code objects, from the first on, have texts that could be read. */
static uint32_t read_texts(struct infp_python_checks *checks, const struct infp_python_layout *layout,
                           const struct infp_python_check *check, uint32_t n)
{
        uint32_t n_texts = 0, n_read;

        if (!check->n_texts)
                return n;
        for (uint32_t i = 0; i < n; i++)
                for (uint32_t k = 0; k < check->n_texts; k++) {
                        const uint64_t address = checks->words[i][check->texts[k]];

                        checks->addresses[n_texts] = address;
                        checks->remote[n_texts++] = piece(address + layout->str_length, sizeof(checks->texts[0]));
                }
        n_read = gather(checks, n_texts, sizeof(checks->texts[0]), checks->texts) / check->n_texts;
        return read_ends(checks, layout, n_read * check->n_texts) ? n_read : 0;
}

uint32_t infp_python_checks_make(struct infp_python_checks *checks, const struct infp_python_layout *layout,
                                 const struct infp_python_check *check)
{
        uint32_t n;

        for (uint32_t i = 0; i < checks->n; i++)
                checks->remote[i] = piece(checks->codes[i] + check->begin, sizeof(checks->words[0]));
        n = gather(checks, checks->n, sizeof(checks->words[0]), checks->words);
        n = read_texts(checks, layout, check, n);
        for (uint32_t i = 0; i < n; i++) {
                uint64_t sum = infp_python_check_words(check, checks->words[i]);

                for (uint32_t k = 0; k < check->n_texts; k++)
                        sum = infp_python_check_add(sum, infp_python_check_text(layout,
                                                                                &checks->texts[i * check->n_texts + k],
                                                                                checks->ends[i * check->n_texts + k]));
                checks->ret[i] = infp_python_check_done(sum);
        }
        return n;
}
