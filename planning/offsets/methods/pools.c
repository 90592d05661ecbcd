/* SPDX-License-Identifier: Apache-2.0 */
/* Which items lie in which pool, and where.

   The height of a set of items does not depend on its pool: every pool begins at 0, and an item that must lie
   in a pool is in no set of another one. So each set is packed once. Then the pools take sets, one after the
   other:

       sets of items   {a} {b} {a b} {c} ...     packed[set]: the lowest peak that it can have
       pool 0          takes one that it holds   least[0][taken] = packed[taken]
       pool 1          takes one of those left   least[1][taken] = the least, over all parts of taken, of
                                                                   least[0][taken - part] + packed[part]

   A set is packed by placing its items in the order of their offsets, each on the highest of those that it
   overlaps. Of equal offsets the first item comes first. Any packing can be pushed down into one of these.
   Three rules cut the search short (see also search_fit.c): the rest does not fit below the best packing so
   far; another item would fit beneath one that is placed; the packing is as low as that of the set less one
   item, or as the most bytes alive.

   Items with gaps may lie beneath what they rest on. Then packings are missing here and nothing is proved,
   but what is found is still a packing. Nothing is proved either if the search is cut off at its limit.

   The phases, each of which can be interrupted by the work counter:

       PACK --last set--> FILL --last pool--> PLACE --> DONE

       PACK   packed[] of the sets that are done
       FILL   least[] of a pool for the sets that are done
       PLACE  the set of each pool is packed once more, to know where its items lie

   What holds: packed[set] is at least packed[part] for each part of it, if the search was not cut off; the
   levels of a packing that is under way place one item more each; loads[] of all sets up to the one at hand
   are known. */
#include "planning/offsets/methods/pools.h"

#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <string.h>

/* Sets of so many items are looked at, as long as there are not more pairs of a set and a part of it, over
   all pools, than so many: some ten milliseconds. */
#define ITEM_COUNT_MAX 12u
#define PAIR_COUNT_MAX ((uint64_t)1 << 22)

/* Items are cut into at most so many pieces: pairs of them are looked at in one go, in less than a hundred
   microseconds. */
#define PIECE_COUNT_MAX 128u

/* So many parts of sets are looked at for a step of work, so many pairs of pieces, and so many bytes of sets
   are summed. */
#define PARTS_PER_WORK 8u
#define PAIRS_PER_WORK 8u
#define SUMS_PER_WORK  4u

#define NO_PEAK UINT64_MAX

typedef uint32_t set_t; /* bit i: item i */

/* Items of a packing that are placed, and what comes next. */
typedef struct level {
    set_t placed;
    set_t waiting;
    set_t left;     /* of the waiting: not tried yet as the next one */
    uint32_t last;  /* the item that was placed last */
    uint64_t peak;  /* of the placed */
    uint64_t floor; /* no next item is lower */
    uint64_t cap;   /* nor as high as this */
} level_t;

/* A packing while it is made. */
typedef struct packing {
    uint64_t offsets[ITEM_COUNT_MAX];
    uint64_t best_offsets[ITEM_COUNT_MAX];
    uint64_t best_peak; /* NO_PEAK: none yet */
    uint64_t bound;     /* it ends when this is met */
    uint64_t step_count;
    level_t levels[ITEM_COUNT_MAX];
    uint32_t level_count; /* 0: it has ended */
} packing_t;

typedef enum pools_phase { PHASE_PACK, PHASE_FILL, PHASE_PLACE, PHASE_DONE } pools_phase_t;

struct dao_plan_pools {
    dao_plan_instance_t *instance;
    dao_plan_layout_t layout;
    uint32_t item_count;
    bool overlap[ITEM_COUNT_MAX][ITEM_COUNT_MAX]; /* they may not share bytes */
    set_t *alive; /* the items that live when a piece begins; without clocks */
    uint32_t alive_count;
    bool are_whole;      /* all bytes of every item are used all the time */
    bool is_cut_off;     /* more steps than there may be */
    uint64_t steps_left; /* of packing all sets */
    pools_phase_t phase;
    set_t set;       /* PACK, FILL: the one at hand; PLACE: what is left to the pools up to the one at hand */
    uint32_t pool;   /* FILL: the one at hand; PLACE: the one after it */
    bool is_packing; /* PACK, PLACE: the packing at hand is under way, of the set or of the pool's part */
    packing_t packing; /* the one at hand */
    uint64_t *loads;   /* of each set: the most bytes of it that are alive at once */
    uint64_t *packed;  /* of each set; NO_PEAK: fixed items are in the way of each other, or it was cut off */
    uint64_t *least;   /* of each set that is taken, by the pools so far; NO_PEAK: they do not hold it */
    uint64_t *before;  /* the same, by the pools before the last one */
    uint16_t *parts;   /* of each pool and set: what the pool takes of it */
};

