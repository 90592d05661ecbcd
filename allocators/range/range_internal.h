/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a range, for the files range*.c: nodes, bins, map, link. What holds between calls is said in
   range.c. */
#ifndef DAO_ALLOCATORS_RANGE_INTERNAL_H
#define DAO_ALLOCATORS_RANGE_INTERNAL_H

#include "allocators/range/range.h"

#include "base/numbers/path.h"
#include "base/report/assert.h"

#include <assert.h>
#include <float.h>
#include <stddef.h>
#include <string.h>

/* No node: link 0 is the sentinel, which comes before the first block and after the last one, begins behind
   all others and is never free. */
#define DAO_RANGE_NONE 0u

#define UNIT_SHIFT      8
#define WORD_BITS       64u
#define PAGE_UNIT_SHIFT 13 /* a page of the index is 2 MiB */

/* A bin's number is what the doubles of its sizes begin with, exponent and SUB_BIN_SHIFT bits behind the
   point: so finding a size's bin takes a conversion and a shift. Numbers begin a bit below that of size 1, at
   a word of bin_words. */
#define SUB_BIN_SHIFT  4
#define SIZE_BIN_SHIFT (DBL_MANT_DIG - 1 - SUB_BIN_SHIFT)
#define BIN_WORD_FIRST (((size_t)(DBL_MAX_EXP - 1) << SUB_BIN_SHIFT) / WORD_BITS)
#define BIN_FIRST      (BIN_WORD_FIRST * WORD_BITS)
#define BIN_WORDS      9u /* sizes of up to 2^33 - 1 units */
#define BIN_END        (BIN_FIRST + BIN_WORDS * WORD_BITS)
#define BIN_COUNT      (BIN_END - BIN_FIRST)

static_assert(sizeof(double) == sizeof(uint64_t) && DBL_MANT_DIG == 53 && DBL_MAX_EXP == 1024,
              "a double is that of IEEE 754");
static_assert(BIN_END == (DBL_MAX_EXP - 1 + 33) << SUB_BIN_SHIFT,
              "2^33 would be in the first bin that is none");
static_assert(BIN_END <= UINT16_MAX, "a node has room for its bin's number");
static_assert(1u << UNIT_SHIFT == DAO_RANGE_GRANULE, "a unit is a granule");
static_assert(DAO_RANGE_CAPACITY_MAX >> UNIT_SHIFT <= UINT64_C(1) << 32, "offsets fit 32 bits");

typedef enum dao_range_state {
    NODE_UNUSED = 0, /* stands for no block */
    NODE_FREE = 1,   /* and not fenced */
    NODE_FENCED = 2, /* free, and its entry of `fences` is not empty */
    NODE_GAP = 3,    /* nothing is there, see range_parts.c */
    NODE_USED = 4,   /* used, as all from here on */
    NODE_MARKED = 5, /* and streams are marked on it in `fences` */
    NODE_BORDER = 6,
} dao_range_state_t;

/* A link is the place of a node in the table, in bytes: so that going there takes one addition. */
typedef struct dao_range_node {
    uint64_t size_units; /* 64 bits: the whole range may be 2^32 units */
    uint32_t offset_units;
    uint32_t before; /* neighbours by address, in a ring through the sentinel */
    uint32_t after;
    uint16_t bin; /* while free */
    uint16_t state;
    union {
        struct {
            uint32_t bin_before; /* while free */
            uint32_t bin_after;  /* also chains unused nodes */
        };
        uint64_t user; /* while used: the owner's own number */
    };
} dao_range_node_t;

static_assert(sizeof(dao_range_node_t) == 32, "two nodes a cache line");

/* Where the table has nodes behind the sentinel and the bins. */
#define NODES_BEGIN (sizeof(dao_range_node_t) + BIN_COUNT * sizeof(uint32_t))

static_assert(NODES_BEGIN % sizeof(dao_range_node_t) == 0, "the bins take the room of so many nodes");

