/* SPDX-License-Identifier: Apache-2.0 */
/* Frees that have to be refused, plain ones and in stream order: what is no block's begin, another place's,
   what was freed before, what a handle or the executor owns. The model says the status of each, and the
   comparison behind the call that nothing has changed. */
#include "tests/harness/calls/calls.h"

/* Host blocks up to this size are malloc's, by default: only where they begin is known. */
#define MALLOC_BYTES ((size_t)32 << 10)

/* A free that has to be refused. */
typedef struct wrong_free {
    dao_place_t place;
    void *address;
    const char *text;  /* what the address is, for the program in C */
    uint32_t statuses; /* that are right: a bit for each */
} wrong_free_t;

static uint32_t bit_of(dao_status_t status)
{
    return 1u << status;
}

/* Frees, and holds the answer against the statuses that are right. */
static bool refuse(model_t *model, const harness_op_t *op, const wrong_free_t *wrong)
{
    bool is_async = op->kind % 16 >= 8;
    uint32_t slot = call_stream_slot(model, op->other);
    dao_status_t order = is_async ? call_order_status(wrong->place, slot) : DAO_OK;
    uint32_t statuses = order != DAO_OK ? bit_of(order) : wrong->statuses;
    dao_status_t got;
    if (is_async) {
        model_say(model, "dao_free_async(((dao_place_t){%d, %d}), %p, stream_%u); /* %s */",
                  wrong->place.kind, wrong->place.index, wrong->address, slot, wrong->text);
        got = dao_free_async(wrong->place, wrong->address, model->streams[slot].stream);
    } else {
        model_say(model, "dao_free(((dao_place_t){%d, %d}), %p); /* %s */", wrong->place.kind,
                  wrong->place.index, wrong->address, wrong->text);
        got = dao_free(wrong->place, wrong->address);
    }
    MODEL_REQUIRE(model, got != DAO_OK);
    bool is_right = (statuses & bit_of(got)) != 0;
    (void)model_answer(model, got, is_right ? got : (dao_status_t)__builtin_ctz(statuses));
    return true;
}

static bool free_own(model_t *model, const harness_op_t *op)
{
    static char own[64];
    wrong_free_t wrong = {.place = call_place(model, op),
                          .address = own + op->small % sizeof(own),
                          .text = "the program's own",
                          .statuses = bit_of(DAO_ERR_FOREIGN_POINTER)};
    return refuse(model, op, &wrong);
}

/* A block with an address, of a raw one's or a handle's owner. */
static model_block_t *find_block(model_t *model, const harness_op_t *op)
{
    model_block_t *block = model_block_find(model, op->slot, op->number % 4 == 3 ? MODEL_HANDLE : MODEL_RAW);
    return block != NULL && block->size_bytes > 0 ? block : NULL;
}

static uint32_t inside_statuses(const model_block_t *block)
{
    bool may_be_malloc = block->place.kind == DAO_PLACE_KIND_CPU && block->size_bytes <= MALLOC_BYTES;
    return bit_of(DAO_ERR_INTERIOR_POINTER) | (may_be_malloc ? bit_of(DAO_ERR_FOREIGN_POINTER) : 0);
}

static bool free_inside(model_t *model, const harness_op_t *op)
{
    model_block_t *block = find_block(model, op);
    if (block == NULL || block->size_bytes < 2) {
        return false;
    }
    wrong_free_t wrong = {.place = block->place,
                          .address = block->address + 1 + op->number % (block->size_bytes - 1),
                          .text = "the inside of a block",
                          .statuses = inside_statuses(block)};
    return refuse(model, op, &wrong);
}

static bool free_elsewhere(model_t *model, const harness_op_t *op)
{
    model_block_t *block = find_block(model, op);
    dao_place_t place = call_place(model, op);
    if (block != NULL && dao_place_equal(place, block->place)) {
        place = model_place(op->other % MODEL_PLACE_COUNT);
    }
    if (block == NULL || dao_place_equal(place, block->place)) {
        return false;
    }
    wrong_free_t wrong = {.place = place,
                          .address = block->address,
                          .text = "another place's block",
                          .statuses = bit_of(DAO_ERR_WRONG_PLACE)};
    return refuse(model, op, &wrong);
}

/* Returns true if a block of the model has an address at the place that it names, or in what its size was
   rounded up to. */
static bool has_address(const model_block_t *block, const void *address, bool *out_is_behind)
{
    dao_block_info_t info;
    uint64_t offset = (uintptr_t)address - (uintptr_t)block->address;
    if ((block->owner != MODEL_RAW && block->owner != MODEL_HANDLE) || address < (void *)block->address) {
        return false;
    }
    *out_is_behind = offset >= block->size_bytes;
    return !*out_is_behind ||
           (block->size_bytes > 0 && !block->is_gone &&
            dao_block_query(block->place, block->address, &info) == DAO_OK && offset < info.size_bytes);
}

/* What may lie at an address beside the model's blocks: released handles whose frees wait, and the executor's
   arena and memory for its copies. All of them refuse. */
static uint32_t statuses_of_others(const model_t *model, dao_place_t place)
{
    uint32_t statuses = 0;
    for (uint32_t i = 0; i < MODEL_PLACE_COUNT; i++) {
        bool is_here = i == model_place_number(place);
        if (model->executor != NULL || model->books[i].late_count > 0) {
            statuses |= is_here ? bit_of(DAO_ERR_NOT_YOURS) | bit_of(DAO_ERR_INTERIOR_POINTER)
                                : bit_of(DAO_ERR_WRONG_PLACE);
        }
    }
    return statuses;
}

