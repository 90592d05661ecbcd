/* SPDX-License-Identifier: Apache-2.0 */
/* Command lists: items that are copied into the queue for every run. Every copy holds the list until its
   work has finished, so that a list may be destroyed while its runs are under way. */
#include <dao/command_list.h>

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/records/tensor.h"

#include <stddef.h>

struct dao_command_list {
    dao_counted_t shared;     /* first; held by the creator and by every run's items */
    dao_executor_t *executor; /* a reference to its shell */
    dao_item_t *first, *last;
    uint64_t kernel_count;
};

static_assert(offsetof(struct dao_command_list, shared) == 0, "a list is found by what its items hold");

static void destroy_chain(dao_item_t *first)
{
    while (first != NULL) {
        dao_item_t *next = first->next;
        dao_item_destroy(first);
        first = next;
    }
}

static void destroy_list(dao_counted_t *shared)
{
    dao_command_list_t *list = (dao_command_list_t *)shared;
    destroy_chain(list->first);
    dao_counted_unreference(&list->executor->shared);
    dao_host_free(list);
}

dao_status_t dao_command_list_create(dao_executor_t *executor, dao_command_list_t **out_list)
{
    if (executor == NULL || out_list == NULL) {
        return dao_error_null(__func__, executor == NULL ? "executor" : "out_list");
    }
    dao_status_t status = dao_executor_check_process(executor);
    if (status != DAO_OK) {
        return status;
    }
    dao_command_list_t *list = dao_host_calloc(1, sizeof(*list));
    if (list == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a command list");
    }
    dao_counted_init(&list->shared, destroy_list);
    list->executor = executor;
    dao_counted_reference(&executor->shared);
    *out_list = list;
    return DAO_OK;
}

static void append(dao_item_t **first, dao_item_t **last, dao_item_t *item)
{
    DAO_ASSERT((*first == NULL) == (*last == NULL));
    item->next = NULL;
    if (*last == NULL) {
        *first = item;
    } else {
        (*last)->next = item;
    }
    *last = item;
}

dao_status_t dao_command_list_push(dao_command_list_t *list, const dao_kernel_t *kernel)
{
    if (list == NULL) {
        return dao_error_null(__func__, "list");
    }
    dao_item_t *item = NULL;
    dao_status_t status = dao_executor_check_process(list->executor);
    status = status == DAO_OK ? dao_executor_item(list->executor, kernel, &item) : status;
    if (status == DAO_OK) {
        append(&list->first, &list->last, item);
        list->kernel_count++;
    }
    return status;
}

static dao_status_t check_tensor(const char *function, const dao_command_list_t *list,
                                 const dao_managed_t *tensor)
{
    if (list == NULL) {
        return dao_error_null(function, "list");
    }
    dao_status_t status = dao_managed_check(function, tensor);
    if (status == DAO_OK && tensor->executor != list->executor) {
        status = dao_error(DAO_ERR_INVALID, "the tensor is another executor's");
    }
    return status == DAO_OK ? dao_executor_check_process(list->executor) : status;
}

dao_status_t dao_command_list_discard(dao_command_list_t *list, dao_managed_t *tensor)
{
    dao_status_t status = check_tensor(__func__, list, tensor);
    if (status != DAO_OK) {
        return status;
    }
    if (tensor->viewed != NULL) {
        return dao_error(DAO_ERR_INVALID, "a view of tensor \"%s\" has no content of its own to discard",
                         tensor->name);
    }
    dao_item_t *item = NULL;
    status = dao_item_from_use(DAO_ITEM_DISCARD, tensor, DAO_USE_DISCARD, &item);
    if (status == DAO_OK) {
        append(&list->first, &list->last, item);
    }
    return status;
}

