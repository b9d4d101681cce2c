/* Why energy is missing: a domain of many, or all of it. */
#include "collectors/energy/energy.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const char denied_reason[] =
        "the energy counters of /sys/class/powercap may be read by root alone (since Linux 5.10, CVE-2020-8694)";
static const char denied_fix[] =
        "getent group power || sudo groupadd power; sudo usermod -aG power $USER; put the line `z "
        "/sys/class/powercap/intel-rapl:*/energy_uj 0444 root power -` into /etc/tmpfiles.d/intel-rapl.conf; sudo "
        "systemd-tmpfiles --create (or give infprof CAP_DAC_READ_SEARCH)";
static const char dead_reason[] =
        "the counter is there, but does not move: it measures nothing here and is not counted";

static void say_domain(struct infp_emit *emit, const struct energy_domain *d)
{
        char text[ENERGY_PATH + 128];

        if (d->r == -ENODATA && d->source == ENERGY_BATTERY)
                infp_emit_source(emit, &infp_table_energy, -1, d->name, INFP_ABSENT,
                                 "the battery gives no power now: the machine is fed from outside", NULL);
        else if (d->r == -ENODATA && *d->gpu)
                infp_emit_source(
                        emit, &infp_table_energy, -1, d->name, INFP_ABSENT,
                        "the kernel may put this GPU to sleep, and a reading would keep it awake: its own table has it",
                        NULL);
        else if ((d->r == -EACCES || d->r == -EPERM) && d->source == ENERGY_POWERCAP)
                infp_emit_source(emit, &infp_table_energy, -1, d->name, INFP_DENIED, denied_reason, denied_fix);
        else if (d->r < 0) {
                snprintf(text, sizeof(text), "/%s: %s", d->path,
                         d->r == -EBADMSG  ? "what stands there is not a number"
                         : d->r == -ERANGE ? "what stands there cannot be: more than 30 kW"
                                           : strerror(-d->r));
                infp_emit_source(emit, &infp_table_energy, -1, d->name, infp_source_state_of(d->r), text, NULL);
        } else if (d->is_dead)
                infp_emit_source(emit, &infp_table_energy, -1, d->name, INFP_ABSENT, dead_reason, NULL);
        else if (d->is_lost)
                infp_emit_source(emit, &infp_table_energy, -1, d->name, INFP_BROKEN,
                                 d->range_uj ? "the counter was set anew: what was drawn between two readings is not "
                                               "counted"
                                             : "the counter fell, and its range is not known: what was drawn between "
                                               "two readings is not counted",
                                 NULL);
        else if (d->is_late)
                infp_emit_source(emit, &infp_table_energy, -1, d->name, INFP_LATE,
                                 "it was not read for so long that it may have wrapped more than once: too little may "
                                 "have been counted",
                                 NULL);
        else
                infp_emit_source(emit, &infp_table_energy, -1, d->name, INFP_OK, NULL, NULL);
}

void infp_meters_say(const struct energy *e, struct infp_emit *emit)
{
        bool any_works = false, any_denied = false, any_dead = false;

        for (int i = 0; i < e->n; i++) {
                const struct energy_domain *d = e->domains[i];

                say_domain(emit, d);
                any_works |= d->r == 0 && !d->is_dead;
                any_dead |= d->r == 0 && d->is_dead;
                any_denied |= (d->r == -EACCES || d->r == -EPERM) && d->source == ENERGY_POWERCAP;
        }
        if (any_works)
                infp_emit_source(emit, NULL, -1, NULL, INFP_OK, NULL, NULL);
        else if (any_denied)
                infp_emit_source(emit, NULL, -1, NULL, INFP_DENIED, denied_reason, denied_fix);
        else
                infp_emit_source(emit, NULL, -1, NULL, INFP_ABSENT,
                                 any_dead ? "the energy counters are there, but do not move: nothing is measured here"
                                          : "no meter of energy can be read now",
                                 NULL);
}
