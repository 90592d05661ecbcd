/* SPDX-License-Identifier: Apache-2.0 */
/* The wrapping table. Streams and events are wrapped, so that use after destroy is seen: a destroyed wrapper
   is kept until the next wrap. Devices and memory are the inner backend's own. */
#include "tests/support/backends/fault_backend.h"

#include "base/report/error.h"
#include "base/threads/sync.h"
#include "tests/support/suite.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define ALIVE UINT32_C(0xa11fe)
#define DEAD  UINT32_C(0xdead)

/* What a stream's and an event's wrapper begin with. */
typedef struct wrapper {
    struct wrapper *next; /* in the list of all wrappers */
    _Atomic uint32_t state;
    void *inner;
    _Atomic uint32_t not_ready_count; /* of an event: times to report it late */
} wrapper_t;

static const dao_backend_ops_t *inner;
static dao_backend_ops_t table;
static fault_config_t settings;
static wrapper_t *_Atomic all_wrappers;
static _Atomic uint64_t random_state;
static _Atomic uint64_t call_counts[FAULT_CALL_COUNT];
static _Atomic int64_t live_count;

static _Atomic int armed_call = -1;
static _Atomic int64_t armed_count; /* calls in a row that fail */
static _Atomic int64_t remaining;   /* calls until the failing one; below 0: it has passed */
static _Atomic uint64_t fired_count;
static _Atomic dao_status_t fired_status; /* what the last call that failed answered */
static _Thread_local bool is_spared_here; /* this thread's calls are not counted and do not fail */

static const dao_status_t answers[] = {
#define FAULT_CALL_STATUS(name, text, status) DAO_##status,
    FAULT_CALL_LIST(FAULT_CALL_STATUS)
#undef FAULT_CALL_STATUS
};

const char *fault_call_text(fault_call_t call)
{
    static const char *const texts[] = {
#define FAULT_CALL_TEXT(name, text, status) text,
        FAULT_CALL_LIST(FAULT_CALL_TEXT)
#undef FAULT_CALL_TEXT
    };
    return call < FAULT_CALL_COUNT ? texts[call] : "any call";
}

/* Work on a stream or an event: what a lost device refuses. */
static bool needs_device(fault_call_t call)
{
    switch (call) {
    case FAULT_CALL_STREAM_WAIT_EVENT:
    case FAULT_CALL_EVENT_RECORD:
    case FAULT_CALL_COPY:
    case FAULT_CALL_COPY_BATCH:
    case FAULT_CALL_COPY_PEER:
    case FAULT_CALL_FILL:
    case FAULT_CALL_HOST_FUNC:
    case FAULT_CALL_EVENT_QUERY:
    case FAULT_CALL_EVENT_SYNCHRONIZE:
    case FAULT_CALL_STREAM_SYNCHRONIZE:
        return true;
    default:
        return false;
    }
}

static bool is_armed_for(int armed, fault_call_t call)
{
    if (armed == FAULT_CALL_LOSS) {
        return needs_device(call);
    }
    return armed == (int)call || (armed == FAULT_CALL_ANY && answers[call] != DAO_ERR_DEVICE_LOST);
}

/* DAO_OK unless this call has to fail. */
static dao_status_t count_call(fault_call_t call)
{
    if (is_spared_here) {
        return DAO_OK;
    }
    atomic_fetch_add(&call_counts[call], 1);
    int armed = atomic_load(&armed_call);
    if (!is_armed_for(armed, call)) {
        return DAO_OK;
    }
    int64_t before = atomic_fetch_sub(&remaining, 1);
    if (before <= 0 && before > -atomic_load(&armed_count)) {
        dao_status_t answer = armed == FAULT_CALL_LOSS ? DAO_ERR_DEVICE_LOST : answers[call];
        atomic_store(&fired_status, answer);
        atomic_fetch_add(&fired_count, 1);
        return dao_error(answer, "injected: %s failed", fault_call_text(call));
    }
    return DAO_OK;
}

static uint64_t next_random(void)
{
    uint64_t state = atomic_fetch_add(&random_state, UINT64_C(0x9e3779b97f4a7c15));
    return dao_random_next(&state);
}

static dao_status_t count_created(dao_status_t status)
{
    atomic_fetch_add(&live_count, status == DAO_OK ? 1 : 0);
    return status;
}

static dao_status_t count_destroyed(dao_status_t status)
{
    atomic_fetch_sub(&live_count, status == DAO_OK ? 1 : 0);
    return status;
}

