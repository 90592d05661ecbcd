/* SPDX-License-Identifier: Apache-2.0 */
/* A step that is played, and all that this takes. */
#ifndef DAO_PLANNING_RECOMPUTE_PLAYER_H
#define DAO_PLANNING_RECOMPUTE_PLAYER_H

#include "planning/recompute/play/recompute_play.h"

typedef struct dao_recompute_player {
    dao_recompute_contents_t contents;
    dao_recompute_reach_t reach;
    dao_recompute_draft_t draft;
    dao_recompute_play_t *play;
} dao_recompute_player_t;

/* The step is borrowed; dao_recompute_player_finish() follows in any case. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_recompute_player_init(dao_recompute_player_t *player,
                                                     const dao_swap_step_t *step);

void dao_recompute_player_finish(dao_recompute_player_t *player);

#endif
