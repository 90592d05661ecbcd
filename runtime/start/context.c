/* SPDX-License-Identifier: Apache-2.0 */
/* Starting and stopping the library, once for a process, and its devices with their first use.

       state      core in dao_started   worker   left by
       NEVER      none                  none     dao_init(), or any other call
       STARTING   none                  one      that thread: STARTED, or back to the state before
       STARTED    there                 none     the dao_finalize() that undoes the last dao_init()
       STOPPING   until it is cleared   one      that thread: STOPPED
       STOPPED    none                  none     dao_init() alone
       FORKED     none                  any      nothing: this is a child of a process that had started it

   No lock is held while the backend is called or a line is logged. The state says what is under way, and
   `changed` is signalled when it is over. `dao_started` shows the core and the runtimes to all calls, without
   a lock. Runtimes are in it in the state STARTED alone.

   The context holds one reference to the core and one to each runtime. Handles hold the others, so that they
   work after the library has stopped. */
#define _GNU_SOURCE /* environ */
#include "runtime/start/context.h"

#include "allocators/segments/pinned.h"
#include "base/internal_error.h"
#include "base/log.h"
#include "base/memory/host.h"
#include "base/report/callback.h"
#include "base/report/error.h"
#include "runtime/core/thread.h"
#include "runtime/device/block.h"
#include "runtime/device/deferred_free.h"
#include "runtime/device/pressure_ladder.h"
#include "runtime/observe/annotate.h"
#include "runtime/observe/event_ring.h"
#include "runtime/observe/segment_notifier.h"
#include "runtime/own/own_device.h"
#include "runtime/recording/recording.h"
#include "runtime/scoreboard/peak_marks.h"
#include "runtime/scoreboard/scoreboard_thread.h"
#include "runtime/start/device_start.h"
#include "runtime/start/hardening.h"
#include "runtime/start/leaks.h"
#include "runtime/start/place_start.h"
#include "runtime/start/settings.h"
#include "runtime/start/step_plan_settings.h"

#include <inttypes.h>
#include <unistd.h>

typedef enum context_state { NEVER, STARTING, STARTED, STOPPING, STOPPED, FORKED } context_state_t;

static struct {
    _Atomic context_state_t state;
    dao_mutex_t lock;
    /* guarded by the lock */
    dao_cond_t changed;
    uintptr_t worker;                                /* the thread that starts or stops; 0 if none does */
    uintptr_t device_starters[DAO_DEVICE_COUNT_MAX]; /* the thread that starts a device now; 0 if none does */
    uintptr_t host_starter;                          /* the same of the host's place */
    uint32_t init_count; /* calls of dao_init() to be undone; 0 after a start by another call */
    bool has_fork_hooks;
} context = {.lock = DAO_MUTEX_INITIALIZER(DAO_RANK_CONTEXT), .changed = DAO_COND_INITIALIZER};

static bool has_runtimes(void)
{
    for (int32_t i = 0; i < DAO_DEVICE_COUNT_MAX; i++) {
        if (dao_runtime_started(i) != NULL) {
            return true;
        }
    }
    return false;
}

/* The table of states. */
static bool is_valid_locked(void)
{
    bool has_core = dao_core_started() != NULL;
    bool has_worker = context.worker != 0;
    switch (atomic_load(&context.state)) {
    case STARTED:
        return has_core && !has_worker;
    case STARTING:
        return !has_core && has_worker && !has_runtimes();
    case STOPPING:
        return has_worker;
    case FORKED:
        return !has_core && !has_runtimes();
    default: /* NEVER, STOPPED */
        return !has_core && !has_worker && !has_runtimes() && context.init_count == 0;
    }
}

static void lock(void)
{
    dao_mutex_lock(&context.lock);
    DAO_ASSERT_HEAVY(is_valid_locked());
}

static void unlock(void)
{
    DAO_ASSERT_HEAVY(is_valid_locked());
    dao_mutex_unlock(&context.lock);
}

/* Takes what is started away from new calls. */
static void started_clear(void)
{
    atomic_store(&dao_started.core, NULL);
    atomic_store(&dao_started.host_memory, NULL);
    for (int32_t i = 0; i < DAO_DEVICE_COUNT_MAX; i++) {
        dao_runtime_t *runtime = atomic_exchange(&dao_started.runtimes[i], NULL);
        if (runtime != NULL) {
            atomic_store(&runtime->shown_place, DAO_PLACE_WORD_NONE);
        }
    }
}

