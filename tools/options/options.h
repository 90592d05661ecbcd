/* SPDX-License-Identifier: Apache-2.0 */
/* Long options from a table, and the exit codes of dao and dao-bench. */
#ifndef DAO_TOOLS_OPTIONS_H
#define DAO_TOOLS_OPTIONS_H

#include <dao/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { DAO_EXIT_OK = 0, DAO_EXIT_FAILED = 1, DAO_EXIT_USAGE = 2 };

/* An option. `offset` is where its field lies in the command's settings: a `const char *` that is NULL
   before, or for a flag (`value` is NULL) a bool. */
typedef struct dao_option {
    const char *name;  /* without the dashes, which is one if the name is a letter; NULL closes a table */
    const char *value; /* what its value is called, or NULL for a flag */
    size_t offset;
    const char *help;
} dao_option_t;

/* A command: `PROGRAM NAME`. */
typedef struct dao_command {
    const char *program; /* "dao" */
    const char *name;
    const char *arguments; /* "TRACE", "[TRACE]", "" */
    const char *summary;   /* one line */
    const char *details;   /* more lines for its help */
    const dao_option_t *options;
    size_t least_arguments, most_arguments; /* at most DAO_ARGUMENT_COUNT_MAX */
    int (*run)(const struct dao_command *command, int argc, char **argv);
} dao_command_t;

enum { DAO_ARGUMENT_COUNT_MAX = 4 };

/* Reads what follows the command's name: options into `settings`, the rest into `out_arguments` (missing ones
   are NULL). `--help` prints the command's help. True: go on; false: end with `*out_exit`. Complaints go to
   standard error. */
bool dao_options_parse(const dao_command_t *command, int argc, char **argv, void *settings,
                       const char *out_arguments[DAO_ARGUMENT_COUNT_MAX], int *out_exit);

/* Reads the value of an option, all of it digits: a number from `least` to `most`; NULL, which is an option
   that was not given, is `fallback`. False: it is no such number, and *out_number is as it was. */
bool dao_option_number(const char *text, uint64_t fallback, uint64_t least, uint64_t most,
                       uint64_t *out_number);

/* Read sizes, rates and times of which 0 is none: in the library's settings it stands for the default, on a
   command line it would read as nothing at all. DAO_ERR_INVALID, with what is wrong in the last message. */
dao_status_t dao_option_bytes(const char *text, uint64_t *out_bytes);
dao_status_t dao_option_rate(const char *text, uint64_t *out_bytes_per_second);
dao_status_t dao_option_time(const char *text, uint64_t *out_ns);

/* False for DAO_OK. Otherwise complains about an option's value, for the reason in the last message, and sets
   *out_exit. */
bool dao_option_is_bad(const dao_command_t *command, const char *option, dao_status_t status, int *out_exit);

/* Prints a command's help. */
void dao_options_print_help(const dao_command_t *command);

/* Complains about the use of a command and gives DAO_EXIT_USAGE. */
int dao_usage_error(const dao_command_t *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Complains that a command failed, with the library's last message, and gives DAO_EXIT_FAILED. */
int dao_failure(const dao_command_t *command);

/* Sends off what was printed so far, before something long or before a complaint. */
void dao_output_flush(void);

/* Closes standard output at the very end. False: something printed before did not arrive, which is complained
   about. */
bool dao_output_close(const char *program);

/* Finds which of `names` is meant by a misspelt one; NULL if none is near. The list ends with NULL. */
const char *dao_nearest_name(const char *name, const char *const *names);

#endif
