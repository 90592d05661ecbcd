/* SPDX-License-Identifier: Apache-2.0 */
/* A portion counts what is taken of it, as a virtual device does (backends/virtual_memory.h); the memory is
   the other table's. */
#include "tests/support/backends/portion.h"

#include "backends/cpu/cpu_internal.h"
#include "base/report/error.h"
#include "tests/support/backends/device_bytes.h"

#include <inttypes.h>
#include <stdlib.h>

/* What a driver of virtual devices is opened with: room for all portions. Real ones are as they are. */
static const dao_cpu_config_t whole = {.device_count = 1, .device_bytes = UINT64_C(64) << 30};

/* A size that the call which gives it back does not say. */
typedef struct piece {
    struct piece *next;
    const void *key;
    size_t size_bytes;
} piece_t;

typedef struct portion {
    struct portion *next;
    dao_backend_device_t *device;
    int32_t whole_index; /* the device that it is a portion of */
    bool has_pages;
    dao_virtual_memory_t memory; /* of which only the count is used */
    piece_t *pieces;             /* guarded by memory.lock */
} portion_t;

static const dao_backend_ops_t *inner;
static dao_backend_ops_t table;
static dao_backend_t settings; /* of the latest start, as the cpu backend reads them */
static dao_mutex_t lock = DAO_MUTEX_INITIALIZER(DAO_RANK_LEAF);
static portion_t *portions; /* guarded by the lock; of several starts, where handles outlive one */

static portion_t *portion_of(const dao_backend_device_t *device)
{
    dao_mutex_lock(&lock);
    portion_t *portion = portions;
    while (portion != NULL && portion->device != device) {
        portion = portion->next;
    }
    dao_mutex_unlock(&lock);
    if (portion == NULL) {
        abort(); /* a device that is not open */
    }
    return portion;
}

static void portion_add(dao_backend_device_t *device, int32_t index, int32_t whole_index)
{
    portion_t *portion = calloc(1, sizeof(*portion));
    if (portion == NULL) {
        abort(); /* the test machine is full */
    }
    *portion = (portion_t){.device = device,
                           .whole_index = whole_index,
                           .has_pages = settings.has_pages,
                           .memory = {.device_index = index, .capacity_bytes = settings.device_bytes}};
    dao_virtual_memory_init(&portion->memory);
    dao_mutex_lock(&lock);
    portion->next = portions;
    portions = portion;
    dao_mutex_unlock(&lock);
}

static void portion_remove(portion_t *portion)
{
    dao_mutex_lock(&lock);
    portion_t **link = &portions;
    while (*link != portion) {
        link = &(*link)->next;
    }
    *link = portion->next;
    dao_mutex_unlock(&lock);
    dao_virtual_memory_finish(&portion->memory);
    free(portion);
}

/* ---- what is given back without its size ---- */

static void remember(portion_t *portion, const void *key, size_t size_bytes)
{
    piece_t *piece = calloc(1, sizeof(*piece));
    if (piece == NULL) {
        abort(); /* the test machine is full */
    }
    dao_mutex_lock(&portion->memory.lock);
    *piece = (piece_t){.next = portion->pieces, .key = key, .size_bytes = size_bytes};
    portion->pieces = piece;
    dao_mutex_unlock(&portion->memory.lock);
}

/* Returns 0 for what never was remembered. */
static size_t forget(portion_t *portion, const void *key)
{
    dao_mutex_lock(&portion->memory.lock);
    piece_t **link = &portion->pieces;
    while (*link != NULL && (*link)->key != key) {
        link = &(*link)->next;
    }
    piece_t *piece = *link;
    size_t size_bytes = piece != NULL ? piece->size_bytes : 0;
    if (piece != NULL) {
        *link = piece->next;
    }
    dao_mutex_unlock(&portion->memory.lock);
    free(piece);
    return size_bytes;
}

/* Settles a count that was taken for a call that may have failed. */
static dao_status_t settle(portion_t *portion, size_t size_bytes, dao_status_t status)
{
    if (status != DAO_OK) {
        dao_virtual_memory_give(&portion->memory, size_bytes);
    }
    return status;
}

