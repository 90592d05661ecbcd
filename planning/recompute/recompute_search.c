/* SPDX-License-Identifier: Apache-2.0 */
/* Two searches, one behind the other; both are judged by the bound of swapping of the longer step, which is
   mostly close to what its plan takes and a hundred times cheaper.

   1. Rules: the step is played with parts of the capacity and prices of copies, then around the best of
   these.
   2. Sets: what is given up is chosen directly. Contents of the same size, made by kernels of the same time
      and read again after a like distance, are a group: the same tensor of each layer. A group goes, stays,
      or goes in a stretch of its layers, drawn at random, half of them among what is alive in the window that
      decides the bound; what does not make the bound longer is kept. It begins with the best of three: what
      the best rule gave up, the same with all that may be made of held inputs (recompute_play.c), and
      Capuchin's order.

   Where nothing may be copied the rule has to get through without, sets are tried beside the best rule, which
   makes the room that a set lacks, and the time of all runs is what counts. In the place of Capuchin's order
   are the contents that take the least time a byte, more and more of them. */
#include "planning/recompute/recompute_search.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/numbers/random.h"
#include "planning/recompute/published/recompute_published.h"
#include "planning/swap/bound/swap_bound.h"

#include <stdlib.h>
#include <string.h>

#define SEED UINT64_C(20260905)

/* Places where the windows of a bound may begin and end: a bound takes as long as their square. */
#define CUT_MAX 512u

#define PREFIX_COUNT 16u /* parts of the cheapest contents that are let go */
#define TIME_BITS    20u /* of a time a byte in ns, behind the point */
#define DRAW_MAX     8u  /* draws for one of the deciding window */

/* ---- choices ---- */

static int compare_choices(const void *a, const void *b)
{
    const dao_recompute_choice_t *left = a;
    const dao_recompute_choice_t *right = b;
    if (left->bound_ns != right->bound_ns) {
        return left->bound_ns < right->bound_ns ? -1 : 1;
    }
    return left->origin < right->origin ? -1 : left->origin > right->origin;
}

static dao_recompute_choice_t *kept_of(dao_recompute_search_t *search, dao_recompute_origin_t origin)
{
    uint32_t place = 0;
    while (search->kept[place].origin != origin) {
        place++;
    }
    return &search->kept[place];
}

/* Keeps the choice that was tried, if it is the best one of its origin. True if it is the best of all. */
static bool keep(dao_recompute_search_t *search)
{
    dao_recompute_choice_t *kept = kept_of(search, search->tried.origin);
    bool is_best = search->tried.bound_ns < search->kept[0].bound_ns;
    if (search->tried.bound_ns < kept->bound_ns) {
        kept->rule = search->tried.rule;
        kept->bound_ns = search->tried.bound_ns;
        kept->fingerprint = search->tried.fingerprint;
        memcpy(kept->is_given_up, search->tried.is_given_up, search->step->access_count * sizeof(bool));
        qsort(search->kept, DAO_RECOMPUTE_KEPT_MAX, sizeof(search->kept[0]), compare_choices);
    }
    return is_best;
}

static uint64_t fingerprint(const dao_recompute_draft_t *draft)
{
    uint64_t mixed = 0;
    for (uint32_t i = 0; i < draft->kernel_count; i++) {
        mixed = dao_random_mix(mixed + 2 * (uint64_t)draft->runs[i].kernel + draft->runs[i].is_again);
    }
    return mixed;
}

/* Returns the kernels of the step whose runs are in the deciding window of the longer step. */
static dao_recompute_window_t window_of(const dao_recompute_search_t *search, const dao_swap_bound_t *bound)
{
    const dao_recompute_run_t *runs = search->player.draft.runs;
    uint32_t last = bound->window_first_kernel + bound->window_kernel_count;
    if (bound->window_kernel_count == 0) {
        return search->tried_window; /* all of the step */
    }
    return (dao_recompute_window_t){runs[bound->window_first_kernel].kernel,
                                    runs[(last - 1) % search->player.draft.kernel_count].kernel};
}

