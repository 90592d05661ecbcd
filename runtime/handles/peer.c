/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that reach each other's memory. The backend enables it; the runtime records it for
   dao_peer_query(). */
#include <dao/peer.h>

#include "base/report/error.h"
#include "runtime/start/context.h"

#include <assert.h>
#include <inttypes.h>

static_assert(DAO_DEVICE_COUNT_MAX <= 64, "a set of devices is a bit each");

/* The two devices of a call, borrowed. */
typedef struct pair {
    dao_runtime_t *device;
    dao_runtime_t *peer;
} pair_t;

static dao_status_t device_find(const char *function, int32_t device_index, dao_runtime_t **out_runtime)
{
    dao_status_t status = dao_runtime_borrow(device_index, out_runtime);
    return status == DAO_OK ? dao_runtime_health(*out_runtime, function) : status;
}

static dao_status_t pair_find(const char *function, int32_t device_index, int32_t peer_index,
                              pair_t *out_pair)
{
    dao_status_t status = device_find(function, device_index, &out_pair->device);
    return status == DAO_OK ? device_find(function, peer_index, &out_pair->peer) : status;
}

dao_status_t dao_peer_query(int32_t device_index, int32_t peer_index, dao_peer_info_t *out_info)
{
    if (out_info == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_peer_query: out_info is NULL");
    }
    pair_t pair;
    dao_status_t status = pair_find("dao_peer_query", device_index, peer_index, &pair);
    if (status != DAO_OK) {
        return status;
    }
    const dao_backend_ops_t *ops = pair.device->ops;
    bool is_itself = pair.device->device == pair.peer->device;
    bool can_reach = is_itself;
    if (!is_itself && ops->peer_can != NULL && ops == pair.peer->ops) {
        status = dao_runtime_told_of_two(pair.device, pair.peer,
                                         ops->peer_can(pair.device->device, pair.peer->device, &can_reach));
    }
    if (status == DAO_OK) {
        uint64_t reached = atomic_load(&pair.device->reached);
        *out_info = (dao_peer_info_t){.can_reach = can_reach,
                                      .is_enabled = is_itself || (reached >> peer_index & 1) != 0};
    }
    return status;
}

dao_status_t dao_peer_enable(int32_t device_index, int32_t peer_index)
{
    pair_t pair;
    dao_status_t status = pair_find("dao_peer_enable", device_index, peer_index, &pair);
    if (status != DAO_OK || pair.device->device == pair.peer->device) {
        return status;
    }
    const dao_backend_ops_t *ops = pair.device->ops;
    if (ops->peer_enable == NULL || ops != pair.peer->ops) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "dao_peer_enable: device:%" PRId32 " does not reach device:%" PRId32
                         ", one of them a program's own memory or of a backend without peers",
                         device_index, peer_index);
    }
    status = dao_runtime_told_of_two(pair.device, pair.peer,
                                     ops->peer_enable(pair.device->device, pair.peer->device));
    if (status != DAO_OK) {
        dao_error_prefix("dao_peer_enable: from device:%" PRId32 " to device:%" PRId32 ": ", device_index,
                         peer_index);
        return status;
    }
    (void)atomic_fetch_or(&pair.device->reached, UINT64_C(1) << peer_index);
    return DAO_OK;
}
