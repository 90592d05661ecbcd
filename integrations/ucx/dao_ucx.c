/* SPDX-License-Identifier: Apache-2.0 */
#include "integrations/ucx/dao_ucx.h"

#include "integrations/segment_registry.h"

static bool map(void *user, void *address, size_t size_bytes, void **out_handle)
{
    ucp_mem_map_params_t params = {
        .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH,
        .address = address,
        .length = size_bytes,
    };
    ucp_mem_h handle;
    if (ucp_mem_map(user, &params, &handle) != UCS_OK) {
        return false;
    }
    *out_handle = handle;
    return true;
}

static void unmap(void *user, void *handle)
{
    (void)ucp_mem_unmap(user, handle);
}

dao_status_t dao_ucx_attach(dao_place_t place, ucp_context_h context, dao_ucx_t **out_ucx)
{
    static const dao_segment_registry_ops_t ops = {map, unmap};
    if (context == NULL || out_ucx == NULL) {
        return DAO_ERR_INVALID;
    }
    return dao_segment_registry_create(place, &ops, context, out_ucx);
}

void dao_ucx_detach(dao_ucx_t *ucx)
{
    dao_segment_registry_destroy(ucx);
}

size_t dao_ucx_mapped_count(dao_ucx_t *ucx, size_t *out_refused_count)
{
    return dao_segment_registry_count(ucx, out_refused_count);
}
