/* SPDX-License-Identifier: Apache-2.0 */
/* What PyTorch's caching allocator would reserve: its rules on numbers alone, from their public description
   ("CUDA memory management" of PyTorch's notes, and the comments of c10/cuda/CUDACachingAllocator.cpp):

       a request       rounded up to 512 bytes; up to 1 MiB it is small
       a block         best fit among free blocks of its kind: the smallest that is enough, of those the
   lowest without one     a segment of the system: 2 MiB for small ones, 20 MiB for those below 10 MiB, else
   the request rounded up to 2 MiB a split         of a small block where 512 bytes are left, of a large one
   where more than 1 MiB is a free block    merges with free neighbours of its segment at the limit    every
   segment that is wholly free goes back, then it is tried again

   One stream, default settings: no expandable segments, no limits of splitting or of garbage. */
#ifndef DAO_TOOLS_TORCH_POOL_H
#define DAO_TOOLS_TORCH_POOL_H

#include "tools/model/history.h"

typedef struct dao_torch_pool dao_torch_pool_t;

/* Makes an empty pool over `limit_bytes` of the device; UINT64_MAX: no limit. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_torch_pool_create(uint64_t limit_bytes, dao_torch_pool_t **out_pool);
void dao_torch_pool_destroy(dao_torch_pool_t *pool); /* NULL is allowed */

/* Allocates at least 1 byte. DAO_ERR_LIMIT, without a message: the limit leaves no room even after all free
   segments went back; DAO_ERR_NO_HOST_MEMORY. Cost: O(log n), and moving the sorted free blocks behind. */
DAO_NODISCARD dao_status_t dao_torch_pool_alloc(dao_torch_pool_t *pool, uint64_t size_bytes,
                                                uint32_t *out_block);
/* Frees a block. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_torch_pool_free(dao_torch_pool_t *pool, uint32_t block);

/* Bytes of all segments now, and at most so far: by them each rule is tested, which a history only sums up.
 */
uint64_t dao_torch_pool_reserved(const dao_torch_pool_t *pool);
uint64_t dao_torch_pool_peak(const dao_torch_pool_t *pool);

/* Blocks fill their segments, no two free neighbours, free ones sorted; sums are right. Cost: a walk. */
bool dao_torch_pool_is_valid(const dao_torch_pool_t *pool);

/* What a history comes to. */
typedef struct dao_torch_run {
    uint64_t peak_bytes;     /* reserved at most */
    uint64_t reserved_bytes; /* at the end */
    bool fits;               /* false: a request was refused, and the run ended there */
} dao_torch_run_t;

/* Replays a history: first what was alive before, in the order of its buffers. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_torch_pool_run(const dao_history_t *history, uint64_t limit_bytes,
                                              dao_torch_run_t *out_run);

#endif
