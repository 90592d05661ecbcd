/* SPDX-License-Identifier: Apache-2.0 */
/* Serving at a place: settings, and the public calls of <dao/serving.h>, which go to the allocator in front
   of the place's others (allocators/step_plan/planned.c). */
#include "runtime/place/serving.h"

#include "allocators/layers/hardened.h"
#include "allocators/layers/ordered.h"
#include "base/report/callback.h"
#include "base/report/error.h"
#include "base/report/names.h"
#include "runtime/core/context_internal.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

static const dao_named_t modes[] = {
#define MODE_ROW(number, symbol, name, text) {name, DAO_SERVING_##symbol},
    DAO_SERVING_LIST(MODE_ROW)
#undef MODE_ROW
        {NULL, 0}};

#define MODE_COUNT (sizeof(modes) / sizeof(modes[0]) - 1)

const char *dao_serving_mode_name(dao_serving_mode_t mode)
{
    return mode == DAO_SERVING_DEFAULT ? "default" : dao_name_of(modes, (int)mode);
}

dao_status_t dao_serving_mode_parse(const char *text, dao_serving_mode_t *out_mode)
{
    int value;
    dao_status_t status = dao_name_parse(modes, "mode of serving", text, out_mode != NULL ? &value : NULL);
    if (status == DAO_OK) {
        *out_mode = (dao_serving_mode_t)value;
    }
    return status;
}

/* ---- settings ---- */

/* Reads a number of iterations from the environment; what is not set stays as it is. */
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
            return dao_error(DAO_ERR_INVALID,
                             "%s is \"%.64s\"; write a number of iterations, at most %" PRIu32, name, text,
                             UINT32_MAX);
        }
    }
    *count = (uint32_t)value;
    return DAO_OK;
}

dao_status_t dao_serving_find(dao_serving_config_t *out_defaults)
{
    *out_defaults = (dao_serving_config_t){.mode = DAO_SERVING_OFF};
    const char *text = getenv("DAO_SERVING");
    dao_status_t status = DAO_OK;
    if (text != NULL && text[0] != '\0' &&
        (status = dao_serving_mode_parse(text, &out_defaults->mode)) != DAO_OK) {
        dao_error_prefix("DAO_SERVING: ");
        return status;
    }
    const struct {
        const char *name;
        uint32_t *count;
    } counts[] = {{"DAO_SERVING_START", &out_defaults->start_iteration},
                  {"DAO_SERVING_STOP", &out_defaults->stop_iteration},
                  {"DAO_SERVING_STABLE", &out_defaults->stable_count},
                  {"DAO_SERVING_MAX", &out_defaults->max_count}};
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]) && status == DAO_OK; i++) {
        status = count_find(counts[i].name, counts[i].count);
    }
    return status;
}

dao_status_t dao_serving_config_check(const char *place, const dao_serving_config_t *config)
{
    if ((int)config->mode < DAO_SERVING_DEFAULT || (int)config->mode > (int)MODE_COUNT) {
        return dao_error(DAO_ERR_INVALID, "%s: serving.mode is %d; it goes from 0 (default) to %zu", place,
                         (int)config->mode, MODE_COUNT);
    }
    if ((int)config->worker < DAO_SERVING_WORKER_CALLER || (int)config->worker > DAO_SERVING_WORKER_SUBMIT ||
        (config->worker == DAO_SERVING_WORKER_SUBMIT) != (config->submit != NULL)) {
        return dao_error(DAO_ERR_INVALID,
                         "%s: serving.worker is %d, serving.submit %s; only the worker %d needs it", place,
                         (int)config->worker, config->submit != NULL ? "is set" : "is NULL",
                         DAO_SERVING_WORKER_SUBMIT);
    }
    if (config->mode == DAO_SERVING_BINS && (int)config->worker != DAO_SERVING_WORKER_CALLER) {
        return dao_error(DAO_ERR_INVALID,
                         "%s: serving.worker is %d; bins are made by who begins an iteration", place,
                         (int)config->worker);
    }
    if ((int)config->method < 0 || (int)config->method >= DAO_PLAN_METHOD_COUNT) {
        return dao_error(DAO_ERR_INVALID, "%s: serving.method is %d; it goes from 0 (best) to %d", place,
                         (int)config->method, DAO_PLAN_METHOD_COUNT - 1);
    }
    if (config->allocation_count > DAO_SERVING_ALLOCATION_COUNT_MAX) {
        return dao_error(DAO_ERR_INVALID, "%s: serving.allocation_count is %" PRIu32 "; it is at most %u",
                         place, config->allocation_count, DAO_SERVING_ALLOCATION_COUNT_MAX);
    }
    return DAO_OK;
}

/* What a config leaves open is as the environment says. */
static dao_serving_config_t effective(const dao_serving_config_t *config,
                                      const dao_serving_config_t *defaults)
{
    dao_serving_config_t serving = *config;
    serving.mode = config->mode != DAO_SERVING_DEFAULT ? config->mode : defaults->mode;
    serving.start_iteration =
        config->start_iteration != 0 ? config->start_iteration : defaults->start_iteration;
    serving.stop_iteration = config->stop_iteration != 0 ? config->stop_iteration : defaults->stop_iteration;
    serving.stable_count = config->stable_count != 0 ? config->stable_count : defaults->stable_count;
    serving.max_count = config->max_count != 0 ? config->max_count : defaults->max_count;
    return serving;
}

