/* SPDX-License-Identifier: Apache-2.0 */
/* Windows: what lies behind their addresses has pages of the arena, two of which never have one user too
   many; a window goes with its last user, and not before; a device that cannot do it is found out. */
#include "runtime/executor/tiers/device_arena.h"

#include "backends/sim/sim.h"
#include "base/report/error.h"
#include "base/report/fault.h"
#include "tests/support/backends/fault_backend.h"
#include "tests/support/suite.h"

#include <string.h>

enum { PAGE_COUNT = 8, PAGE = 4096 };

static uint32_t map_count, unmap_count;
static bool is_refusing, is_stale;
static bool is_stuck;           /* nothing is unmapped */
static dao_timeline_t timeline; /* numbers alone */
static dao_device_arena_t arena;
static dao_device_pages_t pages;
static char addresses[PAGE_COUNT * PAGE];

static dao_status_t map(dao_backend_device_t *device, void *base, size_t page_bytes, const uint32_t *order,
                        size_t page_count, void **out_address)
{
    (void)device;
    (void)base;
    (void)page_bytes;
    (void)order;
    (void)page_count;
    if (is_refusing) {
        return dao_error(DAO_ERR_NO_DEVICE_MEMORY, "refused on purpose");
    }
    map_count++;
    *out_address = addresses;
    return DAO_OK;
}

static dao_status_t unmap(dao_backend_device_t *device, void *address, size_t page_bytes, size_t page_count,
                          size_t keep_count)
{
    (void)device;
    (void)address;
    (void)page_bytes;
    CU_ASSERT(keep_count < page_count);
    unmap_count++;
    return is_stuck ? dao_error(DAO_ERR_BACKEND, "stuck on purpose") : DAO_OK;
}

static const dao_backend_ops_t ops = {.alias_map = map, .alias_unmap = unmap};

static void start(void)
{
    memset(&timeline, 0, sizeof(timeline));
    timeline.ops = &ops;
    timeline.streams[DAO_STREAM_ROLE_COMPUTE].issued = 100;
    map_count = unmap_count = 0;
    is_refusing = is_stuck = false;
    pages = (dao_device_pages_t){.ops = &ops, .page_bytes = PAGE};
    CU_ASSERT_EQUAL_FATAL(dao_device_arena_init(&arena, NULL, PAGE_COUNT * PAGE), DAO_OK);
}

static dao_device_window_t *open_window(const uint32_t *order, uint32_t page_count)
{
    const dao_swap_schedule_t schedule = {.page_bytes = PAGE, .pages = order, .page_count = page_count};
    dao_device_window_t *window = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_device_window_create(&pages, &schedule, &window), DAO_OK);
    dao_device_arena_open(&arena, window);
    CU_ASSERT_TRUE(dao_device_arena_is_valid(&arena));
    return window;
}

static dao_fence_t fence_at(uint64_t sequence)
{
    dao_fence_t fence = {0};
    dao_fence_add(&fence, DAO_STREAM_ROLE_COMPUTE, sequence);
    return fence;
}

static uint64_t fence_of(uint64_t offset, uint64_t size_bytes)
{
    dao_fence_t fence = {0};
    dao_device_arena_fence(&arena, offset, size_bytes, &fence);
    return dao_fence_number(&fence, DAO_STREAM_ROLE_COMPUTE);
}

