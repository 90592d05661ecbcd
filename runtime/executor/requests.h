/* SPDX-License-Identifier: Apache-2.0 */
/* What the program asks of one tensor, in the order of the queue. */
#ifndef DAO_RUNTIME_EXECUTOR_REQUESTS_H
#define DAO_RUNTIME_EXECUTOR_REQUESTS_H

#include "runtime/executor/engine.h"

/* Runs a READ or WRITE with a request; what the program is told. */
DAO_NODISCARD dao_status_t dao_requests_run(dao_engine_t *engine, const dao_item_t *item);

/* The program's bytes replace some of a tensor's, for the step under way. With the host full, one that is
   nowhere gets a part of the device for them. On an error the content is as it was. */
DAO_NODISCARD dao_status_t dao_requests_write(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t slice,
                                              const void *source);

/* Pins a tensor once more, and brings it to its place, or takes one pin away. A tensor that stays pinned has
   that address. DAO_ERR_LIMIT: too much is pinned; DAO_ERR_HOST_FULL, DAO_ERR_COPY_FAILED: others, or it
   itself, cannot be moved. On an error nothing is pinned that was not. */
DAO_NODISCARD dao_status_t dao_requests_pin(dao_engine_t *engine, dao_managed_t *tensor, void **out_address);
DAO_NODISCARD dao_status_t dao_requests_unpin(dao_engine_t *engine, dao_managed_t *tensor);

/* Takes all pins of a pinned tensor away. A failure over that is for the next sync to report. */
void dao_requests_drop_pin(dao_engine_t *engine, dao_managed_t *tensor);

/* Stops following a plan, if there is one, and makes again what it had given up. Returns false if the engine
   has failed, now or before. */
bool dao_requests_leave_plan(dao_engine_t *engine);

/* Answers a request that is not run: an earlier failure was not reported yet, or the device is lost. */
DAO_NODISCARD dao_status_t dao_requests_refuse(const dao_engine_t *engine);

#endif
