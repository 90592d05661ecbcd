/* SPDX-License-Identifier: Apache-2.0 */
/* Two directions, a thread each, between the program's memory and what is parked.

       out, in --> [ move | move | move ] --> run_direction: move_bytes() --> end_move_locked()
                    a ring for each direction      without the lock

   A parked item lives until it is released and none of its moves is queued or under way. A move in waits, as
   the first of its ring, until the move out of the same bytes has ended; moves out wait for nothing, so that
   always one of the two goes on.

   Invariants, under the lock: done_count + pending of all items == queued_count, over both directions;
   `first` begins the list of the items that live; pinned_used and file_used are the sums of their bytes, and
   of what is taken for items that are about to be linked. */
#include <dao/mover.h>

#include "allocators/range/range.h"
#include "base/files/file.h"
#include "base/internal_error.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/error.h"
#include "base/ring.h"
#include "base/threads/sync.h"
#include "runtime/core/thread.h"

#include <dao/memory.h>

#include <errno.h>
#include <inttypes.h>
#include <string.h>

/* Slots of the file begin at whole blocks of a disk. */
#define SLOT_ALIGNMENT_BYTES 4096u

struct dao_parked {
    dao_mover_t *mover;
    dao_parked_t *next, *previous; /* of all that live */
    size_t size_bytes;
    void *pinned;          /* NULL: it is in the file */
    uint64_t offset_bytes; /* in the file */
    uint32_t pending;      /* moves that are queued or under way */
    bool is_out;           /* the move out has ended */
    bool is_lost;          /* it failed: there are no bytes */
    bool is_released;
    dao_status_t status; /* the first failure of the moves since none was queued */
    int error;           /* its errno, or 0 */
};

typedef struct move {
    dao_parked_t *parked;
    char *address;
} move_t;

typedef struct direction {
    dao_mover_t *mover;
    dao_move_direction_t direction;
    dao_thread_t thread;
    bool has_thread;
    dao_cond_t work;
    dao_ring_t queue; /* of move_t */
    dao_move_direction_stats_t stats;
    _Atomic uint64_t done_count;
} direction_t;

struct dao_mover {
    int process; /* in which it was made */
    dao_place_t pinned_place;
    uint64_t pinned_limit_bytes;
    uint64_t file_limit_bytes;
    dao_file_t *file; /* NULL: there is none */
    dao_mutex_t lock; /* of what follows, and of all items */
    dao_cond_t ended; /* a move has ended */
    dao_range_t *slots;
    dao_parked_t *first;
    uint64_t parked_count, pinned_used_bytes, file_used_bytes;
    bool is_stopping;
    direction_t directions[DAO_MOVE_DIRECTION_COUNT];
};

/* A mover is not used in a forked child, nor in a segment callback, which runs under an allocator's lock. */
static dao_status_t check_caller(const dao_mover_t *mover, const char *function)
{
    return mover->process == dao_process_self()
               ? dao_thread_check()
               : dao_error(DAO_ERR_FORKED, "%s: the mover's threads are in the parent process", function);
}

static bool is_valid_locked(const dao_mover_t *mover)
{
    uint64_t count = 0, pending = 0, pinned_bytes = 0, file_bytes = 0, queued = 0, done = 0;
    for (const dao_parked_t *parked = mover->first; parked != NULL; parked = parked->next) {
        count++;
        pending += parked->pending;
        if (parked->pinned != NULL) {
            pinned_bytes += parked->size_bytes;
        } else {
            file_bytes += dao_round_up(parked->size_bytes, SLOT_ALIGNMENT_BYTES);
        }
    }
    for (int i = 0; i < DAO_MOVE_DIRECTION_COUNT; i++) {
        queued += mover->directions[i].stats.queued_count;
        done += atomic_load(&mover->directions[i].done_count);
    }
    /* a block or slot is taken before its item is linked */
    return count == mover->parked_count && done + pending == queued &&
           pinned_bytes <= mover->pinned_used_bytes && file_bytes <= mover->file_used_bytes &&
           mover->pinned_used_bytes <= mover->pinned_limit_bytes &&
           mover->file_used_bytes <= mover->file_limit_bytes;
}

