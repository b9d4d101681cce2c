/* From files of a card to cells of its row, and why a cell is empty. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/mem.h"
#include "collectors/gpu/drm/card.h"

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

static void put_text(struct infp_row *row, unsigned cell, const char *text)
{
        if (*text)
                infp_row_bytes(row, cell, text, strlen(text));
}

void infp_gpu_card_put(const struct gpu_card *card, struct infp_row *row, const char *vendor)
{
        infp_row_i64(row, GPU_INDEX, card->index);
        put_text(row, GPU_UUID, card->uuid);
        infp_row_str(row, GPU_VENDOR, vendor);
        put_text(row, GPU_NAME, card->name);
        if (strchr(card->pci, ':'))
                put_text(row, GPU_PCI_BUS_ID, card->pci);
        put_text(row, GPU_DRIVER, card->driver);
        put_text(row, GPU_ARCHITECTURE, card->architecture);
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
                snprintf(text, sizeof(text), "the driver %s gives no %s of this card", card->driver, file->name);
        else
                snprintf(text, sizeof(text), "/sys/class/drm/card%u/%s%s: %s", card->number, places[file->place],
                         file->name, r == -EBADMSG ? "what stands there is no such number" : strerror(-r));
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

/* Of several files for one cell the last that is there speaks. */
void infp_gpu_files_say(const struct gpu_card *card, const struct gpu_file *files, unsigned n, unsigned first,
                        struct infp_emit *emit)
{
        const struct infp_row *row = &emit->row;
        unsigned speaks = 0;

        for (unsigned i = 0; i < n; i++) {
                const bool is_first = !i || files[i - 1].cell != files[i].cell;
                const bool is_last = i + 1 == n || files[i + 1].cell != files[i].cell;

                if (is_first || card->file_r[first + i] != -ENOENT || files[i].is_told)
                        speaks = i;
                if (!is_last)
                        continue;
                if (infp_row_has(row, files[i].cell))
                        infp_emit_source(emit, row->table, files[i].cell, card->pci, INFP_OK, NULL, NULL);
                else
                        say_file(card, &files[speaks], card->file_r[first + speaks], emit, row->table);
        }
}

/* Gen 1: 2.5 GT/s; the text names the speed of a lane. */
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
                infp_emit_source(emit, table, -1, card->pci, INFP_ABSENT, "the card has gone from the machine", NULL);
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
