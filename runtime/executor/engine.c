/* SPDX-License-Identifier: Apache-2.0 */
/* Running items.

       enqueue                    run                              retire
     ----------> [ taken in ] ------------> launched or skipped ------------> drop called
                 uses are in     operands resident, fences          compute stream
                 access lists    queued, kernel launched            has passed it

   A kernel is prepared: every operand gets a part of the arena and its bytes. Then it is launched and
   committed: residencies and fences say what holds once it has run. Until the launch every move can be
   undone or is harmless: a fetched operand stays fetched, a victim stays evicted, a part that nothing was
   written to is given back.

   Invariants between two items: no tensor is marked as an operand or landing; the arena's used bytes are the
   parts of tensors that are DEVICE or BOTH; the host tier's used bytes are the slots of tensors that are BOTH
   or HOST, and its pending ones; the file's used bytes are the slots of tensors with a copy there, but for
   those with a source; a tensor is in the table while it has a handle and was used, or has bytes, or has
   pending uses; now <= next_time, and the oldest item is not the frontier any more once it runs. */
#include "runtime/executor/engine.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/text/plural.h"
#include "runtime/device/runtime.h"
#include "runtime/executor/core/failure.h"
#include "runtime/executor/launch/again.h"
#include "runtime/executor/launch/launch.h"
#include "runtime/executor/learned/step_planning.h"
#include "runtime/executor/online/eviction.h"
#include "runtime/executor/online/prefetch.h"
#include "runtime/executor/online/writeback.h"
#include "runtime/executor/records/access.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/requests.h"
#include "runtime/executor/state/file_copy.h"
#include "runtime/executor/state/partial.h"
#include "runtime/executor/state/pins.h"
#include "runtime/executor/state/residency.h"
#include "runtime/executor/state/table.h"
#include "runtime/executor/state/victims.h"
#include "runtime/observe/annotate.h"

#include <inttypes.h>
#include <string.h>

dao_status_t dao_engine_make_file_tier(dao_engine_t *engine)
{
    const dao_engine_config_t *config = &engine->config;
    dao_file_tier_config_t tier = {
        .ops = config->ops,
        .streams = {config->file_streams[0], config->file_streams[1]},
        .staging_streams = {config->staging_streams[0], config->staging_streams[1]},
        .host = config->host,
        .arena_bytes = config->arena_bytes,
        .file = config->file};
    return dao_file_tier_init(&engine->file_tier, &engine->timeline, &tier);
}

dao_status_t dao_engine_init(dao_engine_t *engine, const dao_engine_config_t *config)
{
    memset(engine, 0, sizeof(*engine));
    engine->config = *config;
    dao_status_t status = dao_device_arena_init(&engine->arena, config->arena_address, config->arena_bytes);
    if (status != DAO_OK) {
        return status;
    }
    status = config->on_demand ? DAO_OK : dao_demand_init(&engine->demand);
    if (status == DAO_OK && config->learns) {
        status = dao_step_learner_create(engine, config->plans_at_once, &engine->learner);
    }
    if (status != DAO_OK) {
        dao_demand_finish(&engine->demand);
        dao_device_arena_finish(&engine->arena);
        return status;
    }
    dao_timeline_init(&engine->timeline, config->ops, config->device, config->streams);
    for (uint32_t i = 1; i < config->stream_count; i++) {
        dao_timeline_add_stream(&engine->timeline, dao_timeline_compute(i),
                                config->compute_streams[i]->backend);
        engine->throttles[i].stream_index = i;
    }
    engine->pages =
        (dao_device_pages_t){.ops = config->ops, .device = config->device, .base = config->arena_address};
    dao_profiler_init(&engine->profiler, &engine->timeline);
    dao_host_tier_init(&engine->host_tier, config->host, config->host_limit_bytes, config->ops->has_no_bytes);
    if (config->learns) {
        status = dao_device_pages_init(&engine->pages, config->streams[DAO_STREAM_ROLE_COMPUTE],
                                       config->streams[DAO_STREAM_ROLE_D2H], config->arena_bytes,
                                       config->addresses);
    }
    status = status == DAO_OK && config->file.directory != NULL ? dao_engine_make_file_tier(engine) : status;
    if (status != DAO_OK) {
        dao_step_learner_destroy(engine->learner);
        dao_demand_finish(&engine->demand);
        dao_device_arena_finish(&engine->arena);
    }
    return status;
}

