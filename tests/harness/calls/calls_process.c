/* SPDX-License-Identifier: Apache-2.0 */
/* The library as a whole: its start, its end with everything still there, and a child process. */
#include "runtime/start/context.h"
#include "tests/harness/calls/calls.h"
#include "tests/harness/device.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- start ---- */

static bool get_streams(model_t *model)
{
    for (uint32_t i = 0; i < 3; i++) {
        model_stream_t *own = &model->streams[i];
        if (!model_answer(model, dao_stream_get(0, (dao_stream_role_t)i, &own->stream), DAO_OK)) {
            return false;
        }
        own->native = dao_stream_native(own->stream);
    }
    return true;
}

static void say_config(const model_t *model, const harness_config_t *config)
{
    const dao_place_config_t *place = &config->place_config;
    const dao_step_plan_config_t *plan = &place->step_plan;
    model_say(model,
              "dao_config_t config = {.cpu = {2, %llu}, .host_limit_bytes = %llu, .hardening = %u, "
              ".quarantine_bytes = %zu, .device_strategy = %d};\ndao_init(&config);%s",
              (unsigned long long)config->library.cpu.device_bytes,
              (unsigned long long)config->library.host_limit_bytes, config->library.hardening,
              config->library.quarantine_bytes, config->library.device_strategy,
              config->hides_pages ? " /* on a device without pages */" : "");
    model_say(model,
              "dao_place_t place = {%d, %d};\ndao_place_config_t place_config = {.strategy = %d, "
              ".initial_bytes = %zu, "
              ".segment_bytes = %zu, .small_bytes = %zu,\n    .limit_bytes = %zu, .no_page_mapping = %d, "
              ".memory_pool = %d, .hardening = %u,\n    .step_plan = {.mode = %d, .start_step = %u, "
              ".max_count = %u, "
              ".allocation_count = %u, .margin = %u,\n        .smallest_bytes = %zu, .work_limit = %llu, "
              ".uses_tags = %d, .records_time = %d, .defers_frees = %d}};\ndao_place_configure(place, "
              "&place_config);",
              config->place.kind, config->place.index, place->strategy, place->initial_bytes,
              place->segment_bytes, place->small_bytes, place->limit_bytes, place->no_page_mapping,
              place->memory_pool, place->hardening, plan->mode, plan->start_step, plan->max_count,
              plan->allocation_count, plan->margin, plan->smallest_bytes,
              (unsigned long long)plan->work_limit, plan->uses_tags, plan->records_time, plan->defers_frees);
    model_say(model,
              "dao_tag_create(\"first\", &tag_1); dao_tag_create(\"second\", &tag_2);\n"
              "dao_tag_limit_set(place, tag_1, %zu);",
              config->tag_limit_bytes);
}

bool harness_start(model_t *model)
{
    const harness_config_t *config = &model->program->config;
    say_config(model, config);
    const dao_backend_ops_t *ops = harness_device_wrap(dao_backend_ops(), config->hides_pages);
    ops = model->wrap != NULL ? model->wrap(ops) : ops;
    model->ops = ops;
    if (!model_answer(model, dao_context_start(&config->library, ops), DAO_OK)) {
        return false;
    }
    model->is_started = true;
    model->is_configured =
        model_answer(model, dao_place_configure(config->place, &config->place_config), DAO_OK);
    model->host_limit_bytes = config->library.host_limit_bytes;
    model_books(model, config->place)->limit_bytes =
        model->is_configured ? config->place_config.limit_bytes : 0;
    model->lease_here = MODEL_LEASE_COUNT;
    static const char *const names[MODEL_TAG_COUNT] = {"", "first", "second"};
    for (uint32_t i = 1; i < MODEL_TAG_COUNT; i++) {
        if (!model_answer(model, dao_tag_create(names[i], &model->tags[i]), DAO_OK)) {
            return false;
        }
    }
    if (!get_streams(model)) {
        return false;
    }
    dao_status_t got = dao_tag_limit_set(config->place, model->tags[1], config->tag_limit_bytes);
    if (!model_answer(model, got, DAO_OK)) {
        return false;
    }
    model_books(model, config->place)->tag_limits[1] = config->tag_limit_bytes;
    return true;
}

