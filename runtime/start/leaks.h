/* SPDX-License-Identifier: Apache-2.0 */
/* The report of what the program forgot, for dao_finalize(). */
#ifndef DAO_RUNTIME_LEAKS_H
#define DAO_RUNTIME_LEAKS_H

#include "runtime/device/runtime.h"

/* Logs a line for every live block and handle, up to a hundred of a place, and one for every tag that a
   place's live blocks have, as warnings, and returns the number of blocks and handles. A block that a handle
   owns is one line, not two. */
uint64_t dao_leaks_report(dao_core_t *core, dao_runtime_t *const *runtimes, int32_t runtime_count);

#endif
