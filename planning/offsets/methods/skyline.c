/* SPDX-License-Identifier: Apache-2.0 */
/* The skyline is the height up to which each time is filled, as runs of equal height from the first time to
   the last.

       height      +--+                    A lowest run is [c, d). Of the items that live within it, the
         |    +----+  |      +-----+       first by the order is put on it. It splits the run into the rest
         |    |    |  +------+     |       on its left, its top, and the rest on its right. If none fits,
         +----+----+--+------+-----+--->   the run is raised to its lower neighbour and joined with it.
         a         b  c      d     e time

   A run that is lower than its neighbours is low enough. No other run can take the items that live within it,
   and nothing changes the run or its neighbours' heights until it is filled or raised. So the order of such
   runs does not matter: the layout is that of always taking the lowest run. The next run is one beside the
   last, which is near in memory too.

   Items wait in classes: half an octave of the order's value each, the largest first, and in a class by their
   begin. A tree of ends (tree.h) finds the first item of a class that begins at or after the run's begin and
   ends within it. A class that held nothing for a run is not searched again for the run's parts.

   In the order of their begins all items are one class, which makes the first plan of all. Where plain items
   begin a few at a time, they wait closely packed: for each time the tree has the least end of the items that
   begin then, so that a run's begin needs no look-up. `firsts` and `ends` tell which item it is.

   A pool is filled after the other. What does not fit below a pool's capacity is left for the next pool.
   Fixed items are there before: the skyline begins at their tops.

   What holds between steps: the runs cover all times, each ends where the next begins, neighbours have
   different heights; the run at hand is one of them. */
#include "planning/offsets/methods/skyline.h"

#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/offsets/support/sort.h"
#include "planning/offsets/support/tree.h"

#include <string.h>

#define RUN_NONE UINT32_MAX

/* Classes of an order, and those of items that must lie in this pool before those that may lie in any. */
#define CLASS_COUNT     30u
#define ALL_CLASS_COUNT (2 * CLASS_COUNT)

/* Bits of a double above the first one of its fraction: a step is half an octave. */
#define HALF_OCTAVE_SHIFT 51u

#define FIRST_RUN_COUNT 256u

typedef struct run {
    uint64_t height;
    uint32_t begin;
    uint32_t end;
    uint32_t left; /* neighbours; of a spare run: `right` is the next spare one */
    uint32_t right;
    uint32_t first_class; /* earlier classes hold nothing for it */
} run_t;

/* Places of the tree [first, end) are the class's items, by begin. */
typedef struct class
{
    uint32_t first;
    uint32_t end;
    uint32_t table; /* its entries: table[begin >> table_shift] is where to look for a begin */
    uint32_t table_shift;
} class_t;

struct dao_plan_skyline {
    dao_plan_instance_t *instance;
    dao_plan_skyline_config_t config;
    dao_plan_layout_t layout;
    uint32_t pool;       /* the one that is being filled */
    bool is_filling;     /* its classes and skyline are made */
    uint32_t left_count; /* items in its classes */
    uint32_t class_count;
    class_t classes[ALL_CLASS_COUNT];
    uint32_t *items;  /* at each place of the tree */
    uint32_t *begins; /* of the items */
    bool is_packed;   /* see above; instead of classes */
    uint32_t *firsts; /* of each time: the first item that begins at or after it */
    uint32_t *ends;   /* of the items; DAO_PLAN_TREE_NONE: it waits no more */
    dao_plan_tree_t tree;
    uint32_t *table;
    run_t *runs;
    uint32_t run_capacity;
    uint32_t run_count; /* ever used */
    uint32_t spare_run;
    uint32_t run_at_hand; /* RUN_NONE: there are no times */
};

static dao_status_t no_memory(const dao_plan_skyline_t *skyline)
{
    return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the skyline of %u buffers",
                     skyline->instance->item_count);
}

/* ---- runs ---- */

static void give_run(dao_plan_skyline_t *skyline, uint32_t run)
{
    skyline->runs[run].right = skyline->spare_run;
    skyline->spare_run = run;
}

/* Takes a run; there is room for it. */
static uint32_t take_run(dao_plan_skyline_t *skyline)
{
    uint32_t run = skyline->spare_run;
    if (run != RUN_NONE) {
        skyline->spare_run = skyline->runs[run].right;
        return run;
    }
    DAO_ASSERT(skyline->run_count < skyline->run_capacity);
    return skyline->run_count++;
}

