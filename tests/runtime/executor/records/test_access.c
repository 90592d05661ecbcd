/* SPDX-License-Identifier: Apache-2.0 */
/* Access lists: who needs a tensor's content next, and when nobody does any more. */
#include "runtime/executor/records/access.h"
#include "tests/support/suite.h"

#include <string.h>

static dao_managed_t tensor;
static dao_use_t uses[4];

static void reset(void)
{
    memset(&tensor, 0, sizeof(tensor));
    memset(uses, 0, sizeof(uses));
}

static void add(int i, dao_use_kind_t kind, uint64_t time)
{
    uses[i].tensor = &tensor;
    uses[i].kind = kind;
    dao_access_append(&uses[i], time);
    CU_ASSERT_TRUE(dao_access_is_valid(&tensor));
}

static void pop(int i)
{
    dao_access_pop(&uses[i]);
    CU_ASSERT_TRUE(dao_access_is_valid(&tensor));
}

static void uses_pass_in_order(void)
{
    reset();
    CU_ASSERT_EQUAL(dao_access_next_use(&tensor), DAO_TIME_NEVER);
    add(0, DAO_USE_WRITE, 3);
    add(1, DAO_USE_READ, 3); /* a request of the program has the time of the kernel after it */
    add(2, DAO_USE_READ_WRITE, 7);
    CU_ASSERT_EQUAL(dao_access_next_use(&tensor), 3);
    pop(0);
    pop(1);
    CU_ASSERT_EQUAL(tensor.last_use_time, 3);
    CU_ASSERT_EQUAL(dao_access_next_use(&tensor), 7);
    pop(2);
    CU_ASSERT_EQUAL(tensor.last_use_time, 7);
    CU_ASSERT_PTR_NULL(tensor.first_use);
    CU_ASSERT_PTR_NULL(tensor.last_use);
    add(0, DAO_USE_READ, 9); /* an item's use may be added again once it has passed */
    pop(0);
}

static void a_tensor_is_dead_without_a_handle_and_a_use(void)
{
    reset();
    CU_ASSERT_FALSE(dao_access_is_dead(&tensor)); /* its handle may be used */
    add(0, DAO_USE_READ, 1);
    tensor.is_released = true;
    CU_ASSERT_FALSE(dao_access_is_dead(&tensor));
    pop(0);
    CU_ASSERT_TRUE(dao_access_is_dead(&tensor));
}

static void a_discard_ends_the_content_that_came_before_it(void)
{
    reset();
    add(0, DAO_USE_READ, 1);
    add(1, DAO_USE_DISCARD, 2);
    add(2, DAO_USE_WRITE, 5);
    CU_ASSERT_EQUAL(dao_access_next_use(&tensor), 1);
    CU_ASSERT_FALSE(dao_access_is_dead(&tensor));
    pop(0);
    CU_ASSERT_EQUAL(dao_access_next_use(&tensor), DAO_TIME_NEVER);
    CU_ASSERT_TRUE(dao_access_is_dead(&tensor));
    pop(1);
    CU_ASSERT_FALSE(dao_access_is_dead(&tensor));
    CU_ASSERT_EQUAL(dao_access_next_use(&tensor), 5);
    pop(2);
}

static CU_TestInfo tests[] = {
    {"uses pass in order", uses_pass_in_order},
    {"a tensor is dead without a handle and a use", a_tensor_is_dead_without_a_handle_and_a_use},
    {"a discard ends the content that came before it", a_discard_ends_the_content_that_came_before_it},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"access", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
