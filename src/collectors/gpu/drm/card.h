/* Cards of the kernel's DRM drivers, as /sys/class/drm shows them: which there are, who they are, whether they may be read now,
 * and their files. The collectors amdgpu and intel put a struct gpu_card first in a larger one of their own. */
#pragma once

#include "collect/collector.h"
#include "collectors/gpu/drm/energy.h"
#include "collectors/gpu/drm/fdinfo.h"
#include "collectors/gpu/table.h"

enum { GPU_CARDS = 64, GPU_CARD_NAME = 128, GPU_CARD_PATH = 64, GPU_FILES = 64 };

enum gpu_place {
        GPU_DEVICE, /* card0/device */
        GPU_HWMON,  /* card0/device/hwmon/hwmonN */
        GPU_CARD,   /* card0 */
        GPU_PLACES,
};

enum gpu_state {
        GPU_AWAKE,
        GPU_ASLEEP,    /* suspended by the kernel: a reading would wake it */
        GPU_LEFT_ALONE /* idle; it would go to sleep, but for our readings */
};

struct gpu_card {
        unsigned number;          /* N of cardN */
        int64_t index;            /* gGpuIndex; kept when the card goes and comes back */
        char pci[GPU_PCI_NAME];   /* "0000:03:00.0"; or "cardN" where it is no PCI device */
        char path[GPU_CARD_PATH]; /* "sys/class/drm/card0/device", below the root */
        char driver[GPU_DRIVER_NAME];
        char name[GPU_CARD_NAME], uuid[64], architecture[16];
        uint32_t device_id, revision;
        bool has_device_id;
        int numa_node;            /* -1 */
        int place_fd[GPU_PLACES]; /* directories of its files; -1: not open, or gone */
        bool is_gone, is_seen;
        enum gpu_state state;
        uint64_t idle_since_ns, alone_until_ns;
        uint64_t no_file;      /* bit i: the card lacks file i of struct gpu_file */
        int file_r[GPU_FILES]; /* of the last reading of each */
        struct gpu_energy energy;
};

struct drm;

/* What differs from vendor to vendor. */
struct gpu_vendor {
        const char *name;           /* "amd" */
        const char *none;           /* the sentence where there is no card */
        const char *const *drivers; /* ended by NULL */
        uint32_t pci_id;
        const struct infp_table *table, *processes;
        size_t card_size;   /* of the collector's own struct */
        unsigned idle_cell; /* is 0 while the card is idle */
        /* The card has come back: earlier readings are no start for a difference. */
        void (*forget)(struct gpu_card *card);
        /* Fills the row between begin and commit. -ENODEV: the card has gone. */
        int (*read)(struct drm *drm, struct gpu_card *card, struct infp_emit *emit, uint64_t t_ns);
        /* May be NULL: at the start of a sample, once the states of the cards are known; and uses beside fdinfo. */
        void (*begin)(struct drm *drm, const struct infp_env *env, uint64_t now_ns);
        void (*read_users)(struct drm *drm, const struct infp_env *env);
};

struct gpu_cards {
        const struct gpu_vendor *vendor;
        struct gpu_card *list[GPU_CARDS]; /* each allocated separately */
        unsigned n;
        uint64_t found_ns;
};

/* Looks for cards that have come, gone and come back. 0, -ENOMEM, -EMFILE, -ENFILE. */
int infp_gpu_cards_find(struct gpu_cards *cards, const struct infp_env *env);
/* The same where it is due. */
int infp_gpu_cards_refresh(struct gpu_cards *cards, const struct infp_env *env, uint64_t now_ns);
void infp_gpu_cards_done(struct gpu_cards *cards);
struct gpu_card *infp_gpu_card_by_pci(const struct gpu_cards *cards, const char *pci); /* NULL */

/* Asks the kernel whether it sleeps, and sets state. -ENODEV: it has gone. */
int infp_gpu_card_look(struct gpu_card *card, uint64_t now_ns);
/* After a reading: leaves a card alone that has been idle for long and that the kernel may put to sleep. */
void infp_gpu_card_note_idle(struct gpu_card *card, bool is_idle, uint64_t now_ns);

/* One value of a file. 0; the negative errno of reading; -EBADMSG: not a number. */
int infp_gpu_read_i64(int dir_fd, const char *name, int64_t *ret);
/* The first line; *ret is "" on failure. */
int infp_gpu_read_line(int dir_fd, const char *name, char *ret, size_t cap);

/* A file that holds one number, and the cell that it goes to. */
struct gpu_file {
        uint8_t cell;
        uint8_t place;
        bool is_told; /* reported when it is missing */
        const char *name;
        double scale;        /* 0: 1 */
        int64_t least, most; /* of the number in the file; both 0: any that is not negative */
};

/* Fills empty cells from files. Of several files for one cell, one after the other, the first that has a number counts.
 * `first`: number of the first among all files of the card, at most GPU_FILES. -ENODEV: the card has gone. */
int infp_gpu_files_read(struct gpu_card *card, const struct gpu_file *files, unsigned n, unsigned first,
                        struct infp_row *row);
/* Once the row is filled: reports in `sources` why the files of cells that are still empty gave nothing. */
void infp_gpu_files_say(const struct gpu_card *card, const struct gpu_file *files, unsigned n, unsigned first,
                        struct infp_emit *emit);
/* Puts a number into a cell of either type, rounded where it is an integer. */
void infp_gpu_put(struct infp_row *row, unsigned cell, double value);
/* Its keys and names. */
void infp_gpu_card_put(const struct gpu_card *card, struct infp_row *row, const char *vendor);
/* Bytes and MiB of the three: total, used, free. */
void infp_gpu_put_memory(struct infp_row *row, uint64_t total, uint64_t used);
/* "16.0 GT/s PCIe" is generation 4, in the files current_link_speed and max_link_speed; 0: not known. */
int infp_gpu_pcie_generation(const char *speed);
/* The empty ones of the four PCIe cells, from the files of the device. */
void infp_gpu_put_pcie(const struct gpu_card *card, struct infp_row *row);
/* Reports whether the card as a whole can be read. */
void infp_gpu_card_say(const struct gpu_card *card, struct infp_emit *emit, const struct infp_table *table);
