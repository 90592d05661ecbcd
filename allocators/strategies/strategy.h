/* SPDX-License-Identifier: Apache-2.0 */
/* What the strategies that place whole blocks share: binary_buddy.c, size_class.c, system.c. A strategy is a
   placer, which hands out pieces of memory; everything else that an allocator owes is done once, in
   strategy.c: the lock, counters, limits, the table of live blocks, deferred frees, errors.

   What they hand out nobody uses any more, which suits a request of any stream; a free waits for nobody.
   Frees in stream order, and leases, are stream_ordered.c's, which stands in front of them where there are
   streams.
   */
#ifndef DAO_ALLOCATORS_STRATEGY_H
#define DAO_ALLOCATORS_STRATEGY_H

#include "allocators/accounting/block_map.h"
#include "allocators/allocator.h"
#include "allocators/segments/segments.h"

/* What an allocator is created from. */
typedef struct dao_strategy_config {
    const char *name;         /* the place, for messages; copied */
    dao_budget_t *budget;     /* that reserved_bytes are taken from; borrowed; NULL: none */
    dao_upstream_t upstream;  /* its user outlives the allocator */
    dao_status_t full_status; /* for requests that can never be held */
    size_t
        alignment_bytes; /* of all that the upstream gives, and of every block; a power of two, at least 64 */
    size_t segment_bytes;    /* smallest that is taken at once; 0 is the strategy's own. Binary buddy alone */
    size_t initial_bytes;    /* taken at the start, in one piece. Binary buddy alone */
    size_t limit_bytes;      /* as for limit_set */
    uint64_t capacity_bytes; /* of the device: a request of more can never fit; 0: it is no device */
} dao_strategy_config_t;

/* Most bytes of a block. */
#define DAO_STRATEGY_BLOCK_BYTES_MAX DAO_RANGE_CAPACITY_MAX

/* Textbook binary buddy: binary_buddy.c. Blocks of 2^k bytes, from DAO_BINARY_BUDDY_BLOCK_BYTES up, cut from
   chunks that are powers of two as well; segment_bytes is the usual chunk, a power of two. Whole free chunks
   are kept until they are trimmed. */
#define DAO_BINARY_BUDDY_BLOCK_BYTES 256u
#define DAO_BINARY_BUDDY_CHUNK_BYTES ((size_t)64 << 20)
DAO_NODISCARD dao_status_t dao_binary_buddy_create(const dao_strategy_config_t *config,
                                                   dao_allocator_t **out_allocator);

/* Blocks of 11 sizes that are never cut or merged: size_class.c. */
DAO_NODISCARD dao_status_t dao_size_class_create(const dao_strategy_config_t *config,
                                                 dao_allocator_t **out_allocator);

/* One call of the upstream for each block, nothing is kept: system.c. */
DAO_NODISCARD dao_status_t dao_system_create(const dao_strategy_config_t *config,
                                             dao_allocator_t **out_allocator);

/* ---- for the strategies themselves ---- */

typedef struct dao_placer dao_placer_t;

/* Memory from the upstream under the place's limit, counted as reserved. */
typedef struct dao_supply {
    dao_upstream_t upstream;
    dao_status_t full_status;
    size_t alignment_bytes;
    dao_ledger_t *ledger;
    dao_placer_t *placer; /* is asked to release what is idle when memory is short */
} dao_supply_t;

/* Bytes that may still be reserved, under the place's limit and the budget; the part that the budget
   leaves. */
uint64_t dao_supply_room(const dao_supply_t *supply);
uint64_t dao_supply_budget_room(const dao_supply_t *supply);

/* Releases idle memory where the limit leaves less than size_bytes: DAO_ERR_LIMIT if that cannot help. */
DAO_NODISCARD dao_status_t dao_supply_make_room(dao_supply_t *supply, size_t size_bytes);

/* Takes size_bytes, for which there is room. Where the upstream has nothing left and `presses` is true,
   releases what is idle and asks once more. The upstream's answer. */
DAO_NODISCARD dao_status_t dao_supply_take(dao_supply_t *supply, size_t size_bytes, bool presses,
                                           dao_piece_t *out_piece);

/* Releases what was taken. If the upstream refuses, nothing is changed. */
dao_status_t dao_supply_give(dao_supply_t *supply, const dao_piece_t *piece);

/* Bytes that hold size_bytes at a multiple of alignment_bytes wherever the upstream puts them. */
size_t dao_supply_padded(const dao_supply_t *supply, size_t size_bytes, size_t alignment_bytes);

/* A piece, as walks show it. */
typedef struct dao_placed {
    dao_piece_t piece;
    bool is_used;        /* it is handed out */
    bool begins_segment; /* as in dao_block_t */
} dao_placed_t;

typedef void (*dao_placed_visit_t)(const dao_placed_t *placed, void *user);

/* Hands out pieces. Called with the allocator's lock held; its memory is never touched. */
typedef struct dao_placer_ops {
    const char *name; /* of the strategy */

    /* Optional: takes the first memory. */
    dao_status_t (*start)(dao_placer_t *placer, size_t initial_bytes);

    /* Bytes of the piece that take() would give now. */
    size_t (*block_bytes)(const dao_placer_t *placer, size_t size_bytes, size_t alignment_bytes);

    /* Returns a piece that holds size_bytes at a multiple of alignment_bytes. A failure, with its message,
       changes nothing but that idle memory may have been released. */
    dao_status_t (*take)(dao_placer_t *placer, size_t size_bytes, size_t alignment_bytes,
                         dao_piece_t *out_piece);

    /* Takes a piece back; needs no memory. Fails only where the upstream is called and refuses. */
    dao_status_t (*give)(dao_placer_t *placer, const dao_piece_t *piece);

    /* Bytes that release() could give back, and giving back at least wanted_bytes of them or all: it is asked
       where there are such bytes, and is NULL where there never are. */
    uint64_t (*idle_bytes)(const dao_placer_t *placer);
    dao_status_t (*release)(dao_placer_t *placer, uint64_t wanted_bytes);

    /* The largest request that needs no upstream. */
    uint64_t (*largest_hole)(const dao_placer_t *placer);

    /* Sees what it keeps free, and if walks_used what it has handed out as well: segment by segment, in order
       of address. */
    void (*walk)(const dao_placer_t *placer, dao_placed_visit_t visit, void *user);
    bool walks_used; /* pieces share segments; else each is one of its own */

    /* Returns true if a free stretch begins at an address. */
    bool (*is_hole)(const dao_placer_t *placer, const void *address);

    /* Checks everything, with so many bytes handed out; adds the bytes from the upstream. */
    bool (*is_valid)(const dao_placer_t *placer, uint64_t used_bytes, uint64_t *reserved_bytes);

    /* Releases all memory; every piece has been given before. */
    void (*destroy)(dao_placer_t *placer);
} dao_placer_ops_t;

/* The first member of every placer. */
struct dao_placer {
    const dao_placer_ops_t *ops;
    dao_supply_t *supply; /* the allocator's own */
};

/* Makes an allocator of a placer and takes it over, after a failure too. DAO_ERR_NO_HOST_MEMORY, or what
   start answers. */
DAO_NODISCARD dao_status_t dao_strategy_create(const dao_strategy_config_t *config, dao_placer_t *placer,
                                               dao_allocator_t **out_allocator);

#endif
