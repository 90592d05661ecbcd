/* SPDX-License-Identifier: Apache-2.0 */
/* The table behind holds: what each stream of a device has freed, which events stand for it, and what has
   finished.

       epochs            1 . . . . . . . . . . . . . . . . . . . . . . . . . now
       frees of stream 1     3     6 7           13        18          24
       its events              [5]     [9]                     [21]               a ring, oldest first
       done_epoch = 2        freed_epoch = 24

       a hold of stream 1 up to 6 waits for [9], up to 13 for [21], up to 24 for an event that is recorded
       then

   Why an event is enough: a program queues a block's work before it frees the block, a free draws its epoch
   before it is seen, and an event's epoch is read before the event is recorded. So the work of all frees up
   to that epoch lies before it in the stream. A hold's epoch is that of its latest part, which may be another
   stream's: a stream is waited for only up to its own last free.

   A stream alone needs no events: it takes its blocks back in its own order. Events are recorded from when a
   second stream frees or waits until DAO_HOLD_ALONE_COUNT frees of one stream in a row. Whoever finds no
   event for a hold records one then.

   What holds between calls:

       the events of a ring are of growing epochs, above done_epoch, at most DAO_HOLD_EVENT_MAX
       done_epoch is DONE_ALL for numbers that no stream has, else at most the epoch of now
       every event is in one ring, or spare, or waited for by threads alone

   A stream that is being captured (its work becomes a graph that runs later) is left alone: an event on it
   stands for no work that was done, and asking for one would end the capture. What is freed on it is its own,
   in its order, and waits for nothing else until the capture has ended; whoever asks then records the event.
   Other streams of the same capture wait for an event within it, which no ring gets. A stream of a capture
   cannot wait for others: the host does that for it, also for what it waited for before, since the graph may
   run on another stream. Frees of the capture's own streams from before it for which no event was recorded
   are left to the program, which launches the graph behind these streams' work.

   Events are counted: a ring holds one reference, and each thread that waits on the host. The lock is held
   over backend calls that do not wait; waiting is done without it. */
#include "allocators/holds.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/threads/sync.h"

#include <stdatomic.h>

/* The done_epoch of a number that no stream has: nothing is left to wait for. */
#define DONE_ALL UINT64_MAX

#define NUMBER_COUNT (DAO_HOLD_STREAM_MAX + 1)

/* An event of the backend, with what it stands for. */
typedef struct fence {
    struct fence *next; /* among the spare ones */
    dao_backend_event_t *event;
    uint64_t epoch;
    uint32_t reference_count;
} fence_t;

/* A number and its stream. */
typedef struct line {
    _Atomic uint64_t freed_epoch; /* of its last free */
    _Atomic uint64_t done_epoch;  /* its frees up to here have finished */
    /* guarded by the lock */
    dao_backend_stream_t *stream; /* NULL: nobody's */
    fence_t *ring[DAO_HOLD_EVENT_MAX];
    uint32_t ring_first;
    uint32_t ring_count;
    uint64_t seen_epochs[NUMBER_COUNT]; /* the stream waits, on the device, for these frees of the others */
} line_t;

struct dao_holds {
    const dao_backend_ops_t *ops;
    dao_backend_device_t *device;
    _Atomic uint64_t epoch;          /* the latest that was drawn */
    _Atomic uint64_t recorded_until; /* frees up to this epoch get events */
    _Atomic uint64_t shared_streams; /* bit n: stream n may use blocks that others free */
    _Atomic uint32_t latest_stream;  /* the one that freed or waited last; 0: none yet */
    dao_mutex_t lock;
    fence_t *first_spare;
    line_t lines[NUMBER_COUNT]; /* 0 is nobody */
};

static uint64_t bit(uint32_t stream)
{
    return UINT64_C(1) << stream;
}

/* Takes the lowest stream out of a set that is not empty. */
static uint32_t take_stream(uint64_t *streams)
{
    uint32_t stream = (uint32_t)__builtin_ctzll(*streams);
    *streams &= *streams - 1;
    return stream;
}

static void raise_to(_Atomic uint64_t *epoch, uint64_t value)
{
    uint64_t before = atomic_load(epoch);
    while (before < value && !atomic_compare_exchange_weak(epoch, &before, value)) {
    }
}

