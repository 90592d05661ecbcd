/* SPDX-License-Identifier: Apache-2.0 */
/* malloc and mmap, each behind a fault point. */
#define _GNU_SOURCE
#include "base/memory/host.h"

#include "base/memory/poison.h"
#include "base/report/assert.h"
#include "base/report/fault.h"

#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

void *dao_host_calloc(size_t count, size_t size_bytes)
{
    return dao_fault_fires(DAO_FAULT_HOST_MEMORY) ? NULL : calloc(count, size_bytes);
}

void *dao_host_realloc(void *address, size_t count, size_t size_bytes)
{
    return dao_fault_fires(DAO_FAULT_HOST_MEMORY) ? NULL : reallocarray(address, count, size_bytes);
}

char *dao_host_strdup(const char *text)
{
    return dao_fault_fires(DAO_FAULT_HOST_MEMORY) ? NULL : strdup(text);
}

void *dao_host_aligned(size_t size_bytes, size_t alignment_bytes)
{
    DAO_ASSERT(size_bytes > 0 && size_bytes % alignment_bytes == 0);
    return dao_fault_fires(DAO_FAULT_HOST_MEMORY) ? NULL : aligned_alloc(alignment_bytes, size_bytes);
}

void dao_host_free(void *address)
{
    free(address);
}

void dao_host_give_back(void)
{
#if defined(__GLIBC__)
    (void)malloc_trim(0); /* answers only whether anything was released */
#endif
}

