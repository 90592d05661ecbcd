/* SPDX-License-Identifier: Apache-2.0 */
/* Handles to managed tensors, and the records behind them. */
#include "runtime/executor/state/tensor.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/state/access.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Bytes of a name that the library makes up. */
#define MADE_UP_NAME_BYTES 32

void dao_managed_reference(dao_managed_t *tensor)
{
    atomic_fetch_add(&tensor->reference_count, 1);
}

void dao_managed_unreference(dao_managed_t *tensor)
{
    if (atomic_fetch_sub(&tensor->reference_count, 1) != 1) {
        return;
    }
    DAO_ASSERT(tensor->residency == DAO_RESIDENCY_EMPTY && !tensor->has_device &&
               tensor->host_address == NULL);
    dao_executor_t *executor = tensor->executor;
    atomic_fetch_sub(&executor->live_tensor_count, 1);
    dao_host_free(tensor->name);
    dao_handle_bury(&tensor->handle);
    dao_executor_unreference(executor);
}

static char *make_name(const char *name, uint64_t id)
{
    if (name != NULL) {
        return dao_host_strdup(name);
    }
    char made_up[MADE_UP_NAME_BYTES];
    (void)snprintf(made_up, sizeof(made_up), "tensor %" PRIu64, id);
    return dao_host_strdup(made_up);
}

dao_status_t dao_managed_create(dao_executor_t *executor, const dao_managed_config_t *config,
                                dao_managed_t **out_tensor)
{
    if (executor == NULL || config == NULL || out_tensor == NULL) {
        return dao_error(DAO_ERR_INVALID, "the executor, the settings or out_tensor is NULL");
    }
    if (config->size_bytes == 0) {
        return dao_error(DAO_ERR_INVALID, "a managed tensor needs at least 1 byte");
    }
    if (config->size_bytes > DAO_RANGE_CAPACITY_MAX) {
        return dao_error(DAO_ERR_OVERFLOW,
                         "a managed tensor of %zu bytes is asked for, at most %" PRIu64 " are allowed",
                         config->size_bytes, DAO_RANGE_CAPACITY_MAX);
    }
    uint64_t id = atomic_fetch_add(&executor->next_tensor_id, 1);
    dao_managed_t *tensor = dao_host_calloc(1, sizeof(*tensor));
    char *name = tensor != NULL ? make_name(config->name, id) : NULL;
    if (name == NULL) {
        dao_host_free(tensor);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the record of a managed tensor");
    }
    tensor->executor = executor;
    tensor->id = id;
    tensor->name = name;
    tensor->size_bytes = config->size_bytes;
    tensor->zero_first_touch = config->zero_first_touch;
    atomic_init(&tensor->handle.reference_count, 1);
    atomic_init(&tensor->reference_count, 1);
    tensor->release_item.kind = DAO_ITEM_RELEASE;
    tensor->release_item.released = tensor;
    dao_executor_reference(executor);
    atomic_fetch_add(&executor->live_tensor_count, 1);
    *out_tensor = tensor;
    return DAO_OK;
}

dao_status_t dao_managed_retain(dao_managed_t *tensor)
{
    return dao_handle_retain(tensor != NULL ? &tensor->handle : NULL, "managed");
}

dao_status_t dao_managed_release(dao_managed_t *tensor)
{
    if (tensor == NULL) {
        return DAO_OK;
    }
    bool is_last;
    dao_status_t status = dao_handle_release(&tensor->handle, "managed", &is_last);
    if (status != DAO_OK || !is_last) {
        return status;
    }
    dao_item_t *item = &tensor->release_item;
    if (dao_queue_push(&tensor->executor->queue, item, item, 0) != DAO_OK) {
        dao_managed_unreference(tensor); /* the executor is gone, and with it all bytes */
    }
    return DAO_OK;
}

size_t dao_managed_size(const dao_managed_t *tensor)
{
    return tensor != NULL ? tensor->size_bytes : 0;
}

uint64_t dao_managed_id(const dao_managed_t *tensor)
{
    return tensor != NULL ? tensor->id : 0;
}