/* Tells what a stream must have finished for its part of a hold. */
static uint64_t needed_epoch(const line_t *line, const dao_hold_t *hold)
{
    uint64_t freed_epoch = atomic_load(&line->freed_epoch);
    return freed_epoch < hold->epoch ? freed_epoch : hold->epoch;
}

static bool line_is_done(const line_t *line, uint64_t epoch)
{
    return atomic_load(&line->done_epoch) >= epoch;
}

/* Tells whether a backend's answer about an event means that the work before it has ended. */
static bool means_ended(dao_status_t status)
{
    return status != DAO_ERR_NOT_READY && !dao_hold_must_wait_elsewhere(status);
}

/* ---- events ---- */

static void fence_release_locked(dao_holds_t *holds, fence_t *fence)
{
    DAO_ASSERT(fence->reference_count > 0);
    if (--fence->reference_count == 0) {
        fence->next = holds->first_spare;
        holds->first_spare = fence;
    }
}

/* Gives a fence with one reference. */
static dao_status_t fence_take_locked(dao_holds_t *holds, fence_t **out_fence)
{
    fence_t *fence = holds->first_spare;
    if (fence != NULL) {
        holds->first_spare = fence->next;
    } else {
        fence = dao_host_calloc(1, sizeof(*fence));
        if (fence == NULL) {
            return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for an event behind a free");
        }
        dao_status_t status = holds->ops->event_create(holds->device, false, &fence->event);
        if (status != DAO_OK) {
            dao_host_free(fence);
            return status;
        }
    }
    fence->reference_count = 1;
    *out_fence = fence;
    return DAO_OK;
}

static fence_t *ring_at(const line_t *line, uint32_t index)
{
    DAO_ASSERT(index < line->ring_count);
    return line->ring[(line->ring_first + index) % DAO_HOLD_EVENT_MAX];
}

static void ring_drop_oldest_locked(dao_holds_t *holds, line_t *line)
{
    fence_t *oldest = ring_at(line, 0);
    line->ring_first = (line->ring_first + 1) % DAO_HOLD_EVENT_MAX;
    line->ring_count--;
    fence_release_locked(holds, oldest);
}

/* Notes what has finished, and drops the events that say no more. */
static void line_advance_locked(dao_holds_t *holds, line_t *line, uint64_t done_epoch)
{
    raise_to(&line->done_epoch, done_epoch);
    while (line->ring_count > 0 && line_is_done(line, ring_at(line, 0)->epoch)) {
        ring_drop_oldest_locked(holds, line);
    }
}

static uint64_t line_capture(const dao_holds_t *holds, const line_t *line)
{
    return dao_backend_stream_capture(holds->ops, line->stream);
}

static dao_status_t captured_error(void)
{
    return dao_error(DAO_ERR_BUSY, "the stream on which memory was freed is being captured into a graph: "
                                   "nobody else has that memory before the capture ends");
}

/* Gives a fence with one reference, recorded on a stream. */
static dao_status_t fence_record_locked(dao_holds_t *holds, const line_t *line, fence_t **out_fence)
{
    fence_t *fence = NULL;
    dao_status_t status = fence_take_locked(holds, &fence);
    if (status != DAO_OK) {
        return status;
    }
    fence->epoch = atomic_load(&holds->epoch); /* before the event: frees after this may not be covered */
    status = holds->ops->event_record(fence->event, line->stream);
    if (status != DAO_OK) {
        fence_release_locked(holds, fence);
        return status;
    }
    *out_fence = fence;
    return DAO_OK;
}

/* Records an event for all frees of a stream so far. DAO_ERR_BUSY without a message: it is being captured. It
   is looked at behind the event, too, since another thread may begin the capture. */
