/* SPDX-License-Identifier: Apache-2.0 */
/* The dao command. Exit codes: tools/options/complain.h. */
#include "tools/commands.h"
#include "tools/options/program.h"

#include <stddef.h>

int main(int argc, char **argv)
{
    static const dao_command_t *const commands[] = {
        &dao_command_info,
        &dao_command_run,
        &dao_command_plan,
        &dao_command_replay,
        &dao_command_simulate,
        &dao_command_fit,
        &dao_command_report,
        &dao_command_convert,
        &dao_command_top,
        &dao_command_metrics,
        NULL,
    };
    static const dao_program_t program = {
        .name = "dao",
        .summary = "Memory of accelerators: look at recorded steps, run them in less memory.",
        .commands = commands,
        .tells_progress = true,
    };
    return dao_program_run(&program, argc, argv);
}
