/* SPDX-License-Identifier: Apache-2.0 */
/* One fault point is armed at a time, and one is met. Calls are counted down without a lock. */
#include "base/report/fault.h"

#if defined(DAO_FAULTS)

#include <stdatomic.h>

static _Atomic int armed_fault = -1;
static _Atomic bool armed_persistent;
static _Atomic int64_t remaining; /* calls before the failing one; below 0: it has failed */
static _Atomic uint64_t passed_counts[DAO_FAULT_COUNT];
static _Atomic uint64_t fired_count;
static _Thread_local bool is_exempt_here;
static _Atomic int met_fault = -1; /* the next call of it calls met_function */
static void (*met_function)(void *user);
static void *met_user;

static void meet(dao_fault_t fault)
{
    int met = (int)fault;
    if (atomic_load_explicit(&met_fault, memory_order_relaxed) == met &&
        atomic_compare_exchange_strong(&met_fault, &met, -1)) {
        met_function(met_user);
    }
}

bool dao_fault_fires(dao_fault_t fault)
{
    meet(fault);
    int armed = atomic_load_explicit(&armed_fault, memory_order_acquire);
    if (armed < 0 || is_exempt_here) {
        return false;
    }
    atomic_fetch_add(&passed_counts[fault], 1);
    if (armed != DAO_FAULT_ANY && armed != (int)fault) {
        return false;
    }
    int64_t before = atomic_fetch_sub(&remaining, 1);
    if (before == 0 || (before < 0 && atomic_load(&armed_persistent))) {
        atomic_fetch_add(&fired_count, 1);
        return true;
    }
    return false;
}

void dao_fault_arm(dao_fault_t fault, uint64_t skip_count, bool persistent)
{
    atomic_store(&armed_persistent, persistent);
    atomic_store(&remaining, (int64_t)skip_count);
    for (int i = 0; i < DAO_FAULT_COUNT; i++) {
        atomic_store(&passed_counts[i], 0);
    }
    atomic_store(&fired_count, 0);
    atomic_store_explicit(&armed_fault, (int)fault, memory_order_release);
}

uint64_t dao_fault_disarm(void)
{
    atomic_store(&armed_fault, -1);
    return atomic_load(&fired_count);
}

uint64_t dao_fault_fired_count(void)
{
    return atomic_load(&fired_count);
}

uint64_t dao_fault_passed_count(dao_fault_t fault)
{
    return atomic_load(&passed_counts[fault]);
}

void dao_fault_meet(dao_fault_t fault, void (*function)(void *user), void *user)
{
    met_function = function;
    met_user = user;
    atomic_store(&met_fault, (int)fault);
}

void dao_fault_exempt(bool is_exempt)
{
    is_exempt_here = is_exempt;
}

const char *dao_fault_text(dao_fault_t fault)
{
    static const char *const texts[] = {
#define DAO_FAULT_TEXT(name, text) text,
        DAO_FAULT_LIST(DAO_FAULT_TEXT)
#undef DAO_FAULT_TEXT
    };
    return texts[fault];
}

#else

typedef int dao_fault_is_compiled_out;

#endif
