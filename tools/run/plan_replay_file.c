/* SPDX-License-Identifier: Apache-2.0 */
/* Each copy is work of its stream's stream alone, piece by piece:

       out   [ copy: device to pinned piece ] [ host function: write ] [ copy ] [ write ] ...
       in    [ host function: read ] [ copy: pinned piece to device ] [ read ] ...

   A stream keeps its order, so that one piece a direction is enough, and a stream's operation has one
   number, as a copy of the host has. Where time is virtual the stream is held up for as long as the plan
   has the copy; where memory has no bytes, that is all that happens. With bytes the pieces' copies over
   the link come on top of that, so that the copy takes longer than in the plan.

   Invariant: the transfers of copy i of a stream are [first_transfer[i], first_transfer[i + 1]). */
#include "tools/run/plan_replay_file.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/swap/step/swap_tier.h"
#include "runtime/executor/tiers/file_tier.h"

#include <inttypes.h>
#include <string.h>

static const dao_swap_stream_t streams[] = {DAO_SWAP_STREAM_FILE_IN, DAO_SWAP_STREAM_FILE_OUT};
enum { STREAM_COUNT = sizeof(streams) / sizeof(streams[0]) };

static dao_file_direction_t direction_of(const dao_swap_copy_t *copy)
{
    return copy->is_in ? DAO_FILE_READ : DAO_FILE_WRITE;
}

/* ---- making it ---- */

bool dao_plan_replay_file_is_needed(const dao_swap_schedule_t *schedule)
{
    return schedule->copy_count[DAO_SWAP_STREAM_FILE_IN] > 0 ||
           schedule->copy_count[DAO_SWAP_STREAM_FILE_OUT] > 0;
}

static uint32_t count_pieces(const dao_plan_replay_file_config_t *config, const dao_swap_copy_t *copy)
{
    return (uint32_t)((copy->size_bytes - 1) / config->piece_bytes + 1);
}

static uint32_t count_transfers(const dao_plan_replay_file_config_t *config)
{
    uint32_t count = 0;
    for (int i = 0; i < STREAM_COUNT; i++) {
        for (uint32_t k = 0; k < config->schedule->copy_count[streams[i]]; k++) {
            count += count_pieces(config, &config->schedule->copies[streams[i]][k]);
        }
    }
    return count;
}

static void describe_copy(dao_plan_replay_file_t *replay_file, const dao_swap_copy_t *copy, uint32_t first)
{
    size_t piece_bytes = replay_file->config.piece_bytes;
    for (uint32_t i = 0; i < count_pieces(&replay_file->config, copy); i++) {
        uint64_t done_bytes = (uint64_t)i * piece_bytes, left_bytes = copy->size_bytes - done_bytes;
        replay_file->transfers[first + i] =
            (dao_plan_replay_transfer_t){.owner = replay_file,
                                         .direction = direction_of(copy),
                                         .offset_bytes = copy->slot_bytes + done_bytes,
                                         .size_bytes = left_bytes < piece_bytes ? left_bytes : piece_bytes};
    }
}

static dao_status_t describe_copies(dao_plan_replay_file_t *replay_file)
{
    const dao_plan_replay_file_config_t *config = &replay_file->config;
    uint32_t next = 0;
    replay_file->transfers =
        dao_host_calloc((size_t)count_transfers(config) + 1, sizeof(*replay_file->transfers));
    bool has_memory = replay_file->transfers != NULL;
    for (int i = 0; i < STREAM_COUNT; i++) {
        uint32_t count = config->schedule->copy_count[streams[i]];
        uint32_t *first = dao_host_calloc((size_t)count + 1, sizeof(*first));
        replay_file->first_transfer[streams[i]] = first;
        has_memory = has_memory && first != NULL;
        for (uint32_t k = 0; has_memory && k < count; k++) {
            const dao_swap_copy_t *copy = &config->schedule->copies[streams[i]][k];
            describe_copy(replay_file, copy, next);
            first[k] = next;
            next += count_pieces(config, copy);
        }
        if (has_memory) {
            first[count] = next;
        }
    }
    return has_memory ? DAO_OK : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the copies with a file");
}

