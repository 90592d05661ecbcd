/* SPDX-License-Identifier: Apache-2.0 */
/* Registered host memory. The core lists the ranges, so that all backends answer alike what overlaps, is not
   there, or is not the beginning of a range. The backend is called without the lock. The state of a
   registration says meanwhile that it is taken:

       state    meaning                          left by
       COMING   dao_host_register() is running   the backend's answer: THERE, or out of the list
       THERE    it is registered                 dao_host_unregister(), or the library's stop: LEAVING
       LEAVING  it is being unregistered         the backend's answer: out of the list, or THERE

   Invariants: ranges in the list do not overlap. A registration holds a reference to the runtime of its
   device. */
#include <dao/host_register.h>

#include "base/log.h"
#include "base/memory/host.h"
#include "base/report/error.h"
#include "runtime/core/thread.h"
#include "runtime/device/runtime.h"
#include "runtime/own/own_device.h"
#include "runtime/start/context.h"

#include <inttypes.h>

typedef enum registration_state { COMING, THERE, LEAVING } registration_state_t;

struct dao_registration {
    dao_registration_t *next;
    char *address;
    size_t size_bytes;
    dao_runtime_t *runtime;     /* a reference of its own */
    dao_live_t live;            /* while it is THERE or LEAVING */
    registration_state_t state; /* guarded by the core's lock */
};

/* ---- the list ---- */

/* Returns true if a registration shares bytes with a range, which may end where the address space does. */
static bool overlaps(const dao_registration_t *registration, const void *address, size_t size_bytes)
{
    uintptr_t own = (uintptr_t)registration->address;
    uintptr_t other = (uintptr_t)address;
    return own <= other ? other - own < registration->size_bytes : own - other < size_bytes;
}

/* The first one that shares bytes with a range; NULL: none does. */
static dao_registration_t *find_locked(const dao_core_t *core, const void *address, size_t size_bytes)
{
    dao_registration_t *registration = core->first_registration;
    while (registration != NULL && !overlaps(registration, address, size_bytes)) {
        registration = registration->next;
    }
    return registration;
}

static bool is_valid_locked(const dao_core_t *core)
{
    for (const dao_registration_t *one = core->first_registration; one != NULL; one = one->next) {
        bool is_whole = one->size_bytes > 0 && one->runtime != NULL;
        for (const dao_registration_t *other = one->next; other != NULL; other = other->next) {
            is_whole = is_whole && !overlaps(one, other->address, other->size_bytes);
        }
        if (!is_whole) {
            return false;
        }
    }
    return true;
}

static void lock(dao_core_t *core)
{
    dao_mutex_lock(&core->lock);
    DAO_ASSERT_HEAVY(is_valid_locked(core));
}

static void unlock(dao_core_t *core)
{
    DAO_ASSERT_HEAVY(is_valid_locked(core));
    dao_mutex_unlock(&core->lock);
}

static void settle(dao_core_t *core, dao_registration_t *registration)
{
    lock(core);
    DAO_ASSERT(registration->state != THERE);
    registration->state = THERE;
    unlock(core);
}

/* Takes a registration out of the list, and ends it. */
static void discard(dao_core_t *core, dao_registration_t *registration)
{
    lock(core);
    DAO_ASSERT(registration->state != THERE); /* or another thread might take it */
    dao_registration_t **link = &core->first_registration;
    while (*link != registration) {
        link = &(*link)->next;
    }
    *link = registration->next;
    unlock(core);
    dao_runtime_release(registration->runtime);
    dao_host_free(registration);
}

/* ---- the end ---- */

/* Unregisters with the backend one that is LEAVING. What was registered with a lost device went with it. */
static dao_status_t give_up(dao_core_t *core, dao_registration_t *registration)
{
    DAO_ASSERT(registration->state == LEAVING);
    dao_runtime_t *runtime = registration->runtime;
    dao_status_t status = DAO_OK;
    if (!dao_runtime_is_lost(runtime)) {
        status =
            dao_runtime_told(runtime, runtime->ops->host_unregister(runtime->device, registration->address));
    }
    if (status != DAO_OK && status != DAO_ERR_DEVICE_LOST) {
        settle(core, registration);
        return status;
    }
    dao_live_remove(core, &registration->live);
    discard(core, registration);
    return DAO_OK;
}

