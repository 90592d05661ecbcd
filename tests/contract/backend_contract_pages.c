/* SPDX-License-Identifier: Apache-2.0 */
/* What every backend with virtual memory owes; the others skip these tests by name. */
#include "tests/contract/backend_contract_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dao_backend_pages_t *new_pages(size_t size_bytes)
{
    dao_backend_pages_t *pages = NULL;
    NEED(contract.ops->pages_create(contract.device, size_bytes, &pages));
    CU_ASSERT_EQUAL(contract.ops->pages_size(pages), size_bytes);
    return pages;
}

static void *reserve(size_t size_bytes)
{
    void *address = NULL;
    NEED(contract.ops->address_reserve(contract.device, size_bytes, &address));
    CU_ASSERT_EQUAL((uintptr_t)address % contract.info.page_bytes, 0);
    return address;
}

static size_t page_bytes(void)
{
    return (size_t)contract.info.page_bytes;
}

static void addresses_beyond_the_capacity_can_be_reserved(void)
{
    if (!contract_has_pages()) {
        return;
    }
    size_t size = 2 * ((size_t)contract.info.total_bytes / page_bytes() + 1) * page_bytes();
    uint64_t before = contract_free_bytes();
    void *first = reserve(size), *second = reserve(size);
    if (contract.info.host_accessible) {
        CU_ASSERT_EQUAL(contract_free_bytes(), before);
    }
    CU_ASSERT_TRUE((uintptr_t)first >= (uintptr_t)second + size ||
                   (uintptr_t)second >= (uintptr_t)first + size);
    CU_ASSERT_EQUAL(contract.ops->address_release(contract.device, first, size), DAO_OK);
    CU_ASSERT_EQUAL(contract.ops->address_release(contract.device, second, size), DAO_OK);
}

/* Each round maps at another place; the bytes come along. */
static void check_pages_keep_their_bytes(size_t page_count)
{
    size_t size = page_count * page_bytes();
    void *range = reserve(4 * size);
    uint8_t *host = contract_take_pinned(size);
    dao_backend_pages_t *pages = new_pages(size);
    static const size_t places[] = {0, 3, 1, 1, 2, 0};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        void *place = contract_at(range, places[i] * size);
        NEED(contract.ops->pages_map(contract.device, pages, place));
        if (i > 0) {
            memset(host, 0, size);
            contract_copy_now(DAO_COPY_KIND_D2H, host, place, size);
            CU_ASSERT_TRUE(contract_is_drawn(host, size, i - 1));
        }
        contract_draw(host, size, i);
        contract_copy_now(DAO_COPY_KIND_H2D, place, host, size);
        NEED(contract.ops->pages_unmap(contract.device, pages, place));
    }
    CU_ASSERT_EQUAL(contract.ops->pages_destroy(contract.device, pages), DAO_OK);
    contract_give_pinned(host, size);
    CU_ASSERT_EQUAL(contract.ops->address_release(contract.device, range, 4 * size), DAO_OK);
}

static void pages_keep_their_bytes_wherever_they_are_mapped(void)
{
    if (contract_has_pages()) {
        check_pages_keep_their_bytes(1);
        check_pages_keep_their_bytes(3);
    }
}

/* Three handles become one range, change places, and nothing of a neighbour is touched. */
static void check_neighbours(dao_backend_pages_t *const handles[3], void *range, uint8_t *host)
{
    static const size_t orders[][3] = {{0, 1, 2}, {2, 0, 1}, {1, 2, 0}, {2, 1, 0}};
    size_t page = page_bytes();
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        for (size_t j = 0; j < 3; j++) {
            NEED(contract.ops->pages_map(contract.device, handles[orders[i][j]],
                                         contract_at(range, j * page)));
        }
        if (i == 0) {
            for (size_t j = 0; j < 3; j++) {
                contract_draw(host + j * page, page, j);
            }
            contract_copy_now(DAO_COPY_KIND_H2D, range, host, 3 * page);
        }
        memset(host, 0, 3 * page);
        contract_copy_now(DAO_COPY_KIND_D2H, host, range, 3 * page); /* across the edges */
        for (size_t j = 0; j < 3; j++) {
            CU_ASSERT_TRUE(contract_is_drawn(host + j * page, page, orders[i][j]));
        }
        for (size_t j = 3; j-- > 0;) {
            NEED(contract.ops->pages_unmap(contract.device, handles[orders[i][j]],
                                           contract_at(range, j * page)));
        }
    }
}

static void handles_side_by_side_are_one_range(void)
{
    if (!contract_has_pages()) {
        return;
    }
    size_t size = 3 * page_bytes();
    void *range = reserve(size);
    uint8_t *host = contract_take_pinned(size);
    dao_backend_pages_t *handles[3];
    for (size_t i = 0; i < 3; i++) {
        handles[i] = new_pages(page_bytes());
    }
    check_neighbours(handles, range, host);
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(contract.ops->pages_destroy(contract.device, handles[i]), DAO_OK);
    }
    contract_give_pinned(host, size);
    CU_ASSERT_EQUAL(contract.ops->address_release(contract.device, range, size), DAO_OK);
}

