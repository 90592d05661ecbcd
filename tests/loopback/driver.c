/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing the driver, and the checks of every call. */
#include "tests/loopback/driver.h"

#include "backends/cpu/cpu.h"
#include "backends/vendor/vendor_internal.h"
#include "base/memory/shared.h"
#include "tests/loopback/cases.h"
#include "tests/loopback/veil.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/backends/portion.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

loopback_driver_t loopback_driver = {.lock = DAO_MUTEX_INITIALIZER(DAO_RANK_LEAF), .calls_until_fail = -1};

/* What is current in a thread: the device of its context, or if it has none the one that it has chosen. */
static _Thread_local int chosen_device;
static _Thread_local int context_device = LOOPBACK_NO_DEVICE;
static _Thread_local vendorError_t last_error;
static _Thread_local bool is_in_host_func;
static _Thread_local vendorStreamCaptureMode_t capture_mode; /* 0, global, as a thread begins */

static const char *const rule_texts[] = {
#define LOOPBACK_RULE_TEXT(name, text) text,
    LOOPBACK_RULE_LIST(LOOPBACK_RULE_TEXT)
#undef LOOPBACK_RULE_TEXT
};

/* ---- what every call does ---- */

/* With the lock held. */
static void breach_locked(loopback_rule_t rule, const char *call)
{
    loopback_driver.breach_counts[rule]++;
    if (!loopback_driver.is_tolerant) {
        (void)fprintf(stderr, "loopback driver: %s: %s\n", call, rule_texts[rule]);
        abort();
    }
}

vendorError_t loopback_error(vendorError_t error)
{
    if (error != vendorSuccess) {
        last_error = error;
    }
    return error;
}

vendorError_t loopback_breach(loopback_rule_t rule, const char *call)
{
    dao_mutex_lock(&loopback_driver.lock);
    breach_locked(rule, call);
    dao_mutex_unlock(&loopback_driver.lock);
    return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
}

int loopback_current_device(void)
{
    return context_device != LOOPBACK_NO_DEVICE ? context_device : chosen_device;
}

int loopback_context(void)
{
    return context_device;
}

void loopback_context_set(int device)
{
    context_device = device;
}

/* With the lock held. */
static void make_context_locked(int device)
{
    loopback_driver.has_context[device] = true;
}

void loopback_context_make(int device)
{
    dao_mutex_lock(&loopback_driver.lock);
    make_context_locked(device);
    dao_mutex_unlock(&loopback_driver.lock);
}

/* What is asked of a device needs its context. */
static void need_context_locked(void)
{
    make_context_locked(loopback_current_device());
#ifdef vendorContextStart
    context_device = loopback_current_device();
#endif
}

/* The failure that a test has asked for, if it is its turn. */
static vendorError_t failure_locked(const char *call)
{
    loopback_driver_t *driver = &loopback_driver;
    loopback_cases_note(call);
    if (driver->calls_until_fail < 0 || driver->calls_until_fail-- > 0) {
        return vendorSuccess;
    }
    driver->has_failed = true;
    driver->failed_call = call;
    driver->failure_count++;
    loopback_cases_note_failure(call, (int)driver->failure);
    if (dao_vendor_is_lost(driver->failure) && loopback_current_device() < driver->device_count) {
        driver->lost[loopback_current_device()] = driver->failure;
    }
    return driver->failure;
}

static vendorError_t begin_locked(const char *call, int device, bool needs_context)
{
    loopback_driver_t *driver = &loopback_driver;
    driver->call_count++;
    if (is_in_host_func) {
        breach_locked(LOOPBACK_RULE_IN_HOST_FUNCTION, call);
        return (vendorError_t)LOOPBACK_INVALID_VALUE;
    }
    if (driver->cpu == NULL) {
        breach_locked(LOOPBACK_RULE_NOT_OPEN, call);
        return vendorErrorNoDevice;
    }
    if (device != LOOPBACK_NO_DEVICE && device != loopback_current_device()) {
        breach_locked(LOOPBACK_RULE_WRONG_DEVICE, call);
    }
    if (needs_context) {
        need_context_locked();
    }
    if (needs_context && capture_mode != vendorStreamCaptureModeRelaxed) {
        breach_locked(LOOPBACK_RULE_CAPTURE, call);
    }
    vendorError_t error = failure_locked(call);
    return error != vendorSuccess ? error : driver->lost[loopback_current_device()];
}