/* Unregisters everything, as the library stops; no other call is under way. */
static void registrations_end(dao_core_t *core)
{
    while (core->first_registration != NULL) {
        dao_registration_t *registration = core->first_registration;
        registration->state = LEAVING;
        if (give_up(core, registration) != DAO_OK) {
            dao_log(DAO_LOG_LEVEL_ERROR, "%zu bytes at %p could not be unregistered: %s",
                    registration->size_bytes, (void *)registration->address, dao_last_message());
            registration->state = LEAVING; /* it goes all the same */
            dao_live_remove(core, &registration->live);
            discard(core, registration);
        }
    }
}

/* ---- registering ---- */

/* Enters a registration, COMING. False if it overlaps another one. */
static bool enter(dao_core_t *core, dao_registration_t *registration)
{
    lock(core);
    bool is_free = find_locked(core, registration->address, registration->size_bytes) == NULL;
    if (is_free) {
        registration->next = core->first_registration;
        core->first_registration = registration;
        core->registrations_end = registrations_end;
    }
    unlock(core);
    return is_free;
}

/* Returns true if an address is in a live block of a pinned place that a device has locked: of its own, or of
   a program's memory on it. */
static bool is_pinned(const dao_core_t *core, const void *address)
{
    bool is_found = false;
    for (int32_t i = 0; i < dao_core_device_end(core) && !is_found; i++) {
        dao_runtime_t *runtime = dao_runtime_started(i);
        dao_block_t block;
        is_found = runtime != NULL && runtime->ops != &dao_own_ops &&
                   runtime->pinned_memory->ops->query(runtime->pinned_memory, address, &block) == DAO_OK;
    }
    return is_found;
}

static dao_status_t check_range(const void *address, size_t size_bytes)
{
    if (address == NULL || size_bytes == 0) {
        return dao_error(DAO_ERR_INVALID, "dao_host_register: %s",
                         address == NULL ? "address is NULL" : "size_bytes is 0");
    }
    return dao_error_unless_range("dao_host_register", address, size_bytes);
}

/* Makes a registration and enters it. */
static dao_status_t begin(dao_runtime_t *runtime, void *address, size_t size_bytes,
                          dao_registration_t **out_registration)
{
    const dao_core_t *core = runtime->core;
    if (is_pinned(core, address) || is_pinned(core, (const void *)((uintptr_t)address + size_bytes - 1))) {
        return dao_error(DAO_ERR_BUSY,
                         "dao_host_register: a part of %zu bytes at %p is of a pinned place, whose memory "
                         "devices use as it is",
                         size_bytes, address);
    }
    dao_registration_t *registration = dao_host_calloc(1, sizeof(*registration));
    if (registration == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "dao_host_register: no host memory to keep book of it");
    }
    *registration = (dao_registration_t){.address = address,
                                         .size_bytes = size_bytes,
                                         .runtime = dao_runtime_retain(runtime),
                                         .live = {.noun = "registered memory",
                                                  .place = {DAO_PLACE_KIND_CPU, 0},
                                                  .address = address,
                                                  .size_bytes = size_bytes},
                                         .state = COMING};
    if (!enter(runtime->core, registration)) {
        dao_runtime_release(runtime);
        dao_host_free(registration);
        return dao_error(DAO_ERR_BUSY,
                         "dao_host_register: a part of %zu bytes at %p is registered already; give that up "
                         "first with dao_host_unregister()",
                         size_bytes, address);
    }
    *out_registration = registration;
    return DAO_OK;
}

static dao_status_t register_with(dao_runtime_t *runtime, void *address, size_t size_bytes)
{
    dao_registration_t *registration = NULL;
    dao_status_t status = begin(runtime, address, size_bytes, &registration);
    if (status != DAO_OK) {
        return status;
    }
    dao_core_t *core = runtime->core;
    status = dao_runtime_told(runtime, runtime->ops->host_register(runtime->device, address, size_bytes));
    if (status != DAO_OK) {
        discard(core, registration);
        dao_error_prefix("dao_host_register: ");
        return status;
    }
    dao_live_add(core, &registration->live);
    settle(core, registration);
    return DAO_OK;
}

