/* SPDX-License-Identifier: Apache-2.0 */
/* What messages say of the owners of blocks. */
#ifndef DAO_ALLOCATORS_OWNER_H
#define DAO_ALLOCATORS_OWNER_H

#include <dao/observe.h>

/* Returns what an owner's block ends with, such as "dao_memory_release()". */
const char *dao_block_owner_end(dao_block_owner_t owner);

#endif
