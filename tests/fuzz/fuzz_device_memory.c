/* SPDX-License-Identifier: Apache-2.0 */
/* dao_caching, and the strategies that place whole blocks, on a device that can be made to refuse, against a
   model that knows the live blocks, what the device has given, and what it could still give.

       with pages      [ live ][    gap    ][ live ][ live ][  gap  ]      the reservation
                       |  page  |  page  |  page  |  page  |  page  |

   A request must succeed if some gap among the addresses holds it, and the pages that live blocks touch and
   those that the request touches at worst are together no more than limit and device give: whole free pages
   can be moved to any gap.

       with segments   [ live ][ gap ]    [ live ][ live ]    [  free segment  ]

   A request must succeed if a gap in a segment holds it, or if limit and device leave room for a segment of
   just the request (and its alignment) beside the segments that live blocks are in: the free ones can be
   given back.

   with a strategy, what the device has given counts as segments. A request must succeed if it is no more than
   the largest hole; and where every block is a call of the device, if limit and device leave room for it.

   A call in which nothing was made to fail must answer as the model says. One in which something was may
   fail; then nothing has changed but failed_count and what is cached. */
#include "tests/fuzz/fuzz.h"

#include "allocators/paged/device_memory.h"
#include "allocators/pages/page_buddy.h"
#include "allocators/range/range.h"
#include "allocators/strategies/strategy.h"
#include "base/report/fault.h"
#include "tests/support/backends/heap_backend.h"

#include <string.h>

#define LIVE_COUNT_MAX    96u
#define SEGMENT_COUNT_MAX 128u
#define FREED_COUNT       16u /* fewer than an allocator remembers */
#define GRANULE           ((uint64_t)DAO_RANGE_GRANULE)
#define PAGE              ((uint64_t)DAO_PAGE_BYTES)
#define KIB               ((uint64_t)1 << 10)

typedef enum kind {
    KIND_PAGED,
    KIND_SEGMENTED,
    KIND_BINARY_BUDDY,
    KIND_SIZE_CLASS,
    KIND_SYSTEM,
    KIND_COUNT,
} kind_t;

typedef struct stretch {
    uintptr_t begin;
    uint64_t bytes;
    uint64_t requested_bytes; /* of a block */
    uint64_t block_bytes;     /* what it counts for */
} stretch_t;

typedef struct model {
    heap_backend_t *heap;
    dao_allocator_t *allocator;
    kind_t kind;
    uint64_t capacity_bytes;
    uint64_t taken_bytes; /* by somebody else */
    uint64_t limit_bytes;
    stretch_t live[LIVE_COUNT_MAX]; /* by address */
    uint32_t live_count;
    uintptr_t freed[FREED_COUNT];
    uint32_t freed_next;
    uint64_t alloc_count, free_count, failed_count;
    bool is_armed;
} model_t;

/* What the device has handed out: seen on the way through its table. One device at a time. */
static struct {
    const dao_backend_ops_t *inner;
    dao_backend_ops_t ops;
    stretch_t reservation; /* where blocks without an alignment lie */
    stretch_t aside;       /* where small ones with an alignment lie, once there are any */
    stretch_t segments[SEGMENT_COUNT_MAX];
    uint32_t segment_count;
} device;

static dao_status_t see_reserve(dao_backend_device_t *heap, size_t size_bytes, void **out_address)
{
    dao_status_t status = device.inner->address_reserve(heap, size_bytes, out_address);
    if (status == DAO_OK) {
        stretch_t *reserved = device.reservation.bytes == 0 ? &device.reservation : &device.aside;
        *reserved = (stretch_t){.begin = (uintptr_t)*out_address, .bytes = size_bytes};
    }
    return status;
}

static dao_status_t see_alloc(dao_backend_device_t *heap, size_t size_bytes, void **out_address)
{
    if (device.segment_count == SEGMENT_COUNT_MAX) {
        return DAO_ERR_NO_DEVICE_MEMORY;
    }
    dao_status_t status = device.inner->memory_alloc(heap, size_bytes, out_address);
    if (status == DAO_OK) {
        device.segments[device.segment_count++] =
            (stretch_t){.begin = (uintptr_t)*out_address, .bytes = size_bytes};
    }
    return status;
}