/* The last handle is gone: so is a pin, and the content, unless something is still going to use it. */
static void release(dao_engine_t *engine, dao_managed_t *tensor)
{
    tensor->is_released = true;
    if (tensor->pin.count > 0) {
        dao_requests_drop_pin(engine, tensor);
    }
    dao_table_settle(engine, tensor);
    dao_managed_unreference(tensor);
}

void dao_engine_enqueue(dao_engine_t *engine, dao_item_t *item)
{
    if (item->kind == DAO_ITEM_RELEASE && item->released->pin.count == 0) {
        release(engine, item->released); /* at once, so that it is known what goes with its last use */
        return;
    }
    DAO_ASSERT((engine->first_item == NULL) == (engine->last_item == NULL));
    DAO_ASSERT(engine->next_time >= engine->now);
    item->time = engine->next_time;
    for (uint32_t i = 0; i < item->use_count; i++) {
        dao_table_list(engine, item->uses[i].tensor);
        dao_access_append(&item->uses[i], engine->next_time);
        dao_victims_update(engine, item->uses[i].tensor);
    }
    if (item->kind == DAO_ITEM_DISCARD) {
        dao_table_settle(engine, item->uses[0].tensor); /* if nothing is to happen before, it can go now */
    }
    if (item->kind == DAO_ITEM_KERNEL) {
        engine->next_time++;
    }
    item->next = NULL;
    if (engine->last_item == NULL) {
        engine->first_item = item;
    } else {
        engine->last_item->next = item;
    }
    engine->last_item = item;
    dao_prefetch_enqueued(engine, item);
}

const dao_item_t *dao_engine_peek(const dao_engine_t *engine)
{
    return engine->first_item;
}

static void pass_uses(dao_engine_t *engine, dao_item_t *item)
{
    for (uint32_t i = 0; i < item->use_count; i++) {
        dao_access_pop(&item->uses[i]);
        dao_residency_not_early(engine, item->uses[i].tensor);
        dao_table_settle(engine, item->uses[i].tensor);
        dao_victims_update(engine, item->uses[i].tensor);
    }
}

/* Kernels. */

uint64_t dao_engine_least_bytes(const dao_item_t *kernel)
{
    uint64_t bytes = dao_device_arena_part_bytes(kernel->workspace_bytes);
    for (uint32_t i = 0; i < kernel->use_count; i++) {
        bytes += dao_device_arena_part_bytes(kernel->uses[i].tensor->size_bytes);
    }
    return bytes;
}

/* Operands that are pinned have their places beside what a kernel takes of the rest. */
static dao_status_t check_memory(const dao_engine_t *engine, const dao_item_t *item)
{
    uint64_t need = dao_engine_least_bytes(item);
    uint64_t pinned = 0;
    for (uint32_t i = 0; i < item->use_count; i++) {
        const dao_managed_t *tensor = item->uses[i].tensor;
        pinned += tensor->pin.count > 0 ? dao_device_arena_part_bytes(tensor->size_bytes) : 0;
    }
    if (need - pinned <= dao_pins_free_bytes(engine)) {
        return DAO_OK;
    }
    uint64_t capacity = engine->config.arena_bytes;
    if (engine->first_pinned != NULL && need <= capacity) {
        uint32_t pin_count = dao_pins_count(engine);
        return dao_error(DAO_ERR_KERNEL_TOO_LARGE,
                         "kernel \"%s\" (number %" PRIu64 ") needs %" PRIu64
                         " bytes at once for %u tensor%s and %zu bytes "
                         "of workspace; of the device arena's %" PRIu64 " bytes %u pinned tensor%s %" PRIu64
                         ", of which it uses %" PRIu64 ", and %" PRIu64
                         " lie below them: unpin some or raise capacity_bytes",
                         item->name, engine->now, need, item->use_count, dao_plural(item->use_count, "s"),
                         item->workspace_bytes, capacity, pin_count, pin_count == 1 ? " has" : "s have",
                         engine->pinned_bytes, pinned, dao_pins_free_bytes(engine));
    }
    return dao_error(
        DAO_ERR_KERNEL_TOO_LARGE,
        "kernel \"%s\" (number %" PRIu64 ") needs %" PRIu64 " bytes at once for %u tensor%s and %zu bytes "
        "of workspace; the device arena has %" PRIu64 ": raise capacity_bytes or split the kernel",
        item->name, engine->now, need, item->use_count, dao_plural(item->use_count, "s"),
        item->workspace_bytes, capacity);
}

