/* SPDX-License-Identifier: Apache-2.0 */
/* Placement of blocks over offsets [0, capacity): touches no memory that it manages. Good fit takes the hole
   of lowest address among the first ones of the bins that fit; on random sizes of tensors that needs less
   memory than best fit (docs/allocators.md). Free neighbours are merged at once. Not thread-safe: the owner
   locks.

   A block may be freed while streams still use it: its free part then carries a fence (stream_fence.h).
   Neighbours whose fences name the same streams are merged; others stay apart until their fences are settled
   or dao_range_join() is asked for, so that what one stream fences does not spread to what others could
   have. */
#ifndef DAO_ALLOCATORS_RANGE_H
#define DAO_ALLOCATORS_RANGE_H

#include "allocators/stream_fence.h"

/* Offsets and sizes are multiples of this many bytes. */
#define DAO_RANGE_GRANULE 256u

/* Most bytes of a range. */
#define DAO_RANGE_CAPACITY_MAX (UINT64_C(1) << 40)

/* Holes of one bin that are looked at for a request: this bounds what a refused one costs. They differ by
   less than a sixteenth, and a larger bin has what this one may lack. So many looks cost less than the
   message of a refusal. */
#define DAO_RANGE_LOOKS_MAX 256u

typedef struct dao_range dao_range_t;

/* How a hole is chosen. */
typedef enum dao_range_fit {
    DAO_RANGE_FIT_GOOD = 0, /* the lowest of the first few that fit; O(1), unless a request is tight */
    DAO_RANGE_FIT_BEST = 1, /* the smallest that fits, the lowest among equals; O(holes of a bin) */
} dao_range_fit_t;

typedef struct dao_range_config {
    uint64_t capacity_bytes; /* a multiple of the granule, at least one, at most DAO_RANGE_CAPACITY_MAX */
    uint64_t base; /* address of offset 0, a multiple of the granule: alignments are those of addresses */
    dao_range_fit_t fit;
    bool is_indexed; /* finds the block around any offset quickly; costs about a tenth of each call */
    bool is_parts;   /* begins with nothing in it, not indexed: parts are added and removed */
} dao_range_config_t;

typedef struct dao_range_request {
    uint64_t size_bytes;      /* at least 1; rounded up to the granule */
    uint64_t alignment_bytes; /* a power of two; 0 is the granule */
    uint64_t user;            /* the owner's own number */
    uint32_t stream;          /* takes parts that only this stream fences; 0: unfenced parts alone */
    bool takes_fenced;        /* takes fenced parts as if they were not */
    bool is_tight;            /* good fit: takes a hole that keeps large ones */
} dao_range_request_t;

typedef struct dao_range_grant {
    uint64_t offset_bytes;
    dao_stream_fence_t fence; /* of the part that was taken, request.stream among them */
} dao_range_grant_t;

/* A free or used part of the range. */
typedef struct dao_range_block {
    uint64_t offset_bytes;
    uint64_t size_bytes;
    uint64_t user; /* the owner's own number; 0 while free */
    uint32_t id;   /* of this part, until the next change of the range */
    bool is_free;
    dao_stream_fence_t fence; /* free: what is to be waited for; used: the streams marked on it */
} dao_range_block_t;

/* DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_range_create(const dao_range_config_t *config, dao_range_t **out_range);
void dao_range_destroy(dao_range_t *range); /* NULL is allowed */

/* Takes a block. Answers DAO_ERR_LIMIT without a message if no hole is large enough, or none of the first
   DAO_RANGE_LOOKS_MAX of each bin, but for best fit; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_range_alloc(dao_range_t *range, const dao_range_request_t *request,
                                           dao_range_grant_t *out_grant);

/* Takes exactly [offset, offset + size), both multiples of the granule, if none of it is fenced.
   DAO_ERR_LIMIT if any of it is used or fenced; DAO_ERR_NO_HOST_MEMORY. O(1) if the range is indexed, else
   O(blocks). */
DAO_NODISCARD dao_status_t dao_range_alloc_at(dao_range_t *range, uint64_t offset_bytes, uint64_t size_bytes,
                                              uint64_t user);

/* As dao_range_alloc_at(), in O(1), for the free part with that id, which contains it. */
DAO_NODISCARD dao_status_t dao_range_alloc_in(dao_range_t *range, uint32_t id, uint64_t offset_bytes,
                                              uint64_t size_bytes, uint64_t user);

/* Takes exactly [offset, offset + size) out of free parts: parts that are not fenced, that only
   request.stream fences, or any that are free if request.takes_fenced. What is left of them keeps its own
   fence. The offset is a multiple of the granule, the size is rounded up to it, alignment is not looked at.
   DAO_ERR_LIMIT if any of it is used, or fenced by others; DAO_ERR_NO_HOST_MEMORY. The cost of
   dao_range_alloc_at(), and a step for each part. */
DAO_NODISCARD dao_status_t dao_range_alloc_over(dao_range_t *range, uint64_t offset_bytes,
                                                const dao_range_request_t *request,
                                                dao_stream_fence_t *out_fence);

/* Releases the used block that starts at an offset, and tells what it was. `fence`, if not NULL, says who
   may still use it; streams that were marked on the block are added to it. DAO_ERR_DOUBLE_FREE: the offset
   lies in free space; DAO_ERR_INTERIOR_POINTER: it lies inside a used block; DAO_ERR_FOREIGN_POINTER: it is
   not in the range. Never needs memory. */