static dao_status_t see_free(dao_backend_device_t *heap, void *address, size_t size_bytes)
{
    dao_status_t status = device.inner->memory_free(heap, address, size_bytes);
    for (uint32_t i = 0; status == DAO_OK && i < device.segment_count; i++) {
        if (device.segments[i].begin == (uintptr_t)address) {
            FUZZ_REQUIRE(device.segments[i].bytes == size_bytes);
            device.segments[i] = device.segments[--device.segment_count];
            return DAO_OK;
        }
    }
    FUZZ_REQUIRE(status != DAO_OK); /* else it was never handed out */
    return status;
}

static void device_wrap(const dao_backend_ops_t *inner)
{
    memset(&device, 0, sizeof(device));
    device.inner = inner;
    device.ops = *inner;
    device.ops.memory_alloc = see_alloc;
    device.ops.memory_free = see_free;
    device.ops.address_reserve = inner->address_reserve != NULL ? see_reserve : NULL;
}

/* ---- what the model knows ---- */

/* Returns true if a block is all that it takes. Where it is not, what an alignment has cost lies before or
   behind it. */
static bool is_exact(const model_t *model)
{
    return model->kind == KIND_PAGED || model->kind == KIND_SEGMENTED;
}

static uint64_t align_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Returns true if [begin, end) holds a request. */
static bool gap_fits(uint64_t begin, uint64_t end, uint64_t bytes, uint64_t alignment_bytes)
{
    uint64_t first = align_up(begin, alignment_bytes);
    return first < end && bytes <= end - first;
}

/* Returns true if any gap between the live blocks of a stretch holds a request. */
static bool stretch_fits(const model_t *model, const stretch_t *stretch, uint64_t bytes,
                         uint64_t alignment_bytes)
{
    uint64_t begin = stretch->begin, end = stretch->begin + stretch->bytes;
    for (uint32_t i = 0; i < model->live_count; i++) {
        const stretch_t *live = &model->live[i];
        if (live->begin < stretch->begin || live->begin >= end) {
            continue;
        }
        if (gap_fits(begin, live->begin, bytes, alignment_bytes)) {
            return true;
        }
        begin = live->begin + live->bytes;
    }
    return gap_fits(begin, end, bytes, alignment_bytes);
}

/* Returns the number of pages of a reservation that live blocks touch. */
static uint64_t live_pages_in(const model_t *model, const stretch_t *reserved)
{
    uint64_t count = 0, next = 0; /* pages below `next` are counted */
    for (uint32_t i = 0; i < model->live_count; i++) {
        uint64_t offset = model->live[i].begin - reserved->begin;
        if (offset >= reserved->bytes) {
            continue;
        }
        uint64_t first = offset / PAGE, end = (offset + model->live[i].bytes - 1) / PAGE + 1;
        first = first < next ? next : first;
        count += end > first ? end - first : 0;
        next = end > next ? end : next;
    }
    return count;
}

static uint64_t live_pages(const model_t *model)
{
    return live_pages_in(model, &device.reservation) + live_pages_in(model, &device.aside);
}

/* Returns the bytes of the segments that live blocks are in. */
static uint64_t live_segment_bytes(const model_t *model)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < device.segment_count; i++) {
        const stretch_t *segment = &device.segments[i];
        bool is_live = false;
        for (uint32_t k = 0; k < model->live_count; k++) {
            is_live = is_live || model->live[k].begin - segment->begin < segment->bytes;
        }
        bytes += is_live ? segment->bytes : 0;
    }
    return bytes;
}

/* Returns the bytes that cannot be given back while the blocks live. */
static uint64_t held_bytes(const model_t *model)
{
    return model->kind == KIND_PAGED ? live_pages(model) * PAGE : live_segment_bytes(model);
}

static dao_stats_t stats_of(const model_t *model)
{
    dao_stats_t stats;
    model->allocator->ops->stats_get(model->allocator, &stats);
    return stats;
}

