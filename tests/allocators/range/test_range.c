/* SPDX-License-Identifier: Apache-2.0 */
/* Placement over offsets, against a slow model that keeps an owner for every granule. */
#include "allocators/range/range.h"
#include "base/report/error.h"
#include "base/report/fault.h"
#include "tests/support/suite.h"

#include <string.h>

#define UNIT DAO_RANGE_GRANULE

static dao_range_t *range;

/* The tests run on a plain range, on one with an index, and on one with best fit. */
static dao_range_config_t kind;

static dao_status_t create(uint64_t capacity_bytes, dao_range_t **out_range)
{
    dao_range_config_t config = kind;
    config.capacity_bytes = capacity_bytes;
    return dao_range_create(&config, out_range);
}

static dao_status_t alloc_in(dao_range_t *from, uint64_t size_bytes, uint64_t alignment_bytes, uint64_t user,
                             uint64_t *out_offset_bytes)
{
    dao_range_request_t request = {.size_bytes = size_bytes,
                                   .alignment_bytes = alignment_bytes,
                                   .user = user,
                                   .is_tight = user % 4 == 1};
    dao_range_grant_t grant;
    dao_status_t status = dao_range_alloc(from, &request, &grant);
    if (status == DAO_OK) {
        CU_ASSERT_TRUE(dao_stream_fence_is_empty(&grant.fence));
        *out_offset_bytes = grant.offset_bytes;
    }
    return status;
}

static dao_status_t free_in(dao_range_t *from, uint64_t offset_bytes)
{
    dao_range_block_t block;
    return dao_range_free(from, offset_bytes, NULL, &block);
}

static int range_1m_create(void)
{
    return create(1 * MIB, &range) == DAO_OK ? 0 : 1;
}

static int plain_create(void)
{
    kind = (dao_range_config_t){0};
    return range_1m_create();
}

static int indexed_create(void)
{
    kind = (dao_range_config_t){.is_indexed = true};
    return range_1m_create();
}

static int best_fit_create(void)
{
    kind = (dao_range_config_t){.fit = DAO_RANGE_FIT_BEST};
    return range_1m_create();
}

static int range_1m_destroy(void)
{
    dao_range_destroy(range);
    range = NULL;
    return 0;
}

static uint64_t take(uint64_t size_bytes)
{
    uint64_t offset_bytes = UINT64_MAX;
    CU_ASSERT_EQUAL(alloc_in(range, size_bytes, 0, size_bytes, &offset_bytes), DAO_OK);
    CU_ASSERT_TRUE(dao_range_is_valid(range));
    return offset_bytes;
}

static void give(uint64_t offset_bytes)
{
    CU_ASSERT_EQUAL(free_in(range, offset_bytes), DAO_OK);
    CU_ASSERT_TRUE(dao_range_is_valid(range));
}

static void an_empty_range_is_one_hole(void)
{
    CU_ASSERT_EQUAL(dao_range_capacity(range), 1 * MIB);
    CU_ASSERT_EQUAL(dao_range_used(range), 0);
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), 1 * MIB);
    uint64_t all = take(1 * MIB);
    CU_ASSERT_EQUAL(all, 0);
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), 0);
    uint64_t offset_bytes = 77;
    CU_ASSERT_EQUAL(alloc_in(range, 1, 0, 0, &offset_bytes), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(offset_bytes, 77);
    give(all);
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), 1 * MIB);
}

static void sizes_are_rounded_to_the_granule(void)
{
    uint64_t one = take(1);
    CU_ASSERT_EQUAL(dao_range_used(range), UNIT);
    uint64_t more = take(UNIT + 1);
    CU_ASSERT_EQUAL(dao_range_used(range), 3 * UNIT);
    give(one);
    give(more);
    CU_ASSERT_EQUAL(dao_range_used(range), 0);
}

static void neighbours_merge_at_once_in_any_order(void)
{
    static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (size_t i = 0; i < 6; i++) {
        uint64_t blocks[3] = {take(4 * KIB), take(8 * KIB), take(12 * KIB)};
        for (size_t k = 0; k < 3; k++) {
            give(blocks[orders[i][k]]);
        }
        CU_ASSERT_EQUAL(dao_range_largest_hole(range), 1 * MIB);
    }
}

