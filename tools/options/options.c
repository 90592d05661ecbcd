/* SPDX-License-Identifier: Apache-2.0 */
/* `--name value`, `--name=value`, `--flag`, `-n value`; `--` ends the options. Every option may stand once.
   */
#include "tools/options/options.h"

#include "base/numbers/units.h"
#include "base/report/error.h"

#include <dao/status.h>

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES_MAX = 32, OPTION_COUNT_MAX = 32 };

int dao_usage_error(const dao_command_t *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const char *space = command->name[0] != '\0' ? " " : "";
    (void)fprintf(stderr, "%s%s%s: ", command->program, space, command->name);
    (void)vfprintf(stderr, format, arguments);
    (void)fprintf(stderr, "\nTry \"%s%s%s --help\".\n", command->program, space, command->name);
    va_end(arguments);
    return DAO_EXIT_USAGE;
}

bool dao_option_number(const char *text, uint64_t fallback, uint64_t least, uint64_t most,
                       uint64_t *out_number)
{
    if (text == NULL) {
        *out_number = fallback;
        return true;
    }
    char *end = NULL;
    errno = 0;
    uint64_t number = strtoull(text, &end, 10);
    bool is_right =
        text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && number >= least && number <= most;
    if (is_right) {
        *out_number = number;
    }
    return is_right;
}

int dao_failure(const dao_command_t *command)
{
    (void)fprintf(stderr, "%s %s: %s\n", command->program, command->name, dao_last_message());
    return DAO_EXIT_FAILED;
}

/* Why standard output could not be written, while that is known: a later call would not tell again. */
static int output_errno;

void dao_output_flush(void)
{
    if (fflush(stdout) != 0 && output_errno == 0) {
        output_errno = errno;
    }
}