/* What can be refused before anything is moved. */
static dao_status_t check_kernel(const dao_engine_t *engine, const dao_item_t *item)
{
    for (uint32_t i = 0; i < item->use_count; i++) {
        const dao_managed_t *tensor = item->uses[i].tensor;
        bool is_empty = tensor->residency == DAO_RESIDENCY_EMPTY && !tensor->is_given_up;
        if (item->uses[i].is_read && (is_empty || tensor->is_discard_due) && !tensor->zero_first_touch) {
            return dao_error(DAO_ERR_NEVER_WRITTEN,
                             "kernel \"%s\" (number %" PRIu64
                             ") reads tensor \"%s\", but nothing was written to it",
                             item->name, engine->now, tensor->name);
        }
    }
    return check_memory(engine, item);
}

/* Gives the operands and the workspace their places: by the plan if one is followed and goes on as
   planned, else by eviction. */
static dao_status_t place(dao_engine_t *engine, dao_item_t *item, dao_placement_t *placement)
{
    static const dao_fence_t no_fence;
    dao_status_t status = DAO_OK;
    *placement = (dao_placement_t){.has_workspace = false};
    if (engine->plan != NULL) {
        status = dao_plan_follow_prepare(engine, item, &engine->learner->log, placement);
        if (status != DAO_OK && engine->is_lost) {
            return status;
        }
        if (status != DAO_OK) {
            *placement = (dao_placement_t){.has_workspace = false};
            dao_launch_undo(engine, item, placement, &no_fence); /* before others run again in its room */
            dao_plan_follow_leave(engine);
            if (!dao_again_restore(engine)) {
                return dao_error_restore(&engine->failure);
            }
        }
    }
    status =
        engine->plan != NULL ? dao_launch_verify(engine, item) : dao_launch_prepare(engine, item, placement);
    if (status != DAO_OK) {
        dao_error_prefix("kernel \"%s\" (number %" PRIu64 "): ", item->name, engine->now);
    }
    return status;
}

static dao_status_t run_kernel(dao_engine_t *engine, dao_item_t *item)
{
    dao_status_t status = check_kernel(engine, item);
    if (status != DAO_OK) {
        return status;
    }
    dao_placement_t placement;
    uint64_t sequence = 0;
    status = place(engine, item, &placement);
    if (status == DAO_OK) {
        status = dao_launch_queue(engine, item, &placement, &sequence);
    }
    if (status == DAO_OK) {
        dao_launch_commit(engine, item, &placement, sequence);
    } else {
        dao_fence_t fence = {0};
        dao_fence_add(&fence, dao_timeline_compute(item->stream_index), sequence);
        dao_launch_undo(engine, item, &placement, &fence);
    }
    dao_launch_mark(item, false);
    DAO_ASSERT(!dao_launch_has_landing(item) || engine->is_lost);
    return status;
}

