/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: offsets in the order of the problem's buffers, their report, and a count of references.

   What holds: a plan that was handed out has at least one reference; its arrays never change. */
#include "planning/offsets/plan.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/offsets/check.h"

#include <string.h>

struct dao_plan {
    dao_plan_memory_t memory; /* of the arrays */
    uint64_t *offsets;
    uint32_t *pools; /* NULL: all that are placed are in pool 0 */
    size_t count;
    uint32_t pool_count;
    uint64_t pool_peaks[DAO_PLAN_POOL_COUNT_MAX];
    uint64_t policy_bytes[DAO_PLAN_BIN_POLICY_COUNT]; /* of bins; else all 0 */
    dao_plan_report_t report;
    _Atomic uint32_t reference_count;
};

static dao_status_t no_memory(const dao_plan_instance_t *instance)
{
    return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a plan of %u buffers", instance->item_count);
}

static dao_plan_t *take_plan(const dao_plan_instance_t *instance)
{
    dao_plan_t *plan = dao_host_calloc(1, sizeof(*plan));
    if (plan == NULL) {
        return NULL;
    }
    size_t count = instance->item_count;
    atomic_init(&plan->reference_count, 1);
    plan->count = count;
    plan->pool_count = instance->pool_count;
    plan->offsets = count == 0 ? NULL : dao_plan_memory_alloc(&plan->memory, count, sizeof(*plan->offsets));
    plan->pools = count == 0 || plan->pool_count == 1
                      ? NULL
                      : dao_plan_memory_alloc(&plan->memory, count, sizeof(*plan->pools));
    if (count > 0 && (plan->offsets == NULL || (plan->pool_count > 1 && plan->pools == NULL))) {
        dao_plan_release(plan);
        return NULL;
    }
    return plan;
}

/* Copies where the items are, in the order of the problem's buffers. */
static void fill_places(dao_plan_t *plan, const dao_plan_instance_t *instance,
                        const dao_plan_layout_t *layout, dao_plan_work_t *work)
{
    /* Fresh pages come here in a row: scattered writes would wait for thousands in a stretch. */
    dao_plan_pass_fill(plan->offsets, 0, instance->item_count * sizeof(*plan->offsets), work);
    dao_plan_pass_t pass = {.count = instance->item_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            bool is_placed = layout->offsets[i] != DAO_PLAN_NOWHERE;
            plan->offsets[instance->items[i].source] = layout->offsets[i];
            if (plan->pools != NULL) {
                plan->pools[instance->items[i].source] = is_placed ? layout->pools[i] : DAO_PLAN_ANY_POOL;
            }
        }
    }
}

/* Hands a plan out whose places were filled, unless that was cancelled. */
static dao_status_t hand_out(dao_plan_t *plan, dao_plan_work_t *work, dao_plan_t **out_plan)
{
    if (dao_plan_work_is_cancelled(work)) {
        dao_plan_release(plan);
        return DAO_ERR_STOPPED;
    }
    *out_plan = plan;
    return DAO_OK;
}

dao_status_t dao_plan_make_of(const dao_plan_instance_t *instance, const dao_plan_layout_t *layout,
                              const dao_plan_score_t *score, const dao_plan_report_t *report,
                              dao_plan_work_t *work, dao_plan_t **out_plan)
{
    dao_plan_t *plan = take_plan(instance);
    if (plan == NULL) {
        return no_memory(instance);
    }
    plan->report = *report;
    plan->report.peak_bytes = score->peak_bytes;
    plan->report.unplaced_bytes = score->unplaced_bytes;
    plan->report.unplaced_count = score->unplaced_count;
    plan->report.bound_bytes = instance->bound_bytes;
    plan->report.is_proved = score->unplaced_count == 0 && score->peak_bytes == instance->bound_bytes;
    memcpy(plan->pool_peaks, score->pool_peaks, sizeof(plan->pool_peaks));
    DAO_ASSERT(score->peak_bytes >= instance->bound_bytes || score->unplaced_count > 0 ||
               dao_plan_work_is_cancelled(work));
    fill_places(plan, instance, layout, work);
    return hand_out(plan, work, out_plan);
}

