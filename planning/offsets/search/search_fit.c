/* SPDX-License-Identifier: Apache-2.0 */
/* A branch and bound search over the lowest places, after Moffitt, "MiniMalloc" (ASPLOS 2023): floors of
   sections, canonical layouts and parts that come apart are its ideas. How it branches, and what it
   remembers, is different.

   In a canonical layout every item lies on the ground or on another item: any layout can be pushed down until
   it is one, so only those are looked for. At each node the item at hand is one that may lie lowest of all,
   and there are two branches:

       placed      it lies at its low, which is the ground or the top of one that is placed,
       postponed   it lies higher; then it rests on an item that is not placed yet, and its low is at least
                   that item's low and size.

   Schedules are searched like that ("schedule or postpone": Le Pape, Couronne, Vergamini and Gosselin,
   "Time-versus-capacity compromises in project scheduling", 1994); offsets are the times here. Orders of
   placing that give one layout become one path.

       lows[i]     an unplaced item cannot lie lower            |  +-----+
       bases[i]    the top of the highest placed item below it  |..|  i  |..... lows[i]: i is postponed and
                   lows[i] == bases[i]: it may lie there        |  +-----+      will rest on 2, which is not
                   lows[i] > bases[i]: it is postponed          |     2         placed yet
       floors[s]   the least low of a section's unplaced items  |  +--------+.. bases[i], bases[2], lows[2]
       totals[s]   the sum of their sizes                       |  |   1    |   1 is placed
                                                                +--+--------+----------------> sections

   Where floors[s] + totals[s] exceeds the capacity, or a low is too high for its item, the node has failed.
   As the lowest section is always filled first, an item that could lie below another one is never placed
   above it (dominance). An item over which nothing comes has no second branch, because nothing supports it.

   The section to be filled is, of the lowest ones, that which failed most often, in the runs before at this
   capacity too: the weighted degree of Boussemart, Hemery, Lecoutre and Sais (ECAI 2004). Twins, which differ
   in nothing, are placed in the order of their numbers, and postponed together.

   When no unplaced item crosses a cut any more, both sides are parts which are solved one after the other.
   If one fails, then the frame that cut it off has failed, however many ways there are to solve the others:
   go_back() jumps over them.

   Failures are remembered. What can still be done in a part depends on nothing but its unplaced items and
   their lows: whether an item is postponed only says that its lower places were tried before, and failed. So
   the key of a state is the sum over unplaced items of a hash of item and low. Keys have 64 bits and are
   compared in full, with an entry of the table that the key chooses; two different states are taken for the
   same with a probability of 2^-64 a node, and a proof rests on that.

   Numbers that backtracking restores lie in `cells`; each change is recorded with what was there. Sums are
   restored by adding. Frames, on a stack that grows, are the path from the root to the node; a frame's parent
   is the frame before it in the same part, or the one that cut the part off.

       PHASE_PART     the next waiting part is begun; without one, all is placed        -> NODE
       PHASE_NODE     the part at hand is consistent: one item is placed                -> NODE, PART, FAILED
       PHASE_FAILED   back to the parent: its item is postponed, or it has failed too   -> NODE, FAILED

   What holds in PHASE_PART and PHASE_NODE: bases[i] <= lows[i] for unplaced items, both
   DAO_PLAN_UNITS_NOWHERE for placed ones; floors[s] is the least low of the members of s, and watched[s] a
   member that has it; totals and crossings count unplaced items; the sections of unplaced items are those of
   the part at hand and of waiting parts. */
#include "planning/offsets/search/search_fit.h"

#include "base/report/assert.h"
#include "base/report/error.h"

#include <string.h>

#define FRAME_NONE UINT32_MAX
#define PART_NONE  UINT32_MAX

/* Entries for failed states that are remembered: at first, and at most. Whenever half of them are taken there
   are twice as many. */
#define FAILURE_BITS_FIRST 6u
#define FAILURE_BITS_MAX   16u

/* Numbers looked at, in loops over neighbours, that count as a step of work. */
#define LOOKS_PER_STEP 8u

/* What a section's weight grows by with a failure, and the part of it that a new start takes away. */
#define FAILURE_WEIGHT 1024u
#define WEIGHT_DECAY   10u

typedef struct change {
    uint32_t cell;
    dao_plan_units_t before;
} change_t;