/* What a free of an address that was freed before has to answer, by who has it now; 0: it is right. */
static uint32_t statuses_of_freed(const model_t *model, dao_place_t place, const void *address)
{
    uint32_t statuses = bit_of(DAO_ERR_DOUBLE_FREE) | bit_of(DAO_ERR_FOREIGN_POINTER);
    for (uint32_t i = 0; i < MODEL_BLOCK_COUNT; i++) {
        const model_block_t *block = &model->blocks[i];
        bool is_behind = false;
        if (!has_address(block, address, &is_behind)) {
            continue;
        }
        if (is_behind) { /* of what is not asked for the allocator may make use */
            statuses |=
                dao_place_equal(block->place, place) ? inside_statuses(block) : bit_of(DAO_ERR_WRONG_PLACE);
        } else if (!dao_place_equal(block->place, place)) {
            return bit_of(DAO_ERR_WRONG_PLACE);
        } else if (block->address != address) {
            return inside_statuses(block);
        } else {
            return block->is_gone              ? bit_of(DAO_ERR_DOUBLE_FREE)
                   : block->owner == MODEL_RAW ? 0
                                               : bit_of(DAO_ERR_NOT_YOURS);
        }
    }
    return statuses | statuses_of_others(model, place);
}

static bool free_again(model_t *model, const harness_op_t *op)
{
    uint32_t i = op->slot % MODEL_FREED_COUNT;
    wrong_free_t wrong = {
        .place = model->freed[i].place, .address = model->freed[i].address, .text = "what was freed before"};
    if (wrong.address == NULL || model->has_company) { /* it may be another thread's */
        return false;
    }
    wrong.statuses = statuses_of_freed(model, wrong.place, wrong.address);
    return wrong.statuses != 0 && refuse(model, op, &wrong);
}

static bool free_of_handle(model_t *model, const harness_op_t *op)
{
    model_block_t *block =
        model_block_find(model, op->slot, op->number % 8 == 7 ? MODEL_SHARED : MODEL_HANDLE);
    if (block == NULL || block->size_bytes == 0) {
        return false;
    }
    wrong_free_t wrong = {
        .place = block->place,
        .address = block->address,
        .text = "a handle's block",
        .statuses = bit_of(block->owner == MODEL_SHARED ? DAO_ERR_FOREIGN_POINTER : DAO_ERR_NOT_YOURS)};
    if (block->owner == MODEL_SHARED) { /* it may lie where a block of the place has been */
        wrong.statuses |= bit_of(DAO_ERR_DOUBLE_FREE);
    }
    return refuse(model, op, &wrong);
}

/* What a free of an owned block answers. A handle's that the program has released has a free that waits: it
   may come through before the answer. */
static uint32_t statuses_of_owned(const model_t *model, const dao_block_info_t *info)
{
    bool is_kept = info->owner != DAO_BLOCK_OWNER_HANDLE;
    for (uint32_t i = 0; i < MODEL_BLOCK_COUNT && !is_kept; i++) {
        is_kept = model->blocks[i].owner == MODEL_HANDLE && model->blocks[i].address == info->address;
    }
    return info->owner == DAO_BLOCK_OWNER_LEASE ? bit_of(DAO_ERR_DOUBLE_FREE) /* the program has freed it */
           : is_kept
               ? bit_of(DAO_ERR_NOT_YOURS)
               : bit_of(DAO_ERR_NOT_YOURS) | bit_of(DAO_ERR_DOUBLE_FREE) | bit_of(DAO_ERR_FOREIGN_POINTER);
}

/* What the place says is owned, whoever it is: the executor's arena among others. */
static bool free_owned(model_t *model, const harness_op_t *op)
{
    dao_place_t place = call_place(model, op);
    dao_snapshot_t *snapshot = NULL;
    if (model->has_company) {
        return false; /* as above */
    }
    if (!model_answer(model, dao_snapshot_create(place, &snapshot), DAO_OK)) {
        return true;
    }
    size_t count = 0;
    const dao_snapshot_block_t *blocks = dao_snapshot_blocks(snapshot, &count);
    wrong_free_t wrong = {.place = place, .text = "an owner's block"};
    for (size_t i = 0; i < count && wrong.address == NULL; i++) {
        const dao_snapshot_block_t *seen = &blocks[(i + op->number) % count];
        void *address = (void *)seen->address; /* a number in the snapshot */
        dao_block_info_t info;
        if (seen->state == DAO_BLOCK_STATE_LIVE && dao_block_query(place, address, &info) == DAO_OK &&
            info.owner != DAO_BLOCK_OWNER_RAW) {
            wrong.address = address;
            wrong.statuses = statuses_of_owned(model, &info);
        }
    }
    dao_snapshot_destroy(snapshot);
    return wrong.address != NULL && refuse(model, op, &wrong);
}

bool call_free_wrong(model_t *model, const harness_op_t *op)
{
    static const harness_call_func_t wrongs[] = {free_own,   free_inside,    free_elsewhere, free_again,
                                                 free_again, free_of_handle, free_of_handle, free_owned};
    return wrongs[op->kind % 8](model, op);
}
