/* SPDX-License-Identifier: Apache-2.0 */
/* Capuchin's order: a step worked out by hand; random steps against a model that looks at every nanosecond
   and keeps nothing from one choice to the next; and plans, which read what they should and beat no bound. */
#include "planning/recompute/play/recompute_player.h"
#include "planning/recompute/published/capuchin.h"
#include "planning/recompute/recompute_plan.h"
#include "planning/swap/step/swap_tier.h"
#include "tests/support/models/swap_steps.h"
#include "tests/support/suite.h"

#include <string.h>

enum { ACCESS_MAX = SWAP_STEP_KERNEL_MAX * (SWAP_STEP_USE_MAX + 1), TIME_MAX = 4096 };

#define BILLION UINT64_C(1000000000)

static swap_step_box_t box;
static dao_swap_step_t step;
static dao_recompute_player_t player;
static dao_capuchin_way_t ways[ACCESS_MAX];

static void open_step(void)
{
    CU_ASSERT_EQUAL_FATAL(dao_swap_step_init(&step, &box.problem), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_recompute_player_init(&player, &step), DAO_OK);
    CU_ASSERT_FATAL(step.access_count <= ACCESS_MAX);
}

static void close_step(void)
{
    dao_recompute_player_finish(&player);
    dao_swap_step_finish(&step);
}

static void let_repeat(void)
{
    for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
        box.kernels[k].is_repeatable = true;
    }
}

static uint64_t peak_of(void)
{
    dao_swap_bound_t bound = {0};
    box.problem.capacity_bytes = DAO_SWAP_SIZE_MAX;
    CU_ASSERT_EQUAL_FATAL(dao_swap_find_bound(&box.problem, &bound), DAO_OK);
    return bound.peak_bytes;
}

/* ---- by hand ---- */

enum { X, Y, A, B, C, TENSORS };

/*  kernel   0        1     2     3     4     5     6     7
    from     0 ns     30    50    60    70    80    90    100 to 110
    X, Y     W--------------------------------------------R
    A                 W-----R-----------------------R
    B                       W-----R-----------R
    C                             W-----R

    Each has 10 bytes, Y only if asked for. */
static void make_step(bool has_y, uint64_t bytes_a_second, uint64_t capacity_bytes)
{
    static const dao_swap_use_t uses[8][SWAP_STEP_USE_MAX] = {{{X, DAO_ACCESS_WRITE}, {Y, DAO_ACCESS_WRITE}},
                                                              {{A, DAO_ACCESS_WRITE}},
                                                              {{A, DAO_ACCESS_READ}, {B, DAO_ACCESS_WRITE}},
                                                              {{B, DAO_ACCESS_READ}, {C, DAO_ACCESS_WRITE}},
                                                              {{C, DAO_ACCESS_READ}},
                                                              {{B, DAO_ACCESS_READ}},
                                                              {{A, DAO_ACCESS_READ}},
                                                              {{X, DAO_ACCESS_READ}, {Y, DAO_ACCESS_READ}}};
    static const uint32_t use_counts[8] = {2, 1, 2, 2, 1, 1, 1, 2};
    static const uint64_t times_ns[8] = {30, 20, 10, 10, 10, 10, 10, 10};
    memset(&box, 0, sizeof(box));
    for (uint32_t k = 0; k < 8; k++) {
        memcpy(box.uses[k], uses[k], sizeof(uses[k]));
        box.kernels[k] = (dao_swap_kernel_t){.time_ns = times_ns[k],
                                             .uses = box.uses[k],
                                             .use_count = use_counts[k] - (k % 7 == 0 && !has_y ? 1 : 0)};
    }
    for (uint32_t t = 0; t < TENSORS; t++) {
        box.tensors[t].size_bytes = 10;
    }
    box.problem = (dao_swap_problem_t){.tensors = box.tensors,
                                       .tensor_count = TENSORS,
                                       .kernels = box.kernels,
                                       .kernel_count = 8,
                                       .capacity_bytes = capacity_bytes,
                                       .host = {.in_bytes_per_second = bytes_a_second},
                                       .alignment_bytes = 1};
    let_repeat();
}