/* Sections that no unplaced item connects with others: solved alone. */
typedef struct part {
    uint32_t begin;
    uint32_t end;
    uint32_t next;    /* that waits, or PART_NONE */
    uint32_t creator; /* the frame that cut it off; FRAME_NONE: there from the start */
} part_t;

typedef struct frame {
    uint32_t item;
    uint32_t parent; /* the frame before in the same part or in the one that it is of */
    uint32_t begin;  /* the part */
    uint32_t end;
    uint32_t waiting; /* parts, as they were */
    uint32_t part_count;
    uint64_t key; /* of the state */
    size_t change_count;
    bool is_postponed; /* the second branch: the item is not at its low */
} frame_t;

typedef enum fit_phase { PHASE_PART, PHASE_NODE, PHASE_FAILED } fit_phase_t;

struct dao_plan_fit {
    const dao_plan_search_model_t *model;
    dao_plan_units_t capacity;
    const double *values;
    uint64_t node_count;
    uint64_t node_limit;

    dao_plan_units_t *cells; /* the four below, side by side */
    size_t cell_count;
    dao_plan_units_t *lows;
    dao_plan_units_t *bases;
    dao_plan_units_t *floors;
    dao_plan_units_t *watched;
    change_t *changes;
    size_t change_count;
    size_t change_capacity;

    dao_plan_units_t *lasts;   /* where an item lies at the highest */
    dao_plan_units_t *offsets; /* of placed items */
    dao_plan_units_t *totals;
    uint32_t *crossings;  /* unplaced items alive on both sides of a section's beginning */
    uint32_t *weights;    /* how often, and how lately, a section has failed */
    uint32_t dirty_begin; /* sections with a member whose low has changed */
    uint32_t dirty_end;
    uint64_t key;      /* of the state of the part at hand */
    uint64_t key_salt; /* differs between capacities */

    fit_phase_t phase;
    uint32_t part_begin; /* the part at hand */
    uint32_t part_end;
    uint32_t parent;  /* the last frame of the part at hand */
    uint32_t waiting; /* the first part that waits */
    part_t *parts;
    uint32_t part_count;
    frame_t *frames;
    uint32_t frame_count;
    size_t frame_capacity;
    uint64_t *failures;     /* keys, each where its first bits say; 0: none */
    uint32_t failure_bits;  /* their number's logarithm */
    uint64_t failure_count; /* those that are not 0 */
    uint64_t look_count;    /* of the step at hand */
};

/* ---- numbers that backtracking restores ---- */

static inline void set_cell(dao_plan_fit_t *fit, dao_plan_units_t *cell, dao_plan_units_t value)
{
    fit->changes[fit->change_count++] = (change_t){.cell = (uint32_t)(cell - fit->cells), .before = *cell};
    *cell = value;
}

static void undo_changes(dao_plan_fit_t *fit, size_t change_count)
{
    while (fit->change_count > change_count) {
        const change_t *change = &fit->changes[--fit->change_count];
        fit->cells[change->cell] = change->before;
    }
}

/* Makes room for so many. False without memory. */
static bool reserve(const dao_plan_fit_t *fit, void **array, size_t *capacity, size_t least,
                    size_t size_bytes)
{
    if (least > *capacity) {
        void *larger = dao_plan_memory_grow(fit->model->memory, *array, 2 * least, size_bytes);
        if (larger == NULL) {
            return false;
        }
        *array = larger;
        *capacity = 2 * least;
    }
    return true;
}

/* Makes room for what one advance may push: a frame, and changes of every cell, of some of them twice. */
static dao_status_t reserve_advance(dao_plan_fit_t *fit)
{
    void *changes = fit->changes, *frames = fit->frames;
    size_t change_count = fit->change_count + 2 * fit->cell_count;
    bool has_room =
        reserve(fit, &changes, &fit->change_capacity, change_count, sizeof(*fit->changes)) &&
        reserve(fit, &frames, &fit->frame_capacity, (size_t)fit->frame_count + 1, sizeof(*fit->frames));
    fit->changes = changes;
    fit->frames = frames;
    return has_room
               ? DAO_OK
               : dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a search %u deep", fit->frame_count);
}

/* ---- keys ---- */

static inline uint64_t mix(uint64_t bits)
{
    bits ^= bits >> 32;
    bits *= UINT64_C(0x9E3779B97F4A7C15);
    bits ^= bits >> 29;
    bits *= UINT64_C(0xBF58476D1CE4E5B9);
    return bits ^ (bits >> 32);
}

