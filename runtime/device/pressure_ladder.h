/* SPDX-License-Identifier: Apache-2.0 */
/* The last resorts before an allocation fails. */
#ifndef DAO_RUNTIME_PRESSURE_LADDER_H
#define DAO_RUNTIME_PRESSURE_LADDER_H

#include "runtime/device/runtime.h"

#include <dao/pressure.h>

/* An allocation, where it is made, and what came of it. */
typedef struct dao_pressure_need {
    dao_place_t place;
    dao_allocator_t *allocator;
    dao_runtime_t *runtime; /* NULL for the host */
    const dao_block_request_t *request;
    dao_block_grant_t *out_grant;
} dao_pressure_need_t;

/* Goes on with an allocation whose first attempt has answered `status`, which is short: frees what can be
   freed and tries again, a bounded number of times. The answer of the last attempt. Called without a lock. */
DAO_NODISCARD dao_status_t dao_pressure_relieve(const dao_pressure_need_t *need, dao_status_t status);

/* Releases the cached memory of all host places that are in use. Returns the number of bytes. */
uint64_t dao_pressure_trim_host(dao_core_t *core);

/* Returns the bytes of live blocks of all host places that are in use. */
uint64_t dao_pressure_host_used(dao_core_t *core);

/* Adds a callback of a place that is there. Returns false if there are too many. */
bool dao_pressure_add(dao_place_t place, dao_pressure_callback_t function, void *user, uint64_t *out_id);

/* Keeps how long an allocation at a place may wait for a free; 0: not at all. */
void dao_pressure_wait_keep(dao_place_t place, uint64_t wait_ns);

/* Forgets all callbacks and waits: the library stops, and no call is under way. */
void dao_pressure_clear(void);

#endif
