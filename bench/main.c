/* SPDX-License-Identifier: Apache-2.0 */
/* The dao-bench command: measures libdao. It is built beside dao and not installed. Exit codes: 0 done, 1 it
   failed or a figure is over its limit, 2 bad usage. */
#include "bench/commands.h"
#include "tools/options/program.h"

#include <stddef.h>

int main(int argc, char **argv)
{
    static const dao_command_t *const commands[] = {
        &dao_command_bench_alloc,
        &dao_command_bench_plan,
        &dao_command_bench_swap,
        &dao_command_bench_gpu,
        NULL,
    };
    static const dao_program_t program = {
        .name = "dao-bench",
        .summary = "Figures of libdao: allocators, plans of offsets, plans of swapped steps, a device.",
        .commands = commands,
    };
    return dao_program_run(&program, argc, argv);
}