static dao_status_t line_record_locked(dao_holds_t *holds, line_t *line)
{
    fence_t *fence = NULL;
    if (line_capture(holds, line) != 0) {
        return DAO_ERR_BUSY;
    }
    dao_status_t status = fence_record_locked(holds, line, &fence);
    if (status == DAO_OK && line_capture(holds, line) != 0) {
        fence_release_locked(holds, fence);
        status = DAO_ERR_BUSY;
    }
    if (status != DAO_OK) {
        return status;
    }
    if (line->ring_count == DAO_HOLD_EVENT_MAX) {
        ring_drop_oldest_locked(holds, line);
    }
    line->ring[(line->ring_first + line->ring_count) % DAO_HOLD_EVENT_MAX] = fence;
    line->ring_count++;
    return DAO_OK;
}

static bool has_event_locked(const line_t *line, uint64_t epoch)
{
    return line->ring_count > 0 && ring_at(line, line->ring_count - 1)->epoch >= epoch;
}

/* Gives the earliest event that stands for a stream's frees up to an epoch, borrowed from the ring. */
static dao_status_t line_find_locked(dao_holds_t *holds, line_t *line, uint64_t epoch, fence_t **out_fence)
{
    if (!has_event_locked(line, epoch)) {
        dao_status_t status = line_record_locked(holds, line);
        if (status != DAO_OK) {
            return status == DAO_ERR_BUSY ? captured_error() : status;
        }
    }
    uint32_t index = line->ring_count - 1;
    while (index > 0 && ring_at(line, index - 1)->epoch >= epoch) {
        index--;
    }
    *out_fence = ring_at(line, index);
    return DAO_OK;
}

/* ---- validity ---- */

static bool line_is_valid_locked(const dao_holds_t *holds, const line_t *line)
{
    uint64_t done_epoch = atomic_load(&line->done_epoch);
    uint64_t now_epoch = atomic_load(&holds->epoch);
    if (line->stream == NULL) {
        return done_epoch == DONE_ALL && line->ring_count == 0;
    }
    bool is_valid = line->ring_count <= DAO_HOLD_EVENT_MAX && done_epoch <= now_epoch;
    uint64_t epoch = done_epoch;
    for (uint32_t i = 0; i < line->ring_count && is_valid; i++) {
        const fence_t *fence = ring_at(line, i);
        is_valid = fence->epoch > epoch && fence->epoch <= now_epoch && fence->reference_count > 0;
        epoch = fence->epoch;
    }
    return is_valid;
}

static bool is_valid_locked(const dao_holds_t *holds)
{
    bool is_valid = holds->lines[0].stream == NULL;
    for (uint32_t i = 0; i < NUMBER_COUNT; i++) {
        is_valid = is_valid && line_is_valid_locked(holds, &holds->lines[i]);
    }
    for (const fence_t *fence = holds->first_spare; fence != NULL; fence = fence->next) {
        is_valid = is_valid && fence->reference_count == 0;
    }
    return is_valid;
}

static void lock(dao_holds_t *holds)
{
    dao_mutex_lock(&holds->lock);
    DAO_ASSERT_HEAVY(is_valid_locked(holds));
}

static void unlock(dao_holds_t *holds)
{
    DAO_ASSERT_HEAVY(is_valid_locked(holds));
    dao_mutex_unlock(&holds->lock);
}

bool dao_holds_is_valid(dao_holds_t *holds)
{
    dao_mutex_lock(&holds->lock);
    bool is_valid = is_valid_locked(holds);
    dao_mutex_unlock(&holds->lock);
    return is_valid;
}

/* ---- start and end ---- */

dao_status_t dao_holds_create(const dao_backend_ops_t *ops, dao_backend_device_t *device,
                              dao_holds_t **out_holds)
{
    dao_holds_t *holds = dao_host_calloc(1, sizeof(*holds));
    if (holds == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the table of streams");
    }
    holds->ops = ops;
    holds->device = device;
    dao_mutex_init(&holds->lock, DAO_RANK_HOLDS);
    for (uint32_t i = 0; i < NUMBER_COUNT; i++) {
        atomic_init(&holds->lines[i].done_epoch, DONE_ALL);
    }
    *out_holds = holds;
    return DAO_OK;
}

void dao_holds_destroy(dao_holds_t *holds)
{
    if (holds == NULL) {
        return;
    }
    for (uint32_t i = 1; i < NUMBER_COUNT; i++) {
        if (holds->lines[i].stream != NULL) {
            dao_holds_stream_remove(holds, i);
        }
    }
    for (fence_t *fence = holds->first_spare, *next; fence != NULL; fence = next) {
        next = fence->next;
        holds->ops->event_destroy(fence->event);
        dao_host_free(fence);
    }
    dao_mutex_finish(&holds->lock);
    dao_host_free(holds);
}

