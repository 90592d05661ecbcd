/* SPDX-License-Identifier: Apache-2.0 */
/* What a place has of each tag. An allocator charges a block to the tag of its request before it takes it and
   returns the charge when the block is freed. Limits hold exactly. Threads: any, but for create and destroy.
 */
#ifndef DAO_ALLOCATORS_TAGS_H
#define DAO_ALLOCATORS_TAGS_H

#include <dao/tag.h>

/* Tags that are named when a place is short of memory. */
#define DAO_TAGS_TOP_COUNT 3

typedef struct dao_tags dao_tags_t;

/* DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_tags_create(dao_tags_t **out_tags);
void dao_tags_destroy(dao_tags_t *tags); /* NULL is allowed */

/* For a block that is about to be taken. `tag` has a name. DAO_ERR_LIMIT with a message that names it, and
   dao_error_tag(), or DAO_ERR_NO_HOST_MEMORY: nothing is changed. */
DAO_NODISCARD dao_status_t dao_tags_charge(dao_tags_t *tags, uint32_t tag, uint64_t block_bytes);
dao_status_t dao_tags_limit_error(const dao_tags_t *tags, uint32_t tag); /* that, for who knows it already */

/* A request was refused for good, and dao_error_tag() says for whose limit: attempts are not counted. */
void dao_tags_count_refused(dao_tags_t *tags, uint32_t tag);

/* Takes a charge back: the block was not taken after all. */
void dao_tags_refund(dao_tags_t *tags, uint32_t tag, uint64_t block_bytes);

/* The block was taken; its bytes are charged already. */
void dao_tags_count_alloc(dao_tags_t *tags, uint32_t tag);

/* The block was freed: takes its charge back. */
void dao_tags_count_free(dao_tags_t *tags, uint32_t tag, uint64_t block_bytes);

/* Bytes that could be charged now; UINT64_MAX without a limit. */
uint64_t dao_tags_room(const dao_tags_t *tags, uint32_t tag);

/* 0 is no limit. DAO_ERR_LIMIT, with a message, if live blocks hold more, or DAO_ERR_NO_HOST_MEMORY: the
   limit stays as it was. */
DAO_NODISCARD dao_status_t dao_tags_limit_set(dao_tags_t *tags, uint32_t tag, uint64_t limit_bytes);

void dao_tags_stats_get(const dao_tags_t *tags, uint32_t tag, dao_tag_stats_t *out_stats);

/* One of those that hold most. */
typedef struct dao_tag_share {
    uint32_t tag;
    uint64_t used_bytes;
} dao_tag_share_t;

/* Returns the tags that hold most, largest first, only those that hold something; returns their number.
   O(tags). */
uint32_t dao_tags_top(const dao_tags_t *tags, dao_tag_share_t out_top[DAO_TAGS_TOP_COUNT]);

/* While nobody allocates or frees. */
bool dao_tags_is_valid(const dao_tags_t *tags);

#endif