/* Chooses for a step and asserts what the longest period of each tensor does. */
static void expect(dao_capuchin_way_t x, dao_capuchin_way_t y, dao_capuchin_way_t a, dao_capuchin_way_t b)
{
    const dao_capuchin_way_t expected[TENSORS] = {x, y, a, b, DAO_CAPUCHIN_STAYS};
    open_step();
    CU_ASSERT_EQUAL_FATAL(dao_capuchin_choose(&player.contents, player.play, ways), DAO_OK);
    for (uint32_t i = 0; i < step.access_count; i++) {
        bool is_long = step.accesses[i].inactive_is_live && step.accesses[i].inactive_length > 1;
        CU_ASSERT_EQUAL(ways[i], is_long ? expected[step.accesses[i].tensor] : DAO_CAPUCHIN_STAYS);
    }
    close_step();
}

#define STAYS  DAO_CAPUCHIN_STAYS
#define COPIED DAO_CAPUCHIN_COPIED
#define AGAIN  DAO_CAPUCHIN_AGAIN

/* 40 bytes are alive in kernels 3 and 4. X is free for 70 - 2 x 10 ns, A for 30 - 2 x 10, B for -10. */
static void what_is_free_the_longest_is_copied_first(void)
{
    make_step(false, BILLION, 40);
    expect(STAYS, STAYS, STAYS, STAYS);
    make_step(false, BILLION, 30); /* X: out 30 to 40, in 90 to 100, away in kernels 2 to 5 */
    expect(COPIED, STAYS, STAYS, STAYS);
    make_step(false, BILLION,
              20); /* A: out 60 to 70, in 80 to 90, away in kernel 4; B would be copied at once */
    expect(COPIED, STAYS, COPIED, STAYS);
}

static bool stop(void *user)
{
    (*(uint32_t *)user)++;
    return true;
}

static void its_order_can_be_cancelled(void)
{
    uint32_t asked = 0;
    dao_swap_cancel_t cancel = {.is_cancelled = stop, .user = &asked};
    make_step(false, BILLION, 20);
    open_step();
    step.cancel = &cancel;
    CU_ASSERT_EQUAL(dao_capuchin_choose(&player.contents, player.play, ways), DAO_ERR_STOPPED);
    CU_ASSERT_EQUAL(asked, 1);
    step.cancel = NULL;
    close_step();
}

/* A copy takes 100 ns, so that none is hidden. B saves 10 bytes in the 10 ns of kernel 2, A in the 20 of
   kernel 1, X in 30. B goes first, and memory still lacks in kernel 3. B is made of A: if that goes, too,
   kernel 1 has to run for both, 10 bytes in 40 ns. So X goes. */
static void savings_are_counted_again_behind_each_choice(void)
{
    make_step(false, BILLION / 10, 30);
    expect(AGAIN, STAYS, STAYS, AGAIN);
    box.kernels[0].is_repeatable = false; /* then there is A alone: kernel 1 runs twice */
    expect(STAYS, STAYS, AGAIN, AGAIN);
    box.kernels[1].is_repeatable = false; /* A cannot be made: B is of no use alone, but goes first */
    expect(STAYS, STAYS, STAYS, AGAIN);
}

/* X and Y take 20 ns each way, 30 to 100 are free: X goes out until 50 and comes from 80, which leaves Y 50
   to 70 and 60 to 80. So memory lacks, and B is computed again; then Y saves more than A, 10 bytes in 30 ns
   rather than in 2 x 20. But kernel 7 waits for its copy for 20 ns only, so it is copied all the same. */
static void a_link_makes_one_copy_at_a_time(void)
{
    make_step(true, BILLION / 2, 40);
    expect(COPIED, STAYS, STAYS, STAYS);
    make_step(true, BILLION / 2, 30);
    expect(COPIED, COPIED, STAYS, AGAIN);
    box.problem.host =
        (dao_swap_tier_t){.in_bytes_per_second = BILLION / 3 + 1, .out_bytes_per_second = BILLION};
    expect(COPIED, AGAIN, STAYS, AGAIN); /* X: out until 40, in from 70, Y out until 50; no copy is quicker */
    make_step(true, BILLION, 30); /* 10 ns each way: out 30 to 40 and 40 to 50, in 90 to 100 and 80 to 90 */
    expect(COPIED, COPIED, STAYS, STAYS);
}

/* ---- against a model ---- */

typedef struct model {
    dao_capuchin_way_t ways[ACCESS_MAX];
    bool is_away[ACCESS_MAX][SWAP_STEP_KERNEL_MAX]; /* what an access leaves is not there in a kernel */
    bool is_busy[2][TIME_MAX];                      /* in, out; of each ns of the step */
    bool is_rejected[ACCESS_MAX];
    bool is_made[SWAP_STEP_KERNEL_MAX];
} model_t;

