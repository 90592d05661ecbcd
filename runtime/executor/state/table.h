/* SPDX-License-Identifier: Apache-2.0 */
/* The table of an engine: all tensors that have bytes or pending uses, or are held. */
#ifndef DAO_RUNTIME_EXECUTOR_TABLE_H
#define DAO_RUNTIME_EXECUTOR_TABLE_H

#include "runtime/executor/core/engine_state.h"

/* A tensor enters the table with its first use; one that is there stays. */
void dao_table_list(dao_engine_t *engine, dao_managed_t *tensor);

/* It has no bytes, and leaves the table. */
void dao_table_unlist(dao_engine_t *engine, dao_managed_t *tensor);

/* After a use has passed, or a handle or hold has gone: a content that cannot be asked for any more is freed
   at once, and a tensor without pending uses leaves the table. */
void dao_table_settle(dao_engine_t *engine, dao_managed_t *tensor);

#endif
