/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual devices: the contract in three variants, and what is theirs alone. */
#define _GNU_SOURCE
#include "backends/cpu/cpu.h"
#include "backends/cpu/cpu_internal.h"
#include "tests/contract/backend_contract.h"
#include "tests/support/gate.h"
#include "tests/support/sanitizer.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const dao_backend_ops_t *const ops = &dao_cpu_backend_ops;

/* The contract's subjects. */

static int be_default(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 256 * MIB}};
    backend_contract_set(&dao_cpu_backend_ops, &config);
    return 0;
}

static int be_without_pages(void)
{
    dao_config_t config = {
        .cpu = {.device_count = 2, .device_bytes = 100 * MIB + 12345, .no_page_mapping = true}};
    backend_contract_set(&dao_cpu_backend_ops, &config);
    return 0;
}

static int be_limited(void)
{
    dao_config_t config = {.cpu = {.device_count = 3,
                                   .device_bytes = 64 * MIB,
                                   .h2d_bytes_per_second = UINT64_C(2000000000),
                                   .d2h_bytes_per_second = UINT64_C(1000000000),
                                   .copy_latency_ns = 20000}};
    backend_contract_set(&dao_cpu_backend_ops, &config);
    return 0;
}

/* One device, with what most tests need. */

static dao_backend_t *backend;
static dao_backend_device_t *device;
static dao_backend_stream_t *stream;

static void open_device(dao_cpu_config_t cpu)
{
    dao_config_t config = {.cpu = cpu};
    NEED(ops->open(&config, &backend));
    NEED(ops->device_open(backend, 0, &device));
    NEED(ops->stream_create(device, &stream));
}

static void open_small_device(void)
{
    open_device((dao_cpu_config_t){.device_count = 2, .device_bytes = 64 * MIB});
}

static void close_device(void)
{
    ops->stream_destroy(stream);
    ops->device_close(device); /* asserts that nothing is left */
    ops->close(backend);
}

static void *take(size_t size_bytes)
{
    void *address = NULL;
    NEED(ops->memory_alloc(device, size_bytes, &address));
    return address;
}

/* The table. */

#define REQUIRED_SLOTS(X)                                                                                    \
    X(open)                                                                                                  \
    X(close)                                                                                                 \
    X(device_count)                                                                                          \
    X(device_open)                                                                                           \
    X(device_close)                                                                                          \
    X(device_query)                                                                                          \
    X(device_synchronize)                                                                                    \
    X(memory_alloc)                                                                                          \
    X(memory_free)                                                                                           \
    X(pinned_alloc)                                                                                          \
    X(pinned_free)                                                                                           \
    X(stream_create)                                                                                         \
    X(stream_destroy)                                                                                        \
    X(stream_synchronize)                                                                                    \
    X(stream_wait_event)                                                                                     \
    X(stream_native)                                                                                         \
    X(event_create)                                                                                          \
    X(event_destroy)                                                                                         \
    X(event_record)                                                                                          \
    X(event_query)                                                                                           \
    X(event_synchronize)                                                                                     \
    X(event_elapsed)                                                                                         \
    X(copy)                                                                                                  \
    X(fill)                                                                                                  \
    X(host_func)
#define PAGE_SLOTS(X)                                                                                        \
    X(address_reserve)                                                                                       \
    X(address_release)                                                                                       \
    X(pages_create)                                                                                          \
    X(pages_destroy)                                                                                         \
    X(pages_map)                                                                                             \
    X(pages_unmap)                                                                                           \
    X(pages_size)

static void is_refused_for(const dao_backend_ops_t *table, const char *words)
{
    CU_ASSERT_EQUAL(dao_backend_ops_check(table), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_INVALID);
    const char *found = strstr(dao_last_message(), words);
    CU_ASSERT_PTR_NOT_NULL(found);
    if (found == NULL || strcmp(found, words) != 0) {
        (void)printf("    \"%s\" does not end in \"%s\"\n", dao_last_message(), words);
        CU_FAIL("the slot is not named");
    }
}

