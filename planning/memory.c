/* A head before each array says how long it is:

       | head: bytes in all | the array ...
 */
#include "planning/memory.h"

#include "base/assert.h"
#include "base/host.h"

#include <stdalign.h>

typedef struct head {
    alignas(max_align_t) size_t size_bytes; /* the head included */
} head_t;

static head_t *head_of(void *address)
{
    return (head_t *)address - 1;
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

void *dao_plan_take(dao_plan_memory_t *memory, size_t count, size_t size_bytes)
{
    size_t whole_bytes = size_of(count, size_bytes);
    head_t *head = whole_bytes == 0 ? NULL : dao_host_calloc(1, whole_bytes);
    if (head == NULL) {
        return NULL;
    }
    head->size_bytes = whole_bytes;
    count_up(memory, whole_bytes);
    return head + 1;
}

void *dao_plan_resize(dao_plan_memory_t *memory, void *address, size_t count, size_t size_bytes)
{
    if (address == NULL) {
        return dao_plan_take(memory, count, size_bytes);
    }
    head_t *before = head_of(address);
    size_t before_bytes = before->size_bytes;
    size_t whole_bytes = size_of(count, size_bytes);
    head_t *head = whole_bytes == 0 ? NULL : dao_host_realloc(before, 1, whole_bytes);
    if (head == NULL) {
        return NULL;
    }
    head->size_bytes = whole_bytes;
    memory->used_bytes -= before_bytes;
    count_up(memory, whole_bytes);
    return head + 1;
}

void dao_plan_give(dao_plan_memory_t *memory, void *address)
{
    if (address != NULL) {
        DAO_ASSERT(memory->used_bytes >= head_of(address)->size_bytes);
        memory->used_bytes -= head_of(address)->size_bytes;
        dao_host_free(head_of(address));
    }
}