/* Shows a device's runtime to all calls; NULL: it could not be started. */
static void runtime_show(int32_t device_index, dao_runtime_t *runtime)
{
    if (runtime != NULL) {
        dao_place_t place = {DAO_PLACE_KIND_DEVICE, device_index};
        atomic_store(&runtime->shown_place, dao_place_word(place));
    }
    atomic_store_explicit(&dao_started.runtimes[device_index], runtime, memory_order_release);
}

/* ---- forks ---- */

static void before_fork(void)
{
    lock();
}

static void after_fork_in_parent(void)
{
    unlock();
}

static void after_fork_in_child(void)
{
    context_state_t state = atomic_load(&context.state);
    if (state != NEVER && state != STOPPED) {
        atomic_store(&context.state, FORKED);
        started_clear();
    }
    dao_core_note_fork();
    dao_recording_forked();
    dao_scoreboard_forked();
    unlock();
}

/* ---- the core ---- */

static void core_destroy(dao_core_t *core)
{
    dao_allocator_t *host_memory = atomic_load(&core->host_memory);
    if (host_memory != NULL) {
        host_memory->ops->destroy(host_memory);
    }
    for (int32_t i = 0; i < DAO_DEVICE_COUNT_MAX; i++) {
        if (core->own_devices[i] != NULL) {
            core->own_device_end(core->own_devices[i]);
        }
    }
    if (core->backend != NULL) {
        core->ops->close(core->backend);
    }
    dao_events_destroy(core->event_rings);
    dao_mutex_finish(&core->lock);
    dao_host_free(core);
}

/* Opens the backend and asks it how many devices it has. */
static dao_status_t backend_open(dao_core_t *core, const dao_config_t *config)
{
    dao_status_t status = core->ops->open(config, &core->backend);
    if (status != DAO_OK) {
        core->backend = NULL;
        return status;
    }
    status = core->ops->device_count(core->backend, &core->device_count);
    if (status == DAO_OK && (core->device_count < 0 || core->device_count > DAO_DEVICE_COUNT_MAX)) {
        return dao_error(DAO_ERR_INVALID,
                         "the %s backend has %" PRId32 " devices; the library handles 0 to %d",
                         core->ops->name, core->device_count, DAO_DEVICE_COUNT_MAX);
    }
    atomic_init(&core->device_end, core->device_count);
    return status;
}

/* Says for every place that nothing was said about it. */
static void configs_reset(dao_core_t *core, dao_strategy_t device_strategy)
{
    core->device_strategy = device_strategy;
    core->host_config.strategy = DAO_STRATEGY_GOOD_FIT;
    for (int32_t i = 0; i < DAO_DEVICE_COUNT_MAX; i++) {
        core->pinned_configs[i].strategy = DAO_STRATEGY_GOOD_FIT;
        core->device_configs[i].strategy = device_strategy;
    }
}

static dao_status_t core_create(const dao_config_t *config, const dao_backend_ops_t *ops,
                                dao_core_t **out_core)
{
    dao_strategy_t device_strategy;
    dao_status_t status = dao_strategy_find(config->device_strategy, &device_strategy);
    if (status == DAO_OK) {
        status = dao_backend_ops_check(ops);
    }
    if (status != DAO_OK) {
        return status;
    }
    dao_core_t *core = dao_host_calloc(1, sizeof(*core));
    dao_event_rings_t *event_rings = dao_events_create();
    if (core == NULL || event_rings == NULL) {
        dao_events_destroy(event_rings);
        dao_host_free(core);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to start the library: %zu bytes",
                         sizeof(*core));
    }
    core->ops = ops;
    core->config = *config;
    core->event_rings = event_rings;
    core->fork_count = dao_core_fork_count();
    core->end = core_destroy;
    atomic_init(&core->reference_count, 1);
    dao_mutex_init(&core->lock, DAO_RANK_LEAF);
    configs_reset(core, device_strategy);
    status = backend_open(core, config);
    uint64_t host_limit_bytes = 0;
    if (status == DAO_OK) {
        status = dao_hardening_find(config, core);
    }
    if (status == DAO_OK) {
        status = dao_host_limit_find(config, &host_limit_bytes);
    }
    if (status == DAO_OK) {
        status = dao_host_memory_find(&config->host, &core->host_settings);
    }
    if (status == DAO_OK) {
        status = dao_step_plan_find(&core->step_plan);
    }
    if (status == DAO_OK) {
        status = dao_events_history_find(event_rings);
    }
    if (status != DAO_OK) {
        core_destroy(core);
        return status;
    }
    atomic_init(&core->host_budget.limit_bytes, host_limit_bytes);
    *out_core = core;
    return DAO_OK;
}

