/* SPDX-License-Identifier: Apache-2.0 */
/* libdao_umf, driven as UMF drives it: by the tables of pools and providers. No registry that tests use has a
   UMF, so its functions that the plug-in looks for are here. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "integrations/umf/dao_umf.h"
#include "integrations/umf/umf_abi.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <string.h>
#include <sys/mman.h>

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};

/* ---- a provider: anonymous memory, of which only so much is given ---- */

typedef struct provider {
    size_t limit_bytes;
    size_t given_bytes;
    umf_status_t refusal; /* what it answers when there is no more */
    int free_count;
} provider_t;

static umf_status_t provider_initialize(const void *params, void **out_provider)
{
    (void)params;
    (void)out_provider;
    return UMF_ERROR_NOT_SUPPORTED;
}

static umf_status_t provider_finalize(void *user)
{
    (void)user;
    return UMF_SUCCESS;
}

static umf_status_t provider_alloc(void *user, size_t size_bytes, size_t alignment_bytes, void **out_address)
{
    provider_t *provider = user;
    if (provider->given_bytes + size_bytes > provider->limit_bytes) {
        return provider->refusal;
    }
    void *address = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED || (uintptr_t)address % alignment_bytes != 0) {
        return UMF_ERROR_UNKNOWN;
    }
    provider->given_bytes += size_bytes;
    *out_address = address;
    return UMF_SUCCESS;
}

static umf_status_t provider_free(void *user, void *address, size_t size_bytes)
{
    provider_t *provider = user;
    provider->given_bytes -= size_bytes;
    provider->free_count++;
    return munmap(address, size_bytes) == 0 ? UMF_SUCCESS : UMF_ERROR_UNKNOWN;
}

static const umf_provider_ops_t provider_ops = {(uint32_t)1 << 16, provider_initialize, provider_finalize,
                                                provider_alloc, provider_free};

/* UMF's functions over its handle of a provider, which is the provider itself here. */
umf_status_t umfMemoryProviderAlloc(void *handle, size_t size_bytes, size_t alignment_bytes,
                                    void **out_address);
umf_status_t umfMemoryProviderFree(void *handle, void *address, size_t size_bytes);

__attribute__((visibility("default"))) umf_status_t umfMemoryProviderAlloc(void *handle, size_t size_bytes,
                                                                           size_t alignment_bytes,
                                                                           void **out_address)
{
    return provider_alloc(handle, size_bytes, alignment_bytes, out_address);
}

__attribute__((visibility("default"))) umf_status_t umfMemoryProviderFree(void *handle, void *address,
                                                                          size_t size_bytes)
{
    return provider_free(handle, address, size_bytes);
}

/* ---- */

static const umf_pool_ops_t *ops;

static int library_start(void)
{
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    ops = dao_umf_pool_ops();
    return ops == NULL || dao_init(&config) != DAO_OK;
}

static int library_stop(void)
{
    return dao_finalize() != DAO_OK;
}

static void *pool_make(const dao_umf_pool_params_t *params, void *provider)
{
    void *pool = NULL;
    CU_ASSERT_EQUAL_FATAL(ops->initialize(provider, params, &pool), UMF_SUCCESS);
    return pool;
}

static void the_table_is_whole(void)
{
    const char *name = NULL;
    CU_ASSERT_EQUAL(ops->version, 0x10001);
    CU_ASSERT_EQUAL(ops->get_name(NULL, &name), UMF_SUCCESS);
    CU_ASSERT_STRING_EQUAL(name, "dao");
    CU_ASSERT_PTR_NULL(ops->ext_ctl);
    void *pool = NULL;
    dao_umf_pool_params_t nowhere = {.place = {DAO_PLACE_KIND_DEVICE, 60}};
    CU_ASSERT_EQUAL(ops->initialize(&nowhere, NULL, &pool), UMF_ERROR_INVALID_ARGUMENT);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_umf_last_message(), "dao_umf_pool_params_t"));
    CU_ASSERT_EQUAL(ops->initialize(NULL, &nowhere, &pool), UMF_ERROR_INVALID_ARGUMENT);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_umf_last_message(), "device:60"));
    dao_umf_pool_params_t over_nothing = {.is_over_provider = true};
    CU_ASSERT_EQUAL(ops->initialize(NULL, &over_nothing, &pool), UMF_ERROR_INVALID_ARGUMENT);
    CU_ASSERT_PTR_NULL(pool);
}