struct dao_range {
    /* looked at by every call */
    unsigned char *table; /* the sentinel, the first link of each bin, then the other nodes */
    uint32_t *starts;     /* of each cell of addresses the first used node that begins there, or NONE */
    uint64_t used_units;
    uint32_t unused;       /* the first of the unused nodes */
    uint32_t fenced_count; /* free nodes with a fence */
    uint64_t bin_words[BIN_WORDS];

    dao_range_config_t config;
    uint64_t capacity_units;
    uint64_t base_units;
    bool is_plain;              /* good fit without an index */
    dao_stream_fence_t *fences; /* of each node */
    uint32_t node_count; /* room in the table and in fences, the sentinel and that of the bins included */
    uint32_t gaps;       /* the first of the gaps, or NONE */
    uint32_t page_count;
    uint32_t *firsts; /* the index, or NULL */
    uint64_t *page_words;
};

static DAO_ON_THE_PATH dao_range_node_t *dao_range_at(const dao_range_t *range, uint32_t link)
{
    return (dao_range_node_t *)(void *)(range->table + link);
}

static inline dao_stream_fence_t *dao_range_fence(const dao_range_t *range, uint32_t link)
{
    return &range->fences[link / sizeof(dao_range_node_t)];
}

/* ---- bins ---- */

/* The conversion is exact, whatever the way of rounding. */
static DAO_ON_THE_PATH size_t dao_range_bin_of(uint64_t size_units)
{
    double size = (double)(int64_t)size_units; /* from int64_t it is one instruction */
    uint64_t bits;
    memcpy(&bits, &size, sizeof(bits));
    return (size_t)(bits >> SIZE_BIN_SHIFT);
}

/* Returns the least size of a bin, which is at least 1. */
static inline uint64_t dao_range_bin_least(size_t bin)
{
    uint64_t bits = (uint64_t)bin << SIZE_BIN_SHIFT;
    double size;
    memcpy(&size, &bits, sizeof(size));
    return (uint64_t)size;
}

/* Returns the place of the link behind a node. That of a bin's first node is in the table as if it were such
   a one: so that taking a node out is the same wherever it is in its bin. */
static DAO_ON_THE_PATH uint32_t *dao_range_next_place(const dao_range_t *range, uint32_t link)
{
    return (uint32_t *)(void *)(range->table + link + offsetof(dao_range_node_t, bin_after));
}

/* Returns the place of a bin's first link. */
static DAO_ON_THE_PATH uint32_t *dao_range_bin_place(const dao_range_t *range, size_t bin)
{
    return (uint32_t *)(void *)(range->table +
                                (sizeof(dao_range_node_t) + (bin - BIN_FIRST) * sizeof(uint32_t)));
}

/* Returns the link of that node which is none. */
static DAO_ON_THE_PATH uint32_t dao_range_bin_link(size_t bin)
{
    return (uint32_t)(sizeof(dao_range_node_t) - offsetof(dao_range_node_t, bin_after) +
                      (bin - BIN_FIRST) * sizeof(uint32_t));
}

/* Returns the first node of a bin, or NONE. */
static DAO_ON_THE_PATH uint32_t dao_range_bin_first(const dao_range_t *range, size_t bin)
{
    return *dao_range_bin_place(range, bin);
}

static DAO_ON_THE_PATH void dao_range_bin_insert(dao_range_t *range, uint32_t link, size_t bin)
{
    dao_range_node_t *node = dao_range_at(range, link);
    uint32_t *first = dao_range_bin_place(range, bin);
    node->bin = (uint16_t)bin;
    node->bin_before = dao_range_bin_link(bin);
    node->bin_after = *first;
    dao_range_at(range, *first)->bin_before = link; /* the sentinel's is never read */
    *first = link;
    range->bin_words[bin / WORD_BITS - BIN_WORD_FIRST] |= UINT64_C(1) << bin % WORD_BITS;
}