/* Returns the bound of the longer step that was drafted; UINT64_MAX if there is none. */
static uint64_t bound_of(dao_recompute_search_t *search)
{
    uint64_t mixed = search->tried.fingerprint = fingerprint(&search->player.draft);
    uint64_t known_count = dao_smaller(search->seen_count, DAO_RECOMPUTE_SEEN_MAX);
    for (uint32_t i = 0; i < known_count; i++) {
        if (search->seen[i].fingerprint == mixed) {
            search->is_seen = true;
            search->tried_window = search->seen[i].window;
            return search->seen[i].bound_ns;
        }
    }
    dao_swap_problem_t longer = dao_recompute_draft_problem(&search->player.draft);
    dao_swap_bound_t bound;
    dao_status_t status = dao_swap_find_bound_cut(&longer, CUT_MAX, &bound);
    uint64_t bound_ns = status == DAO_OK ? bound.step_ns : UINT64_MAX;
    search->tried_window = status == DAO_OK ? window_of(search, &bound) : search->tried_window;
    search->seen[search->seen_count++ % DAO_RECOMPUTE_SEEN_MAX] =
        (dao_recompute_seen_t){mixed, bound_ns, search->tried_window};
    return bound_ns;
}

/* Returns the bound of the step that a choice makes; UINT64_MAX if there is none, or it is hopeless. */
static uint64_t weigh(dao_recompute_search_t *search)
{
    uint64_t compute_ns = search->step->time_before[search->step->kernel_count];
    search->tried_window = (dao_recompute_window_t){0, search->step->kernel_count};
    if (!dao_recompute_play_run(search->player.play, &search->tried.rule, search->tried.is_given_up) ||
        compute_ns + search->player.draft.again_ns >= kept_of(search, search->tried.origin)->bound_ns) {
        return UINT64_MAX;
    }
    return search->is_alone ? compute_ns + search->player.draft.again_ns : bound_of(search);
}

/* Returns true if the search is over. */
static bool is_over(const dao_recompute_search_t *search)
{
    return search->tries_left == 0 || search->kept[0].bound_ns <= search->least_ns ||
           dao_swap_is_cancelled(search->step->cancel);
}

/* Tries the choice `tried`. True if it is the best so far. */
static bool try_choice(dao_recompute_search_t *search)
{
    search->tried.bound_ns = UINT64_MAX;
    search->is_seen = false;
    if (is_over(search)) {
        return false;
    }
    search->tries_left--;
    if (search->on_try != NULL) {
        search->on_try(search->try_user, search->tries_left);
    }
    search->tried.bound_ns = weigh(search);
    return search->tried.bound_ns != UINT64_MAX && keep(search);
}

/* ---- rules ---- */

static bool try_rule(dao_recompute_search_t *search, const dao_recompute_rule_t *rule)
{
    search->tried.rule = *rule;
    search->tried.origin = DAO_RECOMPUTE_ORIGIN_RULE;
    memset(search->tried.is_given_up, 0, search->step->access_count * sizeof(bool));
    bool is_best = try_choice(search);
    search->tries_left += search->is_seen ? 1 : 0; /* rules often lead to the same runs: that takes no try */
    return is_best;
}

static uint64_t part_of(const dao_recompute_search_t *search, double part)
{
    return (uint64_t)(part * (double)search->step->problem->capacity_bytes);
}

static void try_rules(dao_recompute_search_t *search)
{
    static const double parts[] = {1.0, 0.85, 0.7, 0.5}, prices[] = {1, 0.25, 4, 1000};
    for (uint32_t i = 0; i < 16; i++) {
        for (uint32_t kind = 0; kind < 2; kind++) {
            dao_recompute_rule_t rule = {.capacity_bytes = part_of(search, parts[i / 4]),
                                         .move_price = prices[i % 4],
                                         .is_own_cost = kind == 1};
            (void)try_rule(search, &rule);
        }
    }
}

/* Without copies what counts is that the rule gets through: also the rules of others. */
static void try_rules_alone(dao_recompute_search_t *search)
{
    for (uint32_t i = 0; i < 8; i++) {
        for (uint32_t kind = 0; kind < 8; kind++) {
            dao_recompute_rule_t rule = {.capacity_bytes = part_of(search, 1.0 - 0.03 * (double)i),
                                         .move_price = -1,
                                         .is_own_cost = (kind & 1) != 0,
                                         .is_stale = (kind & 2) != 0,
                                         .is_sizeless = (kind & 4) != 0};
            (void)try_rule(search, &rule);
        }
    }
}

