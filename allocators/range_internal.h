/* The inside of a range, for the files range*.c: nodes, bins, map, index. What holds between calls is said in range.c. */
#ifndef DAO_ALLOCATORS_RANGE_INTERNAL_H
#define DAO_ALLOCATORS_RANGE_INTERNAL_H

#include "allocators/range.h"

#include "base/assert.h"

#include <assert.h>

/* No node: index 0 is the border, which comes before the first block and after the last one, begins behind all others and is
   never free. */
#define DAO_RANGE_NONE 0u

#define UNIT_SHIFT      8
#define SUB_BIN_SHIFT   4
#define SUB_BIN_COUNT   (1u << SUB_BIN_SHIFT)
#define BIN_COUNT       (30u * SUB_BIN_COUNT) /* sizes of up to 2^33 - 1 units */
#define WORD_BITS       64u
#define BIN_WORDS       (BIN_COUNT / WORD_BITS + 1)
#define PAGE_UNIT_SHIFT 13 /* a page of the index is 2 MiB */

static_assert(1u << UNIT_SHIFT == DAO_RANGE_GRANULE, "a unit is a granule");
static_assert(DAO_RANGE_CAPACITY_MAX >> UNIT_SHIFT <= UINT64_C(1) << 32, "offsets fit 32 bits");

typedef enum dao_range_state {
    NODE_UNUSED = 0, /* stands for no block */
    NODE_FREE = 1,   /* nobody holds it */
    NODE_HELD = 2,   /* free, and its entry of `holds` is not empty */
    NODE_GAP = 3,    /* nothing is there, see range_parts.c */
    NODE_USED = 4,   /* used, as all from here on */
    NODE_MARKED = 5, /* and streams are marked on it in `holds` */
    NODE_BORDER = 6,
} dao_range_state_t;

typedef struct dao_range_node {
    uint64_t size_units; /* 64 bits: the whole range may be 2^32 units */
    uint32_t offset_units;
    uint32_t before; /* neighbours by address, in a ring through the border */
    uint32_t after;
    uint32_t bin_before; /* while free, or NONE; bin_after also chains unused nodes */
    uint32_t bin_after;
    uint16_t bin; /* while free */
    uint16_t state;
} dao_range_node_t;

static_assert(sizeof(dao_range_node_t) == 32, "two nodes a cache line");

struct dao_range {
    /* looked at by every call */
    dao_range_node_t *nodes;
    uint64_t *users;
    uint32_t *starts; /* of each cell of addresses the first used node that begins there, or NONE */
    uint64_t used_units;
    uint32_t unused;     /* the first of the unused nodes */
    uint32_t held_count; /* free nodes that are held */
    uint32_t bin_summary;
    bool is_plain; /* good fit without an index */

    uint64_t bin_words[BIN_WORDS + 1]; /* the last one stays 0 */
    uint32_t bins[BIN_COUNT];

    dao_range_config_t config;
    uint64_t capacity_units;
    uint64_t base_units;
    dao_hold_t *holds;   /* of each node */
    uint32_t node_count; /* room in nodes, users and holds, the border included */
    uint32_t gaps;       /* the first of the gaps, or NONE */
    uint32_t page_count;
    uint32_t *firsts; /* the index, or NULL */
    uint64_t *page_words;
};

/* ---- bins ---- */

/* Sizes below SUB_BIN_COUNT units have a bin each; that is what the lowest bit that is set here makes of the formula. */
static inline uint32_t dao_range_bin_of(uint64_t size_units)
{
    uint32_t octave =
        63u ^ (uint32_t)__builtin_clzll(size_units | SUB_BIN_COUNT); /* an instruction where there is one */
    return ((octave - SUB_BIN_SHIFT) << SUB_BIN_SHIFT) + (uint32_t)(size_units >> (octave - SUB_BIN_SHIFT));
}

static inline void dao_range_bin_insert(dao_range_t *range, uint32_t index, uint32_t bin)
{
    dao_range_node_t *node = &range->nodes[index];
    uint32_t head = range->bins[bin];
    node->bin = (uint16_t)bin;
    node->bin_before = DAO_RANGE_NONE;
    node->bin_after = head;
    range->bins[bin] = index;
    range->nodes[head].bin_before = index; /* the border's is never read */
    if (head == DAO_RANGE_NONE) {
        range->bin_words[bin / WORD_BITS] |= UINT64_C(1) << bin % WORD_BITS;
        range->bin_summary |= 1u << bin / WORD_BITS;
    }
}