static bool paged_must_fit(const model_t *model, uint64_t bytes, uint64_t alignment_bytes)
{
    uint64_t reserved_bytes = stats_of(model).reserved_bytes;
    uint64_t free_bytes = model->capacity_bytes - model->taken_bytes - heap_backend_device_bytes(model->heap);
    uint64_t page_count = reserved_bytes / PAGE + free_bytes / PAGE;
    uint64_t limit_pages = model->limit_bytes / PAGE;
    page_count = model->limit_bytes != 0 && limit_pages < page_count ? limit_pages : page_count;
    uint64_t touched_at_worst = (bytes - GRANULE + PAGE - 1) / PAGE + 1;
    return stretch_fits(model, &device.reservation, bytes, alignment_bytes) &&
           live_pages(model) + touched_at_worst <= page_count;
}

/* Alignments beyond a page are met by room to spare. */
static bool segmented_must_fit(const model_t *model, uint64_t bytes, uint64_t alignment_bytes)
{
    bytes += alignment_bytes > GRANULE ? alignment_bytes : 0;
    alignment_bytes = GRANULE;
    for (uint32_t i = 0; i < device.segment_count; i++) {
        if (stretch_fits(model, &device.segments[i], bytes, alignment_bytes)) {
            return true;
        }
    }
    uint64_t after_bytes = live_segment_bytes(model) + bytes;
    return device.segment_count < SEGMENT_COUNT_MAX &&
           after_bytes <= model->capacity_bytes - model->taken_bytes &&
           (model->limit_bytes == 0 || after_bytes <= model->limit_bytes);
}

/* Where every block is a call of the device: the upstream gives multiples of 4 KiB at multiples of it. */
static bool system_must_fit(const model_t *model, uint64_t bytes, uint64_t alignment_bytes)
{
    uint64_t room_bytes = model->capacity_bytes - model->taken_bytes - heap_backend_device_bytes(model->heap);
    uint64_t limit_room_bytes = model->limit_bytes - stats_of(model).reserved_bytes;
    room_bytes = model->limit_bytes != 0 && limit_room_bytes < room_bytes ? limit_room_bytes : room_bytes;
    return device.segment_count < SEGMENT_COUNT_MAX &&
           align_up(bytes, 4 * KIB) + alignment_bytes <= room_bytes;
}

/* Returns true if a request must not fail. */
static bool must_fit(const model_t *model, uint64_t size_bytes, uint64_t alignment_bytes)
{
    uint64_t bytes = align_up(size_bytes, GRANULE);
    uint64_t unit = alignment_bytes > GRANULE ? alignment_bytes : GRANULE;
    if (unit == GRANULE && bytes <= stats_of(model).largest_hole_bytes) {
        return true;
    }
    switch (model->kind) {
    case KIND_PAGED:
        return paged_must_fit(model, bytes, unit);
    case KIND_SEGMENTED:
        return segmented_must_fit(model, bytes, unit);
    case KIND_SYSTEM:
        return system_must_fit(model, bytes, unit);
    default:
        return false;
    }
}

/* ---- what must always hold ---- */

typedef struct walk {
    const model_t *model;
    uint32_t seen_count;
} walk_t;

static const stretch_t *live_around(const model_t *model, uintptr_t address)
{
    for (uint32_t i = 0; i < model->live_count; i++) {
        if (address - model->live[i].begin < model->live[i].bytes) {
            return &model->live[i];
        }
    }
    return NULL;
}

static bool is_block(const stretch_t *live, const dao_block_t *block)
{
    return live != NULL && live->begin == (uintptr_t)block->address &&
           live->block_bytes == block->block_bytes && live->requested_bytes == block->requested_bytes;
}

static void see_block(const dao_block_t *block, void *user)
{
    walk_t *walk = user;
    FUZZ_REQUIRE(is_block(live_around(walk->model, (uintptr_t)block->address), block));
    walk->seen_count++;
}

