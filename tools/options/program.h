/* SPDX-License-Identifier: Apache-2.0 */
/* A program with subcommands: finds the command that the first argument names and runs it, or prints an
   overview, or for `--words` the names of its commands. */
#ifndef DAO_TOOLS_PROGRAM_H
#define DAO_TOOLS_PROGRAM_H

#include "tools/options/options.h"

typedef struct dao_program {
    const char *name;                     /* as on the command line, without its folder */
    const char *summary;                  /* one line */
    const dao_command_t *const *commands; /* ends with NULL */
    bool tells_progress;                  /* while its commands work */
} dao_program_t;

/* Executes a command with what follows its name. Returns its exit code. */
int dao_command_execute(const dao_command_t *command, int argc, char **argv);

/* Runs the program and closes standard output. Returns its exit code. */
int dao_program_run(const dao_program_t *program, int argc, char **argv);

#endif
