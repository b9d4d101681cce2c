/* The energy collector: the machine's own meters. Parts: energy.c (record, rounds, the machine's total, sources), find.c
 * (which meters there are), read.c (one meter: wraps, integration, dead counters), tables.c (columns).
 *
 * A domain is one meter: a RAPL zone, a sensor of hwmon, a battery. Counters are stored as their files hold them, with joules
 * since the first reading beside them. A found domain stays in the list, so that its number identifies it within a run. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/procfile.h"
#include "collect/collector.h"
#include "collectors/energy/tables.h"

enum energy_kind {
        ENERGY_PACKAGE, /* a socket or die, its cores and caches included */
        ENERGY_CORE,
        ENERGY_UNCORE,
        ENERGY_DRAM,
        ENERGY_PSYS,  /* the platform: package, memory and more; its contents differ from machine to machine */
        ENERGY_METER, /* of the whole machine, at its supply */
        ENERGY_CELL,  /* a battery that feeds the machine */
        ENERGY_OTHER,
};

enum { ENERGY_NAME = 96, ENERGY_PATH = 160, ENERGY_DOMAINS = 256, ENERGY_NONE = -1 };

struct energy_domain {
        char name[ENERGY_NAME];  /* the key: "package-0", "package-0/core", "battery-BAT0" */
        char label[ENERGY_NAME]; /* as the source calls it */
        char zone[ENERGY_NAME];  /* directory, for zones within zones: "intel-rapl:0:0" */
        char path[ENERGY_PATH];  /* of the file or battery, below the root, without a leading slash */
        enum energy_source source;
        enum energy_kind kind;
        bool is_power;     /* the source gives watts: its joules are integrated */
        bool is_mmio;      /* the same meter as the zone of this name of intel-rapl, read in another way */
        int parent;        /* index of the domain that holds this one, or ENERGY_NONE */
        int twin;          /* index of the domain that is the same meter, or ENERGY_NONE */
        char gpu[48];      /* "amdgpu 0000:03:00.0": a sensor of that GPU, whose own table has it too; "" */
        uint64_t range_uj; /* the counter falls to 0 after it; 0: not known */

        struct infp_procfile file;
        bool is_gone;
        int r;           /* of the last reading */
        bool was_read;   /* at this round */
        bool has_last;   /* there is a reading to count from */
        bool has_moved;  /* else its value means nothing */
        bool is_dead;    /* it should have moved by now */
        bool is_counted; /* in the machine's total */
        bool is_late;    /* the last two readings are so far apart that it may have wrapped unseen */
        bool is_lost;    /* the amount between them is not known: it fell, or jumped by more than it can count */
        uint64_t first_ns, t_ns, n_reads, n_wraps;
        uint64_t sum_ns,
                more_ns; /* time that the joules below cover; more: since the reading before, 0: nothing is known */
        uint64_t raw_uj, sum_uj, more_uj;
        double power_w, sum_j, more_j; /* with is_power; sum_j, more_j instead of sum_uj, more_uj */
};

/* Several domains together. A round in which one of them has no known part adds nothing. */
struct energy_sum {
        uint64_t ns, end_ns; /* the time that it covers, and its end */
        uint64_t uj;
        double j;      /* integrated */
        bool any, has; /* there is one of them; one has moved */
};

struct energy {
        struct energy_domain **domains; /* each allocated separately: indices and addresses stay */
        int n;
        uint64_t found_ns;    /* last search */
        uint64_t found_hash;  /* of the names that it saw */
        int64_t suspended_ns; /* CLOCK_BOOTTIME less CLOCK_MONOTONIC */
        struct energy_sum machine, kinds[ENERGY_OTHER + 1];
};

/* find.c: adds what is new, revives what has come back. 0, -ENOMEM, -EMFILE, -ENFILE. */
int infp_meters_find(struct energy *energy, const struct infp_env *env);

/* read.c: reads one domain and adds it up. d->r is -ENODATA for a battery that delivers nothing now, and for a GPU that
 * sleeps, or may: its own collector reads it without keeping it awake. */
void infp_meter_read(struct energy_domain *domain, const struct infp_env *env);
/* Earlier readings are no start for a difference: the machine slept. */
void infp_meter_forget(struct energy_domain *domain);
double infp_meter_joules(const struct energy_domain *domain);
