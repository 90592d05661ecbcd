/* Placement over offsets, against a slow model that keeps an owner for every granule. */
#include "allocators/range.h"
#include "base/error.h"
#include "base/fault.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

#define UNIT DAO_RANGE_GRANULE

static dao_range_t *range;

static int range_1m_create(void)
{
    return dao_range_create(1 * MIB, &range) == DAO_OK ? 0 : 1;
}

static int range_1m_destroy(void)
{
    dao_range_destroy(range);
    range = NULL;
    return 0;
}

static uint64_t take(uint64_t size_bytes)
{
    uint64_t offset_bytes = UINT64_MAX;
    CU_ASSERT_EQUAL(dao_range_alloc(range, size_bytes, 0, size_bytes, &offset_bytes), DAO_OK);
    CU_ASSERT_TRUE(dao_range_is_valid(range));
    return offset_bytes;
}

static void give(uint64_t offset_bytes)
{
    CU_ASSERT_EQUAL(dao_range_free(range, offset_bytes), DAO_OK);
    CU_ASSERT_TRUE(dao_range_is_valid(range));
}

static void an_empty_range_is_one_hole(void)
{
    CU_ASSERT_EQUAL(dao_range_capacity(range), 1 * MIB);
    CU_ASSERT_EQUAL(dao_range_used(range), 0);
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), 1 * MIB);
    uint64_t all = take(1 * MIB);
    CU_ASSERT_EQUAL(all, 0);
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), 0);
    uint64_t offset_bytes = 77;
    CU_ASSERT_EQUAL(dao_range_alloc(range, 1, 0, 0, &offset_bytes), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(offset_bytes, 77);
    give(all);
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), 1 * MIB);
}

static void sizes_are_rounded_to_the_granule(void)
{
    uint64_t one = take(1);
    CU_ASSERT_EQUAL(dao_range_used(range), UNIT);
    uint64_t more = take(UNIT + 1);
    CU_ASSERT_EQUAL(dao_range_used(range), 3 * UNIT);
    give(one);
    give(more);
    CU_ASSERT_EQUAL(dao_range_used(range), 0);
}

static void neighbours_merge_at_once_in_any_order(void)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t i = 0; i < 6; i++) {
        uint64_t blocks[3] = {take(4 * KIB), take(8 * KIB), take(12 * KIB)};
        for (size_t k = 0; k < 3; k++) {
            give(blocks[orders[i][k]]);
        }
        CU_ASSERT_EQUAL(dao_range_largest_hole(range), 1 * MIB);
    }
}

static void the_lowest_of_the_fitting_holes_is_taken(void)
{
    uint64_t blocks[8];
    for (size_t i = 0; i < 8; i++) {
        blocks[i] = take(4 * KIB);
    }
    give(blocks[1]);
    give(blocks[5]);
    give(blocks[3]);
    CU_ASSERT_EQUAL(take(4 * KIB), blocks[1]);
    CU_ASSERT_EQUAL(take(4 * KIB), blocks[3]);
    CU_ASSERT_EQUAL(take(4 * KIB), blocks[5]);
    for (size_t i = 0; i < 8; i++) {
        give(blocks[i]);
    }
}

/* Holes of one bin, the only one that fits being the first freed: it is the last in its list. */
static void a_hole_that_fits_is_never_missed(void)
{
    enum { HOLES = 12 };
    uint64_t holes[HOLES], walls[HOLES];
    for (size_t i = 0; i < HOLES; i++) {
        holes[i] = take((i == 0 ? 67 : 64) * UNIT); /* 64 to 67 units share a bin */
        walls[i] = take(UNIT);
    }
    uint64_t rest = take(dao_range_largest_hole(range));
    for (size_t i = 0; i < HOLES; i++) {
        give(holes[i]);
    }
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), 67 * UNIT);
    CU_ASSERT_EQUAL(take(66 * UNIT), holes[0]);
    give(holes[0]);
    give(rest);
    for (size_t i = 0; i < HOLES; i++) {
        give(walls[i]);
    }
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), 1 * MIB);
}

static void any_power_of_two_is_an_alignment(void)
{
    uint64_t first = take(UNIT);
    for (uint64_t alignment = 1; alignment <= 512 * KIB; alignment *= 2) {
        uint64_t offset_bytes = 1;
        CU_ASSERT_EQUAL_FATAL(dao_range_alloc(range, 3 * UNIT, alignment, 0, &offset_bytes), DAO_OK);
        CU_ASSERT_EQUAL(offset_bytes % alignment, 0);
        CU_ASSERT_EQUAL(offset_bytes % UNIT, 0);
        give(offset_bytes);
    }
    uint64_t offset_bytes = 1;
    CU_ASSERT_EQUAL(dao_range_alloc(range, UNIT, UINT64_C(1) << 63, 0, &offset_bytes), DAO_ERR_LIMIT);
    give(first);
    CU_ASSERT_EQUAL(dao_range_alloc(range, UNIT, UINT64_C(1) << 63, 0, &offset_bytes), DAO_OK);
    give(offset_bytes);
}

