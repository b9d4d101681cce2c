/* Which meters there are. RAPL zones are known by their names, never by their numbers: intel-rapl:1 may be socket 1 or psys. */
#include "collectors/energy/energy.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/hash.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/number.h"
#include "base/sort.h"

#define POWERCAP "sys/class/powercap"
#define HWMON "sys/class/hwmon"
#define SUPPLIES "sys/class/power_supply"

enum { MAX_ENTRIES = 4096 };

static int by_name(const void *a, const void *b)
{
        return strverscmp(*(char *const *) a, *(char *const *) b);
}

static void names_free(char **names, size_t n)
{
        for (size_t i = 0; i < n; i++)
                free(names[i]);
        free(names);
}

/* The entries of a directory in the order of their numbers, so that a parent comes before its parts. 0 names where there is
 * no such directory; an error only when that is not known. */
static int list(int root_fd, const char *path, char ***ret, size_t *ret_n)
{
        infp_autoclose int fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct infp_names entries;
        const char *name;
        char **names = NULL;
        size_t n = 0;
        int r = 0;

        *ret = NULL;
        *ret_n = 0;
        if (fd < 0)
                return errno == EMFILE || errno == ENFILE ? -errno : 0;
        infp_names_begin(&entries, fd);
        /* bound: no machine has more devices in a directory of /sys */
        while (r == 0 && n < MAX_ENTRIES && (name = infp_names_next(&entries))) {
                if (name[0] == '.')
                        continue;
                if (!INFP_ONE_MORE(names, n) || !(names[n] = strdup(name)))
                        r = -ENOMEM;
                else
                        n++;
        }
        if (r < 0) {
                names_free(names, n);
                return r;
        }
        infp_sort(names, n, sizeof(*names), by_name);
        *ret = names;
        *ret_n = n;
        return 0;
}

/* The first line of a small file; "" when it cannot be read. */
static void read_word(int root_fd, const char *directory, const char *name, char *ret, size_t cap)
{
        char path[ENERGY_PATH + 64];
        ssize_t n;

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        n = infp_read_at(root_fd, path, ret, cap);
        ret[n > 0 ? strcspn(ret, "\n") : 0] = 0;
}

static int find(const struct energy *e, const char *name)
{
        for (int i = 0; i < e->n; i++)
                if (!strcmp(e->domains[i]->name, name))
                        return i;
        return ENERGY_NONE;
}

static int find_zone(const struct energy *e, const char *zone)
{
        for (int i = 0; i < e->n; i++)
                if (e->domains[i]->source == ENERGY_POWERCAP && !strcmp(e->domains[i]->zone, zone))
                        return i;
        return ENERGY_NONE;
}

/* Known: if it had gone it is back, and counts from its next reading on. */
static bool revive(struct energy *e, const char *path)
{
        for (int i = 0; i < e->n; i++)
                if (!strcmp(e->domains[i]->path, path)) {
                        e->domains[i]->is_gone = false;
                        return true;
                }
        return false;
}

/* Takes over a filled domain. A name that is taken gets the place appended. */
static int add(struct energy *e, const struct energy_domain *filled, const char *place)
{
        struct energy_domain *d;

        if (e->n == ENERGY_DOMAINS) /* bound: some sixteen a socket; no machine has more */
                return 0;
        if (!INFP_ONE_MORE(e->domains, e->n))
                return -ENOMEM;
        d = malloc(sizeof(*d));
        if (!d)
                return -ENOMEM;
        *d = *filled;
        d->file = (struct infp_procfile) INFP_PROCFILE_INIT;
        if (find(e, d->name) != ENERGY_NONE)
                snprintf(d->name, sizeof(d->name), "%.60s@%.30s", filled->name, place);
        e->domains[e->n++] = d;
        return 0;
}

static enum energy_kind kind_of(const char *label)
{
        static const struct {
                const char *prefix;
                enum energy_kind kind;
        } known[] = { { "package", ENERGY_PACKAGE },
                      { "core", ENERGY_CORE },
                      { "uncore", ENERGY_UNCORE },
                      { "dram", ENERGY_DRAM },
                      { "psys", ENERGY_PSYS } };

        for (size_t i = 0; i < INFP_COUNT(known); i++)
                if (!strncmp(label, known[i].prefix, strlen(known[i].prefix)))
                        return known[i].kind;
        return ENERGY_OTHER;
}

/* "dram" below package-0-die-1 is dram-0-die-1: not a part of the package, whose counter does not include it. */
static void name_part(struct energy_domain *d, const struct energy_domain *parent)
{
        const char *number = !strncmp(parent->label, "package-", 8) ? parent->label + 7 : "";

        if (d->kind == ENERGY_DRAM && *number)
                snprintf(d->name, sizeof(d->name), "%s%.20s%.60s", d->is_mmio ? "mmio-" : "", d->label, number);
        else
                snprintf(d->name, sizeof(d->name), "%.60s/%.30s", parent->name, d->label);
}

