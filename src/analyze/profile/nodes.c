/* From the stacks of samples up to their roots, through a table that may be torn or hostile. */
#include <errno.h>
#include <stdlib.h>

#include "analyze/profile/parts.h"
#include "base/mem.h"

enum { ID, PARENT, FRAME };
static const struct infp_profile_column columns[] = {
        [ID] = { "id", INFP_ID64 }, [PARENT] = { "parent", INFP_ID64 }, [FRAME] = { "frame", INFP_ID64 }
};

/* The table as it is. */
struct raw {
        struct raw_node {
                uint64_t parent, frame; /* ids; 0: none */
                uint32_t node;          /* in infp_profile.nodes */
                enum { NEW, ON_PATH, DONE } state;
        } * nodes;
        uint32_t n, cap;
        struct infp_map by_id;
        uint32_t *path; /* innermost first */
        uint32_t n_path, cap_path;
};

static void raw_done(struct raw *raw)
{
        free(raw->nodes);
        free(raw->path);
        infp_map_done(&raw->by_id);
}

static int read_raw(struct infp_profile_reader *reader, struct raw *raw, struct infp_err *err)
{
        struct infp_profile_scan scan;
        int r;

        INFP_TRY(infp_profile_scan_open(reader, "stacks", columns, INFP_COUNT(columns), false, &scan, err));
        while ((r = infp_profile_scan_next(&scan, err)) > 0) {
                const uint64_t id = infp_profile_id(&scan, ID);

                if (!id || infp_map_get(&raw->by_id, id))
                        continue; /* ids are hashes of what they stand for: the row is the same */
                r = infp_profile_room(&raw->nodes, &raw->cap, raw->n, sizeof(*raw->nodes), err);
                if (r >= 0 && infp_map_put(&raw->by_id, id, raw->n) < 0)
                        r = infp_profile_no_memory(err);
                if (r < 0)
                        break;
                raw->nodes[raw->n++] = (struct raw_node){ .parent = infp_profile_id(&scan, PARENT),
                                                          .frame = infp_profile_id(&scan, FRAME) };
        }
        infp_profile_scan_close(&scan);
        return r;
}

static int frame_of(struct infp_profile_reader *reader, uint64_t id, uint32_t *ret, struct infp_err *err)
{
        struct infp_profile *s = reader->profile;
        const uint64_t *known = infp_map_get(&reader->frames, id);

        if (known) {
                *ret = (uint32_t) *known;
                return 0;
        }
        INFP_TRY(infp_profile_room(&s->frames, &reader->cap_frames, s->n_frames, sizeof(*s->frames), err));
        if (infp_map_put(&reader->frames, id, s->n_frames) < 0)
                return infp_profile_no_memory(err);
        s->frames[s->n_frames] = (struct infp_profile_frame){ .id = id, .kind = INFP_FRAME_UNKNOWN };
        *ret = s->n_frames++;
        return 0;
}

/* Takes the path up from `at` until something known or the end. *ret_node: what is known, or none; is_cut: the end is not a root. */
static int climb(struct raw *raw, uint32_t at, uint32_t *ret_node, bool *ret_is_cut, struct infp_err *err)
{
        raw->n_path = 0;
        *ret_node = INFP_PROFILE_NONE;
        *ret_is_cut = false;
        for (;;) {
                const uint64_t *up;

                if (raw->nodes[at].state == DONE) {
                        *ret_node = raw->nodes[at].node;
                        return 0;
                }
                *ret_is_cut = raw->nodes[at].state == ON_PATH; /* a cycle */
                if (*ret_is_cut)
                        return 0;
                INFP_TRY(infp_profile_room(&raw->path, &raw->cap_path, raw->n_path, sizeof(*raw->path), err));
                raw->path[raw->n_path++] = at;
                raw->nodes[at].state = ON_PATH;
                if (!raw->nodes[at].parent)
                        return 0;
                up = infp_map_get(&raw->by_id, raw->nodes[at].parent);
                if (!up) {
                        *ret_is_cut = true;
                        return 0;
                }
                at = (uint32_t) *up;
        }
}

/* The nodes of the path, outermost first. */
static int emit(struct infp_profile_reader *reader, struct raw *raw, uint32_t parent, bool is_cut, struct infp_err *err)
{
        struct infp_profile *s = reader->profile;

        while (raw->n_path) {
                struct raw_node *from = &raw->nodes[raw->path[--raw->n_path]];
                struct infp_profile_node node = { .parent = parent, .is_cut = is_cut };

                if (parent != INFP_PROFILE_NONE) {
                        node.depth = (uint16_t) (s->nodes[parent].depth + 1);
                        node.is_cut = s->nodes[parent].is_cut;
                }
                if (node.depth >= INFP_PROFILE_DEEPEST) {
                        node.depth = 0;
                        node.parent = INFP_PROFILE_NONE;
                        node.is_cut = true;
                }
                INFP_TRY(frame_of(reader, from->frame, &node.frame, err));
                INFP_TRY(infp_profile_room(&s->nodes, &reader->cap_nodes, s->n_nodes, sizeof(*s->nodes), err));
                s->nodes[s->n_nodes] = node;
                parent = from->node = s->n_nodes++;
                from->state = DONE;
        }
        return 0;
}

static int resolve(struct infp_profile_reader *reader, struct raw *raw, uint32_t i, struct infp_err *err)
{
        struct infp_profile_sum *sum = &reader->profile->sums[i];
        const uint64_t *at = sum->stack ? infp_map_get(&raw->by_id, sum->stack) : NULL;
        uint32_t known;
        bool is_cut;

        sum->node = INFP_PROFILE_NONE;
        if (!at) {
                reader->profile->cut_samples += sum->samples;
                return 0;
        }
        INFP_TRY(climb(raw, (uint32_t) *at, &known, &is_cut, err));
        INFP_TRY(emit(reader, raw, known, is_cut, err));
        sum->node = raw->nodes[*at].node;
        if (reader->profile->nodes[sum->node].is_cut)
                reader->profile->cut_samples += sum->samples;
        return 0;
}

int infp_profile_read_nodes(struct infp_profile_reader *reader, struct infp_err *err)
{
        infp_cleanup(raw_done) struct raw raw = { 0 };

        INFP_TRY(read_raw(reader, &raw, err));
        for (uint32_t i = 0; i < reader->profile->n_sums; i++)
                INFP_TRY(resolve(reader, &raw, i, err));
        return 0;
}
