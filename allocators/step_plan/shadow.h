/* SPDX-License-Identifier: Apache-2.0 */
/* What a place in pages would have if all its blocks were placed by its allocator alone: the same allocator
   once more, over pages that are numbers. It is told what the place hands out and gets back, and asked how
   many bytes that would take. Memory is never touched. Not thread-safe: the owner locks. */
#ifndef DAO_ALLOCATORS_SHADOW_H
#define DAO_ALLOCATORS_SHADOW_H

#include "allocators/allocator.h"
#include "allocators/range/range.h"

typedef struct dao_shadow dao_shadow_t;

typedef struct dao_shadow_config {
    const char *name;        /* of the place, for messages; copied */
    uint64_t page_bytes;     /* as the place has them: a power of two, at least DAO_PAGE_BYTES */
    uint64_t capacity_bytes; /* at least a page */
    uint64_t initial_bytes;  /* taken at once */
    uint64_t limit_bytes;    /* 0: none */
    dao_range_fit_t fit;
} dao_shadow_config_t;

/* DAO_ERR_NO_HOST_MEMORY; for initial_bytes DAO_ERR_LIMIT or DAO_ERR_NO_DEVICE_MEMORY. */
DAO_NODISCARD dao_status_t dao_shadow_create(const dao_shadow_config_t *config, dao_shadow_t **out_shadow);

void dao_shadow_destroy(dao_shadow_t *shadow); /* NULL is allowed */

/* Takes what a block would take, before anybody knows its address: something that stands for it, which is
   bound or dropped before the owner's lock is given up for good. NULL: without memory for it, or room in the
   place, the shadow says nothing true any more, and is to be destroyed. Streams are nobody's concern here:
   what is free is free for all. */
void *dao_shadow_take(dao_shadow_t *shadow, const dao_block_request_t *request);

/* Says where such a block came to be; one that was there before has gone unseen. False: as NULL of
   dao_shadow_take(). */
bool dao_shadow_bind(dao_shadow_t *shadow, void *stand_in, void *address, size_t size_bytes);

/* It came to be nowhere: what has been free since goes, as far as the shadow has more than `most_bytes`. */
void dao_shadow_drop(dao_shadow_t *shadow, void *stand_in, uint64_t most_bytes);

/* Frees the block at an address, if it is known. */
void dao_shadow_free(dao_shadow_t *shadow, void *address);

/* Gives back what is free, as far as the shadow has more than `most_bytes`. */
void dao_shadow_shrink(dao_shadow_t *shadow, uint64_t most_bytes);

/* As the members of dao_allocator_ops_t; DAO_ERR_LIMIT as there. */
void dao_shadow_trim(dao_shadow_t *shadow, size_t keep_bytes);
dao_status_t dao_shadow_limit_set(dao_shadow_t *shadow, size_t limit_bytes);

/* Gives what the place would have now. O(1). */
uint64_t dao_shadow_reserved(const dao_shadow_t *shadow);

/* Gives the bytes of its pages that something lives in. The cost of dao_paged_used_bytes(). */
uint64_t dao_shadow_used(const dao_shadow_t *shadow);

bool dao_shadow_is_valid(dao_shadow_t *shadow);

#endif
