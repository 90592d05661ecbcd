/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pressure: what is tried before an allocation fails.

       alloc fails --> deferred frees --> own cache --> all host caches --> callbacks --> waiting --> error
                             |                |               |                |             |
                             +----------------+--- something was freed: try again, done? ----+

   The allocator's own means come before: idle blocks of other streams, moving free pages, growing. Each step
   runs once an allocation, and tries again only after it freed something. Callbacks try again after each one
   that did, and ask the same one again as long as less is in use after it. Memory freed by a callback or
   another thread may be cached at another host place: then that cache is trimmed, and there is one attempt
   more. So there are at most 6 attempts, two for each call of a callback, of which each has at most
   DAO_PRESSURE_ASK_COUNT_MAX, and two for each free and each look while it waits. A request that no free
   could satisfy, because it is larger than a limit or the device, takes the first step alone. One whose tag
   has no room is refused for that, whatever else is short: it takes the first step and the last, as only
   frees of its tag help, which no callback could tell from others.

   Callbacks are in a table (callback_table.h). A thread that runs one begins no second round and does not
   wait. */
#include "runtime/device/pressure_ladder.h"

#include "allocators/accounting/ledger.h"
#include "allocators/segments/pinned.h"
#include "base/numbers/math.h"
#include "base/report/callback.h"
#include "base/report/error.h"
#include "runtime/core/callback_table.h"
#include "runtime/core/waiters.h"
#include "runtime/device/deferred_free.h"

/* A thread that waits looks for memory so often without being woken: waiters.c says why. */
#define LOOK_AGAIN_NS ((uint64_t)100000000)

static _Atomic uint64_t waits_ns[DAO_PLACE_KIND_COUNT][DAO_DEVICE_COUNT_MAX]; /* 0: it does not wait */
static dao_callback_slot_t slots[DAO_PRESSURE_CALLBACK_COUNT_MAX];
static dao_callback_table_t callbacks = DAO_CALLBACK_TABLE_INITIALIZER(slots);

/* The callback that this thread runs now, or NULL. */
static _Thread_local dao_callback_slot_t *running_here;

/* ---- callbacks ---- */

bool dao_pressure_add(dao_place_t place, dao_pressure_callback_t function, void *user, uint64_t *out_id)
{
    return dao_callback_table_add(&callbacks, place, (void (*)(void))function, user, out_id);
}

dao_status_t dao_pressure_callback_remove(uint64_t id)
{
    return dao_callback_table_remove(&callbacks, id, running_here, "dao_pressure_callback_remove");
}

/* Calls a callback that was entered, and leaves it. *out_used_bytes is what the place had in use before. */
static size_t run(dao_callback_slot_t *callback, const dao_pressure_need_t *need, uint64_t *out_used_bytes)
{
    running_here = callback;
    DAO_ASSERT_UNLOCKED();
    *out_used_bytes = need->allocator->ops->used_get(need->allocator);
    dao_callback_begin();
    size_t freed_bytes = ((dao_pressure_callback_t)callback->function)(
        callback->place, need->request->size_bytes, callback->user);
    dao_callback_end();
    running_here = NULL;
    dao_callback_table_leave(&callbacks, callback);
    return freed_bytes;
}

/* ---- the ladder ---- */

typedef struct ladder {
    const dao_pressure_need_t *need;
    dao_status_t status; /* of the last attempt */
    uint64_t failed_count;
    uint64_t most_bytes;       /* that the place may ever hold */
    uint64_t used_bytes;       /* that it held at the begin */
    dao_error_record_t record; /* of the last attempt that failed */
} ladder_t;

static void note_failure(ladder_t *ladder, dao_status_t status)
{
    ladder->status = status;
    ladder->failed_count++;
    dao_error_save(&ladder->record, status);
}

static bool has_waiting_frees(const dao_pressure_need_t *need)
{
    return need->runtime != NULL && dao_runtime_deferred_count(need->runtime, need->place.kind) > 0;
}

static void try_again(ladder_t *ladder)
{
    const dao_pressure_need_t *need = ladder->need;
    DAO_ASSERT(dao_allocator_is_short(ladder->status)); /* or a block would be lost */
    if (need->runtime != NULL) {
        (void)dao_runtime_wait_frees(need->runtime, need->place.kind);
    }
    ladder->status = need->allocator->ops->alloc(need->allocator, need->request, need->out_grant);
    if (ladder->status != DAO_OK) {
        note_failure(ladder, ladder->status);
    }
}

static uint64_t smaller_limit(uint64_t most_bytes, uint64_t limit_bytes)
{
    return limit_bytes != 0 && limit_bytes < most_bytes ? limit_bytes : most_bytes;
}