/* The bit of a bin that gets empty stays: whoever comes by clears it. */
static DAO_ON_THE_PATH void dao_range_bin_remove(dao_range_t *range, uint32_t link)
{
    const dao_range_node_t *node = dao_range_at(range, link);
    dao_range_at(range, node->bin_after)->bin_before = node->bin_before; /* the sentinel's is never read */
    *dao_range_next_place(range, node->bin_before) = node->bin_after;
}

/* Puts a free node whose size has changed into its bin. */
static DAO_ON_THE_PATH void dao_range_bin_again(dao_range_t *range, uint32_t link)
{
    size_t bin = dao_range_bin_of(dao_range_at(range, link)->size_units);
    if (bin != dao_range_at(range, link)->bin) {
        dao_range_bin_remove(range, link);
        dao_range_bin_insert(range, link, bin);
    }
}

/* No bin. */
#define DAO_RANGE_NO_BIN 0u

/* Returns the first bin from `bin` on that may have nodes, or NO_BIN. */
static inline size_t dao_range_next_bin(const dao_range_t *range, size_t bin)
{
    size_t word = bin / WORD_BITS - BIN_WORD_FIRST;
    uint64_t bits = range->bin_words[word] & UINT64_MAX << bin % WORD_BITS;
    while (bits == 0 && ++word < BIN_WORDS) {
        bits = range->bin_words[word];
    }
    return bits != 0 ? BIN_FIRST + word * WORD_BITS + (size_t)__builtin_ctzll(bits) : DAO_RANGE_NO_BIN;
}

/* Returns the last bin before `bin` that has nodes, or NO_BIN. */
static inline size_t dao_range_previous_bin(const dao_range_t *range, size_t bin)
{
    while (bin > BIN_FIRST) {
        bin--;
        uint64_t bits = range->bin_words[bin / WORD_BITS - BIN_WORD_FIRST]
                        << (WORD_BITS - 1 - bin % WORD_BITS);
        bin -= bits != 0 ? (size_t)__builtin_clzll(bits) : bin % WORD_BITS;
        if (dao_range_bin_first(range, bin) != DAO_RANGE_NONE) {
            return bin;
        }
    }
    return DAO_RANGE_NO_BIN;
}

/* ---- from offsets to used nodes ---- */

/* Cells are small beside tensors, so that a cell mostly has one start, and many beside a cache line of their
   table. */
#define CELL_UNIT_SHIFT 8 /* 64 KiB */

/* Returns the node that begins at a unit, if that is a used block; another one otherwise. */
static DAO_ON_THE_PATH uint32_t dao_range_find_start(const dao_range_t *range, uint32_t offset_units)
{
    uint32_t link = range->starts[offset_units >> CELL_UNIT_SHIFT];
    while (dao_range_at(range, link)->offset_units < offset_units) {
        link = dao_range_at(range, link)->after;
    }
    return link;
}

/* Returns the node of the used block that starts at an offset, or NONE. */
static inline uint32_t dao_range_find_used(const dao_range_t *range, uint64_t offset_bytes)
{
    if (offset_bytes >= range->config.capacity_bytes || offset_bytes % DAO_RANGE_GRANULE != 0) {
        return DAO_RANGE_NONE;
    }
    uint32_t offset_units = (uint32_t)(offset_bytes >> UNIT_SHIFT);
    uint32_t link = dao_range_find_start(range, offset_units);
    const dao_range_node_t *node = dao_range_at(range, link);
    return node->offset_units == offset_units && node->state >= NODE_USED ? link : DAO_RANGE_NONE;
}

/* Enters a used node, which is linked to its neighbours. A cell without one has the sentinel, which begins
   behind all. */
static DAO_ON_THE_PATH void dao_range_start_add(dao_range_t *range, uint32_t link, uint32_t offset_units)
{
    uint32_t *start = &range->starts[offset_units >> CELL_UNIT_SHIFT];
    uint32_t first = *start;
    *start =
        dao_range_at(range, first)->offset_units >= offset_units ? link : first; /* nobody foresees which */
}