/* ---- items ---- */

static void link_locked(dao_mover_t *mover, dao_parked_t *parked)
{
    parked->next = mover->first;
    if (mover->first != NULL) {
        mover->first->previous = parked;
    }
    mover->first = parked;
    mover->parked_count++;
}

/* Takes an item off the list and gives its slot back. Its pinned block is freed without the lock. */
static void unlink_locked(dao_parked_t *parked)
{
    dao_mover_t *mover = parked->mover;
    if (parked->previous != NULL) {
        parked->previous->next = parked->next;
    } else {
        mover->first = parked->next;
    }
    if (parked->next != NULL) {
        parked->next->previous = parked->previous;
    }
    mover->parked_count--;
    if (parked->pinned != NULL) {
        mover->pinned_used_bytes -= parked->size_bytes;
    } else {
        mover->file_used_bytes -= dao_round_up(parked->size_bytes, SLOT_ALIGNMENT_BYTES);
        dao_range_block_t block;
        DAO_MUST(dao_range_free(mover->slots, parked->offset_bytes, NULL, &block)); /* the item's own slot */
    }
}

static void free_parked(dao_parked_t *parked)
{
    if (parked->pinned != NULL) {
        /* only a library that was stopped before its mover refuses, and then the block is gone already */
        (void)dao_free(parked->mover->pinned_place, parked->pinned);
    }
    dao_host_free(parked);
}

/* Takes pinned memory as far as the limit has room. Called without the lock, as the place may ask callbacks
   of the program's. Returns false if the bytes have to go to the file; if the place refused, then with its
   reason, else DAO_OK. */
static bool take_pinned(dao_mover_t *mover, dao_parked_t *parked, dao_error_record_t *out_refusal)
{
    out_refusal->status = DAO_OK;
    dao_mutex_lock(&mover->lock);
    uint64_t room_bytes = mover->pinned_limit_bytes - mover->pinned_used_bytes;
    bool has_room = parked->size_bytes <= room_bytes;
    mover->pinned_used_bytes += has_room ? parked->size_bytes : 0;
    dao_mutex_unlock(&mover->lock);
    if (!has_room) {
        return false;
    }
    parked->pinned = dao_alloc(mover->pinned_place, parked->size_bytes);
    if (parked->pinned != NULL) {
        return true;
    }
    dao_error_save(out_refusal, dao_last_status());
    dao_mutex_lock(&mover->lock);
    mover->pinned_used_bytes -= parked->size_bytes;
    dao_mutex_unlock(&mover->lock);
    return false;
}

/* Tells why neither pinned memory nor the file has room. Where there is no file, the place's reason is all.
 */
static dao_status_t refuse(const dao_mover_t *mover, size_t size_bytes, uint64_t pinned_bytes,
                           uint64_t file_bytes, const dao_error_record_t *refusal)
{
    bool is_refused = refusal->status != DAO_OK;
    if (is_refused && mover->file == NULL) {
        dao_status_t status = dao_error_restore(refusal);
        dao_error_prefix("dao_mover_out: ");
        return status;
    }
    return dao_error(DAO_ERR_HOST_FULL,
                     "dao_mover_out: %zu bytes have no room: pinned memory has %" PRIu64 " of %" PRIu64
                     " bytes in use, the file %" PRIu64 " of %" PRIu64
                     "; raise pinned_bytes or file_bytes, or name a directory with more room%s%s",
                     size_bytes, pinned_bytes, mover->pinned_limit_bytes, file_bytes, mover->file_limit_bytes,
                     is_refused ? "; pinned memory: " : "", is_refused ? refusal->message : "");
}