static void an_exact_place_is_taken_or_refused(void)
{
    CU_ASSERT_EQUAL(dao_range_alloc_at(range, 512 * KIB, 4 * KIB, 9), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_alloc_at(range, 512 * KIB - UNIT, 2 * UNIT, 0), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_range_alloc_at(range, 516 * KIB - UNIT, UNIT, 0), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_range_alloc_at(range, 1 * MIB - UNIT, 2 * UNIT, 0), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_range_alloc_at(range, 1 * MIB, UNIT, 0), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_range_alloc_at(range, 512 * KIB - UNIT, UNIT, 0), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_alloc_at(range, 516 * KIB, UNIT, 0), DAO_OK);
    CU_ASSERT_TRUE(dao_range_is_valid(range));
    give(512 * KIB);
    give(512 * KIB - UNIT);
    give(516 * KIB);
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), 1 * MIB);
}

static void bad_frees_are_told_apart(void)
{
    uint64_t block = take(4 * KIB);
    CU_ASSERT_EQUAL(dao_range_free(range, block + UNIT), DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(dao_range_free(range, block + 1), DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(dao_range_free(range, block + 4 * KIB), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(dao_range_free(range, 1 * MIB), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_range_free(range, UINT64_MAX), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_range_used(range), 4 * KIB);
    give(block);
    CU_ASSERT_EQUAL(dao_range_free(range, block), DAO_ERR_DOUBLE_FREE);
}

static void a_block_remembers_its_number(void)
{
    uint64_t offset_bytes = 0;
    CU_ASSERT_EQUAL(dao_range_alloc(range, 1000, 0, UINT64_MAX, &offset_bytes), DAO_OK);
    dao_range_block_t block;
    CU_ASSERT_EQUAL(dao_range_query(range, offset_bytes + 999, &block), DAO_OK);
    CU_ASSERT_EQUAL(block.user, UINT64_MAX);
    CU_ASSERT_EQUAL(block.size_bytes, 1024);
    CU_ASSERT_FALSE(block.is_free);
    CU_ASSERT_EQUAL(dao_range_free_block(range, offset_bytes, &block), DAO_OK);
    CU_ASSERT_EQUAL(block.user, UINT64_MAX);
    CU_ASSERT_EQUAL(dao_range_query(range, offset_bytes, &block), DAO_OK);
    CU_ASSERT_TRUE(block.is_free);
    CU_ASSERT_EQUAL(block.user, 0);
    CU_ASSERT_EQUAL(block.size_bytes, 1 * MIB);
    CU_ASSERT_EQUAL(dao_range_query(range, 1 * MIB, &block), DAO_ERR_FOREIGN_POINTER);
}

static void the_largest_range_works(void)
{
    dao_range_t *large = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_range_create(DAO_RANGE_CAPACITY_MAX, &large), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_largest_hole(large), DAO_RANGE_CAPACITY_MAX);
    uint64_t offset_bytes = 1;
    CU_ASSERT_EQUAL(dao_range_alloc(large, DAO_RANGE_CAPACITY_MAX, 0, 1, &offset_bytes), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_free(large, offset_bytes), DAO_OK);
    uint64_t last = DAO_RANGE_CAPACITY_MAX - UNIT;
    CU_ASSERT_EQUAL(dao_range_alloc_at(large, last, UNIT, 1), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_alloc_at(large, 0, last, 1), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_used(large), DAO_RANGE_CAPACITY_MAX);
    CU_ASSERT_TRUE(dao_range_is_valid(large));
    dao_range_block_t block;
    CU_ASSERT_EQUAL(dao_range_query(large, last - 1, &block), DAO_OK);
    CU_ASSERT_EQUAL(block.offset_bytes, 0);
    CU_ASSERT_EQUAL(dao_range_free(large, last), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_free(large, 0), DAO_OK);
    CU_ASSERT_TRUE(dao_range_is_valid(large));
    dao_range_destroy(large);
}

#if defined(DAO_FAULTS)

/* Creates a range and fills it with 100 blocks; gives the first failure's status. */
static dao_status_t fill_once(void)
{
    dao_range_t *filled = NULL;
    dao_status_t status = dao_range_create(1 * MIB, &filled);
    for (uint64_t i = 0; status == DAO_OK && i < 100; i++) {
        uint64_t used_bytes = dao_range_used(filled);
        uint64_t hole_bytes = dao_range_largest_hole(filled);
        status = dao_range_alloc_at(filled, 2 * i * UNIT, UNIT, i);
        CU_ASSERT_TRUE(dao_range_is_valid(filled));
        if (status != DAO_OK) {
            CU_ASSERT_EQUAL(dao_range_used(filled), used_bytes);
            CU_ASSERT_EQUAL(dao_range_largest_hole(filled), hole_bytes);
        }
    }
    for (uint64_t i = 0; filled != NULL && i < 100; i++) {
        (void)dao_range_free(filled, 2 * i * UNIT); /* those that were not taken are refused */
    }
    CU_ASSERT_TRUE(filled == NULL || dao_range_used(filled) == 0);
    dao_range_destroy(filled);
    return status;
}

static void a_lack_of_memory_changes_nothing(void)
{
    uint64_t n = 0;
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    for (; status != DAO_OK && n < 100; n++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        status = fill_once();
        uint64_t fired = dao_fault_disarm();
        CU_ASSERT_TRUE(fired == 0 ? status == DAO_OK : status == DAO_ERR_NO_HOST_MEMORY);
    }
    CU_ASSERT_TRUE(n > 6 && n < 100);
}

#endif

/* ---- the slow model: an owner for every granule ---- */

#define MODEL_UNITS  16384u
#define MODEL_BLOCKS 1200u

typedef struct model_block {
    uint64_t offset_bytes;
    uint64_t size_bytes;
    uint64_t user;
} model_block_t;

typedef struct model {
    bool used[MODEL_UNITS];
    model_block_t blocks[MODEL_BLOCKS];
    size_t count;
    uint64_t used_bytes;
} model_t;

static bool model_is_free(const model_t *model, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++) {
        if (i >= MODEL_UNITS || model->used[i]) {
            return false;
        }
    }
    return true;
}

static bool model_has_room(const model_t *model, uint64_t size_bytes, uint64_t alignment_bytes)
{
    for (uint64_t i = 0; i < MODEL_UNITS; i += alignment_bytes / UNIT) {
        if (model_is_free(model, i, (size_bytes + UNIT - 1) / UNIT)) {
            return true;
        }
    }
    return false;
}

static uint64_t model_largest_hole(const model_t *model)
{
    uint64_t largest = 0, run = 0;
    for (uint64_t i = 0; i < MODEL_UNITS; i++) {
        run = model->used[i] ? 0 : run + 1;
        largest = run > largest ? run : largest;
    }
    return largest * UNIT;
}

static void model_add(model_t *model, uint64_t offset_bytes, uint64_t size_bytes, uint64_t user)
{
    uint64_t count = (size_bytes + UNIT - 1) / UNIT;
    CU_ASSERT_TRUE_FATAL(model_is_free(model, offset_bytes / UNIT, count));
    memset(&model->used[offset_bytes / UNIT], true, count);
    model->blocks[model->count++] = (model_block_t){offset_bytes, count * UNIT, user};
    model->used_bytes += count * UNIT;
}

static void model_remove(model_t *model, size_t index)
{
    model_block_t *block = &model->blocks[index];
    memset(&model->used[block->offset_bytes / UNIT], false, block->size_bytes / UNIT);
    model->used_bytes -= block->size_bytes;
    *block = model->blocks[--model->count];
}

static uint64_t random_size(uint64_t *seed)
{
    uint64_t shift = dao_test_random(seed) % 8;
    return 1 + dao_test_random(seed) % ((uint64_t)UNIT << shift);
}

static void random_alloc(model_t *model, uint64_t *seed)
{
    uint64_t size_bytes = random_size(seed);
    uint64_t alignment_bytes = (uint64_t)UNIT
                               << (dao_test_random(seed) % 4 == 0 ? dao_test_random(seed) % 9 : 0);
    uint64_t user = dao_test_random(seed);
    uint64_t offset_bytes = 0;
    dao_status_t status = dao_range_alloc(range, size_bytes, alignment_bytes, user, &offset_bytes);
    if (status == DAO_OK) {
        CU_ASSERT_EQUAL(offset_bytes % alignment_bytes, 0);
        model_add(model, offset_bytes, size_bytes, user);
    } else {
        CU_ASSERT_EQUAL(status, DAO_ERR_LIMIT);
        CU_ASSERT_FALSE(model_has_room(model, size_bytes, alignment_bytes));
    }
}

static void random_alloc_at(model_t *model, uint64_t *seed)
{
    uint64_t count = 1 + random_size(seed) / UNIT;
    uint64_t first = dao_test_random(seed) % MODEL_UNITS;
    dao_status_t status = dao_range_alloc_at(range, first * UNIT, count * UNIT, first);
    bool is_free = model_is_free(model, first, count);
    CU_ASSERT_EQUAL(status, is_free ? DAO_OK : DAO_ERR_LIMIT);
    if (status == DAO_OK) {
        model_add(model, first * UNIT, count * UNIT, first);
    }
}

static void random_query(const model_t *model, uint64_t *seed)
{
    uint64_t offset_bytes = dao_test_random(seed) % (MODEL_UNITS * UNIT);
    dao_range_block_t block = {0};
    CU_ASSERT_EQUAL(dao_range_query(range, offset_bytes, &block), DAO_OK);
    CU_ASSERT_TRUE(block.offset_bytes <= offset_bytes &&
                   offset_bytes - block.offset_bytes < block.size_bytes);
    CU_ASSERT_EQUAL(block.is_free, !model->used[offset_bytes / UNIT]);
}

static bool add_used(const dao_range_block_t *block, void *user)
{
    *(uint64_t *)user += block->is_free ? 0 : block->size_bytes;
    return true;
}

static bool is_largest(const dao_range_block_t *block, void *user)
{
    uint64_t largest_bytes = *(uint64_t *)user;
    CU_ASSERT_TRUE(block->is_free && block->size_bytes <= largest_bytes);
    CU_ASSERT_TRUE(block->size_bytes + block->size_bytes / 16 + UNIT >= largest_bytes);
    return false;
}

static void check_against(const model_t *model)
{
    uint64_t walked_bytes = 0;
    dao_range_walk(range, add_used, &walked_bytes);
    CU_ASSERT_EQUAL(walked_bytes, model->used_bytes);
    CU_ASSERT_EQUAL(dao_range_used(range), model->used_bytes);
    CU_ASSERT_TRUE_FATAL(dao_range_is_valid(range));
    uint64_t largest_bytes = model_largest_hole(model);
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), largest_bytes);
    dao_range_walk_holes(range, is_largest, &largest_bytes);
}

