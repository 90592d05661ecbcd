/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of <dao/step_plan.h>, which go to the allocator with plans in front of a place's others
   (allocators/step_plan/planned.c). */
#include <dao/step_plan.h>

#include "allocators/step_plan/planned.h"
#include "base/report/callback.h"
#include "base/report/error.h"
#include "runtime/observe/event_ring.h"
#include "runtime/place/lookup.h"
#include "runtime/start/step_plan_settings.h"

/* Returns the allocator that serves a place from plans, starting the place if need be; NULL where there is
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
    dao_status_t status = dao_place_find(place, &allocator, &runtime);
    if (status != DAO_OK) {
        return status;
    }
    *out_planned = dao_step_plan_of(allocator);
    return DAO_OK;
}

/* The same for calls that make no sense elsewhere. */
static dao_status_t find_planned(dao_place_t place, const char *function, dao_allocator_t **out_planned)
{
    char text[DAO_PLACE_TEXT_BYTES];
    dao_status_t status = find(place, out_planned);
    return status == DAO_OK && *out_planned == NULL
               ? dao_error(DAO_ERR_UNSUPPORTED,
                           "%s: %s has no step plans; dao_place_configure() or DAO_STEP_PLAN ask for them",
                           function, dao_place_format(place, text))
               : status;
}

dao_status_t dao_step_begin(dao_place_t place)
{
    dao_allocator_t *planned;
    dao_status_t status = find(place, &planned);
    if (status == DAO_OK && dao_events_are_on()) {
        dao_recording_note_step(place);
    }
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
