/* SPDX-License-Identifier: Apache-2.0 */
/* The thread around the engine, and the program's side of the queue.

       program's threads                      executor's thread
       push, write, read, sync, release  -->  take all -> enqueue them -> run one -> take all -> ...

   An executor is a shell that its creator, every tensor's record and every command list hold, so that
   handles may outlive dao_executor_destroy(). The shell's queue refuses everything from then on. */
#include "runtime/executor/capacity.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/file_streams.h"
#include "runtime/executor/launch/launch.h"

#include "base/files/file.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/callback.h"
#include "base/report/error.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/handles/stream_internal.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

static_assert(offsetof(dao_executor_t, shared) == 0, "an executor is found by what its tensors hold");

static void destroy_shell(dao_counted_t *shared)
{
    dao_executor_t *executor = (dao_executor_t *)shared;
    dao_queue_finish(&executor->queue);
    dao_mutex_finish(&executor->stats_lock);
    dao_host_free(executor);
}

bool dao_executor_is_forked(const dao_executor_t *executor)
{
    return executor->fork_count != dao_core_fork_count();
}

dao_status_t dao_executor_check_process(const dao_executor_t *executor)
{
    return dao_executor_is_forked(executor)
               ? dao_error(DAO_ERR_FORKED, "the executor was made in the parent process")
               : DAO_OK;
}

dao_status_t dao_executor_check_thread(const dao_executor_t *executor)
{
    dao_status_t status = dao_executor_check_process(executor);
    if (status != DAO_OK) {
        return status;
    }
    if (atomic_load(&executor->thread_id) == dao_thread_self()) {
        return dao_error(DAO_ERR_REENTRANT,
                         "this call would wait for the executor's own thread, which makes it");
    }
    return dao_thread_check();
}

/* The executor's thread. */

static void publish_stats(dao_executor_t *executor)
{
    dao_executor_stats_t stats;
    dao_engine_stats(&executor->engine, &stats);
    dao_mutex_lock(&executor->stats_lock);
    executor->stats = stats;
    dao_mutex_unlock(&executor->stats_lock);
}

/* Takes in what was pushed; with nothing to run, waits for it. False when nothing will ever come. */
static bool take_in(dao_executor_t *executor)
{
    bool is_idle = dao_engine_peek(&executor->engine) == NULL;
    dao_item_t *item = dao_queue_take(&executor->queue, is_idle && !executor->is_still);
    if (item == NULL) {
        return !is_idle;
    }
    while (item != NULL) {
        dao_item_t *next = item->next; /* enqueue links it anew */
        dao_engine_enqueue(&executor->engine, item);
        item = next;
    }
    return true;
}

static void run_one(dao_executor_t *executor)
{
    DAO_ASSERT(dao_engine_peek(&executor->engine) != NULL);
    bool is_kernel = dao_engine_peek(&executor->engine)->kind == DAO_ITEM_KERNEL;
    dao_item_t *answered = dao_engine_run(&executor->engine);
    if (answered != NULL && answered->kind == DAO_ITEM_CAPACITY) {
        dao_capacity_change(executor, answered->request);
    } else if (answered != NULL && answered->kind == DAO_ITEM_SOURCES) {
        dao_file_streams_start(executor, answered->request);
    }
    publish_stats(executor);
    if (is_kernel) {
        dao_queue_finish_kernel(&executor->queue);
    }
    if (answered != NULL) {
        dao_queue_answer(&executor->queue, answered->request);
    }
}

static void *run_executor(void *user)
{
    dao_executor_t *executor = user;
    atomic_store(&executor->thread_id, dao_thread_self());
    dao_callback_begin(); /* whatever of the program's is called here, the executor goes on behind it */
    dao_engine_arrive(&executor->engine);
    while (take_in(executor)) {
        if (dao_engine_peek(&executor->engine) != NULL) {
            run_one(executor);
        }
    }
    dao_engine_part(&executor->engine);
    dao_engine_finish(&executor->engine);
    dao_callback_end();
    atomic_store(&executor->thread_id, (uintptr_t)0); /* another thread may get this number */
    return NULL;
}

/* Still executors. */

/* Runs one item of what was pushed; false if there is none. */
static bool run_still(dao_executor_t *executor)
{
    (void)take_in(executor);
    bool has_item = dao_engine_peek(&executor->engine) != NULL;
    if (has_item) {
        run_one(executor);
    }
    return has_item;
}

