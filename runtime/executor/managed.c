/* SPDX-License-Identifier: Apache-2.0 */
/* Handles to managed tensors: the program's side of the records of records/tensor.h. */
#include "base/memory/host.h"
#include "base/report/error.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/executor/records/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Bytes of a name that the library makes up. */
#define MADE_UP_NAME_BYTES 32

static char *make_name(const char *name, uint64_t id)
{
    if (name != NULL) {
        return dao_host_strdup(name);
    }
    char made_up[MADE_UP_NAME_BYTES];
    (void)snprintf(made_up, sizeof(made_up), "tensor %" PRIu64, id);
    return dao_host_strdup(made_up);
}

static dao_status_t check_config(const char *function, const dao_executor_t *executor,
                                 const dao_managed_config_t *config, dao_managed_t *const *out_tensor)
{
    if (executor == NULL || config == NULL || out_tensor == NULL) {
        return dao_error_null(function, executor == NULL ? "executor"
                                        : config == NULL ? "config"
                                                         : "out_tensor");
    }
    dao_status_t status = dao_executor_check_process(executor);
    if (status != DAO_OK) {
        return status;
    }
    if (config->size_bytes == 0) {
        return dao_error(DAO_ERR_INVALID, "a managed tensor needs at least 1 byte");
    }
    if (config->size_bytes > DAO_RANGE_CAPACITY_MAX) {
        return dao_error(DAO_ERR_OVERFLOW,
                         "a managed tensor of %zu bytes is asked for, at most %" PRIu64 " are allowed",
                         config->size_bytes, DAO_RANGE_CAPACITY_MAX);
    }
    if (config->priority > DAO_MANAGED_PRIORITY_MAX) {
        return dao_error(DAO_ERR_INVALID, "a managed tensor's priority is %" PRIu32 "; the most is %u",
                         config->priority, DAO_MANAGED_PRIORITY_MAX);
    }
    return DAO_OK;
}

/* Makes the record of a tensor; its settings have been checked. */
static dao_status_t create(dao_executor_t *executor, const dao_managed_config_t *config,
                           dao_managed_t **out_tensor)
{
    uint64_t id = atomic_fetch_add(&executor->next_tensor_id, 1);
    dao_managed_t *tensor = dao_host_calloc(1, sizeof(*tensor));
    char *name = tensor != NULL ? make_name(config->name, id) : NULL;
    if (name == NULL) {
        dao_host_free(tensor);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the record of a managed tensor");
    }
    tensor->executor = executor;
    tensor->shell = &executor->shared;
    tensor->live_tensor_count = &executor->live_tensor_count;
    tensor->id = id;
    tensor->name = name;
    tensor->size_bytes = config->size_bytes;
    tensor->zero_first_touch = config->zero_first_touch;
    tensor->priority = config->priority;
    atomic_init(&tensor->handle.reference_count, 1);
    atomic_init(&tensor->reference_count, 1);
    tensor->release_item.kind = DAO_ITEM_RELEASE;
    tensor->release_item.released = tensor;
    dao_counted_reference(&executor->shared);
    atomic_fetch_add(&executor->live_tensor_count, 1);
    *out_tensor = tensor;
    return DAO_OK;
}

dao_status_t dao_managed_create(dao_executor_t *executor, const dao_managed_config_t *config,
                                dao_managed_t **out_tensor)
{
    dao_status_t status = check_config(__func__, executor, config, out_tensor);
    return status == DAO_OK ? create(executor, config, out_tensor) : status;
}

static dao_status_t check_source(const dao_managed_config_t *config, const dao_source_t *source,
                                 uint64_t offset_bytes)
{
    if (source == NULL) {
        return dao_error_null("dao_managed_create_from", "source");
    }
    if (!dao_source_is_open(source)) {
        return dao_error(DAO_ERR_INVALID, "dao_managed_create_from: the source %p was released",
                         (const void *)source);
    }
    uint64_t source_bytes = dao_source_size(source);
    if (offset_bytes > source_bytes || config->size_bytes > source_bytes - offset_bytes) {
        return dao_error(DAO_ERR_INVALID,
                         "dao_managed_create_from: tensor \"%s\" of %zu bytes from byte %" PRIu64
                         " on does not lie in \"%.400s\" of %" PRIu64 " bytes",
                         config->name != NULL ? config->name : "(no name)", config->size_bytes, offset_bytes,
                         dao_source_name(source), source_bytes);
    }
    if (config->zero_first_touch) {
        return dao_error(DAO_ERR_INVALID, "a tensor with a source begins with its bytes, not with zeros");
    }
    return DAO_OK;
}

