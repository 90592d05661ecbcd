/* Divides offsets [0, capacity) into free and used blocks, in units of 256 bytes.

   nodes     a block each, 32 bytes; indices for links. Neighbours by address:

                 node 0 (offset 0, for ever) <-> node 7 <-> node 3 <-> ... <-> last

             Node indices that stand for no block are chained through bin_after, from `unused`.
   users     the owner's number of each node, apart so that merging does not touch it.
   bins      free nodes by size, 16 bins an octave, each a list; bin_words has a bit a bin that is not empty, bin_summary a
             bit a word that is not 0.
   map       offset of a used block -> node: open addressing, linear probes; an erased entry is closed by moving later ones
             back, so that there are no tombstones.
   firsts    for every 2 MiB of offsets the first block that starts there, where page_words has the page's bit; finds the
             block around any offset.

   What holds between calls:

       sum of size_units of all blocks == capacity_units, each begins where the one before it ends
       sum of size_units of used blocks == used_units
       no two neighbours are free
       a free block is in the bin of its size, a used one in the map, and nothing else is in either
       blocks + unused nodes == node_count

   A call that may fail first makes room in nodes, users and map for all it is going to do, then does it. Giving back makes
   blocks fewer, so it never needs memory. The offset of a node never changes while it stands for a block: what is cut off
   becomes a new node, what is merged joins the node before it. */
#include "allocators/range.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"

#include <assert.h>
#include <inttypes.h>
#include <stddef.h>

#define NONE            UINT32_MAX
#define UNIT_SHIFT      8
#define SUB_BIN_SHIFT   4
#define SUB_BIN_COUNT   (1u << SUB_BIN_SHIFT)
#define BIN_COUNT       (30u * SUB_BIN_COUNT) /* sizes of up to 2^33 - 1 units */
#define WORD_BITS       64u
#define BIN_WORDS       ((BIN_COUNT + WORD_BITS - 1) / WORD_BITS)
#define SCAN_DEPTH      4u /* entries of a bin that are looked at; more does not pack better, less does worse */
#define PAGE_UNIT_SHIFT 13 /* a page of the index is 2 MiB */
#define NODES_MIN       16u
#define MAP_MIN         16u

static_assert(1u << UNIT_SHIFT == DAO_RANGE_GRANULE, "a unit is a granule");
static_assert(DAO_RANGE_CAPACITY_MAX >> UNIT_SHIFT <= UINT64_C(1) << 32, "offsets fit 32 bits");

typedef enum node_state {
    NODE_UNUSED = 0,
    NODE_FREE = 1,
    NODE_USED = 2,
} node_state_t;

typedef struct node {
    uint64_t size_units; /* 64 bits: the whole range may be 2^32 units */
    uint32_t offset_units;
    uint32_t before; /* neighbours by address, or NONE */
    uint32_t after;
    uint32_t bin_before; /* while free; bin_after also chains unused nodes */
    uint32_t bin_after;
    uint16_t bin;
    uint16_t state;
} node_t;

static_assert(sizeof(node_t) == 32, "two nodes a cache line");

typedef struct map_entry {
    uint32_t offset_units;
    uint32_t node; /* NONE: empty */
} map_entry_t;

struct dao_range {
    uint64_t capacity_units;
    uint32_t page_count;
    uint32_t *firsts;
    uint64_t *page_words;

    uint64_t used_units;
    uint32_t used_count;

    node_t *nodes;
    uint64_t *users;
    uint32_t node_count;    /* nodes that were ever in use: blocks and the unused chain */
    uint32_t node_capacity; /* room in nodes and users */
    uint32_t unused;
    uint32_t unused_count;

    map_entry_t *map;
    uint32_t map_mask; /* entries - 1 */
    uint32_t map_shift;

    uint32_t bin_summary;
    uint64_t bin_words[BIN_WORDS];
    uint32_t bins[BIN_COUNT];
};