/* Every function of a pool over a place, on the host and on a device. */
static void a_pool_hands_out_blocks_of_its_place(void)
{
    const dao_place_t places[] = {host, device};
    for (size_t i = 0; i < 2; i++) {
        dao_umf_pool_params_t params = {.place = places[i]};
        void *pool = pool_make(&params, NULL);
        size_t used_before = dao_used(places[i]);
        size_t size_bytes = 0;
        unsigned char bytes[3000];
        memset(bytes, 7, sizeof(bytes));
        CU_ASSERT_TRUE(dao_place_equal(dao_umf_pool_place(pool), places[i]));
        void *block = ops->malloc(pool, 1000);
        CU_ASSERT_EQUAL(ops->malloc_usable_size(pool, block, &size_bytes), UMF_SUCCESS);
        CU_ASSERT_TRUE(size_bytes >= 1000);
        CU_ASSERT_EQUAL(dao_copy(places[i], block, host, bytes, 1000), DAO_OK);
        block = ops->realloc(pool, block, 3000);
        memset(bytes, 0, sizeof(bytes));
        CU_ASSERT_EQUAL(dao_copy(host, bytes, places[i], block, 1000), DAO_OK);
        CU_ASSERT_TRUE(bytes[0] == 7 && bytes[999] == 7);
        void *zeros = ops->calloc(pool, 30, 100);
        CU_ASSERT_EQUAL(dao_copy(host, bytes, places[i], zeros, 3000), DAO_OK);
        CU_ASSERT_TRUE(bytes[0] == 0 && bytes[2999] == 0);
        void *aligned = ops->aligned_malloc(pool, 100, 8192);
        CU_ASSERT_TRUE(aligned != NULL && (uintptr_t)aligned % 8192 == 0);
        CU_ASSERT_EQUAL(ops->free(pool, aligned), UMF_SUCCESS);
        CU_ASSERT_EQUAL(ops->free(pool, zeros), UMF_SUCCESS);
        CU_ASSERT_EQUAL(ops->free(pool, block), UMF_SUCCESS);
        CU_ASSERT_EQUAL(ops->free(pool, NULL), UMF_SUCCESS);
        CU_ASSERT_EQUAL(dao_used(places[i]), used_before);
        CU_ASSERT_EQUAL(ops->ext_trim_memory(pool, 0), UMF_SUCCESS);
        CU_ASSERT_EQUAL(ops->finalize(pool), UMF_SUCCESS);
    }
}

static void wrong_requests_have_an_error(void)
{
    dao_umf_pool_params_t params = {.place = device};
    void *pool = pool_make(&params, NULL);
    int local = 0;
    size_t size_bytes = 5;
    CU_ASSERT_PTR_NULL(ops->malloc(pool, GIB));
    CU_ASSERT_EQUAL(ops->get_last_allocation_error(pool), UMF_ERROR_OUT_OF_RESOURCES);
    CU_ASSERT_PTR_NULL(ops->aligned_malloc(pool, 100, 48));
    CU_ASSERT_EQUAL(ops->get_last_allocation_error(pool), UMF_ERROR_INVALID_ALIGNMENT);
    CU_ASSERT_PTR_NULL(ops->calloc(pool, SIZE_MAX / 2, 3));
    CU_ASSERT_EQUAL(ops->get_last_allocation_error(pool), UMF_ERROR_OUT_OF_RESOURCES);
    char *block = ops->malloc(pool, 1000);
    CU_ASSERT_PTR_NULL(ops->realloc(pool, block + 8, 2000));
    CU_ASSERT_EQUAL(ops->get_last_allocation_error(pool), UMF_ERROR_INVALID_ARGUMENT);
    CU_ASSERT_PTR_NULL(ops->realloc(pool, block, GIB)); /* which leaves the block */
    CU_ASSERT_EQUAL(ops->free(pool, block + 8), UMF_ERROR_INVALID_ARGUMENT);
    CU_ASSERT_EQUAL(ops->free(pool, &local), UMF_ERROR_INVALID_ARGUMENT);
    CU_ASSERT_EQUAL(ops->malloc_usable_size(pool, &local, &size_bytes), UMF_ERROR_INVALID_ARGUMENT);
    CU_ASSERT_EQUAL(size_bytes, 5);
    CU_ASSERT_PTR_NULL(ops->realloc(pool, block, 0)); /* frees it, as C's */
    CU_ASSERT_EQUAL(dao_used(device), 0);
    CU_ASSERT_EQUAL(ops->finalize(pool), UMF_SUCCESS);
}