dao_status_t dao_executor_queue(dao_executor_t *executor, dao_item_t *first, dao_item_t *last,
                                uint64_t kernel_count)
{
    while (executor->is_still && kernel_count > 0 && !dao_queue_has_room(&executor->queue, kernel_count)) {
        (void)run_still(executor); /* a queue without room has a kernel */
    }
    return dao_queue_push(&executor->queue, first, last, kernel_count);
}

/* Being watched. */

static void stats_read(dao_executor_t *executor, dao_executor_stats_t *out_stats)
{
    dao_mutex_lock(&executor->stats_lock);
    *out_stats = executor->stats;
    dao_mutex_unlock(&executor->stats_lock);
    out_stats->live_tensor_count = atomic_load(&executor->live_tensor_count);
}

static void score_write(const dao_score_source_t *source, dao_scores_t *scores)
{
    dao_executor_t *executor =
        (dao_executor_t *)(void *)((char *)(uintptr_t)source - offsetof(dao_executor_t, score));
    dao_score_row_t *row =
        dao_scores_add(scores, DAO_SCORE_KIND_EXECUTOR,
                       (dao_place_t){DAO_PLACE_KIND_DEVICE, executor->runtime->device_index});
    if (row != NULL) {
        row->number = source->number;
        stats_read(executor, &row->of.executor);
    }
}

/* Creating. */

static dao_status_t check_config(const dao_executor_config_t *config)
{
    if (config->policy < 0 || config->policy > DAO_POLICY_USER) {
        return dao_error(DAO_ERR_INVALID, "policy %d is none; see DAO_POLICY_LIST", (int)config->policy);
    }
    if (config->policy == DAO_POLICY_USER && config->score == NULL) {
        return dao_error(DAO_ERR_INVALID, "the policy \"user\" needs a score function");
    }
    if (dao_file_engine_check(config->file.engine) != DAO_OK) {
        return DAO_ERR_INVALID;
    }
    if (config->file.directory == NULL &&
        (config->file.limit_bytes != 0 || config->file.out_bytes_per_second != 0)) {
        return dao_error(DAO_ERR_INVALID, "a file tier needs a directory");
    }
    if (config->addresses < DAO_SWAP_ADDRESSES_BEST || config->addresses > DAO_SWAP_ADDRESSES_PAGES) {
        return dao_error(DAO_ERR_INVALID, "there is no choice %d of addresses", (int)config->addresses);
    }
    if (config->stream_count > DAO_EXECUTOR_STREAM_COUNT_MAX) {
        return dao_error(DAO_ERR_INVALID,
                         "stream_count is %" PRIu32 ", at most %u compute streams are allowed",
                         config->stream_count, DAO_EXECUTOR_STREAM_COUNT_MAX);
    }
    dao_status_t status = dao_capacity_check(config->capacity_bytes);
    if (status == DAO_OK && config->file.limit_bytes > DAO_RANGE_CAPACITY_MAX) {
        status =
            dao_error(DAO_ERR_OVERFLOW, "file.limit_bytes is %" PRIu64 "; the most is %" PRIu64 ", 1 TiB",
                      config->file.limit_bytes, DAO_RANGE_CAPACITY_MAX);
    }
    return status;
}

static dao_stream_t **compute_stream(dao_executor_t *executor, uint32_t index)
{
    return index == 0 ? &executor->streams[DAO_STREAM_ROLE_COMPUTE] : &executor->more_streams[index];
}

/* Keeps a stream of the program's as a compute stream. */
static dao_status_t keep_stream(dao_executor_t *executor, uint32_t index, dao_stream_t *stream)
{
    if (stream->runtime != executor->runtime) {
        bool is_other = stream->runtime->device_index != executor->runtime->device_index;
        return dao_error(DAO_ERR_INVALID,
                         "streams[%" PRIu32 "] is of device:%" PRId32
                         "%s, and the executor of device:%" PRId32,
                         index, stream->runtime->device_index, is_other ? "" : " of an earlier start",
                         executor->runtime->device_index);
    }
    dao_status_t status = dao_stream_takes_work(stream);
    if (status != DAO_OK) {
        dao_error_prefix("streams[%" PRIu32 "]: ", index);
        return status;
    }
    dao_stream_retain(stream);
    *compute_stream(executor, index) = stream;
    executor->given_streams |= UINT32_C(1) << index;
    return DAO_OK;
}

