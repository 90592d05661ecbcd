/* SPDX-License-Identifier: Apache-2.0 */
/* Counted handles: memory, tensors, DLPack, memory for several processes. A block lives as long as a handle,
   a part of it or a tensor refers to it: reference_count counts all of them. */
#include "tests/harness/calls/calls.h"

#include <dao/dlpack_abi.h>

#include <string.h>

/* Drops one reference of a block's handle: the last one frees it, then its parent's. */
static void unreference(model_t *model, model_block_t *block)
{
    while (--block->reference_count == 0) {
        uint32_t parent = block->parent;
        bool is_part = block->owner == MODEL_PART;
        model_block_leave(model, block);
        if (!is_part) {
            return;
        }
        block = &model->blocks[parent];
    }
}

static model_block_t *find_handle(model_t *model, uint32_t slot)
{
    static const model_owner_t owners[] = {MODEL_HANDLE, MODEL_HANDLE, MODEL_PART, MODEL_POINTER,
                                           MODEL_SHARED};
    for (uint32_t i = 0; i < 5; i++) {
        model_block_t *block = model_block_find(model, slot, owners[(slot + i) % 5]);
        if (block != NULL) {
            return block;
        }
    }
    return NULL;
}

bool call_memory_create(model_t *model, const harness_op_t *op)
{
    dao_place_t place = call_place(model, op);
    size_t size_bytes = call_size(op);
    model_block_t *block = model_block_empty(model, op->slot);
    uint32_t slot = op->kind % 4 == 0 ? MODEL_NO_STREAM : call_stream_slot(model, op->other);
    if (block == NULL) {
        return false;
    }
    bool is_odd = slot != MODEL_NO_STREAM &&
                  (place.kind == DAO_PLACE_KIND_CPU || (slot == MODEL_STREAM_OTHER) != (place.index == 1));
    model_outcome_t outcome = model_alloc_outcome(model, place, size_bytes, 0, model->tag_here);
    dao_memory_t *memory = NULL;
    model_say(model, "dao_memory_create(((dao_place_t){%d, %d}), %zu, stream_%d, &memory_%u);", place.kind,
              place.index, size_bytes, (int)slot, op->slot % MODEL_BLOCK_COUNT);
    dao_status_t got = dao_memory_create(
        place, size_bytes, slot != MODEL_NO_STREAM ? model->streams[slot].stream : NULL, &memory);
    if (is_odd) {
        return model_answer(model, got, DAO_ERR_INVALID) || true;
    }
    if (size_bytes == 0 ? !model_answer(model, got, DAO_OK)
                        : !model_alloc_answer(model, place, size_bytes, model->tag_here, &outcome, got)) {
        MODEL_REQUIRE(model, memory == NULL);
        return true;
    }
    model_block_enter(model, block, dao_memory_address(memory), size_bytes, place,
                      model->tags[model->tag_here]);
    block->owner = MODEL_HANDLE;
    block->memory = memory;
    block->reference_count = 1;
    block->home = slot != MODEL_NO_STREAM ? slot : 0;
    MODEL_REQUIRE(model, dao_memory_size(memory) == size_bytes && dao_memory_use_count(memory) == 1);
    MODEL_REQUIRE(model, dao_place_equal(dao_memory_place(memory), place));
    model_write(model, block);
    return true;
}

static uint32_t deleted_count;

static void delete_pointer(void *address, size_t size_bytes, void *user)
{
    (void)address;
    (void)size_bytes;
    (void)user;
    deleted_count++;
}

bool call_memory_from_pointer(model_t *model, const harness_op_t *op)
{
    static unsigned char bytes[4096];
    model_block_t *block = model_block_empty(model, op->slot);
    if (block == NULL) {
        return false;
    }
    dao_memory_t *memory = NULL;
    if (op->kind % 8 == 1) {
        dao_status_t got = dao_memory_from_pointer(model_place(2), NULL, 1, NULL, NULL, &memory);
        return model_answer(model, got, DAO_ERR_INVALID) || true;
    }
    model_say(model, "dao_memory_from_pointer(cpu, bytes, sizeof(bytes), deleter, NULL, &memory_%u);",
              op->slot % MODEL_BLOCK_COUNT);
    dao_status_t got =
        dao_memory_from_pointer(model_place(2), bytes, sizeof(bytes), delete_pointer, NULL, &memory);
    if (model_answer(model, got, DAO_OK)) {
        *block = (model_block_t){.owner = MODEL_POINTER,
                                 .address = bytes,
                                 .size_bytes = sizeof(bytes),
                                 .place = model_place(2),
                                 .memory = memory,
                                 .reference_count = 1,
                                 .home = MODEL_NO_STREAM};
    }
    return true;
}

