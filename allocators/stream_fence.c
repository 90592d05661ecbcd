/* SPDX-License-Identifier: Apache-2.0 */
/* The table behind stream fences: what each stream of a device has freed, which events stand for it, and what
   has finished.

       epochs             1    2     3      4     5         6      7   open: 8
       frees of stream 1    x     xx   x       x      xx                 x
       its events                [2]         [4]                [6]            a ring, oldest first
       done_epoch = 1       freed_epoch = 8

       a fence of stream 1 up to 2 waits for [2], up to 5 for [6], up to 8 for an event that is recorded then

   A free has the epoch that is open. Whoever records an event, or begins to wait, closes that one first, and
   has it: so the event stands for all frees up to its epoch, and nothing is written for a free alone.

   Why an event is enough: a program queues a block's work before it frees the block, and reads the epoch
   then. An event is recorded once its epoch is closed. Were that event before the work in its stream, the
   free would find the epoch closed, since a stream's calls are ordered. So the work of all frees up to the
   epoch lies before the event. A fence's epoch is that of its latest part, which may be another stream's: a
   stream is waited for only up to its own last free.

   A stream alone needs no events: it takes its blocks back in its own order. Events are recorded from when a
   second stream frees or waits until DAO_STREAM_FENCE_ALONE_COUNT frees of one stream in a row. Whoever finds
   no event for a fence records one then.

   What holds between calls:

       the events of a ring are of growing epochs, above done_epoch and below the open one, at most
           DAO_STREAM_FENCE_EVENT_MAX
       done_epoch is DONE_ALL for numbers that no stream has, else below the open epoch
       every event is in one ring, or spare, or waited for by threads alone

   A stream that is being captured (its work becomes a graph that runs later) is left alone: an event on it
   stands for no work that was done, and asking for one would end the capture. What is freed on it is its own,
   in its order, and waits for nothing else until the capture has ended; whoever asks then records the event.
   Other streams of the same capture wait for an event within it, which no ring gets. A stream of a capture
   cannot wait for others: the host does that for it, also for what it waited for before, since the graph may
   run on another stream. Frees of the capture's own streams from before it for which no event was recorded
   are left to the program, which launches the graph behind these streams' work.

   On an adopted stream that its owner has destroyed no event can be recorded: whoever needs one waits, on the
   host and without the lock, for the device.

   Streams without a line of their own are the crowd's (stream_crowd.h), whose line has the crowd's stream.
   Before an event on that, once the epoch is closed, it is made to wait for its members. A member says that
   it frees before it reads the epoch, so that the above holds for it as well. As a waiter each is for itself.

   Events are counted: a ring holds one reference, and each thread that waits on the host. The lock is held
   over backend calls that do not wait; waiting is done without it. */
#include "allocators/stream_fence.h"

#include "allocators/stream_crowd.h"
#include "base/memory/host.h"
#include "base/numbers/path.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/threads/sync.h"

#include <stdatomic.h>

/* The done_epoch of a number that no stream has: nothing is left to wait for. */
#define DONE_ALL UINT64_MAX

#define NUMBER_COUNT DAO_STREAM_FENCE_NUMBER_COUNT
#define CROWD        DAO_STREAM_FENCE_CROWD

/* Numbers of the crowd's streams begin with this one. */
#define MEMBER_FIRST (CROWD + 1)

/* An event of the backend, with what it stands for. */
typedef struct event {
    struct event *next; /* among the spare ones */
    dao_backend_event_t *backend;
    uint64_t epoch;
    uint32_t reference_count;
} event_t;

/* A line and its stream. */
typedef struct line {
    _Atomic uint64_t done_epoch; /* its frees up to here have finished */
    /* guarded by the lock */
    dao_backend_stream_t *stream; /* NULL: nobody's */
    event_t *ring[DAO_STREAM_FENCE_EVENT_MAX];
    uint32_t ring_first;
    uint32_t ring_count;
    uint64_t seen_epochs[NUMBER_COUNT]; /* the stream waits, on the device, for these frees of the others */
} line_t;

/* A stream that is to wait. */
typedef struct waiter {
    dao_backend_stream_t *stream;
    uint64_t *seen_epochs; /* its line's; NULL: it is one of the crowd */
} waiter_t;

