/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/options/complain.h"

#include "base/report/error.h"
#include "tools/base/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { NAME_BYTES_MAX = 32 };

int dao_usage_error(const dao_command_t *command, const char *format, ...)
{
    va_list arguments;
    const char *space = command->name[0] != '\0' ? " " : "";
    va_start(arguments, format);
    (void)fprintf(stderr, "%s%s%s: ", command->program, space, command->name);
    (void)vfprintf(stderr, format, arguments);
    (void)fprintf(stderr, "\nTry \"%s%s%s --help\".\n", command->program, space, command->name);
    va_end(arguments);
    return DAO_EXIT_USAGE;
}

int dao_option_error(const dao_command_t *command, const char *option)
{
    return dao_usage_error(command, "%s%s: %s", option[1] == '\0' ? "-" : "--", option, dao_last_message());
}

int dao_failure(const dao_command_t *command)
{
    dao_progress_hide();
    (void)fprintf(stderr, "%s %s: %s\n", command->program, command->name, dao_last_message());
    return DAO_EXIT_FAILED;
}

dao_status_t dao_failure_of(const char *path, dao_status_t status)
{
    if (status != DAO_OK) {
        dao_error_prefix("%.200s: ", path);
    }
    return status;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Letters to insert, delete or change to get from one to the other (Levenshtein); both are short. */
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