/* Reads what the place has and may have. */
static void measure(ladder_t *ladder)
{
    dao_allocator_t *allocator = ladder->need->allocator;
    const dao_ledger_t *ledger = allocator->ledger;
    dao_stats_t stats;
    allocator->ops->stats_get(allocator, &stats);
    uint64_t most_bytes = smaller_limit(UINT64_MAX, stats.limit_bytes);
    most_bytes = smaller_limit(most_bytes, ledger->capacity_bytes);
    if (ledger->budget != NULL) {
        most_bytes = smaller_limit(most_bytes, atomic_load(&ledger->budget->limit_bytes));
    }
    ladder->most_bytes = most_bytes;
    ladder->used_bytes = stats.used_bytes;
}

/* Returns true if the request is larger than something that no free changes. */
static bool is_hopeless(const ladder_t *ladder)
{
    const dao_pressure_need_t *need = ladder->need;
    dao_tag_stats_t tag = {0};
    if (need->request->tag != 0) {
        dao_tags_stats_get(need->allocator->ledger->tags, need->request->tag, &tag);
    }
    return need->request->size_bytes > smaller_limit(ladder->most_bytes, tag.limit_bytes);
}

/* Returns true if it is the limit of the tag that is in the way: what is free counts for no tag. By the last
   attempt, which knows the block's size; at a place that looks for memory first, by what is asked for. */
static bool is_tag_short(const ladder_t *ladder)
{
    const dao_pressure_need_t *need = ladder->need;
    const dao_block_request_t *request = need->request;
    return ladder->record.tag != 0 ||
           (request->tag != 0 &&
            dao_tags_room(need->allocator->ledger->tags, request->tag) < request->size_bytes);
}

/* What was freed in stream order is free once its streams are done. An allocator that can has waited for them
   already. */
static void wait_for_streams(ladder_t *ladder)
{
    const dao_pressure_need_t *need = ladder->need;
    if (need->runtime != NULL && !is_tag_short(ladder) &&
        dao_runtime_wait_frees(need->runtime, need->place.kind)) {
        try_again(ladder);
    }
}

static void trim_own_cache(ladder_t *ladder)
{
    const dao_pressure_need_t *need = ladder->need;
    if (is_tag_short(ladder)) {
        return;
    }
    if (ladder->used_bytes > ladder->most_bytes ||
        need->request->size_bytes > ladder->most_bytes - ladder->used_bytes) {
        return; /* live blocks are in the way: the cache stays for when they are freed */
    }
    size_t released_bytes = 0;
    if (need->allocator->ops->trim(need->allocator, 0, &released_bytes) == DAO_OK && released_bytes > 0) {
        try_again(ladder);
    }
}

/* Returns true if memory of other host places would help. */
static bool is_host_short(const ladder_t *ladder)
{
    const dao_pressure_need_t *need = ladder->need;
    bool is_budget_short = dao_ledger_budget_room(need->allocator->ledger) < need->request->size_bytes;
    return !is_tag_short(ladder) &&
           (ladder->status == DAO_ERR_NO_HOST_MEMORY || (ladder->status == DAO_ERR_LIMIT && is_budget_short));
}

uint64_t dao_pressure_trim_host(dao_core_t *core)
{
    size_t released_bytes = 0;
    dao_allocator_t *host_memory = atomic_load(&core->host_memory);
    if (host_memory == NULL || host_memory->ops->trim(host_memory, 0, &released_bytes) != DAO_OK) {
        released_bytes = 0; /* out parameters are undefined then */
    }
    uint64_t sum_bytes = released_bytes;
    for (int32_t i = 0; i < dao_core_device_end(core); i++) {
        dao_runtime_t *runtime = dao_runtime_started(i);
        if (runtime == NULL) {
            continue;
        }
        (void)dao_runtime_wait_frees(runtime, DAO_PLACE_KIND_PINNED);
        if (runtime->pinned_memory->ops->trim(runtime->pinned_memory, 0, &released_bytes) == DAO_OK) {
            sum_bytes += released_bytes;
        }
    }
    return sum_bytes;
}

uint64_t dao_pressure_host_used(dao_core_t *core)
{
    dao_allocator_t *host_memory = atomic_load(&core->host_memory);
    uint64_t used_bytes = host_memory != NULL ? host_memory->ops->used_get(host_memory) : 0;
    for (int32_t i = 0; i < dao_core_device_end(core); i++) {
        dao_runtime_t *runtime = dao_runtime_started(i);
        used_bytes += runtime != NULL ? runtime->pinned_memory->ops->used_get(runtime->pinned_memory) : 0;
    }
    return used_bytes;
}

static void trim_host_caches(ladder_t *ladder)
{
    dao_core_t *core = dao_core_started();
    if (is_host_short(ladder) && core != NULL && dao_pressure_trim_host(core) > 0) {
        try_again(ladder);
    }
}

static void try_after_frees(ladder_t *ladder)
{
    try_again(ladder);
    if (dao_allocator_is_short(ladder->status)) {
        trim_host_caches(ladder);
    }
}

/* Returns true while callbacks could help: they are told the place and the bytes, so that they free memory,
   of any tag. */
