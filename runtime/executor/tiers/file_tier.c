/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of the file as work of streams.

       stream FILE_OUT    [ write ] [ ... ]     one at a time, in pieces (base/files/file.h)
       stream FILE_IN     [ read  ] [ ... ]
       stream STAGE_OUT   [ copy: device to pinned piece ] [ ... ]
       stream STAGE_IN    [ copy: pinned piece to device ] [ ... ]

   A write or read is a host function or, where the device can wait for it, in a thread beside the stream
   (file_worker.h), as drivers may run host functions one after the other.

   Copies of pieces have streams of their own, so that no copy between the device and the host's slots
   waits behind one that waits for the file. A write waits for the copy that brings its bytes to the host,
   and a copy to the device for the read before it, by events alone. Where time is virtual the stream is
   held up for as long as the operation takes; where memory has no bytes, that is all that happens.

   The stream of a lost device may run on, and cannot be waited for. dao_file_tier_stop() lets no more
   operations begin and waits for those that are running; the ring stays until the streams are gone.

   Invariants, per direction: taken_off <= completed of the stream until the tier is stopped; operations
   (taken_off, issued] are in the ring; no more than DAO_TIMELINE_DEPTH of them. */
#include "runtime/executor/tiers/file_tier.h"

#include "base/internal_error.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/threads/sync.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Times that a step of an operation is tried again whose stream refuses it. */
#define RETRY_MAX 2

/* Owner of a slot; the arena wants one. */
#define SLOT_OWNER 1

static dao_file_operation_t *operation_slot(const dao_file_tier_t *tier, dao_file_direction_t direction,
                                            uint64_t sequence)
{
    return &tier->operations[direction][sequence & (DAO_TIMELINE_SLOTS - 1)];
}

static const dao_timeline_stream_t *stream_of(const dao_file_tier_t *tier, dao_file_direction_t direction)
{
    return &tier->timeline->streams[dao_file_tier_stream(direction)];
}

/* ---- transfers ---- */

uint64_t dao_file_tier_least_ns(const dao_file_config_t *config, dao_file_direction_t direction,
                                size_t size_bytes)
{
    uint64_t rate = direction == DAO_FILE_READ ? config->in_bytes_per_second : config->out_bytes_per_second;
    uint64_t ns = rate == 0 ? 0 : dao_transfer_ns(size_bytes, rate);
    return ns > UINT64_MAX - config->latency_ns ? UINT64_MAX : ns + config->latency_ns;
}

static uint64_t least_ns(const dao_file_operation_t *operation)
{
    return dao_file_tier_least_ns(&operation->tier->config.file, operation->direction, operation->size_bytes);
}

/* Counts a transfer as running; false if none may begin any more. */
static bool begin_running(dao_file_tier_t *tier)
{
    dao_mutex_lock(&tier->lock);
    bool may_run = !tier->is_stopped;
    tier->running_count += may_run ? 1 : 0;
    dao_mutex_unlock(&tier->lock);
    return may_run;
}

static void end_running(dao_file_tier_t *tier)
{
    dao_mutex_lock(&tier->lock);
    DAO_ASSERT(tier->running_count > 0);
    if (--tier->running_count == 0) {
        dao_cond_broadcast(&tier->has_changed);
    }
    dao_mutex_unlock(&tier->lock);
}

static void transfer(dao_file_operation_t *operation)
{
    dao_file_tier_t *tier = operation->tier;
    operation->error = ECANCELED;
    if (begin_running(tier)) {
        operation->error = operation->direction == DAO_FILE_READ
                               ? dao_file_tier_read_now(tier, operation->source, operation->offset_bytes,
                                                        operation->address, operation->size_bytes)
                               : dao_file_transfer(tier->file, DAO_FILE_WRITE, operation->offset_bytes,
                                                   operation->address, operation->size_bytes);
        end_running(tier);
    }
}

