/* SPDX-License-Identifier: Apache-2.0 */
/* Poison over the bytes that callers asked for.

       alloc, in every way      unpoison, after the inner allocator
       free of an idle block    poison, before the inner allocator: after it the block may be another's
       any other free           nothing: work of a stream may still use the block, and touch it later; and
                                as long as there is a lease, recorded work may touch its blocks after
                                their free
       given back, unmapped     unpoison, by whoever gives it to the system: the addresses may become
                                anybody's

   So what is poisoned was freed, and is in no live block. The reverse does not hold: blocks that streams have
   freed, the middle of a large one, what rounding adds, and what was never handed out stay as they are.
   Poison of a block that was larger remains behind a smaller one in its place. A free that is refused takes
   its poison back. */
#include "allocators/layers/poisoned.h"

#include "allocators/accounting/ledger.h"
#include "allocators/front.h"
#include "allocators/slow_path.h"
#include "base/memory/host.h"
#include "base/memory/poison.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <stdatomic.h>

/* So many bytes at each end of a block are poisoned: uses begin at one of them, and those of a neighbour that
   goes too far come from there. All of a large block takes as long as writing an eighth of it. */
#define END_BYTES ((size_t)256 << 10)

/* What the sanitizer keeps one byte for. */
#define WORD_BYTES 8u

typedef struct poisoned {
    dao_allocator_t base;
    dao_allocator_t *inner; /* owned */
    dao_allocator_ops_t ops;
    _Atomic uint32_t lease_count; /* open ones */
} poisoned_t;
DAO_FRONT_ASSERT(poisoned_t);

static dao_allocator_t *inner_of(dao_allocator_t *allocator)
{
    return ((poisoned_t *)allocator)->inner;
}

/* ---- alloc ---- */

static dao_status_t granted(dao_status_t status, const dao_block_request_t *request,
                            const dao_block_grant_t *grant)
{
    if (status == DAO_OK) {
        dao_unpoison(grant->address, request->size_bytes);
    }
    return status;
}

static void *given(void *address, size_t size_bytes)
{
    if (address != NULL) {
        dao_unpoison(address, size_bytes);
    }
    return address;
}

static dao_status_t poisoned_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                                   dao_block_grant_t *out_grant)
{
    dao_allocator_t *inner = inner_of(allocator);
    return granted(inner->ops->alloc(inner, request, out_grant), request, out_grant);
}

static dao_status_t poisoned_alloc_at(dao_allocator_t *allocator, const dao_window_t *window, void *address,
                                      const dao_block_request_t *request, dao_block_grant_t *out_grant)
{
    dao_allocator_t *inner = inner_of(allocator);
    return granted(inner->ops->alloc_at(inner, window, address, request, out_grant), request, out_grant);
}

static dao_status_t poisoned_lease_resume(dao_allocator_t *allocator, void *address,
                                          const dao_block_request_t *request, dao_block_grant_t *out_grant)
{
    dao_allocator_t *inner = inner_of(allocator);
    return granted(inner->ops->lease_resume(inner, address, request, out_grant), request, out_grant);
}

static void *poisoned_alloc_fast(dao_allocator_t *allocator, size_t size_bytes)
{
    dao_allocator_t *inner = inner_of(allocator);
    return given(inner->ops->alloc_fast(inner, size_bytes), size_bytes);
}

static void *poisoned_alloc_ordered(dao_allocator_t *allocator, size_t size_bytes, uint32_t stream)
{
    dao_allocator_t *inner = inner_of(allocator);
    return given(inner->ops->alloc_ordered(inner, size_bytes, stream), size_bytes);
}

/* ---- free ---- */

/* Bytes of a block that a free may poison. The sanitizer poisons whole words alone. */
static size_t whole_words(const dao_block_t *block)
{
    size_t bytes = (size_t)dao_round_up(block->requested_bytes, WORD_BYTES);
    return bytes < block->block_bytes ? bytes : block->block_bytes;
}

/* A block may have more bytes than the machine: those that nobody has touched take no memory, but their
   poison would. */
static void poison_ends(const dao_block_t *block)
{
    const char *begin = block->address;
    size_t bytes = whole_words(block);
    if (bytes <= 2 * END_BYTES) {
        dao_poison(begin, bytes);
        return;
    }
    dao_poison(begin, END_BYTES);
    dao_poison(begin + bytes - END_BYTES, END_BYTES);
}

/* Finds the block that a free of an address will end, if no stream may use it by then. */
static bool find_idle(dao_allocator_t *allocator, const void *address, const dao_stream_fence_t *fence,
                      dao_block_owner_t owner, dao_block_t *out_block)
{
    dao_allocator_t *inner = inner_of(allocator);
    if ((fence != NULL && !dao_stream_fence_is_empty(fence)) ||
        atomic_load(&((poisoned_t *)allocator)->lease_count) != 0) {
        return false;
    }
    dao_error_record_t record;
    dao_error_save(&record, dao_last_status());
    bool is_found = inner->ops->query(inner, address, out_block) == DAO_OK;
    if (!is_found) {
        (void)dao_error_restore(&record); /* the free says what there is instead */
        return false;
    }
    return out_block->address == address && out_block->owner == owner && out_block->stream == 0;
}

static dao_status_t poisoned_free_owned(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence,
                                        dao_block_owner_t owner)
{
    dao_allocator_t *inner = inner_of(allocator);
    dao_block_t block;
    bool is_idle = find_idle(allocator, address, fence, owner, &block);
    if (is_idle) {
        poison_ends(&block);
    }
    dao_status_t status = inner->ops->free_owned(inner, address, fence, owner);
    if (is_idle && status != DAO_OK) {
        dao_unpoison(address, whole_words(&block));
    }
    return status;
}

