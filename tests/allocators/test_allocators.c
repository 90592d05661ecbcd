/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of allocators on memory of a vendor's driver: every strategy, on a device and in pinned
   memory, made as a place makes it. Each call that they make is checked by the driver
   (tests/loopback/loopback.h). */
#include "runtime/start/place_start.h"
#include "tests/contract/allocator_contract.h"

#include <stdio.h>

#define DEVICE_BYTES (512 * MIB)

/* Name, kind of place, strategy, whether pages are mapped, whether what is freed goes back at once. */
#define SUBJECT_LIST(X)                                                                                      \
    X(good_fit_pages, DEVICE, GOOD_FIT, true, false)                                                         \
    X(good_fit_segments, DEVICE, GOOD_FIT, false, false)                                                     \
    X(best_fit_pages, DEVICE, BEST_FIT, true, false)                                                         \
    X(best_fit_segments, DEVICE, BEST_FIT, false, false)                                                     \
    X(binary_buddy, DEVICE, BINARY_BUDDY, false, false)                                                      \
    X(size_class, DEVICE, SIZE_CLASS, false, false)                                                          \
    X(system, DEVICE, SYSTEM, false, true)                                                                   \
    X(pinned_good_fit, PINNED, GOOD_FIT, false, false)                                                       \
    X(pinned_best_fit, PINNED, BEST_FIT, false, false)                                                       \
    X(pinned_binary_buddy, PINNED, BINARY_BUDDY, false, false)                                               \
    X(pinned_size_class, PINNED, SIZE_CLASS, false, false)                                                   \
    X(pinned_system, PINNED, SYSTEM, false, true)

static const dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = DEVICE_BYTES}};
static const dao_step_plan_config_t no_serving = {.mode = DAO_STEP_PLAN_OFF};
static const dao_backend_ops_t *ops;
static dao_backend_t *backend;
static dao_backend_device_t *device;
static dao_place_origin_t origin;
static uint64_t free_bytes; /* of the device, when nothing is taken */
static size_t subject_count;

static bool read_free_bytes(uint64_t *out_bytes)
{
    dao_device_info_t info = {0};
    bool is_read = ops->device_query(device, &info) == DAO_OK;
    *out_bytes = info.free_bytes;
    return is_read;
}

static int driver_open(void)
{
    ops = dao_backend_ops();
    if (ops->open(&config, &backend) != DAO_OK || ops->device_open(backend, 0, &device) != DAO_OK ||
        !read_free_bytes(&free_bytes)) {
        return 1;
    }
    origin = (dao_place_origin_t){.ops = ops, .device = device, .step_plan = &no_serving};
    subject_count++;
    return 0;
}

static int driver_close(void)
{
    ops->device_close(device);
    ops->close(backend);
    return 0;
}

static void allocator_destroy(dao_allocator_t *allocator)
{
    uint64_t free_bytes_now = 0;
    allocator->ops->destroy(allocator);
    CU_ASSERT_TRUE(read_free_bytes(&free_bytes_now));
    CU_ASSERT_EQUAL(free_bytes_now, free_bytes);
}

#define SUBJECT_FUNCTIONS(name, place_kind, place_strategy, maps_pages, uncached)                            \
    static dao_status_t name##_create(dao_allocator_t **out_allocator)                                       \
    {                                                                                                        \
        dao_place_t place = {DAO_PLACE_KIND_##place_kind, 0};                                                \
        dao_place_config_t place_config = {.strategy = DAO_STRATEGY_##place_strategy,                        \
                                           .no_page_mapping = !(maps_pages)};                                \
        return dao_place_start(place, &place_config, &origin, out_allocator);                                \
    }                                                                                                        \
    static void name##_begin(void)                                                                           \
    {                                                                                                        \
        static const allocator_contract_t contract = {.create = name##_create,                               \
                                                      .destroy = allocator_destroy,                          \
                                                      .alignment_bytes = 256,                                \
                                                      .is_uncached = (uncached)};                            \
        allocator_contract_begin_on(&contract);                                                              \
    }
SUBJECT_LIST(SUBJECT_FUNCTIONS)

int main(void)
{
    CU_SuiteInfo suites[] = {
#define SUBJECT_SUITE(name, place_kind, place_strategy, maps_pages, uncached)                                \
    {"contract: " #name,      driver_open, driver_close, name##_begin, allocator_contract_end,               \
     allocator_contract_tests},
        SUBJECT_LIST(SUBJECT_SUITE) CU_SUITE_INFO_NULL};
    int result = dao_suite_run(suites);
    (void)printf("the contract of allocators ran on %zu of them over %s\n", subject_count, ops->name);
    return result;
}
