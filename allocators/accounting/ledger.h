/* SPDX-License-Identifier: Apache-2.0 */
/* What every address allocator keeps beside its blocks: its name, its counters, those of its tags, and the
   addresses of the latest frees, so that errors say what happened. Not thread-safe: the owner locks. Only
   what is atomic and what belongs to tags may be used by any thread at any time. */
#ifndef DAO_ALLOCATORS_LEDGER_H
#define DAO_ALLOCATORS_LEDGER_H

#include "allocators/accounting/budget.h"
#include "allocators/accounting/stats.h"
#include "allocators/accounting/tags.h"
#include "allocators/accounting/word.h"
#include "allocators/allocator.h"
#include "base/report/error.h"

/* Number of freed addresses that are remembered. */
#define DAO_LEDGER_FREE_COUNT 64u

typedef struct dao_ledger {
    char *name; /* the place, for messages */
    dao_stats_t stats;
    dao_tags_t *tags; /* owned */
    dao_budget_t
        *budget; /* borrowed; reserved_bytes are taken from it; NULL: from none. Set before first use */
    uint64_t capacity_bytes; /* of the device: no request is larger; 0: it is no device */
    uint64_t page_bytes;     /* of pages that can be moved to where they are needed; 0: it has none */
    _Atomic uint64_t
        cured_count; /* of stats.failed_count, those that were tried again since: no failures to a caller */
    const void *latest_frees[DAO_LEDGER_FREE_COUNT]; /* a ring, by stats.free_count; NULL where nothing was
                                                        freed yet */
} dao_ledger_t;

/* What a walk over an allocator's structures has counted, to be compared with its counters. */
typedef struct dao_recount {
    uint64_t requested_bytes;
    uint64_t used_bytes;
    uint64_t reserved_bytes;
    uint64_t live_count;
} dao_recount_t;

/* The name is copied. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_ledger_init(dao_ledger_t *ledger, const char *name);

/* Returns what is reserved to the budget: the upstream has all. Zeroed memory is allowed. */
void dao_ledger_finish(dao_ledger_t *ledger);

/* Makes a ledger for a part of the blocks of another one, which lends it its name and its tags; needs no
   finish. */
void dao_ledger_init_part(dao_ledger_t *part, const dao_ledger_t *whole);

/* Charges a block to its request's tag, before it is taken. DAO_ERR_LIMIT, with a message. Threads: any. */
DAO_NODISCARD static inline dao_status_t dao_ledger_charge(dao_ledger_t *ledger,
                                                           const dao_block_request_t *request,
                                                           uint64_t block_bytes)
{
    return __builtin_expect(request->tag == 0, true)
               ? DAO_OK
               : dao_tags_charge(ledger->tags, request->tag, block_bytes);
}

/* Takes a charge back: the block was not taken after all. Threads: any. */
static inline void dao_ledger_refund(dao_ledger_t *ledger, const dao_block_request_t *request,
                                     uint64_t block_bytes)
{
    if (request->tag != 0) {
        dao_tags_refund(ledger->tags, request->tag, block_bytes);
    }
}

/* Counts a block that was charged and is taken, off the fast path. */
static inline void dao_ledger_count_alloc(dao_ledger_t *ledger, const dao_block_request_t *request,
                                          size_t block_bytes)
{
    ledger->stats.slow_count++;
    dao_stats_count_alloc(&ledger->stats, request->size_bytes, block_bytes);
    if (__builtin_expect(request->tag != 0, false)) {
        dao_tags_count_alloc(ledger->tags, request->tag);
    }
}

/* Counts the free of a block that no tag was charged for, and remembers its address. */
static inline void dao_ledger_count_untagged_free(dao_ledger_t *ledger, const void *address,
                                                  size_t requested_bytes, size_t block_bytes)
{
    ledger->latest_frees[ledger->stats.free_count % DAO_LEDGER_FREE_COUNT] = address;
    dao_stats_count_free(&ledger->stats, requested_bytes, block_bytes);
}

/* Counts the free of a block with a word of word.h, takes its charge back, and remembers its address. */
static inline void dao_ledger_count_free(dao_ledger_t *ledger, const void *address, uint64_t word,
                                         size_t block_bytes)
{
    dao_ledger_count_untagged_free(ledger, address, dao_word_requested_bytes(word), block_bytes);
    if (__builtin_expect(dao_word_tag(word) != 0, false)) {
        dao_tags_count_free(ledger->tags, dao_word_tag(word), block_bytes);
    }
}

