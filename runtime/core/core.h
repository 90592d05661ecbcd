/* SPDX-License-Identifier: Apache-2.0 */
/* The record of one start of the library. All files of runtime/ may read it; it calls none of them.
   start/context.c makes it, and sets `end`, which the last reference calls. */
#ifndef DAO_RUNTIME_CORE_H
#define DAO_RUNTIME_CORE_H

#include "allocators/accounting/budget.h"
#include "allocators/paged/host_pages.h"
#include "backends/backend.h"
#include "base/threads/sync.h"

#include <dao/place_config.h>

#include <stdatomic.h>

/* A live handle or stream, for the report of what is left at shutdown. Embedded in it, linked while it
   lives. */
typedef struct dao_live {
    struct dao_live *previous;
    struct dao_live *next;
    const char *noun; /* "memory handle", "stream", "event" */
    dao_place_t place;
    void *address;
    size_t size_bytes;
    bool is_block; /* the allocator of the place reports it */
} dao_live_t;

typedef struct dao_runtime dao_runtime_t;           /* device/runtime.h */
typedef struct dao_event_rings dao_event_rings_t;   /* observe/event_ring.h */
typedef struct dao_registration dao_registration_t; /* handles/host_register.c */

/* What one start of the library opened, and what handles of that start need even after dao_finalize().
   Counted: the context, every runtime and every memory handle hold a reference. */
typedef struct dao_core {
    const dao_backend_ops_t *ops;
    dao_config_t config; /* as it was started, what is 0 not filled in */
    dao_backend_t *backend;
    int32_t device_count; /* of the backend */
    /* Places of a program's own memory are device places behind those of the backend. */
    _Atomic int32_t device_end; /* numbers below it are device places */
    dao_backend_device_t
        *own_devices[DAO_DEVICE_COUNT_MAX];               /* by number; each is written before the end is */
    void (*own_device_end)(dao_backend_device_t *device); /* set with the first; what ends each */
    uint32_t fork_count;                                  /* forks before the start */
    dao_budget_t host_budget;               /* what host_memory and all pinned memory take from */
    _Atomic(dao_allocator_t *) host_memory; /* NULL until it is first used */
    dao_event_rings_t *event_rings;
    /* places whose refusals were logged: by kind, a bit for each index */
    _Atomic uint64_t refused_allocs[3];
    _Atomic uint64_t refused_frees[3];
    uint32_t hardening;      /* of dao_hardening_t, where a place's config says nothing */
    size_t quarantine_bytes; /* of each place */
    _Atomic uint32_t reference_count;
    void (*end)(struct dao_core *core); /* called by the last dao_core_release() */
    dao_strategy_t device_strategy;     /* where a config names none */
    dao_host_memory_config_t host_settings;
    dao_host_pages_t host_pages;      /* of host_memory, if it is kept in pages */
    dao_step_plan_config_t step_plan; /* where a place's config says nothing of it */
    /* guarded by the context's lock; a place's own does not change any more once it has started */
    dao_place_config_t host_config;
    dao_place_config_t pinned_configs[DAO_DEVICE_COUNT_MAX];
    dao_place_config_t device_configs[DAO_DEVICE_COUNT_MAX];
    dao_mutex_t lock; /* rank leaf; guards what follows */
    dao_live_t *first_live;
    dao_registration_t *first_registration;
    void (*registrations_end)(
        struct dao_core *core); /* set with the first registration; NULL: there was none */
} dao_core_t;

/* What is started, for the fast path, which can afford one load. While the library is STARTED it has the
   core, and each device's runtime and the host's allocator from their first use on. Otherwise, and in a child
   process, all of it is NULL. Written by start/context.c alone. */
typedef struct dao_started {
    _Atomic(dao_runtime_t *) runtimes[DAO_DEVICE_COUNT_MAX];
    _Atomic(dao_allocator_t *) host_memory;
    _Atomic(dao_core_t *) core;
} dao_started_t;
extern dao_started_t dao_started;

/* Returns the core of the library, borrowed; NULL while it is not started. */
static inline dao_core_t *dao_core_started(void)
{
    return atomic_load_explicit(&dao_started.core, memory_order_acquire);
}

/* Returns the host's allocator, borrowed, or NULL if it was not used yet or cannot be. */
static inline dao_allocator_t *dao_host_started(void)
{
    return atomic_load_explicit(&dao_started.host_memory, memory_order_acquire);
}

/* Returns a device's runtime, borrowed, or NULL if it was not used yet or cannot be. Takes any number. */
static inline dao_runtime_t *dao_runtime_started(int32_t device_index)
{
    return (uint32_t)device_index < DAO_DEVICE_COUNT_MAX
               ? atomic_load_explicit(&dao_started.runtimes[(uint32_t)device_index], memory_order_acquire)
               : NULL;
}

/* Returns what was said about a place. */
static inline dao_place_config_t *dao_core_config(dao_core_t *core, dao_place_t place)
{
    return place.kind == DAO_PLACE_KIND_CPU      ? &core->host_config
           : place.kind == DAO_PLACE_KIND_PINNED ? &core->pinned_configs[place.index]
                                                 : &core->device_configs[place.index];
}

/* Returns the strategy that is in effect for a kind of place where a config names `strategy`. */
static inline dao_strategy_t dao_core_strategy(const dao_core_t *core, dao_place_kind_t kind,
                                               dao_strategy_t strategy)
{
    dao_strategy_t fallback = kind == DAO_PLACE_KIND_DEVICE ? core->device_strategy : DAO_STRATEGY_GOOD_FIT;
    return strategy != DAO_STRATEGY_DEFAULT ? strategy : fallback;
}

/* Returns the number behind the last device place. */
static inline int32_t dao_core_device_end(const dao_core_t *core)
{
    return atomic_load_explicit(&core->device_end, memory_order_acquire);
}

/* Gives a program's own memory the next device number, and takes it over; `end` is what ends such a device
   with the core. -1: there is none left. */
int32_t dao_core_own_add(dao_core_t *core, dao_backend_device_t *device,
                         void (*end)(dao_backend_device_t *device));

/* DAO_ERR_NO_DEVICE, with a message. */
dao_status_t dao_core_no_device(const dao_core_t *core, int32_t device_index);

/* DAO_ERR_INVALID for a kind that is none or an index that no place has, DAO_ERR_NO_DEVICE for a device that
   is not there, with a message. */
DAO_NODISCARD dao_status_t dao_place_check(const dao_core_t *core, dao_place_t place);

dao_core_t *dao_core_retain(dao_core_t *core); /* returns its argument */
void dao_core_release(dao_core_t *core);       /* the last one calls core->end */

/* Number of forks before this process came to be. */
uint32_t dao_core_fork_count(void);
void dao_core_note_fork(void); /* in the child */

/* Returns true if this process is a child of the one that made the core. It must not touch anything of it
   then. */
bool dao_core_is_forked(const dao_core_t *core);

void dao_live_add(dao_core_t *core, dao_live_t *live);
void dao_live_remove(dao_core_t *core, dao_live_t *live);

#endif
