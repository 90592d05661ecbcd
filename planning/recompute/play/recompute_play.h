/* SPDX-License-Identifier: Apache-2.0 */
/* A step played with limited memory: what has to leave is moved or made again, by a score, see
   recompute_play.c. */
#ifndef DAO_PLANNING_RECOMPUTE_PLAY_H
#define DAO_PLANNING_RECOMPUTE_PLAY_H

#include "planning/recompute/play/recompute_reach.h"
#include "planning/recompute/play/recompute_step.h"

/* Another choice of victims, of which only such leave whose content can be made again. Contents are named by
   the access that wrote them. */
typedef struct dao_recompute_judge {
    /* Returns a score; the least one leaves. `stale_ns`: time since it was last used. */
    double (*score)(void *user, uint32_t content, uint64_t size_bytes, uint64_t stale_ns);
    void (*left)(void *user, uint32_t content); /* it was given up, or is not read any more */
    void (*came)(void *user, uint32_t content); /* it has been made again */
    void *user;
} dao_recompute_judge_t;

/* By what the victims of a play are chosen. */
typedef struct dao_recompute_rule {
    uint64_t capacity_bytes;
    double move_price; /* of the time of a copy, against that of a kernel; below 0: nothing may move */
    bool is_own_cost;  /* a content costs its own kernel, not those around it that have left too */
    bool is_stale;     /* the least recently used one leaves, not that with the furthest next use */
    bool is_sizeless;  /* bytes do not count */
    bool is_holding;   /* what is given up behind its kernel holds what it is made of, where that is less */
    const dao_recompute_judge_t *judge; /* borrowed; NULL: by what stands above */
} dao_recompute_rule_t;

typedef struct dao_recompute_play dao_recompute_play_t;

/* All arguments are borrowed as long as the play. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_recompute_play_create(const dao_recompute_contents_t *contents,
                                                     const dao_recompute_reach_t *reach,
                                                     dao_recompute_draft_t *draft,
                                                     dao_recompute_play_t **out_play);

void dao_recompute_play_destroy(dao_recompute_play_t *play);

/* Plays a step and writes its runs into the draft. `is_given_up`, one an access, or NULL: what an access
   leaves goes behind it, to be made again. False: the rule does not get through with its memory, or there is
   no host memory. */
bool dao_recompute_play_run(dao_recompute_play_t *play, const dao_recompute_rule_t *rule,
                            const bool *is_given_up);

/* Returns, one an access, what was given up behind it when a step was played last. Borrowed. */
const bool *dao_recompute_play_given_up(const dao_recompute_play_t *play);

/* Returns true if what an access writes can be made again for its next use of inputs that are held for it,
   and these are less. */
bool dao_recompute_play_may_hold(const dao_recompute_play_t *play, uint32_t access);

/* Returns true if what an access leaves can be made again for its next use in the step. */
bool dao_recompute_play_may_give_up(const dao_recompute_play_t *play, uint32_t access);

#endif
