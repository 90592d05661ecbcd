/* SPDX-License-Identifier: Apache-2.0 */
/* Items: one block of memory each.

       | dao_item_t | uses | addresses | operand_offsets | operand_uses | name |

   Operands that are views become uses of their tensors' bytes, with their offsets beside. */
#include "runtime/executor/records/item.h"

#include "allocators/range/range.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "runtime/executor/records/drop.h"
#include "runtime/executor/records/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Longest text that names an operand. */
#define OPERAND_TEXT_BYTES 256

static dao_item_t *allocate(dao_item_kind_t kind, uint32_t use_capacity, uint32_t operand_count,
                            const char *name)
{
    size_t name_bytes = strlen(name) + 1;
    size_t bytes = sizeof(dao_item_t) + use_capacity * sizeof(dao_use_t) +
                   operand_count * (sizeof(void *) + sizeof(uint64_t) + sizeof(uint32_t)) + name_bytes;
    dao_item_t *item = dao_host_calloc(1, bytes);
    if (item == NULL) {
        return NULL;
    }
    item->kind = kind;
    item->operand_count = operand_count;
    item->uses = (dao_use_t *)(item + 1);
    item->addresses = (void **)(item->uses + use_capacity);
    item->operand_offsets = (uint64_t *)(item->addresses + operand_count);
    item->operand_uses = (uint32_t *)(item->operand_offsets + operand_count);
    char *name_copy = (char *)(item->operand_uses + operand_count);
    memcpy(name_copy, name, name_bytes);
    item->name = name_copy;
    return item;
}

/* An operand's access as a use of its tensor. */
static dao_use_t use_of(const dao_kernel_t *kernel, uint32_t operand)
{
    const dao_managed_t *named = kernel->operands[operand].tensor;
    dao_managed_t *tensor = dao_managed_storage(kernel->operands[operand].tensor);
    dao_use_kind_t kind = (dao_use_kind_t)kernel->operands[operand].access;
    dao_use_t use = {.tensor = tensor, .kind = kind, .is_read = kind != DAO_USE_WRITE};
    static const dao_span_t whole;
    const dao_span_t *span = kernel->spans != NULL ? &kernel->spans[operand] : &whole;
    uint64_t begin = named->view_offset_bytes + span->offset_bytes;
    uint64_t bytes = span->size_bytes != 0 ? span->size_bytes : named->size_bytes - span->offset_bytes;
    dao_slice_t slice = {begin, begin + bytes};
    if (dao_slice_bytes(slice) == tensor->size_bytes) {
        return use;
    }
    use.is_partial = true;
    use.reads = use.kind != DAO_USE_WRITE ? slice : use.reads;
    use.writes = use.kind != DAO_USE_READ ? slice : use.writes;
    use.kind = use.kind == DAO_USE_READ ? DAO_USE_READ : DAO_USE_READ_WRITE;
    return use;
}

/* What a use reads, and what it writes, also if it is not partial. */
static dao_slice_t reads_of(const dao_use_t *use)
{
    return use->is_partial || use->kind == DAO_USE_WRITE ? use->reads
                                                         : (dao_slice_t){0, use->tensor->size_bytes};
}

static dao_slice_t writes_of(const dao_use_t *use)
{
    return use->is_partial || use->kind == DAO_USE_READ ? use->writes
                                                        : (dao_slice_t){0, use->tensor->size_bytes};
}

/* Two accesses of one kernel to one tensor are one use: reading and writing it is changing it in place. Bytes
   between two that are written stay, so that they have to be there. */
