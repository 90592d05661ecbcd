/* SPDX-License-Identifier: Apache-2.0 */
/* The record of one start: references, the list of live handles, and forks.

   Invariants: a core has at least one reference until its end. Its list of live handles is empty then, since
   each of them holds a reference. */
#include "runtime/core/core.h"

#include "base/report/error.h"

#include <inttypes.h>

dao_started_t dao_started;

static _Atomic uint32_t fork_count;

/* ---- references ---- */

dao_core_t *dao_core_retain(dao_core_t *core)
{
    uint32_t before = atomic_fetch_add_explicit(&core->reference_count, 1, memory_order_relaxed);
    DAO_ASSERT(before > 0);
    (void)before;
    return core;
}

void dao_core_release(dao_core_t *core)
{
    uint32_t before = atomic_fetch_sub_explicit(&core->reference_count, 1, memory_order_acq_rel);
    DAO_ASSERT(before > 0);
    if (before == 1) {
        DAO_ASSERT(core->first_live == NULL);
        core->end(core);
    }
}

/* ---- live handles ---- */

void dao_live_add(dao_core_t *core, dao_live_t *live)
{
    dao_mutex_lock(&core->lock);
    live->previous = NULL;
    live->next = core->first_live;
    if (live->next != NULL) {
        live->next->previous = live;
    }
    core->first_live = live;
    dao_mutex_unlock(&core->lock);
}

void dao_live_remove(dao_core_t *core, dao_live_t *live)
{
    dao_mutex_lock(&core->lock);
    if (live->next != NULL) {
        live->next->previous = live->previous;
    }
    if (live->previous != NULL) {
        live->previous->next = live->next;
    } else {
        DAO_ASSERT(core->first_live == live);
        core->first_live = live->next;
    }
    dao_mutex_unlock(&core->lock);
}

/* ---- forks ---- */

uint32_t dao_core_fork_count(void)
{
    return atomic_load_explicit(&fork_count, memory_order_relaxed);
}

void dao_core_note_fork(void)
{
    atomic_fetch_add(&fork_count, 1);
}

bool dao_core_is_forked(const dao_core_t *core)
{
    return core->fork_count != dao_core_fork_count();
}

/* ---- places ---- */

int32_t dao_core_own_add(dao_core_t *core, dao_backend_device_t *device,
                         void (*end)(dao_backend_device_t *device))
{
    dao_mutex_lock(&core->lock);
    int32_t index = atomic_load(&core->device_end);
    if (index < DAO_DEVICE_COUNT_MAX) {
        core->own_devices[index] = device;
        core->own_device_end = end;
        atomic_store_explicit(&core->device_end, index + 1, memory_order_release);
    }
    dao_mutex_unlock(&core->lock);
    return index < DAO_DEVICE_COUNT_MAX ? index : -1;
}

dao_status_t dao_core_no_device(const dao_core_t *core, int32_t device_index)
{
    return dao_error(DAO_ERR_NO_DEVICE,
                     "device:%" PRId32 " is not there: the %s backend has %" PRId32 " devices", device_index,
                     core->ops->name, core->device_count);
}

dao_status_t dao_place_check(const dao_core_t *core, dao_place_t place)
{
    char text[DAO_PLACE_TEXT_BYTES];
    if (place.kind == DAO_PLACE_KIND_CPU && place.index == 0) {
        return DAO_OK;
    }
    if (place.kind != DAO_PLACE_KIND_PINNED && place.kind != DAO_PLACE_KIND_DEVICE) {
        return dao_error(DAO_ERR_INVALID,
                         "\"%s\" is not a place; use dao_cpu_place(), dao_pinned_place() or "
                         "dao_device_place()",
                         dao_place_format(place, text));
    }
    return place.index >= 0 && place.index < dao_core_device_end(core)
               ? DAO_OK
               : dao_core_no_device(core, place.index);
}
