/* SPDX-License-Identifier: Apache-2.0 */
/* A pairing heap (Fredman, Sedgewick, Sleator, Tarjan 1986).

       root (leaves first)
        | child
        v
       tensor <-> tensor <-> tensor      siblings: `next`; `previous`, of the first one the parent
        |
       tensor ...

   Key, the greatest leaves first: the next use, or for a tensor without one a number above all of those
   that falls with its priority, then with its latest use, or the one that it was fetched for; that number
   alone for age; bytes for size, and none for what was fetched early. Of equal keys the lower priority leaves
   first, then a clean tensor, then the one with the lower number.

   Invariants: a tensor's key is not less than those of its children; is_in holds for the tensors in the
   heap, and for no other; what was popped is set aside until it is put back; clean_bytes are those of the
   clean tensors in the heap. */
#include "runtime/executor/state/victims.h"

#include "base/report/assert.h"
#include "runtime/executor/records/access.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/state/residency_parts.h"

/* Keys from here on are of tensors without a known next use. */
#define UNKNOWN_FROM (UINT64_C(1) << 62)

/* Their priority lies above the bits of a time. */
#define PRIORITY_SHIFT 54

static_assert(((uint64_t)DAO_MANAGED_PRIORITY_MAX + 1) << PRIORITY_SHIFT <= UNKNOWN_FROM,
              "a key without a next use is above all others");

uint64_t dao_victims_next_use(const dao_engine_t *engine, const dao_managed_t *tensor)
{
    if (tensor->first_use != NULL || tensor->forecast_time == 0) {
        return dao_access_next_use(tensor);
    }
    return tensor->forecast_time > engine->now ? tensor->forecast_time : engine->now;
}

uint64_t dao_victims_last_use(const dao_managed_t *tensor)
{
    uint64_t next = tensor->is_early ? dao_access_next_use(tensor) : DAO_TIME_NEVER;
    return next != DAO_TIME_NEVER ? next : tensor->last_use_time;
}

static uint64_t key_of(const dao_engine_t *engine, const dao_managed_t *tensor)
{
    dao_policy_t policy = engine->config.policy;
    uint64_t key =
        2 * UNKNOWN_FROM - 1 - ((uint64_t)tensor->priority << PRIORITY_SHIFT) - dao_victims_last_use(tensor);
    if (policy == DAO_POLICY_SIZE) {
        key = tensor->is_early ? 0 : tensor->size_bytes;
    } else if (policy != DAO_POLICY_LRU && policy != DAO_POLICY_WEIGHTED_LRU) {
        uint64_t next = dao_victims_next_use(engine, tensor);
        DAO_ASSERT(next == DAO_TIME_NEVER || next < UNKNOWN_FROM);
        key = next != DAO_TIME_NEVER ? next : key;
    }
    return 2 * key + (dao_residency_is_clean(tensor) ? 1 : 0);
}

static bool leaves_before(const dao_managed_t *a, const dao_managed_t *b)
{
    uint64_t a_time = a->victim.key / 2, b_time = b->victim.key / 2; /* the lowest bit: it is clean */
    if (a_time != b_time) {
        return a_time > b_time;
    }
    if (a->priority != b->priority) {
        return a->priority < b->priority;
    }
    return a->victim.key != b->victim.key ? a->victim.key > b->victim.key : a->id < b->id;
}

/* Joins two heaps; either may be NULL. */
static dao_managed_t *meld(dao_managed_t *a, dao_managed_t *b)
{
    if (a == NULL || b == NULL) {
        return a != NULL ? a : b;
    }
    dao_managed_t *parent = leaves_before(a, b) ? a : b;
    dao_managed_t *child = parent == a ? b : a;
    DAO_ASSERT(child->victim.next == NULL && parent->victim.next == NULL);
    child->victim.next = parent->victim.child;
    child->victim.previous = parent;
    if (parent->victim.child != NULL) {
        parent->victim.child->victim.previous = child;
    }
    parent->victim.child = child;
    return parent;
}

/* Takes the first of a list of siblings off. */
static dao_managed_t *take_sibling(dao_managed_t **siblings)
{
    dao_managed_t *first = *siblings;
    if (first != NULL) {
        *siblings = first->victim.next;
        first->victim.next = NULL;
        first->victim.previous = NULL;
    }
    return first;
}

/* Joins siblings in pairs from the left, then the pairs from the right. */
static dao_managed_t *meld_siblings(dao_managed_t *siblings)
{
    dao_managed_t *pairs = NULL;
    while (siblings != NULL) {
        dao_managed_t *first = take_sibling(&siblings);
        dao_managed_t *pair = meld(first, take_sibling(&siblings));
        pair->victim.next = pairs;
        pairs = pair;
    }
    dao_managed_t *root = NULL;
    while (pairs != NULL) {
        root = meld(root, take_sibling(&pairs));
    }
    return root;
}