/* Goes from the best rule to its neighbours as long as that helps. */
static void refine_rule(dao_recompute_search_t *search)
{
    for (double step = 0.4; step > 0.04 && search->kept[0].bound_ns != UINT64_MAX; step /= 2) {
        bool is_better = true;
        while (is_better && !is_over(search)) {
            is_better = false;
            for (uint32_t i = 0; i < 4; i++) {
                dao_recompute_rule_t rule = search->kept[0].rule;
                double factor = i % 2 == 0 ? 1 + step : 1 / (1 + step);
                if (i < 2) {
                    rule.move_price *= factor;
                } else {
                    rule.capacity_bytes = (uint64_t)((double)rule.capacity_bytes * (1 + (factor - 1) / 4));
                }
                is_better = try_rule(search, &rule) || is_better;
            }
        }
    }
}

/* ---- sets ---- */

/* Something that may be given up. Equal keys are a group. */
typedef struct member {
    uint64_t key;
    uint32_t access;
} member_t;

static int compare_members(const void *a, const void *b)
{
    const member_t *left = a;
    const member_t *right = b;
    if (left->key != right->key) {
        return left->key < right->key ? -1 : 1;
    }
    return left->access < right->access ? -1 : left->access > right->access;
}

static uint64_t key_of(const dao_swap_step_t *step, uint32_t access)
{
    const dao_swap_access_t *one = &step->accesses[access];
    const dao_swap_kernel_t *kernels = step->problem->kernels;
    uint64_t key = dao_random_mix(step->size_bytes[one->tensor]);
    key = dao_random_mix(key + kernels[step->accesses[one->writer].kernel].time_ns);
    key = dao_random_mix(key + kernels[one->kernel].time_ns);
    return dao_random_mix(key + kernels[step->accesses[one->next].kernel].time_ns);
}

/* Lists what may be given up and spans at least a kernel. */
static uint32_t list_members(const dao_recompute_search_t *search, member_t *members)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < search->step->access_count; i++) {
        if (search->step->accesses[i].inactive_length > 1 &&
            (dao_recompute_play_may_give_up(search->player.play, i) ||
             dao_recompute_play_may_hold(search->player.play, i))) {
            members[count++] = (member_t){key_of(search->step, i), i};
        }
    }
    qsort(members, count, sizeof(*members), compare_members);
    return count;
}

/* Returns true if what an access leaves is wanted in the window that decides the bound of the best set. */
static bool is_in_window(const dao_recompute_search_t *search, uint32_t access)
{
    const dao_swap_access_t *one = &search->step->accesses[access];
    bool begins_before_end = one->kernel <= search->best_window.last;
    bool ends_behind_begin = search->step->accesses[one->next].kernel >= search->best_window.first;
    return search->best_window.first <= search->best_window.last ? begins_before_end && ends_behind_begin
                                                                 : begins_before_end || ends_behind_begin;
}

/* Draws any one, or as often one of the window, unless there are few. */
static uint32_t draw(const dao_recompute_search_t *search, const member_t *members, uint32_t count,
                     uint64_t *random)
{
    uint32_t drawn = (uint32_t)dao_random_below(random, count);
    uint32_t draws = dao_random_below(random, 2) == 0 ? DRAW_MAX : 0;
    for (uint32_t i = 0; i < draws && !is_in_window(search, members[drawn].access); i++) {
        drawn = (uint32_t)dao_random_below(random, count);
    }
    return drawn;
}

/* Lets a stretch of a group go or stay, drawn at random; often the whole group, or one of it. */
static void change(dao_recompute_search_t *search, const member_t *members, uint32_t count, uint64_t *random)
{
    uint32_t drawn = draw(search, members, count, random);
    uint32_t first = drawn, end = drawn + 1;
    bool goes = !search->tried.is_given_up[members[drawn].access];
    while (first > 0 && members[first - 1].key == members[drawn].key) {
        first--;
    }
    while (end < count && members[end].key == members[drawn].key) {
        end++;
    }
    uint32_t kind = (uint32_t)dao_random_below(random, 4), stride = 1;
    if (kind == 0) {
        first = drawn;
        end = drawn + 1;
    } else if (kind == 1) {
        first = drawn;
    } else if (kind == 2) {
        end = drawn + 1;
    } else {
        stride = 1 + (uint32_t)dao_random_below(random, 3);
    }
    for (uint32_t i = first; i < end; i += stride) {
        search->tried.is_given_up[members[i].access] = goes;
    }
}

