/* SPDX-License-Identifier: Apache-2.0 */
/* Pools of UMF over places, and places over UMF's providers.

   A pool over a provider is both: UMF hands its initialize() the provider wrapped in UMF's own tracker, and
   umfMemoryProviderAlloc() of that tells UMF whose memory it is. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "integrations/umf/dao_umf.h"

#include "integrations/message.h"
#include "integrations/umf/umf_abi.h"

#include <dao/dao.h>

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char pool_name[] = "dao";

/* ---- places over providers ---- */

typedef umf_status_t (*provider_alloc_t)(void *provider, size_t size_bytes, size_t alignment_bytes,
                                         void **out_address);
typedef umf_status_t (*provider_free_t)(void *provider, void *address, size_t size_bytes);

/* What a place over a provider calls. It lives as long as the process: dao_finalize() may come late. */
typedef struct source {
    struct source *next; /* of all; nobody walks them, but a leak checker */
    provider_alloc_t alloc;
    provider_free_t free;
    void *provider;
    _Atomic bool is_closed; /* the provider is gone: nothing is asked of it any more */
} source_t;

static source_t *_Atomic sources;

#define SOURCE_ALIGNMENT 256 /* of dao_own_memory_t */

static dao_status_t status_of_provider(umf_status_t result)
{
    switch (result) {
    case UMF_SUCCESS:
        return DAO_OK;
    case UMF_ERROR_OUT_OF_HOST_MEMORY:
    case UMF_ERROR_OUT_OF_RESOURCES:
    case UMF_ERROR_PROVIDER_SPECIFIC: /* such as that of mmap() */
        return DAO_ERR_NO_DEVICE_MEMORY;
    default:
        return DAO_ERR_BACKEND;
    }
}

static dao_status_t source_obtain(void *user, size_t size_bytes, void **out_address)
{
    source_t *source = user;
    if (atomic_load(&source->is_closed)) {
        return DAO_ERR_NO_DEVICE_MEMORY;
    }
    return status_of_provider(source->alloc(source->provider, size_bytes, SOURCE_ALIGNMENT, out_address));
}

static dao_status_t source_release(void *user, void *address, size_t size_bytes)
{
    source_t *source = user;
    if (atomic_load(&source->is_closed)) {
        return DAO_OK;
    }
    return source->free(source->provider, address, size_bytes) == UMF_SUCCESS ? DAO_OK : DAO_ERR_BACKEND;
}

/* Registers a place over a provider. Returns NULL with a dao_status_t. */
static source_t *source_register(const source_t *from, const dao_umf_memory_t *memory, dao_place_t *out_place,
                                 int *out_status)
{
    source_t *source = calloc(1, sizeof(*source));
    if (source == NULL) {
        *out_status = dao_plugin_fail(DAO_ERR_NO_HOST_MEMORY, "dao_umf: no memory for a place");
        return NULL;
    }
    source->alloc = from->alloc;
    source->free = from->free;
    source->provider = from->provider;
    dao_own_memory_t own = {.name = "UMF provider",
                            .user = source,
                            .capacity_bytes = memory->capacity_bytes > 0 ? memory->capacity_bytes : INT64_MAX,
                            .alignment_bytes = SOURCE_ALIGNMENT,
                            .obtain = source_obtain,
                            .release = source_release,
                            .is_on_device = memory->is_on_device,
                            .device_index = memory->device_index};
    *out_status = dao_plugin_answer(dao_place_register(&own, out_place));
    if (*out_status != DAO_OK) {
        free(source);
        return NULL;
    }
    source->next = atomic_load(&sources);
    while (!atomic_compare_exchange_weak(&sources, &source->next, source)) {
    }
    return source;
}

int dao_umf_place_register(const struct umf_memory_provider_ops_t *ops, void *provider,
                           const dao_umf_memory_t *memory, dao_place_t *out_place)
{
    static const dao_umf_memory_t nothing_said;
    if (ops == NULL || out_place == NULL || ops->alloc == NULL || ops->free == NULL) {
        return dao_plugin_fail(DAO_ERR_INVALID, "%s: a table, a function of it or out_place is NULL",
                               __func__);
    }
    if (ops->version >> 16 != UMF_OPS_MAJOR) {
        return dao_plugin_fail(DAO_ERR_UNSUPPORTED,
                               "%s: the provider's table has version %u.%u; known are 1.x", __func__,
                               (unsigned)(ops->version >> 16), (unsigned)(ops->version & 0xffff));
    }
    source_t source = {.alloc = ops->alloc, .free = ops->free, .provider = provider};
    int status;
    (void)source_register(&source, memory != NULL ? memory : &nothing_said, out_place, &status);
    return status;
}

