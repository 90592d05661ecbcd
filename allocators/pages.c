/* Pages and places. A page is physical memory of the device, numbered by the buddy; a place is a page's worth of addresses
   in the reservation.

       place      0    1    2    3    4    5    6   ...  place_count - 1       page_at[place]: the page there, or NONE
                [p0] [p1] [p2]  -   [p5]  -    -
       page       0    1    2    3    4    5    6   ...  page_count - 1        table[page]: handle, place
       idle     p3 -> p4                                                       pages with a handle but no place

   A page is in one of three states:

       state    handle  place  buddy   made by                          left by
       absent   NULL    NONE   free    destroy_page                     create_run
       idle     yes     NONE   used    create_run, unmap_place          map_place, destroy_page
       mapped   yes     p      used    map_place                        unmap_place

   What holds between calls:

       page_at[p] == i exactly if table[i].place == p
       mapped pages + idle pages == pages that the buddy has as used == dao_pages_count()
       no page is mapped at or above mapped_end
       every page's home is NONE, and none is fresh

   A call to dao_pages_back() first makes sure that there are enough pages to be had, then collects them as idle ones, then
   maps them. While it runs a page that it moves has its old place in `home` and one that it creates is `fresh`, so that
   undo needs no memory. If the backend refuses even that, the page stays idle or where it is, which is a state like any
   other: nothing is lost and the next call uses it.

   Moving or growing? Moving free pages takes no memory from others, but a program that needs its pages at two places in
   turn would move them for ever. So pages are moved first until as many have been moved as there are pages; from then on
   new ones are taken first, as far as limit and device allow, until something is given back. A program that repeats
   itself therefore comes to need no backend calls. */
#include "allocators/pages.h"

#include "allocators/buddy.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"

#include <inttypes.h>

#define NONE UINT32_MAX

typedef struct page {
    dao_backend_pages_t *handle;
    uint32_t place;
    uint32_t home; /* the place it was moved from by the call under way */
    uint32_t next; /* in the list of idle pages */
    bool fresh;    /* created by the call under way */
} page_t;

struct dao_pages {
    dao_pages_config_t config;
    char *address;
    dao_buddy_t *buddy;
    page_t *table;
    uint32_t *page_at;

    uint32_t mapped_end;
    uint32_t mapped_count;
    uint32_t idle_count;
    uint32_t idle_first; /* a queue, so that a run is mapped in its order */
    uint32_t idle_last;
    uint64_t moved_count; /* since something was last given back */
};

/* The places that a stretch of offsets touches: [first, end). */
typedef struct places {
    uint32_t first;
    uint32_t end;
} places_t;

static places_t places_of(const dao_pages_t *pages, uint64_t offset_bytes, uint64_t size_bytes)
{
    uint64_t page_bytes = pages->config.page_bytes;
    return (places_t){.first = (uint32_t)(offset_bytes / page_bytes),
                      .end = (uint32_t)((offset_bytes + size_bytes - 1) / page_bytes + 1)};
}

/* ---- the three states ---- */

static void idle_push(dao_pages_t *pages, uint32_t index)
{
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
    return index;
}

static void *place_address(const dao_pages_t *pages, uint32_t place)
{
    return pages->address + place * pages->config.page_bytes;
}

/* Maps an idle page that has been taken out of the queue; if the backend refuses, it goes back there. */
static dao_status_t map_place(dao_pages_t *pages, uint32_t index, uint32_t place)
{
    page_t *page = &pages->table[index];
    DAO_ASSERT(page->place == NONE && pages->page_at[place] == NONE);
    const dao_pages_config_t *config = &pages->config;
    dao_status_t status = config->ops->pages_map(config->device, page->handle, place_address(pages, place));
    if (status != DAO_OK) {
        idle_push(pages, index);
        return status;
    }
    page->place = place;
    pages->page_at[place] = index;
    pages->mapped_count++;
    pages->mapped_end = place >= pages->mapped_end ? place + 1 : pages->mapped_end;
    return DAO_OK;
}

