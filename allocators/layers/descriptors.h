/* SPDX-License-Identifier: Apache-2.0 */
/* A table of blocks, each with a checksum over what it says: for hardened.c. Not thread-safe: the owner
   locks. */
#ifndef DAO_ALLOCATORS_DESCRIPTORS_H
#define DAO_ALLOCATORS_DESCRIPTORS_H

#include "allocators/accounting/word.h"

typedef enum dao_descriptor_state {
    DAO_DESCRIPTOR_LIVE = 1,         /* handed out */
    DAO_DESCRIPTOR_LIVE_CHECKED = 2, /* handed out, and looked at by a check: only that may change it */
    DAO_DESCRIPTOR_FREEING = 3,      /* handed out; its free is under way */
    DAO_DESCRIPTOR_QUARANTINED = 4,  /* in quarantine */
    DAO_DESCRIPTOR_QUARANTINED_CHECKED = 5, /* in quarantine, and looked at by a check */
    DAO_DESCRIPTOR_LEAVING = 6,             /* on its way from quarantine to the inner allocator */
    DAO_DESCRIPTOR_DAMAGED = 7,             /* freed, found damaged, never used again */
    DAO_DESCRIPTOR_RETIRED = 8, /* freed, but work may still use it: nothing is looked at or filled yet */
} dao_descriptor_state_t;

typedef struct dao_descriptor {
    uint64_t address;
    uint64_t word; /* of word.h */
    uint64_t block_bytes;
    uint64_t state;    /* a dao_descriptor_state_t */
    uint64_t checksum; /* never 0 in use */
} dao_descriptor_t;

typedef struct dao_descriptors {
    dao_descriptor_t *entries; /* all zero: empty */
    size_t capacity;           /* a power of two, or 0 before the first reservation */
    size_t count;
    size_t promised_count; /* reservations that were not used yet */
    bool is_checked;       /* checksums are verified */
} dao_descriptors_t;

/* What a search has found. */
typedef struct dao_descriptor_search {
    dao_descriptor_t *descriptor; /* NULL: none has the address */
    bool is_intact;               /* the one that was found is as it was written */
    bool met_damage;              /* one on the way was not: what it describes cannot be known */
} dao_descriptor_search_t;

void dao_descriptors_init(dao_descriptors_t *descriptors, bool is_checked);
void dao_descriptors_finish(dao_descriptors_t *descriptors); /* zeroed memory is allowed */

/* Makes room for one that will come; false without memory. dao_descriptors_insert() or
   dao_descriptors_unreserve() ends it. */
bool dao_descriptors_reserve(dao_descriptors_t *descriptors);
void dao_descriptors_unreserve(dao_descriptors_t *descriptors);

/* Puts a block in, for which room was reserved. Its address is not there yet. */
void dao_descriptors_insert(dao_descriptors_t *descriptors, const void *address, uint64_t word,
                            size_t block_bytes);

dao_descriptor_search_t dao_descriptors_find(const dao_descriptors_t *descriptors, const void *address);

/* Changes the state of an intact one. */
void dao_descriptors_set_state(dao_descriptor_t *descriptor, dao_descriptor_state_t state);

/* Makes an intact one live again, with another word. */
void dao_descriptors_reuse(dao_descriptor_t *descriptor, uint64_t word);

/* Takes an intact one out. Others may move. */
void dao_descriptors_erase(dao_descriptors_t *descriptors, dao_descriptor_t *descriptor);

bool dao_descriptor_is_empty(const dao_descriptor_t *descriptor);
bool dao_descriptor_is_intact(const dao_descriptors_t *descriptors, const dao_descriptor_t *descriptor);

/* Returns true if its block is handed out, as far as counters and walks are concerned. */
static inline bool dao_descriptor_is_live(const dao_descriptor_t *descriptor)
{
    return descriptor->state <= DAO_DESCRIPTOR_FREEING;
}

/* Every one is intact and found from its address. */
bool dao_descriptors_is_valid(const dao_descriptors_t *descriptors);

#endif