/* Unmaps handles by one call, where the backend has such a call. */
static void unmap_side_by_side(dao_backend_pages_t *const *handles, size_t count, void *address)
{
    if (contract.ops->pages_unmap_run != NULL) {
        NEED(contract.ops->pages_unmap_run(contract.device, handles, count, address));
        return;
    }
    for (size_t i = 0; i < count; i++) {
        NEED(contract.ops->pages_unmap(contract.device, handles[i], contract_at(address, i * page_bytes())));
    }
}

/* Maps three handles by one call, in their order and the other way round: their bytes stay with them. */
static void a_run_of_handles_is_one_range(void)
{
    if (!contract_has_pages() || contract.ops->pages_map_run == NULL) {
        (void)printf("    skipped: %s maps handles one by one\n", contract.ops->name);
        return;
    }
    size_t page = page_bytes();
    void *range = reserve(4 * page);
    uint8_t *host = contract_take_pinned(3 * page);
    dao_backend_pages_t *handles[] = {new_pages(page), new_pages(page), new_pages(page)};
    NEED(contract.ops->pages_map_run(contract.device, handles, 3, range));
    contract_draw(host, page, 0);
    contract_draw(host + page, page, 1);
    contract_draw(host + 2 * page, page, 2);
    contract_copy_now(DAO_COPY_KIND_H2D, range, host, 3 * page); /* across the edges */
    unmap_side_by_side(handles, 3, range);
    dao_backend_pages_t *const turned[] = {handles[2], handles[1], handles[0]};
    NEED(contract.ops->pages_map_run(contract.device, turned, 3, contract_at(range, page)));
    memset(host, 0, 3 * page);
    contract_copy_now(DAO_COPY_KIND_D2H, host, contract_at(range, page), 3 * page);
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_TRUE(contract_is_drawn(host + i * page, page, 2 - i));
    }
    unmap_side_by_side(turned, 3, contract_at(range, page));
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(contract.ops->pages_destroy(contract.device, turned[i]), DAO_OK);
    }
    contract_give_pinned(host, 3 * page);
    CU_ASSERT_EQUAL(contract.ops->address_release(contract.device, range, 4 * page), DAO_OK);
}

