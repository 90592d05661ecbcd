/* SPDX-License-Identifier: Apache-2.0 */
/* Networks from their descriptions have as many layers, and as many operations, as those say. */
#include "bench/traces/made_step.h"
#include "tests/support/suite.h"

#include <dao/recompute.h>

#include <string.h>

/* Kernels of a step: twice the convolutions, dense layers, norms, activations, sums, pools and losses, where
   activations of VGG are in its convolutions. Activations: what all layers write, a sample, in thousands of
   numbers, counted by hand from the shapes of the papers. */
static const struct {
    const char *name;
    uint32_t kernel_count, batch;
    uint64_t first_layer_bytes;
} known[] = {
    {"VGG16", 2 * (13 + 5 + 3 + 1), 64, UINT64_C(4) * 64 * 224 * 224 * 64},
    {"VGG19", 2 * (16 + 5 + 3 + 1), 64, UINT64_C(4) * 64 * 224 * 224 * 64},
    {"ResNet50", 2 * (53 + 53 + 49 + 16 + 2 + 1 + 1), 64, UINT64_C(4) * 64 * 112 * 112 * 64},
    {"MobileNet", 2 * (27 * 3 + 1 + 1 + 1), 64, UINT64_C(4) * 64 * 112 * 112 * 32},
    {"fcn_8", 0, 16, 0},
    {"segnet", 0, 16, 0},
    {"vgg_unet", 0, 16, UINT64_C(4) * 16 * 416 * 608 * 64},
};

static void networks_have_the_layers_of_their_papers(void)
{
    for (size_t i = 0; dao_made_step_name(i) != NULL; i++) {
        dao_made_step_t step;
        CU_ASSERT_FATAL(i < sizeof(known) / sizeof(known[0]));
        CU_ASSERT_STRING_EQUAL(dao_made_step_name(i), known[i].name);
        CU_ASSERT_EQUAL_FATAL(dao_made_step(i, &step), DAO_OK);
        CU_ASSERT(known[i].kernel_count == 0 || step.problem.kernel_count == known[i].kernel_count);
        CU_ASSERT(known[i].first_layer_bytes == 0 ||
                  step.tensors[1].size_bytes == known[i].first_layer_bytes);
        dao_made_step_finish(&step);
    }
}

/* Nothing is read before it is written but the image, and every gradient is read. */
static void steps_go_forwards_and_back(void)
{
    for (size_t i = 0; dao_made_step_name(i) != NULL; i++) {
        dao_made_step_t step;
        CU_ASSERT_EQUAL_FATAL(dao_made_step(i, &step), DAO_OK);
        const dao_swap_problem_t *problem = &step.problem;
        uint32_t layers = problem->tensor_count / 2;
        bool is_written[1024] = {[0] = true}, is_read[1024] = {false};
        CU_ASSERT_FATAL(problem->tensor_count <= 1024);
        for (uint32_t k = 0; k < problem->kernel_count; k++) {
            for (uint32_t u = 0; u < problem->kernels[k].use_count; u++) {
                const dao_swap_use_t *use = &problem->kernels[k].uses[u];
                CU_ASSERT(use->access == DAO_ACCESS_WRITE || is_written[use->tensor]);
                is_written[use->tensor] = true;
                is_read[use->tensor] = is_read[use->tensor] || use->access != DAO_ACCESS_WRITE;
            }
            CU_ASSERT(problem->kernels[k].time_ns >= 5000 && problem->kernels[k].is_repeatable);
        }
        for (uint32_t t = 0; t < problem->tensor_count; t++) {
            bool has_no_gradient = t == layers || t == 2 * layers - 1; /* of the image, of the loss */
            CU_ASSERT(has_no_gradient || (is_written[t] && is_read[t]));
        }
        dao_made_step_finish(&step);
    }
}

static CU_TestInfo tests[] = {
    {"networks have the layers of their papers", networks_have_the_layers_of_their_papers},
    {"steps go forwards and back", steps_go_forwards_and_back},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"made step", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
