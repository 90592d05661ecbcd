/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/report/page_offsets.h"

#include "base/memory/host.h"

#include <stdlib.h>

/* Where a buffer ends, rounded up to the unit; the buffer is a place in the order of begins. */
typedef struct end {
    uint64_t at_bytes;
    uint32_t place;
} end_t;

/* With several pools one lies on top of the other. */
static uint64_t bottom_of(const dao_report_view_t *view, uint32_t buffer)
{
    uint64_t bottom_bytes = dao_plan_offset(view->plan, buffer);
    for (uint32_t i = 0; i < dao_plan_pool(view->plan, buffer); i++) {
        bottom_bytes += dao_plan_pool_peak(view->plan, i);
    }
    return bottom_bytes;
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

uint64_t dao_page_offset_unit(const dao_report_view_t *view)
{
    uint64_t unit = 0;
    for (uint32_t i = 0; i < view->lifetimes.buffer_count && unit != 1; i++) {
        unit = common_divisor(unit, bottom_of(view, i));
    }
    return unit != 0 ? unit : 1;
}

static int compare_ends(const void *left, const void *right)
{
    const end_t *a = left;
    const end_t *b = right;
    if (a->at_bytes != b->at_bytes) {
        return a->at_bytes < b->at_bytes ? -1 : 1;
    }
    return a->place < b->place ? -1 : a->place > b->place;
}

/* Returns the index of the first end that is not before one. */
static size_t find_end(const end_t *ends, size_t count, const end_t *sought)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_ends(&ends[middle], sought) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Returns what the first column says of a buffer: of those that end where it begins the nearest counts. */
static uint64_t find_support(const end_t *ends, size_t count, const uint64_t *bottoms, uint32_t place)
{
    const end_t sought = {.at_bytes = bottoms[place], .place = place};
    size_t next = find_end(ends, count, &sought);
    uint64_t best = 0;
    for (size_t i = next > 0 ? next - 1 : 0; i < count && i <= next; i++) {
        uint32_t other = ends[i].place;
        if (ends[i].at_bytes == bottoms[place] && bottoms[other] < bottoms[place]) {
            uint64_t code = other < place ? 2 * (uint64_t)(place - other) - 1 : 2 * (uint64_t)(other - place);
            best = best == 0 || code < best ? code : best;
        }
    }
    return best;
}

static void fill_ends(const dao_report_view_t *view, uint64_t unit, uint64_t *bottoms, end_t *ends)
{
    size_t count = view->lifetimes.buffer_count;
    for (uint32_t i = 0; i < count; i++) {
        bottoms[i] = bottom_of(view, view->order[i]);
        uint64_t end_bytes = bottoms[i] + view->lifetimes.buffers[view->order[i]].size_bytes;
        ends[i] = (end_t){.at_bytes = (end_bytes + unit - 1) / unit * unit, .place = i};
    }
    qsort(ends, count, sizeof(*ends), compare_ends);
}

void dao_page_put_offsets(dao_page_bytes_t *page, const dao_report_view_t *view, uint64_t unit)
{
    size_t count = view->lifetimes.buffer_count, told_count = 0;
    uint64_t *bottoms = dao_host_calloc(count + 1, sizeof(*bottoms));
    uint64_t *supports = dao_host_calloc(count + 1, sizeof(*supports));
    end_t *ends = dao_host_calloc(count + 1, sizeof(*ends));
    page->has_failed = page->has_failed || bottoms == NULL || supports == NULL || ends == NULL;
    if (!page->has_failed) {
        fill_ends(view, unit, bottoms, ends);
        for (uint32_t i = 0; i < count; i++) {
            supports[i] = find_support(ends, count, bottoms, i);
        }
        dao_page_put_column(page, supports, count);
        for (size_t i = 0; i < count; i++) {
            if (supports[i] == 0) {
                bottoms[told_count++] = bottoms[i] / unit;
            }
        }
        dao_page_put_column(page, bottoms, told_count);
    }
    dao_host_free(ends);
    dao_host_free(supports);
    dao_host_free(bottoms);
}