static void a_page_has_one_user_by_whatever_address(void)
{
    static const uint32_t first_order[] = {5, 1, 2}, second_order[] = {7, 5};
    uint64_t part_bytes = 0, offset = 0;
    start();
    uint64_t first = open_window(first_order, 3)->map.begin_bytes;
    uint64_t second = open_window(second_order, 2)->map.begin_bytes;
    CU_ASSERT_EQUAL(dao_device_arena_take_at(&arena, first, 2 * PAGE + 100, 11), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_used(arena.range), 3 * PAGE); /* its last page as a whole */
    CU_ASSERT_TRUE(dao_device_arena_has(&arena, first, 2 * PAGE + 100, 11, &part_bytes));
    CU_ASSERT_FALSE(dao_device_arena_has(&arena, first, 2 * PAGE + 100, 12, &part_bytes));
    CU_ASSERT_EQUAL(dao_device_arena_take_at(&arena, second, 2 * PAGE, 12), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_range_used(arena.range), 3 * PAGE); /* page 7 was given back */
    CU_ASSERT_EQUAL(dao_device_arena_take_at(&arena, 2 * PAGE, 256, 12), DAO_ERR_LIMIT);
    dao_fence_t fence = fence_at(9);
    CU_ASSERT_EQUAL(dao_device_arena_give(&arena, &timeline, first, 2 * PAGE + 100, &fence), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_used(arena.range), 0);
    CU_ASSERT_EQUAL(fence_of(second, PAGE), 0);        /* page 7 */
    CU_ASSERT_EQUAL(fence_of(second + PAGE, PAGE), 9); /* page 5 */
    CU_ASSERT_EQUAL(fence_of(second, 2 * PAGE), 9);    /* both */
    CU_ASSERT_EQUAL(fence_of(2 * PAGE + 256, 256), 9); /* a small tensor in page 2 */
    CU_ASSERT_EQUAL(fence_of(3 * PAGE, 2 * PAGE), 0);
    CU_ASSERT_EQUAL(dao_device_arena_take_at(&arena, second, 2 * PAGE, 12), DAO_OK);
    CU_ASSERT_EQUAL(dao_device_arena_take(&arena, 6 * PAGE, 13, &offset), DAO_ERR_LIMIT);
    dao_device_arena_forget(&arena, second, 2 * PAGE);
    CU_ASSERT_EQUAL(dao_range_used(arena.range), 0);
    CU_ASSERT_PTR_EQUAL(dao_device_arena_at(&arena, second + PAGE + 1), addresses + PAGE + 1);
    CU_ASSERT_TRUE(dao_device_arena_is_valid(&arena));
    dao_device_arena_finish(&arena);
    CU_ASSERT_EQUAL(unmap_count, 2);
    CU_ASSERT_EQUAL(atomic_load(&pages.mapped), 0);
    CU_ASSERT_EQUAL(atomic_load(&pages.map_calls), 10);
}

/* Its plan is gone, but a tensor still lies there, and then work still uses its address. */
static void a_window_goes_with_its_last_user(void)
{
    static const uint32_t order[] = {3};
    start();
    dao_device_window_t *window = open_window(order, 1);
    window->tensor_count = 1;
    dao_device_arena_purge(&arena, &timeline);
    window->is_retired = true;
    dao_device_arena_purge(&arena, &timeline);
    CU_ASSERT_EQUAL(unmap_count, 0);
    window->tensor_count = 0;
    window->busy = fence_at(7);
    timeline.streams[DAO_STREAM_ROLE_COMPUTE].completed = 6;
    dao_device_arena_purge(&arena, &timeline);
    CU_ASSERT_EQUAL(unmap_count, 0);
    timeline.streams[DAO_STREAM_ROLE_COMPUTE].completed = 7;
    dao_device_arena_purge(&arena, &timeline);
    CU_ASSERT_EQUAL(unmap_count, 1);
    CU_ASSERT_PTR_NULL(arena.windows);
    dao_device_arena_finish(&arena);
}

/* A driver takes long for many pages, and whoever looks is about to queue a kernel. */
static void a_window_goes_page_by_page(void)
{
    static const uint32_t order[] = {3, 4, 6};
    start();
    open_window(order, 3)->is_retired = true;
    for (uint64_t left = 3; left > 0; left--) {
        CU_ASSERT_PTR_NOT_NULL(arena.windows);
        CU_ASSERT_EQUAL(atomic_load(&pages.mapped), left);
        dao_device_arena_purge(&arena, &timeline);
    }
    CU_ASSERT_EQUAL(unmap_count, 3);
    CU_ASSERT_PTR_NULL(arena.windows);
    CU_ASSERT_EQUAL(atomic_load(&pages.mapped), 0);
    CU_ASSERT_EQUAL(atomic_load(&pages.map_calls), 6);
    open_window(order, 3)->is_retired = true;
    dao_device_arena_purge(&arena, &timeline);
    dao_device_arena_finish(&arena); /* the rest at once */
    CU_ASSERT_EQUAL(unmap_count, 5);
    CU_ASSERT_EQUAL(atomic_load(&pages.mapped), 0);
}