static inline void dao_range_bin_remove(dao_range_t *range, uint32_t index)
{
    const dao_range_node_t *node = &range->nodes[index];
    range->nodes[node->bin_after].bin_before = node->bin_before; /* the border's is never read */
    if (node->bin_before != DAO_RANGE_NONE) {
        range->nodes[node->bin_before].bin_after = node->bin_after;
        return;
    }
    uint32_t bin = node->bin;
    range->bins[bin] = node->bin_after;
    if (node->bin_after == DAO_RANGE_NONE) {
        uint64_t bits = range->bin_words[bin / WORD_BITS] & ~(UINT64_C(1) << bin % WORD_BITS);
        range->bin_words[bin / WORD_BITS] = bits;
        if (bits == 0) {
            range->bin_summary &= ~(1u << bin / WORD_BITS);
        }
    }
}

/* Puts a free node whose size has changed into its bin. */
static inline void dao_range_bin_again(dao_range_t *range, uint32_t index)
{
    uint32_t bin = dao_range_bin_of(range->nodes[index].size_units);
    if (bin != range->nodes[index].bin) {
        dao_range_bin_remove(range, index);
        dao_range_bin_insert(range, index, bin);
    }
}

/* Bin 0 is always empty: no block has size 0. */
#define DAO_RANGE_NO_BIN 0u

/* Gives the first bin from `bin` on that is not empty, or NO_BIN; bins behind the last one are empty. */
static inline uint32_t dao_range_next_bin(const dao_range_t *range, uint32_t bin)
{
    uint32_t word = bin / WORD_BITS;
    DAO_ASSERT(word < BIN_WORDS);
    uint64_t bits = range->bin_words[word] >> bin % WORD_BITS;
    if (bits != 0) {
        return bin + (uint32_t)__builtin_ctzll(bits);
    }
    uint32_t later = range->bin_summary & UINT32_MAX << (word + 1);
    if (later == 0) {
        return DAO_RANGE_NO_BIN;
    }
    word = (uint32_t)__builtin_ctz(later);
    return word * WORD_BITS + (uint32_t)__builtin_ctzll(range->bin_words[word]);
}

/* Gives the bits of 64 bins from `bin` on: set where one is not empty. */
static inline uint64_t dao_range_bins_from(const dao_range_t *range, uint32_t bin)
{
    const uint64_t *words = &range->bin_words[bin / WORD_BITS];
    return words[0] >> bin % WORD_BITS | words[1] << 1 << (WORD_BITS - 1 - bin % WORD_BITS);
}

/* Gives the last bin before `bin` that is not empty, or NO_BIN. */
static inline uint32_t dao_range_previous_bin(const dao_range_t *range, uint32_t bin)
{
    while (bin > 0) {
        bin--;
        if ((range->bin_words[bin / WORD_BITS] >> bin % WORD_BITS & 1) != 0) {
            return bin;
        }
    }
    return DAO_RANGE_NO_BIN;
}

/* ---- from offsets to used nodes ---- */

/* Cells are small beside tensors, so that a cell mostly has one start, and many beside a cache line of their table. */
#define CELL_UNIT_SHIFT 8 /* 64 KiB */

/* Gives the node that begins at a unit, if that is a used block; another one otherwise. */
static inline uint32_t dao_range_find_start(const dao_range_t *range, uint32_t offset_units)
{
    const dao_range_node_t *nodes = range->nodes;
    uint32_t index = range->starts[offset_units >> CELL_UNIT_SHIFT];
    while (nodes[index].offset_units < offset_units) {
        index = nodes[index].after;
    }
    return index;
}

/* Gives the node of the used block that starts at an offset, or NONE. */
static inline uint32_t dao_range_find_used(const dao_range_t *range, uint64_t offset_bytes)
{
    if (offset_bytes >= range->config.capacity_bytes || offset_bytes % DAO_RANGE_GRANULE != 0) {
        return DAO_RANGE_NONE;
    }
    uint32_t offset_units = (uint32_t)(offset_bytes >> UNIT_SHIFT);
    uint32_t index = dao_range_find_start(range, offset_units);
    const dao_range_node_t *node = &range->nodes[index];
    return node->offset_units == offset_units && node->state >= NODE_USED ? index : DAO_RANGE_NONE;
}

/* Enters a used node, which is linked to its neighbours. A cell without one has the border, which begins behind all. */
static inline void dao_range_start_add(dao_range_t *range, uint32_t index)
{
    uint32_t offset_units = range->nodes[index].offset_units;
    uint32_t *start = &range->starts[offset_units >> CELL_UNIT_SHIFT];
    if (range->nodes[*start].offset_units > offset_units || *start == DAO_RANGE_NONE) {
        *start = index;
    }
}