/* ---- pools ---- */

typedef struct pool {
    dao_place_t place;
    source_t *source; /* NULL: the place is the program's */
} pool_t;

static _Thread_local umf_status_t last_error;

static umf_status_t status_of(dao_status_t status)
{
    switch (status) {
    case DAO_OK:
        return UMF_SUCCESS;
    case DAO_ERR_NO_HOST_MEMORY:
        return UMF_ERROR_OUT_OF_HOST_MEMORY;
    case DAO_ERR_NO_DEVICE_MEMORY:
    case DAO_ERR_LIMIT:
    case DAO_ERR_TOO_MANY:
        return UMF_ERROR_OUT_OF_RESOURCES;
    case DAO_ERR_UNSUPPORTED:
        return UMF_ERROR_NOT_SUPPORTED;
    case DAO_ERR_INVALID:
    case DAO_ERR_OVERFLOW:
    case DAO_ERR_NO_DEVICE:
    case DAO_ERR_FOREIGN_POINTER:
    case DAO_ERR_INTERIOR_POINTER:
    case DAO_ERR_DOUBLE_FREE:
    case DAO_ERR_WRONG_PLACE:
    case DAO_ERR_NOT_YOURS:
        return UMF_ERROR_INVALID_ARGUMENT;
    default:
        return UMF_ERROR_UNKNOWN;
    }
}

/* Notes why there is no block. */
static void *refuse(umf_status_t error)
{
    last_error = error;
    return NULL;
}

static void *pool_aligned_malloc(void *user, size_t size_bytes, size_t alignment_bytes)
{
    const pool_t *pool = user;
    if ((alignment_bytes & (alignment_bytes - 1)) != 0) {
        return refuse(UMF_ERROR_INVALID_ALIGNMENT);
    }
    dao_alloc_options_t options = {.alignment_bytes = alignment_bytes};
    void *address = dao_alloc_with(pool->place, size_bytes, &options);
    return address != NULL || size_bytes == 0 ? address : refuse(status_of(dao_last_status()));
}

static void *pool_malloc(void *user, size_t size_bytes)
{
    return pool_aligned_malloc(user, size_bytes, 0);
}

static umf_status_t pool_free(void *user, void *address)
{
    return status_of(dao_free(((const pool_t *)user)->place, address));
}

/* Fills a block with zeros, on a device by its compute stream. */
static dao_status_t zero(dao_place_t place, void *address, size_t size_bytes)
{
    if (place.kind != DAO_PLACE_KIND_DEVICE) {
        memset(address, 0, size_bytes);
        return DAO_OK;
    }
    dao_stream_t *stream;
    dao_status_t status = dao_stream_get(place.index, DAO_STREAM_ROLE_COMPUTE, &stream);
    if (status == DAO_OK) {
        status = dao_stream_fill(stream, address, 0, size_bytes);
    }
    return status == DAO_OK ? dao_stream_synchronize(stream) : status;
}

static void *pool_calloc(void *user, size_t count, size_t size_bytes)
{
    const pool_t *pool = user;
    size_t total_bytes;
    if (__builtin_mul_overflow(count, size_bytes, &total_bytes)) {
        return refuse(UMF_ERROR_OUT_OF_RESOURCES);
    }
    void *address = pool_malloc(user, total_bytes);
    dao_status_t status = address != NULL ? zero(pool->place, address, total_bytes) : DAO_OK;
    if (status != DAO_OK) {
        (void)dao_free(pool->place, address); /* the first failure counts */
        return refuse(status_of(status));
    }
    return address;
}

static void *pool_realloc(void *user, void *address, size_t size_bytes)
{
    const pool_t *pool = user;
    dao_block_info_t info = {0};
    if (address == NULL) {
        return pool_malloc(user, size_bytes);
    }
    dao_status_t status = dao_block_query(pool->place, address, &info);
    if (status == DAO_OK && info.offset_bytes != 0) {
        status = DAO_ERR_INTERIOR_POINTER;
    }
    if (status != DAO_OK) {
        return refuse(status_of(status));
    }
    void *moved = pool_malloc(user, size_bytes);
    if (moved == NULL && size_bytes > 0) {
        return NULL;
    }
    size_t kept_bytes = info.requested_bytes < size_bytes ? info.requested_bytes : size_bytes;
    status = kept_bytes > 0 ? dao_copy(pool->place, moved, pool->place, address, kept_bytes) : DAO_OK;
    if (status == DAO_OK) {
        status = dao_free(pool->place, address);
    }
    if (status != DAO_OK) {
        (void)dao_free(pool->place, moved); /* the first failure counts */
        return refuse(status_of(status));
    }
    return moved;
}