static model_t model;

static uint64_t step_ns_of(void)
{
    return step.time_before[step.kernel_count];
}

static uint64_t at(uint32_t kernel) /* begin of a kernel of this step or the next one */
{
    return step.time_before[kernel % step.kernel_count] + kernel / step.kernel_count * step_ns_of();
}

/* Kernels that run inside the period behind an access. */
static bool is_inside(uint32_t access, uint32_t kernel)
{
    const dao_swap_access_t *one = &step.accesses[access];
    uint32_t behind = (kernel + step.kernel_count - one->kernel) % step.kernel_count;
    return one->inactive_is_live && behind > 0 && behind < one->inactive_length;
}

static bool model_lacks(uint32_t kernel)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < step.access_count; i++) {
        bool is_there = step.accesses[i].kernel == kernel || is_inside(i, kernel);
        bytes += is_there && !model.is_away[i][kernel] ? step.size_bytes[step.accesses[i].tensor] : 0;
    }
    return bytes > box.problem.capacity_bytes;
}

static bool model_lacks_any(void)
{
    bool lacks = false;
    for (uint32_t k = 0; k < step.kernel_count; k++) {
        lacks = lacks || model_lacks(k);
    }
    return lacks;
}

static uint64_t model_copy_ns(uint32_t access, bool is_in)
{
    uint64_t ns = dao_swap_copy_ns(&box.problem.host, is_in, step.size_bytes[step.accesses[access].tensor]);
    return ns > 0 ? ns : 1;
}

static int64_t model_free_ns(uint32_t access)
{
    const dao_swap_access_t *one = &step.accesses[access];
    return (int64_t)(at(one->kernel + one->inactive_length) - at(one->kernel + 1)) -
           (int64_t)(model_copy_ns(access, false) + model_copy_ns(access, true));
}

static bool *lane(int is_out)
{
    return model.is_busy[box.problem.host.duplex == DAO_SWAP_DUPLEX_HALF ? 0 : is_out];
}

static bool is_lane_free(int is_out, uint64_t begin, uint64_t length)
{
    bool is_free = true;
    for (uint64_t ns = begin; ns < begin + length; ns++) {
        is_free = is_free && !lane(is_out)[ns % step_ns_of()];
    }
    return is_free;
}

static void take_lane(int is_out, uint64_t begin, uint64_t length)
{
    for (uint64_t ns = begin; ns < begin + length; ns++) {
        lane(is_out)[ns % step_ns_of()] = true;
    }
}

static void model_copy(uint32_t access)
{
    const dao_swap_access_t *one = &step.accesses[access];
    uint64_t out_ns = model_copy_ns(access, false), in_ns = model_copy_ns(access, true);
    uint64_t begin = at(one->kernel + 1), end = at(one->kernel + one->inactive_length);
    while (begin + out_ns <= end && !is_lane_free(1, begin, out_ns)) {
        begin++;
    }
    while (end > begin + out_ns && end - begin - out_ns >= in_ns && !is_lane_free(0, end - in_ns, in_ns)) {
        end--;
    }
    if (begin + out_ns + in_ns > end) {
        return;
    }
    bool is_useful = false, is_away[SWAP_STEP_KERNEL_MAX] = {false};
    for (uint32_t k = one->kernel + 1; k < one->kernel + one->inactive_length; k++) {
        is_away[k % step.kernel_count] = at(k) >= begin + out_ns && at(k + 1) <= end - in_ns;
        is_useful = is_useful || (is_away[k % step.kernel_count] && model_lacks(k % step.kernel_count));
    }
    if (is_useful) {
        model.ways[access] = COPIED;
        memcpy(model.is_away[access], is_away, sizeof(is_away));
        take_lane(1, begin, out_ns);
        take_lane(0, end - in_ns, in_ns);
    }
}

static void model_copies(void)
{
    while (model_lacks_any()) {
        uint32_t best = DAO_SWAP_NONE;
        for (uint32_t i = 0; i < step.access_count; i++) {
            bool may_go = step.accesses[i].inactive_is_live && !model.is_rejected[i] && model_free_ns(i) >= 0;
            best = may_go && (best == DAO_SWAP_NONE || model_free_ns(i) > model_free_ns(best)) ? i : best;
        }
        if (best == DAO_SWAP_NONE) {
            return;
        }
        model.is_rejected[best] = true; /* or chosen: it is not looked at again */
        model_copy(best);
    }
}