static void a_window_that_is_refused_leaves_nothing(void)
{
    static const uint32_t order[] = {3, 4};
    const dao_swap_schedule_t schedule = {.page_bytes = PAGE, .pages = order, .page_count = 2};
    dao_device_window_t *window = NULL;
    start();
    is_refusing = true;
    CU_ASSERT_EQUAL(dao_device_window_create(&pages, &schedule, &window), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(atomic_load(&pages.mapped), 0);
    is_refusing = false;
    atomic_store(&pages.mapped, DAO_DEVICE_WINDOW_PAGE_MAX - 1);
    CU_ASSERT_EQUAL(dao_device_window_create(&pages, &schedule, &window), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(atomic_load(&pages.mapped), DAO_DEVICE_WINDOW_PAGE_MAX - 1);
    CU_ASSERT_PTR_NULL(window);
    CU_ASSERT_EQUAL(map_count, 0);
    dao_device_arena_finish(&arena);
}

static void a_window_without_host_memory_is_refused(void)
{
    static const uint32_t order[] = {3, 4};
    const dao_swap_schedule_t schedule = {.page_bytes = PAGE, .pages = order, .page_count = 2};
    dao_device_window_t *window = NULL;
    start();
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, false);
    dao_status_t status = dao_device_window_create(&pages, &schedule, &window);
    if (dao_fault_disarm() > 0) { /* builds without fault points see no failure */
        CU_ASSERT_EQUAL(status, DAO_ERR_NO_HOST_MEMORY);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "2 pages of a plan"));
        CU_ASSERT_PTR_NULL(window);
        CU_ASSERT_EQUAL(atomic_load(&pages.mapped), 0);
        CU_ASSERT_EQUAL(map_count, 0);
    }
    dao_device_window_destroy(window);
    dao_device_arena_finish(&arena);
}

/* What stays mapped counts against the limit for good. */
static void pages_that_are_not_unmapped_stay_counted(void)
{
    static const uint32_t order[] = {3, 4};
    start();
    dao_device_window_t *window = open_window(order, 2);
    window->is_retired = true;
    is_stuck = true;
    dao_device_arena_purge(&arena, &timeline);
    CU_ASSERT_EQUAL(unmap_count, 1);
    CU_ASSERT_PTR_NULL(arena.windows);
    CU_ASSERT_EQUAL(atomic_load(&pages.mapped), 2);
    dao_device_arena_finish(&arena);
}

/* ---- the probe ---- */

enum { DEVICE_BYTES = 64 << 20, ARENA_BYTES = 32 << 20 };

static dao_status_t (*true_map)(dao_backend_device_t *device, void *base, size_t page_bytes,
                                const uint32_t *order, size_t page_count, void **out_address);

/* A device that shows what was in a page before, as if the new address were behind a cache of its own. */
static dao_status_t stale_map(dao_backend_device_t *device, void *base, size_t page_bytes,
                              const uint32_t *order, size_t page_count, void **out_address)
{
    static const uint32_t others[2] = {2, 3};
    return true_map(device, base, page_bytes, is_stale ? others : order, page_count, out_address);
}

static fault_call_t failing = FAULT_CALL_COUNT; /* of a probe's calls the one with this number fails, */
static int64_t failing_number = -1;             /* and where the device is lost by it, all behind it */
static uint64_t failed_count;
static dao_status_t probe_status;

static size_t probe(dao_backend_ops_t table, dao_swap_addresses_t wanted, uint64_t arena_bytes)
{
    const dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = DEVICE_BYTES}};
    dao_backend_t *backend = NULL;
    dao_backend_device_t *device = NULL;
    dao_backend_stream_t *streams[2] = {NULL, NULL};
    void *base = NULL;
    true_map = table.alias_map;
    table.alias_map = true_map != NULL ? stale_map : NULL;
    CU_ASSERT_EQUAL_FATAL(table.open(&config, &backend), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(table.device_open(backend, 0, &device), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(table.memory_alloc(device, ARENA_BYTES, &base), DAO_OK);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(table.stream_create(device, &streams[i]), DAO_OK);
    }
    dao_device_pages_t probed = {.ops = &table, .device = device, .base = base};
    if (failing_number >= 0) {
        fault_backend_arm(failing, (uint64_t)failing_number, failing == (fault_call_t)FAULT_CALL_LOSS);
    }
    probe_status = dao_device_pages_init(&probed, streams[0], streams[1], arena_bytes, wanted);
    failed_count = failing_number >= 0 ? fault_backend_disarm() : 0;
    CU_ASSERT_TRUE(failed_count > 0 || probe_status == DAO_OK);
    table.stream_destroy(streams[0]);
    table.stream_destroy(streams[1]);
    CU_ASSERT_EQUAL(table.memory_free(device, base, ARENA_BYTES), DAO_OK);
    table.device_close(device);
    table.close(backend);
    return probed.page_bytes;
}

