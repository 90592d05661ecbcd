/* SPDX-License-Identifier: Apache-2.0 */
/* Windows weighed with the inputs of what runs again in them, see recompute_deciding.c. */
#ifndef DAO_PLANNING_RECOMPUTE_DECIDING_H
#define DAO_PLANNING_RECOMPUTE_DECIDING_H

#include "planning/recompute/bound/recompute_windows.h"

/* Weighs the windows of the best sum anew: what they add may become more. *out_added_ns is the best sum then.
   DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_recompute_windows_decide(dao_recompute_windows_t *windows,
                                                        uint64_t *out_added_ns);

#endif
