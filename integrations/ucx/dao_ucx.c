#include "integrations/ucx/dao_ucx.h"

#include "integrations/segment_registry.h"

#include <stdlib.h>

struct dao_ucx {
    ucp_context_h context;
    segment_registry_t *registry;
};

static bool map(void *user, void *address, size_t size_bytes, void **out_handle)
{
    const dao_ucx_t *ucx = user;
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = address,
        .length = size_bytes,
    };
    ucp_mem_h handle;
    if (ucp_mem_map(ucx->context, &params, &handle) != UCS_OK) {
        return false;
    }
    *out_handle = handle;
    return true;
}

static void unmap(void *user, void *handle)
{
    const dao_ucx_t *ucx = user;
    (void)ucp_mem_unmap(ucx->context, handle);
}

dao_status_t dao_ucx_attach(dao_place_t place, ucp_context_h context, dao_ucx_t **out_ucx)
{
    static const segment_registry_ops_t ops = {map, unmap};
    if (context == NULL || out_ucx == NULL) {
        return DAO_ERR_INVALID;
    }
    dao_ucx_t *ucx = malloc(sizeof(*ucx));
    if (ucx == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    ucx->context = context;
    dao_status_t status = segment_registry_create(place, &ops, ucx, &ucx->registry);
    if (status != DAO_OK) {
        free(ucx);
        return status;
    }
    *out_ucx = ucx;
    return DAO_OK;
}

void dao_ucx_detach(dao_ucx_t *ucx)
{
    if (ucx != NULL) {
        segment_registry_destroy(ucx->registry);
        free(ucx);
    }
}

size_t dao_ucx_mapped_count(dao_ucx_t *ucx, size_t *out_refused_count)
{
    size_t refused_count = 0;
    size_t count = ucx != NULL ? segment_registry_count(ucx->registry, &refused_count) : 0;
    if (out_refused_count != NULL) {
        *out_refused_count = refused_count;
    }
    return count;
}
