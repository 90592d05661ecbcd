/* Whom blocks of a place are counted for. An allocator charges a block to the tag of its request before it takes it, and
   gives the charge back when the block is freed. Limits hold exactly. Threads: any. */
#ifndef DAO_ALLOCATORS_TAGS_H
#define DAO_ALLOCATORS_TAGS_H

#include <dao/status.h>

/* Tags, 0 (nobody) included. */
#define DAO_TAG_COUNT_MAX 1024u

typedef struct dao_tags dao_tags_t;

#endif