/* ---- bins ---- */

static uint32_t bin_of(uint64_t size_units)
{
    if (size_units < SUB_BIN_COUNT) {
        return (uint32_t)size_units;
    }
    uint32_t octave = 63u - (uint32_t)__builtin_clzll(size_units);
    uint32_t sub_bin = (uint32_t)(size_units >> (octave - SUB_BIN_SHIFT)) & (SUB_BIN_COUNT - 1);
    return (octave - SUB_BIN_SHIFT + 1) * SUB_BIN_COUNT + sub_bin;
}

static void bin_insert(dao_range_t *range, uint32_t index)
{
    node_t *node = &range->nodes[index];
    uint32_t bin = bin_of(node->size_units);
    uint32_t head = range->bins[bin];
    node->state = NODE_FREE;
    node->bin = (uint16_t)bin;
    node->bin_before = NONE;
    node->bin_after = head;
    if (head != NONE) {
        range->nodes[head].bin_before = index;
    }
    range->bins[bin] = index;
    range->bin_words[bin / WORD_BITS] |= UINT64_C(1) << bin % WORD_BITS;
    range->bin_summary |= 1u << bin / WORD_BITS;
}

static void bin_remove(dao_range_t *range, uint32_t index)
{
    node_t *node = &range->nodes[index];
    DAO_ASSERT(node->state == NODE_FREE);
    if (node->bin_after != NONE) {
        range->nodes[node->bin_after].bin_before = node->bin_before;
    }
    if (node->bin_before != NONE) {
        range->nodes[node->bin_before].bin_after = node->bin_after;
        return;
    }
    uint32_t word = node->bin / WORD_BITS;
    range->bins[node->bin] = node->bin_after;
    if (node->bin_after == NONE) {
        range->bin_words[word] &= ~(UINT64_C(1) << node->bin % WORD_BITS);
        if (range->bin_words[word] == 0) {
            range->bin_summary &= ~(1u << word);
        }
    }
}

/* Gives the first bin from `bin` on that is not empty, or NONE. */
static uint32_t next_bin(const dao_range_t *range, uint32_t bin)
{
    if (bin >= BIN_COUNT) {
        return NONE;
    }
    uint32_t word = bin / WORD_BITS;
    uint64_t bits = range->bin_words[word] & UINT64_MAX << bin % WORD_BITS;
    if (bits == 0) {
        uint32_t later = range->bin_summary & UINT32_MAX << (word + 1);
        if (later == 0) {
            return NONE;
        }
        word = (uint32_t)__builtin_ctz(later);
        bits = range->bin_words[word];
    }
    return word * WORD_BITS + (uint32_t)__builtin_ctzll(bits);
}

/* Gives the last bin before `bin` that is not empty, or NONE. */
static uint32_t previous_bin(const dao_range_t *range, uint32_t bin)
{
    while (bin > 0) {
        bin--;
        if ((range->bin_words[bin / WORD_BITS] >> bin % WORD_BITS & 1) != 0) {
            return bin;
        }
    }
    return NONE;
}

/* ---- the map from offsets to used nodes ---- */

static uint32_t map_home(const dao_range_t *range, uint32_t offset_units)
{
    return offset_units * UINT32_C(0x9e3779b1) >> range->map_shift;
}

/* Gives the entry of a used block's start, or NONE. */
static uint32_t map_find(const dao_range_t *range, uint32_t offset_units)
{
    for (uint32_t i = map_home(range, offset_units);; i = (i + 1) & range->map_mask) {
        if (range->map[i].node == NONE) {
            return NONE;
        }
        if (range->map[i].offset_units == offset_units) {
            return i;
        }
    }
}

static void map_insert(dao_range_t *range, uint32_t offset_units, uint32_t node)
{
    uint32_t i = map_home(range, offset_units);
    while (range->map[i].node != NONE) {
        i = (i + 1) & range->map_mask;
    }
    range->map[i] = (map_entry_t){.offset_units = offset_units, .node = node};
}

