/* SPDX-License-Identifier: Apache-2.0 */
/* What dao and dao-bench say on standard error, with the exit code that follows. */
#ifndef DAO_TOOLS_COMPLAIN_H
#define DAO_TOOLS_COMPLAIN_H

#include "tools/base/exit_code.h"
#include "tools/options/options.h"

/* Complains about the use of a command. Returns DAO_EXIT_USAGE. */
int dao_usage_error(const dao_command_t *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Complains about the value of an option, for the reason in the last message. Returns DAO_EXIT_USAGE. */
int dao_option_error(const dao_command_t *command, const char *option);

/* Complains that a command failed, with the library's last message. Returns DAO_EXIT_FAILED. */
int dao_failure(const dao_command_t *command);

/* Puts the name of the file that a failure is about before the last message. Returns `status`; with DAO_OK it
   does nothing. */
dao_status_t dao_failure_of(const char *path, dao_status_t status);

/* Returns which of `names` is meant by a misspelt one; NULL if none is near. The list ends with NULL. */
const char *dao_nearest_name(const char *name, const char *const *names);

#endif