/* Makes a mapped page idle. */
static dao_status_t unmap_place(dao_pages_t *pages, uint32_t place)
{
    uint32_t index = pages->page_at[place];
    page_t *page = &pages->table[index];
    DAO_ASSERT(page->place == place);
    const dao_pages_config_t *config = &pages->config;
    dao_status_t status = config->ops->pages_unmap(config->device, page->handle, place_address(pages, place));
    if (status != DAO_OK) {
        return status;
    }
    page->place = NONE;
    pages->page_at[place] = NONE;
    pages->mapped_count--;
    while (pages->mapped_end > 0 && pages->page_at[pages->mapped_end - 1] == NONE) {
        pages->mapped_end--;
    }
    idle_push(pages, index);
    return DAO_OK;
}

/* Gives back an idle page that has been taken out of the queue; if the backend refuses, it goes back there. */
static dao_status_t destroy_page(dao_pages_t *pages, uint32_t index)
{
    page_t *page = &pages->table[index];
    dao_status_t status = pages->config.ops->pages_destroy(pages->config.device, page->handle);
    if (status != DAO_OK) {
        idle_push(pages, index);
        return status;
    }
    page->handle = NULL;
    page->fresh = false;
    status = dao_buddy_free(pages->buddy, index, 0);
    DAO_ASSERT(status == DAO_OK);
    (void)status; /* the page was in use: it had a handle */
    return DAO_OK;
}

/* Creates the pages of one run of the buddy; those that could not be created are free again. */
static dao_status_t create_run(dao_pages_t *pages, uint32_t order)
{
    uint32_t first = 0;
    dao_status_t status = dao_buddy_alloc(pages->buddy, order, &first);
    DAO_ASSERT(status == DAO_OK); /* the order is at most the largest free one */
    status = dao_buddy_split(pages->buddy, first, order);
    DAO_ASSERT(status == DAO_OK);
    for (uint32_t i = first; i < first + (1u << order); i++) {
        page_t *page = &pages->table[i];
        if (status == DAO_OK) {
            status = pages->config.ops->pages_create(pages->config.device, pages->config.page_bytes,
                                                     &page->handle);
        }
        if (status != DAO_OK) {
            (void)dao_buddy_free(pages->buddy, i, 0); /* taken above */
            continue;
        }
        page->fresh = true;
        idle_push(pages, i);
    }
    return status;
}

/* Creates pages, in the runs of the count's binary form where the buddy has them. */
static dao_status_t create_pages(dao_pages_t *pages, uint32_t count)
{
    DAO_ASSERT(count <= dao_buddy_free_count(pages->buddy));
    dao_status_t status = DAO_OK;
    while (count > 0 && status == DAO_OK) {
        uint32_t order = 31u - (uint32_t)__builtin_clz(count);
        uint32_t largest = dao_buddy_largest_free_order(pages->buddy);
        order = order < largest ? order : largest;
        status = create_run(pages, order);
        count -= 1u << order;
    }
    return status;
}

/* ---- looking for free pages ---- */

/* Gives the highest place below `end` that is mapped and that nothing lives in, or NONE. */
static uint32_t free_place_below(const dao_pages_t *pages, const dao_range_t *range, uint32_t end)
{
    uint64_t page_bytes = pages->config.page_bytes;
    for (uint32_t place = end < pages->mapped_end ? end : pages->mapped_end; place > 0;) {
        place--;
        if (pages->page_at[place] == NONE) {
            continue;
        }
        dao_range_block_t block = {0};
        dao_status_t status = dao_range_query(range, place * page_bytes, &block);
        DAO_ASSERT(status == DAO_OK);
        (void)status; /* places lie inside of the range */
        if (!block.is_free) {
            place = (uint32_t)(block.offset_bytes /
                               page_bytes); /* nor is any place that the block touches free */
        } else if (block.offset_bytes + block.size_bytes >= (place + 1) * page_bytes) {
            return place;
        }
    }
    return NONE;
}

uint32_t dao_pages_free_count(const dao_pages_t *pages, const dao_range_t *range, uint32_t at_most)
{
    uint32_t count = pages->idle_count;
    uint32_t place = NONE;
    while (count < at_most && (place = free_place_below(pages, range, place)) != NONE) {
        count++;
    }
    return count < at_most ? count : at_most;
}

