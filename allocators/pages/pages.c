/* SPDX-License-Identifier: Apache-2.0 */
/* Pages and places. A page is physical memory of the device, numbered as by the buddy; a place is a page's
   worth of addresses in a window. Places are numbered through all windows. Both numbers begin with 1, and 0
   is none: so tables begin as zeros, and what of them is never used is never touched.

       place      1    2    3    4    5    6    7   ...     windows[w].page_at[]: the page, or NONE
                [p1] [p2] [p3]  -   [p6]  -    -              windows[w].mapped: a bit a place that has one
       page       1    2    3    4    5    6    7   ...       table[page]: handle, place
       idle     p4 -> p5                                      pages with a handle but no place

   A page is in one of three states:

       state    handle  place  buddy   made by                          left by
       absent   NULL    NONE   free    destroy_page                     create_run
       idle     yes     NONE   used    unmap_place                      map_place, map_run, destroy_page
       mapped   yes     p      used    create_run, map_place, map_run   unmap_place

   What holds between calls:

       page_at[p] == i exactly if table[i].place == p, and the place's bit is set
       mapped pages + idle pages == pages that the buddy has as used == dao_pages_count()
       no page of a window is mapped at or above its mapped_end, all are below its mapped_floor
       every page's home is NONE, and none is fresh

   While dao_pages_back() runs a page that it moves has its old place in `home` and one that it creates is
   `fresh`, so that undo needs no memory. If the backend refuses even that, the page stays idle or where it
   is, which is a state like any other: nothing is lost and the next call uses it.

   New pages are created where they are needed, a run of the buddy's in one call: as many runs as the binary
   form of their number has ones, so never more than a call a page. Pages that are moved or given back leave
   their places a stretch in one call, and are mapped a gap in one call, where the backend has such calls.

   Growing or moving? New pages come first, as far as limit and device allow: they cost a call a run, stay
   where they are, and a program that repeats itself comes to need no backend calls. Moving costs unmapping
   and mapping each time, and a program that needs its pages at two places in turn would move them for ever.
   What it gains is pages that are not taken, so just as many are moved as cannot be taken. */
#include "allocators/pages/pages_internal.h"

#include "base/internal_error.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <inttypes.h>

/* The places that a stretch of offsets touches: [first, end). */
typedef struct places {
    uint32_t first;
    uint32_t end;
} places_t;

static places_t places_of(const dao_pages_t *pages, uint32_t window, uint64_t offset_bytes,
                          uint64_t size_bytes)
{
    uint64_t page_bytes = pages->config.page_bytes;
    return (places_t){.first = place_of(pages, window, offset_bytes / page_bytes),
                      .end = place_of(pages, window, (offset_bytes + size_bytes - 1) / page_bytes + 1)};
}

/* ---- the three states ---- */

static void idle_push(dao_pages_t *pages, uint32_t index)
{
    DAO_ASSERT(pages->table[index].handle != NULL);
    DAO_ASSERT(pages->table[index].place == NONE);
    pages->table[index].next = NONE;
    if (pages->idle_count == 0) {
        pages->idle_first = index;
    } else {
        pages->table[pages->idle_last].next = index;
    }
    pages->idle_last = index;
    pages->idle_count++;
}

static uint32_t idle_pop(dao_pages_t *pages)
{
    DAO_ASSERT(pages->idle_count > 0);
    uint32_t index = pages->idle_first;
    pages->idle_first = pages->table[index].next;
    pages->idle_count--;
    DAO_ASSERT(pages->table[index].handle != NULL);
    DAO_ASSERT(pages->table[index].place == NONE);
    return index;
}

/* Notes that a page is mapped at a place now. */
static void enter_place(dao_pages_t *pages, uint32_t index, uint32_t place)
{
    window_t *window = window_of(pages, place);
    uint32_t local = local_of(pages, place);
    DAO_ASSERT(pages->table[index].handle != NULL);
    DAO_ASSERT(pages->table[index].place == NONE);
    DAO_ASSERT(window->page_at[local] == NONE);
    pages->table[index].place = place;
    window->page_at[local] = index;
    window->mapped[local / WORD_BITS] |= UINT64_C(1) << local % WORD_BITS;
    window->mapped_end = local >= window->mapped_end ? local + 1 : window->mapped_end;
    while (window->mapped_floor < window->mapped_end && window->page_at[window->mapped_floor] != NONE) {
        window->mapped_floor++;
    }
    window->mapped_count++;
    pages->mapped_count++;
    DAO_ASSERT(pages->mapped_count + pages->idle_count <= pages->config.page_count);
}

