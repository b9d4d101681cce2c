/* docs/engines.md shows the makes and the alias tables as the program has them: between <!-- NAME --> and <!-- end --> stands what
 * this test makes of them. With INFP_ENGINE_DOCS=write it puts it there. */
#include "machine.h"

#include "base/str.h"
#include "collectors/engine/engine.h"
#include "collectors/engine/vllm.h"

static const char *field_of(const struct infp_engine_alias *line)
{
        return infp_table_column(&infp_table_vllm, INFP_FIXED_COLUMNS + (unsigned) line->cell)->name;
}

static bool same_text(const char *a, const char *b)
{
        return a == b || (a && b && !strcmp(a, b));
}

/* The counter of before without its _total. */
static bool is_short_name(const struct infp_engine_alias *line, const struct infp_engine_alias *before)
{
        return before->cell == line->cell && same_text(before->value, line->value) && before->size == line->size + 6 &&
               !memcmp(before->series, line->series, line->size) && !strcmp(before->series + line->size, "_total");
}

static bool is_older(const struct infp_engine_alias *lines, size_t i)
{
        for (size_t k = 0; k < i; k++) {
                if (lines[k].cell == lines[i].cell && lines[k].rank < lines[i].rank)
                        return true;
        }
        return false;
}

static void put_notes(struct infp_str *out, const struct infp_engine_alias *lines, size_t i)
{
        if (lines[i].join == INFP_ENGINE_MAX)
                infp_str_puts(out, "the largest; ");
        if (lines[i].factor == 1e-3)
                infp_str_puts(out, "ms; ");
        else if (lines[i].factor == 1e-6)
                infp_str_puts(out, "us; ");
        else if (lines[i].factor != 0)
                infp_str_printf(out, "times %g; ", lines[i].factor);
        if (is_older(lines, i))
                infp_str_puts(out, "where those above are not on the page; ");
        if (out->size > 2 && !memcmp(out->data + out->size - 2, "; ", 2))
                out->size -= 2;
        infp_str_puts(out, " |\n");
}

static void put_make(struct infp_str *out, enum infp_engine_make make)
{
        size_t n;
        const struct infp_engine_alias *lines = infp_engine_aliases(make, &n);

        infp_str_puts(out, "| series | field | |\n|---|---|---|\n");
        for (size_t i = 0; i < n; i++) {
                if (i && is_short_name(&lines[i], &lines[i - 1]))
                        continue;
                if (lines[i].cell < 0) { /* _bucket, _sum, _count in a row */
                        infp_str_printf(out, "| `%.*s` (histogram", (int) lines[i].size - 7, lines[i].series);
                        if (lines[i].label)
                                infp_str_printf(out, "; `%s=\"%s\"`", lines[i].label, lines[i].value);
                        infp_str_printf(out, ") | `%s`, `_count`; quantiles: `%s` | ", field_of(&lines[i + 1]),
                                        lines[i].stem);
                        i++;
                        put_notes(out, lines, i);
                        i++;
                        continue;
                }
                infp_str_printf(out, "| `%s", lines[i].series);
                if (lines[i].label)
                        infp_str_printf(out, "{%s=\"%s\"}", lines[i].label, lines[i].value);
                infp_str_printf(out, "` | `%s` | ", field_of(&lines[i]));
                put_notes(out, lines, i);
        }
}

static void put_words(struct infp_str *out, const char *const *words, const char *none)
{
        if (!*words)
                infp_str_puts(out, none);
        for (size_t i = 0; words[i]; i++)
                infp_str_printf(out, "%s`%s`", i ? ", " : "", words[i]);
        infp_str_puts(out, " | ");
}

static void put_makes(struct infp_str *out)
{
        infp_str_puts(out,
                      "| make | its series begin with | its command line holds | port | page | must be started with |\n"
                      "|---|---|---|---|---|---|\n");
        for (enum infp_engine_make make = INFP_ENGINE_VLLM; make < INFP_ENGINE_N; make++) {
                const struct infp_engine_make_info *info = &infp_engine_makes[make];

                infp_str_printf(out, "| %s | ", info->name);
                put_words(out, info->prefixes, "");
                put_words(out, info->commands, "not looked for");
                for (size_t i = 0; info->port_flags[i]; i++)
                        infp_str_printf(out, "`%s`, ", info->port_flags[i]);
                if (info->port)
                        infp_str_printf(out, "%s%u | ", info->port_flags[0] ? "else " : "", info->port);
                else
                        infp_str_puts(out, "not known | ");
                infp_str_printf(out, "`%s` | ", info->path);
                if (info->metrics_flag)
                        infp_str_printf(out, "`%s`", info->metrics_flag);
                infp_str_puts(out, " |\n");
        }
}

static void put_part(struct infp_str *out, const char *name)
{
        if (!strcmp(name, "makes")) {
                put_makes(out);
                return;
        }
        for (enum infp_engine_make make = INFP_ENGINE_VLLM; make < INFP_ENGINE_N; make++) {
                if (!strcmp(name, infp_engine_makes[make].name)) {
                        put_make(out, make);
                        return;
                }
        }
        fail_msg("docs/engines.md has a part %s, which is no make", name);
}

/* The document with its parts as they should be; counts the parts. */
static void rewrite(const char *text, struct infp_str *out, unsigned *ret_parts)
{
        static const char end[] = "<!-- end -->\n";
        const char *begin;

        *ret_parts = 0;
        while ((begin = strstr(text, "<!-- table "))) {
                char name[32];
                const char *line = strchr(begin, '\n') + 1, *after = strstr(begin, end);

                assert_int_equal(sscanf(begin, "<!-- table %31s -->", name), 1);
                assert_non_null(after);
                infp_str_put(out, text, (size_t) (line - text));
                put_part(out, name);
                infp_str_puts(out, end);
                text = after + strlen(end);
                ++*ret_parts;
        }
        infp_str_puts(out, text);
}

static void document_is_as_the_program(void **state)
{
        infp_autostr struct infp_str out = { 0 };
        char path[PATH_MAX], *text;
        const char *top = getenv("INFP_FIXTURES"), *wish = getenv("INFP_ENGINE_DOCS");
        unsigned n_parts;
        FILE *f;
        long size;

        (void) state;
        snprintf(path, sizeof(path), "%s/../../docs/engines.md", top ? top : "tests/fixtures");
        f = fopen(path, "r+");
        if (!f)
                f = fopen(path, "r");
        assert_non_null(f);
        fseek(f, 0, SEEK_END);
        size = ftell(f);
        rewind(f);
        text = calloc(1, (size_t) size + 1);
        assert_int_equal(fread(text, 1, (size_t) size, f), size);
        rewrite(text, &out, &n_parts);
        assert_false(out.failed);
        if (wish && !strcmp(wish, "write")) {
                f = freopen(path, "w", f);
                assert_non_null(f);
                assert_int_equal(fwrite(out.data, 1, out.size, f), out.size);
        } else if (out.size != (size_t) size || memcmp(out.data, text, out.size)) {
                fail_msg(
                        "docs/engines.md is not as the tables of the program: INFP_ENGINE_DOCS=write test_engine_docs");
        }
        assert_int_equal(n_parts, 1 + 9); /* the makes, and all but Ollama, which has no series */
        fclose(f);
        free(text);
}

int main(void)
{
        static const struct CMUnitTest tests[] = { cmocka_unit_test(document_is_as_the_program) };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