/* Wrappers. */

static void *wrap(void *object)
{
    wrapper_t *wrapper = calloc(1, sizeof(*wrapper));
    if (wrapper == NULL) {
        abort();
    }
    atomic_init(&wrapper->state, ALIVE);
    wrapper->inner = object;
    wrapper->next = atomic_load(&all_wrappers);
    while (!atomic_compare_exchange_weak(&all_wrappers, &wrapper->next, wrapper)) {
    }
    return wrapper;
}

static void *unwrap(void *object)
{
    wrapper_t *wrapper = object;
    if (atomic_load(&wrapper->state) != ALIVE) {
        (void)fprintf(stderr, "a stream or an event was used after it was destroyed\n");
        abort();
    }
    return wrapper->inner;
}

static void *unwrap_last(void *object)
{
    void *result = unwrap(object);
    atomic_store(&((wrapper_t *)object)->state, DEAD);
    return result;
}

/* Holding commands back. */

static void sleep_on_stream(void *user)
{
    dao_sleep_until(dao_clock_ns() + (uintptr_t)user);
}

static void hold_back(dao_backend_stream_t *inner_stream)
{
    if (settings.delay_ns_max > 0 && next_random() % 2 == 0) {
        uintptr_t delay_ns = next_random() % settings.delay_ns_max;
        (void)inner->host_func(inner_stream, sleep_on_stream, (void *)delay_ns); /* a delay may be lost */
    }
}

/* The table's functions. */

static dao_status_t fault_open(const dao_config_t *config, dao_backend_t **out_backend)
{
    dao_status_t status = count_call(FAULT_CALL_OPEN);
    return status == DAO_OK ? inner->open(config, out_backend) : status;
}

static dao_status_t fault_device_open(dao_backend_t *backend, int32_t index,
                                      dao_backend_device_t **out_device)
{
    dao_status_t status = count_call(FAULT_CALL_DEVICE_OPEN);
    return status == DAO_OK ? inner->device_open(backend, index, out_device) : status;
}

static dao_status_t fault_device_query(dao_backend_device_t *device, dao_device_info_t *out_info)
{
    dao_status_t status = count_call(FAULT_CALL_DEVICE_QUERY);
    if (status == DAO_OK) {
        status = inner->device_query(device, out_info);
    }
    if (status == DAO_OK) {
        out_info->host_accessible = out_info->host_accessible && !settings.hide_host_access;
        out_info->page_bytes = settings.hide_pages ? 0 : out_info->page_bytes;
    }
    return status;
}

static dao_status_t fault_memory_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    dao_status_t status = count_call(FAULT_CALL_MEMORY_ALLOC);
    return status == DAO_OK ? count_created(inner->memory_alloc(device, size_bytes, out_address)) : status;
}

static dao_status_t fault_memory_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    return count_destroyed(inner->memory_free(device, address, size_bytes));
}

static dao_status_t fault_pinned_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    dao_status_t status = count_call(FAULT_CALL_PINNED_ALLOC);
    return status == DAO_OK ? count_created(inner->pinned_alloc(device, size_bytes, out_address)) : status;
}

static dao_status_t fault_pinned_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    return count_destroyed(inner->pinned_free(device, address, size_bytes));
}

static dao_status_t fault_stream_create(dao_backend_device_t *device, dao_backend_stream_t **out_stream)
{
    dao_backend_stream_t *stream = NULL;
    dao_status_t status = count_call(FAULT_CALL_STREAM_CREATE);
    if (status == DAO_OK) {
        status = count_created(inner->stream_create(device, &stream));
    }
    if (status == DAO_OK) {
        *out_stream = wrap(stream);
    }
    return status;
}

static dao_status_t fault_stream_capture(dao_backend_stream_t *stream, uint64_t *out_capture)
{
    return inner->stream_capture(unwrap(stream), out_capture);
}

static bool fault_stream_is_gone(dao_backend_stream_t *stream)
{
    return inner->stream_is_gone(unwrap(stream));
}

static dao_status_t fault_stream_adopt(dao_backend_device_t *device, void *native,
                                       dao_backend_stream_t **out_stream)
{
    dao_backend_stream_t *stream = NULL;
    dao_status_t status = count_call(FAULT_CALL_STREAM_CREATE);
    if (status == DAO_OK) {
        status = count_created(inner->stream_adopt(device, native, &stream));
    }
    if (status == DAO_OK) {
        *out_stream = wrap(stream);
    }
    return status;
}

