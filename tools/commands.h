/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of dao, each in the folder of its name. */
#ifndef DAO_TOOLS_COMMANDS_H
#define DAO_TOOLS_COMMANDS_H

#include "tools/options/options.h"

extern const dao_command_t dao_command_convert;
extern const dao_command_t dao_command_fit;
extern const dao_command_t dao_command_info;
extern const dao_command_t dao_command_metrics;
extern const dao_command_t dao_command_plan;
extern const dao_command_t dao_command_replay;
extern const dao_command_t dao_command_report;
extern const dao_command_t dao_command_run;
extern const dao_command_t dao_command_simulate;
extern const dao_command_t dao_command_top;

#endif