/* Looks which operations have finished, and releases what they used. */
static void look(dao_engine_t *engine)
{
    engine->unseen_count = 0;
    dao_status_t status = dao_timeline_poll(&engine->timeline);
    dao_engine_lose_unless_ok(engine, status);
    for (uint32_t i = 0; i < engine->config.stream_count; i++) {
        dao_throttle_look(&engine->throttles[i], &engine->timeline);
    }
    dao_pace_look(&engine->pace, &engine->timeline);
    dao_device_arena_purge(&engine->arena, &engine->timeline);
    dao_host_tier_look(&engine->host_tier, &engine->timeline);
    dao_file_copy_settle(engine);
    dao_engine_retire(engine);
    if (engine->learner != NULL) {
        dao_step_planning_look(engine->learner);
    }
}

/* Runs a kernel, or skips it after a failure. Returns true if it was launched. */
static bool try_kernel(dao_engine_t *engine, dao_item_t *item)
{
    if (engine->has_failed || engine->is_lost) {
        engine->stats.skipped_count++;
        return false;
    }
    if (engine->learner != NULL) {
        dao_step_learner_kernel(engine->learner, item);
    }
    if (!dao_again_restore(engine)) {
        engine->stats.skipped_count++;
        return false;
    }
    dao_status_t status = run_kernel(engine, item);
    if (status != DAO_OK) {
        dao_engine_fail(engine, status, false);
    }
    return status == DAO_OK;
}

/* The kernel has had its turn: its uses are over, and others may follow. Returns true if it is kept to run
   again. */
static bool pass_kernel(dao_engine_t *engine, dao_item_t *item, bool is_launched)
{
    if (engine->learner != NULL && is_launched) {
        dao_step_learner_forecast(engine->learner, item);
    } else if (engine->learner != NULL) {
        dao_step_learner_break(engine->learner);
    }
    DAO_ASSERT(item->time == engine->now);
    engine->now++;
    DAO_ASSERT(engine->now <= engine->next_time);
    uint64_t sequence = item->finish_sequence;
    bool is_kept = engine->plan != NULL && dao_plan_follow_keep(engine->plan, item);
    pass_uses(engine, item);
    if (engine->plan != NULL) {
        dao_plan_follow_launched(engine, sequence);
    }
    (void)dao_again_restore(engine); /* what failed is met by the next kernel */
    if (!engine->config.on_demand) {
        dao_demand_pass(&engine->demand, engine->now - 1);
    }
    if (!engine->config.on_demand && engine->plan == NULL) {
        dao_prefetch_fetch(engine);
        dao_writeback_run(engine);
    }
    return is_kept;
}

/* Waits while a kernel's stream has more in flight than the program wants. */
static void keep_within_time(dao_engine_t *engine, const dao_throttle_t *throttle)
{
    dao_stream_role_t role = dao_timeline_compute(throttle->stream_index);
    const dao_timeline_stream_t *stream = &engine->timeline.streams[role];
    if (engine->unseen_count > 0 &&
        dao_throttle_is_ahead(throttle, &engine->timeline, engine->config.in_flight_ns)) {
        look(engine); /* perhaps it is not */
    }
    while (!engine->is_lost &&
           dao_throttle_is_ahead(throttle, &engine->timeline, engine->config.in_flight_ns)) {
        dao_fence_t fence = {0};
        dao_fence_add(&fence, role, stream->completed + 1);
        engine->timeline.throttle_count++;
        dao_status_t status = dao_timeline_wait(&engine->timeline, &fence);
        dao_engine_lose_unless_ok(engine, status);
        look(engine);
    }
}

static void run_kernel_item(dao_engine_t *engine, dao_item_t *item)
{
    const dao_throttle_t *throttle = &engine->throttles[item->stream_index];
    if (engine->plan == NULL) {
        keep_within_time(engine, throttle); /* a plan's copies are queued as far ahead as it wants */
    }
    bool is_launched = try_kernel(engine, item);
    bool is_kept = pass_kernel(engine, item, is_launched);
    if (engine->plan == NULL) {
        dao_file_copy_ahead(engine); /* a plan has its own copies out */
    }
    if (!is_kept) {
        if (item->is_called) {
            dao_launch_keep(engine, item);
        } else {
            dao_item_destroy(item);
        }
    }
    if (dao_throttle_wants_look(throttle, ++engine->unseen_count)) {
        look(engine);
    }
    if (engine->config.check && !dao_engine_is_valid(engine)) {
        dao_engine_fail(engine,
                        dao_error(DAO_ERR_CORRUPT,
                                  "the executor's structures contradict each other after kernel %" PRIu64,
                                  engine->now - 1),
                        true);
    }
}

