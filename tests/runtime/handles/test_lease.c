/* SPDX-License-Identifier: Apache-2.0 */
/* Leases by the public calls, on the built backend: what stays where it is, who allocates under them, what
   they retain. */
#include <dao/async.h>
#include <dao/context.h>
#include <dao/lease.h>
#include <dao/memory.h>
#include <dao/place_config.h>
#include <dao/segment.h>
#include <dao/stats.h>
#include <dao/stream.h>

#include "allocators/pages/page_buddy.h"
#include "allocators/slow_path.h"
#include "base/report/fault.h"
#include "base/threads/sync.h"
#include "runtime/start/context.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/gate.h"
#include "tests/support/suite.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE           ((size_t)DAO_PAGE_BYTES)
#define CAPACITY_BYTES (64 * MIB)
#define THREADS        4

/* Takes a status that a test does not care about. */
static void ignore(dao_status_t status)
{
    (void)status;
}

static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};
static const dao_place_t pinned_place = {DAO_PLACE_KIND_PINNED, 0};
static const dao_place_t second_device = {DAO_PLACE_KIND_DEVICE, 1};
static _Atomic uint32_t lease_lines; /* of the log, that name a lease */

static void count_lines(dao_log_level_t level, const char *message, void *user)
{
    (void)level;
    (void)user;
    lease_lines += strstr(message, "live at shutdown: lease at device:0") != NULL;
}

static void library_start(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = CAPACITY_BYTES},
                           .log_callback = count_lines,
                           .log_level = DAO_LOG_LEVEL_WARNING};
    lease_lines = 0;
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, dao_backend_ops()), DAO_OK);
}

static void library_stop(void)
{
    CU_ASSERT_EQUAL(dao_used(device), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(lease_lines, 0);
}

static dao_lease_t *begin_at(dao_place_t place)
{
    dao_lease_t *lease = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_lease_begin(place, &lease), DAO_OK);
    return lease;
}

static dao_lease_stats_t stats_of(dao_lease_t *lease)
{
    dao_lease_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_lease_stats_get(lease, &stats), DAO_OK);
    return stats;
}

static size_t trim_device(void)
{
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(dao_trim(device, 0, &released_bytes), DAO_OK);
    return released_bytes;
}

static void fill(void *address, unsigned char value, size_t size_bytes)
{
    device_fill(dao_place_of(device), address, value, size_bytes);
}

/* Returns true if all of a block still has a value. */
static bool has_value(const void *address, unsigned char value, size_t size_bytes)
{
    return device_holds(dao_place_of(device), address, value, size_bytes);
}

static void a_graph_finds_its_addresses_as_it_left_them(void)
{
    dao_lease_t *lease = begin_at(device);
    char *block = dao_alloc(device, 4 * PAGE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    fill(block, 0x5a, 4 * PAGE); /* the memory is the lease's */
    CU_ASSERT_EQUAL(trim_device(), 0);
    void *most = dao_alloc(device, CAPACITY_BYTES - 4 * PAGE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(most);
    fill(most, 1, CAPACITY_BYTES - 4 * PAGE);
    CU_ASSERT_PTR_NULL(dao_alloc(device, 1));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_TRUE(has_value(block, 0x5a, 4 * PAGE));
    CU_ASSERT_EQUAL(dao_lease_enter(lease), DAO_OK);
    CU_ASSERT_PTR_EQUAL(dao_alloc(device, 4 * PAGE), block);
    CU_ASSERT_EQUAL(dao_lease_leave(lease), DAO_OK);
    CU_ASSERT_EQUAL(stats_of(lease).used_bytes, 4 * PAGE);
    CU_ASSERT_EQUAL(stats_of(lease).live_count, 1);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
    void *last = dao_alloc(device, 4 * PAGE);
    CU_ASSERT_PTR_NOT_NULL(last);
    CU_ASSERT_EQUAL(dao_free(device, last), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, most), DAO_OK);
}

static void handles_and_stream_order_come_from_the_lease(void)
{
    dao_lease_t *lease = begin_at(device);
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, PAGE, NULL, &memory), DAO_OK);
    void *ordered = dao_alloc_async(device, PAGE, NULL);
    void *aligned = dao_alloc_with(device, PAGE, &(dao_alloc_options_t){.alignment_bytes = 64 * KIB});
    CU_ASSERT_EQUAL(stats_of(lease).live_count, 3);
    CU_ASSERT_EQUAL(stats_of(lease).used_bytes, 3 * PAGE);
    void *elsewhere = dao_alloc(second_device, PAGE), *pinned = dao_alloc(pinned_place, 8);
    CU_ASSERT_EQUAL(stats_of(lease).live_count, 3);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    void *after = dao_alloc(device, PAGE);
    CU_ASSERT_EQUAL(stats_of(lease).live_count, 3);
    CU_ASSERT_EQUAL(dao_used(device), 4 * PAGE);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_free_async(device, ordered, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, aligned), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, after), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(second_device, elsewhere), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(pinned_place, pinned), DAO_OK);
    CU_ASSERT_EQUAL(dao_trim(device, SIZE_MAX, NULL), DAO_OK); /* waits for the handle's free */
    CU_ASSERT_EQUAL(stats_of(lease).live_count, 0);
    CU_ASSERT_TRUE(stats_of(lease).held_bytes >= 3 * PAGE);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
}

