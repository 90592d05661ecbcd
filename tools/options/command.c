/* SPDX-License-Identifier: Apache-2.0 */
/* Executes a command: parses its options into settings, checks what they say together, and runs it. Only here
   do failures become complaints and exit codes. */
#include "tools/options/complain.h"
#include "tools/options/program.h"

#include "base/memory/host.h"

int dao_command_execute(const dao_command_t *command, int argc, char **argv)
{
    dao_arguments_t arguments;
    int exit_code = DAO_EXIT_FAILED;
    void *settings = dao_host_calloc(1, command->settings_bytes);
    if (settings == NULL) {
        return exit_code; /* not even a message can be had */
    }
    if (dao_options_parse(command, argc, argv, settings, &arguments, &exit_code)) {
        dao_status_t checked = command->check != NULL ? command->check(&arguments, settings) : DAO_OK;
        if (checked != DAO_OK && checked != DAO_ERR_IO) {
            exit_code = dao_usage_error(command, "%s", dao_last_message());
        } else if (checked != DAO_OK || command->run(&arguments, settings, &exit_code) != DAO_OK) {
            exit_code = dao_failure(command);
        }
    }
    dao_host_free(settings);
    return exit_code;
}
