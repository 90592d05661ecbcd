/* SPDX-License-Identifier: Apache-2.0 */
/* Compiled plans: whatever an operation puts somewhere, all that lies there has been dropped before. */
#include "base/report/fault.h"
#include "runtime/executor/plans/plan_follow.h"
#include "tests/support/suite.h"

#include <string.h>

enum { LAYERS = 12, KERNELS = 2 * LAYERS, TENSORS = LAYERS + 1 };

#define UNIT ((uint64_t)1 << 16)

static dao_swap_tensor_t tensors[TENSORS];
static dao_swap_use_t uses[KERNELS][2];
static dao_swap_kernel_t kernels[KERNELS];

/* Activations are written forwards and read backwards. */
static dao_swap_problem_t problem_of(uint64_t capacity_bytes, uint64_t kernel_ns)
{
    for (uint32_t i = 0; i < TENSORS; i++) {
        tensors[i] = (dao_swap_tensor_t){.size_bytes = UNIT};
    }
    for (uint32_t i = 0; i < KERNELS; i++) {
        uint32_t layer = i < LAYERS ? i : KERNELS - 1 - i;
        bool is_forward = i < LAYERS;
        uses[i][0] = (dao_swap_use_t){is_forward ? layer : layer + 1, DAO_ACCESS_READ};
        uses[i][1] = (dao_swap_use_t){is_forward ? layer + 1 : layer, DAO_ACCESS_WRITE};
        kernels[i] = (dao_swap_kernel_t){.time_ns = kernel_ns, .uses = uses[i], .use_count = 2};
    }
    return (dao_swap_problem_t){.tensors = tensors,
                                .tensor_count = TENSORS,
                                .kernels = kernels,
                                .kernel_count = KERNELS,
                                .capacity_bytes = capacity_bytes,
                                .host = {.in_bytes_per_second = UINT64_C(1) << 30},
                                .alignment_bytes = 256};
}

static uint64_t addresses[TENSORS];

static void drop_for(const dao_compiled_plan_t *plan, uint32_t index)
{
    for (uint32_t i = plan->drop_first[index]; i < plan->drop_first[index + 1]; i++) {
        CU_ASSERT_NOT_EQUAL(addresses[plan->drops[i]], DAO_PLAN_NOWHERE);
        addresses[plan->drops[i]] = DAO_PLAN_NOWHERE;
    }
}

static void put(uint32_t tensor, uint64_t address)
{
    for (uint32_t other = 0; other < TENSORS; other++) {
        bool is_apart = other == tensor || addresses[other] == DAO_PLAN_NOWHERE ||
                        addresses[other] + UNIT <= address || address + UNIT <= addresses[other];
        CU_ASSERT_TRUE(is_apart);
    }
    CU_ASSERT_TRUE(addresses[tensor] == DAO_PLAN_NOWHERE || addresses[tensor] == address);
    addresses[tensor] = address;
}

/* Plays a step against a model: a table of addresses, looked through for every operation. */
static void play(const dao_compiled_plan_t *plan)
{
    uint32_t next_use = 0;
    for (uint32_t i = 0; i < plan->order.count; i++) {
        const dao_swap_copy_t *copy = dao_issue_order_copy(plan->schedule, plan->order.operations[i]);
        drop_for(plan, i);
        if (copy != NULL && copy->is_in) {
            put(copy->tensor, copy->address_bytes);
        }
        for (uint32_t k = 0; copy == NULL && k < 2; k++) {
            put(uses[plan->order.operations[i].index][k].tensor, plan->schedule->use_address[next_use++]);
        }
    }
}