/* Makes room for `more` runs. */
static bool reserve_runs(dao_plan_skyline_t *skyline, uint32_t more)
{
    if (skyline->run_count + more <= skyline->run_capacity) {
        return true;
    }
    uint32_t capacity = 2 * skyline->run_capacity + more;
    run_t *runs = dao_plan_memory_grow(&skyline->instance->memory, skyline->runs, capacity, sizeof(*runs));
    if (runs == NULL) {
        return false;
    }
    skyline->runs = runs;
    skyline->run_capacity = capacity;
    return true;
}

static void link_runs(dao_plan_skyline_t *skyline, uint32_t left, uint32_t right)
{
    if (left != RUN_NONE) {
        skyline->runs[left].right = right;
    }
    if (right != RUN_NONE) {
        skyline->runs[right].left = left;
    }
}

/* Puts a new run between two neighbours. */
static uint32_t add_run(dao_plan_skyline_t *skyline, run_t values)
{
    uint32_t run = take_run(skyline);
    skyline->runs[run] = values;
    link_runs(skyline, values.left, run);
    link_runs(skyline, run, values.right);
    return run;
}

static bool has_height(const dao_plan_skyline_t *skyline, uint32_t run, uint64_t height)
{
    return run != RUN_NONE && skyline->runs[run].height == height;
}

/* Joins a run with the one on its left, which is as high. */
static void join_left(dao_plan_skyline_t *skyline, uint32_t run)
{
    run_t *runs = skyline->runs;
    uint32_t left = runs[run].left;
    runs[left].end = runs[run].end;
    link_runs(skyline, left, runs[run].right);
    give_run(skyline, run);
}

/* ---- classes ---- */

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/* Returns true if an item is to be placed in the pool at hand. */
static bool is_wanted(const dao_plan_skyline_t *skyline, uint32_t item)
{
    const dao_plan_item_t *items = skyline->instance->items;
    return skyline->layout.offsets[item] == DAO_PLAN_NOWHERE && !items[item].is_fixed &&
           (items[item].pool == skyline->pool || items[item].pool == DAO_PLAN_ITEM_ANY_POOL);
}

static double value_of(const dao_plan_skyline_t *skyline, uint32_t item)
{
    double value = dao_plan_order_value(skyline->config.order, &skyline->instance->items[item]);
    return skyline->config.weights == NULL ? value : value * (double)skyline->config.weights[item];
}

static uint32_t class_of(const dao_plan_skyline_t *skyline, uint32_t item, uint64_t most_bits)
{
    uint64_t below =
        (most_bits >> HALF_OCTAVE_SHIFT) - (bits_of(value_of(skyline, item)) >> HALF_OCTAVE_SHIFT);
    uint32_t own = below < CLASS_COUNT ? (uint32_t)below : CLASS_COUNT - 1;
    bool is_any = skyline->instance->items[item].pool == DAO_PLAN_ITEM_ANY_POOL;
    return is_any ? CLASS_COUNT + own : own;
}

/* The bits of the greatest value. */
static uint64_t most_bits_of(const dao_plan_skyline_t *skyline, dao_plan_work_t *work)
{
    double most = 1.0;
    dao_plan_pass_t pass = {.count = skyline->instance->item_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (uint32_t i = (uint32_t)pass.begin; i < pass.end; i++) {
            double value = is_wanted(skyline, i) ? value_of(skyline, i) : 0;
            most = value > most ? value : most;
        }
    }
    return bits_of(most);
}

/* Counts each class's items. */
static void count_classes(const dao_plan_skyline_t *skyline, uint64_t most_bits, uint32_t *counts,
                          dao_plan_work_t *work)
{
    memset(counts, 0, ALL_CLASS_COUNT * sizeof(*counts));
    dao_plan_pass_t pass = {.count = skyline->instance->item_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (uint32_t i = (uint32_t)pass.begin; i < pass.end; i++) {
            if (is_wanted(skyline, i)) {
                counts[class_of(skyline, i, most_bits)]++;
            }
        }
    }
}

/* Lays out the classes that have items, one after the other, and their tables. Returns the number of entries
   of all tables. */