/* Takes back a count after a call that may have kept the memory. A lost device keeps all, and nobody asks
   for it again. */
static dao_status_t settle_free(portion_t *portion, size_t size_bytes, dao_status_t status)
{
    if ((status == DAO_OK || status == DAO_ERR_DEVICE_LOST) && size_bytes > 0) {
        dao_virtual_memory_give(&portion->memory, size_bytes);
    }
    return status;
}

/* As settle_free(), of a piece that was forgotten before the call: behind it its address may be another
   one's. */
static dao_status_t settle_kept(dao_backend_device_t *device, const void *key, size_t size_bytes,
                                dao_status_t status)
{
    if (status != DAO_OK && status != DAO_ERR_DEVICE_LOST && size_bytes > 0) {
        remember(portion_of(device), key, size_bytes);
    }
    return settle_free(portion_of(device), size_bytes, status);
}

/* ---- devices ---- */

static dao_status_t portion_open(const dao_config_t *config, dao_backend_t **out_backend)
{
    dao_config_t of_whole = *config;
    of_whole.cpu = whole;
    dao_status_t status = dao_cpu_read_config(&config->cpu, &settings);
    return status == DAO_OK ? inner->open(&of_whole, out_backend) : status;
}

static dao_status_t portion_device_count(dao_backend_t *backend, int32_t *out_count)
{
    (void)backend;
    *out_count = settings.device_count;
    return DAO_OK;
}

static dao_status_t portion_device_open(dao_backend_t *backend, int32_t index,
                                        dao_backend_device_t **out_device)
{
    int32_t whole_count = 0;
    dao_status_t status = inner->device_count(backend, &whole_count);
    if (status == DAO_OK && (index < 0 || index >= settings.device_count)) {
        status = dao_error(DAO_ERR_NO_DEVICE, "there is no portion %" PRId32 " of a device", index);
    }
    if (status == DAO_OK) {
        status = inner->device_open(backend, index % whole_count, out_device);
    }
    if (status == DAO_OK) {
        portion_add(*out_device, index, index % whole_count);
    }
    return status;
}

static void portion_device_close(dao_backend_device_t *device)
{
    portion_t *portion = portion_of(device);
    device_bytes_end(device);
    while (portion->pieces != NULL) { /* what a lost device kept */
        (void)settle_free(portion, forget(portion, portion->pieces->key), DAO_OK);
    }
    portion_remove(portion);
    inner->device_close(device);
}

static dao_status_t portion_device_query(dao_backend_device_t *device, dao_device_info_t *out_info)
{
    dao_status_t status = inner->device_query(device, out_info);
    if (status == DAO_OK) {
        portion_t *portion = portion_of(device);
        out_info->total_bytes = portion->memory.capacity_bytes;
        out_info->free_bytes = dao_virtual_memory_free_bytes(&portion->memory);
        out_info->page_bytes = portion->has_pages ? out_info->page_bytes : 0;
    }
    return status;
}

/* A device does not reach itself as a peer. */
static dao_status_t portion_peer_can(dao_backend_device_t *device, dao_backend_device_t *peer, bool *out_can)
{
    if (portion_of(device)->whole_index == portion_of(peer)->whole_index) {
        *out_can = false;
        return DAO_OK;
    }
    return inner->peer_can(device, peer, out_can);
}

static dao_status_t portion_peer_enable(dao_backend_device_t *device, dao_backend_device_t *peer)
{
    return portion_of(device)->whole_index == portion_of(peer)->whole_index
               ? dao_error(DAO_ERR_UNSUPPORTED, "two portions of one device")
               : inner->peer_enable(device, peer);
}

/* ---- memory ---- */

static dao_status_t portion_memory_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    portion_t *portion = portion_of(device);
    dao_status_t status = dao_virtual_memory_take(&portion->memory, size_bytes);
    return status == DAO_OK
               ? settle(portion, size_bytes, inner->memory_alloc(device, size_bytes, out_address))
               : status;
}

