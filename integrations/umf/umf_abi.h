/* SPDX-License-Identifier: Apache-2.0 */
/* The part of the Unified Memory Framework's binary interface that the plug-in uses: the tables of pools and
   of memory providers, as in umf/memory_pool_ops.h (version 1.1) and umf/memory_provider_ops.h (version 1.0,
   which later ones append to). No package of Debian has them. */
#ifndef DAO_INTEGRATIONS_UMF_ABI_H
#define DAO_INTEGRATIONS_UMF_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#define UMF_POOL_OPS_VERSION ((uint32_t)1 << 16 | 1) /* 1.1 */
#define UMF_OPS_MAJOR        1                       /* of tables that are understood */

typedef enum umf_status {
    UMF_SUCCESS = 0,
    UMF_ERROR_OUT_OF_HOST_MEMORY = 1,
    UMF_ERROR_PROVIDER_SPECIFIC = 2,
    UMF_ERROR_INVALID_ARGUMENT = 3,
    UMF_ERROR_INVALID_ALIGNMENT = 4,
    UMF_ERROR_NOT_SUPPORTED = 5,
    UMF_ERROR_OUT_OF_RESOURCES = 8,
    UMF_ERROR_UNKNOWN = 0x7ffffffe,
} umf_status_t;

typedef struct umf_memory_pool_ops_t {
    uint32_t version;
    umf_status_t (*initialize)(void *provider, const void *params, void **out_pool);
    umf_status_t (*finalize)(void *pool);
    void *(*malloc)(void *pool, size_t size_bytes);
    void *(*calloc)(void *pool, size_t count, size_t size_bytes);
    void *(*realloc)(void *pool, void *address, size_t size_bytes);
    void *(*aligned_malloc)(void *pool, size_t size_bytes, size_t alignment_bytes);
    umf_status_t (*malloc_usable_size)(void *pool, const void *address, size_t *out_size_bytes);
    umf_status_t (*free)(void *pool, void *address);
    umf_status_t (*get_last_allocation_error)(void *pool);
    umf_status_t (*get_name)(void *pool, const char **out_name); /* pool may be NULL */
    void *ext_ctl;                                               /* NULL: there is nothing to control */
    umf_status_t (*ext_trim_memory)(void *pool, size_t keep_bytes);
} umf_pool_ops_t;

/* The beginning of the other table. */
typedef struct umf_memory_provider_ops_t {
    uint32_t version;
    umf_status_t (*initialize)(const void *params, void **out_provider);
    umf_status_t (*finalize)(void *provider);
    umf_status_t (*alloc)(void *provider, size_t size_bytes, size_t alignment_bytes, void **out_address);
    umf_status_t (*free)(void *provider, void *address, size_t size_bytes);
} umf_provider_ops_t;

static_assert(sizeof(umf_status_t) == 4, "UMF's results are ints");
static_assert(offsetof(umf_pool_ops_t, ext_trim_memory) == 12 * sizeof(void *), "12 words come first");
static_assert(offsetof(umf_provider_ops_t, free) == 4 * sizeof(void *), "4 words come first");

#endif
