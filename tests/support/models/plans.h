/* SPDX-License-Identifier: Apache-2.0 */
/* Small random problems of offset planning, and slow answers about them: who clashes with whom, tick by tick
   and byte by byte; and the best plan there is, by trying every offset. They share no code with the
   library. */
#ifndef DAO_TESTS_SUPPORT_PLANS_H
#define DAO_TESTS_SUPPORT_PLANS_H

#include <dao/plan.h>

#include "tests/support/suite.h"

#include <stdbool.h>

#define DAO_TEST_PLAN_BUFFERS_MAX 64u
#define DAO_TEST_PLAN_CLOCKS_MAX  3u
#define DAO_TEST_PLAN_POOLS_MAX   3u

/* What a random problem has besides sizes and lives; several together as flags. */
typedef enum dao_test_plan_feature {
    DAO_TEST_PLAN_ALIGNED = 1u << 0,
    DAO_TEST_PLAN_FIXED = 1u << 1,
    DAO_TEST_PLAN_POOLS = 1u << 2, /* with capacities, mostly */
    DAO_TEST_PLAN_CYCLIC = 1u << 3,
    DAO_TEST_PLAN_CLOSED = 1u << 4,
    DAO_TEST_PLAN_MARGIN = 1u << 5,
    DAO_TEST_PLAN_GAPS = 1u << 6,
    DAO_TEST_PLAN_CLOCKS = 1u << 7, /* takes the place of the four before */
    DAO_TEST_PLAN_FEATURES = 1u << 8,
} dao_test_plan_feature_t;

typedef struct dao_test_plan {
    dao_plan_problem_t problem; /* its arrays are those below: not to be copied */
    dao_plan_buffer_t buffers[DAO_TEST_PLAN_BUFFERS_MAX];
    dao_plan_gap_t gaps[2 * DAO_TEST_PLAN_BUFFERS_MAX];
    dao_plan_pool_t pools[DAO_TEST_PLAN_POOLS_MAX];
    uint32_t begin_clocks[DAO_TEST_PLAN_BUFFERS_MAX * DAO_TEST_PLAN_CLOCKS_MAX];
    uint32_t end_clocks[DAO_TEST_PLAN_BUFFERS_MAX * DAO_TEST_PLAN_CLOCKS_MAX];
} dao_test_plan_t;

/* Makes a random problem. Fixed buffers may clash: then it has no plan. */
void dao_test_plan_make(dao_test_plan_t *plan, uint32_t features, size_t buffer_count, uint64_t size_max,
                        uint64_t *random);

/* Makes a problem that no quick method packs to its bound: many sizes, which live across each other. */
void dao_test_plan_make_hard(dao_test_plan_t *plan, uint64_t seed);

/* Returns true if two buffers at these offsets share bytes while both use them. */
bool dao_test_plan_do_clash(const dao_plan_problem_t *problem, size_t left, uint64_t left_offset,
                            size_t right, uint64_t right_offset);

/* Returns true if offsets (and pools; NULL: all 0) keep every rule. */
bool dao_test_plan_is_valid(const dao_plan_problem_t *problem, const uint64_t *offsets,
                            const uint32_t *pools);

/* Returns true if there is a plan that leaves out fewer bytes than this, or as few with a lower peak. At most
   7 buffers, of at most 8 bytes each. */
bool dao_test_plan_is_beaten(const dao_plan_problem_t *problem, uint64_t unplaced_bytes, uint64_t peak_bytes);

#endif