static void the_lowest_of_the_fitting_holes_is_taken(void)
{
    uint64_t blocks[8];
    for (size_t i = 0; i < 8; i++) {
        blocks[i] = take(4 * KIB);
    }
    give(blocks[1]);
    give(blocks[5]);
    give(blocks[3]);
    CU_ASSERT_EQUAL(take(4 * KIB), blocks[1]);
    CU_ASSERT_EQUAL(take(4 * KIB), blocks[3]);
    CU_ASSERT_EQUAL(take(4 * KIB), blocks[5]);
    for (size_t i = 0; i < 8; i++) {
        give(blocks[i]);
    }
}

/* What has been found out about the hole that a request in tight memory is to get. Sizes in bytes. */
enum { TIGHT_BLOCKS = 200, TIGHT_OPERATIONS = 3000 };

#define TIGHT_CAPACITY (1 * GIB)
#define TIGHT_SLACK    (16 * MIB / 3) /* of a request of up to 16 MiB */
#define BIN_LOOKS      3u             /* entries of a bin that are looked at */
#define ALL_LOOKS      8u

typedef struct tight_view {
    dao_range_block_t holes[TIGHT_BLOCKS + 1];
    size_t count;
    uint64_t size_bytes;
    double slope; /* what a byte of offset costs */
} tight_view_t;

static bool add_hole(const dao_range_block_t *hole, void *user)
{
    tight_view_t *view = user;
    view->holes[view->count++] = *hole;
    return true;
}

static double cost_in(const tight_view_t *view, const dao_range_block_t *hole)
{
    return (double)(hole->size_bytes - view->size_bytes) + (double)hole->offset_bytes * view->slope;
}

/* Of sizes in one bin the first five bits are equal, and the number of bits. */
static uint64_t bin_of(uint64_t size_bytes)
{
    uint64_t units = size_bytes / UNIT, bits = 0;
    while (units >> bits > 31) {
        bits++;
    }
    return bits << 5 | units >> bits;
}

/* Returns true if a hole is surely looked at: with good fit only the first few are, from the request's bin
   on, of each bin a few. Holes are listed bin by bin. */
static bool is_seen(const tight_view_t *view, const dao_range_block_t *hole)
{
    size_t alike = 0, look_count = 0;
    uint64_t bin = 0;
    for (size_t i = 0; i < view->count; i++) {
        uint64_t size_bytes = view->holes[i].size_bytes;
        if (bin_of(size_bytes) >= bin_of(view->size_bytes) &&
            bin_of(size_bytes) <= bin_of(hole->size_bytes)) {
            alike = bin_of(size_bytes) == bin ? alike + 1 : 1;
            bin = bin_of(size_bytes);
            look_count += alike <= BIN_LOOKS;
        }
    }
    alike = 0;
    for (size_t i = 0; i < view->count; i++) {
        alike += bin_of(view->holes[i].size_bytes) == bin_of(hole->size_bytes);
    }
    return kind.fit == DAO_RANGE_FIT_BEST || (alike <= BIN_LOOKS && look_count <= ALL_LOOKS);
}

/* Checks the grant, or the refusal if there is none, against all holes; returns true if any that fits was
   surely seen. Costs are reckoned to a unit for each 2^16 of offset. */
static bool check_tight(const tight_view_t *view, const dao_range_grant_t *grant)
{
    bool any_seen = false;
    const dao_range_block_t *taken = NULL;
    for (size_t i = 0; i < view->count && grant != NULL; i++) {
        taken = view->holes[i].offset_bytes == grant->offset_bytes ? &view->holes[i] : taken;
    }
    CU_ASSERT_EQUAL(taken == NULL, grant == NULL);
    for (size_t i = 0; i < view->count; i++) {
        const dao_range_block_t *hole = &view->holes[i];
        if (hole->size_bytes >= view->size_bytes) {
            bool is_least =
                taken != NULL && cost_in(view, taken) <= cost_in(view, hole) + TIGHT_CAPACITY / 65536.0;
            CU_ASSERT_TRUE(taken != NULL && (is_least || !is_seen(view, hole)));
            any_seen = any_seen || is_seen(view, hole);
        }
    }
    return any_seen;
}