/* ---- starting ---- */

/* Unknown variables are told once: the first start sees them. */
static _Atomic bool has_seen_environment;

static dao_status_t start(const dao_config_t *config, const dao_backend_ops_t *ops, dao_core_t **out_core)
{
    static const dao_config_t defaults;
    config = config != NULL ? config : &defaults;
    dao_log_level_t level = DAO_LOG_LEVEL_DEFAULT;
    dao_status_t status = dao_log_level_find(config, &level);
    if (status != DAO_OK) {
        return status;
    }
    dao_log_set(config->log_callback, config->log_user, level);
    if (!atomic_exchange(&has_seen_environment, true)) {
        dao_environment_check(environ);
    }
    bool annotates = false, records = false, is_watched = false;
    status = dao_annotate_find(&annotates);
    if (status == DAO_OK) {
        status = dao_recording_find(&records);
    }
    if (status == DAO_OK) {
        status = dao_scoreboard_find(&is_watched);
    }
    if (annotates) {
        dao_events_observe();
    }
    if (records) {
        dao_events_observe();
    }
    if (status == DAO_OK) {
        status = core_create(config, ops, out_core);
    }
    if (status != DAO_OK) {
        dao_log_end();
        return status;
    }
    dao_log(DAO_LOG_LEVEL_INFO, "started with the %s backend: %" PRId32 " devices", ops->name,
            (*out_core)->device_count);
    dao_scoreboard_start(ops->name, is_watched);
    return DAO_OK;
}

/* Starts the library in this thread, without the lock meanwhile. */
static dao_status_t start_locked(const dao_config_t *config, const dao_backend_ops_t *ops)
{
    context_state_t before = atomic_load(&context.state);
    if (!context.has_fork_hooks) {
        dao_fork_hooks(before_fork, after_fork_in_parent, after_fork_in_child);
        context.has_fork_hooks = true;
    }
    atomic_store(&context.state, STARTING);
    context.worker = dao_thread_self();
    unlock();
    dao_core_t *core = NULL;
    dao_status_t status = start(config, ops, &core);
    lock();
    context.worker = 0;
    context.init_count = 0;
    atomic_store(&context.state, status == DAO_OK ? STARTED : before);
    atomic_store_explicit(&dao_started.core, core, memory_order_release);
    dao_cond_broadcast(&context.changed);
    return status;
}

/* Waits until no other thread is starting the library, nor stopping it. */
static dao_status_t settle_locked(void)
{
    while (context.worker != 0) {
        if (context.worker == dao_thread_self()) {
            return dao_error(DAO_ERR_REENTRANT,
                             "the library is being started or stopped by the caller of this callback");
        }
        dao_cond_wait(&context.changed, &context.lock);
    }
    return DAO_OK;
}

/* Waits until no other thread is starting a place, of which `starter` is the thread that does. */
static dao_status_t starter_settle_locked(const uintptr_t *starter, const char *name)
{
    while (*starter != 0) {
        if (*starter == dao_thread_self()) {
            return dao_error(DAO_ERR_REENTRANT, "%s is being started by the caller of this callback", name);
        }
        dao_cond_wait(&context.changed, &context.lock);
    }
    return DAO_OK;
}

static dao_status_t device_settle_locked(int32_t device_index)
{
    char text[DAO_PLACE_TEXT_BYTES];
    dao_place_t device = {DAO_PLACE_KIND_DEVICE, device_index};
    return starter_settle_locked(&context.device_starters[device_index], dao_place_format(device, text));
}

static dao_status_t places_settle_locked(void)
{
    dao_status_t status = starter_settle_locked(&context.host_starter, "cpu");
    for (int32_t i = 0; i < DAO_DEVICE_COUNT_MAX && status == DAO_OK; i++) {
        status = device_settle_locked(i);
    }
    return status;
}