static uint32_t lay_out_classes(dao_plan_skyline_t *skyline, const uint32_t *counts, uint32_t *numbers)
{
    uint32_t place = 0, entry = 0;
    skyline->class_count = 0;
    for (uint32_t i = 0; i < ALL_CLASS_COUNT; i++) {
        if (counts[i] == 0) {
            continue;
        }
        class_t *class = &skyline->classes[skyline->class_count];
        *class = (class_t){.first = place, .end = place, .table = entry};
        while (skyline->instance->time_count >> class->table_shift > counts[i]) { /* about an entry an item */
            class->table_shift++;
        }
        numbers[i] = skyline->class_count++;
        place += counts[i];
        entry += (skyline->instance->time_count >> class->table_shift) + 2;
    }
    skyline->left_count = place;
    return entry;
}

/* Puts the items into their classes, in the order of their begins. */
static void fill_classes(dao_plan_skyline_t *skyline, const uint32_t *numbers, uint64_t most_bits,
                         dao_plan_work_t *work)
{
    const dao_plan_item_t *items = skyline->instance->items;
    dao_plan_pass_t pass = {.count = skyline->instance->item_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (uint32_t i = (uint32_t)pass.begin; i < pass.end; i++) {
            if (!is_wanted(skyline, i)) {
                continue;
            }
            uint32_t place = skyline->classes[numbers[class_of(skyline, i, most_bits)]].end++;
            skyline->items[place] = i;
            skyline->begins[place] = items[i].begin;
            skyline->tree.levels[0][place] = items[i].end;
        }
    }
    dao_plan_tree_build(&skyline->tree, work);
}

/* Entry e of a class's table is its first place whose begin is at or after e << table_shift. */
static void fill_table(dao_plan_skyline_t *skyline, const class_t *class, dao_plan_work_t *work)
{
    uint32_t place = class->first;
    dao_plan_pass_t pass = {.count = (skyline->instance->time_count >> class->table_shift) + 2};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t entry = pass.begin; entry < pass.end; entry++) {
            while (place < class->end && skyline->begins[place] < (uint64_t)entry << class->table_shift) {
                place++;
            }
            skyline->table[class->table + entry] = place;
        }
    }
}

static void drop_classes(dao_plan_skyline_t *skyline)
{
    dao_plan_memory_t *memory = &skyline->instance->memory;
    dao_plan_memory_free(memory, skyline->items);
    dao_plan_memory_free(memory, skyline->begins);
    dao_plan_memory_free(memory, skyline->firsts);
    dao_plan_memory_free(memory, skyline->ends);
    dao_plan_memory_free(memory, skyline->table);
    dao_plan_tree_finish(&skyline->tree, memory);
    skyline->items = skyline->begins = skyline->firsts = skyline->ends = skyline->table = NULL;
}

static bool make_classes(dao_plan_skyline_t *skyline, dao_plan_work_t *work)
{
    dao_plan_memory_t *memory = &skyline->instance->memory;
    uint32_t counts[ALL_CLASS_COUNT], numbers[ALL_CLASS_COUNT];
    uint64_t most_bits = most_bits_of(skyline, work);
    count_classes(skyline, most_bits, counts, work);
    uint32_t entry_count = lay_out_classes(skyline, counts, numbers);
    skyline->items = dao_plan_memory_alloc(memory, skyline->left_count, sizeof(*skyline->items));
    skyline->begins = dao_plan_memory_alloc(memory, skyline->left_count, sizeof(*skyline->begins));
    skyline->table = dao_plan_memory_alloc(memory, entry_count, sizeof(*skyline->table));
    if (skyline->items == NULL || skyline->begins == NULL || skyline->table == NULL ||
        !dao_plan_tree_init(&skyline->tree, memory, skyline->left_count, work)) {
        drop_classes(skyline);
        return false;
    }
    fill_classes(skyline, numbers, most_bits, work);
    for (uint32_t i = 0; i < skyline->class_count; i++) {
        fill_table(skyline, &skyline->classes[i], work);
    }
    return true;
}

/* A place of a class before which lie all whose begin is below `end`. */
static uint32_t end_of(const dao_plan_skyline_t *skyline, const class_t *class, uint32_t end)
{
    return skyline->table[class->table + ((end - 1) >> class->table_shift) + 1];
}