static dao_status_t take_slot(dao_mover_t *mover, dao_parked_t *parked, const dao_error_record_t *refusal)
{
    uint64_t slot_bytes = dao_round_up(parked->size_bytes, SLOT_ALIGNMENT_BYTES);
    dao_range_request_t request = {
        .size_bytes = slot_bytes, .alignment_bytes = SLOT_ALIGNMENT_BYTES, .user = 1};
    dao_range_grant_t grant;
    dao_mutex_lock(&mover->lock);
    dao_status_t status = DAO_ERR_LIMIT;
    if (mover->file != NULL && slot_bytes <= mover->file_limit_bytes - mover->file_used_bytes) {
        status = dao_range_alloc(mover->slots, &request, &grant);
    }
    if (status == DAO_OK) {
        parked->offset_bytes = grant.offset_bytes;
        mover->file_used_bytes += slot_bytes;
    }
    uint64_t pinned_bytes = mover->pinned_used_bytes, file_bytes = mover->file_used_bytes;
    dao_mutex_unlock(&mover->lock);
    if (status == DAO_ERR_LIMIT) {
        return refuse(mover, parked->size_bytes, pinned_bytes, file_bytes, refusal);
    }
    return status == DAO_OK ? DAO_OK : dao_error(status, "dao_mover_out: no memory for the record of a slot");
}

/* ---- directions ---- */

/* Moves the bytes. Returns an errno. */
static int move_bytes(const direction_t *way, const move_t *move)
{
    dao_parked_t *parked = move->parked;
    bool is_out = way->direction == DAO_MOVE_OUT;
    if (parked->pinned == NULL) {
        return dao_file_transfer(way->mover->file, is_out ? DAO_FILE_WRITE : DAO_FILE_READ,
                                 parked->offset_bytes, move->address, parked->size_bytes);
    }
    (void)memcpy(is_out ? parked->pinned : move->address, is_out ? move->address : parked->pinned,
                 parked->size_bytes);
    return 0;
}

static dao_status_t status_of(int error)
{
    bool is_full = error == ENOSPC || error == EDQUOT || error == EFBIG;
    return error == 0 ? DAO_OK : is_full ? DAO_ERR_HOST_FULL : DAO_ERR_IO;
}

/* Notes the end of a move. Returns true if the item is to be freed: it was the last, and nobody has it. */
static bool end_move_locked(direction_t *way, dao_parked_t *parked, int error, uint64_t time_ns)
{
    way->stats.busy_ns += time_ns;
    way->stats.failed_count += error != 0;
    way->stats.moved_bytes += error == 0 ? parked->size_bytes : 0;
    if (error != 0 && parked->status == DAO_OK) {
        parked->status = status_of(error);
        parked->error = error;
    }
    if (way->direction == DAO_MOVE_OUT) {
        parked->is_out = true;
        parked->is_lost = error != 0;
    }
    parked->pending--;
    atomic_fetch_add(&way->done_count, 1);
    DAO_ASSERT_HEAVY(is_valid_locked(way->mover));
    bool is_last = parked->is_released && parked->pending == 0;
    if (is_last) {
        unlink_locked(parked);
    }
    dao_cond_broadcast(&way->mover->ended);
    return is_last;
}

static void run_move_locked(direction_t *way, const move_t *move)
{
    dao_mover_t *mover = way->mover;
    dao_parked_t *parked = move->parked;
    while (way->direction == DAO_MOVE_IN && !parked->is_out) {
        dao_cond_wait(&mover->ended, &mover->lock);
    }
    int error = parked->is_lost ? parked->error : 0; /* what never got out cannot come in */
    uint64_t time_ns = 0;
    if (!parked->is_lost) {
        dao_mutex_unlock(&mover->lock);
        uint64_t begin_ns = dao_clock_ns();
        error = move_bytes(way, move);
        time_ns = dao_clock_ns() - begin_ns;
        dao_mutex_lock(&mover->lock);
    }
    if (end_move_locked(way, parked, error, time_ns)) {
        dao_mutex_unlock(&mover->lock);
        free_parked(parked);
        dao_mutex_lock(&mover->lock);
    }
}

static void *run_direction(void *user)
{
    direction_t *way = user;
    dao_mover_t *mover = way->mover;
    dao_mutex_lock(&mover->lock);
    while (way->queue.count > 0 || !mover->is_stopping) {
        if (way->queue.count == 0) {
            dao_cond_wait(&way->work, &mover->lock);
            continue;
        }
        move_t move = *(move_t *)dao_ring_at(&way->queue, 0);
        dao_ring_pop(&way->queue);
        run_move_locked(way, &move);
    }
    dao_mutex_unlock(&mover->lock);
    return NULL;
}

