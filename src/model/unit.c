#include "model/unit.h"

#include <stddef.h>
#include <string.h>

#include "base/mem.h"

// clang-format off
const struct infp_unit infp_unit_none      = { "", "", 1 };
const struct infp_unit infp_unit_count     = { "count", "", 1 };
const struct infp_unit infp_unit_bytes     = { "bytes", "bytes", 1 };
const struct infp_unit infp_unit_mib       = { "MiB", "bytes", 1048576 };
const struct infp_unit infp_unit_cs        = { "cs", "seconds", 0.01 };
const struct infp_unit infp_unit_s         = { "s", "seconds", 1 };
const struct infp_unit infp_unit_ms        = { "ms", "seconds", 1e-3 };
const struct infp_unit infp_unit_us        = { "us", "seconds", 1e-6 };
const struct infp_unit infp_unit_ns        = { "ns", "seconds", 1e-9 };
const struct infp_unit infp_unit_percent   = { "%", "ratio", 0.01 };
const struct infp_unit infp_unit_ratio     = { "ratio", "ratio", 1 };
const struct infp_unit infp_unit_mhz       = { "MHz", "hertz", 1e6 };
const struct infp_unit infp_unit_celsius   = { "celsius", "celsius", 1 };
const struct infp_unit infp_unit_watts     = { "W", "watts", 1 };
const struct infp_unit infp_unit_volts     = { "V", "volts", 1 };
const struct infp_unit infp_unit_joules    = { "J", "joules", 1 };
const struct infp_unit infp_unit_uj        = { "uJ", "joules", 1e-6 };
const struct infp_unit infp_unit_mj        = { "mJ", "joules", 1e-3 };
const struct infp_unit infp_unit_sectors   = { "sectors", "bytes", 512 };
/* Not bytes: a page has 4 to 64 KiB, and the reader of a file from another machine does not know which. */
const struct infp_unit infp_unit_pages     = { "pages", "pages", 1 };
const struct infp_unit infp_unit_tokens    = { "tokens", "tokens", 1 };
const struct infp_unit infp_unit_kib_per_s = { "KiB/s", "bytes_per_second", 1024 };
const struct infp_unit infp_unit_unix_s    = { "unix_s", "seconds", 1 };
/* A text that is JSON: formats that are JSON themselves show it as it is, others as text. */
const struct infp_unit infp_unit_json      = { "json", "", 1 };
// clang-format on

const struct infp_unit *infp_unit_by_name(const char *name)
{
        static const struct infp_unit *const all[] = {
                &infp_unit_none,   &infp_unit_count,     &infp_unit_bytes,   &infp_unit_mib,     &infp_unit_cs,
                &infp_unit_s,      &infp_unit_ms,        &infp_unit_us,      &infp_unit_ns,      &infp_unit_percent,
                &infp_unit_ratio,  &infp_unit_mhz,       &infp_unit_celsius, &infp_unit_watts,   &infp_unit_volts,
                &infp_unit_joules, &infp_unit_uj,        &infp_unit_mj,      &infp_unit_sectors, &infp_unit_pages,
                &infp_unit_tokens, &infp_unit_kib_per_s, &infp_unit_unix_s,  &infp_unit_json,
        };

        for (size_t i = 0; i < INFP_COUNT(all); i++) {
                if (strcmp(all[i]->name, name) == 0)
                        return all[i];
        }
        return NULL;
}
