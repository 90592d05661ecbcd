/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread carries with it: the leases that it allocates under, and its current device. */
#include "base/threads/sync.h"
#include "runtime/core/thread.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

/* Leases and runtimes are told apart by their addresses alone. */
static char leases[3], runtimes[3];

static const dao_lease_t *lease(size_t i)
{
    return (const dao_lease_t *)(const void *)&leases[i];
}

static const dao_runtime_t *runtime(size_t i)
{
    return (const dao_runtime_t *)(const void *)&runtimes[i];
}

static void a_lease_is_found_by_its_device(void)
{
    dao_lease_stay_t stays[3];
    for (uint32_t i = 0; i < 3; i++) {
        stays[i] = (dao_lease_stay_t){.lease = lease(i), .runtime = runtime(i), .number = i + 5};
        CU_ASSERT_FALSE(dao_thread_is_inside(lease(i)));
        CU_ASSERT_EQUAL(dao_thread_lease_find(runtime(i)), 0);
        dao_thread_lease_enter(&stays[i]);
        CU_ASSERT_TRUE(dao_thread_is_inside(lease(i)));
        CU_ASSERT_EQUAL(dao_thread_lease_find(runtime(i)), i + 5);
        CU_ASSERT_EQUAL(dao_lease_count_of_thread, i + 1);
    }
    CU_ASSERT_PTR_EQUAL(dao_thread_lease_leave(lease(1)), &stays[1]); /* in any order */
    CU_ASSERT_FALSE(dao_thread_is_inside(lease(1)));
    CU_ASSERT_EQUAL(dao_thread_lease_find(runtime(2)), 7);
    CU_ASSERT_PTR_EQUAL(dao_thread_lease_leave(lease(2)), &stays[2]);
    CU_ASSERT_PTR_EQUAL(dao_thread_lease_leave(lease(0)), &stays[0]);
    CU_ASSERT_EQUAL(dao_lease_count_of_thread, 0);
}

static void a_request_names_the_lease_of_a_device_place(void)
{
    const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0}, pinned = {DAO_PLACE_KIND_PINNED, 0};
    dao_block_request_t request = {.size_bytes = 100, .tag = 3}, copy;
    CU_ASSERT_PTR_EQUAL(dao_thread_lease_name(&request, device, runtime(0), &copy), &request);
    dao_lease_stay_t stay = {.lease = lease(0), .runtime = runtime(0), .number = 4};
    dao_thread_lease_enter(&stay);
    const dao_block_request_t *named = dao_thread_lease_name(&request, device, runtime(0), &copy);
    CU_ASSERT_PTR_EQUAL(named, &copy);
    CU_ASSERT_EQUAL(named->lease, 4);
    CU_ASSERT_EQUAL(named->size_bytes, 100);
    CU_ASSERT_EQUAL(named->tag, 3);
    CU_ASSERT_EQUAL(dao_thread_lease_name(&request, device, runtime(1), &copy)->lease, 0);
    CU_ASSERT_PTR_EQUAL(dao_thread_lease_name(&request, pinned, runtime(0), &copy), &request);
    CU_ASSERT_PTR_EQUAL(dao_thread_lease_leave(lease(0)), &stay);
}

static void *see_own_state(void *user)
{
    int32_t *out_device = user;
    *out_device = dao_device_get_current() + (int32_t)dao_lease_count_of_thread;
    return NULL;
}

static void each_thread_has_its_own(void)
{
    dao_thread_t thread;
    int32_t seen = -1;
    dao_lease_stay_t stay = {.lease = lease(0), .runtime = runtime(0), .number = 1};
    dao_thread_lease_enter(&stay);
    dao_thread_device_set(3);
    CU_ASSERT_EQUAL(dao_device_get_current(), 3);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "other", see_own_state, &seen), DAO_OK);
    dao_thread_join(&thread);
    CU_ASSERT_EQUAL(seen, 0);
    dao_thread_device_set(0);
    CU_ASSERT_PTR_EQUAL(dao_thread_lease_leave(lease(0)), &stay);
}

static CU_TestInfo tests[] = {
    {"a lease is found by its device", a_lease_is_found_by_its_device},
    {"a request names the lease of a device place", a_request_names_the_lease_of_a_device_place},
    {"each thread has its own", each_thread_has_its_own},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"thread", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