/* What was recorded is live again at its addresses, in any order and in parts, and is a block like others. */
static void freed_blocks_are_taken_again_where_they_were(void)
{
    dao_lease_t *lease = begin_at(device);
    char *first = dao_alloc(device, PAGE), *second = dao_alloc(device, 3 * PAGE + 1);
    char *small = dao_alloc(device, 100);
    fill(first, 1, PAGE);
    fill(second, 2, 3 * PAGE + 1);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_resume(lease, second, 1), DAO_ERR_BUSY); /* it is live */
    CU_ASSERT_EQUAL(dao_free(device, first), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, second), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, small), DAO_OK);
    CU_ASSERT_EQUAL(trim_device(), 0);
    CU_ASSERT_EQUAL(dao_lease_resume(lease, small, 100), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_resume(lease, second, 3 * PAGE + 1), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_resume(lease, first, PAGE), DAO_OK);
    CU_ASSERT_EQUAL(stats_of(lease).live_count, 3);
    CU_ASSERT_EQUAL(dao_used(device), stats_of(lease).used_bytes);
    CU_ASSERT_TRUE(has_value(first, 1, PAGE) && has_value(second, 2, 3 * PAGE + 1));
    CU_ASSERT_EQUAL(dao_free(device, second), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_resume(lease, second + PAGE, PAGE), DAO_OK); /* a part of what was */
    CU_ASSERT_EQUAL(dao_lease_resume(lease, second, PAGE + 1), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_lease_resume(lease, second, PAGE), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, second), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, second), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(dao_free(device, second + PAGE), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, first), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, small), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
}

