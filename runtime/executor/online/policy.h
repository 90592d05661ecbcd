/* SPDX-License-Identifier: Apache-2.0 */
/* Which blocks are the victims: a pure function from a read-only view of the arena to a window of
   neighbouring blocks. It takes no lock, moves nothing and reads no clock, so that the same view always
   gives the same answer. */
#ifndef DAO_RUNTIME_EXECUTOR_POLICY_H
#define DAO_RUNTIME_EXECUTOR_POLICY_H

#include <dao/executor.h>

/* A part of the arena. The blocks of a view follow each other without a hole. */
typedef struct dao_policy_block {
    uint64_t offset_bytes;
    uint64_t size_bytes;
    bool is_free;
    bool is_fixed;       /* must stay; never in a window */
    dao_victim_t victim; /* if neither free nor fixed */
} dao_policy_block_t;

typedef struct dao_policy_view {
    const dao_policy_block_t *blocks; /* in order of address */
    size_t block_count;
    uint64_t need_bytes; /* at least 1 */
    uint64_t horizon;    /* time of the latest use that is known of any tensor */
    dao_policy_t policy;
    dao_policy_score_t score; /* for DAO_POLICY_USER */
    void *score_user;
} dao_policy_view_t;

/* Chooses a window of blocks, all free or evictable, of at least need_bytes together, such that no block at
   either end could be left out. False if there is none. */
bool dao_policy_choose(const dao_policy_view_t *view, size_t *out_first, size_t *out_last);

#endif
