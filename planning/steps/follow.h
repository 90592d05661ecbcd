/* SPDX-License-Identifier: Apache-2.0 */
/* Following a script: which of its entries is asked for now? A request with a key is the entry whose turn it
   is among those with that key. One without a key is found by its size and by where its thread is in the
   script. The program may leave out, add or resize requests. Not thread-safe: the owner locks. Needs no
   memory once it is made. */
#ifndef DAO_PLANNING_FOLLOW_H
#define DAO_PLANNING_FOLLOW_H

#include "planning/steps/script.h"

/* Sizes in a row by which a program that was lost is found again: shorter runs come twice in most steps. */
#define DAO_FOLLOW_RUN 4u

/* Places on either side of the expected one where a size is looked for. With 32, entries of that size that
   are others are taken for it: 0.4 % fewer requests of deviating steps are planned. With 8, resnet50's
   recorded step finds fewer. */
#define DAO_FOLLOW_LOOK 16u

/* Where a thread is in its part of the script's order. */
typedef struct dao_follow_position {
    uint32_t expected; /* the place that comes next */
    uint32_t shifted;  /* the place that comes next if the latest requests were entries; or DAO_SCRIPT_NONE */
    uint32_t miss_run; /* requests in a row that were found nowhere */
    uint64_t latest_units[DAO_FOLLOW_RUN]; /* sizes, the latest last; 0: there was none */
} dao_follow_position_t;

typedef struct dao_follow {
    const dao_script_t *script; /* borrowed; NULL: there is none */
    dao_follow_position_t positions[DAO_LIFETIME_SLOT_COUNT];
    uint32_t *key_turns; /* for each slot of the script's keys, the entry whose turn it is */
    uint32_t *serials;   /* of each entry: the pass in which it was found last */
    uint32_t serial;     /* of this pass */
} dao_follow_t;

/* Makes all that following a script needs; all zero follows nothing. DAO_ERR_NO_HOST_MEMORY: it is all
   zero. */
DAO_NODISCARD dao_status_t dao_follow_init(dao_follow_t *follow, const dao_script_t *script);
void dao_follow_finish(dao_follow_t *follow); /* zeroed memory is allowed */

/* Begins at the script's begin. O(keys). */
void dao_follow_restart(dao_follow_t *follow);

/* Returns the entry that is asked for, or DAO_SCRIPT_NONE; none is returned twice in a pass. Of an entry
   found by its key the size may be any. O(1) while the script is kept to, else O(DAO_FOLLOW_LOOK); where many
   requests in a row are found nowhere, some of them cost O(entries). */
uint32_t dao_follow_next(dao_follow_t *follow, uint32_t slot, uint64_t key, uint64_t size_bytes);

bool dao_follow_is_valid(const dao_follow_t *follow);

#endif
