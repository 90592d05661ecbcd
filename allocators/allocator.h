/* SPDX-License-Identifier: Apache-2.0 */
/* What every allocator of addresses offers: device memory (device_memory.c), pinned memory (pinned.c), host
   memory (host.c). Each is thread-safe and is handed what it allocates from, so that layers stack and fakes
   fit. The contract suite in tests/contract/ runs on all of them. */
#ifndef DAO_ALLOCATORS_ALLOCATOR_H
#define DAO_ALLOCATORS_ALLOCATOR_H

#include "allocators/stream_fence.h"

#include <dao/observe.h>

typedef struct dao_allocator dao_allocator_t;

/* What is asked for. */
typedef struct dao_block_request {
    size_t size_bytes;      /* at least 1 */
    size_t alignment_bytes; /* a power of two; 0, or anything below the allocator's own alignment, is that */
    uint32_t tag;           /* who the block is counted for, see tag_names.h; 0 is nobody */
    uint32_t stream; /* whose order the block follows, see stream_fence.h; 0: none, it must be idle at once */
    uint32_t lease;  /* the one it is allocated under, of lease_begin; 0: none. A layer hands it on */
    dao_block_owner_t owner; /* who alone may free the block; a layer hands it on */
    bool wants_unfenced;     /* nothing that a stream may still use, though it follows one */
} dao_block_request_t;

/* Returns the stream in whose order a request may be given what that may still use; 0: it must be idle. */
static inline uint32_t dao_block_request_order(const dao_block_request_t *request)
{
    return request->wants_unfenced ? 0 : request->stream;
}

/* Returns true if a request may be given what other streams may still use. */
static inline bool dao_block_request_takes_fenced(const dao_block_request_t *request)
{
    return dao_block_request_order(request) != 0;
}

/* What is given; undefined where alloc fails. */
typedef struct dao_block_grant {
    void *address;
    dao_stream_fence_t fence; /* what request.stream waits for before it uses the block; empty without one */
} dao_block_grant_t;

/* A block. */
typedef struct dao_block {
    void *address;
    size_t requested_bytes; /* what the caller asked for; 0 while free */
    size_t block_bytes;     /* what it takes, roundings included */
    uint32_t tag;           /* as in its request */
    uint32_t stream;
    dao_block_owner_t owner;
    bool is_idle_at_free; /* it follows no stream: free refuses a fence that is not empty */
    /* for walk_all; 0 and false for live blocks elsewhere */
    dao_block_state_t state;
    bool begins_segment; /* a new segment begins with it: it does not go on from the block before */
} dao_block_t;

/* What a lease holds. */
typedef struct dao_block_lease_stats {
    uint64_t held_bytes; /* of pages that stay where they are */
    uint64_t used_bytes; /* of its live blocks, roundings included */
    uint64_t live_count; /* live blocks */
} dao_block_lease_stats_t;

/* Addresses for blocks whose place the caller says. */
typedef struct dao_window {
    char *address;
    size_t size_bytes; /* of addresses; 0: there is no window */
    uint32_t lease;    /* a request under it lies in the window, where good fit puts it */
} dao_window_t;

/* Sees one block. Called with the allocator's lock held: it must not call the allocator. */
typedef void (*dao_block_visit_t)(const dao_block_t *block, void *user);