static void compare(const model_t *model)
{
    dao_stats_t stats = stats_of(model);
    uint64_t used_bytes = 0, requested_bytes = 0;
    for (uint32_t i = 0; i < model->live_count; i++) {
        used_bytes += model->live[i].block_bytes;
        requested_bytes += model->live[i].requested_bytes;
    }
    FUZZ_REQUIRE(model->allocator->ops->is_valid(model->allocator));
    FUZZ_REQUIRE(stats.used_bytes == used_bytes && stats.requested_bytes == requested_bytes);
    FUZZ_REQUIRE(stats.live_count == model->live_count);
    FUZZ_REQUIRE(stats.alloc_count == model->alloc_count && stats.free_count == model->free_count);
    FUZZ_REQUIRE(stats.failed_count == model->failed_count);
    FUZZ_REQUIRE(stats.limit_bytes == model->limit_bytes);
    FUZZ_REQUIRE(stats.reserved_bytes == heap_backend_device_bytes(model->heap));
    FUZZ_REQUIRE(stats.limit_bytes == 0 || stats.reserved_bytes <= stats.limit_bytes);
    FUZZ_REQUIRE(stats.reserved_bytes >= held_bytes(model));
    FUZZ_REQUIRE(stats.peak_used_bytes >= used_bytes && stats.peak_reserved_bytes >= stats.reserved_bytes);
    FUZZ_REQUIRE(stats.largest_hole_bytes <= stats.reserved_bytes - used_bytes);
    walk_t walk = {.model = model};
    model->allocator->ops->walk(model->allocator, see_block, &walk);
    FUZZ_REQUIRE(walk.seen_count == model->live_count);
}

/* ---- the calls ---- */

/* Makes one of the next calls of the device, or a request for host memory, fail: now and then. */
static void arm(model_t *model, fuzz_input_t *input)
{
    uint32_t kind = fuzz_byte(input);
    model->is_armed = kind >= 160;
    if (kind >= 224) {
        dao_fault_arm(DAO_FAULT_ANY, kind % 4, kind >= 240);
    } else if (kind >= 160) {
        heap_backend_fail(model->heap, HEAP_CALL_COUNT, kind % 8, kind >= 192);
    }
}

/* Lets everything succeed again; tells whether anything was made to fail. */
static bool disarm(model_t *model)
{
    bool was_armed = model->is_armed;
    model->is_armed = false;
    if (!was_armed) {
        return false;
    }
    uint64_t refused_count = heap_backend_heal(model->heap);
    return dao_fault_disarm() + refused_count > 0;
}

static uint64_t take_size(const model_t *model, fuzz_input_t *input)
{
    uint32_t kind = fuzz_byte(input), number = fuzz_word(input);
    switch (kind % 8) {
    case 0:
        return 1 + number % 2048;
    case 1:
        return 1 + number * GRANULE % (4 * PAGE);
    case 2:
        return (1 + number % 4) * PAGE + number / 4 % 3 * GRANULE - GRANULE;
    case 3:
        return 1 + number * 64 * KIB % model->capacity_bytes;
    case 4:
        return number % 16 == 0 ? SIZE_MAX - number : 1 + number * KIB;
    case 5:
        return stats_of(model).largest_hole_bytes + number % 2;
    default:
        return 1 + number * 37 % PAGE;
    }
}

/* Returns true if the address range was handed out by the device. */
static bool is_on_device(const model_t *model, uintptr_t address, uint64_t bytes)
{
    if (model->kind == KIND_PAGED) {
        const stretch_t *reserved = address - device.reservation.begin < device.reservation.bytes
                                        ? &device.reservation
                                        : &device.aside;
        uint64_t offset = address - reserved->begin;
        return offset < reserved->bytes && bytes <= reserved->bytes - offset;
    }
    for (uint32_t i = 0; i < device.segment_count; i++) {
        uint64_t offset = address - device.segments[i].begin;
        if (offset < device.segments[i].bytes) {
            return bytes <= device.segments[i].bytes - offset;
        }
    }
    return false;
}

