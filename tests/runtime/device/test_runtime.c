/* SPDX-License-Identifier: Apache-2.0 */
/* What the runtime does when a call of the backend fails: every call of a scenario in turn. After each
   failure the answer is an error, the places hold what they held, the current device is the same, and in the
   end nothing is left open. */
#include <dao/dao.h>

#include "base/report/error.h"
#include "runtime/start/context.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

#define BYTES (300 * KIB)

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static const dao_place_t pinned_1 = {DAO_PLACE_KIND_PINNED, 1};
static const dao_place_t device_0 = {DAO_PLACE_KIND_DEVICE, 0};
static const dao_place_t device_1 = {DAO_PLACE_KIND_DEVICE, 1};

/* ---- the built backend with one call that fails ---- */

static dao_backend_ops_t table;
static _Atomic int64_t calls_left = INT64_MAX; /* until the one that fails */
static _Atomic int opened_count;               /* backends, devices, streams and events */

static dao_status_t fails(const char *slot)
{
    bool is_this = atomic_fetch_sub(&calls_left, 1) == 0;
    return is_this ? dao_error_vendor(DAO_ERR_BACKEND, 77, "%s failed on purpose", slot) : DAO_OK;
}

/* A slot that makes something, and counts it. */
#define MAKING(slot, parameters, arguments)                                                                  \
    static dao_status_t failing_##slot parameters                                                            \
    {                                                                                                        \
        dao_status_t status = fails(#slot);                                                                  \
        status = status == DAO_OK ? dao_backend_ops()->slot arguments : status;                              \
        opened_count += status == DAO_OK;                                                                    \
        return status;                                                                                       \
    }
/* Its counterpart. */
#define UNMAKING(slot, type)                                                                                 \
    static void counting_##slot(type *object)                                                                \
    {                                                                                                        \
        opened_count--;                                                                                      \
        dao_backend_ops()->slot(object);                                                                     \
    }
/* A slot that fails instead of doing its work. */
#define DOING(slot, parameters, arguments)                                                                   \
    static dao_status_t failing_##slot parameters                                                            \
    {                                                                                                        \
        dao_status_t status = fails(#slot);                                                                  \
        return status == DAO_OK ? dao_backend_ops()->slot arguments : status;                                \
    }
/* A slot that waits, and answers an error when it has waited. */
#define WAITING(slot, type)                                                                                  \
    static dao_status_t failing_##slot(type *object)                                                         \
    {                                                                                                        \
        dao_status_t status = dao_backend_ops()->slot(object);                                               \
        return status == DAO_OK ? fails(#slot) : status;                                                     \
    }

MAKING(open, (const dao_config_t *config, dao_backend_t **out), (config, out))
MAKING(device_open, (dao_backend_t * backend, int32_t index, dao_backend_device_t **out),
       (backend, index, out))
MAKING(stream_create, (dao_backend_device_t * device, dao_backend_stream_t **out), (device, out))
MAKING(event_create, (dao_backend_device_t * device, bool has_time, dao_backend_event_t **out),
       (device, has_time, out))
UNMAKING(close, dao_backend_t)
UNMAKING(device_close, dao_backend_device_t)
UNMAKING(stream_destroy, dao_backend_stream_t)
UNMAKING(event_destroy, dao_backend_event_t)
DOING(device_count, (dao_backend_t * backend, int32_t *out), (backend, out))
DOING(device_query, (dao_backend_device_t * device, dao_device_info_t *out), (device, out))
DOING(memory_alloc, (dao_backend_device_t * device, size_t bytes, void **out), (device, bytes, out))
DOING(pinned_alloc, (dao_backend_device_t * device, size_t bytes, void **out), (device, bytes, out))
DOING(event_record, (dao_backend_event_t * event, dao_backend_stream_t *stream), (event, stream))
DOING(copy, (dao_backend_stream_t * stream, dao_copy_kind_t kind, void *dst, const void *src, size_t bytes),
      (stream, kind, dst, src, bytes))
DOING(fill, (dao_backend_stream_t * stream, void *dst, uint8_t value, size_t bytes),
      (stream, dst, value, bytes))
DOING(address_reserve, (dao_backend_device_t * device, size_t bytes, void **out), (device, bytes, out))
DOING(pages_create, (dao_backend_device_t * device, size_t bytes, dao_backend_pages_t **out),
      (device, bytes, out))
DOING(pages_create_mapped,
      (dao_backend_device_t * device, size_t page_bytes, size_t count, void *address,
       dao_backend_pages_t **out),
      (device, page_bytes, count, address, out))
DOING(pages_map, (dao_backend_device_t * device, dao_backend_pages_t *pages, void *address),
      (device, pages, address))
WAITING(event_synchronize, dao_backend_event_t)
WAITING(stream_synchronize, dao_backend_stream_t)

static dao_status_t start(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    table = *dao_backend_ops();
#define TAKE(slot) table.slot = failing_##slot
    TAKE(open), TAKE(device_open), TAKE(stream_create), TAKE(event_create), TAKE(device_count),
        TAKE(device_query);
    TAKE(memory_alloc), TAKE(pinned_alloc), TAKE(event_record), TAKE(copy), TAKE(fill);
    TAKE(event_synchronize), TAKE(stream_synchronize);
    if (dao_backend_has_pages(&table)) {
        TAKE(address_reserve), TAKE(pages_create), TAKE(pages_map);
        table.pages_create_mapped = table.pages_create_mapped != NULL ? failing_pages_create_mapped : NULL;
    }
#undef TAKE
    table.close = counting_close;
    table.device_close = counting_device_close;
    table.stream_destroy = counting_stream_destroy;
    table.event_destroy = counting_event_destroy;
    table.copy_peer = NULL; /* so that copies between devices take all the ways there are */
    return dao_context_start(&config, &table);
}

/* ---- scenarios: each does one thing and undoes it ---- */

static dao_status_t use_device(void)
{
    void *block = dao_alloc(device_1, BYTES);
    return block != NULL ? dao_free(device_1, block) : dao_last_status();
}

static dao_status_t use_pinned(void)
{
    void *block = dao_alloc(pinned_1, BYTES);
    return block != NULL ? dao_free(pinned_1, block) : dao_last_status();
}

static dao_status_t use_handle(void)
{
    dao_memory_t *memory = NULL;
    dao_status_t status = dao_memory_create(device_0, BYTES, NULL, &memory);
    CU_ASSERT_EQUAL(status == DAO_OK, memory != NULL);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    return status;
}

static dao_status_t use_stream(void)
{
    dao_stream_t *stream = NULL;
    dao_event_t *event = NULL;
    dao_status_t status = dao_stream_create(1, &stream);
    status = status == DAO_OK ? dao_event_create(1, &event) : status;
    status = status == DAO_OK ? dao_event_record(event, stream) : status;
    status = status == DAO_OK ? dao_stream_synchronize(stream) : status;
    dao_event_destroy(event);
    dao_stream_destroy(stream);
    return status;
}

static dao_status_t use_tensor(void)
{
    int64_t shape[] = {100, 700};
    dao_tensor_t *tensor = NULL;
    dao_status_t status = dao_tensor_zeros(device_0, DAO_TYPE_F32, 2, shape, &tensor);
    CU_ASSERT_EQUAL(status == DAO_OK, tensor != NULL);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
    return status;
}

static dao_status_t use_copies(void)
{
    static char bytes[BYTES];
    dao_status_t status = DAO_OK;
    void *first = dao_alloc(device_0, BYTES);
    status = first == NULL ? dao_last_status() : status;
    void *second = dao_alloc(device_1, BYTES);
    status = second == NULL ? dao_last_status() : status;
    status = status == DAO_OK ? dao_copy(device_0, first, host, bytes, BYTES) : status;
    status = status == DAO_OK ? dao_copy(device_1, second, device_0, first, BYTES) : status;
    status = status == DAO_OK ? dao_copy(host, bytes, device_1, second, BYTES) : status;
    CU_ASSERT_EQUAL(dao_free(device_0, first), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device_1, second), DAO_OK);
    return status;
}

/* ---- each call fails in turn ---- */

static void assert_nothing_is_held(void)
{
    const dao_place_t places[] = {host, pinned_1, device_0, device_1};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        CU_ASSERT_EQUAL(dao_trim(places[i], 0, NULL), DAO_OK); /* waits for frees that were deferred */
        CU_ASSERT_EQUAL(dao_used(places[i]), 0);
    }
    CU_ASSERT_EQUAL(dao_device_get_current(), 0);
}

/* Runs a scenario with the n-th call failing, from a start and from one where the devices are in use already.
   Some failures the runtime gets around: then the scenario succeeds. It ends when there was no n-th call. */
static void fail_each_call(dao_status_t (*scenario)(void), bool is_warm)
{
    bool fired = true;
    int64_t n = 0;
    for (; fired && n < 10000; n++) {
        calls_left = is_warm ? INT64_MAX : n;
        dao_status_t status = start();
        if (is_warm) {
            CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
            CU_ASSERT_EQUAL(use_copies(), DAO_OK);
            CU_ASSERT_EQUAL(use_pinned(), DAO_OK);
            calls_left = n;
        }
        bool is_started = status == DAO_OK;
        status = is_started ? scenario() : status;
        fired = calls_left < 0;
        calls_left = INT64_MAX;
        CU_ASSERT_TRUE(fired || status == DAO_OK);
        if (status != DAO_OK) {
            CU_ASSERT_EQUAL(dao_last_status(), status);
            CU_ASSERT_EQUAL(dao_last_vendor_code(), 77);
            CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "failed on purpose"));
        }
        if (is_started) {
            assert_nothing_is_held();
            CU_ASSERT_EQUAL(scenario(), DAO_OK); /* what failed before works now */
            CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
        }
        CU_ASSERT_EQUAL(opened_count, 0);
    }
    CU_ASSERT_FALSE(fired);
    CU_ASSERT_TRUE(n > 1 || is_warm);
}

#define SCENARIO_TEST(name)                                                                                  \
    static void name##_survives_every_failing_call(void)                                                     \
    {                                                                                                        \
        fail_each_call(name, false);                                                                         \
        fail_each_call(name, true);                                                                          \
    }
SCENARIO_TEST(use_device)
SCENARIO_TEST(use_pinned)
SCENARIO_TEST(use_handle)
SCENARIO_TEST(use_stream)
SCENARIO_TEST(use_tensor)
SCENARIO_TEST(use_copies)

static CU_TestInfo tests[] = {
    {"device memory survives every failing call", use_device_survives_every_failing_call},
    {"pinned memory survives every failing call", use_pinned_survives_every_failing_call},
    {"handles survive every failing call", use_handle_survives_every_failing_call},
    {"streams and events survive every failing call", use_stream_survives_every_failing_call},
    {"tensors survive every failing call", use_tensor_survives_every_failing_call},
    {"copies survive every failing call", use_copies_survives_every_failing_call},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"runtime", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