dao_status_t dao_command_list_write(dao_command_list_t *list, dao_managed_t *tensor, const void *source,
                                    size_t size_bytes)
{
    dao_status_t status = check_tensor(__func__, list, tensor);
    if (status != DAO_OK) {
        return status;
    }
    if (source == NULL) {
        return dao_error_null(__func__, "source");
    }
    if (size_bytes != tensor->size_bytes) {
        return dao_error(DAO_ERR_INVALID, "tensor \"%s\" has %zu bytes, the call says %zu", tensor->name,
                         tensor->size_bytes, size_bytes);
    }
    dao_item_t *item = NULL;
    dao_managed_t *storage = dao_managed_storage(tensor);
    dao_use_kind_t use = size_bytes == storage->size_bytes ? DAO_USE_WRITE : DAO_USE_READ_WRITE;
    status = dao_item_from_use(DAO_ITEM_WRITE, storage, use, &item);
    if (status == DAO_OK) {
        item->source = source;
        item->slice = (dao_slice_t){tensor->view_offset_bytes, tensor->view_offset_bytes + size_bytes};
        append(&list->first, &list->last, item);
    }
    return status;
}

dao_status_t dao_command_list_least_capacity(const dao_command_list_t *list, size_t *out_bytes)
{
    if (list == NULL || out_bytes == NULL) {
        return dao_error_null(__func__, list == NULL ? "list" : "out_bytes");
    }
    dao_status_t status = dao_executor_check_process(list->executor);
    if (status != DAO_OK) {
        return status;
    }
    uint64_t most_bytes = 0;
    for (const dao_item_t *item = list->first; item != NULL; item = item->next) {
        uint64_t bytes = item->kind == DAO_ITEM_KERNEL ? dao_engine_least_bytes(item) : 0;
        most_bytes = bytes > most_bytes ? bytes : most_bytes;
    }
    *out_bytes = (size_t)most_bytes;
    return DAO_OK;
}

dao_status_t dao_command_list_plan(dao_command_list_t *list, uint64_t work_limit)
{
    if (list == NULL) {
        return dao_error_null(__func__, "list");
    }
    dao_status_t status = dao_executor_check_thread(list->executor);
    dao_item_t item = {.kind = DAO_ITEM_LIST_PLAN};
    dao_request_t request = {.list = list->first, .work_limit = work_limit};
    status = status == DAO_OK ? dao_executor_ask(list->executor, &item, &request) : status;
    if (status != DAO_OK) {
        dao_error_prefix("%s: ", __func__);
    }
    return status;
}

/* Copies all items of a list, between two step boundaries. On an error none is left. */
static dao_status_t copy_items(dao_command_list_t *list, dao_item_t **out_first, dao_item_t **out_last)
{
    dao_item_t *first = NULL;
    dao_item_t *last = NULL;
    dao_item_t *copy = NULL;
    dao_status_t status = dao_item_from_step_boundary(&copy);
    for (const dao_item_t *item = list->first; status == DAO_OK; item = item->next) {
        append(&first, &last, copy);
        if (item == NULL) {
            break;
        }
        status = dao_item_copy(item, &list->shared, &copy);
    }
    if (status == DAO_OK) {
        status = dao_item_from_step_boundary(&copy);
    }
    if (status != DAO_OK) {
        destroy_chain(first);
        return status;
    }
    append(&first, &last, copy);
    DAO_ASSERT(first->kind == DAO_ITEM_STEP_BOUNDARY);
    DAO_ASSERT(last->kind == DAO_ITEM_STEP_BOUNDARY);
    *out_first = first;
    *out_last = last;
    return DAO_OK;
}

dao_status_t dao_command_list_run(dao_command_list_t *list)
{
    if (list == NULL) {
        return dao_error_null(__func__, "list");
    }
    dao_status_t status = dao_executor_check_thread(list->executor);
    if (status != DAO_OK || list->first == NULL) {
        return status == DAO_OK ? dao_queue_check(&list->executor->queue) : status;
    }
    dao_item_t *first = NULL;
    dao_item_t *last = NULL;
    status = copy_items(list, &first, &last);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_executor_queue(list->executor, first, last, list->kernel_count);
    if (status != DAO_OK) {
        destroy_chain(first);
    }
    return status;
}

void dao_command_list_destroy(dao_command_list_t *list)
{
    if (list != NULL && dao_thread_check() == DAO_OK && !dao_executor_is_forked(list->executor)) {
        dao_counted_unreference(&list->shared);
    }
}