/* Returns the block's offset, or UINT64_MAX; counts the requests of which a hole that fits was surely seen.
 */
static uint64_t take_tight(uint64_t size_bytes, size_t *seen_count)
{
    uint64_t third_bytes = size_bytes / 3;
    double slack_bytes = (double)(third_bytes > TIGHT_SLACK ? third_bytes : TIGHT_SLACK);
    double used_bytes = (double)dao_range_used(range);
    tight_view_t view = {.size_bytes = size_bytes,
                         .slope = kind.fit == DAO_RANGE_FIT_BEST ? 0
                                  : slack_bytes < used_bytes     ? slack_bytes / used_bytes
                                                                 : 1};
    dao_range_walk_holes(range, add_hole, &view);
    dao_range_request_t request = {.size_bytes = size_bytes, .user = 1, .is_tight = true};
    dao_range_grant_t grant;
    dao_status_t status = dao_range_alloc(range, &request, &grant);
    CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_LIMIT);
    *seen_count += check_tight(&view, status == DAO_OK ? &grant : NULL);
    return status == DAO_OK ? grant.offset_bytes : UINT64_MAX;
}

static void a_tight_request_gets_the_hole_of_the_least_cost(void)
{
    uint64_t seed = dao_test_seed("tight range", 1);
    uint64_t offsets[TIGHT_BLOCKS];
    size_t seen_count = 0;
    memset(offsets, 0xff, sizeof(offsets)); /* none */
    dao_range_destroy(range);
    CU_ASSERT_EQUAL_FATAL(create(TIGHT_CAPACITY, &range), DAO_OK);
    for (size_t i = 0; i < TIGHT_OPERATIONS; i++) {
        uint64_t *offset = &offsets[dao_random_next(&seed) % TIGHT_BLOCKS];
        if (*offset != UINT64_MAX) {
            give(*offset);
        }
        uint64_t most_units = UINT64_C(2) << dao_random_next(&seed) % 18;
        *offset = take_tight((1 + dao_random_next(&seed) % most_units) * UNIT, &seen_count);
    }
    CU_ASSERT_TRUE(seen_count > TIGHT_OPERATIONS / 2);
    dao_range_destroy(range);
    CU_ASSERT_EQUAL_FATAL(range_1m_create(), 0);
}

/* Tries to place 66 units where so many holes share a bin, of which the one that was freed first, the last in
   its list, has 67, and the others 64. */
static dao_status_t place_among_holes(uint64_t count)
{
    dao_range_t *full = NULL;
    uint64_t offset_bytes = 0;
    CU_ASSERT_EQUAL_FATAL(create((65 * count + 3) * UNIT, &full), DAO_OK);
    for (uint64_t i = 0; i < count; i++) {
        CU_ASSERT_EQUAL(alloc_in(full, (i == 0 ? 67 : 64) * UNIT, 0, 0, &offset_bytes), DAO_OK);
        CU_ASSERT_EQUAL(alloc_in(full, UNIT, 0, 0, &offset_bytes), DAO_OK);
    }
    for (uint64_t i = 0; i < count; i++) {
        CU_ASSERT_EQUAL(free_in(full, i == 0 ? 0 : (65 * i + 3) * UNIT), DAO_OK);
    }
    uint64_t largest_units = dao_range_largest_hole(full) / UNIT;
    CU_ASSERT_EQUAL(largest_units, count <= DAO_RANGE_LOOKS_MAX ? 67 : 64);
    dao_status_t status = alloc_in(full, 66 * UNIT, 0, 0, &offset_bytes);
    CU_ASSERT_TRUE(dao_range_is_valid(full));
    dao_range_destroy(full);
    return status;
}

static void a_bin_is_searched_so_far_and_no_further(void)
{
    bool is_best = kind.fit == DAO_RANGE_FIT_BEST;
    CU_ASSERT_EQUAL(place_among_holes(DAO_RANGE_LOOKS_MAX), DAO_OK);
    CU_ASSERT_EQUAL(place_among_holes(DAO_RANGE_LOOKS_MAX + 1), is_best ? DAO_OK : DAO_ERR_LIMIT);
}

