/* SPDX-License-Identifier: Apache-2.0 */
/* The block of device memory that an executor divides. */
#ifndef DAO_RUNTIME_EXECUTOR_CAPACITY_H
#define DAO_RUNTIME_EXECUTOR_CAPACITY_H

#include "runtime/executor/executor_internal.h"

/* What a capacity may be; 0 is one. DAO_ERR_INVALID, DAO_ERR_OVERFLOW. */
DAO_NODISCARD dao_status_t dao_capacity_check(uint64_t capacity_bytes);

/* Takes the executor's block; with 0, of what the device has free. Its allocator's errors. */
DAO_NODISCARD dao_status_t dao_capacity_take(dao_executor_t *executor, uint64_t capacity_bytes,
                                             uint64_t *out_bytes);

/* Gives it back, if it is there; no work uses it any more. */
void dao_capacity_give(dao_executor_t *executor);

/* The engine has run a request of another capacity: exchanges the block, unless that was refused. What the
   exchange answers is added to the request. On the executor's thread. */
void dao_capacity_change(dao_executor_t *executor, dao_request_t *request);

#endif