static dao_status_t take_compute_stream(dao_executor_t *executor, uint32_t index,
                                        const dao_executor_config_t *config)
{
    return config->streams != NULL && config->streams[index] != NULL
               ? keep_stream(executor, index, config->streams[index])
               : dao_stream_create_on(executor->runtime, DAO_EXECUTOR_STREAM_NOUN,
                                      compute_stream(executor, index));
}

/* Its own streams end, with all that is on them; the program's lose a reference, behind the engine's work. */
static void give_compute_stream(dao_executor_t *executor, uint32_t index)
{
    dao_stream_t **stream = compute_stream(executor, index);
    if ((executor->given_streams >> index & 1) != 0) {
        dao_stream_release(*stream);
    } else {
        dao_stream_destroy(*stream);
    }
    *stream = NULL;
}

/* Gives back what create has made so far; the engine is not initialized, or finished. */
static void destroy_parts(dao_executor_t *executor)
{
    for (uint32_t i = 0; i < executor->stream_count; i++) { /* first: no work uses the arena any more */
        give_compute_stream(executor, i);
    }
    for (int i = DAO_STREAM_ROLE_H2D; i < DAO_STREAM_ROLE_COUNT; i++) {
        dao_stream_destroy(executor->streams[i]);
        executor->streams[i] = NULL;
    }
    dao_file_streams_destroy(executor);
    dao_file_tier_finish(&executor->engine.file_tier);
    dao_host_free(executor->file_directory);
    executor->file_directory = NULL;
    dao_capacity_give(executor);
    if (executor->runtime != NULL) {
        dao_runtime_release(executor->runtime);
        executor->runtime = NULL;
    }
}

static dao_status_t create_file_parts(dao_executor_t *executor, const dao_executor_config_t *config)
{
    executor->file_directory = dao_host_strdup(config->file.directory);
    if (executor->file_directory == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the name of a directory");
    }
    return dao_file_streams_create(executor);
}

static dao_status_t create_parts(dao_executor_t *executor, const dao_executor_config_t *config,
                                 dao_engine_config_t *engine)
{
    dao_status_t status = dao_runtime_acquire(config->device_index, &executor->runtime);
    executor->stream_count = config->stream_count != 0 ? config->stream_count : 1;
    for (uint32_t i = 0; status == DAO_OK && i < executor->stream_count; i++) {
        status = take_compute_stream(executor, i, config);
    }
    for (int i = DAO_STREAM_ROLE_H2D; status == DAO_OK && i < DAO_STREAM_ROLE_COUNT; i++) {
        status = dao_stream_create_on(executor->runtime, DAO_EXECUTOR_STREAM_NOUN, &executor->streams[i]);
    }
    if (status == DAO_OK && config->file.directory != NULL) {
        status = create_file_parts(executor, config);
    }
    return status == DAO_OK ? dao_capacity_take(executor, config->capacity_bytes, &engine->arena_bytes)
                            : status;
}

static void describe_core(dao_executor_t *executor, const dao_executor_config_t *config,
                          dao_engine_config_t *engine)
{
    engine->ops = executor->runtime->ops;
    engine->device = executor->runtime->device;
    engine->device_index = config->device_index;
    engine->stream_count = executor->stream_count;
    for (uint32_t i = 0; i < executor->stream_count; i++) {
        engine->compute_streams[i] = *compute_stream(executor, i);
        if ((executor->given_streams >> i & 1) != 0) {
            engine->given_streams[dao_timeline_compute(i)] = engine->compute_streams[i];
        }
    }
    for (int i = 0; i < DAO_STREAM_ROLE_COUNT; i++) {
        engine->streams[i] = executor->streams[i]->backend;
    }
    engine->file = config->file;
    engine->file.directory = executor->file_directory;
    dao_file_streams_describe(executor, engine);
    engine->arena_address = executor->arena_address;
    engine->host = dao_runtime_allocator(executor->runtime, DAO_PLACE_KIND_PINNED);
    engine->host_limit_bytes = config->host_bytes;
    engine->policy = config->policy;
    engine->score = config->score;
    engine->score_user = config->score_user;
    engine->on_demand = config->on_demand;
    engine->in_flight_ns =
        config->in_flight_ns != 0 ? config->in_flight_ns : DAO_EXECUTOR_IN_FLIGHT_NS_DEFAULT;
    engine->check = config->check;
    engine->check_repeatable = config->check_repeatable;
    engine->learns = !config->without_plans && !config->on_demand && config->policy != DAO_POLICY_USER;
    engine->plans_at_once = executor->is_still;
    engine->addresses = config->addresses;
    engine->has_thread = !executor->is_still;
}