static void fault_stream_destroy(dao_backend_stream_t *stream)
{
    inner->stream_destroy(unwrap_last(stream));
    atomic_fetch_sub(&live_count, 1);
}

/* A call that waits is counted once it has waited, or before it would. */
static dao_status_t count_wait(fault_call_t call, bool has_waited)
{
    return settings.runs_on_when_lost == has_waited ? DAO_OK : count_call(call);
}

static dao_status_t fault_stream_synchronize(dao_backend_stream_t *stream)
{
    dao_status_t fault = count_wait(FAULT_CALL_STREAM_SYNCHRONIZE, false);
    if (fault != DAO_OK) {
        return fault;
    }
    dao_status_t status = inner->stream_synchronize(unwrap(stream));
    fault = count_wait(FAULT_CALL_STREAM_SYNCHRONIZE, true);
    return fault != DAO_OK ? fault : status;
}

static dao_status_t fault_stream_wait_event(dao_backend_stream_t *stream, dao_backend_event_t *event)
{
    dao_status_t status = count_call(FAULT_CALL_STREAM_WAIT_EVENT);
    return status == DAO_OK ? inner->stream_wait_event(unwrap(stream), unwrap(event)) : status;
}

static void *fault_stream_native(dao_backend_stream_t *stream)
{
    return inner->stream_native(unwrap(stream));
}

static dao_status_t fault_event_create(dao_backend_device_t *device, bool has_time,
                                       dao_backend_event_t **out_event)
{
    dao_backend_event_t *event = NULL;
    dao_status_t status = count_call(FAULT_CALL_EVENT_CREATE);
    if (status == DAO_OK) {
        status = count_created(inner->event_create(device, has_time, &event));
    }
    if (status == DAO_OK) {
        *out_event = wrap(event);
    }
    return status;
}

static void fault_event_destroy(dao_backend_event_t *event)
{
    inner->event_destroy(unwrap_last(event));
    atomic_fetch_sub(&live_count, 1);
}

static dao_status_t fault_event_record(dao_backend_event_t *event, dao_backend_stream_t *stream)
{
    dao_status_t status = count_call(FAULT_CALL_EVENT_RECORD);
    if (status != DAO_OK) {
        return status;
    }
    hold_back(unwrap(stream));
    uint32_t late = settings.not_ready_max > 0 ? (uint32_t)(next_random() % (settings.not_ready_max + 1)) : 0;
    atomic_store(&((wrapper_t *)(void *)event)->not_ready_count, late);
    return inner->event_record(unwrap(event), unwrap(stream));
}

static dao_status_t fault_event_query(dao_backend_event_t *event)
{
    dao_status_t fault = count_call(FAULT_CALL_EVENT_QUERY);
    if (fault != DAO_OK) {
        return fault;
    }
    dao_status_t status = inner->event_query(unwrap(event));
    wrapper_t *wrapper = (wrapper_t *)(void *)event;
    if (status == DAO_OK && atomic_load(&wrapper->not_ready_count) > 0) {
        atomic_fetch_sub(&wrapper->not_ready_count, 1);
        return DAO_ERR_NOT_READY;
    }
    return status;
}

static dao_status_t fault_event_synchronize(dao_backend_event_t *event)
{
    dao_status_t fault = count_wait(FAULT_CALL_EVENT_SYNCHRONIZE, false);
    if (fault != DAO_OK) {
        return fault;
    }
    dao_status_t status = inner->event_synchronize(unwrap(event));
    fault = count_wait(FAULT_CALL_EVENT_SYNCHRONIZE, true);
    return fault != DAO_OK ? fault : status;
}

static dao_status_t fault_event_elapsed(dao_backend_event_t *begin, dao_backend_event_t *end,
                                        int64_t *out_elapsed_ns)
{
    return inner->event_elapsed(unwrap(begin), unwrap(end), out_elapsed_ns);
}

static dao_status_t fault_copy(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *dst, const void *src,
                               size_t size_bytes)
{
    dao_status_t status = count_call(FAULT_CALL_COPY);
    if (status != DAO_OK) {
        return status;
    }
    hold_back(unwrap(stream));
    return inner->copy(unwrap(stream), kind, dst, src, size_bytes);
}