/* ---- the end ---- */

/* Releases what outlives a start: handles of all kinds. */
static void release_handles(model_t *model)
{
    for (uint32_t i = 0; i < MODEL_TENSOR_COUNT; i++) {
        (void)model_answer(model, dao_tensor_release(model->tensors[i].tensor), DAO_OK);
        model->tensors[i] = (model_tensor_t){0};
    }
    for (uint32_t i = 0; i < MODEL_BLOCK_COUNT; i++) {
        model_block_t *block = &model->blocks[i];
        if (block->memory != NULL && !block->is_dropped) {
            (void)model_answer(model, dao_memory_release(block->memory), DAO_OK);
        }
        if (block->memory != NULL) {
            model_block_leave(model, block);
        }
    }
    for (uint32_t i = 0; i < MODEL_LEASE_COUNT; i++) {
        model_lease_t *lease = &model->leases[i];
        if (lease->lease == NULL) {
            continue;
        }
        (void)model_answer(model, lease->is_entered ? dao_lease_leave(lease->lease) : DAO_OK, DAO_OK);
        (void)model_answer(
            model, lease->is_capturing ? dao_lease_cancel(lease->lease) : dao_lease_release(lease->lease),
            DAO_OK);
        *lease = (model_lease_t){0};
        model_lease_end(model, i);
    }
    for (uint32_t i = 0; i < MODEL_EVENT_COUNT; i++) {
        dao_event_destroy(model->events[i]);
        model->events[i] = NULL;
    }
    for (uint32_t i = 3; i < MODEL_STREAM_OTHER; i++) {
        dao_stream_destroy(model->streams[i].stream);
        model->streams[i] = (model_stream_t){0};
    }
}

/* Runs what is queued: after the end the blocks of dao_alloc() are gone. */
static void finish_work(model_t *model)
{
    if (model_answer(model, dao_device_synchronize(0), DAO_OK)) {
        model_streams_done(model, (1u << MODEL_STREAM_OTHER) - 1);
    }
}

static void free_blocks(model_t *model)
{
    for (uint32_t i = 0; i < MODEL_BLOCK_COUNT; i++) {
        model_block_t *block = &model->blocks[i];
        if (block->owner == MODEL_RAW && !block->is_gone) {
            model_read(model, block);
            if (model_answer(model, dao_free(block->place, block->address), DAO_OK)) {
                model_block_leave(model, block);
            }
        }
    }
}

static bool is_empty(const model_t *model)
{
    bool has = model->is_registered;
    for (uint32_t i = 0; i < MODEL_BLOCK_COUNT; i++) {
        has = has || model->blocks[i].owner != MODEL_NOBODY;
    }
    for (uint32_t i = 0; i < MODEL_LEASE_COUNT; i++) {
        has = has || model->leases[i].lease != NULL;
    }
    for (uint32_t i = 0; i < MODEL_EVENT_COUNT; i++) {
        has = has || model->events[i] != NULL;
    }
    for (uint32_t i = 3; i < MODEL_STREAM_OTHER; i++) {
        has = has || model->streams[i].stream != NULL;
    }
    return !has;
}

/* Ends what this thread is in the midst of. */
static void leave(model_t *model)
{
    call_executor_end(model);
    finish_work(model);
    (void)dao_tag_set_current(0); /* the tag before */
    (void)dao_step_plan_key_set(0);
}

void harness_release(model_t *model)
{
    model->where = "the end";
    leave(model);
    while (model->has_company && model->step_depth > 0) { /* the library's end would end it */
        (void)model_answer(model, dao_step_end(model->program->config.place), DAO_OK);
        model->step_depth--;
    }
    free_blocks(model);
    release_handles(model);
}

