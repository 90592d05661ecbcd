/* SPDX-License-Identifier: Apache-2.0 */
#include "integrations/nccl/dao_nccl.h"

#include "integrations/segment_registry.h"

static bool enter(void *user, void *address, size_t size_bytes, void **out_handle)
{
    return ncclCommRegister(user, address, size_bytes, out_handle) == ncclSuccess;
}

static void leave(void *user, void *handle)
{
    (void)ncclCommDeregister(user, handle);
}

dao_status_t dao_nccl_attach(dao_device_place_t place, ncclComm_t communicator, dao_nccl_t **out_nccl)
{
    static const dao_segment_registry_ops_t ops = {enter, leave};
    if (communicator == NULL || out_nccl == NULL) {
        return DAO_ERR_INVALID;
    }
    return dao_segment_registry_create(dao_place_from_device(place), &ops, communicator, out_nccl);
}

void dao_nccl_detach(dao_nccl_t *nccl)
{
    dao_segment_registry_destroy(nccl);
}

size_t dao_nccl_registered_count(dao_nccl_t *nccl, size_t *out_refused_count)
{
    return dao_segment_registry_count(nccl, out_refused_count);
}