/* Holes of one bin, the only one that fits being the first freed: it is the last in its list. */
static void a_hole_that_fits_is_found(void)
{
    enum { HOLES = 12 };
    uint64_t holes[HOLES], walls[HOLES];
    for (size_t i = 0; i < HOLES; i++) {
        holes[i] = take((i == 0 ? 67 : 64) * UNIT); /* 64 to 67 units share a bin */
        walls[i] = take(UNIT);
    }
    uint64_t rest = take(dao_range_largest_hole(range));
    for (size_t i = 0; i < HOLES; i++) {
        give(holes[i]);
    }
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), 67 * UNIT);
    CU_ASSERT_EQUAL(take(66 * UNIT), holes[0]);
    give(holes[0]);
    give(rest);
    for (size_t i = 0; i < HOLES; i++) {
        give(walls[i]);
    }
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), 1 * MIB);
}

static void any_power_of_two_is_an_alignment(void)
{
    uint64_t first = take(UNIT);
    for (uint64_t alignment = 1; alignment <= 512 * KIB; alignment *= 2) {
        uint64_t offset_bytes = 1;
        CU_ASSERT_EQUAL_FATAL(alloc_in(range, 3 * UNIT, alignment, 0, &offset_bytes), DAO_OK);
        CU_ASSERT_EQUAL(offset_bytes % alignment, 0);
        CU_ASSERT_EQUAL(offset_bytes % UNIT, 0);
        give(offset_bytes);
    }
    uint64_t offset_bytes = 1;
    CU_ASSERT_EQUAL(alloc_in(range, UNIT, UINT64_C(1) << 63, 0, &offset_bytes), DAO_ERR_LIMIT);
    give(first);
    CU_ASSERT_EQUAL(alloc_in(range, UNIT, UINT64_C(1) << 63, 0, &offset_bytes), DAO_OK);
    give(offset_bytes);
}

static void an_exact_place_is_taken_or_refused(void)
{
    CU_ASSERT_EQUAL(dao_range_alloc_at(range, 512 * KIB, 4 * KIB, 9), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_alloc_at(range, 512 * KIB - UNIT, 2 * UNIT, 0), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_range_alloc_at(range, 516 * KIB - UNIT, UNIT, 0), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_range_alloc_at(range, 1 * MIB - UNIT, 2 * UNIT, 0), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_range_alloc_at(range, 1 * MIB, UNIT, 0), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_range_alloc_at(range, 512 * KIB - UNIT, UNIT, 0), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_alloc_at(range, 516 * KIB, UNIT, 0), DAO_OK);
    CU_ASSERT_TRUE(dao_range_is_valid(range));
    give(512 * KIB);
    give(512 * KIB - UNIT);
    give(516 * KIB);
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), 1 * MIB);
}

