/* What every allocator of addresses offers: device memory (caching.c), pinned memory (pinned.c), host memory (host.c).
   Each is thread-safe and is handed what it allocates from, so that layers stack and fakes fit. The contract suite in
   tests/contract/ runs on all of them. */
#ifndef DAO_ALLOCATORS_ALLOCATOR_H
#define DAO_ALLOCATORS_ALLOCATOR_H

#include "allocators/holds.h"
#include "allocators/tags.h"

#include <dao/stats.h>

typedef struct dao_allocator dao_allocator_t;

/* What is asked for. */
typedef struct dao_block_request {
    size_t size_bytes;      /* at least 1 */
    size_t alignment_bytes; /* a power of two; 0, or anything below the allocator's own alignment, is that */
    uint32_t tag;           /* who the block is counted for, see tags.h; 0 is nobody */
    uint32_t stream;        /* whose order the block follows, see holds.h; 0: it must be idle at once */
} dao_block_request_t;

/* What is given; undefined where alloc fails. */
typedef struct dao_block_grant {
    void *address;
    dao_hold_t
        hold; /* what request.stream has to wait for before it uses the block; empty if request.stream is 0 */
} dao_block_grant_t;

/* A live block. */
typedef struct dao_block {
    void *address;
    size_t requested_bytes; /* what the caller asked for */
    size_t block_bytes;     /* what it takes, roundings included */
    uint32_t tag;           /* as in its request */
    uint32_t stream;
} dao_block_t;

/* Sees one live block. Called with the allocator's lock held: it must not call the allocator. */
typedef void (*dao_block_visit_t)(const dao_block_t *block, void *user);

typedef struct dao_allocator_ops {
    const char *name; /* "caching", "pinned", "host" */

    /* DAO_ERR_OVERFLOW, DAO_ERR_LIMIT, DAO_ERR_NO_DEVICE_MEMORY, DAO_ERR_NO_HOST_MEMORY, with a
       message that gives request, used, reserved and largest hole. A failure changes nothing but failed_count. */
    dao_status_t (*alloc)(dao_allocator_t *allocator, const dao_block_request_t *request,
                          dao_block_grant_t *out_grant);

    /* Distinct errors, never touching the address: DAO_ERR_FOREIGN_POINTER, DAO_ERR_INTERIOR_POINTER, DAO_ERR_DOUBLE_FREE
       (the address is the start of a range that is free now, or the address of the latest frees). Never needs memory.
       `hold` says which streams may still use the block; NULL is none. Streams that were marked on the block are added
       to it. An allocator without streams (ops->stream_mark is NULL) takes NULL or an empty one. */
    dao_status_t (*free)(dao_allocator_t *allocator, void *address, dao_hold_t *hold);

    /* Optional: marks a live block as used by one more stream, up to its free. DAO_ERR_FOREIGN_POINTER;
       DAO_ERR_INTERIOR_POINTER; DAO_ERR_UNSUPPORTED for a block that follows no stream. */
    dao_status_t (*stream_mark)(dao_allocator_t *allocator, void *address, uint32_t stream);

    /* Finds the live block that an address lies in. DAO_ERR_FOREIGN_POINTER if there is none. */
    dao_status_t (*query)(dao_allocator_t *allocator, const void *address, dao_block_t *out_block);

    /* Gives cached memory back until at most keep_bytes of it are left, as far as nothing lives in it. */
    dao_status_t (*trim)(dao_allocator_t *allocator, size_t keep_bytes, size_t *out_released_bytes);

    /* 0 is no limit. DAO_ERR_LIMIT if live blocks hold more: nothing is changed. */
    dao_status_t (*limit_set)(dao_allocator_t *allocator, size_t limit_bytes);

    /* Bytes of live blocks, deferred frees carried out before. O(1). */
    uint64_t (*used_get)(dao_allocator_t *allocator);

    /* All counters, and the largest hole, which has to be looked for. */
    void (*stats_get)(dao_allocator_t *allocator, dao_stats_t *out_stats);
    void (*stats_reset_peaks)(dao_allocator_t *allocator);
    void (*walk)(dao_allocator_t *allocator, dao_block_visit_t visit, void *user);

    /* Walks every structure and recounts every counter. */
    bool (*is_valid)(dao_allocator_t *allocator);

    /* Gives everything back, live blocks too. */
    void (*destroy)(dao_allocator_t *allocator);

    /* Optional: gives the counters of which used_bytes and requested_bytes may be read without a lock, by
       dao_stats_read(); they live as long as the allocator. */
    const dao_stats_t *(*stats_view)(dao_allocator_t *allocator);
} dao_allocator_ops_t;

/* The first member of every allocator. */
struct dao_allocator {
    const dao_allocator_ops_t *ops;
};

/* Allocates without streams and tags. */
DAO_NODISCARD static inline dao_status_t dao_allocator_alloc(dao_allocator_t *allocator, size_t size_bytes,
                                                             void **out_address)
{
    dao_block_request_t request = {.size_bytes = size_bytes};
    dao_block_grant_t grant;
    dao_status_t status = allocator->ops->alloc(allocator, &request, &grant);
    if (status == DAO_OK) {
        *out_address = grant.address;
    }
    return status;
}

/* Frees a block that nothing uses. */
static inline dao_status_t dao_allocator_free(dao_allocator_t *allocator, void *address)
{
    return allocator->ops->free(allocator, address, NULL);
}

/* Reads one field of what stats_view() gave. */
static inline uint64_t dao_stats_read(const uint64_t *field)
{
    return __atomic_load_n(field, __ATOMIC_RELAXED);
}

/* The counters that every allocator keeps, guarded by its lock. */
void dao_stats_count_alloc(dao_stats_t *stats, size_t requested_bytes, size_t block_bytes);
void dao_stats_count_free(dao_stats_t *stats, size_t requested_bytes, size_t block_bytes);
void dao_stats_count_grow(dao_stats_t *stats, size_t bytes);
void dao_stats_count_shrink(dao_stats_t *stats, size_t bytes);
void dao_stats_peaks_to_now(dao_stats_t *stats);

#endif