vendorError_t loopback_begin(const char *call, int device)
{
    dao_mutex_lock(&loopback_driver.lock);
    vendorError_t error = begin_locked(call, device, true);
    dao_mutex_unlock(&loopback_driver.lock);
    return loopback_error(error);
}

vendorError_t loopback_begin_question(const char *call, int device)
{
    dao_mutex_lock(&loopback_driver.lock);
    vendorError_t error = begin_locked(call, device, false);
    dao_mutex_unlock(&loopback_driver.lock);
    return loopback_error(error);
}

vendorError_t loopback_from(dao_status_t status)
{
    switch (status) {
    case DAO_OK:
        return vendorSuccess;
    case DAO_ERR_NO_DEVICE_MEMORY:
    case DAO_ERR_NO_HOST_MEMORY:
        return loopback_error(vendorErrorMemoryAllocation);
    case DAO_ERR_NOT_READY:
        return loopback_error(vendorErrorNotReady);
    case DAO_ERR_NO_DEVICE:
        return loopback_error(vendorErrorInvalidDevice);
    default:
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
}

vendorError_t loopback_lost(int device)
{
    dao_mutex_lock(&loopback_driver.lock);
    vendorError_t error = loopback_driver.lost[device];
    dao_mutex_unlock(&loopback_driver.lock);
    return loopback_error(error);
}

dao_backend_device_t *loopback_device(void)
{
    return loopback_driver.devices[loopback_current_device()];
}

void loopback_run_host_func(void (*function)(void *), void *user)
{
    static dao_mutex_t one_by_one = DAO_MUTEX_INITIALIZER(DAO_RANK_CONTEXT);
    bool waits = loopback_driver.is_like_real || loopback_driver.settings.is_one_by_one;
    if (waits) {
        dao_mutex_lock(&one_by_one);
    }
    is_in_host_func = true;
    function(user);
    is_in_host_func = false;
    if (waits) {
        dao_mutex_unlock(&one_by_one);
    }
}

/* ---- objects ---- */

loopback_object_t *loopback_stream(vendorStream_t stream)
{
    return stream != NULL ? (loopback_object_t *)(void *)stream
                          : loopback_driver.default_streams[loopback_current_device()];
}

static loopback_object_t *object_create(loopback_kind_t kind, void *inner, size_t size_bytes)
{
    loopback_object_t *object = calloc(1, sizeof(*object));
    if (object == NULL) {
        abort(); /* the test machine is full */
    }
    *object = (loopback_object_t){.kind = kind,
                                  .device = loopback_current_device(),
                                  .inner = inner,
                                  .size_bytes = size_bytes,
                                  .descriptor = DAO_NO_DESCRIPTOR};
    return object;
}

loopback_object_t *loopback_object_add(loopback_kind_t kind, void *inner, size_t size_bytes)
{
    loopback_object_t *object = object_create(kind, inner, size_bytes);
    dao_mutex_lock(&loopback_driver.lock);
    object->id = kind == LOOPBACK_KIND_STREAM ? ++loopback_driver.stream_serial : 0;
    object->next = loopback_driver.objects;
    loopback_driver.objects = object;
    dao_mutex_unlock(&loopback_driver.lock);
    return object;
}

bool loopback_object_check(const loopback_object_t *object, loopback_kind_t kind, const char *call)
{
    dao_mutex_lock(&loopback_driver.lock);
    bool is_alive = object != NULL && !object->is_gone && object->kind == kind;
    if (!is_alive) {
        breach_locked(LOOPBACK_RULE_UNKNOWN, call);
    }
    dao_mutex_unlock(&loopback_driver.lock);
    return is_alive;
}

void loopback_object_remove(loopback_object_t *object)
{
    dao_mutex_lock(&loopback_driver.lock);
    object->is_gone = true;
    dao_mutex_unlock(&loopback_driver.lock);
}

/* ---- the current device ---- */

void loopback_count_around(void)
{
    dao_mutex_lock(&loopback_driver.lock);
    loopback_driver.around_count++;
    dao_mutex_unlock(&loopback_driver.lock);
}

vendorError_t loopback_begin_current(const char *call)
{
    dao_mutex_lock(&loopback_driver.lock);
    loopback_driver.around_count++;
    vendorError_t error = failure_locked(call); /* a lost device can still be asked for */
    if (is_in_host_func) {
        breach_locked(LOOPBACK_RULE_IN_HOST_FUNCTION, call);
    }
    dao_mutex_unlock(&loopback_driver.lock);
    return loopback_error(error);
}

vendorError_t vendorGetDevice(int *out_device)
{
    vendorError_t error = loopback_begin_current("get device");
    if (error == vendorSuccess) {
        *out_device = loopback_current_device();
    }
    return error;
}

bool loopback_may_be_current(int device)
{
    return device >= 0 && device < loopback_driver.device_count &&
           device + 1 != loopback_driver.settings.refused_device;
}

/* It never fails by its number: nothing could mend it if the caller's device did not come back. */
vendorError_t vendorSetDevice(int device)
{
    loopback_count_around();
    if (!loopback_may_be_current(device)) {
        return loopback_error(vendorErrorInvalidDevice);
    }
    chosen_device = device;
#ifdef vendorContextStart
    loopback_context_make(device); /* since CUDA 12 */
    loopback_context_set(device);
#endif
    return vendorSuccess;
}

void loopback_exchange_mode(vendorStreamCaptureMode_t *mode)
{
    loopback_count_around();
    vendorStreamCaptureMode_t before = capture_mode;
    capture_mode = *mode;
    *mode = before;
}

vendorError_t vendorThreadExchangeStreamCaptureMode(vendorStreamCaptureMode_t *mode)
{
#ifdef vendorContextStart /* the runtime makes the current device's context first */
    dao_mutex_lock(&loopback_driver.lock);
    need_context_locked();
    dao_mutex_unlock(&loopback_driver.lock);
#endif
    loopback_exchange_mode(mode);
    return vendorSuccess;
}

bool loopback_has_own_capture_mode(void)
{
    return capture_mode == (vendorStreamCaptureMode_t)0;
}

vendorError_t vendorGetLastError(void)
{
    vendorError_t error = last_error;
    last_error = vendorSuccess;
    return error;
}

/* ---- open and close ---- */

/* The work of others that asked for NULL goes here. */
static dao_status_t open_default_stream(loopback_driver_t *driver, int device)
{
    dao_backend_stream_t *inner = NULL;
    dao_status_t status = dao_cpu_backend_ops.stream_create(driver->devices[device], &inner);
    if (status == DAO_OK) {
        loopback_object_t *stream = object_create(LOOPBACK_KIND_STREAM, inner, 0);
        stream->device = device;
        driver->default_streams[device] = stream;
    }
    return status;
}

static void close_cpu(loopback_driver_t *driver)
{
    for (int i = 0; i < DAO_DEVICE_COUNT_MAX; i++) {
        if (driver->default_streams[i] != NULL) {
            dao_cpu_backend_ops.stream_destroy(driver->default_streams[i]->inner);
            free(driver->default_streams[i]);
            driver->default_streams[i] = NULL;
        }
        if (driver->devices[i] != NULL) {
            dao_cpu_backend_ops.device_close(driver->devices[i]);
            driver->devices[i] = NULL;
        }
    }
    if (driver->cpu != NULL) {
        dao_cpu_backend_ops.close(driver->cpu);
        driver->cpu = NULL;
    }
}

static dao_status_t open_cpu(loopback_driver_t *driver, const dao_config_t *config)
{
    dao_status_t status = dao_cpu_backend_ops.open(config, &driver->cpu);
    if (status == DAO_OK) {
        status = dao_cpu_backend_ops.device_count(driver->cpu, &driver->device_count);
    }
    for (int i = 0; i < driver->device_count && status == DAO_OK; i++) {
        driver->lost[i] = vendorSuccess;
        driver->reached[i] = 0;
        status = dao_cpu_backend_ops.device_open(driver->cpu, i, &driver->devices[i]);
        status = status == DAO_OK ? open_default_stream(driver, i) : status;
    }
    return status;
}

static dao_status_t open_driver(const dao_config_t *config, dao_backend_t **out_backend)
{
    loopback_driver_t *driver = &loopback_driver;
    dao_status_t status = DAO_OK;
    if (driver->open_count == 0) {
        driver->device_count = 0;
        driver->has_failed = false;
        driver->failed_call = "";
        memset(driver->has_context, 0, sizeof(driver->has_context));
        status = open_cpu(driver, config);
    }
    if (status == DAO_OK) {
        status = dao_vendor_backend_ops.open(config, out_backend);
    }
    if (status == DAO_OK) {
        driver->open_count++;
    } else if (driver->open_count == 0) {
        close_cpu(driver);
    }
    return status;
}

/* Frees what callers have left, as the end of a process would. Streams first: their work uses the rest. */
static void collect(loopback_driver_t *driver)
{
    const dao_backend_ops_t *cpu = &dao_cpu_backend_ops;
    for (loopback_object_t *object = driver->objects; object != NULL; object = object->next) {
        if (object->kind == LOOPBACK_KIND_STREAM && !object->is_gone) {
            cpu->stream_destroy(object->inner);
        }
    }
    loopback_object_t *next = NULL;
    for (loopback_object_t *object = driver->objects; object != NULL; object = next) {
        next = object->next;
        if (object->kind == LOOPBACK_KIND_EVENT && !object->is_gone) {
            cpu->event_destroy(object->inner);
        } else if (object->kind == LOOPBACK_KIND_PAGES && !object->is_gone) {
            loopback_pages_end(object);
        } else if (object->kind == LOOPBACK_KIND_SHARE && !object->is_gone) {
            loopback_share_end(object);
        }
        free(object);
    }
    driver->objects = NULL;
    for (size_t i = 0; i < driver->memory.count; i++) {
        const loopback_span_t *span = &driver->memory.items[i];
        if (span->is_pinned) {
            (void)cpu->pinned_free(driver->devices[span->device], span->begin, span->size_bytes);
        } else if (span->is_imported) { /* its bytes went with its share */
            loopback_unveil(span);
        } else {
            (void)loopback_memory_give(span);
        }
    }
    for (size_t i = 0; i < driver->reserved.count; i++) {
        const loopback_span_t *span = &driver->reserved.items[i];
        (void)cpu->address_release(driver->devices[span->device], span->bytes, span->size_bytes);
        loopback_unveil(span);
    }
    loopback_spans_finish(&driver->memory);
    loopback_spans_finish(&driver->reserved);
    loopback_spans_finish(&driver->mapped);
    loopback_spans_finish(&driver->registered);
}

static bool has_left(const loopback_driver_t *driver)
{
    for (const loopback_object_t *object = driver->objects; object != NULL; object = object->next) {
        if (!object->is_gone) {
            return true;
        }
    }
    return driver->memory.count != 0 || driver->reserved.count != 0 || driver->mapped.count != 0 ||
           driver->registered.count != 0;
}

static void close_device(dao_backend_device_t *device)
{
    device_bytes_end(device);
    dao_vendor_backend_ops.device_close(device);
}

static void close_driver(dao_backend_t *backend)
{
    loopback_driver_t *driver = &loopback_driver;
    dao_vendor_backend_ops.close(backend);
    if (--driver->open_count > 0) {
        return;
    }
    if (has_left(driver) && !driver->has_failed) {
        (void)loopback_breach(LOOPBACK_RULE_LEFT, "close");
    }
    collect(driver);
    close_cpu(driver);
}

static void wait_for_word(void *user)
{
    const _Atomic uint32_t *word = user;
    while (atomic_load(word) != 1) {
        dao_sleep_until(dao_clock_ns() + LOOPBACK_LOOK_NS);
    }
}

/* Holds a stream up as a device would do it itself. */
static bool hold(int32_t device_index, void *native_stream, const uint32_t *word)
{
    (void)device_index;
    const loopback_object_t *stream = native_stream;
    return dao_cpu_backend_ops.host_func(stream->inner, wait_for_word, (void *)(uintptr_t)word) == DAO_OK;
}

static void print_counts(void)
{
    (void)printf("loopback driver as %s: %" PRIu64 " calls checked, %" PRIu64 " failed on demand\n",
                 VENDOR_BACKEND_NAME, loopback_driver.call_count, loopback_driver.failure_count);
}

const dao_backend_ops_t *loopback_ops(void)
{
    static dao_backend_ops_t ops;
    if (ops.open == NULL) {
        ops = dao_vendor_backend_ops;
        ops.open = open_driver;
        ops.close = close_driver;
        ops.device_close = close_device;
        loopback_driver.is_like_real = getenv("DAO_TEST_LIKE_REAL") != NULL;
        device_hold_set(hold);
        (void)atexit(print_counts);
    }
    return &ops;
}

/* In the place of the one that comes with the cpu backend. */
const dao_backend_ops_t *dao_backend_ops(void)
{
    const dao_backend_ops_t *ops = loopback_ops();
    return loopback_driver.is_like_real ? portion_ops(ops) : ops;
}

/* ---- what tests set and read ---- */

void loopback_set(const loopback_settings_t *settings)
{
    dao_mutex_lock(&loopback_driver.lock);
    loopback_driver.settings = *settings;
    loopback_driver.calls_until_fail = -1;
    dao_mutex_unlock(&loopback_driver.lock);
}

void loopback_fail(long calls, int error)
{
    dao_mutex_lock(&loopback_driver.lock);
    loopback_driver.calls_until_fail = calls;
    loopback_driver.failure = (vendorError_t)error;
    dao_mutex_unlock(&loopback_driver.lock);
}

void loopback_lose(int device, int error)
{
    dao_mutex_lock(&loopback_driver.lock);
    loopback_driver.lost[device] = (vendorError_t)error;
    loopback_driver.has_failed = true;
    dao_mutex_unlock(&loopback_driver.lock);
}

bool loopback_has_failed(void)
{
    dao_mutex_lock(&loopback_driver.lock);
    bool has_failed = loopback_driver.has_failed;
    dao_mutex_unlock(&loopback_driver.lock);
    return has_failed;
}

const char *loopback_failed_call(void)
{
    dao_mutex_lock(&loopback_driver.lock);
    const char *call = loopback_driver.has_failed ? loopback_driver.failed_call : "";
    dao_mutex_unlock(&loopback_driver.lock);
    return call;
}

uint64_t loopback_call_count(void)
{
    dao_mutex_lock(&loopback_driver.lock);
    uint64_t count = loopback_driver.call_count;
    dao_mutex_unlock(&loopback_driver.lock);
    return count;
}

uint64_t loopback_around_count(void)
{
    dao_mutex_lock(&loopback_driver.lock);
    uint64_t count = loopback_driver.around_count;
    dao_mutex_unlock(&loopback_driver.lock);
    return count;
}

dao_status_t loopback_choose_device(int device)
{
    return vendorSetDevice(device) == vendorSuccess ? DAO_OK : DAO_ERR_NO_DEVICE;
}

long loopback_missing_cases(const int *errors, size_t error_count, long *out_count)
{
    dao_mutex_lock(&loopback_driver.lock);
    long missing_count = loopback_cases_missing(errors, error_count, out_count);
    dao_mutex_unlock(&loopback_driver.lock);
    return missing_count;
}

int loopback_last_error(void)
{
    return (int)last_error;
}

bool loopback_has_context(int device)
{
    dao_mutex_lock(&loopback_driver.lock);
    bool has_context = loopback_driver.has_context[device];
    dao_mutex_unlock(&loopback_driver.lock);
    return has_context;
}

void loopback_forget_choice(void)
{
    chosen_device = 0;
    context_device = LOOPBACK_NO_DEVICE;
}

void loopback_tolerate(bool is_tolerant)
{
    dao_mutex_lock(&loopback_driver.lock);
    loopback_driver.is_tolerant = is_tolerant;
    dao_mutex_unlock(&loopback_driver.lock);
}

long loopback_take_breaches(loopback_rule_t rule)
{
    dao_mutex_lock(&loopback_driver.lock);
    long count = loopback_driver.breach_counts[rule];
    loopback_driver.breach_counts[rule] = 0;
    dao_mutex_unlock(&loopback_driver.lock);
    return count;
}
