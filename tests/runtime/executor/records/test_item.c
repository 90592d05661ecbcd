/* SPDX-License-Identifier: Apache-2.0 */
/* Items: operands that name one tensor are one use, and what an item holds is held until it goes. */
#include "base/report/fault.h"
#include "runtime/executor/records/item.h"
#include "runtime/executor/records/tensor.h"
#include "tests/support/suite.h"

#include <string.h>

enum { TENSORS = 8, OPERANDS_MAX = 24, SPANNED_BYTES = 12 };

static char executor_bytes, other_bytes; /* addresses that stand for executors: nothing looks into them */
static dao_executor_t *const executor = (dao_executor_t *)(void *)&executor_bytes;
static dao_managed_t tensors[TENSORS];
static int drop_count, list_count;

static int begin(void)
{
    memset(tensors, 0, sizeof(tensors));
    for (int i = 0; i < TENSORS; i++) {
        tensors[i].executor = executor;
        tensors[i].name = (char *)"a tensor";
        atomic_init(&tensors[i].handle.reference_count, 1);
        atomic_init(&tensors[i].reference_count, 1);
    }
    drop_count = 0;
    return 0;
}

static void expect_references(uint32_t count)
{
    for (int i = 0; i < TENSORS; i++) {
        CU_ASSERT_EQUAL(atomic_load(&tensors[i].reference_count), i == 0 ? count : 1);
    }
}

static dao_status_t launch(const dao_launch_t *info, void *user)
{
    (void)info;
    (void)user;
    return DAO_OK;
}

static void count_drop(void *user)
{
    (void)user;
    drop_count++;
}

static dao_status_t make(const dao_operand_t *operands, uint32_t count, dao_item_t **out_item)
{
    dao_kernel_t kernel = {
        .name = "k", .launch = launch, .drop = count_drop, .operands = operands, .operand_count = count};
    return dao_item_from_kernel(executor, &kernel, out_item);
}

static void accesses_to_one_tensor_are_one_use(void)
{
    (void)begin();
    dao_operand_t operands[] = {
        {&tensors[0], DAO_ACCESS_READ}, {&tensors[0], DAO_ACCESS_WRITE}, {&tensors[0], DAO_ACCESS_READ}};
    dao_item_t *item = NULL;
    CU_ASSERT_EQUAL_FATAL(make(operands, 3, &item), DAO_OK);
    CU_ASSERT_EQUAL(item->use_count, 1);
    CU_ASSERT_EQUAL(item->uses[0].kind, DAO_USE_READ_WRITE);
    CU_ASSERT_EQUAL(item->operand_uses[2], 0);
    CU_ASSERT_TRUE(dao_item_is_valid(item));
    expect_references(2);
    dao_item_destroy(item);
    expect_references(1);
    CU_ASSERT_EQUAL(drop_count, 1);
}