typedef struct dao_allocator_ops {
    const char *name; /* "caching", "pinned", "host" */

    /* DAO_ERR_OVERFLOW, DAO_ERR_LIMIT, DAO_ERR_NO_DEVICE_MEMORY, DAO_ERR_NO_HOST_MEMORY, with a message that
       gives request, used, reserved and largest hole. A failure changes nothing but failed_count. */
    dao_status_t (*alloc)(dao_allocator_t *allocator, const dao_block_request_t *request,
                          dao_block_grant_t *out_grant);

    /* The fast path to a block, for a request that has a size alone: its address. Where alloc is to be
       asked, which knows more ways, or the size is 0, it ends with dao_allocator_alloc_fallback() of the
       outermost allocator. That is no failure: it is not counted as one, and nothing is changed before. */
    void *(*alloc_fast)(dao_allocator_t *allocator, size_t size_bytes);

    /* Distinct errors, never touching the address: DAO_ERR_FOREIGN_POINTER, DAO_ERR_INTERIOR_POINTER,
       DAO_ERR_DOUBLE_FREE (the address is the start of a range that is free now, or the address of the latest
       frees), DAO_ERR_NOT_YOURS (the block has an owner). Never needs memory. `fence` says which streams may
       still use the block; NULL is none. Streams that were marked on the block are added to it. An allocator
       without streams (ops->stream_mark is NULL) takes NULL or an empty one: stream_ordered.c in front of it
       takes all. */
    dao_status_t (*free)(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence);

    /* The same for the owner of a block; free is this for DAO_BLOCK_OWNER_RAW. DAO_ERR_NOT_YOURS if it has
       another one: nothing is changed. */
    dao_status_t (*free_owned)(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence,
                               dao_block_owner_t owner);

    /* The fast path to free a block that no stream uses. Where free is to be asked, or slow_path.h says so,
       nothing is freed, and it ends with dao_allocator_free_fallback() of the outermost allocator. */
    dao_status_t (*free_fast)(dao_allocator_t *allocator, void *address);

    /* Optional, both or neither: the fast paths in the order of a stream. alloc_ordered: a block that fences
       of no other stream are on. free_ordered: frees an owner's block that no other stream is marked on, with
       a fence of that stream, and records its event where one is needed. Where alloc or free is to be asked,
       or slow_path.h says so, nothing is done, and they end with the fallbacks of the outermost allocator. */
    void *(*alloc_ordered)(dao_allocator_t *allocator, size_t size_bytes, uint32_t stream);
    dao_status_t (*free_ordered)(dao_allocator_t *allocator, void *address, uint32_t stream,
                                 dao_block_owner_t owner);

    /* Optional: marks a live block as used by one more stream, up to its free. DAO_ERR_FOREIGN_POINTER;
       DAO_ERR_INTERIOR_POINTER; DAO_ERR_UNSUPPORTED for a block that follows no stream. */
    dao_status_t (*stream_mark)(dao_allocator_t *allocator, void *address, uint32_t stream);

    /* Finds the live block that an address lies in. DAO_ERR_FOREIGN_POINTER if there is none. */
    dao_status_t (*query)(dao_allocator_t *allocator, const void *address, dao_block_t *out_block);

    /* Releases cached memory until at most keep_bytes of it are left, as far as nothing lives in it. */
    dao_status_t (*trim)(dao_allocator_t *allocator, size_t keep_bytes, size_t *out_released_bytes);

    /* 0 is no limit. DAO_ERR_LIMIT if live blocks hold more: nothing is changed. */
    dao_status_t (*limit_set)(dao_allocator_t *allocator, size_t limit_bytes);

    /* Bytes of live blocks, deferred frees reclaimed before. O(1). */
    uint64_t (*used_get)(dao_allocator_t *allocator);

    /* All counters, and the largest hole, which has to be looked for. */
    void (*stats_get)(dao_allocator_t *allocator, dao_stats_t *out_stats);

    /* Sets the peaks to what there is now. *out_peaks, where it is not NULL, is what they were: none that
       comes to be meanwhile is lost. */
    void (*stats_reset_peaks)(dao_allocator_t *allocator, dao_peaks_t *out_peaks);
    void (*walk)(dao_allocator_t *allocator, dao_block_visit_t visit, void *user); /* live blocks */

    /* Sees all that is reserved, at one moment: segment by segment, the free and the live blocks of each in
       order of address, without a gap, so that they fill it. What the alignment of a block has cost in front
       of it is shown as a free block. */
    void (*walk_all)(dao_allocator_t *allocator, dao_block_visit_t visit, void *user);

    /* Walks every structure and recounts every counter. */
    bool (*is_valid)(dao_allocator_t *allocator);

    /* Releases everything, live blocks too. */
    void (*destroy)(dao_allocator_t *allocator);

    /* Optional, both or neither; allocators of pinned memory have them. Puts a live block on a queue of
       frees, for callers that must not take the lock, and reclaims them: see pinned.h. */
    void (*free_deferred)(dao_allocator_t *allocator, void *address, dao_block_owner_t owner);
    void (*drain)(dao_allocator_t *allocator);

    /* Optional, all or none: frees in two steps, for stream_ordered.c. retire ends a live block for its owner
       and for all counters, and its place stays taken: walk_all shows it as pending, a second free is a
       double one. The answers of free; *out_block is what the block was. reclaim frees such a place; after an
       error, as free has them, it stays retired. reuse gives such a block to a request that would get one
       just like it now: else DAO_ERR_LIMIT, which counts as no failure. */
    dao_status_t (*retire)(dao_allocator_t *allocator, void *address, dao_block_owner_t owner,
                           dao_block_t *out_block);
    dao_status_t (*reclaim)(dao_allocator_t *allocator, void *address);
    dao_status_t (*reuse)(dao_allocator_t *allocator, void *address, const dao_block_request_t *request);

    /* Optional, all or none: leases. Blocks that are allocated under one lie on addresses that keep their
       memory until it ends, freed or not, and are given to requests of the same lease alone: see
       paged_lease.c. Numbers begin with 1 and are used again. begin: DAO_ERR_TOO_MANY,
       DAO_ERR_NO_HOST_MEMORY, the backend's answer. After end nobody allocates under it; its live blocks stay
       valid until they are freed. */
    dao_status_t (*lease_begin)(dao_allocator_t *allocator, uint32_t *out_lease);
    void (*lease_end)(dao_allocator_t *allocator, uint32_t lease);
    void (*lease_stats)(dao_allocator_t *allocator, uint32_t lease, dao_block_lease_stats_t *out_stats);

    /* Optional beside these: takes a block of request->lease at an address, where blocks of it lived before.
       DAO_ERR_FOREIGN_POINTER if none can have begun or reached there; DAO_ERR_BUSY if a block lives there,
       or a stream may use what did; DAO_ERR_LIMIT for the tag's; DAO_ERR_NO_HOST_MEMORY. */
    dao_status_t (*lease_resume)(dao_allocator_t *allocator, void *address,
                                 const dao_block_request_t *request, dao_block_grant_t *out_grant);

    /* Optional, all or none: a window of addresses for blocks whose place the caller says. It takes memory
       only where blocks live, and what is free in it goes where it is needed, as anywhere. window_begin:
       DAO_ERR_TOO_MANY, DAO_ERR_NO_HOST_MEMORY, the backend's answer. alloc_at takes exactly [address,
       address + size) of it, if that is free: else DAO_ERR_LIMIT without a message, which counts as no
       failure. The answers of alloc, where memory is to be brought. Such a block is freed like any other. */
    dao_status_t (*window_begin)(dao_allocator_t *allocator, dao_window_t *out_window);
    dao_status_t (*alloc_at)(dao_allocator_t *allocator, const dao_window_t *window, void *address,
                             const dao_block_request_t *request, dao_block_grant_t *out_grant);

    /* Goes with these: brings memory behind [offset, offset + size) of a window, if all of it is idle, and
       counts no block: it is idle memory then, which may go elsewhere as any other. The answers of
       alloc_at. */
    dao_status_t (*window_back)(dao_allocator_t *allocator, const dao_window_t *window, size_t offset_bytes,
                                size_t size_bytes);
} dao_allocator_ops_t;