static void expect_steps_repeat(const dao_compiled_plan_t *plan)
{
    for (uint32_t i = 0; i < TENSORS; i++) {
        addresses[i] = plan->roles[i].start_address;
    }
    for (int step = 0; step < 3; step++) {
        /* What lies there and is nobody's any more leaves with the next operation that needs its bytes. */
        for (uint32_t i = 0; step == 0 && i < TENSORS; i++) {
            CU_ASSERT_TRUE(addresses[i] == DAO_PLAN_NOWHERE || addresses[i] < plan->schedule->arena_bytes);
        }
        if (step > 0) {
            play(plan);
        } else {
            uint32_t next_use = 0; /* the first step drops less: its places are played without the lists */
            for (uint32_t i = 0; i < plan->order.count; i++) {
                const dao_swap_copy_t *copy = dao_issue_order_copy(plan->schedule, plan->order.operations[i]);
                uint32_t count = copy == NULL ? 2 : copy->is_in ? 1 : 0;
                for (uint32_t k = 0; k < count; k++) {
                    uint32_t index = plan->order.operations[i].index;
                    uint32_t tensor = copy == NULL ? uses[index][k].tensor : copy->tensor;
                    uint64_t address =
                        copy == NULL ? plan->schedule->use_address[next_use++] : copy->address_bytes;
                    for (uint32_t other = 0; other < TENSORS; other++) {
                        bool overlaps = addresses[other] != DAO_PLAN_NOWHERE &&
                                        addresses[other] < address + UNIT &&
                                        address < addresses[other] + UNIT;
                        addresses[other] = overlaps ? DAO_PLAN_NOWHERE : addresses[other];
                    }
                    addresses[tensor] = address;
                }
            }
        }
    }
}

static void drops_make_room_for_all_that_comes(void)
{
    for (uint64_t capacity = 4; capacity <= TENSORS + 1; capacity++) {
        dao_compiled_plan_t *plan = NULL;
        dao_swap_problem_t problem = problem_of(capacity * UNIT, 20000);
        CU_ASSERT_EQUAL_FATAL(dao_compiled_plan_create(&problem, &(dao_recompute_config_t){0}, &plan),
                              DAO_OK);
        CU_ASSERT_EQUAL(plan->role_count, TENSORS);
        CU_ASSERT_TRUE(dao_issue_order_is_valid(&plan->order));
        CU_ASSERT_TRUE(dao_plan_follow_is_valid(plan));
        expect_steps_repeat(plan);
        dao_compiled_plan_destroy(plan);
    }
}

static void a_plan_knows_what_it_was_made_with(void)
{
    dao_compiled_plan_t *plan = NULL;
    dao_swap_problem_t problem = problem_of(6 * UNIT, 30000);
    CU_ASSERT_EQUAL_FATAL(dao_compiled_plan_create(&problem, &(dao_recompute_config_t){0}, &plan), DAO_OK);
    CU_ASSERT_EQUAL(plan->basis.compute_ns, KERNELS * 30000);
    CU_ASSERT_EQUAL(plan->basis.host.in_bytes_per_second, problem.host.in_bytes_per_second);
    CU_ASSERT_TRUE(plan->bound_ns >= plan->basis.compute_ns);
    CU_ASSERT_TRUE(plan->schedule->step_ns >= plan->bound_ns);
    CU_ASSERT_EQUAL(dao_plan_follow_idle_bytes(plan), 0);
    dao_compiled_plan_destroy(plan);
    dao_compiled_plan_destroy(NULL);
}

static void only_roles_with_copies_to_the_host_need_slots(void)
{
    dao_compiled_plan_t *plan = NULL;
    dao_swap_problem_t problem = problem_of(5 * UNIT, 20000);
    CU_ASSERT_EQUAL_FATAL(dao_compiled_plan_create(&problem, &(dao_recompute_config_t){0}, &plan), DAO_OK);
    for (uint32_t role = 0; role < plan->role_count; role++) {
        bool is_copied = false;
        for (uint32_t i = 0; i < plan->order.count; i++) {
            const dao_swap_copy_t *copy = dao_issue_order_copy(plan->schedule, plan->order.operations[i]);
            is_copied = is_copied || (copy != NULL && copy->tensor == role);
        }
        CU_ASSERT_EQUAL(plan->roles[role].needs_slot, is_copied);
    }
    dao_compiled_plan_destroy(plan);
}

/* Fails the n-th request for host memory; true if there is one. */
static bool fail_call(const dao_swap_problem_t *problem, uint64_t n)
{
    dao_compiled_plan_t *plan = NULL;
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
    dao_status_t status = dao_compiled_plan_create(problem, &(dao_recompute_config_t){0}, &plan);
    bool has_failed = dao_fault_disarm() > 0;
    CU_ASSERT_TRUE(status == DAO_ERR_NO_HOST_MEMORY || status == DAO_OK);
    CU_ASSERT_TRUE(has_failed || status == DAO_OK);
    if (status == DAO_OK) {
        dao_compiled_plan_destroy(plan);
    }
    return has_failed;
}

static void no_failing_call_leaves_anything(void)
{
    dao_swap_problem_t problem = problem_of(5 * UNIT, 20000);
    uint64_t n = 0;
    while (fail_call(&problem, n)) {
        n++;
    }
}