/* Tries what `tried` gives up; if the step is longer than with `best`, that is what is given up again. */
static void try_beside(dao_recompute_search_t *search, bool *best, uint64_t *best_ns)
{
    size_t bytes = search->step->access_count * sizeof(bool);
    (void)try_choice(search);
    if (search->tried.bound_ns > *best_ns) {
        memcpy(search->tried.is_given_up, best, bytes);
    } else {
        memcpy(best, search->tried.is_given_up, bytes);
        *best_ns = search->tried.bound_ns;
        search->best_window = search->tried_window;
    }
}

/* Lets all go that may be made again of inputs which are kept for it. */
static void try_held(dao_recompute_search_t *search, const member_t *members, uint32_t count, bool *best,
                     uint64_t *best_ns)
{
    for (uint32_t i = 0; i < count; i++) {
        if (dao_recompute_play_may_hold(search->player.play, members[i].access)) {
            search->tried.is_given_up[members[i].access] = true;
        }
    }
    search->tried.origin = DAO_RECOMPUTE_ORIGIN_HELD;
    try_beside(search, best, best_ns);
}

/* Without memory for it, it is left out. */
static void try_order(dao_recompute_search_t *search, bool *best, uint64_t *best_ns)
{
    search->is_ordered = dao_recompute_capuchin_choose(&search->player, search->ordered) == DAO_OK;
    if (search->is_ordered) {
        memcpy(search->tried.is_given_up, search->ordered, search->step->access_count * sizeof(bool));
        search->tried.origin = DAO_RECOMPUTE_ORIGIN_ORDER;
        try_beside(search, best, best_ns);
    }
}

/* Lists of the members those that live over the moment of most bytes, the least time a byte first. */
static uint32_t list_cheapest(const dao_recompute_search_t *search, const member_t *members, uint32_t count,
                              member_t *cheapest)
{
    const dao_swap_step_t *step = search->step;
    uint32_t turn = 0, listed = 0;
    for (uint32_t k = 1; k < step->kernel_count; k++) {
        turn = step->live_bytes[k] > step->live_bytes[turn] ? k : turn;
    }
    for (uint32_t i = 0; i < count; i++) {
        const dao_swap_access_t *one = &step->accesses[members[i].access];
        if (one->kernel < turn && step->accesses[one->next].kernel >= turn) {
            double time_ns = (double)step->problem->kernels[step->accesses[one->writer].kernel].time_ns;
            double time_a_byte = time_ns / (double)step->size_bytes[one->tensor];
            cheapest[listed++] =
                (member_t){(uint64_t)(time_a_byte * (double)(UINT64_C(1) << TIME_BITS)), members[i].access};
        }
    }
    qsort(cheapest, listed, sizeof(*cheapest), compare_members);
    return listed;
}

/* Lets more and more go, as one does who chooses once. Without memory for it, it is left out. */
static void try_cheapest(dao_recompute_search_t *search, const member_t *members, uint32_t count, bool *best,
                         uint64_t *best_ns)
{
    member_t *cheapest = dao_host_calloc((size_t)count + 1, sizeof(*cheapest));
    uint32_t listed = cheapest != NULL ? list_cheapest(search, members, count, cheapest) : 0;
    search->tried.origin = DAO_RECOMPUTE_ORIGIN_ORDER;
    for (uint32_t part = 1; part <= PREFIX_COUNT && listed > 0; part++) {
        memset(search->tried.is_given_up, 0, search->step->access_count * sizeof(bool));
        for (uint64_t i = 0; i < (uint64_t)listed * part / PREFIX_COUNT; i++) {
            search->tried.is_given_up[cheapest[i].access] = true;
        }
        try_beside(search, best, best_ns);
    }
    dao_host_free(cheapest);
}

