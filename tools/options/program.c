/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/options/program.h"

#include "tools/base/progress.h"
#include "tools/options/complain.h"
#include "tools/print/report.h"

#include <dao/api.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { COMMAND_COUNT_MAX = 16 };

static const dao_command_t *find_command(const dao_program_t *program, const char *name)
{
    for (const dao_command_t *const *command = program->commands; *command != NULL; command++) {
        if (strcmp((*command)->name, name) == 0) {
            return *command;
        }
    }
    return NULL;
}

/* The program itself as a command: it stands in messages where no command does. */
static dao_command_t no_command(const dao_program_t *program)
{
    return (dao_command_t){.program = program->name, .name = ""};
}

static int unknown_command(const dao_program_t *program, const char *name)
{
    const dao_command_t itself = no_command(program);
    const char *names[COMMAND_COUNT_MAX + 2];
    size_t count = 0;
    while (program->commands[count] != NULL && count < COMMAND_COUNT_MAX) {
        names[count] = program->commands[count]->name;
        count++;
    }
    names[count++] = "help";
    names[count] = NULL;
    const char *nearest = dao_nearest_name(name, names);
    if (nearest != NULL) {
        return dao_usage_error(&itself, "unknown command \"%.40s\"; did you mean \"%s\"?", name, nearest);
    }
    return dao_usage_error(&itself, "unknown command \"%.40s\"", name);
}

static int print_overview(const dao_program_t *program)
{
    (void)printf("usage: %s COMMAND [options]\n\n%s\n\ncommands:\n", program->name, program->summary);
    for (const dao_command_t *const *command = program->commands; *command != NULL; command++) {
        (void)printf("  %-12s %s\n", (*command)->name, (*command)->summary);
    }
    (void)printf("  %-12s %s\n\n", "help COMMAND", "say more about a command");
    (void)printf("%s --version prints the version. Exit codes: 0 done, 1 it failed, 2 bad usage;\n"
                 "of fit also 3 it fits with swapping or operators that run again, 4 it does not.\n",
                 program->name);
    return DAO_EXIT_OK;
}

/* Prints what completion offers in place of a command. */
static int print_words(const dao_program_t *program)
{
    for (const dao_command_t *const *command = program->commands; *command != NULL; command++) {
        (void)printf("%s\n", (*command)->name);
    }
    (void)printf("help\n");
    return DAO_EXIT_OK;
}

static bool asks_for_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static int print_help(const dao_program_t *program, int argc, char **argv)
{
    if (argc == 0 || strcmp(argv[0], "help") == 0 || asks_for_help(argv[0])) {
        return print_overview(program);
    }
    const dao_command_t *command = find_command(program, argv[0]);
    if (command == NULL) {
        return unknown_command(program, argv[0]);
    }
    if (argc > 1) {
        const dao_command_t itself = no_command(program);
        return dao_usage_error(&itself, "\"%.60s\" is one argument too many", argv[1]);
    }
    dao_options_print_help(command);
    return DAO_EXIT_OK;
}

static int execute(const dao_program_t *program, const dao_command_t *command, int argc, char **argv)
{
    if (program->tells_progress) {
        dao_progress_start();
    }
    int exit_code = dao_command_execute(command, argc, argv);
    dao_progress_stop();
    return exit_code;
}

static int run(const dao_program_t *program, int argc, char **argv)
{
    if (argc < 2 || asks_for_help(argv[1])) {
        return print_overview(program);
    }
    if (strcmp(argv[1], "help") == 0) {
        return print_help(program, argc - 2, argv + 2);
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("%s %s\n", program->name, dao_version());
        return DAO_EXIT_OK;
    }
    if (strcmp(argv[1], "--words") == 0) {
        return print_words(program);
    }
    const dao_command_t *command = find_command(program, argv[1]);
    if (command != NULL) {
        return execute(program, command, argc - 2, argv + 2);
    }
    if (argv[1][0] == '-') {
        const dao_command_t itself = no_command(program);
        return dao_usage_error(&itself, "unknown option \"%.40s\"", argv[1]);
    }
    return unknown_command(program, argv[1]);
}

int dao_program_run(const dao_program_t *program, int argc, char **argv)
{
    (void)signal(SIGXFSZ, SIG_IGN); /* a write beyond the limit of file sizes fails, and is told, instead */
    int exit_code = run(program, argc, argv);
    return dao_output_close(program->name) ? exit_code : DAO_EXIT_FAILED;
}
