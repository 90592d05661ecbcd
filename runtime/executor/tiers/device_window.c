/* SPDX-License-Identifier: Apache-2.0 */
/* Windows over the pages of the device arena.

       arena     | 0 | 1 | 2 | 3 | 4 |           at its own addresses, always
       window    [ 3 | 0 | 4 ][ 3 | 2 ]          a stay each; both use page 3, at different times

       state      listed   is_retired   left by
       made       no       no           dao_device_arena_open(); destroy, if its plan is never followed
       open       yes      no           the end of its plan
       retired    yes      yes          shrink, page by page, once dao_device_window_may_go()

   Whose bytes are in a page at a time is not known here: the plan's fences keep its users apart, and outside
   of plans the arena's range does, which has every page of a tensor in a window as taken.

   Invariants: pages behind one window are below the arena's count; a window is unmapped only when the fence
   of its last user is done; mapped == pages of all windows <= DAO_DEVICE_WINDOW_PAGE_MAX. */
#include "runtime/executor/tiers/device_window.h"

#include "base/log.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <string.h>

/* Rounds of the probe: a driver that showed stale bytes did so within the first milliseconds. */
#define PROBE_ROUNDS 100u
#define PROBE_BYTES  ((size_t)256) /* of pinned memory */

/* Unmaps pages from keep_count on. */
static dao_status_t unmap(dao_device_pages_t *pages, void *address, uint32_t page_count, uint32_t keep_count)
{
    atomic_fetch_add(&pages->map_calls, page_count - keep_count);
    return pages->ops->alias_unmap(pages->device, address, pages->page_bytes, page_count, keep_count);
}

static dao_status_t map(dao_device_pages_t *pages, const uint32_t *order, uint32_t page_count,
                        void **out_address)
{
    atomic_fetch_add(&pages->map_calls, page_count);
    return pages->ops->alias_map(pages->device, pages->base, pages->page_bytes, order, page_count,
                                 out_address);
}

/* ---- probe ---- */

typedef struct probe {
    dao_device_pages_t *pages;
    dao_backend_stream_t *writer, *reader;
    dao_backend_event_t *event;
    uint8_t *host;
} probe_t;

/* Writes by one address, and reads by the other one, on another stream, what an event orders behind it. */
static dao_status_t write_and_read(const probe_t *probe, void *to, const void *from, uint8_t value,
                                   bool *out_is_seen)
{
    const dao_backend_ops_t *ops = probe->pages->ops;
    dao_status_t status = ops->fill(probe->writer, to, value, sizeof(value));
    status = status == DAO_OK ? ops->event_record(probe->event, probe->writer) : status;
    status = status == DAO_OK ? ops->stream_wait_event(probe->reader, probe->event) : status;
    status = status == DAO_OK ? ops->copy(probe->reader, DAO_COPY_KIND_D2H, probe->host, from, sizeof(value))
                              : status;
    status = status == DAO_OK ? ops->stream_synchronize(probe->reader) : status;
    *out_is_seen = status == DAO_OK && *probe->host == value;
    return status;
}

/* A round maps two pages anew, in an order that changes, beside their own addresses. */
static dao_status_t probe_round(const probe_t *probe, uint32_t round, bool *out_is_seen)
{
    uint32_t order[2] = {round % 2, (round + 1) % 2};
    size_t page_bytes = probe->pages->page_bytes;
    void *window = NULL;
    dao_status_t status = map(probe->pages, order, 2, &window);
    if (status != DAO_OK) {
        return status;
    }
    char *base = (char *)probe->pages->base + order[1] * page_bytes, *second = (char *)window + page_bytes;
    status = write_and_read(probe, second, base, (uint8_t)(2 * round + 1), out_is_seen);
    if (status == DAO_OK && *out_is_seen) {
        status = write_and_read(probe, base, second, (uint8_t)(2 * round + 2), out_is_seen);
    }
    if (status != DAO_OK) { /* what was queued still uses the addresses and the byte of the host */
        (void)probe->pages->ops->stream_synchronize(probe->writer);
        (void)probe->pages->ops->stream_synchronize(probe->reader);
    }
    dao_status_t unmapped = unmap(probe->pages, window, 2, 0);
    return status == DAO_OK ? unmapped : status;
}

static dao_status_t probe_rounds(probe_t *probe, bool *out_is_seen)
{
    const dao_backend_ops_t *ops = probe->pages->ops;
    void *host = NULL;
    dao_status_t status = ops->event_create(probe->pages->device, false, &probe->event);
    if (status != DAO_OK) {
        return status;
    }
    status = ops->pinned_alloc(probe->pages->device, PROBE_BYTES, &host);
    probe->host = host;
    *out_is_seen = true;
    for (uint32_t round = 0; status == DAO_OK && *out_is_seen && round < PROBE_ROUNDS; round++) {
        status = probe_round(probe, round, out_is_seen);
    }
    if (host != NULL) {
        (void)ops->pinned_free(probe->pages->device, host, PROBE_BYTES); /* it is ours */
    }
    ops->event_destroy(probe->event);
    return status;
}

