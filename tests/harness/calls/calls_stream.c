/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events and work. Work of the program is a host function that checks a lane of a block and writes
   it anew when the device gets there. */
#include "tests/harness/calls/calls.h"
#include "tests/harness/device.h"

#include <stdlib.h>
#include <string.h>

typedef struct work {
    const model_t *model;
    unsigned char *words[2]; /* the lane at the begin and at the end of the block */
    uint64_t expected;       /* 0: anything */
    uint64_t written;
} work_t;

static void run_work(void *user)
{
    work_t *work = user;
    for (int i = 0; i < 2; i++) {
        uint64_t value;
        memcpy(&value, work->words[i], sizeof(value));
        if (work->expected != 0 && value != work->expected) {
            model_fail(work->model,
                       "work on a stream finds %llx at %p instead of %llx: the block is another's",
                       (unsigned long long)value, (void *)work->words[i], (unsigned long long)work->expected);
        }
        memcpy(work->words[i], &work->written, sizeof(value));
    }
    free(work);
}

void call_queue_work(model_t *model, model_block_t *block, uint32_t slot)
{
    if (!model_has_lanes(block) || slot == MODEL_STREAM_OTHER) {
        return;
    }
    uint32_t lane = block->home == slot ? 0 : slot % MODEL_STREAM_COUNT;
    if (lane == 0 && block->home != slot) { /* stream 0 is no lane beside its own */
        return;
    }
    size_t lanes_bytes = MODEL_STREAM_COUNT * sizeof(uint64_t);
    size_t end = (block->size_bytes - lanes_bytes) & ~(sizeof(uint64_t) - 1);
    uint64_t written = ++model->stamp;
    work_t *work = malloc(sizeof(*work)); /* the stream's, once it is queued */
    *work = (work_t){
        .model = model,
        .words = {block->address + lane * sizeof(uint64_t), block->address + end + lane * sizeof(uint64_t)},
        .expected = block->lanes[lane],
        .written = written};
    model_say(model, "dao_stream_host_func(stream_%u, use_block, block_%u);", slot, model_slot(model, block));
    dao_status_t got = dao_stream_host_func(model->streams[slot].stream, run_work, work);
    if (!model_answer(model, got, DAO_OK)) {
        free(work);
        return;
    }
    block->lanes[lane] = written;
    block->used_by |= 1u << slot;
}

/* Device 1 is started for the first program that asks for it. */
static bool has_other(model_t *model)
{
    model_stream_t *other = &model->streams[MODEL_STREAM_OTHER];
    if (other->stream == NULL &&
        model_answer(model, dao_stream_get(1, DAO_STREAM_ROLE_COMPUTE, &other->stream), DAO_OK)) {
        other->native = dao_stream_native(other->stream);
    }
    return other->stream != NULL;
}

uint32_t call_stream_slot(model_t *model, uint32_t number)
{
    if (number % 32 == 31 && has_other(model)) {
        return MODEL_STREAM_OTHER;
    }
    uint32_t slot = number % MODEL_STREAM_OTHER;
    return model->streams[slot].stream != NULL ? slot : 0;
}

void call_settle(model_t *model, const model_block_t *block)
{
    for (uint32_t slot = 0; slot < MODEL_STREAM_COUNT; slot++) {
        if ((block->used_by >> slot & 1) != 0 &&
            model_answer(model, dao_stream_synchronize(model->streams[slot].stream), DAO_OK)) {
            model_streams_done(model, 1u << slot);
        }
    }
    MODEL_REQUIRE(model, block->used_by == 0 || model->may_fail);
}

/* Whether a stream may work on a block: one of its own, or one that no other stream uses. */
static bool suits_work(const model_block_t *block, uint32_t slot)
{
    bool is_there =
        (block->owner == MODEL_RAW || block->owner == MODEL_HANDLE) && !block->is_gone && !block->is_dropped;
    if (!is_there || block->place.kind == DAO_PLACE_KIND_CPU || block->place.index != 0) {
        return false;
    }
    return block->home == slot || (!block->is_async && block->owner == MODEL_RAW && block->used_by == 0);
}

