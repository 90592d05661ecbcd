/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of the driver's stream-ordered allocator. Each pool has a stream of its own without other work, so
   requests are done at once and wait for nothing; a plain free would wait for the whole device.

   A pool caches nothing: freed memory returns to the device when the stream is synchronized (its release
   threshold is left at 0, the default). Peer access is set for each pool; a device's list of pools is guarded
   by its lock. */
#include "backends/vendor/vendor_internal.h"

struct dao_backend_pool {
    vendorMemPool_t pool;
    vendorStream_t stream;
    dao_backend_pool_t *next; /* of the device's pools */
};

/* A driver older than pools refuses the question: it has none. */
static vendorError_t ask(int *out_has_pools, int index)
{
    vendorError_t error = vendorDeviceGetAttribute(out_has_pools, vendorDevAttrMemoryPoolsSupported, index);
    if (error == vendorErrorInvalidValue || error == vendorErrorNotSupported) {
        (void)vendorGetLastError();
        *out_has_pools = 0;
        error = vendorSuccess;
    }
    return error;
}

dao_status_t dao_vendor_pools_find(int index, bool *out_has_pools)
{
    int has_pools = 0;
    dao_status_t status;
    CALL(status, index, DAO_ERR_NO_HOST_MEMORY, ask, (&has_pools, index));
    *out_has_pools = has_pools != 0;
    return status;
}

/* Lets devices, a bit each, access the memory of a pool. Its own device always can. */
static dao_status_t allow(const dao_backend_device_t *device, const dao_backend_pool_t *pool,
                          uint64_t devices)
{
    vendorMemAccessDesc_t accesses[DAO_DEVICE_COUNT_MAX];
    size_t count = 0;
    for (int i = 0; i < DAO_DEVICE_COUNT_MAX; i++) {
        if (i != device->index && (devices >> i & 1) != 0) {
            accesses[count++] = (vendorMemAccessDesc_t){
                .location = {.type = vendorMemLocationTypeDevice, .id = i},
                .flags = vendorMemAccessFlagsProtReadWrite,
            };
        }
    }
    dao_status_t status = DAO_OK;
    if (count > 0) {
        CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorMemPoolSetAccess,
             (pool->pool, accesses, count));
    }
    return status;
}

dao_status_t dao_vendor_pools_allow_locked(const dao_backend_device_t *device, int reacher)
{
    dao_status_t status = DAO_OK;
    for (const dao_backend_pool_t *pool = device->pools; pool != NULL && status == DAO_OK;
         pool = pool->next) {
        status = allow(device, pool, UINT64_C(1) << reacher);
    }
    return status;
}

/* ---- create and destroy ---- */

static dao_status_t pool_open(const dao_backend_device_t *device, dao_backend_pool_t *pool)
{
    vendorMemPoolProps_t properties = {
        .allocType = vendorMemAllocationTypePinned,
        .location = {.type = vendorMemLocationTypeDevice, .id = device->index},
    };
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorMemPoolCreate, (&pool->pool, &properties));
    return status;
}

static void pool_close(const dao_backend_device_t *device, const dao_backend_pool_t *pool)
{
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorMemPoolDestroy, (pool->pool));
    (void)status; /* destroy cannot fail; a lost device took the pool with it */
}

static void stream_close(const dao_backend_device_t *device, const dao_backend_pool_t *pool)
{
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorStreamDestroy, (pool->stream));
    (void)status; /* likewise */
}

/* Enters a pool into the list and opens it to the peers of its device. */
static dao_status_t enter(dao_backend_device_t *device, dao_backend_pool_t *pool)
{
    dao_mutex_lock(&device->lock);
    dao_status_t status = allow(device, pool, device->reachers);
    if (status == DAO_OK) {
        pool->next = device->pools;
        device->pools = pool;
    }
    dao_mutex_unlock(&device->lock);
    return status;
}

static void leave(dao_backend_device_t *device, const dao_backend_pool_t *pool)
{
    dao_mutex_lock(&device->lock);
    dao_backend_pool_t **link = &device->pools;
    while (*link != pool) {
        link = &(*link)->next;
    }
    *link = pool->next;
    dao_mutex_unlock(&device->lock);
}

/* Creates the pool, its stream and its entry in the list; a failure undoes what was created. */
static dao_status_t pool_begin(dao_backend_device_t *device, dao_backend_pool_t *pool)
{
    dao_error_record_t record;
    dao_status_t status = pool_open(device, pool);
    if (status != DAO_OK) {
        return status;
    }
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorStreamCreateWithFlags,
         (&pool->stream, vendorStreamNonBlocking));
    if (status == DAO_OK) {
        status = enter(device, pool);
        if (status == DAO_OK) {
            return DAO_OK;
        }
        dao_error_save(&record, status);
        stream_close(device, pool);
    } else {
        dao_error_save(&record, status);
    }
    pool_close(device, pool);
    return dao_error_restore(&record);
}

dao_status_t dao_vendor_pool_create(dao_backend_device_t *device, dao_backend_pool_t **out_pool)
{
    dao_backend_pool_t *pool = dao_host_calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a pool of device:%d", device->index);
    }
    dao_status_t status = pool_begin(device, pool);
    if (status != DAO_OK) {
        dao_host_free(pool);
        return status;
    }
    *out_pool = pool;
    return DAO_OK;
}

void dao_vendor_pool_destroy(dao_backend_device_t *device, dao_backend_pool_t *pool)
{
    leave(device, pool);
    stream_close(device, pool);
    pool_close(device, pool);
    dao_host_free(pool);
}

/* ---- memory ---- */

static dao_status_t synchronize(const dao_backend_device_t *device, const dao_backend_pool_t *pool)
{
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorStreamSynchronize, (pool->stream));
    return status;
}

static dao_status_t give(const dao_backend_device_t *device, const dao_backend_pool_t *pool, void *address)
{
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorFreeAsync, (address, pool->stream));
    return status;
}

dao_status_t dao_vendor_pool_alloc(dao_backend_device_t *device, dao_backend_pool_t *pool, size_t size_bytes,
                                   void **out_address)
{
    void *address = NULL;
    dao_status_t status;
    CALL(status, device->index, DAO_ERR_NO_DEVICE_MEMORY, vendorMallocFromPoolAsync,
         (&address, size_bytes, pool->pool, pool->stream));
    if (status == DAO_OK) {
        status = synchronize(device, pool); /* every stream can use the memory from here on */
        if (status != DAO_OK) {
            dao_error_record_t record;
            dao_error_save(&record, status);
            (void)give(device, pool, address); /* the first failure is the one to report */
            return dao_error_restore(&record);
        }
    }
    if (status != DAO_OK) {
        dao_error_prefix("%zu bytes of a pool: ", size_bytes);
        return status;
    }
    *out_address = address;
    return DAO_OK;
}

dao_status_t dao_vendor_pool_free(dao_backend_device_t *device, dao_backend_pool_t *pool, void *address)
{
    dao_status_t status = give(device, pool, address);
    if (status == DAO_OK) {
        (void)synchronize(device, pool); /* the block is freed; a failure here is reported by later calls */
    }
    return status;
}
