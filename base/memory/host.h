/* SPDX-License-Identifier: Apache-2.0 */
/* The library's own small allocations and the system's large ones, each behind a fault point. */
#ifndef DAO_BASE_HOST_H
#define DAO_BASE_HOST_H

#include <stdbool.h>
#include <stddef.h>

/* Gives zeroed memory, or NULL. Both arguments at least 1; their product may overflow, which gives NULL. */
void *dao_host_calloc(size_t count, size_t size_bytes);

/* Changes the size of what dao_host_calloc() gave (NULL: nothing yet); new bytes are not zeroed. NULL leaves
   it as it was. */
void *dao_host_realloc(void *address, size_t count, size_t size_bytes);

/* Copies a string, or gives NULL. */
char *dao_host_strdup(const char *text);

/* Gives memory aligned to `alignment_bytes` (a power of two), not zeroed; size_bytes is a multiple of it.
   NULL if refused. */
void *dao_host_aligned(size_t size_bytes, size_t alignment_bytes);

/* Frees what the four above gave; NULL is allowed. */
void dao_host_free(void *address);

/* Gives what malloc keeps for itself back to the system, as far as whole pages of it are free. Takes long. */
void dao_host_give_back(void);

/* Gives the bytes of memory that the machine has. */
size_t dao_host_total_bytes(void);

/* Reserves address space without memory behind it, aligned to `alignment_bytes` (a power of two); NULL if
   refused. */
void *dao_host_reserve(size_t size_bytes, size_t alignment_bytes);

/* Gives zeroed pages, aligned, taken from the system when they are touched, in huge pages where the system
   has them; NULL if refused. */
void *dao_host_map(size_t size_bytes, size_t alignment_bytes);

/* Gives zeroed pages, each taken from the system when it is touched, so that no touch takes long; NULL if
   refused. */
void *dao_host_map_pages(size_t size_bytes);

/* Makes what dao_host_map_pages() gave larger, at another address if need be, without copying. NULL leaves it
   as it was. */
void *dao_host_grow_pages(void *address, size_t size_bytes, size_t larger_bytes);

/* Puts zeroed pages behind a part of what dao_host_reserve() gave. False if the system refuses: nothing is
   changed. */
bool dao_host_map_at(void *address, size_t size_bytes);

/* Moves pages with their bytes from what dao_host_map() gave to a part of what dao_host_reserve() gave, and
   gives up the old addresses. False if the system refuses: nothing is changed. */
bool dao_host_move(void *from, void *to, size_t size_bytes);

/* Moves pages with their bytes out of a reservation to an address of their own, which dao_host_unmap() takes.
   The old addresses stay reserved throughout. NULL if the system refuses: nothing is changed. */
void *dao_host_move_home(void *from, size_t size_bytes, size_t alignment_bytes);

/* Gives back what dao_host_reserve(), dao_host_map(), dao_host_map_pages() or dao_host_move_home() gave; or
   whole pages of it. */
void dao_host_unmap(void *address, size_t size_bytes);

#endif