static void a_missing_slot_is_named(void)
{
    dao_backend_ops_t table = *ops;
#define CHECK_MISSING(slot)                                                                                  \
    table.slot = NULL;                                                                                       \
    is_refused_for(&table, " no " #slot);                                                                    \
    table.slot = ops->slot;
    REQUIRED_SLOTS(CHECK_MISSING)
    PAGE_SLOTS(CHECK_MISSING)
#undef CHECK_MISSING
    CU_ASSERT_EQUAL(dao_backend_ops_check(&table), DAO_OK);
}

static void one_slot_of_virtual_memory_is_not_enough(void)
{
    dao_backend_ops_t table = *ops;
#define CLEAR(slot) table.slot = NULL;
    PAGE_SLOTS(CLEAR)
#undef CLEAR
    CU_ASSERT_EQUAL(dao_backend_ops_check(&table), DAO_OK);
#define CHECK_ALONE(slot)                                                                                    \
    table.slot = ops->slot;                                                                                  \
    CU_ASSERT_EQUAL(dao_backend_ops_check(&table), DAO_ERR_INVALID);                                         \
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "virtual memory"));                                    \
    table.slot = NULL;
    PAGE_SLOTS(CHECK_ALONE)
#undef CHECK_ALONE
    table.copy_peer = NULL;
    CU_ASSERT_EQUAL(dao_backend_ops_check(&table), DAO_OK);
}

static void another_version_is_refused(void)
{
    dao_backend_ops_t table = *ops;
    table.version = DAO_BACKEND_OPS_VERSION + 1;
    CU_ASSERT_EQUAL(dao_backend_ops_check(&table), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "version 2"));
    table.version = 0;
    CU_ASSERT_EQUAL(dao_backend_ops_check(&table), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "version 0"));
    table = *ops;
    table.name = NULL;
    CU_ASSERT_EQUAL(dao_backend_ops_check(&table), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_backend_ops_check(NULL), DAO_ERR_INVALID);
}

static CU_TestInfo table_tests[] = {
    {"a missing slot is named", a_missing_slot_is_named},
    {"one slot of virtual memory is not enough", one_slot_of_virtual_memory_is_not_enough},
    {"another version is refused", another_version_is_refused},
    CU_TEST_INFO_NULL,
};

/* Settings. */

static const char *const variables[] = {"DAO_CPU_DEVICES",
                                        "DAO_CPU_DEVICE_BYTES",
                                        "DAO_CPU_H2D_BYTES_PER_SECOND",
                                        "DAO_CPU_D2H_BYTES_PER_SECOND",
                                        "DAO_CPU_COPY_LATENCY_NS",
                                        "DAO_CPU_NO_PAGE_MAPPING",
                                        "DAO_CPU_HALF_DUPLEX",
                                        "DAO_CPU_HOST_BYTES_PER_SECOND"};

static void clear_environment(void)
{
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        (void)unsetenv(variables[i]);
    }
}

/* What the backend makes of a config and the environment. */
static dao_backend_t read_settings(dao_cpu_config_t cpu)
{
    dao_config_t config = {.cpu = cpu};
    dao_backend_t *opened = NULL;
    NEED(ops->open(&config, &opened));
    dao_backend_t settings = *opened;
    ops->close(opened);
    return settings;
}

static void without_settings_there_are_defaults(void)
{
    clear_environment();
    dao_backend_t settings = read_settings((dao_cpu_config_t){0});
    CU_ASSERT_EQUAL(settings.device_count, 2);
    CU_ASSERT_EQUAL(settings.device_bytes, 4 * GIB);
    CU_ASSERT(settings.h2d_bytes_per_second == 0 && settings.d2h_bytes_per_second == 0);
    CU_ASSERT_EQUAL(settings.host_link.bytes_per_second, 0);
    CU_ASSERT_EQUAL(settings.copy_latency_ns, 0);
    CU_ASSERT_TRUE(settings.has_pages);
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        (void)setenv(variables[i], "", 1); /* empty is as good as not set */
    }
    CU_ASSERT_EQUAL(read_settings((dao_cpu_config_t){0}).device_bytes, 4 * GIB);
    clear_environment();
}

