/* SPDX-License-Identifier: Apache-2.0 */
/* The records of managed tensors. A record is held by its handles (once), by every use of an item, by the
   executor's table, and by every operation of the file tier that moves its bytes.

   Invariant: a record that is not held any more has no bytes, no pending use, no role in a plan and no
   place in the table. */
#include "runtime/executor/records/tensor.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

dao_status_t dao_managed_check(const char *what, const dao_managed_t *tensor)
{
    if (tensor == NULL) {
        return dao_error(DAO_ERR_INVALID, "%s: the tensor is NULL", what);
    }
    return dao_managed_is_live(tensor)
               ? DAO_OK
               : dao_error(DAO_ERR_INVALID, "%s: the tensor %p was released: no handle is left", what,
                           (const void *)tensor);
}

dao_status_t dao_managed_check_writable(const dao_managed_t *tensor, const char *what)
{
    const dao_source_t *source = tensor->viewed != NULL ? tensor->viewed->source : tensor->source;
    return source == NULL
               ? DAO_OK
               : dao_error(DAO_ERR_INVALID,
                           "tensor \"%s\" cannot be %s: its bytes are those of \"%.400s\", which is never "
                           "written; copy it to a tensor of its own first",
                           tensor->name, what, dao_source_name(source));
}

void dao_managed_reference(dao_managed_t *tensor)
{
    atomic_fetch_add(&tensor->reference_count, 1);
}

void dao_managed_unreference(dao_managed_t *tensor)
{
    if (atomic_fetch_sub(&tensor->reference_count, 1) != 1) {
        return;
    }
    DAO_ASSERT(tensor->residency == DAO_RESIDENCY_EMPTY);
    DAO_ASSERT(!tensor->has_device);
    DAO_ASSERT(tensor->host_address == NULL);
    DAO_ASSERT(tensor->file_copy == DAO_FILE_COPY_NONE);
    DAO_ASSERT(tensor->first_use == NULL);
    DAO_ASSERT(tensor->plan_role == NULL);
    DAO_ASSERT(!tensor->is_listed);
    dao_counted_t *shell = tensor->shell;
    atomic_fetch_sub(tensor->live_tensor_count, 1);
    dao_host_free(tensor->name);
    if (tensor->source != NULL) {
        dao_source_drop(tensor->source);
    }
    dao_handle_bury(&tensor->handle);
    dao_counted_unreference(shell);
}