struct dao_stream_fences {
    dao_stream_fences_now_t now;
    const dao_backend_ops_t *ops;
    dao_backend_device_t *device;
    _Atomic uint64_t shared_streams; /* bit n: stream n may use blocks that others free */
    dao_mutex_t lock;
    event_t *first_spare;
    dao_stream_crowd_t crowd;
    _Atomic uint32_t member_count; /* of the crowd */
    line_t lines[NUMBER_COUNT];    /* 0 is nobody */
};

static uint64_t bit(uint32_t stream)
{
    return UINT64_C(1) << stream;
}

static bool is_member(uint32_t stream)
{
    return stream >= MEMBER_FIRST;
}

/* Takes the lowest stream out of a set that is not empty. */
static uint32_t take_stream(uint64_t *streams)
{
    uint32_t stream = (uint32_t)__builtin_ctzll(*streams);
    *streams &= *streams - 1;
    return stream;
}

/* Closes the open epoch and returns it: frees from now on have another one. */
static uint64_t close_epoch(dao_stream_fences_t *fences)
{
    return atomic_fetch_add(&fences->now.epoch, 1);
}

static inline void raise_to(_Atomic uint64_t *epoch, uint64_t value)
{
    uint64_t before = atomic_load(epoch);
    while (before < value && !atomic_compare_exchange_weak(epoch, &before, value)) {
    }
}

static uint64_t freed_epoch(const dao_stream_fences_t *fences, const line_t *line)
{
    return atomic_load(&fences->now.freed_epochs[line - fences->lines]);
}

/* Tells what a stream must have finished for its part of a fence. */
static uint64_t needed_epoch(const dao_stream_fences_t *fences, const line_t *line,
                             const dao_stream_fence_t *fence)
{
    uint64_t epoch = freed_epoch(fences, line);
    return epoch < fence->epoch ? epoch : fence->epoch;
}

static bool line_is_done(const line_t *line, uint64_t epoch)
{
    return atomic_load(&line->done_epoch) >= epoch;
}

/* ---- events ---- */

static void event_release_locked(dao_stream_fences_t *fences, event_t *event)
{
    DAO_ASSERT(event->reference_count > 0);
    if (--event->reference_count == 0) {
        event->next = fences->first_spare;
        fences->first_spare = event;
    }
}

/* Makes an event with one reference. */
static DAO_OFF_THE_PATH dao_status_t event_make(const dao_stream_fences_t *fences, event_t **out_event)
{
    event_t *event = dao_host_calloc(1, sizeof(*event));
    if (event == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for an event behind a free");
    }
    dao_status_t status = fences->ops->event_create(fences->device, false, &event->backend);
    if (status != DAO_OK) {
        dao_host_free(event);
        return status;
    }
    event->reference_count = 1;
    *out_event = event;
    return DAO_OK;
}

/* Returns an event with one reference. */
static DAO_ON_THE_PATH dao_status_t event_take_locked(dao_stream_fences_t *fences, event_t **out_event)
{
    event_t *event = fences->first_spare;
    if (event == NULL) {
        return event_make(fences, out_event);
    }
    DAO_ASSERT(event->reference_count == 0);
    fences->first_spare = event->next;
    event->reference_count = 1;
    *out_event = event;
    return DAO_OK;
}

static event_t *ring_at(const line_t *line, uint32_t index)
{
    DAO_ASSERT(index < line->ring_count);
    return line->ring[(line->ring_first + index) % DAO_STREAM_FENCE_EVENT_MAX];
}

static void ring_drop_oldest_locked(dao_stream_fences_t *fences, line_t *line)
{
    event_t *oldest = ring_at(line, 0);
    line->ring_first = (line->ring_first + 1) % DAO_STREAM_FENCE_EVENT_MAX;
    line->ring_count--;
    event_release_locked(fences, oldest);
}

/* Notes what has finished, and drops the events that say no more. */
static void line_advance_locked(dao_stream_fences_t *fences, line_t *line, uint64_t done_epoch)
{
    raise_to(&line->done_epoch, done_epoch);
    while (line->ring_count > 0 && line_is_done(line, ring_at(line, 0)->epoch)) {
        ring_drop_oldest_locked(fences, line);
    }
}

static uint64_t line_capture(const dao_stream_fences_t *fences, const line_t *line)
{
    return dao_backend_stream_capture(fences->ops, line->stream);
}

static dao_status_t captured_error(void)
{
    return dao_error(DAO_ERR_BUSY, "the stream on which memory was freed is being captured into a graph: "
                                   "nobody else has that memory before the capture ends");
}

