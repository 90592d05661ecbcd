/* SPDX-License-Identifier: Apache-2.0 */
/* The addresses that live blocks have, block beside block, so that one which shares a byte with another is
   seen as it comes. */
#ifndef DAO_TOOLS_LIVE_RANGES_H
#define DAO_TOOLS_LIVE_RANGES_H

#include <dao/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct dao_live_range {
    uint64_t begin, end; /* end is not included */
    uint32_t owner;      /* whose it is, a number of the caller's */
} dao_live_range_t;

/* All zero is none. */
typedef struct dao_live_ranges {
    dao_live_range_t *ranges; /* in the order of addresses, no two of them share a byte */
    size_t count, capacity;
} dao_live_ranges_t;

void dao_live_ranges_finish(dao_live_ranges_t *live);

/* Adds the range of a block. *out_other is one that it shares a byte with, until the next call: then it is
   not added, and what comes later is not compared with it; NULL: there is none. Nobody has a block of no
   bytes. DAO_ERR_NO_HOST_MEMORY with a message. Cost: O(live blocks). */
DAO_NODISCARD dao_status_t dao_live_ranges_add(dao_live_ranges_t *live, const dao_live_range_t *range,
                                               const dao_live_range_t **out_other);

/* Removes the range that begins there, if it is the owner's; it is not there if it could not be added. Cost:
   O(live blocks). */
void dao_live_ranges_remove(dao_live_ranges_t *live, uint64_t begin, uint32_t owner);

bool dao_live_ranges_is_valid(const dao_live_ranges_t *live);

#endif
