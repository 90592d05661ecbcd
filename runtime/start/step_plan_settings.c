/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of step plans: names, the environment, a place's config, and the allocator that they ask for
   (allocators/step_plan/planned.c). The calls of <dao/step_plan.h> are in place/step_plan.c. */
#include "runtime/start/step_plan_settings.h"

#include "allocators/layers/hardened.h"
#include "allocators/layers/poisoned.h"
#include "allocators/layers/stream_ordered.h"
#include "base/report/error.h"
#include "base/report/names.h"
#include "base/text/setting.h"

#include <inttypes.h>
#include <string.h>

/* ---- names ---- */

static const dao_named_t modes[] = {
#define MODE_ROW(number, symbol, name, text) {name, DAO_STEP_PLAN_##symbol},
    DAO_STEP_PLAN_LIST(MODE_ROW)
#undef MODE_ROW
        {NULL, 0}};

#define MODE_COUNT (sizeof(modes) / sizeof(modes[0]) - 1)

const char *dao_step_plan_mode_name(dao_step_plan_mode_t mode)
{
    return mode == DAO_STEP_PLAN_DEFAULT ? "default" : dao_name_of(modes, (int)mode);
}

dao_status_t dao_step_plan_mode_parse(const char *text, dao_step_plan_mode_t *out_mode)
{
    int value;
    dao_status_t status = dao_name_parse(modes, "mode of step plans", text, out_mode != NULL ? &value : NULL);
    if (status == DAO_OK) {
        *out_mode = (dao_step_plan_mode_t)value;
    }
    return status;
}

/* ---- settings ---- */

/* Reads a number of steps from the environment; what is not set stays as it is. */
static dao_status_t count_find(const char *name, uint32_t *count)
{
    const char *text = dao_setting(name);
    if (text == NULL) {
        return DAO_OK;
    }
    uint64_t value = 0;
    for (const char *digit = text; *digit != '\0'; digit++) {
        value = value * 10 + (uint64_t)(*digit - '0');
        if (*digit < '0' || *digit > '9' || value > UINT32_MAX) {
            return dao_error(DAO_ERR_INVALID, "%s is \"%.64s\"; write a number of steps, at most %" PRIu32,
                             name, text, UINT32_MAX);
        }
    }
    *count = (uint32_t)value;
    return DAO_OK;
}

dao_status_t dao_step_plan_find(dao_step_plan_config_t *out_defaults)
{
    *out_defaults = (dao_step_plan_config_t){.mode = DAO_STEP_PLAN_OFF};
    const char *text = dao_setting("DAO_STEP_PLAN");
    dao_status_t status = DAO_OK;
    if (text != NULL && (status = dao_step_plan_mode_parse(text, &out_defaults->mode)) != DAO_OK) {
        dao_error_prefix("DAO_STEP_PLAN: ");
        return status;
    }
    const struct {
        const char *name;
        uint32_t *count;
    } counts[] = {{"DAO_STEP_PLAN_START", &out_defaults->start_step},
                  {"DAO_STEP_PLAN_STOP", &out_defaults->stop_step},
                  {"DAO_STEP_PLAN_STABLE", &out_defaults->stable_count},
                  {"DAO_STEP_PLAN_MAX", &out_defaults->max_count}};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]) && status == DAO_OK; i++) {
        status = count_find(counts[i].name, counts[i].count);
    }
    return status;
}

dao_status_t dao_step_plan_config_check(const char *place, const dao_step_plan_config_t *config)
{
    if ((int)config->mode < DAO_STEP_PLAN_DEFAULT || (int)config->mode > (int)MODE_COUNT) {
        return dao_error(DAO_ERR_INVALID, "%s: step_plan.mode is %d; it goes from 0 (default) to %zu", place,
                         (int)config->mode, MODE_COUNT);
    }
    if ((int)config->worker < DAO_STEP_PLAN_WORKER_CALLER ||
        (int)config->worker > DAO_STEP_PLAN_WORKER_SUBMIT ||
        (config->worker == DAO_STEP_PLAN_WORKER_SUBMIT) != (config->submit != NULL)) {
        return dao_error(DAO_ERR_INVALID,
                         "%s: step_plan.worker is %d, step_plan.submit %s; only the worker %d needs it",
                         place, (int)config->worker, config->submit != NULL ? "is set" : "is NULL",
                         DAO_STEP_PLAN_WORKER_SUBMIT);
    }
    if (config->mode == DAO_STEP_PLAN_BINS && (int)config->worker != DAO_STEP_PLAN_WORKER_CALLER) {
        return dao_error(DAO_ERR_INVALID, "%s: step_plan.worker is %d; bins are made by who begins a step",
                         place, (int)config->worker);
    }
    if ((int)config->method < 0 || (int)config->method >= DAO_PLAN_METHOD_COUNT) {
        return dao_error(DAO_ERR_INVALID, "%s: step_plan.method is %d; it goes from 0 (best) to %d", place,
                         (int)config->method, DAO_PLAN_METHOD_COUNT - 1);
    }
    if (config->allocation_count > DAO_STEP_PLAN_ALLOCATION_COUNT_MAX) {
        return dao_error(DAO_ERR_INVALID, "%s: step_plan.allocation_count is %" PRIu32 "; it is at most %u",
                         place, config->allocation_count, DAO_STEP_PLAN_ALLOCATION_COUNT_MAX);
    }
    return DAO_OK;
}

/* What a config leaves open is as the environment says. */
static dao_step_plan_config_t effective(const dao_step_plan_config_t *config,
                                        const dao_step_plan_config_t *defaults)
{
    dao_step_plan_config_t step_plan = *config;
    step_plan.mode = config->mode != DAO_STEP_PLAN_DEFAULT ? config->mode : defaults->mode;
    step_plan.start_step = config->start_step != 0 ? config->start_step : defaults->start_step;
    step_plan.stop_step = config->stop_step != 0 ? config->stop_step : defaults->stop_step;
    step_plan.stable_count = config->stable_count != 0 ? config->stable_count : defaults->stable_count;
    step_plan.max_count = config->max_count != 0 ? config->max_count : defaults->max_count;
    return step_plan;
}

bool dao_step_plan_is_on(const dao_step_plan_config_t *config, const dao_step_plan_config_t *defaults)
{
    return effective(config, defaults).mode != DAO_STEP_PLAN_OFF;
}

dao_status_t dao_step_plan_wrap(dao_place_t place, const dao_step_plan_config_t *config,
                                const dao_step_plan_config_t *defaults, dao_allocator_t **allocator)
{
    char text[DAO_PLACE_TEXT_BYTES];
    dao_planned_config_t planned = {.name = dao_place_format(place, text),
                                    .step_plan = effective(config, defaults),
                                    .is_host_memory = place.kind != DAO_PLACE_KIND_DEVICE};
    return planned.step_plan.mode == DAO_STEP_PLAN_OFF ? DAO_OK
                                                       : dao_planned_create(&planned, *allocator, allocator);
}

dao_allocator_t *dao_step_plan_of(dao_allocator_t *allocator)
{
    allocator = dao_stream_ordered_behind(allocator);
    allocator = dao_is_hardened(allocator) ? dao_hardened_inner(allocator) : allocator;
    allocator = dao_poisoned_behind(allocator);
    return dao_is_planned(allocator) ? allocator : NULL;
}

void dao_step_plan_settle(dao_allocator_t *allocator)
{
    dao_allocator_t *planned = dao_step_plan_of(allocator);
    if (planned != NULL) {
        dao_planned_enable(planned, false);
    }
}
