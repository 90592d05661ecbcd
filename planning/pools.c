/* Which items lie in which pool, and where.

   How high a set of items has to be does not depend on the pool that it lies in, as every pool begins at 0 and an item that must
   lie in a pool is in no set of another one. So each set is packed once, all by themselves; then pools take sets, one pool
   after the other:

       sets of items     {a} {b} {a b} {c} ...          packed[set]: the lowest peak that it can have
       pool 0            takes one that it holds         least[0][taken] = packed[taken]
       pool 1            takes one of those left         least[1][taken] = min over parts: least[0][taken - part] + packed[part]

   A set is packed by placing its items in the order of their offsets, of equal ones the first item first, each on the highest
   of those that it overlaps: any packing can be pushed down into one of these. Three things cut it short (see also
   search_fit.c): what is to come does not fit below the best packing so far; an item lies where all of another one could be
   beneath it; and the packing is no higher than that of the set less one item, or than what is alive in it at some time.

   Items of which some bytes are not used at times may lie beneath what they rest on. Then packings are missing here, and
   nothing is proved; what is found is still a packing.

   What holds: packed[set] is at least packed[part] for each part of it, if the search was not cut off. */
#include "planning/pools.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/math.h"

#include <string.h>

/* Sets of so many items are looked at, as long as there are not more pairs of a set and a part of it, over all pools, than so
   many: some ten milliseconds. */
#define ITEM_COUNT_MAX 12u
#define PAIR_COUNT_MAX ((uint64_t)1 << 22)

/* So many items are placed at most, over all sets: about a second. Nothing is exact then. */
#define STEP_COUNT_MAX ((uint64_t)1 << 22)

/* Between two looks whether it is cancelled. */
#define STEPS_PER_LOOK 256u

/* So many parts of sets are looked at for a step of work. */
#define PARTS_PER_WORK 8u

#define NO_PEAK UINT64_MAX

typedef uint32_t set_t; /* bit i: item i */

/* A packing while it is made. */
typedef struct packing {
    uint64_t offsets[ITEM_COUNT_MAX];
    uint64_t best_offsets[ITEM_COUNT_MAX];
    uint64_t best_peak; /* NO_PEAK: none yet */
    uint64_t bound;     /* it ends when this is met */
} packing_t;

typedef struct pools {
    dao_plan_instance_t *instance;
    dao_plan_meter_t *meter;
    uint32_t item_count;
    bool overlap[ITEM_COUNT_MAX][ITEM_COUNT_MAX]; /* they may not share bytes */
    set_t *alive; /* the items that live when a piece begins; without clocks */
    uint32_t alive_count;
    bool are_whole;  /* all bytes of every item are used all the time */
    bool is_cut_off; /* more steps than there may be, or cancelled */
    uint64_t step_count;
    uint64_t *packed; /* of each set; NO_PEAK: fixed items are in the way of each other */
    uint64_t *least;  /* of each set that is taken, by the pools so far; NO_PEAK: they do not hold it */
    uint64_t *before; /* the same, by the pools before the last one */
    uint16_t *parts;  /* of each pool and set: what the pool takes of it */
} pools_t;

static uint64_t power_of_three(uint32_t exponent)
{
    uint64_t power = 1;
    for (uint32_t i = 0; i < exponent; i++) {
        power *= 3;
    }
    return power;
}

bool dao_plan_pools_knows(const dao_plan_instance_t *instance)
{
    return instance->pool_count > 1 && instance->item_count > 0 && instance->item_count <= ITEM_COUNT_MAX &&
           power_of_three(instance->item_count) * instance->pool_count <= PAIR_COUNT_MAX;
}

/* ---- who overlaps whom ---- */

static bool do_overlap(const dao_plan_instance_t *instance, uint32_t left, uint32_t right)
{
    if (dao_plan_instance_is_ordered(instance, left, right)) {
        return false;
    }
    for (uint32_t i = 0; i < dao_plan_instance_piece_count(instance, left); i++) {
        dao_plan_piece_t own =
            dao_plan_instance_piece(instance, dao_plan_instance_piece_at(instance, left, i));
        for (uint32_t k = 0; k < dao_plan_instance_piece_count(instance, right); k++) {
            dao_plan_piece_t other =
                dao_plan_instance_piece(instance, dao_plan_instance_piece_at(instance, right, k));
            if (own.begin < other.end && other.begin < own.end) {
                return true;
            }
        }
    }
    return false;
}

