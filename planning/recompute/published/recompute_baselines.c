/* SPDX-License-Identifier: Apache-2.0 */
#include "planning/recompute/published/recompute_baselines.h"

#include "base/memory/host.h"
#include "planning/recompute/published/recompute_sets.h"

#include <inttypes.h>
#include <string.h>

/* ---- DTR and its kin: scores of what is on the device ---- */

typedef struct dtr {
    const dao_recompute_contents_t *contents;
    dao_recompute_baseline_t baseline;
    bool *is_gone;     /* of each content: it was there and has left */
    uint32_t *visited; /* of each content, or node: the last look that saw it */
    uint32_t look;
    uint32_t *stack; /* of contents to be looked at */
    uint32_t stack_count;
    /* Classes of what has left: nodes, each with one above it; the uppermost has the sum of its class. */
    uint32_t *node_of; /* of each content that is gone */
    uint32_t *above;
    double *sum_ns;
    uint32_t node_count, node_max;
} dtr_t;

static double time_of(const dtr_t *dtr, uint32_t content)
{
    const dao_swap_step_t *step = dtr->contents->step;
    return (double)step->problem->kernels[step->accesses[content].kernel].time_ns;
}

/* Calls `visit` for each content next to one that has left: what its kernel reads, and what was made of it.
 */
static void visit_around(dtr_t *dtr, uint32_t content, void (*visit)(dtr_t *dtr, uint32_t other))
{
    const dao_swap_step_t *step = dtr->contents->step;
    uint32_t kernel = step->accesses[content].kernel;
    for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
        uint32_t found = step->accesses[i].reads ? dao_recompute_found(dtr->contents, i) : DAO_SWAP_NONE;
        if (found != DAO_SWAP_NONE && dtr->is_gone[found]) {
            visit(dtr, found);
        }
    }
    for (uint32_t at = content; step->accesses[at].next > at && step->accesses[at].inactive_is_live;) {
        at = step->accesses[at].next;
        uint32_t reader = step->accesses[at].kernel;
        for (uint32_t i = step->kernel_access[reader]; i < step->kernel_access[reader + 1]; i++) {
            if (step->accesses[i].writes && dtr->is_gone[i]) {
                visit(dtr, i);
            }
        }
        if (step->accesses[at].writes) {
            return;
        }
    }
}

static void push(dtr_t *dtr, uint32_t content)
{
    if (dtr->visited[content] != dtr->look) {
        dtr->visited[content] = dtr->look;
        dtr->stack[dtr->stack_count++] = content;
    }
}

/* Returns the time of a content and of all around it that has left, however far. */
static double neighbourhood_ns(dtr_t *dtr, uint32_t content)
{
    double sum_ns = 0;
    dtr->look++;
    dtr->stack_count = 0;
    push(dtr, content);
    while (dtr->stack_count > 0) {
        uint32_t one = dtr->stack[--dtr->stack_count];
        sum_ns += time_of(dtr, one);
        visit_around(dtr, one, push);
    }
    return sum_ns;
}

static uint32_t top_of(dtr_t *dtr, uint32_t node)
{
    while (dtr->above[node] != node) {
        node = dtr->above[node] = dtr->above[dtr->above[node]];
    }
    return node;
}

/* Puts the uppermost node of a content's class on the stack, once. */
static void push_class(dtr_t *dtr, uint32_t content)
{
    push(dtr, top_of(dtr, dtr->node_of[content]));
}

/* Returns the time of a content and of the classes next to it. */
static double classes_ns(dtr_t *dtr, uint32_t content)
{
    double sum_ns = time_of(dtr, content);
    dtr->look++;
    dtr->stack_count = 0;
    visit_around(dtr, content, push_class);
    while (dtr->stack_count > 0) {
        sum_ns += dtr->sum_ns[dtr->stack[--dtr->stack_count]];
    }
    return sum_ns;
}

