/* The inside of a range, for the files range*.c: nodes, bins, map, index. What holds between calls is said in range.c. */
#ifndef DAO_ALLOCATORS_RANGE_INTERNAL_H
#define DAO_ALLOCATORS_RANGE_INTERNAL_H

#include "allocators/range.h"

#include "base/assert.h"

#include <assert.h>

/* No node: index 0 is the border, which comes before the first block and after the last one and is never free. */
#define DAO_RANGE_NONE 0u

#define UNIT_SHIFT      8
#define SUB_BIN_SHIFT   4
#define SUB_BIN_COUNT   (1u << SUB_BIN_SHIFT)
#define BIN_COUNT       (30u * SUB_BIN_COUNT) /* sizes of up to 2^33 - 1 units */
#define WORD_BITS       64u
#define BIN_WORDS       ((BIN_COUNT + WORD_BITS - 1) / WORD_BITS)
#define PAGE_UNIT_SHIFT 13 /* a page of the index is 2 MiB */

static_assert(1u << UNIT_SHIFT == DAO_RANGE_GRANULE, "a unit is a granule");
static_assert(DAO_RANGE_CAPACITY_MAX >> UNIT_SHIFT <= UINT64_C(1) << 32, "offsets fit 32 bits");

typedef enum dao_range_state {
    NODE_UNUSED = 0, /* stands for no block */
    NODE_FREE = 1,   /* nobody holds it */
    NODE_HELD = 2,   /* free, and its entry of `holds` is not empty */
    NODE_USED = 3,
    NODE_MARKED = 4, /* used, and streams are marked on it in `holds` */
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

/* An entry of the map: the node above, its offset below; 0 is empty. */
typedef uint64_t dao_range_entry_t;

struct dao_range {
    /* looked at by every call */
    dao_range_node_t *nodes;
    uint64_t *users;
    dao_range_entry_t *map;
    uint64_t used_units;
    uint32_t map_mask; /* entries - 1 */
    uint32_t map_shift;
    uint32_t map_room;   /* used blocks that the map still has room for */
    uint32_t unused;     /* the first of the unused nodes */
    uint32_t held_count; /* free nodes that are held */
    uint32_t bin_summary;
    bool is_plain; /* good fit without an index */

    uint64_t bin_words[BIN_WORDS];
    uint32_t bins[BIN_COUNT];

    dao_range_config_t config;
    uint64_t capacity_units;
    uint64_t base_units;
    dao_hold_t *holds;   /* of each node */
    uint32_t node_count; /* room in nodes, users and holds, the border included */
    uint32_t page_count;
    uint32_t *firsts; /* the index, or NULL */
    uint64_t *page_words;
};

/* ---- bins ---- */

static inline uint32_t dao_range_bin_of(uint64_t size_units)
{
    if (size_units < SUB_BIN_COUNT) {
        return (uint32_t)size_units;
    }
    uint32_t octave =
        63u ^ (uint32_t)__builtin_clzll(size_units); /* one instruction where the processor has it */
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

/* Gives the first bin from `bin` on that is not empty, or NO_BIN. */
static inline uint32_t dao_range_next_bin(const dao_range_t *range, uint32_t bin)
{
    if (bin >= BIN_COUNT) {
        return DAO_RANGE_NO_BIN;
    }
    uint32_t word = bin / WORD_BITS;
    uint64_t bits = range->bin_words[word] & UINT64_MAX << bin % WORD_BITS;
    if (bits == 0) {
        uint32_t later = range->bin_summary & UINT32_MAX << (word + 1);
        if (later == 0) {
            return DAO_RANGE_NO_BIN;
        }
        word = (uint32_t)__builtin_ctz(later);
        bits = range->bin_words[word];
    }
    return word * WORD_BITS + (uint32_t)__builtin_ctzll(bits);
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

/* ---- the map from offsets to used nodes ---- */

static inline uint32_t dao_range_map_home(const dao_range_t *range, uint32_t offset_units)
{
    return offset_units * UINT32_C(0x9e3779b1) >> range->map_shift;
}

#define DAO_RANGE_NO_ENTRY UINT32_MAX

/* Gives the entry of a used block's start, or NO_ENTRY. */
static inline uint32_t dao_range_map_find(const dao_range_t *range, uint32_t offset_units)
{
    for (uint32_t i = dao_range_map_home(range, offset_units);; i = (i + 1) & range->map_mask) {
        dao_range_entry_t entry = range->map[i];
        if ((uint32_t)entry == offset_units && entry != 0) {
            return i;
        }
        if (entry == 0) {
            return DAO_RANGE_NO_ENTRY;
        }
    }
}

static inline uint32_t dao_range_entry_node(const dao_range_t *range, uint32_t entry)
{
    return (uint32_t)(range->map[entry] >> 32);
}

static inline void dao_range_map_insert(dao_range_t *range, uint32_t offset_units, uint32_t node)
{
    uint32_t i = dao_range_map_home(range, offset_units);
    while (range->map[i] != 0) {
        i = (i + 1) & range->map_mask;
    }
    range->map[i] = (dao_range_entry_t)node << 32 | offset_units;
}

/* Empties an entry and moves those behind it back that may stand nearer to their home. */
static inline void dao_range_map_erase(dao_range_t *range, uint32_t hole)
{
    dao_range_entry_t *map = range->map;
    uint32_t mask = range->map_mask;
    uint32_t distance = 1; /* of the entry looked at from the hole */
    for (uint32_t i = (hole + 1) & mask; map[i] != 0; i = (i + 1) & mask, distance++) {
        uint32_t home = dao_range_map_home(range, (uint32_t)map[i]);
        if (((i - home) & mask) >= distance) {
            map[hole] = map[i];
            hole = i;
            distance = 0;
        }
    }
    map[hole] = 0;
}

/* Gives the map's entry for an offset in bytes, or NO_ENTRY. */
static inline uint32_t dao_range_find_used(const dao_range_t *range, uint64_t offset_bytes)
{
    if (offset_bytes >= range->config.capacity_bytes || offset_bytes % DAO_RANGE_GRANULE != 0) {
        return DAO_RANGE_NO_ENTRY;
    }
    return dao_range_map_find(range, (uint32_t)(offset_bytes >> UNIT_SHIFT));
}

/* Five eighths of the entries may be taken. */
static inline uint32_t dao_range_map_limit(const dao_range_t *range)
{
    return (range->map_mask + 1) / 8 * 5;
}

/* ---- nodes: range_table.c makes room for them ---- */

/* Tells whether two nodes can be taken. */
static inline bool dao_range_has_nodes(const dao_range_t *range)
{
    return range->unused != DAO_RANGE_NONE && range->nodes[range->unused].bin_after != DAO_RANGE_NONE;
}

/* Makes room for two more nodes and one more used block. DAO_ERR_NO_HOST_MEMORY. */
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

/* ---- the usual path: a range with good fit and no index, of which nothing is held ---- */

/* Entries of a bin that are looked at, and bins above the request's own, each about a sixteenth larger, in which holes are
   as good as in its own. The lowest of all these is taken: it packs better than the tightest, and looking at more does not
   pack better still. */
#define DAO_RANGE_SCAN_DEPTH 4u
#define DAO_RANGE_NEAR_BINS  2u

/* What a search has found. */
typedef struct dao_range_find {
    uint32_t node; /* NONE: nothing yet */
    uint32_t offset_units;
} dao_range_find_t;

/* Looks at the first `depth` entries of a bin for one that is large enough and lower than what was found. */
static inline void dao_range_look(const dao_range_t *range, uint32_t bin, uint64_t size_units, uint32_t depth,
                                  dao_range_find_t *find)
{
    const dao_range_node_t *nodes = range->nodes;
    for (uint32_t i = range->bins[bin]; i != DAO_RANGE_NONE && depth > 0; i = nodes[i].bin_after, depth--) {
        bool is_better = (nodes[i].size_units >= size_units) & (nodes[i].offset_units <= find->offset_units);
        find->node = is_better ? i : find->node;
        find->offset_units = is_better ? nodes[i].offset_units : find->offset_units;
    }
}

/* Gives the hole for a request, or NONE. Any hole of a higher bin is large enough. */
static inline uint32_t dao_range_find_good(const dao_range_t *range, uint64_t size_units)
{
    uint32_t own_bin = dao_range_bin_of(size_units);
    uint32_t near_end = own_bin + DAO_RANGE_NEAR_BINS;
    dao_range_find_t find = {.node = DAO_RANGE_NONE, .offset_units = UINT32_MAX};
    uint32_t bin = dao_range_next_bin(range, own_bin);
    while (bin != DAO_RANGE_NO_BIN) {
        dao_range_look(range, bin, size_units, DAO_RANGE_SCAN_DEPTH, &find);
        if (bin >= near_end) {
            break;
        }
        bin = dao_range_next_bin(range, bin + 1);
        if (bin > near_end && find.node != DAO_RANGE_NONE) {
            break;
        }
    }
    if (__builtin_expect(find.node == DAO_RANGE_NONE, false)) {
        dao_range_look(range, own_bin, size_units, UINT32_MAX, &find);
    }
    return find.node;
}

/* Tells whether two more nodes and one more used block find room. */
static inline bool dao_range_has_room(const dao_range_t *range)
{
    return range->map_room > 0 && dao_range_has_nodes(range);
}

/* Counts and enters a used block. */
static inline void dao_range_enter_used(dao_range_t *range, uint32_t index, uint64_t user)
{
    dao_range_node_t *node = &range->nodes[index];
    node->state = NODE_USED;
    range->users[index] = user;
    dao_range_map_insert(range, node->offset_units, index);
    range->used_units += node->size_units;
    range->map_room--;
}

/* Takes a used block out of the map and the count. */
static inline void dao_range_leave_used(dao_range_t *range, uint32_t entry, const dao_range_node_t *node)
{
    dao_range_map_erase(range, entry);
    range->used_units -= node->size_units;
    range->map_room++;
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