/* Empties an entry and moves those behind it back that may stand nearer to their home. */
static void map_erase(dao_range_t *range, uint32_t hole)
{
    uint32_t mask = range->map_mask;
    for (uint32_t i = (hole + 1) & mask; range->map[i].node != NONE; i = (i + 1) & mask) {
        uint32_t home = map_home(range, range->map[i].offset_units);
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            range->map[hole] = range->map[i];
            hole = i;
        }
    }
    range->map[hole].node = NONE;
}

/* Gives an empty map of entry_count entries, a power of two, or NULL. */
static map_entry_t *map_create(uint32_t entry_count)
{
    map_entry_t *map = dao_host_calloc(entry_count, sizeof(*map));
    if (map != NULL) {
        for (uint32_t i = 0; i < entry_count; i++) {
            map[i].node = NONE;
        }
    }
    return map;
}

static void map_set(dao_range_t *range, map_entry_t *map, uint32_t entry_count)
{
    range->map = map;
    range->map_mask = entry_count - 1;
    range->map_shift = 32u - (uint32_t)__builtin_ctz(entry_count);
}

/* Makes room for one more used block; at most three quarters of the entries are taken. */
static bool map_reserve(dao_range_t *range)
{
    uint64_t entry_count = (uint64_t)range->map_mask + 1;
    if (((uint64_t)range->used_count + 1) * 4 <= entry_count * 3) {
        return true;
    }
    if (entry_count > UINT32_MAX / 2) {
        return false;
    }
    map_entry_t *old = range->map;
    map_entry_t *map = map_create((uint32_t)entry_count * 2);
    if (map == NULL) {
        return false;
    }
    map_set(range, map, (uint32_t)entry_count * 2);
    for (uint64_t i = 0; i < entry_count; i++) {
        if (old[i].node != NONE) {
            map_insert(range, old[i].offset_units, old[i].node);
        }
    }
    dao_host_free(old);
    return true;
}

/* ---- the index of first starts ---- */

static bool page_has_start(const dao_range_t *range, uint32_t page)
{
    return (range->page_words[page / WORD_BITS] >> page % WORD_BITS & 1) != 0;
}

static void start_add(dao_range_t *range, uint32_t index)
{
    uint32_t offset_units = range->nodes[index].offset_units;
    uint32_t page = offset_units >> PAGE_UNIT_SHIFT;
    if (!page_has_start(range, page) || range->nodes[range->firsts[page]].offset_units > offset_units) {
        range->firsts[page] = index;
        range->page_words[page / WORD_BITS] |= UINT64_C(1) << page % WORD_BITS;
    }
}

/* Called while the node is still linked to its neighbours. */
static void start_remove(dao_range_t *range, uint32_t index)
{
    uint32_t page = range->nodes[index].offset_units >> PAGE_UNIT_SHIFT;
    if (range->firsts[page] != index) {
        return;
    }
    uint32_t after = range->nodes[index].after;
    if (after != NONE && range->nodes[after].offset_units >> PAGE_UNIT_SHIFT == page) {
        range->firsts[page] = after;
    } else {
        range->page_words[page / WORD_BITS] &= ~(UINT64_C(1) << page % WORD_BITS);
    }
}

/* Gives the last page up to `page` that a block starts in; page 0 always is one. */
static uint32_t page_with_start(const dao_range_t *range, uint32_t page)
{
    uint32_t word = page / WORD_BITS;
    uint64_t bits = range->page_words[word] & UINT64_MAX >> (WORD_BITS - 1 - page % WORD_BITS);
    while (bits == 0) {
        DAO_ASSERT(word > 0);
        bits = range->page_words[--word];
    }
    return word * WORD_BITS + 63u - (uint32_t)__builtin_clzll(bits);
}

