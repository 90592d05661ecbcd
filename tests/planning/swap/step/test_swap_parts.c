/* SPDX-License-Identifier: Apache-2.0 */
/* Parts cover their tensors, and each has its inactive periods; what a tier's numbers mean. */
#include "base/report/fault.h"
#include "planning/swap/step/swap_tier.h"
#include "tests/support/models/swap_pass.h"
#include "tests/support/suite.h"

enum { ROUND_COUNT = 200 };

static swap_step_box_t box;

static void parts_cover_their_tensors(void)
{
    uint64_t random = dao_test_seed("parts", 20261122);
    for (int round = 0; round < ROUND_COUNT; round++) {
        swap_pass_t pass;
        uint64_t part_bytes = dao_random_next(&random) % 20;
        swap_pass_random(&box, &random);
        swap_pass_begin(&pass, &box, part_bytes);
        const dao_swap_parts_t *parts = &pass.parts;
        for (uint32_t t = 0; t < pass.step.tensor_count; t++) {
            uint64_t bytes = 0;
            for (uint32_t part = parts->first[t]; part < parts->first[t + 1]; part++) {
                CU_ASSERT_EQUAL(parts->tensor[part], t);
                CU_ASSERT_EQUAL(dao_swap_part_offset(parts, part), bytes);
                CU_ASSERT(dao_swap_part_size(parts, part) > 0);
                CU_ASSERT(part_bytes == 0 || dao_swap_part_size(parts, part) <= part_bytes);
                bytes += dao_swap_part_size(parts, part);
            }
            bool is_used = pass.step.first_access[t] != DAO_SWAP_NONE;
            CU_ASSERT_EQUAL(bytes, is_used ? pass.step.size_bytes[t] : 0);
        }
        for (uint32_t i = 0; i < pass.step.access_count; i++) {
            uint32_t tensor = pass.step.accesses[i].tensor;
            CU_ASSERT_EQUAL(parts->first_inactive[i + 1] - parts->first_inactive[i],
                            parts->first[tensor + 1] - parts->first[tensor]);
        }
        CU_ASSERT_EQUAL(parts->first_inactive[pass.step.access_count], parts->inactive_count);
        swap_pass_end(&pass);
    }
}

static void want_of_memory_is_said(void)
{
    dao_swap_step_t step;
    dao_swap_parts_t parts;
    swap_step_chain(&box, 4, 100, 1);
    box.problem.host.in_bytes_per_second = 1000000000;
    CU_ASSERT_EQUAL_FATAL(dao_swap_step_init(&step, &box.problem), DAO_OK);
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    for (uint64_t skip = 0; status != DAO_OK; skip++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
        status = dao_swap_parts_init(&parts, &step, 16);
        CU_ASSERT_EQUAL(dao_fault_disarm() == 0, status == DAO_OK);
    }
    CU_ASSERT_EQUAL(parts.count, 4 * 7);
    dao_swap_parts_finish(&parts);
    dao_swap_step_finish(&step);
}

static void a_tier_has_a_speed_each_way(void)
{
    dao_swap_tier_t tier = {.in_bytes_per_second = 1000000000, .latency_ns = 5};
    CU_ASSERT_EQUAL(dao_swap_out_speed(&tier), 1000000000); /* as in */
    CU_ASSERT_EQUAL(dao_swap_copy_ns(&tier, true, 100), 105);
    CU_ASSERT(!dao_swap_is_shared(&tier));
    tier.out_bytes_per_second = 500000000;
    CU_ASSERT_EQUAL(dao_swap_copy_ns(&tier, false, 100), 205);
    tier.shared_bytes_per_second = 1500000000; /* as much as both together */
    CU_ASSERT(!dao_swap_is_shared(&tier));
    tier.shared_bytes_per_second--;
    CU_ASSERT(dao_swap_is_shared(&tier));
    tier.duplex = DAO_SWAP_DUPLEX_HALF;
    CU_ASSERT(!dao_swap_is_shared(&tier));
    tier.shared_bytes_per_second = 250000000; /* also the most of one alone */
    CU_ASSERT_EQUAL(dao_swap_speed(&tier, true), 250000000);
    CU_ASSERT_EQUAL(dao_swap_speed(&tier, false), 250000000);
}

static CU_TestInfo tests[] = {
    {"parts cover their tensors", parts_cover_their_tensors},
    {"want of memory is said", want_of_memory_is_said},
    {"a tier has a speed each way", a_tier_has_a_speed_each_way},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap parts", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