/* Takes a used node out, which is still linked to its neighbours. */
static DAO_ON_THE_PATH void dao_range_start_drop(dao_range_t *range, uint32_t link)
{
    const dao_range_node_t *node = dao_range_at(range, link);
    uint32_t cell = node->offset_units >> CELL_UNIT_SHIFT;
    if (range->starts[cell] != link) {
        return;
    }
    uint32_t after = node->after;
    while ((node = dao_range_at(range, after))->offset_units >> CELL_UNIT_SHIFT == cell &&
           node->state < NODE_USED) {
        after = node->after;
    }
    range->starts[cell] = node->offset_units >> CELL_UNIT_SHIFT == cell ? after : DAO_RANGE_NONE;
}

/* ---- nodes: range_table.c makes room for them ---- */

/* Makes the tables of a range that has its configuration, without a block. False without memory. */
bool dao_range_tables_create(dao_range_t *range);
void dao_range_tables_destroy(dao_range_t *range); /* half made ones as well */

/* Makes room for two more nodes. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_range_reserve(dao_range_t *range);

static DAO_ON_THE_PATH uint32_t dao_range_node_take(dao_range_t *range)
{
    uint32_t link = range->unused;
    DAO_ASSERT(link != DAO_RANGE_NONE);
    range->unused = dao_range_at(range, link)->bin_after;
    return link;
}

static DAO_ON_THE_PATH void dao_range_node_give(dao_range_t *range, uint32_t link)
{
    dao_range_node_t *node = dao_range_at(range, link);
    node->state = NODE_UNUSED;
    node->bin_after = range->unused;
    range->unused = link;
}

static inline bool dao_range_is_free(const dao_range_t *range, uint32_t link)
{
    return dao_range_at(range, link)->state == NODE_FREE || dao_range_at(range, link)->state == NODE_FENCED;
}

/* Returns true if two nodes are free and fenced by the same streams, or by none. */
static inline bool dao_range_are_alike(const dao_range_t *range, uint32_t a, uint32_t b)
{
    if (dao_range_at(range, a)->state != dao_range_at(range, b)->state) {
        return false;
    }
    return dao_range_at(range, a)->state == NODE_FREE ||
           (dao_range_at(range, a)->state == NODE_FENCED &&
            dao_range_fence(range, a)->streams == dao_range_fence(range, b)->streams);
}

static inline uint32_t dao_range_first(const dao_range_t *range)
{
    return dao_range_at(range, DAO_RANGE_NONE)->after;
}

/* ---- gaps: see range_parts.c ---- */

/* Makes a node that is in the chain a gap. */
static inline void dao_range_gap_insert(dao_range_t *range, uint32_t link)
{
    dao_range_node_t *node = dao_range_at(range, link);
    node->state = NODE_GAP;
    node->bin_before = DAO_RANGE_NONE;
    node->bin_after = range->gaps;
    dao_range_at(range, range->gaps)->bin_before = link; /* the sentinel's is never read */
    range->gaps = link;
}

/* ---- the usual path: a range with good fit and no index, of which nothing is fenced ---- */

/* Entries of a bin that are looked at, and bins from the request's own on, each about a sixteenth larger, in
   which holes are as good as in its own. The lowest of all these is taken: it packs better than the tightest,
   and looking at more does not pack better still. */
#define DAO_RANGE_SCAN_DEPTH 4u
#define DAO_RANGE_NEAR_BINS  3u

/* The rank of a hole is less if it is lower: its offset, then its link. No hole that is worth a look has a
   greater one than the sentinel's, but for the last unit of the largest range. */
#define DAO_RANGE_RANK_NONE ((uint64_t)UINT32_MAX << 32)

/* Returns the less of `rank` and that of an entry of a bin, if it is large enough, and goes on to the next
   one. Decides nothing that the processor would have to guess. */
static DAO_ON_THE_PATH uint64_t dao_range_look_at(const dao_range_t *range, uint32_t *link,
                                                  uint64_t least_units, uint64_t rank)
{
    const dao_range_node_t *node = dao_range_at(range, *link);
    uint64_t found = (uint64_t)node->offset_units << 32 | *link;
    found |= UINT64_C(0) - (uint64_t)(node->size_units < least_units);
    *link = node->bin_after;
    return found < rank ? found : rank;
}