/* Maps an idle page that has been taken out of the queue; if the backend refuses, it goes back there. */
static dao_status_t map_place(dao_pages_t *pages, uint32_t index, uint32_t place)
{
    DAO_ASSERT(pages->table[index].place == NONE && page_at(pages, place) == NONE);
    const dao_pages_config_t *config = &pages->config;
    pages->counts.call_count++;
    dao_status_t status =
        config->ops->pages_map(config->device, pages->table[index].handle, place_address(pages, place));
    if (status != DAO_OK) {
        idle_push(pages, index);
        return status;
    }
    enter_place(pages, index, place);
    return DAO_OK;
}

/* Maps the idle pages that have waited longest, side by side; if the backend refuses, they go to the end of
   the queue. */
static dao_status_t map_run(dao_pages_t *pages, uint32_t count, uint32_t place)
{
    const dao_pages_config_t *config = &pages->config;
    uint32_t index = pages->idle_first;
    for (uint32_t i = 0; i < count; i++) {
        DAO_ASSERT(page_at(pages, place + i) == NONE);
        pages->run[i] = pages->table[idle_pop(pages)].handle;
    }
    pages->counts.call_count++;
    dao_status_t status =
        config->ops->pages_map_run(config->device, pages->run, count, place_address(pages, place));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t next = pages->table[index].next; /* as the queue was */
        if (status == DAO_OK) {
            enter_place(pages, index, place + i);
        } else {
            idle_push(pages, index);
        }
        index = next;
    }
    return status;
}

/* Notes that the page at a place is idle now. */
static void leave_place(dao_pages_t *pages, uint32_t place)
{
    uint32_t index = page_at(pages, place);
    window_t *window = window_of(pages, place);
    uint32_t local = local_of(pages, place);
    DAO_ASSERT(pages->table[index].place == place);
    pages->table[index].place = NONE;
    window->page_at[local] = NONE;
    window->mapped[local / WORD_BITS] &= ~(UINT64_C(1) << local % WORD_BITS);
    window->mapped_floor = local < window->mapped_floor ? local : window->mapped_floor;
    while (window->mapped_end > 0 && window->page_at[window->mapped_end - 1] == NONE) {
        window->mapped_end--;
    }
    window->mapped_count--;
    pages->mapped_count--;
    idle_push(pages, index);
}

/* Makes a mapped page idle. */
static dao_status_t unmap_place(dao_pages_t *pages, uint32_t place)
{
    const dao_pages_config_t *config = &pages->config;
    const page_t *page = &pages->table[page_at(pages, place)];
    DAO_ASSERT(page->handle != NULL);
    pages->counts.call_count++;
    dao_status_t status = config->ops->pages_unmap(config->device, page->handle, place_address(pages, place));
    if (status == DAO_OK) {
        leave_place(pages, place);
    }
    return status;
}

/* The same for pages side by side, by one call where the backend has such a call; else those before one that
   it refuses are idle. */
static dao_status_t unmap_run(dao_pages_t *pages, uint32_t place, uint32_t count)
{
    const dao_pages_config_t *config = &pages->config;
    DAO_ASSERT(count > 0 && count <= RUN_PAGE_MAX);
    dao_status_t status = DAO_OK;
    if (count == 1 || config->ops->pages_unmap_run == NULL) {
        for (uint32_t i = 0; i < count && status == DAO_OK; i++) {
            status = unmap_place(pages, place + i);
        }
        return status;
    }
    for (uint32_t i = 0; i < count; i++) {
        pages->run[i] = pages->table[page_at(pages, place + i)].handle;
    }
    pages->counts.call_count++;
    status = config->ops->pages_unmap_run(config->device, pages->run, count, place_address(pages, place));
    for (uint32_t i = 0; i < count && status == DAO_OK; i++) {
        leave_place(pages, place + i);
    }
    return status;
}

/* Releases an idle page that has been taken out of the queue; if the backend refuses, it goes back
   there. */
static dao_status_t destroy_page(dao_pages_t *pages, uint32_t index)
{
    page_t *page = &pages->table[index];
    DAO_ASSERT(page->handle != NULL);
    DAO_ASSERT(page->place == NONE);
    pages->counts.call_count++;
    dao_status_t status = pages->config.ops->pages_destroy(pages->config.device, page->handle);
    if (status != DAO_OK) {
        idle_push(pages, index);
        return status;
    }
    page->handle = NULL;
    page->fresh = false;
    DAO_MUST(dao_page_buddy_free(pages->buddy, index - 1, 0)); /* the page was in use: it had a handle */
    return DAO_OK;
}

