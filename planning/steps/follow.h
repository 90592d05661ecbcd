/* SPDX-License-Identifier: Apache-2.0 */
/* Following a script: which of its entries is it that is asked for now? With a key it is the entry with that
   key whose turn it is. Without one, it is found by the order of sizes, for each lane by itself: the program
   may leave out, add or resize requests, and is followed all the same. Not thread-safe: the owner locks.
   Needs no memory once it is made. */
#ifndef DAO_PLANNING_FOLLOW_H
#define DAO_PLANNING_FOLLOW_H

#include "planning/steps/script.h"

/* Guesses beside the leading one that a lane has at most. */
#define DAO_FOLLOW_GUESS_COUNT 6u

/* A guess: what is asked for next stands at this place of the script's order. */
typedef struct dao_follow_guess {
    uint32_t place;
    int32_t score; /* how often it was right of late: DAO_FOLLOW_SCORE_FULL is always */
} dao_follow_guess_t;

typedef struct dao_follow_lane {
    dao_follow_guess_t guesses[1 + DAO_FOLLOW_GUESS_COUNT]; /* the leading one first */
    uint32_t guess_count;                                   /* 0: nothing was asked for yet */
    uint64_t latest_units[DAO_SCRIPT_RUN];                  /* sizes, the latest last */
    uint32_t latest_count;
    uint32_t move_count; /* requests so far */
    /* What the latest one changed, if it was what the only guess expected. */
    bool is_plain;
    int32_t old_score;
    uint32_t old_count;
    uint64_t gone_units; /* the size that is one of the latest no more */
} dao_follow_lane_t;

typedef struct dao_follow {
    const dao_script_t *script; /* borrowed; NULL: there is none */
    dao_follow_lane_t lanes[DAO_LIFETIME_LANE_COUNT];
    dao_follow_lane_t before[DAO_LIFETIME_LANE_COUNT]; /* the latest request, if it was not plain */
    uint32_t *key_turns; /* for each slot of the script's keys the entry whose turn it is */
    uint32_t *serials;   /* of each entry, when it was found last */
    uint32_t serial;     /* of this pass */
} dao_follow_t;

/* Makes all that following a script needs; all zero follows nothing. DAO_ERR_NO_HOST_MEMORY: it is all zero.
   */
DAO_NODISCARD dao_status_t dao_follow_init(dao_follow_t *follow, const dao_script_t *script);
void dao_follow_finish(dao_follow_t *follow); /* zeroed memory is allowed */

/* Begins at the script's begin. O(keys). */
void dao_follow_restart(dao_follow_t *follow);

/* Gives the entry that is asked for, or DAO_SCRIPT_NONE; none is given twice in a pass. The entry may be
   smaller than what is asked for, or a good deal larger. O(1) while the script is kept to, else O(guesses)
   and a look at a few places. */
uint32_t dao_follow_next(dao_follow_t *follow, uint32_t lane, uint64_t key, uint64_t size_bytes);

/* Takes a request back that nobody could serve: what was given for it, and the lane's move_count right after
   it. Where others of that lane or key came since, nothing is done. O(1). */
void dao_follow_take_back(dao_follow_t *follow, uint32_t lane, uint64_t key, uint32_t entry,
                          uint32_t move_count);

bool dao_follow_is_valid(const dao_follow_t *follow);

#endif
