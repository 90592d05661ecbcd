/* SPDX-License-Identifier: Apache-2.0 */
/* What a table of options says of itself: help for people, words for completion. */
#include "tools/options/option_value.h"
#include "tools/print/lines.h"

#include "base/report/format.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum {
    LEFT_BYTES = 64,
    HELP_BYTES = 512,
    HELP_COLUMN = 25,       /* where the help of options begins */
    PARAGRAPH_BYTES = 1024, /* of details; longer ones are cut */
    FULL_LINE = 70,         /* a line of details of so many letters goes on in the next */
    NAMES_LENGTH_MAX = 120, /* longer lists of names stand in the details of the command */
};

/* A limit beyond this says nothing to people. */
#define TOLD_MOST UINT64_C(1000000000)

static const char *dashes(const char *name)
{
    return name[1] == '\0' ? "-" : "--";
}

static size_t names_length(const dao_option_t *option)
{
    size_t length = 0;
    const char *name;
    for (size_t i = 0; (name = option->name_at(i)) != NULL; i++) {
        length += strlen(name) + 2;
    }
    return length;
}

/* ---- lines ---- */

/* Returns where a paragraph of details ends: a line that is not full ends it, and so does one before a line
   that is indented, which is an item of a list. */
static const char *end_of_paragraph(const char *text)
{
    for (;;) {
        size_t length = strcspn(text, "\n");
        text += length;
        if (*text == '\0' || length < FULL_LINE || text[1] == ' ' || text[1] == '\n') {
            return text;
        }
        text++;
    }
}

static void print_details(const char *text)
{
    char paragraph[PARAGRAPH_BYTES];
    while (*text != '\0') {
        const char *end = end_of_paragraph(text);
        size_t indent = strspn(text, " ");
        (void)snprintf(paragraph, sizeof(paragraph), "%.*s", (int)(end - text - (ptrdiff_t)indent),
                       text + indent);
        (void)printf("%*s", (int)indent, "");
        dao_output_words(paragraph, indent, indent > 0 ? 2 * indent : 0);
        text = *end == '\n' ? end + 1 : end;
    }
}

/* ---- options ---- */

DAO_PRINTF(2, 3) static void add_text(char text[HELP_BYTES], const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(text + used, HELP_BYTES - used, format, arguments);
    va_end(arguments);
}

static void add_names(const dao_option_t *option, char text[HELP_BYTES])
{
    const char *name;
    for (size_t i = 0; (name = option->name_at(i)) != NULL; i++) {
        add_text(text, "%s%s", i == 0 ? ": " : ", ", name);
    }
}

/* Adds range and default in parentheses, where there are any to tell. */
static void add_range(const dao_option_t *option, char text[HELP_BYTES])
{
    char low[DAO_OPTION_LIMIT_BYTES], high[DAO_OPTION_LIMIT_BYTES];
    bool has_range = option->most != 0 && option->most <= TOLD_MOST;
    if (has_range) {
        add_text(text, " (%s to %s", dao_option_limit(option, option->least, low),
                 dao_option_limit(option, option->most, high));
    }
    if (option->preset != NULL) {
        add_text(text, "%sdefault: %s", has_range ? "; " : " (", option->preset);
    }
    add_text(text, "%s", has_range || option->preset != NULL ? ")" : "");
}

static void print_option(const dao_option_t *option)
{
    char left[LEFT_BYTES], text[HELP_BYTES] = "";
    (void)snprintf(left, sizeof(left), "%s%s%s%s", dashes(option->name), option->name,
                   option->value != NULL ? " " : "", option->value != NULL ? option->value : "");
    add_text(text, "%s", option->help);
    if (option->type == DAO_OPTION_TYPE_NAME && names_length(option) <= NAMES_LENGTH_MAX) {
        add_names(option, text);
    }
    add_range(option, text);
    int column = printf("  %-22s ", left);
    dao_output_words(text, column > 0 ? (size_t)column : 0, HELP_COLUMN);
}

void dao_options_print_help(const dao_command_t *command)
{
    (void)printf("usage: %s %s %s%s[options]\n\n", command->program, command->name, command->arguments,
                 command->arguments[0] != '\0' ? " " : "");
    print_details(command->details);
    (void)printf("\noptions:\n");
    for (const dao_option_t *option = command->options; option->name != NULL; option++) {
        print_option(option);
    }
    (void)printf("  %-22s %s\n", "--help", "print this");
}

static bool is_called(const dao_option_t *option, const char *text)
{
    size_t dash_count = strlen(dashes(option->name));
    return strncmp(text, dashes(option->name), dash_count) == 0 &&
           strcmp(text + dash_count, option->name) == 0;
}

void dao_options_print_words(const dao_command_t *command, const char *text)
{
    const char *name;
    for (const dao_option_t *option = command->options; option->name != NULL; option++) {
        if (text == NULL) {
            (void)printf("%s%s\n", dashes(option->name), option->name);
        } else if (option->type == DAO_OPTION_TYPE_NAME && is_called(option, text)) {
            for (size_t i = 0; (name = option->name_at(i)) != NULL; i++) {
                (void)printf("%s\n", name);
            }
        }
    }
    if (text == NULL) {
        (void)printf("--help\n");
    }
}