/* The executor makes what sources are read by once it is asked to, for the first one. */
static dao_status_t prepare_for_sources(dao_executor_t *executor)
{
    dao_item_t item = {.kind = DAO_ITEM_SOURCES};
    dao_request_t request = {0};
    if (atomic_load(&executor->reads_sources)) {
        return DAO_OK;
    }
    dao_status_t status = dao_executor_check_thread(executor);
    return status == DAO_OK ? dao_executor_ask(executor, &item, &request) : status;
}

dao_status_t dao_managed_create_from(dao_executor_t *executor, const dao_managed_config_t *config,
                                     dao_source_t *source, uint64_t offset_bytes, dao_managed_t **out_tensor)
{
    dao_managed_t *tensor = NULL;
    dao_status_t status = check_config(__func__, executor, config, out_tensor);
    status = status == DAO_OK ? check_source(config, source, offset_bytes) : status;
    status = status == DAO_OK ? prepare_for_sources(executor) : status;
    status = status == DAO_OK ? create(executor, config, &tensor) : status;
    if (status == DAO_OK) {
        dao_source_hold(source);
        tensor->source = source;
        tensor->file_offset_bytes = offset_bytes;
        *out_tensor = tensor;
    }
    return status;
}

static dao_status_t check_slice(const dao_managed_t *tensor, size_t offset_bytes, size_t size_bytes)
{
    if (size_bytes == 0 || offset_bytes > tensor->size_bytes ||
        size_bytes > tensor->size_bytes - offset_bytes) {
        return dao_error(DAO_ERR_INVALID,
                         "tensor \"%s\" has %zu bytes%s, the call says %zu bytes from byte %zu on",
                         tensor->name, tensor->size_bytes, tensor->viewed != NULL ? " in this view" : "",
                         size_bytes, offset_bytes);
    }
    return DAO_OK;
}

dao_status_t dao_managed_view(dao_managed_t *tensor, size_t offset_bytes, size_t size_bytes,
                              dao_managed_t **out_view)
{
    if (out_view == NULL) {
        return dao_error_null("dao_managed_view", "out_view");
    }
    dao_status_t status = dao_managed_check(__func__, tensor);
    status = status == DAO_OK ? dao_executor_check_process(tensor->executor) : status;
    status = status == DAO_OK ? check_slice(tensor, offset_bytes, size_bytes) : status;
    if (status != DAO_OK) {
        return status;
    }
    dao_managed_t *view = dao_host_calloc(1, sizeof(*view));
    if (view == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a view of tensor \"%s\"", tensor->name);
    }
    dao_managed_t *storage = dao_managed_storage(tensor);
    status = dao_managed_retain(storage);
    if (status != DAO_OK) {
        dao_host_free(view);
        return status;
    }
    view->executor = storage->executor;
    view->id = storage->id;
    view->name = storage->name;
    view->size_bytes = size_bytes;
    view->viewed = storage;
    view->view_offset_bytes = tensor->view_offset_bytes + offset_bytes;
    atomic_init(&view->handle.reference_count, 1);
    *out_view = view;
    return DAO_OK;
}

dao_status_t dao_managed_retain(dao_managed_t *tensor)
{
    bool is_live = tensor != NULL && dao_managed_is_live(tensor);
    dao_status_t status = is_live ? dao_executor_check_process(tensor->executor) : DAO_OK;
    return status == DAO_OK ? dao_handle_retain(tensor != NULL ? &tensor->handle : NULL, "managed") : status;
}