/* Takes a run of 2^order absent pages from the buddy; returns the first. */
static uint32_t take_run(dao_pages_t *pages, uint32_t order)
{
    uint32_t first = 0;
    DAO_MUST(dao_page_buddy_alloc(pages->buddy, order, &first)); /* at most the largest free one */
    DAO_MUST(dao_page_buddy_split(pages->buddy, first, order));
    DAO_ASSERT(pages->table[first + 1].handle == NULL);
    return first + 1;
}

/* Creates a run of 2^order pages at a place; nothing is changed if the backend refuses. */
static dao_status_t create_run(dao_pages_t *pages, uint32_t order, uint32_t place)
{
    const dao_pages_config_t *config = &pages->config;
    uint32_t first = take_run(pages, order);
    DAO_ASSERT(order <= RUN_ORDER_MAX);
    pages->counts.call_count++;
    dao_status_t status = config->ops->pages_create_mapped(config->device, config->page_bytes, 1u << order,
                                                           place_address(pages, place), pages->run);
    for (uint32_t i = 0; i < 1u << order; i++) {
        if (status != DAO_OK) {
            DAO_MUST(dao_page_buddy_free(pages->buddy, first - 1 + i, 0)); /* taken above */
            continue;
        }
        pages->table[first + i].handle = pages->run[i];
        pages->table[first + i].fresh = true;
        enter_place(pages, first + i, place + i);
    }
    return status;
}

/* The same for one page, where the backend creates and maps in two calls. If it refuses the second the page
   is idle. */
static dao_status_t create_one(dao_pages_t *pages, uint32_t place)
{
    uint32_t index = take_run(pages, 0);
    page_t *page = &pages->table[index];
    pages->counts.call_count++;
    dao_status_t status =
        pages->config.ops->pages_create(pages->config.device, pages->config.page_bytes, &page->handle);
    if (status != DAO_OK) {
        page->handle = NULL;
        DAO_MUST(dao_page_buddy_free(pages->buddy, index - 1, 0)); /* taken above */
        return status;
    }
    page->fresh = true;
    return map_place(pages, index, place);
}

/* ---- backing a stretch ---- */

/* dao_pages_surveyed_pop() for at most a run. */
static uint32_t surveyed_run(dao_pages_t *pages, uint32_t most, uint32_t *out_count)
{
    return dao_pages_surveyed_pop(pages, most < RUN_PAGE_MAX ? most : RUN_PAGE_MAX, out_count);
}

/* Makes free pages idle until idle_count is `wanted` or none is left. */
static dao_status_t collect_free(dao_pages_t *pages, uint32_t wanted)
{
    dao_status_t status = DAO_OK;
    while (pages->idle_count < wanted && status == DAO_OK) {
        uint32_t count = 0;
        uint32_t place = surveyed_run(pages, wanted - pages->idle_count, &count);
        if (place == NONE) {
            break;
        }
        for (uint32_t i = 0; i < count; i++) {
            pages->table[page_at(pages, place + i)].home = place + i;
        }
        status = unmap_run(pages, place, count);
    }
    return status;
}

/* Returns the number of places from `place` on, up to `end`, that have no page. */
static uint32_t gap_at(const dao_pages_t *pages, uint32_t place, uint32_t end)
{
    uint32_t count = 0;
    while (place + count < end && page_at(pages, place + count) == NONE) {
        count++;
    }
    return count;
}

/* Creates up to `count` pages where places have none. */
static dao_status_t create_missing(dao_pages_t *pages, places_t places, uint32_t count)
{
    uint32_t place = places.first;
    while (count > 0 && place < places.end) {
        uint32_t gap = gap_at(pages, place, places.end);
        if (gap == 0) {
            place++;
            continue;
        }
        gap = gap < count ? gap : count;
        uint32_t order = 31u - (uint32_t)__builtin_clz(gap);
        uint32_t largest = dao_page_buddy_largest_free_order(pages->buddy);
        order = order < largest ? order : largest;
        order = order < RUN_ORDER_MAX ? order : RUN_ORDER_MAX;
        bool has_runs = pages->config.ops->pages_create_mapped != NULL;
        order = has_runs ? order : 0;
        dao_status_t status = has_runs ? create_run(pages, order, place) : create_one(pages, place);
        if (status != DAO_OK) {
            return status;
        }
        place += 1u << order;
        count -= 1u << order;
    }
    return DAO_OK;
}

