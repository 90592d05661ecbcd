/* Placement of blocks over offsets [0, capacity): touches no memory that it manages. Good fit over bins with a bitmap,
   lowest address among the first that fit; free neighbours are merged at once. Not thread-safe: the owner locks.

   Design: prior measurements put this rule 3 to 7 % below best fit and TLSF on tensor sizes. */
#ifndef DAO_ALLOCATORS_RANGE_H
#define DAO_ALLOCATORS_RANGE_H

#include <dao/status.h>

/* Offsets and sizes are multiples of this many bytes. */
#define DAO_RANGE_GRANULE 256u

/* Most bytes of a range. */
#define DAO_RANGE_CAPACITY_MAX (UINT64_C(1) << 40)

typedef struct dao_range dao_range_t;

/* A free or used part of the range. Neighbours are never both free. */
typedef struct dao_range_block {
    uint64_t offset_bytes;
    uint64_t size_bytes;
    uint64_t user; /* the owner's own number; 0 while free */
    bool is_free;
} dao_range_block_t;

/* capacity_bytes: at least one granule, at most DAO_RANGE_CAPACITY_MAX; a multiple of the granule. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_range_create(uint64_t capacity_bytes, dao_range_t **out_range);
void dao_range_destroy(dao_range_t *range); /* NULL is allowed */

/* Takes a block of size_bytes rounded up to the granule, at a multiple of alignment_bytes (a power of two; 0 is the
   granule). Answers DAO_ERR_LIMIT if no hole is large enough, without a message; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_range_alloc(dao_range_t *range, uint64_t size_bytes, uint64_t alignment_bytes,
                                           uint64_t user, uint64_t *out_offset_bytes);

/* Takes exactly [offset, offset + size), both multiples of the granule. DAO_ERR_LIMIT if any of it is used;
   DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_range_alloc_at(dao_range_t *range, uint64_t offset_bytes, uint64_t size_bytes,
                                              uint64_t user);

/* Gives back the used block that starts at an offset. DAO_ERR_DOUBLE_FREE: the offset lies in free space;
   DAO_ERR_INTERIOR_POINTER: it lies inside a used block; DAO_ERR_FOREIGN_POINTER: it is not in the range. Never needs memory. */
dao_status_t dao_range_free(dao_range_t *range, uint64_t offset_bytes);

/* As dao_range_free(), and tells what the block was, in one look-up. */
dao_status_t dao_range_free_block(dao_range_t *range, uint64_t offset_bytes, dao_range_block_t *out_block);

/* Finds the block, free or used, that an offset lies in. DAO_ERR_FOREIGN_POINTER outside of the range. O(blocks) is allowed
   for an interior offset, O(1) for the start of a used block. */
dao_status_t dao_range_query(const dao_range_t *range, uint64_t offset_bytes, dao_range_block_t *out_block);

/* Sees all blocks, free and used, in order of address; stops when `visit` answers false. */
typedef bool (*dao_range_visit_t)(const dao_range_block_t *block, void *user);
void dao_range_walk(const dao_range_t *range, dao_range_visit_t visit, void *user);

/* Sees the free blocks, larger ones first, but for those that differ by less than a sixteenth: they come in any order. */
void dao_range_walk_holes(const dao_range_t *range, dao_range_visit_t visit, void *user);

uint64_t dao_range_capacity(const dao_range_t *range);
uint64_t dao_range_used(const dao_range_t *range);         /* bytes of used blocks */
uint64_t dao_range_largest_hole(const dao_range_t *range); /* bytes of the largest free block; O(its bin) */
bool dao_range_is_valid(const dao_range_t *range);

#endif
