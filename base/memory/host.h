/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory: small allocations of the library's own by malloc, large ones by mmap, each behind a fault
   point. Every function that returns an address returns NULL if the system refuses. */
#ifndef DAO_BASE_HOST_H
#define DAO_BASE_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns zeroed memory. Both arguments are at least 1; an overflow of their product is a refusal. */
void *dao_host_calloc(size_t count, size_t size_bytes);

/* Resizes a block of dao_host_calloc(), or allocates one for NULL. New bytes are not zeroed. A refusal leaves
   the block as it was. */
void *dao_host_realloc(void *address, size_t count, size_t size_bytes);

/* Returns a copy of a string. */
char *dao_host_strdup(const char *text);

/* Returns memory aligned to `alignment_bytes`, a power of two, not zeroed; size_bytes is a multiple of it. */
void *dao_host_aligned(size_t size_bytes, size_t alignment_bytes);

/* Frees a block of the four functions above; NULL is allowed. */
void dao_host_free(void *address);

/* Returns free whole pages that malloc keeps to the system. Slow. */
void dao_host_give_back(void);

/* Returns a size in whole pages of the system, as mmap and munmap have it. */
size_t dao_host_whole_pages(size_t size_bytes);

/* Returns the machine's memory in bytes. */
size_t dao_host_total_bytes(void);

/* Tables of at least so many bytes are mapped by dao_host_sparse(), and take memory page by page. */
#define DAO_HOST_SPARSE_BYTES ((size_t)32 << 10)

/* Returns zeroed memory for a table of which most may never be touched. Freed by dao_host_sparse_free() with
   the same size; NULL is allowed. */
void *dao_host_sparse(size_t count, size_t size_bytes);

/* Changes the number of entries of such a table; NULL is one without any. New entries are not zeroed. A
   refusal leaves the table as it was; a mapped table that stays one is never refused fewer entries. */
void *dao_host_sparse_resize(void *address, size_t count, size_t new_count, size_t size_bytes);
void dao_host_sparse_free(void *address, size_t count, size_t size_bytes);

/* Reserves address space without memory behind it, aligned to `alignment_bytes`, a power of two. */
void *dao_host_reserve(size_t size_bytes, size_t alignment_bytes);

/* Maps zeroed memory, aligned; pages are taken when they are touched, huge ones where the system has them. */
void *dao_host_map(size_t size_bytes, size_t alignment_bytes);

/* As dao_host_map(), without huge pages: no single touch takes long. */
void *dao_host_map_pages(size_t size_bytes);

/* Enlarges a mapping of dao_host_map_pages() without copying, at another address if need be. A refusal leaves
   it as it was. */
void *dao_host_grow_pages(void *address, size_t size_bytes, size_t larger_bytes);

/* Puts zeroed pages behind a part of a reservation. Returns false, with nothing changed, if refused. */
bool dao_host_map_at(void *address, size_t size_bytes);

/* Moves the pages of a mapping of dao_host_map(), with their bytes, to a part of a reservation; the old
   addresses are released. Returns false, with nothing changed, if refused. */
bool dao_host_move(void *from, void *to, size_t size_bytes);

/* Returns true if the system maps shared memory once more; valgrind 3.19 does not. */
bool dao_host_has_aliases(void);

/* Replaces part of a mapping by memory that dao_host_alias() can map once more; its bytes are lost. Returns
   false, with nothing changed, if refused. */
bool dao_host_share(void *address, size_t size_bytes);

/* Maps memory of dao_host_share() at a part of a reservation, too. The same. */
bool dao_host_alias(void *address, void *to, size_t size_bytes);

/* Moves pages with their bytes out of a reservation to a new mapping, which dao_host_unmap() takes. The old
   addresses stay reserved throughout. A refusal changes nothing. */
void *dao_host_move_home(void *from, size_t size_bytes, size_t alignment_bytes);

/* Gives the memory behind whole pages of a mapping back: they are zero when they are touched next. Where the
   system refuses, they stay as they are. */
void dao_host_discard(void *address, size_t size_bytes);

/* Unmaps a reservation or mapping of the functions above, or whole pages of one. */
void dao_host_unmap(void *address, size_t size_bytes);

/* Returns true if bytes of a file that end there would pass the process's limit of file sizes, that of memory
   with a descriptor included. The system answers such a write with SIGXFSZ, which ends the process. */
bool dao_host_file_is_limited(uint64_t offset_bytes, size_t size_bytes);

#endif