/* All memory of the pool is the provider's, which has it back when the pool goes. */
static void a_pool_lies_over_a_provider(void)
{
    provider_t provider = {.limit_bytes = 96 * MIB, .refusal = UMF_ERROR_OUT_OF_HOST_MEMORY};
    dao_umf_pool_params_t params = {.is_over_provider = true};
    void *pool = pool_make(&params, &provider);
    uint64_t seed = dao_test_seed("umf", 0x0f);
    void *blocks[40] = {NULL};
    for (int i = 0; i < 400; i++) {
        size_t at = dao_random_next(&seed) % 40;
        size_t size_bytes = 1 + dao_random_next(&seed) % (512 * KIB);
        CU_ASSERT_EQUAL(ops->free(pool, blocks[at]), UMF_SUCCESS);
        blocks[at] = ops->malloc(pool, size_bytes);
        if (blocks[at] == NULL) {
            CU_FAIL_FATAL("the provider has memory left");
            return;
        }
        memset(blocks[at], (int)at, size_bytes);
    }
    dao_stats_t stats;
    CU_ASSERT_EQUAL(dao_stats_get(dao_umf_pool_place(pool), &stats), DAO_OK);
    CU_ASSERT_TRUE(stats.used_bytes > 0);
    CU_ASSERT_EQUAL(stats.reserved_bytes, provider.given_bytes);
    CU_ASSERT_PTR_NULL(ops->malloc(pool, 200 * MIB));
    CU_ASSERT_EQUAL(ops->get_last_allocation_error(pool), UMF_ERROR_OUT_OF_RESOURCES);
    for (size_t at = 1; at < 40; at++) {
        CU_ASSERT_EQUAL(ops->free(pool, blocks[at]), UMF_SUCCESS);
    }
    CU_ASSERT_EQUAL(ops->free(pool, blocks[0]), UMF_SUCCESS);
    CU_ASSERT_TRUE(provider.given_bytes > 0); /* it is kept for the next */
    CU_ASSERT_EQUAL(ops->finalize(pool), UMF_SUCCESS);
    CU_ASSERT_EQUAL(provider.given_bytes, 0);
}

/* A block that outlives its pool goes with the provider: nothing is asked of that any more. */
static void a_pool_with_live_blocks_may_go(void)
{
    provider_t provider = {.limit_bytes = 96 * MIB, .refusal = UMF_ERROR_OUT_OF_HOST_MEMORY};
    dao_umf_pool_params_t params = {.is_over_provider = true};
    void *pool = pool_make(&params, &provider);
    dao_place_t place = dao_umf_pool_place(pool);
    void *block = ops->malloc(pool, MIB);
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(ops->finalize(pool), UMF_SUCCESS);
    int free_count = provider.free_count;
    CU_ASSERT_PTR_NULL(dao_alloc(place, 64 * MIB));
    CU_ASSERT_EQUAL(dao_free(place, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_trim(place, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL(provider.free_count, free_count);
}

static void a_place_is_made_of_a_provider(void)
{
    static provider_t provider = {.limit_bytes = 32 * MIB, .refusal = UMF_ERROR_PROVIDER_SPECIFIC};
    dao_place_t place;
    umf_provider_ops_t other = provider_ops;
    other.version = (uint32_t)2 << 16;
    CU_ASSERT_EQUAL(dao_umf_place_register(NULL, &provider, NULL, &place), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_umf_place_register(&provider_ops, &provider, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_umf_place_register(&other, &provider, NULL, &place), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_umf_last_message(), "2.0"));
    dao_umf_memory_t memory = {.capacity_bytes = 64 * MIB};
    CU_ASSERT_EQUAL_FATAL(dao_umf_place_register(&provider_ops, &provider, &memory, &place), DAO_OK);
    unsigned char *block = dao_alloc(place, 5 * MIB);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    memset(block, 3, 5 * MIB);
    CU_ASSERT_TRUE(provider.given_bytes >= 5 * MIB);
    CU_ASSERT_PTR_NULL(dao_alloc(place, 40 * MIB));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(dao_free(place, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_trim(place, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL(provider.given_bytes, 0);
}

static CU_TestInfo tests[] = {
    {"the table is whole", the_table_is_whole},
    {"a pool hands out blocks of its place", a_pool_hands_out_blocks_of_its_place},
    {"wrong requests have an error", wrong_requests_have_an_error},
    {"a pool lies over a provider", a_pool_lies_over_a_provider},
    {"a pool with live blocks may go", a_pool_with_live_blocks_may_go},
    {"a place is made of a provider", a_place_is_made_of_a_provider},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"umf", library_start, library_stop, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