static void random_operations_agree_with_the_model(void)
{
    uint64_t seed = dao_test_seed("range", 1);
    model_t *model = calloc(1, sizeof(*model));
    CU_ASSERT_PTR_NOT_NULL_FATAL(model);
    dao_range_destroy(range);
    CU_ASSERT_EQUAL_FATAL(dao_range_create(MODEL_UNITS * UNIT, &range), DAO_OK);
    for (size_t i = 0; i < 12000; i++) {
        uint64_t dice = dao_test_random(&seed) % 16;
        bool grows = i / 1500 % 2 == 0; /* fills up and drains in turn */
        if (model->count < MODEL_BLOCKS && dice < (grows ? 9u : 5u)) {
            random_alloc(model, &seed);
        } else if (model->count < MODEL_BLOCKS && dice == 9) {
            random_alloc_at(model, &seed);
        } else if (dice == 10) {
            random_query(model, &seed);
        } else if (model->count > 0) {
            size_t victim = dao_test_random(&seed) % model->count;
            dao_range_block_t block = {0};
            CU_ASSERT_EQUAL(dao_range_free_block(range, model->blocks[victim].offset_bytes, &block), DAO_OK);
            CU_ASSERT_EQUAL(block.user, model->blocks[victim].user);
            CU_ASSERT_EQUAL(block.size_bytes, model->blocks[victim].size_bytes);
            model_remove(model, victim);
        }
        check_against(model);
    }
    while (model->count > 0) {
        give(model->blocks[0].offset_bytes);
        model_remove(model, 0);
    }
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), MODEL_UNITS * UNIT);
    free(model);
}

static CU_TestInfo tests[] = {
    {"an empty range is one hole", an_empty_range_is_one_hole},
    {"sizes are rounded to the granule", sizes_are_rounded_to_the_granule},
    {"neighbours merge at once in any order", neighbours_merge_at_once_in_any_order},
    {"the lowest of the fitting holes is taken", the_lowest_of_the_fitting_holes_is_taken},
    {"a hole that fits is never missed", a_hole_that_fits_is_never_missed},
    {"any power of two is an alignment", any_power_of_two_is_an_alignment},
    {"an exact place is taken or refused", an_exact_place_is_taken_or_refused},
    {"bad frees are told apart", bad_frees_are_told_apart},
    {"a block remembers its number", a_block_remembers_its_number},
    {"the largest range works", the_largest_range_works},
#if defined(DAO_FAULTS)
    {"a lack of memory changes nothing", a_lack_of_memory_changes_nothing},
#endif
    {"random operations agree with the model", random_operations_agree_with_the_model},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"range", range_1m_create, range_1m_destroy, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