static void set_environment(void)
{
    static const char *const values[] = {"5", "1.5GiB", "50GB/s", "25GB", "10us", "1", "1", "60GB/s"};
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        (void)setenv(variables[i], values[i], 1);
    }
}

static void the_environment_is_read_with_units(void)
{
    set_environment();
    dao_backend_t settings = read_settings((dao_cpu_config_t){0});
    CU_ASSERT(settings.device_count == 5 && settings.device_bytes == 3 * GIB / 2);
    CU_ASSERT_EQUAL(settings.h2d_bytes_per_second, UINT64_C(50000000000));
    CU_ASSERT_EQUAL(settings.d2h_bytes_per_second, UINT64_C(25000000000));
    CU_ASSERT_EQUAL(settings.host_link.bytes_per_second, UINT64_C(60000000000));
    CU_ASSERT_EQUAL(settings.copy_latency_ns, 10000);
    CU_ASSERT(settings.is_half_duplex && !settings.has_pages);
    clear_environment();
}

static void the_callers_setting_wins_over_the_environment(void)
{
    dao_cpu_config_t cpu = {.device_count = 3,
                            .device_bytes = 64 * MIB,
                            .h2d_bytes_per_second = 7,
                            .d2h_bytes_per_second = 8,
                            .host_bytes_per_second = 10,
                            .copy_latency_ns = 9,
                            .half_duplex = true,
                            .no_page_mapping = true};
    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
            (void)setenv(variables[i], round == 0 ? "0" : "rubbish", 1);
        }
        dao_backend_t settings = read_settings(cpu);
        CU_ASSERT(settings.device_count == 3 && settings.device_bytes == 64 * MIB);
        CU_ASSERT(settings.h2d_bytes_per_second == 7 && settings.d2h_bytes_per_second == 8);
        CU_ASSERT_EQUAL(settings.host_link.bytes_per_second, 10);
        CU_ASSERT_EQUAL(settings.copy_latency_ns, 9);
        CU_ASSERT_FALSE(settings.has_pages);
    }
    clear_environment();
}

/* The message has both words. */
static void opening_is_refused(const dao_cpu_config_t *cpu, const char *word, const char *other_word)
{
    dao_config_t config = {.cpu = *cpu};
    dao_backend_t *opened = NULL;
    dao_status_t status = ops->open(&config, &opened);
    CU_ASSERT_EQUAL(status, DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(opened);
    if (status == DAO_OK) {
        (void)printf("    %s: %s is accepted\n", word, other_word);
        ops->close(opened);
        return;
    }
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), word));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), other_word));
}

static void a_bad_value_is_refused_with_its_variable(void)
{
    static const struct {
        int variable;
        const char *value;
        const char *shown;
    } cases[] = {
        {0, "two", "\"two\""},
        {0, "0", "0"},
        {0, "65", "65"},
        {0, "-1", "\"-1\""},
        {0, "1kB", "\"1kB\""},
        {1, "4XB", "\"4XB\""},
        {1, "0", "0"},
        {1, "1KiB", "1024"},
        {1, "65TiB", "71468255805440"},
        {1, "1e9", "\"1e9\""},
        {1, " 4GiB", "\" 4GiB\""},
        {2, "fast", "\"fast\""},
        {2, "-5GB/s", "-5GB/s"},
        {3, "5GB/h", "5GB/h"},
        {3, "99999999999TB/s", "99999999999TB/s"},
        {4, "5min", "\"5min\""},
        {5, "yes", "\"yes\""},
        {5, "2", "\"2\""},
        {5, "01", "\"01\""},
    };
    clear_environment();
    dao_cpu_config_t defaults = {0};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        (void)setenv(variables[cases[i].variable], cases[i].value, 1);
        opening_is_refused(&defaults, variables[cases[i].variable], cases[i].shown);
        clear_environment();
    }
}

