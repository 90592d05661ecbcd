/* SPDX-License-Identifier: Apache-2.0 */
/* A queue that goes around its memory: in order, whatever is pushed and popped, and unchanged where it cannot
   grow. */
#include "base/report/fault.h"
#include "base/ring.h"
#include "tests/support/suite.h"

typedef struct value {
    uint64_t number;
    char padding[13]; /* no power of two */
} value_t;

static dao_ring_t ring;

static void begin(void)
{
    dao_ring_init(&ring, sizeof(value_t));
}

static void end(void)
{
    dao_ring_finish(&ring);
}

static bool push(uint64_t number)
{
    return dao_ring_push(&ring, &(value_t){.number = number});
}

static uint64_t number_at(size_t index)
{
    const value_t *value = dao_ring_at(&ring, index);
    return value->number;
}

static void a_new_ring_is_empty(void)
{
    CU_ASSERT_EQUAL(ring.count, 0);
    CU_ASSERT_TRUE(dao_ring_is_valid(&ring));
}

static void random_values_come_in_their_order(void)
{
    uint64_t seed = dao_test_seed("ring", 7), pushed = 0, popped = 0;
    for (size_t i = 0; i < 20000; i++) {
        bool grows = i / 700 % 2 == 0;
        if (dao_random_next(&seed) % 10 < (grows ? 7u : 3u)) {
            CU_ASSERT_TRUE_FATAL(push(pushed));
            pushed++;
        } else if (popped < pushed) {
            CU_ASSERT_EQUAL(number_at(0), popped);
            dao_ring_pop(&ring);
            popped++;
        }
        CU_ASSERT_EQUAL_FATAL(ring.count, pushed - popped);
        CU_ASSERT_TRUE_FATAL(dao_ring_is_valid(&ring));
        if (ring.count > 0) {
            size_t index = (size_t)(dao_random_next(&seed) % ring.count);
            CU_ASSERT_EQUAL(number_at(index), popped + index);
        }
    }
}

static void a_ring_that_cannot_grow_stays_as_it_is(void)
{
    for (uint64_t i = 0; ring.count == 0 || ring.count < ring.capacity; i++) {
        CU_ASSERT_TRUE_FATAL(push(i));
    }
    size_t count = ring.count;
    dao_ring_pop(&ring); /* so that it begins inside of its memory */
    CU_ASSERT_TRUE(push(count));
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, false);
    bool is_pushed = push(count + 1);
    uint64_t fired = dao_fault_disarm(); /* 0 in builds without fault points */
    CU_ASSERT_EQUAL(is_pushed, fired == 0);
    CU_ASSERT_TRUE(dao_ring_is_valid(&ring));
    CU_ASSERT_EQUAL(ring.count, count + is_pushed);
    for (size_t i = 0; i < count; i++) {
        CU_ASSERT_EQUAL(number_at(i), i + 1);
    }
    CU_ASSERT_TRUE(is_pushed || push(count + 1));
    CU_ASSERT_EQUAL(number_at(count), count + 1);
}

static CU_TestInfo tests[] = {
    {"a new ring is empty", a_new_ring_is_empty},
    {"random values come in their order", random_values_come_in_their_order},
    {"a ring that cannot grow stays as it is", a_ring_that_cannot_grow_stays_as_it_is},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"ring", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