uint32_t dao_pages_missing(const dao_pages_t *pages, uint64_t offset_bytes, uint64_t size_bytes)
{
    places_t places = places_of(pages, offset_bytes, size_bytes);
    uint32_t missing = 0;
    for (uint32_t place = places.first; place < places.end; place++) {
        missing += pages->page_at[place] == NONE;
    }
    return missing;
}

bool dao_pages_next_mapped(const dao_pages_t *pages, uint64_t *offset_bytes, uint64_t *end_bytes)
{
    uint64_t page_bytes = pages->config.page_bytes;
    places_t places = places_of(pages, *offset_bytes, *end_bytes - *offset_bytes);
    places.end = places.end < pages->mapped_end ? places.end : pages->mapped_end;
    uint32_t first = places.first;
    while (first < places.end && pages->page_at[first] == NONE) {
        first++;
    }
    if (first >= places.end) {
        return false;
    }
    uint32_t end = first + 1;
    while (end < places.end && pages->page_at[end] != NONE) {
        end++;
    }
    *offset_bytes = first * page_bytes > *offset_bytes ? first * page_bytes : *offset_bytes;
    *end_bytes = end * page_bytes < *end_bytes ? end * page_bytes : *end_bytes;
    return true;
}

/* ---- backing a stretch ---- */

/* Makes whole free pages idle until idle_count is `wanted` or none is left. */
static dao_status_t collect_free(dao_pages_t *pages, const dao_range_t *range, uint32_t wanted)
{
    uint32_t place = NONE;
    while (pages->idle_count < wanted && (place = free_place_below(pages, range, place)) != NONE) {
        uint32_t index = pages->page_at[place];
        dao_status_t status = unmap_place(pages, place);
        if (status != DAO_OK) {
            return status;
        }
        pages->table[index].home = place;
    }
    return DAO_OK;
}

/* Makes `wanted` pages idle: those that are, moved ones and new ones, in the order that the head comment gives. */
static dao_status_t collect(dao_pages_t *pages, const dao_range_t *range, uint32_t wanted,
                            uint32_t new_page_max)
{
    uint32_t device_room = dao_buddy_free_count(pages->buddy);
    uint32_t growable = new_page_max < device_room ? new_page_max : device_room;
    uint32_t movable = dao_pages_free_count(pages, range, wanted);
    if (movable + growable < wanted) {
        bool is_limit = movable + device_room >= wanted;
        return dao_error(is_limit ? DAO_ERR_LIMIT : DAO_ERR_NO_DEVICE_MEMORY,
                         "%" PRIu32 " pages are missing, %" PRIu32 " are free, %" PRIu32
                         " can be taken; %sfree blocks",
                         wanted, movable, growable, is_limit ? "raise the limit or " : "");
    }
    uint32_t short_of = wanted > pages->idle_count ? wanted - pages->idle_count : 0;
    bool grows_first = pages->moved_count > dao_pages_count(pages);
    uint32_t new_count = grows_first ? (short_of < growable ? short_of : growable) : wanted - movable;
    dao_status_t status = create_pages(pages, new_count);
    if (status != DAO_OK && status != DAO_ERR_NO_DEVICE_MEMORY) {
        return status;
    }
    dao_status_t collected =
        collect_free(pages, range, wanted); /* also where the device was fuller than it seemed */
    if (collected != DAO_OK) {
        return collected;
    }
    return pages->idle_count >= wanted ? DAO_OK : status;
}

static dao_status_t map_missing(dao_pages_t *pages, places_t places)
{
    for (uint32_t place = places.first; place < places.end; place++) {
        if (pages->page_at[place] != NONE) {
            continue;
        }
        dao_status_t status = map_place(pages, idle_pop(pages), place);
        if (status != DAO_OK) {
            return status;
        }
    }
    return DAO_OK;
}

