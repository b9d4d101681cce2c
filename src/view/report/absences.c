/* What was absent, in the text report: each fact once, the most wanted first. Without `all` long lists are cut, and minor
 * facts are names only. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "model/tables.h"
#include "view/report/parts.h"

enum { WHOLE_LIST = 5, PART_OF_LIST = 3, NAMES_MOST = 8, FACTS_MOST = 12 };

/* By their collector. */
static const char *const topics[] = { "energy", "engine", "containers" };
enum {
        RANK_TARGET, /* there was no process to record */
        RANK_TOPICS,
        RANK_TROUBLE = RANK_TOPICS + INFP_COUNT(topics), /* denied, broken, late */
        RANK_FIX,                                        /* there is a fix */
        RANK_BARE,                                       /* the machine or its kernel lacks it */
        RANK_NOT_ASKED,
        RANKS,
};

struct facts {
        const struct infp_report *report;
        bool all;
        unsigned *first; /* of each absence: the first with the same fact */
        unsigned *rank;  /* of each first */
        unsigned n_shown;
};

static bool same_fact(const struct infp_absence *a, const struct infp_absence *b)
{
        return !strcmp(a->state, b->state) && !strcmp(a->reason, b->reason) && !strcmp(a->fix, b->fix);
}

static bool is_not_asked(const struct infp_absence *a)
{
        return !strncmp(a->reason, INFP_NOT_ASKED, strlen(INFP_NOT_ASKED));
}

static unsigned rank_of(const struct infp_absence *a)
{
        if (is_not_asked(a))
                return RANK_NOT_ASKED;
        if (!strcmp(a->instance, "target"))
                return RANK_TARGET;
        for (unsigned i = 0; i < INFP_COUNT(topics); i++)
                if (!strcmp(a->collector, topics[i]))
                        return RANK_TOPICS + i;
        if (strcmp(a->state, "absent"))
                return RANK_TROUBLE;
        return *a->fix ? RANK_FIX : RANK_BARE;
}

/* A default place without anything, or what a section above reports already. */
static bool is_silent(const struct infp_report *report, const struct infp_absence *a)
{
        const struct infp_absence *energy = infp_report_energy_absence(report);

        if (is_not_asked(a) && *a->instance)
                return true;
        if (energy && same_fact(a, energy))
                return true;
        for (unsigned i = 0; i < report->engines.n; i++) {
                const struct infp_report_engine *e = &report->engines.list[i];

                if (e->url && !strcmp(a->instance, e->url) && e->reason && !strcmp(a->reason, e->reason))
                        return true;
        }
        return false;
}

static bool find_facts(struct facts *facts)
{
        const struct infp_absences *absences = &facts->report->absences;

        facts->first = calloc(absences->n, sizeof(*facts->first));
        facts->rank = calloc(absences->n, sizeof(*facts->rank));
        if (!facts->first || !facts->rank)
                return false;
        for (unsigned i = 0; i < absences->n; i++) {
                const struct infp_absence *a = &absences->list[i];
                unsigned rank = rank_of(a), k = 0;

                if (!facts->all && is_silent(facts->report, a))
                        rank = RANKS;
                while (k < i && !same_fact(&absences->list[k], a))
                        k++;
                facts->first[i] = k;
                facts->rank[k] = k == i || rank < facts->rank[k] ? rank : facts->rank[k];
        }
        return true;
}

/* The column, else the table, else the collector; with the instance. */
static void put_name(struct infp_str *text, const struct infp_absence *a)
{
        const char *name = *a->column && strcmp(a->column, "*") ? a->column
                           : *a->table && strcmp(a->table, "*") ? a->table
                                                                : a->collector;

        infp_str_puts(text, name);
        if (*a->instance)
                infp_str_printf(text, " (%s)", a->instance);
}

static void put_names(struct infp_str *text, const struct facts *facts, unsigned fact)
{
        const struct infp_absences *absences = &facts->report->absences;
        unsigned n = 0, shown = 0;

        for (unsigned i = fact; i < absences->n; i++)
                n += facts->first[i] == fact;
        for (unsigned i = fact; i < absences->n; i++) {
                if (facts->first[i] != fact)
                        continue;
                if (!facts->all && n > WHOLE_LIST && shown == PART_OF_LIST) {
                        infp_str_printf(text, " and %u more", n - shown);
                        return;
                }
                infp_str_puts(text, shown++ ? ", " : "");
                put_name(text, &absences->list[i]);
        }
}