/* Gives the block that an offset inside of the range lies in. */
static uint32_t node_around(const dao_range_t *range, uint32_t offset_units)
{
    uint32_t page = page_with_start(range, offset_units >> PAGE_UNIT_SHIFT);
    uint32_t index = range->firsts[page];
    if (range->nodes[index].offset_units > offset_units) {
        return range->nodes[index].before;
    }
    for (;;) {
        const node_t *node = &range->nodes[index];
        if (offset_units - node->offset_units < node->size_units) {
            return index;
        }
        index = node->after;
    }
}

/* ---- nodes ---- */

/* Makes room for `count` more nodes. */
static bool nodes_reserve(dao_range_t *range, uint32_t count)
{
    if (range->node_capacity - range->node_count + range->unused_count >= count) {
        return true;
    }
    if (range->node_capacity > UINT32_MAX / 4) {
        return false;
    }
    uint32_t capacity = range->node_capacity * 2 + NODES_MIN;
    node_t *nodes = dao_host_realloc(range->nodes, capacity, sizeof(*nodes));
    if (nodes == NULL) {
        return false;
    }
    range->nodes = nodes;
    uint64_t *users = dao_host_realloc(range->users, capacity, sizeof(*users));
    if (users == NULL) {
        return false; /* nodes has more room than node_capacity says, which harms nothing */
    }
    range->users = users;
    range->node_capacity = capacity;
    return true;
}

static uint32_t node_take(dao_range_t *range)
{
    uint32_t index = range->unused;
    if (index == NONE) {
        DAO_ASSERT(range->node_count < range->node_capacity);
        return range->node_count++;
    }
    range->unused = range->nodes[index].bin_after;
    range->unused_count--;
    return index;
}

static void node_give(dao_range_t *range, uint32_t index)
{
    range->nodes[index].state = NODE_UNUSED;
    range->nodes[index].bin_after = range->unused;
    range->unused = index;
    range->unused_count++;
}

/* Cuts a block in two; gives the second part, which is in no list yet. */
static uint32_t split_block(dao_range_t *range, uint32_t index, uint64_t first_units)
{
    uint32_t rest = node_take(range);
    node_t *node = &range->nodes[index];
    DAO_ASSERT(first_units > 0 && first_units < node->size_units);
    range->nodes[rest] = (node_t){.size_units = node->size_units - first_units,
                                  .offset_units = (uint32_t)(node->offset_units + first_units),
                                  .before = index,
                                  .after = node->after,
                                  .bin_before = NONE,
                                  .bin_after = NONE};
    range->users[rest] = 0;
    if (node->after != NONE) {
        range->nodes[node->after].before = rest;
    }
    node->after = rest;
    node->size_units = first_units;
    start_add(range, rest);
    return rest;
}

/* Joins the block after `index` to it; neither is in a bin. */
static void join_next(dao_range_t *range, uint32_t index)
{
    uint32_t gone = range->nodes[index].after;
    start_remove(range, gone);
    range->nodes[index].size_units += range->nodes[gone].size_units;
    range->nodes[index].after = range->nodes[gone].after;
    if (range->nodes[gone].after != NONE) {
        range->nodes[range->nodes[gone].after].before = index;
    }
    node_give(range, gone);
}

/* ---- placement ---- */

typedef struct request {
    uint64_t size_units;
    uint64_t alignment_units;
} request_t;

static uint64_t aligned_start(const node_t *node, const request_t *request)
{
    return (node->offset_units + request->alignment_units - 1) & ~(request->alignment_units - 1);
}

static bool request_fits(const node_t *node, const request_t *request)
{
    return aligned_start(node, request) + request->size_units <= node->offset_units + node->size_units;
}