typedef dao_plan_pools_t pools_t;

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
           instance->piece_count <= PIECE_COUNT_MAX &&
           power_of_three(instance->item_count) * instance->pool_count <= PAIR_COUNT_MAX;
}

/* ---- overlaps ---- */

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

/* Lists the pieces that are alive when each piece begins, without regard to clocks. */
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

static void look_at_items(pools_t *pools, dao_plan_work_t *work)
{
    uint64_t piece_count = pools->instance->piece_count;
    work->used += 1 + piece_count * piece_count / PAIRS_PER_WORK;
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

/* The lowest offset above those that are placed and overlap an item, and no lower than `floor`. Fixed items
   have their own; NO_PEAK if that is too low. */
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

/* Returns true if no packing that goes on from here is below the best one: an item has no room left under it.
   `out_cap`: all offsets from here on are below this, or something could lie beneath them. */
static bool is_hopeless(const pools_t *pools, const packing_t *packing, set_t placed, set_t waiting,
                        uint64_t floor, uint64_t *out_cap)
{
    const dao_plan_item_t *items = pools->instance->items;
    *out_cap = NO_PEAK;
    if (packing->best_peak != NO_PEAK && floor + pools->loads[waiting] >= packing->best_peak) {
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

/* Goes on from where some items are placed: notes the packing that is complete, or adds a level, if a better
   one may come. */
static void enter(const pools_t *pools, packing_t *packing, level_t level)
{
    level.floor = level.placed == 0 ? 0 : packing->offsets[level.last];
    if (level.waiting == 0) {
        packing->best_peak = level.peak;
        memcpy(packing->best_offsets, packing->offsets, sizeof(packing->offsets));
        return;
    }
    packing->step_count++;
    if (!is_hopeless(pools, packing, level.placed, level.waiting, level.floor, &level.cap)) {
        level.left = level.waiting;
        packing->levels[packing->level_count++] = level;
    }
}

/* Places the next item of the last level, in the next way there is; ends the level after the last one. */
static void place_next(const pools_t *pools, packing_t *packing)
{
    const dao_plan_item_t *items = pools->instance->items;
    level_t *level = &packing->levels[packing->level_count - 1];
    if (level->left == 0 || level->peak >= packing->best_peak) {
        packing->level_count--;
        return;
    }
    uint32_t item = first_of(level->left);
    level->left &= level->left - 1;
    uint64_t offset = offset_of(pools, packing, level->placed, item, 0);
    bool is_in_order =
        level->placed == 0 || offset > level->floor || (offset == level->floor && item > level->last);
    uint64_t end = offset + items[item].size_bytes;
    if (offset != NO_PEAK && is_in_order && offset < level->cap && end < packing->best_peak) {
        const set_t own = (set_t)1 << item;
        packing->offsets[item] = offset;
        enter(pools, packing,
              (level_t){.placed = level->placed | own,
                        .waiting = level->waiting & ~own,
                        .last = item,
                        .peak = dao_larger(level->peak, end)});
    }
}

/* Begins to pack a set, as low as it can be. */
static void start_packing(pools_t *pools, set_t set, dao_plan_work_t *work)
{
    packing_t *packing = &pools->packing;
    *packing = (packing_t){.best_peak = NO_PEAK, .bound = pools->loads[set]};
    for (set_t left = set; left != 0; left &= left - 1) {
        packing->bound = dao_larger(packing->bound, pools->packed[set & ~((set_t)1 << first_of(left))]);
    }
    if (packing->bound != NO_PEAK) { /* else fixed items are in the way already */
        enter(pools, packing, (level_t){.waiting = set});
    }
    work->used++;
    pools->is_packing = true;
}

/* Goes on with the packing at hand, for so many steps of it at most. False: the work counter has ended
   first. */
static bool step_packing(pools_t *pools, uint64_t step_limit, dao_plan_work_t *work)
{
    packing_t *packing = &pools->packing;
    while (packing->level_count > 0 && packing->best_peak > packing->bound) {
        if (packing->step_count >= step_limit) {
            pools->is_cut_off = true;
            break;
        }
        if (!dao_plan_work_is_left(work)) {
            return false;
        }
        place_next(pools, packing);
        work->used++;
    }
    pools->is_packing = false;
    return true;
}

/* Packs the set at hand, and goes to the next one. */
static void pack_set(pools_t *pools, dao_plan_work_t *work)
{
    if (!pools->is_packing) {
        pools->loads[pools->set] = load_of(pools, pools->set);
        work->used += pools->alive_count / SUMS_PER_WORK;
        start_packing(pools, pools->set, work);
    }
    if (!step_packing(pools, pools->steps_left, work)) {
        return;
    }
    pools->steps_left -= dao_smaller(pools->packing.step_count, pools->steps_left);
    pools->packed[pools->set] = pools->packing.best_peak;
    pools->set++;
    if (pools->set >> pools->item_count != 0) {
        pools->phase = PHASE_FILL;
        pools->set = 0;
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

/* What a pool takes of a set beside those before it. Of equal parts it is nothing, or the one with the lowest
   number. */
static void take_part(pools_t *pools, uint32_t pool, set_t set, dao_plan_work_t *work)
{
    const uint64_t *before = pools->before;
    uint64_t capacity = pools->instance->capacities[pool], least = before[set];
    set_t own = set & allowed_in(pools, pool), chosen = 0;
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
    work->used += 1 + ((uint64_t)1 << __builtin_popcount(own)) / PARTS_PER_WORK;
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

/* Lets the pool at hand take the best part of the set at hand, and goes to the next set; after the last one
   to the next pool, after the last one of these to the places. */
static void fill_set(pools_t *pools, dao_plan_work_t *work)
{
    take_part(pools, pools->pool, pools->set, work);
    pools->set++;
    if (pools->set >> pools->item_count == 0) {
        return;
    }
    pools->set = 0;
    pools->pool++;
    if (pools->pool < pools->instance->pool_count) {
        uint64_t *before = pools->least;
        pools->least = pools->before;
        pools->before = before;
        return;
    }
    pools->set = choose_set(pools);
    work->used += ((uint64_t)1 << pools->item_count) / SUMS_PER_WORK;
    pools->phase = PHASE_PLACE;
}

/* Places what the last pool that is left takes. The packing is made once more, on its own limit: what was
   found is found again. */
static void place_part(pools_t *pools, dao_plan_work_t *work)
{
    DAO_ASSERT(pools->pool > 0);
    set_t part = pools->parts[((size_t)(pools->pool - 1) << pools->item_count) + pools->set];
    DAO_ASSERT((part & ~pools->set) == 0); /* a pool takes of what is left */
    if (!pools->is_packing) {
        start_packing(pools, part, work);
    }
    if (!step_packing(pools, DAO_PLAN_POOLS_STEPS_MAX, work)) {
        return;
    }
    bool is_found = pools->packing.best_peak != NO_PEAK;
    for (set_t left = is_found ? part : 0; left != 0; left &= left - 1) {
        uint32_t item = first_of(left);
        dao_plan_layout_put(&pools->layout, item, pools->packing.best_offsets[item], pools->pool - 1);
    }
    pools->set &= ~part;
    pools->pool--;
    if (pools->pool == 0) {
        DAO_ASSERT(pools->set == 0);
        pools->phase = PHASE_DONE;
    }
}

bool dao_plan_pools_step(dao_plan_pools_t *pools, dao_plan_work_t *work)
{
    DAO_ASSERT(dao_plan_pools_is_valid(pools));
    while (pools->phase != PHASE_DONE && dao_plan_work_is_left(work)) {
        if (pools->phase == PHASE_PACK) {
            pack_set(pools, work);
        } else if (pools->phase == PHASE_FILL) {
            fill_set(pools, work);
        } else {
            place_part(pools, work);
        }
        DAO_ASSERT(dao_plan_pools_is_valid(pools));
    }
    return pools->phase == PHASE_DONE;
}

bool dao_plan_pools_is_exact(const dao_plan_pools_t *pools)
{
    return pools->phase == PHASE_DONE && pools->are_whole && !pools->is_cut_off;
}

const dao_plan_layout_t *dao_plan_pools_layout(const dao_plan_pools_t *pools)
{
    return &pools->layout;
}

bool dao_plan_pools_is_valid(const dao_plan_pools_t *pools)
{
    const packing_t *packing = &pools->packing;
    uint32_t placed_count =
        packing->level_count == 0
            ? 0
            : (uint32_t)__builtin_popcount(packing->levels[packing->level_count - 1].placed);
    bool is_in_range = pools->phase >= PHASE_PLACE || pools->pool < pools->instance->pool_count;
    return pools->set >> pools->item_count == 0 && is_in_range &&
           (packing->best_peak >= packing->bound || pools->is_cut_off) &&
           packing->level_count <= pools->item_count &&
           (packing->level_count == 0 || placed_count == packing->level_count - 1);
}

/* ---- start and end ---- */

/* Takes memory for all sets. */
static bool take_all(pools_t *pools, dao_plan_work_t *work)
{
    dao_plan_instance_t *instance = pools->instance;
    dao_plan_memory_t *memory = &instance->memory;
    size_t count = (size_t)1 << instance->item_count;
    pools->loads = dao_plan_memory_alloc(memory, count, sizeof(*pools->loads));
    pools->packed = dao_plan_memory_alloc(memory, count, sizeof(*pools->packed));
    pools->least = dao_plan_memory_alloc(memory, count, sizeof(*pools->least));
    pools->before = dao_plan_memory_alloc(memory, count, sizeof(*pools->before));
    pools->parts = dao_plan_memory_alloc(memory, count * instance->pool_count, sizeof(*pools->parts));
    pools->alive = dao_plan_memory_alloc(memory, instance->piece_count, sizeof(*pools->alive));
    return dao_plan_layout_init(&pools->layout, instance, work) && pools->alive != NULL &&
           pools->loads != NULL && pools->packed != NULL && pools->least != NULL && pools->before != NULL &&
           pools->parts != NULL;
}

dao_status_t dao_plan_pools_create(dao_plan_instance_t *instance, uint64_t step_limit, dao_plan_work_t *work,
                                   dao_plan_pools_t **out_pools)
{
    DAO_ASSERT(dao_plan_pools_knows(instance) && step_limit <= DAO_PLAN_POOLS_STEPS_MAX);
    pools_t *pools = dao_plan_memory_alloc(&instance->memory, 1, sizeof(*pools));
    if (pools != NULL) {
        *pools =
            (pools_t){.instance = instance, .item_count = instance->item_count, .steps_left = step_limit};
    }
    if (pools == NULL || !take_all(pools, work)) {
        dao_plan_pools_destroy(pools);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to split %u buffers over %u pools",
                         instance->item_count, instance->pool_count);
    }
    dao_plan_layout_put_fixed(&pools->layout, instance, work);
    for (set_t set = 0; set >> pools->item_count == 0; set++) {
        pools->before[set] = set == 0 ? 0 : NO_PEAK;
    }
    look_at_items(pools, work);
    pools->set = 1; /* nothing is packed at 0 */
    *out_pools = pools;
    return DAO_OK;
}

void dao_plan_pools_destroy(dao_plan_pools_t *pools)
{
    if (pools != NULL) {
        dao_plan_memory_t *memory = &pools->instance->memory;
        dao_plan_layout_finish(&pools->layout, pools->instance);
        dao_plan_memory_free(memory, pools->loads);
        dao_plan_memory_free(memory, pools->packed);
        dao_plan_memory_free(memory, pools->least);
        dao_plan_memory_free(memory, pools->before);
        dao_plan_memory_free(memory, pools->parts);
        dao_plan_memory_free(memory, pools->alive);
        dao_plan_memory_free(memory, pools);
    }
}