static void a_callers_bad_setting_is_refused(void)
{
    opening_is_refused(&(dao_cpu_config_t){.device_count = -1}, "device_count", "-1");
    opening_is_refused(&(dao_cpu_config_t){.device_count = 65}, "65", "64");
    opening_is_refused(&(dao_cpu_config_t){.device_bytes = 1}, "DAO_CPU_DEVICE_BYTES", "of 1 bytes");
    opening_is_refused(&(dao_cpu_config_t){.device_bytes = UINT64_MAX}, "DAO_CPU_DEVICE_BYTES",
                       "18446744073709551615");
    CU_ASSERT_EQUAL(read_settings((dao_cpu_config_t){.device_count = 64}).device_count, 64);
}

static CU_TestInfo settings_tests[] = {
    {"without settings there are defaults", without_settings_there_are_defaults},
    {"the environment is read with units", the_environment_is_read_with_units},
    {"the caller's setting wins over the environment", the_callers_setting_wins_over_the_environment},
    {"a bad value is refused with its variable", a_bad_value_is_refused_with_its_variable},
    {"a caller's bad setting is refused", a_callers_bad_setting_is_refused},
    CU_TEST_INFO_NULL,
};

/* Memory. */

/* Memory that the process really holds, in bytes. */
static size_t resident_bytes(void)
{
    long total = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        CU_ASSERT_EQUAL(fscanf(file, "%ld %ld", &total, &resident), 2);
        (void)fclose(file);
    }
    return (size_t)resident * 4 * KIB;
}

/* A terabyte, or what a thread sanitizer's layout of the address space leaves room for. */
#if defined(TEST_HAS_THREAD_SANITIZER)
#define HUGE_BYTES (64 * GIB)
#else
#define HUGE_BYTES (1024 * GIB)
#endif

static void a_device_may_be_far_larger_than_the_machine(void)
{
    const size_t size = HUGE_BYTES;
    open_device((dao_cpu_config_t){.device_count = 1, .device_bytes = 64 * 1024 * GIB});
    size_t before = resident_bytes();
    char *blocks[3];
    for (size_t i = 0; i < 3; i++) {
        blocks[i] = take(size);
        NEED(ops->fill(stream, blocks[i] + i * GIB, 1, MIB));
        NEED(ops->fill(stream, blocks[i] + size - MIB, 2, MIB));
    }
    NEED(ops->stream_synchronize(stream));
    char ends[2] = {0, 0};
    NEED(ops->copy(stream, DAO_COPY_KIND_D2H, &ends[0], blocks[2] + 2 * GIB, 1));
    NEED(ops->copy(stream, DAO_COPY_KIND_D2H, &ends[1], blocks[2] + size - 1, 1));
    NEED(ops->stream_synchronize(stream));
    CU_ASSERT_TRUE(ends[0] == 1 && ends[1] == 2);
    CU_ASSERT_TRUE(resident_bytes() < before + GIB);
    for (size_t i = 0; i < 3; i++) {
        NEED(ops->memory_free(device, blocks[i], size));
    }
    close_device();
}