/* What an unplaced item adds to its part's key. */
static inline uint64_t key_of(const dao_plan_fit_t *fit, uint32_t item, dao_plan_units_t low)
{
    return mix(((uint64_t)item + 1) * UINT64_C(0xD6E8FEB86659FD93) + (uint64_t)low + fit->key_salt);
}

static uint64_t *failure_at(const dao_plan_fit_t *fit, uint64_t key)
{
    return &fit->failures[key >> (64 - fit->failure_bits)];
}

static bool has_failed(const dao_plan_fit_t *fit)
{
    return *failure_at(fit, fit->key) == fit->key;
}

/* Doubles the table. Without memory it stays as it is: less is remembered. */
static void grow_failures(dao_plan_fit_t *fit)
{
    dao_plan_memory_t *memory = fit->model->memory;
    uint64_t *before = fit->failures, count = UINT64_C(1) << fit->failure_bits;
    uint64_t *larger = dao_plan_memory_alloc(memory, 2 * count, sizeof(*larger));
    if (larger == NULL) {
        return;
    }
    fit->failures = larger;
    fit->failure_bits++;
    for (uint64_t i = 0; i < count; i++) {
        if (before[i] != 0) {
            *failure_at(fit, before[i]) = before[i]; /* one of the two that the entry has become */
        }
    }
    dao_plan_memory_free(memory, before);
}

/* Remembers that the state at hand has failed, in place of another one with the same first bits. */
static void remember_failure(dao_plan_fit_t *fit)
{
    if (fit->failure_bits < FAILURE_BITS_MAX && fit->failure_count >> (fit->failure_bits - 1) > 0) {
        grow_failures(fit);
    }
    uint64_t *failure = failure_at(fit, fit->key);
    fit->failure_count += *failure == 0 ? 1 : 0;
    *failure = fit->key;
}

/* ---- lows and floors ---- */

static inline bool is_placed(const dao_plan_fit_t *fit, uint32_t item)
{
    return fit->lows[item] == DAO_PLAN_UNITS_NOWHERE;
}

static void mark_dirty(dao_plan_fit_t *fit, uint32_t item)
{
    const dao_plan_search_model_t *model = fit->model;
    if (model->first_sections[item] < fit->dirty_begin) {
        fit->dirty_begin = model->first_sections[item];
    }
    if (model->end_sections[item] > fit->dirty_end) {
        fit->dirty_end = model->end_sections[item];
    }
}

static void fail_section(dao_plan_fit_t *fit, uint32_t section)
{
    fit->weights[section] += fit->weights[section] < UINT32_MAX - FAILURE_WEIGHT ? FAILURE_WEIGHT : 0;
}

/* Raises an item's low. False: it cannot lie so high. */
static inline bool raise(dao_plan_fit_t *fit, uint32_t item, dao_plan_units_t low)
{
    fit->key += key_of(fit, item, low) - key_of(fit, item, fit->lows[item]);
    set_cell(fit, &fit->lows[item], low);
    mark_dirty(fit, item);
    return low <= fit->lasts[item];
}

static void find_floor(dao_plan_fit_t *fit, uint32_t section)
{
    const dao_plan_search_model_t *model = fit->model;
    dao_plan_units_t least = DAO_PLAN_UNITS_NOWHERE;
    uint32_t watched = model->members[model->first_members[section]];
    for (uint32_t at = model->first_members[section]; at < model->first_members[section + 1]; at++) {
        dao_plan_units_t low = fit->lows[model->members[at]];
        watched = low < least ? model->members[at] : watched;
        least = low < least ? low : least;
    }
    fit->look_count += model->first_members[section + 1] - model->first_members[section];
    set_cell(fit, &fit->watched[section], watched);
    set_cell(fit, &fit->floors[section], least);
}

/* Brings the floors up to date. False: a section cannot hold what is to come. */
static bool update_floors(dao_plan_fit_t *fit)
{
    bool fits = true;
    for (uint32_t s = fit->dirty_begin; s < fit->dirty_end && fits; s++) {
        if (fit->floors[s] < fit->lows[fit->watched[s]]) {
            find_floor(fit, s);
        }
        if (fit->totals[s] > 0 && fit->floors[s] + fit->totals[s] > fit->capacity) {
            fail_section(fit, s);
            fits = false;
        }
    }
    fit->dirty_begin = UINT32_MAX;
    fit->dirty_end = 0;
    return fits;
}

