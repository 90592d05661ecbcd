/* SPDX-License-Identifier: Apache-2.0 */
/* The log of a step: roles by first use, which steps are the same, and when a tensor is used next. */
#include "base/report/fault.h"
#include "runtime/executor/records/step_log.h"
#include "runtime/executor/records/tensor.h"
#include "tests/support/suite.h"

#include <string.h>

enum { TENSORS = 6 };

static dao_managed_t tensors[TENSORS];
static dao_step_log_t first, other;

static int forget_tensors(void)
{
    static char name[] = "tensor";
    memset(tensors, 0, sizeof(tensors));
    for (uint64_t i = 0; i < TENSORS; i++) {
        tensors[i].id = 100 - i; /* in another order than the roles */
        tensors[i].size_bytes = 256 * (i + 1);
        tensors[i].name = name;
    }
    return 0;
}

static void begin(void)
{
    (void)forget_tensors();
    dao_step_log_init(&first);
    dao_step_log_init(&other);
    other.epoch = 1000;
}

static void end(void)
{
    CU_ASSERT_TRUE(dao_step_log_is_valid(&first));
    CU_ASSERT_TRUE(dao_step_log_is_valid(&other));
    dao_step_log_finish(&first);
    dao_step_log_finish(&other);
}

static void add(dao_step_log_t *to, uint64_t signature, int read, int write)
{
    dao_use_t uses[2] = {{.tensor = &tensors[read], .kind = DAO_USE_READ},
                         {.tensor = &tensors[write], .kind = DAO_USE_WRITE}};
    dao_item_t item = {.kind = DAO_ITEM_KERNEL, .signature = signature, .uses = uses, .use_count = 2};
    dao_step_log_add(to, &item);
}

static void roles_are_numbered_by_first_use(void)
{
    begin();
    add(&first, 1, 4, 2);
    add(&first, 2, 2, 5);
    add(&first, 3, 4, 0);
    CU_ASSERT_EQUAL(first.kernel_count, 3);
    CU_ASSERT_EQUAL(first.role_count, 4);
    const uint32_t roles[] = {0, 1, 1, 2, 0, 3};
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        CU_ASSERT_EQUAL(first.uses[i].role, roles[i]);
    }
    CU_ASSERT_FALSE(first.roles[0].begins_anew);
    CU_ASSERT_TRUE(first.roles[1].begins_anew);
    CU_ASSERT_EQUAL(first.roles[3].size_bytes, tensors[0].size_bytes);
    end();
}

/* Tensors that begin anew may be others; those whose content comes from before may not. */
static void steps_are_the_same_by_their_roles(void)
{
    begin();
    add(&first, 1, 4, 2);
    add(&first, 2, 2, 5);
    tensors[1].size_bytes = tensors[2].size_bytes;
    add(&other, 1, 4, 1);
    add(&other, 2, 1, 5);
    CU_ASSERT_TRUE(dao_step_log_is_same(&other, &first));
    dao_step_log_restart(&other);
    add(&other, 1, 3, 2);
    CU_ASSERT_FALSE(dao_step_log_is_kernel_same(&other, &first, 0));
    dao_step_log_restart(&other);
    add(&other, 1, 4, 2);
    CU_ASSERT_TRUE(dao_step_log_is_kernel_same(&other, &first, 0));
    CU_ASSERT_FALSE(dao_step_log_is_same(&other, &first));
    add(&other, 3, 2, 5); /* another kernel */
    CU_ASSERT_FALSE(dao_step_log_is_kernel_same(&other, &first, 1));
    dao_step_log_restart(&other);
    tensors[2].size_bytes++; /* another size */
    add(&other, 1, 4, 2);
    CU_ASSERT_FALSE(dao_step_log_is_kernel_same(&other, &first, 0));
    add(&other, 2, 2, 5);
    add(&other, 2, 2, 5); /* longer */
    CU_ASSERT_FALSE(dao_step_log_is_kernel_same(&other, &first, 2));
    end();
}

/* One thing at a time is other than in the first step's kernel. */
static void a_kernel_is_another_one_by_any_difference(void)
{
    enum { SAME, WORKSPACE, FEWER_USES, OTHER_USE, KINDS };
    begin();
    add(&first, 1, 4, 2);
    for (int kind = SAME; kind < KINDS; kind++) {
        dao_use_t uses[2] = {{.tensor = &tensors[4], .kind = DAO_USE_READ},
                             {.tensor = &tensors[2], .kind = DAO_USE_WRITE}};
        dao_item_t item = {.kind = DAO_ITEM_KERNEL, .signature = 1, .uses = uses, .use_count = 2};
        item.workspace_bytes = kind == WORKSPACE ? 256 : 0;
        item.use_count = kind == FEWER_USES ? 1 : 2;
        uses[0].kind = kind == OTHER_USE ? DAO_USE_READ_WRITE : DAO_USE_READ;
        dao_step_log_restart(&other);
        dao_step_log_add(&other, &item);
        CU_ASSERT_EQUAL(dao_step_log_is_kernel_same(&other, &first, 0), kind == SAME);
        CU_ASSERT_EQUAL(dao_step_log_is_same(&other, &first), kind == SAME);
    }
    end();
}

/* Of a list: what it discards, and whose handle is gone, does not live on; what is written in part keeps its
   other bytes, so it is not written anew. */
