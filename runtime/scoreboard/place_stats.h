/* SPDX-License-Identifier: Apache-2.0 */
/* The statistics of a place that was found. */
#ifndef DAO_RUNTIME_PLACE_STATS_H
#define DAO_RUNTIME_PLACE_STATS_H

#include "runtime/device/runtime.h"

#include <dao/stats.h>

/* Reads what the allocator counts and what the runtime adds, all but internal_error_count; `runtime` is NULL
   for the host. */
void dao_place_stats_read(dao_place_t place, dao_allocator_t *allocator, dao_runtime_t *runtime,
                          dao_stats_t *out_stats);

#endif
