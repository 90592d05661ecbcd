/* SPDX-License-Identifier: Apache-2.0 */
/* Places: trim and limits, tags, and what observes them. */
#include "tests/harness/calls/calls.h"

#include <stdlib.h>
#include <string.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

bool call_trim(model_t *model, const harness_op_t *op)
{
    dao_place_t place = call_place(model, op);
    dao_stats_t before, after;
    MODEL_REQUIRE(model, dao_stats_get(place, &before) == DAO_OK);
    size_t released_bytes = 0;
    size_t keep_bytes = op->kind % 2 == 0 ? 0 : op->number * KIB;
    model_say(model, "dao_trim(((dao_place_t){%d, %d}), %zu, &released_bytes);", place.kind, place.index,
              keep_bytes);
    if (model_answer(model, dao_trim(place, keep_bytes, &released_bytes), DAO_OK) &&
        model_is_alone(model, place)) {
        MODEL_REQUIRE(model, dao_stats_get(place, &after) == DAO_OK);
        /* a late free may give memory back by itself, before */
        MODEL_REQUIRE(model, after.reserved_bytes + released_bytes <= before.reserved_bytes);
        if (after.reserved_bytes + released_bytes != before.reserved_bytes && before.deferred_count == 0) {
            model_fail(model, "%zu bytes were released, but %llu became %llu", released_bytes,
                       (unsigned long long)before.reserved_bytes, (unsigned long long)after.reserved_bytes);
        }
        MODEL_REQUIRE(model, after.live_count <= before.live_count);
    }
    return true;
}

/* A limit that is below what is reserved although nothing of it can be released, is refused. */
bool call_limit_set(model_t *model, const harness_op_t *op)
{
    dao_place_t place = call_place(model, op);
    size_t limit_bytes = op->kind % 4 == 0 ? 0 : (1u + op->number % 24) * MIB;
    dao_stats_t stats;
    model_say(model, "dao_limit_set(((dao_place_t){%d, %d}), %zu);", place.kind, place.index, limit_bytes);
    dao_status_t got = dao_limit_set(place, limit_bytes);
    if (got == DAO_ERR_LIMIT && limit_bytes != 0) {
        MODEL_REQUIRE(model, dao_stats_get(place, &stats) == DAO_OK);
        MODEL_REQUIRE(model, stats.reserved_bytes > limit_bytes || !model_is_alone(model, place));
        return true;
    }
    if (model_answer(model, got, DAO_OK)) {
        model_books(model, place)->limit_bytes = limit_bytes;
    }
    return true;
}

bool call_host_limit_set(model_t *model, const harness_op_t *op)
{
    uint64_t limit_bytes = op->kind % 2 == 0 ? 0 : (1u + op->number % 64) * 4 * MIB;
    dao_host_stats_t stats;
    model_say(model, "dao_host_limit_set(%llu);", (unsigned long long)limit_bytes);
    dao_status_t got = dao_host_limit_set(limit_bytes);
    MODEL_REQUIRE(model, dao_host_stats_get(&stats) == DAO_OK);
    if (got == DAO_ERR_LIMIT && limit_bytes != 0) {
        MODEL_REQUIRE(model, stats.reserved_bytes > limit_bytes);
        return true;
    }
    if (model_answer(model, got, DAO_OK)) {
        model->host_limit_bytes = limit_bytes;
        MODEL_REQUIRE(model, stats.limit_bytes == limit_bytes);
        MODEL_REQUIRE(model, limit_bytes == 0 || stats.reserved_bytes <= limit_bytes);
    }
    return true;
}

bool call_tag_set_current(model_t *model, const harness_op_t *op)
{
    uint32_t tag = op->small % MODEL_TAG_COUNT;
    model_say(model, "dao_tag_set_current(tag_%u);", tag);
    MODEL_REQUIRE(model, dao_tag_set_current(model->tags[tag]) == model->tags[model->tag_here]);
    model->tag_here = tag;
    return true;
}