static void give_up(dao_device_pages_t *pages)
{
    dao_log(DAO_LOG_LEVEL_INFO, "plans have static addresses: %s", dao_last_message());
    pages->page_bytes = 0;
}

dao_status_t dao_device_pages_init(dao_device_pages_t *pages, dao_backend_stream_t *writer,
                                   dao_backend_stream_t *reader, uint64_t arena_bytes,
                                   dao_swap_addresses_t addresses)
{
    const dao_backend_ops_t *ops = pages->ops;
    size_t page_bytes = 0;
    bool is_wanted = addresses != DAO_SWAP_ADDRESSES_STATIC && dao_backend_has_aliases(ops) &&
                     (addresses == DAO_SWAP_ADDRESSES_PAGES || !ops->alias_is_slow);
    pages->page_bytes = 0;
    if (!is_wanted) {
        return DAO_OK;
    }
    dao_status_t status = ops->alias_prepare(pages->device, pages->base, arena_bytes, &page_bytes);
    if (status == DAO_OK && arena_bytes / page_bytes < DAO_SWAP_PAGED_PAGES_LEAST) {
        return DAO_OK; /* no tensor of it would lie in pages */
    }
    bool is_seen = true;
    pages->page_bytes = page_bytes;
    if (status == DAO_OK && !ops->has_no_bytes) {
        probe_t probe = {.pages = pages, .writer = writer, .reader = reader};
        status = probe_rounds(&probe, &is_seen);
    }
    if (status == DAO_OK && !is_seen) {
        status = dao_error(DAO_ERR_UNSUPPORTED,
                           "what was written by one address of a page was not read by another");
    }
    if (status != DAO_OK) {
        give_up(pages);
    }
    return status == DAO_ERR_DEVICE_LOST ? status : DAO_OK;
}

/* ---- windows ---- */

/* Counts pages against their limit. */
static bool take_pages(dao_device_pages_t *pages, uint32_t page_count)
{
    uint64_t mapped = atomic_load(&pages->mapped);
    do {
        if (page_count > DAO_DEVICE_WINDOW_PAGE_MAX - mapped) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(&pages->mapped, &mapped, mapped + page_count));
    return true;
}

dao_status_t dao_device_window_create(dao_device_pages_t *pages, const dao_swap_schedule_t *schedule,
                                      dao_device_window_t **out_window)
{
    uint32_t page_count = schedule->page_count;
    void *address = NULL;
    DAO_ASSERT(pages->page_bytes != 0 && schedule->page_bytes == pages->page_bytes);
    DAO_ASSERT(page_count > 0);
    dao_device_window_t *window = dao_host_calloc(1, sizeof(*window) + page_count * sizeof(window->pages[0]));
    if (window == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %" PRIu32 " pages of a plan", page_count);
    }
    if (!take_pages(pages, page_count)) {
        dao_host_free(window);
        return dao_error(DAO_ERR_LIMIT, "%" PRIu32 " pages of a plan beside %" PRIu64 "; the most are %u",
                         page_count, (uint64_t)atomic_load(&pages->mapped), DAO_DEVICE_WINDOW_PAGE_MAX);
    }
    dao_status_t status = map(pages, schedule->pages, page_count, &address);
    if (status != DAO_OK) {
        atomic_fetch_sub(&pages->mapped, page_count);
        dao_host_free(window);
        return status;
    }
    memcpy(window->pages, schedule->pages, page_count * sizeof(window->pages[0]));
    window->of = pages;
    window->address = address;
    window->map = (dao_page_map_t){0, pages->page_bytes, window->pages, page_count};
    *out_window = window;
    return DAO_OK;
}

/* Unmaps the pages of a window from keep_count on. Returns true if the window is destroyed. */
static bool shrink_to(dao_device_window_t *window, uint32_t keep_count)
{
    uint32_t page_count = window->map.page_count;
    DAO_ASSERT(window->tensor_count == 0);
    dao_status_t status = unmap(window->of, window->address, page_count, keep_count);
    if (status == DAO_OK) {
        atomic_fetch_sub(&window->of->mapped, page_count - keep_count);
        window->map.page_count = keep_count;
    } else {
        dao_log(DAO_LOG_LEVEL_WARNING, "%" PRIu32 " pages of a plan stay mapped at %p: %s", page_count,
                (void *)window->address, dao_last_message());
    }
    bool is_over = status != DAO_OK || keep_count == 0;
    if (is_over) {
        dao_host_free(window);
    }
    return is_over;
}

void dao_device_window_destroy(dao_device_window_t *window)
{
    if (window != NULL) {
        (void)shrink_to(window, 0);
    }
}

bool dao_device_window_shrink(dao_device_window_t *window)
{
    return shrink_to(window, window->map.page_count - 1);
}

bool dao_device_window_may_go(const dao_device_window_t *window, const dao_timeline_t *timeline)
{
    return window->is_retired && window->tensor_count == 0 && dao_timeline_is_done(timeline, &window->busy);
}