/* Returns the period in which a content is kept for a run again before a kernel; DAO_SWAP_NONE: it has to be
   made. */
static uint32_t model_kept(uint32_t content, uint32_t until)
{
    uint32_t kept = DAO_SWAP_NONE;
    for (uint32_t i = content; i < step.access_count; i++) {
        const dao_swap_access_t *one = &step.accesses[i];
        bool is_same = one->tensor == step.accesses[content].tensor && one->writer == content;
        if (is_same && one->inactive_is_live && one->kernel < until && one->next > i &&
            step.accesses[one->next].kernel >= until) {
            kept = i;
        }
    }
    return kept != DAO_SWAP_NONE && model.ways[kept] != AGAIN ? kept : DAO_SWAP_NONE;
}

/* Returns the time to make a content, and whether a period's content has to be there for it. */
static uint64_t model_making_ns(uint32_t content, uint32_t until, uint32_t asked, bool *out_needs)
{
    uint32_t kernel = step.accesses[content].kernel;
    if (model.is_made[kernel]) {
        return 0;
    }
    model.is_made[kernel] = true;
    uint64_t sum_ns = step.problem->kernels[kernel].time_ns;
    for (uint32_t i = step.kernel_access[kernel]; i < step.kernel_access[kernel + 1]; i++) {
        uint32_t found = dao_recompute_found(&player.contents, i);
        if (!step.accesses[i].reads || dao_recompute_lives_on(&step, step.accesses[i].tensor)) {
            continue;
        }
        uint32_t kept = step.accesses[i].writes ? DAO_SWAP_NONE : model_kept(found, until);
        *out_needs = *out_needs || (kept != DAO_SWAP_NONE && kept == asked);
        sum_ns += kept == DAO_SWAP_NONE ? model_making_ns(found, until, asked, out_needs) : 0;
    }
    return sum_ns;
}

static uint64_t model_price_ns(uint32_t access, uint32_t asked, bool *out_needs)
{
    memset(model.is_made, 0, sizeof(model.is_made));
    return model_making_ns(step.accesses[access].writer, step.accesses[step.accesses[access].next].kernel,
                           asked, out_needs);
}

static uint64_t model_total_ns(uint32_t access)
{
    bool ignored = false;
    uint64_t times = 1;
    for (uint32_t i = 0; i < step.access_count; i++) {
        bool needs = false;
        if (model.ways[i] == AGAIN) {
            (void)model_price_ns(i, access, &needs);
        }
        times += needs ? 1 : 0;
    }
    return times * model_price_ns(access, DAO_SWAP_NONE, &ignored);
}

static double model_saving(uint32_t access)
{
    uint64_t ns = model_total_ns(access);
    double bytes = (double)step.size_bytes[step.accesses[access].tensor];
    return ns > 0 ? bytes / (double)ns : 1e300;
}

static void model_again(void)
{
    while (model_lacks_any()) {
        uint32_t best = DAO_SWAP_NONE;
        for (uint32_t i = 0; i < step.access_count; i++) {
            bool is_useful = false;
            for (uint32_t k = 0; k < step.kernel_count; k++) {
                is_useful = is_useful || (is_inside(i, k) && model_lacks(k));
            }
            if (is_useful && model.ways[i] == STAYS && dao_recompute_play_may_give_up(player.play, i) &&
                (best == DAO_SWAP_NONE || model_saving(i) > model_saving(best))) {
                best = i;
            }
        }
        if (best == DAO_SWAP_NONE) {
            return;
        }
        model.ways[best] = model_copy_ns(best, true) < model_total_ns(best) ? COPIED : AGAIN;
        for (uint32_t k = 0; k < step.kernel_count; k++) {
            model.is_away[best][k] = is_inside(best, k);
        }
    }
}