/* Sleeps until the settings let an operation end, or the tier is stopped. */
static void sleep_until(dao_file_tier_t *tier, uint64_t time_ns)
{
    dao_mutex_lock(&tier->lock);
    while (!tier->is_stopped && dao_cond_wait_until(&tier->has_changed, &tier->lock, time_ns)) {
    }
    dao_mutex_unlock(&tier->lock);
}

/* The host function where time is real. */
static void transfer_in_time(void *user)
{
    dao_file_operation_t *operation = user;
    uint64_t begin_ns = dao_clock_ns();
    transfer(operation);
    if (least_ns(operation) > 0) {
        sleep_until(operation->tier, begin_ns + least_ns(operation));
    }
    operation->time_ns = dao_clock_ns() - begin_ns;
}

/* The same in a thread beside the stream. */
static void transfer_numbered(void *user, uint64_t number)
{
    dao_file_operation_t *operations = user;
    transfer_in_time(&operations[number & (DAO_TIMELINE_SLOTS - 1)]);
}

/* ---- making the tier ---- */

static int direction_count(const dao_file_tier_t *tier)
{
    return dao_file_tier_direction_count(tier->config.file.directory);
}

uint64_t dao_file_tier_slot_bytes(uint64_t room_bytes)
{
    uint64_t bytes = dao_smaller(room_bytes, DAO_RANGE_CAPACITY_MAX);
    return bytes - bytes % DAO_RANGE_GRANULE;
}

size_t dao_file_tier_piece_bytes(uint64_t arena_bytes)
{
    uint64_t bytes = dao_smaller(arena_bytes / DAO_FILE_STAGING_ARENA_SHARE, DAO_FILE_STAGING_BYTES);
    uint64_t large_bytes =
        dao_smaller(arena_bytes / DAO_FILE_STAGING_ARENA_SHARE_LARGE, DAO_FILE_STAGING_BYTES_MAX);
    bytes = dao_larger(bytes, large_bytes);
    return dao_round_up(bytes > 0 ? bytes : 1, DAO_FILE_STAGING_BYTES_MIN);
}

static dao_status_t create_slots(dao_file_tier_t *tier)
{
    const dao_file_config_t *config = &tier->config.file;
    uint64_t room_bytes = tier->file != NULL ? dao_file_free_bytes(tier->file) : UINT64_MAX;
    room_bytes = config->limit_bytes != 0 ? config->limit_bytes : room_bytes;
    tier->limit_bytes = dao_file_tier_slot_bytes(room_bytes);
    if (tier->limit_bytes == 0) {
        return dao_error(DAO_ERR_IO, "the file tier in \"%.200s\" has no room: %" PRIu64 " bytes",
                         config->directory, room_bytes);
    }
    dao_status_t status = dao_device_arena_init(&tier->slots, NULL, tier->limit_bytes);
    tier->has_slots = status == DAO_OK;
    return status;
}

static dao_status_t create_file(dao_file_tier_t *tier)
{
    const dao_file_config_t *config = &tier->config.file;
    dao_status_t status = DAO_OK;
    if (!tier->config.ops->has_no_bytes) {
        status = dao_file_create(config->directory, config->engine, &tier->file);
    }
    return status == DAO_OK && config->directory != NULL ? create_slots(tier) : status;
}

static dao_status_t create_staging(dao_file_tier_t *tier)
{
    tier->staging_bytes = dao_file_tier_piece_bytes(tier->config.arena_bytes);
    for (int i = 0; i < direction_count(tier) * DAO_FILE_STAGING_COUNT; i++) {
        int direction = i / DAO_FILE_STAGING_COUNT, piece = i % DAO_FILE_STAGING_COUNT;
        void *address = NULL;
        dao_status_t status =
            dao_allocator_alloc_owned(tier->config.host, tier->staging_bytes + 2 * DAO_SOURCE_BLOCK_BYTES,
                                      DAO_BLOCK_OWNER_POOL, &address);
        if (status != DAO_OK) {
            dao_error_prefix("the pinned pieces of a file tier: ");
            return status;
        }
        tier->staging_blocks[direction][piece] = address;
        tier->staging[direction][piece] =
            (char *)address + (dao_round_up((uintptr_t)address, DAO_SOURCE_BLOCK_BYTES) - (uintptr_t)address);
    }
    return DAO_OK;
}

