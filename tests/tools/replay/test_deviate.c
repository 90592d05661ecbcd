/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that deviate from a recorded one: each kind does what it says and nothing else, equal seeds give
   equal steps, and what comes of it is a program that could run: each tensor is allocated once, and freed at
   most once and after that. */
#include "base/memory/host.h"
#include "base/report/fault.h"
#include "tests/support/suite.h"
#include "tools/replay/deviate.h"

#include <string.h>

enum { STEP_TENSOR_COUNT = 200, REPEAT_COUNT = 3, ALL_KINDS = (1 << DAO_DEVIATION_KIND_COUNT) - 1 };

/* A step in which tensor i is freed right after i + 1 has come, every eighth one never; then a second one,
   which nobody asked about, and before them a free of what was there before. */
static dao_event_file_t recorded;

static bool add_tensor(uint64_t size_bytes, uint32_t *out_tensor)
{
    return dao_event_file_add_tensor(&recorded, size_bytes, out_tensor) == DAO_OK;
}

static bool add_record(uint32_t tensor, bool is_alloc)
{
    return dao_event_file_add_record(&recorded, tensor, is_alloc, tensor) == DAO_OK;
}

static int make_recorded(void)
{
    uint32_t tensor;
    bool is_made = add_tensor(4096, &tensor) && dao_event_file_add_step(&recorded) == DAO_OK;
    for (uint32_t i = 1; i <= STEP_TENSOR_COUNT && is_made; i++) {
        is_made = add_tensor((uint64_t)1000 * i, &tensor) && add_record(tensor, true) &&
                  (i % 8 == 2 || add_record(tensor - 1, false));
    }
    is_made = is_made && dao_event_file_add_step(&recorded) == DAO_OK;
    return !(is_made && add_tensor(1, &tensor) && add_record(tensor, true));
}

static int drop_recorded(void)
{
    dao_event_file_finish(&recorded);
    return 0;
}