/* Looks at the first entries of a bin: a loop that is written out. What is behind the last one is the
   sentinel, and so is what is behind that: it has no end of its own to ask for at each step. */
static DAO_ON_THE_PATH uint64_t dao_range_look(const dao_range_t *range, uint32_t link, uint64_t least_units,
                                               uint64_t rank)
{
    static_assert(DAO_RANGE_SCAN_DEPTH == 4, "as many looks as there are here");
    if (link != DAO_RANGE_NONE) {
        rank = dao_range_look_at(range, &link, least_units, rank);
        rank = dao_range_look_at(range, &link, least_units, rank);
    }
    if (link != DAO_RANGE_NONE) {
        rank = dao_range_look_at(range, &link, least_units, rank);
        rank = dao_range_look_at(range, &link, least_units, rank);
    }
    return rank;
}

/* Returns the first node of the first bin from `bin` on that has any, or NONE; clears the bits of those on
   the way that have none. */
static DAO_ON_THE_PATH uint32_t dao_range_next_first(dao_range_t *range, size_t bin)
{
    size_t word = bin / WORD_BITS - BIN_WORD_FIRST;
    uint64_t bits = range->bin_words[word] & UINT64_MAX << bin % WORD_BITS;
    for (;;) {
        while (bits == 0) {
            if (++word == BIN_WORDS) {
                return DAO_RANGE_NONE;
            }
            bits = range->bin_words[word];
        }
        const uint32_t *firsts = dao_range_bin_place(range, BIN_FIRST + word * WORD_BITS);
        do {
            uint32_t first = firsts[(uint32_t)__builtin_ctzll(bits)];
            if (first != DAO_RANGE_NONE) {
                return first;
            }
            uint64_t rest = bits & (bits - 1);
            range->bin_words[word] ^= bits ^ rest;
            bits = rest;
        } while (bits != 0);
    }
}

/* Returns the hole for a request, or NONE: then no hole is large enough but ones that are further back in the
   request's own bin, or that have no rank. Any hole of a higher bin is large enough. */
static DAO_ON_THE_PATH uint32_t dao_range_find_good(dao_range_t *range, uint64_t size_units)
{
    static_assert(DAO_RANGE_NEAR_BINS == 3, "as many bins as are looked into here");
    size_t own_bin = dao_range_bin_of(size_units);
    uint64_t rank = DAO_RANGE_RANK_NONE;
    rank = dao_range_look(range, dao_range_bin_first(range, own_bin), size_units, rank);
    rank = dao_range_look(range, dao_range_bin_first(range, own_bin + 1), 0, rank);
    rank = dao_range_look(range, dao_range_bin_first(range, own_bin + 2), 0, rank);
    if (rank == DAO_RANGE_RANK_NONE) {
        rank = dao_range_look(range, dao_range_next_first(range, own_bin + DAO_RANGE_NEAR_BINS), 0, rank);
    }
    return (uint32_t)rank;
}

/* Returns true if two nodes can be taken. */
static inline bool dao_range_has_room(const dao_range_t *range)
{
    return range->unused != DAO_RANGE_NONE && dao_range_at(range, range->unused)->bin_after != DAO_RANGE_NONE;
}

/* Counts and enters a used block, whose place and size are handed in so that they need not be read again. */
static DAO_ON_THE_PATH void dao_range_enter_used(dao_range_t *range, uint32_t link, uint32_t offset_units,
                                                 uint64_t size_units, uint64_t user)
{
    dao_range_node_t *node = dao_range_at(range, link);
    node->state = NODE_USED;
    node->user = user;
    dao_range_start_add(range, link, offset_units);
    range->used_units += size_units;
}

