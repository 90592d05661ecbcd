/* SPDX-License-Identifier: Apache-2.0 */
/* Steps: a list of items that are copied into the queue for every run. Every copy holds the step until its
   work has finished, so that a step may be destroyed while its runs are under way. */
#include <dao/step.h>

#include "base/memory/host.h"
#include "base/report/error.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/state/managed.h"

struct dao_step {
    _Atomic uint32_t reference_count; /* the creator, and every run's items */
    dao_executor_t *executor;         /* a reference to its shell */
    dao_item_t *first, *last;
    uint64_t kernel_count;
};

dao_status_t dao_step_create(dao_executor_t *executor, dao_step_t **out_step)
{
    if (executor == NULL || out_step == NULL) {
        return dao_error(DAO_ERR_INVALID, "the executor or out_step is NULL");
    }
    dao_step_t *step = dao_host_calloc(1, sizeof(*step));
    if (step == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a step");
    }
    atomic_init(&step->reference_count, 1);
    step->executor = executor;
    dao_executor_reference(executor);
    *out_step = step;
    return DAO_OK;
}

static void append(dao_item_t **first, dao_item_t **last, dao_item_t *item)
{
    item->next = NULL;
    if (*last == NULL) {
        *first = item;
    } else {
        (*last)->next = item;
    }
    *last = item;
}

static void destroy_chain(dao_item_t *first)
{
    while (first != NULL) {
        dao_item_t *next = first->next;
        dao_item_destroy(first);
        first = next;
    }
}

dao_status_t dao_step_push(dao_step_t *step, const dao_kernel_t *kernel)
{
    if (step == NULL) {
        return dao_error(DAO_ERR_INVALID, "the step is NULL");
    }
    dao_item_t *item = NULL;
    dao_status_t status = dao_item_from_kernel(step->executor, kernel, &item);
    if (status == DAO_OK) {
        append(&step->first, &step->last, item);
        step->kernel_count++;
    }
    return status;
}

dao_status_t dao_step_discard(dao_step_t *step, dao_managed_t *tensor)
{
    if (step == NULL || tensor == NULL || tensor->executor != step->executor) {
        return dao_error(DAO_ERR_INVALID,
                         "the step or the tensor is NULL, or the tensor is another executor's");
    }
    dao_item_t *item = NULL;
    dao_status_t status = dao_item_from_use(DAO_ITEM_DISCARD, tensor, DAO_USE_DISCARD, &item);
    if (status == DAO_OK) {
        append(&step->first, &step->last, item);
    }
    return status;
}

/* Copies all items of a step, between two marks. On an error none is left. */
static dao_status_t copy_items(dao_step_t *step, dao_item_t **out_first, dao_item_t **out_last)
{
    dao_item_t *first = NULL;
    dao_item_t *last = NULL;
    dao_item_t *copy = NULL;
    dao_status_t status = dao_item_from_mark(&copy);
    for (const dao_item_t *item = step->first; status == DAO_OK; item = item->next) {
        append(&first, &last, copy);
        if (item == NULL) {
            break;
        }
        status = dao_item_copy(item, step, &copy);
    }
    if (status == DAO_OK) {
        status = dao_item_from_mark(&copy);
    }
    if (status != DAO_OK) {
        destroy_chain(first);
        return status;
    }
    append(&first, &last, copy);
    *out_first = first;
    *out_last = last;
    return DAO_OK;
}

dao_status_t dao_step_run(dao_step_t *step)
{
    if (step == NULL) {
        return dao_error(DAO_ERR_INVALID, "the step is NULL");
    }
    dao_status_t status = dao_executor_check_thread(step->executor);
    if (status != DAO_OK || step->first == NULL) {
        return status;
    }
    dao_item_t *first = NULL;
    dao_item_t *last = NULL;
    status = copy_items(step, &first, &last);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_executor_queue(step->executor, first, last, step->kernel_count);
    if (status != DAO_OK) {
        destroy_chain(first);
    }
    return status;
}

void dao_step_reference(dao_step_t *step)
{
    atomic_fetch_add(&step->reference_count, 1);
}

void dao_step_unreference(dao_step_t *step)
{
    if (atomic_fetch_sub(&step->reference_count, 1) == 1) {
        destroy_chain(step->first);
        dao_executor_unreference(step->executor);
        dao_host_free(step);
    }
}

void dao_step_destroy(dao_step_t *step)
{
    if (step != NULL) {
        dao_step_unreference(step);
    }
}