/* Returns an event with one reference, recorded on a line's stream. DAO_ERR_BUSY without a message: one of
   the crowd is being captured; DAO_ERR_NOT_READY without one: the stream, or one of the crowd, is gone. */
static DAO_ON_THE_PATH dao_status_t event_record_locked(dao_stream_fences_t *fences, const line_t *line,
                                                        event_t **out_event)
{
    event_t *event = NULL;
    if (dao_backend_stream_is_gone(fences->ops, line->stream)) {
        return DAO_ERR_NOT_READY;
    }
    dao_status_t status = event_take_locked(fences, &event);
    if (status != DAO_OK) {
        return status;
    }
    event->epoch = close_epoch(fences); /* before the event: frees after this may not be covered */
    if (line == &fences->lines[CROWD]) {
        status = dao_stream_crowd_follow(&fences->crowd, fences->ops);
    }
    if (status == DAO_OK) {
        status = fences->ops->event_record(event->backend, line->stream);
    }
    if (status != DAO_OK) {
        event_release_locked(fences, event);
        return status;
    }
    *out_event = event;
    return DAO_OK;
}

/* Records an event for all frees of a stream so far. DAO_ERR_BUSY without a message: it is being captured,
   which is looked at behind the event, too, since another thread may begin the capture. DAO_ERR_NOT_READY
   without one: it is gone. */
static dao_status_t line_record_locked(dao_stream_fences_t *fences, line_t *line)
{
    event_t *event = NULL;
    if (line_capture(fences, line) != 0) {
        return DAO_ERR_BUSY;
    }
    dao_status_t status = event_record_locked(fences, line, &event);
    if (status == DAO_OK && line_capture(fences, line) != 0) {
        event_release_locked(fences, event);
        status = DAO_ERR_BUSY;
    }
    if (status != DAO_OK) {
        return status;
    }
    if (line->ring_count == DAO_STREAM_FENCE_EVENT_MAX) {
        ring_drop_oldest_locked(fences, line);
    }
    DAO_ASSERT(line->ring_count == 0 || ring_at(line, line->ring_count - 1)->epoch <= event->epoch);
    line->ring[(line->ring_first + line->ring_count) % DAO_STREAM_FENCE_EVENT_MAX] = event;
    line->ring_count++;
    return DAO_OK;
}

static bool has_event_locked(const line_t *line, uint64_t epoch)
{
    return line->ring_count > 0 && ring_at(line, line->ring_count - 1)->epoch >= epoch;
}

/* Returns the earliest event that stands for a stream's frees up to an epoch, borrowed from the ring. */
static dao_status_t line_find_locked(dao_stream_fences_t *fences, line_t *line, uint64_t epoch,
                                     event_t **out_event)
{
    if (!has_event_locked(line, epoch)) {
        dao_status_t status = line_record_locked(fences, line);
        if (status != DAO_OK) {
            return status == DAO_ERR_BUSY ? captured_error() : status;
        }
    }
    uint32_t index = line->ring_count - 1;
    while (index > 0 && ring_at(line, index - 1)->epoch >= epoch) {
        index--;
    }
    *out_event = ring_at(line, index);
    return DAO_OK;
}

/* ---- validity ---- */

static bool line_is_valid_locked(const dao_stream_fences_t *fences, const line_t *line)
{
    uint64_t done_epoch = atomic_load(&line->done_epoch);
    uint64_t now_epoch = atomic_load(&fences->now.epoch);
    if (line->stream == NULL) {
        return done_epoch == DONE_ALL && line->ring_count == 0;
    }
    bool is_valid = line->ring_count <= DAO_STREAM_FENCE_EVENT_MAX && done_epoch < now_epoch;
    uint64_t epoch = done_epoch;
    for (uint32_t i = 0; i < line->ring_count && is_valid; i++) {
        const event_t *event = ring_at(line, i);
        is_valid = event->epoch > epoch && event->epoch < now_epoch && event->reference_count > 0;
        epoch = event->epoch;
    }
    return is_valid;
}

static bool is_valid_locked(const dao_stream_fences_t *fences)
{
    bool is_valid = fences->lines[0].stream == NULL;
    for (uint32_t i = 0; i < NUMBER_COUNT; i++) {
        is_valid = is_valid && line_is_valid_locked(fences, &fences->lines[i]);
    }
    for (const event_t *event = fences->first_spare; event != NULL; event = event->next) {
        is_valid = is_valid && event->reference_count == 0;
    }
    return is_valid;
}

