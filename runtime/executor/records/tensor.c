/* SPDX-License-Identifier: Apache-2.0 */
/* The records of managed tensors. A record is held by its handles (once), by every use of an item, by the
   executor's table, and by every operation of the file tier that moves its bytes. */
#include "runtime/executor/records/tensor.h"

#include "base/memory/host.h"
#include "base/report/assert.h"

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
    dao_counted_t *shell = tensor->shell;
    atomic_fetch_sub(tensor->live_tensor_count, 1);
    dao_host_free(tensor->name);
    dao_handle_bury(&tensor->handle);
    dao_counted_unreference(shell);
}