/* Puts back what a failed call has moved and created, as far as the backend lets it. */
static void undo(dao_pages_t *pages, places_t places)
{
    for (uint32_t place = places.first; place < places.end; place++) {
        uint32_t index = pages->page_at[place];
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

/* Clears the marks of pages in places and in the queue; gives the number of pages that were moved. */
static uint32_t settle(dao_pages_t *pages, places_t places)
{
    uint32_t moved = 0;
    for (uint32_t place = places.first; place < places.end; place++) {
        if (pages->page_at[place] != NONE) {
            page_t *page = &pages->table[pages->page_at[place]];
            moved += page->home != NONE;
            page->home = NONE;
            page->fresh = false;
        }
    }
    for (uint32_t i = 0, index = pages->idle_first; i < pages->idle_count;
         i++, index = pages->table[index].next) {
        pages->table[index].home = NONE;
        pages->table[index].fresh = false;
    }
    return moved;
}

/* Clears the marks that undo has left on pages it put back at their homes. */
static void settle_homes(dao_pages_t *pages)
{
    for (uint32_t place = 0; place < pages->mapped_end; place++) {
        if (pages->page_at[place] != NONE) {
            pages->table[pages->page_at[place]].home = NONE;
        }
    }
}

dao_status_t dao_pages_back(dao_pages_t *pages, const dao_range_t *range, uint64_t offset_bytes,
                            uint64_t size_bytes, uint32_t new_page_max, uint64_t *remap_count)
{
    uint32_t missing = dao_pages_missing(pages, offset_bytes, size_bytes);
    if (missing == 0) {
        return DAO_OK;
    }
    places_t places = places_of(pages, offset_bytes, size_bytes);
    dao_status_t status = collect(pages, range, missing, new_page_max);
    if (status == DAO_OK) {
        status = map_missing(pages, places);
    }
    if (status != DAO_OK) {
        dao_error_record_t record; /* undo may fail too, and the first failure is the one to report */
        dao_error_save(&record, status);
        undo(pages, places);
        (void)settle(pages, places);
        settle_homes(pages);
        return dao_error_restore(&record);
    }
    uint32_t moved = settle(pages, places);
    pages->moved_count += moved;
    *remap_count += moved;
    DAO_ASSERT(dao_pages_missing(pages, offset_bytes, size_bytes) == 0);
    return DAO_OK;
}

dao_status_t dao_pages_release(dao_pages_t *pages, const dao_range_t *range, uint32_t page_count)
{
    dao_status_t status = DAO_OK;
    uint32_t place = NONE;
    for (uint32_t i = 0; i < page_count && status == DAO_OK; i++) {
        if (pages->idle_count == 0) {
            place = free_place_below(pages, range, place);
            if (place == NONE) {
                break;
            }
            status = unmap_place(pages, place);
        }
        if (status == DAO_OK) {
            status = destroy_page(pages, idle_pop(pages));
            pages->moved_count = 0;
        }
    }
    return status;
}

/* ---- looking ---- */

void *dao_pages_address(const dao_pages_t *pages)
{
    return pages->address;
}

uint32_t dao_pages_count(const dao_pages_t *pages)
{
    return pages->mapped_count + pages->idle_count;
}

typedef struct longest {
    const dao_pages_t *pages;
    uint64_t bytes;
} longest_t;

/* Measures the mapped stretches of one hole. */
static bool measure_hole(const dao_range_block_t *hole, void *user)
{
    longest_t *longest = user;
    const dao_pages_t *pages = longest->pages;
    if (hole->size_bytes + hole->size_bytes / 8 + DAO_RANGE_GRANULE < longest->bytes) {
        return false; /* so are all that follow */
    }
    uint64_t page_bytes = pages->config.page_bytes;
    uint64_t hole_end = hole->offset_bytes + hole->size_bytes;
    places_t places = places_of(pages, hole->offset_bytes, hole->size_bytes);
    uint64_t run_bytes = 0;
    for (uint32_t place = places.first; place < places.end && place < pages->mapped_end; place++) {
        uint64_t begin = place * page_bytes, end = begin + page_bytes;
        begin = begin < hole->offset_bytes ? hole->offset_bytes : begin;
        end = end > hole_end ? hole_end : end;
        run_bytes = pages->page_at[place] == NONE ? 0 : run_bytes + (end - begin);
        longest->bytes = run_bytes > longest->bytes ? run_bytes : longest->bytes;
    }
    return true;
}

uint64_t dao_pages_largest_hole(const dao_pages_t *pages, const dao_range_t *range)
{
    longest_t longest = {.pages = pages};
    dao_range_walk_holes(range, measure_hole, &longest);
    return longest.bytes;
}

static bool block_is_mapped(const dao_range_block_t *block, void *user)
{
    longest_t *checked = user;
    bool is_mapped =
        block->is_free || dao_pages_missing(checked->pages, block->offset_bytes, block->size_bytes) == 0;
    checked->bytes += is_mapped ? 0 : 1;
    return is_mapped;
}

bool dao_pages_is_valid(const dao_pages_t *pages, const dao_range_t *range)
{
    uint32_t mapped = 0, idle = 0, queued = 0;
    for (uint32_t i = 0; i < pages->config.page_count; i++) {
        const page_t *page = &pages->table[i];
        if (page->home != NONE || page->fresh || (page->handle == NULL && page->place != NONE) ||
            (page->place != NONE && pages->page_at[page->place] != i)) {
            return false;
        }
        mapped += page->place != NONE;
        idle += page->handle != NULL && page->place == NONE;
    }
    for (uint32_t place = 0; place < pages->config.place_count; place++) {
        uint32_t index = pages->page_at[place];
        if (index != NONE && (place >= pages->mapped_end || pages->table[index].place != place)) {
            return false;
        }
    }
    for (uint32_t index = pages->idle_first; queued < pages->idle_count; index = pages->table[index].next) {
        if (pages->table[index].handle == NULL || pages->table[index].place != NONE) {
            return false;
        }
        queued++;
    }
    longest_t unmapped = {.pages = pages};
    dao_range_walk(range, block_is_mapped, &unmapped);
    return unmapped.bytes == 0 && mapped == pages->mapped_count && idle == pages->idle_count &&
           dao_buddy_is_valid(pages->buddy) &&
           mapped + idle + dao_buddy_free_count(pages->buddy) == pages->config.page_count;
}

/* ---- create, destroy ---- */

/* Makes the tables; dao_pages_destroy() takes what there is of them. */
static dao_status_t create_tables(dao_pages_t *pages)
{
    const dao_pages_config_t *config = &pages->config;
    pages->table = dao_host_calloc(config->page_count, sizeof(*pages->table));
    pages->page_at = dao_host_calloc(config->place_count, sizeof(*pages->page_at));
    if (pages->table == NULL || pages->page_at == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the tables of %" PRIu32 " pages",
                         config->page_count);
    }
    for (uint32_t i = 0; i < config->page_count; i++) {
        pages->table[i] = (page_t){.place = NONE, .home = NONE, .next = NONE};
    }
    for (uint32_t place = 0; place < config->place_count; place++) {
        pages->page_at[place] = NONE;
    }
    return dao_buddy_create(config->page_count, &pages->buddy);
}

dao_status_t dao_pages_create(const dao_pages_config_t *config, dao_pages_t **out_pages)
{
    DAO_ASSERT(config->page_count > 0 && config->place_count >= config->page_count);
    dao_pages_t *pages = dao_host_calloc(1, sizeof(*pages));
    if (pages == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the tables of pages");
    }
    pages->config = *config;
    dao_status_t status = create_tables(pages);
    if (status == DAO_OK) {
        void *address = NULL;
        status =
            config->ops->address_reserve(config->device, config->place_count * config->page_bytes, &address);
        pages->address = address;
    }
    if (status != DAO_OK) {
        dao_pages_destroy(pages);
        return status;
    }
    *out_pages = pages;
    return DAO_OK;
}

/* Gives every page and the addresses back; a refusal has nobody left to be told. */
static void give_back_all(dao_pages_t *pages)
{
    const dao_pages_config_t *config = &pages->config;
    for (uint32_t i = 0; i < config->page_count; i++) {
        page_t *page = &pages->table[i];
        if (page->handle == NULL) {
            continue;
        }
        if (page->place != NONE) {
            (void)config->ops->pages_unmap(config->device, page->handle, place_address(pages, page->place));
        }
        (void)config->ops->pages_destroy(config->device, page->handle);
    }
    (void)config->ops->address_release(config->device, pages->address,
                                       config->place_count * config->page_bytes);
}

void dao_pages_destroy(dao_pages_t *pages)
{
    if (pages == NULL) {
        return;
    }
    if (pages->address != NULL) {
        give_back_all(pages);
    }
    dao_buddy_destroy(pages->buddy);
    dao_host_free(pages->page_at);
    dao_host_free(pages->table);
    dao_host_free(pages);
}
