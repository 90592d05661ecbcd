/* SPDX-License-Identifier: Apache-2.0 */
/* Pools: memory of the cpu backend that is handed out and taken back in the order of a stream. */
#include "tests/loopback/driver.h"
#include "tests/loopback/veil.h"

#include "backends/cpu/cpu.h"

static const dao_backend_ops_t *const cpu = &dao_cpu_backend_ops;

static loopback_object_t *pool_of(vendorMemPool_t pool)
{
    return (loopback_object_t *)(void *)pool;
}

vendorError_t vendorDeviceGetAttribute(int *out_value, vendorDeviceAttr_t attribute, int device)
{
    vendorError_t error = loopback_begin("device get attribute", device);
    if (error == vendorSuccess && attribute != vendorDevAttrMemoryPoolsSupported) {
        return loopback_breach(LOOPBACK_RULE_BAD_FLAGS, "device get attribute");
    }
    if (error == vendorSuccess) {
        *out_value = !loopback_driver.settings.has_no_pools;
    }
    return error;
}

vendorError_t vendorMemPoolCreate(vendorMemPool_t *out_pool, const vendorMemPoolProps_t *properties)
{
    vendorError_t error = loopback_begin("pool create", properties->location.id);
    if (error != vendorSuccess) {
        return error;
    }
    if (loopback_driver.settings.has_no_pools) {
        return loopback_error(vendorErrorNotSupported);
    }
    if (properties->allocType != vendorMemAllocationTypePinned || properties->handleTypes != 0 ||
        properties->location.type != vendorMemLocationTypeDevice) {
        return loopback_breach(LOOPBACK_RULE_BAD_FLAGS, "pool create");
    }
    loopback_object_t *pool = loopback_object_add(LOOPBACK_KIND_POOL, NULL, 0);
    pool->allowed = UINT64_C(1) << pool->device;
    *out_pool = (vendorMemPool_t)(void *)pool;
    return vendorSuccess;
}

/* The bytes of a pool; NULL: of all. */
static uint64_t bytes_of_locked(const loopback_object_t *pool)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < loopback_driver.memory.count; i++) {
        const loopback_span_t *span = &loopback_driver.memory.items[i];
        sum += span->is_pooled && (pool == NULL || span->owner == pool) ? span->size_bytes : 0;
    }
    return sum;
}

uint64_t loopback_pool_bytes(void)
{
    dao_mutex_lock(&loopback_driver.lock);
    uint64_t sum = bytes_of_locked(NULL);
    dao_mutex_unlock(&loopback_driver.lock);
    return sum;
}

/* As with a real vendor the pool goes whatever is answered. */
vendorError_t vendorMemPoolDestroy(vendorMemPool_t handle)
{
    loopback_object_t *pool = pool_of(handle);
    if (!loopback_object_check(pool, LOOPBACK_KIND_POOL, "pool destroy")) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    vendorError_t error = loopback_begin("pool destroy", pool->device);
    dao_mutex_lock(&loopback_driver.lock);
    bool is_empty = bytes_of_locked(pool) == 0 || loopback_driver.lost[pool->device] != vendorSuccess;
    dao_mutex_unlock(&loopback_driver.lock);
    loopback_object_remove(pool);
    return is_empty ? error : loopback_breach(LOOPBACK_RULE_POOLED, "pool destroy");
}

vendorError_t vendorMemPoolSetAccess(vendorMemPool_t handle, const vendorMemAccessDesc_t *accesses,
                                     size_t count)
{
    loopback_object_t *pool = pool_of(handle);
    if (!loopback_object_check(pool, LOOPBACK_KIND_POOL, "pool set access")) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    vendorError_t error = loopback_begin("pool set access", pool->device);
    for (size_t i = 0; i < count && error == vendorSuccess; i++) {
        int device = accesses[i].location.id;
        if (accesses[i].location.type != vendorMemLocationTypeDevice ||
            accesses[i].flags != vendorMemAccessFlagsProtReadWrite || device == pool->device || device < 0 ||
            device >= loopback_driver.device_count) {
            return loopback_breach(LOOPBACK_RULE_BAD_FLAGS, "pool set access");
        }
        pool->allowed |= UINT64_C(1) << device;
    }
    return error;
}

/* ---- memory ---- */

vendorError_t vendorMallocFromPoolAsync(void **out_address, size_t size_bytes, vendorMemPool_t handle,
                                        vendorStream_t stream)
{
    vendorError_t error =
        loopback_begin_on("malloc from pool", loopback_stream(stream), LOOPBACK_KIND_STREAM);
    loopback_object_t *pool = pool_of(handle);
    if (!loopback_object_check(pool, LOOPBACK_KIND_POOL, "malloc from pool")) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    if (error != vendorSuccess) {
        return error;
    }
    if (pool->device != loopback_stream(stream)->device) {
        return loopback_breach(LOOPBACK_RULE_POOLED, "malloc from pool");
    }
    loopback_span_t span;
    error = loopback_memory_take(size_bytes, &span);
    if (error != vendorSuccess) {
        return error;
    }
    span.owner = pool;
    span.is_pooled = true;
    dao_mutex_lock(&loopback_driver.lock);
    loopback_spans_add(&loopback_driver.memory, span);
    dao_mutex_unlock(&loopback_driver.lock);
    *out_address = span.begin;
    return vendorSuccess;
}

vendorError_t vendorFreeAsync(void *address, vendorStream_t stream)
{
    vendorError_t error = loopback_begin_on("free async", loopback_stream(stream), LOOPBACK_KIND_STREAM);
    if (error != vendorSuccess) {
        return error;
    }
    dao_mutex_lock(&loopback_driver.lock);
    loopback_span_t pooled = {0};
    const loopback_span_t *span = loopback_spans_at(&loopback_driver.memory, address);
    bool is_pooled = span != NULL && span->is_pooled;
    if (is_pooled) {
        pooled = *span;
        loopback_spans_remove(&loopback_driver.memory, span);
    }
    dao_mutex_unlock(&loopback_driver.lock);
    if (!is_pooled) {
        return loopback_breach(LOOPBACK_RULE_UNKNOWN, "free async");
    }
    (void)cpu->stream_synchronize(loopback_stream(stream)->inner); /* behind its work */
    return loopback_memory_give(&pooled);
}
