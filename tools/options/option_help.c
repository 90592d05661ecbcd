/* SPDX-License-Identifier: Apache-2.0 */
/* What a table of options says of itself: help for people, words for completion. */
#include "tools/options/option_value.h"

#include <stdio.h>
#include <string.h>

enum {
    LEFT_BYTES = 64,
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

static void print_names(const dao_option_t *option)
{
    const char *name;
    for (size_t i = 0; (name = option->name_at(i)) != NULL; i++) {
        (void)printf("%s%s", i == 0 ? ": " : ", ", name);
    }
}

/* Prints range and default in parentheses, where there are any to tell. */
static void print_range(const dao_option_t *option)
{
    char low[DAO_OPTION_LIMIT_BYTES], high[DAO_OPTION_LIMIT_BYTES];
    bool has_range = option->most != 0 && option->most <= TOLD_MOST;
    if (has_range) {
        (void)printf(" (%s to %s", dao_option_limit(option, option->least, low),
                     dao_option_limit(option, option->most, high));
    }
    if (option->preset != NULL) {
        (void)printf("%sdefault: %s", has_range ? "; " : " (", option->preset);
    }
    (void)printf("%s\n", has_range || option->preset != NULL ? ")" : "");
}

static void print_option(const dao_option_t *option)
{
    char left[LEFT_BYTES];
    (void)snprintf(left, sizeof(left), "%s%s%s%s", dashes(option->name), option->name,
                   option->value != NULL ? " " : "", option->value != NULL ? option->value : "");
    (void)printf("  %-22s %s", left, option->help);
    if (option->type == DAO_OPTION_TYPE_NAME && names_length(option) <= NAMES_LENGTH_MAX) {
        print_names(option);
    }
    print_range(option);
}

void dao_options_print_help(const dao_command_t *command)
{
    (void)printf("usage: %s %s %s%s[options]\n\n%s\n", command->program, command->name, command->arguments,
                 command->arguments[0] != '\0' ? " " : "", command->details);
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