#if defined(DAO_FAULTS)
/* ---- with runs again ---- */

enum { SHORT = 5, AGAIN_KERNELS = 2 * SHORT, AGAIN_TENSORS = 2 * SHORT + 1 };

/* Activations are written forwards, by kernels that may run again, and read backwards by those of gradients.
   The link is slow. */
static dao_swap_problem_t problem_with_runs(void)
{
    static dao_swap_tensor_t sizes[AGAIN_TENSORS];
    static dao_swap_use_t all_uses[AGAIN_KERNELS][3];
    static dao_swap_kernel_t all[AGAIN_KERNELS];
    for (uint32_t i = 0; i < AGAIN_TENSORS; i++) {
        sizes[i] = (dao_swap_tensor_t){.size_bytes = UNIT, .is_persistent = i == 0};
    }
    for (uint32_t i = 0; i < SHORT; i++) { /* 0: the input; 1 to SHORT: activations */
        all_uses[i][0] = (dao_swap_use_t){i, DAO_ACCESS_READ};
        all_uses[i][1] = (dao_swap_use_t){i + 1, DAO_ACCESS_WRITE};
        all[i] =
            (dao_swap_kernel_t){.time_ns = 20000, .uses = all_uses[i], .use_count = 2, .is_repeatable = true};
    }
    for (uint32_t i = 0; i < SHORT; i++) { /* from the last activation to the first */
        uint32_t k = SHORT + i, gradient = SHORT + 1 + i;
        all_uses[k][0] = (dao_swap_use_t){SHORT - i, DAO_ACCESS_READ};
        all_uses[k][1] = (dao_swap_use_t){gradient, DAO_ACCESS_WRITE};
        all_uses[k][2] = (dao_swap_use_t){gradient - 1, DAO_ACCESS_READ};
        all[k] = (dao_swap_kernel_t){.time_ns = 20000, .uses = all_uses[k], .use_count = i > 0 ? 3 : 2};
    }
    return (dao_swap_problem_t){.tensors = sizes,
                                .tensor_count = AGAIN_TENSORS,
                                .kernels = all,
                                .kernel_count = AGAIN_KERNELS,
                                .capacity_bytes = 5 * UNIT,
                                .host = {.in_bytes_per_second = UINT64_C(1) << 26},
                                .alignment_bytes = 256};
}

static uint32_t runs_again(const dao_compiled_plan_t *plan)
{
    uint32_t count = 0;
    for (uint32_t k = 0; plan->runs.plan != NULL && k < plan->runs.step->problem.kernel_count; k++) {
        count += plan->runs.step->runs[k].is_again;
    }
    return count;
}

/* The planner makes many requests, and its own suites fail them: here it is some of them, and all of the last
   ones, which are of the compilation. */
static void no_failing_call_leaves_anything_of_a_plan_with_runs_again(void)
{
    enum { SOME = 20, LAST = 40 };
    dao_compiled_plan_t *plan = NULL;
    dao_swap_problem_t problem = problem_with_runs();
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, UINT64_MAX, false);
    CU_ASSERT_EQUAL_FATAL(dao_compiled_plan_create(&problem, &(dao_recompute_config_t){0}, &plan), DAO_OK);
    uint64_t count = dao_fault_passed_count(DAO_FAULT_HOST_MEMORY);
    (void)dao_fault_disarm();
    CU_ASSERT_TRUE(runs_again(plan) > 0);
    dao_compiled_plan_destroy(plan);
    CU_ASSERT_TRUE_FATAL(count > LAST);
    for (uint64_t i = 0; i < SOME; i++) {
        CU_ASSERT_TRUE(fail_call(&problem, i * (count - LAST) / SOME));
    }
    for (uint64_t n = count - LAST; n < count; n++) {
        CU_ASSERT_TRUE(fail_call(&problem, n));
    }
}
#endif

static CU_TestInfo tests[] = {
    {"drops make room for all that comes", drops_make_room_for_all_that_comes},
    {"a plan knows what it was made with", a_plan_knows_what_it_was_made_with},
    {"only roles with copies to the host need slots", only_roles_with_copies_to_the_host_need_slots},
    {"no failing call leaves anything", no_failing_call_leaves_anything},
#if defined(DAO_FAULTS)
    {"no failing call leaves anything of a plan with runs again",
     no_failing_call_leaves_anything_of_a_plan_with_runs_again},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan compile", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