static double score(void *user, uint32_t content, uint64_t size_bytes, uint64_t stale_ns)
{
    dtr_t *dtr = user;
    double price = 1, stale = (double)stale_ns + 1, bytes = (double)size_bytes;
    switch (dtr->baseline) {
    case DAO_RECOMPUTE_BASELINE_DTR:
        price = neighbourhood_ns(dtr, content);
        break;
    case DAO_RECOMPUTE_BASELINE_DTR_CLASS:
        price = classes_ns(dtr, content);
        break;
    case DAO_RECOMPUTE_BASELINE_DTR_LOCAL:
        price = time_of(dtr, content);
        break;
    case DAO_RECOMPUTE_BASELINE_LRU:
        bytes = 1;
        break;
    default:
        stale = 1;
        break;
    }
    return (price + 1) / (bytes * stale);
}

static void left(void *user, uint32_t content)
{
    dtr_t *dtr = user;
    if (dtr->is_gone[content]) {
        return;
    }
    dtr->is_gone[content] = true;
    if (dtr->baseline != DAO_RECOMPUTE_BASELINE_DTR_CLASS || dtr->node_count == dtr->node_max) {
        return;
    }
    uint32_t node = dtr->node_count++;
    dtr->node_of[content] = dtr->above[node] = node;
    dtr->sum_ns[node] = time_of(dtr, content);
    dtr->look++;
    dtr->stack_count = 0;
    visit_around(dtr, content, push_class);
    while (dtr->stack_count > 0) {
        uint32_t other = dtr->stack[--dtr->stack_count];
        if (other != node) {
            dtr->above[other] = node;
            dtr->sum_ns[node] += dtr->sum_ns[other];
        }
    }
}

static void came(void *user, uint32_t content)
{
    dtr_t *dtr = user;
    if (dtr->is_gone[content] && dtr->baseline == DAO_RECOMPUTE_BASELINE_DTR_CLASS) {
        dtr->sum_ns[top_of(dtr, dtr->node_of[content])] -= time_of(dtr, content);
    }
    dtr->is_gone[content] = false;
}

/* A content leaves once, and once more with each run again. */
static bool dtr_init(dtr_t *dtr, const dao_recompute_contents_t *contents, dao_recompute_baseline_t baseline)
{
    size_t accesses = (size_t)contents->step->access_count + 1;
    size_t nodes = baseline == DAO_RECOMPUTE_BASELINE_DTR_CLASS ? 8 * accesses : accesses;
    *dtr = (dtr_t){.contents = contents, .baseline = baseline, .node_max = (uint32_t)nodes};
    return (dtr->is_gone = dao_host_calloc(accesses, sizeof(*dtr->is_gone))) != NULL &&
           (dtr->visited = dao_host_calloc(nodes, sizeof(*dtr->visited))) != NULL &&
           (dtr->stack = dao_host_calloc(nodes, sizeof(*dtr->stack))) != NULL &&
           (dtr->node_of = dao_host_calloc(accesses, sizeof(*dtr->node_of))) != NULL &&
           (dtr->above = dao_host_calloc(nodes, sizeof(*dtr->above))) != NULL &&
           (dtr->sum_ns = dao_host_calloc(nodes, sizeof(*dtr->sum_ns))) != NULL;
}

static void dtr_finish(dtr_t *dtr)
{
    dao_host_free(dtr->is_gone);
    dao_host_free(dtr->visited);
    dao_host_free(dtr->stack);
    dao_host_free(dtr->node_of);
    dao_host_free(dtr->above);
    dao_host_free(dtr->sum_ns);
}

/* ---- a step that is played ---- */

/* Plays by scores. `*out_is_found`: it gets through. */
static dao_status_t play_scores(dao_recompute_player_t *player, dao_recompute_baseline_t baseline,
                                bool *out_is_found)
{
    dtr_t dtr;
    const dao_recompute_judge_t judge = {.score = score, .left = left, .came = came, .user = &dtr};
    const dao_recompute_rule_t rule = {
        .capacity_bytes = player->contents.step->problem->capacity_bytes, .move_price = -1, .judge = &judge};
    dao_status_t status = dtr_init(&dtr, &player->contents, baseline)
                              ? DAO_OK
                              : dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to play a step");
    if (status == DAO_OK) {
        *out_is_found = dao_recompute_play_run(player->play, &rule, NULL);
    }
    dtr_finish(&dtr);
    return status;
}

