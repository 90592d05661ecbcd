#include "integrations/nccl/dao_nccl.h"

#include "integrations/segment_registry.h"

#include <stdlib.h>

struct dao_nccl {
    ncclComm_t communicator;
    segment_registry_t *registry;
};

static bool enter(void *user, void *address, size_t size_bytes, void **out_handle)
{
    const dao_nccl_t *nccl = user;
    return ncclCommRegister(nccl->communicator, address, size_bytes, out_handle) == ncclSuccess;
}

static void leave(void *user, void *handle)
{
    const dao_nccl_t *nccl = user;
    (void)ncclCommDeregister(nccl->communicator, handle);
}

dao_status_t dao_nccl_attach(dao_device_place_t place, ncclComm_t communicator, dao_nccl_t **out_nccl)
{
    static const segment_registry_ops_t ops = {enter, leave};
    if (communicator == NULL || out_nccl == NULL) {
        return DAO_ERR_INVALID;
    }
    dao_nccl_t *nccl = malloc(sizeof(*nccl));
    if (nccl == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    nccl->communicator = communicator;
    dao_status_t status = segment_registry_create(dao_place_from_device(place), &ops, nccl, &nccl->registry);
    if (status != DAO_OK) {
        free(nccl);
        return status;
    }
    *out_nccl = nccl;
    return DAO_OK;
}

void dao_nccl_detach(dao_nccl_t *nccl)
{
    if (nccl != NULL) {
        segment_registry_destroy(nccl->registry);
        free(nccl);
    }
}

size_t dao_nccl_registered_count(dao_nccl_t *nccl, size_t *out_refused_count)
{
    size_t refused_count = 0;
    size_t count = nccl != NULL ? segment_registry_count(nccl->registry, &refused_count) : 0;
    if (out_refused_count != NULL) {
        *out_refused_count = refused_count;
    }
    return count;
}