static uint32_t count_missing(const dao_pages_t *pages, places_t places)
{
    uint32_t missing = 0;
    for (uint32_t place = places.first; place < places.end; place++) {
        missing += page_at(pages, place) == NONE;
    }
    return missing;
}

/* Maps idle and free pages, of which there are enough, where places still have none. */
static dao_status_t move_missing(dao_pages_t *pages, places_t places)
{
    uint32_t run_max = pages->config.ops->pages_map_run != NULL ? RUN_PAGE_MAX : 1;
    dao_status_t status = collect_free(pages, count_missing(pages, places));
    for (uint32_t place = places.first; place < places.end && status == DAO_OK;) {
        uint32_t gap = gap_at(pages, place, places.end);
        uint32_t run = gap < run_max ? gap : run_max;
        if (run > 0) {
            status = run > 1 ? map_run(pages, run, place) : map_place(pages, idle_pop(pages), place);
        }
        place += run > 0 ? run : 1;
    }
    return status;
}

uint32_t dao_pages_growable(const dao_pages_t *pages, uint32_t new_page_max)
{
    uint32_t device_room = dao_page_buddy_free_count(pages->buddy);
    return new_page_max < device_room ? new_page_max : device_room;
}

/* Returns how many of the missing pages are to be new. */
static dao_status_t plan_new(dao_pages_t *pages, uint32_t missing, uint32_t new_page_max, uint32_t *out_count)
{
    uint32_t device_room = dao_page_buddy_free_count(pages->buddy);
    uint32_t growable = dao_pages_growable(pages, new_page_max);
    uint32_t movable = pages->free_count + pages->idle_count;
    if ((uint64_t)movable + growable < missing) {
        bool is_limit = (uint64_t)movable + device_room >= missing;
        return dao_error(is_limit ? DAO_ERR_LIMIT : DAO_ERR_NO_DEVICE_MEMORY,
                         "%" PRIu32 " pages are missing, %" PRIu32 " are free, %" PRIu32
                         " can be taken; %sfree blocks",
                         missing, movable, growable, is_limit ? "raise the limit or " : "");
    }
    uint32_t short_of = missing > pages->idle_count ? missing - pages->idle_count : 0;
    *out_count = short_of < growable ? short_of : growable;
    return DAO_OK;
}

/* Puts back what a failed call has moved and created, as far as the backend lets it. */
static void undo(dao_pages_t *pages, places_t places)
{
    for (uint32_t place = places.first; place < places.end; place++) {
        uint32_t index = page_at(pages, place);
        if (index != NONE && (pages->table[index].home != NONE || pages->table[index].fresh)) {
            (void)unmap_place(pages, place); /* if it is refused the page stays here, free */
        }
    }
    for (uint32_t left = pages->idle_count; left > 0; left--) {
        uint32_t index = idle_pop(pages);
        page_t *page = &pages->table[index];
        if (page->home != NONE) {
            (void)map_place(pages, index, page->home); /* if it is refused the page stays idle */
        } else if (page->fresh) {
            (void)destroy_page(pages, index); /* as above */
        } else {
            idle_push(pages, index);
        }
    }
}

/* Clears the marks of all pages; returns the number of pages that were moved to `places`. */
static uint32_t settle(dao_pages_t *pages, places_t places)
{
    uint32_t moved = 0;
    for (uint32_t place = places.first; place < places.end; place++) {
        uint32_t index = page_at(pages, place);
        moved += index != NONE && !pages->table[index].fresh && pages->table[index].home != NONE;
        if (index != NONE) {
            pages->table[index].home = NONE;
            pages->table[index].fresh = false;
        }
    }
    return moved;
}

/* Returns the first page from `page` on that has a handle, or NONE; passes runs of absent ones by. */
static uint32_t next_page(const dao_pages_t *pages, uint32_t page)
{
    while (page <= pages->config.page_count) {
        if (!dao_page_buddy_is_free_run(pages->buddy, page - 1)) {
            return page;
        }
        page += 1u << dao_page_buddy_run_order(pages->buddy, page - 1);
    }
    return NONE;
}

/* settle() after a failure, when marked pages may be anywhere. */
static void settle_all(dao_pages_t *pages)
{
    for (uint32_t i = next_page(pages, 1); i != NONE; i = next_page(pages, i + 1)) {
        pages->table[i].home = NONE;
        pages->table[i].fresh = false;
    }
}