/* The first place of a class whose begin is at or after `begin`. */
static uint32_t first_from(const dao_plan_skyline_t *skyline, const class_t *class, uint32_t begin)
{
    uint32_t entry = class->table + (begin >> class->table_shift);
    uint32_t low = skyline->table[entry], high = class->table_shift == 0 ? low : skyline->table[entry + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (skyline->begins[middle] < begin) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* What is taken for a run: an item, where and when it is. */
typedef struct taken_item {
    uint32_t index;
    uint32_t begin;
    uint32_t end;
    uint8_t alignment_log2;
    uint64_t size_bytes;
} taken_item_t;

/* Takes the item for a run; false if there is none. Leaves the class in the run. */
static bool take_of_classes(dao_plan_skyline_t *skyline, run_t *run, dao_plan_work_t *work,
                            taken_item_t *out_taken)
{
    for (; run->first_class < skyline->class_count; run->first_class++) {
        const class_t *class = &skyline->classes[run->first_class];
        uint32_t end = end_of(skyline, class, run->end);
        uint32_t place =
            dao_plan_tree_find(&skyline->tree, first_from(skyline, class, run->begin), end, run->end);
        work->used++;
        if (place < end) {
            const dao_plan_item_t *item = &skyline->instance->items[skyline->items[place]];
            *out_taken = (taken_item_t){skyline->items[place], item->begin, item->end, item->alignment_log2,
                                        item->size_bytes};
            dao_plan_tree_set(&skyline->tree, place, DAO_PLAN_TREE_NONE);
            return true;
        }
    }
    return false;
}

/* ---- packed items ---- */

/* What an item takes, while it waits: its alignment above its size. */
#define PACKED_SIZE_BITS 56u
static_assert(DAO_PLAN_SIZE_MAX < UINT64_C(1) << PACKED_SIZE_BITS, "an alignment has room above every size");

/* Of items that begin at one time all are looked at when one is taken: not more than so many. */
#define PACKED_BEGINS_MAX 32u

/* Returns true if so few begin at each time. */
static bool are_begins_apart(const dao_plan_instance_t *instance, dao_plan_work_t *work)
{
    const dao_plan_item_t *items = instance->items;
    bool are_apart = true;
    dao_plan_pass_t pass = {.count = instance->item_count};
    while (are_apart && dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            are_apart =
                are_apart && (i < PACKED_BEGINS_MAX || items[i].begin != items[i - PACKED_BEGINS_MAX].begin);
        }
    }
    return are_apart;
}

static bool can_be_packed(const dao_plan_skyline_t *skyline, dao_plan_work_t *work)
{
    const dao_plan_instance_t *instance = skyline->instance;
    return skyline->config.order == DAO_PLAN_ORDER_START && skyline->config.weights == NULL &&
           instance->pool_count == 1 && dao_plan_instance_is_plain(instance) &&
           are_begins_apart(instance, work);
}

static uint64_t pack(const dao_plan_item_t *item)
{
    return item->size_bytes | (uint64_t)item->alignment_log2 << PACKED_SIZE_BITS;
}

static void fill_packed(dao_plan_skyline_t *skyline, dao_plan_work_t *work)
{
    const dao_plan_instance_t *instance = skyline->instance;
    uint32_t *least = skyline->tree.levels[0], filled = 0;
    dao_plan_pass_t pass = {.count = instance->item_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (uint32_t i = (uint32_t)pass.begin; i < pass.end; i++) {
            const dao_plan_item_t *item = &instance->items[i];
            for (; filled <= item->begin; filled++) {
                skyline->firsts[filled] = i; /* once at most: of plain items, one begins at every time */
            }
            skyline->ends[i] = item->end;
            skyline->layout.offsets[i] = pack(item);
            least[item->begin] = item->end < least[item->begin] ? item->end : least[item->begin];
        }
    }
    skyline->firsts[instance->time_count] = instance->item_count;
    dao_plan_tree_build(&skyline->tree, work);
}

static bool make_packed(dao_plan_skyline_t *skyline, dao_plan_work_t *work)
{
    const dao_plan_instance_t *instance = skyline->instance;
    dao_plan_memory_t *memory = &skyline->instance->memory;
    skyline->firsts =
        dao_plan_memory_alloc(memory, (size_t)instance->time_count + 1, sizeof(*skyline->firsts));
    skyline->ends = dao_plan_memory_alloc(memory, instance->item_count, sizeof(*skyline->ends));
    if (skyline->firsts == NULL || skyline->ends == NULL ||
        !dao_plan_tree_init(&skyline->tree, memory, instance->time_count, work)) {
        drop_classes(skyline);
        return false;
    }
    skyline->is_packed = true;
    skyline->left_count = instance->item_count;
    fill_packed(skyline, work);
    return true;
}

/* Takes an item out of those that begin at a time. */
static void take_at(dao_plan_skyline_t *skyline, uint32_t index, uint32_t time)
{
    uint32_t least = DAO_PLAN_TREE_NONE;
    skyline->ends[index] = DAO_PLAN_TREE_NONE;
    for (uint32_t i = skyline->firsts[time]; i < skyline->firsts[time + 1]; i++) {
        least = skyline->ends[i] < least ? skyline->ends[i] : least;
    }
    dao_plan_tree_set(&skyline->tree, time, least);
}

/* As take_of_classes(); there is one class, which is over once it held nothing. */
static bool take_packed(dao_plan_skyline_t *skyline, run_t *run, dao_plan_work_t *work,
                        taken_item_t *out_taken)
{
    if (run->first_class > 0) {
        return false;
    }
    work->used++;
    uint32_t time = dao_plan_tree_find(&skyline->tree, run->begin, run->end, run->end);
    if (time == run->end) {
        run->first_class++;
        return false;
    }
    uint32_t index = skyline->firsts[time];
    while (skyline->ends[index] > run->end) {
        index++;
    }
    uint64_t packed = skyline->layout.offsets[index];
    *out_taken = (taken_item_t){index, time, skyline->ends[index], (uint8_t)(packed >> PACKED_SIZE_BITS),
                                packed & ((UINT64_C(1) << PACKED_SIZE_BITS) - 1)};
    skyline->layout.offsets[index] = DAO_PLAN_NOWHERE;
    take_at(skyline, index, time);
    return true;
}

/* ---- the start of a pool ---- */

/* Heights of times while fixed items are painted. `next[t]` is the next unpainted time. */
typedef struct painting {
    dao_plan_key_t *tops; /* of the pool's fixed items, lowest first */
    dao_plan_key_t *scratch;
    uint32_t top_count;
    uint64_t *heights;
    uint32_t *next;
} painting_t;

static void paint_item(painting_t *painting, const dao_plan_item_t *item, uint64_t top)
{
    uint32_t *next = painting->next, time = item->begin;
    while (time < item->end) {
        while (next[time] != time) { /* halves the way for the next one */
            next[time] = next[next[time]];
            time = next[time];
        }
        if (time < item->end) {
            painting->heights[time] = top;
            next[time] = time + 1;
        }
    }
}

/* Finds for each time the top of the highest fixed item, by painting the highest first. */
static void paint_fixed(const dao_plan_skyline_t *skyline, painting_t *painting, dao_plan_work_t *work)
{
    const dao_plan_instance_t *instance = skyline->instance;
    dao_plan_pass_t pass = {.count = (size_t)instance->time_count + 1};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t time = pass.begin; time < pass.end; time++) {
            painting->next[time] = (uint32_t)time;
        }
    }
    for (uint32_t i = painting->top_count; i-- > 0 && !dao_plan_work_is_cancelled(work);) {
        const dao_plan_key_t *top = &painting->tops[i];
        paint_item(painting, &instance->items[top->value], top->key);
        work->used++;
    }
}

