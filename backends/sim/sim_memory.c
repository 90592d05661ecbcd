/* Memory of a device in virtual time: addresses that are counted against a capacity. Without bytes they are reserved, so
   that they are unlike any other address of the process and touching them faults.

       used_bytes == sum of allocations <= config.cpu.device_bytes */
#include "backends/sim/sim_internal.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"

#include <inttypes.h>

/* What addresses are reserved in. */
#define PAGE_BYTES 4096

/* Takes addresses, with bytes behind them or not, and enters them into a list. */
static dao_status_t take_addresses(dao_backend_device_t *device, sim_allocation_t **list, size_t size_bytes,
                                   void **out_address)
{
    sim_allocation_t *allocation = dao_host_calloc(1, sizeof(*allocation));
    void *address = NULL;
    if (allocation != NULL) {
        address = device->backend->has_bytes ? dao_host_map(size_bytes, PAGE_BYTES)
                                             : dao_host_reserve(size_bytes, PAGE_BYTES);
    }
    if (address == NULL) {
        dao_host_free(allocation);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "the system refused %zu bytes for virtual device %" PRId32,
                         size_bytes, device->index);
    }
    dao_mutex_lock(&device->backend->lock);
    *allocation = (sim_allocation_t){*list, address, size_bytes};
    *list = allocation;
    dao_mutex_unlock(&device->backend->lock);
    *out_address = address;
    return DAO_OK;
}

static dao_status_t give_addresses(dao_backend_device_t *device, sim_allocation_t **list, void *address,
                                   size_t size_bytes)
{
    dao_mutex_lock(&device->backend->lock);
    sim_allocation_t **link = list;
    while (*link != NULL && ((*link)->address != address || (*link)->size_bytes != size_bytes)) {
        link = &(*link)->next;
    }
    sim_allocation_t *allocation = *link;
    if (allocation != NULL) {
        *link = allocation->next;
    }
    dao_mutex_unlock(&device->backend->lock);
    if (allocation == NULL) {
        return dao_error(DAO_ERR_FOREIGN_POINTER,
                         "virtual device %" PRId32 " has no memory of %zu bytes at %p", device->index,
                         size_bytes, address);
    }
    dao_host_unmap(address, size_bytes);
    dao_host_free(allocation);
    return DAO_OK;
}

static dao_status_t take_capacity(dao_backend_device_t *device, size_t size_bytes)
{
    uint64_t capacity_bytes = device->backend->config.cpu.device_bytes;
    dao_mutex_lock(&device->backend->lock);
    uint64_t used_bytes = device->used_bytes;
    bool fits = size_bytes <= capacity_bytes && used_bytes <= capacity_bytes - size_bytes;
    device->used_bytes += fits ? size_bytes : 0;
    dao_mutex_unlock(&device->backend->lock);
    return fits ? DAO_OK
                : dao_error(DAO_ERR_NO_DEVICE_MEMORY,
                            "virtual device %" PRId32 ": %zu bytes asked for, %" PRIu64 " of %" PRIu64
                            " in use",
                            device->index, size_bytes, used_bytes, capacity_bytes);
}

static void give_capacity(dao_backend_device_t *device, size_t size_bytes)
{
    dao_mutex_lock(&device->backend->lock);
    DAO_ASSERT(device->used_bytes >= size_bytes);
    device->used_bytes -= size_bytes;
    dao_mutex_unlock(&device->backend->lock);
}

dao_status_t dao_sim_memory_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    dao_status_t status = dao_sim_check_thread();
    if (status == DAO_OK) {
        status = take_capacity(device, size_bytes);
    }
    if (status != DAO_OK) {
        return status;
    }
    status = take_addresses(device, &device->allocations, size_bytes, out_address);
    if (status != DAO_OK) {
        give_capacity(device, size_bytes);
    }
    return status;
}

dao_status_t dao_sim_memory_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    dao_status_t status = dao_sim_check_thread();
    if (status == DAO_OK) {
        status = give_addresses(device, &device->allocations, address, size_bytes);
    }
    if (status == DAO_OK) {
        give_capacity(device, size_bytes);
    }
    return status;
}

dao_status_t dao_sim_pinned_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    dao_status_t status = dao_sim_check_thread();
    return status == DAO_OK ? take_addresses(device, &device->pinned, size_bytes, out_address) : status;
}

dao_status_t dao_sim_pinned_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    dao_status_t status = dao_sim_check_thread();
    return status == DAO_OK ? give_addresses(device, &device->pinned, address, size_bytes) : status;
}
