/* SPDX-License-Identifier: Apache-2.0 */
/* What the model knows of blocks, and what an allocation may answer.

   Whether a request fits depends on where blocks lie, which the model does not know. So it names three cases:

       must fit      what lives takes, at its worst, so little that neither a limit nor the device is in
                     the way
       cannot fit    what lives and the request are together above a limit or the device
       may fit       anything else; then a refusal has to state the true reason, by the figures of the
                     place

   What lives takes at its worst: a block's bytes rounded up as its strategy does, alone in its pages or in
   its segment. */
#include "tests/harness/model.h"

#include "tests/support/backends/fault_backend.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KIB        ((uint64_t)1 << 10)
#define MIB        ((uint64_t)1 << 20)
#define PAGE_BYTES (2 * MIB)
/* Pinned blocks of an executor: a piece of a file for each direction, or two, and tensors that left the
 * device. */
#define EXECUTOR_BLOCK_COUNT (4u + MODEL_MANAGED_COUNT)
#define EXECUTOR_BLOCK_BYTES (256 * KIB)

#define LANE_BYTES  sizeof(uint64_t)
#define LANES_BYTES (MODEL_STREAM_COUNT * LANE_BYTES)

static const dao_place_t all_places[MODEL_PLACE_COUNT] = {{DAO_PLACE_KIND_DEVICE, 0},
                                                          {DAO_PLACE_KIND_PINNED, 0},
                                                          {DAO_PLACE_KIND_CPU, 0},
                                                          {DAO_PLACE_KIND_DEVICE, 1}};

void model_fail(const model_t *model, const char *format, ...)
{
    va_list arguments;
    (void)fprintf(stderr, "call %u, %s: ", model->op_index, model->where != NULL ? model->where : "");
    va_start(arguments, format);
    (void)vfprintf(stderr, format, arguments);
    va_end(arguments);
    (void)fprintf(stderr, "\nlast message: %s\n", dao_last_message());
    abort();
}

void model_say(const model_t *model, const char *format, ...)
{
    if (model->prints) {
        va_list arguments;
        va_start(arguments, format);
        (void)vprintf(format, arguments);
        va_end(arguments);
        (void)printf("\n");
        (void)fflush(stdout); /* the next call may be the last one */
    }
}

/* Returns true if a fault has fired since the call began. */
static bool has_met_fault(const model_t *model)
{
    return model->may_fail && harness_fault_count() != model->fault_count;
}

bool model_answer(model_t *model, dao_status_t got, dao_status_t wanted)
{
    if (got == wanted) {
        return got == DAO_OK;
    }
    if (!has_met_fault(model)) {
        model_fail(model, "%s instead of %s", dao_status_name(got), dao_status_name(wanted));
    }
    return got == DAO_OK;
}

dao_place_t model_place(uint32_t number)
{
    return all_places[number];
}

uint32_t model_place_number(dao_place_t place)
{
    return place.kind == DAO_PLACE_KIND_DEVICE   ? (place.index == 0 ? 0 : 3)
           : place.kind == DAO_PLACE_KIND_PINNED ? 1
                                                 : 2;
}

model_books_t *model_books(model_t *model, dao_place_t place)
{
    return &model->books[model_place_number(place)];
}

bool model_is_alone(const model_t *model, dao_place_t place)
{
    return !model->has_company && (model->executor == NULL || place.kind != DAO_PLACE_KIND_PINNED);
}

/* ---- blocks ---- */

uint32_t model_slot(const model_t *model, const model_block_t *block)
{
    return (uint32_t)(block - model->blocks);
}

model_block_t *model_block_empty(model_t *model, uint32_t slot)
{
    model_block_t *block = &model->blocks[slot % MODEL_BLOCK_COUNT];
    return block->owner == MODEL_NOBODY ? block : NULL;
}

model_block_t *model_block_find(model_t *model, uint32_t slot, model_owner_t owner)
{
    for (uint32_t i = 0; i < MODEL_BLOCK_COUNT; i++) {
        model_block_t *block = &model->blocks[(slot + i) % MODEL_BLOCK_COUNT];
        if (block->owner == owner && !block->is_gone && !block->is_dropped) {
            return block;
        }
    }
    return NULL;
}

/* Returns true if a block has memory of its own at a place. */
static bool has_memory(const model_block_t *block)
{
    return (block->owner == MODEL_RAW || block->owner == MODEL_HANDLE || block->owner == MODEL_SHARED) &&
           block->size_bytes > 0;
}