/* Requests. */

/* A write of a command list: no thread waits for it. */
static void run_list_write(dao_engine_t *engine, dao_item_t *item)
{
    dao_managed_t *tensor = item->uses[0].tensor;
    dao_status_t status = engine->has_failed || engine->is_lost
                              ? DAO_OK /* skipped, as kernels are */
                              : dao_requests_write(engine, tensor, item->slice, item->source);
    if (status != DAO_OK) {
        dao_engine_fail(engine, status, false);
    }
    pass_uses(engine, item);
    dao_item_destroy(item);
}

/* A write or read of the program for which no thread waits. */
static void run_transfer(dao_engine_t *engine, dao_item_t *item)
{
    dao_request_t request = {.source = item->source, .destination = item->destination, .slice = item->slice};
    bool has_failed = engine->has_failed || engine->is_lost;
    item->request = &request;
    dao_status_t status = dao_requests_run(engine, item);
    item->request = NULL;
    if (status != DAO_OK && item->kind == DAO_ITEM_WRITE && !has_failed) {
        dao_engine_fail(engine, status, false); /* kernels behind it would read other bytes */
    }
    pass_uses(engine, item);
    item->done(status, item->user);
    dao_item_destroy(item);
    dao_engine_stay(engine);
}

static void run_request(dao_engine_t *engine, dao_item_t *item)
{
    dao_status_t status = dao_requests_run(engine, item);
    if (status != DAO_OK) {
        dao_error_save(&item->request->error, status);
    }
    pass_uses(engine, item);
}

static void run_pin(dao_engine_t *engine, dao_item_t *item)
{
    dao_managed_t *tensor = item->uses[0].tensor;
    dao_status_t status = item->kind == DAO_ITEM_PIN
                              ? dao_requests_pin(engine, tensor, &item->request->address)
                              : dao_requests_unpin(engine, tensor);
    if (status != DAO_OK) {
        dao_error_save(&item->request->error, status);
    }
    pass_uses(engine, item);
}

static void run_sync(dao_engine_t *engine, dao_item_t *item)
{
    dao_status_t status = dao_timeline_wait_all(&engine->timeline);
    dao_engine_lose_unless_ok(engine, status);
    if (engine->plan != NULL && engine->table == NULL) {
        dao_plan_follow_leave(engine); /* no tensor is left that it could move: what it holds goes back */
    }
    (void)dao_again_restore(engine);
    look(engine);
    if (engine->has_failed || engine->is_lost) {
        item->request->error = engine->failure;
        engine->has_failed = false;
    }
    engine->is_file_refusing = false; /* perhaps the program has made room */
    DAO_ASSERT(!engine->has_failed);
    DAO_ASSERT_HEAVY(engine->is_lost || dao_engine_is_valid(engine));
}

static dao_status_t without_learner(void)
{
    return dao_error(DAO_ERR_UNSUPPORTED, "this executor learns no steps: it was created without plans, on "
                                          "demand, or with a policy of the program's");
}

/* What was measured of the step is waited for. */
static void run_step_write(dao_engine_t *engine, const dao_item_t *item)
{
    dao_status_t status = dao_timeline_wait_all(&engine->timeline);
    dao_engine_lose_unless_ok(engine, status);
    look(engine);
    status = engine->learner != NULL ? dao_step_learner_write(engine->learner, item->request->path)
                                     : without_learner();
    if (status != DAO_OK) {
        dao_error_save(&item->request->error, status);
    }
}

