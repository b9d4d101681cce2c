#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/sort.h"
#include "symbols/dwarf_parts.h"

static int add(struct infp_dwarf_list *list, uint64_t begin, uint64_t end, uint32_t index)
{
        if (begin >= end || !begin) /* code that the linker dropped is said to be at 0 */
                return 0;
        if (list->n >= INFP_DWARF_MAX_ENTRIES || !INFP_MAKE_ROOM(list->extents, list->n, list->cap, 64))
                return -ENOMEM;
        list->extents[list->n++] = (struct infp_dwarf_extent){ begin, end, index };
        return 0;
}

static int add_ranges(const struct infp_libdw *lib, struct infp_dwarf_list *list, Dwarf_Die *die, uint32_t index)
{
        Dwarf_Addr base, begin, end;
        ptrdiff_t at = 0;
        int r = 0;

        while (r == 0 && (at = lib->dwarf_ranges(die, at, &base, &begin, &end)) > 0)
                r = add(list, begin, end, index);
        return r;
}

static int by_begin(const void *left, const void *right)
{
        const struct infp_dwarf_extent *a = left, *b = right;

        if (a->begin != b->begin)
                return a->begin < b->begin ? -1 : 1;
        return a->end != b->end ? (a->end > b->end ? -1 : 1) : (a->index > b->index) - (a->index < b->index);
}

static void sort(struct infp_dwarf_list *list)
{
        infp_sort(list->extents, list->n, sizeof(*list->extents), by_begin);
}

enum { MOST_STEPS_BACK = 64 };

/* The one that begins last of those that have the address. Extents do not overlap in good files: a few steps back are enough. */
static const struct infp_dwarf_extent *find(const struct infp_dwarf_list *list, uint64_t address)
{
        size_t low = 0, high = list->n;

        while (low < high) {
                const size_t middle = low + (high - low) / 2;

                if (list->extents[middle].begin <= address)
                        low = middle + 1;
                else
                        high = middle;
        }
        for (unsigned i = 0; i < MOST_STEPS_BACK && low > 0; i++)
                if (address < list->extents[--low].end)
                        return &list->extents[low];
        return NULL;
}

int infp_dwarf_read_units(struct infp_dwarf *dwarf)
{
        const struct infp_libdw *lib = dwarf->lib;
        Dwarf_CU *cu = NULL;
        Dwarf_Half version;
        uint8_t type;
        Dwarf_Die die, split;
        int r = 0;

        while (r == 0 && lib->dwarf_get_units(dwarf->dwarf, cu, &cu, &version, &type, &die, &split) == 0) {
                struct infp_dwarf_unit *unit;

                if (type != DW_UT_compile && type != DW_UT_skeleton && type != DW_UT_partial)
                        continue;
                if (dwarf->n_units >= INFP_DWARF_MAX_ENTRIES ||
                    !INFP_MAKE_ROOM(dwarf->units, dwarf->n_units, dwarf->cap_units, 64))
                        return -ENOMEM;
                unit = &dwarf->units[dwarf->n_units];
                *unit = (struct infp_dwarf_unit){ .die = die, .lines = die };
                if (type == DW_UT_skeleton && lib->dwarf_tag(&split) != DW_TAG_invalid)
                        unit->die = split;
                r = add_ranges(lib, &dwarf->places, &die, (uint32_t) dwarf->n_units++);
        }
        sort(&dwarf->places);
        return r;
}

struct infp_dwarf_unit *infp_dwarf_unit_at(struct infp_dwarf *dwarf, uint64_t address)
{
        const struct infp_dwarf_extent *found = find(&dwarf->places, address);

        return found ? &dwarf->units[found->index] : NULL;
}

static int add_function(struct infp_dwarf *dwarf, struct infp_dwarf_unit *unit, Dwarf_Die *die)
{
        const size_t before = unit->functions.n;

        if (unit->n_dies >= INFP_DWARF_MAX_ENTRIES || !INFP_MAKE_ROOM(unit->dies, unit->n_dies, unit->cap_dies, 64))
                return -ENOMEM;
        if (add_ranges(dwarf->lib, &unit->functions, die, (uint32_t) unit->n_dies) < 0)
                return -ENOMEM;
        if (unit->functions.n > before)
                unit->dies[unit->n_dies++] = *die;
        return 0;
}

static int add_scope(struct infp_dwarf *dwarf, struct infp_dwarf_unit *unit, Dwarf_Die *die, uint32_t parent)
{
        Dwarf_Attribute attribute;

        if (unit->n_scopes >= INFP_DWARF_MAX_ENTRIES ||
            !INFP_MAKE_ROOM(unit->scopes, unit->n_scopes, unit->cap_scopes, 64))
                return -ENOMEM;
        unit->n_scopes += !unit->n_scopes; /* 0 is none */
        unit->scopes[unit->n_scopes] = (struct infp_dwarf_scope){
                .name = dwarf->lib->dwarf_attr(die, DW_AT_name, &attribute) ? dwarf->lib->dwarf_formstring(&attribute)
                                                                            : NULL,
                .parent = parent,
                .is_namespace = dwarf->lib->dwarf_tag(die) == DW_TAG_namespace,
        };
        return (int) unit->n_scopes++;
}