static void lock(dao_stream_fences_t *fences)
{
    dao_mutex_lock(&fences->lock);
    DAO_ASSERT_HEAVY(is_valid_locked(fences));
}

static void unlock(dao_stream_fences_t *fences)
{
    DAO_ASSERT_HEAVY(is_valid_locked(fences));
    dao_mutex_unlock(&fences->lock);
}

void dao_stream_fences_count(const dao_stream_fences_t *fences, uint64_t *out_stream_count,
                             uint64_t *out_pending_count)
{
    *out_stream_count = atomic_load(&fences->member_count);
    *out_pending_count = 0;
    for (uint32_t i = 1; i < NUMBER_COUNT; i++) {
        const line_t *line = &fences->lines[i];
        uint64_t done_epoch = atomic_load(&line->done_epoch);
        *out_stream_count += i != CROWD && done_epoch != DONE_ALL;
        *out_pending_count += done_epoch < freed_epoch(fences, line);
    }
}

bool dao_stream_fences_is_valid(dao_stream_fences_t *fences)
{
    dao_mutex_lock(&fences->lock);
    bool is_valid = is_valid_locked(fences);
    dao_mutex_unlock(&fences->lock);
    return is_valid;
}

/* ---- start and end ---- */

/* Whoever has the line has finished. */
static void line_end_locked(dao_stream_fences_t *fences, line_t *line)
{
    line_advance_locked(fences, line, DONE_ALL);
    line->stream = NULL;
    DAO_ASSERT(line->ring_count == 0);
}

dao_status_t dao_stream_fences_create(const dao_backend_ops_t *ops, dao_backend_device_t *device,
                                      dao_stream_fences_t **out_fences)
{
    dao_stream_fences_t *fences = dao_host_calloc(1, sizeof(*fences));
    if (fences == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the table of streams");
    }
    fences->ops = ops;
    fences->device = device;
    atomic_init(&fences->now.epoch, 1);
    dao_mutex_init(&fences->lock, DAO_RANK_STREAM_FENCES);
    for (uint32_t i = 0; i < NUMBER_COUNT; i++) {
        atomic_init(&fences->lines[i].done_epoch, DONE_ALL);
    }
    *out_fences = fences;
    return DAO_OK;
}

void dao_stream_fences_destroy(dao_stream_fences_t *fences)
{
    if (fences == NULL) {
        return;
    }
    lock(fences);
    for (uint32_t i = 1; i < NUMBER_COUNT; i++) {
        line_end_locked(fences, &fences->lines[i]);
    }
    unlock(fences);
    dao_stream_crowd_close(&fences->crowd, fences->ops);
    for (event_t *event = fences->first_spare, *next; event != NULL; event = next) {
        next = event->next;
        fences->ops->event_destroy(event->backend);
        dao_host_free(event);
    }
    dao_mutex_finish(&fences->lock);
    dao_host_free(fences);
}

/* ---- numbers ---- */

static void line_begin_locked(dao_stream_fences_t *fences, line_t *line, dao_backend_stream_t *stream)
{
    DAO_ASSERT(line->ring_count == 0);
    DAO_ASSERT(atomic_load(&line->done_epoch) == DONE_ALL);
    line->stream = stream;
    atomic_store(&line->done_epoch, close_epoch(fences)); /* whoever had the line has finished */
    for (uint32_t i = 0; i < NUMBER_COUNT; i++) {
        line->seen_epochs[i] = 0;
    }
}

/* Opens the crowd, if it is not. */
static dao_status_t crowd_open(dao_stream_fences_t *fences)
{
    dao_stream_crowd_t crowd;
    dao_status_t status = dao_stream_crowd_open(&crowd, fences->ops, fences->device);
    if (status != DAO_OK) {
        return status;
    }
    lock(fences);
    if (fences->crowd.stream == NULL) {
        fences->crowd = crowd;
        line_begin_locked(fences, &fences->lines[CROWD], crowd.stream);
        crowd = (dao_stream_crowd_t){0};
    }
    unlock(fences);
    dao_stream_crowd_close(&crowd, fences->ops); /* another thread was faster */
    return DAO_OK;
}