bool dao_output_close(const char *program)
{
    dao_output_flush();
    bool has_failed = ferror(stdout) != 0 || output_errno != 0;
    if (fclose(stdout) != 0 && !has_failed) {
        has_failed = true;
        output_errno = errno;
    }
    if (has_failed) {
        (void)fprintf(stderr, "%s: the output could not be written%s%s\n", program,
                      output_errno != 0 ? ": " : "", output_errno != 0 ? strerror(output_errno) : "");
    }
    return !has_failed;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Letters to insert, delete or change to get from one to the other; both are short. */
static size_t distance(const char *from, const char *to)
{
    size_t row[NAME_BYTES_MAX + 1];
    size_t to_length = strlen(to);
    for (size_t i = 0; i <= to_length; i++) {
        row[i] = i;
    }
    for (size_t k = 0; from[k] != '\0'; k++) {
        size_t diagonal = row[0];
        row[0] = k + 1;
        for (size_t i = 0; i < to_length; i++) {
            size_t above = row[i + 1];
            row[i + 1] = least(least(above, row[i]) + 1, diagonal + (from[k] != to[i] ? 1 : 0));
            diagonal = above;
        }
    }
    return row[to_length];
}

const char *dao_nearest_name(const char *name, const char *const *names)
{
    const char *nearest = NULL;
    size_t nearest_distance = 3;
    for (; *names != NULL && strlen(name) <= NAME_BYTES_MAX; names++) {
        if (strlen(*names) > NAME_BYTES_MAX) {
            continue;
        }
        size_t d = distance(name, *names);
        bool is_prefix = strlen(name) >= 2 && strncmp(name, *names, strlen(name)) == 0;
        d = is_prefix ? 0 : d;
        if (d < nearest_distance && d < strlen(*names)) {
            nearest = *names;
            nearest_distance = d;
        }
    }
    return nearest;
}

/* The dashes before an option's name. */
static const char *dashes(const char *name)
{
    return strlen(name) == 1 ? "-" : "--";
}

static dao_status_t refuse_zero(dao_status_t status, const uint64_t *value)
{
    return status == DAO_OK && *value == 0
               ? dao_error(DAO_ERR_INVALID, "0 is nothing; leave it out for what holds without it")
               : status;
}

dao_status_t dao_option_bytes(const char *text, uint64_t *out_bytes)
{
    dao_status_t status = dao_units_parse_bytes(text, out_bytes);
    return refuse_zero(status, out_bytes);
}

dao_status_t dao_option_rate(const char *text, uint64_t *out_bytes_per_second)
{
    dao_status_t status = dao_units_parse_rate(text, out_bytes_per_second);
    return refuse_zero(status, out_bytes_per_second);
}

dao_status_t dao_option_time(const char *text, uint64_t *out_ns)
{
    dao_status_t status = dao_units_parse_time(text, out_ns);
    return refuse_zero(status, out_ns);
}

bool dao_option_is_bad(const dao_command_t *command, const char *option, dao_status_t status, int *out_exit)
{
    if (status == DAO_OK) {
        return false;
    }
    *out_exit = dao_usage_error(command, "--%s: %s", option, dao_last_message());
    return true;
}

void dao_options_print_help(const dao_command_t *command)
{
    (void)printf("usage: %s %s %s%s[options]\n\n%s\n", command->program, command->name, command->arguments,
                 command->arguments[0] != '\0' ? " " : "", command->details);
    (void)printf("\noptions:\n");
    for (const dao_option_t *option = command->options; option->name != NULL; option++) {
        char left[64];
        (void)snprintf(left, sizeof(left), "%s%s%s%s", dashes(option->name), option->name,
                       option->value != NULL ? " " : "", option->value != NULL ? option->value : "");
        (void)printf("  %-22s %s\n", left, option->help);
    }
    (void)printf("  %-22s %s\n", "--help", "print this");
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

static int unknown_option(const dao_command_t *command, const char *text, size_t name_length)
{
    const char *names[OPTION_COUNT_MAX + 2];
    char name[NAME_BYTES_MAX + 1];
    size_t count = 0;
    for (const dao_option_t *option = command->options; option->name != NULL && count < OPTION_COUNT_MAX;
         option++) {
        names[count++] = option->name;
    }
    names[count++] = "help";
    names[count] = NULL;
    (void)snprintf(name, sizeof(name), "%.*s", (int)least(name_length, NAME_BYTES_MAX), text + 2);
    const char *nearest = dao_nearest_name(name, names);
    if (nearest != NULL) {
        return dao_usage_error(command, "unknown option \"--%s\"; did you mean \"--%s\"?", name, nearest);
    }
    return dao_usage_error(command, "unknown option \"%.60s\"", text);
}

/* Takes one option from argv[*index], and its value from behind it. */
static int take_option(const dao_command_t *command, int argc, char **argv, int *index, void *settings,
                       uint64_t *seen)
{
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
    uint64_t bit = UINT64_C(1) << (option - command->options);
    if ((*seen & bit) != 0) {
        return dao_usage_error(command, "option \"%s%s\" is given twice", dashes(option->name), option->name);
    }
    *seen |= bit;
    if (option->value == NULL) {
        if (equals != NULL) {
            return dao_usage_error(command, "option \"--%s\" takes no value", option->name);
        }
        *(bool *)((char *)settings + option->offset) = true;
        return DAO_EXIT_OK;
    }
    const char *value = equals != NULL ? equals + 1 : *index + 1 < argc ? argv[++*index] : NULL;
    if (value == NULL || value[0] == '\0') {
        return dao_usage_error(command, "option \"%s%s\" needs a value: %s%s %s", dashes(option->name),
                               option->name, dashes(option->name), option->name, option->value);
    }
    *(const char **)((char *)settings + option->offset) = value;
    return DAO_EXIT_OK;
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++) {
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            return true;
        }
    }
    return false;
}

bool dao_options_parse(const dao_command_t *command, int argc, char **argv, void *settings,
                       const char *out_arguments[DAO_ARGUMENT_COUNT_MAX], int *out_exit)
{
    size_t count = 0;
    uint64_t seen = 0;
    bool has_ended = false;
    memset(out_arguments, 0, DAO_ARGUMENT_COUNT_MAX * sizeof(*out_arguments));
    *out_exit = DAO_EXIT_OK;
    if (asks_for_help(argc, argv)) {
        dao_options_print_help(command);
        return false;
    }
    for (int i = 0; i < argc && *out_exit == DAO_EXIT_OK; i++) {
        if (!has_ended && strcmp(argv[i], "--") == 0) {
            has_ended = true;
        } else if (!has_ended && argv[i][0] == '-' && argv[i][1] != '\0') {
            *out_exit = take_option(command, argc, argv, &i, settings, &seen);
        } else if (argv[i][0] == '\0') {
            *out_exit = dao_usage_error(command, "an argument is empty");
        } else if (count < command->most_arguments) {
            out_arguments[count++] = argv[i];
        } else {
            *out_exit = dao_usage_error(command, "\"%.60s\" is one argument too many", argv[i]);
        }
    }
    if (*out_exit == DAO_EXIT_OK && count < command->least_arguments) {
        *out_exit = dao_usage_error(command, "%s is missing", command->arguments);
    }
    return *out_exit == DAO_EXIT_OK;
}