static dao_status_t shutdown_error(void)
{
    return dao_error(DAO_ERR_SHUTDOWN, "the library was finalized; call dao_init() to start it again");
}

static dao_status_t forked_error(void)
{
    return dao_error(DAO_ERR_FORKED,
                     "the library was started in the parent process; fork before the first call, or "
                     "start another program with exec");
}

static dao_status_t init_locked(const dao_config_t *config, const dao_backend_ops_t *ops)
{
    if (atomic_load(&context.state) == FORKED) {
        return forked_error();
    }
    dao_status_t status = settle_locked();
    if (status != DAO_OK) {
        return status;
    }
    if (atomic_load(&context.state) != STARTED) {
        status = start_locked(config, ops);
    } else if (atomic_load(&dao_started.core)->ops != ops) {
        status = dao_error(DAO_ERR_BUSY, "the library is started with another table of the backend");
    } else if (config != NULL) {
        status = dao_settings_check(config, &atomic_load(&dao_started.core)->config);
    }
    if (status == DAO_OK) {
        context.init_count++;
    }
    return status;
}

dao_status_t dao_context_start(const dao_config_t *config, const dao_backend_ops_t *ops)
{
    lock();
    dao_status_t status = init_locked(config, ops);
    unlock();
    return status;
}

dao_status_t dao_init(const dao_config_t *config)
{
    dao_status_t status = dao_thread_check();
    return status == DAO_OK ? dao_context_start(config, dao_backend_ops()) : status;
}

/* Starts with defaults unless it was finalized. */
static dao_status_t enter_locked(void)
{
    if (atomic_load(&context.state) == STARTING) {
        dao_status_t status = settle_locked();
        if (status != DAO_OK) {
            return status;
        }
    }
    switch (atomic_load(&context.state)) {
    case STARTED:
        return DAO_OK;
    case NEVER:
        return start_locked(NULL, dao_backend_ops());
    case FORKED:
        return forked_error();
    default: /* STOPPING, STOPPED; settled, it is not STARTING */
        return shutdown_error();
    }
}

static dao_status_t enter_slow(void)
{
    lock();
    dao_status_t status = enter_locked();
    unlock();
    return status;
}

dao_status_t dao_context_enter(dao_core_t **out_core)
{
    dao_core_t *core = atomic_load_explicit(&dao_started.core, memory_order_acquire);
    if (core == NULL) {
        dao_status_t status = enter_slow();
        if (status != DAO_OK) {
            return status;
        }
        core = atomic_load_explicit(&dao_started.core, memory_order_acquire);
    }
    *out_core = core;
    return DAO_OK;
}

/* ---- stopping ---- */

/* Waits for a device's work and reclaims what waited for it, so that only what the program forgot is
   reported. */
static void runtime_settle(dao_runtime_t *runtime)
{
    if (dao_runtime_synchronize(runtime) != DAO_OK) {
        dao_log(DAO_LOG_LEVEL_ERROR, "device:%" PRId32 " at shutdown: %s", runtime->device_index,
                dao_last_message());
    }
    void (*natives_end)(dao_natives_t *) = atomic_load(&runtime->natives.end);
    if (natives_end != NULL) { /* behind the wait */
        natives_end(&runtime->natives);
    }
    dao_step_plan_settle(runtime->device_memory);
    dao_step_plan_settle(runtime->pinned_memory);
    dao_runtime_drain_all(runtime);
    dao_pinned_drain(runtime->pinned_memory);
}

/* What a stop has found. */
typedef struct findings {
    uint64_t live_count;    /* blocks and handles that the program has not given back */
    uint32_t damaged_count; /* places where hardening found damage */
} findings_t;

