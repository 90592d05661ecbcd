/* SPDX-License-Identifier: Apache-2.0 */
/* The file behind pinned host memory: slots in it, operations that fill and read them on two streams of
   their own, and a few pinned pieces through which bytes come back. Tensors' sources are read the same way; a
   tier may be there for them alone, without a file of its own. It does not know where tensors are:
   file_copy.c does. */
#ifndef DAO_RUNTIME_EXECUTOR_FILE_TIER_H
#define DAO_RUNTIME_EXECUTOR_FILE_TIER_H

#include "allocators/allocator.h"
#include "base/files/file.h"
#include "base/threads/sync.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/streams/profiler.h"
#include "runtime/executor/tiers/device_arena.h"
#include "runtime/executor/tiers/file_worker.h"

/* Pinned pieces of each direction: while one is read into, the other is on its way to the device. */
enum { DAO_FILE_STAGING_COUNT = 2 };

/* Size of one: a share of the arena up to a limit, a smaller share where that is more. What the host may
   queue ahead is as many pieces as a stream of the timeline has operations in flight, so that large devices
   need large ones. */
#define DAO_FILE_STAGING_BYTES_MIN         ((uint64_t)4 << 10)
#define DAO_FILE_STAGING_ARENA_SHARE       16u
#define DAO_FILE_STAGING_BYTES             ((uint64_t)16 << 20)
#define DAO_FILE_STAGING_ARENA_SHARE_LARGE 256u
#define DAO_FILE_STAGING_BYTES_MAX         ((uint64_t)64 << 20)

static_assert(DAO_FILE_STAGING_BYTES_MIN % DAO_SOURCE_BLOCK_BYTES == 0,
              "pieces of a source begin alike in their blocks");

/* An operation on a stream of the file. It lies in the tier's ring until it was taken off. */
typedef struct dao_file_operation {
    struct dao_file_tier *tier;
    dao_file_direction_t direction;
    const dao_source_t *source; /* that is read, the tensor's; NULL: the file */
    uint64_t offset_bytes;      /* in it */
    char *address;
    size_t size_bytes;
    dao_managed_t *tensor; /* whose bytes they are: the caller holds it until the operation is taken off */
    uint64_t version;      /* of the tensor's file copy, as it was queued */
    bool is_last;          /* of those that move this version */
    int error; /* 0 or errno; this and the time are written on the stream, read once it has finished */
    uint64_t time_ns;
} dao_file_operation_t;

typedef struct dao_file_tier_config {
    const dao_backend_ops_t *ops;
    dao_backend_stream_t *streams[DAO_FILE_DIRECTION_COUNT];
    dao_backend_stream_t *staging_streams[DAO_FILE_DIRECTION_COUNT]; /* between pieces and the device */
    dao_allocator_t *host;                                           /* of the pinned pieces */
    uint64_t arena_bytes;
    dao_file_config_t file; /* without a directory: for sources alone */
} dao_file_tier_config_t;

typedef struct dao_file_tier {
    bool is_there;  /* false: all else is 0 */
    bool has_slots; /* it has a file; false: for sources alone, and `slots` is all zero */
    dao_file_tier_config_t config;
    dao_file_t *file; /* and the engine for sources; NULL where memory has no bytes */
    dao_timeline_t *timeline;
    dao_device_arena_t slots; /* offsets in the file, with the fences of their last users */
    uint64_t limit_bytes;     /* of all slots */
    /* as allocated: two blocks of a source larger than a piece */
    char *staging_blocks[DAO_FILE_DIRECTION_COUNT][DAO_FILE_STAGING_COUNT];
    /* their first whole block; a part of a source begins in it */
    char *staging[DAO_FILE_DIRECTION_COUNT][DAO_FILE_STAGING_COUNT];
    dao_fence_t staging_busy[DAO_FILE_DIRECTION_COUNT][DAO_FILE_STAGING_COUNT];
    size_t staging_bytes; /* of each piece */
    uint32_t next_staging[DAO_FILE_DIRECTION_COUNT];
    dao_link_speed_t moved[DAO_FILE_DIRECTION_COUNT]; /* by operations that were taken off */
    uint64_t moved_count,
        moved_open_bytes; /* tensors moved by these; what their last pieces lack of full ones */
    dao_file_operation_t
        *operations[DAO_FILE_DIRECTION_COUNT]; /* of number n: slot n mod DAO_TIMELINE_SLOTS */
    _Atomic uint32_t *words;                   /* pinned, of the workers; NULL: there are none */
    dao_file_worker_t workers[DAO_FILE_DIRECTION_COUNT];
    uint64_t taken_off[DAO_FILE_DIRECTION_COUNT]; /* all up to this number */
    dao_mutex_t lock;                             /* of what follows */
    dao_cond_t has_changed;
    uint32_t running_count; /* transfers that a stream is in */
    bool is_stopped;        /* no transfer begins any more */
} dao_file_tier_t;