static bool is_worth_asking(const ladder_t *ladder)
{
    return dao_allocator_is_short(ladder->status) && !is_tag_short(ladder);
}

/* Calls a callback, and tries again if it says that it freed some. Returns true if it is worth asking again:
   less is in use than before, and that is still not enough. */
static bool ask(ladder_t *ladder, dao_callback_slot_t *callback)
{
    const dao_pressure_need_t *need = ladder->need;
    uint64_t used_bytes;
    bool has_freed = run(callback, need, &used_bytes) > 0;
    bool is_again = has_freed && need->allocator->ops->used_get(need->allocator) < used_bytes;
    if (has_freed) {
        try_after_frees(ladder);
    }
    return is_again && is_worth_asking(ladder);
}

static void ask_callbacks(ladder_t *ladder)
{
    const dao_pressure_need_t *need = ladder->need;
    if (running_here != NULL) {
        return;
    }
    uint64_t last = dao_callback_table_last(&callbacks), after = 0;
    uint32_t ask_count = 0; /* of the one to be called next */
    dao_callback_slot_t *callback;
    while (is_worth_asking(ladder) &&
           (callback = dao_callback_table_enter(&callbacks, need->place, after, last)) != NULL) {
        uint64_t id = callback->id;
        bool is_again = ask(ladder, callback);
        ask_count = is_again && ask_count + 1 < DAO_PRESSURE_ASK_COUNT_MAX ? ask_count + 1 : 0;
        after = ask_count > 0 ? id - 1 : id; /* one that was removed meanwhile is not found again */
    }
}

/* ---- waiting ---- */

void dao_pressure_wait_keep(dao_place_t place, uint64_t wait_ns)
{
    atomic_store(&waits_ns[place.kind][place.index], wait_ns);
}

static void wait_for_frees(ladder_t *ladder)
{
    dao_place_t place = ladder->need->place;
    uint64_t wait_ns = atomic_load(&waits_ns[place.kind][place.index]);
    if (wait_ns == 0 || running_here != NULL) {
        return;
    }
    uint64_t now_ns = dao_clock_ns();
    uint64_t until_ns = wait_ns > UINT64_MAX - now_ns ? UINT64_MAX : now_ns + wait_ns;
    dao_waiters_begin();
    try_again(ladder); /* takes the allocator's locks: see waiters.c */
    while (now_ns < until_ns && dao_allocator_is_short(ladder->status)) {
        uint64_t seen = dao_waiters_wakes();
        try_after_frees(ladder);
        now_ns = dao_clock_ns();
        if (now_ns < until_ns && dao_allocator_is_short(ladder->status)) {
            (void)dao_waiters_wait(seen, dao_smaller(until_ns, now_ns + LOOK_AGAIN_NS)); /* then it tries */
        }
    }
    dao_waiters_end();
}

/* ---- all of it ---- */

/* The answer of a request that is refused: as in the last attempt, or that its tag has no room, which no
   memory would change. */
static dao_status_t refuse(const ladder_t *ladder)
{
    const dao_pressure_need_t *need = ladder->need;
    const dao_ledger_t *ledger = need->allocator->ledger;
    if (ladder->status == DAO_ERR_LIMIT || !dao_allocator_is_short(ladder->status) || !is_tag_short(ladder)) {
        return dao_error_restore(&ladder->record);
    }
    dao_status_t status = dao_tags_limit_error(ledger->tags, need->request->tag);
    dao_error_prefix("%s: %zu bytes asked for: ", ledger->name, need->request->size_bytes);
    return status;
}

dao_status_t dao_pressure_relieve(const dao_pressure_need_t *need, dao_status_t status)
{
    static void (*const steps[])(ladder_t *) = {wait_for_streams, trim_own_cache, trim_host_caches,
                                                ask_callbacks, wait_for_frees};
    enum { STEP_COUNT = sizeof(steps) / sizeof(steps[0]) };
    DAO_ASSERT(dao_allocator_is_short(status));
    ladder_t ladder = {.need = need};
    note_failure(&ladder, status);
    if (has_waiting_frees(need)) {
        try_again(&ladder);
    }
    if (dao_allocator_is_short(ladder.status)) {
        measure(&ladder);
    }
    size_t step_count = is_hopeless(&ladder) ? 0 : STEP_COUNT;
    for (size_t i = 0; i < step_count && dao_allocator_is_short(ladder.status); i++) {
        steps[i](&ladder);
    }
    bool is_done = ladder.status == DAO_OK;
    atomic_fetch_add(&need->allocator->ledger->cured_count, ladder.failed_count - (is_done ? 0 : 1));
    return is_done ? DAO_OK : refuse(&ladder);
}

void dao_pressure_clear(void)
{
    dao_callback_table_clear(&callbacks);
    for (uint32_t kind = 0; kind < DAO_PLACE_KIND_COUNT; kind++) {
        for (int index = 0; index < DAO_DEVICE_COUNT_MAX; index++) {
            atomic_store(&waits_ns[kind][index], 0);
        }
    }
}