static void list_fixed(const dao_plan_skyline_t *skyline, painting_t *painting, dao_plan_work_t *work)
{
    const dao_plan_instance_t *instance = skyline->instance;
    dao_plan_pass_t pass = {.count = instance->item_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (uint32_t i = (uint32_t)pass.begin; i < pass.end; i++) {
            const dao_plan_item_t *item = &instance->items[i];
            if (item->is_fixed && item->pool == skyline->pool) {
                painting->tops[painting->top_count++] =
                    (dao_plan_key_t){.key = instance->fixed_offsets[i] + item->size_bytes, .value = i};
            }
        }
    }
    dao_plan_sort_keys(painting->tops, painting->scratch, painting->top_count, work);
}

/* Makes a skyline of one run. */
static bool make_flat(dao_plan_skyline_t *skyline)
{
    uint32_t time_count = skyline->instance->time_count;
    if (time_count == 0) {
        return true;
    }
    if (!reserve_runs(skyline, FIRST_RUN_COUNT)) {
        return false;
    }
    skyline->run_at_hand = add_run(skyline, (run_t){.end = time_count, .left = RUN_NONE, .right = RUN_NONE});
    return true;
}

/* Makes the runs of a skyline that is so high at each time. */
static bool make_runs(dao_plan_skyline_t *skyline, const uint64_t *heights, dao_plan_work_t *work)
{
    uint32_t last = RUN_NONE;
    dao_plan_pass_t pass = {.count = skyline->instance->time_count};
    while (dao_plan_pass_next(&pass, work)) {
        if (!reserve_runs(skyline, DAO_PLAN_STRETCH)) {
            return false;
        }
        for (uint32_t time = (uint32_t)pass.begin; time < pass.end; time++) {
            if (has_height(skyline, last, heights[time])) {
                skyline->runs[last].end = time + 1;
            } else {
                last = add_run(skyline, (run_t){.height = heights[time],
                                                .begin = time,
                                                .end = time + 1,
                                                .left = last,
                                                .right = RUN_NONE});
            }
        }
    }
    skyline->run_at_hand = last;
    return true;
}