/* Takes a used block out of the table and the count. */
static DAO_ON_THE_PATH void dao_range_leave_used(dao_range_t *range, uint32_t link)
{
    dao_range_start_drop(range, link);
    range->used_units -= dao_range_at(range, link)->size_units;
}

/* Takes a whole hole. */
static DAO_ON_THE_PATH void dao_range_take_whole(dao_range_t *range, uint32_t hole, uint64_t user)
{
    const dao_range_node_t *node = dao_range_at(range, hole);
    dao_range_bin_remove(range, hole);
    dao_range_enter_used(range, hole, node->offset_units, node->size_units, user);
}

/* Takes the front of a larger hole: the hole's node stays with what is left. Returns the node that is
   taken. */
static DAO_ON_THE_PATH uint32_t dao_range_take_front(dao_range_t *range, uint32_t hole, uint64_t size_units,
                                                     uint64_t user)
{
    uint32_t taken = dao_range_node_take(range);
    dao_range_node_t *rest = dao_range_at(range, hole);
    dao_range_node_t *front = dao_range_at(range, taken);
    uint32_t offset_units = rest->offset_units;
    front->size_units = size_units;
    front->offset_units = offset_units;
    front->before = rest->before;
    front->after = hole;
    dao_range_at(range, rest->before)->after = taken;
    rest->before = taken;
    rest->offset_units = offset_units + (uint32_t)size_units;
    rest->size_units -= size_units;
    dao_range_bin_again(range, hole);
    dao_range_enter_used(range, taken, offset_units, size_units, user);
    return taken;
}

/* Joins all nodes from `first` to `last`, neighbours, into the first one, which stays as it is otherwise. */
static DAO_ON_THE_PATH void dao_range_join_nodes(dao_range_t *range, uint32_t first, uint32_t last)
{
    dao_range_node_t *node = dao_range_at(range, first);
    const dao_range_node_t *end = dao_range_at(range, last);
    node->size_units = end->offset_units - node->offset_units + end->size_units;
    node->after = end->after;
    dao_range_at(range, end->after)->before = first;
}

/* Makes a node that is no longer used a part of the free one behind it. */
static DAO_ON_THE_PATH void dao_range_join_after(dao_range_t *range, uint32_t link, uint32_t after)
{
    const dao_range_node_t *node = dao_range_at(range, link);
    dao_range_node_t *rest = dao_range_at(range, after);
    rest->size_units += node->size_units;
    rest->offset_units = node->offset_units;
    rest->before = node->before;
    dao_range_at(range, node->before)->after = after;
}

/* Makes a node of a plain range free that is not fenced, and merges it with its neighbours. */
static DAO_ON_THE_PATH void dao_range_make_free(dao_range_t *range, uint32_t link)
{
    dao_range_node_t *node = dao_range_at(range, link);
    uint32_t before = node->before, after = node->after;
    bool joins_after = dao_range_at(range, after)->state == NODE_FREE;
    if (dao_range_at(range, before)->state == NODE_FREE) {
        uint32_t last = link;
        if (joins_after) {
            dao_range_bin_remove(range, after);
            last = after;
        }
        dao_range_join_nodes(range, before, last);
        if (joins_after) {
            dao_range_node_give(range, after);
        }
        dao_range_node_give(range, link);
        dao_range_bin_again(range, before);
    } else if (joins_after) {
        dao_range_join_after(range, link, after);
        dao_range_node_give(range, link);
        dao_range_bin_again(range, after);
    } else {
        node->state = NODE_FREE;
        dao_range_bin_insert(range, link, dao_range_bin_of(node->size_units));
    }
}

/* ---- range_index.c ---- */

/* Enters the start of a block into the index, and takes it out while the block is still linked to its
   neighbours. */
void dao_range_index_add(dao_range_t *range, uint32_t link);
void dao_range_index_drop(dao_range_t *range, uint32_t link);

/* Returns the block that an offset inside of the range lies in. */
uint32_t dao_range_node_around(const dao_range_t *range, uint32_t offset_units);

dao_range_block_t dao_range_describe(const dao_range_t *range, uint32_t link);

#endif