/* Gives the hole of the lowest address that fits among the first `depth` of a bin, or NONE. */
static uint32_t look_in_bin(const dao_range_t *range, uint32_t bin, const request_t *request, uint32_t depth)
{
    uint32_t best = NONE;
    for (uint32_t i = range->bins[bin]; i != NONE && depth > 0; i = range->nodes[i].bin_after, depth--) {
        const node_t *node = &range->nodes[i];
        if ((best == NONE || node->offset_units < range->nodes[best].offset_units) &&
            request_fits(node, request)) {
            best = i;
        }
    }
    return best;
}

/* Any hole of a higher bin fits a request without alignment, so that the first pass ends at the first such bin. The second
   pass then finds all bins but the request's own empty; it is there so that no hole that fits is ever missed. */
static uint32_t find_hole(const dao_range_t *range, const request_t *request)
{
    static const uint32_t depths[] = {SCAN_DEPTH, UINT32_MAX};
    uint32_t own_bin = bin_of(request->size_units);
    for (size_t pass = 0; pass < sizeof(depths) / sizeof(depths[0]); pass++) {
        for (uint32_t bin = next_bin(range, own_bin); bin != NONE; bin = next_bin(range, bin + 1)) {
            uint32_t hole = look_in_bin(range, bin, request, depths[pass]);
            if (hole != NONE) {
                return hole;
            }
        }
    }
    return NONE;
}

/* Makes room for all that taking one block may need: a part before it, a part after it, an entry of the map. */
static dao_status_t reserve_for_alloc(dao_range_t *range)
{
    if (!nodes_reserve(range, 2) || !map_reserve(range)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the table of %" PRIu32 " blocks",
                         range->used_count);
    }
    return DAO_OK;
}

/* Takes [start, start + size) out of a hole. Room has been made. */
static void carve(dao_range_t *range, uint32_t hole, uint64_t start_units, uint64_t size_units, uint64_t user)
{
    uint32_t taken = hole;
    bin_remove(range, hole);
    if (start_units > range->nodes[hole].offset_units) {
        taken = split_block(range, hole, start_units - range->nodes[hole].offset_units);
        bin_insert(range, hole);
    }
    if (range->nodes[taken].size_units > size_units) {
        bin_insert(range, split_block(range, taken, size_units));
    }
    range->nodes[taken].state = NODE_USED;
    range->users[taken] = user;
    map_insert(range, range->nodes[taken].offset_units, taken);
    range->used_units += size_units;
    range->used_count++;
}

dao_status_t dao_range_alloc(dao_range_t *range, uint64_t size_bytes, uint64_t alignment_bytes, uint64_t user,
                             uint64_t *out_offset_bytes)
{
    DAO_ASSERT(size_bytes > 0);
    DAO_ASSERT((alignment_bytes & (alignment_bytes - 1)) == 0);
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
    if (size_bytes > dao_range_capacity(range)) {
        return DAO_ERR_LIMIT;
    }
    request_t request = {.size_units = (size_bytes + DAO_RANGE_GRANULE - 1) >> UNIT_SHIFT,
                         .alignment_units =
                             alignment_bytes > DAO_RANGE_GRANULE ? alignment_bytes >> UNIT_SHIFT : 1};
    uint32_t hole = find_hole(range, &request);
    if (hole == NONE) {
        return DAO_ERR_LIMIT;
    }
    dao_status_t status = reserve_for_alloc(range); /* moves nodes but not their indices */
    if (status != DAO_OK) {
        return status;
    }
    uint64_t start_units = aligned_start(&range->nodes[hole], &request);
    carve(range, hole, start_units, request.size_units, user);
    *out_offset_bytes = start_units << UNIT_SHIFT;
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
    return DAO_OK;
}

