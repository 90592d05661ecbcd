/* SPDX-License-Identifier: Apache-2.0 */
/* The blocks that a program has of libdao, by their addresses. Its memory is mapped: it may be asked within
   malloc(). */
#ifndef DAO_INTEGRATIONS_BLOCK_TABLE_H
#define DAO_INTEGRATIONS_BLOCK_TABLE_H

#include <stdbool.h>
#include <stddef.h>

/* Every address in the table is a multiple of this; others are told apart without a look. */
#define DAO_BLOCK_TABLE_ALIGNMENT 64u

/* Before the first block is put in. What is asked before that is in no table. */
void dao_block_table_init(void);

/* Adds a block that is not there. False: the system has no memory for it. Threads: any. Waits: never. Cost:
   O(1). */
bool dao_block_table_put(void *address, size_t size_bytes);

/* Gives a block's size; 0 for what is none. Threads: any. Waits: never. Cost: O(1). */
size_t dao_block_table_get(const void *address);

/* The same, and takes it out. */
size_t dao_block_table_take(const void *address);

/* Taken around a fork, so that the child's table is whole. */
void dao_block_table_lock(void);
void dao_block_table_unlock(void);

#endif