static void join_use(dao_use_t *use, const dao_use_t *other)
{
    use->is_read = use->is_read || other->is_read;
    if (!use->is_partial && !other->is_partial) {
        use->kind = use->kind == other->kind ? use->kind : DAO_USE_READ_WRITE;
        return;
    }
    dao_slice_t all = {0, use->tensor->size_bytes};
    dao_slice_t reads = dao_slice_hull(reads_of(use), reads_of(other));
    dao_slice_t writes = dao_slice_hull(writes_of(use), writes_of(other));
    if (dao_slice_leaves_gap(writes_of(use), writes_of(other))) {
        reads = dao_slice_hull(reads, writes);
    }
    bool is_overwritten = dao_slice_is_empty(reads) && dao_slice_has(writes, all);
    use->kind = dao_slice_is_empty(writes) ? DAO_USE_READ
                : is_overwritten           ? DAO_USE_WRITE
                                           : DAO_USE_READ_WRITE;
    use->is_partial = !is_overwritten && !(dao_slice_has(reads, all) &&
                                           (dao_slice_is_empty(writes) || dao_slice_has(writes, all)));
    use->reads = use->is_partial ? reads : (dao_slice_t){0, 0};
    use->writes = use->is_partial ? writes : (dao_slice_t){0, 0};
}

/* Finds the use of a tensor by hash, so that a kernel with many operands costs no more for each of them. */
typedef struct use_finder {
    uint32_t mask;
    uint16_t slots[2 * DAO_OPERAND_COUNT_MAX]; /* number of a use plus 1; 0: empty. At most half full */
} use_finder_t;

static_assert(DAO_OPERAND_COUNT_MAX < UINT16_MAX, "a slot holds the number of a use");
static_assert((DAO_OPERAND_COUNT_MAX & (DAO_OPERAND_COUNT_MAX - 1)) == 0, "slots are found with a mask");

static void init_finder(use_finder_t *finder, uint32_t operand_count)
{
    uint32_t slot_count = 2;
    while (slot_count < 2 * operand_count) {
        slot_count *= 2;
    }
    finder->mask = slot_count - 1;
    memset(finder->slots, 0, slot_count * sizeof(finder->slots[0]));
}

/* The slot that names a tensor's use, or the empty one where it belongs. */
static uint16_t *find_slot(use_finder_t *finder, const dao_item_t *item, const dao_managed_t *tensor)
{
    uint64_t hash = (uint64_t)(uintptr_t)tensor * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    uint32_t slot = (uint32_t)hash & finder->mask;
    while (finder->slots[slot] != 0 && item->uses[finder->slots[slot] - 1].tensor != tensor) {
        slot = (slot + 1) & finder->mask;
    }
    return &finder->slots[slot];
}

static void add_use(dao_item_t *item, uint32_t operand, const dao_use_t *use)
{
    dao_managed_reference(use->tensor);
    item->operand_uses[operand] = item->use_count;
    item->uses[item->use_count++] = *use;
}

static void add_operand(dao_item_t *item, use_finder_t *finder, uint32_t operand, const dao_use_t *use)
{
    uint16_t *slot = find_slot(finder, item, use->tensor);
    if (*slot == 0) {
        add_use(item, operand, use);
        *slot = (uint16_t)item->use_count;
    } else {
        join_use(&item->uses[*slot - 1], use);
        item->operand_uses[operand] = *slot - 1u;
    }
}

static dao_status_t check_operand(dao_executor_t *executor, const dao_kernel_t *kernel, const char *name,
                                  uint32_t index)
{
    const dao_operand_t *operand = &kernel->operands[index];
    if (operand->tensor == NULL || !dao_managed_is_live(operand->tensor)) {
        char what[OPERAND_TEXT_BYTES];
        (void)snprintf(what, sizeof(what), "kernel \"%.200s\", operand %u", name, index);
        return dao_managed_check(what, operand->tensor);
    }
    if (operand->tensor->executor != executor) {
        return dao_error(DAO_ERR_INVALID, "kernel \"%s\": the tensor of operand %u is another executor's",
                         name, index);
    }
    if (operand->access != DAO_ACCESS_READ && operand->access != DAO_ACCESS_WRITE &&
        operand->access != DAO_ACCESS_READ_WRITE) {
        return dao_error(DAO_ERR_INVALID, "kernel \"%s\": the access of operand %u is %d", name, index,
                         (int)operand->access);
    }
    if (operand->access != DAO_ACCESS_READ &&
        dao_managed_check_writable(operand->tensor, "written") != DAO_OK) {
        dao_error_prefix("kernel \"%s\", operand %u: ", name, index);
        return DAO_ERR_INVALID;
    }
    const dao_span_t *span = kernel->spans != NULL ? &kernel->spans[index] : NULL;
    size_t tensor_bytes = operand->tensor->size_bytes;
    if (span != NULL &&
        (span->offset_bytes >= tensor_bytes || span->size_bytes > tensor_bytes - span->offset_bytes)) {
        return dao_error(DAO_ERR_INVALID,
                         "kernel \"%s\": the span of operand %u, %zu bytes from byte %zu on, does not lie in "
                         "tensor \"%s\" of %zu bytes",
                         name, index, span->size_bytes, span->offset_bytes, operand->tensor->name,
                         tensor_bytes);
    }
    return DAO_OK;
}