static void pages_beyond_the_capacity_are_refused(void)
{
    if (!contract_has_pages()) {
        return;
    }
    size_t size = ((size_t)contract.info.total_bytes / page_bytes() + 1) * page_bytes();
    dao_backend_pages_t *pages = NULL;
    CU_ASSERT_EQUAL(contract.ops->pages_create(contract.device, size, &pages), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_PTR_NULL(pages);
    CU_ASSERT_EQUAL(contract.ops->pages_destroy(contract.device, new_pages(page_bytes())), DAO_OK);
}

static void pages_and_memory_share_the_capacity(void)
{
    if (!contract_has_pages() || !contract_has_exact_capacity()) {
        return;
    }
    size_t taken = (size_t)contract.info.total_bytes - 2 * page_bytes();
    void *memory = contract_take(taken);
    dao_backend_pages_t *first = new_pages(page_bytes()), *second = new_pages(page_bytes()), *third = NULL;
    void *more = NULL;
    CU_ASSERT_EQUAL(contract_free_bytes(), 0);
    CU_ASSERT_EQUAL(contract.ops->pages_create(contract.device, page_bytes(), &third),
                    DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(contract.ops->memory_alloc(contract.device, 1, &more), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(contract.ops->pages_destroy(contract.device, first), DAO_OK);
    CU_ASSERT_EQUAL(contract_free_bytes(), page_bytes());
    more = contract_take(page_bytes());
    CU_ASSERT_EQUAL(contract.ops->pages_create(contract.device, page_bytes(), &third),
                    DAO_ERR_NO_DEVICE_MEMORY);
    contract_give(memory, taken);
    third = new_pages(taken / page_bytes() * page_bytes());
    CU_ASSERT_PTR_NOT_NULL(third);
    CU_ASSERT_EQUAL(contract.ops->pages_destroy(contract.device, third), DAO_OK);
    CU_ASSERT_EQUAL(contract.ops->pages_destroy(contract.device, second), DAO_OK);
    contract_give(more, page_bytes());
    CU_ASSERT_EQUAL(contract_free_bytes(), contract.info.total_bytes);
}

enum { ALIASED_COUNT = 3 };

/* Memory of whole pages: mapped handles where the subject has them, else plain memory. */
typedef struct aliased {
    uint8_t *base;
    size_t page_bytes;
    dao_backend_pages_t *handles[ALIASED_COUNT]; /* NULL: plain memory */
} aliased_t;

static void take_aliased(aliased_t *memory)
{
    *memory = (aliased_t){.page_bytes = contract_has_pages() ? page_bytes() : (size_t)2 << 20};
    if (!contract_has_pages()) {
        memory->base = contract_take(ALIASED_COUNT * memory->page_bytes);
        return;
    }
    memory->base = reserve(ALIASED_COUNT * memory->page_bytes);
    for (size_t i = 0; i < ALIASED_COUNT; i++) {
        memory->handles[i] = new_pages(memory->page_bytes);
        NEED(contract.ops->pages_map(contract.device, memory->handles[i],
                                     contract_at(memory->base, i * memory->page_bytes)));
    }
}

static void give_aliased(aliased_t *memory)
{
    for (size_t i = 0; memory->handles[0] != NULL && i < ALIASED_COUNT; i++) {
        NEED(contract.ops->pages_unmap(contract.device, memory->handles[i],
                                       contract_at(memory->base, i * memory->page_bytes)));
        CU_ASSERT_EQUAL(contract.ops->pages_destroy(contract.device, memory->handles[i]), DAO_OK);
    }
    if (memory->handles[0] != NULL) {
        CU_ASSERT_EQUAL(
            contract.ops->address_release(contract.device, memory->base, ALIASED_COUNT * memory->page_bytes),
            DAO_OK);
    } else {
        contract_give(memory->base, ALIASED_COUNT * memory->page_bytes);
    }
}

/* Writes by three addresses and reads all by a fourth one, on another stream behind an event. */
static void check_aliases(const aliased_t *memory, uint8_t *one, uint8_t *two, uint8_t *host)
{
    size_t page = memory->page_bytes;
    dao_backend_stream_t *reader = NULL;
    dao_backend_event_t *event = NULL;
    NEED(contract.ops->stream_create(contract.device, &reader));
    NEED(contract.ops->event_create(contract.device, false, &event));
    NEED(contract.ops->fill(contract.stream, memory->base, 1, ALIASED_COUNT * page));
    NEED(contract.ops->fill(contract.stream, one, 7, page)); /* page 2 */
    NEED(contract.ops->fill(contract.stream, contract_at(two, page), 9, page));
    NEED(contract.ops->event_record(event, contract.stream));
    NEED(contract.ops->stream_wait_event(reader, event));
    NEED(contract.ops->copy(reader, DAO_COPY_KIND_D2H, host, two, 4 * page));
    NEED(contract.ops->stream_synchronize(reader));
    static const uint8_t behind_two[] = {1, 9, 7, 7};
    for (size_t i = 0; !contract.ops->has_no_bytes && i < 4; i++) {
        CU_ASSERT_EQUAL(host[i * page], behind_two[i]);
        CU_ASSERT_EQUAL(host[(i + 1) * page - 1], behind_two[i]);
    }
    contract.ops->event_destroy(event);
    contract.ops->stream_destroy(reader);
}

static void a_page_is_behind_several_addresses(void)
{
    static const uint32_t first[] = {2, 0}, second[] = {0, 1, 2, 2};
    aliased_t memory;
    size_t page = 0;
    void *one = NULL, *two = NULL;
    if (!dao_backend_has_aliases(contract.ops)) {
        (void)printf("    skipped: %s maps no page twice\n", contract.ops->name);
        return;
    }
    take_aliased(&memory);
    dao_status_t status =
        contract.ops->alias_prepare(contract.device, memory.base, ALIASED_COUNT * memory.page_bytes, &page);
    CU_ASSERT_TRUE(status == DAO_OK ? page == memory.page_bytes : status == DAO_ERR_UNSUPPORTED);
    if (status == DAO_OK) {
        uint8_t *host = contract_take_pinned(4 * page);
        NEED(contract.ops->alias_map(contract.device, memory.base, page, first, 2, &one));
        NEED(contract.ops->alias_map(contract.device, memory.base, page, second, 4, &two));
        check_aliases(&memory, one, two, host);
        CU_ASSERT_EQUAL(contract.ops->alias_unmap(contract.device, two, page, 4, 3), DAO_OK);
        CU_ASSERT_EQUAL(contract.ops->alias_unmap(contract.device, two, page, 3, 1), DAO_OK);
        CU_ASSERT_EQUAL(contract.ops->alias_unmap(contract.device, two, page, 1, 0), DAO_OK);
        contract_copy_now(DAO_COPY_KIND_D2H, host, memory.base, 3 * page); /* they keep their bytes */
        CU_ASSERT_TRUE(contract.ops->has_no_bytes || (host[page] == 9 && host[2 * page] == 7));
        CU_ASSERT_EQUAL(contract.ops->alias_unmap(contract.device, one, page, 2, 0), DAO_OK);
        contract_give_pinned(host, 4 * page);
    } else {
        (void)printf("    skipped: %s maps no page twice here\n", contract.ops->name);
    }
    give_aliased(&memory);
}

CU_TestInfo backend_contract_pages_tests[] = {
    {"addresses beyond the capacity can be reserved", addresses_beyond_the_capacity_can_be_reserved},
    {"pages keep their bytes wherever they are mapped", pages_keep_their_bytes_wherever_they_are_mapped},
    {"handles side by side are one range", handles_side_by_side_are_one_range},
    {"a run of handles is one range", a_run_of_handles_is_one_range},
    {"a page is behind several addresses", a_page_is_behind_several_addresses},
    {"pages beyond the capacity are refused", pages_beyond_the_capacity_are_refused},
    {"pages and memory share the capacity", pages_and_memory_share_the_capacity},
    CU_TEST_INFO_NULL,
};
