#include "cli/help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json/json.h"
#include "base/mem.h"
#include "base/str.h"
#include "view/format.h"

enum { NARROWEST = 40, WIDEST = 120, OPTION_COLUMN = 29, VERB_COLUMN = 13 };

const struct infp_option infp_help_option = { 'h', "help", NULL, "print this help", false };

/* Lines longer than 120 columns are hard to read, however wide the terminal is. */
static unsigned help_width(void)
{
        const unsigned width = infp_terminal_width(STDOUT_FILENO);

        return width < NARROWEST ? NARROWEST : width > WIDEST ? WIDEST : width;
}

/* A text broken at blanks; `used` columns of its first line are taken, its other lines begin at `indent`. Blanks within a line
 * stay as they are: examples are aligned by them. Help is ASCII, a byte is a column. */
static void put_wrapped(const char *text, size_t size, unsigned used, unsigned indent)
{
        const unsigned width = help_width();
        bool is_first = true;

        for (size_t at = 0; at < size;) {
                const size_t blanks = strspn(text + at, " "), word = strcspn(text + at + blanks, " \n");

                if (at + blanks >= size)
                        break;
                if (!is_first && used + blanks + word > width) {
                        printf("\n%*s", (int) indent, "");
                        used = indent;
                } else {
                        printf("%*s", (int) blanks, "");
                        used += (unsigned) blanks;
                }
                printf("%.*s", (int) word, text + at + blanks);
                used += (unsigned) word;
                at += blanks + word;
                is_first = false;
        }
        putchar('\n');
}

static void put_behind(const char *left, unsigned column, const char *text)
{
        int n = printf("  %-*s", (int) column - 3, left);

        putchar(' ');
        if (n + 1 > (int) column)
                printf("\n%*s", (int) column, "");
        put_wrapped(text, strlen(text), column, column);
}

static void put_option(const struct infp_option *option)
{
        const char *argument = option->argument ? option->argument : "";
        bool is_optional = argument[0] == '[';
        char letter[8] = "    ", left[64];

        if (option->letter)
                snprintf(letter, sizeof(letter), "-%c, ", option->letter);
        snprintf(left, sizeof(left), "%s--%s%s%s", letter, option->name,
                 !option->argument ? ""
                 : is_optional     ? "[="
                                   : " ",
                 is_optional ? argument + 1 : argument);
        put_behind(left, OPTION_COLUMN, option->help);
}

/* The column of an example's remark, which two blanks at least separate from the command. Without a remark: 4 columns to the
 * right of the line's begin. */
static unsigned hanging(const char *line, size_t size)
{
        const size_t first = strspn(line, " ");

        for (size_t i = first; i + 2 < size; i++)
                if (line[i] == ' ' && line[i + 1] == ' ') {
                        const size_t at = i + strspn(line + i, " ");

                        return at + 20 < help_width() ? (unsigned) at : (unsigned) first + 4;
                }
        return (unsigned) first + 4;
}

/* Lines that begin with a blank are examples and stay as they are; others are joined to a paragraph. */
static void put_more(const char *text)
{
        infp_autostr struct infp_str paragraph = { 0 };

        while (*text) {
                const size_t size = strcspn(text, "\n");

                if (size && *text != ' ') {
                        infp_str_puts(&paragraph, paragraph.size ? " " : "");
                        infp_str_put(&paragraph, text, size);
                }
                if (paragraph.size && (!size || *text == ' ' || !text[size] || strchr(" \n", text[size + 1]))) {
                        put_wrapped(paragraph.data, paragraph.size, 0, 0);
                        infp_str_clear(&paragraph);
                }
                if (!size)
                        putchar('\n');
                else if (*text == ' ')
                        put_wrapped(text, size, 0, hanging(text, size));
                text += size + (text[size] == '\n');
        }
}