static dao_event_file_t deviate(double share, uint32_t kinds, uint64_t seed)
{
    dao_deviation_t deviation = {.share = share, .kinds = kinds, .repeats = REPEAT_COUNT, .seed = seed};
    dao_event_file_t file;
    CU_ASSERT_EQUAL_FATAL(dao_event_file_deviate(&recorded, &deviation, &file), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(file.step_count, 1 + REPEAT_COUNT);
    return file;
}

static size_t end_of(const dao_event_file_t *file, size_t step)
{
    return step + 1 < file->step_count ? file->steps[step + 1] : file->record_count;
}

/* Each tensor is allocated once, and freed at most once and after that; what is left is of the last step. */
static void check_program(const dao_event_file_t *file)
{
    int *states = dao_host_calloc(file->tensor_count + 1, sizeof(*states));
    CU_ASSERT_PTR_NOT_NULL_FATAL(states);
    for (size_t i = 0; i < file->record_count; i++) {
        const dao_event_record_t *record = &file->records[i];
        CU_ASSERT_FATAL(record->tensor < file->tensor_count);
        CU_ASSERT_EQUAL(states[record->tensor], record->is_alloc ? 0 : 1);
        states[record->tensor]++;
    }
    for (size_t i = file->record_count; i-- > 0;) {
        bool is_last = i >= file->steps[file->step_count - 1];
        CU_ASSERT(is_last || states[file->records[i].tensor] == 2);
    }
    dao_host_free(states);
}

/* Adds up the allocations of a step. */
static uint64_t sum_of(const dao_event_file_t *file, size_t step, size_t *out_count)
{
    uint64_t sum_bytes = 0;
    *out_count = 0;
    for (size_t i = file->steps[step]; i < end_of(file, step); i++) {
        sum_bytes += file->records[i].is_alloc ? file->tensors[file->records[i].tensor].size_bytes : 0;
        *out_count += file->records[i].is_alloc;
    }
    return sum_bytes;
}

/* Counts the records that stand elsewhere in two files of equally many: they name tensors of other sizes. */
static size_t differences(const dao_event_file_t *left, const dao_event_file_t *right)
{
    size_t count = 0;
    CU_ASSERT_EQUAL_FATAL(left->record_count, right->record_count);
    for (size_t i = 0; i < left->record_count; i++) {
        count += left->tensors[left->records[i].tensor].size_bytes !=
                 right->tensors[right->records[i].tensor].size_bytes;
    }
    return count;
}

static void the_first_step_is_as_it_was(void)
{
    dao_event_file_t file = deviate(1, ALL_KINDS, 1);
    size_t skipped_count = 1; /* the free of what was there before */
    CU_ASSERT_EQUAL_FATAL(end_of(&file, 0) + skipped_count, recorded.steps[1]);
    for (size_t i = 0, at = 0; i < recorded.steps[1]; i++) {
        const dao_event_record_t *was = &recorded.records[i];
        if (was->tensor != 0) {
            CU_ASSERT_EQUAL(dao_event_file_operator(&file, at), dao_event_file_operator(&recorded, i));
            const dao_event_record_t *is = &file.records[at++];
            CU_ASSERT_EQUAL(is->is_alloc, was->is_alloc);
            CU_ASSERT_EQUAL(file.tensors[is->tensor].size_bytes, recorded.tensors[was->tensor].size_bytes);
        }
    }
    dao_event_file_finish(&file);
}

static void no_share_repeats_it(void)
{
    dao_event_file_t file = deviate(0, ALL_KINDS, 1);
    size_t count, count_before;
    check_program(&file);
    for (size_t step = 1; step < file.step_count; step++) {
        CU_ASSERT_EQUAL(sum_of(&file, step, &count), sum_of(&file, step - 1, &count_before));
        CU_ASSERT_EQUAL(count, count_before);
    }
    dao_event_file_finish(&file);
}

/* Each step has one shape throughout: half to all of the first step's bytes, as many requests. */
static void shapes_are_other_sizes_of_the_first_step(void)
{
    const dao_deviation_t shapes = {.repeats = 40, .shapes = 4, .seed = 1};
    dao_event_file_t file;
    CU_ASSERT_EQUAL_FATAL(dao_event_file_deviate(&recorded, &shapes, &file), DAO_OK);
    size_t count, first_count, other_count = 0;
    uint64_t first_bytes = sum_of(&file, 0, &first_count);
    for (size_t step = 1; step < file.step_count; step++) {
        uint64_t bytes = sum_of(&file, step, &count);
        CU_ASSERT_EQUAL(count, first_count);
        CU_ASSERT(bytes <= first_bytes && bytes >= first_bytes / 2);
        other_count += bytes != first_bytes;
    }
    CU_ASSERT(other_count > 0 && other_count < file.step_count - 1);
    dao_event_file_finish(&file);
}

static void each_kind_does_what_it_says(void)
{
    size_t plain_count, count;
    dao_event_file_t plain = deviate(0, 0, 1);
    uint64_t plain_bytes = sum_of(&plain, 1, &plain_count);
    dao_event_file_t file = deviate(1, 1u << DAO_DEVIATION_SIZES, 1);
    check_program(&file);
    CU_ASSERT_NOT_EQUAL(sum_of(&file, 1, &count), plain_bytes);
    CU_ASSERT_EQUAL(count, plain_count);
    CU_ASSERT_EQUAL(end_of(&file, 1), end_of(&plain, 1));
    dao_event_file_finish(&file);

    file = deviate(1, 1u << DAO_DEVIATION_EXTRA, 1);
    check_program(&file);
    CU_ASSERT(sum_of(&file, 1, &count) > plain_bytes);
    CU_ASSERT(count > plain_count);
    dao_event_file_finish(&file);

    file = deviate(1, 1u << DAO_DEVIATION_MISSING, 1);
    check_program(&file);
    CU_ASSERT_EQUAL(sum_of(&file, 1, &count), plain_bytes);
    CU_ASSERT_FALSE(file.records[file.steps[2]].is_alloc); /* what the step before should have freed */
    CU_ASSERT(end_of(&file, 1) < end_of(&plain, 1));
    dao_event_file_finish(&file);

    file = deviate(1, 1u << DAO_DEVIATION_SWAPPED, 1);
    check_program(&file);
    CU_ASSERT_EQUAL(sum_of(&file, 1, &count), plain_bytes);
    CU_ASSERT(differences(&file, &plain) > 0);
    dao_event_file_finish(&file);
    dao_event_file_finish(&plain);
}

static void equal_seeds_give_equal_steps(void)
{
    uint64_t seed = dao_test_seed("steps that deviate", 1);
    for (uint64_t i = 0; i < 20; i++) {
        dao_event_file_t left = deviate(0.3, ALL_KINDS, seed + i), right = deviate(0.3, ALL_KINDS, seed + i);
        check_program(&left);
        CU_ASSERT_EQUAL_FATAL(left.record_count, right.record_count);
        CU_ASSERT_EQUAL_FATAL(left.tensor_count, right.tensor_count);
        for (size_t k = 0; k < left.record_count; k++) {
            CU_ASSERT_EQUAL(left.records[k].tensor, right.records[k].tensor);
            CU_ASSERT_EQUAL(left.records[k].is_alloc, right.records[k].is_alloc);
        }
        for (size_t k = 0; k < left.tensor_count; k++) {
            CU_ASSERT_EQUAL(left.tensors[k].size_bytes, right.tensors[k].size_bytes);
        }
        dao_event_file_finish(&left);
        dao_event_file_finish(&right);
    }
}

static void names_of_kinds_are_read(void)
{
    uint32_t kinds;
    CU_ASSERT_EQUAL(dao_deviation_kinds_parse("all", &kinds), DAO_OK);
    CU_ASSERT_EQUAL(kinds, ALL_KINDS);
    CU_ASSERT_EQUAL(dao_deviation_kinds_parse("swapped,sizes", &kinds), DAO_OK);
    CU_ASSERT_EQUAL(kinds, 1u << DAO_DEVIATION_SWAPPED | 1u << DAO_DEVIATION_SIZES);
    static const char *const wrong[] = {"", "size", "sizes,", ",extra", "all,extra", "sizesx"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        CU_ASSERT_EQUAL(dao_deviation_kinds_parse(wrong[i], &kinds), DAO_ERR_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "no kind of deviation"));
    }
}