static dao_status_t fault_copy_batch(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *const *dsts,
                                     const void *const *srcs, const size_t *sizes_bytes, size_t count)
{
    dao_status_t status = count_call(FAULT_CALL_COPY_BATCH);
    if (status != DAO_OK) {
        return status;
    }
    hold_back(unwrap(stream));
    return inner->copy_batch(unwrap(stream), kind, dsts, srcs, sizes_bytes, count);
}

static dao_status_t fault_copy_peer(dao_backend_stream_t *stream, dao_backend_device_t *dst_device, void *dst,
                                    dao_backend_device_t *src_device, const void *src, size_t size_bytes)
{
    dao_status_t status = count_call(FAULT_CALL_COPY_PEER);
    if (status != DAO_OK) {
        return status;
    }
    hold_back(unwrap(stream));
    return inner->copy_peer(unwrap(stream), dst_device, dst, src_device, src, size_bytes);
}

static dao_status_t fault_fill(dao_backend_stream_t *stream, void *dst, uint8_t value, size_t size_bytes)
{
    dao_status_t status = count_call(FAULT_CALL_FILL);
    if (status != DAO_OK) {
        return status;
    }
    hold_back(unwrap(stream));
    return inner->fill(unwrap(stream), dst, value, size_bytes);
}

static dao_status_t fault_stream_wait_word(dao_backend_stream_t *stream, _Atomic uint32_t *word,
                                           uint32_t value)
{
    dao_status_t status = count_call(FAULT_CALL_STREAM_WAIT_WORD);
    return status == DAO_OK ? inner->stream_wait_word(unwrap(stream), word, value) : status;
}

static dao_status_t fault_host_func(dao_backend_stream_t *stream, dao_host_func_t function, void *user)
{
    dao_status_t status = count_call(FAULT_CALL_HOST_FUNC);
    if (status != DAO_OK) {
        return status;
    }
    hold_back(unwrap(stream));
    return inner->host_func(unwrap(stream), function, user);
}

static dao_status_t fault_peer_enable(dao_backend_device_t *device, dao_backend_device_t *peer)
{
    dao_status_t status = count_call(FAULT_CALL_PEER_ENABLE);
    return status == DAO_OK ? inner->peer_enable(device, peer) : status;
}

static dao_status_t fault_host_register(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    dao_status_t status = count_call(FAULT_CALL_HOST_REGISTER);
    return status == DAO_OK ? count_created(inner->host_register(device, address, size_bytes)) : status;
}

static dao_status_t fault_host_unregister(dao_backend_device_t *device, void *address)
{
    dao_status_t status = count_call(FAULT_CALL_HOST_UNREGISTER);
    return status == DAO_OK ? count_destroyed(inner->host_unregister(device, address)) : status;
}

static dao_status_t fault_host_device_address(dao_backend_device_t *device, void *address, void **out_address)
{
    dao_status_t status = count_call(FAULT_CALL_HOST_DEVICE_ADDRESS);
    return status == DAO_OK ? inner->host_device_address(device, address, out_address) : status;
}

static dao_status_t fault_address_reserve(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    dao_status_t status = count_call(FAULT_CALL_ADDRESS_RESERVE);
    return status == DAO_OK ? count_created(inner->address_reserve(device, size_bytes, out_address)) : status;
}

static dao_status_t fault_address_release(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    return count_destroyed(inner->address_release(device, address, size_bytes));
}

static dao_status_t fault_pages_create(dao_backend_device_t *device, size_t size_bytes,
                                       dao_backend_pages_t **out_pages)
{
    dao_status_t status = count_call(FAULT_CALL_PAGES_CREATE);
    return status == DAO_OK ? count_created(inner->pages_create(device, size_bytes, out_pages)) : status;
}

static dao_status_t fault_pages_create_mapped(dao_backend_device_t *device, size_t page_bytes,
                                              size_t page_count, void *address,
                                              dao_backend_pages_t **out_pages)
{
    dao_status_t status = count_call(FAULT_CALL_PAGES_CREATE);
    if (status == DAO_OK) {
        status = inner->pages_create_mapped(device, page_bytes, page_count, address, out_pages);
    }
    atomic_fetch_add(&live_count, status == DAO_OK ? (int64_t)page_count : 0);
    return status;
}

static dao_status_t fault_pages_destroy(dao_backend_device_t *device, dao_backend_pages_t *pages)
{
    return count_destroyed(inner->pages_destroy(device, pages));
}

