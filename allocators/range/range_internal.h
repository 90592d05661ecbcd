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

/* Sets of bins of fenced nodes: one for each stream that may have fenced parts alone, and MIXED, for all
   others. */
#define DAO_RANGE_MIXED     0u
#define DAO_RANGE_SET_COUNT (DAO_STREAM_FENCE_STREAM_MAX + 1)

typedef enum dao_range_state {
    NODE_USED = 0,   /* used */
    NODE_MARKED = 1, /* used, and streams are marked on it in `fences` */
    NODE_BORDER = 2, /* counts as used, as all up to here */
    NODE_UNUSED = 3, /* stands for no block */
    NODE_GAP = 4,    /* nothing is there, see range_parts.c */
    NODE_FREE = 5,   /* free, as all from here on, and not fenced */
    NODE_FENCED = 6, /* and above, with the number of its set: free, and its entry of `fences` is not empty */
} dao_range_state_t;

/* A link is the place of a node in the table, in bytes: so that going there takes one addition. */
typedef struct dao_range_node {
    uint64_t size_units; /* 64 bits: the whole range may be 2^32 units */
    uint32_t offset_units;
    uint32_t before; /* neighbours by address, in a ring through the sentinel */
    uint32_t after;
    uint16_t bin;   /* while free */
    uint16_t state; /* a dao_range_state_t, or NODE_FENCED and a set */
    union {
        struct {
            uint32_t bin_before; /* while free */
            uint32_t bin_after;  /* also chains unused nodes */
        };
        uint64_t user; /* while used: the owner's own number */
    };
} dao_range_node_t;

static_assert(sizeof(dao_range_node_t) == 32, "two nodes a cache line");

/* Bytes of the table that the first links of a set of bins take. Those of what is not fenced come behind the
   sentinel, then those of MIXED, then nodes; each stream's are where they were made among the nodes. */
#define BINS_BYTES  (BIN_COUNT * sizeof(uint32_t))
#define PLAIN_PLACE ((uint32_t)sizeof(dao_range_node_t))
#define MIXED_PLACE (PLAIN_PLACE + (uint32_t)BINS_BYTES)
#define NODES_BEGIN (MIXED_PLACE + (uint32_t)BINS_BYTES)

static_assert(BINS_BYTES % sizeof(dao_range_node_t) == 0, "bins take the room of so many nodes");

/* What says who may still use a free node, or which streams are marked on a used one. */
typedef struct dao_range_fence {
    uint64_t epoch; /* while free */
    union {
        uint64_t streams; /* of a node in MIXED, and of one that is marked */
        struct {
            uint32_t older; /* of a stream's own: its neighbours in the queue of the stream's set */
            uint32_t newer;
        };
    };
} dao_range_fence_t;

/* The fenced nodes of one stream, or of MIXED. */
typedef struct dao_range_set {
    uint64_t words[BIN_WORDS];
    uint32_t place;  /* of the bins' first links in the table */
    uint32_t oldest; /* the queue of a stream's nodes by epoch; NONE: it is empty, as that of MIXED is */
    uint32_t newest;
    uint32_t count;
} dao_range_set_t;

struct dao_range {
    /* looked at by every call */
    unsigned char *table; /* the sentinel, the first link of each bin, then the other nodes */
    uint32_t *starts;     /* of each cell of addresses the first used node that begins there, or NONE */
    uint64_t used_units;
    uint32_t unused;       /* the first of the unused nodes */
    uint64_t fenced_units; /* of free nodes with a fence */
    uint64_t bin_words[BIN_WORDS];
    dao_range_set_t *sets[DAO_RANGE_SET_COUNT]; /* NULL of a stream that has not asked for anything */
    uint64_t set_bits;                          /* of the sets that there are */

    dao_range_config_t config;
    uint64_t capacity_units;
    uint64_t base_units;
    bool is_plain;             /* good fit without an index */
    dao_range_fence_t *fences; /* of each node */
    uint32_t node_count;       /* in the table and in fences, the sentinel and the room of bins included */
    uint32_t table_room;       /* nodes that there is memory for: as many, or more */
    uint32_t fences_room;
    uint32_t bins_count; /* of these, the room of the bins of streams */
    uint32_t gaps;       /* the first of the gaps, or NONE */
    uint32_t page_count;
    uint32_t *firsts; /* the index, or NULL */
    uint64_t *page_words;
};

