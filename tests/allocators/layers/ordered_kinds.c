/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/allocators/layers/ordered_kinds.h"

#include "allocators/layers/hardened.h"
#include "allocators/paged/device_memory.h"
#include "base/report/error.h"

#include <dao/context.h>

#include <string.h>

#define CAPACITY_BYTES   (256 * MIB)
#define QUARANTINE_BYTES (256 * KIB)

heap_backend_t *ordered_heap;
controlled_streams_t ordered_streams;
dao_allocator_t *ordered;
bool ordered_is_out_of_reach;

/* ---- what stands behind ---- */

static dao_status_t test_fill(void *user, void *address, uint8_t value, size_t size_bytes)
{
    (void)user;
    memset(address, value, size_bytes);
    return DAO_OK;
}

static dao_status_t test_scan(void *user, const void *address, uint8_t value, size_t size_bytes,
                              size_t *out_offset)
{
    (void)user;
    if (ordered_is_out_of_reach) {
        return dao_error(DAO_ERR_BACKEND, "the scan failed on purpose");
    }
    const unsigned char *bytes = address;
    size_t offset = 0;
    while (offset < size_bytes && bytes[offset] == value) {
        offset++;
    }
    *out_offset = offset;
    return DAO_OK;
}

static dao_status_t hardened_create(const dao_strategy_config_t *config, dao_allocator_t **out_allocator)
{
    dao_allocator_t *inner = NULL;
    dao_status_t status = dao_binary_buddy_create(config, &inner);
    if (status != DAO_OK) {
        return status;
    }
    dao_hardened_config_t hardened = {.name = "pinned:0",
                                      .flags = DAO_HARDENING_GUARD | DAO_HARDENING_JUNK |
                                               DAO_HARDENING_QUARANTINE | DAO_HARDENING_CHECKSUM,
                                      .quarantine_bytes = QUARANTINE_BYTES,
                                      .bytes = {.fill = test_fill, .scan = test_scan}};
    status = dao_hardened_create(&hardened, inner, out_allocator);
    if (status != DAO_OK) {
        inner->ops->destroy(inner);
    }
    return status;
}

/* Follows streams itself: blocks of leases alone wait in front of it. */
static dao_status_t segmented_create(const dao_strategy_config_t *config, dao_allocator_t **out_allocator)
{
    dao_device_memory_config_t caching = {.ops = heap_backend_ops(ordered_heap),
                                          .device = heap_backend_device(ordered_heap),
                                          .name = config->name,
                                          .fences = ordered_streams.fences,
                                          .segment_bytes = config->segment_bytes,
                                          .limit_bytes = config->limit_bytes};
    return dao_device_memory_create(&caching, out_allocator);
}

const ordered_kind_t ordered_kinds[ORDERED_KIND_COUNT] = {{dao_binary_buddy_create, 1 * MIB, false, false},
                                                          {dao_size_class_create, 0, false, false},
                                                          {dao_system_create, 0, false, true},
                                                          {hardened_create, 1 * MIB, true, false},
                                                          {segmented_create, 1 * MIB, false, false}};

static dao_status_t make(const ordered_kind_t *kind, size_t limit_bytes, dao_allocator_t **out_allocator)
{
    dao_strategy_config_t config = {.name = "pinned:0",
                                    .upstream = {.take = heap_backend_pinned_take,
                                                 .give = heap_backend_pinned_give,
                                                 .user = ordered_heap},
                                    .full_status = DAO_ERR_NO_HOST_MEMORY,
                                    .alignment_bytes = ORDERED_ALIGNMENT_BYTES,
                                    .segment_bytes = kind->segment_bytes,
                                    .limit_bytes = limit_bytes};
    dao_allocator_t *inner = NULL;
    dao_status_t status = kind->create(&config, &inner);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_stream_ordered_create(ordered_streams.fences, inner, out_allocator);
    if (status != DAO_OK) {
        inner->ops->destroy(inner);
    }
    return status;
}

dao_status_t ordered_create(const ordered_kind_t *kind, size_t limit_bytes, dao_allocator_t **out_allocator)
{
    ordered_heap = heap_backend_create(CAPACITY_BYTES, 0);
    if (ordered_heap == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    dao_status_t status = make(kind, limit_bytes, out_allocator);
    if (status != DAO_OK) {
        CU_ASSERT_TRUE(heap_backend_destroy(ordered_heap));
    }
    return status;
}

void ordered_destroy(dao_allocator_t *made)
{
    CU_ASSERT_TRUE(made->ops->is_valid(made));
    made->ops->destroy(made);
    CU_ASSERT_TRUE(heap_backend_destroy(ordered_heap));
}

void ordered_begin(size_t kind, size_t limit_bytes)
{
    controlled_streams_begin(&ordered_streams);
    CU_ASSERT_EQUAL_FATAL(ordered_create(&ordered_kinds[kind], limit_bytes, &ordered), DAO_OK);
}

void ordered_end(void)
{
    ordered_destroy(ordered);
    controlled_streams_end(&ordered_streams);
}

/* ---- helpers ---- */

dao_stats_t ordered_stats_now(void)
{
    dao_stats_t stats;
    ordered->ops->stats_get(ordered, &stats);
    CU_ASSERT_TRUE(ordered->ops->is_valid(ordered));
    return stats;
}

dao_status_t ordered_try_take(size_t size_bytes, int stream, uint32_t lease, dao_block_grant_t *out_grant)
{
    dao_block_request_t request = {
        .size_bytes = size_bytes, .stream = stream < 0 ? 0 : ordered_streams.numbers[stream], .lease = lease};
    dao_status_t status = ordered->ops->alloc(ordered, &request, out_grant);
    CU_ASSERT_TRUE(status != DAO_OK || stream >= 0 || dao_stream_fence_is_empty(&out_grant->fence));
    return status;
}

char *ordered_take(size_t size_bytes, int stream, uint32_t lease)
{
    dao_block_grant_t grant = {0};
    CU_ASSERT_EQUAL_FATAL(ordered_try_take(size_bytes, stream, lease, &grant), DAO_OK);
    return grant.address;
}

dao_status_t ordered_try_give(void *address, int stream)
{
    dao_stream_fence_t fence = {0};
    if (stream >= 0) {
        fence = controlled_streams_mark(&ordered_streams, (uint32_t)stream);
    }
    return ordered->ops->free(ordered, address, stream >= 0 ? &fence : NULL);
}

void ordered_give(void *address, int stream)
{
    CU_ASSERT_EQUAL(ordered_try_give(address, stream), DAO_OK);
}

uint32_t ordered_lease_begin(void)
{
    uint32_t lease = 0;
    CU_ASSERT_EQUAL_FATAL(ordered->ops->lease_begin(ordered, &lease), DAO_OK);
    return lease;
}