/* Bytes of a name in a list: "cCpuTime, "; 0: not a name. The last one has no comma. */
static size_t item_at(const char *text, bool *ret_is_last)
{
        const size_t size = strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

        *ret_is_last = strncmp(text + size, ", ", 2) != 0;
        return size;
}

/* A reason may list a hundred columns. */
static void put_reason(struct infp_str *text, const char *at, bool all)
{
        while (*at) {
                const char *end = at, *cut = NULL;
                unsigned n = 0;
                bool is_last = false;
                size_t size;

                while (!is_last && (size = item_at(end, &is_last))) {
                        end += size + (is_last ? 0 : 2);
                        if (++n == PART_OF_LIST)
                                cut = end;
                }
                if (!all && n > WHOLE_LIST && cut) {
                        infp_str_put(text, at, (size_t) (cut - at) - 2);
                        infp_str_printf(text, " and %u more", n - PART_OF_LIST);
                } else {
                        size = end > at ? (size_t) (end - at) : 1;
                        end = at + size;
                        infp_str_put(text, at, size);
                }
                at = end;
        }
}

static void put_title(struct infp_out *out, struct facts *facts)
{
        if (!facts->n_shown++)
                infp_report_title(out, "Absent, and why");
}

static void put_fact(struct infp_out *out, struct facts *facts, unsigned fact)
{
        const struct infp_absence *a = &facts->report->absences.list[fact];
        infp_autostr struct infp_str text = { 0 };

        put_title(out, facts);
        put_names(&text, facts, fact);
        infp_str_puts(&text, ": ");
        if (strcmp(a->state, "absent"))
                infp_str_printf(&text, "%s: ", a->state);
        put_reason(&text, *a->reason ? a->reason : "no reason was given", facts->all);
        infp_report_put(out, "  ");
        infp_report_wrap(out, text.data ? text.data : "", 2, 4);
        if (*a->fix) {
                infp_report_put(out, "    fix: ");
                infp_report_wrap(out, a->fix, 9, 9);
        }
}

static bool is_shown(const struct facts *facts, unsigned rank)
{
        return facts->all || (rank < RANK_BARE && facts->n_shown < FACTS_MOST);
}

/* The first name of each fact that is not reported. */
static void put_rest(struct infp_out *out, struct facts *facts, const struct infp_str *names, unsigned n)
{
        infp_autostr struct infp_str text = { 0 };

        if (!n)
                return;
        infp_str_printf(&text, "%s: %s", facts->n_shown ? "and also" : "nothing that matters much", names->data);
        if (n > NAMES_MOST)
                infp_str_printf(&text, " and %u more", n - NAMES_MOST);
        infp_str_puts(&text, " (--all lists them and says why)");
        put_title(out, facts);
        infp_report_put(out, "  ");
        infp_report_wrap(out, text.data ? text.data : "", 2, 4);
}

static void put_absences(struct infp_out *out, const struct infp_report *report, bool all)
{
        const struct infp_absences *absences = &report->absences;
        struct facts facts = { .report = report, .all = all };
        infp_autostr struct infp_str rest = { 0 };
        unsigned n_rest = 0;

        if (!absences->n || !find_facts(&facts))
                goto end;
        for (unsigned rank = 0; rank < RANKS; rank++)
                for (unsigned i = 0; i < absences->n; i++) {
                        if (facts.first[i] != i || facts.rank[i] != rank)
                                continue;
                        if (is_shown(&facts, rank))
                                put_fact(out, &facts, i);
                        else if (n_rest++ < NAMES_MOST) {
                                infp_str_puts(&rest, rest.size ? ", " : "");
                                put_name(&rest, &absences->list[i]);
                        }
                }
        put_rest(out, &facts, &rest, n_rest);
end:
        free(facts.first);
        free(facts.rank);
}

void infp_report_absences(struct infp_out *out, const struct infp_report *report)
{
        put_absences(out, report, false);
}

void infp_report_all_absences(struct infp_out *out, const struct infp_report *report)
{
        put_absences(out, report, true);
}