/* What its memory could be had for without a copy, by its key. */
static uint64_t clean_bytes_of(const dao_managed_t *tensor)
{
    return tensor->victim.key % 2 == 1 ? dao_device_arena_part_bytes(tensor->size_bytes) : 0;
}

static void insert(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(!tensor->victim.is_in);
    tensor->victim.key = key_of(engine, tensor);
    tensor->victim.child = NULL;
    tensor->victim.next = NULL;
    tensor->victim.previous = NULL;
    tensor->victim.is_in = true;
    engine->clean_bytes += clean_bytes_of(tensor);
    engine->first_victim = meld(engine->first_victim, tensor);
}

void dao_victims_remove(dao_engine_t *engine, dao_managed_t *tensor)
{
    if (!tensor->victim.is_in) {
        return;
    }
    dao_managed_t *children = meld_siblings(tensor->victim.child);
    tensor->victim.child = NULL;
    tensor->victim.is_in = false;
    engine->clean_bytes -= clean_bytes_of(tensor);
    if (engine->first_victim == tensor) {
        engine->first_victim = children;
        return;
    }
    dao_managed_t *previous = tensor->victim.previous;
    *(previous->victim.child == tensor ? &previous->victim.child : &previous->victim.next) =
        tensor->victim.next;
    if (tensor->victim.next != NULL) {
        tensor->victim.next->victim.previous = previous;
    }
    tensor->victim.next = NULL;
    tensor->victim.previous = NULL;
    engine->first_victim = meld(engine->first_victim, children);
}

void dao_victims_place(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(engine->plan == NULL);
    bool may_leave = tensor->has_device && tensor->pin.count == 0;
    if (tensor->victim.is_in && may_leave && tensor->victim.key == key_of(engine, tensor)) {
        return;
    }
    dao_victims_remove(engine, tensor);
    if (may_leave) {
        insert(engine, tensor);
    }
}

dao_managed_t *dao_victims_pop(dao_engine_t *engine)
{
    dao_managed_t *first = engine->first_victim;
    if (first != NULL) {
        dao_victims_remove(engine, first);
        first->victim.next = engine->set_aside;
        engine->set_aside = first;
    }
    return first;
}

void dao_victims_put_back(dao_engine_t *engine)
{
    while (engine->set_aside != NULL) {
        dao_managed_t *tensor = engine->set_aside;
        engine->set_aside = tensor->victim.next;
        tensor->victim.next = NULL;
        insert(engine, tensor);
    }
}

/* Counts the tensors of a heap; UINT64_MAX if one is out of order. Depth first without a stack: from a
   tensor without children on to the next sibling of its own or of an ancestor's. */
static uint64_t count_heap(const dao_managed_t *root)
{
    uint64_t count = 0;
    const dao_managed_t *tensor = root;
    while (tensor != NULL) {
        count++;
        const dao_managed_t *child = tensor->victim.child;
        for (const dao_managed_t *each = child; each != NULL; each = each->victim.next) {
            const dao_managed_t *previous = each == child ? tensor : each->victim.previous;
            bool is_linked = each == child ? each->victim.previous == tensor : previous->victim.next == each;
            if (!each->victim.is_in || !is_linked || leaves_before(each, tensor)) {
                return UINT64_MAX;
            }
        }
        while (child == NULL && tensor != root && tensor->victim.next == NULL) { /* up to the parent */
            while (tensor->victim.previous->victim.child != tensor) {
                tensor = tensor->victim.previous;
            }
            tensor = tensor->victim.previous;
        }
        tensor = child != NULL ? child : tensor != root ? tensor->victim.next : NULL;
    }
    return count;
}

bool dao_victims_is_valid(const dao_engine_t *engine)
{
    uint64_t count = 0;
    uint64_t clean_bytes = 0;
    for (const dao_managed_t *tensor = engine->table; tensor != NULL; tensor = tensor->table_next) {
        if (tensor->victim.is_in != (engine->plan == NULL && tensor->has_device && tensor->pin.count == 0)) {
            return false;
        }
        count += tensor->victim.is_in ? 1 : 0;
        clean_bytes += tensor->victim.is_in ? clean_bytes_of(tensor) : 0;
    }
    return engine->set_aside == NULL && clean_bytes == engine->clean_bytes &&
           count_heap(engine->first_victim) == count;
}
