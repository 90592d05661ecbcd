/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between the device and a file, for plans that are replayed. */
#ifndef DAO_TOOLS_PLAN_REPLAY_FILE_H
#define DAO_TOOLS_PLAN_REPLAY_FILE_H

#include "backends/backend.h"
#include "base/files/file.h"

#include <dao/swap.h>

#include <stdatomic.h>

/* Returns where the device has an address of a schedule. */
static inline void *dao_plan_replay_at(const dao_swap_schedule_t *schedule, void *device_address,
                                       void *paged_address, uint64_t address_bytes)
{
    bool is_in_pages = schedule->page_count > 0 && address_bytes >= schedule->paged_begin;
    return is_in_pages ? (char *)paged_address + (address_bytes - schedule->paged_begin)
                       : (char *)device_address + address_bytes;
}

/* Everything is borrowed and outlives the file; the directory's name only dao_plan_replay_file_init(). */
typedef struct dao_plan_replay_file_config {
    const dao_backend_ops_t *ops;
    const dao_swap_schedule_t *schedule;
    const dao_swap_tier_t *tier; /* where time is virtual, a copy takes what this says */
    dao_file_config_t file;      /* its speeds and its latency hold each piece back where time is real */
    char *device_address;
    char *paged_address;                    /* as in dao_plan_replay_config_t */
    char *pieces[DAO_FILE_DIRECTION_COUNT]; /* pinned, of piece_bytes each */
    size_t piece_bytes;
} dao_plan_replay_file_config_t;

/* A piece of a copy of the schedule; the same in every step. */
typedef struct dao_plan_replay_transfer {
    struct dao_plan_replay_file *owner;
    dao_file_direction_t direction;
    uint64_t offset_bytes; /* in the file */
    size_t size_bytes;
} dao_plan_replay_transfer_t;

typedef struct dao_plan_replay_file {
    dao_plan_replay_file_config_t config;
    dao_file_t *file; /* NULL where memory has no bytes */
    dao_plan_replay_transfer_t *transfers;
    uint32_t *first_transfer[DAO_SWAP_STREAM_COUNT]; /* of each copy of a stream of the file */
    _Atomic int error;                               /* the first errno of a transfer; 0: none has failed */
} dao_plan_replay_file_t;

/* Returns true if some copy of the schedule is one with a file. */
bool dao_plan_replay_file_is_needed(const dao_swap_schedule_t *schedule);

/* Makes the file. DAO_ERR_IO, DAO_ERR_UNSUPPORTED, DAO_ERR_NO_HOST_MEMORY, DAO_ERR_THREAD: nothing was
   made. */
DAO_NODISCARD dao_status_t dao_plan_replay_file_init(dao_plan_replay_file_t *replay_file,
                                                     const dao_plan_replay_file_config_t *config);

/* Nothing is in flight. One that is all zero is allowed. */
void dao_plan_replay_file_finish(dao_plan_replay_file_t *replay_file);

/* Writes bytes to a slot, at once. DAO_ERR_IO. */
DAO_NODISCARD dao_status_t dao_plan_replay_file_put(dao_plan_replay_file_t *replay_file, uint64_t slot_bytes,
                                                    void *bytes, uint64_t size_bytes);

/* Queues the `index`-th copy of a stream of the file on its stream. What the stream answers: a part of it may
   be queued then. */
DAO_NODISCARD dao_status_t dao_plan_replay_file_copy(dao_plan_replay_file_t *replay_file,
                                                     dao_swap_stream_t from, uint32_t index,
                                                     dao_backend_stream_t *stream);

/* Once all that was queued has finished: DAO_ERR_IO if a transfer has failed. */
DAO_NODISCARD dao_status_t dao_plan_replay_file_status(const dao_plan_replay_file_t *replay_file);

#endif