bool call_tag_limit_set(model_t *model, const harness_op_t *op)
{
    dao_place_t place = call_place(model, op);
    uint32_t tag = op->small % MODEL_TAG_COUNT;
    size_t limit_bytes = op->kind % 4 == 0 ? 0 : (1u + op->number % 256) * 4 * KIB;
    dao_tag_stats_t stats;
    if (tag == 0) {
        return model_answer(model, dao_tag_limit_set(place, DAO_TAG_COUNT_MAX, limit_bytes),
                            DAO_ERR_INVALID) ||
               true;
    }
    model_say(model, "dao_tag_limit_set(((dao_place_t){%d, %d}), tag_%u, %zu);", place.kind, place.index, tag,
              limit_bytes);
    dao_status_t got = dao_tag_limit_set(place, model->tags[tag], limit_bytes);
    MODEL_REQUIRE(model, dao_tag_stats_get(place, model->tags[tag], &stats) == DAO_OK);
    bool is_above = limit_bytes != 0 && stats.used_bytes > limit_bytes;
    if (model_answer(model, got, is_above ? DAO_ERR_LIMIT : DAO_OK)) {
        model_books(model, place)->tag_limits[tag] = limit_bytes;
    }
    return true;
}

/* A place that has started, a config that is none, and a place that is none. */
bool call_configure(model_t *model, const harness_op_t *op)
{
    static const dao_place_config_t odd[] = {
        {.strategy = (dao_strategy_t)99},
        {.hardening = 1u << 31},
        {.hardening = DAO_HARDENING_NONE | DAO_HARDENING_GUARD},
        {.strategy = DAO_STRATEGY_SYSTEM, .initial_bytes = 1},
        {.strategy = DAO_STRATEGY_SIZE_CLASS, .segment_bytes = 1},
        {.strategy = DAO_STRATEGY_BINARY_BUDDY, .segment_bytes = 3 * KIB},
        {.strategy = DAO_STRATEGY_BINARY_BUDDY, .small_bytes = KIB},
        {.small_bytes = DAO_SMALL_BYTES_MAX + 1},
        {.initial_bytes = 2 * MIB, .limit_bytes = MIB},
        {.step_plan = {.mode = (dao_step_plan_mode_t)9}},
        {.step_plan = {.worker = DAO_STEP_PLAN_WORKER_SUBMIT}},
        {.step_plan = {.mode = DAO_STEP_PLAN_BINS, .worker = DAO_STEP_PLAN_WORKER_THREAD}},
        {.step_plan = {.allocation_count = UINT32_MAX}},
    };
    model_say(model, "dao_place_configure(place, odd_%u);", op->kind % 16);
    dao_place_t place = model->program->config.place;
    const dao_place_config_t fine = {0};
    dao_status_t got = op->kind % 16 < 13    ? dao_place_configure(place, &odd[op->kind % 16])
                       : op->kind % 16 == 13 ? dao_place_configure(place, NULL)
                                             : dao_place_configure(place, &fine);
    (void)model_answer(model, got, op->kind % 16 <= 13 ? DAO_ERR_INVALID : DAO_ERR_BUSY);
    return true;
}

bool call_events(model_t *model, const harness_op_t *op)
{
    dao_place_t place = model->program->config.place;
    model_say(model, "dao_events_%s(place, ...);", model->is_recording ? "read" : "start");
    if (!model->is_recording) {
        model->is_recording = model_answer(model, dao_events_start(place, 64), DAO_OK);
        return true;
    }
    dao_memory_event_t events[16];
    size_t count = 0;
    uint64_t lost = 0;
    if (model_answer(model, dao_events_read(place, events, 16, &count, &lost), DAO_OK)) {
        MODEL_REQUIRE(model, count <= 16);
        for (size_t i = 0; i < count; i++) {
            MODEL_REQUIRE(model, events[i].kind >= DAO_MEMORY_EVENT_KIND_ALLOC &&
                                     events[i].kind <= DAO_MEMORY_EVENT_KIND_TRIM);
        }
    }
    if (op->kind % 2 == 0) {
        MODEL_REQUIRE(model, dao_events_start(place, 64) == DAO_ERR_BUSY);
        model->is_recording = !model_answer(model, dao_events_stop(place), DAO_OK);
    }
    return true;
}

bool call_snapshot(model_t *model, const harness_op_t *op)
{
    dao_snapshot_t *snapshot = NULL;
    if (model_answer(model, dao_snapshot_create(call_place(model, op), &snapshot), DAO_OK)) {
        dao_snapshot_destroy(snapshot);
    }
    model_compare(model, true);
    return true;
}

