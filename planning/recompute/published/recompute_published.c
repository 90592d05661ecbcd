/* SPDX-License-Identifier: Apache-2.0 */
#include "planning/recompute/published/recompute_published.h"

#include "base/memory/host.h"
#include "planning/recompute/published/capuchin.h"

#include <inttypes.h>

dao_status_t dao_recompute_capuchin_choose(const dao_recompute_player_t *player, bool *out_is_given_up)
{
    uint32_t count = player->contents.step->access_count;
    dao_capuchin_way_t *ways = dao_host_calloc((size_t)count + 1, sizeof(*ways));
    dao_status_t status =
        ways != NULL ? dao_capuchin_choose(&player->contents, player->play, ways)
                     : dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to choose what leaves a step");
    for (uint32_t i = 0; i < count && status == DAO_OK; i++) {
        out_is_given_up[i] = ways[i] == DAO_CAPUCHIN_AGAIN;
    }
    dao_host_free(ways);
    return status;
}

/* Where runs again make more than the memory holds, more leaves as in our own plans; if that does not get
   through, it is all left to the copies. */
dao_status_t dao_recompute_capuchin_draft(dao_recompute_player_t *player, const bool *is_given_up)
{
    const dao_recompute_rule_t within = {.capacity_bytes = player->draft.problem->capacity_bytes,
                                         .move_price = 1};
    const dao_recompute_rule_t without = {.capacity_bytes = UINT64_MAX, .move_price = 1};
    bool is_drafted = dao_recompute_play_run(player->play, &within, is_given_up) ||
                      dao_recompute_play_run(player->play, &without, is_given_up);
    return is_drafted ? DAO_OK
                      : dao_error(DAO_ERR_LIMIT, "too many runs again for a step of %" PRIu32 " kernels",
                                  player->contents.step->kernel_count);
}

static dao_status_t draft_capuchin(dao_recompute_player_t *player)
{
    size_t count = (size_t)player->contents.step->access_count + 1;
    bool *is_given_up = dao_host_calloc(count, sizeof(*is_given_up));
    dao_status_t status = is_given_up != NULL ? dao_recompute_capuchin_choose(player, is_given_up)
                                              : dao_error(DAO_ERR_NO_HOST_MEMORY,
                                                          "no host memory to choose what leaves a step");
    status = status == DAO_OK ? dao_recompute_capuchin_draft(player, is_given_up) : status;
    dao_host_free(is_given_up);
    return status;
}

dao_status_t dao_recompute_published_draft(dao_recompute_player_t *player, uint32_t way)
{
    return way == DAO_RECOMPUTE_CAPUCHIN
               ? draft_capuchin(player)
               : dao_recompute_baseline_draft(player, (dao_recompute_baseline_t)way);
}