/* Makes a skyline on fixed items. */
static bool make_high(dao_plan_skyline_t *skyline, dao_plan_work_t *work)
{
    dao_plan_instance_t *instance = skyline->instance;
    dao_plan_memory_t *memory = &instance->memory;
    painting_t painting = {0};
    painting.heights = dao_plan_memory_alloc(memory, instance->time_count, sizeof(*painting.heights));
    painting.next = dao_plan_memory_alloc(memory, (size_t)instance->time_count + 1, sizeof(*painting.next));
    painting.tops = dao_plan_memory_alloc(memory, instance->item_count, sizeof(*painting.tops));
    painting.scratch = dao_plan_memory_alloc(memory, instance->item_count, sizeof(*painting.scratch));
    bool is_made = painting.heights != NULL && painting.next != NULL && painting.tops != NULL &&
                   painting.scratch != NULL;
    if (is_made) {
        list_fixed(skyline, &painting, work);
        paint_fixed(skyline, &painting, work);
        is_made = make_runs(skyline, painting.heights, work);
    }
    dao_plan_memory_free(memory, painting.scratch);
    dao_plan_memory_free(memory, painting.tops);
    dao_plan_memory_free(memory, painting.next);
    dao_plan_memory_free(memory, painting.heights);
    return is_made;
}

static bool make_skyline(dao_plan_skyline_t *skyline, dao_plan_work_t *work)
{
    skyline->run_count = 0;
    skyline->spare_run = RUN_NONE;
    skyline->run_at_hand = RUN_NONE;
    return skyline->instance->fixed_offsets == NULL ? make_flat(skyline) : make_high(skyline, work);
}

static dao_status_t begin_pool(dao_plan_skyline_t *skyline, dao_plan_work_t *work)
{
    bool is_made = make_skyline(skyline, work) &&
                   (can_be_packed(skyline, work) ? make_packed(skyline, work) : make_classes(skyline, work));
    if (!is_made) {
        return no_memory(skyline);
    }
    skyline->is_filling = !dao_plan_work_is_cancelled(work);
    return DAO_OK;
}

static void end_pool(dao_plan_skyline_t *skyline)
{
    drop_classes(skyline);
    skyline->is_filling = false;
    skyline->pool++;
}

/* ---- placing ---- */

/* Nothing fits the run at hand: it becomes part of its lower neighbour, or of both. False if it has none. */
static bool raise_run(dao_plan_skyline_t *skyline)
{
    run_t *runs = skyline->runs;
    uint32_t run = skyline->run_at_hand;
    uint32_t left = runs[run].left, right = runs[run].right;
    if (left == RUN_NONE && right == RUN_NONE) {
        return false;
    }
    link_runs(skyline, left, right);
    bool is_left_lower = right == RUN_NONE || (left != RUN_NONE && runs[left].height <= runs[right].height);
    uint32_t joined = is_left_lower ? left : right;
    runs[joined].first_class = 0;
    if (is_left_lower) {
        runs[left].end = runs[run].end;
    } else {
        runs[right].begin = runs[run].begin;
    }
    if (is_left_lower && has_height(skyline, right, runs[left].height)) {
        join_left(skyline, right);
    }
    give_run(skyline, run);
    skyline->run_at_hand = joined;
    return true;
}