static void it_chooses_as_a_slow_model_does(void)
{
    uint64_t random = dao_test_seed("slow model", 20261129);
    const swap_step_range_t range = {
        .tensor_max = 12, .kernel_max = 24, .size_max = 60, .time_max = 40, .workspace_max = 20};
    uint32_t copied_count = 0, again_count = 0, half_count = 0;
    for (int round = 0; round < 600; round++) {
        swap_step_random(&box, &range, &random);
        let_repeat();
        uint64_t fastest = round % 2 == 0 ? 60 : 2; /* so slow that little is hidden */
        box.problem.host =
            (dao_swap_tier_t){.in_bytes_per_second = BILLION / 10 * dao_random_between(&random, 1, fastest),
                              .out_bytes_per_second = BILLION / 10 * dao_random_between(&random, 1, fastest),
                              .latency_ns = dao_random_below(&random, 4),
                              .duplex = round % 3 == 0 ? DAO_SWAP_DUPLEX_HALF : DAO_SWAP_DUPLEX_FULL};
        box.problem.capacity_bytes = peak_of() * dao_random_between(&random, 3, 9) / 10;
        open_step();
        memset(&model, 0, sizeof(model));
        model_copies();
        model_again();
        CU_ASSERT_EQUAL_FATAL(dao_capuchin_choose(&player.contents, player.play, ways), DAO_OK);
        for (uint32_t i = 0; i < step.access_count; i++) {
            CU_ASSERT_EQUAL_FATAL(ways[i], model.ways[i]);
            copied_count += ways[i] == COPIED ? 1 : 0;
            half_count += ways[i] == COPIED && round % 3 == 0 ? 1 : 0;
            again_count += ways[i] == AGAIN ? 1 : 0;
        }
        close_step();
    }
    printf("    %u copied, %u of them in half duplex, %u again\n", copied_count, half_count, again_count);
    CU_ASSERT(copied_count > 400 && half_count > 100 && again_count > 100);
}

/* ---- plans ---- */

static void plans_read_what_they_should_and_beat_no_bound(void)
{
    uint64_t random = dao_test_seed("capuchin plans", 20261130);
    uint32_t again_count = 0, plan_count = 0;
    for (int round = 0; round < 60; round++) {
        swap_step_chain(&box, (uint32_t)dao_random_between(&random, 6, 40), 1, 1);
        uint32_t layers = box.problem.kernel_count / 2;
        for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
            box.kernels[k].time_ns = dao_random_between(&random, 1, 90);
            box.tensors[k % layers].size_bytes = dao_random_between(&random, 1, 60);
        }
        let_repeat();
        box.problem.host = (dao_swap_tier_t){.in_bytes_per_second = BILLION / 4, .latency_ns = 1};
        box.problem.capacity_bytes = peak_of() * dao_random_between(&random, 4, 10) / 10;
        dao_recompute_bound_t bound = {0};
        dao_recompute_plan_t *plan = NULL;
        if (dao_recompute_find_bound(&box.problem, &bound) != DAO_OK) {
            continue; /* too little for a kernel */
        }
        const dao_swap_plan_config_t config = {.addresses = DAO_SWAP_ADDRESSES_NONE};
        CU_ASSERT_EQUAL_FATAL(
            dao_recompute_plan_published(&box.problem, DAO_RECOMPUTE_CAPUCHIN, &config, &plan), DAO_OK);
        const dao_recompute_step_t *longer = dao_recompute_plan_step(plan);
        CU_ASSERT_EQUAL(dao_recompute_check(&box.problem, longer), DAO_OK);
        CU_ASSERT(dao_recompute_plan_schedule(plan)->step_ns >= bound.step_ns);
        CU_ASSERT(box.problem.capacity_bytes < peak_of() || longer->again_count == 0);
        again_count += longer->again_count;
        plan_count++;
        dao_recompute_plan_destroy(plan);
    }
    printf("    %u plans, %u runs again\n", plan_count, again_count);
    CU_ASSERT(plan_count > 30 && again_count > 100);
}

static void too_little_for_a_kernel_is_refused(void)
{
    dao_recompute_plan_t *plan = NULL;
    make_step(false, BILLION, 19);
    CU_ASSERT_EQUAL(dao_recompute_plan_published(&box.problem, DAO_RECOMPUTE_CAPUCHIN, NULL, &plan),
                    DAO_ERR_KERNEL_TOO_LARGE);
    CU_ASSERT_PTR_NULL(plan);
}

static CU_TestInfo tests[] = {
    {"what is free the longest is copied first", what_is_free_the_longest_is_copied_first},
    {"savings are counted again behind each choice", savings_are_counted_again_behind_each_choice},
    {"a link makes one copy at a time", a_link_makes_one_copy_at_a_time},
    {"it chooses as a slow model does", it_chooses_as_a_slow_model_does},
    {"plans read what they should and beat no bound", plans_read_what_they_should_and_beat_no_bound},
    {"its order can be cancelled", its_order_can_be_cancelled},
    {"too little for a kernel is refused", too_little_for_a_kernel_is_refused},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"capuchin", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
