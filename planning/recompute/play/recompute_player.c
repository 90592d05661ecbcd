/* SPDX-License-Identifier: Apache-2.0 */
#include "planning/recompute/play/recompute_player.h"

dao_status_t dao_recompute_player_init(dao_recompute_player_t *player, const dao_swap_step_t *step)
{
    *player = (dao_recompute_player_t){.play = NULL};
    dao_status_t status = dao_recompute_contents_init(&player->contents, step);
    status = status == DAO_OK ? dao_recompute_reach_init(&player->reach, &player->contents) : status;
    status = status == DAO_OK ? dao_recompute_draft_init(&player->draft, step->problem) : status;
    return status == DAO_OK
               ? dao_recompute_play_create(&player->contents, &player->reach, &player->draft, &player->play)
               : status;
}

void dao_recompute_player_finish(dao_recompute_player_t *player)
{
    dao_recompute_play_destroy(player->play);
    dao_recompute_draft_finish(&player->draft);
    dao_recompute_reach_finish(&player->reach);
    dao_recompute_contents_finish(&player->contents);
}
