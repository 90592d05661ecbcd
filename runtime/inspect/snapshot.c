/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot of a place, by its name. What is in it: observe/snapshot.c. */
#include "runtime/observe/snapshot.h"

#include "base/report/error.h"
#include "runtime/place/lookup.h"

dao_status_t dao_snapshot_create(dao_place_t place, dao_snapshot_t **out_snapshot)
{
    if (out_snapshot == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_snapshot_create: out_snapshot is NULL");
    }
    dao_allocator_t *allocator;
    dao_status_t status = dao_place_peek_drained(place, &allocator);
    return status == DAO_OK ? dao_snapshot_take(place, allocator, out_snapshot) : status;
}