bool call_block_query(model_t *model, const harness_op_t *op)
{
    model_block_t *block = model_block_find(model, op->slot, op->kind % 2 == 0 ? MODEL_RAW : MODEL_HANDLE);
    dao_block_info_t info;
    if (block == NULL || block->size_bytes == 0) {
        dao_status_t got = dao_block_query(model->program->config.place, &info, &info);
        return model_answer(model, got, DAO_ERR_FOREIGN_POINTER) || true;
    }
    size_t offset = op->number % block->size_bytes;
    model_say(model, "dao_block_query(((dao_place_t){%d, %d}), (char *)block_%u + %zu, &info);",
              block->place.kind, block->place.index, model_slot(model, block), offset);
    if (model_answer(model, dao_block_query(block->place, block->address + offset, &info), DAO_OK)) {
        MODEL_REQUIRE(model, info.address == block->address && info.offset_bytes == offset);
        MODEL_REQUIRE(model,
                      info.requested_bytes == block->size_bytes && info.size_bytes >= block->size_bytes);
        MODEL_REQUIRE(model, info.tag == block->tag);
        MODEL_REQUIRE(model, (info.handle_count > 0) == (block->owner == MODEL_HANDLE));
    }
    return true;
}

static void see_figure(const char *name, uint64_t value, void *user)
{
    (void)name;
    *(uint64_t *)user += value;
}

