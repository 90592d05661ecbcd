/* SPDX-License-Identifier: Apache-2.0 */
/* Following a script: a request that is taken back leaves no trace. */
#include "base/memory/host.h"
#include "planning/steps/follow.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"

enum { COUNT = 400, PASS_COUNT = 5 + TEST_ROUNDS(15), SIZE_COUNT = 37, SLOT_COUNT = 3, KEY_COUNT = 5 };

static dao_script_t *script;
static dao_follow_t follow, other;

static uint64_t state;

static uint64_t draw(uint64_t below)
{
    return dao_random_next(&state) % below;
}

/* A request: some have a key, the others a thread slot. */
typedef struct request {
    uint32_t slot;
    uint64_t key;
    uint64_t size_bytes;
} request_t;

static request_t draw_request(void)
{
    return (request_t){.slot = (uint32_t)draw(SLOT_COUNT),
                       .key = draw(4) == 0 ? 1 + draw(KEY_COUNT) : 0,
                       .size_bytes = (1 + draw(SIZE_COUNT)) * DAO_LIFETIME_UNIT_BYTES};
}

static uint32_t next(dao_follow_t *follower, const request_t *request)
{
    return dao_follow_next(follower, request->slot, request->key, request->size_bytes);
}

/* A request that fails, and may be what is expected. */
static void fail(const request_t *expected)
{
    request_t request = draw(2) == 0 ? draw_request() : *expected;
    uint32_t entry = next(&follow, &request);
    dao_follow_take_back(&follow, request.slot, request.key, entry,
                         follow.positions[request.slot].request_count);
    CU_ASSERT_TRUE(dao_follow_is_valid(&follow));
}

static void a_request_that_is_taken_back_leaves_no_trace(void)
{
    request_t requests[COUNT];
    dao_lifetimes_t recording;
    uint32_t found_count = 0;
    state = dao_test_seed("requests taken back", 7);
    CU_ASSERT_EQUAL_FATAL(dao_lifetimes_init(&recording, COUNT), DAO_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        requests[i] = draw_request();
        dao_lifetime_t item = {
            .size_bytes = requests[i].size_bytes, .key = requests[i].key, .slot = (uint16_t)requests[i].slot};
        CU_ASSERT_EQUAL(dao_lifetimes_add(&recording, &item), i);
    }
    CU_ASSERT_EQUAL_FATAL(dao_script_learn(NULL, &recording, &script), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_follow_init(&follow, script), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_follow_init(&other, script), DAO_OK);
    for (uint32_t pass = 0; pass < PASS_COUNT; pass++) {
        dao_follow_restart(&follow);
        dao_follow_restart(&other);
        for (uint32_t i = 0; i < COUNT; i++) {
            bool deviates = draw(100) < pass;
            request_t request = deviates ? draw_request() : requests[i];
            for (uint64_t k = draw(4); k > 0; k--) {
                fail(&request);
            }
            uint32_t entry = next(&follow, &request);
            CU_ASSERT_EQUAL(entry, next(&other, &request));
            found_count += entry != DAO_SCRIPT_NONE;
        }
    }
    CU_ASSERT_TRUE(found_count > PASS_COUNT * COUNT / 2);
    dao_follow_finish(&follow);
    dao_follow_finish(&other);
    dao_script_destroy(script);
    dao_lifetimes_finish(&recording);
}

/* What came since has moved the program on. */
static void an_earlier_request_is_not_taken_back(void)
{
    dao_lifetimes_t recording;
    CU_ASSERT_EQUAL_FATAL(dao_lifetimes_init(&recording, COUNT), DAO_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        dao_lifetime_t item = {.size_bytes = (1 + i) * DAO_LIFETIME_UNIT_BYTES};
        CU_ASSERT_EQUAL(dao_lifetimes_add(&recording, &item), i);
    }
    CU_ASSERT_EQUAL_FATAL(dao_script_learn(NULL, &recording, &script), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_follow_init(&follow, script), DAO_OK);
    CU_ASSERT_EQUAL(dao_follow_next(&follow, 0, 0, DAO_LIFETIME_UNIT_BYTES), 0);
    uint32_t request_count = follow.positions[0].request_count;
    for (uint32_t i = 1; i < COUNT; i++) {
        CU_ASSERT_EQUAL(dao_follow_next(&follow, 0, 0, (1 + i) * DAO_LIFETIME_UNIT_BYTES), i);
        dao_follow_take_back(&follow, 0, 0, 0, request_count);
    }
    dao_follow_finish(&follow);
    dao_script_destroy(script);
    dao_lifetimes_finish(&recording);
}

static CU_TestInfo tests[] = {
    {"a request that is taken back leaves no trace", a_request_that_is_taken_back_leaves_no_trace},
    {"an earlier request is not taken back", an_earlier_request_is_not_taken_back},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"follow", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
