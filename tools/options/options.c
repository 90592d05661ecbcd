/* SPDX-License-Identifier: Apache-2.0 */
/* `--name value`, `--name=value`, `--flag`, `-n value`; `--` ends the options. Every option may stand
   once. */
#include "tools/options/complain.h"
#include "tools/options/option_value.h"

#include "base/report/assert.h"
#include "base/report/error.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES_MAX = 32 };

/* The dashes before an option's name. */
static const char *dashes(const char *name)
{
    return strlen(name) == 1 ? "-" : "--";
}

static const dao_option_t *find_option(const dao_command_t *command, const char *name, size_t length)
{
    for (const dao_option_t *option = command->options; option->name != NULL; option++) {
        if (strlen(option->name) == length && memcmp(option->name, name, length) == 0) {
            return option;
        }
    }
    return NULL;
}

static uint64_t bit_of(const dao_command_t *command, const dao_option_t *option)
{
    return UINT64_C(1) << (option - command->options);
}

/* ---- the table itself ---- */

static bool is_option_valid(const dao_command_t *command, const dao_option_t *option)
{
    size_t size = dao_option_type_size(option->type);
    bool has_value = option->type != DAO_OPTION_TYPE_FLAG;
    return find_option(command, option->name, strlen(option->name)) == option && option->help != NULL &&
           (option->value != NULL) == has_value && (size == 0 || size == option->size) &&
           option->least <= dao_option_most(option) &&
           (option->type == DAO_OPTION_TYPE_NAME) == (option->name_at != NULL) &&
           (option->type == DAO_OPTION_TYPE_PARSED) == (option->parse != NULL);
}

bool dao_options_are_valid(const dao_command_t *command)
{
    size_t count = 0;
    for (const dao_option_t *option = command->options; option->name != NULL; option++, count++) {
        if (!is_option_valid(command, option)) {
            return false;
        }
    }
    for (const dao_option_rule_t *rule = command->rules; rule != NULL && rule->option != NULL; rule++) {
        if (find_option(command, rule->option, strlen(rule->option)) == NULL ||
            find_option(command, rule->other, strlen(rule->other)) == NULL) {
            return false;
        }
    }
    return count <= DAO_OPTION_COUNT_MAX;
}

/* ---- one option ---- */

static int unknown_option(const dao_command_t *command, const char *text, size_t name_length)
{
    const char *names[DAO_OPTION_COUNT_MAX + 2];
    char name[NAME_BYTES_MAX + 1];
    size_t count = 0;
    for (const dao_option_t *option = command->options; option->name != NULL && count < DAO_OPTION_COUNT_MAX;
         option++) {
        names[count++] = option->name;
    }
    names[count++] = "help";
    names[count] = NULL;
    int shown = (int)(name_length < NAME_BYTES_MAX ? name_length : NAME_BYTES_MAX);
    (void)snprintf(name, sizeof(name), "%.*s", shown, text + 2);
    const char *nearest = dao_nearest_name(name, names);
    if (nearest != NULL) {
        return dao_usage_error(command, "unknown option \"--%s\"; did you mean \"%s%s\"?", name,
                               dashes(nearest), nearest);
    }
    return dao_usage_error(command, "unknown option \"%.60s\"", text);
}

/* Reads the value of an option, which stands behind `=` or is the next word. */
static int take_value(const dao_arguments_t *arguments, const dao_option_t *option, const char *value,
                      void *settings)
{
    const char *dash = dashes(option->name);
    if (value == NULL || value[0] == '\0') {
        return dao_usage_error(arguments->command, "option \"%s%s\" needs a value: %s%s %s", dash,
                               option->name, dash, option->name, option->value);
    }
    return dao_option_read(option, value, settings) == DAO_OK
               ? DAO_EXIT_OK
               : dao_option_error(arguments->command, option->name);
}