void infp_help_command(const struct infp_command *command)
{
        printf("usage: infprof %s [options]%s%s\n\n", command->name, command->operands ? " " : "",
               command->operands ? command->operands : "");
        put_wrapped(command->summary, strlen(command->summary), 0, 0);
        printf("\noptions:\n");
        for (const struct infp_option *option = command->options; option && option->name; option++)
                put_option(option);
        put_option(&infp_help_option);
        if (command->operand_at) {
                struct infp_operand operand;

                printf("\n%s:\n", command->operands_title);
                for (size_t i = 0; command->operand_at(i, &operand); i++)
                        put_behind(operand.name, VERB_COLUMN, operand.help);
        }
        if (!command->more)
                return;
        putchar('\n');
        put_more(command->more);
}

static const char about[] = "where an inference server's time, memory and joules go";
static const char usage[] = "infprof [record] [options] -- CMD...  record a program and its children\n"
                            "       infprof record [options]              record this machine until Ctrl-C\n"
                            "       infprof VERB [options]                -h shows the options of a verb\n";

void infp_help_overview(void)
{
        infp_autostr struct infp_str text = { 0 };

        infp_str_printf(&text, "infprof " INFP_VERSION ": %s\n\nusage: %s", about, usage);
        put_more(text.data ? text.data : usage);
        printf("\nverbs:\n");
        for (size_t i = 0; infp_commands[i]; i++)
                put_behind(infp_commands[i]->name, VERB_COLUMN, infp_commands[i]->summary);
        putchar('\n');
        put_more("examples:\n"
                 "  infprof record -- python3 serve.py  a program and its children, until they end\n"
                 "  infprof report                      what the newest run found\n"
                 "  infprof query 'SELECT max(tree_rss_bytes) FROM tree'\n"
                 "  infprof doctor                      what works here, what is missing, and the fix\n");
}

static void put_json_option(struct infp_json *json, const struct infp_option *option)
{
        const char letter[2] = { option->letter };

        infp_json_object(json);
        infp_json_member_str(json, "name", option->name);
        infp_json_member_str(json, "letter", *letter ? letter : NULL);
        infp_json_member_str(json, "argument", option->argument);
        infp_json_member_str(json, "help", option->help);
        infp_json_member_bool(json, "many", option->many);
        infp_json_object_end(json);
}

static void put_json_command(struct infp_json *json, const struct infp_command *command)
{
        struct infp_operand operand;

        infp_json_object(json);
        infp_json_member_str(json, "name", command->name);
        infp_json_member_str(json, "summary", command->summary);
        infp_json_member_str(json, "operands", command->operands);
        infp_json_member_str(json, "words_title", command->operands_title);
        infp_json_key(json, "words");
        infp_json_array(json);
        for (size_t i = 0; command->operand_at && command->operand_at(i, &operand); i++) {
                infp_json_object(json);
                infp_json_member_str(json, "name", operand.name);
                infp_json_member_str(json, "help", operand.help);
                infp_json_object_end(json);
        }
        infp_json_array_end(json);
        infp_json_key(json, "options");
        infp_json_array(json);
        for (const struct infp_option *option = command->options; option && option->name; option++)
                put_json_option(json, option);
        put_json_option(json, &infp_help_option);
        infp_json_array_end(json);
        infp_json_member_str(json, "more", command->more);
        infp_json_object_end(json);
}

void infp_help_json(void)
{
        infp_autostr struct infp_str text = { 0 };
        struct infp_json json;

        infp_json_begin(&json, &text, 2);
        infp_json_object(&json);
        infp_json_member_str(&json, "version", INFP_VERSION);
        infp_json_member_str(&json, "about", about);
        infp_json_member_str(&json, "usage", usage);
        infp_json_key(&json, "verbs");
        infp_json_array(&json);
        for (size_t i = 0; infp_commands[i]; i++)
                put_json_command(&json, infp_commands[i]);
        infp_json_array_end(&json);
        infp_json_object_end(&json);
        if (!text.failed)
                puts(text.data);
}
