/* What stands beside the tables of allocators: who goes on where their shortest ways end, and who calls them off. */
#include "allocators/allocator.h"

#include "allocators/detours.h"

_Atomic uint32_t dao_detour_count;

static void *outer_alloc_otherwise(void *user, size_t size_bytes)
{
    return dao_allocator_alloc_otherwise(user, size_bytes);
}

static dao_status_t outer_free_otherwise(void *user, void *address)
{
    return dao_allocator_free_otherwise(user, address);
}

void dao_allocator_stand_before(dao_allocator_t *outer, dao_allocator_t *inner)
{
    inner->otherwise =
        (dao_otherwise_t){.alloc = outer_alloc_otherwise, .free = outer_free_otherwise, .user = outer};
}