/* ---- numbers ---- */

dao_status_t dao_holds_stream_add(dao_holds_t *holds, dao_backend_stream_t *stream, uint32_t *out_stream)
{
    uint32_t number = 1;
    lock(holds);
    while (number < NUMBER_COUNT && holds->lines[number].stream != NULL) {
        number++;
    }
    if (number < NUMBER_COUNT) {
        line_t *line = &holds->lines[number];
        line->stream = stream;
        atomic_store(&line->done_epoch, atomic_load(&holds->epoch)); /* whoever had the number has finished */
        for (uint32_t i = 0; i < NUMBER_COUNT; i++) {
            line->seen_epochs[i] = 0;
        }
    }
    unlock(holds);
    if (number == NUMBER_COUNT) {
        return dao_error(DAO_ERR_TOO_MANY,
                         "%u streams of one device allocate or free in stream order already; destroy streams "
                         "that are not needed, or use fewer",
                         DAO_HOLD_STREAM_MAX);
    }
    *out_stream = number;
    return DAO_OK;
}

void dao_holds_stream_remove(dao_holds_t *holds, uint32_t stream)
{
    DAO_ASSERT(stream > 0 && stream <= DAO_HOLD_STREAM_MAX);
    line_t *line = &holds->lines[stream];
    atomic_fetch_and(&holds->shared_streams, ~bit(stream));
    lock(holds);
    DAO_ASSERT(line->stream != NULL);
    line_advance_locked(holds, line, DONE_ALL);
    line->stream = NULL;
    unlock(holds);
}

void dao_holds_share(dao_holds_t *holds, uint32_t stream)
{
    DAO_ASSERT(stream > 0 && stream <= DAO_HOLD_STREAM_MAX);
    if ((atomic_load(&holds->shared_streams) & bit(stream)) == 0) {
        atomic_fetch_or(&holds->shared_streams, bit(stream));
    }
}

/* ---- frees ---- */

/* Notes that a stream is active. One after another means that others' frees are of interest. */
static void note_use(dao_holds_t *holds, uint32_t stream, uint64_t epoch)
{
    uint32_t before = atomic_load_explicit(&holds->latest_stream, memory_order_relaxed);
    if (before != stream) {
        atomic_store_explicit(&holds->latest_stream, stream, memory_order_relaxed);
        if (before != 0) {
            raise_to(&holds->recorded_until, epoch + DAO_HOLD_ALONE_COUNT);
        }
    }
}

dao_hold_t dao_holds_mark(dao_holds_t *holds, uint32_t stream)
{
    DAO_ASSERT(stream > 0 && stream <= DAO_HOLD_STREAM_MAX);
    uint64_t epoch = atomic_fetch_add(&holds->epoch, 1) + 1;
    uint64_t streams = atomic_load(&holds->shared_streams) | bit(stream);
    while (streams != 0) {
        raise_to(&holds->lines[take_stream(&streams)].freed_epoch, epoch);
    }
    note_use(holds, stream, epoch);
    return (dao_hold_t){.streams = bit(stream), .epoch = epoch};
}

void dao_holds_record(dao_holds_t *holds, const dao_hold_t *hold)
{
    uint64_t streams = hold->streams;
    bool is_one = (streams & (streams - 1)) == 0;
    if (is_one && hold->epoch > atomic_load_explicit(&holds->recorded_until, memory_order_relaxed)) {
        return;
    }
    lock(holds);
    while (streams != 0) {
        line_t *line = &holds->lines[take_stream(&streams)];
        uint64_t epoch = needed_epoch(line, hold);
        if (!line_is_done(line, epoch) && !has_event_locked(line, epoch)) {
            (void)line_record_locked(holds, line); /* whoever waits records again */
        }
    }
    unlock(holds);
}

/* ---- what has finished ---- */