/* Takes one option from argv[*index], and its value from behind it. */
static int take_option(dao_arguments_t *arguments, int argc, char **argv, int *index, void *settings)
{
    const dao_command_t *command = arguments->command;
    const char *text = argv[*index];
    bool is_short = text[1] != '-';
    const char *name = text + (is_short ? 1 : 2);
    const char *equals = is_short ? NULL : strchr(text, '=');
    size_t name_length = equals != NULL ? (size_t)(equals - name) : strlen(name);
    const dao_option_t *option =
        (name_length == 1) == is_short ? find_option(command, name, name_length) : NULL;
    if (option == NULL) {
        return is_short ? dao_usage_error(command, "unknown option \"%.60s\"", text)
                        : unknown_option(command, text, name_length);
    }
    if ((arguments->given & bit_of(command, option)) != 0) {
        return dao_usage_error(command, "option \"%s%s\" is given twice", dashes(option->name), option->name);
    }
    arguments->given |= bit_of(command, option);
    if (option->type != DAO_OPTION_TYPE_FLAG) {
        const char *value = equals != NULL ? equals + 1 : *index + 1 < argc ? argv[++*index] : NULL;
        return take_value(arguments, option, value, settings);
    }
    if (equals != NULL) {
        return dao_usage_error(command, "option \"--%s\" takes no value", option->name);
    }
    *(bool *)((char *)settings + option->offset) = true;
    return DAO_EXIT_OK;
}

/* ---- the command line ---- */

static void set_presets(const dao_command_t *command, void *settings)
{
    for (const dao_option_t *option = command->options; option->name != NULL; option++) {
        dao_status_t status =
            option->preset != NULL ? dao_option_read(option, option->preset, settings) : DAO_OK;
        DAO_ASSERT(status == DAO_OK);
        (void)status; /* the tables are our own */
    }
}

static int take_words(dao_arguments_t *arguments, int argc, char **argv, void *settings)
{
    const dao_command_t *command = arguments->command;
    int exit_code = DAO_EXIT_OK;
    size_t count = 0;
    bool has_ended = false;
    for (int i = 0; i < argc && exit_code == DAO_EXIT_OK; i++) {
        if (!has_ended && strcmp(argv[i], "--") == 0) {
            has_ended = true;
        } else if (!has_ended && argv[i][0] == '-' && argv[i][1] != '\0') {
            exit_code = take_option(arguments, argc, argv, &i, settings);
        } else if (argv[i][0] == '\0') {
            exit_code = dao_usage_error(command, "an argument is empty");
        } else if (count < command->most_arguments) {
            arguments->words[count++] = argv[i];
        } else {
            exit_code = dao_usage_error(command, "\"%.60s\" is one argument too many", argv[i]);
        }
    }
    if (exit_code == DAO_EXIT_OK && count < command->least_arguments) {
        exit_code = dao_usage_error(command, "%s is missing", command->arguments);
    }
    return exit_code;
}

static int check_rules(const dao_arguments_t *arguments)
{
    const dao_option_rule_t *rule = arguments->command->rules;
    for (; rule != NULL && rule->option != NULL; rule++) {
        if (dao_option_is_given(arguments, rule->option) &&
            dao_option_is_given(arguments, rule->other) != rule->is_needed) {
            return dao_usage_error(arguments->command, "%s", rule->message);
        }
    }
    return DAO_EXIT_OK;
}

/* Answers `--help` and `--words`, which ask about the command. */
static bool is_question(const dao_command_t *command, int argc, char **argv)
{
    if (argc > 0 && strcmp(argv[0], "--words") == 0) {
        dao_options_print_words(command, argc > 1 ? argv[1] : NULL);
        return true;
    }
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            dao_options_print_help(command);
            return true;
        }
    }
    return false;
}

bool dao_options_parse(const dao_command_t *command, int argc, char **argv, void *settings,
                       dao_arguments_t *out_arguments, int *out_exit)
{
    DAO_ASSERT(dao_options_are_valid(command));
    *out_arguments = (dao_arguments_t){.command = command};
    *out_exit = DAO_EXIT_OK;
    if (is_question(command, argc, argv)) {
        return false;
    }
    set_presets(command, settings);
    *out_exit = take_words(out_arguments, argc, argv, settings);
    if (*out_exit == DAO_EXIT_OK) {
        *out_exit = check_rules(out_arguments);
    }
    return *out_exit == DAO_EXIT_OK;
}
