/* A unit is a record: value x factor is in the base unit. cs to seconds, MiB to bytes and so on happen by it alone. */
#pragma once

struct infp_unit {
        const char *name; /* as columns and docs show it: "cs", "bytes", "%" */
        const char *base; /* as Prometheus names it: "seconds", "bytes", "ratio"; "" for plain numbers */
        double factor;
};

extern const struct infp_unit infp_unit_none; /* texts, ids, plain numbers: "" */
extern const struct infp_unit infp_unit_count;
extern const struct infp_unit infp_unit_bytes;
extern const struct infp_unit infp_unit_mib; /* fields that the mission names ...Mb */
extern const struct infp_unit infp_unit_cs;  /* centiseconds, USER_HZ 100 */
extern const struct infp_unit infp_unit_s;
extern const struct infp_unit infp_unit_ms;
extern const struct infp_unit infp_unit_us;
extern const struct infp_unit infp_unit_ns;
extern const struct infp_unit infp_unit_percent; /* 0..100, base ratio */
extern const struct infp_unit infp_unit_ratio;   /* 0..1 or a plain quotient */
extern const struct infp_unit infp_unit_mhz;
extern const struct infp_unit infp_unit_celsius;
extern const struct infp_unit infp_unit_watts;
extern const struct infp_unit infp_unit_volts;
extern const struct infp_unit infp_unit_joules;
extern const struct infp_unit infp_unit_uj;
extern const struct infp_unit infp_unit_mj;
extern const struct infp_unit infp_unit_sectors; /* 512 bytes, whatever the disk's own sector is */
extern const struct infp_unit infp_unit_pages;
extern const struct infp_unit infp_unit_tokens;
extern const struct infp_unit infp_unit_kib_per_s;
extern const struct infp_unit infp_unit_unix_s; /* a moment, seconds since 1970 */
extern const struct infp_unit infp_unit_json;   /* a text that is JSON */

const struct infp_unit *infp_unit_by_name(const char *name); /* NULL when unknown */
