/* SPDX-License-Identifier: Apache-2.0 */
/* The five places of a host with two devices, and what a failed call leaves as it was. */
#ifndef DAO_TESTS_FIVE_PLACES_H
#define DAO_TESTS_FIVE_PLACES_H

#include <dao/place.h>

#include <stddef.h>
#include <stdint.h>

#define PLACE_COUNT 5

extern const dao_place_t places[PLACE_COUNT];

typedef struct places_state {
    size_t used[PLACE_COUNT];
    int32_t current_device;
} places_state_t;

/* Initialise and finalise functions of a suite: two devices of 64 MiB. */
int places_start(void);
int places_stop(void);

places_state_t places_state(void);

void places_assert_unchanged(const places_state_t *before);

#endif