dao_status_t dao_host_register(int32_t device_index, void *address, size_t size_bytes)
{
    dao_runtime_t *runtime;
    dao_status_t status = check_range(address, size_bytes);
    if (status == DAO_OK) {
        status = dao_runtime_borrow(device_index, &runtime);
    }
    if (status == DAO_OK) {
        status = dao_runtime_health(runtime, "dao_host_register");
    }
    if (status != DAO_OK) {
        return status;
    }
    return runtime->ops->host_register != NULL
               ? register_with(runtime, address, size_bytes)
               : dao_error(DAO_ERR_UNSUPPORTED, "dao_host_register: the %s backend registers no host memory",
                           runtime->ops->name);
}

/* ---- giving up ---- */

/* Makes the registration that begins at an address one that is LEAVING. */
static dao_status_t take(dao_core_t *core, const char *address, dao_registration_t **out_registration)
{
    dao_status_t status = DAO_OK;
    lock(core);
    dao_registration_t *registration = find_locked(core, address, 1);
    const char *begin = registration != NULL ? registration->address : NULL;
    if (begin == NULL) {
        status = DAO_ERR_FOREIGN_POINTER;
    } else if (begin != address) {
        status = DAO_ERR_INTERIOR_POINTER;
    } else if (registration->state != THERE) {
        status = DAO_ERR_BUSY;
    } else {
        registration->state = LEAVING;
    }
    unlock(core);
    *out_registration = registration;
    switch (status) {
    case DAO_ERR_FOREIGN_POINTER:
        return dao_error(status, "dao_host_unregister: %p is not registered", (const void *)address);
    case DAO_ERR_INTERIOR_POINTER:
        return dao_error(status, "dao_host_unregister: %p lies inside of what was registered at %p",
                         (const void *)address, (const void *)begin);
    case DAO_ERR_BUSY:
        return dao_error(status, "dao_host_unregister: another thread registers %p, or gives it up",
                         (const void *)address);
    default:
        return status;
    }
}

dao_status_t dao_host_unregister(void *address)
{
    dao_core_t *core;
    dao_registration_t *registration = NULL;
    if (address == NULL) {
        return DAO_OK;
    }
    dao_status_t status = dao_thread_check();
    if (status == DAO_OK) {
        status = dao_context_enter(&core);
    }
    if (status == DAO_OK) {
        status = take(core, address, &registration);
    }
    if (status != DAO_OK) {
        return status;
    }
    status = give_up(core, registration);
    if (status != DAO_OK) {
        dao_error_prefix("dao_host_unregister: %p stays registered: ", address);
    }
    return status;
}

/* ---- where devices find it ---- */

static bool is_registered(dao_core_t *core, const char *address)
{
    lock(core);
    const dao_registration_t *registration = find_locked(core, address, 1);
    bool is_there = registration != NULL && registration->state == THERE;
    unlock(core);
    return is_there;
}

dao_status_t dao_host_device_address_query(int32_t device_index, void *address, void **out_address)
{
    if (address == NULL || out_address == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_host_device_address_query: %s is NULL",
                         address == NULL ? "address" : "out_address");
    }
    dao_runtime_t *runtime;
    dao_status_t status = dao_runtime_borrow(device_index, &runtime);
    if (status == DAO_OK) {
        status = dao_runtime_health(runtime, "dao_host_device_address_query");
    }
    if (status != DAO_OK) {
        return status;
    }
    if (runtime->ops->host_device_address == NULL) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "dao_host_device_address_query: devices of the %s backend reach no host memory",
                         runtime->ops->name);
    }
    dao_core_t *core = runtime->core;
    if (!is_registered(core, address) && !is_pinned(core, address)) {
        return dao_error(DAO_ERR_FOREIGN_POINTER,
                         "dao_host_device_address_query: %p is neither in a pinned place nor registered; see "
                         "dao_host_register()",
                         address);
    }
    return dao_runtime_told(runtime,
                            runtime->ops->host_device_address(runtime->device, address, out_address));
}