bool call_memory_sub_range(model_t *model, const harness_op_t *op)
{
    model_block_t *whole = find_handle(model, op->other);
    model_block_t *block = model_block_empty(model, op->slot);
    if (whole == NULL || block == NULL || whole == block) {
        return false;
    }
    size_t offset = whole->size_bytes > 0 ? op->number % (whole->size_bytes + 1) : 0;
    size_t size_bytes = whole->size_bytes - offset + (op->kind % 8 == 1);
    dao_memory_t *memory = NULL;
    model_say(model, "dao_memory_sub_range(memory_%u, %zu, %zu, &memory_%u);", model_slot(model, whole),
              offset, size_bytes, op->slot % MODEL_BLOCK_COUNT);
    dao_status_t got = dao_memory_sub_range(whole->memory, offset, size_bytes, &memory);
    if (model_answer(model, got, op->kind % 8 == 1 ? DAO_ERR_OUT_OF_BOUNDS : DAO_OK)) {
        whole->reference_count++;
        *block = (model_block_t){.owner = MODEL_PART,
                                 .address = dao_memory_address(memory),
                                 .size_bytes = size_bytes,
                                 .place = whole->place,
                                 .memory = memory,
                                 .reference_count = 1,
                                 .parent = model_slot(model, whole),
                                 .home = MODEL_NO_STREAM};
        MODEL_REQUIRE(model, whole->size_bytes == 0 || block->address == whole->address + offset);
    }
    return true;
}

/* Once more, and back: a handle that a tensor needs is not dropped beneath it. */
bool call_memory_retain(model_t *model, const harness_op_t *op)
{
    model_block_t *block = find_handle(model, op->slot);
    if (block == NULL) {
        return model_answer(model, dao_memory_retain(NULL), DAO_ERR_INVALID) || true;
    }
    model_say(model, "dao_memory_retain(memory_%u); dao_memory_release(memory_%u);", model_slot(model, block),
              model_slot(model, block));
    (void)model_answer(model, dao_memory_retain(block->memory), DAO_OK);
    /* a tensor that came in by DLPack refers to the tensor that went out, not to its memory */
    uint32_t use_count = dao_memory_use_count(block->memory);
    MODEL_REQUIRE(model, use_count >= 2 && use_count <= block->reference_count + 1);
    (void)model_answer(model, dao_memory_release(block->memory), DAO_OK);
    return true;
}

bool call_memory_release(model_t *model, const harness_op_t *op)
{
    model_block_t *block = find_handle(model, op->slot);
    if (block == NULL) {
        return model_answer(model, dao_memory_release(NULL), DAO_OK);
    }
    if (block->owner == MODEL_HANDLE && block->home == MODEL_NO_STREAM) {
        call_settle(model, block); /* its stream was destroyed, which has waited */
    }
    if (block->used_by == 0) {
        model_read(model, block);
    }
    const model_block_t *root = block; /* what ends with this reference, at last */
    while (root->owner == MODEL_PART && root->reference_count == 1) {
        root = &model->blocks[root->parent];
    }
    bool is_last = root->owner == MODEL_POINTER && root->reference_count == 1;
    uint32_t before = deleted_count;
    model_say(model, "dao_memory_release(memory_%u);", model_slot(model, block));
    if (model_answer(model, dao_memory_release(block->memory), DAO_OK)) {
        MODEL_REQUIRE(model, deleted_count == before + is_last);
        block->is_dropped = true;
        unreference(model, block);
    }
    return true;
}

/* ---- tensors ---- */

static bool make_tensor(model_t *model, const harness_op_t *op, bool is_zero)
{
    model_block_t *block = model_block_empty(model, op->slot);
    model_tensor_t *tensor = &model->tensors[op->other % MODEL_TENSOR_COUNT];
    dao_place_t place = call_place(model, op);
    int64_t shape[2] = {op->number % 64, 1 + op->small % 16};
    dao_type_t type = (dao_type_t)(op->kind / 8 % 15);
    size_t size_bytes = (size_t)(shape[0] * shape[1]) * dao_type_size(type);
    if (block == NULL || tensor->tensor != NULL) {
        return false;
    }
    if (op->kind == 1) {
        shape[0] = INT64_MAX;
        dao_status_t got = dao_tensor_empty(place, DAO_TYPE_F64, 2, shape, &tensor->tensor);
        return model_answer(model, got, DAO_ERR_OVERFLOW) || true;
    }
    model_outcome_t outcome = model_alloc_outcome(model, place, size_bytes, 0, model->tag_here);
    model_say(model, "dao_tensor_%s(((dao_place_t){%d, %d}), %d, 2, (int64_t[]){%lld, %lld}, &tensor_%u);",
              is_zero ? "zeros" : "empty", place.kind, place.index, type, (long long)shape[0],
              (long long)shape[1], op->other % MODEL_TENSOR_COUNT);
    dao_status_t got = is_zero ? dao_tensor_zeros(place, type, 2, shape, &tensor->tensor)
                               : dao_tensor_empty(place, type, 2, shape, &tensor->tensor);
    if (size_bytes == 0 ? !model_answer(model, got, DAO_OK)
                        : !model_alloc_answer(model, place, size_bytes, model->tag_here, &outcome, got)) {
        tensor->tensor = NULL;
        return true;
    }
    dao_memory_t *memory = dao_tensor_memory(tensor->tensor);
    model_block_enter(model, block, dao_memory_address(memory), size_bytes, place,
                      model->tags[model->tag_here]);
    block->owner = MODEL_HANDLE;
    block->memory = memory;
    block->reference_count = 1;
    block->is_dropped = true; /* the tensor has the one reference */
    block->home = 0;
    tensor->block = model_slot(model, block);
    for (size_t i = 0; is_zero && i < size_bytes; i++) {
        MODEL_REQUIRE(model, block->address[i] == 0);
    }
    MODEL_REQUIRE(model, dao_tensor_count(tensor->tensor) == shape[0] * shape[1]);
    model_write(model, block);
    return true;
}