static void bad_frees_are_told_apart(void)
{
    uint64_t block = take(4 * KIB);
    CU_ASSERT_EQUAL(free_in(range, block + UNIT), DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(free_in(range, block + 1), DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(free_in(range, block + 4 * KIB), DAO_ERR_DOUBLE_FREE);
    CU_ASSERT_EQUAL(free_in(range, 1 * MIB), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(free_in(range, UINT64_MAX), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_range_used(range), 4 * KIB);
    give(block);
    CU_ASSERT_EQUAL(free_in(range, block), DAO_ERR_DOUBLE_FREE);
}

static void a_block_remembers_its_number(void)
{
    uint64_t offset_bytes = 0;
    CU_ASSERT_EQUAL(alloc_in(range, 1000, 0, UINT64_MAX, &offset_bytes), DAO_OK);
    dao_range_block_t block;
    CU_ASSERT_EQUAL(dao_range_query(range, offset_bytes + 999, &block), DAO_OK);
    CU_ASSERT_EQUAL(block.user, UINT64_MAX);
    CU_ASSERT_EQUAL(block.size_bytes, 1024);
    CU_ASSERT_FALSE(block.is_free);
    CU_ASSERT_EQUAL(dao_range_free(range, offset_bytes, NULL, &block), DAO_OK);
    CU_ASSERT_EQUAL(block.user, UINT64_MAX);
    CU_ASSERT_EQUAL(dao_range_query(range, offset_bytes, &block), DAO_OK);
    CU_ASSERT_TRUE(block.is_free);
    CU_ASSERT_EQUAL(block.user, 0);
    CU_ASSERT_EQUAL(block.size_bytes, 1 * MIB);
    CU_ASSERT_EQUAL(dao_range_query(range, 1 * MIB, &block), DAO_ERR_FOREIGN_POINTER);
}

static void the_largest_range_works(void)
{
    dao_range_t *large = NULL;
    CU_ASSERT_EQUAL_FATAL(create(DAO_RANGE_CAPACITY_MAX, &large), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_largest_hole(large), DAO_RANGE_CAPACITY_MAX);
    uint64_t offset_bytes = 1;
    CU_ASSERT_EQUAL(alloc_in(large, DAO_RANGE_CAPACITY_MAX, 0, 1, &offset_bytes), DAO_OK);
    CU_ASSERT_EQUAL(free_in(large, offset_bytes), DAO_OK);
    uint64_t last = DAO_RANGE_CAPACITY_MAX - UNIT;
    CU_ASSERT_EQUAL(dao_range_alloc_at(large, last, UNIT, 1), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_alloc_at(large, 0, last, 1), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_used(large), DAO_RANGE_CAPACITY_MAX);
    CU_ASSERT_TRUE(dao_range_is_valid(large));
    dao_range_block_t block;
    CU_ASSERT_EQUAL(dao_range_query(large, last - 1, &block), DAO_OK);
    CU_ASSERT_EQUAL(block.offset_bytes, 0);
    CU_ASSERT_EQUAL(free_in(large, last), DAO_OK);
    CU_ASSERT_EQUAL(alloc_in(large, UNIT, 0, 1, &offset_bytes),
                    DAO_OK); /* its offset is as great as can be */
    CU_ASSERT_EQUAL(offset_bytes, last);
    CU_ASSERT_EQUAL(free_in(large, last), DAO_OK);
    CU_ASSERT_EQUAL(free_in(large, 0), DAO_OK);
    CU_ASSERT_TRUE(dao_range_is_valid(large));
    dao_range_destroy(large);
}

#if defined(DAO_FAULTS)

/* Creates a range and fills it with 100 blocks; returns the first failure's status. */
static dao_status_t fill_once(void)
{
    dao_range_t *filled = NULL;
    dao_status_t status = create(1 * MIB, &filled);
    for (uint64_t i = 0; status == DAO_OK && i < 100; i++) {
        uint64_t used_bytes = dao_range_used(filled);
        uint64_t hole_bytes = dao_range_largest_hole(filled);
        status = dao_range_alloc_at(filled, 2 * i * UNIT, UNIT, i);
        CU_ASSERT_TRUE(dao_range_is_valid(filled));
        if (status != DAO_OK) {
            CU_ASSERT_EQUAL(dao_range_used(filled), used_bytes);
            CU_ASSERT_EQUAL(dao_range_largest_hole(filled), hole_bytes);
        }
    }
    for (uint64_t i = 0; filled != NULL && i < 100; i++) {
        (void)free_in(filled, 2 * i * UNIT); /* those that were not taken are refused */
    }
    CU_ASSERT_TRUE(filled == NULL || dao_range_used(filled) == 0);
    dao_range_destroy(filled);
    return status;
}

static void a_lack_of_memory_changes_nothing(void)
{
    uint64_t n = 0;
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    for (; status != DAO_OK && n < 100; n++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        status = fill_once();
        uint64_t fired = dao_fault_disarm();
        CU_ASSERT_TRUE(fired == 0 ? status == DAO_OK : status == DAO_ERR_NO_HOST_MEMORY);
    }
    CU_ASSERT_TRUE(n > 6 && n < 100);
}

#endif

/* ---- the slow model: an owner for every granule ---- */

#define MODEL_UNITS  16384u
#define MODEL_BLOCKS 1200u

typedef struct model_block {
    uint64_t offset_bytes;
    uint64_t size_bytes;
    uint64_t user;
} model_block_t;

typedef struct model {
    bool used[MODEL_UNITS];
    model_block_t blocks[MODEL_BLOCKS];
    size_t count;
    uint64_t used_bytes;
} model_t;

static bool model_is_free(const model_t *model, uint64_t first, uint64_t count)
{
    for (uint64_t i = first; i < first + count; i++) {
        if (i >= MODEL_UNITS || model->used[i]) {
            return false;
        }
    }
    return true;
}

static bool model_has_room(const model_t *model, uint64_t size_bytes, uint64_t alignment_bytes)
{
    for (uint64_t i = 0; i < MODEL_UNITS; i += alignment_bytes / UNIT) {
        if (model_is_free(model, i, (size_bytes + UNIT - 1) / UNIT)) {
            return true;
        }
    }
    return false;
}

static uint64_t model_largest_hole(const model_t *model)
{
    uint64_t largest = 0, run = 0;
    for (uint64_t i = 0; i < MODEL_UNITS; i++) {
        run = model->used[i] ? 0 : run + 1;
        largest = run > largest ? run : largest;
    }
    return largest * UNIT;
}

static void model_add(model_t *model, uint64_t offset_bytes, uint64_t size_bytes, uint64_t user)
{
    uint64_t count = (size_bytes + UNIT - 1) / UNIT;
    CU_ASSERT_TRUE_FATAL(model_is_free(model, offset_bytes / UNIT, count));
    memset(&model->used[offset_bytes / UNIT], true, count);
    model->blocks[model->count++] = (model_block_t){offset_bytes, count * UNIT, user};
    model->used_bytes += count * UNIT;
}

static void model_remove(model_t *model, size_t index)
{
    model_block_t *block = &model->blocks[index];
    memset(&model->used[block->offset_bytes / UNIT], false, block->size_bytes / UNIT);
    model->used_bytes -= block->size_bytes;
    *block = model->blocks[--model->count];
}

static uint64_t random_size(uint64_t *seed)
{
    uint64_t shift = dao_random_next(seed) % 8;
    return 1 + dao_random_next(seed) % ((uint64_t)UNIT << shift);
}

static void random_alloc(model_t *model, uint64_t *seed)
{
    uint64_t size_bytes = random_size(seed);
    uint64_t alignment_bytes = (uint64_t)UNIT
                               << (dao_random_next(seed) % 4 == 0 ? dao_random_next(seed) % 9 : 0);
    uint64_t user = dao_random_next(seed);
    uint64_t offset_bytes = 0;
    dao_status_t status = alloc_in(range, size_bytes, alignment_bytes, user, &offset_bytes);
    if (status == DAO_OK) {
        CU_ASSERT_EQUAL(offset_bytes % alignment_bytes, 0);
        model_add(model, offset_bytes, size_bytes, user);
    } else {
        CU_ASSERT_EQUAL(status, DAO_ERR_LIMIT);
        CU_ASSERT_FALSE(model_has_room(model, size_bytes, alignment_bytes));
    }
}

static void random_alloc_at(model_t *model, uint64_t *seed)
{
    uint64_t count = 1 + random_size(seed) / UNIT;
    uint64_t first = dao_random_next(seed) % MODEL_UNITS;
    dao_status_t status = dao_range_alloc_at(range, first * UNIT, count * UNIT, first);
    bool is_free = model_is_free(model, first, count);
    CU_ASSERT_EQUAL(status, is_free ? DAO_OK : DAO_ERR_LIMIT);
    if (status == DAO_OK) {
        model_add(model, first * UNIT, count * UNIT, first);
    }
}

static void random_query(const model_t *model, uint64_t *seed)
{
    uint64_t offset_bytes = dao_random_next(seed) % (MODEL_UNITS * UNIT);
    dao_range_block_t block = {0};
    CU_ASSERT_EQUAL(dao_range_query(range, offset_bytes, &block), DAO_OK);
    CU_ASSERT_TRUE(block.offset_bytes <= offset_bytes &&
                   offset_bytes - block.offset_bytes < block.size_bytes);
    CU_ASSERT_EQUAL(block.is_free, !model->used[offset_bytes / UNIT]);
}

static bool add_used(const dao_range_block_t *block, void *user)
{
    *(uint64_t *)user += block->is_free ? 0 : block->size_bytes;
    return true;
}

static bool is_largest(const dao_range_block_t *block, void *user)
{
    uint64_t largest_bytes = *(uint64_t *)user;
    CU_ASSERT_TRUE(block->is_free && block->size_bytes <= largest_bytes);
    CU_ASSERT_TRUE(block->size_bytes + block->size_bytes / 16 + UNIT >= largest_bytes);
    return false;
}

static void check_against(const model_t *model)
{
    uint64_t walked_bytes = 0;
    dao_range_walk(range, add_used, &walked_bytes);
    CU_ASSERT_EQUAL(walked_bytes, model->used_bytes);
    CU_ASSERT_EQUAL(dao_range_used(range), model->used_bytes);
    CU_ASSERT_TRUE_FATAL(dao_range_is_valid(range));
    uint64_t largest_bytes = model_largest_hole(model);
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), largest_bytes);
    dao_range_walk_holes(range, is_largest, &largest_bytes);
}

static void random_operations_agree_with_the_model(void)
{
    uint64_t seed = dao_test_seed("range", 1);
    static model_t all;
    model_t *model = &all;
    all = (model_t){0};
    dao_range_destroy(range);
    CU_ASSERT_EQUAL_FATAL(create(MODEL_UNITS * UNIT, &range), DAO_OK);
    for (size_t i = 0; i < 12000; i++) {
        uint64_t dice = dao_random_next(&seed) % 16;
        bool grows = i / 1500 % 2 == 0; /* fills up and drains in turn */
        if (model->count < MODEL_BLOCKS && dice < (grows ? 9u : 5u)) {
            random_alloc(model, &seed);
        } else if (model->count < MODEL_BLOCKS && dice == 9) {
            random_alloc_at(model, &seed);
        } else if (dice == 10) {
            random_query(model, &seed);
        } else if (model->count > 0) {
            size_t victim = dao_random_next(&seed) % model->count;
            dao_range_block_t block = {0};
            CU_ASSERT_EQUAL(dao_range_free(range, model->blocks[victim].offset_bytes, NULL, &block), DAO_OK);
            CU_ASSERT_EQUAL(block.user, model->blocks[victim].user);
            CU_ASSERT_EQUAL(block.size_bytes, model->blocks[victim].size_bytes);
            model_remove(model, victim);
        }
        check_against(model);
    }
    while (model->count > 0) {
        give(model->blocks[0].offset_bytes);
        model_remove(model, 0);
    }
    CU_ASSERT_EQUAL(dao_range_largest_hole(range), MODEL_UNITS * UNIT);
}

static CU_TestInfo tests[] = {
    {"an empty range is one hole", an_empty_range_is_one_hole},
    {"sizes are rounded to the granule", sizes_are_rounded_to_the_granule},
    {"neighbours merge at once in any order", neighbours_merge_at_once_in_any_order},
    {"the lowest of the fitting holes is taken", the_lowest_of_the_fitting_holes_is_taken},
    {"a tight request gets the hole of the least cost", a_tight_request_gets_the_hole_of_the_least_cost},
    {"a hole that fits is found", a_hole_that_fits_is_found},
    {"a bin is searched so far and no further", a_bin_is_searched_so_far_and_no_further},
    {"any power of two is an alignment", any_power_of_two_is_an_alignment},
    {"an exact place is taken or refused", an_exact_place_is_taken_or_refused},
    {"bad frees are told apart", bad_frees_are_told_apart},
    {"a block remembers its number", a_block_remembers_its_number},
    {"the largest range works", the_largest_range_works},
#if defined(DAO_FAULTS)
    {"a lack of memory changes nothing", a_lack_of_memory_changes_nothing},
#endif
    {"random operations agree with the model", random_operations_agree_with_the_model},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"range", plain_create, range_1m_destroy, NULL, NULL, tests},
                             {"range, indexed", indexed_create, range_1m_destroy, NULL, NULL, tests},
                             {"range, best fit", best_fit_create, range_1m_destroy, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
