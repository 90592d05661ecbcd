/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks of libdao that a program holds, by address. The table's own memory is mapped, so it may be used
   inside malloc(). */
#ifndef DAO_INTEGRATIONS_BLOCK_TABLE_H
#define DAO_INTEGRATIONS_BLOCK_TABLE_H

#include <stdbool.h>
#include <stddef.h>

/* Every address in the table is a multiple of this; others are ruled out without a lookup. */
#define DAO_BLOCK_TABLE_ALIGNMENT 64u

/* Comes before the first put. Lookups before it find nothing. */
void dao_block_table_init(void);

/* Adds a block that is not in the table. Returns false if the system has no memory. Threads: any. Waits:
   never. Cost: O(1). */
bool dao_block_table_put(void *address, size_t size_bytes);

/* Returns a block's size, or 0 for an unknown address. Threads: any. Waits: never. Cost: O(1). */
size_t dao_block_table_get(const void *address);

/* The same, and removes the block. */
size_t dao_block_table_take(const void *address);

/* Held around a fork, so that the child's table is consistent. */
void dao_block_table_lock(void);
void dao_block_table_unlock(void);

#endif
