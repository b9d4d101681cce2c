/* For tests that compare names of code with other programs (tests/e2e/test_symbols.py): symbol_tool OBJECT [DEBUG_DIRECTORY...]
 * reads addresses in hexadecimal, a line each, and writes "level name|mangled|file|line|function line|from" a level, then a dot. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "symbols/symbols.h"

static void show(const char *text, char end)
{
        printf("%s%c", text ? text : "", end);
}

int main(int argc, char **argv)
{
        struct infp_symbols_options options = { .root_fd = open("/", O_PATH | O_CLOEXEC),
                                                .no_lines = getenv("NO_LINES") != NULL };
        const char *most = getenv("MOST_BYTES");
        struct infp_symbol levels[INFP_SYMBOL_MAX_LEVELS];
        struct infp_symbols_about about;
        struct infp_symbols *symbols;
        struct infp_err err = { "" };
        unsigned object = 0;
        char line[64];

        if (argc < 2)
                return 2;
        options.most_bytes = most ? strtoull(most, NULL, 10) : 0;
        options.debug_directories = (const char *const *) argv + 2;
        if (infp_symbols_new(&options, &symbols, &err) < 0 ||
            infp_symbols_object(symbols, argv[1], -1, getenv("BUILD_ID"), &object, &err) < 0) {
                fprintf(stderr, "%s\n", err.text);
                return 1;
        }
        infp_symbols_object_about(symbols, object, &about);
        fprintf(stderr, "names %s, lines %d, debug file %s, problem %s\n", about.names ? about.names : "-",
                about.has_lines, about.debug_file ? about.debug_file : "-", about.problem ? about.problem : "-");
        while (fgets(line, sizeof(line), stdin)) {
                const unsigned n = infp_symbols_at(symbols, object, strtoull(line, NULL, 16), levels);

                for (unsigned i = 0; i < n; i++) {
                        printf("%u ", i);
                        show(levels[i].name, '|');
                        show(levels[i].mangled, '|');
                        show(levels[i].file, '|');
                        printf("%lld|%lld|", (long long) levels[i].line, (long long) levels[i].function_line);
                        show(levels[i].from, '\n');
                }
                puts(".");
        }
        infp_symbols_free(symbols);
        return 0;
}