/* Enters a new block; how large it is, is asked. */
static void insert_live(model_t *model, uintptr_t address, uint64_t size_bytes)
{
    dao_block_t block;
    FUZZ_REQUIRE(model->allocator->ops->query(model->allocator, (void *)address, &block) == DAO_OK);
    FUZZ_REQUIRE((uintptr_t)block.address == address && block.requested_bytes == size_bytes);
    stretch_t live = {.begin = address,
                      .bytes = is_exact(model) ? block.block_bytes : size_bytes,
                      .requested_bytes = size_bytes,
                      .block_bytes = block.block_bytes};
    FUZZ_REQUIRE(block.block_bytes >= size_bytes && is_on_device(model, address, live.bytes));
    FUZZ_REQUIRE(!is_exact(model) || block.block_bytes == align_up(size_bytes, GRANULE));
    uint32_t at = model->live_count;
    for (; at > 0 && model->live[at - 1].begin > address; at--) {
        model->live[at] = model->live[at - 1];
    }
    model->live[at] = live;
    model->live_count++;
    FUZZ_REQUIRE(at == 0 || model->live[at - 1].begin + model->live[at - 1].bytes <= address);
    FUZZ_REQUIRE(at + 1 == model->live_count || address + model->live[at].bytes <= model->live[at + 1].begin);
}

static void check_failure(const model_t *model, dao_status_t status, uint64_t size_bytes)
{
    if (size_bytes > PTRDIFF_MAX) {
        FUZZ_REQUIRE(status == DAO_ERR_OVERFLOW);
    } else {
        FUZZ_REQUIRE(status == DAO_ERR_NO_DEVICE_MEMORY ||
                     (status == DAO_ERR_LIMIT && model->limit_bytes != 0));
    }
}

static void run_alloc(model_t *model, fuzz_input_t *input)
{
    uint32_t kind = fuzz_byte(input);
    uint64_t alignment_bytes = kind < 160 ? 0 : UINT64_C(1) << kind % 24;
    uint64_t size_bytes = take_size(model, input);
    size_bytes += size_bytes == 0;
    if (model->live_count == LIVE_COUNT_MAX) {
        return;
    }
    bool has_to_fit = size_bytes <= model->capacity_bytes && must_fit(model, size_bytes, alignment_bytes);
    dao_block_request_t request = {.size_bytes = size_bytes, .alignment_bytes = (size_t)alignment_bytes};
    dao_block_grant_t grant;
    arm(model, input);
    dao_status_t status = model->allocator->ops->alloc(model->allocator, &request, &grant);
    bool has_failed = disarm(model);
    if (status != DAO_OK) {
        model->failed_count++;
        if (!has_failed) {
            check_failure(model, status, size_bytes);
            FUZZ_REQUIRE(!has_to_fit);
        }
        return;
    }
    model->alloc_count++;
    uintptr_t address = (uintptr_t)grant.address;
    FUZZ_REQUIRE(address % GRANULE == 0 && (alignment_bytes == 0 || address % alignment_bytes == 0));
    FUZZ_REQUIRE(dao_stream_fence_is_empty(&grant.fence));
    insert_live(model, address, size_bytes);
}

static void run_free(model_t *model, fuzz_input_t *input)
{
    uint32_t index = fuzz_byte(input);
    if (model->live_count == 0) {
        return;
    }
    index %= model->live_count;
    uint64_t calls = heap_backend_calls(model->heap, HEAP_CALL_COUNT);
    dao_fault_arm(DAO_FAULT_ANY, 0, true);
    FUZZ_REQUIRE(dao_allocator_free(model->allocator, (void *)model->live[index].begin) == DAO_OK);
    FUZZ_REQUIRE(dao_fault_disarm() == 0); /* it needs no memory */
    FUZZ_REQUIRE(heap_backend_calls(model->heap, HEAP_CALL_COUNT) == calls + (model->kind == KIND_SYSTEM));
    model->freed[model->freed_next++ % FREED_COUNT] = model->live[index].begin;
    model->free_count++;
    model->live_count--;
    for (uint32_t i = index; i < model->live_count; i++) {
        model->live[i] = model->live[i + 1];
    }
}

/* An address that may be anything: inside of a block, freed lately, of nobody. */
static uintptr_t take_address(const model_t *model, fuzz_input_t *input)
{
    uint32_t kind = fuzz_byte(input), number = fuzz_word(input);
    if (kind % 3 == 0 && model->live_count > 0) {
        const stretch_t *live = &model->live[number % model->live_count];
        return live->begin + number * UINT64_C(131) % live->bytes;
    }
    if (kind % 3 == 1) {
        return model->freed[number % FREED_COUNT];
    }
    return kind % 2 == 0 ? (uintptr_t)model : device.reservation.begin + number * KIB;
}