static void what_cannot_run_is_refused(void)
{
    (void)begin();
    dao_item_t *item = NULL;
    dao_operand_t foreign = {&tensors[0], DAO_ACCESS_READ};
    tensors[0].executor = (dao_executor_t *)(void *)&other_bytes;
    CU_ASSERT_EQUAL(make(&foreign, 1, &item), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(make(&(dao_operand_t){NULL, DAO_ACCESS_READ}, 1, &item), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(make(&(dao_operand_t){&tensors[1], (dao_access_t)9}, 1, &item), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(make(NULL, 1, &item), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(make(NULL, DAO_OPERAND_COUNT_MAX + 1, &item), DAO_ERR_INVALID);
    dao_kernel_t idle = {.name = "no function"};
    CU_ASSERT_EQUAL(dao_item_from_kernel(executor, &idle, &item), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(item);
    CU_ASSERT_EQUAL(drop_count, 0);
    dao_operand_t operand = {&tensors[0], DAO_ACCESS_READ};
    atomic_store(&tensors[0].handle.reference_count, 0); /* all its handles were released */
    CU_ASSERT_EQUAL(make(&operand, 1, &item), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(item);
    expect_references(1);
}

#if defined(DAO_FAULTS)
static void want_of_memory_holds_nothing(void)
{
    (void)begin();
    dao_operand_t operand = {&tensors[0], DAO_ACCESS_READ};
    dao_item_t *item = NULL;
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, true);
    dao_status_t status = make(&operand, 1, &item);
    (void)dao_fault_disarm();
    CU_ASSERT_EQUAL(status, DAO_ERR_NO_HOST_MEMORY);
    expect_references(1);
}
#endif

static void count_list(dao_counted_t *counted)
{
    (void)counted;
    list_count++;
}

/* The copy has no drop of its own: that is the list's. */
static void a_copy_holds_its_list_and_its_tensors(void)
{
    (void)begin();
    dao_operand_t operand = {&tensors[0], DAO_ACCESS_WRITE};
    dao_counted_t list;
    dao_item_t *item = NULL, *copy = NULL;
    list_count = 0;
    dao_counted_init(&list, count_list);
    CU_ASSERT_EQUAL_FATAL(make(&operand, 1, &item), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_item_copy(item, &list, &copy), DAO_OK);
    expect_references(3);
    CU_ASSERT_STRING_EQUAL(copy->name, "k");
    CU_ASSERT_EQUAL(copy->signature, item->signature);
    dao_counted_unreference(&list);
    CU_ASSERT_EQUAL(list_count, 0);
    dao_item_destroy(copy);
    CU_ASSERT_EQUAL(list_count, 1);
    CU_ASSERT_EQUAL(drop_count, 0);
    dao_item_destroy(item);
    expect_references(1);
}

static void signatures_tell_kernels_apart(void)
{
    (void)begin();
    dao_operand_t operands[] = {{&tensors[0], DAO_ACCESS_READ}, {&tensors[1], DAO_ACCESS_READ}};
    dao_kernel_t kernels[3] = {{.name = "a", .launch = launch, .operands = operands, .operand_count = 2},
                               {.name = "b", .launch = launch, .operands = operands, .operand_count = 2},
                               {.name = "a", .launch = launch, .operands = operands, .operand_count = 1}};
    dao_item_t *items[3];
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_item_from_kernel(executor, &kernels[i], &items[i]), DAO_OK);
    }
    CU_ASSERT_NOT_EQUAL(items[0]->signature, items[1]->signature);
    CU_ASSERT_NOT_EQUAL(items[0]->signature, items[2]->signature);
    for (int i = 0; i < 3; i++) {
        dao_item_destroy(items[i]);
    }
}

/* Against a model that searches the operands before. */
static void expect_as_model(const dao_item_t *item, const dao_operand_t *operands, uint32_t count)
{
    uint32_t use_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t first = 0;
        int kind = (int)operands[i].access;
        while (operands[first].tensor != operands[i].tensor) {
            first++;
        }
        for (uint32_t k = 0; k < count; k++) {
            bool is_same = operands[k].tensor == operands[i].tensor;
            kind = is_same && (int)operands[k].access != kind ? (int)DAO_USE_READ_WRITE : kind;
        }
        use_count += first == i ? 1 : 0;
        const dao_use_t *use = &item->uses[item->operand_uses[i]];
        CU_ASSERT_PTR_EQUAL(use->tensor, operands[i].tensor);
        CU_ASSERT_EQUAL((int)use->kind, kind);
        CU_ASSERT_EQUAL(item->operand_uses[i], item->operand_uses[first]);
    }
    CU_ASSERT_EQUAL(item->use_count, use_count);
}

static void random_operands_become_the_uses_of_a_model(void)
{
    uint64_t seed = dao_test_seed("random operands become the uses of a model", 5);
    (void)begin();
    for (int round = 0; round < 500; round++) {
        dao_operand_t operands[OPERANDS_MAX];
        uint32_t count = (uint32_t)dao_random_between(&seed, 1, OPERANDS_MAX);
        for (uint32_t i = 0; i < count; i++) {
            operands[i] = (dao_operand_t){&tensors[dao_random_below(&seed, TENSORS)],
                                          (dao_access_t)dao_random_below(&seed, 3)};
        }
        dao_item_t *item = NULL;
        CU_ASSERT_EQUAL_FATAL(make(operands, count, &item), DAO_OK);
        CU_ASSERT_TRUE(dao_item_is_valid(item));
        expect_as_model(item, operands, count);
        dao_item_destroy(item);
    }
    expect_references(1);
}

/* Against a model that has two marks for every byte of the tensor. */
static void expect_slices(const dao_use_t *use, const bool *is_read, const bool *is_written)
{
    dao_slice_t all = {0, SPANNED_BYTES};
    bool is_whole_write = use->kind == DAO_USE_WRITE;
    dao_slice_t reads = use->is_partial || is_whole_write ? use->reads : all;
    dao_slice_t writes = use->is_partial || use->kind == DAO_USE_READ ? use->writes : all;
    bool reads_any = false, writes_any = false;
    for (uint64_t byte = 0; byte < SPANNED_BYTES; byte++) {
        bool in_reads = reads.begin_bytes <= byte && byte < reads.end_bytes;
        bool in_writes = writes.begin_bytes <= byte && byte < writes.end_bytes;
        CU_ASSERT_TRUE(in_reads || !is_read[byte]);
        CU_ASSERT_TRUE(in_writes || !is_written[byte]);
        CU_ASSERT_TRUE(in_reads || !in_writes || is_written[byte]); /* what stays has to be there */
        reads_any = reads_any || is_read[byte];
        writes_any = writes_any || is_written[byte];
    }
    CU_ASSERT_EQUAL(use->kind == DAO_USE_READ, !writes_any);
    CU_ASSERT_TRUE(use->kind != DAO_USE_WRITE || !reads_any);
    CU_ASSERT_EQUAL(use->is_read, reads_any);
}

static void random_spans_become_the_use_of_a_model(void)
{
    uint64_t seed = dao_test_seed("random spans become the use of a model", 6);
    (void)begin();
    tensors[0].size_bytes = SPANNED_BYTES;
    for (int round = 0; round < 2000; round++) {
        bool is_read[SPANNED_BYTES] = {false}, is_written[SPANNED_BYTES] = {false};
        dao_operand_t operands[4];
        dao_span_t spans[4];
        uint32_t count = (uint32_t)dao_random_between(&seed, 1, 4);
        for (uint32_t i = 0; i < count; i++) {
            operands[i] = (dao_operand_t){&tensors[0], (dao_access_t)dao_random_below(&seed, 3)};
            spans[i].offset_bytes = dao_random_below(&seed, SPANNED_BYTES);
            spans[i].size_bytes = dao_random_below(&seed, SPANNED_BYTES - spans[i].offset_bytes + 1);
            size_t end =
                spans[i].size_bytes != 0 ? spans[i].offset_bytes + spans[i].size_bytes : SPANNED_BYTES;
            for (size_t byte = spans[i].offset_bytes; byte < end; byte++) {
                is_read[byte] = is_read[byte] || operands[i].access != DAO_ACCESS_WRITE;
                is_written[byte] = is_written[byte] || operands[i].access != DAO_ACCESS_READ;
            }
        }
        dao_kernel_t kernel = {
            .launch = launch, .operands = operands, .operand_count = count, .spans = spans};
        dao_item_t *item = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_item_from_kernel(executor, &kernel, &item), DAO_OK);
        CU_ASSERT_EQUAL(item->use_count, 1);
        expect_slices(&item->uses[0], is_read, is_written);
        dao_item_destroy(item);
    }
}

static CU_TestInfo tests[] = {
    {"accesses to one tensor are one use", accesses_to_one_tensor_are_one_use},
    {"what cannot run is refused", what_cannot_run_is_refused},
#if defined(DAO_FAULTS)
    {"want of memory holds nothing", want_of_memory_holds_nothing},
#endif
    {"a copy holds its list and its tensors", a_copy_holds_its_list_and_its_tensors},
    {"signatures tell kernels apart", signatures_tell_kernels_apart},
    {"random operands become the uses of a model", random_operands_become_the_uses_of_a_model},
    {"random spans become the use of a model", random_spans_become_the_use_of_a_model},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"item", begin, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
