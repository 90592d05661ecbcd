/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/models/swap_pass.h"

#include "tests/support/suite.h"

#include <stdlib.h>

void swap_pass_begin(swap_pass_t *pass, const swap_step_box_t *box, uint64_t part_bytes)
{
    *pass = (swap_pass_t){0};
    CU_ASSERT_EQUAL_FATAL(dao_swap_step_init(&pass->step, &box->problem), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_swap_parts_init(&pass->parts, &pass->step, part_bytes), DAO_OK);
    pass->decisions = calloc((size_t)pass->parts.inactive_count + 1, sizeof(*pass->decisions));
    pass->kernel_bytes = calloc(pass->step.kernel_count, sizeof(*pass->kernel_bytes));
    CU_ASSERT_FATAL(pass->decisions != NULL && pass->kernel_bytes != NULL);
    for (uint32_t k = 0; k < pass->step.kernel_count; k++) {
        uint64_t least = pass->step.kernel_bytes[k], live = pass->step.live_bytes[k];
        pass->least_bytes = least > pass->least_bytes ? least : pass->least_bytes;
        pass->peak_bytes = live > pass->peak_bytes ? live : pass->peak_bytes;
    }
}

void swap_pass_end(swap_pass_t *pass)
{
    free(pass->decisions);
    free(pass->kernel_bytes);
    dao_swap_parts_finish(&pass->parts);
    dao_swap_step_finish(&pass->step);
}

void swap_pass_random(swap_step_box_t *box, uint64_t *random)
{
    const swap_step_range_t range = {
        .tensor_max = 12, .kernel_max = 20, .size_max = 60, .time_max = 100, .workspace_max = 20};
    swap_step_random(box, &range, random);
    box->problem.alignment_bytes = 1;
    box->problem.host = (dao_swap_tier_t){.in_bytes_per_second = 1000000000,
                                          .latency_ns = dao_random_next(random) % 3,
                                          .duplex = (dao_swap_duplex_t)(dao_random_next(random) % 2)};
}