dao_status_t dao_plan_replay_file_init(dao_plan_replay_file_t *replay_file,
                                       const dao_plan_replay_file_config_t *config)
{
    *replay_file = (dao_plan_replay_file_t){.config = *config};
    dao_status_t status = describe_copies(replay_file);
    if (status == DAO_OK && !config->ops->has_no_bytes) {
        status = dao_file_create(config->file.directory, config->file.engine, &replay_file->file);
    }
    if (status != DAO_OK) {
        dao_plan_replay_file_finish(replay_file);
    }
    return status;
}

void dao_plan_replay_file_finish(dao_plan_replay_file_t *replay_file)
{
    dao_file_destroy(replay_file->file);
    for (int i = 0; i < STREAM_COUNT; i++) {
        dao_host_free(replay_file->first_transfer[streams[i]]);
    }
    dao_host_free(replay_file->transfers);
    *replay_file = (dao_plan_replay_file_t){.file = NULL};
}

/* ---- bytes ---- */

static dao_status_t status_of(int error)
{
    return error == 0 ? DAO_OK : dao_error(DAO_ERR_IO, "a copy with the plan's file: %s", strerror(error));
}

dao_status_t dao_plan_replay_file_put(dao_plan_replay_file_t *replay_file, uint64_t slot_bytes, void *bytes,
                                      uint64_t size_bytes)
{
    return replay_file->file == NULL ? DAO_OK
                                     : status_of(dao_file_transfer(replay_file->file, DAO_FILE_WRITE,
                                                                   slot_bytes, bytes, size_bytes));
}

/* The host function of a piece. */
static void transfer(void *user)
{
    const dao_plan_replay_transfer_t *piece = user;
    dao_plan_replay_file_t *owner = piece->owner;
    uint64_t begin_ns = dao_clock_ns();
    int error = dao_file_transfer(owner->file, piece->direction, piece->offset_bytes,
                                  owner->config.pieces[piece->direction], piece->size_bytes);
    int none = 0;
    if (error != 0) {
        (void)atomic_compare_exchange_strong(&owner->error, &none, error); /* the first one is told */
    }
    if (owner->config.ops->delay == NULL) {
        dao_sleep_until(begin_ns +
                        dao_file_tier_least_ns(&owner->config.file, piece->direction, piece->size_bytes));
    }
}

static dao_status_t queue_piece(const dao_plan_replay_file_t *replay_file, dao_plan_replay_transfer_t *piece,
                                char *device, dao_backend_stream_t *stream)
{
    const dao_backend_ops_t *ops = replay_file->config.ops;
    char *pinned = replay_file->config.pieces[piece->direction];
    if (piece->direction == DAO_FILE_READ) {
        dao_status_t status = ops->host_func(stream, transfer, piece);
        return status == DAO_OK ? ops->copy(stream, DAO_COPY_KIND_H2D, device, pinned, piece->size_bytes)
                                : status;
    }
    dao_status_t status = ops->copy(stream, DAO_COPY_KIND_D2H, pinned, device, piece->size_bytes);
    return status == DAO_OK ? ops->host_func(stream, transfer, piece) : status;
}

dao_status_t dao_plan_replay_file_copy(dao_plan_replay_file_t *replay_file, dao_swap_stream_t from,
                                       uint32_t index, dao_backend_stream_t *stream)
{
    const dao_plan_replay_file_config_t *config = &replay_file->config;
    const dao_swap_copy_t *copy = &config->schedule->copies[from][index];
    const uint32_t *first = &replay_file->first_transfer[from][index];
    uint64_t planned_ns = dao_swap_copy_ns(config->tier, copy->is_in, copy->size_bytes);
    dao_status_t status = config->ops->delay != NULL ? config->ops->delay(stream, planned_ns) : DAO_OK;
    char *device = dao_plan_replay_at(config->schedule, config->device_address, config->paged_address,
                                      copy->address_bytes);
    for (uint32_t i = first[0]; replay_file->file != NULL && status == DAO_OK && i < first[1]; i++) {
        dao_plan_replay_transfer_t *piece = &replay_file->transfers[i];
        status = queue_piece(replay_file, piece, device, stream);
        device += piece->size_bytes;
    }
    return status;
}

dao_status_t dao_plan_replay_file_status(const dao_plan_replay_file_t *replay_file)
{
    return status_of(atomic_load(&replay_file->error));
}