static bool freed_lately(const model_t *model, uintptr_t address)
{
    for (uint32_t i = 0; i < FREED_COUNT; i++) {
        if (address != 0 && model->freed[i] == address) {
            return true;
        }
    }
    return false;
}

/* A free of what is no block's start must say why, and touch nothing. */
static void run_wrong_free(model_t *model, fuzz_input_t *input)
{
    uintptr_t address = take_address(model, input);
    const stretch_t *live = live_around(model, address);
    if (live != NULL && live->begin == address) {
        return;
    }
    dao_status_t status = dao_allocator_free(model->allocator, (void *)address);
    if (live != NULL) {
        FUZZ_REQUIRE(status == DAO_ERR_INTERIOR_POINTER);
    } else if (!is_exact(model)) {
        FUZZ_REQUIRE(status == DAO_ERR_INTERIOR_POINTER || status == DAO_ERR_DOUBLE_FREE ||
                     status == DAO_ERR_FOREIGN_POINTER);
    } else if (freed_lately(model, address)) {
        FUZZ_REQUIRE(status == DAO_ERR_DOUBLE_FREE);
    } else {
        FUZZ_REQUIRE(status == DAO_ERR_FOREIGN_POINTER || status == DAO_ERR_DOUBLE_FREE);
        FUZZ_REQUIRE(address != (uintptr_t)model || status == DAO_ERR_FOREIGN_POINTER);
    }
}

static void run_query(const model_t *model, fuzz_input_t *input)
{
    uintptr_t address = take_address(model, input);
    const stretch_t *live = live_around(model, address);
    dao_block_t block;
    dao_status_t status = model->allocator->ops->query(model->allocator, (void *)address, &block);
    FUZZ_REQUIRE(status == (live != NULL ? DAO_OK : DAO_ERR_FOREIGN_POINTER) || !is_exact(model));
    FUZZ_REQUIRE(status == DAO_OK || live == NULL);
    FUZZ_REQUIRE(live == NULL || is_block(live, &block));
}

static void run_trim(model_t *model, fuzz_input_t *input)
{
    uint32_t number = fuzz_byte(input);
    uint64_t keep_bytes = number < 64 ? 0 : number * 64 * KIB;
    uint64_t before_bytes = stats_of(model).reserved_bytes;
    size_t released_bytes = 0;
    arm(model, input);
    dao_status_t status = model->allocator->ops->trim(model->allocator, (size_t)keep_bytes, &released_bytes);
    bool has_failed = disarm(model);
    uint64_t after_bytes = stats_of(model).reserved_bytes;
    FUZZ_REQUIRE(released_bytes == before_bytes - after_bytes);
    if (!has_failed) {
        FUZZ_REQUIRE(status == DAO_OK);
        FUZZ_REQUIRE(after_bytes - held_bytes(model) <= keep_bytes);
    }
}

static void run_limit(model_t *model, fuzz_input_t *input)
{
    uint32_t number = fuzz_byte(input);
    uint64_t limit_bytes = number < 64 ? 0 : model->capacity_bytes * number / 255;
    bool is_possible = limit_bytes == 0 || held_bytes(model) <= limit_bytes;
    arm(model, input);
    dao_status_t status = model->allocator->ops->limit_set(model->allocator, (size_t)limit_bytes);
    bool has_failed = disarm(model);
    FUZZ_REQUIRE(has_failed || status == (is_possible ? DAO_OK : DAO_ERR_LIMIT));
    model->limit_bytes = status == DAO_OK ? limit_bytes : model->limit_bytes;
}

/* Somebody else takes a part of what the device has left. */
static void run_taken(model_t *model, fuzz_input_t *input)
{
    uint64_t left_bytes = model->capacity_bytes - heap_backend_device_bytes(model->heap);
    uint32_t number = fuzz_byte(input);
    model->taken_bytes = number < 128 ? 0 : left_bytes * (number - 127) / 128;
    heap_backend_take_bytes(model->heap, model->taken_bytes);
}