/* Reports and releases everything. */
static findings_t stop(void)
{
    dao_scoreboard_stop();
    dao_core_t *core = atomic_load(&dao_started.core);
    dao_allocator_t *host_memory = atomic_load(&core->host_memory);
    dao_runtime_t *runtimes[DAO_DEVICE_COUNT_MAX];
    int32_t runtime_count = 0;
    for (int32_t i = 0; i < DAO_DEVICE_COUNT_MAX; i++) {
        dao_runtime_t *runtime = dao_runtime_started(i);
        if (runtime != NULL) {
            runtimes[runtime_count++] = runtime;
        }
    }
    started_clear(); /* before anything is logged: the callback may call the library */
    dao_pressure_clear();
    dao_peak_marks_clear();
    if (host_memory != NULL) {
        dao_step_plan_settle(host_memory);
    }
    for (int32_t i = 0; i < runtime_count; i++) {
        runtime_settle(runtimes[i]);
    }
    dao_events_stop_all(core->event_rings);
    dao_internal_errors_log();
    findings_t found = {.damaged_count = dao_hardening_report(core, runtimes, runtime_count)};
    found.live_count = dao_leaks_report(core, runtimes, runtime_count);
    if (core->registrations_end != NULL) {
        core->registrations_end(core);
    }
    for (int32_t i = 0; i < runtime_count; i++) {
        dao_runtime_release(runtimes[i]);
    }
    dao_core_release(core);
    dao_segment_notifier_clear(); /* after they were told of all that was released */
    dao_log(DAO_LOG_LEVEL_INFO, "stopped");
    dao_log_end();
    return found;
}

static dao_status_t stop_locked(void)
{
    atomic_store(&context.state, STOPPING);
    context.worker = dao_thread_self();
    unlock();
    findings_t found = stop();
    lock();
    context.worker = 0;
    context.init_count = 0;
    atomic_store(&context.state, STOPPED);
    dao_cond_broadcast(&context.changed);
    if (found.damaged_count > 0) {
        return dao_error(DAO_ERR_CORRUPT,
                         "hardening found damaged memory at %" PRIu32 " places, and %" PRIu64
                         " blocks, handles or streams were live when the library stopped; the log names them",
                         found.damaged_count, found.live_count);
    }
    if (found.live_count > 0) {
        return dao_error(DAO_ERR_BUSY,
                         "%" PRIu64 " blocks, handles or streams were live when the library stopped; "
                         "the log names them",
                         found.live_count);
    }
    return DAO_OK;
}

static dao_status_t finalize_locked(void)
{
    if (atomic_load(&context.state) == FORKED) {
        return forked_error();
    }
    dao_status_t status = settle_locked();
    if (status == DAO_OK && context.init_count <= 1) {
        status = places_settle_locked(); /* or a device would be there after the end */
    }
    if (status != DAO_OK) {
        return status;
    }
    if (atomic_load(&context.state) != STARTED) {
        return dao_error(DAO_ERR_SHUTDOWN, "dao_finalize: the library is not started");
    }
    if (context.init_count > 1) {
        context.init_count--;
        return DAO_OK;
    }
    status = dao_callback_check();
    return status == DAO_OK ? stop_locked() : status;
}

dao_status_t dao_finalize(void)
{
    dao_status_t status = dao_thread_check();
    if (status != DAO_OK) {
        return status;
    }
    lock();
    status = finalize_locked();
    unlock();
    return status;
}

/* ---- what places are to be ---- */

/* Returns true if a place has started, or is starting now. */
static bool has_started_locked(const dao_core_t *core, dao_place_t place)
{
    return place.kind == DAO_PLACE_KIND_CPU
               ? atomic_load(&core->host_memory) != NULL || context.host_starter != 0
               : dao_runtime_started(place.index) != NULL || context.device_starters[place.index] != 0;
}

dao_status_t dao_context_configure(dao_core_t *core, dao_place_t place, const dao_place_config_t *config)
{
    char text[DAO_PLACE_TEXT_BYTES];
    lock();
    bool is_busy = has_started_locked(core, place);
    if (!is_busy) {
        *dao_core_config(core, place) = *config;
    }
    unlock();
    return is_busy ? dao_error(DAO_ERR_BUSY,
                               "dao_place_configure: %s is in use already; configure it before its first use",
                               dao_place_format(place, text))
                   : DAO_OK;
}

