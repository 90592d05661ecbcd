/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "tests/runtime/own/own_tables.h"

#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ALIGNMENT_BYTES ((size_t)4096)
#define FILE_PAGE       (2 * MIB)
#define FILE_PAGE_MAX   1024 /* of a file */

own_tables_t own_tables = {.file = -1, .fail_at = -1};

/* The pages of the file that are taken. */
static _Atomic bool taken[FILE_PAGE_MAX];

void own_tables_begin(void)
{
    own_tables = (own_tables_t){.file = -1};
    atomic_store(&own_tables.fail_at, -1);
}

void own_tables_end(void)
{
    CU_ASSERT_EQUAL(atomic_load(&own_tables.held_bytes), 0);
    CU_ASSERT_EQUAL(atomic_load(&own_tables.reserved_bytes), 0);
    CU_ASSERT_EQUAL(atomic_load(&own_tables.event_count), 0);
    if (own_tables.file >= 0) {
        (void)close(own_tables.file);
        own_tables.file = -1;
    }
}

/* Returns true if this call is the one that is to fail. */
static bool fails(void)
{
    long at = atomic_load(&own_tables.fail_at);
    return at >= 0 && atomic_fetch_sub(&own_tables.fail_at, 1) == 0;
}

static dao_status_t own_obtain(void *user, size_t size_bytes, void **out_address)
{
    own_tables_t *tables = user;
    if (tables->inside != NULL) {
        tables->inside();
    }
    if (fails()) {
        return DAO_ERR_NO_DEVICE_MEMORY;
    }
    size_t room_bytes = (size_bytes + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
    char *address = aligned_alloc(ALIGNMENT_BYTES, room_bytes);
    if (address == NULL) {
        return DAO_ERR_NO_DEVICE_MEMORY;
    }
    atomic_fetch_add(&tables->held_bytes, (long)size_bytes);
    *out_address = address + (tables->gives_odd ? 1 : 0);
    return DAO_OK;
}

static dao_status_t own_release(void *user, void *address, size_t size_bytes)
{
    own_tables_t *tables = user;
    if (fails()) {
        return DAO_ERR_BACKEND;
    }
    atomic_fetch_sub(&tables->held_bytes, (long)size_bytes);
    free((char *)address - (uintptr_t)address % ALIGNMENT_BYTES);
    return DAO_OK;
}

dao_own_memory_t own_malloc_table(uint64_t capacity_bytes)
{
    return (dao_own_memory_t){.name = "malloc",
                              .user = &own_tables,
                              .capacity_bytes = capacity_bytes,
                              .alignment_bytes = ALIGNMENT_BYTES,
                              .obtain = own_obtain,
                              .release = own_release};
}

/* ---- a device of the program's ---- */

static dao_status_t own_copy(void *user, dao_own_copy_t way, void *dst, const void *src, size_t size_bytes)
{
    own_tables_t *tables = user;
    (void)way;
    if (fails()) {
        return DAO_ERR_COPY_FAILED;
    }
    atomic_fetch_add(&tables->copy_count, 1);
    memcpy(dst, src, size_bytes);
    return DAO_OK;
}

typedef struct own_event {
    _Atomic(own_stream_t *) stream; /* NULL: not recorded */
    _Atomic int number;
} own_event_t;

static dao_status_t own_event_create(void *user, void **out_event)
{
    own_tables_t *tables = user;
    own_event_t *event = fails() ? NULL : calloc(1, sizeof(*event));
    if (event == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    atomic_fetch_add(&tables->event_count, 1);
    *out_event = event;
    return DAO_OK;
}

static void own_event_destroy(void *user, void *event)
{
    own_tables_t *tables = user;
    atomic_fetch_sub(&tables->event_count, 1);
    free(event);
}

static dao_status_t own_event_record(void *user, void *event, void *stream)
{
    (void)user;
    if (fails()) {
        return DAO_ERR_BACKEND;
    }
    own_event_t *own = event;
    own_stream_t *on = stream;
    atomic_store(&own->number, atomic_load(&on->queued));
    atomic_store(&own->stream, on);
    return DAO_OK;
}

static dao_status_t own_event_query(void *user, void *event)
{
    (void)user;
    own_event_t *own = event;
    own_stream_t *on = atomic_load(&own->stream);
    return on == NULL || atomic_load(&on->done) >= atomic_load(&own->number) ? DAO_OK : DAO_ERR_NOT_READY;
}

static dao_status_t own_event_synchronize(void *user, void *event)
{
    own_tables_t *tables = user;
    if (fails()) {
        return DAO_ERR_BACKEND;
    }
    own_event_t *own = event;
    own_stream_t *on = atomic_load(&own->stream);
    if (tables->waiting != NULL) {
        tables->waiting(on);
    }
    if (on != NULL && atomic_load(&on->done) < atomic_load(&own->number)) {
        atomic_store(&on->done, atomic_load(&own->number)); /* its work is done when somebody waits */
    }
    return DAO_OK;
}

static dao_status_t own_stream_wait_event(void *user, void *stream, void *event)
{
    (void)user;
    (void)event;
    if (fails()) {
        return DAO_ERR_BACKEND;
    }
    own_stream_t *on = stream;
    atomic_fetch_add(&on->waited, 1);
    return DAO_OK;
}

dao_own_memory_t own_chip_table(uint64_t capacity_bytes)
{
    dao_own_memory_t table = own_malloc_table(capacity_bytes);
    table.name = "chip";
    table.copy = own_copy;
    table.event_create = own_event_create;
    table.event_destroy = own_event_destroy;
    table.event_record = own_event_record;
    table.event_query = own_event_query;
    table.event_synchronize = own_event_synchronize;
    table.stream_wait_event = own_stream_wait_event;
    return table;
}

/* ---- pages of a file ---- */

static dao_status_t file_reserve(void *user, size_t size_bytes, void **out_address)
{
    own_tables_t *tables = user;
    void *address = fails() ? MAP_FAILED
                            : mmap(NULL, size_bytes + FILE_PAGE, PROT_NONE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (address == MAP_FAILED) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    char *begin = address;
    char *aligned = begin + (FILE_PAGE - (uintptr_t)begin % FILE_PAGE) % FILE_PAGE;
    if (aligned != begin) {
        (void)munmap(begin, (size_t)(aligned - begin));
    }
    if (aligned != begin + FILE_PAGE) {
        (void)munmap(aligned + size_bytes, (size_t)(begin + FILE_PAGE - aligned));
    }
    atomic_fetch_add(&tables->reserved_bytes, (long)size_bytes);
    *out_address = aligned + (tables->gives_odd ? 1 : 0);
    return DAO_OK;
}

static dao_status_t file_unreserve(void *user, void *address, size_t size_bytes)
{
    own_tables_t *tables = user;
    atomic_fetch_sub(&tables->reserved_bytes, (long)size_bytes);
    return munmap((char *)address - (uintptr_t)address % FILE_PAGE, size_bytes) == 0 ? DAO_OK
                                                                                     : DAO_ERR_BACKEND;
}

/* A page is its number in the file, from 1. */
static dao_status_t file_page_create(void *user, size_t size_bytes, void **out_page)
{
    own_tables_t *tables = user;
    CU_ASSERT_EQUAL(size_bytes, FILE_PAGE);
    bool is_refused = fails();
    for (size_t i = 0; i < FILE_PAGE_MAX && !is_refused; i++) {
        bool was_taken = false;
        if (atomic_compare_exchange_strong(&taken[i], &was_taken, true)) {
            atomic_fetch_add(&tables->held_bytes, (long)size_bytes);
            *out_page = (void *)(i + 1);
            return DAO_OK;
        }
    }
    return DAO_ERR_NO_DEVICE_MEMORY;
}

static dao_status_t file_page_destroy(void *user, void *page, size_t size_bytes)
{
    own_tables_t *tables = user;
    if (fails()) {
        return DAO_ERR_BACKEND;
    }
    atomic_fetch_sub(&tables->held_bytes, (long)size_bytes);
    atomic_store(&taken[(uintptr_t)page - 1], false);
    return DAO_OK;
}

static dao_status_t file_page_map(void *user, void *page, void *address, size_t size_bytes)
{
    own_tables_t *tables = user;
    off_t offset = (off_t)(((uintptr_t)page - 1) * FILE_PAGE);
    bool is_mapped = !fails() && mmap(address, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                                      tables->file, offset) == address;
    return is_mapped ? DAO_OK : DAO_ERR_BACKEND;
}

static dao_status_t file_page_unmap(void *user, void *page, void *address, size_t size_bytes)
{
    (void)user;
    (void)page;
    bool is_unmapped =
        !fails() && mmap(address, size_bytes, PROT_NONE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == address;
    return is_unmapped ? DAO_OK : DAO_ERR_BACKEND;
}

dao_own_memory_t own_file_table(uint64_t capacity_bytes)
{
    if (own_tables.file < 0) {
        FILE *file = tmpfile();
        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        own_tables.file = dup(fileno(file));
        (void)fclose(file);
        CU_ASSERT_EQUAL_FATAL(ftruncate(own_tables.file, (off_t)(FILE_PAGE_MAX * FILE_PAGE)), 0);
    }
    dao_own_memory_t table = own_malloc_table(capacity_bytes);
    table.name = "file";
    table.page_bytes = FILE_PAGE;
    table.reserve = file_reserve;
    table.unreserve = file_unreserve;
    table.page_create = file_page_create;
    table.page_destroy = file_page_destroy;
    table.page_map = file_page_map;
    table.page_unmap = file_page_unmap;
    return table;
}
