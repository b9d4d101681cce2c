/* Symbol names of any bytes: demangling ends, and what is shown is one line of UTF-8 of bounded length. */
#include <stdint.h>
#include <stdlib.h>

#include "base/text.h"
#include "symbols/name.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(bool truth)
{
        if (!truth)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct infp_str demangled = { 0 }, text = { 0 };
        const bool is_good = infp_demangle((const char *) data, size, &demangled);

        expect(is_good == (demangled.size > 0) && demangled.size <= INFP_SYMBOL_MAX_NAME);
        infp_symbol_text(&text, (const char *) data, size);
        expect(text.size <= INFP_SYMBOL_MAX_NAME);
        for (size_t i = 0; i < text.size;) {
                const unsigned n = infp_utf8_length(text.data + i, text.size - i);

                expect(n && (unsigned char) text.data[i] >= 0x20 && text.data[i] != 0x7f);
                i += n;
        }
        infp_str_done(&demangled);
        infp_str_done(&text);
        return 0;
}