static void run_call(model_t *model, fuzz_input_t *input)
{
    switch (fuzz_byte(input) % 16) {
    case 8:
        run_wrong_free(model, input);
        break;
    case 9:
        run_query(model, input);
        break;
    case 10:
        run_trim(model, input);
        break;
    case 11:
        run_limit(model, input);
        break;
    case 12:
        run_taken(model, input);
        break;
    case 13:
    case 14:
    case 15:
    case 7:
        run_free(model, input);
        break;
    default:
        run_alloc(model, input);
        break;
    }
}

/* ---- begin and end ---- */

static dao_status_t take_memory(void *user, size_t size_bytes, void **out_address)
{
    return device.ops.memory_alloc(user, size_bytes, out_address);
}

static dao_status_t give_memory(void *user, void *address, size_t size_bytes)
{
    return device.ops.memory_free(user, address, size_bytes);
}

static dao_status_t create_strategy(model_t *model, size_t segment_bytes)
{
    dao_strategy_config_t config = {
        .name = "device:0",
        .upstream = {.take = take_memory, .give = give_memory, .user = heap_backend_device(model->heap)},
        .full_status = DAO_ERR_NO_DEVICE_MEMORY,
        .alignment_bytes = GRANULE,
        .segment_bytes = model->kind == KIND_BINARY_BUDDY ? segment_bytes : 0,
        .limit_bytes = (size_t)model->limit_bytes};
    switch (model->kind) {
    case KIND_BINARY_BUDDY:
        return dao_binary_buddy_create(&config, &model->allocator);
    case KIND_SIZE_CLASS:
        return dao_size_class_create(&config, &model->allocator);
    default:
        return dao_system_create(&config, &model->allocator);
    }
}

static dao_status_t create_device_memory(model_t *model, size_t segment_bytes, size_t initial_bytes)
{
    dao_device_memory_config_t config = {.ops = &device.ops,
                                         .device = heap_backend_device(model->heap),
                                         .name = "device:0",
                                         .segment_bytes = segment_bytes,
                                         .initial_bytes = initial_bytes,
                                         .limit_bytes = (size_t)model->limit_bytes,
                                         .no_page_mapping = model->kind != KIND_PAGED};
    return dao_device_memory_create(&config, &model->allocator);
}

/* Makes a device and an allocator on it; false if what it is to take at once is not there. */
static bool begin(model_t *model, fuzz_input_t *input)
{
    uint32_t flags = fuzz_byte(input), kind = fuzz_byte(input);
    *model = (model_t){.kind = (flags & 1) != 0 ? KIND_PAGED : 1 + kind % (KIND_COUNT - 1),
                       .capacity_bytes = PAGE + fuzz_word(input) % 1024 * 64 * KIB};
    uint64_t device_page_bytes = (flags & 2) != 0 ? 64 * KIB : PAGE;
    bool hides_pages = (flags & 4) != 0;
    model->heap = heap_backend_create(model->capacity_bytes,
                                      model->kind == KIND_PAGED || hides_pages ? device_page_bytes : 0);
    FUZZ_REQUIRE(model->heap != NULL);
    device_wrap(heap_backend_ops(model->heap));
    model->limit_bytes = (flags & 8) != 0 ? model->capacity_bytes * fuzz_byte(input) / 255 : 0;
    size_t segment_bytes = (flags & 16) != 0 ? 0 : PAGE;
    size_t initial_bytes = (flags & 0x60) != 0x60 ? 0 : fuzz_word(input) * KIB;
    bool is_caching = is_exact(model);
    dao_status_t status = is_caching ? create_device_memory(model, segment_bytes, initial_bytes)
                                     : create_strategy(model, segment_bytes);
    FUZZ_REQUIRE(status == DAO_OK || (is_caching && initial_bytes != 0));
    if (status != DAO_OK) {
        FUZZ_REQUIRE(heap_backend_destroy(model->heap));
        return false;
    }
    FUZZ_REQUIRE(!is_caching || stats_of(model).reserved_bytes >= initial_bytes);
    return true;
}

void fuzz_device_memory(fuzz_input_t *input)
{
    static model_t model;
    if (!begin(&model, input)) {
        return;
    }
    compare(&model);
    while (input->left > 0) {
        run_call(&model, input);
        compare(&model);
    }
    model.allocator->ops->destroy(model.allocator);
    FUZZ_REQUIRE(heap_backend_destroy(model.heap)); /* live blocks are given back, too */
}
