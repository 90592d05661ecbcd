/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/simulate/again/capuchin_plan.h"

#include "base/memory/host.h"
#include "planning/recompute/capuchin.h"
#include "planning/recompute/recompute_plan.h"
#include "tools/simulate/again/recompute_player.h"

#include <inttypes.h>

/* Drafts the step with what is chosen to run again. Where runs again make more than the memory holds, more
   leaves as in our own plans; if that does not get through, it is all left to the copies. */
static bool draft_runs(dao_recompute_player_t *player, const dao_capuchin_way_t *ways, bool *is_given_up)
{
    const dao_recompute_rule_t within = {.capacity_bytes = player->draft.problem->capacity_bytes,
                                         .move_price = 1};
    const dao_recompute_rule_t without = {.capacity_bytes = UINT64_MAX, .move_price = 1};
    for (uint32_t i = 0; i < player->contents.step->access_count; i++) {
        is_given_up[i] = ways[i] == DAO_CAPUCHIN_AGAIN;
    }
    return dao_recompute_play_run(player->play, &within, is_given_up) ||
           dao_recompute_play_run(player->play, &without, is_given_up);
}

static dao_status_t draft_choice(dao_recompute_player_t *player)
{
    const dao_swap_step_t *step = player->contents.step;
    dao_capuchin_way_t *ways = dao_host_calloc((size_t)step->access_count + 1, sizeof(*ways));
    bool *is_given_up = dao_host_calloc((size_t)step->access_count + 1, sizeof(*is_given_up));
    dao_status_t status =
        ways != NULL && is_given_up != NULL
            ? dao_capuchin_choose(&player->contents, player->play, ways)
            : dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to choose what leaves a step");
    if (status == DAO_OK && !draft_runs(player, ways, is_given_up)) {
        status = dao_error(DAO_ERR_LIMIT, "too many runs again for a step of %" PRIu32 " kernels",
                           step->kernel_count);
    }
    dao_host_free(ways);
    dao_host_free(is_given_up);
    return status;
}

dao_status_t dao_capuchin_plan_make(const dao_swap_problem_t *problem, const dao_swap_plan_config_t *config,
                                    dao_recompute_plan_t **out_plan)
{
    dao_swap_problem_t bytes = *problem;
    dao_swap_step_t step;
    dao_recompute_player_t player;
    bytes.page_bytes = 0;
    dao_status_t status = dao_swap_step_init(&step, &bytes);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_recompute_player_init(&player, &step);
    status = status == DAO_OK ? draft_choice(&player) : status;
    status = status == DAO_OK ? dao_recompute_plan_draft(&player.draft, problem, config, out_plan) : status;
    dao_recompute_player_finish(&player);
    dao_swap_step_finish(&step);
    return status;
}