/* Everything but the shell; on an error nothing of it is left. */
static dao_status_t start(dao_executor_t *executor, const dao_executor_config_t *config)
{
    dao_engine_config_t engine = {0};
    dao_status_t status = create_parts(executor, config, &engine);
    if (status == DAO_OK) {
        describe_core(executor, config, &engine);
        status = dao_engine_init(&executor->engine, &engine);
    }
    if (status != DAO_OK) {
        destroy_parts(executor);
        return status;
    }
    dao_engine_stats(&executor->engine, &executor->stats);
    if (executor->is_still) {
        return DAO_OK;
    }
    status = dao_thread_start(&executor->thread, "dao-executor", run_executor, executor);
    if (status != DAO_OK) {
        dao_engine_finish(&executor->engine);
        destroy_parts(executor);
    }
    return status;
}

static dao_status_t create(const dao_executor_config_t *config, bool is_still, dao_executor_t **out_executor)
{
    static const dao_executor_config_t defaults;
    if (out_executor == NULL) {
        return dao_error(DAO_ERR_INVALID, "out_executor is NULL");
    }
    config = config != NULL ? config : &defaults;
    dao_status_t status = check_config(config);
    if (status != DAO_OK) {
        return status;
    }
    dao_executor_t *executor = dao_host_calloc(1, sizeof(*executor));
    if (executor == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for an executor of %zu bytes", sizeof(*executor));
    }
    dao_counted_init(&executor->shared, destroy_shell);
    executor->is_still = is_still;
    executor->fork_count = dao_core_fork_count();
    dao_mutex_init(&executor->stats_lock, DAO_RANK_LEAF);
    dao_queue_init(&executor->queue,
                   config->queue_kernels != 0 ? config->queue_kernels : DAO_EXECUTOR_QUEUE_DEFAULT);
    status = start(executor, config);
    if (status != DAO_OK) {
        dao_counted_unreference(&executor->shared);
        return status;
    }
    executor->score.write = score_write;
    dao_score_source_add(&executor->score);
    *out_executor = executor;
    return DAO_OK;
}

dao_status_t dao_executor_create(const dao_executor_config_t *config, dao_executor_t **out_executor)
{
    return create(config, false, out_executor);
}

dao_status_t dao_executor_create_still(const dao_executor_config_t *config, dao_executor_t **out_executor)
{
    return create(config, true, out_executor);
}

/* Runs what is queued. */
static void stop(dao_executor_t *executor)
{
    if (!executor->is_still) {
        dao_thread_join(&executor->thread);
        return;
    }
    while (run_still(executor)) {
    }
    dao_engine_finish(&executor->engine);
}

dao_status_t dao_executor_destroy(dao_executor_t *executor)
{
    if (executor == NULL) {
        return DAO_OK;
    }
    dao_status_t status = dao_executor_check_thread(executor);
    if (status != DAO_OK) {
        return status;
    }
    if (!dao_queue_stop(&executor->queue)) { /* handles to its tensors keep what is left of it */
        return dao_error(DAO_ERR_STOPPED, "dao_executor_destroy: the executor was destroyed before");
    }
    dao_score_source_remove(&executor->score);
    stop(executor);
    bool has_failed = executor->engine.has_failed || executor->engine.is_lost;
    dao_error_record_t failure = executor->engine.failure;
    destroy_parts(executor);
    dao_counted_unreference(&executor->shared);
    return has_failed ? dao_error_restore(&failure) : DAO_OK;
}

/* Pushing. */

dao_status_t dao_executor_item(dao_executor_t *executor, const dao_kernel_t *kernel, dao_item_t **out_item)
{
    if (kernel != NULL && kernel->stream_index >= executor->stream_count) {
        return dao_error(DAO_ERR_INVALID,
                         "kernel \"%s\": the stream is %" PRIu32 ", and the executor has %" PRIu32
                         " compute streams, from 0 on: see stream_count",
                         kernel->name != NULL ? kernel->name : "kernel", kernel->stream_index,
                         executor->stream_count);
    }
    return dao_item_from_kernel(executor, kernel, out_item);
}

