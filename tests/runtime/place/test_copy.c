/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between any two places, with copies between devices and without. */
#include <dao/context.h>
#include <dao/memory.h>

#include "runtime/start/context.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/five_places.h"
#include "tests/support/suite.h"

#include <string.h>

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};

/* Starts on the built backend, or on it without copies between devices. */
static int start_with(bool has_peers)
{
    static dao_backend_ops_t table;
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    table = *dao_backend_ops();
    if (!has_peers) {
        table.copy_peer = NULL;
    }
    return dao_context_start(&config, &table) != DAO_OK;
}

static int runtime_start(void)
{
    return start_with(true);
}

static int staging_start(void)
{
    return start_with(false);
}

static void bytes_survive_a_copy_between_any_two_places(void)
{
    static const size_t sizes[] = {1, 1000, 5 * MIB + 13};
    static unsigned char sent[5 * MIB + 13];
    static unsigned char received[5 * MIB + 13];
    uint64_t random = dao_test_seed("bytes_survive_a_copy_between_any_two_places", 3);
    for (size_t i = 0; i < sizeof(sent); i++) {
        sent[i] = (unsigned char)dao_random_next(&random);
    }
    for (int i = 0; i < PLACE_COUNT * PLACE_COUNT * 3; i++) {
        dao_place_t from = places[i % PLACE_COUNT];
        dao_place_t to = places[i / PLACE_COUNT % PLACE_COUNT];
        size_t size = sizes[i / (PLACE_COUNT * PLACE_COUNT)];
        void *first = dao_alloc(from, size);
        void *second = dao_alloc(to, size);
        places_state_t before = places_state();
        memset(received, 0, size);
        CU_ASSERT_EQUAL(dao_copy(from, first, host, sent, size), DAO_OK);
        CU_ASSERT_EQUAL(dao_copy(to, second, from, first, size), DAO_OK);
        CU_ASSERT_EQUAL(dao_copy(host, received, to, second, size), DAO_OK);
        CU_ASSERT_EQUAL(memcmp(sent, received, size), 0);
        places_assert_unchanged(&before);
        CU_ASSERT_EQUAL(dao_free(from, first), DAO_OK);
        CU_ASSERT_EQUAL(dao_free(to, second), DAO_OK);
    }
}

static void copies_stay_inside_their_blocks(void)
{
    char bytes[2000];
    for (int i = 1; i < PLACE_COUNT; i++) {
        char *block = dao_alloc(places[i], 1000);
        char *other = dao_alloc(places[i], 1000);
        CU_ASSERT_EQUAL(dao_copy(places[i], block + 500, host, bytes, 500), DAO_OK);
        CU_ASSERT_EQUAL(dao_copy(places[i], block + 500, host, bytes, 501), DAO_ERR_OUT_OF_BOUNDS);
        CU_ASSERT_EQUAL(dao_copy(host, bytes, places[i], block, SIZE_MAX), DAO_ERR_OUT_OF_BOUNDS);
        CU_ASSERT_EQUAL(dao_copy(host, bytes, places[i], bytes, 1), DAO_ERR_OUT_OF_BOUNDS);
        CU_ASSERT_EQUAL(dao_copy(places[i], block, places[i], block + 10, 100), DAO_ERR_INVALID);
        CU_ASSERT_EQUAL(dao_copy(places[i], block, places[i], other, 1000), DAO_OK);
        CU_ASSERT_EQUAL(dao_copy(places[i], NULL, host, bytes, 1), DAO_ERR_INVALID);
        CU_ASSERT_EQUAL(dao_copy(dao_place_of(dao_device_place(5)), block, host, bytes, 1),
                        DAO_ERR_NO_DEVICE);
        CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_OK);
        CU_ASSERT_EQUAL(dao_copy(places[i], block, host, bytes, 1), DAO_ERR_OUT_OF_BOUNDS);
        CU_ASSERT_EQUAL(dao_free(places[i], other), DAO_OK);
    }
}

static CU_TestInfo tests[] = {
    {"copies stay inside their blocks", copies_stay_inside_their_blocks},
    {"bytes survive a copy between any two places", bytes_survive_a_copy_between_any_two_places},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo staging_tests[] = {
    {"bytes survive a copy between any two places", bytes_survive_a_copy_between_any_two_places},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"copy", runtime_start, places_stop, NULL, NULL, tests},
                             {"copy without peers", staging_start, places_stop, NULL, NULL, staging_tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