/* ---- placing ---- */

/* Raises an unplaced neighbour to a top on which it may rest. */
static inline bool push_up(dao_plan_fit_t *fit, uint32_t item, dao_plan_units_t top)
{
    if (fit->bases[item] >= top) {
        return true;
    }
    dao_plan_units_t base = dao_plan_search_align(fit->model, item, top);
    set_cell(fit, &fit->bases[item], base);
    DAO_ASSERT(fit->lows[item] <= base);
    return fit->lows[item] == base || raise(fit, item, base);
}

static bool push_neighbours(dao_plan_fit_t *fit, uint32_t item, dao_plan_units_t top)
{
    const dao_plan_search_model_t *model = fit->model;
    uint32_t first = model->first_sections[item], end = model->end_sections[item];
    bool fits = true;
    for (uint32_t at = model->first_members[first]; at < model->first_members[first + 1]; at++) {
        fits = push_up(fit, model->members[at], top) && fits;
    }
    for (uint32_t i = model->first_items[first + 1]; i < model->first_items[end]; i++) {
        fits = push_up(fit, i, top) && fits;
    }
    fit->look_count += model->first_members[first + 1] - model->first_members[first] +
                       model->first_items[end] - model->first_items[first + 1];
    return fits;
}

static void add_to_sections(dao_plan_fit_t *fit, uint32_t item, dao_plan_units_t size, uint32_t crossing)
{
    uint32_t first = fit->model->first_sections[item], end = fit->model->end_sections[item];
    for (uint32_t s = first; s < end; s++) {
        fit->totals[s] += size;
    }
    for (uint32_t s = first + 1; s < end; s++) {
        fit->crossings[s] += crossing;
    }
}

/* Places an item at its low. False: then others cannot fit. */
static bool place(dao_plan_fit_t *fit, uint32_t item)
{
    DAO_ASSERT(fit->bases[item] == fit->lows[item]); /* it may lie there */
    dao_plan_units_t low = fit->lows[item], size = fit->model->sizes[item];
    fit->offsets[item] = low;
    fit->key -= key_of(fit, item, low);
    set_cell(fit, &fit->lows[item], DAO_PLAN_UNITS_NOWHERE);
    set_cell(fit, &fit->bases[item], DAO_PLAN_UNITS_NOWHERE);
    add_to_sections(fit, item, -size, UINT32_MAX);
    mark_dirty(fit, item);
    bool fits = push_neighbours(fit, item, low + size);
    return update_floors(fit) && fits;
}

static void unplace(dao_plan_fit_t *fit, uint32_t item)
{
    add_to_sections(fit, item, fit->model->sizes[item], 1);
}

/* ---- postponing ---- */

static inline bool is_twin_at(const dao_plan_fit_t *fit, uint32_t left, uint32_t right)
{
    const dao_plan_search_model_t *model = fit->model;
    return fit->lows[left] == fit->lows[right] && model->sizes[left] == model->sizes[right] &&
           model->end_sections[left] == model->end_sections[right] &&
           model->first_sections[left] == model->first_sections[right] &&
           model->alignments[left] == model->alignments[right] &&
           model->fixed[left] == DAO_PLAN_UNITS_NOWHERE;
}

/* The lowest top on which an item may come to rest, of items that are not placed yet. `is_group`: twins that
   are as low go up with it and are not asked. */
static dao_plan_units_t find_support(dao_plan_fit_t *fit, uint32_t item, bool is_group)
{
    const dao_plan_search_model_t *model = fit->model;
    uint32_t first = model->first_sections[item], end = model->end_sections[item];
    dao_plan_units_t least = DAO_PLAN_UNITS_NOWHERE;
    for (uint32_t at = model->first_members[first]; at < model->first_members[first + 1]; at++) {
        uint32_t other = model->members[at];
        dao_plan_units_t top = fit->lows[other] + model->sizes[other];
        if (top < least && other != item && !(is_group && is_twin_at(fit, other, item))) {
            least = top;
        }
    }
    for (uint32_t i = model->first_items[first + 1]; i < model->first_items[end]; i++) {
        dao_plan_units_t top = fit->lows[i] + model->sizes[i];
        least = top < least ? top : least;
    }
    fit->look_count += model->first_members[first + 1] - model->first_members[first] +
                       model->first_items[end] - model->first_items[first + 1];
    return least == DAO_PLAN_UNITS_NOWHERE ? least : dao_plan_search_align(model, item, least);
}