static bool is_whole(const dao_plan_instance_t *instance, uint32_t item)
{
    for (uint32_t i = 0; i < dao_plan_instance_piece_count(instance, item); i++) {
        dao_plan_piece_t piece =
            dao_plan_instance_piece(instance, dao_plan_instance_piece_at(instance, item, i));
        if (piece.high - piece.low != instance->items[item].size_bytes) {
            return false;
        }
    }
    return true;
}

/* Lists who lives when each piece begins. Clocks do not tell. */
static void list_alive(pools_t *pools)
{
    const dao_plan_instance_t *instance = pools->instance;
    uint32_t count = instance->clock_count > 0 ? 0 : instance->piece_count;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t time = dao_plan_instance_piece(instance, i).begin;
        set_t alive = 0;
        for (uint32_t k = 0; k < count; k++) {
            dao_plan_piece_t piece = dao_plan_instance_piece(instance, k);
            alive |= piece.begin <= time && time < piece.end ? (set_t)1 << piece.item : 0;
        }
        if (pools->alive_count == 0 || pools->alive[pools->alive_count - 1] != alive) {
            pools->alive[pools->alive_count++] = alive;
        }
    }
}

static void look_at_items(pools_t *pools)
{
    list_alive(pools);
    pools->are_whole = true;
    for (uint32_t i = 0; i < pools->item_count; i++) {
        pools->are_whole = pools->are_whole && is_whole(pools->instance, i);
        for (uint32_t k = 0; k < pools->item_count; k++) {
            pools->overlap[i][k] = i != k && do_overlap(pools->instance, i, k);
        }
    }
}

/* ---- one set ---- */

static uint32_t first_of(set_t set)
{
    return (uint32_t)__builtin_ctz(set);
}

static uint64_t bytes_of(const pools_t *pools, set_t set)
{
    uint64_t bytes = 0;
    for (; set != 0; set &= set - 1) {
        bytes += pools->instance->items[first_of(set)].size_bytes;
    }
    return bytes;
}

/* The lowest offset above those that are placed and overlap an item, and no lower than `floor`. Fixed items have their own; NO_PEAK
   if that is too low. */
static uint64_t offset_of(const pools_t *pools, const packing_t *packing, set_t placed, uint32_t item,
                          uint64_t floor)
{
    const dao_plan_item_t *items = pools->instance->items;
    uint64_t offset = floor;
    for (set_t left = placed; left != 0; left &= left - 1) {
        uint32_t other = first_of(left);
        if (pools->overlap[item][other]) {
            offset = dao_larger(offset, packing->offsets[other] + items[other].size_bytes);
        }
    }
    if (items[item].is_fixed) {
        uint64_t fixed = pools->instance->fixed_offsets[item];
        return fixed >= offset ? fixed : NO_PEAK;
    }
    return dao_round_up(offset, (uint64_t)1 << items[item].alignment_log2);
}

/* The most bytes of a set that are alive at once. */
static uint64_t load_of(const pools_t *pools, set_t set)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < pools->alive_count; i++) {
        most = dao_larger(most, bytes_of(pools, set & pools->alive[i]));
    }
    return most;
}

/* Tells whether no packing that goes on from here is below the best one: an item has no room left under it. `out_cap`: all
   offsets from here on are below this, or something could lie beneath them. */
static bool is_hopeless(const pools_t *pools, const packing_t *packing, set_t placed, set_t waiting,
                        uint64_t floor, uint64_t *out_cap)
{
    const dao_plan_item_t *items = pools->instance->items;
    *out_cap = NO_PEAK;
    if (packing->best_peak != NO_PEAK && floor + load_of(pools, waiting) >= packing->best_peak) {
        return true;
    }
    for (set_t left = waiting; left != 0; left &= left - 1) {
        uint32_t item = first_of(left);
        uint64_t offset = offset_of(pools, packing, placed, item, floor);
        if (offset == NO_PEAK || offset + items[item].size_bytes >= packing->best_peak) {
            return true;
        }
        uint64_t lowest = items[item].is_fixed ? NO_PEAK : offset_of(pools, packing, placed, item, 0);
        *out_cap = lowest == NO_PEAK || lowest + items[item].size_bytes > *out_cap
                       ? *out_cap
                       : lowest + items[item].size_bytes;
    }
    return false;
}