static dao_status_t poisoned_free(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence)
{
    return poisoned_free_owned(allocator, address, fence, DAO_BLOCK_OWNER_RAW);
}

static dao_status_t poisoned_free_fast(dao_allocator_t *allocator, void *address)
{
    dao_allocator_t *inner = inner_of(allocator);
    dao_block_t block;
    if (dao_slow_path_is_needed()) { /* a callback may be under way, with the lock that a query takes */
        return dao_allocator_free_fallback(allocator, address);
    }
    bool is_idle = find_idle(allocator, address, NULL, DAO_BLOCK_OWNER_RAW, &block);
    if (is_idle) {
        poison_ends(&block);
    }
    dao_status_t status = inner->ops->free_fast(inner, address);
    if (is_idle && status != DAO_OK) {
        dao_unpoison(address, whole_words(&block));
    }
    return status;
}

static dao_status_t poisoned_free_ordered(dao_allocator_t *allocator, void *address, uint32_t stream,
                                          dao_block_owner_t owner)
{
    dao_allocator_t *inner = inner_of(allocator);
    return inner->ops->free_ordered(inner, address, stream, owner);
}

static void poisoned_free_deferred(dao_allocator_t *allocator, void *address, dao_block_owner_t owner)
{
    dao_allocator_t *inner = inner_of(allocator);
    inner->ops->free_deferred(inner, address, owner);
}

static void poisoned_drain(dao_allocator_t *allocator)
{
    dao_allocator_t *inner = inner_of(allocator);
    inner->ops->drain(inner);
}

/* ---- frees in two steps: a stream may use a block between them ---- */

static dao_status_t poisoned_retire(dao_allocator_t *allocator, void *address, dao_block_owner_t owner,
                                    dao_block_t *out_block)
{
    dao_allocator_t *inner = inner_of(allocator);
    return inner->ops->retire(inner, address, owner, out_block);
}

static dao_status_t poisoned_reclaim(dao_allocator_t *allocator, void *address)
{
    dao_allocator_t *inner = inner_of(allocator);
    return inner->ops->reclaim(inner, address);
}

static dao_status_t poisoned_reuse(dao_allocator_t *allocator, void *address,
                                   const dao_block_request_t *request)
{
    dao_allocator_t *inner = inner_of(allocator);
    dao_block_grant_t grant = {.address = address};
    return granted(inner->ops->reuse(inner, address, request), request, &grant);
}

/* ---- leases ---- */

static dao_status_t poisoned_lease_begin(dao_allocator_t *allocator, uint32_t *out_lease)
{
    poisoned_t *poisoned = (poisoned_t *)allocator;
    (void)atomic_fetch_add(&poisoned->lease_count, 1);
    dao_status_t status = poisoned->inner->ops->lease_begin(poisoned->inner, out_lease);
    if (status != DAO_OK) {
        (void)atomic_fetch_sub(&poisoned->lease_count, 1);
    }
    return status;
}

static void poisoned_lease_end(dao_allocator_t *allocator, uint32_t lease)
{
    poisoned_t *poisoned = (poisoned_t *)allocator;
    poisoned->inner->ops->lease_end(poisoned->inner, lease);
    (void)atomic_fetch_sub(&poisoned->lease_count, 1);
}

/* ---- the rest ---- */

static bool poisoned_is_valid(dao_allocator_t *allocator)
{
    dao_allocator_t *inner = inner_of(allocator);
    return inner->ops->is_valid(inner);
}

static void poisoned_destroy(dao_allocator_t *allocator)
{
    dao_allocator_t *inner = inner_of(allocator);
    dao_host_free(allocator);
    inner->ops->destroy(inner);
}

static const dao_allocator_ops_t poisoned_ops = {
    .alloc = poisoned_alloc,
    .alloc_fast = poisoned_alloc_fast,
    .lease_resume = poisoned_lease_resume,
    .alloc_at = poisoned_alloc_at,
    .alloc_ordered = poisoned_alloc_ordered,
    .free = poisoned_free,
    .free_owned = poisoned_free_owned,
    .free_fast = poisoned_free_fast,
    .free_ordered = poisoned_free_ordered,
    .free_deferred = poisoned_free_deferred,
    .drain = poisoned_drain,
    .retire = poisoned_retire,
    .reclaim = poisoned_reclaim,
    .reuse = poisoned_reuse,
    .lease_begin = poisoned_lease_begin,
    .lease_end = poisoned_lease_end,
    .is_valid = poisoned_is_valid,
    .destroy = poisoned_destroy,
};

dao_status_t dao_poisoned_create(dao_allocator_t *inner, dao_allocator_t **out_allocator)
{
    poisoned_t *poisoned = dao_host_calloc(1, sizeof(*poisoned));
    if (poisoned == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", inner->ledger->name);
    }
    poisoned->ops = poisoned_ops;
    poisoned->ops.name = inner->ops->name;
    if (inner->ops->retire == NULL) {
        poisoned->ops.retire = NULL;
        poisoned->ops.reclaim = NULL;
        poisoned->ops.reuse = NULL;
    }
    dao_front_init((dao_front_t *)poisoned, inner, &poisoned->ops);
    *out_allocator = &poisoned->base;
    return DAO_OK;
}

dao_allocator_t *dao_poisoned_behind(dao_allocator_t *allocator)
{
    return allocator->ops->destroy == poisoned_destroy ? inner_of(allocator) : allocator;
}