static void a_list_says_what_lives_on(void)
{
    begin();
    dao_use_t uses[2] = {{.tensor = &tensors[4], .kind = DAO_USE_READ},
                         {.tensor = &tensors[2], .kind = DAO_USE_WRITE}};
    dao_use_t whole = {.tensor = &tensors[4], .kind = DAO_USE_WRITE};
    dao_use_t part = {.tensor = &tensors[4], .kind = DAO_USE_READ_WRITE};
    dao_use_t gone = {.tensor = &tensors[2], .kind = DAO_USE_DISCARD};
    dao_use_t unused = {.tensor = &tensors[1], .kind = DAO_USE_DISCARD};
    dao_item_t items[] = {
        {.kind = DAO_ITEM_WRITE, .uses = &part, .use_count = 1},
        {.kind = DAO_ITEM_KERNEL, .name = "kernel", .signature = 1, .uses = uses, .use_count = 2},
        {.kind = DAO_ITEM_DISCARD, .uses = &unused, .use_count = 1},
        {.kind = DAO_ITEM_DISCARD, .uses = &gone, .use_count = 1}};
    for (size_t i = 0; i + 1 < sizeof(items) / sizeof(items[0]); i++) {
        items[i].next = &items[i + 1];
    }
    for (int is_whole = 0; is_whole < 2; is_whole++) {
        items[0].uses = is_whole != 0 ? &whole : &part;
        tensors[4].is_released = is_whole != 0;
        dao_step_log_restart(&first);
        dao_step_log_describe(&first, items);
        CU_ASSERT_EQUAL_FATAL(first.kernel_count, 1);
        CU_ASSERT_EQUAL(first.role_count, 2); /* what no kernel uses has none */
        CU_ASSERT_EQUAL(first.roles[0].begins_anew, is_whole != 0);
        CU_ASSERT_EQUAL(first.roles[0].is_persistent, is_whole == 0);
        CU_ASSERT_FALSE(first.roles[1].is_persistent);
    }
    end();
}

static void what_the_program_writes_may_be_another_tensor(void)
{
    begin();
    tensors[4].fed_epoch = first.epoch;
    tensors[3].fed_epoch = other.epoch;
    tensors[3].size_bytes = tensors[4].size_bytes;
    add(&first, 1, 4, 2);
    add(&other, 1, 3, 2);
    CU_ASSERT_TRUE(dao_step_log_is_same(&other, &first));
    CU_ASSERT_TRUE_FATAL(dao_step_log_close(&first));
    CU_ASSERT_EQUAL(dao_step_log_find_reader(&first, tensors[4].id), DAO_STEP_LOG_NO_ROLE);
    dao_step_log_restart(&other);
    add(&other, 1, 4, 2); /* the same one, with the content of the step before */
    CU_ASSERT_TRUE(dao_step_log_is_same(&other, &first));
    dao_step_log_take_over(&first, &other);
    CU_ASSERT_EQUAL(dao_step_log_find_reader(&first, tensors[4].id), 0);
    end();
}

static void distances_go_around_for_what_lives_on(void)
{
    begin();
    add(&first, 1, 4, 2);
    add(&first, 2, 2, 5);
    add(&first, 3, 4, 0);
    first.roles[0].is_persistent = true; /* tensor 4 */
    CU_ASSERT_TRUE_FATAL(dao_step_log_close(&first));
    const uint32_t distances[] = {2, 1, 0, 0, 1, 0};
    for (size_t i = 0; i < sizeof(distances) / sizeof(distances[0]); i++) {
        CU_ASSERT_EQUAL(first.uses[i].distance, distances[i]);
    }
    end();
}

static void readers_are_found_by_their_tensors(void)
{
    begin();
    for (int i = 0; i + 1 < TENSORS; i++) {
        add(&first, 7, i, TENSORS - 1);
    }
    CU_ASSERT_TRUE_FATAL(dao_step_log_close(&first));
    for (int i = 0; i + 1 < TENSORS; i++) {
        uint32_t role = dao_step_log_find_reader(&first, tensors[i].id);
        CU_ASSERT_NOT_EQUAL_FATAL(role, DAO_STEP_LOG_NO_ROLE);
        CU_ASSERT_EQUAL(first.roles[role].tensor_id, tensors[i].id);
    }
    CU_ASSERT_EQUAL(dao_step_log_find_reader(&first, tensors[TENSORS - 1].id), DAO_STEP_LOG_NO_ROLE);
    CU_ASSERT_EQUAL(dao_step_log_find_reader(&first, 7), DAO_STEP_LOG_NO_ROLE);
    end();
}

static void without_memory_a_log_is_broken(void)
{
    for (uint64_t n = 0; n < 3; n++) {
        begin();
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        add(&first, 1, 4, 2);
        CU_ASSERT_EQUAL(first.is_broken, dao_fault_disarm() > 0);
        dao_step_log_restart(&first);
        add(&first, 1, 4, 2);
        CU_ASSERT_FALSE(first.is_broken);
        CU_ASSERT_EQUAL(first.kernel_count, 1);
        end();
    }
}

static CU_TestInfo tests[] = {
    {"roles are numbered by first use", roles_are_numbered_by_first_use},
    {"steps are the same by their roles", steps_are_the_same_by_their_roles},
    {"a kernel is another one by any difference", a_kernel_is_another_one_by_any_difference},
    {"a list says what lives on", a_list_says_what_lives_on},
    {"what the program writes may be another tensor", what_the_program_writes_may_be_another_tensor},
    {"distances go around for what lives on", distances_go_around_for_what_lives_on},
    {"readers are found by their tensors", readers_are_found_by_their_tensors},
    {"without memory a log is broken", without_memory_a_log_is_broken},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"known", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