/* Gives a stream a free line, or a slot of the crowd once that is open; *out_stream is 0 before. */
static dao_status_t number_find_locked(dao_stream_fences_t *fences, dao_backend_stream_t *stream,
                                       uint32_t *out_stream)
{
    uint32_t number = 1;
    while (number < CROWD && fences->lines[number].stream != NULL) {
        number++;
    }
    *out_stream = 0;
    if (number < CROWD) {
        line_begin_locked(fences, &fences->lines[number], stream);
        *out_stream = number;
        return DAO_OK;
    }
    if (fences->crowd.stream == NULL) {
        return fences->ops->made_streams_wait_on_host ? DAO_ERR_TOO_MANY : DAO_OK;
    }
    uint32_t index;
    dao_status_t status = dao_stream_crowd_join(&fences->crowd, stream, &index);
    if (status == DAO_OK) {
        atomic_fetch_add(&fences->member_count, 1);
        *out_stream = MEMBER_FIRST + index;
    }
    return status;
}

dao_status_t dao_stream_fences_stream_add(dao_stream_fences_t *fences, dao_backend_stream_t *stream,
                                          uint32_t *out_stream)
{
    uint32_t number = 0;
    dao_status_t status = DAO_OK;
    while (number == 0 && status == DAO_OK) {
        lock(fences);
        status = number_find_locked(fences, stream, &number);
        unlock(fences);
        if (number == 0 && status == DAO_OK) {
            status = crowd_open(fences);
        }
    }
    if (status == DAO_OK) {
        *out_stream = number;
    }
    return status;
}

static void member_remove(dao_stream_fences_t *fences, uint32_t stream)
{
    lock(fences);
    dao_stream_crowd_leave(&fences->crowd, stream - MEMBER_FIRST);
    if (atomic_fetch_sub(&fences->member_count, 1) == 1) {
        atomic_fetch_and(&fences->shared_streams, ~bit(CROWD));
        line_advance_locked(fences, &fences->lines[CROWD], close_epoch(fences)); /* all have finished */
    }
    unlock(fences);
}

void dao_stream_fences_stream_remove(dao_stream_fences_t *fences, uint32_t stream)
{
    DAO_ASSERT(stream > 0);
    if (is_member(stream)) {
        member_remove(fences, stream);
        return;
    }
    line_t *line = &fences->lines[stream];
    atomic_fetch_and(&fences->shared_streams, ~bit(stream));
    lock(fences);
    DAO_ASSERT(line->stream != NULL);
    line_end_locked(fences, line);
    unlock(fences);
}

/* Notes that one of the crowd is to free, or `is_shared`. */
static void member_note(dao_stream_fences_t *fences, uint32_t stream, bool is_shared)
{
    lock(fences);
    dao_crowd_member_t *member = &fences->crowd.members[stream - MEMBER_FIRST];
    member->freed_epoch = atomic_load(&fences->now.epoch);
    member->is_shared = member->is_shared || is_shared;
    unlock(fences);
}

void dao_stream_fences_share(dao_stream_fences_t *fences, uint32_t stream)
{
    DAO_ASSERT(stream > 0);
    uint64_t line_bit = bit(dao_stream_fence_line(stream));
    if (is_member(stream)) {
        member_note(fences, stream, true);
    }
    if ((atomic_load(&fences->shared_streams) & line_bit) == 0) {
        atomic_fetch_or(&fences->shared_streams, line_bit);
    }
}

/* ---- frees ---- */

/* Records an event for a line's frees up to an epoch where it needs one. */
static inline void line_provide_locked(dao_stream_fences_t *fences, line_t *line, uint64_t epoch)
{
    if (!has_event_locked(line, epoch) && !line_is_done(line, epoch)) {
        (void)line_record_locked(fences, line); /* whoever waits records again */
    }
}

/* Records events for the streams of a fence that need one. */
static DAO_OFF_THE_PATH void record_slow(dao_stream_fences_t *fences, const dao_stream_fence_t *fence)
{
    uint64_t streams = fence->streams;
    lock(fences);
    while (streams != 0) {
        line_t *line = &fences->lines[take_stream(&streams)];
        line_provide_locked(fences, line, needed_epoch(fences, line, fence));
    }
    unlock(fences);
}

