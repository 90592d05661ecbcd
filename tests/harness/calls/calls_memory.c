/* SPDX-License-Identifier: Apache-2.0 */
/* Raw memory: dao_alloc() and dao_free() in all forms. */
#include "tests/harness/calls/calls.h"

#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

dao_place_t call_place(const model_t *model, const harness_op_t *op)
{
    dao_place_t subject = model->program->config.place;
    if (op->kind % 8 == 6 && model->lease_here != MODEL_LEASE_COUNT) {
        return model_place(0); /* what a lease is about */
    }
    if (op->kind % 8 == 6 && subject.kind == DAO_PLACE_KIND_CPU) {
        return model_place(op->other % 2); /* what streams work on */
    }
    return op->kind % 8 == 7 ? model_place(op->other % MODEL_PLACE_COUNT) : subject;
}

size_t call_size(const harness_op_t *op)
{
    size_t number = op->number;
    switch (op->small % 16) {
    case 0:
        return number % 4 == 0 ? 0 : 1 + number % 512;
    case 1:
        return number % 8 == 0 ? SIZE_MAX - number : 1 + number % 4096;
    case 2:
        return 1 + number * 64; /* to 4 MiB */
    case 3:
        return (1 + number % 4) * 2 * MIB - 256 + number / 4 % 3 * 256;
    case 4:
        return number % 16 == 0 ? (number % 256 == 0 ? 80 : 16) * MIB : 1 + number; /* above some devices */
    case 5:
        return 32 * KIB + number % 3 - 1;
    case 6:
        return (size_t)1 << number % 17;
    case 7:
    case 8:
        return 1 + number; /* to 64 KiB */
    default:
        return 128 + number % 4096;
    }
}

static bool has_junk(const model_t *model, dao_place_t place)
{
    const harness_config_t *config = &model->program->config;
    uint32_t flags =
        dao_place_equal(place, config->place) && model->is_configured ? config->place_config.hardening : 0;
    flags = flags != 0 ? flags : config->library.hardening;
    return (flags & DAO_HARDENING_JUNK) != 0;
}

/* What is new is whole junk where the place says so, and it is the host's to write. */
static void begin_contents(model_t *model, model_block_t *block)
{
    for (size_t i = 0; has_junk(model, block->place) && !block->is_leased && i < block->size_bytes;
         i += 1 + block->size_bytes / 16) {
        MODEL_REQUIRE(model, block->address[i] == 0xcd);
    }
    model_write(model, block);
}

/* Enters the block of a plain allocation, or its refusal. */
static void take(model_t *model, model_block_t *block, void *address, const model_outcome_t *outcome,
                 dao_place_t place, size_t size_bytes, uint32_t tag)
{
    dao_status_t got = address != NULL ? DAO_OK : dao_last_status();
    MODEL_REQUIRE(model, address != NULL || got != DAO_OK);
    if (model_alloc_answer(model, place, size_bytes, tag, outcome, got)) {
        model_block_enter(model, block, address, size_bytes, place, model->tags[tag]);
        begin_contents(model, block);
    }
}

bool call_alloc(model_t *model, const harness_op_t *op)
{
    dao_place_t place = call_place(model, op);
    size_t size_bytes = call_size(op);
    model_block_t *block = model_block_empty(model, op->slot);
    if (block == NULL) {
        return false;
    }
    model_outcome_t outcome = model_alloc_outcome(model, place, size_bytes, 0, model->tag_here);
    model_say(model, "void *block_%u = dao_alloc(((dao_place_t){%d, %d}), %zu);",
              op->slot % MODEL_BLOCK_COUNT, place.kind, place.index, size_bytes);
    void *address = place.kind == DAO_PLACE_KIND_DEVICE && op->kind % 2 == 0
                        ? dao_alloc(dao_device_place(place.index), size_bytes)
                        : dao_alloc(place, size_bytes);
    if (size_bytes == 0) {
        MODEL_REQUIRE(model, address == NULL);
        return true;
    }
    take(model, block, address, &outcome, place, size_bytes, model->tag_here);
    MODEL_REQUIRE(model, (uintptr_t)address % (place.kind == DAO_PLACE_KIND_CPU ? 64 : 256) == 0);
    return true;
}