/* The first block from a slot on that suits, which is the stream's then. */
static model_block_t *find_for_work(model_t *model, uint32_t block_slot, uint32_t slot)
{
    for (uint32_t i = 0; i < MODEL_BLOCK_COUNT && slot != MODEL_STREAM_OTHER; i++) {
        model_block_t *block = &model->blocks[(block_slot + i) % MODEL_BLOCK_COUNT];
        if (suits_work(block, slot)) {
            block->home = slot;
            return block;
        }
    }
    return NULL;
}

bool call_work(model_t *model, const harness_op_t *op)
{
    uint32_t slot = call_stream_slot(model, op->other);
    model_block_t *block = find_for_work(model, op->slot, slot);
    if (block == NULL) {
        return false;
    }
    call_queue_work(model, block, slot);
    return true;
}

/* Fills lane 0 of a block, behind the work that checks it. */
bool call_stream_fill(model_t *model, const harness_op_t *op)
{
    uint32_t slot = call_stream_slot(model, op->other);
    model_block_t *block = find_for_work(model, op->slot, slot);
    if (block == NULL || !model_has_lanes(block)) {
        return model_answer(model, dao_stream_fill(model->streams[slot].stream, NULL, 0, 0), DAO_OK);
    }
    call_queue_work(model, block, slot);
    model_say(model, "dao_stream_fill(stream_%u, block_%u, %u, 8);", slot, model_slot(model, block),
              op->small);
    if (model_answer(model, dao_stream_fill(model->streams[slot].stream, block->address, op->small, 8),
                     DAO_OK)) {
        block->used_by |= 1u << slot;
        block->lanes[0] = 0; /* its two words differ */
        call_queue_work(model, block, slot);
    }
    return true;
}

/* Copies words from one block to another of the same stream. */
static bool copy_on_stream(model_t *model, const harness_op_t *op, bool is_batch)
{
    uint32_t slot = call_stream_slot(model, op->other);
    model_block_t *dst = find_for_work(model, op->slot, slot);
    model_block_t *src = dst != NULL ? find_for_work(model, op->slot + 1u + op->small, slot) : NULL;
    if (src == NULL || src == dst || !model_has_lanes(dst) || !model_has_lanes(src)) {
        return false;
    }
    dao_stream_t *stream = model->streams[slot].stream;
    size_t size = 8;
    void *to = dst->address; /* lane 0: other streams have the others */
    const void *from = src->address;
    dao_copy_batch_t batch = {.count = 1, .dsts = &to, .srcs = &from, .sizes_bytes = &size};
    model_say(model, "dao_stream_copy%s(stream_%u, ... block_%u, ... block_%u, 8);", is_batch ? "_batch" : "",
              slot, model_slot(model, dst), model_slot(model, src));
    dao_status_t got = is_batch ? dao_stream_copy_batch(stream, dst->place, src->place, &batch)
                                : dao_stream_copy(stream, dst->place, to, src->place, from, size);
    if (model_answer(model, got, DAO_OK)) {
        dst->used_by |= 1u << slot;
        src->used_by |= 1u << slot;
        dst->lanes[0] = 0; /* its two words differ */
        call_queue_work(model, dst, slot);
    }
    return true;
}

bool call_stream_copy(model_t *model, const harness_op_t *op)
{
    return copy_on_stream(model, op, false);
}

bool call_stream_copy_batch(model_t *model, const harness_op_t *op)
{
    return copy_on_stream(model, op, true);
}

/* The device gets on by itself. */
bool call_run(model_t *model, const harness_op_t *op)
{
    uint32_t slot = call_stream_slot(model, op->other);
    model_say(model, "/* the device runs %u commands of stream_%u */", 1u + op->small % 8, slot);
    (void)harness_device_run(model->streams[slot].native, 1u + op->small % 8);
    return true;
}

static model_stream_t *empty_stream(model_t *model, const harness_op_t *op)
{
    model_stream_t *stream = &model->streams[3 + op->slot % 4];
    return stream->stream == NULL ? stream : NULL;
}

