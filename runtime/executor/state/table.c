/* SPDX-License-Identifier: Apache-2.0 */
/* The table is a list through the tensors' records; it has a reference to each of them. */
#include "runtime/executor/state/table.h"

#include "base/report/assert.h"
#include "runtime/executor/records/access.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/state/residency.h"

void dao_table_list(dao_engine_t *engine, dao_managed_t *tensor)
{
    if (tensor->is_listed) {
        return;
    }
    dao_managed_reference(tensor);
    if (tensor->source != NULL) { /* whose bytes it has from now on */
        DAO_ASSERT(tensor->residency == DAO_RESIDENCY_EMPTY);
        tensor->residency = DAO_RESIDENCY_FILE;
        tensor->file_copy = DAO_FILE_COPY_VALID;
    }
    tensor->is_listed = true;
    tensor->table_previous = NULL;
    tensor->table_next = engine->table;
    if (engine->table != NULL) {
        engine->table->table_previous = tensor;
    }
    DAO_ASSERT(engine->table == NULL || engine->table->table_previous == tensor);
    engine->table = tensor;
}

void dao_table_unlist(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(tensor->is_listed);
    DAO_ASSERT(tensor->residency == DAO_RESIDENCY_EMPTY);
    if (tensor->table_previous != NULL) {
        tensor->table_previous->table_next = tensor->table_next;
    } else {
        engine->table = tensor->table_next;
    }
    if (tensor->table_next != NULL) {
        tensor->table_next->table_previous = tensor->table_previous;
    }
    tensor->is_listed = false;
    dao_managed_unreference(tensor);
}

void dao_table_settle(dao_engine_t *engine, dao_managed_t *tensor)
{
    if (!tensor->is_listed) {
        return;
    }
    if (dao_access_is_dead(tensor)) {
        dao_residency_discard(engine, tensor);
        if (tensor->first_use == NULL) {
            dao_table_unlist(engine, tensor);
        }
    }
}
