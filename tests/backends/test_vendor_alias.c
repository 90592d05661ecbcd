/* SPDX-License-Identifier: Apache-2.0 */
/* Pages at several addresses with the backends for CUDA and HIP, on the loopback driver: who may access them,
   and what is left of a mapping that the driver refuses half-way. The contract of backends has the rest. */
#define _GNU_SOURCE /* setenv */
#include DAO_VENDOR_NAMES

#include "base/report/error.h"
#include "tests/loopback/loopback.h"
#include "tests/support/suite.h"

#include <stdlib.h>

enum { PAGE_COUNT = 3, ALIAS_COUNT = 4 };

static const uint32_t order[ALIAS_COUNT] = {2, 0, 1, 1};

static const dao_backend_ops_t *ops;
static dao_backend_t *backend;
static dao_backend_device_t *device, *peer;
static dao_backend_pages_t *pages[PAGE_COUNT];
static size_t page_bytes;
static void *base;

static int driver_start(void)
{
    ops = loopback_ops();
    return 0;
}

static void begin(void)
{
    static const dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    dao_device_info_t info;
    CU_ASSERT_EQUAL_FATAL(setenv("DAO_ALIAS_PAGES", "1", 1), 0);
    CU_ASSERT_EQUAL_FATAL(ops->open(&config, &backend), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(ops->device_open(backend, 0, &device), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(ops->device_open(backend, 1, &peer), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(ops->device_query(device, &info), DAO_OK);
    page_bytes = (size_t)info.page_bytes;
    CU_ASSERT_EQUAL_FATAL(ops->address_reserve(device, PAGE_COUNT * page_bytes, &base), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(ops->pages_create_mapped(device, page_bytes, PAGE_COUNT, base, pages), DAO_OK);
}

static void end(void)
{
    for (size_t i = 0; i < PAGE_COUNT; i++) {
        CU_ASSERT_EQUAL(ops->pages_unmap(device, pages[i], (char *)base + i * page_bytes), DAO_OK);
        CU_ASSERT_EQUAL(ops->pages_destroy(device, pages[i]), DAO_OK);
    }
    CU_ASSERT_EQUAL(ops->address_release(device, base, PAGE_COUNT * page_bytes), DAO_OK);
    ops->device_close(peer);
    ops->device_close(device);
    ops->close(backend);
}

static dao_status_t fill_from_peer(void *address, size_t size_bytes)
{
    dao_backend_stream_t *stream = NULL;
    CU_ASSERT_EQUAL_FATAL(ops->stream_create(peer, &stream), DAO_OK);
    dao_status_t status = ops->fill(stream, address, 5, size_bytes);
    CU_ASSERT_EQUAL(ops->stream_synchronize(stream), DAO_OK);
    ops->stream_destroy(stream);
    return status;
}

static void peers_reach_pages_by_all_addresses_whenever_they_come(void)
{
    size_t bytes = 0;
    void *before = NULL, *after = NULL;
    begin();
    CU_ASSERT_EQUAL(ops->alias_prepare(device, base, PAGE_COUNT * page_bytes, &bytes), DAO_OK);
    CU_ASSERT_EQUAL(bytes, page_bytes);
    CU_ASSERT_EQUAL(ops->alias_map(device, base, page_bytes, order, ALIAS_COUNT, &before), DAO_OK);
    CU_ASSERT_EQUAL(ops->peer_enable(peer, device), DAO_OK);
    CU_ASSERT_EQUAL(ops->alias_map(device, base, page_bytes, order, ALIAS_COUNT, &after), DAO_OK);
    CU_ASSERT_EQUAL(fill_from_peer(before, ALIAS_COUNT * page_bytes), DAO_OK);
    CU_ASSERT_EQUAL(fill_from_peer(after, ALIAS_COUNT * page_bytes), DAO_OK);
    CU_ASSERT_EQUAL(ops->alias_unmap(device, before, page_bytes, ALIAS_COUNT, 1), DAO_OK);
    CU_ASSERT_EQUAL(ops->alias_unmap(device, before, page_bytes, ALIAS_COUNT, 0), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(ops->alias_unmap(device, before, page_bytes, 1, 0), DAO_OK);
    CU_ASSERT_EQUAL(ops->alias_unmap(device, before, page_bytes, 1, 0), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(ops->alias_unmap(device, after, page_bytes, ALIAS_COUNT, 0), DAO_OK);
    end();
}

/* Whichever call of the driver is refused, nothing stays mapped: the same goes through afterwards. */
static void a_mapping_that_is_refused_half_way_is_undone(void)
{
    void *address = NULL;
    dao_status_t status = DAO_ERR_BACKEND;
    uint32_t refused_count = 0;
    begin();
    while (status != DAO_OK) {
        loopback_fail(refused_count + 1, LOOPBACK_INVALID_VALUE);
        status = ops->alias_map(device, base, page_bytes, order, ALIAS_COUNT, &address);
        refused_count += loopback_has_failed() ? 1 : 0;
        CU_ASSERT_TRUE(status == DAO_OK || address == NULL);
        loopback_fail(0, vendorSuccess);
    }
    CU_ASSERT_TRUE(refused_count >= ALIAS_COUNT + 2); /* addresses, each page, access */
    CU_ASSERT_EQUAL(ops->alias_unmap(device, address, page_bytes, ALIAS_COUNT, 0), DAO_OK);
    end();
}

static void only_mapped_pages_have_further_addresses(void)
{
    size_t bytes = 7;
    void *memory = NULL, *address = NULL;
    static const uint32_t beyond[] = {0, PAGE_COUNT};
    begin();
    CU_ASSERT_EQUAL(ops->memory_alloc(device, page_bytes, &memory), DAO_OK);
    CU_ASSERT_EQUAL(ops->alias_prepare(device, memory, page_bytes, &bytes), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(ops->alias_prepare(device, base, (PAGE_COUNT + 1) * page_bytes, &bytes),
                    DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(ops->alias_map(device, base, page_bytes, beyond, 2, &address), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(ops->memory_free(device, memory, page_bytes), DAO_OK);
    CU_ASSERT_EQUAL(setenv("DAO_ALIAS_PAGES", "0", 1), 0);
    CU_ASSERT_EQUAL(ops->alias_prepare(device, base, PAGE_COUNT * page_bytes, &bytes), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(setenv("DAO_ALIAS_PAGES", "perhaps", 1), 0);
    CU_ASSERT_EQUAL(ops->alias_prepare(device, base, PAGE_COUNT * page_bytes, &bytes), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(bytes, 7);
    end();
}

static CU_TestInfo tests[] = {
    {"peers reach pages by all addresses, whenever they come",
     peers_reach_pages_by_all_addresses_whenever_they_come},
    {"a mapping that is refused half-way is undone", a_mapping_that_is_refused_half_way_is_undone},
    {"only mapped pages have further addresses", only_mapped_pages_have_further_addresses},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"vendor alias", driver_start, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