/* A lease that ends before the library does is left by its thread first. */
static void stop(model_t *model, bool frees_first)
{
    leave(model);
    if (frees_first) {
        free_blocks(model);
        release_handles(model);
        if (!model->may_fail) { /* a start that a fault has broken has other books */
            model_compare(model, true);
        }
    }
    bool is_left = !frees_first && !is_empty(model);
    bool knows = !model->is_registered;
    model_say(model, "dao_finalize();");
    dao_status_t got = dao_finalize();
    knows = knows && (got != DAO_ERR_BUSY || !model_may_keep(model));
    if (knows || got != DAO_ERR_BUSY) {
        (void)model_answer(model, got, is_left && knows ? DAO_ERR_BUSY : DAO_OK);
    }
    model->is_started = false;
    if (!frees_first) {
        release_handles(model);
    }
}

/* Forgets a start. */
static void forget(model_t *model)
{
    model_t fresh = {.program = model->program,
                     .stamp = model->stamp,
                     .op_index = model->op_index,
                     .where = model->where,
                     .may_fail = model->may_fail,
                     .fault_count = model->fault_count,
                     .has_met_fault = model->has_met_fault,
                     .wrap = model->wrap,
                     .prints = model->prints};
    *model = fresh;
}

void harness_stop(model_t *model)
{
    if (model->is_started) {
        stop(model, model->program->op_count % 2 == 0);
    }
    forget(model);
    if (harness_device_live_count() != 0) {
        model_fail(model, "%lld streams, events or commands of the device are left",
                   (long long)harness_device_live_count());
    }
}

bool call_finalize(model_t *model, const harness_op_t *op)
{
    if (op->kind % 4 != 0) { /* a second start is only counted */
        (void)model_answer(model, dao_context_start(&model->program->config.library, model->ops), DAO_OK);
        (void)model_answer(model, dao_finalize(), DAO_OK);
        return true;
    }
    stop(model, op->kind % 8 == 0);
    MODEL_REQUIRE(model, dao_finalize() == DAO_ERR_SHUTDOWN);
    MODEL_REQUIRE(model, dao_alloc(model_place(2), 1) == NULL && dao_last_status() == DAO_ERR_SHUTDOWN);
    forget(model);
    if (!harness_start(model) && model->is_started) {
        harness_stop(model);
    }
    return true;
}

/* ---- a child process ---- */

/* What a child may do with what its parent has. Returns 0, or the number of what went wrong. */
static int use_in_child(const model_t *model)
{
    void *address = dao_alloc(model->program->config.place, 64);
    if (address != NULL || dao_last_status() != DAO_ERR_FORKED) {
        return 1;
    }
    if (dao_init(NULL) != DAO_ERR_FORKED || dao_finalize() != DAO_ERR_FORKED) {
        return 2;
    }
    for (uint32_t i = 0; i < MODEL_BLOCK_COUNT; i++) {
        const model_block_t *block = &model->blocks[i];
        if (block->owner == MODEL_RAW && dao_free(block->place, block->address) != DAO_ERR_FORKED) {
            return 3;
        }
        if (block->memory != NULL && !block->is_dropped && dao_memory_release(block->memory) != DAO_OK) {
            return 4;
        }
    }
    return dao_stream_synchronize(model->streams[0].stream) == DAO_ERR_FORKED ? 0 : 5;
}

bool call_fork(model_t *model, const harness_op_t *op)
{
    if (op->kind % 4 != 0 || model->may_fail) { /* it is slow, and a child has the parent's faults */
        return false;
    }
    model_say(model, "if (fork() == 0) { _exit(use_in_child()); }");
    pid_t child = fork();
    if (child == 0) {
        _exit(use_in_child(model));
    }
    int status = -1;
    MODEL_REQUIRE(model, child > 0 && waitpid(child, &status, 0) == child);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        model_fail(model, "a child process ends with %d, of step %d", status, WEXITSTATUS(status));
    }
    return true;
}