static void what_cannot_be_made_leaves_nothing(void)
{
    dao_deviation_t deviation = {.share = 0.5, .kinds = ALL_KINDS, .repeats = REPEAT_COUNT, .seed = 1};
    dao_event_file_t nothing = {0}, file;
    CU_ASSERT_EQUAL(dao_event_file_deviate(&nothing, &deviation, &file), DAO_ERR_INVALID);
#if defined(DAO_FAULTS)
    bool has_fired = true;
    for (uint64_t n = 0; has_fired && n < 10000; n++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        dao_status_t status = dao_event_file_deviate(&recorded, &deviation, &file);
        has_fired = dao_fault_disarm() > 0;
        CU_ASSERT_EQUAL(status, has_fired ? DAO_ERR_NO_HOST_MEMORY : DAO_OK);
        if (status == DAO_OK) {
            dao_event_file_finish(&file);
        }
    }
    CU_ASSERT_FALSE(has_fired);
#endif
}

static CU_TestInfo tests[] = {
    {"the first step is as it was", the_first_step_is_as_it_was},
    {"no share repeats it", no_share_repeats_it},
    {"shapes are other sizes of the first step", shapes_are_other_sizes_of_the_first_step},
    {"each kind does what it says", each_kind_does_what_it_says},
    {"equal seeds give equal steps", equal_seeds_give_equal_steps},
    {"names of kinds are read", names_of_kinds_are_read},
    {"what cannot be made leaves nothing", what_cannot_be_made_leaves_nothing},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"deviate", make_recorded, drop_recorded, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