static umf_status_t pool_usable_size(void *user, const void *address, size_t *out_size_bytes)
{
    dao_block_info_t info;
    if (address == NULL) {
        *out_size_bytes = 0;
        return UMF_SUCCESS;
    }
    dao_status_t status = dao_block_query(((const pool_t *)user)->place, address, &info);
    if (status == DAO_OK) {
        *out_size_bytes = info.size_bytes - info.offset_bytes;
    }
    return status_of(status);
}

static umf_status_t pool_last_error(void *user)
{
    (void)user;
    return last_error;
}

static umf_status_t pool_get_name(void *user, const char **out_name)
{
    (void)user;
    *out_name = pool_name;
    return UMF_SUCCESS;
}

static umf_status_t pool_trim(void *user, size_t keep_bytes)
{
    return status_of(dao_trim(((const pool_t *)user)->place, keep_bytes, NULL));
}

/* Makes a place over UMF's handle of a provider, by the functions of the UMF that called. */
static int pool_over_provider(pool_t *pool, void *provider, const dao_umf_memory_t *memory)
{
    source_t source = {.provider = provider};
    void *alloc = dlsym(RTLD_DEFAULT, "umfMemoryProviderAlloc");
    void *release = dlsym(RTLD_DEFAULT, "umfMemoryProviderFree");
    if (alloc == NULL || release == NULL) {
        return dao_plugin_fail(DAO_ERR_UNSUPPORTED,
                               "dao_umf: the program has no umfMemoryProviderAlloc(): link "
                               "libumf as a shared library");
    }
    memcpy(&source.alloc, &alloc, sizeof(alloc));
    memcpy(&source.free, &release, sizeof(release));
    int status;
    pool->source = source_register(&source, memory, &pool->place, &status);
    return status;
}

static umf_status_t pool_initialize(void *provider, const void *params, void **out_pool)
{
    const dao_umf_pool_params_t *given = params;
    if (given == NULL || out_pool == NULL || (given->is_over_provider && provider == NULL)) {
        return status_of((dao_status_t)dao_plugin_fail(
            DAO_ERR_INVALID, "dao_umf: a pool needs a dao_umf_pool_params_t, and a provider to lie over"));
    }
    pool_t *pool = calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return status_of(
            (dao_status_t)dao_plugin_fail(DAO_ERR_NO_HOST_MEMORY, "dao_umf: no memory for a pool"));
    }
    pool->place = given->place;
    int status = DAO_OK;
    if (given->is_over_provider) {
        status = pool_over_provider(pool, provider, &given->memory);
    } else {
        dao_stats_t stats; /* is there such a place? */
        status = dao_plugin_answer(dao_stats_get(given->place, &stats));
    }
    if (status != DAO_OK) {
        free(pool);
        return status_of((dao_status_t)status);
    }
    *out_pool = pool;
    return UMF_SUCCESS;
}

/* Gives a provider its memory back. What is live still goes with the provider, and its place refuses all. */
static umf_status_t pool_finalize(void *user)
{
    pool_t *pool = user;
    umf_status_t status = UMF_SUCCESS;
    if (pool->source != NULL) {
        status = status_of(dao_trim(pool->place, 0, NULL));
        atomic_store(&pool->source->is_closed, true);
    }
    free(pool);
    return status;
}

const struct umf_memory_pool_ops_t *dao_umf_pool_ops(void)
{
    static const umf_pool_ops_t ops = {.version = UMF_POOL_OPS_VERSION,
                                       .initialize = pool_initialize,
                                       .finalize = pool_finalize,
                                       .malloc = pool_malloc,
                                       .calloc = pool_calloc,
                                       .realloc = pool_realloc,
                                       .aligned_malloc = pool_aligned_malloc,
                                       .malloc_usable_size = pool_usable_size,
                                       .free = pool_free,
                                       .get_last_allocation_error = pool_last_error,
                                       .get_name = pool_get_name,
                                       .ext_trim_memory = pool_trim};
    return &ops;
}

dao_place_t dao_umf_pool_place(const void *pool)
{
    return ((const pool_t *)pool)->place;
}

const char *dao_umf_last_message(void)
{
    return dao_plugin_message();
}
