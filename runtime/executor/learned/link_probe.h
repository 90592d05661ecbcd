/* SPDX-License-Identifier: Apache-2.0 */
/* What the host's link can do, before a step has shown it. */
#ifndef DAO_RUNTIME_EXECUTOR_LINK_PROBE_H
#define DAO_RUNTIME_EXECUTOR_LINK_PROBE_H

#include "runtime/executor/core/engine_state.h"
#include "runtime/executor/streams/known_links.h"

/* Bytes of the largest copies of both directions together, if there is room: some milliseconds over the
   slowest links, and many times a copy's latency over the fastest. */
#define DAO_LINK_PROBE_BYTES ((uint64_t)32 << 20)

/* Measures copies of nothing in particular, each way alone and both at once, and notes what they took. Waits
   for the device; no plan is followed, and nothing is being measured. Tensors may have to leave the device;
   pinned memory is taken meanwhile, beside the limit of the host tier.
   DAO_ERR_LIMIT: pinned tensors leave no room; DAO_ERR_HOST_FULL: there is no pinned memory, or tensors that
   have to leave find none; DAO_ERR_COPY_FAILED,
   DAO_ERR_NO_HOST_MEMORY, the device's own error: nothing is noted. */
DAO_NODISCARD dao_status_t dao_link_probe(dao_engine_t *engine, dao_known_links_t *links);

#endif
