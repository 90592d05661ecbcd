/* SPDX-License-Identifier: Apache-2.0 */
/* The dao command: finds the subcommand and hands over. Exit codes: 0 done, 1 it failed, 2 bad usage. */
#include "tools/options/options.h"

#include <dao/api.h>

#include <stdio.h>
#include <string.h>

static const dao_command_t *const commands[] = {&dao_command_info,     &dao_command_run,
                                                &dao_command_plan,     &dao_command_replay,
                                                &dao_command_simulate, &dao_command_bench};

enum { COMMAND_COUNT = sizeof(commands) / sizeof(commands[0]) };

static const dao_command_t *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(commands[i]->name, name) == 0) {
            return commands[i];
        }
    }
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *names[COMMAND_COUNT + 2];
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        names[i] = commands[i]->name;
    }
    names[COMMAND_COUNT] = "help";
    names[COMMAND_COUNT + 1] = NULL;
    const char *nearest = dao_nearest_name(name, names);
    if (nearest != NULL) {
        return dao_usage_error("", "unknown command \"%.40s\"; did you mean \"%s\"?", name, nearest);
    }
    return dao_usage_error("", "unknown command \"%.40s\"", name);
}

static int print_overview(void)
{
    (void)printf("usage: dao COMMAND [options]\n\nMemory of accelerators: look at recorded steps, run them "
                 "in less memory.\n\n"
                 "commands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        (void)printf("  %-12s %s\n", commands[i]->name, commands[i]->summary);
    }
    (void)printf("  %-12s %s\n\n", "help COMMAND", "say more about a command");
    (void)printf("dao --version prints the version. Exit codes: 0 done, 1 it failed, 2 bad usage.\n");
    return DAO_EXIT_OK;
}

static int print_help(int argc, char **argv)
{
    if (argc == 0 || strcmp(argv[0], "help") == 0) {
        return print_overview();
    }
    const dao_command_t *command = find_command(argv[0]);
    if (command == NULL) {
        return unknown_command(argv[0]);
    }
    if (argc > 1 && command == &dao_command_bench) { /* what it measures has options of its own */
        char *arguments[] = {argv[1], "--help"};
        return argc == 2 ? command->run(command, 2, arguments)
                         : dao_usage_error("", "\"%.60s\" is one argument too many", argv[2]);
    }
    if (argc > 1) {
        return dao_usage_error("", "\"%.60s\" is one argument too many", argv[1]);
    }
    dao_options_print_help(command);
    return DAO_EXIT_OK;
}

static int run_command(int argc, char **argv)
{
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        return print_overview();
    }
    if (strcmp(argv[1], "help") == 0) {
        return print_help(argc - 2, argv + 2);
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("dao %s\n", dao_version());
        return DAO_EXIT_OK;
    }
    const dao_command_t *command = find_command(argv[1]);
    if (command != NULL) {
        return command->run(command, argc - 2, argv + 2);
    }
    return argv[1][0] == '-' ? dao_usage_error("", "unknown option \"%.40s\"", argv[1])
                             : unknown_command(argv[1]);
}

int main(int argc, char **argv)
{
    int exit_code = run_command(argc, argv);
    return dao_output_close() ? exit_code : DAO_EXIT_FAILED;
}