/* Returns true if an item is known not to be at the tops of those placed: it rests on one that comes
   later. */
static inline bool is_postponed(const dao_plan_fit_t *fit, uint32_t item)
{
    return fit->lows[item] > fit->bases[item];
}

/* Postpones an item, and twins that are as low. False: then it cannot fit. */
static bool postpone(dao_plan_fit_t *fit, uint32_t item)
{
    dao_plan_units_t low = fit->lows[item], support = find_support(fit, item, true);
    if (support >= DAO_PLAN_UNITS_NOWHERE || fit->model->fixed[item] != DAO_PLAN_UNITS_NOWHERE) {
        return false;
    }
    while (fit->model->twins[item] != DAO_PLAN_ITEM_NONE) {
        item = fit->model->twins[item];
    }
    bool fits = true;
    for (uint32_t i = item; i != DAO_PLAN_ITEM_NONE; i = fit->model->next_twins[i]) {
        if (fit->lows[i] == low) {
            fits = raise(fit, i, support) && fits;
        }
    }
    return update_floors(fit) && fits;
}

/* ---- nodes ---- */

/* The section of the part with the lowest floor; of those, where most has failed. False: all are done. */
static bool find_lowest(dao_plan_fit_t *fit, uint32_t *out_section)
{
    const dao_plan_units_t *floors = fit->floors;
    dao_plan_units_t least = DAO_PLAN_UNITS_NOWHERE;
    for (uint32_t s = fit->part_begin; s < fit->part_end; s++) {
        least = floors[s] < least ? floors[s] : least;
    }
    fit->look_count += fit->part_end - fit->part_begin;
    if (least == DAO_PLAN_UNITS_NOWHERE) {
        return false;
    }
    uint32_t found = UINT32_MAX;
    for (uint32_t s = fit->part_begin; s < fit->part_end; s++) {
        if (floors[s] == least && (found == UINT32_MAX || fit->weights[s] > fit->weights[found])) {
            found = s;
        }
    }
    *out_section = found;
    return true;
}

static bool has_twin_before(const dao_plan_fit_t *fit, uint32_t item)
{
    uint32_t twin = fit->model->twins[item];
    return twin != DAO_PLAN_ITEM_NONE && fit->lows[twin] == fit->lows[item] && !is_postponed(fit, twin);
}

/* Of the members that lie on a section's floor: one that is postponed, or the one to be tried first. */
static uint32_t choose_item(dao_plan_fit_t *fit, uint32_t section)
{
    const dao_plan_search_model_t *model = fit->model;
    dao_plan_units_t floor = fit->floors[section];
    uint32_t best = DAO_PLAN_ITEM_NONE;
    for (uint32_t at = model->first_members[section]; at < model->first_members[section + 1]; at++) {
        uint32_t item = model->members[at];
        if (fit->lows[item] != floor) {
            continue;
        }
        if (is_postponed(fit, item)) {
            return item;
        }
        if ((best == DAO_PLAN_ITEM_NONE || fit->values[item] > fit->values[best]) &&
            !has_twin_before(fit, item)) {
            best = item;
        }
    }
    fit->look_count += model->first_members[section + 1] - model->first_members[section];
    return best;
}

/* Cuts the part at hand where nothing unplaced crosses a cut any more. */
static void cut_part(dao_plan_fit_t *fit)
{
    uint32_t begin = fit->part_begin;
    for (uint32_t s = fit->part_begin + 1; s <= fit->part_end; s++) {
        if (s < fit->part_end && fit->crossings[s] > 0) {
            continue;
        }
        if (s - begin > 1 || fit->totals[begin] > 0) { /* else it is a section that is done */
            fit->parts[fit->part_count] =
                (part_t){.begin = begin, .end = s, .next = fit->waiting, .creator = fit->parent};
            fit->waiting = fit->part_count++;
        }
        begin = s;
    }
    fit->phase = PHASE_PART;
}

static bool is_cut_by(const dao_plan_fit_t *fit, uint32_t item)
{
    bool is_cut = false;
    for (uint32_t s = fit->model->first_sections[item] + 1; s < fit->model->end_sections[item] && !is_cut;
         s++) {
        is_cut = fit->crossings[s] == 0;
    }
    return is_cut;
}

