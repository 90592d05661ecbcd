/* SPDX-License-Identifier: Apache-2.0 */
/* The search for what to make again, by the bound of the longer step. */
#ifndef DAO_PLANNING_RECOMPUTE_SEARCH_H
#define DAO_PLANNING_RECOMPUTE_SEARCH_H

#include "planning/recompute/recompute_play.h"

/* Of the best choices so many are kept, to be planned in full. */
#define DAO_RECOMPUTE_KEPT_MAX 4u

/* What makes a longer step: a rule, and what is given up whatever the rule says. */
typedef struct dao_recompute_choice {
    dao_recompute_rule_t rule;
    bool *is_given_up; /* one an access; all false: the rule alone decides */
    uint64_t bound_ns; /* of the longer step; UINT64_MAX: there is none */
} dao_recompute_choice_t;

typedef struct dao_recompute_search {
    const dao_swap_step_t *step;      /* borrowed */
    bool is_alone;                    /* nothing may be copied */
    bool (*is_cancelled)(void *user); /* NULL: it never is; asked before each try */
    void *cancel_user;
    void (*on_try)(void *user, uint32_t tries_left); /* NULL: nobody is told */
    void *try_user;
    uint32_t tries_left;
    uint64_t least_ns; /* no choice is better than this */
    dao_recompute_contents_t contents;
    dao_recompute_reach_t reach;
    dao_recompute_draft_t draft;
    dao_recompute_play_t *play;
    dao_recompute_choice_t kept[DAO_RECOMPUTE_KEPT_MAX]; /* the best one first */
    dao_recompute_choice_t tried;
} dao_recompute_search_t;

/* DAO_ERR_NO_HOST_MEMORY; dao_recompute_search_finish() follows in any case. */
DAO_NODISCARD dao_status_t dao_recompute_search_init(dao_recompute_search_t *search,
                                                     const dao_swap_step_t *step);

void dao_recompute_search_finish(dao_recompute_search_t *search);

/* Looks for choices and keeps the best ones. */
void dao_recompute_search_run(dao_recompute_search_t *search);

/* Plays a kept choice once more into a draft. False: no host memory. */
bool dao_recompute_search_replay(dao_recompute_search_t *search, const dao_recompute_choice_t *choice);

#endif