static dao_status_t queue_locked(direction_t *way, dao_parked_t *parked, char *address)
{
    move_t move = {.parked = parked, .address = address};
    if (!dao_ring_push(&way->queue, &move)) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    parked->pending++;
    way->stats.queued_count++;
    dao_cond_signal(&way->work);
    return DAO_OK;
}

/* ---- begin and end ---- */

static dao_status_t start_direction(dao_mover_t *mover, dao_move_direction_t direction)
{
    direction_t *way = &mover->directions[direction];
    dao_status_t status = dao_thread_start(
        &way->thread, direction == DAO_MOVE_OUT ? "dao-move-out" : "dao-move-in", run_direction, way);
    way->has_thread = status == DAO_OK;
    return status;
}

static dao_status_t open_file(dao_mover_t *mover, const dao_mover_config_t *config)
{
    dao_status_t status = dao_file_create(config->directory, config->file_engine, &mover->file);
    if (status != DAO_OK) {
        return status;
    }
    uint64_t limit_bytes = config->file_bytes != 0 ? config->file_bytes : dao_file_free_bytes(mover->file);
    mover->file_limit_bytes =
        dao_smaller(limit_bytes, DAO_RANGE_CAPACITY_MAX) / SLOT_ALIGNMENT_BYTES * SLOT_ALIGNMENT_BYTES;
    dao_range_config_t slots = {.capacity_bytes = DAO_RANGE_CAPACITY_MAX};
    status = dao_range_create(&slots, &mover->slots);
    return status == DAO_OK ? DAO_OK : dao_error(status, "dao_mover_create: no memory for the file's slots");
}

/* Checks that there is a pinned place of the device: the first block of it would say so too late. */
static dao_status_t open_pinned(dao_mover_t *mover, const dao_mover_config_t *config)
{
    mover->pinned_place = dao_place_from_pinned(dao_pinned_place(config->pinned_device));
    mover->pinned_limit_bytes = config->pinned_bytes;
    void *block = dao_alloc(mover->pinned_place, 1);
    return block != NULL ? dao_free(mover->pinned_place, block) : dao_last_status();
}

static void init(dao_mover_t *mover)
{
    mover->process = dao_process_self();
    dao_mutex_init(&mover->lock, DAO_RANK_EXECUTOR);
    dao_cond_init(&mover->ended);
    for (int i = 0; i < DAO_MOVE_DIRECTION_COUNT; i++) {
        direction_t *way = &mover->directions[i];
        way->mover = mover;
        way->direction = (dao_move_direction_t)i;
        dao_cond_init(&way->work);
        dao_ring_init(&way->queue, sizeof(move_t));
    }
}

dao_status_t dao_mover_create(const dao_mover_config_t *config, dao_mover_t **out_mover)
{
    if (config == NULL || out_mover == NULL) {
        return dao_error_null("dao_mover_create", config == NULL ? "config" : "out_mover");
    }
    if (config->pinned_bytes == 0 && config->directory == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_mover_create: bytes can go nowhere: set pinned_bytes, "
                                          "directory, or both");
    }
    if (config->directory == NULL &&
        (config->file_bytes != 0 || config->file_engine != DAO_FILE_ENGINE_AUTO)) {
        return dao_error(DAO_ERR_INVALID,
                         "dao_mover_create: file_bytes and file_engine are of a file: set directory");
    }
    dao_status_t status = dao_thread_check();
    if (status != DAO_OK) {
        return status;
    }
    if (dao_file_engine_check(config->file_engine) != DAO_OK) {
        dao_error_prefix("dao_mover_create: ");
        return DAO_ERR_INVALID;
    }
    dao_mover_t *mover = dao_host_calloc(1, sizeof(*mover));
    if (mover == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "dao_mover_create: no memory for a mover's record");
    }
    init(mover);
    status = config->pinned_bytes > 0 ? open_pinned(mover, config) : DAO_OK;
    if (status == DAO_OK && config->directory != NULL) {
        status = open_file(mover, config);
    }
    for (int i = 0; status == DAO_OK && i < DAO_MOVE_DIRECTION_COUNT; i++) {
        status = start_direction(mover, (dao_move_direction_t)i);
    }
    if (status != DAO_OK) {
        (void)dao_mover_destroy(mover); /* nothing is queued */
        return status;
    }
    *out_mover = mover;
    return DAO_OK;
}