static void place_zone(const struct energy *e, struct energy_domain *d)
{
        char parent[ENERGY_NAME];
        char *colon;

        snprintf(parent, sizeof(parent), "%s", d->zone);
        colon = strrchr(parent, ':');
        *colon = 0;
        d->parent = strchr(parent, ':') ? find_zone(e, parent) : ENERGY_NONE;
        if (d->parent != ENERGY_NONE)
                name_part(d, e->domains[d->parent]);
        else
                snprintf(d->name, sizeof(d->name), "%s%.90s", d->is_mmio ? "mmio-" : "", d->label);
        if (d->kind == ENERGY_DRAM)
                d->parent = ENERGY_NONE;
}

/* The MMIO view of a package may be found before or after the package itself. */
static void pair(struct energy *e)
{
        for (int i = 0; i < e->n; i++) {
                struct energy_domain *d = e->domains[i];

                d->twin = d->is_mmio ? find(e, d->name + strlen("mmio-")) : ENERGY_NONE;
        }
}

static int add_zone(struct energy *e, int root_fd, const char *zone)
{
        struct energy_domain d = { .source = ENERGY_POWERCAP, .twin = ENERGY_NONE };
        char directory[ENERGY_PATH], range[32];

        /* intel-rapl itself is a control type, not a zone. */
        if (!strchr(zone, ':') || strlen(zone) >= ENERGY_NAME)
                return 0;
        snprintf(directory, sizeof(directory), POWERCAP "/%s", zone);
        snprintf(d.path, sizeof(d.path), POWERCAP "/%s/energy_uj", zone);
        if (revive(e, d.path) || faccessat(root_fd, d.path, F_OK, 0) < 0)
                return 0;
        snprintf(d.zone, sizeof(d.zone), "%s", zone);
        read_word(root_fd, directory, "name", d.label, sizeof(d.label));
        if (!*d.label)
                snprintf(d.label, sizeof(d.label), "%s", zone);
        read_word(root_fd, directory, "max_energy_range_uj", range, sizeof(range));
        if (infp_parse_u64(range, strlen(range), &d.range_uj) < 0)
                d.range_uj = 0;
        d.kind = kind_of(d.label);
        d.is_mmio = strstr(zone, "-mmio") != NULL;
        place_zone(e, &d);
        return add(e, &d, zone);
}

/* "energy12_input" with stem "energy": 12. */
static bool sensor_number(const char *file, const char *stem, const char *end, unsigned *ret)
{
        const size_t size = strlen(stem);
        unsigned n = 0, digits = 0;

        if (strncmp(file, stem, size))
                return false;
        for (file += size; isdigit((unsigned char) *file) && digits < 5; file++, digits++)
                n = n * 10 + (unsigned) (*file - '0');
        *ret = n;
        return digits && !strcmp(file, end);
}

/* Chips that measure more than a part. */
static enum energy_kind sensor_kind(const char *chip, const char *label, bool has_label)
{
        if (!strcmp(chip, "amd_energy") && !strncmp(label, "Esocket", 7))
                return ENERGY_PACKAGE;
        /* ACPI's meter at the supply; where firmware names several (NVIDIA Grace), Module contains the others. */
        if (!strcmp(chip, "power_meter") && (!has_label || !strncmp(label, "Module Power", 12)))
                return ENERGY_METER;
        return ENERGY_OTHER;
}

/* Drivers of GPUs, whose tables (amdgpu, intel) have the same sensor. */
static void name_gpu(struct energy_domain *d, int root_fd, const char *directory, const char *chip)
{
        static const char *const drivers[] = { "amdgpu", "i915", "xe" };
        char path[ENERGY_PATH + 16], link[256];
        ssize_t n;

        for (size_t i = 0; i < INFP_COUNT(drivers); i++) {
                if (strcmp(chip, drivers[i]))
                        continue;
                snprintf(path, sizeof(path), "%s/device", directory);
                n = readlinkat(root_fd, path, link, sizeof(link) - 1);
                link[n > 0 ? n : 0] = 0;
                snprintf(d->gpu, sizeof(d->gpu), "%.10s%s%.31s", chip, n > 0 ? " " : "",
                         strrchr(link, '/') ? strrchr(link, '/') + 1 : link);
        }
}

