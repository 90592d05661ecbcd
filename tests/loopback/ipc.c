/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations that other processes open by a vendor's handle. The first export puts a file behind the
   allocation; the handle names the process and its descriptor:

       file   [ the allocation's bytes | a last page: serial number, how many have it open ]

   A process opens it through /proc, so a handle of a process that has ended, or of freed memory, opens
   nothing. The serial number reveals a descriptor that was reused. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "tests/loopback/driver.h"
#include "tests/loopback/veil.h"

#include "backends/cpu/cpu.h"
#include "base/memory/shared.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES ((size_t)4096)

/* What a handle holds. */
typedef struct name {
    int process;
    int descriptor;
    size_t size_bytes;
    uint64_t serial;
} name_t;
static_assert(sizeof(name_t) <= sizeof(vendorIpcMemHandle_t), "a handle holds it");

/* The last page of a file. */
typedef struct last_page {
    uint64_t serial;
    _Atomic int open_count;
} last_page_t;

/* A share's object: inner is its last page. */
static last_page_t *last_page_of(const loopback_object_t *share)
{
    return share->inner;
}

static size_t whole_pages(size_t size_bytes)
{
    return (size_bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static void *map_file(void *address, size_t size_bytes, int descriptor, size_t offset)
{
    int where = address != NULL ? MAP_FIXED : 0;
    void *mapped =
        mmap(address, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | where, descriptor, (off_t)offset);
    return mapped != MAP_FAILED ? mapped : NULL;
}

/* The share of an allocation; NULL: it was not exported or imported. */
static loopback_object_t *share_at(const void *address)
{
    dao_mutex_lock(&loopback_driver.lock);
    loopback_object_t *object = loopback_driver.objects;
    while (object != NULL &&
           (object->is_gone || object->kind != LOOPBACK_KIND_SHARE || object->mapped_at != address)) {
        object = object->next;
    }
    dao_mutex_unlock(&loopback_driver.lock);
    return object;
}

static bool is_imported(const void *address)
{
    dao_mutex_lock(&loopback_driver.lock);
    const loopback_span_t *span = loopback_spans_at(&loopback_driver.memory, address);
    bool is_others = span != NULL && span->is_imported;
    dao_mutex_unlock(&loopback_driver.lock);
    return is_others;
}

/* ---- export ---- */

/* Puts a file behind an allocation, with its bytes; NULL: the system has none. */
static loopback_object_t *share_create(char *address, size_t size_bytes)
{
    static _Atomic uint64_t serial;
    size_t file_bytes = whole_pages(size_bytes);
    int descriptor = dao_shared_create(file_bytes + PAGE_BYTES);
    if (descriptor == DAO_NO_DESCRIPTOR) {
        return NULL;
    }
    last_page_t *last_page = map_file(NULL, PAGE_BYTES, descriptor, file_bytes);
    char *copy = map_file(NULL, file_bytes, descriptor, 0);
    if (last_page == NULL || copy == NULL) {
        abort(); /* the test machine is full */
    }
    char *bytes = loopback_bytes(address, size_bytes);
    memcpy(copy, bytes, size_bytes);
    (void)munmap(copy, file_bytes);
    if (map_file(bytes, file_bytes, descriptor, 0) == NULL) {
        abort();
    }
    last_page->serial = dao_process_token() + atomic_fetch_add(&serial, 1);
    loopback_object_t *share = loopback_object_add(LOOPBACK_KIND_SHARE, last_page, size_bytes);
    share->descriptor = descriptor;
    share->mapped_at = address;
    return share;
}

vendorError_t vendorIpcGetMemHandle(vendorIpcMemHandle_t *out_handle, void *address)
{
    vendorError_t error = loopback_begin("ipc get handle", LOOPBACK_NO_DEVICE);
    if (error != vendorSuccess) {
        return error;
    }
    dao_mutex_lock(&loopback_driver.lock);
    const loopback_span_t *span = loopback_spans_at(&loopback_driver.memory, address);
    bool is_right = span != NULL && !span->is_pinned && !span->is_imported;
    size_t size_bytes = is_right ? span->size_bytes : 0;
    bool is_here = is_right && span->device == loopback_current_device();
    dao_mutex_unlock(&loopback_driver.lock);
    if (!is_right || !is_here) {
        return loopback_breach(is_right ? LOOPBACK_RULE_WRONG_DEVICE : LOOPBACK_RULE_UNKNOWN,
                               "ipc get handle");
    }
    error = loopback_from(dao_cpu_backend_ops.device_synchronize(loopback_device()));
    if (error != vendorSuccess) {
        return error;
    }
    loopback_object_t *share = share_at(address);
    share = share != NULL ? share : share_create(address, size_bytes);
    if (share == NULL) {
        return loopback_error(vendorErrorMemoryAllocation);
    }
    name_t name = {.process = (int)getpid(),
                   .descriptor = share->descriptor,
                   .size_bytes = size_bytes,
                   .serial = last_page_of(share)->serial};
    memset(out_handle, 0, sizeof(*out_handle));
    memcpy(out_handle, &name, sizeof(name));
    return vendorSuccess;
}

bool loopback_share_check_free(const char *call, void *address)
{
    if (is_imported(address)) {
        (void)loopback_breach(LOOPBACK_RULE_SHARED, call);
        return false;
    }
    loopback_object_t *share = share_at(address);
    if (share == NULL) {
        return true;
    }
    if (atomic_load(&last_page_of(share)->open_count) > 0) {
        (void)loopback_breach(LOOPBACK_RULE_SHARED, call);
    }
    loopback_object_remove(share);
    loopback_share_end(share);
    return true;
}

/* ---- import ---- */

/* Opens the file that a handle names; DAO_NO_DESCRIPTOR: there is none any more. */
static int file_open(const name_t *name, last_page_t **out_last_page)
{
    char path[64];
    size_t file_bytes;
    (void)snprintf(path, sizeof(path), "/proc/%d/fd/%d", name->process, name->descriptor);
    int descriptor = open(path, O_RDWR | O_CLOEXEC);
    if (!dao_shared_size(descriptor, &file_bytes) ||
        file_bytes != whole_pages(name->size_bytes) + PAGE_BYTES) {
        dao_descriptor_close(descriptor);
        return DAO_NO_DESCRIPTOR;
    }
    last_page_t *last_page = map_file(NULL, PAGE_BYTES, descriptor, file_bytes - PAGE_BYTES);
    if (last_page == NULL || last_page->serial != name->serial) {
        (void)munmap(last_page, PAGE_BYTES);
        dao_descriptor_close(descriptor);
        return DAO_NO_DESCRIPTOR;
    }
    *out_last_page = last_page;
    return descriptor;
}

vendorError_t vendorIpcOpenMemHandle(void **out_address, vendorIpcMemHandle_t handle, unsigned flags)
{
    vendorError_t error = loopback_begin("ipc open handle", LOOPBACK_NO_DEVICE);
    if (error != vendorSuccess) {
        return error;
    }
    name_t name;
    last_page_t *last_page;
    memcpy(&name, &handle, sizeof(name));
    if (flags != vendorIpcMemLazyEnablePeerAccess || name.process == (int)getpid()) {
        return loopback_breach(flags != vendorIpcMemLazyEnablePeerAccess ? LOOPBACK_RULE_BAD_FLAGS
                                                                         : LOOPBACK_RULE_OWN_SHARE,
                               "ipc open handle");
    }
    int descriptor = file_open(&name, &last_page);
    if (descriptor == DAO_NO_DESCRIPTOR) {
        return loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
    }
    char *bytes = map_file(NULL, whole_pages(name.size_bytes), descriptor, 0);
    char *address = loopback_veil(name.size_bytes);
    if (bytes == NULL || address == NULL) {
        abort(); /* the test machine is full */
    }
    (void)atomic_fetch_add(&last_page->open_count, 1);
    loopback_object_t *share = loopback_object_add(LOOPBACK_KIND_SHARE, last_page, name.size_bytes);
    loopback_span_t span = {.begin = address,
                            .size_bytes = name.size_bytes,
                            .bytes = bytes,
                            .device = loopback_current_device(),
                            .is_imported = true};
    dao_mutex_lock(&loopback_driver.lock);
    share->descriptor = descriptor;
    share->mapped_at = address;
    loopback_spans_add(&loopback_driver.memory, span);
    dao_mutex_unlock(&loopback_driver.lock);
    *out_address = address;
    return vendorSuccess;
}

vendorError_t loopback_address_range(void **out_base, size_t *out_size_bytes, void *address)
{
    vendorError_t error = loopback_begin("address range", LOOPBACK_NO_DEVICE);
    if (error != vendorSuccess) {
        return error;
    }
    dao_mutex_lock(&loopback_driver.lock);
    const loopback_span_t *span = loopback_spans_at(&loopback_driver.memory, address);
    bool is_found = span != NULL;
    if (is_found) {
        *out_base = span->begin;
        *out_size_bytes = span->size_bytes;
    }
    dao_mutex_unlock(&loopback_driver.lock);
    return is_found ? vendorSuccess : loopback_error((vendorError_t)LOOPBACK_INVALID_VALUE);
}

vendorError_t vendorIpcCloseMemHandle(void *address)
{
    vendorError_t error = loopback_begin("ipc close handle", LOOPBACK_NO_DEVICE);
    if (error != vendorSuccess) {
        return error;
    }
    loopback_object_t *share = is_imported(address) ? share_at(address) : NULL;
    if (share == NULL || share->device != loopback_current_device()) {
        return loopback_breach(share != NULL ? LOOPBACK_RULE_WRONG_DEVICE : LOOPBACK_RULE_UNKNOWN,
                               "ipc close handle");
    }
    loopback_object_remove(share);
    loopback_share_end(share);
    dao_mutex_lock(&loopback_driver.lock);
    const loopback_span_t *span = loopback_spans_at(&loopback_driver.memory, address);
    loopback_span_t imported = *span;
    loopback_spans_remove(&loopback_driver.memory, span);
    dao_mutex_unlock(&loopback_driver.lock);
    loopback_unveil(&imported);
    return vendorSuccess;
}

void loopback_share_end(loopback_object_t *share)
{
    if (is_imported(share->mapped_at)) {
        (void)atomic_fetch_sub(&last_page_of(share)->open_count, 1);
        (void)munmap(loopback_bytes(share->mapped_at, share->size_bytes), whole_pages(share->size_bytes));
    }
    (void)munmap(share->inner, PAGE_BYTES);
    dao_descriptor_close(share->descriptor);
}