/* The list is borrowed: the thread that waits for the answer has it. */
static dao_status_t plan_list(dao_engine_t *engine, const dao_item_t *first, uint64_t work_limit)
{
    if (engine->has_failed || engine->is_lost) {
        return dao_requests_refuse(engine);
    }
    if (engine->learner == NULL) {
        return without_learner();
    }
    dao_step_learner_boundary(engine->learner);
    if (!dao_requests_leave_plan(engine)) {
        return dao_error_restore(&engine->failure);
    }
    dao_status_t status = dao_timeline_wait_all(&engine->timeline);
    dao_engine_lose_unless_ok(engine, status);
    look(engine); /* what is being measured is over */
    status = status == DAO_OK ? dao_step_learner_register(engine->learner, first, work_limit) : status;
    return engine->is_lost ? dao_error_restore(&engine->failure) : status;
}

static void run_list_plan(dao_engine_t *engine, const dao_item_t *item)
{
    dao_status_t status = plan_list(engine, item->request->list, item->request->work_limit);
    if (status != DAO_OK) {
        dao_error_save(&item->request->error, status);
    }
}

/* Moves all tensors off the device, so that the arena can be another one. After an error some have left. */
static dao_status_t vacate(dao_engine_t *engine)
{
    if (engine->first_pinned != NULL) {
        return dao_error(DAO_ERR_BUSY,
                         "another capacity moves all tensors, and %u are pinned with %" PRIu64
                         " bytes, \"%s\" among them: call dao_managed_unpin() before",
                         dao_pins_count(engine), engine->pinned_bytes, engine->first_pinned->name);
    }
    if (engine->learner != NULL) {
        dao_step_learner_break(engine->learner);
    }
    if (!dao_again_restore(engine)) {
        return dao_error_restore(&engine->failure);
    }
    dao_status_t status = dao_eviction_clear(engine);
    if (status != DAO_OK) {
        dao_error_prefix("the executor's tensors have to leave the device for another capacity: ");
        return status;
    }
    status = dao_timeline_wait_all(&engine->timeline);
    dao_engine_lose_unless_ok(engine, status);
    look(engine); /* measurements and plans that came meanwhile are taken before they are given up */
    if (status == DAO_OK && engine->learner != NULL) {
        dao_step_learner_forget_plans(engine->learner);
        look(engine);
        dao_device_arena_close(&engine->arena, &engine->timeline); /* before its memory goes */
    }
    return engine->is_lost ? dao_error_restore(&engine->failure) : status;
}

static void run_capacity(dao_engine_t *engine, const dao_item_t *item)
{
    dao_status_t status =
        engine->has_failed || engine->is_lost ? dao_requests_refuse(engine) : vacate(engine);
    if (status != DAO_OK) {
        dao_error_save(&item->request->error, status);
    }
}

/* Refused with a device that is lost: its streams could not be made. */
static void run_sources(dao_engine_t *engine, const dao_item_t *item)
{
    if (engine->is_lost) {
        item->request->error = engine->failure;
    }
}

void dao_engine_take_arena(dao_engine_t *engine, const dao_device_arena_t *arena)
{
    uint64_t peak_bytes = engine->arena.peak_used_bytes;
    DAO_ASSERT(engine->plan == NULL);
    DAO_ASSERT(engine->arena.windows == NULL);
    DAO_ASSERT(dao_fence_queue_count(&engine->arena.fences.queue) == 0);
    DAO_ASSERT(dao_range_used(engine->arena.range) == 0);
    dao_device_arena_finish(&engine->arena);
    engine->arena = *arena;
    dao_device_arena_note_used(&engine->arena, peak_bytes);
    engine->config.arena_address = arena->address;
    engine->config.arena_bytes = dao_range_capacity(arena->range);
    engine->pages.base = arena->address;
    dao_prefetch_restart(engine);
    if (engine->config.learns) {
        dao_status_t status =
            dao_device_pages_init(&engine->pages, engine->config.streams[DAO_STREAM_ROLE_COMPUTE],
                                  engine->config.streams[DAO_STREAM_ROLE_D2H], engine->config.arena_bytes,
                                  engine->config.addresses);
        dao_engine_lose_unless_ok(engine, status);
    }
    DAO_ASSERT_HEAVY(dao_engine_is_valid(engine));
}

