/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/models/plans.h"

#include "base/numbers/random.h"

#include <string.h>

#define TIME_MAX       12u
#define CLOCK_STEP_MAX 3u

static uint64_t below(uint64_t *random, uint64_t count)
{
    return dao_random_next(random) % count;
}

static uint64_t lesser(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

/* ---- random problems ---- */

static void make_life(dao_test_plan_t *plan, size_t index, uint64_t *random)
{
    dao_plan_buffer_t *buffer = &plan->buffers[index];
    uint64_t period = plan->problem.period;
    buffer->begin_time = below(random, period > 0 ? period : TIME_MAX);
    buffer->end_time = buffer->begin_time + 1 + below(random, period > 0 ? period : TIME_MAX / 2);
}

/* Two gaps in a life that is long enough: apart from each other, each of all bytes or of some. */
static void make_gaps(dao_test_plan_t *plan, size_t index, uint64_t *random)
{
    const dao_plan_buffer_t *buffer = &plan->buffers[index];
    uint64_t time = buffer->begin_time + below(random, 2);
    for (uint32_t i = 0; i < 2 && time + 1 < buffer->end_time; i++) {
        dao_plan_gap_t gap = {.buffer = index, .begin_time = time};
        gap.end_time = time + 1 + below(random, buffer->end_time - time - 1);
        if (buffer->size_bytes > 1 && below(random, 2) == 0) {
            gap.low_byte = below(random, buffer->size_bytes);
            gap.high_byte = gap.low_byte + 1 + below(random, buffer->size_bytes - gap.low_byte);
        }
        plan->gaps[plan->problem.gap_count++] = gap;
        time = gap.end_time + below(random, 2);
    }
}

/* Threads go on by themselves and hear of each other now and then; each buffer lives between two moments of
   threads. */
static void make_clocks(dao_test_plan_t *plan, uint64_t *random)
{
    uint32_t width = plan->problem.clock_count;
    uint32_t clocks[DAO_TEST_PLAN_CLOCKS_MAX][DAO_TEST_PLAN_CLOCKS_MAX] = {{0}};
    for (size_t i = 0; i < plan->problem.buffer_count; i++) {
        uint32_t *own = clocks[below(random, width)];
        const uint32_t *heard = clocks[below(random, width)];
        memcpy(plan->begin_clocks + i * width, own, width * sizeof(*own));
        for (uint32_t k = 0; k < width; k++) {
            own[k] = own[k] > heard[k] || below(random, 2) == 0 ? own[k] : heard[k];
        }
        own[(size_t)(own - clocks[0]) / DAO_TEST_PLAN_CLOCKS_MAX] +=
            1 + (uint32_t)below(random, CLOCK_STEP_MAX);
        memcpy(plan->end_clocks + i * width, own, width * sizeof(*own));
    }
}

static void make_place(dao_test_plan_t *plan, size_t index, uint32_t features, uint64_t *random)
{
    dao_plan_buffer_t *buffer = &plan->buffers[index];
    buffer->pool = DAO_PLAN_ANY_POOL;
    if ((features & DAO_TEST_PLAN_POOLS) != 0 && below(random, 3) == 0) {
        buffer->pool = (uint32_t)below(random, plan->problem.pool_count);
    }
    if ((features & DAO_TEST_PLAN_ALIGNED) != 0 && below(random, 2) == 0) {
        buffer->alignment_bytes = 1u << below(random, 3);
    }
    buffer->fixed_offset = DAO_PLAN_NOWHERE;
    if ((features & DAO_TEST_PLAN_FIXED) != 0 && below(random, 4) == 0) {
        buffer->fixed_offset = 4 * below(random, 3); /* of every alignment that there is here */
        uint32_t pool = buffer->pool == DAO_PLAN_ANY_POOL ? 0 : buffer->pool;
        uint64_t capacity_bytes = plan->pools[pool].capacity_bytes;
        bool fits = capacity_bytes == 0 || buffer->fixed_offset + buffer->size_bytes <= capacity_bytes;
        buffer->fixed_offset = fits ? buffer->fixed_offset : DAO_PLAN_NOWHERE;
    }
}

static void bind(dao_test_plan_t *plan)
{
    plan->problem.buffers = plan->buffers;
    plan->problem.gaps = plan->gaps;
    plan->problem.pools = plan->pools;
    plan->problem.begin_clocks = plan->begin_clocks;
    plan->problem.end_clocks = plan->end_clocks;
}

void dao_test_plan_make(dao_test_plan_t *plan, uint32_t features, size_t buffer_count, uint64_t size_max,
                        uint64_t *random)
{
    memset(plan, 0, sizeof(*plan));
    bind(plan);
    dao_plan_problem_t *problem = &plan->problem;
    problem->buffer_count = buffer_count;
    if ((features & DAO_TEST_PLAN_POOLS) != 0) {
        problem->pool_count = 1 + (uint32_t)below(random, DAO_TEST_PLAN_POOLS_MAX);
        for (uint32_t i = 0; i < problem->pool_count; i++) {
            plan->pools[i].capacity_bytes = below(random, 4) == 0 ? 0 : 1 + below(random, 3 * size_max);
        }
    }
    if ((features & DAO_TEST_PLAN_ALIGNED) != 0 && below(random, 2) == 0) {
        problem->alignment_bytes = 1u << below(random, 3);
    }
    if ((features & DAO_TEST_PLAN_CLOCKS) != 0) {
        problem->clock_count = 1 + (uint32_t)below(random, DAO_TEST_PLAN_CLOCKS_MAX);
        make_clocks(plan, random);
        features &= ~(uint32_t)(DAO_TEST_PLAN_GAPS | DAO_TEST_PLAN_CYCLIC | DAO_TEST_PLAN_CLOSED |
                                DAO_TEST_PLAN_MARGIN);
    }
    problem->period = (features & DAO_TEST_PLAN_CYCLIC) != 0 ? 2 + below(random, TIME_MAX) : 0;
    problem->is_closed = (features & DAO_TEST_PLAN_CLOSED) != 0;
    problem->margin = (features & DAO_TEST_PLAN_MARGIN) != 0 ? below(random, 3) : 0;
    for (size_t i = 0; i < buffer_count; i++) {
        plan->buffers[i].size_bytes = 1 + below(random, size_max);
        make_life(plan, i, random);
        make_place(plan, i, features, random);
        if ((features & DAO_TEST_PLAN_GAPS) != 0) {
            make_gaps(plan, i, random);
        }
    }
}

void dao_test_plan_make_hard(dao_test_plan_t *plan, uint64_t seed)
{
    dao_test_plan_make(plan, 0, DAO_TEST_PLAN_BUFFERS_MAX, 50, &seed);
    for (size_t i = 0; i < DAO_TEST_PLAN_BUFFERS_MAX; i++) {
        plan->buffers[i].begin_time = dao_random_next(&seed) % 100;
        plan->buffers[i].end_time = plan->buffers[i].begin_time + 1 + dao_random_next(&seed) % 40;
    }
}

/* ---- who clashes ---- */

static uint64_t extra_of(const dao_plan_problem_t *problem)
{
    return problem->margin + (problem->is_closed ? 1 : 0);
}

/* How far a buffer's uses, each of which ends later than it says, reach into the life of the next step's. */
static uint64_t overrun_of(const dao_plan_problem_t *problem, size_t buffer)
{
    const dao_plan_buffer_t *life = &problem->buffers[buffer];
    uint64_t length = life->end_time + extra_of(problem) - life->begin_time;
    return problem->period > 0 && length > problem->period ? length - problem->period : 0;
}

/* Returns true if a gap frees a byte at a time that is counted on over the period. */
static bool is_in_gap(const dao_plan_problem_t *problem, size_t buffer, uint64_t byte, uint64_t time)
{
    const dao_plan_buffer_t *life = &problem->buffers[buffer];
    for (size_t i = 0; i < problem->gap_count; i++) {
        const dao_plan_gap_t *gap = &problem->gaps[i];
        bool is_first = gap->begin_time == life->begin_time;
        bool is_last = gap->end_time == life->end_time;
        uint64_t delay = is_first ? overrun_of(problem, buffer) : extra_of(problem);
        uint64_t begin = gap->begin_time + (is_first && is_last ? 0 : delay);
        uint64_t end = is_last ? UINT64_MAX : gap->end_time;
        bool is_its_byte = gap->high_byte == 0 || (byte >= gap->low_byte && byte < gap->high_byte);
        if (gap->buffer == buffer && is_its_byte && time >= begin && time < end) {
            return true;
        }
    }
    return false;
}

/* Returns true if a buffer uses one of its bytes at a time. */
static bool is_used(const dao_plan_problem_t *problem, size_t buffer, uint64_t byte, uint64_t time)
{
    const dao_plan_buffer_t *life = &problem->buffers[buffer];
    uint64_t end = life->end_time + extra_of(problem) - overrun_of(problem, buffer);
    uint64_t step = problem->period > 0 ? problem->period : end + 1;
    for (; time < end; time += step) { /* this step's time, and the next one's, where its end may lie */
        if (time >= life->begin_time && !is_in_gap(problem, buffer, byte, time)) {
            return true;
        }
    }
    return false;
}

static bool is_before(const uint32_t *end_clock, const uint32_t *begin_clock, uint32_t count)
{
    bool is = true;
    for (uint32_t i = 0; i < count; i++) {
        is = is && end_clock[i] <= begin_clock[i];
    }
    return is;
}

static bool share_time(const dao_plan_problem_t *problem, size_t left, uint64_t left_byte, size_t right,
                       uint64_t right_byte)
{
    uint32_t width = problem->clock_count;
    if (width > 0) {
        const uint32_t *begins = problem->begin_clocks, *ends = problem->end_clocks;
        return !is_before(ends + left * width, begins + right * width, width) &&
               !is_before(ends + right * width, begins + left * width, width);
    }
    uint64_t time_count = problem->period;
    if (time_count == 0) {
        uint64_t left_end = problem->buffers[left].end_time, right_end = problem->buffers[right].end_time;
        time_count = (left_end > right_end ? left_end : right_end) + extra_of(problem);
    }
    for (uint64_t time = 0; time < time_count; time++) {
        if (is_used(problem, left, left_byte, time) && is_used(problem, right, right_byte, time)) {
            return true;
        }
    }
    return false;
}

bool dao_test_plan_do_clash(const dao_plan_problem_t *problem, size_t left, uint64_t left_offset,
                            size_t right, uint64_t right_offset)
{
    uint64_t left_end = left_offset + problem->buffers[left].size_bytes;
    uint64_t right_end = right_offset + problem->buffers[right].size_bytes;
    uint64_t end = lesser(left_end, right_end);
    for (uint64_t byte = left_offset > right_offset ? left_offset : right_offset; byte < end; byte++) {
        if (share_time(problem, left, byte - left_offset, right, byte - right_offset)) {
            return true;
        }
    }
    return false;
}

/* ---- whether a plan is one ---- */

static uint32_t pool_count_of(const dao_plan_problem_t *problem)
{
    return problem->pool_count == 0 ? 1 : problem->pool_count;
}

static uint32_t alignment_of(const dao_plan_problem_t *problem, size_t buffer)
{
    uint32_t alignment_bytes = problem->buffers[buffer].alignment_bytes;
    alignment_bytes = alignment_bytes == 0 ? problem->alignment_bytes : alignment_bytes;
    return alignment_bytes == 0 ? 1 : alignment_bytes;
}

static bool may_lie(const dao_plan_problem_t *problem, size_t index, uint64_t offset, uint32_t pool)
{
    const dao_plan_buffer_t *buffer = &problem->buffers[index];
    bool is_fixed = buffer->fixed_offset != DAO_PLAN_NOWHERE;
    uint32_t own_pool = is_fixed && buffer->pool == DAO_PLAN_ANY_POOL ? 0 : buffer->pool;
    uint64_t capacity_bytes =
        problem->pool_count == 0 || pool >= problem->pool_count ? 0 : problem->pools[pool].capacity_bytes;
    return pool < pool_count_of(problem) && (own_pool == DAO_PLAN_ANY_POOL || own_pool == pool) &&
           offset % alignment_of(problem, index) == 0 && (!is_fixed || offset == buffer->fixed_offset) &&
           (capacity_bytes == 0 || offset + buffer->size_bytes <= capacity_bytes);
}

bool dao_test_plan_is_valid(const dao_plan_problem_t *problem, const uint64_t *offsets, const uint32_t *pools)
{
    for (size_t i = 0; i < problem->buffer_count; i++) {
        uint32_t pool = pools == NULL ? 0 : pools[i];
        if (offsets[i] == DAO_PLAN_NOWHERE) {
            continue;
        }
        if (!may_lie(problem, i, offsets[i], pool)) {
            return false;
        }
        for (size_t k = 0; k < i; k++) {
            bool are_together = offsets[k] != DAO_PLAN_NOWHERE && (pools == NULL ? 0 : pools[k]) == pool;
            if (are_together && dao_test_plan_do_clash(problem, i, offsets[i], k, offsets[k])) {
                return false;
            }
        }
    }
    return true;
}

/* ---- whether there is a better plan ---- */

#define FEW_BUFFERS 7u
#define FEW_BYTES   8u

typedef struct trial {
    const dao_plan_problem_t *problem;
    bool clashes[FEW_BUFFERS][FEW_BUFFERS]
                [2 * FEW_BYTES]; /* of i and k, with i so much higher than k, plus FEW_BYTES */
    uint64_t offsets[FEW_BUFFERS];
    uint32_t pools[FEW_BUFFERS];
    uint64_t pool_peaks[DAO_TEST_PLAN_POOLS_MAX];
    uint64_t unplaced_bytes;
    uint64_t beaten_unplaced_bytes;
    uint64_t beaten_peak_bytes;
} trial_t;

static bool is_better(const trial_t *trial)
{
    uint64_t peak_bytes = 0;
    for (uint32_t i = 0; i < pool_count_of(trial->problem); i++) {
        peak_bytes += trial->pool_peaks[i];
    }
    return trial->unplaced_bytes < trial->beaten_unplaced_bytes ||
           (trial->unplaced_bytes == trial->beaten_unplaced_bytes && peak_bytes < trial->beaten_peak_bytes);
}

static bool clashes_with_placed(const trial_t *trial, size_t index)
{
    for (size_t i = 0; i < index; i++) {
        uint64_t above =
            trial->offsets[index] - trial->offsets[i] + FEW_BYTES; /* wraps where it is far below */
        if (trial->offsets[i] != DAO_PLAN_NOWHERE && trial->pools[i] == trial->pools[index] &&
            above < 2 * FEW_BYTES && trial->clashes[index][i][above]) {
            return true;
        }
    }
    return false;
}

static bool try_all(trial_t *trial, size_t index);

/* Tries one place of a buffer and all of those after it. */
static bool try_place(trial_t *trial, size_t index, uint64_t offset, uint32_t pool)
{
    uint64_t end = offset + trial->problem->buffers[index].size_bytes;
    uint64_t peak_before = trial->pool_peaks[pool];
    trial->offsets[index] = offset;
    trial->pools[index] = pool;
    trial->pool_peaks[pool] = end > peak_before ? end : peak_before;
    bool is_found = is_better(trial) && may_lie(trial->problem, index, offset, pool) &&
                    !clashes_with_placed(trial, index) && try_all(trial, index + 1);
    trial->pool_peaks[pool] = peak_before;
    return is_found;
}

static bool try_all(trial_t *trial, size_t index)
{
    const dao_plan_problem_t *problem = trial->problem;
    if (index == problem->buffer_count) {
        return true;
    }
    const dao_plan_buffer_t *buffer = &problem->buffers[index];
    uint64_t highest = buffer->fixed_offset;
    if (highest == DAO_PLAN_NOWHERE) { /* all of the others below it */
        highest = 0;
        for (size_t i = 0; i < problem->buffer_count; i++) {
            uint64_t fixed_offset = problem->buffers[i].fixed_offset;
            highest += problem->buffers[i].size_bytes + alignment_of(problem, i);
            highest += fixed_offset == DAO_PLAN_NOWHERE ? 0 : fixed_offset;
        }
    }
    for (uint32_t pool = 0; pool < pool_count_of(problem); pool++) {
        for (uint64_t offset = 0; offset <= highest; offset++) {
            if (try_place(trial, index, offset, pool)) {
                return true;
            }
        }
    }
    bool is_found = false;
    if (buffer->fixed_offset == DAO_PLAN_NOWHERE) {
        trial->offsets[index] = DAO_PLAN_NOWHERE;
        trial->unplaced_bytes += buffer->size_bytes;
        is_found = is_better(trial) && try_all(trial, index + 1);
        trial->unplaced_bytes -= buffer->size_bytes;
    }
    return is_found;
}

bool dao_test_plan_is_beaten(const dao_plan_problem_t *problem, uint64_t unplaced_bytes, uint64_t peak_bytes)
{
    trial_t trial = {
        .problem = problem, .beaten_unplaced_bytes = unplaced_bytes, .beaten_peak_bytes = peak_bytes};
    CU_ASSERT_FATAL(problem->buffer_count <= FEW_BUFFERS);
    for (size_t i = 0; i < problem->buffer_count; i++) {
        CU_ASSERT_FATAL(problem->buffers[i].size_bytes <= FEW_BYTES);
        for (size_t k = 0; k < i; k++) {
            for (uint64_t above = 0; above < 2 * FEW_BYTES; above++) {
                trial.clashes[i][k][above] = dao_test_plan_do_clash(problem, i, above, k, FEW_BYTES);
            }
        }
    }
    return is_better(&trial) && try_all(&trial, 0);
}