/* The same off the fast path. */
static inline void dao_ledger_count_free_slow(dao_ledger_t *ledger, const void *address, uint64_t word,
                                              size_t block_bytes)
{
    ledger->stats.slow_count++;
    dao_ledger_count_free(ledger, address, word, block_bytes);
}

/* Returns true if an address is among the latest frees. */
bool dao_ledger_freed_lately(const dao_ledger_t *ledger, const void *address);

/* Counts a failed allocation. Puts request, used, reserved, limit, largest hole, fragmentation and the tags
   that hold most before this thread's message, and behind it what would help; gives `status` back. */
dao_status_t dao_ledger_fail(dao_ledger_t *ledger, dao_status_t status, const dao_block_request_t *request,
                             uint64_t hole_bytes);

/* Returns the message for a free that found no block; DAO_OK passes. */
static inline dao_status_t dao_ledger_check_free(const dao_ledger_t *ledger, dao_status_t status,
                                                 const void *address)
{
    return status == DAO_OK ? DAO_OK
                            : dao_error(status, "%s: %p cannot be freed: %s", ledger->name, address,
                                        dao_status_text(status));
}

/* Logs that of a deferred free, whose caller has gone on; `name` is the place. Without a lock. */
void dao_ledger_log_free(const char *name, const void *address, dao_status_t status);

/* The same for a call that only asks for a block. */
static inline dao_status_t dao_ledger_check_query(const dao_ledger_t *ledger, dao_status_t status,
                                                  const void *address)
{
    const char *why = status == DAO_ERR_FOREIGN_POINTER ? "no live block is there" : dao_status_text(status);
    return status == DAO_OK ? DAO_OK : dao_error(status, "%s: %p: %s", ledger->name, address, why);
}

/* Returns the most that reserved_bytes may ever be, by the limit and the device; UINT64_MAX: there is
   neither. */
uint64_t dao_ledger_most(const dao_ledger_t *ledger);

/* Returns how many bytes reserved_bytes may still grow by, under the place's limit and the budget. */
uint64_t dao_ledger_room(const dao_ledger_t *ledger);

/* The part of it that the budget leaves; UINT64_MAX without one. */
uint64_t dao_ledger_budget_room(const dao_ledger_t *ledger);

/* Returns DAO_ERR_LIMIT with a message that says which limit leaves no room for so many bytes more. */
dao_status_t dao_ledger_limit_error(const dao_ledger_t *ledger, uint64_t size_bytes);

/* Takes bytes from the budget, before the upstream is asked for them. DAO_ERR_LIMIT, with a message. */
DAO_NODISCARD dao_status_t dao_ledger_grow_begin(dao_ledger_t *ledger, size_t size_bytes);
void dao_ledger_grow_cancel(dao_ledger_t *ledger, size_t size_bytes); /* the upstream has refused */
void dao_ledger_count_grow(dao_ledger_t *ledger, size_t size_bytes);  /* it has given them */

/* Why a place grows, as dao_stats_t counts it. */
typedef enum dao_grow_reason {
    DAO_GROW_REASON_LIVE,   /* live blocks leave too little */
    DAO_GROW_REASON_PIECES, /* enough is idle, in pieces that are too small */
    DAO_GROW_REASON_FENCED, /* enough is free, but streams may still use some of it */
} dao_grow_reason_t;

/* Returns why a place would grow for a block that nothing idle holds: of what is not used, streams may still
   use fenced_bytes. */
dao_grow_reason_t dao_ledger_grow_reason(const dao_ledger_t *ledger, uint64_t block_bytes,
                                         uint64_t used_bytes, uint64_t fenced_bytes);

/* Counts the reason of the growths since grow_count was `before`. */
void dao_ledger_count_reason(dao_ledger_t *ledger, dao_grow_reason_t reason, uint64_t before);

/* The upstream has got bytes back: so does the budget. */
void dao_ledger_count_shrink(dao_ledger_t *ledger, size_t size_bytes);

bool dao_ledger_matches(const dao_ledger_t *ledger, const dao_recount_t *recount);

#endif