dao_status_t dao_range_alloc_at(dao_range_t *range, uint64_t offset_bytes, uint64_t size_bytes, uint64_t user)
{
    DAO_ASSERT(size_bytes > 0);
    DAO_ASSERT(offset_bytes % DAO_RANGE_GRANULE == 0 && size_bytes % DAO_RANGE_GRANULE == 0);
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
    uint64_t capacity_bytes = dao_range_capacity(range);
    if (offset_bytes >= capacity_bytes || size_bytes > capacity_bytes - offset_bytes) {
        return DAO_ERR_LIMIT;
    }
    uint64_t start_units = offset_bytes >> UNIT_SHIFT;
    uint64_t size_units = size_bytes >> UNIT_SHIFT;
    uint32_t hole = node_around(range, (uint32_t)start_units);
    const node_t *node = &range->nodes[hole];
    if (node->state != NODE_FREE || start_units + size_units > node->offset_units + node->size_units) {
        return DAO_ERR_LIMIT;
    }
    dao_status_t status = reserve_for_alloc(range);
    if (status != DAO_OK) {
        return status;
    }
    carve(range, hole, start_units, size_units, user);
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
    return DAO_OK;
}

/* Tells why no used block starts at an offset. */
static dao_status_t free_error(const dao_range_t *range, uint64_t offset_bytes)
{
    if (offset_bytes >= dao_range_capacity(range)) {
        return DAO_ERR_FOREIGN_POINTER;
    }
    uint32_t around = node_around(range, (uint32_t)(offset_bytes >> UNIT_SHIFT));
    return range->nodes[around].state == NODE_FREE ? DAO_ERR_DOUBLE_FREE : DAO_ERR_INTERIOR_POINTER;
}

static dao_range_block_t describe(const dao_range_t *range, uint32_t index)
{
    const node_t *node = &range->nodes[index];
    bool is_free = node->state == NODE_FREE;
    return (dao_range_block_t){.offset_bytes = (uint64_t)node->offset_units << UNIT_SHIFT,
                               .size_bytes = node->size_units << UNIT_SHIFT,
                               .user = is_free ? 0 : range->users[index],
                               .is_free = is_free};
}

/* Gives the map's entry for an offset in bytes, or NONE. */
static uint32_t find_used(const dao_range_t *range, uint64_t offset_bytes)
{
    if (offset_bytes >= dao_range_capacity(range) || offset_bytes % DAO_RANGE_GRANULE != 0) {
        return NONE;
    }
    return map_find(range, (uint32_t)(offset_bytes >> UNIT_SHIFT));
}

dao_status_t dao_range_free_block(dao_range_t *range, uint64_t offset_bytes, dao_range_block_t *out_block)
{
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
    uint32_t entry = find_used(range, offset_bytes);
    if (entry == NONE) {
        return free_error(range, offset_bytes);
    }
    uint32_t index = range->map[entry].node;
    DAO_ASSERT(range->nodes[index].state == NODE_USED);
    *out_block = describe(range, index);
    map_erase(range, entry);
    range->used_units -= range->nodes[index].size_units;
    range->used_count--;
    uint32_t after = range->nodes[index].after;
    if (after != NONE && range->nodes[after].state == NODE_FREE) {
        bin_remove(range, after);
        join_next(range, index);
    }
    uint32_t before = range->nodes[index].before;
    if (before != NONE && range->nodes[before].state == NODE_FREE) {
        bin_remove(range, before);
        join_next(range, before);
        index = before;
    }
    bin_insert(range, index);
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
    return DAO_OK;
}

dao_status_t dao_range_free(dao_range_t *range, uint64_t offset_bytes)
{
    dao_range_block_t block;
    return dao_range_free_block(range, offset_bytes, &block);
}

/* ---- looking ---- */

dao_status_t dao_range_query(const dao_range_t *range, uint64_t offset_bytes, dao_range_block_t *out_block)
{
    if (offset_bytes >= dao_range_capacity(range)) {
        return DAO_ERR_FOREIGN_POINTER;
    }
    uint32_t entry = find_used(range, offset_bytes);
    uint32_t index =
        entry != NONE ? range->map[entry].node : node_around(range, (uint32_t)(offset_bytes >> UNIT_SHIFT));
    *out_block = describe(range, index);
    return DAO_OK;
}