static dao_status_t fault_pages_map(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    dao_status_t status = count_call(FAULT_CALL_PAGES_MAP);
    return status == DAO_OK ? inner->pages_map(device, pages, address) : status;
}

static dao_status_t fault_shared_create(dao_backend_device_t *device, size_t size_bytes,
                                        dao_backend_shared_t **out_shared, void **out_address)
{
    dao_status_t status = count_call(FAULT_CALL_SHARED_CREATE);
    return status == DAO_OK ? count_created(inner->shared_create(device, size_bytes, out_shared, out_address))
                            : status;
}

static dao_status_t fault_shared_export(dao_backend_device_t *device, dao_backend_shared_t *shared,
                                        dao_backend_share_t *out_share)
{
    dao_status_t status = count_call(FAULT_CALL_SHARED_EXPORT);
    return status == DAO_OK ? inner->shared_export(device, shared, out_share) : status;
}

static dao_status_t fault_shared_import(dao_backend_device_t *device, const dao_backend_share_t *share,
                                        size_t size_bytes, dao_backend_shared_t **out_shared,
                                        void **out_address)
{
    dao_status_t status = count_call(FAULT_CALL_SHARED_IMPORT);
    return status == DAO_OK
               ? count_created(inner->shared_import(device, share, size_bytes, out_shared, out_address))
               : status;
}

static dao_status_t fault_shared_destroy(dao_backend_device_t *device, dao_backend_shared_t *shared)
{
    return count_destroyed(inner->shared_destroy(device, shared));
}

static dao_status_t fault_pages_map_run(dao_backend_device_t *device, dao_backend_pages_t *const *pages,
                                        size_t page_count, void *address)
{
    dao_status_t status = count_call(FAULT_CALL_PAGES_MAP);
    return status == DAO_OK ? inner->pages_map_run(device, pages, page_count, address) : status;
}

static dao_status_t fault_alias_prepare(dao_backend_device_t *device, void *base, size_t size_bytes,
                                        size_t *out_page_bytes)
{
    dao_status_t status = count_call(FAULT_CALL_PAGES_MAP);
    return status == DAO_OK ? inner->alias_prepare(device, base, size_bytes, out_page_bytes) : status;
}

static dao_status_t fault_alias_map(dao_backend_device_t *device, void *base, size_t page_bytes,
                                    const uint32_t *pages, size_t page_count, void **out_address)
{
    dao_status_t status = count_call(FAULT_CALL_PAGES_MAP);
    return status == DAO_OK
               ? count_created(inner->alias_map(device, base, page_bytes, pages, page_count, out_address))
               : status;
}

static dao_status_t fault_alias_unmap(dao_backend_device_t *device, void *address, size_t page_bytes,
                                      size_t page_count, size_t keep_count)
{
    dao_status_t status = inner->alias_unmap(device, address, page_bytes, page_count, keep_count);
    return keep_count == 0 ? count_destroyed(status) : status;
}

/* Wrapping. */

static void forget_wrappers(void)
{
    wrapper_t *wrapper = atomic_exchange(&all_wrappers, NULL);
    while (wrapper != NULL) {
        wrapper_t *next = wrapper->next;
        free(wrapper);
        wrapper = next;
    }
}

static void fill_pages(void)
{
    if (!settings.hide_pages && dao_backend_has_aliases(inner)) {
        table.alias_prepare = fault_alias_prepare;
        table.alias_map = fault_alias_map;
        table.alias_unmap = fault_alias_unmap;
        table.alias_is_slow = inner->alias_is_slow;
    }
    if (settings.hide_pages || !dao_backend_has_pages(inner)) {
        return;
    }
    table.address_reserve = fault_address_reserve;
    table.address_release = fault_address_release;
    table.pages_create = fault_pages_create;
    table.pages_create_mapped = inner->pages_create_mapped != NULL ? fault_pages_create_mapped : NULL;
    table.pages_destroy = fault_pages_destroy;
    table.pages_map = fault_pages_map;
    table.pages_map_run = inner->pages_map_run != NULL ? fault_pages_map_run : NULL;
    table.pages_unmap = inner->pages_unmap;
    table.pages_unmap_run = inner->pages_unmap_run;
    table.pages_size = inner->pages_size;
}

static void fill_shared(void)
{
    if (dao_backend_has_shared(inner)) {
        table.shared_create = fault_shared_create;
        table.shared_export = fault_shared_export;
        table.shared_import = fault_shared_import;
        table.shared_destroy = fault_shared_destroy;
    }
}