static void push_frame(dao_plan_fit_t *fit, uint32_t item)
{
    fit->frames[fit->frame_count] = (frame_t){.item = item,
                                              .parent = fit->parent,
                                              .begin = fit->part_begin,
                                              .end = fit->part_end,
                                              .waiting = fit->waiting,
                                              .part_count = fit->part_count,
                                              .key = fit->key,
                                              .change_count = fit->change_count};
    fit->parent = fit->frame_count++;
}

/* Raises an item that is postponed, and lies on the lowest floor, to where it may rest. False: nowhere. */
static bool raise_postponed(dao_plan_fit_t *fit, uint32_t item)
{
    dao_plan_units_t support = find_support(fit, item, false);
    if (support >= DAO_PLAN_UNITS_NOWHERE) {
        return false;
    }
    bool fits = raise(fit, item, support);
    return update_floors(fit) && fits;
}

/* Places the item that comes next. */
static dao_plan_fit_end_t branch(dao_plan_fit_t *fit, uint32_t item)
{
    if (fit->node_count == fit->node_limit) {
        return DAO_PLAN_FIT_LIMIT;
    }
    fit->node_count++;
    if (has_failed(fit)) {
        fit->phase = PHASE_FAILED;
        return DAO_PLAN_FIT_OPEN;
    }
    push_frame(fit, item);
    if (!place(fit, item)) {
        fit->phase = PHASE_FAILED;
    } else if (is_cut_by(fit, item)) {
        cut_part(fit);
    }
    return DAO_PLAN_FIT_OPEN;
}

static dao_plan_fit_end_t expand(dao_plan_fit_t *fit)
{
    uint32_t section = 0;
    if (!find_lowest(fit, &section)) {
        fit->phase = PHASE_PART;
        return DAO_PLAN_FIT_OPEN;
    }
    uint32_t item = choose_item(fit, section);
    if (is_postponed(fit, item)) {
        fit->phase = raise_postponed(fit, item) ? PHASE_NODE : PHASE_FAILED;
        return DAO_PLAN_FIT_OPEN;
    }
    return branch(fit, item);
}

/* The key of a part that is begun. */
static void find_key(dao_plan_fit_t *fit)
{
    const dao_plan_search_model_t *model = fit->model;
    fit->key = 0;
    for (uint32_t at = model->first_members[fit->part_begin]; at < model->first_members[fit->part_begin + 1];
         at++) {
        uint32_t item = model->members[at];
        fit->key += is_placed(fit, item) ? 0 : key_of(fit, item, fit->lows[item]);
    }
    for (uint32_t i = model->first_items[fit->part_begin + 1]; i < model->first_items[fit->part_end]; i++) {
        fit->key += is_placed(fit, i) ? 0 : key_of(fit, i, fit->lows[i]);
    }
}

static dao_plan_fit_end_t begin_part(dao_plan_fit_t *fit)
{
    if (fit->waiting == PART_NONE) {
        return DAO_PLAN_FIT_FOUND;
    }
    const part_t *part = &fit->parts[fit->waiting];
    fit->part_begin = part->begin;
    fit->part_end = part->end;
    fit->parent = part->creator;
    fit->waiting = part->next;
    find_key(fit);
    fit->phase = PHASE_NODE;
    return DAO_PLAN_FIT_OPEN;
}

/* Goes back to the node at which the parent's item was placed. Frames above it, of parts that it cut off, go
   with it. */
static void restore_parent(dao_plan_fit_t *fit)
{
    while (fit->frame_count > fit->parent) {
        const frame_t *above = &fit->frames[--fit->frame_count];
        if (!above->is_postponed) {
            unplace(fit, above->item);
        }
    }
    const frame_t *frame = &fit->frames[fit->parent];
    undo_changes(fit, frame->change_count);
    fit->part_begin = frame->begin;
    fit->part_end = frame->end;
    fit->waiting = frame->waiting;
    fit->part_count = frame->part_count;
    fit->key = frame->key;
}