/* Makes the host's place, in this thread and without the lock: it may map and touch much memory. */
static dao_status_t host_create(dao_core_t *core, dao_allocator_t **out_host_memory)
{
    dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
    dao_allocator_t *host_memory = NULL;
    dao_place_origin_t origin = {.is_poisoned = true,
                                 .budget = &core->host_budget,
                                 .host_settings = &core->host_settings,
                                 .host_pages = &core->host_pages,
                                 .step_plan = &core->step_plan};
    core->host_pages = (dao_host_pages_t){.settings = &core->host_settings, .budget = &core->host_budget};
    dao_status_t status = dao_events_history_begin(core->event_rings, host);
    if (status == DAO_OK) {
        status = dao_place_start(host, &core->host_config, &origin, &host_memory);
    }
    if (status == DAO_OK &&
        (status = dao_hardening_wrap(core, NULL, DAO_PLACE_KIND_CPU, &host_memory)) != DAO_OK) {
        host_memory->ops->destroy(host_memory);
        host_memory = NULL;
    }
    if (host_memory != NULL) {
        dao_block_host_fallback_set(host_memory);
    }
    *out_host_memory = host_memory;
    return status;
}

/* Starts the host's place in this thread, or waits for the thread that does. */
static dao_status_t host_start_locked(dao_core_t *core, bool *out_is_new)
{
    dao_status_t status = starter_settle_locked(&context.host_starter, "cpu");
    if (status != DAO_OK || atomic_load(&core->host_memory) != NULL) {
        return status;
    }
    context.host_starter = dao_thread_self();
    unlock();
    dao_allocator_t *host_memory = NULL;
    status = host_create(core, &host_memory);
    lock();
    context.host_starter = 0;
    *out_is_new = status == DAO_OK;
    atomic_store_explicit(&core->host_memory, host_memory, memory_order_release);
    atomic_store_explicit(&dao_started.host_memory, host_memory, memory_order_release);
    dao_cond_broadcast(&context.changed);
    return status;
}

dao_status_t dao_core_host_start(dao_core_t *core, dao_allocator_t **out_allocator)
{
    bool is_new = false;
    lock();
    bool is_started = dao_core_started() == core; /* or it has been stopped meanwhile */
    dao_status_t status = is_started ? host_start_locked(core, &is_new) : shutdown_error();
    *out_allocator = is_started ? atomic_load(&core->host_memory) : NULL;
    unlock();
    if (is_new) {
        dao_host_pages_warn(&core->host_pages);
    }
    return status;
}

/* ---- devices ---- */

/* Starts the device that a program's own memory is on, which is none of its kind. NULL: it is on none. */
static dao_status_t lender_start(const dao_core_t *core, int32_t device_index, dao_runtime_t **out_lender)
{
    int32_t home_index = dao_own_home(core, device_index);
    return home_index != device_index ? dao_runtime_borrow(home_index, out_lender) : DAO_OK;
}

/* Starts a runtime in this thread, or waits for the thread that does. */
static dao_status_t runtime_start_locked(dao_core_t *core, int32_t device_index)
{
    uintptr_t *starter = &context.device_starters[device_index];
    dao_status_t status = device_settle_locked(device_index);
    if (status != DAO_OK || dao_runtime_started(device_index) != NULL) {
        return status;
    }
    *starter = dao_thread_self();
    unlock();
    dao_runtime_t *runtime = NULL, *lender = NULL;
    status = lender_start(core, device_index, &lender);
    if (status == DAO_OK) {
        status = dao_runtime_create(core, device_index, lender, &runtime);
    }
    lock();
    *starter = 0;
    runtime_show(device_index, runtime);
    dao_cond_broadcast(&context.changed);
    return status;
}

dao_status_t dao_runtime_borrow(int32_t device_index, dao_runtime_t **out_runtime)
{
    if (dao_thread_check() != DAO_OK) {
        return DAO_ERR_REENTRANT;
    }
    dao_runtime_t *runtime = dao_runtime_started(device_index);
    if (runtime != NULL) {
        *out_runtime = runtime;
        return DAO_OK;
    }
    dao_core_t *core;
    dao_status_t status = dao_context_enter(&core);
    if (status != DAO_OK) {
        return status;
    }
    if (device_index < 0 || device_index >= dao_core_device_end(core)) {
        return dao_core_no_device(core, device_index);
    }
    lock();
    status = runtime_start_locked(core, device_index);
    unlock();
    if (status == DAO_OK) {
        *out_runtime = dao_runtime_started(device_index);
    }
    return status;
}

dao_status_t dao_runtime_acquire(int32_t device_index, dao_runtime_t **out_runtime)
{
    dao_status_t status = dao_runtime_borrow(device_index, out_runtime);
    if (status == DAO_OK) {
        (void)dao_runtime_retain(*out_runtime); /* the same pointer */
    }
    return status;
}
