/* SPDX-License-Identifier: Apache-2.0 */
/* Small host blocks: malloc behind a table of addresses, so that a wrong free is known without touching it.
   Not thread-safe: the owner locks. */
#ifndef DAO_ALLOCATORS_MALLOC_FRONT_H
#define DAO_ALLOCATORS_MALLOC_FRONT_H

#include "allocators/accounting/ledger.h"
#include "allocators/range/word.h"

/* Blocks are multiples of this many bytes and aligned to it. */
#define DAO_MALLOC_FRONT_ALIGNMENT_BYTES 64u

typedef struct dao_malloc_front_entry {
    void *address; /* NULL: empty */
    uint64_t word; /* of word.h */
} dao_malloc_front_entry_t;

typedef struct dao_malloc_front {
    dao_ledger_t *ledger; /* borrowed from the owner; counts blocks, and their bytes as reserved */
    dao_malloc_front_entry_t *entries;
    size_t capacity; /* a power of two, or 0 before the first block */
    size_t count;
} dao_malloc_front_t;

void dao_malloc_front_init(dao_malloc_front_t *small, dao_ledger_t *ledger);

/* Frees all blocks. */
void dao_malloc_front_finish(dao_malloc_front_t *small);

/* Returns what a request takes, roundings included. */
size_t dao_malloc_front_block_bytes(size_t size_bytes);

/* DAO_ERR_NO_HOST_MEMORY; DAO_ERR_LIMIT of the request's tag or of the budget. The owner has seen to the
   limit of the place. */
dao_status_t dao_malloc_front_alloc(dao_malloc_front_t *small, const dao_block_request_t *request,
                                    void **out_address);

/* DAO_ERR_FOREIGN_POINTER, without a message, if no block begins there. O(1), and never needs memory. */
dao_status_t dao_malloc_front_free(dao_malloc_front_t *small, const void *address, dao_block_owner_t owner);

/* Finds the block around an address. DAO_ERR_FOREIGN_POINTER, without a message. O(1) for the start of a
   block, else O(blocks). */
dao_status_t dao_malloc_front_query(const dao_malloc_front_t *small, const void *address,
                                    dao_block_t *out_block);

/* Sees the blocks; each is a segment of its own. */
void dao_malloc_front_walk(const dao_malloc_front_t *small, dao_block_visit_t visit, void *user);

/* Checks the table and adds its blocks and bytes to a recount. */
bool dao_malloc_front_is_valid(const dao_malloc_front_t *small, dao_recount_t *recount);

#endif
