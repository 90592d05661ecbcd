/* SPDX-License-Identifier: Apache-2.0 */
/* Two searches, one behind the other; both are judged by the bound of swapping of the longer step, which is
   close to what its plan takes and a hundred times cheaper.

   1. Rules: the step is played with parts of the capacity and prices of copies, then around the best of
   these.
   2. Sets: what is given up is chosen directly. Contents of the same size, made by kernels of the same time
      and read again after a like distance, are a group: the same tensor of each layer. A group goes, stays,
   or goes in a stretch of its layers, drawn at random; what does not make the bound longer is kept. It begins
      with what the best rule gave up.

   Where nothing may be copied the rule has to get through without, sets are tried beside the best rule, which
   makes the room that a set lacks, and the time of all runs is what counts. */
#include "planning/recompute/recompute_search.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/numbers/random.h"
#include "planning/swap/step/swap_bound.h"

#include <stdlib.h>
#include <string.h>

#define SEED UINT64_C(20260905)

/* Places where the windows of a bound may begin and end: a bound takes as long as their square. */
#define CUT_MAX 512u

/* ---- choices ---- */

/* Keeps the choice that was tried, if it is one of the best. True if it is the best. */
static bool keep(dao_recompute_search_t *search)
{
    uint32_t place = DAO_RECOMPUTE_KEPT_MAX;
    while (place > 0 && search->tried.bound_ns < search->kept[place - 1].bound_ns) {
        place--;
    }
    if (place == DAO_RECOMPUTE_KEPT_MAX ||
        (place > 0 && search->kept[place - 1].bound_ns == search->tried.bound_ns)) {
        return false; /* equal bounds are mostly equal choices */
    }
    dao_recompute_choice_t dropped = search->kept[DAO_RECOMPUTE_KEPT_MAX - 1];
    memmove(&search->kept[place + 1], &search->kept[place],
            (DAO_RECOMPUTE_KEPT_MAX - 1 - place) * sizeof(search->kept[0]));
    search->kept[place] = dropped;
    search->kept[place].rule = search->tried.rule;
    search->kept[place].bound_ns = search->tried.bound_ns;
    memcpy(search->kept[place].is_given_up, search->tried.is_given_up,
           search->step->access_count * sizeof(bool));
    return place == 0;
}

/* Returns the bound of the step that a choice makes; UINT64_MAX if there is none, or it is hopeless. */
static uint64_t weigh(dao_recompute_search_t *search)
{
    uint64_t compute_ns = search->step->time_before[search->step->kernel_count];
    dao_swap_bound_t bound;
    if (!dao_recompute_play_run(search->play, &search->tried.rule, search->tried.is_given_up) ||
        compute_ns + search->draft.again_ns >= search->kept[DAO_RECOMPUTE_KEPT_MAX - 1].bound_ns) {
        return UINT64_MAX;
    }
    if (search->is_alone) {
        return compute_ns + search->draft.again_ns;
    }
    dao_swap_problem_t longer = dao_recompute_draft_problem(&search->draft);
    if (dao_swap_find_bound_cut(&longer, CUT_MAX, &bound) != DAO_OK) {
        return UINT64_MAX;
    }
    return bound.step_ns;
}

/* Returns true if the search is over. */
static bool is_over(const dao_recompute_search_t *search)
{
    return search->tries_left == 0 || search->kept[0].bound_ns <= search->least_ns ||
           (search->is_cancelled != NULL && search->is_cancelled(search->cancel_user));
}

/* Tries the choice `tried`. True if it is the best so far. */
static bool try_choice(dao_recompute_search_t *search)
{
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
    memset(search->tried.is_given_up, 0, search->step->access_count * sizeof(bool));
    return try_choice(search);
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
            dao_recompute_play_may_give_up(search->play, i)) {
            members[count++] = (member_t){key_of(search->step, i), i};
        }
    }
    qsort(members, count, sizeof(*members), compare_members);
    return count;
}

/* Lets a stretch of a group go or stay, drawn at random; often the whole group, or one of it. */
static void change(dao_recompute_search_t *search, const member_t *members, uint32_t count, uint64_t *random)
{
    uint32_t drawn = (uint32_t)dao_random_below(random, count), first = drawn, end = drawn + 1;
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

static void try_sets(dao_recompute_search_t *search, const member_t *members, uint32_t count)
{
    uint64_t random = SEED;
    size_t bytes = search->step->access_count * sizeof(bool);
    bool has_rule = search->kept[0].bound_ns != UINT64_MAX;
    if (has_rule) { /* what the best rule gives up, without the rule */
        (void)dao_recompute_play_run(search->play, &search->kept[0].rule, NULL);
        memcpy(search->tried.is_given_up, dao_recompute_play_given_up(search->play), bytes);
    } else {
        memset(search->tried.is_given_up, 0, bytes);
    }
    search->tried.rule = search->is_alone && has_rule
                             ? search->kept[0].rule /* for what the set leaves over */
                             : (dao_recompute_rule_t){.capacity_bytes = UINT64_MAX, .move_price = 1};
    (void)try_choice(search);
    uint64_t current_ns = search->tried.bound_ns;
    bool *before = dao_host_calloc(bytes, 1);
    while (before != NULL && count > 0 && !is_over(search)) {
        memcpy(before, search->tried.is_given_up, bytes);
        for (uint64_t i = 0; i <= dao_random_below(&random, 3); i++) {
            change(search, members, count, &random);
        }
        (void)try_choice(search);
        if (search->tried.bound_ns > current_ns) {
            memcpy(search->tried.is_given_up, before, bytes);
        } else {
            current_ns = search->tried.bound_ns;
        }
    }
    dao_host_free(before);
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
    return dao_recompute_play_run(search->play, &choice->rule, choice->is_given_up);
}

dao_status_t dao_recompute_search_init(dao_recompute_search_t *search, const dao_swap_step_t *step)
{
    size_t accesses = (size_t)step->access_count + 1;
    *search = (dao_recompute_search_t){.step = step};
    dao_status_t status = dao_recompute_contents_init(&search->contents, step);
    status = status == DAO_OK ? dao_recompute_reach_init(&search->reach, &search->contents) : status;
    status = status == DAO_OK ? dao_recompute_draft_init(&search->draft, step->problem) : status;
    status = status == DAO_OK
                 ? dao_recompute_play_create(&search->contents, &search->reach, &search->draft, &search->play)
                 : status;
    bool has_choices = (search->tried.is_given_up = dao_host_calloc(accesses, sizeof(bool))) != NULL;
    for (uint32_t i = 0; i < DAO_RECOMPUTE_KEPT_MAX; i++) {
        search->kept[i].bound_ns = UINT64_MAX;
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
    dao_recompute_play_destroy(search->play);
    dao_recompute_draft_finish(&search->draft);
    dao_recompute_reach_finish(&search->reach);
    dao_recompute_contents_finish(&search->contents);
    memset(search, 0, sizeof(*search));
}