dao_status_t dao_range_free(dao_range_t *range, uint64_t offset_bytes, dao_stream_fence_t *fence,
                            dao_range_block_t *out_block);

/* The same for a block whose `user` has this mark from DAO_RANGE_MARK_SHIFT up. DAO_ERR_NOT_YOURS if it has
   not: nothing is changed. */
#define DAO_RANGE_MARK_SHIFT 57u
dao_status_t dao_range_free_marked(dao_range_t *range, uint64_t offset_bytes, uint64_t mark,
                                   dao_stream_fence_t *fence, dao_range_block_t *out_block);

/* Marks the used block that starts at an offset as used by one more stream. The statuses of
   dao_range_free(). */
dao_status_t dao_range_mark(dao_range_t *range, uint64_t offset_bytes, uint32_t stream);

/* Returns the used block that starts at an offset another number of its owner's. The statuses of
   dao_range_free(). O(1). */
dao_status_t dao_range_renumber(dao_range_t *range, uint64_t offset_bytes, uint64_t user);

/* Announces a stream that is going to fence parts, as a request for it does: they will be found and settled
   in its order. Without memory they are only slower to find. */
void dao_range_announce(dao_range_t *range, uint32_t stream);

/* Returns true if any free part is fenced. */
bool dao_range_has_fences(const dao_range_t *range);

/* Returns up to which epoch a stream's fences have passed. */
typedef uint64_t (*dao_range_done_epoch_t)(uint32_t stream, void *user);

/* Forgets up to `most` fences that all their streams have passed, and merges what they kept apart. Returns
   how many: if it is `most`, there may be more. Of each stream the fences that come behind one that has not
   passed are not looked at. O(those forgotten, and parts that several streams fence). */
uint32_t dao_range_settle(dao_range_t *range, dao_range_done_epoch_t done_epoch_of, void *user,
                          uint32_t most);

/* Merges all free neighbours, whatever their fences: each merged part carries those of all its parts.
   O(blocks). */
void dao_range_join(dao_range_t *range);

/* Gives back memory of the tables that nothing needs now. O(blocks). */
void dao_range_shrink(dao_range_t *range);

/* Returns the union of all fences. O(free parts); O(1) without fences. */
dao_stream_fence_t dao_range_all_fences(const dao_range_t *range);

/* Finds the block, free or used, that an offset lies in. DAO_ERR_FOREIGN_POINTER outside of the range. O(1)
   for the start of a used block; for others O(1) if the range is indexed, else O(blocks). */
dao_status_t dao_range_query(const dao_range_t *range, uint64_t offset_bytes, dao_range_block_t *out_block);

/* Sees all blocks, free and used, in order of address; stops when `visit` answers false. */
typedef bool (*dao_range_visit_t)(const dao_range_block_t *block, void *user);
void dao_range_walk(const dao_range_t *range, dao_range_visit_t visit, void *user);

/* Sees the free blocks, larger ones first, but for those that differ by less than a sixteenth: they come in
   any order. */
void dao_range_walk_holes(const dao_range_t *range, dao_range_visit_t visit, void *user);

/* Sees the free blocks from a size of at least 1 on, smaller ones first, but for those that differ by less
   than a sixteenth: of these at most DAO_RANGE_LOOKS_MAX. */
void dao_range_walk_holes_from(const dao_range_t *range, uint64_t least_bytes, dao_range_visit_t visit,
                               void *user);

/* ---- ranges of parts ---- */

/* Parts begin in different pages of this many bytes. */
#define DAO_RANGE_PAGE_BYTES DAO_PAGE_BYTES

/* Where a part may be added. */
typedef struct dao_range_place {
    uint64_t offset_bytes; /* a multiple of DAO_RANGE_PAGE_BYTES */
    uint32_t gap;
} dao_range_place_t;

/* Finds the lowest place for size_bytes, a multiple of the granule, and makes room for adding them.
   DAO_ERR_LIMIT without a message: there is none; DAO_ERR_NO_HOST_MEMORY. The place holds until the range is
   changed. O(parts). */
DAO_NODISCARD dao_status_t dao_range_part_find(dao_range_t *range, uint64_t size_bytes,
                                               dao_range_place_t *out_place);

/* Adds a free part at a place that was found, whose offset may have been raised within what was found. No
   block is ever merged with those of another part, and no page holds bytes of two parts. Returns the part's
   id. Needs no memory. */
uint32_t dao_range_part_add(dao_range_t *range, const dao_range_place_t *place, uint64_t size_bytes);

/* Returns true if a part is one free block, not fenced. O(1). */
bool dao_range_part_is_free(const dao_range_t *range, uint32_t part);

/* Removes such a part. Needs no memory. */
void dao_range_part_remove(dao_range_t *range, uint32_t part);

/* As dao_range_query(), for an offset in a part: O(blocks of the part). */
dao_status_t dao_range_part_query(const dao_range_t *range, uint32_t part, uint64_t offset_bytes,
                                  dao_range_block_t *out_block);

/* ---- what a range has ---- */

uint64_t dao_range_capacity(const dao_range_t *range);
uint64_t dao_range_used(const dao_range_t *range);   /* bytes of used blocks */
uint64_t dao_range_fenced(const dao_range_t *range); /* bytes of free parts with a fence */
/* Bytes of the largest free part, or, where more than DAO_RANGE_LOOKS_MAX are in its bin, of one that is less
   than a sixteenth smaller. */
uint64_t dao_range_largest_hole(const dao_range_t *range);
bool dao_range_is_valid(const dao_range_t *range);

#endif