static void freeing_what_is_not_there_is_refused(void)
{
    open_small_device();
    char *block = take(MIB);
    void *pinned = NULL;
    NEED(ops->pinned_alloc(device, MIB, &pinned));
    CU_ASSERT_EQUAL(ops->memory_free(device, block + 256, MIB), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(ops->memory_free(device, block, MIB - 1), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(ops->memory_free(device, pinned, MIB), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(ops->pinned_free(device, block, MIB), DAO_ERR_FOREIGN_POINTER);
    NEED(ops->memory_free(device, block, MIB));
    NEED(ops->pinned_free(device, pinned, MIB));
    CU_ASSERT_EQUAL(ops->memory_free(device, block, MIB), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_FOREIGN_POINTER);
    close_device();
}

static void mapped_pages_are_in_use(void)
{
    const size_t page = DAO_CPU_PAGE_BYTES;
    void *range = NULL;
    dao_backend_pages_t *pages = NULL;
    open_small_device();
    NEED(ops->address_reserve(device, 2 * page, &range));
    NEED(ops->pages_create(device, page, &pages));
    void *elsewhere = (char *)range + page;
    CU_ASSERT_EQUAL(ops->pages_unmap(device, pages, range), DAO_ERR_INVALID);
    NEED(ops->pages_map(device, pages, range));
    CU_ASSERT_EQUAL(ops->pages_destroy(device, pages), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(ops->pages_map(device, pages, elsewhere), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(ops->pages_unmap(device, pages, elsewhere), DAO_ERR_INVALID);
    NEED(ops->pages_unmap(device, pages, range));
    NEED(ops->pages_destroy(device, pages));
    NEED(ops->address_release(device, range, 2 * page));
    close_device();
}

static CU_TestInfo memory_tests[] = {
    {"a device may be far larger than the machine", a_device_may_be_far_larger_than_the_machine},
    {"freeing what is not there is refused", freeing_what_is_not_there_is_refused},
    {"mapped pages are in use", mapped_pages_are_in_use},
    CU_TEST_INFO_NULL,
};

/* Links. A copy may always take longer than its link needs, so times are held from below alone. */

#define MS UINT64_C(1000000)

static void open_linked_device(void)
{
    open_device((dao_cpu_config_t){.device_count = 2,
                                   .device_bytes = 64 * MIB,
                                   .h2d_bytes_per_second = UINT64_C(200000000),
                                   .d2h_bytes_per_second = UINT64_C(100000000),
                                   .copy_latency_ns = MS});
}

/* How long the stream takes for one copy of 10^6 bytes. */
static uint64_t copy_ns(dao_copy_kind_t kind, void *dst, const void *src)
{
    uint64_t begin_ns = dao_clock_ns();
    NEED(ops->copy(stream, kind, dst, src, 1000000));
    NEED(ops->stream_synchronize(stream));
    return dao_clock_ns() - begin_ns;
}

static void a_copy_takes_what_its_link_needs(void)
{
    open_linked_device();
    void *there = take(MIB), *host = NULL;
    NEED(ops->pinned_alloc(device, MIB, &host));
    CU_ASSERT_TRUE(copy_ns(DAO_COPY_KIND_H2D, there, host) >= 6 * MS);
    CU_ASSERT_TRUE(copy_ns(DAO_COPY_KIND_D2H, host, there) >= 11 * MS);
    NEED(ops->pinned_free(device, host, MIB));
    NEED(ops->memory_free(device, there, MIB));
    close_device();
}

static void copies_of_one_direction_share_the_link(void)
{
    enum { COUNT = 3 };
    dao_backend_stream_t *streams[COUNT];
    void *blocks[COUNT];
    void *host = NULL;
    open_linked_device();
    NEED(ops->pinned_alloc(device, COUNT * MIB, &host));
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = take(MIB);
        NEED(ops->stream_create(device, &streams[i]));
    }
    uint64_t begin_ns = dao_clock_ns();
    for (size_t i = 0; i < COUNT; i++) {
        NEED(ops->copy(streams[i], DAO_COPY_KIND_D2H, (char *)host + i * MIB, blocks[i], 1000000));
    }
    for (size_t i = 0; i < COUNT; i++) {
        NEED(ops->stream_synchronize(streams[i]));
    }
    CU_ASSERT_TRUE(dao_clock_ns() - begin_ns >= (COUNT * 10 + 1) * MS);
    for (size_t i = 0; i < COUNT; i++) {
        ops->stream_destroy(streams[i]);
        NEED(ops->memory_free(device, blocks[i], MIB));
    }
    NEED(ops->pinned_free(device, host, COUNT * MIB));
    close_device();
}

static void in_half_duplex_both_directions_share_the_link(void)
{
    dao_backend_stream_t *back = NULL;
    void *host = NULL;
    open_device((dao_cpu_config_t){.device_bytes = 64 * MIB,
                                   .h2d_bytes_per_second = UINT64_C(200000000),
                                   .d2h_bytes_per_second = UINT64_C(100000000),
                                   .half_duplex = true});
    void *near = take(MIB), *other_block = take(MIB);
    NEED(ops->pinned_alloc(device, 2 * MIB, &host));
    NEED(ops->stream_create(device, &back));
    uint64_t begin_ns = dao_clock_ns();
    NEED(ops->copy(stream, DAO_COPY_KIND_H2D, near, host, 1000000));
    NEED(ops->copy(back, DAO_COPY_KIND_D2H, (char *)host + MIB, other_block, 1000000));
    NEED(ops->stream_synchronize(stream));
    NEED(ops->stream_synchronize(back));
    CU_ASSERT_TRUE(dao_clock_ns() - begin_ns >= 15 * MS);
    ops->stream_destroy(back);
    NEED(ops->pinned_free(device, host, 2 * MIB));
    NEED(ops->memory_free(device, near, MIB));
    NEED(ops->memory_free(device, other_block, MIB));
    close_device();
}

static void a_copy_between_devices_passes_both_links(void)
{
    dao_backend_device_t *peer = NULL;
    void *far = NULL;
    open_linked_device();
    NEED(ops->device_open(backend, 1, &peer));
    NEED(ops->memory_alloc(peer, MIB, &far));
    void *near = take(MIB);
    uint64_t begin_ns = dao_clock_ns();
    NEED(ops->copy_peer(stream, peer, far, device, near, 1000000));
    NEED(ops->stream_synchronize(stream));
    CU_ASSERT_TRUE(dao_clock_ns() - begin_ns >= 15 * MS);
    NEED(ops->memory_free(device, near, MIB));
    NEED(ops->memory_free(peer, far, MIB));
    ops->device_close(peer);
    close_device();
}

static CU_TestInfo link_tests[] = {
    {"a copy takes what its link needs", a_copy_takes_what_its_link_needs},
    {"copies of one direction share the link", copies_of_one_direction_share_the_link},
    {"in half duplex both directions share the link", in_half_duplex_both_directions_share_the_link},
    {"a copy between devices passes both links", a_copy_between_devices_passes_both_links},
    CU_TEST_INFO_NULL,
};

/* Host functions. */

/* What a host function tries its hand at. */
typedef struct intruder {
    void *memory;
    void *pinned;
    void *range;
    dao_backend_pages_t *pages;
    dao_backend_event_t *event;
    int call_count;
    int refused_count;
} intruder_t;

static void count_call(intruder_t *intruder, const char *call, dao_status_t status)
{
    bool is_refused = status == DAO_ERR_REENTRANT && dao_last_status() == DAO_ERR_REENTRANT;
    if (!is_refused) {
        (void)printf("    from a host function, %s answers %s\n", call, dao_status_name(status));
    }
    intruder->call_count++;
    intruder->refused_count += is_refused ? 1 : 0;
}

#define TRY(slot, ...) count_call(intruder, #slot, ops->slot(__VA_ARGS__))

static void call_for_memory(intruder_t *intruder)
{
    void *address = NULL;
    dao_backend_pages_t *pages = NULL;
    TRY(memory_alloc, device, MIB, &address);
    TRY(memory_free, device, intruder->memory, MIB);
    TRY(pinned_alloc, device, MIB, &address);
    TRY(pinned_free, device, intruder->pinned, MIB);
    TRY(address_reserve, device, DAO_CPU_PAGE_BYTES, &address);
    TRY(address_release, device, intruder->range, DAO_CPU_PAGE_BYTES);
    TRY(pages_create, device, DAO_CPU_PAGE_BYTES, &pages);
    TRY(pages_map, device, intruder->pages, intruder->range);
    TRY(pages_unmap, device, intruder->pages, intruder->range);
    TRY(pages_destroy, device, intruder->pages);
}

static void call_for_work(intruder_t *intruder)
{
    dao_backend_stream_t *created = NULL;
    dao_backend_event_t *event = NULL;
    int64_t elapsed_ns = 0;
    TRY(stream_create, device, &created);
    TRY(stream_synchronize, stream);
    TRY(stream_wait_event, stream, intruder->event);
    TRY(event_create, device, true, &event);
    TRY(event_record, intruder->event, stream);
    TRY(event_query, intruder->event);
    TRY(event_synchronize, intruder->event);
    TRY(event_elapsed, intruder->event, intruder->event, &elapsed_ns);
    TRY(copy, stream, DAO_COPY_KIND_H2D, intruder->memory, intruder->pinned, MIB);
    TRY(copy_peer, stream, device, intruder->memory, device, intruder->pinned, MIB);
    TRY(fill, stream, intruder->memory, 1, MIB);
    TRY(host_func, stream, dao_gate_wait, NULL);
}

static void call_everything(void *user)
{
    intruder_t *intruder = user;
    dao_config_t config = {0};
    dao_backend_t *opened = NULL;
    dao_backend_device_t *opened_device = NULL;
    dao_device_info_t info;
    int32_t count = 0;
    TRY(open, &config, &opened);
    TRY(device_count, backend, &count);
    TRY(device_open, backend, 1, &opened_device);
    TRY(device_query, device, &info);
    TRY(device_synchronize, device);
    call_for_memory(intruder);
    call_for_work(intruder);
}

static void a_host_function_must_not_call_the_device(void)
{
    intruder_t intruder = {.call_count = 0};
    open_small_device();
    intruder.memory = take(MIB);
    NEED(ops->pinned_alloc(device, MIB, &intruder.pinned));
    NEED(ops->address_reserve(device, DAO_CPU_PAGE_BYTES, &intruder.range));
    NEED(ops->pages_create(device, DAO_CPU_PAGE_BYTES, &intruder.pages));
    NEED(ops->event_create(device, true, &intruder.event));
    NEED(ops->host_func(stream, call_everything, &intruder));
    NEED(ops->stream_synchronize(stream));
    CU_ASSERT_EQUAL(intruder.call_count, 27);
    CU_ASSERT_EQUAL(intruder.refused_count, intruder.call_count);
    ops->event_destroy(intruder.event);
    NEED(ops->pages_destroy(device, intruder.pages));
    NEED(ops->address_release(device, intruder.range, DAO_CPU_PAGE_BYTES));
    NEED(ops->pinned_free(device, intruder.pinned, MIB));
    NEED(ops->memory_free(device, intruder.memory, MIB));
    close_device();
}

static CU_TestInfo host_func_tests[] = {
    {"a host function must not call the device", a_host_function_must_not_call_the_device},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {
        {"contract: cpu", be_default, NULL, backend_contract_begin, backend_contract_end,
         backend_contract_tests},
        {"contract: cpu, pages", be_default, NULL, backend_contract_begin, backend_contract_end,
         backend_contract_pages_tests},
        {"contract: cpu without page mapping", be_without_pages, NULL, backend_contract_begin,
         backend_contract_end, backend_contract_tests},
        {"contract: cpu without page mapping, pages", be_without_pages, NULL, backend_contract_begin,
         backend_contract_end, backend_contract_pages_tests},
        {"contract: cpu with limited links", be_limited, NULL, backend_contract_begin, backend_contract_end,
         backend_contract_tests},
        {"contract: cpu with limited links, pages", be_limited, NULL, backend_contract_begin,
         backend_contract_end, backend_contract_pages_tests},
        {"backend_cpu: table", NULL, NULL, NULL, NULL, table_tests},
        {"backend_cpu: settings", NULL, NULL, NULL, NULL, settings_tests},
        {"backend_cpu: memory", NULL, NULL, NULL, NULL, memory_tests},
        {"backend_cpu: links", NULL, NULL, NULL, NULL, link_tests},
        {"backend_cpu: host functions", NULL, NULL, NULL, NULL, host_func_tests},
        CU_SUITE_INFO_NULL,
    };
    return dao_suite_run(suites);
}
