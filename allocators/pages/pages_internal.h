/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of pages, for pages.c and pages_look.c. What holds between calls is said in pages.c. */
#ifndef DAO_ALLOCATORS_PAGES_INTERNAL_H
#define DAO_ALLOCATORS_PAGES_INTERNAL_H

#include "allocators/pages/page_buddy.h"
#include "allocators/pages/pages.h"

#define NONE 0u

/* Most pages of a run: 1 GiB in pages of 2 MiB. */
#define RUN_ORDER_MAX 9u
#define RUN_PAGE_MAX  (1u << RUN_ORDER_MAX)

#define WORD_BITS 64u

typedef struct page {
    dao_backend_pages_t *handle;
    uint32_t place;
    uint32_t home; /* the place it was moved from by the call under way */
    uint32_t next; /* in the list of idle pages */
    bool fresh;    /* created by the call under way */
} page_t;

typedef struct window {
    char *address;
    uint32_t *page_at;
    uint64_t *mapped;      /* a bit a place */
    uint64_t *surveyed;    /* a bit a place: mapped and free, as of the latest survey */
    uint32_t mapped_end;   /* of this window's places */
    uint32_t mapped_floor; /* all places below have a page, this one has none */
    uint32_t mapped_count; /* places that have one */
} window_t;

struct dao_pages {
    dao_pages_config_t config;
    dao_page_buddy_t *buddy;
    page_t *table; /* by page numbers */
    window_t windows[DAO_PAGES_WINDOW_MAX];
    uint32_t window_count;

    uint32_t mapped_count;
    uint32_t idle_count;
    uint32_t idle_first; /* a queue, so that a run is mapped in its order */
    uint32_t idle_last;
    uint32_t free_count; /* places with a bit in `surveyed` */
    dao_pages_counts_t counts;
    dao_backend_pages_t *run[RUN_PAGE_MAX]; /* the handles of the run that is being created or mapped */
};

/* Returns the number of a window's place. */
static inline uint32_t place_of(const dao_pages_t *pages, uint32_t window, uint64_t local)
{
    return window * pages->config.place_count + (uint32_t)local + 1;
}

static inline window_t *window_of(dao_pages_t *pages, uint32_t place)
{
    return &pages->windows[(place - 1) / pages->config.place_count];
}

/* Returns a place's number in its window, from 0 on. */
static inline uint32_t local_of(const dao_pages_t *pages, uint32_t place)
{
    return (place - 1) % pages->config.place_count;
}

/* Returns the page at a place, or NONE. */
static inline uint32_t page_at(const dao_pages_t *pages, uint32_t place)
{
    const window_t *window = &pages->windows[(place - 1) / pages->config.place_count];
    return window->page_at[local_of(pages, place)];
}

static inline void *place_address(const dao_pages_t *pages, uint32_t place)
{
    const window_t *window = &pages->windows[(place - 1) / pages->config.place_count];
    return window->address + local_of(pages, place) * pages->config.page_bytes;
}

/* ---- which mapped pages are free: pages_look.c ---- */

/* Finds all free pages that are mapped, but for those that stay where they are. */
void dao_pages_survey(dao_pages_t *pages, const dao_pages_ranges_t *ranges);

/* Takes free pages side by side out of the survey, at most `most`: those that end with the highest address,
   last window first. Returns the first one's place, and how many; NONE if there is none. */
uint32_t dao_pages_surveyed_pop(dao_pages_t *pages, uint32_t most, uint32_t *out_count);

#endif