bool dao_holds_is_done(const dao_holds_t *holds, const dao_hold_t *hold)
{
    uint64_t streams = hold->streams;
    while (streams != 0) {
        const line_t *line = &holds->lines[take_stream(&streams)];
        if (!line_is_done(line, needed_epoch(line, hold))) {
            return false;
        }
    }
    return true;
}

uint64_t dao_holds_epoch(const dao_holds_t *holds)
{
    return atomic_load(&holds->epoch);
}

void dao_holds_finished(dao_holds_t *holds, uint32_t stream, uint64_t epoch)
{
    uint32_t first = stream != 0 ? stream : 1;
    uint32_t last = stream != 0 ? stream : DAO_HOLD_STREAM_MAX;
    lock(holds);
    for (uint32_t i = first; i <= last; i++) {
        line_advance_locked(holds, &holds->lines[i], epoch);
    }
    unlock(holds);
}

dao_hold_t dao_holds_pending(const dao_holds_t *holds)
{
    dao_hold_t hold = {.epoch = atomic_load(&holds->epoch)};
    for (uint32_t i = 1; i < NUMBER_COUNT; i++) {
        const line_t *line = &holds->lines[i];
        if (!line_is_done(line, atomic_load(&line->freed_epoch))) {
            hold.streams |= bit(i);
        }
    }
    return hold;
}

/* Asks a stream's events, oldest first, as long as they have finished. */
static bool line_poll_locked(dao_holds_t *holds, line_t *line)
{
    bool has_advanced = false;
    if (line->ring_count == 0 && line_record_locked(holds, line) != DAO_OK) {
        return false; /* the next poll tries again */
    }
    while (line->ring_count > 0) {
        const fence_t *oldest = ring_at(line, 0);
        if (!means_ended(holds->ops->event_query(oldest->event))) {
            break;
        }
        line_advance_locked(holds, line, oldest->epoch);
        has_advanced = true;
    }
    return has_advanced;
}

bool dao_holds_poll(dao_holds_t *holds)
{
    bool has_advanced = false;
    dao_error_record_t record;
    dao_error_save(&record, dao_last_status());
    lock(holds);
    for (uint32_t i = 1; i < NUMBER_COUNT; i++) {
        line_t *line = &holds->lines[i];
        if (!line_is_done(line, atomic_load(&line->freed_epoch))) {
            has_advanced = line_poll_locked(holds, line) || has_advanced;
        }
    }
    unlock(holds);
    (void)dao_error_restore(&record);
    return has_advanced;
}

/* ---- waiting ---- */

/* Makes a stream wait for another one of the same capture: an edge of its graph. */
static dao_status_t join_in_capture_locked(dao_holds_t *holds, const line_t *line, const line_t *waiter)
{
    fence_t *fence = NULL;
    dao_status_t status = fence_record_locked(holds, line, &fence);
    if (status == DAO_OK) {
        status = holds->ops->stream_wait_event(waiter->stream, fence->event);
        fence_release_locked(holds, fence);
    }
    return status;
}

/* Makes a stream wait for another one's frees up to an epoch. */
static dao_status_t line_wait_on_locked(dao_holds_t *holds, uint32_t stream, uint64_t epoch, line_t *waiter)
{
    line_t *line = &holds->lines[stream];
    if (line_is_done(line, epoch) || waiter->seen_epochs[stream] >= epoch) {
        return DAO_OK;
    }
    fence_t *fence = NULL;
    dao_status_t status = line_find_locked(holds, line, epoch, &fence);
    if (status == DAO_OK) {
        status = holds->ops->stream_wait_event(waiter->stream, fence->event);
    }
    if (status == DAO_OK) {
        waiter->seen_epochs[stream] = fence->epoch;
    }
    return status;
}

/* Waits for an event, or without one for the whole device: for later work too, but surely. */
static dao_status_t wait_for(dao_holds_t *holds, const fence_t *fence)
{
    dao_status_t status = fence != NULL ? holds->ops->event_synchronize(fence->event) : DAO_OK;
    if (fence != NULL && status == DAO_OK) {
        return DAO_OK;
    }
    dao_error_record_t record;
    dao_error_save(&record, status);
    dao_status_t device_status = holds->ops->device_synchronize(holds->device);
    return status != DAO_OK ? dao_error_restore(&record) : device_status;
}