static dao_status_t create_rings(dao_file_tier_t *tier)
{
    for (int i = 0; i < direction_count(tier); i++) {
        tier->operations[i] = dao_host_calloc(DAO_TIMELINE_SLOTS, sizeof(*tier->operations[i]));
        if (tier->operations[i] == NULL) {
            return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the operations of a file tier");
        }
    }
    return DAO_OK;
}

/* Their thread for each direction, where devices can wait for it. */
static dao_status_t create_workers(dao_file_tier_t *tier)
{
    const dao_file_tier_config_t *config = &tier->config;
    void *words = NULL;
    if (config->ops->stream_wait_word == NULL || config->ops->has_no_bytes || config->ops->delay != NULL) {
        return DAO_OK;
    }
    dao_status_t status = dao_allocator_alloc_owned(
        config->host, DAO_FILE_DIRECTION_COUNT * sizeof(*tier->words), DAO_BLOCK_OWNER_POOL, &words);
    tier->words = words;
    for (int i = 0; i < direction_count(tier) && status == DAO_OK; i++) {
        status = dao_file_worker_start(&tier->workers[i], config->ops, config->streams[i], &tier->words[i],
                                       transfer_numbered, tier->operations[i]);
    }
    return status;
}

/* Gives up what was made so far. */
static void destroy_parts(dao_file_tier_t *tier)
{
    for (int i = 0; i < DAO_FILE_DIRECTION_COUNT; i++) {
        dao_file_worker_end(&tier->workers[i]);
    }
    if (tier->words != NULL) {
        DAO_MUST_FREE(dao_allocator_free_owned(tier->config.host, (void *)tier->words, DAO_BLOCK_OWNER_POOL));
    }
    for (int i = 0; i < DAO_FILE_DIRECTION_COUNT * DAO_FILE_STAGING_COUNT; i++) {
        void *address = tier->staging_blocks[i / DAO_FILE_STAGING_COUNT][i % DAO_FILE_STAGING_COUNT];
        if (address != NULL) {
            DAO_MUST_FREE(dao_allocator_free_owned(tier->config.host, address, DAO_BLOCK_OWNER_POOL));
        }
    }
    for (int i = 0; i < DAO_FILE_DIRECTION_COUNT; i++) {
        dao_host_free(tier->operations[i]);
    }
    if (tier->has_slots) {
        dao_device_arena_finish(&tier->slots);
    }
    dao_file_destroy(tier->file);
    dao_cond_finish(&tier->has_changed);
    dao_mutex_finish(&tier->lock);
    memset(tier, 0, sizeof(*tier));
}

dao_status_t dao_file_tier_init(dao_file_tier_t *tier, dao_timeline_t *timeline,
                                const dao_file_tier_config_t *config)
{
    memset(tier, 0, sizeof(*tier));
    tier->config = *config;
    tier->timeline = timeline;
    dao_mutex_init(&tier->lock, DAO_RANK_LEAF);
    dao_cond_init(&tier->has_changed);
    DAO_ASSERT(!tier->is_there);
    dao_status_t status = create_file(tier);
    if (status == DAO_OK) {
        status = create_rings(tier);
    }
    if (status == DAO_OK) {
        status = create_staging(tier);
    }
    if (status == DAO_OK) {
        status = create_workers(tier);
    }
    if (status != DAO_OK) {
        destroy_parts(tier);
        return status;
    }
    for (int i = 0; i < direction_count(tier); i++) {
        dao_file_direction_t direction = (dao_file_direction_t)i;
        dao_timeline_add_stream(timeline, dao_file_tier_stream(direction), config->streams[i]);
        dao_timeline_add_stream(timeline, dao_file_tier_staging_stream(direction),
                                config->staging_streams[i]);
    }
    tier->is_there = true;
    return DAO_OK;
}

