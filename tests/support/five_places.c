/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/five_places.h"

#include "tests/support/suite.h"

#include <dao/context.h>
#include <dao/memory.h>

const dao_place_t places[PLACE_COUNT] = {
    {DAO_PLACE_KIND_CPU, 0},    {DAO_PLACE_KIND_PINNED, 0}, {DAO_PLACE_KIND_PINNED, 1},
    {DAO_PLACE_KIND_DEVICE, 0}, {DAO_PLACE_KIND_DEVICE, 1},
};

int places_start(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    return dao_init(&config) != DAO_OK;
}

int places_stop(void)
{
    return dao_finalize() != DAO_OK;
}

places_state_t places_state(void)
{
    places_state_t state;
    for (int i = 0; i < PLACE_COUNT; i++) {
        state.used[i] = dao_used(places[i]);
    }
    state.current_device = dao_device_get_current();
    return state;
}

void places_assert_unchanged(const places_state_t *before)
{
    places_state_t now = places_state();
    for (int i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_EQUAL(now.used[i], before->used[i]);
    }
    CU_ASSERT_EQUAL(now.current_device, before->current_device);
}