/* Returns true if a place counts a block. Memory for several processes is counted apart. */
static bool is_counted(const model_block_t *block, dao_place_t place)
{
    return has_memory(block) && block->owner != MODEL_SHARED && dao_place_equal(block->place, place);
}

void model_block_enter(model_t *model, model_block_t *block, void *address, size_t size_bytes,
                       dao_place_t place, dao_tag_t tag)
{
    const unsigned char *begin = address;
    for (uint32_t i = 0; i < MODEL_BLOCK_COUNT; i++) {
        const model_block_t *other = &model->blocks[i];
        if (has_memory(other) && other != block &&
            (uintptr_t)begin < (uintptr_t)other->address + other->size_bytes &&
            (uintptr_t)other->address < (uintptr_t)begin + size_bytes) {
            model_fail(model, "%zu bytes at %p share bytes with the live block of %zu bytes at %p",
                       size_bytes, address, other->size_bytes, (void *)other->address);
        }
    }
    *block = (model_block_t){.owner = MODEL_RAW,
                             .address = address,
                             .size_bytes = size_bytes,
                             .place = place,
                             .tag = tag,
                             .home = MODEL_NO_STREAM,
                             .is_leased = model->lease_here != MODEL_LEASE_COUNT &&
                                          dao_place_equal(place, model_place(0))};
}

bool model_may_keep(const model_t *model)
{
    const harness_config_t *config = &model->program->config;
    return model->may_fail && (model->has_met_fault || harness_fault_count() > 0) &&
           (config->library.hardening | config->place_config.hardening) != 0;
}

/* Returns true if frees at a place are done at the end of the step that is under way. */
static bool defers_frees(const model_t *model, dao_place_t place)
{
    const dao_step_plan_config_t *plan = &model->program->config.place_config.step_plan;
    return model->is_configured && dao_place_equal(place, model->program->config.place) &&
           plan->defers_frees && model->step_depth > 0;
}

void model_block_leave(model_t *model, model_block_t *block)
{
    if (block->retained_by != 0) {
        block->is_gone = true;
        return;
    }
    bool is_device = block->place.kind != DAO_PLACE_KIND_CPU;
    if ((block->owner == MODEL_HANDLE && is_device) || defers_frees(model, block->place)) {
        model_books_t *books = model_books(model, block->place);
        books->late_bytes += has_memory(block) ? block->size_bytes : 0;
        books->late_count += has_memory(block);
    }
    model->kept_bytes += block->is_leased && has_memory(block) ? block->size_bytes : 0;
    if (block->owner == MODEL_RAW) {
        model->freed[model->freed_next % MODEL_FREED_COUNT].place = block->place;
        model->freed[model->freed_next % MODEL_FREED_COUNT].address = block->address;
        model->freed_next++;
    }
    *block = (model_block_t){0};
}

void model_lease_end(model_t *model, uint32_t lease)
{
    for (uint32_t i = 0; i < MODEL_BLOCK_COUNT; i++) {
        model_block_t *block = &model->blocks[i];
        block->retained_by &= ~(1u << lease);
        if (block->is_gone && block->retained_by == 0) {
            model_block_leave(model, block);
        }
    }
}

void model_streams_done(model_t *model, uint32_t slots)
{
    for (uint32_t i = 0; i < MODEL_BLOCK_COUNT; i++) {
        model->blocks[i].used_by &= ~slots;
    }
}

/* ---- what an allocation may answer ---- */

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* The config of a place: the subject's is the program's. */
static dao_place_config_t config_of(const model_t *model, dao_place_t place)
{
    const harness_config_t *config = &model->program->config;
    return dao_place_equal(place, config->place) && model->is_configured ? config->place_config
                                                                         : (dao_place_config_t){0};
}

static dao_strategy_t strategy_of(const model_t *model, dao_place_t place)
{
    dao_strategy_t strategy = config_of(model, place).strategy;
    return strategy != DAO_STRATEGY_DEFAULT ? strategy : DAO_STRATEGY_GOOD_FIT;
}

/* Most bytes that a block of so many takes: with its guard, rounded by its strategy, alone in what is taken
   from the system. */