static void fill_reach(void)
{
    if (inner->peer_can != NULL) {
        table.peer_can = inner->peer_can;
        table.peer_enable = fault_peer_enable;
    }
    if (inner->host_register != NULL) {
        table.host_register = fault_host_register;
        table.host_unregister = fault_host_unregister;
        table.host_device_address = fault_host_device_address;
    }
}

const dao_backend_ops_t *fault_backend_wrap(const dao_backend_ops_t *wrapped, const fault_config_t *config)
{
    forget_wrappers();
    inner = wrapped;
    settings = *config;
    atomic_store(&random_state, config->seed);
    atomic_store(&live_count, 0);
    for (int i = 0; i < FAULT_CALL_COUNT; i++) {
        atomic_store(&call_counts[i], 0);
    }
    (void)fault_backend_disarm();
    table = (dao_backend_ops_t){
        .version = DAO_BACKEND_OPS_VERSION,
        .name = "fault",
        .open = fault_open,
        .close = wrapped->close,
        .device_count = wrapped->device_count,
        .device_open = fault_device_open,
        .device_close = wrapped->device_close,
        .device_query = fault_device_query,
        .device_synchronize = wrapped->device_synchronize,
        .memory_alloc = fault_memory_alloc,
        .memory_free = fault_memory_free,
        .pinned_alloc = fault_pinned_alloc,
        .pinned_free = fault_pinned_free,
        .stream_create = fault_stream_create,
        .stream_destroy = fault_stream_destroy,
        .stream_synchronize = fault_stream_synchronize,
        .stream_wait_event = fault_stream_wait_event,
        .stream_native = fault_stream_native,
        .event_create = fault_event_create,
        .event_destroy = fault_event_destroy,
        .event_record = fault_event_record,
        .event_query = fault_event_query,
        .event_synchronize = fault_event_synchronize,
        .event_elapsed = fault_event_elapsed,
        .copy = fault_copy,
        .fill = fault_fill,
        .host_func = fault_host_func,
        .stream_adopt = wrapped->stream_adopt != NULL ? fault_stream_adopt : NULL,
        .has_default_stream = wrapped->has_default_stream,
        .copy_peer = wrapped->copy_peer != NULL ? fault_copy_peer : NULL,
        .stream_wait_word = wrapped->stream_wait_word != NULL ? fault_stream_wait_word : NULL,
        .copy_batch = wrapped->copy_batch != NULL ? fault_copy_batch : NULL,
        .stream_capture = wrapped->stream_capture != NULL ? fault_stream_capture : NULL,
        .stream_is_gone = wrapped->stream_is_gone != NULL ? fault_stream_is_gone : NULL,
        .dlpack_device = wrapped->dlpack_device,
        .dlpack_managed = wrapped->dlpack_managed,
        .dlpack_pinned = wrapped->dlpack_pinned,
        .pool_create = wrapped->pool_create,
        .pool_destroy = wrapped->pool_destroy,
        .pool_alloc = wrapped->pool_alloc,
        .pool_free = wrapped->pool_free,
        .thread_stay = wrapped->thread_stay,
        .thread_part = wrapped->thread_part,
    };
    fill_pages();
    fill_shared();
    fill_reach();
    return &table;
}

void fault_backend_arm_row(fault_call_t call, uint64_t skip_count, uint64_t fail_count)
{
    atomic_store(&armed_count, (int64_t)fail_count);
    atomic_store(&remaining, (int64_t)skip_count);
    atomic_store(&fired_count, 0);
    atomic_store(&armed_call, (int)call);
}

void fault_backend_arm(fault_call_t call, uint64_t skip_count, bool persistent)
{
    fault_backend_arm_row(call, skip_count, persistent ? INT64_MAX : 1);
}

uint64_t fault_backend_disarm(void)
{
    atomic_store(&armed_call, -1);
    return atomic_load(&fired_count);
}

dao_status_t fault_backend_fired_status(void)
{
    return atomic_load(&fired_status);
}

uint64_t fault_backend_fired_count(void)
{
    return atomic_load(&fired_count);
}

void fault_backend_spare(bool is_exempt)
{
    is_spared_here = is_exempt;
}

uint64_t fault_backend_calls(fault_call_t call)
{
    return call < FAULT_CALL_COUNT ? atomic_load(&call_counts[call]) : 0;
}

int64_t fault_backend_live_count(void)
{
    return atomic_load(&live_count);
}