bool call_stream_create(model_t *model, const harness_op_t *op)
{
    model_stream_t *empty = empty_stream(model, op);
    if (empty == NULL) {
        return false;
    }
    if (op->kind % 32 == 1) {
        dao_stream_t *stream = NULL;
        MODEL_REQUIRE(model, dao_stream_create(DAO_DEVICE_COUNT_MAX, &stream) == DAO_ERR_NO_DEVICE);
        return true;
    }
    model_say(model, "dao_stream_create(0, &stream_%u);", 3 + op->slot % 4);
    if (model_answer(model, dao_stream_create(0, &empty->stream), DAO_OK)) {
        empty->native = dao_stream_native(empty->stream);
    } else {
        empty->stream = NULL;
    }
    return true;
}

bool call_stream_adopt(model_t *model, const harness_op_t *op)
{
    model_stream_t *empty = empty_stream(model, op);
    uint32_t slot = call_stream_slot(model, op->other);
    if (empty == NULL || slot == MODEL_STREAM_OTHER) {
        return false;
    }
    bool is_default = op->kind % 4 == 1;
    void *native = is_default ? NULL : model->streams[slot].native;
    model_say(model, "dao_stream_adopt(0, %s, &stream_%u);", is_default ? "NULL" : "dao_stream_native(...)",
              3 + op->slot % 4);
    if (model_answer(model, dao_stream_adopt(0, native, &empty->stream), DAO_OK)) {
        empty->native = dao_stream_native(empty->stream);
        MODEL_REQUIRE(model, empty->native == model->streams[is_default ? 0 : slot].native);
    } else {
        empty->stream = NULL;
    }
    return true;
}

bool call_stream_destroy(model_t *model, const harness_op_t *op)
{
    uint32_t slot = op->slot % MODEL_STREAM_OTHER;
    model_stream_t *stream = &model->streams[slot];
    if (slot < 3) { /* the device's own: refused */
        dao_stream_destroy(stream->stream);
        MODEL_REQUIRE(model, dao_last_status() == DAO_ERR_INVALID);
        return true;
    }
    if (stream->stream == NULL) {
        dao_stream_destroy(NULL);
        return true;
    }
    model_say(model, "dao_stream_destroy(stream_%u);", slot);
    dao_stream_destroy(stream->stream);
    *stream = (model_stream_t){0};
    model_streams_done(model, 1u << slot);
    for (uint32_t i = 0; i < MODEL_BLOCK_COUNT; i++) {
        if (model->blocks[i].home == slot) { /* lane 0 stays; the stream that the block follows is gone */
            model->blocks[i].home = MODEL_NO_STREAM;
        }
    }
    for (uint32_t i = 0; i < MODEL_EVENT_COUNT; i++) {
        model->event_streams[i] = model->event_streams[i] == slot ? MODEL_NO_STREAM : model->event_streams[i];
    }
    return true;
}

bool call_stream_synchronize(model_t *model, const harness_op_t *op)
{
    uint32_t slot = call_stream_slot(model, op->other);
    if (op->kind % 32 == 1) {
        MODEL_REQUIRE(model, dao_stream_synchronize(NULL) == DAO_ERR_INVALID);
    }
    model_say(model, "dao_stream_synchronize(stream_%u);", slot);
    if (model_answer(model, dao_stream_synchronize(model->streams[slot].stream), DAO_OK)) {
        model_streams_done(model, 1u << slot);
    }
    return true;
}

bool call_device_synchronize(model_t *model, const harness_op_t *op)
{
    MODEL_REQUIRE(model, op->kind != 1 || dao_device_synchronize(-1) == DAO_ERR_NO_DEVICE);
    model_say(model, "dao_device_synchronize(0);");
    if (model_answer(model, dao_device_synchronize(0), DAO_OK)) {
        model_streams_done(model, (1u << MODEL_STREAM_OTHER) - 1);
    }
    return true;
}

/* ---- events ---- */

bool call_event_create(model_t *model, const harness_op_t *op)
{
    uint32_t i = op->slot % MODEL_EVENT_COUNT;
    if (model->events[i] != NULL) {
        return false;
    }
    model->event_streams[i] = MODEL_NO_STREAM;
    model_say(model, "dao_event_create(0, &event_%u);", i);
    if (!model_answer(model, dao_event_create(0, &model->events[i]), DAO_OK)) {
        model->events[i] = NULL;
    }
    return true;
}