/* Takes a used node out, which is still linked to its neighbours. */
static inline void dao_range_start_drop(dao_range_t *range, uint32_t index)
{
    const dao_range_node_t *nodes = range->nodes;
    uint32_t cell = nodes[index].offset_units >> CELL_UNIT_SHIFT;
    if (range->starts[cell] != index) {
        return;
    }
    uint32_t after = nodes[index].after;
    while (nodes[after].state < NODE_USED && nodes[after].offset_units >> CELL_UNIT_SHIFT == cell) {
        after = nodes[after].after;
    }
    range->starts[cell] = nodes[after].offset_units >> CELL_UNIT_SHIFT == cell ? after : DAO_RANGE_NONE;
}

/* ---- nodes: range_table.c makes room for them ---- */

/* Makes room for two more nodes. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_range_reserve(dao_range_t *range);

static inline uint32_t dao_range_node_take(dao_range_t *range)
{
    uint32_t index = range->unused;
    DAO_ASSERT(index != DAO_RANGE_NONE);
    range->unused = range->nodes[index].bin_after;
    return index;
}

static inline void dao_range_node_give(dao_range_t *range, uint32_t index)
{
    dao_range_node_t *node = &range->nodes[index];
    node->state = NODE_UNUSED;
    node->bin_after = range->unused;
    range->unused = index;
}

static inline bool dao_range_is_free(const dao_range_t *range, uint32_t index)
{
    return range->nodes[index].state == NODE_FREE || range->nodes[index].state == NODE_HELD;
}

/* Tells whether two nodes are free and held by the same streams, or by nobody. */
static inline bool dao_range_are_alike(const dao_range_t *range, uint32_t a, uint32_t b)
{
    if (range->nodes[a].state != range->nodes[b].state) {
        return false;
    }
    return range->nodes[a].state == NODE_FREE ||
           (range->nodes[a].state == NODE_HELD && range->holds[a].streams == range->holds[b].streams);
}

static inline uint32_t dao_range_first(const dao_range_t *range)
{
    return range->nodes[DAO_RANGE_NONE].after;
}

/* ---- range_parts.c ---- */

/* Makes a node that is in the chain a gap. */
void dao_range_gap_insert(dao_range_t *range, uint32_t index);

/* ---- the usual path: a range with good fit and no index, of which nothing is held ---- */

/* Entries of a bin that are looked at, and bins above the request's own, each about a sixteenth larger, in which holes are
   as good as in its own. The lowest of all these is taken: it packs better than the tightest, and looking at more does not
   pack better still. */
#define DAO_RANGE_SCAN_DEPTH 4u
#define DAO_RANGE_NEAR_BINS  2u

/* Looks at the first `depth` entries of a bin; gives the lowest of those that have least_units and of `best`. */
static inline const dao_range_node_t *dao_range_look(const dao_range_t *range, uint32_t bin,
                                                     uint64_t least_units, uint32_t depth,
                                                     const dao_range_node_t *best)
{
    for (uint32_t i = range->bins[bin]; i != DAO_RANGE_NONE && depth > 0; depth--) {
        const dao_range_node_t *node = &range->nodes[i];
        i = node->bin_after;
        if (node->size_units >= least_units) {
            best = node->offset_units <= best->offset_units ? node : best;
        }
    }
    return best;
}

/* dao_range_find_good() where the bins nearby have nothing. */
static inline const dao_range_node_t *dao_range_find_farther(const dao_range_t *range, uint32_t own_bin,
                                                             uint64_t size_units)
{
    const dao_range_node_t *border = &range->nodes[DAO_RANGE_NONE];
    uint32_t bin = dao_range_next_bin(range, own_bin + DAO_RANGE_NEAR_BINS + 1);
    return bin != DAO_RANGE_NO_BIN ? dao_range_look(range, bin, 0, DAO_RANGE_SCAN_DEPTH, border)
                                   : dao_range_look(range, own_bin, size_units, UINT32_MAX, border);
}

/* Gives the hole for a request, or NONE. Any hole of a higher bin is large enough. */
static inline uint32_t dao_range_find_good(const dao_range_t *range, uint64_t size_units)
{
    const dao_range_node_t *border = &range->nodes[DAO_RANGE_NONE]; /* behind all others */
    uint32_t own_bin = dao_range_bin_of(size_units);
    uint64_t near = dao_range_bins_from(range, own_bin) & ((2u << DAO_RANGE_NEAR_BINS) - 1);
    const dao_range_node_t *best = border;
    if ((near & 1) != 0) {
        best = dao_range_look(range, own_bin, size_units, DAO_RANGE_SCAN_DEPTH, best);
    }
    for (near &= ~UINT64_C(1); near != 0; near &= near - 1) {
        uint32_t bin = own_bin + (uint32_t)__builtin_ctzll(near);
        best = dao_range_look(range, bin, 0, DAO_RANGE_SCAN_DEPTH, best);
    }
    best = best != border ? best : dao_range_find_farther(range, own_bin, size_units);
    return (uint32_t)(best - border);
}

