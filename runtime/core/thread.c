/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread carries with it: the current device, the tag and the leases that it allocates under, and
   whether it is inside of a segment callback.

   Invariants: dao_lease_count_of_thread is the length of the list of stays. No two of them are on one
   device. */
#include "runtime/core/thread.h"

#include "base/report/error.h"

DAO_FAST_THREAD_LOCAL bool dao_thread_is_in_callback;
DAO_FAST_THREAD_LOCAL dao_tag_t dao_tag_of_thread;
DAO_FAST_THREAD_LOCAL uint32_t dao_lease_count_of_thread;

static _Thread_local dao_lease_stay_t *stays_of_thread;
static _Thread_local int32_t current_device;

dao_status_t dao_thread_reentrant_error(void)
{
    return dao_error(DAO_ERR_REENTRANT,
                     "a segment callback must not use the library: an allocator is locked");
}

void dao_thread_device_set(int32_t device_index)
{
    current_device = device_index;
}

int32_t dao_device_get_current(void)
{
    return current_device;
}

/* ---- leases ---- */

static bool stays_are_valid(void)
{
    uint32_t count = 0;
    for (const dao_lease_stay_t *stay = stays_of_thread; stay != NULL; stay = stay->next) {
        count++;
        for (const dao_lease_stay_t *other = stay->next; other != NULL; other = other->next) {
            if (other->runtime == stay->runtime) {
                return false;
            }
        }
    }
    return count == dao_lease_count_of_thread;
}

/* Returns where this thread's stay in a lease hangs; NULL hangs there if it is not inside. */
static dao_lease_stay_t **stay_of(const dao_lease_t *lease)
{
    dao_lease_stay_t **link = &stays_of_thread;
    while (*link != NULL && (*link)->lease != lease) {
        link = &(*link)->next;
    }
    return link;
}

void dao_thread_lease_enter(dao_lease_stay_t *stay)
{
    DAO_ASSERT(dao_thread_lease_find(stay->runtime) == 0);
    stay->next = stays_of_thread;
    stays_of_thread = stay;
    dao_lease_count_of_thread++;
    DAO_ASSERT_HEAVY(stays_are_valid());
}

dao_lease_stay_t *dao_thread_lease_leave(const dao_lease_t *lease)
{
    dao_lease_stay_t **link = stay_of(lease);
    dao_lease_stay_t *stay = *link;
    DAO_ASSERT(stay != NULL);
    *link = stay->next;
    dao_lease_count_of_thread--;
    DAO_ASSERT_HEAVY(stays_are_valid());
    return stay;
}

bool dao_thread_is_inside(const dao_lease_t *lease)
{
    return *stay_of(lease) != NULL;
}

uint32_t dao_thread_lease_find(const dao_runtime_t *runtime)
{
    for (const dao_lease_stay_t *stay = stays_of_thread; stay != NULL; stay = stay->next) {
        if (stay->runtime == runtime) {
            return stay->number;
        }
    }
    return 0;
}
