/* SPDX-License-Identifier: Apache-2.0 */
/* Traces that are made from a seed: what `dao-bench alloc` measures beside recorded ones. */
#ifndef DAO_BENCH_MADE_TRACE_H
#define DAO_BENCH_MADE_TRACE_H

#include "tools/model/alloc_trace.h"

/* What to make. */
typedef struct dao_alloc_trace_config {
    uint64_t seed;
    uint64_t pair_count; /* about so many from steady_begin on; 0: as many as the trace is described with */
    /* the trace is one of so many that share its live blocks; 0 and 1: it has them alone */
    uint32_t share_count;
} dao_alloc_trace_config_t;

/* Returns the name of the index-th trace that can be made, or NULL behind the last one. */
const char *dao_alloc_trace_name(size_t index);

/* Returns true if a trace is of small blocks of the host, which are nothing for a device. */
bool dao_alloc_trace_is_of_host(const char *name);

/* Makes a trace; equal settings make equal traces. DAO_ERR_INVALID for a name that is none;
   DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_alloc_trace_make(const char *name, const dao_alloc_trace_config_t *config,
                                                dao_alloc_trace_t *out_trace);

#endif