/* Finds what is free, if that may be needed, and how many of the missing pages are to be new. Changes
   nothing. */
static dao_status_t plan_backing(dao_pages_t *pages, const dao_pages_ranges_t *ranges, uint32_t missing,
                                 uint32_t new_page_max, uint32_t *out_new_count)
{
    pages->free_count = 0; /* where they were may have changed since the latest survey */
    if (pages->idle_count + dao_pages_growable(pages, new_page_max) < missing) {
        dao_pages_survey(pages, ranges);
    }
    return plan_new(pages, missing, new_page_max, out_new_count);
}

/* Maps what is missing, by such a plan; leaves the marks. */
static dao_status_t back_places(dao_pages_t *pages, const dao_pages_ranges_t *ranges, places_t places,
                                uint32_t new_count)
{
    dao_status_t status = create_missing(pages, places, new_count);
    if (status == DAO_ERR_NO_DEVICE_MEMORY && pages->free_count == 0) {
        dao_pages_survey(pages, ranges);
    }
    bool others_will_do = pages->free_count + pages->idle_count >= count_missing(pages, places);
    bool is_full = status == DAO_ERR_NO_DEVICE_MEMORY; /* others may have filled the device */
    return status == DAO_OK || (is_full && others_will_do) ? move_missing(pages, places) : status;
}

/* Returns true if the pages with a handle are those that the buddy has as used. */
static bool counts_match(const dao_pages_t *pages)
{
    return dao_pages_count(pages) + dao_page_buddy_free_count(pages->buddy) == pages->config.page_count;
}

dao_status_t dao_pages_back(dao_pages_t *pages, const dao_pages_ranges_t *ranges, uint32_t window,
                            uint64_t offset_bytes, uint64_t size_bytes, uint32_t new_page_max)
{
    uint32_t missing = dao_pages_missing(pages, window, offset_bytes, size_bytes);
    DAO_ASSERT(counts_match(pages));
    if (missing == 0) {
        return DAO_OK;
    }
    uint32_t new_count = 0;
    dao_status_t status = plan_backing(pages, ranges, missing, new_page_max, &new_count);
    if (status != DAO_OK) {
        return status;
    }
    places_t places = places_of(pages, window, offset_bytes, size_bytes);
    status = back_places(pages, ranges, places, new_count);
    if (status != DAO_OK) {
        dao_error_record_t record; /* undo may fail too, and the first failure is the one to report */
        dao_error_save(&record, status);
        undo(pages, places);
        settle_all(pages);
        DAO_ASSERT(counts_match(pages));
        return dao_error_restore(&record);
    }
    uint32_t moved = settle(pages, places);
    pages->counts.moved_count += moved;
    DAO_ASSERT(counts_match(pages));
    DAO_ASSERT(dao_pages_missing(pages, window, offset_bytes, size_bytes) == 0);
    return DAO_OK;
}

/* Releases up to *left idle pages, and counts them off. */
static dao_status_t destroy_idle(dao_pages_t *pages, uint32_t *left)
{
    dao_status_t status = DAO_OK;
    while (pages->idle_count > 0 && *left > 0 && status == DAO_OK) {
        status = destroy_page(pages, idle_pop(pages));
        *left -= status == DAO_OK;
    }
    return status;
}

dao_status_t dao_pages_release(dao_pages_t *pages, const dao_pages_ranges_t *ranges, uint32_t page_count)
{
    dao_status_t status = DAO_OK;
    uint32_t left = page_count;
    dao_pages_survey(pages, ranges);
    DAO_ASSERT_HEAVY(dao_pages_is_valid(pages, ranges));
    while (left > 0 && status == DAO_OK) {
        uint32_t count = 0;
        uint32_t place = pages->idle_count == 0 ? surveyed_run(pages, left, &count) : NONE;
        status = place != NONE ? unmap_run(pages, place, count) : DAO_OK;
        if (pages->idle_count == 0) {
            break;
        }
        dao_status_t destroyed = destroy_idle(pages, &left);
        status = status == DAO_OK ? destroyed : status;
    }
    DAO_ASSERT_HEAVY(dao_pages_is_valid(pages, ranges));
    return status;
}

/* ---- create, destroy ---- */