bool call_tensor_empty(model_t *model, const harness_op_t *op)
{
    return make_tensor(model, op, false);
}

bool call_tensor_zeros(model_t *model, const harness_op_t *op)
{
    return make_tensor(model, op, true);
}

bool call_tensor_from_memory(model_t *model, const harness_op_t *op)
{
    model_block_t *block = find_handle(model, op->slot);
    model_tensor_t *tensor = &model->tensors[op->other % MODEL_TENSOR_COUNT];
    if (block == NULL || tensor->tensor != NULL) {
        return false;
    }
    int64_t count = (int64_t)block->size_bytes + (op->kind % 8 == 1);
    model_say(model,
              "dao_tensor_from_memory(memory_%u, 0, DAO_TYPE_U8, 1, (int64_t[]){%lld}, NULL, &tensor_%u);",
              model_slot(model, block), (long long)count, op->other % MODEL_TENSOR_COUNT);
    dao_status_t got =
        dao_tensor_from_memory(block->memory, 0, DAO_TYPE_U8, 1, &count, NULL, &tensor->tensor);
    if (model_answer(model, got, op->kind % 8 == 1 ? DAO_ERR_OUT_OF_BOUNDS : DAO_OK)) {
        block->reference_count++;
        tensor->block = model_slot(model, block);
    }
    return true;
}

/* A view has a reference of the memory of its own. */
bool call_tensor_view(model_t *model, const harness_op_t *op)
{
    model_tensor_t *from = &model->tensors[op->slot % MODEL_TENSOR_COUNT];
    model_tensor_t *to = &model->tensors[op->other % MODEL_TENSOR_COUNT];
    if (from->tensor == NULL || to->tensor != NULL || from == to) {
        return false;
    }
    int64_t length = dao_tensor_rank(from->tensor) > 0 ? dao_tensor_shape(from->tensor)[0] : 0;
    bool is_odd = op->kind % 8 == 1;
    int64_t start = length > 0 ? op->number % length : 0;
    int64_t part = length - start + is_odd;
    dao_status_t wanted = dao_tensor_rank(from->tensor) == 0 ? DAO_ERR_INVALID
                          : is_odd                           ? DAO_ERR_OUT_OF_BOUNDS
                                                             : DAO_OK;
    model_say(model, "dao_tensor_narrow(tensor_%u, 0, %lld, %lld, &tensor_%u);",
              op->slot % MODEL_TENSOR_COUNT, (long long)start, (long long)part,
              op->other % MODEL_TENSOR_COUNT);
    if (model_answer(model, dao_tensor_narrow(from->tensor, 0, start, part, &to->tensor), wanted)) {
        to->block = from->block;
        model->blocks[from->block].reference_count++;
        MODEL_REQUIRE(model, dao_tensor_memory(to->tensor) == dao_tensor_memory(from->tensor));
    }
    return true;
}

bool call_tensor_release(model_t *model, const harness_op_t *op)
{
    model_tensor_t *tensor = &model->tensors[op->slot % MODEL_TENSOR_COUNT];
    if (tensor->tensor == NULL) {
        return model_answer(model, dao_tensor_release(NULL), DAO_OK);
    }
    model_block_t *block = &model->blocks[tensor->block];
    if (block->owner == MODEL_HANDLE && block->used_by == 0) {
        model_read(model, block);
    }
    model_say(model, "dao_tensor_release(tensor_%u);", op->slot % MODEL_TENSOR_COUNT);
    if (model_answer(model, dao_tensor_release(tensor->tensor), DAO_OK)) {
        tensor->tensor = NULL;
        unreference(model, block);
    }
    return true;
}