static void see_tag(dao_tag_t tag, const dao_tag_stats_t *stats, void *user)
{
    (void)tag;
    *(uint64_t *)user += stats->used_bytes;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void raise_peaks(dao_peaks_t *peaks, dao_peaks_t by)
{
    *peaks = (dao_peaks_t){.requested_bytes = larger(peaks->requested_bytes, by.requested_bytes),
                           .used_bytes = larger(peaks->used_bytes, by.used_bytes),
                           .reserved_bytes = larger(peaks->reserved_bytes, by.reserved_bytes)};
}

static bool is_within(dao_peaks_t a, dao_peaks_t b)
{
    return a.requested_bytes <= b.requested_bytes && a.used_bytes <= b.used_bytes &&
           a.reserved_bytes <= b.reserved_bytes;
}

static dao_peaks_t peaks_of(const dao_stats_t *stats)
{
    return (dao_peaks_t){.requested_bytes = stats->peak_requested_bytes,
                         .used_bytes = stats->peak_used_bytes,
                         .reserved_bytes = stats->peak_reserved_bytes};
}

/* Other threads may use the place between two calls. */
static bool is_shared(const model_t *model)
{
    return model->has_company || model->executor != NULL;
}

/* Reads the mark before the place's own peaks begin anew. Since the mark was set, which was before they began
   anew, the place has held all of them, and no more but for what it held then. */
static void read_mark(model_t *model, uint32_t kind)
{
    dao_stats_t stats;
    dao_peaks_t peaks, most;
    MODEL_REQUIRE(model, dao_stats_get(model->program->config.place, &stats) == DAO_OK);
    raise_peaks(&model->peaks_since_mark, peaks_of(&stats));
    model_say(model, "dao_peak_mark_%s(mark, &peaks);", kind % 2 == 0 ? "get" : "move");
    if (!model_answer(model,
                      kind % 2 == 0 ? dao_peak_mark_get(model->peak_mark, &peaks)
                                    : dao_peak_mark_move(model->peak_mark, &peaks),
                      DAO_OK)) {
        return;
    }
    most = model->peaks_since_mark;
    raise_peaks(&most, model->peaks_at_mark);
    MODEL_REQUIRE(model, is_within(model->peaks_since_mark, peaks));
    MODEL_REQUIRE(model, is_within(peaks, most) || is_shared(model));
    if (kind % 4 == 3) {
        model_say(model, "dao_peak_mark_remove(mark);");
        (void)model_answer(model, dao_peak_mark_remove(model->peak_mark), DAO_OK);
        MODEL_REQUIRE(model, dao_peak_mark_get(model->peak_mark, &peaks) == DAO_ERR_INVALID);
        model->peak_mark = 0;
    }
}

/* Sets the model's mark, reads it, moves it, or takes it away. The place's own peaks begin anew behind it.
   Returns true if the mark begins anew, too. */
static bool use_mark(model_t *model, uint32_t kind)
{
    bool is_new = model->peak_mark == 0;
    if (is_new) {
        model_say(model, "dao_peak_mark_add(place, &mark);");
        (void)model_answer(model, dao_peak_mark_add(model->program->config.place, &model->peak_mark), DAO_OK);
    } else {
        read_mark(model, kind);
    }
    bool begins = model->peak_mark != 0 && (is_new || kind % 2 != 0);
    if (begins) {
        model->peaks_since_mark = (dao_peaks_t){0};
        MODEL_REQUIRE(model, dao_peak_mark_get(model->peak_mark, &model->peaks_at_mark) == DAO_OK);
    }
    return begins;
}

bool call_stats_reset(model_t *model, const harness_op_t *op)
{
    dao_place_t place = call_place(model, op);
    dao_stats_t stats;
    uint64_t sum = 0;
    bool begins = dao_place_equal(place, model->program->config.place) && use_mark(model, op->kind);
    model_say(model, "dao_stats_reset_peaks(((dao_place_t){%d, %d}));", place.kind, place.index);
    (void)model_answer(model, dao_stats_reset_peaks(place), DAO_OK);
    MODEL_REQUIRE(model, dao_stats_get(place, &stats) == DAO_OK);
    MODEL_REQUIRE(model, stats.peak_used_bytes >= stats.used_bytes); /* slabs count whole */
    if (begins && !is_shared(model) && model_late_most_bytes(model, place) == 0) {
        MODEL_REQUIRE(model, is_within(model->peaks_at_mark, peaks_of(&stats)));
    }
    /* What waits for a stream may be freed between both calls. */
    MODEL_REQUIRE(model, stats.peak_reserved_bytes >= stats.reserved_bytes &&
                             stats.peak_reserved_bytes - stats.reserved_bytes <=
                                 model_late_most_bytes(model, place));
    MODEL_REQUIRE(model, stats.deferred_count > 0 ? dao_used(place) <= stats.used_bytes
                                                  : dao_used(place) == stats.used_bytes);
    (void)model_answer(model, dao_stats_tree_walk(place, see_figure, &sum), DAO_OK);
    sum = 0;
    MODEL_REQUIRE(model, dao_tag_walk(place, see_tag, &sum) == DAO_OK && sum <= stats.used_bytes);
    return true;
}

bool call_hardening_check(model_t *model, const harness_op_t *op)
{
    (void)op;
    const harness_config_t *config = &model->program->config;
    uint32_t flags = model->is_configured ? config->place_config.hardening : 0;
    flags = flags != 0 ? flags : config->library.hardening;
    dao_status_t wanted = flags == 0 || flags == DAO_HARDENING_NONE ? DAO_ERR_UNSUPPORTED : DAO_OK;
    model_say(model, "dao_hardening_check(place);");
    (void)model_answer(model, dao_hardening_check(config->place), wanted);
    return true;
}

/* Frees a block when memory is short: the allocation that asks goes on. */
static size_t relieve(dao_place_t place, size_t needed_bytes, void *user)
{
    model_t *model = user;
    (void)needed_bytes;
    for (uint32_t i = 0; i < MODEL_BLOCK_COUNT; i++) {
        model_block_t *block = &model->blocks[i];
        if (block->owner == MODEL_RAW && dao_place_equal(block->place, place) && block->used_by == 0 &&
            block->retained_by == 0 && !block->is_gone && !block->is_leased) {
            size_t size_bytes = block->size_bytes;
            if (model_answer(model, dao_free(block->place, block->address), DAO_OK)) {
                model_block_leave(model, block);
                return size_bytes;
            }
        }
    }
    return 0;
}

bool call_pressure(model_t *model, const harness_op_t *op)
{
    model_say(model, "dao_pressure_callback_%s(...);", model->pressure_id != 0 ? "remove" : "add");
    if (model->pressure_id != 0) {
        if (model_answer(model, dao_pressure_callback_remove(model->pressure_id), DAO_OK)) {
            MODEL_REQUIRE(model, dao_pressure_callback_remove(model->pressure_id) == DAO_ERR_INVALID);
            model->pressure_id = 0;
        }
        return true;
    }
    MODEL_REQUIRE(model, dao_pressure_wait_set(model->program->config.place, op->kind % 2) == DAO_OK);
    dao_status_t got =
        dao_pressure_callback_add(model->program->config.place, relieve, model, &model->pressure_id);
    (void)model_answer(model, got, DAO_OK);
    return true;
}

static void see_segment(dao_place_t place, dao_segment_event_t event, void *address, size_t size_bytes,
                        void *user)
{
    model_t *model = user;
    (void)place;
    MODEL_REQUIRE(model, address != NULL && size_bytes > 0);
    MODEL_REQUIRE(model, event == DAO_SEGMENT_EVENT_OBTAINED || event == DAO_SEGMENT_EVENT_RELEASING);
}

bool call_segment(model_t *model, const harness_op_t *op)
{
    (void)op;
    dao_place_t place = model->program->config.place;
    model_say(model, "dao_segment_callback_%s(...);", model->segment_id != 0 ? "remove" : "add");
    if (model->segment_id != 0) {
        (void)model_answer(model, dao_segment_callback_remove(model->segment_id), DAO_OK);
        model->segment_id = 0;
        return true;
    }
    dao_status_t wanted = place.kind == DAO_PLACE_KIND_CPU ? DAO_ERR_UNSUPPORTED : DAO_OK;
    (void)model_answer(model, dao_segment_callback_add(place, see_segment, model, &model->segment_id),
                       wanted);
    return true;
}

bool call_host_register(model_t *model, const harness_op_t *op)
{
    static unsigned char bytes[2 * 4096];
    model_say(model, "dao_host_%sregister(...);", model->is_registered ? "un" : "");
    if (!model->is_registered) {
        model->is_registered = model_answer(model, dao_host_register(0, bytes, sizeof(bytes)), DAO_OK);
        return true;
    }
    if (op->kind % 2 == 0) {
        (void)model_answer(model, dao_host_register(0, bytes + 4096, 4096), DAO_ERR_BUSY);
        (void)model_answer(model, dao_host_unregister(bytes + 1), DAO_ERR_INTERIOR_POINTER);
        return true;
    }
    void *address = NULL;
    if (model_answer(model, dao_host_device_address_query(0, bytes + 5, &address), DAO_OK)) {
        MODEL_REQUIRE(model, address == bytes + 5);
    }
    model->is_registered = !model_answer(model, dao_host_unregister(bytes), DAO_OK);
    return true;
}

static dao_status_t own_obtain(void *user, size_t size_bytes, void **out_address)
{
    (void)user;
    *out_address = aligned_alloc(4096, (size_bytes + 4095) / 4096 * 4096);
    return *out_address != NULL ? DAO_OK : DAO_ERR_NO_DEVICE_MEMORY;
}

static dao_status_t own_release(void *user, void *address, size_t size_bytes)
{
    (void)user;
    (void)size_bytes;
    free(address);
    return DAO_OK;
}

/* A place of the program's own memory, and a block of it there and back. */
bool call_place_register(model_t *model, const harness_op_t *op)
{
    enum { CAPACITY_BYTES = 32 << 20, BYTES = 3000 };
    static const dao_own_memory_t memory = {
        .name = "own", .capacity_bytes = CAPACITY_BYTES, .obtain = own_obtain, .release = own_release};
    static unsigned char returned[BYTES];
    dao_place_t place = {DAO_PLACE_KIND_DEVICE, model->own_index}, host = {DAO_PLACE_KIND_CPU, 0};
    if (model->own_index == 0) {
        model_say(model, "dao_place_register(&memory, &place);");
        if (model_answer(model, dao_place_register(&memory, &place), DAO_OK)) {
            model->own_index = place.index;
        }
        return true;
    }
    model_say(model, "dao_free(place, dao_alloc(place, %d));", BYTES + op->kind);
    unsigned char *bytes = dao_alloc(place, (size_t)BYTES + op->kind);
    if (!model_answer(model, bytes != NULL ? DAO_OK : dao_last_status(), DAO_OK)) {
        return true;
    }
    memset(bytes, op->kind, BYTES);
    if (model_answer(model, dao_copy(host, returned, place, bytes, BYTES), DAO_OK)) {
        MODEL_REQUIRE(model, memcmp(returned, bytes, BYTES) == 0);
    }
    (void)model_answer(model, dao_free(place, bytes), DAO_OK);
    return true;
}

bool call_peer(model_t *model, const harness_op_t *op)
{
    (void)op;
    dao_peer_info_t info;
    model_say(model, "dao_peer_enable(1, 0);");
    if (model_answer(model, dao_peer_enable(1, 0), DAO_OK) &&
        model_answer(model, dao_peer_query(1, 0, &info), DAO_OK)) {
        MODEL_REQUIRE(model, info.can_reach && info.is_enabled);
    }
    return true;
}