static uint64_t most_bytes(const model_t *model, dao_place_t place, uint64_t size_bytes,
                           uint64_t alignment_bytes)
{
    uint64_t bytes = round_up(size_bytes + 4 * KIB, 4 * KIB) + alignment_bytes;
    switch (strategy_of(model, place)) {
    case DAO_STRATEGY_BINARY_BUDDY:
        return 64 * MIB > 2 * bytes ? 64 * MIB : 2 * bytes; /* a chunk */
    case DAO_STRATEGY_SIZE_CLASS:
        return 32 * KIB > 8 * bytes ? 32 * KIB : 8 * bytes; /* the sizes grow by at most 8 */
    case DAO_STRATEGY_SYSTEM:
        return round_up(bytes, PAGE_BYTES);
    default:
        break;
    }
    uint64_t segment_bytes = config_of(model, place).segment_bytes;
    segment_bytes = segment_bytes != 0 ? segment_bytes : 64 * MIB;
    bool has_pages = place.kind == DAO_PLACE_KIND_DEVICE && !model->program->config.hides_pages &&
                     !config_of(model, place).no_page_mapping && !config_of(model, place).memory_pool;
    return has_pages               ? round_up(bytes, PAGE_BYTES) + PAGE_BYTES
           : bytes > segment_bytes ? bytes
                                   : segment_bytes;
}

uint64_t model_late_most_bytes(const model_t *model, dao_place_t place)
{
    const model_books_t *books = &model->books[model_place_number(place)];
    return books->late_count == 0 ? 0
                                  : most_bytes(model, place, books->late_bytes, 0) +
                                        books->late_count * most_bytes(model, place, 0, 0);
}

typedef struct room {
    uint64_t live_bytes; /* as requested */
    uint64_t most_bytes; /* at their worst */
} room_t;

static bool has_lease(const model_t *model)
{
    for (uint32_t i = 0; i < MODEL_LEASE_COUNT; i++) {
        if (model->leases[i].lease != NULL) {
            return true;
        }
    }
    return false;
}

static room_t room_of(const model_t *model, dao_place_t place)
{
    room_t room = {.live_bytes = 0, .most_bytes = 8 * MIB}; /* slabs, a plan's arena */
    if (dao_place_equal(place, model_place(0)) && has_lease(model)) {
        room.most_bytes += most_bytes(model, place, model->kept_bytes, 0);
    }
    if (place.kind == DAO_PLACE_KIND_PINNED && model->executor != NULL) { /* has what it moves out there */
        room.most_bytes += EXECUTOR_BLOCK_COUNT * most_bytes(model, place, EXECUTOR_BLOCK_BYTES, 0);
    }
    if (defers_frees(model, place)) { /* until the step ends */
        room.most_bytes += model_late_most_bytes(model, place);
    }
    for (uint32_t i = 0; i < MODEL_BLOCK_COUNT; i++) {
        const model_block_t *block = &model->blocks[i];
        if (is_counted(block, place)) {
            room.live_bytes += block->size_bytes;
            room.most_bytes += most_bytes(model, place, block->size_bytes, 0);
        }
    }
    return room;
}

/* Adds a refusal to those that are possible. */
static void refuse(model_outcome_t *outcome, dao_status_t status)
{
    uint32_t i = 0;
    while (i < 3 && outcome->refusals[i] != DAO_OK && outcome->refusals[i] != status) {
        i++;
    }
    outcome->refusals[i] = status;
}

/* A limit that counts what is above it: returns false if the request cannot be met. */
static bool is_below(model_outcome_t *outcome, uint64_t limit_bytes, const room_t *room, uint64_t size_bytes,
                     uint64_t worst_bytes, dao_status_t status)
{
    if (limit_bytes == 0) {
        return true;
    }
    if (room->most_bytes + worst_bytes > limit_bytes) {
        refuse(outcome, status);
    }
    return room->live_bytes + size_bytes <= limit_bytes;
}