void dao_stream_fences_record_one(dao_stream_fences_t *fences, uint32_t stream, uint64_t epoch)
{
    DAO_ASSERT(atomic_load(&fences->now.freed_epochs[stream]) >= epoch);
    lock(fences);
    line_provide_locked(fences, &fences->lines[stream], epoch);
    unlock(fences);
}

/* Notes that a stream is active. One after another means that others' frees are of interest, and one of the
   crowd waits for its own. */
static void note_use(dao_stream_fences_t *fences, uint32_t stream, uint64_t epoch)
{
    uint32_t before = atomic_load_explicit(&fences->now.latest_stream, memory_order_relaxed);
    if (before != stream || is_member(stream)) {
        atomic_store_explicit(&fences->now.latest_stream, stream, memory_order_relaxed);
        if (before != 0 || is_member(stream)) {
            raise_to(&fences->now.recorded_until, epoch + DAO_STREAM_FENCE_ALONE_COUNT);
        }
    }
}

dao_stream_fence_t dao_stream_fences_mark(dao_stream_fences_t *fences, uint32_t stream)
{
    DAO_ASSERT(stream > 0);
    uint64_t line_bit = bit(dao_stream_fence_line(stream));
    if (is_member(stream)) {
        member_note(fences, stream, false);
    }
    uint64_t epoch = atomic_load(&fences->now.epoch);
    uint64_t streams = atomic_load(&fences->shared_streams) | line_bit;
    while (streams != 0) {
        raise_to(&fences->now.freed_epochs[take_stream(&streams)], epoch);
    }
    note_use(fences, stream, epoch);
    return (dao_stream_fence_t){.streams = line_bit, .epoch = epoch};
}

void dao_stream_fences_note_own(dao_stream_fences_t *fences, uint32_t stream, uint64_t epoch)
{
    DAO_ASSERT(stream > 0 && !is_member(stream));
    raise_to(&fences->now.freed_epochs[stream], epoch);
    note_use(fences, stream, epoch);
}

void dao_stream_fences_record(dao_stream_fences_t *fences, const dao_stream_fence_t *fence)
{
    bool is_one = (fence->streams & (fence->streams - 1)) == 0;
    if (!is_one || fence->epoch <= atomic_load_explicit(&fences->now.recorded_until, memory_order_relaxed)) {
        record_slow(fences, fence);
    }
}

/* ---- what has finished ---- */

bool dao_stream_fences_is_done(const dao_stream_fences_t *fences, const dao_stream_fence_t *fence)
{
    uint64_t streams = fence->streams;
    while (streams != 0) {
        const line_t *line = &fences->lines[take_stream(&streams)];
        if (!line_is_done(line, needed_epoch(fences, line, fence))) {
            return false;
        }
    }
    return true;
}

uint64_t dao_stream_fences_done_epoch(uint32_t stream, void *fences)
{
    const dao_stream_fences_t *table = fences;
    uint64_t freed = atomic_load(&table->now.freed_epochs[stream]); /* before: it only grows */
    uint64_t done_epoch = atomic_load(&table->lines[stream].done_epoch);
    return done_epoch >= freed ? UINT64_MAX : done_epoch;
}

uint64_t dao_stream_fences_close(dao_stream_fences_t *fences)
{
    return close_epoch(fences);
}

/* The host has waited for all that a line stands for, and closed an epoch before. */
static void line_finished_locked(dao_stream_fences_t *fences, line_t *line, uint64_t epoch)
{
    line_advance_locked(fences, line, epoch);
    for (uint32_t i = 0; line == &fences->lines[CROWD] && i < fences->crowd.slot_count; i++) {
        dao_stream_crowd_finished(&fences->crowd, i, epoch);
    }
}

void dao_stream_fences_finished(dao_stream_fences_t *fences, uint32_t stream, uint64_t epoch)
{
    lock(fences);
    if (is_member(stream)) {
        dao_stream_crowd_finished(&fences->crowd, stream - MEMBER_FIRST, epoch);
    }
    for (uint32_t i = 1; i < NUMBER_COUNT; i++) {
        if (stream == 0 || stream == i) {
            line_finished_locked(fences, &fences->lines[i], epoch);
        }
    }
    unlock(fences);
}

dao_stream_fence_t dao_stream_fences_pending(const dao_stream_fences_t *fences)
{
    dao_stream_fence_t fence = {.epoch = atomic_load(&fences->now.epoch)};
    for (uint32_t i = 1; i < NUMBER_COUNT; i++) {
        const line_t *line = &fences->lines[i];
        if (!line_is_done(line, freed_epoch(fences, line))) {
            fence.streams |= bit(i);
        }
    }
    return fence;
}