bool call_event_destroy(model_t *model, const harness_op_t *op)
{
    uint32_t i = op->slot % MODEL_EVENT_COUNT;
    model_say(model, "dao_event_destroy(event_%u);", i);
    dao_event_destroy(model->events[i]); /* NULL, too */
    model->events[i] = NULL;
    return true;
}

bool call_event_record(model_t *model, const harness_op_t *op)
{
    uint32_t i = op->slot % MODEL_EVENT_COUNT;
    uint32_t slot = call_stream_slot(model, op->other);
    dao_status_t wanted = model->events[i] == NULL || slot == MODEL_STREAM_OTHER ? DAO_ERR_INVALID : DAO_OK;
    model_say(model, "dao_event_record(event_%u, stream_%u);", i, slot);
    if (model_answer(model, dao_event_record(model->events[i], model->streams[slot].stream), wanted)) {
        model->event_streams[i] = slot;
    }
    return true;
}

bool call_event_query(model_t *model, const harness_op_t *op)
{
    uint32_t i = op->slot % MODEL_EVENT_COUNT;
    if (model->events[i] == NULL) {
        return model_answer(model, dao_event_query(NULL), DAO_ERR_INVALID) || true;
    }
    model_say(model, "dao_event_query(event_%u);", i);
    dao_status_t got = dao_event_query(model->events[i]);
    if (got != DAO_ERR_NOT_READY || model->event_streams[i] == MODEL_NO_STREAM) {
        (void)model_answer(model, got, DAO_OK);
    }
    return true;
}

bool call_event_synchronize(model_t *model, const harness_op_t *op)
{
    uint32_t i = op->slot % MODEL_EVENT_COUNT;
    dao_status_t wanted = model->events[i] == NULL ? DAO_ERR_INVALID : DAO_OK;
    model_say(model, "dao_event_synchronize(event_%u);", i);
    if (model_answer(model, dao_event_synchronize(model->events[i]), wanted)) {
        MODEL_REQUIRE(model, dao_event_query(model->events[i]) == DAO_OK || model->may_fail);
    }
    return true;
}

bool call_event_elapsed(model_t *model, const harness_op_t *op)
{
    uint32_t i = op->slot % MODEL_EVENT_COUNT, k = op->other % MODEL_EVENT_COUNT;
    int64_t elapsed_ns = -1;
    model_say(model, "dao_event_elapsed(event_%u, event_%u, &elapsed_ns);", i, k);
    if (model->events[i] == NULL || model->events[k] == NULL) {
        (void)model_answer(model, dao_event_elapsed(model->events[i], model->events[k], &elapsed_ns),
                           DAO_ERR_INVALID);
        return true;
    }
    bool are_done =
        dao_event_query(model->events[i]) == DAO_OK && dao_event_query(model->events[k]) == DAO_OK;
    dao_status_t got = dao_event_elapsed(model->events[i], model->events[k], &elapsed_ns);
    if (!are_done || got != DAO_ERR_NOT_READY) { /* never recorded counts as done, and has no time */
        (void)model_answer(model, got, are_done ? DAO_OK : DAO_ERR_NOT_READY);
    }
    return true;
}

bool call_stream_wait_event(model_t *model, const harness_op_t *op)
{
    uint32_t i = op->slot % MODEL_EVENT_COUNT;
    uint32_t slot = call_stream_slot(model, op->other);
    dao_status_t wanted = model->events[i] == NULL ? DAO_ERR_INVALID : DAO_OK;
    model_say(model, "dao_stream_wait_event(stream_%u, event_%u);", slot, i);
    (void)model_answer(model, dao_stream_wait_event(model->streams[slot].stream, model->events[i]), wanted);
    return true;
}

bool call_stream_query(model_t *model, const harness_op_t *op)
{
    uint32_t slot = call_stream_slot(model, op->slot);
    dao_stream_t *stream = model->streams[slot].stream;
    model_say(model, "(void)dao_stream_query(stream_%u);", slot);
    dao_status_t got = dao_stream_query(stream);
    (void)model_answer(model, got == DAO_ERR_NOT_READY ? DAO_OK : got,
                       stream != NULL ? DAO_OK : DAO_ERR_INVALID);
    return true;
}