/* Tells whether two nodes can be taken. */
static inline bool dao_range_has_room(const dao_range_t *range)
{
    return range->unused != DAO_RANGE_NONE && range->nodes[range->unused].bin_after != DAO_RANGE_NONE;
}

/* Counts and enters a used block. */
static inline void dao_range_enter_used(dao_range_t *range, uint32_t index, uint64_t user)
{
    dao_range_node_t *node = &range->nodes[index];
    node->state = NODE_USED;
    range->users[index] = user;
    dao_range_start_add(range, index);
    range->used_units += node->size_units;
}

/* Takes a used block out of the table and the count. */
static inline void dao_range_leave_used(dao_range_t *range, uint32_t index)
{
    dao_range_start_drop(range, index);
    range->used_units -= range->nodes[index].size_units;
}

/* Takes a whole hole. */
static inline void dao_range_take_whole(dao_range_t *range, uint32_t hole, uint64_t user)
{
    dao_range_bin_remove(range, hole);
    dao_range_enter_used(range, hole, user);
}

/* Takes the front of a larger hole: the hole's node stays with what is left. Gives the node that is taken. */
static inline uint32_t dao_range_take_front(dao_range_t *range, uint32_t hole, uint64_t size_units,
                                            uint64_t user)
{
    uint32_t taken = dao_range_node_take(range);
    dao_range_node_t *rest = &range->nodes[hole];
    dao_range_node_t *front = &range->nodes[taken];
    front->size_units = size_units;
    front->offset_units = rest->offset_units;
    front->before = rest->before;
    front->after = hole;
    range->nodes[rest->before].after = taken;
    rest->before = taken;
    rest->offset_units += (uint32_t)size_units;
    rest->size_units -= size_units;
    dao_range_bin_again(range, hole);
    dao_range_enter_used(range, taken, user);
    return taken;
}

/* Joins a node to the one before it, which then stands for both. */
static inline void dao_range_join_before(dao_range_t *range, uint32_t before, uint32_t index)
{
    const dao_range_node_t *node = &range->nodes[index];
    range->nodes[before].size_units += node->size_units;
    range->nodes[before].after = node->after;
    range->nodes[node->after].before = before;
    dao_range_node_give(range, index);
}

/* Joins a node to the one behind it, which then stands for both. */
static inline void dao_range_join_after(dao_range_t *range, uint32_t after, uint32_t index)
{
    const dao_range_node_t *node = &range->nodes[index];
    dao_range_node_t *rest = &range->nodes[after];
    rest->size_units += node->size_units;
    rest->offset_units = node->offset_units;
    rest->before = node->before;
    range->nodes[node->before].after = after;
    dao_range_node_give(range, index);
}

/* Makes a node of a plain range free that nobody holds, and merges it with its neighbours. */
static inline void dao_range_make_free(dao_range_t *range, uint32_t index)
{
    dao_range_node_t *node = &range->nodes[index];
    uint32_t before = node->before, after = node->after;
    bool joins_after = range->nodes[after].state == NODE_FREE;
    if (range->nodes[before].state == NODE_FREE) {
        if (joins_after) {
            dao_range_bin_remove(range, after);
            dao_range_join_before(range, index, after);
        }
        dao_range_join_before(range, before, index);
        dao_range_bin_again(range, before);
    } else if (joins_after) {
        dao_range_join_after(range, after, index);
        dao_range_bin_again(range, after);
    } else {
        node->state = NODE_FREE;
        dao_range_bin_insert(range, index, dao_range_bin_of(node->size_units));
    }
}

/* ---- range_index.c ---- */

/* Enters the start of a block into the index, and takes it out while the block is still linked to its neighbours. */
void dao_range_index_add(dao_range_t *range, uint32_t index);
void dao_range_index_drop(dao_range_t *range, uint32_t index);

/* Gives the block that an offset inside of the range lies in. */
uint32_t dao_range_node_around(const dao_range_t *range, uint32_t offset_units);

dao_range_block_t dao_range_describe(const dao_range_t *range, uint32_t index);

#endif