static bool is_over(pools_t *pools, const packing_t *packing)
{
    pools->step_count++;
    pools->meter->used++;
    if (pools->step_count % STEPS_PER_LOOK == 0 && dao_plan_meter_is_cancelled(pools->meter)) {
        pools->is_cut_off = true;
    }
    pools->is_cut_off = pools->is_cut_off || pools->step_count >= STEP_COUNT_MAX;
    return pools->is_cut_off || packing->best_peak <= packing->bound;
}

/* Places one item after the other, each in all the ways there are. As deep as there are items, which are few. */
static void pack_rest(pools_t *pools, packing_t *packing, set_t placed, set_t waiting, uint32_t last,
                      uint64_t peak)
{
    const dao_plan_item_t *items = pools->instance->items;
    uint64_t floor = placed == 0 ? 0 : packing->offsets[last], cap = NO_PEAK;
    if (waiting == 0) {
        packing->best_peak = peak;
        memcpy(packing->best_offsets, packing->offsets, sizeof(packing->offsets));
        return;
    }
    if (is_over(pools, packing) || is_hopeless(pools, packing, placed, waiting, floor, &cap)) {
        return;
    }
    for (set_t left = waiting; left != 0 && peak < packing->best_peak; left &= left - 1) {
        uint32_t item = first_of(left);
        uint64_t offset = offset_of(pools, packing, placed, item, 0);
        bool is_in_order = placed == 0 || offset > floor || (offset == floor && item > last);
        uint64_t end = offset + items[item].size_bytes;
        if (offset != NO_PEAK && is_in_order && offset < cap && end < packing->best_peak) {
            packing->offsets[item] = offset;
            pack_rest(pools, packing, placed | (set_t)1 << item, waiting & ~((set_t)1 << item), item,
                      dao_larger(peak, end));
        }
    }
}

/* Packs a set, as low as it can be. */
static void pack(pools_t *pools, packing_t *packing, set_t set)
{
    packing->best_peak = NO_PEAK;
    packing->bound = load_of(pools, set);
    for (set_t left = set; left != 0; left &= left - 1) {
        packing->bound = dao_larger(packing->bound, pools->packed[set & ~((set_t)1 << first_of(left))]);
    }
    if (packing->bound != NO_PEAK) { /* else fixed items are in the way already */
        pack_rest(pools, packing, 0, set, 0, 0);
    }
}

static void pack_all(pools_t *pools)
{
    set_t end = (set_t)1 << pools->item_count;
    pools->packed[0] = 0;
    for (set_t set = 1; set < end; set++) {
        packing_t packing;
        pack(pools, &packing, set);
        pools->packed[set] = packing.best_peak;
    }
}

/* ---- all pools ---- */

/* The items that may lie in a pool. */
static set_t allowed_in(const pools_t *pools, uint32_t pool)
{
    set_t allowed = 0;
    for (uint32_t i = 0; i < pools->item_count; i++) {
        uint32_t own = pools->instance->items[i].pool;
        allowed |= own == pool || own == DAO_PLAN_ITEM_ANY_POOL ? (set_t)1 << i : 0;
    }
    return allowed;
}

/* What a pool takes of a set beside those before it. Of equal parts it is nothing, or the one with the lowest number. */
static void take_part(pools_t *pools, uint32_t pool, set_t set, set_t allowed)
{
    const uint64_t *before = pools->before;
    uint64_t capacity = pools->instance->capacities[pool], least = before[set];
    set_t own = set & allowed, chosen = 0;
    for (set_t part = own; part != 0; part = (part - 1) & own) {
        uint64_t rest = before[set & ~part], peak = pools->packed[part];
        bool is_held = rest != NO_PEAK && peak != NO_PEAK && peak <= capacity;
        if (is_held && (rest + peak < least || (rest + peak == least && part < chosen))) {
            least = rest + peak;
            chosen = part;
        }
    }
    pools->least[set] = least;
    pools->parts[((size_t)pool << pools->item_count) + set] = (uint16_t)chosen;
    pools->meter->used += 1 + ((uint64_t)1 << __builtin_popcount(own)) / PARTS_PER_WORK;
}

/* Lets a pool take the best part of each set. */
static void take_parts(pools_t *pools, uint32_t pool)
{
    set_t end = (set_t)1 << pools->item_count, allowed = allowed_in(pools, pool);
    uint64_t *before = pools->least;
    pools->least = pools->before;
    pools->before = before;
    for (set_t set = 0; set < end; set++) {
        if (dao_plan_meter_is_cancelled(pools->meter)) {
            pools->is_cut_off = true;
            return;
        }
        take_part(pools, pool, set, allowed);
    }
}