size_t dao_host_total_bytes(void)
{
    return (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
}

size_t dao_host_whole_pages(size_t size_bytes)
{
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    return (size_bytes + page_bytes - 1) / page_bytes * page_bytes;
}

/* Where pages are not aligned enough maps too much, then unmaps what lies before and after the aligned
   part. */
static void *map_aligned(size_t size_bytes, size_t alignment_bytes, int protection)
{
    DAO_ASSERT(size_bytes > 0);
    DAO_ASSERT((alignment_bytes & (alignment_bytes - 1)) == 0);
    if (dao_fault_fires(DAO_FAULT_SYSTEM_MEMORY) || size_bytes > SIZE_MAX / 2 - alignment_bytes) {
        return NULL;
    }
    size_t kept_bytes = dao_host_whole_pages(size_bytes);
    size_t page_bytes = dao_host_whole_pages(1);
    size_t mapped_bytes = kept_bytes + (alignment_bytes > page_bytes ? alignment_bytes - page_bytes : 0);
    char *mapped = mmap(NULL, mapped_bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) {
        return NULL;
    }
    size_t before = (alignment_bytes - (uintptr_t)mapped % alignment_bytes) % alignment_bytes;
    size_t after = mapped_bytes - before - kept_bytes;
    if (before > 0) {
        (void)munmap(mapped, before);
    }
    if (after > 0) {
        (void)munmap(mapped + before + kept_bytes, after);
    }
    return mapped + before;
}

void *dao_host_reserve(size_t size_bytes, size_t alignment_bytes)
{
    return map_aligned(size_bytes, alignment_bytes, PROT_NONE);
}

void *dao_host_map(size_t size_bytes, size_t alignment_bytes)
{
    void *address = map_aligned(size_bytes, alignment_bytes, PROT_READ | PROT_WRITE);
    if (address != NULL) {
        (void)madvise(address, size_bytes, MADV_HUGEPAGE); /* a hint: nothing is lost without it */
    }
    return address;
}

void *dao_host_map_pages(size_t size_bytes)
{
    return map_aligned(size_bytes, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE);
}

void *dao_host_grow_pages(void *address, size_t size_bytes, size_t larger_bytes)
{
    if (dao_fault_fires(DAO_FAULT_SYSTEM_MEMORY) || larger_bytes > SIZE_MAX / 2) {
        return NULL;
    }
    void *grown =
        mremap(address, dao_host_whole_pages(size_bytes), dao_host_whole_pages(larger_bytes), MREMAP_MAYMOVE);
    if (grown == MAP_FAILED) {
        return NULL;
    }
    dao_system_has_written(grown, larger_bytes);
    return grown;
}

static bool is_mapped_table(size_t count, size_t size_bytes)
{
    return count >= (DAO_HOST_SPARSE_BYTES + size_bytes - 1) / size_bytes;
}

void *dao_host_sparse(size_t count, size_t size_bytes)
{
    if (size_bytes > SIZE_MAX / count) {
        return NULL;
    }
    return is_mapped_table(count, size_bytes) ? dao_host_map_pages(count * size_bytes)
                                              : dao_host_calloc(count, size_bytes);
}

void dao_host_sparse_free(void *address, size_t count, size_t size_bytes)
{
    if (address != NULL && is_mapped_table(count, size_bytes)) {
        dao_host_unmap(address, count * size_bytes);
    } else {
        free(address);
    }
}

/* Gives back the whole pages behind what is left of a mapping. */
static void unmap_behind(char *address, size_t left_bytes, size_t size_bytes)
{
    left_bytes = dao_host_whole_pages(left_bytes);
    if (left_bytes < size_bytes) {
        dao_host_unmap(address + left_bytes, size_bytes - left_bytes);
    }
}

void *dao_host_sparse_resize(void *address, size_t count, size_t new_count, size_t size_bytes)
{
    if (size_bytes > SIZE_MAX / new_count) {
        return NULL;
    }
    bool was_mapped = address != NULL && is_mapped_table(count, size_bytes);
    bool is_mapped = is_mapped_table(new_count, size_bytes);
    if (!was_mapped && !is_mapped) {
        return dao_host_realloc(address, new_count, size_bytes);
    }
    if (was_mapped && is_mapped) {
        if (new_count > count) {
            return dao_host_grow_pages(address, count * size_bytes, new_count * size_bytes);
        }
        unmap_behind(address, new_count * size_bytes, count * size_bytes);
        return address;
    }
    void *resized = dao_host_sparse(new_count, size_bytes);
    if (resized != NULL && address != NULL) {
        memcpy(resized, address, (new_count < count ? new_count : count) * size_bytes);
        dao_host_sparse_free(address, count, size_bytes);
    }
    return resized;
}

/* Replaces what is mapped at an address by zeroed pages, MAP_PRIVATE or MAP_SHARED. */
static bool map_at(void *address, size_t size_bytes, int sharing)
{
    if (dao_fault_fires(DAO_FAULT_SYSTEM_MEMORY)) {
        return false;
    }
    void *mapped = mmap(address, size_bytes, PROT_READ | PROT_WRITE,
                        sharing | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (mapped != address) {
        return false;
    }
    (void)madvise(address, size_bytes, MADV_HUGEPAGE); /* a hint: nothing is lost without it */
    return true;
}

bool dao_host_map_at(void *address, size_t size_bytes)
{
    return map_at(address, size_bytes, MAP_PRIVATE);
}

bool dao_host_move(void *from, void *to, size_t size_bytes)
{
    if (dao_fault_fires(DAO_FAULT_SYSTEM_MEMORY)) {
        return false;
    }
    if (mremap(from, size_bytes, size_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to) {
        return false;
    }
    dao_system_has_written(to, size_bytes);
    return true;
}

bool dao_host_share(void *address, size_t size_bytes)
{
    return map_at(address, size_bytes, MAP_SHARED);
}

bool dao_host_has_aliases(void)
{
    size_t page_bytes = dao_host_whole_pages(1);
    void *page = mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        return false;
    }
    void *again = mremap(page, 0, page_bytes, MREMAP_MAYMOVE);
    if (again != MAP_FAILED) {
        dao_host_unmap(again, page_bytes);
    }
    dao_host_unmap(page, page_bytes);
    return again != MAP_FAILED;
}

/* A size of 0 makes mremap leave the old mapping of shared memory where it is: mremap(2). */
bool dao_host_alias(void *address, void *to, size_t size_bytes)
{
    if (dao_fault_fires(DAO_FAULT_SYSTEM_MEMORY)) {
        return false;
    }
    return mremap(address, 0, size_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == to;
}

/* Copies the bytes: what is left of a system that cannot move pages and keep their addresses mapped. */
static bool copy_home(const void *from, void *home, size_t size_bytes)
{
    if (mprotect(home, size_bytes, PROT_READ | PROT_WRITE) != 0) {
        return false;
    }
    memcpy(home, from, size_bytes);
    return true;
}

void *dao_host_move_home(void *from, size_t size_bytes, size_t alignment_bytes)
{
    void *home = map_aligned(size_bytes, alignment_bytes, PROT_NONE);
    if (home == NULL) {
        return NULL;
    }
    /* Without DONTUNMAP another thread's mmap could take the old addresses before they are reserved again.
       Linux has it since 5.7, valgrind 3.19 refuses it. */
    void *moved =
        mremap(from, size_bytes, size_bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, home);
    if (moved != home && !copy_home(from, home, size_bytes)) {
        (void)munmap(home, size_bytes);
        return NULL;
    }
    void *reserved =
        mmap(from, size_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    DAO_ASSERT(reserved == from); /* replaces a mapping of the same size: nothing can run out */
    (void)reserved;
    dao_system_has_written(home, size_bytes);
    return home;
}

void dao_host_discard(void *address, size_t size_bytes)
{
    (void)madvise(address, size_bytes, MADV_DONTNEED); /* an advice: explicit huge pages may not take it */
}

void dao_host_unmap(void *address, size_t size_bytes)
{
    int result = munmap(address, size_bytes);
    DAO_ASSERT(result == 0);
    (void)result;
}

bool dao_host_file_is_limited(uint64_t offset_bytes, size_t size_bytes)
{
    struct rlimit most;
    return getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY &&
           (offset_bytes > most.rlim_cur || size_bytes > most.rlim_cur - offset_bytes);
}