/* Waits on the host for a stream's frees up to an epoch. */
static dao_status_t line_wait(dao_holds_t *holds, line_t *line, uint64_t epoch)
{
    lock(holds);
    if (line_is_done(line, epoch)) {
        unlock(holds);
        return DAO_OK;
    }
    fence_t *fence = NULL;
    dao_status_t status = line_find_locked(holds, line, epoch, &fence);
    if (status == DAO_OK) {
        fence->reference_count++;
        epoch = fence->epoch;
    }
    unlock(holds);
    if (status == DAO_ERR_BUSY) {
        return status; /* waiting for the device would end the capture */
    }
    status = wait_for(holds, fence);
    lock(holds);
    if (means_ended(status)) {
        line_advance_locked(holds, line, epoch);
    }
    if (fence != NULL) {
        fence_release_locked(holds, fence);
    }
    unlock(holds);
    return status;
}

dao_status_t dao_holds_wait(dao_holds_t *holds, const dao_hold_t *hold)
{
    DAO_ASSERT_UNLOCKED();
    uint64_t streams = hold->streams;
    dao_status_t first_status = DAO_OK;
    dao_error_record_t record;
    while (streams != 0) {
        line_t *line = &holds->lines[take_stream(&streams)];
        dao_status_t status = line_wait(holds, line, needed_epoch(line, hold));
        bool is_first = status != DAO_OK && first_status == DAO_OK;
        bool goes_on = dao_hold_must_wait_elsewhere(status) && !dao_hold_must_wait_elsewhere(first_status);
        if (is_first || goes_on) {
            first_status = status;
            dao_error_save(&record, status);
        }
    }
    return first_status != DAO_OK ? dao_error_restore(&record) : DAO_OK;
}

/* ---- waiting of streams ---- */

static dao_status_t wait_in_order_locked(dao_holds_t *holds, const dao_hold_t *hold, uint64_t streams,
                                         line_t *waiter)
{
    dao_status_t status = DAO_OK;
    while (streams != 0 && status == DAO_OK) {
        uint32_t stream = take_stream(&streams);
        status = line_wait_on_locked(holds, stream, needed_epoch(&holds->lines[stream], hold), waiter);
    }
    return status;
}

/* Makes a stream of a capture wait for another one's frees up to an epoch. The host waits, also where the
   stream itself waited before its capture, since its graph may run on another one. But those of the same
   capture, which no event of the ring stands for, are an edge of the graph. */
static dao_status_t line_wait_in_capture(dao_holds_t *holds, line_t *line, uint64_t epoch,
                                         const line_t *waiter, uint64_t capture)
{
    dao_status_t status = DAO_OK;
    uint64_t host_epoch = epoch;
    lock(holds);
    if (capture != DAO_CAPTURE_UNKNOWN && line_capture(holds, line) == capture &&
        !line_is_done(line, epoch) && !has_event_locked(line, epoch)) {
        host_epoch = line->ring_count > 0 ? ring_at(line, line->ring_count - 1)->epoch : 0;
        status = join_in_capture_locked(holds, line, waiter);
    }
    unlock(holds);
    return status == DAO_OK ? line_wait(holds, line, host_epoch) : status;
}

dao_status_t dao_holds_wait_on(dao_holds_t *holds, const dao_hold_t *hold, uint32_t stream)
{
    DAO_ASSERT_UNLOCKED();
    DAO_ASSERT(stream > 0 && stream <= DAO_HOLD_STREAM_MAX);
    line_t *waiter = &holds->lines[stream];
    uint64_t streams = hold->streams & ~bit(stream);
    dao_status_t status = DAO_OK;
    note_use(holds, stream, atomic_load(&holds->epoch));
    lock(holds);
    uint64_t capture = streams != 0 ? line_capture(holds, waiter) : 0;
    if (capture == 0) {
        status = wait_in_order_locked(holds, hold, streams, waiter);
    }
    unlock(holds);
    while (capture != 0 && streams != 0 && status == DAO_OK) {
        line_t *line = &holds->lines[take_stream(&streams)];
        status = line_wait_in_capture(holds, line, needed_epoch(line, hold), waiter, capture);
    }
    return status;
}