bool call_alloc_with(model_t *model, const harness_op_t *op)
{
    dao_place_t place = call_place(model, op);
    size_t size_bytes = call_size(op);
    model_block_t *block = model_block_empty(model, op->slot);
    uint32_t tag = op->other % MODEL_TAG_COUNT;
    bool is_odd = op->kind % 16 == 3, is_no_tag = op->kind % 16 == 5;
    dao_alloc_options_t options = {.alignment_bytes = is_odd ? 3 : (size_t)1 << op->kind / 8 % 17,
                                   .tag = is_no_tag ? DAO_TAG_COUNT_MAX + 1 : model->tags[tag]};
    tag = tag != 0 ? tag : model->tag_here;
    if (block == NULL) {
        return false;
    }
    model_outcome_t outcome = model_alloc_outcome(model, place, size_bytes, options.alignment_bytes, tag);
    model_say(
        model,
        "void *block_%u = dao_alloc_with(((dao_place_t){%d, %d}), %zu, &(dao_alloc_options_t){%zu, %u});",
        op->slot % MODEL_BLOCK_COUNT, place.kind, place.index, size_bytes, options.alignment_bytes,
        options.tag);
    void *address = dao_alloc_with(place, size_bytes, &options);
    if (is_odd || is_no_tag) {
        MODEL_REQUIRE(model, address == NULL && dao_last_status() == DAO_ERR_INVALID);
        return true;
    }
    if (size_bytes == 0) {
        MODEL_REQUIRE(model, address == NULL);
        return true;
    }
    take(model, block, address, &outcome, place, size_bytes, tag);
    MODEL_REQUIRE(model, (uintptr_t)address % options.alignment_bytes == 0);
    return true;
}

dao_status_t call_order_status(dao_place_t place, uint32_t slot)
{
    if (place.kind == DAO_PLACE_KIND_CPU) {
        return DAO_ERR_UNSUPPORTED;
    }
    return (slot == MODEL_STREAM_OTHER) == (place.index == 1) ? DAO_OK : DAO_ERR_INVALID;
}

/* Returns true if a call names its stream by the vendor's handle, and which that is. */
static bool by_native(const model_t *model, const harness_op_t *op, dao_place_t place, uint32_t slot,
                      void **out_native)
{
    const dao_stream_t *stream = model->streams[slot].stream;
    *out_native = stream != NULL ? dao_stream_native(stream) : NULL;
    return op->kind % 4 == 3 && place.kind == DAO_PLACE_KIND_DEVICE &&
           call_order_status(place, slot) == DAO_OK;
}

bool call_alloc_async(model_t *model, const harness_op_t *op)
{
    dao_place_t place = call_place(model, op);
    size_t size_bytes = call_size(op);
    model_block_t *block = model_block_empty(model, op->slot);
    uint32_t slot = call_stream_slot(model, op->other);
    if (block == NULL) {
        return false;
    }
    dao_status_t wanted = call_order_status(place, slot);
    model_outcome_t outcome = model_alloc_outcome(model, place, size_bytes, 0, model->tag_here);
    model_say(model, "void *block_%u = dao_alloc_async(((dao_place_t){%d, %d}), %zu, stream_%u);",
              op->slot % MODEL_BLOCK_COUNT, place.kind, place.index, size_bytes, slot);
    void *native;
    void *address = by_native(model, op, place, slot, &native)
                        ? dao_alloc_native(place.index, size_bytes, native)
                        : dao_alloc_async(place, size_bytes, model->streams[slot].stream);
    if (wanted != DAO_OK) {
        MODEL_REQUIRE(model, address == NULL);
        (void)model_answer(model, dao_last_status(), wanted);
        return true;
    }
    if (size_bytes == 0) {
        MODEL_REQUIRE(model, address == NULL);
        return true;
    }
    dao_status_t got = address != NULL ? DAO_OK : dao_last_status();
    MODEL_REQUIRE(model, address != NULL || got != DAO_OK);
    if (model_alloc_answer(model, place, size_bytes, model->tag_here, &outcome, got)) {
        model_block_enter(model, block, address, size_bytes, place, model->tags[model->tag_here]);
        block->is_async = true;
        block->home = slot;
        call_queue_work(model, block, slot);
        block->used_by |= 1u << slot; /* too small for work, it still follows that of its stream */
    }
    return true;
}

/* A plain free says that no stream uses the block: then that has to be so. */
bool call_free(model_t *model, const harness_op_t *op)
{
    model_block_t *block = model_block_find(model, op->slot, MODEL_RAW);
    if (block == NULL) {
        return model_answer(model, dao_free(call_place(model, op), NULL), DAO_OK);
    }
    call_settle(model, block);
    model_read(model, block);
    model_say(model, "dao_free(((dao_place_t){%d, %d}), block_%u);", block->place.kind, block->place.index,
              model_slot(model, block));
    dao_status_t got = block->place.kind == DAO_PLACE_KIND_DEVICE && op->kind % 2 == 0
                           ? dao_free(dao_device_place(block->place.index), block->address)
                           : dao_free(block->place, block->address);
    if (model_answer(model, got, DAO_OK)) {
        model_block_leave(model, block);
    }
    return true;
}

