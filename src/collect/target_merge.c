/* The table of pids after /proc was listed: one pass over two sorted arrays. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collect/target_inner.h"

static int make_room(struct infp_entry **entries, size_t *cap, size_t n)
{
        struct infp_entry *grown;

        if (n <= *cap)
                return 0;
        n += n / 2;
        grown = realloc(*entries, n * sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        *entries = grown;
        *cap = n;
        return 0;
}

/* Still listed. On procfs an inode stays with its process, though one process may get several one after the other. */
static void keep(struct infp_target *target, struct infp_entry *e, const struct infp_listed *listed)
{
        bool is_same = target->list.is_procfs && e->ino == listed->ino;

        if (!is_same && e->state == INFP_ENTRY_SETTLED) {
                e->state = INFP_ENTRY_CHECK;
                target->has_unsettled = true;
        }
        e->ino = listed->ino;
}

static size_t first_from(const struct infp_target *target, int32_t pid)
{
        size_t low = 0, high = target->n_entries;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (target->entries[middle].pid < pid)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

struct infp_entry *infp_target_entry(struct infp_target *target, int32_t pid)
{
        size_t i = first_from(target, pid);

        return i < target->n_entries && target->entries[i].pid == pid ? &target->entries[i] : NULL;
}

/* Merges what was listed with the entries from `first` on into target->merged; returns how many that gives. */
static size_t merge_part(struct infp_target *target, size_t first)
{
        const struct infp_process_list *list = &target->list;
        struct infp_entry *in = target->entries, *out = target->merged;
        size_t n = 0, i = first, j = 0;

        while (i < target->n_entries || j < list->n) {
                if (j == list->n || (i < target->n_entries && in[i].pid < list->items[j].pid)) {
                        in[i].is_ended = target->has_ended = true;
                        out[n++] = in[i++];
                } else if (i == target->n_entries || in[i].pid > list->items[j].pid) {
                        out[n++] = (struct infp_entry){ .pid = list->items[j].pid, .ino = list->items[j].ino };
                        target->has_unsettled = true;
                        j++;
                } else {
                        keep(target, &in[i], &list->items[j++]);
                        out[n++] = in[i++];
                }
        }
        return n;
}

int infp_target_merge(struct infp_target *target)
{
        const struct infp_process_list *list = &target->list;
        size_t first, n;

        if (list->from == INT32_MAX)
                return 0;
        first = first_from(target, list->from);
        n = target->n_entries - first + list->n;
        if (!n)
                return 0;
        INFP_TRY(make_room(&target->merged, &target->cap_merged, n));
        INFP_TRY(make_room(&target->entries, &target->cap_entries, first + n));
        n = merge_part(target, first);
        memcpy(target->entries + first, target->merged, n * sizeof(*target->entries));
        target->n_entries = first + n;
        return 0;
}

void infp_target_sweep(struct infp_target *target)
{
        size_t n = 0;

        if (!target->has_ended)
                return;
        target->has_ended = false;
        for (size_t i = 0; i < target->n_entries; i++) {
                const struct infp_entry *e = &target->entries[i];

                if (e->is_ended && !e->process)
                        continue;
                target->has_ended |= e->is_ended;
                target->entries[n++] = *e;
        }
        target->n_entries = n;
}
