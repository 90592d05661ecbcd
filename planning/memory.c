/* A head before each array says how long it is:

       | head: bytes in all | the array ...

   Large arrays are pages of their own, in huge pages where the system has them: what looks at a million buffers in no order
   would else spend its time on finding pages. They grow by being moved, not copied. */
#include "planning/memory.h"

#include "base/assert.h"
#include "base/host.h"

#include <stdalign.h>
#include <stdbool.h>
#include <string.h>

/* Arrays of so many bytes have pages of their own, which begin at a multiple of it: a huge page. */
#define LARGE_BYTES ((size_t)2 << 20)

/* A cache line, so that large arrays begin with one. */
typedef struct head {
    alignas(max_align_t) size_t size_bytes; /* the head included */
    unsigned char rest[64 - sizeof(size_t)];
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
}

static head_t *take_head(size_t whole_bytes)
{
    if (whole_bytes == 0) {
        return NULL;
    }
    head_t *head =
        is_large(whole_bytes) ? dao_host_map(whole_bytes, LARGE_BYTES) : dao_host_calloc(1, whole_bytes);
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
    head_t *head = take_head(whole_bytes);
    if (head == NULL) {
        return NULL;
    }
    if (!is_large(before_bytes) || !dao_host_move(before, head, before_bytes)) {
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

void *dao_plan_take(dao_plan_memory_t *memory, size_t count, size_t size_bytes)
{
    size_t whole_bytes = size_of(count, size_bytes);
    head_t *head = take_head(whole_bytes);
    if (head == NULL) {
        return NULL;
    }
    count_up(memory, whole_bytes);
    return head + 1;
}

void *dao_plan_grow(dao_plan_memory_t *memory, void *address, size_t count, size_t size_bytes)
{
    if (address == NULL) {
        return dao_plan_take(memory, count, size_bytes);
    }
    head_t *before = head_of(address);
    size_t before_bytes = before->size_bytes;
    size_t whole_bytes = size_of(count, size_bytes);
    DAO_ASSERT(whole_bytes == 0 || whole_bytes >= before_bytes);
    head_t *head = grow_head(before, whole_bytes);
    if (head == NULL) {
        return NULL;
    }
    memory->used_bytes -= before_bytes;
    count_up(memory, whole_bytes);
    return head + 1;
}

void dao_plan_give(dao_plan_memory_t *memory, void *address)
{
    if (address != NULL) {
        head_t *head = head_of(address);
        DAO_ASSERT(memory->used_bytes >= head->size_bytes);
        memory->used_bytes -= head->size_bytes;
        give_head(head);
    }
}