dao_status_t dao_mover_destroy(dao_mover_t *mover)
{
    dao_status_t status = mover != NULL ? check_caller(mover, "dao_mover_destroy") : DAO_OK;
    if (mover == NULL || status != DAO_OK) {
        return status;
    }
    dao_mutex_lock(&mover->lock);
    mover->is_stopping = true;
    for (int i = 0; i < DAO_MOVE_DIRECTION_COUNT; i++) {
        dao_cond_signal(&mover->directions[i].work);
    }
    dao_mutex_unlock(&mover->lock);
    for (int i = 0; i < DAO_MOVE_DIRECTION_COUNT; i++) {
        if (mover->directions[i].has_thread) {
            dao_thread_join(&mover->directions[i].thread);
        }
    }
    while (mover->first != NULL) {
        dao_parked_t *parked = mover->first;
        unlink_locked(parked); /* no other thread is left */
        free_parked(parked);
    }
    for (int i = 0; i < DAO_MOVE_DIRECTION_COUNT; i++) {
        dao_ring_finish(&mover->directions[i].queue);
        dao_cond_finish(&mover->directions[i].work);
    }
    dao_range_destroy(mover->slots);
    dao_file_destroy(mover->file);
    dao_cond_finish(&mover->ended);
    dao_mutex_finish(&mover->lock);
    dao_host_free(mover);
    return DAO_OK;
}

/* ---- moves ---- */

dao_status_t dao_mover_out(dao_mover_t *mover, const void *address, size_t size_bytes,
                           dao_parked_t **out_parked)
{
    if (mover == NULL || address == NULL || out_parked == NULL) {
        return dao_error_null("dao_mover_out", mover == NULL     ? "mover"
                                               : address == NULL ? "address"
                                                                 : "out_parked");
    }
    if (size_bytes == 0) {
        return dao_error(DAO_ERR_INVALID, "dao_mover_out: size_bytes is 0");
    }
    dao_status_t status;
    if ((status = dao_error_unless_range("dao_mover_out", address, size_bytes)) != DAO_OK ||
        (status = check_caller(mover, "dao_mover_out")) != DAO_OK) {
        return status;
    }
    dao_parked_t *parked = dao_host_calloc(1, sizeof(*parked));
    if (parked == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "dao_mover_out: no memory for a record");
    }
    parked->mover = mover;
    parked->size_bytes = size_bytes;
    dao_error_record_t refusal;
    if (!take_pinned(mover, parked, &refusal)) {
        status = take_slot(mover, parked, &refusal);
        if (status != DAO_OK) {
            dao_host_free(parked);
            return status;
        }
    }
    dao_mutex_lock(&mover->lock);
    link_locked(mover, parked);
    DAO_ASSERT_HEAVY(is_valid_locked(mover));
    /* the move out only reads through it */
    status = queue_locked(&mover->directions[DAO_MOVE_OUT], parked, (char *)(uintptr_t)address);
    if (status != DAO_OK) {
        unlink_locked(parked);
    }
    dao_mutex_unlock(&mover->lock);
    if (status != DAO_OK) {
        free_parked(parked);
        return dao_error(status, "dao_mover_out: no memory for the queue of moves");
    }
    *out_parked = parked;
    return DAO_OK;
}

/* Returns an item's failure, with its message. */
static dao_status_t failure_of(const dao_parked_t *parked, const char *function)
{
    return parked->status == DAO_OK ? DAO_OK
                                    : dao_error(parked->status, "%s: a move of %zu bytes failed: %s",
                                                function, parked->size_bytes, strerror(parked->error));
}

