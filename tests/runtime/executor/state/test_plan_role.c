/* SPDX-License-Identifier: Apache-2.0 */
/* Roles of a plan: a role and its tensor name each other, and its slot serves one copy out at a time. */
#include "runtime/executor/state/plan_role.h"
#include "tests/support/suite.h"

#include <string.h>

static dao_managed_t tensor, other;
static dao_plan_role_t role;
static char slot, own_slot;

static void begin(void)
{
    memset(&tensor, 0, sizeof(tensor));
    memset(&other, 0, sizeof(other));
    memset(&role, 0, sizeof(role));
}

static void a_role_goes_from_tensor_to_tensor(void)
{
    begin();
    CU_ASSERT_TRUE(dao_plan_role_is_valid(&role));
    dao_plan_role_bind(&role, &tensor);
    CU_ASSERT_PTR_EQUAL(tensor.plan_role, &role);
    CU_ASSERT_TRUE(dao_plan_role_is_valid(&role));
    dao_plan_role_unbind(&tensor);
    CU_ASSERT_PTR_NULL(role.tensor);
    dao_plan_role_bind(&role, &other);
    dao_plan_role_unbind(&tensor); /* it has none any more */
    CU_ASSERT_PTR_EQUAL(role.tensor, &other);
    tensor.plan_role = &role;
    role.tensor = &tensor;
    other.plan_role = NULL;
    CU_ASSERT_TRUE(dao_plan_role_is_valid(&role));
    tensor.plan_role = NULL;
    CU_ASSERT_FALSE(dao_plan_role_is_valid(&role));
}

static void a_slot_is_taken_behind_its_last_use(void)
{
    dao_fence_t busy = {0};
    begin();
    CU_ASSERT_PTR_NULL(dao_plan_role_take_slot(&tensor, &busy)); /* no role */
    dao_plan_role_bind(&role, &tensor);
    CU_ASSERT_PTR_NULL(dao_plan_role_take_slot(&tensor, &busy)); /* no slot */
    role.slot = &slot;
    dao_fence_add(&role.slot_busy, DAO_STREAM_ROLE_H2D, 7);
    CU_ASSERT_PTR_EQUAL(dao_plan_role_take_slot(&tensor, &busy), &slot);
    CU_ASSERT_EQUAL(dao_fence_number(&busy, DAO_STREAM_ROLE_H2D), 7);
    tensor.host_address = &slot;
    CU_ASSERT_PTR_NULL(dao_plan_role_take_slot(&tensor, &busy)); /* in use */
    CU_ASSERT_TRUE(dao_plan_role_has_slot(&tensor, &slot));
    CU_ASSERT_FALSE(dao_plan_role_has_slot(&tensor, &own_slot));
}

static void only_the_roles_slot_goes_back_to_it(void)
{
    begin();
    tensor.host_address = &own_slot;
    CU_ASSERT_FALSE(dao_plan_role_give_slot(&tensor));
    dao_plan_role_bind(&role, &tensor);
    role.slot = &slot;
    CU_ASSERT_FALSE(dao_plan_role_give_slot(&tensor));
    tensor.host_address = &slot;
    dao_fence_add(&tensor.host_busy, DAO_STREAM_ROLE_D2H, 9);
    CU_ASSERT_TRUE(dao_plan_role_give_slot(&tensor));
    CU_ASSERT_EQUAL(dao_fence_number(&role.slot_busy, DAO_STREAM_ROLE_D2H), 9);
}

static void a_slot_is_needed_where_the_plan_says_so(void)
{
    begin();
    CU_ASSERT_FALSE(dao_plan_role_needs_slot(&tensor));
    dao_plan_role_bind(&role, &tensor);
    CU_ASSERT_FALSE(dao_plan_role_needs_slot(&tensor));
    role.needs_slot = true;
    CU_ASSERT_TRUE(dao_plan_role_needs_slot(&tensor));
}

static CU_TestInfo tests[] = {
    {"a role goes from tensor to tensor", a_role_goes_from_tensor_to_tensor},
    {"a slot is taken behind its last use", a_slot_is_taken_behind_its_last_use},
    {"only the role's slot goes back to it", only_the_roles_slot_goes_back_to_it},
    {"a slot is needed where the plan says so", a_slot_is_needed_where_the_plan_says_so},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan role", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
