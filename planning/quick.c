#include "planning/quick.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"
#include "planning/check.h"

dao_status_t dao_plan_quick_init(dao_plan_quick_t *quick, const dao_plan_problem_t *problem)
{
    *quick = (dao_plan_quick_t){0};
    dao_status_t status = dao_plan_instance_make(&quick->instance, problem);
    if (status != DAO_OK) {
        return status;
    }
    quick->offsets = dao_host_calloc((size_t)quick->instance.item_count + 1, sizeof(*quick->offsets));
    if (quick->offsets == NULL) {
        dao_plan_quick_finish(quick);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to place %zu buffers",
                         problem->buffer_count);
    }
    return DAO_OK;
}

static void drop_method(dao_plan_quick_t *quick)
{
    dao_plan_greedy_destroy(quick->greedy);
    dao_plan_lowest_destroy(quick->lowest);
    quick->greedy = NULL;
    quick->lowest = NULL;
}

void dao_plan_quick_finish(dao_plan_quick_t *quick)
{
    drop_method(quick);
    dao_host_free(quick->offsets);
    dao_plan_instance_finish(&quick->instance);
    *quick = (dao_plan_quick_t){0};
}

static dao_status_t begin_greedy(dao_plan_quick_t *quick, dao_plan_greedy_config_t config,
                                 dao_plan_meter_t *meter)
{
    config.left_out_bytes_max = quick->has_best ? quick->best.unplaced_bytes : UINT64_MAX;
    return dao_plan_greedy_create(&quick->instance, &config, meter, &quick->greedy);
}

dao_status_t dao_plan_quick_begin(dao_plan_quick_t *quick, const dao_plan_quick_method_t *method)
{
    DAO_ASSERT(quick->lowest == NULL && quick->greedy == NULL && method->order != DAO_PLAN_ORDER_OFFSET);
    dao_plan_meter_t meter = dao_plan_meter_endless();
    if (method->kind == DAO_PLAN_QUICK_LOWEST) {
        const dao_plan_lowest_config_t config = {.order = method->order};
        return dao_plan_lowest_create(&quick->instance, &config, &meter, &quick->lowest);
    }
    return begin_greedy(quick,
                        (dao_plan_greedy_config_t){.order = method->order,
                                                   .is_best_fit = method->kind == DAO_PLAN_QUICK_BEST_FIT},
                        &meter);
}

static void keep_better(dao_plan_quick_t *quick, const dao_plan_layout_t *layout, dao_plan_meter_t *meter)
{
    const dao_plan_instance_t *instance = &quick->instance;
    dao_plan_worth_t worth;
    dao_plan_layout_worth(instance, layout, meter, &worth);
    if (quick->has_best && !dao_plan_worth_is_better(&worth, &quick->best)) {
        return;
    }
    DAO_ASSERT_HEAVY(dao_plan_layout_check(&quick->instance, layout, false, meter) != DAO_ERR_INVALID);
    quick->has_best = true;
    quick->best = worth;
    for (uint32_t i = 0; i < instance->item_count; i++) {
        quick->offsets[instance->items[i].source] = layout->offsets[i];
    }
}

dao_status_t dao_plan_quick_step(dao_plan_quick_t *quick, uint64_t work, bool *out_is_done)
{
    dao_plan_meter_t meter = dao_plan_meter_endless();
    meter.limit = work;
    dao_status_t status = DAO_OK;
    bool is_done = false;
    if (quick->greedy == NULL) {
        status = dao_plan_lowest_step(quick->lowest, &meter, &is_done);
        if (status != DAO_OK || !is_done) {
            *out_is_done = false;
            return status;
        }
        const dao_plan_greedy_config_t settling = {.order = DAO_PLAN_ORDER_OFFSET,
                                                   .offsets = dao_plan_lowest_layout(quick->lowest)->offsets};
        is_done = dao_plan_instance_is_plain(&quick->instance);
        status = is_done ? DAO_OK : begin_greedy(quick, settling, &meter);
    }
    if (status == DAO_OK && quick->greedy != NULL) {
        status = dao_plan_greedy_step(quick->greedy, &meter, &is_done);
    }
    if (status == DAO_OK && is_done) {
        keep_better(quick,
                    quick->greedy != NULL ? dao_plan_greedy_layout(quick->greedy)
                                          : dao_plan_lowest_layout(quick->lowest),
                    &meter);
        drop_method(quick);
    }
    *out_is_done = is_done;
    return status;
}
