/* SPDX-License-Identifier: Apache-2.0 */
/* Where the forward pass of a recorded training step ends. */
#ifndef DAO_TOOLS_SIMULATE_FORWARD_END_H
#define DAO_TOOLS_SIMULATE_FORWARD_END_H

#include "tools/model/step_trace.h"

/* Finds the last operator of the forward pass: in front of the backward pass as the trace records it, or of
   the first operator with "backward" in its name; else by what happens to the labels. DAO_ERR_UNSUPPORTED
   says to give it; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_forward_end_find(const dao_step_trace_t *trace, uint32_t *out_operator);

#endif
