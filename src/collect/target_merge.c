/* The table of pids after /proc was listed: one pass over two sorted arrays. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "collect/target_inner.h"

struct infp_entry *infp_target_entry(struct infp_target *target, int32_t pid)
{
        size_t low = 0, high = target->n_entries;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (target->entries[middle].pid < pid)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < target->n_entries && target->entries[low].pid == pid ? &target->entries[low] : NULL;
}

static int make_room(struct infp_target *target, size_t n)
{
        struct infp_entry *grown;

        if (n <= target->cap_merged)
                return 0;
        n += n / 2;
        grown = realloc(target->merged, n * sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        target->merged = grown;
        target->cap_merged = n;
        return 0;
}

/* Still listed. On procfs an inode stays with its process, though one process may get several one after the other. */
static void keep(const struct infp_target *target, struct infp_entry *e, const struct infp_listed *listed)
{
        bool is_same = target->list.is_procfs && e->ino == listed->ino;

        if (!is_same && e->state == INFP_ENTRY_SETTLED)
                e->state = INFP_ENTRY_CHECK;
        e->ino = listed->ino;
}

int infp_target_merge(struct infp_target *target)
{
        const struct infp_process_list *list = &target->list;
        size_t n = 0, i = 0, j = 0, cap;
        struct infp_entry *out, *in;

        if (list->from == INT32_MAX)
                return 0;
        INFP_TRY(make_room(target, target->n_entries + list->n));
        in = target->entries;
        out = target->merged;
        while (i < target->n_entries && in[i].pid < list->from)
                out[n++] = in[i++];
        while (i < target->n_entries || j < list->n) {
                if (j == list->n || (i < target->n_entries && in[i].pid < list->items[j].pid)) {
                        in[i].is_ended = true;
                        out[n++] = in[i++];
                } else if (i == target->n_entries || in[i].pid > list->items[j].pid) {
                        out[n++] = (struct infp_entry){ .pid = list->items[j].pid, .ino = list->items[j].ino };
                        j++;
                } else {
                        keep(target, &in[i], &list->items[j++]);
                        out[n++] = in[i++];
                }
        }
        cap = target->cap_entries;
        target->entries = out;
        target->n_entries = n;
        target->cap_entries = target->cap_merged;
        target->merged = in;
        target->cap_merged = cap;
        return 0;
}

void infp_target_sweep(struct infp_target *target)
{
        size_t n = 0;

        for (size_t i = 0; i < target->n_entries; i++)
                if (!target->entries[i].is_ended || target->entries[i].process)
                        target->entries[n++] = target->entries[i];
        target->n_entries = n;
}
