#include "import/unit.h"

#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "model/stack_tables.h"

double infp_import_seconds(struct infp_import_text unit)
{
        static const struct {
                const char *name;
                double seconds;
        } units[] = {
                { "nanoseconds", 1e-9 }, { "nanosecond", 1e-9 }, { "ns", 1e-9 },           { "microseconds", 1e-6 },
                { "microsecond", 1e-6 }, { "us", 1e-6 },         { "milliseconds", 1e-3 }, { "millisecond", 1e-3 },
                { "ms", 1e-3 },          { "seconds", 1 },       { "second", 1 },          { "s", 1 },
        };

        for (unsigned i = 0; i < INFP_COUNT(units); i++)
                if (infp_import_is(unit, units[i].name))
                        return units[i].seconds;
        return 0;
}

const char *infp_import_clock(struct infp_import_text type)
{
        const enum infp_stack_mode mode = infp_stack_mode_by_name(type.data, type.size);

        return mode < INFP_STACK_MODES && !strcmp(infp_stack_modes[mode].unit, "seconds") ? infp_stack_modes[mode].name
                                                                                          : NULL;
}

const struct infp_stack_mode_is *infp_import_heap(struct infp_import_text type, struct infp_import_text unit)
{
        const enum infp_stack_mode mode = infp_stack_mode_by_name(type.data, type.size);

        return mode < INFP_STACK_MODES && infp_stack_modes[mode].space && infp_import_is(unit, "bytes")
                       ? &infp_stack_modes[mode]
                       : NULL;
}

/* Control characters and invalid UTF-8 are not allowed in a mode's name. */
static size_t put(char *to, size_t cap, struct infp_import_text text)
{
        size_t n = 0;

        /* bound: a unit is a word; a longer one is not a known one */
        for (size_t i = 0; i < text.size && n < cap;) {
                unsigned length = infp_utf8_length(text.data + i, text.size - i);

                if (!length || (unsigned char) text.data[i] < ' ' || n + length > cap) {
                        to[n++] = '?';
                        i++;
                        continue;
                }
                memcpy(to + n, text.data + i, length);
                n += length;
                i += length;
        }
        return n;
}

double infp_import_mode(struct infp_import_text type, struct infp_import_text unit, char ret[INFP_IMPORT_MODE_TEXT])
{
        const double seconds = infp_import_seconds(unit);
        const struct infp_stack_mode_is *heap = infp_import_heap(type, unit);
        const char *mode = seconds > 0 ? infp_import_clock(type) : heap ? heap->name : NULL;
        size_t n;

        if (mode) {
                strcpy(ret, mode);
                return seconds > 0 ? seconds : 1;
        }
        n = put(ret, 60, type.size ? type : infp_import_text("value"));
        ret[n++] = '/';
        n += put(ret + n, 30, unit.size ? unit : infp_import_text("none"));
        ret[n] = 0;
        return 1;
}
