/* SPDX-License-Identifier: Apache-2.0 */
/* Step plans of a place: settings, and the public calls of <dao/step_plan.h>, which go to the allocator in
   front of the place's others (allocators/step_plan/planned.c). */
#include "runtime/place/step_plan.h"

#include "allocators/layers/hardened.h"
#include "allocators/layers/stream_ordered.h"
#include "base/report/callback.h"
#include "base/report/error.h"
#include "base/report/names.h"
#include "runtime/core/context_internal.h"

#include <inttypes.h>
#include <stdlib.h>
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
    const char *text = getenv(name);
    if (text == NULL || text[0] == '\0') {
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
    const char *text = getenv("DAO_STEP_PLAN");
    dao_status_t status = DAO_OK;
    if (text != NULL && text[0] != '\0' &&
        (status = dao_step_plan_mode_parse(text, &out_defaults->mode)) != DAO_OK) {
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
                                const dao_step_plan_config_t *defaults, dao_stream_fences_t *fences,
                                dao_allocator_t **allocator)
{
    char text[DAO_PLACE_TEXT_BYTES];
    dao_planned_config_t planned = {.name = dao_place_format(place, text),
                                    .step_plan = effective(config, defaults),
                                    .fences = fences,
                                    .is_host_memory = place.kind != DAO_PLACE_KIND_DEVICE};
    return planned.step_plan.mode == DAO_STEP_PLAN_OFF ? DAO_OK
                                                       : dao_planned_create(&planned, *allocator, allocator);
}

/* Gives the allocator that serves from plans in front of a place's own, or NULL. */
static dao_allocator_t *planned_of(dao_allocator_t *allocator)
{
    allocator = dao_stream_ordered_behind(allocator);
    allocator = dao_is_hardened(allocator) ? dao_hardened_inner(allocator) : allocator;
    return dao_is_planned(allocator) ? allocator : NULL;
}

void dao_step_plan_settle(dao_allocator_t *allocator)
{
    dao_allocator_t *planned = planned_of(allocator);
    if (planned != NULL) {
        dao_planned_enable(planned, false);
    }
}

/* ---- calls ---- */

/* Gives the allocator that serves a place from plans, starting the place if need be; NULL where there is
   none. */
static dao_status_t find(dao_place_t place, dao_allocator_t **out_planned)
{
    if (dao_planned_at_boundary()) {
        return dao_error(DAO_ERR_REENTRANT,
                         "this thread is in a call of dao/step_plan.h, whose callback this is; "
                         "make this call when that one has returned");
    }
    dao_allocator_t *allocator;
    dao_runtime_t *runtime;
    dao_status_t status = dao_place_allocator(place, true, &allocator, &runtime);
    if (status != DAO_OK) {
        return status;
    }
    *out_planned = planned_of(allocator);
    return DAO_OK;
}

/* The same for calls that make no sense elsewhere. */
static dao_status_t find_planned(dao_place_t place, const char *function, dao_allocator_t **out_planned)
{
    char text[DAO_PLACE_TEXT_BYTES];
    dao_status_t status = find(place, out_planned);
    return status == DAO_OK && *out_planned == NULL
               ? dao_error(DAO_ERR_UNSUPPORTED,
                           "%s: %s is not served from plans; dao_place_configure() or DAO_STEP_PLAN say so",
                           function, dao_place_format(place, text))
               : status;
}

dao_status_t dao_step_begin(dao_place_t place)
{
    dao_allocator_t *planned;
    dao_status_t status = find(place, &planned);
    return status == DAO_OK && planned != NULL ? dao_planned_begin(planned) : status;
}

dao_status_t dao_step_end(dao_place_t place)
{
    dao_allocator_t *planned;
    dao_status_t status = find(place, &planned);
    return status == DAO_OK && planned != NULL ? dao_planned_end(planned) : status;
}

uint64_t dao_step_plan_key_set(uint64_t key)
{
    return dao_planned_key_set(key);
}

dao_status_t dao_step_plan_enable(dao_place_t place, bool is_enabled)
{
    dao_allocator_t *planned;
    dao_status_t status = find_planned(place, "dao_step_plan_enable", &planned);
    if (status == DAO_OK) {
        dao_planned_enable(planned, is_enabled);
    }
    return status;
}

dao_status_t dao_step_plan_wait(dao_place_t place, uint64_t timeout_ns)
{
    dao_allocator_t *planned;
    dao_status_t status = find_planned(place, "dao_step_plan_wait", &planned);
    return status == DAO_OK ? dao_planned_wait(planned, timeout_ns) : status;
}

dao_status_t dao_step_plan_reset(dao_place_t place)
{
    dao_allocator_t *planned;
    dao_status_t status = find_planned(place, "dao_step_plan_reset", &planned);
    return status == DAO_OK ? dao_planned_reset(planned) : status;
}

dao_status_t dao_step_plan_save(dao_place_t place, dao_write_t write, void *user)
{
    dao_allocator_t *planned;
    dao_status_t status = find_planned(place, "dao_step_plan_save", &planned);
    if (status == DAO_OK && write == NULL) {
        status = dao_error(DAO_ERR_INVALID, "dao_step_plan_save: write is NULL");
    }
    if (status != DAO_OK) {
        return status;
    }
    dao_callback_begin();
    status = dao_planned_save(planned, write, user);
    dao_callback_end();
    return status;
}

dao_status_t dao_step_plan_load(dao_place_t place, const char *text, size_t text_bytes)
{
    dao_allocator_t *planned;
    dao_status_t status = find_planned(place, "dao_step_plan_load", &planned);
    if (status == DAO_OK && text == NULL) {
        status = dao_error(DAO_ERR_INVALID, "dao_step_plan_load: text is NULL");
    }
    return status == DAO_OK ? dao_planned_load(planned, text, text_bytes) : status;
}

dao_status_t dao_step_plan_stats_get(dao_place_t place, dao_step_plan_stats_t *out_stats)
{
    dao_allocator_t *planned;
    dao_status_t status = find_planned(place, "dao_step_plan_stats_get", &planned);
    if (status == DAO_OK && out_stats == NULL) {
        status = dao_error(DAO_ERR_INVALID, "dao_step_plan_stats_get: out_stats is NULL");
    }
    if (status == DAO_OK) {
        dao_planned_stats_get(planned, out_stats);
    }
    return status;
}

dao_status_t dao_step_plan_walk(dao_place_t place, dao_step_plan_visit_t visit, void *user)
{
    dao_allocator_t *planned;
    dao_status_t status = find_planned(place, "dao_step_plan_walk", &planned);
    if (status == DAO_OK && visit == NULL) {
        status = dao_error(DAO_ERR_INVALID, "dao_step_plan_walk: visit is NULL");
    }
    if (status != DAO_OK) {
        return status;
    }
    dao_callback_begin();
    status = dao_planned_walk(planned, visit, user);
    dao_callback_end();
    return status;
}
