/* What changes rarely, or costs the firmware much to tell: read each 10 s. */
#include <stdio.h>
#include <string.h>

#include "base/fd.h"
#include "base/procfile.h"
#include "base/time.h"
#include "collectors/gpu/drm/amdgpu.h"

static const uint64_t period_ns = 10 * INFP_NS_PER_S;

void infp_amdgpu_levels(const char *text, size_t size, int64_t *ret_current, int64_t *ret_highest)
{
        struct infp_span rest = { text, size }, line, value;

        *ret_current = *ret_highest = 0;
        while (infp_span_line(&rest, &line)) {
                int64_t mhz = 0;
                size_t digits = 0;

                infp_span_cut(line, ':', &value);
                value = infp_span_trim(value);
                while (digits < value.size && digits < 6 && value.at[digits] >= '0' && value.at[digits] <= '9')
                        mhz = mhz * 10 + (value.at[digits++] - '0');
                if (!digits || !infp_span_starts((struct infp_span){ value.at + digits, value.size - digits }, "Mhz"))
                        continue;
                *ret_highest = mhz > *ret_highest ? mhz : *ret_highest;
                if (value.at[value.size - 1] == '*')
                        *ret_current = mhz;
        }
}

static int64_t highest(int dir_fd, const char *name)
{
        char text[4096];
        int64_t current, most;
        ssize_t n = infp_read_at(dir_fd, name, text, sizeof(text));

        infp_amdgpu_levels(text, n > 0 ? (size_t) n : 0, &current, &most);
        return most;
}

/* "ue: 0\nce: 12\n" */
static void read_errors(struct amdgpu_slow *slow, int dir_fd)
{
        char text[256];
        struct infp_span rest, line, value, key;
        ssize_t n = infp_read_at(dir_fd, "ras/umc_err_count", text, sizeof(text));
        bool has_ue = false, has_ce = false;

        rest = (struct infp_span){ text, n > 0 ? (size_t) n : 0 };
        while (infp_span_line(&rest, &line)) {
                key = infp_span_trim(infp_span_cut(line, ':', &value));
                value = infp_span_trim(value);
                if (infp_span_is(key, "ue"))
                        has_ue = !infp_span_u64(value, &slow->uncorrected);
                else if (infp_span_is(key, "ce"))
                        has_ce = !infp_span_u64(value, &slow->corrected);
        }
        slow->has_ecc = has_ue && has_ce;
}

/* "0x00000001 : 0x00001000 : R" a line: R is out of use, P and F are to be. */
static void read_bad_pages(struct amdgpu_slow *slow, int dir_fd)
{
        char text[4096];
        struct infp_span rest, line;
        ssize_t n = infp_read_at(dir_fd, "ras/gpu_vram_bad_pages", text, sizeof(text));

        slow->has_bad_pages =
                n >= 0 && (size_t) n < sizeof(text) - 1; /* a longer list is not counted by its beginning */
        slow->bad_pages = 0;
        rest = (struct infp_span){ text, n > 0 ? (size_t) n : 0 };
        while (infp_span_line(&rest, &line)) {
                line = infp_span_trim(line);
                slow->bad_pages += line.size && line.at[line.size - 1] == 'R';
        }
}

void infp_amdgpu_read_slow(struct amdgpu_card *card, uint64_t t_ns)
{
        struct amdgpu_slow *slow = &card->slow;
        const int fd = card->card.place_fd[GPU_DEVICE];

        if (slow->t_ns && t_ns - slow->t_ns < period_ns)
                return;
        slow->t_ns = t_ns;
        read_errors(slow, fd);
        read_bad_pages(slow, fd);
        slow->sclk_max = highest(fd, "pp_dpm_sclk");
        slow->mclk_max = highest(fd, "pp_dpm_mclk");
        slow->vclk_max = highest(fd, "pp_dpm_vclk");
        infp_gpu_read_line(fd, "vbios_version", slow->vbios, sizeof(slow->vbios));
        infp_gpu_read_line(fd, "power_dpm_force_performance_level", slow->level, sizeof(slow->level));
}

static void put_count(struct infp_row *row, unsigned cell, bool has, uint64_t n)
{
        if (has && n <= INT64_MAX)
                infp_row_i64(row, cell, (int64_t) n);
}

void infp_amdgpu_put_slow(const struct amdgpu_card *card, struct infp_row *row)
{
        const struct amdgpu_slow *slow = &card->slow;

        if (slow->has_ecc)
                infp_row_bool(row, GPU_ECC_ENABLED, true);
        put_count(row, GPU_ECC_SINGLE_BIT, slow->has_ecc, slow->corrected);
        put_count(row, GPU_ECC_DOUBLE_BIT, slow->has_ecc, slow->uncorrected);
        put_count(row, GPU_RETIRED_PAGES_DOUBLE_BIT, slow->has_bad_pages, slow->bad_pages);
        put_count(row, GPU_CLOCK_GRAPHICS_MAX, slow->sclk_max > 0, (uint64_t) slow->sclk_max);
        put_count(row, GPU_CLOCK_MEM_MAX, slow->mclk_max > 0, (uint64_t) slow->mclk_max);
        put_count(row, GPU_CLOCK_VIDEO_MAX, slow->vclk_max > 0, (uint64_t) slow->vclk_max);
        if (*slow->vbios)
                infp_row_bytes(row, GPU_VBIOS, slow->vbios, strlen(slow->vbios));
        if (*slow->level)
                infp_row_bytes(row, GPU_PERF_STATE, slow->level, strlen(slow->level));
}
