/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a kernel that is flagged DAO_KERNEL_REPEATABLE is. */
#ifndef DAO_RUNTIME_EXECUTOR_REPEAT_CHECK_H
#define DAO_RUNTIME_EXECUTOR_REPEAT_CHECK_H

#include "runtime/executor/core/engine_state.h"

/* Calls the item's function twice, on the same inputs, and compares what both wrote, byte by byte. Waits for
   the device, several times. The item's addresses are set and the stream has waited for all that the kernel
   waits for. What the function answers; DAO_ERR_CORRUPT, with the operand and its first other byte, if it
   wrote something else; what the device answers; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_repeat_check(dao_engine_t *engine, dao_item_t *item,
                                            const dao_launch_t *launch_info);

#endif