/* The streams that the free has to follow are named: the last one here, others by dao_record_stream(). */
bool call_free_async(model_t *model, const harness_op_t *op)
{
    model_block_t *block = model_block_find(model, op->slot, MODEL_RAW);
    uint32_t slot = call_stream_slot(model, op->other);
    if (block == NULL) {
        return false;
    }
    dao_status_t wanted = call_order_status(block->place, slot);
    if (wanted == DAO_OK && (block->used_by & ~(1u << slot)) != 0 && !block->is_async) {
        call_settle(model, block); /* a block of dao_alloc() cannot name a second stream */
    } else if (wanted == DAO_OK && block->is_async && block->home != slot && block->home != MODEL_NO_STREAM) {
        uint32_t home = block->home; /* as if `slot` had worked on it: it is named, and so is the first one */
        dao_status_t got = dao_record_stream(block->place, block->address, model->streams[home].stream);
        (void)model_answer(model, got, DAO_OK);
    }
    model_say(model, "dao_free_async(((dao_place_t){%d, %d}), block_%u, stream_%u);", block->place.kind,
              block->place.index, model_slot(model, block), slot);
    void *native;
    dao_status_t freed = by_native(model, op, block->place, slot, &native)
                             ? dao_free_native(block->place.index, block->address, native)
                             : dao_free_async(block->place, block->address, model->streams[slot].stream);
    if (model_answer(model, freed, wanted)) {
        model_block_leave(model, block);
    }
    return true;
}

bool call_record_stream(model_t *model, const harness_op_t *op)
{
    model_block_t *block = model_block_find(model, op->slot, MODEL_RAW);
    uint32_t slot = call_stream_slot(model, op->other);
    if (block == NULL) {
        char own[64];
        dao_status_t got = dao_record_stream(model->program->config.place, own, NULL);
        MODEL_REQUIRE(model, got == (model->program->config.place.kind == DAO_PLACE_KIND_CPU
                                         ? DAO_ERR_UNSUPPORTED
                                         : DAO_ERR_FOREIGN_POINTER));
        return true;
    }
    dao_status_t wanted = call_order_status(block->place, slot);
    wanted = wanted == DAO_OK && !block->is_async ? DAO_ERR_UNSUPPORTED : wanted;
    model_say(model, "dao_record_stream(((dao_place_t){%d, %d}), block_%u, stream_%u);", block->place.kind,
              block->place.index, model_slot(model, block), slot);
    dao_status_t got = dao_record_stream(block->place, block->address, model->streams[slot].stream);
    if (model_answer(model, got, wanted) && slot != MODEL_STREAM_OTHER && block->place.index == 0) {
        call_queue_work(model, block, slot);
    }
    return true;
}

bool call_address_place(model_t *model, const harness_op_t *op)
{
    dao_place_t found = {DAO_PLACE_KIND_CPU, -1};
    char own[64];
    model_block_t *block = model_block_find(model, op->slot, MODEL_RAW);
    model_say(model, "(void)dao_address_place(...);");
    if (block == NULL) {
        (void)model_answer(model, dao_address_place(own, &found), DAO_ERR_FOREIGN_POINTER);
    } else if (model_answer(model, dao_address_place(block->address, &found), DAO_OK)) {
        MODEL_REQUIRE(model, dao_place_equal(found, block->place));
    }
    return true;
}

bool call_copy(model_t *model, const harness_op_t *op)
{
    model_block_t *dst = model_block_find(model, op->slot, MODEL_RAW);
    model_block_t *src = model_block_find(model, op->slot + 1 + op->other % MODEL_BLOCK_COUNT, MODEL_RAW);
    if (dst == NULL || src == dst) {
        return false;
    }
    call_settle(model, dst);
    call_settle(model, src);
    model_say(model, "dao_copy(((dao_place_t){%d, %d}), block_%u, ((dao_place_t){%d, %d}), block_%u, 64);",
              dst->place.kind, dst->place.index, model_slot(model, dst), src->place.kind, src->place.index,
              model_slot(model, src));
    size_t most = dst->size_bytes < src->size_bytes ? dst->size_bytes : src->size_bytes;
    if (op->kind % 8 == 1) { /* beyond its block */
        dao_status_t wanted = dst->place.kind == DAO_PLACE_KIND_CPU ? DAO_OK : DAO_ERR_OUT_OF_BOUNDS;
        if (wanted != DAO_OK && src->place.kind != DAO_PLACE_KIND_CPU) {
            (void)model_answer(model,
                               dao_copy(dst->place, dst->address, src->place, src->address,
                                        dst->size_bytes + 1 + op->number),
                               wanted);
        }
        return wanted != DAO_OK;
    }
    if (!model_has_lanes(dst) || !model_has_lanes(src)) {
        (void)model_answer(model, dao_copy(dst->place, dst->address, src->place, src->address, most), DAO_OK);
        model_write(model, dst);
        return true;
    }
    size_t head = MODEL_STREAM_COUNT * sizeof(uint64_t); /* the lanes at the begin, and no others */
    bool has_copied =
        model_answer(model, dao_copy(dst->place, dst->address, src->place, src->address, head), DAO_OK);
    if (has_copied) {
        for (uint32_t lane = 0; lane < MODEL_STREAM_COUNT; lane++) {
            MODEL_REQUIRE(model, src->lanes[lane] == 0 || model_lane(dst, lane) == src->lanes[lane]);
        }
    }
    model_write(model, dst); /* begin and end are one content again */
    return true;
}