/* Asks a stream's newest event, which stands for all, then the others, oldest first, as long as they have
   finished. */
static bool line_poll_locked(dao_stream_fences_t *fences, line_t *line)
{
    bool has_advanced = false;
    if (line->ring_count == 0 && line_record_locked(fences, line) != DAO_OK) {
        return false; /* the next poll tries again */
    }
    const event_t *newest = ring_at(line, line->ring_count - 1);
    if (line->ring_count > 1 && dao_stream_fence_means_ended(fences->ops->event_query(newest->backend))) {
        line_advance_locked(fences, line, newest->epoch);
        return true;
    }
    while (line->ring_count > 0) {
        const event_t *oldest = ring_at(line, 0);
        if (!dao_stream_fence_means_ended(fences->ops->event_query(oldest->backend))) {
            break;
        }
        line_advance_locked(fences, line, oldest->epoch);
        has_advanced = true;
    }
    return has_advanced;
}

bool dao_stream_fences_poll(dao_stream_fences_t *fences)
{
    bool has_advanced = false;
    dao_error_record_t record;
    dao_error_save(&record, dao_last_status());
    lock(fences);
    for (uint32_t i = 1; i < NUMBER_COUNT; i++) {
        line_t *line = &fences->lines[i];
        if (!line_is_done(line, freed_epoch(fences, line))) {
            has_advanced = line_poll_locked(fences, line) || has_advanced;
        }
    }
    unlock(fences);
    (void)dao_error_restore(&record);
    return has_advanced;
}

/* ---- waiting ---- */

/* Makes a stream wait for another one of the same capture: an edge of its graph. */
static dao_status_t join_in_capture_locked(dao_stream_fences_t *fences, const line_t *line,
                                           const waiter_t *waiter)
{
    event_t *event = NULL;
    dao_status_t status = event_record_locked(fences, line, &event);
    if (status == DAO_OK) {
        status = fences->ops->stream_wait_event(waiter->stream, event->backend);
        event_release_locked(fences, event);
    }
    return status;
}

/* Makes a stream wait for another one's frees up to an epoch. */
static dao_status_t line_wait_on_locked(dao_stream_fences_t *fences, uint32_t stream, uint64_t epoch,
                                        const waiter_t *waiter)
{
    line_t *line = &fences->lines[stream];
    if (line_is_done(line, epoch) || (waiter->seen_epochs != NULL && waiter->seen_epochs[stream] >= epoch)) {
        return DAO_OK;
    }
    event_t *event = NULL;
    dao_status_t status = line_find_locked(fences, line, epoch, &event);
    if (status == DAO_OK) {
        status = fences->ops->stream_wait_event(waiter->stream, event->backend);
    }
    if (status == DAO_OK && waiter->seen_epochs != NULL) {
        waiter->seen_epochs[stream] = event->epoch;
    }
    return status;
}

/* Waits for an event, or without one for the whole device: for later work too, but surely. */
static dao_status_t wait_for(dao_stream_fences_t *fences, const event_t *event)
{
    dao_status_t status = event != NULL ? fences->ops->event_synchronize(event->backend) : DAO_OK;
    if (event != NULL && status == DAO_OK) {
        return DAO_OK;
    }
    dao_error_record_t record;
    dao_error_save(&record, status);
    dao_status_t device_status = fences->ops->device_synchronize(fences->device);
    return status != DAO_OK ? dao_error_restore(&record) : device_status;
}

/* Waits on the host for a stream's frees up to an epoch. */
static dao_status_t line_wait(dao_stream_fences_t *fences, line_t *line, uint64_t epoch)
{
    lock(fences);
    if (line_is_done(line, epoch)) {
        unlock(fences);
        return DAO_OK;
    }
    event_t *event = NULL;
    dao_status_t status = line_find_locked(fences, line, epoch, &event);
    if (status == DAO_OK) {
        event->reference_count++;
        epoch = event->epoch;
    } else {
        epoch = close_epoch(fences); /* as of the wait for the device */
    }
    unlock(fences);
    if (status == DAO_ERR_BUSY) {
        return status; /* waiting for the device would end the capture */
    }
    status = wait_for(fences, event);
    lock(fences);
    if (dao_stream_fence_means_ended(status) && event == NULL) {
        line_finished_locked(fences, line, epoch);
    } else if (dao_stream_fence_means_ended(status)) {
        line_advance_locked(fences, line, epoch);
    }
    if (event != NULL) {
        event_release_locked(fences, event);
    }
    unlock(fences);
    return status;
}

