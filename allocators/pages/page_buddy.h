/* SPDX-License-Identifier: Apache-2.0 */
/* Binary buddy over page numbers [0, page_count): runs of 2^k pages, aligned to their length, merged by one
   xor. What a page is, the owner says. Its tables are touched where runs begin, and nowhere else. Not
   thread-safe: the owner locks. */
#ifndef DAO_ALLOCATORS_PAGE_BUDDY_H
#define DAO_ALLOCATORS_PAGE_BUDDY_H

#include <dao/status.h>

/* Largest order: runs of up to 2^DAO_PAGE_BUDDY_ORDER_MAX pages. */
#define DAO_PAGE_BUDDY_ORDER_MAX 26

typedef struct dao_page_buddy dao_page_buddy_t;

/* page_count: 1 to 2^DAO_PAGE_BUDDY_ORDER_MAX, any number. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_page_buddy_create(uint32_t page_count, dao_page_buddy_t **out_buddy);
void dao_page_buddy_destroy(dao_page_buddy_t *buddy); /* NULL is allowed */

/* Takes a run of 2^order pages. DAO_ERR_LIMIT if there is none, without a message. O(orders), needs no
   memory. */
DAO_NODISCARD dao_status_t dao_page_buddy_alloc(dao_page_buddy_t *buddy, uint32_t order, uint32_t *out_page);

/* Releases the run that starts at a page, with the order it was taken with. DAO_ERR_DOUBLE_FREE,
   DAO_ERR_INTERIOR_POINTER (a run of another start or order), DAO_ERR_FOREIGN_POINTER. */
dao_status_t dao_page_buddy_free(dao_page_buddy_t *buddy, uint32_t page, uint32_t order);

/* Makes 2^order used runs of one page each out of a used run, so that they can be given back one by one.
   Errors as dao_page_buddy_free(). O(2^order). */
dao_status_t dao_page_buddy_split(dao_page_buddy_t *buddy, uint32_t page, uint32_t order);

uint32_t dao_page_buddy_page_count(const dao_page_buddy_t *buddy);
uint32_t dao_page_buddy_free_count(const dao_page_buddy_t *buddy);         /* free pages */
uint32_t dao_page_buddy_largest_free_order(const dao_page_buddy_t *buddy); /* UINT32_MAX if nothing is free */
bool dao_page_buddy_is_free_run(const dao_page_buddy_t *buddy, uint32_t page); /* a free run begins there */
bool dao_page_buddy_is_valid(const dao_page_buddy_t *buddy);

/* Returns the order of the run that begins at a page, free or used. */
uint32_t dao_page_buddy_run_order(const dao_page_buddy_t *buddy, uint32_t page);

#endif