dao_status_t dao_pages_create(const dao_pages_config_t *config, dao_pages_t **out_pages)
{
    DAO_ASSERT(config->page_count > 0 && config->place_count >= config->page_count);
    DAO_ASSERT((config->page_bytes & (config->page_bytes - 1)) == 0);
    dao_pages_t *pages = dao_host_calloc(1, sizeof(*pages));
    if (pages == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the tables of pages");
    }
    pages->config = *config;
    dao_status_t status = dao_page_buddy_create(config->page_count, &pages->buddy);
    pages->table =
        status == DAO_OK ? dao_host_sparse((size_t)config->page_count + 1, sizeof(*pages->table)) : NULL;
    if (pages->table == NULL) {
        status = status != DAO_OK
                     ? status
                     : dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the table of %" PRIu32 " pages",
                                 config->page_count);
        dao_pages_destroy(pages);
        return status;
    }
    *out_pages = pages;
    return DAO_OK;
}

static void window_finish(dao_pages_t *pages, window_t *window)
{
    const dao_pages_config_t *config = &pages->config;
    if (window->address != NULL) {
        (void)config->ops->address_release(config->device, window->address,
                                           config->place_count *
                                               config->page_bytes); /* nobody is left to be told */
    }
    dao_host_sparse_free(window->page_at, config->place_count, sizeof(*window->page_at));
    dao_host_free(window->mapped);
    dao_host_free(window->surveyed);
    *window = (window_t){0};
}

dao_status_t dao_pages_window_add(dao_pages_t *pages, uint32_t *out_window)
{
    const dao_pages_config_t *config = &pages->config;
    if (pages->window_count == DAO_PAGES_WINDOW_MAX) {
        return dao_error(DAO_ERR_LIMIT, "there are %u windows of addresses already", DAO_PAGES_WINDOW_MAX);
    }
    window_t *window = &pages->windows[pages->window_count];
    uint32_t word_count = (config->place_count + WORD_BITS - 1) / WORD_BITS;
    window->page_at = dao_host_sparse(config->place_count, sizeof(*window->page_at));
    window->mapped = dao_host_calloc(word_count, sizeof(*window->mapped));
    window->surveyed = dao_host_calloc(word_count, sizeof(*window->surveyed));
    dao_status_t status = DAO_OK;
    if (window->page_at == NULL || window->mapped == NULL || window->surveyed == NULL) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the table of %" PRIu32 " places",
                           config->place_count);
    } else {
        void *address = NULL;
        status =
            config->ops->address_reserve(config->device, config->place_count * config->page_bytes, &address);
        window->address = address;
    }
    if (status != DAO_OK) {
        window_finish(pages, window);
        return status;
    }
    *out_window = pages->window_count++;
    return DAO_OK;
}

void dao_pages_window_drop(dao_pages_t *pages)
{
    DAO_ASSERT(pages->window_count > 0 && pages->windows[pages->window_count - 1].mapped_end == 0);
    window_finish(pages, &pages->windows[--pages->window_count]);
}

/* Unmaps a window's pages, a run by one call. */
static void unmap_window(dao_pages_t *pages, uint32_t w)
{
    const window_t *window = &pages->windows[w];
    for (uint32_t end = window->mapped_end; end > 0;) {
        uint32_t count = 0;
        while (count < end && count < RUN_PAGE_MAX && window->page_at[end - 1 - count] != NONE) {
            count++;
        }
        if (count > 0) {
            (void)unmap_run(pages, place_of(pages, w, end - count), count);
        }
        end -= count > 0 ? count : 1;
    }
}

/* Releases every page; a refusal has nobody left to be told. */
static void give_back_all(dao_pages_t *pages)
{
    for (uint32_t w = 0; w < pages->window_count; w++) {
        unmap_window(pages, w);
    }
    for (uint32_t i = next_page(pages, 1); i != NONE; i = next_page(pages, i + 1)) {
        const page_t *page = &pages->table[i];
        if (page->place != NONE) {
            (void)unmap_place(pages, page->place); /* what lies behind a refused one was not tried */
        }
        (void)pages->config.ops->pages_destroy(pages->config.device, page->handle);
    }
}

void dao_pages_destroy(dao_pages_t *pages)
{
    if (pages == NULL) {
        return;
    }
    if (pages->table != NULL) {
        give_back_all(pages);
    }
    for (uint32_t w = 0; w < pages->window_count; w++) {
        window_finish(pages, &pages->windows[w]);
    }
    dao_page_buddy_destroy(pages->buddy);
    dao_host_sparse_free(pages->table, (size_t)pages->config.page_count + 1, sizeof(*pages->table));
    dao_host_free(pages);
}