void dao_file_tier_stop(dao_file_tier_t *tier)
{
    if (!tier->is_there) {
        return;
    }
    dao_mutex_lock(&tier->lock);
    tier->is_stopped = true;
    dao_cond_broadcast(&tier->has_changed);
    while (tier->running_count > 0) {
        dao_cond_wait(&tier->has_changed, &tier->lock);
    }
    dao_mutex_unlock(&tier->lock);
}

void dao_file_tier_finish(dao_file_tier_t *tier)
{
    if (tier->is_there) {
        DAO_ASSERT(!tier->has_slots || dao_range_used(tier->slots.range) == 0);
        DAO_ASSERT(tier->is_stopped);
        DAO_ASSERT(tier->running_count == 0);
        destroy_parts(tier);
    }
}

dao_status_t dao_file_tier_take(dao_file_tier_t *tier, size_t size_bytes, uint64_t *out_offset_bytes)
{
    uint64_t bytes = dao_round_up(size_bytes, DAO_RANGE_GRANULE);
    DAO_ASSERT(tier->has_slots);
    dao_status_t status = dao_device_arena_take(&tier->slots, bytes, SLOT_OWNER, out_offset_bytes);
    if (status == DAO_ERR_LIMIT) {
        return dao_error(DAO_ERR_LIMIT, "%zu bytes asked for, %" PRIu64 " of %" PRIu64 " in use; %s",
                         size_bytes, dao_range_used(tier->slots.range), tier->limit_bytes,
                         tier->config.file.limit_bytes != 0
                             ? "raise its limit"
                             : "its file system had no more free as the executor was created");
    }
    return status;
}

/* ---- operations ---- */

/* The host function where the stream was held up before. */
static void transfer_at_once(void *user)
{
    transfer(user);
}

/* The steps that put an operation on its stream. */

static dao_status_t hold_up(dao_file_operation_t *operation)
{
    const dao_file_tier_config_t *config = &operation->tier->config;
    return config->ops->delay(config->streams[operation->direction], least_ns(operation));
}

static dao_status_t call(dao_file_operation_t *operation)
{
    const dao_file_tier_config_t *config = &operation->tier->config;
    dao_file_worker_t *worker = &operation->tier->workers[operation->direction];
    return worker->is_there
               ? dao_file_worker_queue_turn(worker)
               : config->ops->host_func(config->streams[operation->direction],
                                        config->ops->delay == NULL ? transfer_in_time : transfer_at_once,
                                        operation);
}

/* Only the step that was refused is tried again: one that the stream has taken would be there twice. */
static dao_status_t try_step(dao_status_t (*step)(dao_file_operation_t *operation),
                             dao_file_operation_t *operation)
{
    dao_status_t status = DAO_ERR_BACKEND;
    for (int i = 0; status != DAO_OK && status != DAO_ERR_DEVICE_LOST && i <= RETRY_MAX; i++) {
        status = step(operation);
    }
    return status;
}

static dao_status_t put(dao_file_operation_t *operation)
{
    const dao_backend_ops_t *ops = operation->tier->config.ops;
    dao_status_t status = ops->delay != NULL ? try_step(hold_up, operation) : DAO_OK;
    return status != DAO_OK || ops->has_no_bytes ? status : try_step(call, operation);
}

dao_status_t dao_file_tier_before(dao_file_tier_t *tier, dao_file_direction_t direction,
                                  const dao_fence_t *fence)
{
    return dao_timeline_before(tier->timeline, dao_file_tier_stream(direction), fence);
}