/* ---- DLPack ---- */

static bool is_on_device(const model_tensor_t *tensor)
{
    return dao_memory_place(dao_tensor_memory(tensor->tensor)).kind == DAO_PLACE_KIND_DEVICE;
}

/* The first tensor from a slot on that goes out, or an empty slot. */
static model_tensor_t *find_tensor(model_t *model, uint32_t slot, bool is_empty)
{
    for (uint32_t i = 0; i < MODEL_TENSOR_COUNT; i++) {
        model_tensor_t *tensor = &model->tensors[(slot + i) % MODEL_TENSOR_COUNT];
        if (is_empty ? tensor->tensor == NULL : tensor->tensor != NULL && !is_on_device(tensor)) {
            return tensor;
        }
    }
    return NULL;
}

static uint32_t tensor_slot(const model_t *model, const model_tensor_t *tensor)
{
    return (uint32_t)(tensor - model->tensors);
}

bool call_dlpack_export(model_t *model, const harness_op_t *op)
{
    model_tensor_t *tensor = &model->tensors[op->slot % MODEL_TENSOR_COUNT];
    if (tensor->tensor == NULL) {
        return false;
    }
    dao_status_t wanted = is_on_device(tensor) ? DAO_ERR_UNSUPPORTED : DAO_OK;
    model_say(model, "dao_tensor_to_dlpack(tensor_%u, 0, &managed); managed->deleter(managed);",
              op->slot % MODEL_TENSOR_COUNT);
    DLManagedTensorVersioned *managed = NULL;
    if (model_answer(model, dao_tensor_to_dlpack(tensor->tensor, 0, &managed), wanted)) {
        MODEL_REQUIRE(model, managed->dl_tensor.ndim == dao_tensor_rank(tensor->tensor));
        managed->deleter(managed);
    }
    return true;
}

/* Out and in again: the tensor that comes in keeps the one that went out. */
bool call_dlpack_import(model_t *model, const harness_op_t *op)
{
    model_tensor_t *from = find_tensor(model, op->slot, false);
    model_tensor_t *to = find_tensor(model, op->other, true);
    if (from == NULL || to == NULL) {
        return false;
    }
    model_say(model,
              "dao_tensor_to_dlpack(tensor_%u, 0, &managed); dao_tensor_from_dlpack(managed, 0, &tensor_%u);",
              tensor_slot(model, from), tensor_slot(model, to));
    DLManagedTensorVersioned *managed = NULL;
    if (!model_answer(model, dao_tensor_to_dlpack(from->tensor, 0, &managed), DAO_OK)) {
        return true;
    }
    if (model_answer(model, dao_tensor_from_dlpack(managed, 0, &to->tensor), DAO_OK)) {
        to->block = from->block;
        model->blocks[from->block].reference_count++;
        /* DLPack has no address for a tensor without elements. */
        MODEL_REQUIRE(model, dao_tensor_count(from->tensor) == 0 ||
                                 dao_tensor_address(to->tensor) == dao_tensor_address(from->tensor));
    } else {
        to->tensor = NULL;
        managed->deleter(managed);
    }
    return true;
}

/* ---- for several processes ---- */

bool call_share(model_t *model, const harness_op_t *op)
{
    model_block_t *block = model_block_find(model, op->slot, MODEL_SHARED);
    dao_memory_t *memory = NULL;
    dao_share_t share;
    if (block != NULL) {
        model_say(model, "dao_memory_export(memory_%u, &share); dao_memory_import(place, &share, &other);",
                  model_slot(model, block));
        if (model_answer(model, dao_memory_export(block->memory, &share), DAO_OK)) {
            (void)model_answer(model, dao_memory_import(block->place, &share, &memory), DAO_ERR_INVALID);
            dao_share_close(&share);
        }
        return true;
    }
    block = model_block_empty(model, op->slot);
    if (block == NULL) {
        return false;
    }
    dao_place_t place = call_place(model, op);
    dao_status_t wanted = place.kind == DAO_PLACE_KIND_DEVICE ? DAO_OK : DAO_ERR_UNSUPPORTED;
    model_say(model, "dao_memory_create_shared(((dao_place_t){%d, %d}), %u, &memory_%u);", place.kind,
              place.index, 1u + op->number, op->slot % MODEL_BLOCK_COUNT);
    dao_status_t got = dao_memory_create_shared(place, 1 + op->number, &memory);
    if (got == DAO_ERR_NO_DEVICE_MEMORY) { /* the place's own memory is in the way */
        return true;
    }
    if (model_answer(model, got, wanted)) {
        model_block_enter(model, block, dao_memory_address(memory), 1 + op->number, place, 0);
        block->owner = MODEL_SHARED;
        block->memory = memory;
        block->reference_count = 1;
    }
    return true;
}