static void only_memory_of_the_lease_is_taken_again(void)
{
    dao_lease_t *lease = begin_at(device);
    char *block = dao_alloc(device, PAGE);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    char *other = dao_alloc(device, PAGE);
    CU_ASSERT_EQUAL(dao_free(device, other), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    dao_stats_t before, after;
    CU_ASSERT_EQUAL(dao_stats_get(device, &before), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_resume(lease, other, PAGE), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_lease_resume(lease, &other, 1), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_lease_resume(lease, block + 1, 1),
                    DAO_ERR_FOREIGN_POINTER); /* no block begins there */
    CU_ASSERT_EQUAL(dao_lease_resume(lease, block, 2 * PAGE), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_lease_resume(lease, block, SIZE_MAX), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_lease_resume(lease, block, 0), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_resume(lease, NULL, 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_resume(NULL, block, 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stats_get(device, &after), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(&before, &after, sizeof(before)), 0);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_resume(lease, block, PAGE), DAO_ERR_INVALID);
}

/* A stream that has not come to a free keeps the block; a tag's limit does, too. */
static void a_block_is_not_taken_again_from_a_stream_that_uses_it(void)
{
    dao_gate_t gate;
    dao_gate_init(&gate);
    dao_tag_t tag;
    dao_stream_t *stream;
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &stream), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_tag_create("resumed", &tag), DAO_OK);
    dao_lease_t *lease = begin_at(device);
    char *block = dao_alloc(device, PAGE);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    CU_ASSERT_EQUAL(device_gate(stream, &gate), DAO_OK);
    CU_ASSERT_EQUAL(dao_free_async(device, block, stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_resume(lease, block, PAGE), DAO_ERR_BUSY);
    dao_gate_open(&gate);
    CU_ASSERT_EQUAL(dao_stream_synchronize(stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_tag_limit_set(device, tag, PAGE - 1), DAO_OK);
    CU_ASSERT_EQUAL(dao_tag_set_current(tag), 0);
    CU_ASSERT_EQUAL(dao_lease_resume(lease, block, PAGE), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_tag_limit_set(device, tag, PAGE), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_resume(lease, block, PAGE), DAO_OK);
    CU_ASSERT_EQUAL(dao_tag_set_current(0), tag);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
    dao_stream_destroy(stream);
    dao_gate_finish(&gate);
}

static void a_capture_given_up_leaves_live_blocks(void)
{
    dao_lease_t *lease = begin_at(device);
    void *freed = dao_alloc(device, 2 * PAGE), *live = dao_alloc(device, PAGE);
    CU_ASSERT_EQUAL(dao_free(device, freed), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_cancel(lease), DAO_OK);
    CU_ASSERT_EQUAL(trim_device(), 2 * PAGE);
    fill(live, 3, PAGE);
    void *other = dao_alloc(device, 2 * PAGE); /* not under the lease any more */
    CU_ASSERT_PTR_NOT_NULL(other);
    CU_ASSERT_EQUAL(dao_free(device, other), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, live), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_cancel(lease), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_ERR_INVALID);
}

static void a_thread_is_under_one_lease_a_place(void)
{
    dao_lease_t *lease = begin_at(device), *other = begin_at(second_device), *none = NULL;
    CU_ASSERT_EQUAL(dao_lease_begin(device, &none), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_lease_enter(lease), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_lease_leave(lease), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_cancel(lease), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_enter(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_begin(device, &none), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_ERR_BUSY);
    void *here = dao_alloc(device, PAGE), *there = dao_alloc(second_device, PAGE);
    CU_ASSERT_EQUAL(stats_of(lease).live_count, 1);
    CU_ASSERT_EQUAL(stats_of(other).live_count, 1);
    CU_ASSERT_EQUAL(dao_free(device, here), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(second_device, there), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_leave(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_cancel(other), DAO_OK);
}

static void what_has_no_leases_says_so(void)
{
    static const dao_place_t without[] = {{DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_PINNED, 0}};
    dao_lease_t *lease = NULL;
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(dao_lease_begin(without[i], &lease), DAO_ERR_UNSUPPORTED);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "device place"));
    }
    CU_ASSERT_EQUAL(dao_lease_begin(((dao_place_t){DAO_PLACE_KIND_DEVICE, 2}), &lease), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_lease_begin(device, NULL), DAO_ERR_INVALID);
    dao_lease_stats_t stats;
    CU_ASSERT_EQUAL(dao_lease_commit(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_cancel(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_enter(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_leave(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_retain(NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_release(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_stats_get(NULL, &stats), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_lease_stats_get(NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(lease);
}

/* A lease is the process's that began it, and one that has ended is nobody's. */
static void a_forked_child_is_refused(void)
{
    dao_lease_t *lease = NULL;
    dao_lease_stats_t stats = {0};
    CU_ASSERT_EQUAL_FATAL(dao_lease_begin(device, &lease), DAO_OK);
    pid_t child = fork();
    if (child == 0) {
        bool is_right = dao_lease_stats_get(lease, &stats) == DAO_ERR_FORKED &&
                        dao_lease_commit(lease) == DAO_ERR_FORKED &&
                        dao_lease_release(lease) == DAO_ERR_FORKED;
        _exit(is_right ? 0 : 1);
    }
    int status = -1;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT_EQUAL(dao_lease_stats_get(lease, &stats), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
}

/* ---- retained blocks ---- */

/* What a lease owes, whatever keeps the place. */
static void check_lease(bool resumes)
{
    const size_t size_bytes = 100 * KIB;
    dao_lease_t *lease = begin_at(device);
    char *block = dao_alloc(device, size_bytes);
    void *ordered = dao_alloc_async(device, size_bytes, NULL);
    CU_ASSERT_TRUE_FATAL(block != NULL && ordered != NULL);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    device_fill(device, block, 0x5a, size_bytes); /* the memory is the lease's */
    (void)trim_device();
    void *other = dao_alloc(device, size_bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(other);
    CU_ASSERT_PTR_NOT_EQUAL(other, block);
    CU_ASSERT_TRUE(device_holds(device, block, 0x5a, size_bytes));
    CU_ASSERT_EQUAL(dao_lease_retain(lease, other), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, other), DAO_OK); /* deferred */
    CU_ASSERT_EQUAL(dao_lease_enter(lease), DAO_OK);
    CU_ASSERT_PTR_EQUAL(dao_alloc(device, size_bytes), block);
    CU_ASSERT_EQUAL(dao_lease_leave(lease), DAO_OK);
    CU_ASSERT_EQUAL(stats_of(lease).live_count, 2);
    CU_ASSERT_TRUE(stats_of(lease).held_bytes >= 2 * size_bytes);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    dao_status_t resumed = dao_lease_resume(lease, block, size_bytes);
    CU_ASSERT_EQUAL(resumed, resumes ? DAO_OK : DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(resumed == DAO_OK ? dao_free(device, block) : DAO_OK, DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
    CU_ASSERT_TRUE(dao_used(device) >= size_bytes && dao_used(device) < 2 * size_bytes + 64 * KIB);
    CU_ASSERT_EQUAL(dao_free_async(device, ordered, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
}

static void every_strategy_has_leases_hardened_or_not(void)
{
    static const uint32_t hardenings[] = {0, DAO_HARDENING_GUARD | DAO_HARDENING_JUNK |
                                                 DAO_HARDENING_QUARANTINE | DAO_HARDENING_CHECKSUM};
    for (int strategy = DAO_STRATEGY_GOOD_FIT; strategy <= DAO_STRATEGY_SYSTEM; strategy++) {
        for (int i = 0; i < 2; i++) {
            library_stop();
            library_start();
            dao_place_config_t config = {.strategy = (dao_strategy_t)strategy, .hardening = hardenings[i]};
            CU_ASSERT_EQUAL(dao_place_configure(device, &config), DAO_OK);
            check_lease(hardenings[i] == 0 &&
                        (strategy == DAO_STRATEGY_GOOD_FIT || strategy == DAO_STRATEGY_BEST_FIT));
        }
    }
}

static void places_in_segments_have_leases(void)
{
    for (int strategy = DAO_STRATEGY_GOOD_FIT; strategy <= DAO_STRATEGY_BEST_FIT; strategy++) {
        library_stop();
        library_start();
        dao_place_config_t config = {.strategy = (dao_strategy_t)strategy, .no_page_mapping = true};
        CU_ASSERT_EQUAL(dao_place_configure(device, &config), DAO_OK);
        check_lease(false);
    }
}

static void a_retained_block_is_freed_when_its_lease_ends(void)
{
    char *weights = dao_alloc(device, PAGE);
    dao_lease_t *lease = begin_at(device);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, weights), DAO_OK);
    CU_ASSERT_EQUAL(stats_of(lease).retained_count, 1);
    CU_ASSERT_EQUAL(stats_of(lease).retained_bytes, PAGE);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    fill(weights, 7, PAGE);
    CU_ASSERT_EQUAL(dao_free(device, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), PAGE);
    CU_ASSERT_EQUAL(dao_free(device, weights), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(dao_free_async(device, weights, NULL), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, weights), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(trim_device(), 0);
    CU_ASSERT_TRUE(has_value(weights, 7, PAGE));
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
    CU_ASSERT_EQUAL(dao_free(device, weights), DAO_ERR_DOUBLE_FREE);
}

static void a_retained_block_that_nobody_freed_stays(void)
{
    void *weights = dao_alloc(device, PAGE);
    dao_lease_t *lease = begin_at(device);
    uint32_t slow_path_count = atomic_load(&dao_slow_path_count);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, weights), DAO_OK);
    CU_ASSERT_EQUAL(atomic_load(&dao_slow_path_count), slow_path_count); /* others are as fast as before */
    CU_ASSERT_EQUAL(dao_lease_cancel(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), PAGE);
    CU_ASSERT_EQUAL(dao_free(device, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
}

static void the_last_of_two_leases_frees_a_retained_block(void)
{
    void *weights = dao_alloc(device, PAGE);
    dao_lease_t *leases[2];
    for (int i = 0; i < 2; i++) {
        leases[i] = begin_at(device);
        CU_ASSERT_EQUAL(dao_lease_commit(leases[i]), DAO_OK);
        CU_ASSERT_EQUAL(dao_lease_retain(leases[i], weights), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_free(device, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_release(leases[0]), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), PAGE);
    CU_ASSERT_EQUAL(dao_lease_release(leases[1]), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
}

static void the_memory_of_a_handle_can_be_retained(void)
{
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, PAGE, NULL, &memory), DAO_OK);
    dao_lease_t *lease = begin_at(device);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, dao_memory_address(memory)), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_trim(device, SIZE_MAX, NULL), DAO_OK); /* waits for the handle's free */
    CU_ASSERT_EQUAL(dao_used(device), PAGE);
    CU_ASSERT_EQUAL(dao_lease_cancel(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
}

static _Atomic bool was_open;

static void look_at_gate(void *user)
{
    dao_gate_t *gate = user;
    dao_mutex_lock(&gate->lock);
    was_open = gate->is_open;
    dao_mutex_unlock(&gate->lock);
}

/* The free was in stream order: after the lease has ended the stream holds the block still. */
static void a_retained_block_keeps_the_order_of_its_free(void)
{
    dao_gate_t gate;
    dao_gate_init(&gate);
    dao_stream_t *stream, *other;
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &stream), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &other), DAO_OK);
    void *weights = dao_alloc_async(device, CAPACITY_BYTES, stream);
    CU_ASSERT_PTR_NOT_NULL_FATAL(weights);
    dao_lease_t *lease = begin_at(device);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    CU_ASSERT_EQUAL(device_gate(stream, &gate), DAO_OK);
    CU_ASSERT_EQUAL(dao_free_async(device, weights, stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
    CU_ASSERT_PTR_EQUAL(dao_alloc_async(device, CAPACITY_BYTES, other), weights);
    CU_ASSERT_EQUAL(dao_stream_host_func(other, look_at_gate, &gate), DAO_OK);
    dao_gate_await_reached(&gate);
    dao_gate_open(&gate);
    CU_ASSERT_EQUAL(dao_stream_synchronize(other), DAO_OK);
    CU_ASSERT_TRUE(was_open);
    CU_ASSERT_EQUAL(dao_free_async(device, weights, other), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_synchronize(other), DAO_OK);
    CU_ASSERT_EQUAL(trim_device(), CAPACITY_BYTES);
    dao_stream_destroy(stream);
    dao_stream_destroy(other);
    dao_gate_finish(&gate);
}

/* Small blocks follow no stream: the end of the lease waits for the stream instead. */
static void small_blocks_are_leased_and_retained_too(void)
{
    void *weights = dao_alloc(device, 64);
    dao_lease_t *lease = begin_at(device);
    void *inside = dao_alloc(device, 64);
    CU_ASSERT_EQUAL(stats_of(lease).live_count, 1);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_free_async(device, weights, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, weights), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(dao_free(device, inside), DAO_OK);
    CU_ASSERT_TRUE(dao_used(device) > 0);
    CU_ASSERT_EQUAL(dao_lease_cancel(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
}

static dao_lease_t *ending;
static dao_status_t end_status;

static void end_lease(void *user)
{
    (void)user;
    end_status = dao_lease_release(ending);
}

/* A host function must not wait: the lease stays with what it retains, and ends elsewhere. */
static void a_lease_that_must_wait_does_not_end_in_a_host_function(void)
{
    if (strcmp(dao_backend_ops()->name, "cpu") != 0) {
        return; /* a vendor's runtime is not to be called from host functions at all */
    }
    dao_stream_t *stream;
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &stream), DAO_OK);
    void *large = dao_alloc(device, PAGE);
    void *small = dao_alloc(device, 64);
    dao_gate_t gate;
    dao_gate_init(&gate);
    ending = begin_at(device);
    CU_ASSERT_EQUAL(dao_lease_retain(ending, small), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_retain(ending, large), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_commit(ending), DAO_OK);
    CU_ASSERT_EQUAL(device_gate(stream, &gate), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_host_func(stream, end_lease, NULL), DAO_OK);
    dao_gate_await_reached(&gate);
    CU_ASSERT_EQUAL(dao_free_async(device, small, stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_free_async(device, large, stream), DAO_OK);
    dao_gate_open(&gate);
    CU_ASSERT_EQUAL(dao_stream_synchronize(stream), DAO_OK);
    CU_ASSERT_EQUAL(end_status, DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(stats_of(ending).retained_count, 1); /* the large one follows its stream */
    CU_ASSERT_EQUAL(dao_free(device, small), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(dao_lease_release(ending), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
    dao_stream_destroy(stream);
    dao_gate_finish(&gate);
}

/* What goes the shortest way elsewhere: the place that is named by its type. */
static void a_device_place_by_its_type_is_leased_and_retained_too(void)
{
    dao_device_place_t typed = dao_device_place(0);
    void *weights = dao_alloc(typed, 4 * PAGE);
    dao_lease_t *lease = begin_at(device);
    void *inside = dao_alloc(typed, 2 * PAGE);
    CU_ASSERT_EQUAL(stats_of(lease).live_count, 1);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(typed, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 6 * PAGE);
    CU_ASSERT_EQUAL(dao_free(typed, weights), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(dao_free(typed, inside), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
    CU_ASSERT_FALSE(dao_slow_path_is_needed());
}

static void only_whole_live_blocks_of_the_place_are_retained(void)
{
    char *block = dao_alloc(device, PAGE);
    void *elsewhere = dao_alloc(second_device, PAGE);
    dao_lease_t *lease = begin_at(device);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, block + 256), DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, elsewhere), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, NULL), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, block), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(stats_of(lease).retained_count, 0);
    CU_ASSERT_EQUAL(dao_lease_cancel(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(second_device, elsewhere), DAO_OK);
}

#define MANY 200

static void many_blocks_are_retained_and_freed_in_any_order(void)
{
    void *blocks[MANY];
    uint64_t state = dao_test_seed("many blocks are retained", 9);
    for (size_t i = 0; i < MANY; i++) {
        blocks[i] = dao_alloc(device, 256 * (1 + i % 7));
    }
    dao_lease_t *leases[2] = {begin_at(device), NULL};
    CU_ASSERT_EQUAL(dao_lease_commit(leases[0]), DAO_OK);
    leases[1] = begin_at(device);
    size_t freed_first = 0;
    for (size_t i = MANY; i-- > 0;) {
        size_t other = dao_random_next(&state) % (i + 1);
        void *block = blocks[other];
        blocks[other] = blocks[i];
        blocks[i] = block;
        CU_ASSERT_EQUAL(dao_lease_retain(leases[i % 2], block), DAO_OK);
        CU_ASSERT_EQUAL(dao_lease_retain(leases[i % 3 == 0 ? 1 : 0], block), DAO_OK);
        if (i % 5 != 0) {
            CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
            freed_first += i % 2 == 0 && i % 3 != 0;
        }
    }
    dao_stats_t stats;
    CU_ASSERT_EQUAL(dao_lease_release(leases[0]), DAO_OK);
    CU_ASSERT_EQUAL(dao_stats_get(device, &stats), DAO_OK);
    CU_ASSERT_EQUAL(stats.live_count, MANY - freed_first);
    CU_ASSERT_EQUAL(dao_lease_cancel(leases[1]), DAO_OK);
    CU_ASSERT_EQUAL(dao_stats_get(device, &stats), DAO_OK);
    CU_ASSERT_EQUAL(stats.live_count, MANY / 5);
    for (size_t i = 0; i < MANY; i += 5) {
        CU_ASSERT_EQUAL(dao_free(device, blocks[i]), DAO_OK);
    }
}

/* ---- failures, threads, the end of the library ---- */

static int callback_count;

/* In a segment callback, under an allocator's lock. */
static void use_the_lease(dao_place_t place, dao_segment_event_t event, void *address, size_t size_bytes,
                          void *user)
{
    (void)place;
    (void)event;
    (void)size_bytes;
    dao_lease_t *lease = user, *other = NULL;
    dao_lease_stats_t figures;
    CU_ASSERT_EQUAL(dao_lease_begin(device, &other), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_lease_enter(lease), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_lease_leave(lease), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, address), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_lease_stats_get(lease, &figures), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_ERR_REENTRANT);
    CU_ASSERT_PTR_NULL(other);
    callback_count++;
}

static void in_a_segment_callback_no_lease_is_used(void)
{
    uint64_t id;
    dao_lease_t *lease = begin_at(device);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_segment_callback_add(device, use_the_lease, lease, &id), DAO_OK);
    callback_count = 0;
    CU_ASSERT_EQUAL(dao_free(device, dao_alloc(device, CAPACITY_BYTES / 2)), DAO_OK);
    CU_ASSERT_TRUE(callback_count > 0);
    CU_ASSERT_EQUAL(dao_segment_callback_remove(id), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_enter(lease), DAO_OK); /* all is as before */
    CU_ASSERT_EQUAL(dao_lease_leave(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
}

/* A capture that retains a block from before, and whose lease is entered once more. */
static dao_status_t capture_once(void)
{
    dao_lease_t *lease = NULL;
    void *outside = dao_alloc(device, PAGE);
    dao_status_t status = outside != NULL ? dao_lease_begin(device, &lease) : dao_last_status();
    if (status != DAO_OK) {
        CU_ASSERT_EQUAL(dao_free(device, outside), DAO_OK);
        return status;
    }
    void *block = dao_alloc(device, PAGE);
    dao_status_t alloc_status = block != NULL ? DAO_OK : dao_last_status();
    status = block != NULL ? dao_lease_retain(lease, outside) : alloc_status;
    CU_ASSERT_EQUAL(dao_free(device, outside), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    if (status != DAO_OK) {
        CU_ASSERT_EQUAL(dao_lease_cancel(lease), DAO_OK);
        return status;
    }
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    status = dao_lease_enter(lease);
    CU_ASSERT_EQUAL(status == DAO_OK ? dao_lease_leave(lease) : DAO_OK, DAO_OK);
    CU_ASSERT_EQUAL(stats_of(lease).retained_count, 1);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
    return status;
}

static void a_capture_survives_every_shortage_of_host_memory(void)
{
    uint64_t fired = 1, failed_count = 0;
    CU_ASSERT_EQUAL(dao_free(device, dao_alloc(device, PAGE)), DAO_OK); /* the device has started */
    for (uint64_t n = 0; fired > 0; n++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        dao_status_t status = capture_once();
        fired = dao_fault_disarm();
        failed_count += status != DAO_OK;
        CU_ASSERT_TRUE(status == DAO_OK || (fired > 0 && status == DAO_ERR_NO_HOST_MEMORY));
        CU_ASSERT_EQUAL(dao_used(device), 0);
    }
#if defined(DAO_FAULTS)
    CU_ASSERT_TRUE(failed_count > 6);
#endif
}

static void without_host_memory_nothing_is_retained_or_entered(void)
{
#if defined(DAO_FAULTS)
    void *block = dao_alloc(device, PAGE);
    dao_lease_t *lease = begin_at(device);
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, false);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, block), DAO_ERR_NO_HOST_MEMORY);
    CU_ASSERT_EQUAL(dao_fault_disarm(), 1);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "for one more block"));
    CU_ASSERT_EQUAL(stats_of(lease).retained_count, 0);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, false);
    CU_ASSERT_EQUAL(dao_lease_enter(lease), DAO_ERR_NO_HOST_MEMORY);
    CU_ASSERT_EQUAL(dao_fault_disarm(), 1);
    CU_ASSERT_EQUAL(dao_lease_leave(lease), DAO_ERR_INVALID); /* it was not entered */
    CU_ASSERT_EQUAL(dao_lease_retain(lease, block), DAO_OK);
    CU_ASSERT_EQUAL(stats_of(lease).retained_count, 1);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
#endif
}

typedef struct worker {
    uint64_t seed;
    dao_lease_t *shared; /* all enter it */
    uint32_t lost_count; /* blocks whose bytes somebody else has written */
} worker_t;

static void capture_and_run(worker_t *worker, unsigned char value)
{
    dao_lease_t *lease = NULL;
    if (dao_lease_begin(device, &lease) != DAO_OK) {
        return; /* each thread has one, the limit is above that */
    }
    char *block = dao_alloc(device, 64 * KIB);
    if (block == NULL) {
        ignore(dao_lease_cancel(lease));
        return;
    }
    ignore(dao_free(device, block));
    if (dao_random_next(&worker->seed) % 4 == 0) {
        ignore(dao_lease_cancel(lease));
        return;
    }
    ignore(dao_lease_commit(lease));
    for (int i = 0; i < 20; i++) {
        fill(block, value, 64 * KIB);
        void *other = dao_alloc(device, dao_random_next(&worker->seed) % PAGE + 1);
        if (other != NULL) {
            fill(other, 0x7f, 1);
            ignore(dao_free(device, other));
        }
        if (i % 8 == 0) {
            ignore(dao_trim(device, 0, NULL));
        }
        worker->lost_count += !has_value(block, value, 64 * KIB);
    }
    ignore(dao_lease_release(lease));
}

static void *capture_often(void *user)
{
    worker_t *worker = user;
    for (unsigned char round = 0; round < 15; round++) {
        capture_and_run(worker, round);
        if (dao_lease_enter(worker->shared) == DAO_OK) {
            void *block = dao_alloc(device, 4 * KIB);
            ignore(dao_lease_leave(worker->shared));
            if (block != NULL) {
                ignore(dao_lease_retain(worker->shared, block));
                ignore(dao_free(device, block));
            }
        }
    }
    return NULL;
}

static void threads_capture_beside_each_other(void)
{
    worker_t workers[THREADS];
    dao_thread_t threads[THREADS];
    uint64_t state = dao_test_seed("threads capture beside each other", 3);
    dao_lease_t *shared = begin_at(device);
    CU_ASSERT_EQUAL(dao_lease_commit(shared), DAO_OK);
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker_t){.seed = dao_random_next(&state), .shared = shared};
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "lease", capture_often, &workers[i]), DAO_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        dao_thread_join(&threads[i]);
        CU_ASSERT_EQUAL(workers[i].lost_count, 0);
    }
    CU_ASSERT_EQUAL(stats_of(shared).live_count,
                    (uint64_t)(15 * THREADS)); /* retained, freed by their owners */
    CU_ASSERT_EQUAL(stats_of(shared).retained_count, (uint64_t)(15 * THREADS));
    CU_ASSERT_EQUAL(dao_lease_release(shared), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
}

typedef struct stranger {
    dao_lease_t *lease;
    dao_status_t commit, cancel, leave, enter, free;
    void *block;
} stranger_t;

static void *meddle(void *user)
{
    stranger_t *stranger = user;
    stranger->commit = dao_lease_commit(stranger->lease);
    stranger->cancel = dao_lease_cancel(stranger->lease);
    stranger->leave = dao_lease_leave(stranger->lease);
    stranger->enter = dao_lease_enter(stranger->lease);
    stranger->free = dao_free(device, stranger->block);
    stranger->block = dao_alloc(device, PAGE);
    return NULL;
}

static void a_capture_is_its_own_threads(void)
{
    stranger_t stranger = {.lease = begin_at(device)};
    stranger.block = dao_alloc(device, PAGE);
    dao_thread_t thread;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "meddle", meddle, &stranger), DAO_OK);
    dao_thread_join(&thread);
    CU_ASSERT_EQUAL(stranger.commit, DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(stranger.cancel, DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(stranger.leave, DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(stranger.enter, DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(stranger.free, DAO_OK);                  /* any thread frees a block of the lease */
    CU_ASSERT_EQUAL(stats_of(stranger.lease).live_count, 0); /* and allocates outside of it */
    CU_ASSERT_EQUAL(dao_free(device, stranger.block), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_cancel(stranger.lease), DAO_OK);
}

static void a_lease_that_is_left_is_reported_and_breaks_nothing(void)
{
    library_start();
    void *weights = dao_alloc(device, PAGE);
    dao_lease_t *lease = begin_at(device);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(lease_lines, 1);
    library_start();
    void *block = dao_alloc(device, PAGE); /* under no lease of this start */
    CU_ASSERT_EQUAL(dao_used(device), PAGE);
    CU_ASSERT_EQUAL(stats_of(lease).live_count, 0);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_cancel(lease), DAO_OK);
    library_stop();
}

static CU_TestInfo library_tests[] = {
    {"a graph finds its addresses as it left them", a_graph_finds_its_addresses_as_it_left_them},
    {"handles and stream order come from the lease", handles_and_stream_order_come_from_the_lease},
    {"freed blocks are taken again where they were", freed_blocks_are_taken_again_where_they_were},
    {"only memory of the lease is taken again", only_memory_of_the_lease_is_taken_again},
    {"a block is not taken again from a stream that uses it",
     a_block_is_not_taken_again_from_a_stream_that_uses_it},
    {"a capture given up leaves live blocks", a_capture_given_up_leaves_live_blocks},
    {"a thread is under one lease a place", a_thread_is_under_one_lease_a_place},
    {"what has no leases says so", what_has_no_leases_says_so},
    {"a forked child is refused", a_forked_child_is_refused},
    {"every strategy has leases, hardened or not", every_strategy_has_leases_hardened_or_not},
    {"places in segments have leases", places_in_segments_have_leases},
    {"a retained block is freed when its lease ends", a_retained_block_is_freed_when_its_lease_ends},
    {"a retained block that nobody freed stays", a_retained_block_that_nobody_freed_stays},
    {"the last of two leases frees a retained block", the_last_of_two_leases_frees_a_retained_block},
    {"the memory of a handle can be retained", the_memory_of_a_handle_can_be_retained},
    {"a retained block keeps the order of its free", a_retained_block_keeps_the_order_of_its_free},
    {"small blocks are leased and retained, too", small_blocks_are_leased_and_retained_too},
    {"a lease that must wait does not end in a host function",
     a_lease_that_must_wait_does_not_end_in_a_host_function},
    {"a device place by its type is leased and retained, too",
     a_device_place_by_its_type_is_leased_and_retained_too},
    {"only whole live blocks of the place are retained", only_whole_live_blocks_of_the_place_are_retained},
    {"many blocks are retained and freed in any order", many_blocks_are_retained_and_freed_in_any_order},
    {"in a segment callback no lease is used", in_a_segment_callback_no_lease_is_used},
    {"a capture survives every shortage of host memory", a_capture_survives_every_shortage_of_host_memory},
    {"without host memory nothing is retained or entered",
     without_host_memory_nothing_is_retained_or_entered},
    {"threads capture beside each other", threads_capture_beside_each_other},
    {"a capture is its own thread's", a_capture_is_its_own_threads},
    CU_TEST_INFO_NULL};

static CU_TestInfo end_tests[] = {{"a lease that is left is reported and breaks nothing",
                                   a_lease_that_is_left_is_reported_and_breaks_nothing},
                                  CU_TEST_INFO_NULL};

int main(void)
{
    CU_SuiteInfo suites[] = {
        {"leases", NULL, NULL, library_start, library_stop, library_tests},
        {"leases that are left", NULL, NULL, NULL, NULL, end_tests},
        CU_SUITE_INFO_NULL,
    };
    return dao_suite_run(suites);
}