model_outcome_t model_alloc_outcome(model_t *model, dao_place_t place, size_t size_bytes,
                                    size_t alignment_bytes, uint32_t tag)
{
    model_outcome_t outcome = {.may_succeed = true};
    if (size_bytes > PTRDIFF_MAX) {
        return (model_outcome_t){.refusals = {DAO_ERR_OVERFLOW}};
    }
    bool is_device = place.kind == DAO_PLACE_KIND_DEVICE;
    room_t room = room_of(model, place);
    uint64_t worst_bytes = most_bytes(model, place, size_bytes, alignment_bytes);
    const model_books_t *books = model_books(model, place);
    bool fits = is_below(&outcome, books->limit_bytes, &room, size_bytes, worst_bytes, DAO_ERR_LIMIT);
    if (is_device) {
        fits = is_below(&outcome, model->program->config.library.cpu.device_bytes, &room, size_bytes,
                        worst_bytes, DAO_ERR_NO_DEVICE_MEMORY) &&
               fits;
    } else {
        room_t host = room_of(model, model_place(2)), pinned = room_of(model, model_place(1));
        host.live_bytes += pinned.live_bytes;
        host.most_bytes += pinned.most_bytes;
        fits = is_below(&outcome, model->host_limit_bytes, &host, size_bytes, worst_bytes, DAO_ERR_LIMIT) &&
               fits;
        if (size_bytes > 256 * MIB) { /* the system decides */
            refuse(&outcome, DAO_ERR_NO_HOST_MEMORY);
        }
    }
    if (tag != 0 && books->tag_limits[tag] != 0) {
        dao_tag_stats_t stats = {0};
        MODEL_REQUIRE(model, dao_tag_stats_get(place, model->tags[tag], &stats) == DAO_OK);
        room_t tagged = {.live_bytes = stats.used_bytes, .most_bytes = stats.used_bytes};
        fits = is_below(&outcome, stats.limit_bytes, &tagged, size_bytes, worst_bytes, DAO_ERR_LIMIT) && fits;
    }
    if (model->has_company) { /* whose blocks count, too */
        refuse(&outcome, is_device ? DAO_ERR_NO_DEVICE_MEMORY : DAO_ERR_NO_HOST_MEMORY);
        refuse(&outcome, DAO_ERR_LIMIT);
    }
    outcome.may_succeed = fits || model->pressure_id != 0; /* the callback frees what it can */
    return outcome;
}

static bool is_possible(const model_outcome_t *outcome, dao_status_t status)
{
    for (uint32_t i = 0; i < 4; i++) {
        if (outcome->refusals[i] == status && status != DAO_OK) {
            return true;
        }
    }
    return status == DAO_OK && outcome->may_succeed;
}

/* A refusal for want of room is true if what the place has taken, and the request, are above what it may
   have: idle memory was given back before. */
static void check_reason(model_t *model, dao_place_t place, size_t size_bytes, uint32_t tag, dao_status_t got)
{
    dao_stats_t stats;
    dao_host_stats_t host;
    dao_device_info_t info = {.free_bytes = UINT64_MAX};
    MODEL_REQUIRE(model, dao_stats_get(place, &stats) == DAO_OK && dao_host_stats_get(&host) == DAO_OK);
    uint64_t need_bytes = most_bytes(model, place, size_bytes, 0) + MIB;
    if (got == DAO_ERR_NO_DEVICE_MEMORY) {
        fault_backend_spare(true); /* the program does not ask here, the model does */
        MODEL_REQUIRE(model, dao_device_query(place.index, &info) == DAO_OK);
        fault_backend_spare(false);
        MODEL_REQUIRE(model,
                      info.free_bytes < need_bytes || stats.used_bytes + size_bytes > info.total_bytes);
    } else if (got == DAO_ERR_LIMIT) {
        bool by_place = stats.limit_bytes != 0 && stats.reserved_bytes + need_bytes > stats.limit_bytes;
        bool by_host = place.kind != DAO_PLACE_KIND_DEVICE && host.limit_bytes != 0 &&
                       host.reserved_bytes + need_bytes > host.limit_bytes;
        dao_tag_stats_t tagged = {0};
        if (tag != 0) {
            MODEL_REQUIRE(model, dao_tag_stats_get(place, model->tags[tag], &tagged) == DAO_OK);
        }
        bool by_tag = tagged.limit_bytes != 0 && tagged.used_bytes + need_bytes > tagged.limit_bytes;
        MODEL_REQUIRE(model, by_place || by_host || by_tag);
    }
}

bool model_alloc_answer(model_t *model, dao_place_t place, size_t size_bytes, uint32_t tag,
                        const model_outcome_t *outcome, dao_status_t got)
{
    model_books_t *books = model_books(model, place);
    if (!is_possible(outcome, got)) {
        (void)model_answer(model, got, outcome->may_succeed ? DAO_OK : outcome->refusals[0]);
    } else if (got != DAO_OK && !has_met_fault(model) && model_is_alone(model, place)) {
        check_reason(model, place, size_bytes, tag, got);
    }
    if (got != DAO_OK && model->may_fail) { /* it may have had its block, and gives it back late */
        books->late_bytes += size_bytes;
        books->late_count++;
    }
    books->alloc_count += got == DAO_OK;
    books->failed_count += got != DAO_OK;
    return got == DAO_OK;
}