static dao_status_t portion_memory_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    return settle_free(portion_of(device), size_bytes, inner->memory_free(device, address, size_bytes));
}

static dao_status_t portion_pages_create(dao_backend_device_t *device, size_t size_bytes,
                                         dao_backend_pages_t **out_pages)
{
    portion_t *portion = portion_of(device);
    dao_status_t status = dao_virtual_memory_take(&portion->memory, size_bytes);
    return status == DAO_OK ? settle(portion, size_bytes, inner->pages_create(device, size_bytes, out_pages))
                            : status;
}

static dao_status_t portion_pages_create_mapped(dao_backend_device_t *device, size_t page_bytes,
                                                size_t page_count, void *address,
                                                dao_backend_pages_t **out_pages)
{
    portion_t *portion = portion_of(device);
    size_t size_bytes = page_bytes * page_count;
    dao_status_t status = dao_virtual_memory_take(&portion->memory, size_bytes);
    return status == DAO_OK
               ? settle(portion, size_bytes,
                        inner->pages_create_mapped(device, page_bytes, page_count, address, out_pages))
               : status;
}

static dao_status_t portion_pages_destroy(dao_backend_device_t *device, dao_backend_pages_t *pages)
{
    size_t size_bytes = inner->pages_size(pages);
    return settle_free(portion_of(device), size_bytes, inner->pages_destroy(device, pages));
}

static dao_status_t portion_pool_alloc(dao_backend_device_t *device, dao_backend_pool_t *pool,
                                       size_t size_bytes, void **out_address)
{
    portion_t *portion = portion_of(device);
    dao_status_t status = dao_virtual_memory_take(&portion->memory, size_bytes);
    if (status == DAO_OK) {
        status = settle(portion, size_bytes, inner->pool_alloc(device, pool, size_bytes, out_address));
    }
    if (status == DAO_OK) {
        remember(portion, *out_address, size_bytes);
    }
    return status;
}

static dao_status_t portion_pool_free(dao_backend_device_t *device, dao_backend_pool_t *pool, void *address)
{
    size_t size_bytes = forget(portion_of(device), address);
    return settle_kept(device, address, size_bytes, inner->pool_free(device, pool, address));
}

static dao_status_t portion_shared_create(dao_backend_device_t *device, size_t size_bytes,
                                          dao_backend_shared_t **out_shared, void **out_address)
{
    portion_t *portion = portion_of(device);
    dao_status_t status = dao_virtual_memory_take(&portion->memory, size_bytes);
    if (status == DAO_OK) {
        status =
            settle(portion, size_bytes, inner->shared_create(device, size_bytes, out_shared, out_address));
    }
    if (status == DAO_OK) {
        remember(portion, *out_shared, size_bytes);
    }
    return status;
}

/* What was imported is another process's. */
static dao_status_t portion_shared_destroy(dao_backend_device_t *device, dao_backend_shared_t *shared)
{
    size_t size_bytes = forget(portion_of(device), shared);
    return settle_kept(device, shared, size_bytes, inner->shared_destroy(device, shared));
}

bool portion_is_used(void)
{
    return inner != NULL;
}

const dao_backend_ops_t *portion_ops(const dao_backend_ops_t *around)
{
    if (inner == NULL) {
        inner = around;
        table = *around;
        table.open = portion_open;
        table.device_count = portion_device_count;
        table.device_open = portion_device_open;
        table.device_close = portion_device_close;
        table.device_query = portion_device_query;
        table.peer_can = portion_peer_can;
        table.peer_enable = portion_peer_enable;
        table.memory_alloc = portion_memory_alloc;
        table.memory_free = portion_memory_free;
        table.pages_create = portion_pages_create;
        table.pages_create_mapped = portion_pages_create_mapped;
        table.pages_destroy = portion_pages_destroy;
        table.pool_alloc = portion_pool_alloc;
        table.pool_free = portion_pool_free;
        table.shared_create = portion_shared_create;
        table.shared_destroy = portion_shared_destroy;
    }
    return &table;
}