dao_status_t dao_file_tier_queue(dao_file_tier_t *tier, const dao_file_operation_t *operation,
                                 uint64_t *out_sequence)
{
    dao_file_direction_t direction = operation->direction;
    uint64_t sequence = stream_of(tier, direction)->issued + 1;
    DAO_ASSERT(sequence - tier->taken_off[direction] <= DAO_TIMELINE_DEPTH);
    dao_file_operation_t *queued = operation_slot(tier, direction, sequence);
    *queued = *operation;
    queued->tier = tier;
    queued->error = 0;
    DAO_ASSERT(operation->size_bytes > 0);
    DAO_ASSERT(operation->tensor != NULL);
    queued->time_ns = least_ns(queued); /* all that counts where time is virtual */
    dao_status_t status = put(queued);
    if (status == DAO_ERR_DEVICE_LOST) {
        return status;
    }
    if (status != DAO_OK) {
        return dao_error_vendor(
            DAO_ERR_COPY_FAILED, dao_last_vendor_code(), "%s %zu bytes of %.400s could not be queued: %.200s",
            direction == DAO_FILE_READ ? "reading" : "writing", operation->size_bytes,
            operation->source != NULL ? dao_source_name(operation->source) : "the file tier",
            dao_last_message());
    }
    dao_file_worker_t *worker = &tier->workers[direction];
    status = worker->is_there ? dao_file_worker_queue_wait(worker) : DAO_OK;
    if (status != DAO_OK) {
        return status;
    }
    return dao_timeline_after(tier->timeline, dao_file_tier_stream(direction), out_sequence);
}

int dao_file_tier_read_now(const dao_file_tier_t *tier, const dao_source_t *source, uint64_t offset_bytes,
                           void *destination, size_t size_bytes)
{
    if (tier->file == NULL) {
        return 0;
    }
    return source != NULL
               ? dao_source_read(source, tier->file, offset_bytes, destination, size_bytes)
               : dao_file_transfer(tier->file, DAO_FILE_READ, offset_bytes, destination, size_bytes);
}

const dao_file_operation_t *dao_file_tier_finished(const dao_file_tier_t *tier,
                                                   dao_file_direction_t direction)
{
    uint64_t sequence = tier->taken_off[direction] + 1;
    return sequence <= stream_of(tier, direction)->completed ? operation_slot(tier, direction, sequence)
                                                             : NULL;
}

static void note_moved(dao_file_tier_t *tier, const dao_file_operation_t *operation)
{
    dao_link_speed_note(&tier->moved[operation->direction], operation->size_bytes, operation->time_ns);
    if (operation->is_last) {
        uint64_t over_bytes = operation->size_bytes % tier->staging_bytes;
        tier->moved_count++;
        tier->moved_open_bytes += over_bytes > 0 ? tier->staging_bytes - over_bytes : 0;
    }
}

double dao_file_tier_open_share(const dao_file_tier_t *tier)
{
    return tier->moved_count == 0
               ? 0
               : (double)tier->moved_open_bytes / (double)tier->moved_count / (double)tier->staging_bytes;
}

void dao_file_tier_forget_moved(dao_file_tier_t *tier)
{
    memset(tier->moved, 0, sizeof(tier->moved));
    tier->moved_count = 0;
    tier->moved_open_bytes = 0;
}

dao_managed_t *dao_file_tier_take_off(dao_file_tier_t *tier, dao_file_direction_t direction)
{
    const dao_file_operation_t *operation = dao_file_tier_finished(tier, direction);
    DAO_ASSERT(operation != NULL);
    if (operation->error == 0) {
        note_moved(tier, operation);
    }
    tier->taken_off[direction]++;
    DAO_ASSERT_HEAVY(dao_file_tier_is_valid(tier));
    return operation->tensor;
}

dao_managed_t *dao_file_tier_give_up(dao_file_tier_t *tier, dao_file_direction_t direction)
{
    DAO_ASSERT(tier->is_stopped);
    bool has_one = tier->taken_off[direction] < stream_of(tier, direction)->issued;
    return has_one ? operation_slot(tier, direction, ++tier->taken_off[direction])->tensor : NULL;
}

bool dao_file_tier_is_valid(const dao_file_tier_t *tier)
{
    if (!tier->is_there) {
        return true;
    }
    for (int i = 0; i < DAO_FILE_DIRECTION_COUNT; i++) {
        const dao_timeline_stream_t *stream = stream_of(tier, (dao_file_direction_t)i);
        if (tier->taken_off[i] > stream->completed ||
            stream->issued - tier->taken_off[i] > DAO_TIMELINE_DEPTH) {
            return false;
        }
    }
    return !tier->has_slots || dao_device_arena_is_valid(&tier->slots);
}
