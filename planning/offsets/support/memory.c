/* SPDX-License-Identifier: Apache-2.0 */
/* A head before each array says how long it is:

       | head: bytes in all | the array ...

   A large array has pages of its own. They are zero without being filled, and grow by being moved, not
   copied. They are not huge pages: the first access to one may take milliseconds. Freed arrays that keep
   their pages are a list, from `spent` on.

   What holds: used_bytes is the sum of all arrays with their heads, of spent ones too; most_bytes is its
   maximum. */
#include "planning/offsets/support/memory.h"

#include "base/memory/host.h"
#include "base/report/assert.h"

#include <stdalign.h>
#include <stdbool.h>
#include <string.h>

/* Arrays of so many bytes have pages of their own. */
#define LARGE_BYTES ((size_t)1 << 20)

/* So many bytes of pages are given back for a step of work. */
#define BYTES_PER_WORK ((size_t)1 << 10)

/* Bytes of pages that are given back between two looks, a multiple of every page's. */
#define TRIM_BYTES ((size_t)2 << 20)

/* A cache line, so that large arrays begin with one. */
typedef struct head {
    alignas(max_align_t) size_t size_bytes; /* the head included; of a spent one those that are left */
    struct head *next;                      /* of a spent one */
    unsigned char rest[64 - sizeof(size_t) - sizeof(void *)];
} head_t;
static_assert(sizeof(head_t) == 64, "a cache line");

static head_t *head_of(void *address)
{
    return (head_t *)address - 1;
}

static bool is_large(size_t whole_bytes)
{
    return whole_bytes >= LARGE_BYTES;
}

/* The bytes of an array with its head; 0 if they do not fit a size_t. */
static size_t size_of(size_t count, size_t size_bytes)
{
    return count > (SIZE_MAX - sizeof(head_t)) / size_bytes ? 0 : sizeof(head_t) + count * size_bytes;
}

static void count_up(dao_plan_memory_t *memory, size_t size_bytes)
{
    memory->used_bytes += size_bytes;
    if (memory->used_bytes > memory->most_bytes) {
        memory->most_bytes = memory->used_bytes;
    }
    DAO_ASSERT(memory->used_bytes >= size_bytes); /* no sum of arrays that there are wraps */
}

static head_t *take_head(size_t whole_bytes)
{
    if (whole_bytes == 0) {
        return NULL;
    }
    head_t *head = is_large(whole_bytes) ? dao_host_map_pages(whole_bytes) : dao_host_calloc(1, whole_bytes);
    if (head != NULL) {
        head->size_bytes = whole_bytes;
    }
    return head;
}

static void give_head(head_t *head)
{
    if (is_large(head->size_bytes)) {
        dao_host_unmap(head, head->size_bytes);
    } else {
        dao_host_free(head);
    }
}

/* Makes an array larger that is pages, or becomes pages. NULL leaves it as it was. */
static head_t *grow_into_pages(head_t *before, size_t whole_bytes)
{
    size_t before_bytes = before->size_bytes;
    if (is_large(before_bytes)) {
        return dao_host_grow_pages(before, before_bytes, whole_bytes);
    }
    head_t *head = take_head(whole_bytes);
    if (head != NULL) {
        memcpy(head, before, before_bytes);
        give_head(before);
    }
    return head;
}

static head_t *grow_head(head_t *before, size_t whole_bytes)
{
    if (whole_bytes == 0) {
        return NULL;
    }
    head_t *head = is_large(whole_bytes) ? grow_into_pages(before, whole_bytes)
                                         : dao_host_realloc(before, 1, whole_bytes);
    if (head != NULL) {
        head->size_bytes = whole_bytes;
    }
    return head;
}

void *dao_plan_memory_alloc(dao_plan_memory_t *memory, size_t count, size_t size_bytes)
{
    size_t whole_bytes = size_of(count, size_bytes);
    head_t *head = take_head(whole_bytes);
    if (head == NULL) {
        return NULL;
    }
    count_up(memory, whole_bytes);
    return head + 1;
}

void *dao_plan_memory_grow(dao_plan_memory_t *memory, void *address, size_t count, size_t size_bytes)
{
    if (address == NULL) {
        return dao_plan_memory_alloc(memory, count, size_bytes);
    }
    head_t *before = head_of(address);
    size_t before_bytes = before->size_bytes;
    size_t whole_bytes = size_of(count, size_bytes);
    DAO_ASSERT(whole_bytes == 0 || whole_bytes >= before_bytes);
    head_t *head = grow_head(before, whole_bytes);
    if (head == NULL) {
        return NULL;
    }
    DAO_ASSERT(memory->used_bytes >= before_bytes);
    memory->used_bytes -= before_bytes;
    count_up(memory, whole_bytes);
    return head + 1;
}

void dao_plan_memory_free(dao_plan_memory_t *memory, void *address)
{
    if (address == NULL) {
        return;
    }
    head_t *head = head_of(address);
    DAO_ASSERT(memory->used_bytes >= head->size_bytes);
    if (memory->is_patient && is_large(head->size_bytes)) {
        head->next = memory->spent;
        memory->spent = head;
        return;
    }
    memory->used_bytes -= head->size_bytes;
    give_head(head);
}

void dao_plan_memory_trim(dao_plan_memory_t *memory, dao_plan_work_t *work)
{
    while (memory->spent != NULL && !dao_plan_work_is_cancelled(work)) {
        head_t *head = memory->spent;
        size_t kept_bytes =
            head->size_bytes > TRIM_BYTES ? (head->size_bytes - 1) / TRIM_BYTES * TRIM_BYTES : 0;
        size_t given_bytes = head->size_bytes - kept_bytes;
        DAO_ASSERT(given_bytes <= memory->used_bytes);
        memory->spent = kept_bytes > 0 ? head : head->next;
        memory->used_bytes -= given_bytes;
        work->used += given_bytes / BYTES_PER_WORK;
        head->size_bytes = kept_bytes;
        dao_host_unmap((char *)head + kept_bytes, given_bytes); /* the head goes last */
    }
}