static void fill_pools(pools_t *pools)
{
    set_t end = (set_t)1 << pools->item_count;
    for (set_t set = 0; set < end; set++) {
        pools->least[set] = set == 0 ? 0 : NO_PEAK;
    }
    for (uint32_t pool = 0; pool < pools->instance->pool_count; pool++) {
        take_parts(pools, pool);
    }
}

/* The set of most bytes that the pools hold, of those the one with the lowest peak. Fixed items are in it. */
static set_t choose_set(const pools_t *pools)
{
    set_t end = (set_t)1 << pools->item_count, chosen = 0, fixed = 0;
    uint64_t most = 0;
    for (uint32_t i = 0; i < pools->item_count; i++) {
        fixed |= pools->instance->items[i].is_fixed ? (set_t)1 << i : 0;
    }
    for (set_t set = 0; set < end; set++) {
        uint64_t bytes = bytes_of(pools, set);
        bool is_possible = pools->least[set] != NO_PEAK && (set & fixed) == fixed;
        if (is_possible && (bytes > most || (bytes == most && pools->least[set] < pools->least[chosen]))) {
            most = bytes;
            chosen = set;
        }
    }
    return chosen;
}

/* Places a set of items, and nothing else. */
static void place_set(pools_t *pools, dao_plan_layout_t *layout, set_t set)
{
    for (uint32_t i = 0; i < pools->item_count; i++) {
        dao_plan_layout_put(layout, i, DAO_PLAN_NOWHERE, 0);
    }
    for (uint32_t pool = pools->instance->pool_count; pool-- > 0;) {
        set_t part = pools->parts[((size_t)pool << pools->item_count) + set];
        packing_t packing;
        pack(pools, &packing, part);
        for (set_t left = part; left != 0; left &= left - 1) {
            dao_plan_layout_put(layout, first_of(left), packing.best_offsets[first_of(left)], pool);
        }
        set &= ~part;
    }
    DAO_ASSERT(set == 0);
}

/* ---- start and end ---- */

static bool pools_init(pools_t *pools, dao_plan_instance_t *instance, dao_plan_meter_t *meter)
{
    dao_plan_memory_t *memory = &instance->memory;
    size_t count = (size_t)1 << instance->item_count;
    *pools = (pools_t){.instance = instance, .meter = meter, .item_count = instance->item_count};
    pools->packed = dao_plan_take(memory, count, sizeof(*pools->packed));
    pools->least = dao_plan_take(memory, count, sizeof(*pools->least));
    pools->before = dao_plan_take(memory, count, sizeof(*pools->before));
    pools->parts = dao_plan_take(memory, count * instance->pool_count, sizeof(*pools->parts));
    pools->alive = dao_plan_take(memory, instance->piece_count, sizeof(*pools->alive));
    return pools->alive != NULL && pools->packed != NULL && pools->least != NULL && pools->before != NULL &&
           pools->parts != NULL;
}

static void pools_finish(pools_t *pools)
{
    dao_plan_memory_t *memory = &pools->instance->memory;
    dao_plan_give(memory, pools->packed);
    dao_plan_give(memory, pools->least);
    dao_plan_give(memory, pools->before);
    dao_plan_give(memory, pools->parts);
    dao_plan_give(memory, pools->alive);
}

dao_status_t dao_plan_pools_find(dao_plan_instance_t *instance, dao_plan_layout_t *layout,
                                 dao_plan_meter_t *meter, bool *out_is_exact)
{
    DAO_ASSERT(dao_plan_pools_knows(instance));
    pools_t pools;
    if (!pools_init(&pools, instance, meter)) {
        pools_finish(&pools);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to split %u buffers over %u pools",
                         instance->item_count, instance->pool_count);
    }
    look_at_items(&pools);
    pack_all(&pools);
    fill_pools(&pools);
    *out_is_exact = pools.are_whole && !pools.is_cut_off;
    if (!dao_plan_meter_is_cancelled(meter)) {
        pools.is_cut_off = false; /* of what was packed already */
        pools.step_count = 0;
        place_set(&pools, layout, choose_set(&pools));
    }
    pools_finish(&pools);
    return DAO_OK;
}