dao_status_t dao_managed_release(dao_managed_t *tensor)
{
    if (tensor == NULL) {
        return DAO_OK;
    }
    bool is_last = false;
    dao_status_t status = dao_thread_check();
    if (status == DAO_OK) {
        status = dao_handle_release(&tensor->handle, "managed", &is_last);
    }
    if (status != DAO_OK || !is_last) {
        return status;
    }
    if (dao_executor_is_forked(tensor->executor)) {
        return DAO_OK; /* what it stands for is the parent's */
    }
    if (tensor->viewed != NULL) {
        dao_managed_t *viewed = tensor->viewed;
        dao_handle_bury(&tensor->handle);
        return dao_managed_release(viewed);
    }
    dao_item_t *item = &tensor->release_item;
    if (dao_queue_push(&tensor->executor->queue, item, item, 0) != DAO_OK) {
        dao_managed_unreference(tensor); /* the executor is gone, and with it all bytes */
    }
    return DAO_OK;
}

size_t dao_managed_size(const dao_managed_t *tensor)
{
    return dao_managed_check(__func__, tensor) == DAO_OK ? tensor->size_bytes : 0;
}

uint64_t dao_managed_id(const dao_managed_t *tensor)
{
    return dao_managed_check(__func__, tensor) == DAO_OK ? tensor->id : 0;
}

/* What all requests share. */
static dao_status_t transfer(dao_managed_t *tensor, dao_item_kind_t kind, dao_use_kind_t use,
                             dao_request_t *request)
{
    dao_item_t *item = NULL;
    dao_status_t status = dao_executor_check_thread(tensor->executor);
    if (status == DAO_OK) {
        status = dao_item_from_use(kind, dao_managed_storage(tensor), use, &item);
    }
    if (status == DAO_OK) {
        status = dao_executor_ask(tensor->executor, item, request);
        dao_item_destroy(item);
    }
    return status;
}

static dao_status_t check_memory(const char *function, const dao_managed_t *tensor, const void *memory)
{
    dao_status_t status = dao_managed_check(function, tensor);
    return status == DAO_OK && memory == NULL
               ? dao_error(DAO_ERR_INVALID, "%s: the program's memory is NULL", function)
               : status;
}

static dao_status_t check_whole(const char *function, const dao_managed_t *tensor, const void *memory,
                                size_t size_bytes)
{
    dao_status_t status = check_memory(function, tensor, memory);
    if (status == DAO_OK && size_bytes != tensor->size_bytes) {
        return dao_error(DAO_ERR_INVALID, "tensor \"%s\" has %zu bytes, the call says %zu", tensor->name,
                         tensor->size_bytes, size_bytes);
    }
    return status;
}

static dao_status_t check_part(const char *function, const dao_managed_t *tensor, size_t offset_bytes,
                               const void *memory, size_t size_bytes)
{
    dao_status_t status = check_memory(function, tensor, memory);
    return status == DAO_OK ? check_slice(tensor, offset_bytes, size_bytes) : status;
}

/* Where bytes of a tensor or view lie in the storage. */
static dao_slice_t slice_of(const dao_managed_t *tensor, size_t offset_bytes, size_t size_bytes)
{
    uint64_t begin_bytes = tensor->view_offset_bytes + offset_bytes;
    return (dao_slice_t){begin_bytes, begin_bytes + size_bytes};
}

/* It may fail, and the content stays then: so it counts as needed until the write is done. */
static dao_status_t write_slice(dao_managed_t *tensor, size_t offset_bytes, const void *source,
                                size_t size_bytes)
{
    dao_request_t request = {.source = source, .slice = slice_of(tensor, offset_bytes, size_bytes)};
    return transfer(tensor, DAO_ITEM_WRITE, DAO_USE_READ_WRITE, &request);
}

static dao_status_t read_slice(dao_managed_t *tensor, size_t offset_bytes, void *destination,
                               size_t size_bytes)
{
    dao_request_t request = {.destination = destination, .slice = slice_of(tensor, offset_bytes, size_bytes)};
    return transfer(tensor, DAO_ITEM_READ, DAO_USE_READ, &request);
}

dao_status_t dao_managed_write(dao_managed_t *tensor, const void *source, size_t size_bytes)
{
    dao_status_t status = check_whole(__func__, tensor, source, size_bytes);
    return status == DAO_OK ? write_slice(tensor, 0, source, size_bytes) : status;
}

