/* SPDX-License-Identifier: Apache-2.0 */
/* The search for what to make again, by the bound of the longer step. */
#ifndef DAO_PLANNING_RECOMPUTE_SEARCH_H
#define DAO_PLANNING_RECOMPUTE_SEARCH_H

#include "planning/recompute/play/recompute_player.h"

/* Where a choice comes from. The best one of each is kept, to be planned: a bound does not say of different
   choices which one has the quicker plan. */
typedef enum dao_recompute_origin {
    DAO_RECOMPUTE_ORIGIN_RULE = 0,
    DAO_RECOMPUTE_ORIGIN_HELD = 1,  /* what the best rule gives up, and all that may be made of kept inputs */
    DAO_RECOMPUTE_ORIGIN_ORDER = 2, /* Capuchin's, or where nothing is copied the least time a byte first */
    DAO_RECOMPUTE_ORIGIN_SET = 3,
} dao_recompute_origin_t;

#define DAO_RECOMPUTE_KEPT_MAX 4u

/* What makes a longer step: a rule, and what is given up whatever the rule says. */
typedef struct dao_recompute_choice {
    dao_recompute_rule_t rule;
    bool *is_given_up; /* one an access; all false: the rule alone decides */
    dao_recompute_origin_t origin;
    uint64_t bound_ns;    /* of the longer step; UINT64_MAX: there is none */
    uint64_t fingerprint; /* of its runs, where they were weighed by that bound */
} dao_recompute_choice_t;

#define DAO_RECOMPUTE_SEEN_MAX 64u

/* Kernels of the step that have a run in a window; first > last: around the step's end. */
typedef struct dao_recompute_window {
    uint32_t first, last;
} dao_recompute_window_t;

/* A longer step that was weighed. */
typedef struct dao_recompute_seen {
    uint64_t fingerprint; /* of its runs */
    uint64_t bound_ns;
    dao_recompute_window_t window; /* that decides the bound */
} dao_recompute_seen_t;

typedef struct dao_recompute_search {
    const dao_swap_step_t *step;                     /* borrowed; its cancel is asked before each try */
    bool is_alone;                                   /* nothing may be copied */
    void (*on_try)(void *user, uint32_t tries_left); /* NULL: nobody is told */
    void *try_user;
    uint32_t tries_left;
    uint64_t least_ns; /* no choice is better than this */
    dao_recompute_player_t player;
    dao_recompute_choice_t kept[DAO_RECOMPUTE_KEPT_MAX]; /* of each origin, the best one first */
    dao_recompute_choice_t tried;
    bool *ordered;                       /* of each access: what it leaves is given up by Capuchin's order */
    bool is_ordered;                     /* that has been asked for */
    dao_recompute_window_t tried_window; /* of the bound of `tried` */
    dao_recompute_window_t best_window;  /* of that of the best set */
    dao_recompute_seen_t seen[DAO_RECOMPUTE_SEEN_MAX]; /* the latest ones */
    uint32_t seen_count;                               /* of all that were weighed */
    bool is_seen;                                      /* what was tried had been weighed before */
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
