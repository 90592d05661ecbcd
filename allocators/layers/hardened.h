/* SPDX-License-Identifier: Apache-2.0 */
/* An allocator around another one that finds misuse of its blocks: writes past their end, writes after their
   free, blocks freed twice long after, and damage to its own table. It costs memory and time, and is for
   tests and for hunting errors. */
#ifndef DAO_ALLOCATORS_HARDENED_H
#define DAO_ALLOCATORS_HARDENED_H

#include "allocators/allocator.h"

#include <dao/context.h>

/* Bytes of the guard behind a block, beside the rounding of its size to as many. */
#define DAO_HARDENED_GUARD_BYTES 256u

/* What the bytes are set to. */
#define DAO_HARDENED_GUARD_VALUE 0xfdu
#define DAO_HARDENED_JUNK_VALUE  0xcdu /* of a new block */
#define DAO_HARDENED_FREED_VALUE 0xddu

/* How the bytes of blocks are reached. Called with no lock held, and from any thread; may wait. */
typedef struct dao_bytes {
    dao_status_t (*fill)(void *user, void *address, uint8_t value, size_t size_bytes);

    /* Finds the first byte that is not `value`: *out_offset is its offset, or size_bytes if all are. */
    dao_status_t (*scan)(void *user, const void *address, uint8_t value, size_t size_bytes,
                         size_t *out_offset);
    void *user;
} dao_bytes_t;

typedef struct dao_hardened_config {
    const char *name;        /* the place, for messages; copied */
    uint32_t flags;          /* of dao_hardening_t */
    size_t quarantine_bytes; /* most bytes of freed blocks that are kept back; larger blocks are not */
    dao_bytes_t bytes;
} dao_hardened_config_t;

/* Takes over `inner`, which has no streams or is not asked for any, and nobody else uses any more. On failure
   `inner` stays the caller's. DAO_ERR_NO_HOST_MEMORY. The result knows no streams and leases itself:
   stream_ordered.c stands in front of it.

   Of the result, alloc and free may wait, and free may also answer DAO_ERR_CORRUPT, with the block and the
   offset of the first wrong byte; the block is then freed for its caller but never used again. A free that
   cannot reach the bytes answers what `bytes` answered and changes nothing. Damage found later, when a block
   leaves the quarantine, is logged. */
DAO_NODISCARD dao_status_t dao_hardened_create(const dao_hardened_config_t *config, dao_allocator_t *inner,
                                               dao_allocator_t **out_allocator);

/* Returns true if an allocator is a hardened one. */
bool dao_is_hardened(const dao_allocator_t *allocator);

/* Returns the allocator that a hardened one is around, borrowed. */
dao_allocator_t *dao_hardened_inner(dao_allocator_t *allocator);

/* Looks at all blocks: guards of live ones, bytes of those in quarantine, and what was found damaged before;
   and at the table. Blocks that come or go meanwhile may be left out. DAO_ERR_CORRUPT with the first damage;
   what `bytes` answered; DAO_ERR_NO_HOST_MEMORY. Waits as alloc does. */
DAO_NODISCARD dao_status_t dao_hardened_check(dao_allocator_t *allocator);

/* Returns where the descriptor of a block lies, for a debugger and for tests that damage it; NULL if there is
   none. Valid until the next alloc or free. */
void *dao_hardened_descriptor(dao_allocator_t *allocator, const void *address, size_t *out_size_bytes);

#endif