static int add_member(struct infp_dwarf_unit *unit, uint64_t offset, uint32_t scope)
{
        if (unit->n_members >= INFP_DWARF_MAX_ENTRIES ||
            !INFP_MAKE_ROOM(unit->members, unit->n_members, unit->cap_members, 64))
                return -ENOMEM;
        unit->members[unit->n_members++] = (struct infp_dwarf_member){ offset, scope };
        return 0;
}

static uint32_t scope_of(const struct infp_dwarf_unit *unit, uint64_t offset)
{
        size_t low = 0, high = unit->n_members;

        while (low < high) {
                const size_t middle = low + (high - low) / 2;

                if (unit->members[middle].offset < offset)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < unit->n_members && unit->members[low].offset == offset ? unit->members[low].scope : 0;
}

/* Functions lie below the unit, and in namespaces and classes. The walk ends at a sibling that does not lie after its entry: libdw would
 * follow it for ever. */
static int walk(struct infp_dwarf *dwarf, struct infp_dwarf_unit *unit, Dwarf_Die *parent, uint32_t scope,
                unsigned depth)
{
        const struct infp_libdw *lib = dwarf->lib;
        Dwarf_Off last = lib->dwarf_dieoffset(parent);
        Dwarf_Die die;
        int r = lib->dwarf_child(parent, &die) == 0 ? 0 : 1;

        while (r == 0) {
                const Dwarf_Off at = lib->dwarf_dieoffset(&die);
                int inner;

                if (at <= last)
                        return -EBADMSG;
                last = at;
                switch (lib->dwarf_tag(&die)) {
                case DW_TAG_subprogram:
                        if (add_function(dwarf, unit, &die) < 0 || (scope && add_member(unit, at, scope) < 0))
                                return -ENOMEM;
                        break;
                case DW_TAG_namespace:
                case DW_TAG_class_type:
                case DW_TAG_structure_type:
                case DW_TAG_union_type:
                case DW_TAG_module:
                        inner = depth < INFP_DWARF_MAX_DEPTH ? add_scope(dwarf, unit, &die, scope) : 0;
                        if (inner < 0 || (inner && walk(dwarf, unit, &die, (uint32_t) inner, depth + 1) < 0))
                                return -EBADMSG;
                        break;
                default:
                        break;
                }
                r = lib->dwarf_siblingof(&die, &die);
        }
        return r < 0 ? -EBADMSG : 0;
}

/* Where the function is declared: the entry that has its name says so. */
static uint32_t find_scope(struct infp_dwarf *dwarf, const struct infp_dwarf_unit *unit, Dwarf_Die *die)
{
        static const unsigned ways[] = { DW_AT_abstract_origin, DW_AT_specification };
        const struct infp_libdw *lib = dwarf->lib;
        uint32_t scope = scope_of(unit, lib->dwarf_dieoffset(die));
        Dwarf_Attribute attribute;
        Dwarf_Die at = *die;

        for (unsigned i = 0; i < 2 && !scope; i++)
                if (lib->dwarf_attr(&at, ways[i], &attribute) && lib->dwarf_formref_die(&attribute, &at))
                        scope = scope_of(unit, lib->dwarf_dieoffset(&at));
        return scope;
}

bool infp_dwarf_qualify(struct infp_dwarf *dwarf, struct infp_dwarf_unit *unit, Dwarf_Die *die, const char *name,
                        char ret[INFP_DWARF_NAME])
{
        uint32_t scopes[INFP_DWARF_MAX_DEPTH], scope = find_scope(dwarf, unit, die);
        unsigned n = 0;
        int at = 0;

        for (; scope && n < INFP_DWARF_MAX_DEPTH; scope = unit->scopes[scope].parent)
                scopes[n++] = scope;
        if (!n)
                return false;
        while (n-- > 0 && at < INFP_DWARF_NAME) {
                const struct infp_dwarf_scope *s = &unit->scopes[scopes[n]];
                const char *text = s->name ? s->name : s->is_namespace ? "(anonymous namespace)" : "(anonymous)";

                at += snprintf(ret + at, (size_t) (INFP_DWARF_NAME - at), "%s::", text);
        }
        if (at < INFP_DWARF_NAME)
                at += snprintf(ret + at, (size_t) (INFP_DWARF_NAME - at), "%s", name);
        return at < INFP_DWARF_NAME;
}

bool infp_dwarf_function_at(struct infp_dwarf *dwarf, struct infp_dwarf_unit *unit, uint64_t address, Dwarf_Die *ret)
{
        const struct infp_dwarf_extent *found;

        if (!unit->is_read) {
                unit->is_read = true; /* what was found before a fault stays */
                walk(dwarf, unit, &unit->die, 0, 0);
                sort(&unit->functions);
        }
        found = find(&unit->functions, address);
        if (found)
                *ret = unit->dies[found->index];
        return found != NULL;
}
