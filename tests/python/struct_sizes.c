/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the size of each structure that python/dao/torch/library.py declares again, for test_library.py. */
#include <dao/dao.h>

#include <stdio.h>

#define PRINT_SIZE(name, type) printf("%s %zu\n", #name, sizeof(type))

int main(void)
{
    PRINT_SIZE(Place, dao_place_t);
    PRINT_SIZE(Stats, dao_stats_t);
    PRINT_SIZE(Peaks, dao_peaks_t);
    PRINT_SIZE(MoverConfig, dao_mover_config_t);
    PRINT_SIZE(DirectionStats, dao_move_direction_stats_t);
    PRINT_SIZE(MoverStats, dao_mover_stats_t);
    PRINT_SIZE(SwapTensor, dao_swap_tensor_t);
    PRINT_SIZE(SwapUse, dao_swap_use_t);
    PRINT_SIZE(SwapKernel, dao_swap_kernel_t);
    PRINT_SIZE(SwapTier, dao_swap_tier_t);
    PRINT_SIZE(SwapProblem, dao_swap_problem_t);
    PRINT_SIZE(SwapBound, dao_swap_bound_t);
    PRINT_SIZE(SwapCopy, dao_swap_copy_t);
    PRINT_SIZE(SwapSchedule, dao_swap_schedule_t);
    PRINT_SIZE(SwapPlanConfig, dao_swap_plan_config_t);
    PRINT_SIZE(SwapAction, dao_swap_action_t);
    return 0;
}