static DAO_ON_THE_PATH dao_range_node_t *dao_range_at(const dao_range_t *range, uint32_t link)
{
    return (dao_range_node_t *)(void *)(range->table + link);
}

/* Links are offsets in the table, and become those of fences by one shift. */
static DAO_ON_THE_PATH dao_range_fence_t *dao_range_fence(const dao_range_t *range, uint32_t link)
{
    enum { FENCES_PER_NODE = sizeof(dao_range_node_t) / sizeof(dao_range_fence_t) };
    static_assert(sizeof(dao_range_node_t) % sizeof(dao_range_fence_t) == 0, "an offset for each");
    static_assert(FENCES_PER_NODE > 0 && (FENCES_PER_NODE & (FENCES_PER_NODE - 1)) == 0, "a shift");
    unsigned char *fences = (unsigned char *)range->fences;
    return (dao_range_fence_t *)(void *)(fences + link / FENCES_PER_NODE);
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
    return (uint64_t)(int64_t)size; /* to int64_t it is one instruction */
}

/* Returns the place of the link behind a node. That of a bin's first node is in the table as if it were such
   a one: so that taking a node out is the same wherever it is in its bin. */
static DAO_ON_THE_PATH uint32_t *dao_range_next_place(const dao_range_t *range, uint32_t link)
{
    return (uint32_t *)(void *)(range->table + link + offsetof(dao_range_node_t, bin_after));
}

/* Of each set of bins, and for NULL of those of what nothing fences: the words with a bit for each bin, and
   where in the table their first links are. Asked for where they are used, so that neither takes a register
   of the fast paths. */
static DAO_ON_THE_PATH uint64_t *dao_range_words(const dao_range_t *range, const dao_range_set_t *set)
{
    return (uint64_t *)(set != NULL ? set->words : range->bin_words);
}

static DAO_ON_THE_PATH uint32_t dao_range_bins_place(const dao_range_set_t *set)
{
    return set != NULL ? set->place : PLAIN_PLACE;
}

/* Returns the place of a bin's first link. */
static DAO_ON_THE_PATH uint32_t *dao_range_bin_place(const dao_range_t *range, dao_range_set_t *bins,
                                                     size_t bin)
{
    return (uint32_t *)(void *)(range->table + dao_range_bins_place(bins) +
                                (bin - BIN_FIRST) * sizeof(uint32_t));
}

/* Returns the link of that node which is none. */
static DAO_ON_THE_PATH uint32_t dao_range_bin_link(dao_range_set_t *bins, size_t bin)
{
    return (uint32_t)(dao_range_bins_place(bins) - offsetof(dao_range_node_t, bin_after) +
                      (bin - BIN_FIRST) * sizeof(uint32_t));
}

/* Returns the first node of a bin, or NONE. */
static DAO_ON_THE_PATH uint32_t dao_range_bin_first(const dao_range_t *range, dao_range_set_t *bins,
                                                    size_t bin)
{
    return *dao_range_bin_place(range, bins, bin);
}

static DAO_ON_THE_PATH void dao_range_bin_insert(dao_range_t *range, dao_range_set_t *bins, uint32_t link,
                                                 size_t bin)
{
    dao_range_node_t *node = dao_range_at(range, link);
    uint32_t *first = dao_range_bin_place(range, bins, bin);
    node->bin = (uint16_t)bin;
    node->bin_before = dao_range_bin_link(bins, bin);
    node->bin_after = *first;
    dao_range_at(range, *first)->bin_before = link; /* the sentinel's is never read */
    *first = link;
    dao_range_words(range, bins)[bin / WORD_BITS - BIN_WORD_FIRST] |= UINT64_C(1) << bin % WORD_BITS;
}

/* The bit of a bin that gets empty stays: whoever comes by clears it. */
static DAO_ON_THE_PATH void dao_range_bin_remove(dao_range_t *range, uint32_t link)
{
    const dao_range_node_t *node = dao_range_at(range, link);
    dao_range_at(range, node->bin_after)->bin_before = node->bin_before; /* the sentinel's is never read */
    *dao_range_next_place(range, node->bin_before) = node->bin_after;
}

/* Puts a free node whose size has changed into its bin. */
static DAO_ON_THE_PATH void dao_range_bin_again(dao_range_t *range, dao_range_set_t *bins, uint32_t link)
{
    size_t bin = dao_range_bin_of(dao_range_at(range, link)->size_units);
    if (bin != dao_range_at(range, link)->bin) {
        dao_range_bin_remove(range, link);
        dao_range_bin_insert(range, bins, link, bin);
    }
}