dao_status_t dao_mover_in(dao_mover_t *mover, dao_parked_t *parked, void *address)
{
    if (mover == NULL || parked == NULL || address == NULL) {
        return dao_error_null("dao_mover_in", mover == NULL    ? "mover"
                                              : parked == NULL ? "parked"
                                                               : "address");
    }
    dao_status_t status = check_caller(mover, "dao_mover_in");
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_lock(&mover->lock);
    if (parked->mover != mover || parked->is_released) {
        status = dao_error(DAO_ERR_INVALID, "dao_mover_in: these bytes are %s",
                           parked->is_released ? "released" : "another mover's");
    } else if (parked->is_lost) {
        status = failure_of(parked, "dao_mover_in");
    } else {
        status = dao_error_unless_range("dao_mover_in", address, parked->size_bytes);
    }
    if (status == DAO_OK && parked->pending == 0) { /* another try, if a move in has failed */
        parked->status = DAO_OK;
        parked->error = 0;
    }
    if (status == DAO_OK) {
        status = queue_locked(&mover->directions[DAO_MOVE_IN], parked, address);
    }
    dao_mutex_unlock(&mover->lock);
    return status != DAO_ERR_NO_HOST_MEMORY
               ? status
               : dao_error(status, "dao_mover_in: no memory for the queue of moves");
}

dao_status_t dao_parked_wait(dao_parked_t *parked)
{
    if (parked == NULL) {
        return dao_error_null("dao_parked_wait", "parked");
    }
    dao_mover_t *mover = parked->mover;
    dao_status_t status = check_caller(mover, "dao_parked_wait");
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_lock(&mover->lock);
    while (parked->pending > 0) {
        dao_cond_wait(&mover->ended, &mover->lock);
    }
    status = failure_of(parked, "dao_parked_wait");
    dao_mutex_unlock(&mover->lock);
    return status;
}

dao_status_t dao_parked_release(dao_parked_t *parked)
{
    dao_status_t status = parked != NULL ? check_caller(parked->mover, "dao_parked_release") : DAO_OK;
    if (parked == NULL || status != DAO_OK) {
        return status;
    }
    dao_mover_t *mover = parked->mover;
    dao_mutex_lock(&mover->lock);
    DAO_ASSERT_HEAVY(is_valid_locked(mover));
    bool is_again = parked->is_released; /* as far as it can be seen: while its moves are under way */
    bool is_last = !is_again && parked->pending == 0;
    parked->is_released = true;
    if (is_last) {
        unlink_locked(parked);
    }
    dao_mutex_unlock(&mover->lock);
    if (is_again) {
        return dao_error(DAO_ERR_INVALID, "dao_parked_release: these bytes are released");
    }
    if (is_last) {
        free_parked(parked);
    }
    return DAO_OK;
}

/* ---- figures ---- */

uint64_t dao_mover_done(const dao_mover_t *mover, dao_move_direction_t direction)
{
    return mover != NULL && (unsigned)direction < DAO_MOVE_DIRECTION_COUNT
               ? atomic_load(&mover->directions[direction].done_count)
               : 0;
}

dao_status_t dao_mover_stats_get(dao_mover_t *mover, dao_mover_stats_t *out_stats)
{
    if (mover == NULL || out_stats == NULL) {
        return dao_error_null("dao_mover_stats_get", mover == NULL ? "mover" : "out_stats");
    }
    dao_status_t status = check_caller(mover, "dao_mover_stats_get");
    if (status != DAO_OK) {
        return status;
    }
    dao_mutex_lock(&mover->lock);
    dao_mover_stats_t stats = {.pinned_bytes = mover->pinned_used_bytes,
                               .file_bytes = mover->file_used_bytes,
                               .parked_count = mover->parked_count};
    for (int i = 0; i < DAO_MOVE_DIRECTION_COUNT; i++) {
        stats.directions[i] = mover->directions[i].stats;
        stats.directions[i].done_count = atomic_load(&mover->directions[i].done_count);
    }
    dao_mutex_unlock(&mover->lock);
    *out_stats = stats;
    return DAO_OK;
}