static dao_status_t check_kernel(dao_executor_t *executor, const dao_kernel_t *kernel)
{
    if (kernel == NULL || kernel->launch == NULL) {
        return dao_error(DAO_ERR_INVALID, "a kernel needs a launch function");
    }
    const char *name = kernel->name != NULL ? kernel->name : "kernel";
    if ((kernel->flags & ~(uint32_t)DAO_KERNEL_REPEATABLE) != 0) {
        return dao_error(DAO_ERR_INVALID, "kernel \"%s\": the flags are 0x%" PRIx32 ", known are 0x%x", name,
                         kernel->flags, DAO_KERNEL_REPEATABLE);
    }
    if (kernel->operand_count > DAO_OPERAND_COUNT_MAX) {
        return dao_error(DAO_ERR_INVALID, "kernel \"%s\" has %u operands, at most %d are allowed", name,
                         kernel->operand_count, DAO_OPERAND_COUNT_MAX);
    }
    if (kernel->operand_count > 0 && kernel->operands == NULL) {
        return dao_error(DAO_ERR_INVALID, "kernel \"%s\" has %u operands, but operands is NULL", name,
                         kernel->operand_count);
    }
    if (kernel->workspace_bytes > DAO_RANGE_CAPACITY_MAX) {
        return dao_error(DAO_ERR_OVERFLOW,
                         "kernel \"%s\" asks for %zu bytes of workspace, at most %" PRIu64 " are allowed",
                         name, kernel->workspace_bytes, DAO_RANGE_CAPACITY_MAX);
    }
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < kernel->operand_count; i++) {
        status = check_operand(executor, kernel, name, i);
    }
    return status;
}

/* FNV-1a over the name, and all else mixed in. */
static uint64_t signature_of(const dao_kernel_t *kernel, const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *c = name; *c != '\0'; c++) {
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    }
    hash = (hash ^ (uint64_t)(uintptr_t)kernel->launch) * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t numbers = (uint64_t)kernel->stream_index << 48 | (uint64_t)kernel->flags << 32;
    return (hash ^ (numbers | kernel->operand_count)) * UINT64_C(0x9e3779b97f4a7c15);
}

bool dao_item_is_valid(const dao_item_t *item)
{
    for (uint32_t i = 0; i < item->operand_count; i++) {
        if (item->operand_uses[i] >= item->use_count) {
            return false;
        }
    }
    for (uint32_t i = 0; i < item->use_count; i++) {
        for (uint32_t k = 0; k < i; k++) {
            if (item->uses[i].tensor == item->uses[k].tensor) {
                return false;
            }
        }
    }
    return true;
}