/* Begins with what the best rule gives up, without the rule. */
static void begin_sets(dao_recompute_search_t *search)
{
    bool has_rule = search->kept[0].bound_ns != UINT64_MAX;
    size_t bytes = search->step->access_count * sizeof(bool);
    if (has_rule) {
        (void)dao_recompute_play_run(search->player.play, &search->kept[0].rule, NULL);
        memcpy(search->tried.is_given_up, dao_recompute_play_given_up(search->player.play), bytes);
    } else {
        memset(search->tried.is_given_up, 0, bytes);
    }
    search->tried.rule = search->is_alone && has_rule
                             ? search->kept[0].rule /* for what the set leaves over */
                             : (dao_recompute_rule_t){.capacity_bytes = UINT64_MAX, .move_price = 1};
    search->tried.rule.is_holding = true;
    search->tried.origin = DAO_RECOMPUTE_ORIGIN_SET;
}

static void try_sets(dao_recompute_search_t *search, const member_t *members, uint32_t count)
{
    uint64_t random = SEED, best_ns = UINT64_MAX;
    bool *best = dao_host_calloc((size_t)search->step->access_count + 1, sizeof(*best));
    if (best == NULL) {
        return;
    }
    begin_sets(search);
    try_beside(search, best, &best_ns);
    try_held(search, members, count, best, &best_ns);
    if (search->is_alone) {
        try_cheapest(search, members, count, best, &best_ns);
    } else {
        try_order(search, best, &best_ns);
    }
    search->tried.origin = DAO_RECOMPUTE_ORIGIN_SET;
    while (count > 0 && !is_over(search)) {
        for (uint64_t i = 0; i <= dao_random_below(&random, 3); i++) {
            change(search, members, count, &random);
        }
        try_beside(search, best, &best_ns);
    }
    dao_host_free(best);
}

/* ---- the search ---- */

void dao_recompute_search_run(dao_recompute_search_t *search)
{
    member_t *members = dao_host_calloc((size_t)search->step->access_count + 1, sizeof(*members));
    uint32_t tries = search->tries_left, set_tries = tries / 2;
    search->tries_left -= set_tries;
    if (search->is_alone) {
        try_rules_alone(search);
    } else {
        try_rules(search);
        refine_rule(search);
    }
    search->tries_left += set_tries;
    bool has_rule = search->kept[0].bound_ns != UINT64_MAX;
    if (members != NULL && (has_rule || !search->is_alone)) {
        try_sets(search, members, list_members(search, members));
    }
    dao_host_free(members);
}

bool dao_recompute_search_replay(dao_recompute_search_t *search, const dao_recompute_choice_t *choice)
{
    return dao_recompute_play_run(search->player.play, &choice->rule, choice->is_given_up);
}

dao_status_t dao_recompute_search_init(dao_recompute_search_t *search, const dao_swap_step_t *step)
{
    size_t accesses = (size_t)step->access_count + 1;
    *search = (dao_recompute_search_t){.step = step};
    dao_status_t status = dao_recompute_player_init(&search->player, step);
    bool has_choices = (search->tried.is_given_up = dao_host_calloc(accesses, sizeof(bool))) != NULL &&
                       (search->ordered = dao_host_calloc(accesses, sizeof(bool))) != NULL;
    for (uint32_t i = 0; i < DAO_RECOMPUTE_KEPT_MAX; i++) {
        search->kept[i].bound_ns = UINT64_MAX;
        search->kept[i].origin = (dao_recompute_origin_t)i;
        search->kept[i].is_given_up = dao_host_calloc(accesses, sizeof(bool));
        has_choices = has_choices && search->kept[i].is_given_up != NULL;
    }
    return status != DAO_OK || has_choices
               ? status
               : dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the runs of a step");
}

void dao_recompute_search_finish(dao_recompute_search_t *search)
{
    for (uint32_t i = 0; i < DAO_RECOMPUTE_KEPT_MAX; i++) {
        dao_host_free(search->kept[i].is_given_up);
    }
    dao_host_free(search->tried.is_given_up);
    dao_host_free(search->ordered);
    dao_recompute_player_finish(&search->player);
    memset(search, 0, sizeof(*search));
}