static dao_plan_fit_end_t go_back(dao_plan_fit_t *fit)
{
    if (fit->parent == FRAME_NONE) {
        return DAO_PLAN_FIT_NONE;
    }
    restore_parent(fit);
    frame_t *frame = &fit->frames[fit->parent];
    if (frame->is_postponed) {
        remember_failure(fit);
        fit->parent = frame->parent;
        return DAO_PLAN_FIT_OPEN;
    }
    fit->frame_count++; /* it stays */
    frame->is_postponed = true;
    fit->phase = postpone(fit, frame->item) ? PHASE_NODE : PHASE_FAILED;
    return DAO_PLAN_FIT_OPEN;
}

dao_status_t dao_plan_fit_step(dao_plan_fit_t *fit, dao_plan_work_t *work, dao_plan_fit_end_t *out_end)
{
    dao_status_t status = DAO_OK;
    *out_end = DAO_PLAN_FIT_OPEN;
    while (*out_end == DAO_PLAN_FIT_OPEN && dao_plan_work_is_left(work)) {
        status = reserve_advance(fit);
        if (status != DAO_OK) {
            return status;
        }
        fit->look_count = LOOKS_PER_STEP;
        switch (fit->phase) {
        case PHASE_PART:
            *out_end = begin_part(fit);
            break;
        case PHASE_NODE:
            *out_end = expand(fit);
            break;
        case PHASE_FAILED:
            *out_end = go_back(fit);
            break;
        }
        work->used += fit->look_count / LOOKS_PER_STEP;
    }
    DAO_ASSERT_HEAVY(dao_plan_fit_is_valid(fit));
    return DAO_OK;
}

/* ---- start and end ---- */

static bool start_items(dao_plan_fit_t *fit)
{
    const dao_plan_search_model_t *model = fit->model;
    bool fits = true;
    for (uint32_t i = 0; i < model->item_count; i++) {
        bool is_fixed = model->fixed[i] != DAO_PLAN_UNITS_NOWHERE;
        fit->lows[i] = is_fixed ? model->fixed[i] : 0;
        fit->lasts[i] = is_fixed ? model->fixed[i] : fit->capacity - model->sizes[i];
        fit->bases[i] = fit->lows[i];
        fits = fits && fit->lows[i] + model->sizes[i] <= fit->capacity;
    }
    return fits;
}

static bool start_sections(dao_plan_fit_t *fit)
{
    const dao_plan_search_model_t *model = fit->model;
    memcpy(fit->totals, model->totals, model->section_count * sizeof(*fit->totals));
    memcpy(fit->crossings, model->crossings, model->section_count * sizeof(*fit->crossings));
    for (uint32_t s = 0; s < model->section_count; s++) {
        fit->weights[s] -= fit->weights[s] / WEIGHT_DECAY;
        fit->floors[s] = 0;
        fit->watched[s] = model->members[model->first_members[s]];
    }
    fit->dirty_begin = 0;
    fit->dirty_end = model->section_count;
    return update_floors(fit);
}

void dao_plan_fit_start(dao_plan_fit_t *fit, dao_plan_units_t capacity, uint64_t node_limit,
                        const double *values)
{
    DAO_ASSERT(capacity < DAO_PLAN_UNITS_NOWHERE);
    if (capacity != fit->capacity) { /* other sections may be hard */
        memset(fit->weights, 0, fit->model->section_count * sizeof(*fit->weights));
    }
    fit->key_salt = mix((uint64_t)capacity);
    fit->capacity = capacity;
    fit->values = values;
    fit->node_count = 0;
    fit->node_limit = node_limit;
    fit->change_count = 0;
    fit->frame_count = 0;
    fit->part_count = 0;
    fit->waiting = PART_NONE;
    fit->parent = FRAME_NONE;
    fit->part_begin = 0;
    fit->part_end = fit->model->section_count;
    bool fits = start_items(fit);
    fits = start_sections(fit) && fits;
    cut_part(fit);
    fit->phase = fits ? PHASE_PART : PHASE_FAILED;
    DAO_ASSERT_HEAVY(dao_plan_fit_is_valid(fit));
}

const dao_plan_units_t *dao_plan_fit_offsets(const dao_plan_fit_t *fit)
{
    return fit->offsets;
}

static bool items_are_valid(const dao_plan_fit_t *fit)
{
    bool is_valid = true;
    for (uint32_t i = 0; i < fit->model->item_count && is_valid; i++) {
        is_valid = is_placed(fit, i) ? fit->bases[i] == DAO_PLAN_UNITS_NOWHERE
                                     : fit->bases[i] <= fit->lows[i] && fit->lows[i] <= fit->lasts[i];
    }
    return is_valid;
}