dao_status_t dao_managed_read(dao_managed_t *tensor, void *destination, size_t size_bytes)
{
    dao_status_t status = check_whole(__func__, tensor, destination, size_bytes);
    return status == DAO_OK ? read_slice(tensor, 0, destination, size_bytes) : status;
}

dao_status_t dao_managed_write_part(dao_managed_t *tensor, size_t offset_bytes, const void *source,
                                    size_t size_bytes)
{
    dao_status_t status = check_part(__func__, tensor, offset_bytes, source, size_bytes);
    return status == DAO_OK ? write_slice(tensor, offset_bytes, source, size_bytes) : status;
}

dao_status_t dao_managed_read_part(dao_managed_t *tensor, size_t offset_bytes, void *destination,
                                   size_t size_bytes)
{
    dao_status_t status = check_part(__func__, tensor, offset_bytes, destination, size_bytes);
    return status == DAO_OK ? read_slice(tensor, offset_bytes, destination, size_bytes) : status;
}

/* Queues a write or read for which no thread waits. */
static dao_status_t transfer_async(dao_managed_t *tensor, dao_item_kind_t kind, dao_use_kind_t use,
                                   const dao_item_t *transfer)
{
    dao_item_t *item = NULL;
    dao_status_t status = dao_executor_check_thread(tensor->executor);
    if (status == DAO_OK) {
        status = dao_item_from_use(kind, dao_managed_storage(tensor), use, &item);
    }
    if (status != DAO_OK) {
        return status;
    }
    item->source = transfer->source;
    item->destination = transfer->destination;
    item->slice = transfer->slice;
    item->done = transfer->done;
    item->user = transfer->user;
    status = dao_executor_queue(tensor->executor, item, item, 0);
    if (status != DAO_OK) {
        dao_item_destroy(item);
    }
    return status;
}

static dao_status_t check_done(const char *function, dao_transfer_done_t done)
{
    return done != NULL ? DAO_OK : dao_error_null(function, "done");
}

dao_status_t dao_managed_write_async(dao_managed_t *tensor, size_t offset_bytes, const void *source,
                                     size_t size_bytes, dao_transfer_done_t done, void *user)
{
    dao_status_t status = check_part(__func__, tensor, offset_bytes, source, size_bytes);
    status = status == DAO_OK ? check_done(__func__, done) : status;
    if (status != DAO_OK) {
        return status;
    }
    dao_item_t transfer = {
        .source = source, .slice = slice_of(tensor, offset_bytes, size_bytes), .done = done, .user = user};
    return transfer_async(tensor, DAO_ITEM_WRITE, DAO_USE_READ_WRITE, &transfer);
}

dao_status_t dao_managed_read_async(dao_managed_t *tensor, size_t offset_bytes, void *destination,
                                    size_t size_bytes, dao_transfer_done_t done, void *user)
{
    dao_status_t status = check_part(__func__, tensor, offset_bytes, destination, size_bytes);
    status = status == DAO_OK ? check_done(__func__, done) : status;
    if (status != DAO_OK) {
        return status;
    }
    dao_item_t transfer = {.destination = destination,
                           .slice = slice_of(tensor, offset_bytes, size_bytes),
                           .done = done,
                           .user = user};
    return transfer_async(tensor, DAO_ITEM_READ, DAO_USE_READ, &transfer);
}

dao_status_t dao_managed_pin(dao_managed_t *tensor, void **out_address)
{
    dao_request_t request = {0};
    dao_status_t status = dao_managed_check(__func__, tensor);
    status = status == DAO_OK ? transfer(tensor, DAO_ITEM_PIN, DAO_USE_READ, &request) : status;
    if (status == DAO_OK && out_address != NULL) {
        *out_address = (char *)request.address + tensor->view_offset_bytes;
    }
    return status;
}

dao_status_t dao_managed_unpin(dao_managed_t *tensor)
{
    dao_request_t request = {0};
    dao_status_t status = dao_managed_check(__func__, tensor);
    return status == DAO_OK ? transfer(tensor, DAO_ITEM_UNPIN, DAO_USE_READ, &request) : status;
}