void dao_engine_take_no_arena(dao_engine_t *engine)
{
    DAO_ASSERT(dao_range_used(engine->arena.range) == 0);
    engine->config.arena_address = NULL;
    engine->config.arena_bytes = 0; /* so that nothing is ever taken of what the range still has */
    engine->pages.page_bytes = 0;
    dao_prefetch_restart(engine);
}

static void run_discard(dao_engine_t *engine, dao_item_t *item)
{
    if (!dao_again_puts_off_discard(item->uses[0].tensor)) {
        dao_residency_discard(engine, item->uses[0].tensor);
    }
    pass_uses(engine, item);
    dao_item_destroy(item);
}

static void run_step_boundary(dao_engine_t *engine, dao_item_t *item)
{
    if (engine->learner != NULL) {
        dao_step_learner_boundary(engine->learner);
    }
    (void)dao_again_restore(engine);
    dao_item_destroy(item);
}

/* A write or a read: of somebody who waits, of a list, or of nobody. Returns the item in the first case. */
static dao_item_t *run_bytes(dao_engine_t *engine, dao_item_t *item)
{
    if (item->done != NULL) {
        run_transfer(engine, item);
        return NULL;
    }
    if (item->request == NULL) {
        run_list_write(engine, item);
        return NULL;
    }
    run_request(engine, item);
    return item;
}

/* Takes the first item out of the list. */
static dao_item_t *take_first(dao_engine_t *engine)
{
    dao_item_t *item = engine->first_item;
    DAO_ASSERT(item != NULL);
    engine->first_item = item->next;
    if (engine->first_item == NULL) {
        engine->last_item = NULL;
    }
    dao_prefetch_running(engine, item);
    DAO_ASSERT((engine->first_item == NULL) == (engine->last_item == NULL));
    DAO_ASSERT(engine->frontier != item);
    return item;
}

dao_item_t *dao_engine_run(dao_engine_t *engine)
{
    dao_item_t *item = take_first(engine);
    switch (item->kind) {
    case DAO_ITEM_KERNEL:
        run_kernel_item(engine, item);
        return NULL;
    case DAO_ITEM_DISCARD:
        run_discard(engine, item);
        return NULL;
    case DAO_ITEM_STEP_BOUNDARY:
        run_step_boundary(engine, item);
        return NULL;
    case DAO_ITEM_WRITE:
    case DAO_ITEM_READ:
        return run_bytes(engine, item);
    case DAO_ITEM_PIN:
    case DAO_ITEM_UNPIN:
        run_pin(engine, item);
        return item;
    case DAO_ITEM_SYNC:
        run_sync(engine, item);
        return item;
    case DAO_ITEM_STEP_WRITE:
        run_step_write(engine, item);
        return item;
    case DAO_ITEM_CAPACITY:
        run_capacity(engine, item);
        return item;
    case DAO_ITEM_LIST_PLAN:
        run_list_plan(engine, item);
        return item;
    case DAO_ITEM_SOURCES:
        run_sources(engine, item);
        return item;
    case DAO_ITEM_RELEASE:
        release(engine, item->released);
        return NULL;
    }
    DAO_ASSERT(false); /* there is no other kind */
    return NULL;
}

void dao_engine_finish(dao_engine_t *engine)
{
    DAO_ASSERT(engine->first_item == NULL);
    dao_status_t status = dao_timeline_wait_all(&engine->timeline);
    dao_engine_lose_unless_ok(engine, status);
    if (engine->learner != NULL) {
        dao_step_learner_break(engine->learner);
    }
    dao_again_abandon(engine);
    while (engine->first_retired != NULL) {
        dao_item_t *item = engine->first_retired;
        engine->first_retired = item->next;
        dao_item_destroy(item);
    }
    while (engine->table != NULL) {
        dao_managed_t *tensor = engine->table;
        dao_residency_discard(engine, tensor);
        dao_table_unlist(engine, tensor);
    }
    DAO_ASSERT(engine->plan == NULL);
    DAO_ASSERT(engine->backed_bytes == 0);
    dao_step_learner_destroy(engine->learner);
    dao_file_copy_close(engine);
    dao_host_tier_finish(&engine->host_tier);
    dao_profiler_finish(&engine->profiler);
    dao_timeline_finish(&engine->timeline);
    dao_device_arena_finish(&engine->arena);
    dao_demand_finish(&engine->demand);
    dao_host_free(engine->view_blocks);
}

