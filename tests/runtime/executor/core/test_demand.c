/* SPDX-License-Identifier: Apache-2.0 */
/* Demand by kernel against an array. */
#include "base/report/fault.h"
#include "runtime/executor/core/demand.h"
#include "tests/support/suite.h"

#include <string.h>

static void sums_are_those_of_an_array(void)
{
    static int64_t model[DAO_DEMAND_KERNELS];
    uint64_t seed = dao_test_seed("demand", 7);
    uint64_t now = DAO_DEMAND_KERNELS - 100; /* soon round the corner */
    dao_demand_t demand;
    CU_ASSERT_EQUAL_FATAL(dao_demand_init(&demand), DAO_OK);
    memset(model, 0, sizeof(model));
    for (int i = 0; i < 3000; i++) {
        uint64_t first = now + dao_random_next(&seed) % 300;
        uint64_t last = first + dao_random_next(&seed) % (i % 10 == 0 ? DAO_DEMAND_KERNELS - 300 : 50);
        int64_t bytes = (int64_t)(dao_random_next(&seed) % 1000);
        dao_demand_add(&demand, first, last, bytes);
        for (uint64_t t = first; t <= last; t++) {
            model[t % DAO_DEMAND_KERNELS] += bytes;
        }
        if (i % 3 == 0) {
            dao_demand_pass(&demand, now);
            model[now++ % DAO_DEMAND_KERNELS] = 0;
        }
        int64_t most = 0;
        for (uint32_t t = 0; t < DAO_DEMAND_KERNELS; t++) {
            most = model[t] > most ? model[t] : most;
        }
        CU_ASSERT_EQUAL(dao_demand_most(&demand), (uint64_t)most);
    }
    dao_demand_finish(&demand);
}

static void what_is_taken_off_is_gone(void)
{
    dao_demand_t demand;
    CU_ASSERT_EQUAL_FATAL(dao_demand_init(&demand), DAO_OK);
    dao_demand_add(&demand, 10, 20, 5);
    dao_demand_add(&demand, 20, 30, 7);
    CU_ASSERT_EQUAL(dao_demand_most(&demand), 12);
    dao_demand_add(&demand, 10, 20, -5);
    CU_ASSERT_EQUAL(dao_demand_most(&demand), 7);
    dao_demand_add(&demand, 20, 30, -7);
    CU_ASSERT_EQUAL(dao_demand_most(&demand), 0);
    dao_demand_finish(&demand);
}

static void without_memory_it_says_so(void)
{
    dao_demand_t demand;
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, false);
    dao_status_t status = dao_demand_init(&demand);
    if (dao_fault_disarm() > 0) {
        CU_ASSERT_EQUAL(status, DAO_ERR_NO_HOST_MEMORY);
    } else {
        dao_demand_finish(&demand); /* a build without fault points */
    }
}

static CU_TestInfo tests[] = {
    {"sums are those of an array", sums_are_those_of_an_array},
    {"what is taken off is gone", what_is_taken_off_is_gone},
    {"without memory it says so", without_memory_it_says_so},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"demand", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