/* No bin. */
#define DAO_RANGE_NO_BIN 0u

/* Returns the first bin from `bin` on that may have nodes, or NO_BIN. */
static inline size_t dao_range_next_bin(const dao_range_t *range, dao_range_set_t *bins, size_t bin)
{
    size_t word = bin / WORD_BITS - BIN_WORD_FIRST;
    uint64_t bits = dao_range_words(range, bins)[word] & UINT64_MAX << bin % WORD_BITS;
    while (bits == 0 && ++word < BIN_WORDS) {
        bits = dao_range_words(range, bins)[word];
    }
    return bits != 0 ? BIN_FIRST + word * WORD_BITS + (size_t)__builtin_ctzll(bits) : DAO_RANGE_NO_BIN;
}

/* Returns the last bin before `bin` that has nodes, or NO_BIN. */
static inline size_t dao_range_previous_bin(const dao_range_t *range, dao_range_set_t *bins, size_t bin)
{
    while (bin > BIN_FIRST) {
        bin--;
        uint64_t bits = dao_range_words(range, bins)[bin / WORD_BITS - BIN_WORD_FIRST]
                        << (WORD_BITS - 1 - bin % WORD_BITS);
        bin -= bits != 0 ? (size_t)__builtin_clzll(bits) : bin % WORD_BITS;
        if (dao_range_bin_first(range, bins, bin) != DAO_RANGE_NONE) {
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
    return node->offset_units == offset_units && node->state <= NODE_MARKED ? link : DAO_RANGE_NONE;
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
           node->state > NODE_BORDER) {
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

/* The same for a part and the first block in it, so that no part is added in vain. */
DAO_NODISCARD dao_status_t dao_range_reserve_part(dao_range_t *range);

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
    return dao_range_at(range, link)->state >= NODE_FREE;
}

static inline bool dao_range_is_fenced(const dao_range_t *range, uint32_t link)
{
    return dao_range_at(range, link)->state >= NODE_FENCED;
}

/* Returns the number of a fenced node's set. */
static DAO_ON_THE_PATH uint32_t dao_range_set_of(const dao_range_t *range, uint32_t link)
{
    return dao_range_at(range, link)->state - (uint32_t)NODE_FENCED;
}

/* Returns true if two nodes are free and fenced by the same streams, or by none. */
static inline bool dao_range_are_alike(const dao_range_t *range, uint32_t a, uint32_t b)
{
    uint32_t state = dao_range_at(range, a)->state;
    return state == dao_range_at(range, b)->state && state >= NODE_FREE &&
           (state != NODE_FENCED + DAO_RANGE_MIXED ||
            dao_range_fence(range, a)->streams == dao_range_fence(range, b)->streams);
}

/* Returns who may still use a free node, or what is marked on a used one. */
static inline dao_stream_fence_t dao_range_fence_of(const dao_range_t *range, uint32_t link)
{
    uint32_t state = dao_range_at(range, link)->state;
    const dao_range_fence_t *fence = dao_range_fence(range, link);
    if (state == NODE_MARKED) {
        return (dao_stream_fence_t){.streams = fence->streams};
    }
    if (state < NODE_FENCED) {
        return (dao_stream_fence_t){0};
    }
    bool is_mixed = state == NODE_FENCED + DAO_RANGE_MIXED;
    return (dao_stream_fence_t){.streams = is_mixed ? fence->streams : UINT64_C(1) << (state - NODE_FENCED),
                                .epoch = fence->epoch};
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
static DAO_ON_THE_PATH uint32_t dao_range_next_first(const dao_range_t *range, dao_range_set_t *bins,
                                                     size_t bin)
{
    size_t word = bin / WORD_BITS - BIN_WORD_FIRST;
    uint64_t bits = dao_range_words(range, bins)[word] & UINT64_MAX << bin % WORD_BITS;
    for (;;) {
        while (bits == 0) {
            if (++word == BIN_WORDS) {
                return DAO_RANGE_NONE;
            }
            bits = dao_range_words(range, bins)[word];
        }
        const uint32_t *firsts = dao_range_bin_place(range, bins, BIN_FIRST + word * WORD_BITS);
        do {
            uint32_t first = firsts[(uint32_t)__builtin_ctzll(bits)];
            if (first != DAO_RANGE_NONE) {
                return first;
            }
            uint64_t rest = bits & (bits - 1);
            dao_range_words(range, bins)[word] ^= bits ^ rest;
            bits = rest;
        } while (bits != 0);
    }
}

/* The same for what nothing fences and a set of what is fenced; in a bin where both have nodes the set's is
   first. */
static DAO_ON_THE_PATH uint32_t dao_range_next_first_of_two(const dao_range_t *range, dao_range_set_t *own,
                                                            size_t bin)
{
    uint64_t *words = dao_range_words(range, NULL), *own_words = dao_range_words(range, own);
    size_t word = bin / WORD_BITS - BIN_WORD_FIRST;
    uint64_t bits = (words[word] | own_words[word]) & UINT64_MAX << bin % WORD_BITS;
    for (;;) {
        while (bits == 0) {
            if (++word == BIN_WORDS) {
                return DAO_RANGE_NONE;
            }
            bits = words[word] | own_words[word];
        }
        const uint32_t *firsts = dao_range_bin_place(range, NULL, BIN_FIRST + word * WORD_BITS);
        const uint32_t *own_firsts = dao_range_bin_place(range, own, BIN_FIRST + word * WORD_BITS);
        do {
            uint32_t place = (uint32_t)__builtin_ctzll(bits);
            uint32_t first = own_firsts[place] != DAO_RANGE_NONE ? own_firsts[place] : firsts[place];
            if (first != DAO_RANGE_NONE) {
                return first;
            }
            uint64_t rest = bits & (bits - 1);
            words[word] &= ~(bits ^ rest);
            own_words[word] &= ~(bits ^ rest);
            bits = rest;
        } while (bits != 0);
    }
}

/* Returns the less of DAO_RANGE_RANK_NONE and the ranks of the first entries of the near bins, as far as they
   are large enough. */
static DAO_ON_THE_PATH uint64_t dao_range_look_near(const dao_range_t *range, dao_range_set_t *bins,
                                                    size_t own_bin, uint64_t size_units)
{
    static_assert(DAO_RANGE_NEAR_BINS == 3, "as many bins as are looked into here");
    uint64_t rank = DAO_RANGE_RANK_NONE;
    rank = dao_range_look(range, dao_range_bin_first(range, bins, own_bin), size_units, rank);
    rank = dao_range_look(range, dao_range_bin_first(range, bins, own_bin + 1), 0, rank);
    return dao_range_look(range, dao_range_bin_first(range, bins, own_bin + 2), 0, rank);
}

/* Returns true if the near bins have no entry. */
static DAO_ON_THE_PATH bool dao_range_near_are_empty(const dao_range_t *range, dao_range_set_t *bins,
                                                     size_t own_bin)
{
    const uint32_t *firsts = dao_range_bin_place(range, bins, own_bin);
    static_assert(DAO_RANGE_NEAR_BINS == 3 && DAO_RANGE_NONE == 0, "links of none have no bit");
    return (firsts[0] | firsts[1] | firsts[2]) == DAO_RANGE_NONE;
}

/* Returns the hole for a request, or NONE: then no hole is large enough but ones that are further back in the
   request's own bin, or that have no rank. Any hole of a higher bin is large enough. */
static DAO_ON_THE_PATH uint32_t dao_range_find_good(const dao_range_t *range, dao_range_set_t *bins,
                                                    uint64_t size_units)
{
    size_t own_bin = dao_range_bin_of(size_units);
    uint64_t rank = dao_range_look_near(range, bins, own_bin, size_units);
    if (rank == DAO_RANGE_RANK_NONE) {
        uint32_t first = dao_range_next_first(range, bins, own_bin + DAO_RANGE_NEAR_BINS);
        rank = dao_range_look(range, first, 0, rank);
    }
    return (uint32_t)rank;
}

/* The same for what nothing fences and a set of what is fenced. In the near bins one that nothing fences
   is taken first: so what has been settled is used up, and the place does not grow beside it. Where a stream
   is alone there mostly is none. */
static DAO_ON_THE_PATH uint32_t dao_range_find_good_of_two(const dao_range_t *range, dao_range_set_t *own,
                                                           uint64_t size_units)
{
    size_t own_bin = dao_range_bin_of(size_units);
    uint64_t rank = DAO_RANGE_RANK_NONE;
    if (!dao_range_near_are_empty(range, NULL, own_bin)) {
        rank = dao_range_look_near(range, NULL, own_bin, size_units);
    }
    if (rank == DAO_RANGE_RANK_NONE && !dao_range_near_are_empty(range, own, own_bin)) {
        rank = dao_range_look_near(range, own, own_bin, size_units);
    }
    if (rank == DAO_RANGE_RANK_NONE) {
        uint32_t first = dao_range_next_first_of_two(range, own, own_bin + DAO_RANGE_NEAR_BINS);
        rank = dao_range_look(range, first, 0, rank);
    }
    return (uint32_t)rank;
}

/* As dao_range_find_good(), where memory is tight. */
uint32_t dao_range_find_tight(const dao_range_t *range, uint64_t size_units);

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

/* Takes a whole hole that is not fenced. */
static DAO_ON_THE_PATH void dao_range_take_whole(dao_range_t *range, uint32_t hole, uint64_t user)
{
    const dao_range_node_t *node = dao_range_at(range, hole);
    dao_range_bin_remove(range, hole);
    dao_range_enter_used(range, hole, node->offset_units, node->size_units, user);
}

/* Takes the front of a larger hole in some bins: the hole's node stays with what is left. Returns the node
   that is taken. */
static DAO_ON_THE_PATH uint32_t dao_range_take_front(dao_range_t *range, dao_range_set_t *bins, uint32_t hole,
                                                     uint64_t size_units, uint64_t user)
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
    dao_range_bin_again(range, bins, hole);
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

/* Makes a node free, and merges it with those neighbours that are in a state, which is the new one of the
   node; all of these are in the same bins. Returns the node that it is a part of then. */
static DAO_ON_THE_PATH uint32_t dao_range_merge_free(dao_range_t *range, dao_range_set_t *bins, uint32_t link,
                                                     uint32_t state, uint32_t *out_gone)
{
    dao_range_node_t *node = dao_range_at(range, link);
    uint32_t before = node->before, after = node->after;
    bool joins_after = dao_range_at(range, after)->state == state;
    uint32_t part = link;
    *out_gone = DAO_RANGE_NONE;
    if (dao_range_at(range, before)->state == state) {
        uint32_t last = link;
        if (joins_after) {
            dao_range_bin_remove(range, after);
            last = after;
        }
        dao_range_join_nodes(range, before, last);
        if (joins_after) {
            dao_range_node_give(range, after);
            *out_gone = after;
        }
        dao_range_node_give(range, link);
        part = before;
        dao_range_bin_again(range, bins, before);
    } else if (joins_after) {
        dao_range_join_after(range, link, after);
        dao_range_node_give(range, link);
        part = after;
        dao_range_bin_again(range, bins, after);
    } else {
        node->state = (uint16_t)state;
        dao_range_bin_insert(range, bins, link, dao_range_bin_of(node->size_units));
    }
    return part;
}

/* Makes a node of a plain range free that is not fenced, and merges it with its neighbours. */
static DAO_ON_THE_PATH void dao_range_make_free(dao_range_t *range, uint32_t link)
{
    uint32_t gone;
    (void)dao_range_merge_free(range, NULL, link, NODE_FREE, &gone);
}

/* ---- the same for one stream: what it has fenced, and nobody else ---- */

/* Takes a node out of the queue of its set, and puts one at the queue's end. */
static DAO_ON_THE_PATH void dao_range_queue_remove(dao_range_t *range, dao_range_set_t *set, uint32_t link)
{
    const dao_range_fence_t *fence = dao_range_fence(range, link);
    *(fence->older != DAO_RANGE_NONE ? &dao_range_fence(range, fence->older)->newer : &set->oldest) =
        fence->newer;
    *(fence->newer != DAO_RANGE_NONE ? &dao_range_fence(range, fence->newer)->older : &set->newest) =
        fence->older;
}

static DAO_ON_THE_PATH void dao_range_queue_push(dao_range_t *range, dao_range_set_t *set, uint32_t link)
{
    dao_range_fence_t *fence = dao_range_fence(range, link);
    fence->older = set->newest;
    fence->newer = DAO_RANGE_NONE;
    *(set->newest != DAO_RANGE_NONE ? &dao_range_fence(range, set->newest)->newer : &set->oldest) = link;
    set->newest = link;
}

/* Makes a node of a plain range free that a stream fences up to an epoch, which none of its earlier ones is
   above, and merges it with what else only this stream fences. Its set is `set`. */
static DAO_ON_THE_PATH void dao_range_make_fenced(dao_range_t *range, dao_range_set_t *set, uint32_t link,
                                                  uint32_t stream, uint64_t epoch)
{
    DAO_ASSERT(set->newest == DAO_RANGE_NONE || dao_range_fence(range, set->newest)->epoch <= epoch);
    range->fenced_units += dao_range_at(range, link)->size_units;
    uint32_t gone;
    uint32_t part = dao_range_merge_free(range, set, link, NODE_FENCED + stream, &gone);
    if (part == link) {
        dao_range_fence(range, part)->epoch = epoch;
        set->count++;
        dao_range_queue_push(range, set, part);
        return;
    }
    if (gone != DAO_RANGE_NONE) {
        set->count--;
        dao_range_queue_remove(range, set, gone);
    }
    dao_range_fence_t *fence = dao_range_fence(range, part);
    if (fence->epoch != epoch) { /* else it is among the queue's last, which are all of this one */
        fence->epoch = epoch;
        dao_range_queue_remove(range, set, part);
        dao_range_queue_push(range, set, part);
    }
}

/* As dao_range_find_good(), for a stream with a set. */
static DAO_ON_THE_PATH uint32_t dao_range_find_for(const dao_range_t *range, dao_range_set_t *set,
                                                   uint64_t size_units)
{
    return set->count > 0 ? dao_range_find_good_of_two(range, set, size_units)
                          : dao_range_find_good(range, NULL, size_units);
}

/* Takes a block at the front of a hole that nothing fences, or the stream of a set alone. One unused node is
   there. */
static DAO_ON_THE_PATH void dao_range_take_for(dao_range_t *range, dao_range_set_t *set, uint32_t hole,
                                               uint64_t size_units, uint64_t user)
{
    bool is_fenced = dao_range_is_fenced(range, hole);
    DAO_ASSERT(!is_fenced || range->sets[dao_range_set_of(range, hole)] == set);
    if (dao_range_at(range, hole)->size_units != size_units) {
        if (is_fenced) {
            range->fenced_units -= size_units;
            (void)dao_range_take_front(range, set, hole, size_units, user);
        } else {
            (void)dao_range_take_front(range, NULL, hole, size_units, user);
        }
        return;
    }
    if (is_fenced) {
        range->fenced_units -= size_units;
        dao_range_queue_remove(range, set, hole);
        set->count--;
    }
    dao_range_take_whole(range, hole, user);
}

/* ---- fenced nodes: range_fences.c ---- */

/* Returns the bins that a free node is in. */
static inline dao_range_set_t *dao_range_bins_of(const dao_range_t *range, uint32_t link)
{
    return dao_range_is_fenced(range, link) ? range->sets[dao_range_set_of(range, link)] : NULL;
}

/* Makes a node that is in no bin free behind a fence, and puts it into its bin; takes a free node out of its
   bin, and returns its fence. */
void dao_range_put(dao_range_t *range, uint32_t link, const dao_stream_fence_t *fence);
dao_stream_fence_t dao_range_take_out(dao_range_t *range, uint32_t link);

/* dao_range_put() for a node that was a part of a free one, and is fenced as that is. */
void dao_range_put_split(dao_range_t *range, uint32_t link, uint32_t from);

/* As dao_range_put(), and merges the node with those neighbours that the same streams fence. Returns the node
   that it is a part of then. */
uint32_t dao_range_put_merged(dao_range_t *range, uint32_t link, dao_stream_fence_t fence);

/* Joins the free node behind `link`, which is in no bin, to it: adds its fence to *fence. */
void dao_range_absorb_after(dao_range_t *range, uint32_t link, dao_stream_fence_t *fence);

/* ---- range_index.c ---- */

/* Enters the start of a block into the index, and takes it out while the block is still linked to its
   neighbours. */
void dao_range_index_add(dao_range_t *range, uint32_t link);
void dao_range_index_drop(dao_range_t *range, uint32_t link);

/* Returns the block that an offset inside of the range lies in. */
uint32_t dao_range_node_around(const dao_range_t *range, uint32_t offset_units);

dao_range_block_t dao_range_describe(const dao_range_t *range, uint32_t link);

#endif