dao_status_t dao_plan_make_again(const dao_plan_instance_t *instance, const dao_plan_t *plan,
                                 const dao_plan_report_t *report, dao_plan_work_t *work,
                                 dao_plan_t **out_plan)
{
    dao_plan_t *again = take_plan(instance);
    if (again == NULL) {
        return no_memory(instance);
    }
    DAO_ASSERT(plan->count == again->count && plan->pool_count == again->pool_count);
    if (plan->offsets != NULL) {
        dao_plan_pass_copy(again->offsets, plan->offsets, plan->count * sizeof(*plan->offsets), work);
    }
    if (plan->pools != NULL) {
        dao_plan_pass_copy(again->pools, plan->pools, plan->count * sizeof(*plan->pools), work);
    }
    memcpy(again->pool_peaks, plan->pool_peaks, sizeof(plan->pool_peaks));
    memcpy(again->policy_bytes, plan->policy_bytes, sizeof(plan->policy_bytes));
    again->report = *report;
    again->report.peak_bytes = plan->report.peak_bytes;
    again->report.unplaced_bytes = plan->report.unplaced_bytes;
    again->report.unplaced_count = plan->report.unplaced_count;
    again->report.bound_bytes = instance->bound_bytes;
    again->report.is_proved =
        plan->report.unplaced_count == 0 && plan->report.peak_bytes == instance->bound_bytes;
    return hand_out(again, work, out_plan);
}

uint64_t dao_plan_memory_of(const dao_plan_instance_t *instance)
{
    uint64_t each = sizeof(uint64_t) + (instance->pool_count > 1 ? sizeof(uint32_t) : 0);
    return sizeof(dao_plan_t) + each * instance->item_count;
}

dao_status_t dao_plan_create(const dao_plan_problem_t *problem, const uint64_t *offsets,
                             const uint32_t *pools, dao_plan_t **out_plan)
{
    if (problem == NULL || out_plan == NULL) {
        return dao_error(DAO_ERR_INVALID, "a problem or the place for a plan is NULL");
    }
    dao_plan_instance_t instance;
    dao_plan_layout_t layout = {0};
    dao_plan_work_t work = dao_plan_work_unlimited();
    dao_status_t status = dao_plan_instance_make(&instance, problem);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_plan_layout_make(&instance, problem, offsets, pools, &layout);
    if (status == DAO_OK) {
        dao_plan_report_t report = {.method = DAO_PLAN_METHOD_BEST, .version = 1};
        report.memory_bytes = instance.memory.most_bytes + dao_plan_memory_of(&instance);
        dao_plan_score_t score;
        dao_plan_layout_score(&instance, &layout, &work, &score);
        status = dao_plan_make_of(&instance, &layout, &score, &report, &work, out_plan);
    }
    dao_plan_layout_finish(&layout, &instance);
    dao_plan_instance_finish(&instance);
    return status;
}

dao_plan_t *dao_plan_retain(dao_plan_t *plan)
{
    if (plan != NULL) {
        uint32_t before = atomic_fetch_add_explicit(&plan->reference_count, 1, memory_order_relaxed);
        DAO_ASSERT(before > 0);
        (void)before;
    }
    return plan;
}

void dao_plan_release(dao_plan_t *plan)
{
    if (plan == NULL) {
        return;
    }
    uint32_t before = atomic_fetch_sub_explicit(&plan->reference_count, 1, memory_order_acq_rel);
    DAO_ASSERT(before > 0);
    if (before > 1) {
        return;
    }
    dao_plan_memory_free(&plan->memory, plan->offsets);
    dao_plan_memory_free(&plan->memory, plan->pools);
    dao_host_free(plan);
}

const uint64_t *dao_plan_offsets(const dao_plan_t *plan)
{
    return plan == NULL ? NULL : plan->offsets;
}

uint64_t dao_plan_offset(const dao_plan_t *plan, size_t buffer)
{
    return plan == NULL || buffer >= plan->count ? DAO_PLAN_NOWHERE : plan->offsets[buffer];
}

uint32_t dao_plan_pool(const dao_plan_t *plan, size_t buffer)
{
    if (dao_plan_offset(plan, buffer) == DAO_PLAN_NOWHERE) {
        return DAO_PLAN_ANY_POOL;
    }
    return plan->pools == NULL ? 0 : plan->pools[buffer];
}

uint64_t dao_plan_pool_peak(const dao_plan_t *plan, uint32_t pool)
{
    return plan == NULL || pool >= plan->pool_count ? 0 : plan->pool_peaks[pool];
}

void dao_plan_set_policy_bytes(dao_plan_t *plan, const uint64_t policy_bytes[DAO_PLAN_BIN_POLICY_COUNT])
{
    memcpy(plan->policy_bytes, policy_bytes, sizeof(plan->policy_bytes));
}

uint64_t dao_plan_bin_policy_bytes(const dao_plan_t *plan, uint32_t policy)
{
    return plan == NULL || policy >= DAO_PLAN_BIN_POLICY_COUNT ? 0 : plan->policy_bytes[policy];
}

size_t dao_plan_count(const dao_plan_t *plan)
{
    return plan == NULL ? 0 : plan->count;
}

dao_status_t dao_plan_report_get(const dao_plan_t *plan, dao_plan_report_t *out_report)
{
    if (plan == NULL || out_report == NULL) {
        return dao_error(DAO_ERR_INVALID, "a plan or the place for its report is NULL");
    }
    *out_report = plan->report;
    return DAO_OK;
}
