/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets between what is placed, against a model that tries every offset. */
#include "base/report/fault.h"
#include "planning/offsets/support/shelf.h"
#include "tests/support/suite.h"

#define BYTES 256u
#define TIMES 16u

#define ITEM_COUNT  100 /* of a round: more than a stretch of a shelf has */
#define ROUND_COUNT 60

/* The owner of each byte at each time. */
typedef struct memory_model {
    bool is_taken[TIMES][4 * BYTES];
} memory_model_t;

static bool is_free(const memory_model_t *model, const dao_plan_shelf_life_t *life, uint64_t low,
                    uint64_t high)
{
    for (uint32_t time = 0; time < TIMES; time++) {
        bool is_alive = (time >= life->begin && time < life->end) ||
                        (time >= life->second_begin && time < life->second_end);
        for (uint64_t byte = low; is_alive && byte < high; byte++) {
            if (model->is_taken[time][byte]) {
                return false;
            }
        }
    }
    return true;
}

/* The lowest offset, or the lowest one of the smallest hole. The space above all is no hole. */
static uint64_t find_slowly(const memory_model_t *model, const dao_plan_shelf_life_t *life, uint64_t size,
                            uint64_t alignment, bool is_best_fit)
{
    uint64_t found = UINT64_MAX, least = UINT64_MAX;
    for (uint64_t offset = 0;; offset += alignment) {
        if (!is_free(model, life, offset, offset + size)) {
            continue;
        }
        uint64_t end = offset + size;
        while (end < 2 * BYTES && is_free(model, life, end, end + 1)) {
            end++;
        }
        bool is_top = end == 2 * BYTES;
        if (!is_best_fit || (is_top && found == UINT64_MAX)) {
            return offset;
        }
        if (is_top) {
            return found;
        }
        if (end - offset < least) {
            least = end - offset;
            found = offset;
        }
        offset = end / alignment * alignment; /* what is left of this hole is not asked for again */
    }
}

static void put(dao_plan_shelf_t *shelf, memory_model_t *model, const dao_plan_shelf_entry_t *entry)
{
    if (entry->begin == entry->end) {
        return;
    }
    dao_plan_shelf_put(shelf, entry);
    for (uint32_t time = entry->begin; time < entry->end; time++) {
        for (uint64_t byte = entry->low; byte < entry->high; byte++) {
            CU_ASSERT(!model->is_taken[time][byte]);
            model->is_taken[time][byte] = true;
        }
    }
}

static void it_finds_what_the_model_finds(void)
{
    uint64_t random = dao_test_seed("shelf", 20261121);
    for (int round = 0; round < ROUND_COUNT; round++) {
        dao_plan_memory_t memory = {0};
        dao_plan_shelf_t shelf;
        memory_model_t model = {0};
        uint32_t last_time = round % 2 == 0 ? TIMES : 3 * (uint32_t)INT16_MAX; /* some are rounded */
        CU_ASSERT_FATAL(dao_plan_shelf_init(&shelf, &memory, 2 * ITEM_COUNT, last_time));
        CU_ASSERT_EQUAL(shelf.time_shift > 0, last_time > INT16_MAX);
        for (int i = 0; i < ITEM_COUNT; i++) {
            uint32_t begin = (uint32_t)(dao_random_next(&random) % (TIMES - 1));
            uint32_t end = begin + 1 + (uint32_t)(dao_random_next(&random) % (TIMES - begin - 1));
            bool goes_on = begin > 1 && dao_random_next(&random) % 3 == 0;
            const dao_plan_shelf_life_t life = {begin, end, 0, goes_on ? begin / 2 : 0};
            uint64_t size = 1 + dao_random_next(&random) % 9, alignment = UINT64_C(1)
                                                                          << dao_random_next(&random) % 3;
            for (int is_best_fit = 1; is_best_fit >= 0; is_best_fit--) {
                uint64_t wanted = find_slowly(&model, &life, size, alignment, is_best_fit != 0);
                CU_ASSERT_EQUAL_FATAL(dao_plan_shelf_find(&shelf, &life, size, alignment, is_best_fit != 0),
                                      wanted);
                if (is_best_fit == 0 && wanted + size <= BYTES) {
                    put(&shelf, &model, &(dao_plan_shelf_entry_t){wanted, wanted + size, begin, end});
                    put(&shelf, &model, &(dao_plan_shelf_entry_t){wanted, wanted + size, 0, life.second_end});
                }
            }
            CU_ASSERT(dao_plan_shelf_is_valid(&shelf));
        }
        dao_plan_shelf_finish(&shelf, &memory);
        CU_ASSERT_EQUAL(memory.used_bytes, 0);
    }
}

static void without_memory_there_is_none(void)
{
    bool is_made = false;
    for (uint64_t skip = 0; !is_made; skip++) {
        dao_plan_memory_t memory = {0};
        dao_plan_shelf_t shelf;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, true);
        is_made = dao_plan_shelf_init(&shelf, &memory, 4, TIMES);
        CU_ASSERT_EQUAL(is_made, dao_fault_disarm() == 0);
        dao_plan_shelf_finish(&shelf, &memory);
        CU_ASSERT_EQUAL(memory.used_bytes, 0);
    }
}

static CU_TestInfo tests[] = {
    {"it finds what the model finds", it_finds_what_the_model_finds},
    {"without memory there is none", without_memory_there_is_none},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan shelf", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