dao_status_t dao_item_from_kernel(dao_executor_t *executor, const dao_kernel_t *kernel, dao_item_t **out_item)
{
    dao_status_t status = check_kernel(executor, kernel);
    if (status != DAO_OK) {
        return status;
    }
    const char *name = kernel->name != NULL ? kernel->name : "kernel";
    dao_item_t *item = allocate(DAO_ITEM_KERNEL, kernel->operand_count, kernel->operand_count, name);
    if (item == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the queue's entry of kernel \"%s\"", name);
    }
    item->launch = kernel->launch;
    item->user = kernel->user;
    item->drop = kernel->drop;
    item->signature = signature_of(kernel, name);
    item->workspace_bytes = kernel->workspace_bytes;
    item->cost_ns = kernel->cost_ns;
    item->stream_index = kernel->stream_index;
    item->is_repeatable = (kernel->flags & DAO_KERNEL_REPEATABLE) != 0;
    static_assert((int)DAO_ACCESS_READ == DAO_USE_READ && (int)DAO_ACCESS_WRITE == DAO_USE_WRITE &&
                      (int)DAO_ACCESS_READ_WRITE == DAO_USE_READ_WRITE,
                  "an access is a use");
    use_finder_t finder;
    init_finder(&finder, kernel->operand_count);
    for (uint32_t i = 0; i < kernel->operand_count; i++) {
        dao_use_t use = use_of(kernel, i);
        item->operand_offsets[i] = kernel->operands[i].tensor->view_offset_bytes;
        add_operand(item, &finder, i, &use);
    }
    DAO_ASSERT(item->use_count <= item->operand_count);
    DAO_ASSERT_HEAVY(dao_item_is_valid(item));
    *out_item = item;
    return DAO_OK;
}

dao_status_t dao_item_from_use(dao_item_kind_t kind, dao_managed_t *tensor, dao_use_kind_t use,
                               dao_item_t **out_item)
{
    if (use != DAO_USE_READ) {
        dao_status_t status =
            dao_managed_check_writable(tensor, use == DAO_USE_DISCARD ? "discarded" : "written");
        if (status != DAO_OK) {
            return status;
        }
    }
    dao_item_t *item = allocate(kind, 1, 1, "");
    if (item == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the queue's entry of tensor \"%s\"",
                         tensor->name);
    }
    bool is_read = use == DAO_USE_READ || use == DAO_USE_READ_WRITE;
    add_use(item, 0, &(dao_use_t){.tensor = tensor, .kind = use, .is_read = is_read});
    *out_item = item;
    return DAO_OK;
}

dao_status_t dao_item_from_step_boundary(dao_item_t **out_item)
{
    *out_item = allocate(DAO_ITEM_STEP_BOUNDARY, 0, 0, "");
    return *out_item != NULL ? DAO_OK : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a step's boundary");
}

dao_status_t dao_item_copy(const dao_item_t *item, dao_counted_t *list, dao_item_t **out_item)
{
    dao_item_t *copy = allocate(item->kind, item->use_count, item->operand_count, item->name);
    if (copy == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the queue's entry of kernel \"%s\"",
                         item->name);
    }
    copy->list = list;
    dao_counted_reference(list);
    copy->source = item->source;
    copy->launch = item->launch;
    copy->user = item->user;
    copy->signature = item->signature;
    copy->workspace_bytes = item->workspace_bytes;
    copy->cost_ns = item->cost_ns;
    copy->stream_index = item->stream_index;
    copy->is_repeatable = item->is_repeatable;
    copy->use_count = item->use_count;
    copy->slice = item->slice;
    memcpy(copy->operand_offsets, item->operand_offsets,
           item->operand_count * sizeof(*item->operand_offsets));
    memcpy(copy->operand_uses, item->operand_uses, item->operand_count * sizeof(*item->operand_uses));
    for (uint32_t i = 0; i < item->use_count; i++) {
        copy->uses[i] = item->uses[i]; /* one of a list is in no access list */
        DAO_ASSERT(copy->uses[i].next == NULL);
        dao_managed_reference(copy->uses[i].tensor);
    }
    DAO_ASSERT_HEAVY(dao_item_is_valid(copy));
    *out_item = copy;
    return DAO_OK;
}

void dao_item_destroy(dao_item_t *item)
{
    DAO_ASSERT(item->kind != DAO_ITEM_RELEASE);                                   /* it lies in its tensor */
    DAO_ASSERT(item->kind != DAO_ITEM_SYNC && item->kind != DAO_ITEM_STEP_WRITE); /* they lie on stacks */
    dao_drop_call(item->drop, item->user);
    for (uint32_t i = 0; i < item->use_count; i++) {
        dao_managed_unreference(item->uses[i].tensor);
    }
    if (item->list != NULL) {
        dao_counted_unreference(item->list);
    }
    dao_host_free(item);
}