static void pages_are_used_where_a_probe_finds_them_right(void)
{
    dao_backend_ops_t table = dao_sim_bytes_backend_ops;
    is_stale = false;
    CU_ASSERT_EQUAL(probe(table, DAO_SWAP_ADDRESSES_BEST, ARENA_BYTES), 2 << 20);
    CU_ASSERT_EQUAL(probe(table, DAO_SWAP_ADDRESSES_STATIC, ARENA_BYTES), 0);
    CU_ASSERT_EQUAL(probe(table, DAO_SWAP_ADDRESSES_BEST, ARENA_BYTES / 4), 2 << 20);
    CU_ASSERT_EQUAL(probe(table, DAO_SWAP_ADDRESSES_BEST, ARENA_BYTES / 4 - 1), 0); /* none is so large */
    table.alias_is_slow = true;
    CU_ASSERT_EQUAL(probe(table, DAO_SWAP_ADDRESSES_BEST, ARENA_BYTES), 0);
    CU_ASSERT_EQUAL(probe(table, DAO_SWAP_ADDRESSES_PAGES, ARENA_BYTES), 2 << 20);
    is_stale = true;
    CU_ASSERT_EQUAL(probe(table, DAO_SWAP_ADDRESSES_PAGES, ARENA_BYTES), 0);
    is_stale = false;
    table.alias_prepare = NULL;
    table.alias_map = NULL;
    table.alias_unmap = NULL;
    CU_ASSERT_EQUAL(probe(table, DAO_SWAP_ADDRESSES_PAGES, ARENA_BYTES), 0);
}

/* Whatever call of it fails: plans have static addresses, nothing is left mapped, and a loss is told. */
static void a_probe_that_fails_leaves_static_addresses(void)
{
    static const fault_call_t calls[] = {FAULT_CALL_ANY, (fault_call_t)FAULT_CALL_LOSS};
    static const fault_config_t quiet;
    for (int i = 0; i < 2; i++) {
        failing = calls[i];
        failing_number = 0;
        do {
            size_t page_bytes = probe(*fault_backend_wrap(&dao_sim_bytes_backend_ops, &quiet),
                                      DAO_SWAP_ADDRESSES_BEST, ARENA_BYTES);
            bool is_lost = failed_count > 0 && i == 1;
            CU_ASSERT_EQUAL(page_bytes, failed_count > 0 ? 0 : 2 << 20);
            CU_ASSERT_EQUAL(probe_status, is_lost ? DAO_ERR_DEVICE_LOST : DAO_OK);
            CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
            failing_number += failing_number < 32 ? 1 : 61; /* the rounds are alike */
        } while (failed_count > 0 && failing_number < 5000);
        CU_ASSERT_TRUE(failing_number > 8 && failing_number < 5000);
    }
    failing_number = -1;
}

static CU_TestInfo tests[] = {
    {"a page has one user, by whatever address", a_page_has_one_user_by_whatever_address},
    {"a window goes with its last user", a_window_goes_with_its_last_user},
    {"a window goes page by page", a_window_goes_page_by_page},
    {"a window that is refused leaves nothing", a_window_that_is_refused_leaves_nothing},
    {"pages are used where a probe finds them right", pages_are_used_where_a_probe_finds_them_right},
    {"a probe that fails leaves static addresses", a_probe_that_fails_leaves_static_addresses},
    {"a window without host memory is refused", a_window_without_host_memory_is_refused},
    {"pages that are not unmapped stay counted", pages_that_are_not_unmapped_stay_counted},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"windows of the arena", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
