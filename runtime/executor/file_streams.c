/* SPDX-License-Identifier: Apache-2.0 */
/* Invariant: an executor has all four streams, the two that read, or none, but for an error on the way there.
 */
#include "runtime/executor/file_streams.h"

#include "base/report/error.h"
#include "runtime/handles/stream_internal.h"

dao_status_t dao_file_streams_create(dao_executor_t *executor)
{
    dao_runtime_t *runtime = executor->runtime;
    dao_status_t status = DAO_OK;
    int count = dao_file_tier_direction_count(executor->file_directory);
    for (int i = 0; status == DAO_OK && i < count; i++) {
        status = dao_stream_create_on(runtime, DAO_EXECUTOR_STREAM_NOUN, &executor->file_streams[i]);
        status = status == DAO_OK
                     ? dao_stream_create_on(runtime, DAO_EXECUTOR_STREAM_NOUN, &executor->staging_streams[i])
                     : status;
    }
    return status;
}

void dao_file_streams_destroy(dao_executor_t *executor)
{
    for (int i = 0; i < DAO_FILE_DIRECTION_COUNT; i++) {
        dao_stream_destroy(executor->file_streams[i]);
        dao_stream_destroy(executor->staging_streams[i]);
        executor->file_streams[i] = NULL;
        executor->staging_streams[i] = NULL;
    }
}

void dao_file_streams_describe(const dao_executor_t *executor, dao_engine_config_t *engine)
{
    for (int i = 0; i < DAO_FILE_DIRECTION_COUNT && executor->file_streams[i] != NULL; i++) {
        engine->file_streams[i] = executor->file_streams[i]->backend;
        engine->staging_streams[i] = executor->staging_streams[i]->backend;
    }
}

void dao_file_streams_start(dao_executor_t *executor, dao_request_t *request)
{
    dao_engine_t *engine = &executor->engine;
    dao_status_t status = request->error.status;
    if (status == DAO_OK && !engine->file_tier.is_there) {
        status = dao_file_streams_create(executor);
        if (status == DAO_OK) {
            dao_file_streams_describe(executor, &engine->config);
            status = dao_engine_make_file_tier(engine);
        }
        if (status != DAO_OK) {
            dao_error_prefix("what reads sources cannot be made: ");
            dao_error_save(&request->error, status);
            dao_file_streams_destroy(executor);
        }
    }
    if (status == DAO_OK) {
        atomic_store(&executor->reads_sources, true);
    }
}