dao_status_t dao_executor_push(dao_executor_t *executor, const dao_kernel_t *kernel)
{
    if (executor == NULL) {
        return dao_error_null(__func__, "executor");
    }
    dao_item_t *item = NULL;
    dao_status_t status = dao_executor_check_thread(executor);
    if (status == DAO_OK) {
        status = dao_executor_item(executor, kernel, &item);
    }
    if (status != DAO_OK) {
        return status;
    }
    status = dao_executor_queue(executor, item, item, 1);
    if (status != DAO_OK) {
        item->drop = NULL; /* the program keeps what it could not push */
        dao_item_destroy(item);
    }
    return status;
}

/* Begins and ends are the same to the learner: a boundary between two steps. */
static dao_status_t push_step_boundary(dao_executor_t *executor, const char *function)
{
    if (executor == NULL) {
        return dao_error_null(function, "executor");
    }
    dao_item_t *item = NULL;
    dao_status_t status = dao_executor_check_thread(executor);
    if (status == DAO_OK) {
        status = dao_item_from_step_boundary(&item);
    }
    if (status != DAO_OK) {
        return status;
    }
    status = dao_executor_queue(executor, item, item, 0);
    if (status != DAO_OK) {
        dao_item_destroy(item);
    }
    return status;
}

dao_status_t dao_executor_step_begin(dao_executor_t *executor)
{
    return push_step_boundary(executor, __func__);
}

dao_status_t dao_executor_step_end(dao_executor_t *executor)
{
    return push_step_boundary(executor, __func__);
}

/* Pushes a request and waits until it is answered. The item stays the caller's. */
dao_status_t dao_executor_ask(dao_executor_t *executor, dao_item_t *item, dao_request_t *request)
{
    item->request = request;
    dao_status_t status = dao_queue_push(&executor->queue, item, item, 0);
    if (status != DAO_OK) {
        return status;
    }
    while (executor->is_still && run_still(executor)) {
    }
    dao_queue_await(&executor->queue, request);
    return request->error.status != DAO_OK ? dao_error_restore(&request->error) : DAO_OK;
}

dao_status_t dao_executor_sync(dao_executor_t *executor)
{
    if (executor == NULL) {
        return dao_error_null(__func__, "executor");
    }
    dao_status_t status = dao_executor_check_thread(executor);
    if (status != DAO_OK) {
        return status;
    }
    dao_item_t item = {.kind = DAO_ITEM_SYNC};
    dao_request_t request = {0};
    return dao_runtime_told(executor->runtime, dao_executor_ask(executor, &item, &request));
}

dao_status_t dao_executor_capacity_set(dao_executor_t *executor, size_t capacity_bytes)
{
    if (executor == NULL) {
        return dao_error_null(__func__, "executor");
    }
    dao_status_t status = dao_capacity_check(capacity_bytes);
    status = status == DAO_OK ? dao_executor_check_thread(executor) : status;
    dao_item_t item = {.kind = DAO_ITEM_CAPACITY};
    dao_request_t request = {.capacity_bytes = capacity_bytes};
    if (status == DAO_OK) {
        status = dao_runtime_told(executor->runtime, dao_executor_ask(executor, &item, &request));
    }
    if (status != DAO_OK) {
        dao_error_prefix("%s: ", __func__);
    }
    return status;
}

dao_status_t dao_executor_step_write(dao_executor_t *executor, const char *path)
{
    if (executor == NULL || path == NULL) {
        return dao_error_null(__func__, executor == NULL ? "executor" : "path");
    }
    if (*path == '\0') {
        return dao_error(DAO_ERR_INVALID, "%s: the path is empty", __func__);
    }
    dao_status_t status = dao_executor_check_thread(executor);
    dao_item_t item = {.kind = DAO_ITEM_STEP_WRITE};
    dao_request_t request = {.path = path};
    status = status == DAO_OK ? dao_executor_ask(executor, &item, &request) : status;
    if (status != DAO_OK) {
        dao_error_prefix("%s: ", __func__);
    }
    return status;
}

dao_status_t dao_executor_stats_get(dao_executor_t *executor, dao_executor_stats_t *out_stats)
{
    if (executor == NULL || out_stats == NULL) {
        return dao_error_null(__func__, executor == NULL ? "executor" : "out_stats");
    }
    dao_status_t status = dao_executor_check_process(executor);
    if (status == DAO_OK) {
        stats_read(executor, out_stats);
    }
    return status;
}