struct dao_ledger;

/* What its owner does where an allocator's fast paths end. It is called last of all, so that they have
   nothing to keep for it and the usual path is one of jumps. */
typedef struct dao_fallback {
    void *(*alloc)(void *user, size_t size_bytes);   /* NULL: answers NULL */
    dao_status_t (*free)(void *user, void *address); /* NULL: asks the member free */
    /* NULL: answer NULL and DAO_ERR_UNSUPPORTED */
    void *(*alloc_ordered)(void *user, size_t size_bytes, uint32_t stream);
    dao_status_t (*free_ordered)(void *user, void *address, uint32_t stream, dao_block_owner_t owner);
    void *user;
} dao_fallback_t;

/* The first member of every allocator. */
struct dao_allocator {
    const dao_allocator_ops_t *ops;
    struct dao_ledger *ledger; /* its counters, its tags, and what bounds it: ledger.h; one that stands in
                                  front of another allocator has that one's */
    dao_fallback_t fallback;   /* the owner's to set, before others know of the allocator */
};

/* Where the fast paths end, and the members alloc_fast and free_fast of an allocator that has none. */
static inline void *dao_allocator_alloc_fallback(dao_allocator_t *allocator, size_t size_bytes)
{
    const dao_fallback_t *fallback = &allocator->fallback;
    return fallback->alloc != NULL ? fallback->alloc(fallback->user, size_bytes) : NULL;
}

