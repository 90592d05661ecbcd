/* SPDX-License-Identifier: Apache-2.0 */
/* Binary buddy over page numbers, its tables outside of the pages.

       page   0   1   2   3   4   5   6   7   8   9  10        page_count 11 = 8 + 2 + 1
       run    [ 2 ]   [ 1 ] [ 1 ]  [     4      ]  [ 2 ]   [ 1 ]
       tag    U1  -   F0   U0   F2  -   -   -   F1  -   U0     U used, F free, the run's order; - inside a run

   A run of 2^k pages begins at a multiple of 2^k; its buddy is the run at begin xor 2^k. Free runs of one
   order are a list through before[] and after[], which are indexed by a run's first page.

   What holds between calls:

       the runs cover [0, page_count), each page once
       sum of the lengths of free runs == free_count
       no two buddies are both free with the same order
       bit k of order_bits is set exactly if lists[k] is not empty
       each free run is in the list of its order */
#include "allocators/pages/page_buddy.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <string.h>

#define NONE        UINT32_MAX
#define ORDER_COUNT (DAO_PAGE_BUDDY_ORDER_MAX + 1)

/* A tag is 0 inside a run, else one of these with the order. */
#define TAG_FREE       0x40u
#define TAG_USED       0x80u
#define TAG_ORDER_MASK 0x1fu

struct dao_page_buddy {
    uint32_t page_count;
    uint8_t *tags;
    uint32_t *before;
    uint32_t *after;

    uint32_t free_count;
    uint32_t order_bits;
    uint32_t lists[ORDER_COUNT];
};

static void list_insert(dao_page_buddy_t *buddy, uint32_t page, uint32_t order)
{
    uint32_t head = buddy->lists[order];
    buddy->tags[page] = (uint8_t)(TAG_FREE | order);
    buddy->before[page] = NONE;
    buddy->after[page] = head;
    if (head != NONE) {
        buddy->before[head] = page;
    }
    buddy->lists[order] = page;
    buddy->order_bits |= 1u << order;
}

/* Takes a run out of its list; its tag becomes that of the inside of a run. */
static void list_remove(dao_page_buddy_t *buddy, uint32_t page, uint32_t order)
{
    DAO_ASSERT(buddy->tags[page] == (TAG_FREE | order));
    buddy->tags[page] = 0;
    uint32_t before = buddy->before[page], after = buddy->after[page];
    if (after != NONE) {
        buddy->before[after] = before;
    }
    if (before != NONE) {
        buddy->after[before] = after;
        return;
    }
    buddy->lists[order] = after;
    if (after == NONE) {
        buddy->order_bits &= ~(1u << order);
    }
}

/* Returns the largest order of a run that may begin at a page and ends inside. */
static uint32_t order_at(uint32_t page, uint32_t page_count)
{
    uint32_t by_length = 31u - (uint32_t)__builtin_clz(page_count - page);
    uint32_t by_start = page == 0 ? DAO_PAGE_BUDDY_ORDER_MAX : (uint32_t)__builtin_ctz(page);
    return by_start < by_length ? by_start : by_length;
}

dao_status_t dao_page_buddy_create(uint32_t page_count, dao_page_buddy_t **out_buddy)
{
    DAO_ASSERT(page_count >= 1 && page_count <= 1u << DAO_PAGE_BUDDY_ORDER_MAX);
    dao_page_buddy_t *buddy = dao_host_calloc(1, sizeof(*buddy));
    if (buddy == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the tables of %" PRIu32 " pages",
                         page_count);
    }
    buddy->page_count = page_count;
    buddy->free_count = page_count;
    buddy->tags = dao_host_sparse(page_count, sizeof(*buddy->tags));
    buddy->before = dao_host_sparse(page_count, sizeof(*buddy->before));
    buddy->after = dao_host_sparse(page_count, sizeof(*buddy->after));
    if (buddy->tags == NULL || buddy->before == NULL || buddy->after == NULL) {
        dao_page_buddy_destroy(buddy);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the tables of %" PRIu32 " pages",
                         page_count);
    }
    for (uint32_t order = 0; order < ORDER_COUNT; order++) {
        buddy->lists[order] = NONE;
    }
    for (uint32_t page = 0; page < page_count;) {
        uint32_t order = order_at(page, page_count);
        list_insert(buddy, page, order);
        page += 1u << order;
    }
    DAO_ASSERT_HEAVY(dao_page_buddy_is_valid(buddy));
    *out_buddy = buddy;
    return DAO_OK;
}

void dao_page_buddy_destroy(dao_page_buddy_t *buddy)
{
    if (buddy == NULL) {
        return;
    }
    dao_host_sparse_free(buddy->after, buddy->page_count, sizeof(*buddy->after));
    dao_host_sparse_free(buddy->before, buddy->page_count, sizeof(*buddy->before));
    dao_host_sparse_free(buddy->tags, buddy->page_count, sizeof(*buddy->tags));
    dao_host_free(buddy);
}

dao_status_t dao_page_buddy_alloc(dao_page_buddy_t *buddy, uint32_t order, uint32_t *out_page)
{
    DAO_ASSERT(order <= DAO_PAGE_BUDDY_ORDER_MAX);
    DAO_ASSERT_HEAVY(dao_page_buddy_is_valid(buddy));
    uint32_t larger = buddy->order_bits & UINT32_MAX << order;
    if (larger == 0) {
        return DAO_ERR_LIMIT;
    }
    uint32_t found = (uint32_t)__builtin_ctz(larger);
    uint32_t page = buddy->lists[found];
    list_remove(buddy, page, found);
    while (found > order) {
        found--;
        list_insert(buddy, page + (1u << found), found);
    }
    buddy->tags[page] = (uint8_t)(TAG_USED | order);
    buddy->free_count -= 1u << order;
    DAO_ASSERT_HEAVY(dao_page_buddy_is_valid(buddy));
    *out_page = page;
    return DAO_OK;
}