void dao_range_walk(const dao_range_t *range, dao_range_visit_t visit, void *user)
{
    for (uint32_t index = 0; index != NONE; index = range->nodes[index].after) {
        dao_range_block_t block = describe(range, index);
        if (!visit(&block, user)) {
            return;
        }
    }
}

void dao_range_walk_holes(const dao_range_t *range, dao_range_visit_t visit, void *user)
{
    for (uint32_t bin = previous_bin(range, BIN_COUNT); bin != NONE; bin = previous_bin(range, bin)) {
        for (uint32_t index = range->bins[bin]; index != NONE; index = range->nodes[index].bin_after) {
            dao_range_block_t block = describe(range, index);
            if (!visit(&block, user)) {
                return;
            }
        }
    }
}

uint64_t dao_range_capacity(const dao_range_t *range)
{
    return range->capacity_units << UNIT_SHIFT;
}

uint64_t dao_range_used(const dao_range_t *range)
{
    return range->used_units << UNIT_SHIFT;
}

uint64_t dao_range_largest_hole(const dao_range_t *range)
{
    uint64_t largest_units = 0;
    uint32_t bin = previous_bin(range, BIN_COUNT);
    for (uint32_t i = bin != NONE ? range->bins[bin] : NONE; i != NONE; i = range->nodes[i].bin_after) {
        if (range->nodes[i].size_units > largest_units) {
            largest_units = range->nodes[i].size_units;
        }
    }
    return largest_units << UNIT_SHIFT;
}

/* ---- create, destroy ---- */

dao_status_t dao_range_create(uint64_t capacity_bytes, dao_range_t **out_range)
{
    DAO_ASSERT(capacity_bytes >= DAO_RANGE_GRANULE && capacity_bytes <= DAO_RANGE_CAPACITY_MAX);
    DAO_ASSERT(capacity_bytes % DAO_RANGE_GRANULE == 0);
    dao_range_t *range = dao_host_calloc(1, sizeof(*range));
    if (range == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the tables of a range");
    }
    range->capacity_units = capacity_bytes >> UNIT_SHIFT;
    range->page_count = (uint32_t)(((range->capacity_units - 1) >> PAGE_UNIT_SHIFT) + 1);
    range->unused = NONE;
    range->firsts = dao_host_calloc(range->page_count, sizeof(*range->firsts));
    range->page_words =
        dao_host_calloc((range->page_count + WORD_BITS - 1) / WORD_BITS, sizeof(*range->page_words));
    map_entry_t *map = map_create(MAP_MIN);
    map_set(range, map, MAP_MIN);
    if (range->firsts == NULL || range->page_words == NULL || map == NULL || !nodes_reserve(range, 1)) {
        dao_range_destroy(range);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the tables of a range");
    }
    for (uint32_t bin = 0; bin < BIN_COUNT; bin++) {
        range->bins[bin] = NONE;
    }
    uint32_t first = node_take(range);
    DAO_ASSERT(first == 0);
    range->nodes[first] = (node_t){.size_units = range->capacity_units, .before = NONE, .after = NONE};
    range->users[first] = 0;
    start_add(range, first);
    bin_insert(range, first);
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
    *out_range = range;
    return DAO_OK;
}

void dao_range_destroy(dao_range_t *range)
{
    if (range == NULL) {
        return;
    }
    dao_host_free(range->map);
    dao_host_free(range->users);
    dao_host_free(range->nodes);
    dao_host_free(range->page_words);
    dao_host_free(range->firsts);
    dao_host_free(range);
}

/* ---- is_valid ---- */

/* What a walk over the blocks has counted. */
typedef struct recount {
    uint64_t used_units;
    uint32_t used_count;
    uint32_t free_count;
    uint32_t page_count; /* pages that a block starts in */
} recount_t;

