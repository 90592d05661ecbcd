/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at pages: which are mapped and free, which are missing, how long the longest free stretch is; and
   the check of it all. */
#include "allocators/pages/pages_internal.h"

#include "base/numbers/math.h"

/* ---- looking for free pages ---- */

typedef struct survey {
    dao_pages_t *pages;
    window_t *window;
} survey_t;

/* Marks the places that lie in a hole as a whole and are mapped. */
static bool survey_hole(const dao_range_block_t *hole, void *user)
{
    survey_t *survey = user;
    dao_pages_t *pages = survey->pages;
    uint64_t page_bytes = pages->config.page_bytes;
    if (hole->size_bytes + hole->size_bytes / 8 + DAO_RANGE_GRANULE < page_bytes) {
        return false; /* so are all that follow */
    }
    if (!dao_stream_fence_is_empty(&hole->fence)) {
        return true;
    }
    uint64_t first = (hole->offset_bytes + page_bytes - 1) / page_bytes;
    uint64_t end = (hole->offset_bytes + hole->size_bytes) / page_bytes;
    end = end < survey->window->mapped_end ? end : survey->window->mapped_end;
    for (uint64_t place = first; place < end; place = (place / WORD_BITS + 1) * WORD_BITS) {
        uint64_t word = place / WORD_BITS;
        uint64_t found = survey->window->mapped[word] & UINT64_MAX << place % WORD_BITS;
        found &= word == end / WORD_BITS ? (UINT64_C(1) << end % WORD_BITS) - 1 : UINT64_MAX;
        survey->window->surveyed[word] |= found;
        pages->free_count += (uint32_t)__builtin_popcountll(found);
    }
    return true;
}

void dao_pages_survey(dao_pages_t *pages, const dao_pages_ranges_t *ranges)
{
    pages->free_count = 0;
    for (uint32_t w = 0; w < ranges->count; w++) {
        window_t *window = &pages->windows[w];
        for (uint32_t word = 0; word * WORD_BITS < window->mapped_end; word++) {
            window->surveyed[word] = 0; /* what lies behind is not looked at */
        }
        survey_t survey = {.pages = pages, .window = window};
        if (!ranges->stays[w]) {
            dao_range_walk_holes(ranges->ranges[w], survey_hole, &survey);
        }
    }
}

static bool is_surveyed(const window_t *window, uint32_t local)
{
    return (window->surveyed[local / WORD_BITS] >> local % WORD_BITS & 1) != 0;
}

uint32_t dao_pages_surveyed_pop(dao_pages_t *pages, uint32_t most, uint32_t *out_count)
{
    for (uint32_t w = pages->window_count; pages->free_count > 0 && w-- > 0;) {
        window_t *window = &pages->windows[w];
        uint32_t word = (window->mapped_end + WORD_BITS - 1) / WORD_BITS;
        while (word > 0 && window->surveyed[word - 1] == 0) {
            word--;
        }
        if (word == 0) {
            continue;
        }
        uint32_t end = word * WORD_BITS - (uint32_t)__builtin_clzll(window->surveyed[word - 1]);
        uint32_t first = end;
        while (first > 0 && end - first < most && is_surveyed(window, first - 1)) {
            first--;
            window->surveyed[first / WORD_BITS] &= ~(UINT64_C(1) << first % WORD_BITS);
        }
        pages->free_count -= end - first;
        *out_count = end - first;
        return place_of(pages, w, first);
    }
    return NONE;
}

uint32_t dao_pages_free_count(dao_pages_t *pages, const dao_pages_ranges_t *ranges)
{
    dao_pages_survey(pages, ranges);
    return pages->free_count + pages->idle_count;
}

uint32_t dao_pages_missing(const dao_pages_t *pages, uint32_t window, uint64_t offset_bytes,
                           uint64_t size_bytes)
{
    uint64_t page_bytes = pages->config.page_bytes;
    const uint64_t *mapped = pages->windows[window].mapped;
    uint32_t missing = 0;
    for (uint64_t place = offset_bytes / page_bytes; place <= (offset_bytes + size_bytes - 1) / page_bytes;
         place++) {
        missing += (mapped[place / WORD_BITS] >> place % WORD_BITS & 1) == 0;
    }
    return missing;
}

/* ---- looking ---- */

void *dao_pages_address(const dao_pages_t *pages, uint32_t window)
{
    return pages->windows[window].address;
}

const uint64_t *dao_pages_mapped(const dao_pages_t *pages, uint32_t window)
{
    return pages->windows[window].mapped;
}

uint32_t dao_pages_mapped_floor(const dao_pages_t *pages, uint32_t window)
{
    return pages->windows[window].mapped_floor;
}

uint32_t dao_pages_mapped_count(const dao_pages_t *pages, uint32_t window)
{
    return pages->windows[window].mapped_count;
}

uint32_t dao_pages_count(const dao_pages_t *pages)
{
    return pages->mapped_count + pages->idle_count;
}

dao_pages_counts_t dao_pages_counts(const dao_pages_t *pages)
{
    return pages->counts;
}

typedef struct longest {
    const dao_pages_t *pages;
    uint32_t window;
    uint32_t looks_left; /* at holes that can hardly be longer */
    uint64_t bytes;
} longest_t;

/* Returns the bytes of a place, which is a page's or might be, that lie in a hole. */
static uint64_t bytes_inside(const dao_range_block_t *hole, uint64_t place, uint64_t page_bytes)
{
    uint64_t begin = dao_larger(place * page_bytes, hole->offset_bytes);
    return dao_smaller((place + 1) * page_bytes, hole->offset_bytes + hole->size_bytes) - begin;
}

