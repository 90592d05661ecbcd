/* SPDX-License-Identifier: Apache-2.0 */
/* What an allocation that fails says: request, figures, who holds most, what would help. */
#include "allocators/accounting/ledger.h"

#include "allocators/accounting/tag_names.h"
#include "allocators/paged/device_memory.h"
#include "base/report/error.h"
#include "tests/support/backends/heap_backend.h"
#include "tests/support/blocks.h"

static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};
static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};

/* Takes a status that a test does not care about. */
static void ignore(dao_status_t status)
{
    (void)status;
}

static void a_request_larger_than_the_device_is_told_so(void)
{
    take_and_fail(device, 65 * MIB, DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_TRUE(
        says("device:0: 68157440 bytes asked for; used with slabs 0, reserved 0, limit none, largest hole 0, "
             "fragmentation 0 %: "));
    CU_ASSERT_TRUE(says("; it can never fit: the device has 67108864 bytes"));
}

static void an_alignment_that_cannot_be_had_is_told(void)
{
    dao_alloc_options_t options = {.alignment_bytes = (size_t)1 << 40};
    CU_ASSERT_PTR_NULL(dao_alloc_with(device, 10, &options));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_TRUE(says("device:0: 10 bytes asked for, aligned to 1099511627776; used with slabs 0"));
    CU_ASSERT_FALSE(says("others hold"));
}

static void a_request_larger_than_the_limit_is_told_so(void)
{
    CU_ASSERT_EQUAL(dao_limit_set(device, 16 * MIB), DAO_OK);
    take_and_fail(device, 20 * MIB, DAO_ERR_LIMIT);
    CU_ASSERT_TRUE(says("limit 16777216, "));
    CU_ASSERT_TRUE(says("; it needs a limit of at least 20971520 bytes"));
    CU_ASSERT_EQUAL(dao_limit_set(device, 3 * MIB), DAO_OK); /* which is one page */
    take_and_fail(device, 2 * MIB + 1, DAO_ERR_LIMIT);
    CU_ASSERT_TRUE(says("; it needs a limit of at least 4194304 bytes"));
    CU_ASSERT_EQUAL(dao_limit_set(device, 1 * MIB), DAO_OK);
    take_and_fail(device, 1, DAO_ERR_LIMIT);
    CU_ASSERT_TRUE(says("; it needs a limit of at least 2097152 bytes"));
}

static void what_has_to_be_freed_is_told(void)
{
    void *block = take(device, 50 * MIB);
    take_and_fail(device, 20 * MIB, DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_TRUE(says("; at least 6291456 bytes have to be freed or swapped out first"));
    give(device, block);
    CU_ASSERT_EQUAL(dao_limit_set(host, 8 * MIB), DAO_OK);
    block = take(host, 6 * MIB);
    take_and_fail(host, 4 * MIB, DAO_ERR_LIMIT);
    CU_ASSERT_TRUE(says("; at least 2097152 bytes have to be freed first"));
    give(host, block);
}

/* Fills the device with blocks of 1 MiB that are small and odd enough to sit on every page, and frees every
   other one. */
static void leave_pieces(void *blocks[64])
{
    for (int i = 0; i < 64; i++) {
        blocks[i] = take(device, 1 * MIB);
    }
    for (int i = 0; i < 64; i += 2) {
        give(device, blocks[i]);
    }
}

static void give_pieces(void *blocks[64])
{
    for (int i = 1; i < 64; i += 2) {
        give(device, blocks[i]);
    }
}

static void pieces_within_pages_are_told(void)
{
    void *blocks[64];
    leave_pieces(blocks);
    take_and_fail(device, 4 * MIB, DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_TRUE(says(
        "used with slabs 33554432, reserved 67108864, limit none, largest hole 1048576, fragmentation 96 %"));
    CU_ASSERT_TRUE(says("; 33554432 bytes are free, but in pieces: it would fit if the step were planned"));
    give_pieces(blocks);
}

static void pieces_of_segments_are_told(void)
{
    stop();
    start_with(0, true);
    void *blocks[64];
    leave_pieces(blocks);
    take_and_fail(device, 4 * MIB, DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_TRUE(
        says("; 33554432 bytes are free, but in pieces: it would fit if they were remapped or the step "
             "were planned"));
    give_pieces(blocks);
}

static void what_others_hold_of_the_device_is_told(void)
{
    heap_backend_t *heap = heap_backend_create(16 * MIB, 0);
    dao_device_memory_config_t config = {
        .ops = heap_backend_ops(heap), .device = heap_backend_device(heap), .name = "device:9"};
    dao_allocator_t *allocator = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_device_memory_create(&config, &allocator), DAO_OK);
    heap_backend_take_bytes(heap, 15 * MIB);
    void *address = NULL;
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 2 * MIB, &address), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_TRUE(says("device:9: 2097152 bytes asked for"));
    CU_ASSERT_TRUE(says("; this place may still take 16777216 bytes of the device, which others hold"));
    heap_backend_take_bytes(heap, 0);
    allocator->ops->destroy(allocator);
    CU_ASSERT_TRUE(heap_backend_destroy(heap));
}

static void the_tags_that_hold_most_are_named(void)
{
    static const char *const names[] = {"text least", "text most", "text third", "text second"};
    static const size_t sizes[] = {1 * MIB, 20 * MIB, 5 * MIB, 10 * MIB};
    void *blocks[4];
    for (int i = 0; i < 4; i++) {
        dao_alloc_options_t options = {0};
        CU_ASSERT_EQUAL_FATAL(dao_tag_create(names[i], &options.tag), DAO_OK);
        blocks[i] = dao_alloc_with(device, sizes[i], &options);
    }
    take_and_fail(device, 40 * MIB, DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_TRUE(
        says("%; most is held for \"text most\" (20971520 bytes), \"text second\" (10485760 bytes), "
             "\"text third\" (5242880 bytes): "));
    CU_ASSERT_PTR_NULL(strstr(dao_last_message(), "text least"));
    for (int i = 0; i < 4; i++) {
        give(device, blocks[i]);
    }
}

static void the_limit_of_a_tag_is_told_as_such(void)
{
    dao_alloc_options_t options = {0};
    CU_ASSERT_EQUAL_FATAL(dao_tag_create("text limited", &options.tag), DAO_OK);
    CU_ASSERT_EQUAL(dao_tag_limit_set(device, options.tag, 3 * MIB), DAO_OK);
    void *block = dao_alloc_with(device, 2 * MIB, &options);
    CU_ASSERT_PTR_NULL(dao_alloc_with(device, 2 * MIB, &options));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_LIMIT);
    CU_ASSERT_TRUE(says("the limit of the tag \"text limited\" is 3145728 bytes, of which it uses 2097152"));
    CU_ASSERT_PTR_NULL(strstr(dao_last_message(), "have to be freed"));
    CU_ASSERT_PTR_NULL(strstr(dao_last_message(), "in pieces"));
    give(device, block);
}

static void the_longest_text_is_not_cut(void)
{
    dao_ledger_t ledger;
    CU_ASSERT_EQUAL_FATAL(dao_ledger_init(&ledger, "device:63"), DAO_OK);
    ledger.capacity_bytes = UINT64_MAX;
    ledger.stats = (dao_stats_t){
        .used_bytes = UINT64_MAX - 2 * GIB, .reserved_bytes = UINT64_MAX - 1, .limit_bytes = UINT64_MAX - 1};
    char name[DAO_TAG_NAME_BYTES];
    memset(name, 'n', sizeof(name));
    name[sizeof(name) - 1] = '\0';
    for (char letter = 'a'; letter < 'd'; letter++) {
        uint32_t tag = 0;
        name[0] = letter;
        CU_ASSERT_EQUAL_FATAL(dao_tag_names_add(name, &tag), DAO_OK);
        CU_ASSERT_EQUAL(dao_tags_charge(ledger.tags, tag, UINT64_MAX - (uint64_t)letter), DAO_OK);
    }
    dao_block_request_t request = {.size_bytes = SIZE_MAX / 2};
    ignore(dao_error(DAO_ERR_NO_DEVICE_MEMORY, "no hole among the addresses is that large; free blocks"));
    ignore(dao_ledger_fail(&ledger, DAO_ERR_NO_DEVICE_MEMORY, &request, 1));
    CU_ASSERT_TRUE(says("device:63: 9223372036854775807 bytes asked for"));
    CU_ASSERT_TRUE(says("\"cnnn"));
    const char *end = " or swapped out first";
    size_t length = strlen(dao_last_message());
    CU_ASSERT_TRUE_FATAL(length > strlen(end));
    CU_ASSERT_STRING_EQUAL(dao_last_message() + length - strlen(end), end);
    dao_ledger_finish(&ledger);
}

static CU_TestInfo tests[] = {
    {"a request larger than the device is told so", a_request_larger_than_the_device_is_told_so},
    {"an alignment that cannot be had is told", an_alignment_that_cannot_be_had_is_told},
    {"a request larger than the limit is told so", a_request_larger_than_the_limit_is_told_so},
    {"what has to be freed is told", what_has_to_be_freed_is_told},
    {"pieces within pages are told", pieces_within_pages_are_told},
    {"pieces of segments are told", pieces_of_segments_are_told},
    {"what others hold of the device is told", what_others_hold_of_the_device_is_told},
    {"the tags that hold most are named", the_tags_that_hold_most_are_named},
    {"the limit of a tag is told as such", the_limit_of_a_tag_is_told_as_such},
    {"the longest text is not cut", the_longest_text_is_not_cut},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"ledger", NULL, NULL, start, stop, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