void dao_engine_stats(const dao_engine_t *engine, dao_executor_stats_t *out_stats)
{
    *out_stats = engine->stats;
    out_stats->throttle_count = engine->timeline.throttle_count;
    out_stats->capacity_bytes = engine->config.arena_bytes;
    out_stats->device_used_bytes =
        dao_range_used(engine->arena.range) +
        (engine->plan != NULL ? engine->plan->schedule->arena_bytes : 0); /* with one: of pinned tensors */
    out_stats->peak_device_used_bytes = engine->arena.peak_used_bytes;
    out_stats->pinned_bytes = engine->pinned_bytes;
    out_stats->host_used_bytes = engine->host_tier.used_bytes;
    out_stats->peak_host_used_bytes = engine->host_tier.peak_used_bytes;
    out_stats->paged_plan_count = engine->learner != NULL ? dao_step_learner_paged_count(engine->learner) : 0;
    bool is_measuring = engine->profiler.state == DAO_PROFILER_DRAINING;
    out_stats->planning_count =
        engine->learner != NULL && (engine->learner->submitted != NULL || is_measuring) ? 1 : 0;
    out_stats->mapped_page_count = atomic_load(&engine->pages.mapped);
    out_stats->page_call_count = atomic_load(&engine->pages.map_calls);
    out_stats->plan_count = engine->learner != NULL ? dao_step_learner_plan_count(engine->learner) : 0;
    if (engine->file_tier.has_slots) {
        out_stats->file_used_bytes = dao_range_used(engine->file_tier.slots.range);
        out_stats->peak_file_used_bytes = engine->file_tier.slots.peak_used_bytes;
    }
}

bool dao_engine_is_valid(const dao_engine_t *engine)
{
    if (!dao_timeline_is_valid(&engine->timeline) || !dao_device_arena_is_valid(&engine->arena) ||
        !dao_file_copy_is_valid(engine) || !dao_victims_is_valid(engine) || !dao_pins_are_valid(engine)) {
        return false;
    }
    uint64_t device_bytes = 0;
    uint64_t host_bytes = 0;
    for (const dao_managed_t *tensor = engine->table; tensor != NULL; tensor = tensor->table_next) {
        if (!tensor->is_listed || tensor->is_operand || !dao_residency_is_valid(tensor) ||
            !dao_access_is_valid(tensor)) {
            return false;
        }
        bool is_planned = engine->plan != NULL && tensor->pin.count == 0;
        if (tensor->has_device && !is_planned) {
            uint64_t part_bytes = 0;
            if (!dao_device_arena_has(&engine->arena, tensor->device_offset_bytes, tensor->size_bytes,
                                      (uint64_t)(uintptr_t)tensor, &part_bytes)) {
                return false;
            }
            device_bytes += part_bytes;
        }
        host_bytes += tensor->host_address != NULL ? tensor->size_bytes : 0;
        bool is_foreign = tensor->plan_role == NULL;
        if (is_foreign ? is_planned && tensor->has_device : !is_planned) {
            return false; /* with a plan, tensors on the device have roles or are pinned; else none has one */
        }
    }
    if (engine->plan != NULL) {
        host_bytes += dao_plan_follow_idle_bytes(engine->plan);
        if (!dao_plan_follow_is_valid(engine->plan)) {
            return false;
        }
    }
    host_bytes += dao_host_tier_pending_bytes(&engine->host_tier);
    return device_bytes == dao_range_used(engine->arena.range) && host_bytes == engine->host_tier.used_bytes;
}
