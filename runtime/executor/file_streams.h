/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of the file tier: made with the executor if it has a file, else with the first source. */
#ifndef DAO_RUNTIME_EXECUTOR_FILE_STREAMS_H
#define DAO_RUNTIME_EXECUTOR_FILE_STREAMS_H

#include "runtime/executor/executor_internal.h"

/* Makes them. On an error some may be there. */
DAO_NODISCARD dao_status_t dao_file_streams_create(dao_executor_t *executor);

/* Destroys those that are there; allows none. */
void dao_file_streams_destroy(dao_executor_t *executor);

/* What the engine is to know of them. */
void dao_file_streams_describe(const dao_executor_t *executor, dao_engine_config_t *engine);

/* Tensors with sources are going to come: makes the streams and a tier for them, unless the executor has
   these. The request gets an error. On the executor's thread. */
void dao_file_streams_start(dao_executor_t *executor, dao_request_t *request);

#endif
