/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a virtual device for several processes: an anonymous file, mapped by the process that created it
   and by those that received its descriptor. It counts against the device that created it. */
#include "backends/cpu/cpu_internal.h"
#include "base/memory/host.h"
#include "base/memory/shared.h"
#include "base/numbers/math.h"
#include "base/report/error.h"

#include <inttypes.h>

struct dao_backend_shared {
    void *address;
    size_t size_bytes;    /* of the file */
    size_t counted_bytes; /* of the device's capacity; 0: imported */
    int descriptor;       /* its own */
};

/* Maps the memory of a descriptor and takes the descriptor over. */
static dao_status_t shared_map(const dao_backend_device_t *device, int descriptor, size_t size_bytes,
                               dao_backend_shared_t **out_shared)
{
    dao_backend_shared_t *shared =
        descriptor != DAO_NO_DESCRIPTOR ? dao_host_calloc(1, sizeof(*shared)) : NULL;
    void *address = shared != NULL ? dao_shared_map(descriptor, size_bytes, DAO_CPU_PAGE_BYTES) : NULL;
    if (address == NULL) {
        dao_host_free(shared);
        dao_descriptor_close(descriptor);
        return dao_error(DAO_ERR_NO_HOST_MEMORY,
                         "the system refused %zu bytes of shared memory for virtual device %" PRId32,
                         size_bytes, device->index);
    }
    *shared = (dao_backend_shared_t){.address = address, .size_bytes = size_bytes, .descriptor = descriptor};
    *out_shared = shared;
    return DAO_OK;
}

dao_status_t dao_cpu_shared_create(dao_backend_device_t *device, size_t size_bytes,
                                   dao_backend_shared_t **out_shared, void **out_address)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status == DAO_OK) {
        /* At most the capacity is taken, so rounding up below cannot overflow. */
        status = dao_virtual_memory_take(&device->memory, size_bytes);
    }
    if (status != DAO_OK) {
        return status;
    }
    size_t file_bytes = (size_t)dao_round_up(size_bytes, DAO_CPU_PAGE_BYTES);
    status = shared_map(device, dao_shared_create(file_bytes), file_bytes, out_shared);
    if (status != DAO_OK) {
        dao_virtual_memory_give(&device->memory, size_bytes);
        return status;
    }
    (*out_shared)->counted_bytes = size_bytes;
    *out_address = (*out_shared)->address;
    return DAO_OK;
}

dao_status_t dao_cpu_shared_export(dao_backend_device_t *device, dao_backend_shared_t *shared,
                                   dao_backend_share_t *out_share)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    int descriptor = dao_descriptor_copy(shared->descriptor);
    if (descriptor == DAO_NO_DESCRIPTOR) {
        return dao_error(DAO_ERR_IO, "virtual device %" PRId32 ": the system has no more file descriptors",
                         device->index);
    }
    *out_share = (dao_backend_share_t){.descriptor = descriptor};
    return DAO_OK;
}

dao_status_t dao_cpu_shared_import(dao_backend_device_t *device, const dao_backend_share_t *share,
                                   size_t size_bytes, dao_backend_shared_t **out_shared, void **out_address)
{
    size_t file_bytes;
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    if (!dao_shared_size(share->descriptor, &file_bytes)) {
        return dao_error(DAO_ERR_INVALID,
                         "virtual device %" PRId32 ": descriptor %d is closed, or is no shared memory",
                         device->index, share->descriptor);
    }
    if (size_bytes > file_bytes) {
        return dao_error(DAO_ERR_INVALID,
                         "virtual device %" PRId32 ": %zu bytes asked for of shared memory of %zu",
                         device->index, size_bytes, file_bytes);
    }
    status = shared_map(device, dao_descriptor_copy(share->descriptor), file_bytes, out_shared);
    if (status == DAO_OK) {
        *out_address = (*out_shared)->address;
    }
    return status;
}

dao_status_t dao_cpu_shared_destroy(dao_backend_device_t *device, dao_backend_shared_t *shared)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_host_unmap(shared->address, shared->size_bytes);
    dao_descriptor_close(shared->descriptor);
    if (shared->counted_bytes > 0) {
        dao_virtual_memory_give(&device->memory, shared->counted_bytes);
    }
    dao_host_free(shared);
    return DAO_OK;
}