/* Measures the mapped stretches of one hole. What follows is smaller, or larger by less than a sixteenth. */
static bool measure_hole(const dao_range_block_t *hole, void *user)
{
    longest_t *longest = user;
    const window_t *window = &longest->pages->windows[longest->window];
    if (hole->size_bytes + hole->size_bytes / 8 + DAO_RANGE_GRANULE < longest->bytes) {
        return false; /* so are all that follow */
    }
    uint64_t page_bytes = longest->pages->config.page_bytes;
    uint64_t hole_end = hole->offset_bytes + hole->size_bytes;
    uint64_t run_bytes = 0;
    for (uint64_t place = hole->offset_bytes / page_bytes;
         place * page_bytes < hole_end && place < window->mapped_end; place++) {
        run_bytes = window->page_at[place] == NONE ? 0 : run_bytes + bytes_inside(hole, place, page_bytes);
        longest->bytes = run_bytes > longest->bytes ? run_bytes : longest->bytes;
    }
    longest->looks_left -= hole->size_bytes - hole->size_bytes / 8 <= longest->bytes;
    return longest->looks_left > 0;
}

uint64_t dao_pages_largest_hole(const dao_pages_t *pages, uint32_t window, const dao_range_t *range)
{
    longest_t longest = {.pages = pages, .window = window, .looks_left = DAO_RANGE_LOOKS_MAX};
    dao_range_walk_holes(range, measure_hole, &longest);
    return longest.bytes;
}

typedef struct fenced {
    const dao_pages_t *pages;
    uint32_t window;
    uint64_t bytes;
} fenced_t;

static bool add_fenced(const dao_range_block_t *hole, void *user)
{
    fenced_t *fenced = user;
    const window_t *window = &fenced->pages->windows[fenced->window];
    uint64_t page_bytes = fenced->pages->config.page_bytes;
    uint64_t hole_end = hole->offset_bytes + hole->size_bytes;
    if (dao_stream_fence_is_empty(&hole->fence)) {
        return true;
    }
    for (uint64_t place = hole->offset_bytes / page_bytes;
         place * page_bytes < hole_end && place < window->mapped_end; place++) {
        fenced->bytes += window->page_at[place] == NONE ? 0 : bytes_inside(hole, place, page_bytes);
    }
    return true;
}

uint64_t dao_pages_fenced_bytes(const dao_pages_t *pages, const dao_pages_ranges_t *ranges)
{
    fenced_t fenced = {.pages = pages};
    for (fenced.window = 0; fenced.window < ranges->count; fenced.window++) {
        if (dao_range_has_fences(ranges->ranges[fenced.window])) {
            dao_range_walk_holes(ranges->ranges[fenced.window], add_fenced, &fenced);
        }
    }
    return fenced.bytes;
}

static bool block_is_mapped(const dao_range_block_t *block, void *user)
{
    longest_t *checked = user;
    bool is_mapped = block->is_free || dao_pages_missing(checked->pages, checked->window, block->offset_bytes,
                                                         block->size_bytes) == 0;
    checked->bytes += is_mapped ? 0 : 1;
    return is_mapped;
}

/* Checks one window against the table of pages and its range. */
static bool window_is_valid(const dao_pages_t *pages, uint32_t w, const dao_range_t *range)
{
    const window_t *window = &pages->windows[w];
    uint32_t mapped_count = 0;
    for (uint32_t local = 0; local < pages->config.place_count; local++) {
        uint32_t index = window->page_at[local];
        mapped_count += index != NONE;
        bool has_bit = (window->mapped[local / WORD_BITS] >> local % WORD_BITS & 1) != 0;
        if (has_bit != (index != NONE) ||
            (index != NONE &&
             (local >= window->mapped_end || pages->table[index].place != place_of(pages, w, local)))) {
            return false;
        }
    }
    if (mapped_count != window->mapped_count ||
        (window->mapped_floor < window->mapped_end && window->page_at[window->mapped_floor] != NONE)) {
        return false;
    }
    for (uint32_t local = 0; local < window->mapped_floor; local++) {
        if (window->page_at[local] == NONE) {
            return false;
        }
    }
    longest_t unmapped = {.pages = pages, .window = w};
    dao_range_walk(range, block_is_mapped, &unmapped);
    return unmapped.bytes == 0;
}

bool dao_pages_is_valid(const dao_pages_t *pages, const dao_pages_ranges_t *ranges)
{
    uint32_t mapped = 0, idle = 0, queued = 0;
    for (uint32_t i = 1; i <= pages->config.page_count; i++) {
        const page_t *page = &pages->table[i];
        if (page->home != NONE || page->fresh || (page->handle == NULL && page->place != NONE) ||
            (page->place != NONE && page_at(pages, page->place) != i)) {
            return false;
        }
        mapped += page->place != NONE;
        idle += page->handle != NULL && page->place == NONE;
    }
    for (uint32_t w = 0; w < pages->window_count; w++) {
        if (!window_is_valid(pages, w, ranges->ranges[w])) {
            return false;
        }
    }
    for (uint32_t index = pages->idle_first; queued < pages->idle_count; index = pages->table[index].next) {
        if (pages->table[index].handle == NULL || pages->table[index].place != NONE) {
            return false;
        }
        queued++;
    }
    return mapped == pages->mapped_count && idle == pages->idle_count &&
           dao_page_buddy_is_valid(pages->buddy) &&
           mapped + idle + dao_page_buddy_free_count(pages->buddy) == pages->config.page_count;
}