/* Tells why no used run of that order begins at a page. */
static dao_status_t run_error(const dao_page_buddy_t *buddy, uint32_t page)
{
    if (page >= buddy->page_count) {
        return DAO_ERR_FOREIGN_POINTER;
    }
    uint32_t start = page;
    for (uint32_t order = 0; buddy->tags[start] == 0; order++) {
        start = page >> order << order; /* runs begin at multiples of their length */
    }
    return (buddy->tags[start] & TAG_FREE) != 0 ? DAO_ERR_DOUBLE_FREE : DAO_ERR_INTERIOR_POINTER;
}

static bool is_used_run(const dao_page_buddy_t *buddy, uint32_t page, uint32_t order)
{
    return page < buddy->page_count && order <= DAO_PAGE_BUDDY_ORDER_MAX &&
           buddy->tags[page] == (TAG_USED | order);
}

dao_status_t dao_page_buddy_free(dao_page_buddy_t *buddy, uint32_t page, uint32_t order)
{
    DAO_ASSERT_HEAVY(dao_page_buddy_is_valid(buddy));
    if (!is_used_run(buddy, page, order)) {
        return run_error(buddy, page);
    }
    buddy->tags[page] = 0;
    buddy->free_count += 1u << order;
    for (; order < DAO_PAGE_BUDDY_ORDER_MAX; order++) {
        uint32_t other = page ^ 1u << order;
        if (other >= buddy->page_count || buddy->tags[other] != (TAG_FREE | order)) {
            break;
        }
        list_remove(buddy, other, order);
        page &= ~(1u << order);
    }
    list_insert(buddy, page, order);
    DAO_ASSERT_HEAVY(dao_page_buddy_is_valid(buddy));
    return DAO_OK;
}

dao_status_t dao_page_buddy_split(dao_page_buddy_t *buddy, uint32_t page, uint32_t order)
{
    DAO_ASSERT_HEAVY(dao_page_buddy_is_valid(buddy));
    if (!is_used_run(buddy, page, order)) {
        return run_error(buddy, page);
    }
    for (uint32_t i = 0; i < 1u << order; i++) {
        buddy->tags[page + i] = TAG_USED;
    }
    DAO_ASSERT_HEAVY(dao_page_buddy_is_valid(buddy));
    return DAO_OK;
}

uint32_t dao_page_buddy_page_count(const dao_page_buddy_t *buddy)
{
    return buddy->page_count;
}

bool dao_page_buddy_is_free_run(const dao_page_buddy_t *buddy, uint32_t page)
{
    return page < buddy->page_count && (buddy->tags[page] & TAG_FREE) != 0;
}

uint32_t dao_page_buddy_run_order(const dao_page_buddy_t *buddy, uint32_t page)
{
    DAO_ASSERT(page < buddy->page_count && buddy->tags[page] != 0);
    return buddy->tags[page] & TAG_ORDER_MASK;
}

uint32_t dao_page_buddy_free_count(const dao_page_buddy_t *buddy)
{
    return buddy->free_count;
}

uint32_t dao_page_buddy_largest_free_order(const dao_page_buddy_t *buddy)
{
    return buddy->order_bits == 0 ? UINT32_MAX : 31u - (uint32_t)__builtin_clz(buddy->order_bits);
}

/* Checks the run that begins at a page; returns its length, or 0 if it is not valid. */
static uint32_t run_length(const dao_page_buddy_t *buddy, uint32_t page)
{
    uint32_t tag = buddy->tags[page];
    uint32_t order = tag & TAG_ORDER_MASK;
    bool is_free = (tag & TAG_FREE) != 0, is_used = (tag & TAG_USED) != 0;
    if (is_free == is_used || order > order_at(page, buddy->page_count)) {
        return 0;
    }
    uint32_t length = 1u << order;
    const uint8_t *inside = &buddy->tags[page + 1];
    bool has_tags_inside =
        length > 1 && (inside[0] != 0 || memcmp(inside, inside + 1, length - 2) != 0); /* 0, then all alike */
    if (has_tags_inside) {
        return 0;
    }
    uint32_t other = page ^ length;
    bool unmerged =
        is_free && order < DAO_PAGE_BUDDY_ORDER_MAX && other < buddy->page_count && buddy->tags[other] == tag;
    return unmerged ? 0 : length;
}

bool dao_page_buddy_is_valid(const dao_page_buddy_t *buddy)
{
    uint32_t free_count = 0, free_runs = 0, listed_runs = 0;
    for (uint32_t page = 0; page < buddy->page_count;) {
        uint32_t length = run_length(buddy, page);
        if (length == 0) {
            return false;
        }
        bool is_free = (buddy->tags[page] & TAG_FREE) != 0;
        free_count += is_free ? length : 0;
        free_runs += is_free;
        page += length;
    }
    for (uint32_t order = 0; order < ORDER_COUNT; order++) {
        if ((buddy->lists[order] != NONE) != ((buddy->order_bits >> order & 1) != 0)) {
            return false;
        }
        uint32_t before = NONE;
        for (uint32_t page = buddy->lists[order]; page != NONE; before = page, page = buddy->after[page]) {
            if (++listed_runs > free_runs || buddy->tags[page] != (TAG_FREE | order) ||
                buddy->before[page] != before) {
                return false;
            }
        }
    }
    return free_count == buddy->free_count && listed_runs == free_runs;
}
