/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of dao-bench, each in the folder of its name. */
#ifndef DAO_BENCH_COMMANDS_H
#define DAO_BENCH_COMMANDS_H

#include "tools/options/options.h"

extern const dao_command_t dao_command_bench_alloc;
extern const dao_command_t dao_command_bench_gpu;
extern const dao_command_t dao_command_bench_plan;
extern const dao_command_t dao_command_bench_swap;

#endif