/* ---- contents ---- */

bool model_has_lanes(const model_block_t *block)
{
    return block->size_bytes >= 2 * LANES_BYTES;
}

static uint64_t *lane_at(const model_block_t *block, uint32_t lane, bool is_end)
{
    size_t offset = is_end ? block->size_bytes - LANES_BYTES : 0;
    return (uint64_t *)(void *)(block->address + (offset & ~(LANE_BYTES - 1)) + lane * LANE_BYTES);
}

uint64_t model_lane(const model_block_t *block, uint32_t lane)
{
    uint64_t value;
    memcpy(&value, lane_at(block, lane, false), sizeof(value));
    return value;
}

void model_write(model_t *model, model_block_t *block)
{
    for (uint32_t lane = 0; lane < MODEL_STREAM_COUNT && model_has_lanes(block); lane++) {
        block->lanes[lane] = ++model->stamp;
        memcpy(lane_at(block, lane, false), &block->lanes[lane], LANE_BYTES);
        memcpy(lane_at(block, lane, true), &block->lanes[lane], LANE_BYTES);
    }
}

void model_read(model_t *model, const model_block_t *block)
{
    for (uint32_t lane = 0; lane < MODEL_STREAM_COUNT && model_has_lanes(block); lane++) {
        bool is_idle = block->used_by == 0;
        if (is_idle && block->lanes[lane] != 0 &&
            (memcmp(lane_at(block, lane, false), &block->lanes[lane], LANE_BYTES) != 0 ||
             memcmp(lane_at(block, lane, true), &block->lanes[lane], LANE_BYTES) != 0)) {
            model_fail(model, "the contents of %zu bytes at %p have changed in lane %u", block->size_bytes,
                       (void *)block->address, lane);
        }
    }
}

/* ---- books ---- */

typedef struct sums {
    uint64_t bytes, count;
} sums_t;

static sums_t sums_of(const model_t *model, dao_place_t place, uint32_t tag)
{
    sums_t sums = {0};
    for (uint32_t i = 0; i < MODEL_BLOCK_COUNT; i++) {
        const model_block_t *block = &model->blocks[i];
        if (is_counted(block, place) && (tag == 0 || block->tag == model->tags[tag])) {
            sums.bytes += block->size_bytes;
            sums.count++;
        }
    }
    return sums;
}

static void compare_place(model_t *model, dao_place_t place)
{
    model_books_t *books = model_books(model, place);
    dao_stats_t stats;
    MODEL_REQUIRE(model, dao_stats_get(place, &stats) == DAO_OK);
    sums_t sums = sums_of(model, place, 0);
    sums.bytes += books->arena_bytes;
    sums.count += books->arena_bytes != 0;
    if (stats.deferred_count == 0 && !defers_frees(model, place) && !model_may_keep(model)) {
        books->late_bytes = books->late_count = 0;
    }
    uint64_t late_count = stats.live_count - sums.count;
    if (stats.live_count < sums.count || late_count > books->late_count ||
        stats.requested_bytes < sums.bytes || stats.requested_bytes - sums.bytes > books->late_bytes) {
        model_fail(model, "%llu live blocks of %llu bytes instead of %llu of %llu, and %llu late ones",
                   (unsigned long long)stats.live_count, (unsigned long long)stats.requested_bytes,
                   (unsigned long long)sums.count, (unsigned long long)sums.bytes,
                   (unsigned long long)books->late_count);
    }
    MODEL_REQUIRE(model, stats.used_bytes >= stats.requested_bytes);
    MODEL_REQUIRE(model, stats.reserved_bytes >= stats.used_bytes);
    MODEL_REQUIRE(model, stats.peak_used_bytes >= stats.used_bytes);
    MODEL_REQUIRE(model, stats.peak_requested_bytes >= stats.requested_bytes);
    MODEL_REQUIRE(model, stats.peak_reserved_bytes >= stats.reserved_bytes);
    MODEL_REQUIRE(model, stats.limit_bytes == books->limit_bytes);
    MODEL_REQUIRE(model, stats.limit_bytes == 0 || stats.reserved_bytes <= stats.limit_bytes);
    if (!model->may_fail) {
        MODEL_REQUIRE(model, stats.alloc_count == books->alloc_count);
        MODEL_REQUIRE(model, stats.failed_count == books->failed_count);
    }
    MODEL_REQUIRE(model, stats.alloc_count - stats.free_count == stats.live_count);
    for (uint32_t tag = 1; tag < MODEL_TAG_COUNT; tag++) {
        dao_tag_stats_t tagged;
        MODEL_REQUIRE(model, dao_tag_stats_get(place, model->tags[tag], &tagged) == DAO_OK);
        sums = sums_of(model, place, tag);
        MODEL_REQUIRE(model, tagged.live_count >= sums.count && tagged.live_count - sums.count <= late_count);
        MODEL_REQUIRE(model, tagged.used_bytes >= sums.bytes && tagged.peak_used_bytes >= tagged.used_bytes);
        MODEL_REQUIRE(model, tagged.alloc_count - tagged.free_count == tagged.live_count);
        MODEL_REQUIRE(model, tagged.limit_bytes == 0 || tagged.used_bytes <= tagged.limit_bytes);
        MODEL_REQUIRE(model, tagged.limit_bytes == books->tag_limits[tag]);
    }
}