bool dao_serving_is_on(const dao_serving_config_t *config, const dao_serving_config_t *defaults)
{
    return effective(config, defaults).mode != DAO_SERVING_OFF;
}

dao_status_t dao_serving_wrap(dao_place_t place, const dao_serving_config_t *config,
                              const dao_serving_config_t *defaults, dao_holds_t *holds,
                              dao_allocator_t **allocator)
{
    char text[DAO_PLACE_TEXT_BYTES];
    dao_planned_config_t planned = {.name = dao_place_format(place, text),
                                    .serving = effective(config, defaults),
                                    .holds = holds,
                                    .is_host_memory = place.kind != DAO_PLACE_KIND_DEVICE};
    return planned.serving.mode == DAO_SERVING_OFF ? DAO_OK
                                                   : dao_planned_create(&planned, *allocator, allocator);
}

/* Gives the allocator that serves from plans in front of a place's own, or NULL. */
static dao_allocator_t *planned_of(dao_allocator_t *allocator)
{
    allocator = dao_ordered_behind(allocator);
    allocator = dao_is_hardened(allocator) ? dao_hardened_inner(allocator) : allocator;
    return dao_is_planned(allocator) ? allocator : NULL;
}

void dao_serving_settle(dao_allocator_t *allocator)
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
    if (dao_planned_at_border()) {
        return dao_error(DAO_ERR_REENTRANT,
                         "this thread is in a call of dao/serving.h, whose callback this is; "
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
                           "%s: %s is not served from plans; dao_place_configure() or DAO_SERVING say so",
                           function, dao_place_format(place, text))
               : status;
}

dao_status_t dao_iteration_begin(dao_place_t place)
{
    dao_allocator_t *planned;
    dao_status_t status = find(place, &planned);
    return status == DAO_OK && planned != NULL ? dao_planned_begin(planned) : status;
}

dao_status_t dao_iteration_end(dao_place_t place)
{
    dao_allocator_t *planned;
    dao_status_t status = find(place, &planned);
    return status == DAO_OK && planned != NULL ? dao_planned_end(planned) : status;
}

uint64_t dao_serving_key_set(uint64_t key)
{
    return dao_planned_key_set(key);
}

dao_status_t dao_serving_enable(dao_place_t place, bool is_enabled)
{
    dao_allocator_t *planned;
    dao_status_t status = find_planned(place, "dao_serving_enable", &planned);
    if (status == DAO_OK) {
        dao_planned_enable(planned, is_enabled);
    }
    return status;
}

dao_status_t dao_serving_wait(dao_place_t place, uint64_t timeout_ns)
{
    dao_allocator_t *planned;
    dao_status_t status = find_planned(place, "dao_serving_wait", &planned);
    return status == DAO_OK ? dao_planned_wait(planned, timeout_ns) : status;
}

dao_status_t dao_serving_reset(dao_place_t place)
{
    dao_allocator_t *planned;
    dao_status_t status = find_planned(place, "dao_serving_reset", &planned);
    return status == DAO_OK ? dao_planned_reset(planned) : status;
}

dao_status_t dao_serving_save(dao_place_t place, dao_write_t write, void *user)
{
    dao_allocator_t *planned;
    dao_status_t status = find_planned(place, "dao_serving_save", &planned);
    if (status == DAO_OK && write == NULL) {
        status = dao_error(DAO_ERR_INVALID, "dao_serving_save: write is NULL");
    }
    if (status != DAO_OK) {
        return status;
    }
    dao_callback_begin();
    status = dao_planned_save(planned, write, user);
    dao_callback_end();
    return status;
}

dao_status_t dao_serving_load(dao_place_t place, const char *text, size_t text_bytes)
{
    dao_allocator_t *planned;
    dao_status_t status = find_planned(place, "dao_serving_load", &planned);
    if (status == DAO_OK && text == NULL) {
        status = dao_error(DAO_ERR_INVALID, "dao_serving_load: text is NULL");
    }
    return status == DAO_OK ? dao_planned_load(planned, text, text_bytes) : status;
}

dao_status_t dao_serving_stats_get(dao_place_t place, dao_serving_stats_t *out_stats)
{
    dao_allocator_t *planned;
    dao_status_t status = find_planned(place, "dao_serving_stats_get", &planned);
    if (status == DAO_OK && out_stats == NULL) {
        status = dao_error(DAO_ERR_INVALID, "dao_serving_stats_get: out_stats is NULL");
    }
    if (status == DAO_OK) {
        dao_planned_stats_get(planned, out_stats);
    }
    return status;
}

dao_status_t dao_serving_walk(dao_place_t place, dao_serving_visit_t visit, void *user)
{
    dao_allocator_t *planned;
    dao_status_t status = find_planned(place, "dao_serving_walk", &planned);
    if (status == DAO_OK && visit == NULL) {
        status = dao_error(DAO_ERR_INVALID, "dao_serving_walk: visit is NULL");
    }
    if (status != DAO_OK) {
        return status;
    }
    dao_callback_begin();
    status = dao_planned_walk(planned, visit, user);
    dao_callback_end();
    return status;
}