/* For a choice that was made before. */
static const dao_recompute_rule_t choice_rule = {.capacity_bytes = UINT64_MAX, .move_price = -1};

/* Plays such a choice. `*out_fits`: it gets through. */
static dao_status_t play_set(dao_recompute_player_t *player, const bool *is_given_up, bool *out_fits)
{
    dao_swap_step_t longer;
    *out_fits = false;
    if (!dao_recompute_play_run(player->play, &choice_rule, is_given_up)) {
        return DAO_OK; /* more runs than the play takes */
    }
    dao_swap_problem_t problem = dao_recompute_draft_problem(&player->draft);
    dao_status_t status = dao_swap_step_init(&longer, &problem);
    if (status == DAO_OK) {
        uint64_t peak_bytes = longer.live_bytes[dao_recompute_sets_turn(&longer)];
        *out_fits = peak_bytes <= player->contents.step->problem->capacity_bytes;
        dao_swap_step_finish(&longer);
    }
    return status;
}

/* Tries all sets that a baseline would choose from, and plays the quickest one that fits. */
static dao_status_t play_sets(dao_recompute_player_t *player, dao_recompute_baseline_t baseline,
                              bool *out_is_found)
{
    dao_recompute_sets_t sets;
    uint64_t best_ns = UINT64_MAX;
    uint32_t best = 0;
    bool fits = false;
    dao_status_t status = dao_recompute_sets_init(&sets, &player->contents, player->play);
    if (status == DAO_OK && baseline == DAO_RECOMPUTE_BASELINE_KNAPSACK) {
        status = dao_recompute_sets_fill_knapsack(&sets);
    }
    for (uint32_t i = 0; status == DAO_OK && i < dao_recompute_sets_count(&sets, baseline); i++) {
        dao_recompute_sets_choose(&sets, baseline, i);
        status = play_set(player, sets.is_given_up, &fits);
        if (fits && player->draft.again_ns < best_ns) {
            best_ns = player->draft.again_ns;
            best = i;
        }
    }
    *out_is_found = best_ns != UINT64_MAX;
    if (status == DAO_OK && *out_is_found) {
        dao_recompute_sets_choose(&sets, baseline, best);
        *out_is_found = dao_recompute_play_run(player->play, &choice_rule, sets.is_given_up);
    }
    dao_recompute_sets_finish(&sets);
    return status;
}

dao_status_t dao_recompute_baseline_draft(dao_recompute_player_t *player, dao_recompute_baseline_t baseline)
{
    bool is_found = false;
    dao_status_t status =
        (baseline < DAO_RECOMPUTE_BASELINE_SQRT ? play_scores : play_sets)(player, baseline, &is_found);
    return status != DAO_OK || is_found
               ? status
               : dao_error(DAO_ERR_LIMIT, "the step does not get through in %" PRIu64 " bytes without copies",
                           player->contents.step->problem->capacity_bytes);
}

dao_status_t dao_recompute_baseline(const dao_swap_problem_t *problem, dao_recompute_baseline_t baseline,
                                    dao_recompute_baseline_run_t *out_run)
{
    dao_swap_problem_t bytes = *problem;
    dao_swap_step_t step;
    dao_recompute_player_t player;
    bytes.page_bytes = 0;
    dao_status_t status = dao_swap_step_init(&step, &bytes);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_swap_step_check_capacity(&step, bytes.capacity_bytes);
    if (status == DAO_OK) {
        status = dao_recompute_player_init(&player, &step);
        status = status == DAO_OK ? dao_recompute_baseline_draft(&player, baseline) : status;
        if (status == DAO_OK) {
            *out_run = (dao_recompute_baseline_run_t){
                .step_ns = step.time_before[step.kernel_count] + player.draft.again_ns,
                .again_ns = player.draft.again_ns,
                .again_count = player.draft.kernel_count - step.kernel_count,
            };
        }
        dao_recompute_player_finish(&player);
    }
    dao_swap_step_finish(&step);
    return status;
}