/* Every block of the model is a live one of the snapshot, and there are no others but late ones. */
static void compare_blocks(model_t *model, dao_place_t place)
{
    dao_snapshot_t *snapshot = NULL;
    dao_stats_t stats, after;
    MODEL_REQUIRE(model, dao_stats_get(place, &stats) == DAO_OK);
    dao_status_t status = dao_snapshot_create(place, &snapshot);
    if (!model_answer(model, status, DAO_OK)) {
        return;
    }
    MODEL_REQUIRE(model, dao_stats_get(place, &after) == DAO_OK);
    if (after.live_count !=
        stats.live_count) { /* reading has moved the device: a late free has come through */
        dao_snapshot_destroy(snapshot);
        compare_blocks(model, place);
        return;
    }
    size_t count = 0;
    const dao_snapshot_block_t *blocks = dao_snapshot_blocks(snapshot, &count);
    uint64_t live_count = 0, used_bytes = 0, found_count = 0;
    for (size_t i = 0; i < count; i++) {
        const dao_snapshot_block_t *seen = &blocks[i];
        MODEL_REQUIRE(model, i == 0 || seen->segment != blocks[i - 1].segment ||
                                 blocks[i - 1].address + blocks[i - 1].size_bytes <= seen->address);
        if (seen->state != DAO_BLOCK_STATE_LIVE) {
            continue;
        }
        live_count++;
        used_bytes += seen->size_bytes;
        for (uint32_t k = 0; k < MODEL_BLOCK_COUNT; k++) {
            const model_block_t *block = &model->blocks[k];
            if (is_counted(block, place) && (uintptr_t)block->address == seen->address) {
                MODEL_REQUIRE(model, seen->requested_bytes == block->size_bytes && seen->tag == block->tag);
                found_count++;
            }
        }
    }
    dao_snapshot_destroy(snapshot);
    bool skips = strategy_of(model, place) >= DAO_STRATEGY_BINARY_BUDDY; /* what an alignment skips is used */
    if (live_count != stats.live_count ||
        (skips ? used_bytes > stats.used_bytes : used_bytes != stats.used_bytes)) {
        model_fail(model, "the snapshot has %llu live blocks of %llu bytes, the statistics %llu of %llu",
                   (unsigned long long)live_count, (unsigned long long)used_bytes,
                   (unsigned long long)stats.live_count, (unsigned long long)stats.used_bytes);
    }
    MODEL_REQUIRE(model, found_count == sums_of(model, place, 0).count);
}

void model_compare(model_t *model, bool deep)
{
    if (!model->is_started) {
        return;
    }
    for (uint32_t i = 0; i < MODEL_PLACE_COUNT - 1; i++) {
        if (!model_is_alone(model, model_place(i))) {
            continue;
        }
        compare_place(model, model_place(i));
        if (deep) {
            compare_blocks(model, model_place(i));
        }
    }
    for (uint32_t i = 0; deep && i < MODEL_BLOCK_COUNT; i++) {
        if (has_memory(&model->blocks[i])) {
            model_read(model, &model->blocks[i]);
        }
    }
}