static inline dao_status_t dao_allocator_free_fallback(dao_allocator_t *allocator, void *address)
{
    const dao_fallback_t *fallback = &allocator->fallback;
    return fallback->free != NULL ? fallback->free(fallback->user, address)
                                  : allocator->ops->free(allocator, address, NULL);
}

/* The same in the order of a stream. */
static inline void *dao_allocator_alloc_ordered_fallback(dao_allocator_t *allocator, size_t size_bytes,
                                                         uint32_t stream)
{
    const dao_fallback_t *fallback = &allocator->fallback;
    return fallback->alloc_ordered != NULL ? fallback->alloc_ordered(fallback->user, size_bytes, stream)
                                           : NULL;
}

static inline dao_status_t dao_allocator_free_ordered_fallback(dao_allocator_t *allocator, void *address,
                                                               uint32_t stream, dao_block_owner_t owner)
{
    const dao_fallback_t *fallback = &allocator->fallback;
    return fallback->free_ordered != NULL ? fallback->free_ordered(fallback->user, address, stream, owner)
                                          : DAO_ERR_UNSUPPORTED;
}

/* Takes those optional groups out of a table that the allocator behind it lacks. */
static inline void dao_allocator_ops_limit(dao_allocator_ops_t *outer, const dao_allocator_ops_t *inner)
{
    if (inner->stream_mark == NULL) {
        outer->stream_mark = NULL;
    }
    if (inner->alloc_ordered == NULL) {
        outer->alloc_ordered = NULL;
        outer->free_ordered = NULL;
    }
    if (inner->free_deferred == NULL) {
        outer->free_deferred = NULL;
        outer->drain = NULL;
    }
    if (inner->lease_begin == NULL) {
        outer->lease_begin = NULL;
        outer->lease_end = NULL;
        outer->lease_stats = NULL;
    }
    if (inner->lease_resume == NULL) {
        outer->lease_resume = NULL;
    }
    if (inner->window_begin == NULL) {
        outer->window_begin = NULL;
        outer->alloc_at = NULL;
        outer->window_back = NULL;
    }
}

static inline void *dao_allocator_outer_alloc(void *user, size_t size_bytes)
{
    return dao_allocator_alloc_fallback(user, size_bytes);
}

static inline dao_status_t dao_allocator_outer_free(void *user, void *address)
{
    return dao_allocator_free_fallback(user, address);
}

static inline void *dao_allocator_outer_alloc_ordered(void *user, size_t size_bytes, uint32_t stream)
{
    return dao_allocator_alloc_ordered_fallback(user, size_bytes, stream);
}

static inline dao_status_t dao_allocator_outer_free_ordered(void *user, void *address, uint32_t stream,
                                                            dao_block_owner_t owner)
{
    return dao_allocator_free_ordered_fallback(user, address, stream, owner);
}

/* Makes the fast paths of an allocator end where those of the one in front of it do. */
static inline void dao_allocator_stand_before(dao_allocator_t *outer, dao_allocator_t *inner)
{
    inner->fallback = (dao_fallback_t){.alloc = dao_allocator_outer_alloc,
                                       .free = dao_allocator_outer_free,
                                       .alloc_ordered = dao_allocator_outer_alloc_ordered,
                                       .free_ordered = dao_allocator_outer_free_ordered,
                                       .user = outer};
}

/* Returns true if an answer of alloc, or of what memory comes from, may be another one for less, or once
   memory is freed or given back. A limit: of the place, or of the budget, which others have taken from since
   there was room. */
static inline bool dao_allocator_is_short(dao_status_t status)
{
    return status == DAO_ERR_NO_DEVICE_MEMORY || status == DAO_ERR_NO_HOST_MEMORY || status == DAO_ERR_LIMIT;
}

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

/* Both for an owner. */
DAO_NODISCARD static inline dao_status_t dao_allocator_alloc_owned(dao_allocator_t *allocator,
                                                                   size_t size_bytes, dao_block_owner_t owner,
                                                                   void **out_address)
{
    dao_block_request_t request = {.size_bytes = size_bytes, .owner = owner};
    dao_block_grant_t grant;
    dao_status_t status = allocator->ops->alloc(allocator, &request, &grant);
    if (status == DAO_OK) {
        *out_address = grant.address;
    }
    return status;
}

static inline dao_status_t dao_allocator_free_owned(dao_allocator_t *allocator, void *address,
                                                    dao_block_owner_t owner)
{
    return allocator->ops->free_owned(allocator, address, NULL, owner);
}

#endif
