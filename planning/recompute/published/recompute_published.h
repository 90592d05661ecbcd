/* SPDX-License-Identifier: Apache-2.0 */
/* Published ways to choose what runs again, each as a longer step that our planner places. That flatters
   them: what memory still lacks, or runs again need themselves, leaves as in our own plans. */
#ifndef DAO_PLANNING_RECOMPUTE_PUBLISHED_H
#define DAO_PLANNING_RECOMPUTE_PUBLISHED_H

#include "planning/recompute/play/recompute_player.h"
#include "planning/recompute/published/recompute_baselines.h"

/* Capuchin's order, which copies as well, is behind those of recompute_baselines.h, which copy nothing. */
enum {
    DAO_RECOMPUTE_CAPUCHIN = DAO_RECOMPUTE_BASELINE_COUNT,
    DAO_RECOMPUTE_PUBLISHED_COUNT = DAO_RECOMPUTE_CAPUCHIN + 1,
};

/* Says of each access whether Capuchin's order gives up what it leaves, to be made again.
   DAO_ERR_STOPPED by the step's cancel; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_recompute_capuchin_choose(const dao_recompute_player_t *player,
                                                         bool *out_is_given_up);

/* Drafts that. As dao_recompute_published_draft(). */
DAO_NODISCARD dao_status_t dao_recompute_capuchin_draft(dao_recompute_player_t *player,
                                                        const bool *is_given_up);

/* Drafts what a way, below DAO_RECOMPUTE_PUBLISHED_COUNT, would run again, in the capacity of the player's
   problem. DAO_ERR_LIMIT, with a message: it does not get through, or runs more than four times the step's
   kernels; DAO_ERR_STOPPED; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_recompute_published_draft(dao_recompute_player_t *player, uint32_t way);

#endif