/* Puts the top of an item that lies on a run into the skyline; `left` and `right` are what will be beside it.
   Returns the run that it is part of. */
static uint32_t put_top(dao_plan_skyline_t *skyline, const taken_item_t *item, uint64_t top, uint32_t left,
                        uint32_t right)
{
    run_t *runs = skyline->runs;
    bool is_left_as_high = has_height(skyline, left, top), is_right_as_high = has_height(skyline, right, top);
    if (!is_left_as_high && !is_right_as_high) {
        return add_run(
            skyline,
            (run_t){.height = top, .begin = item->begin, .end = item->end, .left = left, .right = right});
    }
    uint32_t joined = is_left_as_high ? left : right;
    runs[joined].first_class = 0;
    link_runs(skyline, left, right);
    if (is_left_as_high) {
        runs[left].end = item->end;
    } else {
        runs[right].begin = item->begin;
    }
    if (is_left_as_high && is_right_as_high) {
        join_left(skyline, right);
    }
    return joined;
}

/* Puts an item on the run at hand; what is left beside it, or its top, is at hand then. There is room for two
   runs. */
static void split_run(dao_plan_skyline_t *skyline, const taken_item_t *item, uint64_t top)
{
    uint32_t run = skyline->run_at_hand;
    const run_t before = skyline->runs[run];
    uint32_t left = before.left, right = before.right;
    DAO_ASSERT(before.begin <= item->begin && item->end <= before.end);
    DAO_ASSERT(top > before.height);
    bool has_right = item->end < before.end, has_left = before.begin < item->begin;
    if (has_right) {
        right = add_run(skyline, (run_t){.height = before.height,
                                         .begin = item->end,
                                         .end = before.end,
                                         .left = run,
                                         .right = before.right,
                                         .first_class = before.first_class});
    }
    if (has_left) {
        skyline->runs[run].end = item->begin;
        skyline->runs[run].first_class++; /* the item was its class's first: before it none fits */
        left = run;
    }
    uint32_t on_top = put_top(skyline, item, top, left, right);
    if (!has_left) {
        give_run(skyline, run);
        skyline->run_at_hand = has_right ? right : on_top;
    }
    DAO_ASSERT(skyline->run_at_hand != RUN_NONE);
}

/* Places an item on the run at hand, unless the pool does not hold it there. */
static void place_item(dao_plan_skyline_t *skyline, const taken_item_t *item)
{
    uint64_t height = skyline->runs[skyline->run_at_hand].height;
    uint64_t offset = dao_round_up(height, (uint64_t)1 << item->alignment_log2);
    DAO_ASSERT(skyline->left_count > 0);
    DAO_ASSERT(skyline->layout.offsets[item->index] == DAO_PLAN_NOWHERE || skyline->is_packed);
    skyline->left_count--;
    if (offset + item->size_bytes <=
        skyline->instance->capacities[skyline->pool]) { /* runs only rise: later it fits even less */
        dao_plan_layout_put(&skyline->layout, item->index, offset, skyline->pool);
        split_run(skyline, item, offset + item->size_bytes);
    }
}

/* Goes down to a run that is lower than its neighbours. Each step down is followed by a raise. */
static run_t *go_down(dao_plan_skyline_t *skyline)
{
    const run_t *runs = skyline->runs;
    uint32_t run = skyline->run_at_hand, next = run;
    do {
        run = next;
        uint32_t left = runs[run].left, right = runs[run].right;
        if (left != RUN_NONE && runs[left].height < runs[run].height) {
            next = left;
        } else if (right != RUN_NONE && runs[right].height < runs[run].height) {
            next = right;
        }
    } while (next != run);
    skyline->run_at_hand = run;
    DAO_ASSERT(runs[run].begin < runs[run].end);
    return &skyline->runs[run];
}

