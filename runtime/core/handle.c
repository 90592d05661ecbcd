/* SPDX-License-Identifier: Apache-2.0 */
/* Counting references, and a ring of the latest dead handles.

   Invariant: each handle in the ring has no references. */
#include "runtime/core/handle.h"

#include "base/memory/host.h"
#include "base/report/error.h"
#include "base/threads/sync.h"

static dao_mutex_t lock = DAO_MUTEX_INITIALIZER(DAO_RANK_LEAF);
DAO_HELD_OVER_FORK(lock)
static dao_handle_t *resting[DAO_HANDLE_REST_COUNT]; /* each has count 0 */
static uint32_t next_rest;                           /* where the one that rests longest is */

dao_status_t dao_handle_retain(dao_handle_t *handle, const char *noun)
{
    if (handle == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_%s_retain: the handle is NULL", noun);
    }
    uint32_t count = atomic_load_explicit(&handle->reference_count, memory_order_relaxed);
    do {
        if (count == 0 || count == UINT32_MAX) {
            return dao_error(DAO_ERR_INVALID, "dao_%s_retain: the handle %p has %s", noun, (void *)handle,
                             count == 0 ? "no references: it was released once too often"
                                        : "too many references");
        }
    } while (!atomic_compare_exchange_weak_explicit(&handle->reference_count, &count, count + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return DAO_OK;
}

dao_status_t dao_handle_release(dao_handle_t *handle, const char *noun, bool *out_is_last)
{
    uint32_t count = atomic_load_explicit(&handle->reference_count, memory_order_relaxed);
    do {
        if (count == 0) {
            return dao_error(DAO_ERR_INVALID, "dao_%s_release: the handle %p has no references", noun,
                             (void *)handle);
        }
    } while (!atomic_compare_exchange_weak_explicit(&handle->reference_count, &count, count - 1,
                                                    memory_order_acq_rel, memory_order_relaxed));
    *out_is_last = count == 1;
    return DAO_OK;
}

static bool is_valid_locked(void)
{
    for (uint32_t i = 0; i < DAO_HANDLE_REST_COUNT; i++) {
        if (resting[i] != NULL && atomic_load(&resting[i]->reference_count) != 0) {
            return false;
        }
    }
    return true;
}

void dao_handle_bury(dao_handle_t *handle)
{
    DAO_ASSERT(atomic_load(&handle->reference_count) == 0);
    dao_mutex_lock(&lock);
    DAO_ASSERT_HEAVY(is_valid_locked());
    dao_handle_t *oldest = resting[next_rest];
    resting[next_rest] = handle;
    next_rest = (next_rest + 1) % DAO_HANDLE_REST_COUNT;
    dao_mutex_unlock(&lock);
    dao_host_free(oldest);
}
