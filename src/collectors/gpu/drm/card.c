#include "collectors/gpu/drm/card.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/mem.h"
#include "base/names.h"
#include "base/number.h"
#include "base/procfile.h"
#include "base/sort.h"
#include "base/time.h"

/* Which cards there are. The kernel numbers them as drivers find them; only the PCI address identifies a card for good. */

#define CARDS "sys/class/drm"

static const uint64_t find_period_ns = 10 * INFP_NS_PER_S;
/* Idle for this long, its clocks and temperatures are no news, and it may go to sleep. */
static const uint64_t idle_ns = 10 * INFP_NS_PER_S;
enum { NAMES_MAX = 4 << 20, AUTOSUSPEND_DEFAULT_MS = 5000, AUTOSUSPEND_MARGIN_MS = 2000 };

int infp_gpu_read_line(int dir_fd, const char *name, char *ret, size_t cap)
{
        ssize_t n = infp_read_at(dir_fd, name, ret, cap);

        ret[n > 0 ? strcspn(ret, "\n") : 0] = 0;
        return n < 0 ? (int) n : 0;
}

int infp_gpu_read_i64(int dir_fd, const char *name, int64_t *ret)
{
        char text[64];
        int r = infp_gpu_read_line(dir_fd, name, text, sizeof(text));

        if (r < 0)
                return r;
        return infp_parse_i64(text, strcspn(text, " \t"), ret) ? -EBADMSG : 0;
}

/* "card12" and nothing after it: "card12-DP-1" is a connector. */
static bool card_number(const char *name, unsigned *ret)
{
        unsigned n = 0, digits = 0;

        if (strncmp(name, "card", 4))
                return false;
        for (name += 4; isdigit((unsigned char) *name) && digits < 6; name++, digits++)
                n = n * 10 + (unsigned) (*name - '0');
        *ret = n;
        return digits && !*name;
}

static int compare(const void *a, const void *b)
{
        unsigned x = *(const unsigned *) a, y = *(const unsigned *) b;

        return x < y ? -1 : x > y;
}