dao_status_t dao_stream_fences_wait(dao_stream_fences_t *fences, const dao_stream_fence_t *fence)
{
    DAO_ASSERT_UNLOCKED();
    uint64_t streams = fence->streams;
    dao_status_t first_status = DAO_OK;
    dao_error_record_t record;
    while (streams != 0) {
        line_t *line = &fences->lines[take_stream(&streams)];
        dao_status_t status = line_wait(fences, line, needed_epoch(fences, line, fence));
        bool is_first = status != DAO_OK && first_status == DAO_OK;
        bool goes_on = dao_stream_fence_must_wait_elsewhere(status) &&
                       !dao_stream_fence_must_wait_elsewhere(first_status);
        if (is_first || goes_on) {
            first_status = status;
            dao_error_save(&record, status);
        }
    }
    return first_status != DAO_OK ? dao_error_restore(&record) : DAO_OK;
}

/* ---- waiting of streams ---- */

static dao_status_t wait_in_order_locked(dao_stream_fences_t *fences, const dao_stream_fence_t *fence,
                                         uint64_t streams, const waiter_t *waiter)
{
    dao_status_t status = DAO_OK;
    while (streams != 0 && status == DAO_OK) {
        uint32_t stream = take_stream(&streams);
        status =
            line_wait_on_locked(fences, stream, needed_epoch(fences, &fences->lines[stream], fence), waiter);
    }
    return status;
}

/* Makes a stream of a capture wait for another one's frees up to an epoch. The host waits, also where the
   stream itself waited before its capture, since its graph may run on another one. But those of the same
   capture, which no event of the ring stands for, are an edge of the graph. */
static dao_status_t line_wait_in_capture(dao_stream_fences_t *fences, line_t *line, uint64_t epoch,
                                         const waiter_t *waiter, uint64_t capture)
{
    dao_status_t status = DAO_OK;
    uint64_t host_epoch = epoch;
    lock(fences);
    if (capture != DAO_CAPTURE_UNKNOWN && line_capture(fences, line) == capture &&
        !line_is_done(line, epoch) && !has_event_locked(line, epoch)) {
        host_epoch = line->ring_count > 0 ? ring_at(line, line->ring_count - 1)->epoch : 0;
        status = join_in_capture_locked(fences, line, waiter);
    }
    unlock(fences);
    return status == DAO_OK ? line_wait(fences, line, host_epoch) : status;
}

static waiter_t waiter_of_locked(dao_stream_fences_t *fences, uint32_t stream)
{
    if (is_member(stream)) {
        return (waiter_t){.stream = fences->crowd.members[stream - MEMBER_FIRST].stream};
    }
    line_t *line = &fences->lines[stream];
    return (waiter_t){line->stream, line->seen_epochs};
}

dao_status_t dao_stream_fences_wait_on(dao_stream_fences_t *fences, const dao_stream_fence_t *fence,
                                       uint32_t stream)
{
    DAO_ASSERT_UNLOCKED();
    DAO_ASSERT(stream > 0);
    uint64_t streams = fence->streams & ~(is_member(stream) ? 0 : bit(stream));
    dao_status_t status = DAO_OK;
    note_use(fences, stream, atomic_load(&fences->now.epoch));
    lock(fences);
    waiter_t waiter = waiter_of_locked(fences, stream);
    uint64_t capture = streams != 0 ? dao_backend_stream_capture(fences->ops, waiter.stream) : 0;
    if (capture == 0) {
        status = wait_in_order_locked(fences, fence, streams, &waiter);
    }
    unlock(fences);
    if (status == DAO_ERR_NOT_READY) { /* one of them is gone */
        return dao_stream_fences_wait(fences, &(dao_stream_fence_t){streams, fence->epoch});
    }
    while (capture != 0 && streams != 0 && status == DAO_OK) {
        line_t *line = &fences->lines[take_stream(&streams)];
        status = line_wait_in_capture(fences, line, needed_epoch(fences, line, fence), &waiter, capture);
    }
    return status;
}