/* Directions that a tier has, from the first on: sources are only read. */
static inline int dao_file_tier_direction_count(const char *directory)
{
    static_assert(DAO_FILE_READ == 0, "the direction that is always there is the first");
    return directory != NULL ? DAO_FILE_DIRECTION_COUNT : DAO_FILE_READ + 1;
}

/* The stream of a direction. */
static inline dao_stream_role_t dao_file_tier_stream(dao_file_direction_t direction)
{
    return direction == DAO_FILE_READ ? DAO_TIMELINE_FILE_IN : DAO_TIMELINE_FILE_OUT;
}

/* The stream of a direction's copies between pieces and the device. */
static inline dao_stream_role_t dao_file_tier_staging_stream(dao_file_direction_t direction)
{
    return direction == DAO_FILE_READ ? DAO_TIMELINE_STAGE_IN : DAO_TIMELINE_STAGE_OUT;
}

/* What a tier's slots take of what it may use: whole granules, no more than a range has. */
uint64_t dao_file_tier_slot_bytes(uint64_t room_bytes);

/* The size of a pinned piece, by that of the device's arena. */
size_t dao_file_tier_piece_bytes(uint64_t arena_bytes);

/* What the settings say that an operation takes at least. */
uint64_t dao_file_tier_least_ns(const dao_file_config_t *config, dao_file_direction_t direction,
                                size_t size_bytes);

/* Makes the file and adds its streams. All that is borrowed outlives the tier. DAO_ERR_IO,
   DAO_ERR_UNSUPPORTED, DAO_ERR_NO_HOST_MEMORY, DAO_ERR_THREAD: nothing was made. */
DAO_NODISCARD dao_status_t dao_file_tier_init(dao_file_tier_t *tier, dao_timeline_t *timeline,
                                              const dao_file_tier_config_t *config);

/* The device is lost: no operation begins any more (it ends with ECANCELED), and none is running once this
   returns. dao_file_tier_read_now() goes on. This and dao_file_tier_finish() allow a tier that is not
   there. */
void dao_file_tier_stop(dao_file_tier_t *tier);

/* Takes off the oldest operation that is left, whether it has finished or not, and returns its tensor;
   NULL: none is left. The tier is stopped, and nothing is queued any more. */
dao_managed_t *dao_file_tier_give_up(dao_file_tier_t *tier, dao_file_direction_t direction);

/* Finishes a tier that is stopped and has no operation left and no slot in use. Its streams are gone: one
   of a lost device calls what was queued on it until then. */
void dao_file_tier_finish(dao_file_tier_t *tier);

/* Takes a slot. DAO_ERR_LIMIT with a message if the file is full; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_file_tier_take(dao_file_tier_t *tier, size_t size_bytes,
                                              uint64_t *out_offset_bytes);

/* An operation is queued in three moves: its stream waits for a fence; everything that has finished is
   taken off; then it is put on the stream and numbered. `operation` says all but tier and error; it is
   copied. One that the stream refuses is tried again; DAO_ERR_COPY_FAILED: it was not queued. Any other
   error means that the device has to be given up. */
DAO_NODISCARD dao_status_t dao_file_tier_before(dao_file_tier_t *tier, dao_file_direction_t direction,
                                                const dao_fence_t *fence);
DAO_NODISCARD dao_status_t dao_file_tier_queue(dao_file_tier_t *tier, const dao_file_operation_t *operation,
                                               uint64_t *out_sequence);

/* Reads from a source, or the file if it is NULL, on the spot and without a stream: for a device that is
   lost. 0 or errno. */
int dao_file_tier_read_now(const dao_file_tier_t *tier, const dao_source_t *source, uint64_t offset_bytes,
                           void *destination, size_t size_bytes);

/* The oldest finished operation of a direction that was not taken off; NULL if there is none. */
const dao_file_operation_t *dao_file_tier_finished(const dao_file_tier_t *tier,
                                                   dao_file_direction_t direction);

/* Takes that operation off and returns its tensor, which is referenced no more by the tier. */
dao_managed_t *dao_file_tier_take_off(dao_file_tier_t *tier, dao_file_direction_t direction);

/* What the last piece of a tensor that was moved lacks of a full one, in the mean, as a share of it. */
double dao_file_tier_open_share(const dao_file_tier_t *tier);

/* Begins the figures of what was moved anew. */
void dao_file_tier_forget_moved(dao_file_tier_t *tier);

bool dao_file_tier_is_valid(const dao_file_tier_t *tier);

#endif