static bool take_item(dao_plan_skyline_t *skyline, run_t *run, dao_plan_work_t *work, taken_item_t *out_taken)
{
    return skyline->is_packed ? take_packed(skyline, run, work, out_taken)
                              : take_of_classes(skyline, run, work, out_taken);
}

/* Fills the pool until it is full or the work counter ends. */
static dao_status_t fill_pool(dao_plan_skyline_t *skyline, dao_plan_work_t *work)
{
    while (dao_plan_work_is_left(work)) {
        if (skyline->left_count == 0) {
            end_pool(skyline);
            return DAO_OK;
        }
        if (!reserve_runs(skyline, 2)) {
            return no_memory(skyline);
        }
        taken_item_t item;
        if (take_item(skyline, go_down(skyline), work, &item)) {
            place_item(skyline, &item);
        } else if (!raise_run(skyline)) {
            end_pool(skyline);
            return DAO_OK;
        }
    }
    return DAO_OK;
}

dao_status_t dao_plan_skyline_step(dao_plan_skyline_t *skyline, dao_plan_work_t *work, bool *out_is_done)
{
    dao_status_t status = DAO_OK;
    DAO_ASSERT(skyline->pool <= skyline->instance->pool_count);
    DAO_ASSERT_HEAVY(dao_plan_skyline_is_valid(skyline));
    while (status == DAO_OK && skyline->pool < skyline->instance->pool_count && dao_plan_work_is_left(work)) {
        status = skyline->is_filling ? fill_pool(skyline, work) : begin_pool(skyline, work);
    }
    DAO_ASSERT_HEAVY(dao_plan_skyline_is_valid(skyline));
    *out_is_done = skyline->pool == skyline->instance->pool_count;
    return status;
}

/* ---- start and end ---- */

dao_status_t dao_plan_skyline_create(dao_plan_instance_t *instance, const dao_plan_skyline_config_t *config,
                                     dao_plan_work_t *work, dao_plan_skyline_t **out_skyline)
{
    DAO_ASSERT(config->order != DAO_PLAN_ORDER_OFFSET && config->order != DAO_PLAN_ORDER_BREADTH);
    dao_plan_skyline_t *skyline = dao_plan_memory_alloc(&instance->memory, 1, sizeof(*skyline));
    if (skyline == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a skyline");
    }
    skyline->instance = instance;
    skyline->config = *config;
    skyline->spare_run = RUN_NONE;
    if (!dao_plan_layout_init(&skyline->layout, instance, work)) {
        dao_status_t status = no_memory(skyline);
        dao_plan_skyline_destroy(skyline);
        return status;
    }
    dao_plan_layout_put_fixed(&skyline->layout, instance, work);
    *out_skyline = skyline;
    return DAO_OK;
}

void dao_plan_skyline_destroy(dao_plan_skyline_t *skyline)
{
    if (skyline == NULL) {
        return;
    }
    dao_plan_memory_t *memory = &skyline->instance->memory;
    drop_classes(skyline);
    dao_plan_layout_finish(&skyline->layout, skyline->instance);
    dao_plan_memory_free(memory, skyline->runs);
    dao_plan_memory_free(memory, skyline);
}

dao_plan_layout_t *dao_plan_skyline_layout(dao_plan_skyline_t *skyline)
{
    return &skyline->layout;
}

bool dao_plan_skyline_is_valid(const dao_plan_skyline_t *skyline)
{
    if (!skyline->is_filling || skyline->run_at_hand == RUN_NONE) {
        return true;
    }
    const run_t *runs = skyline->runs;
    uint32_t first = skyline->run_at_hand, count = 0, time = 0;
    while (runs[first].left != RUN_NONE && count < skyline->run_count) {
        first = runs[first].left;
        count++;
    }
    bool is_valid = runs[first].left == RUN_NONE;
    count = 0;
    for (uint32_t run = first; run != RUN_NONE && is_valid; run = runs[run].right) {
        is_valid = runs[run].begin == time && runs[run].begin < runs[run].end &&
                   ++count <= skyline->run_count && !has_height(skyline, runs[run].right, runs[run].height);
        time = runs[run].end;
    }
    return is_valid && time == skyline->instance->time_count && dao_plan_tree_is_valid(&skyline->tree);
}