/* Checks one block against the one before it and against map, bins and index. */
static bool block_is_valid(const dao_range_t *range, uint32_t index, uint32_t before, uint64_t offset_units,
                           recount_t *recount)
{
    const node_t *node = &range->nodes[index];
    if (node->offset_units != offset_units || node->before != before || node->size_units == 0 ||
        node->size_units > range->capacity_units - offset_units) {
        return false;
    }
    uint32_t page = node->offset_units >> PAGE_UNIT_SHIFT;
    if (before == NONE || range->nodes[before].offset_units >> PAGE_UNIT_SHIFT != page) {
        recount->page_count++;
        if (!page_has_start(range, page) || range->firsts[page] != index) {
            return false;
        }
    }
    if (node->state == NODE_USED) {
        recount->used_count++;
        recount->used_units += node->size_units;
        uint32_t entry = map_find(range, node->offset_units);
        return entry != NONE && range->map[entry].node == index;
    }
    recount->free_count++;
    return node->state == NODE_FREE && node->bin == bin_of(node->size_units) &&
           (before == NONE || range->nodes[before].state == NODE_USED);
}

static bool blocks_are_valid(const dao_range_t *range, recount_t *recount)
{
    uint64_t offset_units = 0;
    uint32_t before = NONE;
    uint32_t count = 0;
    for (uint32_t i = 0; i != NONE; before = i, i = range->nodes[i].after) {
        if (i >= range->node_count || ++count > range->node_count ||
            !block_is_valid(range, i, before, offset_units, recount)) {
            return false;
        }
        offset_units += range->nodes[i].size_units;
    }
    uint32_t unused_count = 0;
    for (uint32_t i = range->unused; i != NONE; i = range->nodes[i].bin_after) {
        if (i >= range->node_count || ++unused_count > range->node_count ||
            range->nodes[i].state != NODE_UNUSED) {
            return false;
        }
    }
    return offset_units == range->capacity_units && unused_count == range->unused_count &&
           count + unused_count == range->node_count;
}

static bool bins_are_valid(const dao_range_t *range, const recount_t *recount)
{
    uint32_t free_count = 0;
    for (uint32_t bin = 0; bin < BIN_COUNT; bin++) {
        bool has_bit = (range->bin_words[bin / WORD_BITS] >> bin % WORD_BITS & 1) != 0;
        if (has_bit != (range->bins[bin] != NONE)) {
            return false;
        }
        uint32_t before = NONE;
        for (uint32_t i = range->bins[bin]; i != NONE; before = i, i = range->nodes[i].bin_after) {
            const node_t *node = &range->nodes[i];
            if (++free_count > recount->free_count || node->state != NODE_FREE || node->bin != bin ||
                node->bin_before != before) {
                return false;
            }
        }
    }
    for (uint32_t word = 0; word < BIN_WORDS; word++) {
        if ((range->bin_words[word] != 0) != ((range->bin_summary >> word & 1) != 0)) {
            return false;
        }
    }
    return free_count == recount->free_count;
}

static bool tables_are_valid(const dao_range_t *range, const recount_t *recount)
{
    uint32_t entry_count = 0;
    for (uint64_t i = 0; i <= range->map_mask; i++) {
        entry_count += range->map[i].node != NONE;
    }
    uint32_t page_count = 0;
    for (uint32_t word = 0; word < (range->page_count + WORD_BITS - 1) / WORD_BITS; word++) {
        page_count += (uint32_t)__builtin_popcountll(range->page_words[word]);
    }
    return entry_count == recount->used_count && page_count == recount->page_count;
}

bool dao_range_is_valid(const dao_range_t *range)
{
    recount_t recount = {0};
    return blocks_are_valid(range, &recount) && bins_are_valid(range, &recount) &&
           tables_are_valid(range, &recount) && recount.used_units == range->used_units &&
           recount.used_count == range->used_count;
}