/* The numbers of cards, sorted. 0 where there are none; -EMFILE, -ENFILE. */
static int list_cards(int root_fd, unsigned numbers[GPU_CARDS])
{
        infp_autoclose int fd = openat(root_fd, CARDS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct infp_names names;
        const char *name;
        unsigned number;
        int n_numbers = 0;

        if (fd < 0)
                return errno == EMFILE || errno == ENFILE ? -errno : 0;
        infp_names_begin(&names, fd);
        while ((name = infp_names_next(&names)))
                /* bound: minors of DRM cards: the kernel has 64 */
                if (card_number(name, &number) && n_numbers < GPU_CARDS)
                        numbers[n_numbers++] = number;
        infp_sort(numbers, (size_t) n_numbers, sizeof(*numbers), compare);
        return n_numbers;
}

static void take_ids(struct gpu_card *card, struct infp_span ids, uint32_t *ret_vendor)
{
        unsigned vendor, device;
        char text[16];

        snprintf(text, sizeof(text), "%.*s", (int) (ids.size < 15 ? ids.size : 15), ids.at);
        if (sscanf(text, "%x:%x", &vendor, &device) != 2)
                return;
        *ret_vendor = vendor;
        card->device_id = device;
        card->has_device_id = true;
}

static void take_text(char *ret, size_t cap, struct infp_span s)
{
        snprintf(ret, cap, "%.*s", (int) (s.size < cap ? s.size : cap - 1), s.at);
}

/* False: not ours, or it vanished. */
static bool identify(const struct gpu_cards *cards, int root_fd, unsigned number, struct gpu_card *ret)
{
        struct infp_span rest, line, value, key;
        char path[GPU_CARD_PATH + 32], text[2048];
        uint32_t vendor = 0;
        ssize_t n;

        *ret = (struct gpu_card){ .number = number, .place_fd = { -1, -1, -1 }, .numa_node = -1 };
        snprintf(ret->path, sizeof(ret->path), CARDS "/card%u/device", number);
        snprintf(path, sizeof(path), "%s/uevent", ret->path);
        n = infp_read_at(root_fd, path, text, sizeof(text));
        if (n <= 0)
                return false;
        rest = (struct infp_span){ text, (size_t) n };
        while (infp_span_line(&rest, &line)) {
                key = infp_span_cut(line, '=', &value);
                if (infp_span_is(key, "DRIVER"))
                        take_text(ret->driver, sizeof(ret->driver), value);
                else if (infp_span_is(key, "PCI_SLOT_NAME"))
                        take_text(ret->pci, sizeof(ret->pci), value);
                else if (infp_span_is(key, "PCI_ID"))
                        take_ids(ret, value, &vendor);
        }
        if (!*ret->pci)
                snprintf(ret->pci, sizeof(ret->pci), "card%u", number);
        for (const char *const *driver = cards->vendor->drivers; *driver; driver++)
                if (!strcmp(ret->driver, *driver))
                        return !vendor || vendor == cards->vendor->pci_id;
        return false;
}

static void close_card(struct gpu_card *card)
{
        for (int i = 0; i < GPU_PLACES; i++)
                card->place_fd[i] = infp_close(card->place_fd[i]);
}

/* i915 has one for the device, and one for each part (i915_gt0). */
static void find_hwmon(struct gpu_card *card)
{
        infp_autoclose int fd = openat(card->place_fd[GPU_DEVICE], "hwmon", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        struct infp_names names;
        const char *entry;

        infp_names_begin(&names, fd);
        while (card->place_fd[GPU_HWMON] < 0 && (entry = infp_names_next(&names))) {
                char path[300], name[64];

                if (strncmp(entry, "hwmon", 5))
                        continue;
                snprintf(path, sizeof(path), "%s/name", entry);
                if (infp_gpu_read_line(fd, path, name, sizeof(name)) == 0 && !strcmp(name, card->driver))
                        card->place_fd[GPU_HWMON] = openat(fd, entry, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        }
}

static int open_card(struct gpu_card *card, int root_fd)
{
        char path[GPU_CARD_PATH];

        close_card(card);
        card->place_fd[GPU_DEVICE] = openat(root_fd, card->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (card->place_fd[GPU_DEVICE] < 0)
                return errno == EMFILE || errno == ENFILE ? -errno : -ENODEV;
        snprintf(path, sizeof(path), CARDS "/card%u", card->number);
        card->place_fd[GPU_CARD] = openat(root_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        find_hwmon(card);
        card->no_file = 0;
        return 0;
}

/* "744C,	C8,	AMD Radeon RX 7900 XTX" in libdrm's list of AMD. */
static bool name_by_amdgpu_ids(struct infp_span text, struct gpu_card *card)
{
        struct infp_span line, rest;
        char device[16], revision[16];

        snprintf(device, sizeof(device), "%04X", card->device_id);
        snprintf(revision, sizeof(revision), "%02X", card->revision);
        while (infp_span_line(&text, &line)) {
                if (!infp_span_is(infp_span_trim(infp_span_cut(line, ',', &rest)), device) ||
                    !infp_span_is(infp_span_trim(infp_span_cut(rest, ',', &rest)), revision))
                        continue;
                take_text(card->name, sizeof(card->name), infp_span_trim(rest));
                return true;
        }
        return false;
}

/* "8086  Intel Corporation", below it "<tab>56a0  DG2 [Arc A770]". */
static bool name_by_pci_ids(struct infp_span text, uint32_t vendor, struct gpu_card *card)
{
        struct infp_span line;
        char want_vendor[16], want_device[16];
        bool is_vendor = false;

        snprintf(want_vendor, sizeof(want_vendor), "%04x ", vendor);
        snprintf(want_device, sizeof(want_device), "\t%04x ", card->device_id);
        while (infp_span_line(&text, &line)) {
                if (!line.size || line.at[0] == '#')
                        continue;
                if (line.at[0] != '\t')
                        is_vendor = infp_span_starts(line, want_vendor);
                else if (is_vendor && infp_span_starts(line, want_device)) {
                        line.at += 6;
                        line.size -= 6;
                        take_text(card->name, sizeof(card->name), infp_span_trim(line));
                        return true;
                }
        }
        return false;
}

static void name_it(const struct gpu_cards *cards, int root_fd, struct gpu_card *card)
{
        static const char *const lists[] = { "usr/share/libdrm/amdgpu.ids", "usr/share/misc/pci.ids",
                                             "usr/share/hwdata/pci.ids" };

        infp_gpu_read_line(card->place_fd[GPU_DEVICE], "product_name", card->name, sizeof(card->name));
        if (*card->name || !card->has_device_id)
                return;
        for (size_t i = 0; i < INFP_COUNT(lists); i++) {
                infp_autofree char *text = NULL;
                ssize_t size = infp_read_all_at(root_fd, lists[i], NAMES_MAX, &text);
                struct infp_span all = { text, size > 0 ? (size_t) size : 0 };

                if (size > 0 && (i ? name_by_pci_ids(all, cards->vendor->pci_id, card)
                                   : cards->vendor->pci_id == 0x1002 && name_by_amdgpu_ids(all, card)))
                        return;
        }
        snprintf(card->name, sizeof(card->name), "%04x:%04x", cards->vendor->pci_id, card->device_id);
}

static void read_facts(const struct gpu_cards *cards, int root_fd, struct gpu_card *card)
{
        char text[64];
        int64_t v;

        if (infp_gpu_read_line(card->place_fd[GPU_DEVICE], "revision", text, sizeof(text)) == 0)
                card->revision = (uint32_t) strtoul(text, NULL, 16);
        if (infp_gpu_read_i64(card->place_fd[GPU_DEVICE], "numa_node", &v) == 0 && v >= 0 && v < 4096)
                card->numa_node = (int) v;
        if (infp_gpu_read_line(card->place_fd[GPU_DEVICE], "unique_id", text, sizeof(text)) == 0 && *text)
                snprintf(card->uuid, sizeof(card->uuid), "GPU-%.55s", text);
        else
                snprintf(card->uuid, sizeof(card->uuid), "%s", card->pci);
        name_it(cards, root_fd, card);
}

struct gpu_card *infp_gpu_card_by_pci(const struct gpu_cards *cards, const char *pci)
{
        for (unsigned i = 0; i < cards->n; i++)
                if (!strcasecmp(cards->list[i]->pci, pci))
                        return cards->list[i];
        return NULL;
}

static int add(struct gpu_cards *cards, int root_fd, const struct gpu_card *found)
{
        struct gpu_card *card = infp_gpu_card_by_pci(cards, found->pci);
        int r;

        if (card) {
                card->is_seen = true;
                if (!card->is_gone && card->number == found->number && card->place_fd[GPU_DEVICE] >= 0) {
                        if (card->place_fd[GPU_HWMON] < 0)
                                find_hwmon(card);
                        card->no_file = 0;
                        return 0;
                }
                card->number = found->number;
                memcpy(card->path, found->path, sizeof(card->path));
                infp_gpu_energy_pause(&card->energy);
                cards->vendor->forget(card);
        } else {
                if (cards->n == GPU_CARDS) /* bound: minors of DRM cards: the kernel has 64 */
                        return 0;
                card = calloc(1, cards->vendor->card_size);
                if (!card)
                        return -ENOMEM;
                *card = *found;
                card->index = cards->n;
                card->is_seen = true;
                cards->list[cards->n++] = card;
        }
        r = open_card(card, root_fd);
        card->is_gone = r < 0;
        if (r < 0)
                return r == -ENODEV ? 0 : r;
        read_facts(cards, root_fd, card);
        return 0;
}

static void lose(struct gpu_card *card)
{
        card->is_gone = true;
        close_card(card);
}

int infp_gpu_cards_find(struct gpu_cards *cards, const struct infp_env *env)
{
        unsigned numbers[GPU_CARDS];
        int n = list_cards(env->root_fd, numbers), r = 0;

        if (n < 0)
                return n;
        for (unsigned i = 0; i < cards->n; i++)
                cards->list[i]->is_seen = false;
        for (int i = 0; i < n && r == 0; i++) {
                struct gpu_card found;

                if (identify(cards, env->root_fd, numbers[i], &found))
                        r = add(cards, env->root_fd, &found);
        }
        for (unsigned i = 0; i < cards->n && r == 0; i++)
                if (!cards->list[i]->is_seen)
                        lose(cards->list[i]);
        return r;
}

int infp_gpu_cards_refresh(struct gpu_cards *cards, const struct infp_env *env, uint64_t now_ns)
{
        if (now_ns - cards->found_ns < find_period_ns)
                return 0;
        cards->found_ns = now_ns;
        return infp_gpu_cards_find(cards, env);
}

void infp_gpu_cards_done(struct gpu_cards *cards)
{
        for (unsigned i = 0; i < cards->n; i++) {
                close_card(cards->list[i]);
                free(cards->list[i]);
        }
        cards->n = 0;
}

/* These files are the kernel's own; reading them does not touch the card. */
int infp_gpu_card_look(struct gpu_card *card, uint64_t now_ns)
{
        char status[32];
        int r;

        if (card->is_gone)
                return -ENODEV;
        r = infp_gpu_read_line(card->place_fd[GPU_DEVICE], "power/runtime_status", status, sizeof(status));
        if (r == -ENODEV || (r == -ENOENT && faccessat(card->place_fd[GPU_DEVICE], "uevent", F_OK, 0) < 0)) {
                card->is_gone = true;
                return -ENODEV;
        }
        if (!strcmp(status, "suspended") || !strcmp(status, "suspending")) {
                card->state = GPU_ASLEEP;
                card->alone_until_ns = 0;
        } else if (now_ns < card->alone_until_ns) {
                card->state = GPU_LEFT_ALONE;
        } else {
                card->state = GPU_AWAKE;
        }
        return 0;
}

/* Each reading counts as use, and delays the moment at which the kernel lets it sleep. */
void infp_gpu_card_note_idle(struct gpu_card *card, bool is_idle, uint64_t now_ns)
{
        char control[16];
        int64_t delay_ms = AUTOSUSPEND_DEFAULT_MS;

        if (!is_idle || !card->idle_since_ns) {
                card->idle_since_ns = is_idle ? now_ns : 0;
                return;
        }
        if (now_ns - card->idle_since_ns < idle_ns)
                return;
        card->idle_since_ns = 0;
        infp_gpu_read_line(card->place_fd[GPU_DEVICE], "power/control", control, sizeof(control));
        if (strcmp(control, "auto"))
                return;
        infp_gpu_read_i64(card->place_fd[GPU_DEVICE], "power/autosuspend_delay_ms", &delay_ms);
        if (delay_ms >= 0 && delay_ms <= 60000) /* negative: it never sleeps */
                card->alone_until_ns = now_ns + (uint64_t) (delay_ms + AUTOSUSPEND_MARGIN_MS) * INFP_NS_PER_MS;
}

/* From files of a card to cells of its row, and why a cell is empty. */

void infp_gpu_put(struct infp_row *row, unsigned cell, double value)
{
        const struct infp_column *column = infp_table_column(row->table, INFP_FIXED_COLUMNS + cell);

        if (column->type == INFP_F64)
                infp_row_f64(row, cell, value);
        else if (isfinite(value) && fabs(value) < 9e18)
                infp_row_i64(row, cell, llround(value));
}

void infp_gpu_put_memory(struct infp_row *row, uint64_t total, uint64_t used)
{
        const uint64_t free_bytes = used < total ? total - used : 0;

        if (total > INT64_MAX || used > INT64_MAX)
                return;
        infp_row_i64(row, GPU_MEMORY_TOTAL_BYTES, (int64_t) total);
        infp_row_i64(row, GPU_MEMORY_USED_BYTES, (int64_t) used);
        infp_row_i64(row, GPU_MEMORY_FREE_BYTES, (int64_t) free_bytes);
        infp_row_i64(row, GPU_MEMORY_TOTAL_MB, (int64_t) (total >> 20));
        infp_row_i64(row, GPU_MEMORY_USED_MB, (int64_t) (used >> 20));
        infp_row_i64(row, GPU_MEMORY_FREE_MB, (int64_t) (free_bytes >> 20));
}

void infp_gpu_card_put(const struct gpu_card *card, struct infp_row *row, const char *vendor)
{
        infp_row_i64(row, GPU_INDEX, card->index);
        infp_row_foreign(row, GPU_UUID, card->uuid);
        infp_row_str(row, GPU_VENDOR, vendor);
        infp_row_foreign(row, GPU_NAME, card->name);
        if (strchr(card->pci, ':'))
                infp_row_foreign(row, GPU_PCI_BUS_ID, card->pci);
        infp_row_foreign(row, GPU_DRIVER, card->driver);
        infp_row_foreign(row, GPU_ARCHITECTURE, card->architecture);
        if (card->numa_node >= 0)
                infp_row_i64(row, GPU_NUMA_NODE, card->numa_node);
}

static bool is_within(const struct gpu_file *file, int64_t v)
{
        return file->least || file->most ? v >= file->least && v <= file->most : v >= 0;
}

static void say_file(const struct gpu_card *card, const struct gpu_file *file, int r, struct infp_emit *emit,
                     const struct infp_table *table)
{
        static const char *const places[] = { "device/", "device/hwmon/hwmon*/", "" };
        char text[256];

        if (r == -ENOENT && !file->is_told)
                return;
        if (r == -ENOENT)
                snprintf(text, sizeof(text), "the driver %s has no %s for this card", card->driver, file->name);
        else
                snprintf(text, sizeof(text), "/sys/class/drm/card%u/%s%s: %s", card->number, places[file->place],
                         file->name, r == -EBADMSG ? "not a valid number" : strerror(-r));
        infp_emit_source(emit, table, file->cell, card->pci, infp_source_state_of(r), text, NULL);
}

int infp_gpu_files_read(struct gpu_card *card, const struct gpu_file *files, unsigned n, unsigned first,
                        struct infp_row *row)
{
        for (unsigned i = 0; i < n; i++) {
                const struct gpu_file *file = &files[i];
                const uint64_t bit = UINT64_C(1) << (first + i);
                int dir_fd = card->place_fd[file->place], r = -ENOENT;
                int64_t v = 0;

                if (infp_row_has(row, file->cell))
                        continue;
                if (dir_fd >= 0 && !(card->no_file & bit))
                        r = infp_gpu_read_i64(dir_fd, file->name, &v);
                if (r == 0 && !is_within(file, v))
                        r = -EBADMSG;
                if (r == -ENODEV)
                        return r;
                if (r == -ENOENT)
                        card->no_file |= bit;
                card->file_r[first + i] = r;
                if (r == 0)
                        infp_gpu_put(row, file->cell, (double) v * (file->scale != 0 ? file->scale : 1));
        }
        return 0;
}

/* Of several files for one cell the last existing one is reported. */
void infp_gpu_files_say(const struct gpu_card *card, const struct gpu_file *files, unsigned n, unsigned first,
                        struct infp_emit *emit)
{
        const struct infp_row *row = &emit->row;
        unsigned reported = 0;

        for (unsigned i = 0; i < n; i++) {
                const bool is_first = !i || files[i - 1].cell != files[i].cell;
                const bool is_last = i + 1 == n || files[i + 1].cell != files[i].cell;

                if (is_first || card->file_r[first + i] != -ENOENT || files[i].is_told)
                        reported = i;
                if (!is_last)
                        continue;
                if (infp_row_has(row, files[i].cell))
                        infp_emit_source(emit, row->table, files[i].cell, card->pci, INFP_OK, NULL, NULL);
                else
                        say_file(card, &files[reported], card->file_r[first + reported], emit, row->table);
        }
}

/* Gen 1: 2.5 GT/s; the text has the speed of a lane. */
int infp_gpu_pcie_generation(const char *speed)
{
        static const char *const speeds[] = { "2.5 ", "5.0 ", "8.0 ", "16.0 ", "32.0 ", "64.0 ", "128.0 " };

        for (size_t i = 0; i < INFP_COUNT(speeds); i++)
                if (!strncmp(speed, speeds[i], strlen(speeds[i])))
                        return (int) i + 1;
        /* Linux before 5.7 writes "5 GT/s". */
        for (size_t i = 1; i < INFP_COUNT(speeds); i++) {
                size_t size = strcspn(speeds[i], ".");

                if (!strncmp(speed, speeds[i], size) && speed[size] == ' ')
                        return (int) i + 1;
        }
        return 0;
}

void infp_gpu_put_pcie(const struct gpu_card *card, struct infp_row *row)
{
        static const struct {
                const char *speed, *width;
                uint8_t generation_cell, width_cell;
        } links[] = { { "current_link_speed", "current_link_width", GPU_PCIE_GEN, GPU_PCIE_WIDTH },
                      { "max_link_speed", "max_link_width", GPU_PCIE_GEN_MAX, GPU_PCIE_WIDTH_MAX } };

        for (size_t i = 0; i < INFP_COUNT(links); i++) {
                char text[64];
                int64_t width;
                int generation = 0;

                if (!infp_row_has(row, links[i].generation_cell) &&
                    infp_gpu_read_line(card->place_fd[GPU_DEVICE], links[i].speed, text, sizeof(text)) == 0)
                        generation = infp_gpu_pcie_generation(text);
                if (generation)
                        infp_row_i64(row, links[i].generation_cell, generation);
                if (!infp_row_has(row, links[i].width_cell) &&
                    infp_gpu_read_i64(card->place_fd[GPU_DEVICE], links[i].width, &width) == 0 && width >= 1 &&
                    width <= 32)
                        infp_row_i64(row, links[i].width_cell, width);
        }
}

void infp_gpu_card_say(const struct gpu_card *card, struct infp_emit *emit, const struct infp_table *table)
{
        if (card->is_gone)
                infp_emit_source(emit, table, -1, card->pci, INFP_ABSENT, "the card was removed from the machine",
                                 NULL);
        else if (card->state == GPU_ASLEEP)
                infp_emit_source(emit, table, -1, card->pci, INFP_ABSENT,
                                 "the card sleeps (runtime power management); a reading would wake it", NULL);
        else if (card->state == GPU_LEFT_ALONE)
                infp_emit_source(
                        emit, table, -1, card->pci, INFP_ABSENT,
                        "the card is idle and left alone for some seconds, so that the kernel can put it to sleep",
                        NULL);
        else
                infp_emit_source(emit, table, -1, card->pci, INFP_OK, NULL, NULL);
}