static bool section_is_valid(const dao_plan_fit_t *fit, uint32_t section)
{
    const dao_plan_search_model_t *model = fit->model;
    dao_plan_units_t total = 0, floor = DAO_PLAN_UNITS_NOWHERE;
    uint32_t crossing_count = 0;
    for (uint32_t at = model->first_members[section]; at < model->first_members[section + 1]; at++) {
        uint32_t item = model->members[at];
        if (!is_placed(fit, item)) {
            floor = fit->lows[item] < floor ? fit->lows[item] : floor;
            total += model->sizes[item];
            crossing_count += model->first_sections[item] < section ? 1 : 0;
        }
    }
    return fit->floors[section] == floor && fit->lows[fit->watched[section]] == floor &&
           fit->totals[section] == total && fit->crossings[section] == crossing_count &&
           (total == 0 || floor + total <= fit->capacity);
}

bool dao_plan_fit_is_valid(const dao_plan_fit_t *fit)
{
    if (fit->phase == PHASE_FAILED) { /* halfway, until it has gone back */
        return fit->parent == FRAME_NONE || fit->parent < fit->frame_count;
    }
    bool is_valid = items_are_valid(fit);
    for (uint32_t s = 0; s < fit->model->section_count && is_valid; s++) {
        is_valid = section_is_valid(fit, s);
    }
    return is_valid;
}

static bool take_arrays(dao_plan_fit_t *fit)
{
    dao_plan_memory_t *memory = fit->model->memory;
    size_t items = fit->model->item_count, sections = fit->model->section_count;
    fit->cell_count = 2 * items + 2 * sections;
    fit->cells = dao_plan_memory_alloc(memory, fit->cell_count, sizeof(*fit->cells));
    fit->lasts = dao_plan_memory_alloc(memory, items, sizeof(*fit->lasts));
    fit->offsets = dao_plan_memory_alloc(memory, items, sizeof(*fit->offsets));
    fit->totals = dao_plan_memory_alloc(memory, sections, sizeof(*fit->totals));
    fit->crossings = dao_plan_memory_alloc(memory, sections, sizeof(*fit->crossings));
    fit->weights = dao_plan_memory_alloc(memory, sections, sizeof(*fit->weights));
    fit->parts = dao_plan_memory_alloc(memory, 3 * sections + 1, sizeof(*fit->parts));
    fit->failure_bits = FAILURE_BITS_FIRST;
    fit->failures = dao_plan_memory_alloc(memory, (size_t)1 << FAILURE_BITS_FIRST, sizeof(*fit->failures));
    return fit->cells != NULL && fit->lasts != NULL && fit->offsets != NULL && fit->totals != NULL &&
           fit->crossings != NULL && fit->weights != NULL && fit->parts != NULL && fit->failures != NULL;
}

dao_status_t dao_plan_fit_create(const dao_plan_search_model_t *model, dao_plan_fit_t **out_fit)
{
    dao_plan_fit_t *fit = dao_plan_memory_alloc(model->memory, 1, sizeof(*fit));
    if (fit == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a search");
    }
    fit->model = model;
    if (!take_arrays(fit) || reserve_advance(fit) != DAO_OK) {
        dao_plan_fit_destroy(fit);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to search for offsets of %u buffers",
                         model->item_count);
    }
    fit->lows = fit->cells;
    fit->bases = fit->lows + model->item_count;
    fit->floors = fit->bases + model->item_count;
    fit->watched = fit->floors + model->section_count;
    *out_fit = fit;
    return DAO_OK;
}

void dao_plan_fit_destroy(dao_plan_fit_t *fit)
{
    if (fit == NULL) {
        return;
    }
    dao_plan_memory_t *memory = fit->model->memory;
    dao_plan_memory_free(memory, fit->cells);
    dao_plan_memory_free(memory, fit->changes);
    dao_plan_memory_free(memory, fit->lasts);
    dao_plan_memory_free(memory, fit->offsets);
    dao_plan_memory_free(memory, fit->totals);
    dao_plan_memory_free(memory, fit->crossings);
    dao_plan_memory_free(memory, fit->weights);
    dao_plan_memory_free(memory, fit->parts);
    dao_plan_memory_free(memory, fit->frames);
    dao_plan_memory_free(memory, fit->failures);
    dao_plan_memory_free(memory, fit);
}
