/* SPDX-License-Identifier: Apache-2.0 */
/* What a trace needs of a device. Each question is a replay on a device of its own that keeps books, without
   a clock: the answers are exact and the same on every machine.

   The smallest device is searched between the peak, which no allocator can do with less of, and a size that
   is enough:

       peak            fails ... fails | fits ... fits            steps of 2 MiB
                                       ^ smallest

   It is taken for granted that what fits one size fits each larger one. */
#include "bench/alloc/bench.h"

#include "base/memory/host.h"
#include "base/report/error.h"
#include "bench/peers/bench_device.h"

#include <dao/dao.h>

/* With more live blocks than that no smallest device is searched: a device that is just too small makes every
   miss long. */
#define SEARCH_COUNT_MAX 20000u

/* A device on which nothing should have to move. */
#define EASY_PERCENT 120u

typedef struct search {
    const dao_bench_peer_t *peer;
    const dao_alloc_trace_t *trace;
    void **slots;
} search_t;

static uint64_t pages_of(uint64_t size_bytes)
{
    return (size_bytes + DAO_BENCH_PAGE_BYTES - 1) / DAO_BENCH_PAGE_BYTES;
}

static size_t replay_all(const search_t *search)
{
    return dao_bench_replay(search->peer, search->trace->events, search->trace->event_count, search->slots);
}

/* Returns true if the whole trace succeeds on a device of so many pages. */
static dao_status_t try_device(const search_t *search, uint64_t page_count, bool has_pages, bool *out_fits)
{
    dao_status_t status = dao_bench_device_start(search->peer, page_count * DAO_BENCH_PAGE_BYTES, has_pages);
    if (status == DAO_OK) {
        *out_fits = replay_all(search) == search->trace->event_count;
        dao_bench_clear(search->peer, search->trace, search->slots);
        dao_bench_device_stop();
    }
    return status;
}

static dao_status_t find_capacity(const search_t *search, bool has_pages, double *out_ratio)
{
    uint64_t fails = pages_of(search->trace->peak_bytes) - 1;
    uint64_t step = fails / 64 + 1;
    uint64_t fits = fails;
    bool is_enough = false;
    dao_status_t status = DAO_OK;
    while (status == DAO_OK && !is_enough) {
        if (fits / DAO_BENCH_ROOM_FACTOR > pages_of(search->trace->peak_bytes)) {
            return DAO_OK; /* the figure stays unknown */
        }
        fails = fits;
        fits += step;
        step *= 2;
        status = try_device(search, fits, has_pages, &is_enough);
    }
    while (status == DAO_OK && fits - fails > 1) {
        uint64_t middle = fails + (fits - fails) / 2;
        status = try_device(search, middle, has_pages, &is_enough);
        *(is_enough ? &fits : &fails) = middle;
    }
    if (status == DAO_OK) {
        *out_ratio = (double)(fits * DAO_BENCH_PAGE_BYTES) / (double)search->trace->peak_bytes;
    }
    return status;
}

/* A replay on the device that is started: driver calls and bytes that they took. */
static dao_status_t count_calls(const search_t *search, double *out_calls, double *out_growth_bytes,
                                dao_stats_t *out_stats)
{
    dao_place_t place = dao_place_of(dao_device_place(0));
    dao_status_t status = dao_stats_get(place, out_stats);
    uint64_t before_bytes = out_stats->reserved_bytes;
    uint64_t before_calls = dao_bench_device_calls();
    if (status == DAO_OK && replay_all(search) < search->trace->event_count) {
        status = dao_last_status();
    }
    *out_calls = (double)(dao_bench_device_calls() - before_calls);
    if (status == DAO_OK) {
        status = dao_stats_get(place, out_stats);
    }
    *out_growth_bytes = (double)(out_stats->reserved_bytes - before_bytes);
    dao_bench_clear(search->peer, search->trace, search->slots);
    return status;
}

/* A device that is large enough: what is taken of it, and how often it is asked, at first and again. */
static dao_status_t find_footprint(const search_t *search, dao_bench_figures_t *figures)
{
    dao_status_t status = dao_bench_device_start(search->peer, dao_bench_room(search->trace), true);
    if (status != DAO_OK) {
        return status;
    }
    dao_stats_t stats = {0};
    status = count_calls(search, &figures->driver_calls, &figures->growth_bytes, &stats);
    if (status == DAO_OK) {
        figures->footprint_ratio = (double)stats.peak_reserved_bytes / (double)search->trace->peak_bytes;
        status = count_calls(search, &figures->steady_calls, &figures->steady_growth_bytes, &stats);
    }
    dao_bench_device_stop();
    return status;
}

static dao_status_t find_remapped(const search_t *search, dao_bench_figures_t *figures)
{
    uint64_t device_bytes = search->trace->peak_bytes / 100 * EASY_PERCENT;
    dao_status_t status = dao_bench_device_start(
        search->peer, device_bytes < DAO_BENCH_PAGE_BYTES ? DAO_BENCH_PAGE_BYTES : device_bytes, true);
    if (status != DAO_OK) {
        return status;
    }
    dao_stats_t stats = {0};
    bool fits = replay_all(search) == search->trace->event_count;
    status = dao_stats_get(dao_place_of(dao_device_place(0)), &stats);
    if (status == DAO_OK && fits) {
        figures->remapped_pages = (double)stats.remap_count;
    }
    dao_bench_clear(search->peer, search->trace, search->slots);
    dao_bench_device_stop();
    return status;
}

dao_status_t dao_bench_memory(const dao_bench_peer_t *peer, const dao_alloc_trace_t *trace,
                              dao_bench_figures_t *figures)
{
    search_t search = {
        .peer = peer, .trace = trace, .slots = dao_host_calloc(trace->slot_count, sizeof(void *))};
    if (search.slots == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu slots", trace->slot_count);
    }
    dao_status_t status = find_footprint(&search, figures);
    bool is_small = trace->peak_bytes < DAO_BENCH_PAGE_BYTES; /* ratios would speak of the page alone */
    figures->footprint_ratio = is_small ? DAO_BENCH_NONE : figures->footprint_ratio;
    bool is_searched = !is_small && trace->peak_count <= SEARCH_COUNT_MAX;
    bool maps_pages = dao_bench_maps_pages(peer);
    if (status == DAO_OK && maps_pages) {
        status = find_remapped(&search, figures);
    }
    if (status == DAO_OK) {
        status = dao_bench_metadata(peer, trace, figures);
    }
    if (status == DAO_OK && is_searched) {
        status = find_capacity(&search, false, &figures->capacity_ratio);
    }
    if (status == DAO_OK && is_searched && maps_pages) {
        status = find_capacity(&search, true, &figures->capacity_ratio_remap);
    }
    dao_host_free(search.slots);
    return status;
}