static int add_sensor(struct energy *e, int root_fd, const char *directory, const char *chip, const char *file)
{
        struct energy_domain d = { .source = ENERGY_HWMON, .parent = ENERGY_NONE, .twin = ENERGY_NONE };
        char name[ENERGY_PATH], label[48];
        unsigned number;
        bool is_average = false, has_label;

        if (!sensor_number(file, "energy", "_input", &number)) {
                is_average = sensor_number(file, "power", "_average", &number);
                d.is_power = is_average || sensor_number(file, "power", "_input", &number);
                if (!d.is_power)
                        return 0;
        }
        snprintf(d.path, sizeof(d.path), "%s/%.60s", directory, file);
        if (revive(e, d.path))
                return 0;
        /* The momentary value of the same sensor, where there is one. */
        snprintf(name, sizeof(name), "%s/power%u_input", directory, number);
        if (is_average && faccessat(root_fd, name, F_OK, 0) == 0)
                return 0;
        snprintf(name, sizeof(name), "%s%u_label", d.is_power ? "power" : "energy", number);
        read_word(root_fd, directory, name, label, sizeof(label));
        if (!*label && d.is_power) {
                snprintf(name, sizeof(name), "power%u_oem_info", number);
                read_word(root_fd, directory, name, label, sizeof(label));
        }
        has_label = *label;
        if (!has_label)
                snprintf(label, sizeof(label), "%s%u", d.is_power ? "power" : "energy", number);
        /* The driver has one for each core, up to hundreds; their sum is the socket's. */
        if (!strcmp(chip, "amd_energy") && !strncmp(label, "Ecore", 5))
                return 0;
        snprintf(d.label, sizeof(d.label), "%s", label);
        snprintf(d.name, sizeof(d.name), "%.45s/%s", chip, label);
        d.kind = sensor_kind(chip, label, has_label);
        name_gpu(&d, root_fd, directory, chip);
        return add(e, &d, strrchr(directory, '/') + 1);
}

static int add_chip(struct energy *e, int root_fd, const char *name)
{
        char directory[64], chip[48], supply[96];
        char **files;
        size_t n;
        int r;

        if (strncmp(name, "hwmon", 5) || strlen(name) > 20)
                return 0;
        snprintf(directory, sizeof(directory), HWMON "/%s", name);
        read_word(root_fd, directory, "name", chip, sizeof(chip));
        snprintf(supply, sizeof(supply), SUPPLIES "/%s", chip);
        /* A battery appears here, too. */
        if (!*chip || faccessat(root_fd, supply, F_OK, 0) == 0)
                return 0;
        INFP_TRY(list(root_fd, directory, &files, &n));
        r = 0;
        for (size_t i = 0; r == 0 && i < n; i++)
                r = add_sensor(e, root_fd, directory, chip, files[i]);
        names_free(files, n);
        return r;
}

/* Batteries of mice and pens have the scope Device. */
static int add_battery(struct energy *e, int root_fd, const char *name)
{
        struct energy_domain d = { .source = ENERGY_BATTERY, .kind = ENERGY_CELL, .is_power = true };
        char word[32];

        if (strlen(name) > 64)
                return 0;
        d.parent = d.twin = ENERGY_NONE;
        snprintf(d.path, sizeof(d.path), SUPPLIES "/%s", name);
        if (revive(e, d.path))
                return 0;
        read_word(root_fd, d.path, "type", word, sizeof(word));
        if (strcmp(word, "Battery"))
                return 0;
        read_word(root_fd, d.path, "scope", word, sizeof(word));
        if (!strcmp(word, "Device"))
                return 0;
        snprintf(d.label, sizeof(d.label), "%s", name);
        snprintf(d.name, sizeof(d.name), "battery-%s", name);
        return add(e, &d, name);
}

/* A sum over the names in a directory, whatever their order. */
static uint64_t names_hash(int root_fd, const char *path)
{
        infp_autoclose int fd = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct infp_names names;
        const char *name;
        uint64_t sum = 0;

        infp_names_begin(&names, fd);
        while ((name = infp_names_next(&names)))
                sum += infp_hash64(name, strlen(name), 1);
        return sum;
}

/* Nothing new, and nothing can have returned: the directories are unchanged. */
static bool is_same(struct energy *e, const struct infp_env *env)
{
        const uint64_t hash = names_hash(env->root_fd, POWERCAP) ^ names_hash(env->root_fd, HWMON) << 1 ^
                              names_hash(env->root_fd, SUPPLIES) << 2;
        bool is_same = hash == e->found_hash;

        for (int i = 0; i < e->n; i++)
                is_same &= !e->domains[i]->is_gone;
        e->found_hash = hash;
        return is_same;
}

int infp_meters_find(struct energy *e, const struct infp_env *env)
{
        static const struct {
                const char *path;
                int (*take)(struct energy *e, int root_fd, const char *name);
        } places[] = { { POWERCAP, add_zone }, { HWMON, add_chip }, { SUPPLIES, add_battery } };

        if (is_same(e, env))
                return 0;
        for (size_t i = 0; i < INFP_COUNT(places); i++) {
                char **names;
                size_t n;
                int r = list(env->root_fd, places[i].path, &names, &n);

                for (size_t k = 0; r == 0 && k < n; k++)
                        r = places[i].take(e, env->root_fd, names[k]);
                names_free(names, n);
                if (r < 0) {
                        e->found_hash = 0; /* to be done again */
                        return r;
                }
        }
        pair(e);
        return 0;
}
