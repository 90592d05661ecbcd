/* SPDX-License-Identifier: Apache-2.0 */
/* dao_range against a model that has a cell for every granule.

       cells   [1][1][1][ ][ ][s][s][2][ ]     a used block's number, or the streams of a free one

   A part is a longest run of cells of one block, or of free ones that the same streams hold. The range must
   have exactly these parts. A request must succeed if and only if some part that it may take holds it,
   alignment included; it may fail for want of host memory only when that was armed, and then nothing has
   changed. */
#include "tests/fuzz/fuzz.h"

#include "allocators/range/range.h"
#include "base/report/fault.h"

#define CELL_COUNT_MAX 768u
#define STREAM_COUNT   5u
#define GRANULE        ((uint64_t)DAO_RANGE_GRANULE)

typedef struct cell {
    uint64_t block;           /* 0: free */
    dao_stream_fence_t fence; /* free: who holds it; used: the streams marked on its block */
} cell_t;

typedef struct model {
    dao_range_t *range;
    dao_range_config_t config;
    bool has_streams;
    bool is_narrow; /* few sizes, no alignments */
    uint32_t count;
    cell_t cells[CELL_COUNT_MAX];
    uint64_t block_count; /* so many numbers were given to blocks */
    uint64_t epoch;
    uint64_t done_epoch; /* holds up to it have ended */
} model_t;

/* ---- parts ---- */

static uint32_t part_end(const model_t *model, uint32_t start)
{
    const cell_t *cells = model->cells;
    uint32_t end = start + 1;
    while (end < model->count && cells[end].block == cells[start].block &&
           (cells[start].block != 0 || cells[end].fence.streams == cells[start].fence.streams)) {
        end++;
    }
    return end;
}

static uint32_t part_start(const model_t *model, uint32_t cell)
{
    uint32_t start = 0;
    while (part_end(model, start) <= cell) {
        start = part_end(model, start);
    }
    return start;
}

static bool is_free(const model_t *model, uint32_t cell)
{
    return model->cells[cell].block == 0;
}

/* A merged part waits for the latest of what its parts waited for. */
static void join_epochs(model_t *model)
{
    for (uint32_t start = 0; start < model->count; start = part_end(model, start)) {
        uint32_t end = part_end(model, start);
        dao_stream_fence_t joined = model->cells[start].fence;
        for (uint32_t i = start; is_free(model, start) && i < end; i++) {
            dao_stream_fence_join(&joined, &model->cells[i].fence);
        }
        joined.epoch = joined.streams == 0 ? 0 : joined.epoch;
        for (uint32_t i = start; is_free(model, start) && i < end; i++) {
            model->cells[i].fence = joined;
        }
    }
}

static void fill(model_t *model, uint32_t start, uint32_t end, cell_t cell)
{
    for (uint32_t i = start; i < end; i++) {
        model->cells[i] = cell;
    }
}

/* Returns the number of used blocks, and the first cell of the index-th. */
static uint32_t count_used(const model_t *model, uint32_t index, uint32_t *out_start)
{
    uint32_t count = 0;
    for (uint32_t start = 0; start < model->count; start = part_end(model, start)) {
        if (!is_free(model, start)) {
            *out_start = count == index ? start : *out_start;
            count++;
        }
    }
    return count;
}

/* ---- comparing ---- */

static bool fences_match(const dao_stream_fence_t *a, const dao_stream_fence_t *b)
{
    return a->streams == b->streams && (a->streams == 0 || a->epoch == b->epoch);
}

static bool is_part(const model_t *model, uint32_t start, const dao_range_block_t *block)
{
    const cell_t *cell = &model->cells[start];
    return block->offset_bytes == start * GRANULE &&
           block->size_bytes == (part_end(model, start) - start) * GRANULE && block->user == cell->block &&
           block->is_free == (cell->block == 0) && fences_match(&block->fence, &cell->fence);
}

typedef struct walk {
    const model_t *model;
    uint32_t next;
    uint32_t hole_count;
} walk_t;

static bool compare_part(const dao_range_block_t *block, void *user)
{
    walk_t *walk = user;
    FUZZ_REQUIRE(walk->next < walk->model->count);
    FUZZ_REQUIRE(is_part(walk->model, walk->next, block));
    walk->hole_count += block->is_free;
    walk->next = part_end(walk->model, walk->next);
    return true;
}

/* Counts the holes of at least a size. */
typedef struct count {
    uint64_t least_bytes;
    uint32_t count;
} count_t;

static bool count_hole(const dao_range_block_t *block, void *user)
{
    count_t *count = user;
    FUZZ_REQUIRE(block->is_free);
    count->count += block->size_bytes >= count->least_bytes;
    return true;
}

/* Both walks over holes must see all of them. */
static void compare_holes(const model_t *model, uint32_t hole_count)
{
    count_t all = {0}, large = {.least_bytes = model->config.capacity_bytes / 8}, expected = large;
    dao_range_walk_holes(model->range, count_hole, &all);
    dao_range_walk_holes_from(model->range, large.least_bytes, count_hole, &large);
    for (uint32_t start = 0; start < model->count; start = part_end(model, start)) {
        uint64_t bytes = (part_end(model, start) - start) * GRANULE;
        expected.count += is_free(model, start) && bytes >= expected.least_bytes;
    }
    FUZZ_REQUIRE(all.count == hole_count);
    FUZZ_REQUIRE(large.count == expected.count);
}

static void compare(const model_t *model)
{
    walk_t walk = {.model = model};
    FUZZ_REQUIRE(dao_range_is_valid(model->range));
    dao_range_walk(model->range, compare_part, &walk);
    FUZZ_REQUIRE(walk.next == model->count);
    compare_holes(model, walk.hole_count);
    uint64_t used_bytes = 0, largest_bytes = 0;
    dao_stream_fence_t all = {0};
    for (uint32_t start = 0; start < model->count; start = part_end(model, start)) {
        uint64_t bytes = (part_end(model, start) - start) * GRANULE;
        used_bytes += is_free(model, start) ? 0 : bytes;
        largest_bytes = is_free(model, start) && bytes > largest_bytes ? bytes : largest_bytes;
        if (is_free(model, start)) {
            dao_stream_fence_join(&all, &model->cells[start].fence);
        }
    }
    dao_stream_fence_t said = dao_range_all_fences(model->range);
    FUZZ_REQUIRE(dao_range_used(model->range) == used_bytes);
    FUZZ_REQUIRE(dao_range_largest_hole(model->range) == largest_bytes);
    FUZZ_REQUIRE(dao_range_has_fences(model->range) == (all.streams != 0));
    FUZZ_REQUIRE(fences_match(&said, &all));
}

/* ---- taking ---- */

static uint64_t rounded(uint64_t size_bytes)
{
    return (size_bytes + GRANULE - 1) / GRANULE;
}

static bool may_take(const model_t *model, uint32_t start, const dao_range_request_t *request)
{
    const dao_stream_fence_t *fence = &model->cells[start].fence;
    return is_free(model, start) &&
           (fence->streams == 0 || request->takes_fenced || dao_stream_fence_is_own(fence, request->stream));
}

/* Returns true if a part holds a request, alignment included. */
static bool part_fits(const model_t *model, uint32_t start, const dao_range_request_t *request)
{
    uint64_t unit = request->alignment_bytes > GRANULE ? request->alignment_bytes : GRANULE;
    uint64_t begin = model->config.base + start * GRANULE;
    uint64_t end = model->config.base + part_end(model, start) * GRANULE;
    uint64_t first = (begin + unit - 1) / unit * unit;
    return may_take(model, start, request) && first < end &&
           rounded(request->size_bytes) <= (end - first) / GRANULE;
}

/* Returns the smallest part that fits, the lowest among equals; `count` if none does. */
static uint32_t best_part(const model_t *model, const dao_range_request_t *request)
{
    uint32_t best = model->count;
    for (uint32_t start = 0; start < model->count; start = part_end(model, start)) {
        bool is_smaller =
            best == model->count || part_end(model, start) - start < part_end(model, best) - best;
        best = part_fits(model, start, request) && is_smaller ? start : best;
    }
    return best;
}

/* What a grant must be. */
static void check_grant(const model_t *model, const dao_range_request_t *request,
                        const dao_range_grant_t *grant, uint32_t best)
{
    FUZZ_REQUIRE(best != model->count);
    FUZZ_REQUIRE(grant->offset_bytes % GRANULE == 0 && grant->offset_bytes / GRANULE < model->count);
    FUZZ_REQUIRE(request->alignment_bytes == 0 ||
                 (model->config.base + grant->offset_bytes) % request->alignment_bytes == 0);
    uint32_t first = (uint32_t)(grant->offset_bytes / GRANULE);
    uint32_t start = part_start(model, first);
    FUZZ_REQUIRE(may_take(model, start, request));
    FUZZ_REQUIRE(rounded(request->size_bytes) <= part_end(model, start) - first);
    FUZZ_REQUIRE(model->config.fit != DAO_RANGE_FIT_BEST || start == best);
    FUZZ_REQUIRE(fences_match(&grant->fence, &model->cells[start].fence));
}

/* 32 and 33 units share a bin. */
static uint64_t take_narrow_size(uint32_t kind)
{
    return (kind % 4 == 0 ? 33 : 32) * GRANULE;
}

static uint64_t take_size(const model_t *model, fuzz_input_t *input)
{
    uint32_t kind = fuzz_byte(input), number = fuzz_word(input);
    uint64_t largest_bytes = dao_range_largest_hole(model->range);
    if (model->is_narrow) {
        return kind < 224 ? 33 * GRANULE : 32 * GRANULE; /* what few of the holes are */
    }
    switch (kind % 8) {
    case 0:
        return UINT64_MAX - number;
    case 1:
        return 1 + number % (model->count * GRANULE + 2);
    case 2:
        return 1 + number % (model->count * GRANULE / 4 + 1);
    case 3:
        return largest_bytes + (largest_bytes == 0 || number % 2 == 1);
    default:
        return 1 + number % (12 * GRANULE);
    }
}

static uint64_t take_alignment(const model_t *model, fuzz_input_t *input)
{
    uint32_t kind = fuzz_byte(input);
    if (kind < 128 || model->is_narrow) {
        return 0;
    }
    return kind == 255 ? UINT64_C(1) << 63 : UINT64_C(1) << kind % 18;
}

/* Makes a request and compares the answer; tells whether it was granted. */
static bool request_block(model_t *model, const dao_range_request_t *request, bool is_armed)
{
    uint32_t best = request->size_bytes > model->count * GRANULE ? model->count : best_part(model, request);
    if (is_armed) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, true);
    }
    dao_range_grant_t grant;
    dao_status_t status = dao_range_alloc(model->range, request, &grant);
    bool was_refused = is_armed && dao_fault_disarm() > 0;
    if (was_refused && status == DAO_ERR_NO_HOST_MEMORY) {
        return false;
    }
    FUZZ_REQUIRE(!was_refused || request->stream != 0); /* a stream does without bins of its own */
    if (status != DAO_OK) {
        FUZZ_REQUIRE(status == DAO_ERR_LIMIT);
        FUZZ_REQUIRE(best == model->count); /* it must not fail where a part fits */
        return false;
    }
    check_grant(model, request, &grant, best);
    uint32_t first = (uint32_t)(grant.offset_bytes / GRANULE);
    model->block_count++;
    fill(model, first, first + (uint32_t)rounded(request->size_bytes), (cell_t){.block = model->block_count});
    return true;
}

static void run_alloc(model_t *model, fuzz_input_t *input)
{
    uint32_t flags = fuzz_byte(input);
    dao_range_request_t request = {.size_bytes = take_size(model, input),
                                   .alignment_bytes = take_alignment(model, input),
                                   .user = model->block_count + 1,
                                   .stream = flags % (STREAM_COUNT + 1),
                                   .takes_fenced = (flags & 64) != 0,
                                   .is_tight = (flags & 32) != 0};
    (void)request_block(model, &request, flags >= 224); /* it has been compared */
}

/* Fills a range with blocks of sizes that share a bin and walls between them, and nothing is left. Holes are
   then of that bin alone: the one that fits may be the last of its list. */
static void fill_narrow(model_t *model, fuzz_input_t *input)
{
    bool is_granted = true;
    for (uint32_t i = 0; is_granted; i++) {
        dao_range_request_t request = {.size_bytes =
                                           i % 2 == 0 ? GRANULE : take_narrow_size(fuzz_byte(input)),
                                       .user = model->block_count + 1};
        is_granted = request_block(model, &request, false);
    }
    dao_range_request_t rest = {.size_bytes = dao_range_largest_hole(model->range),
                                .user = model->block_count + 1};
    FUZZ_REQUIRE(rest.size_bytes == 0 || request_block(model, &rest, false));
}

/* Takes exact places, by address or in a part that was looked up. */
static void run_alloc_at(model_t *model, fuzz_input_t *input)
{
    uint32_t first = fuzz_word(input) % (model->count + 2);
    uint32_t count = 1 + fuzz_byte(input) % 16;
    bool by_id = fuzz_byte(input) % 2 == 1;
    bool fits = first < model->count && count <= model->count - first && is_free(model, first) &&
                model->cells[first].fence.streams == 0 && part_end(model, first) >= first + count;
    dao_status_t status = DAO_ERR_LIMIT;
    dao_range_block_t around;
    if (!by_id) {
        status = dao_range_alloc_at(model->range, first * GRANULE, count * GRANULE, model->block_count + 1);
    } else if (dao_range_query(model->range, first * GRANULE, &around) == DAO_OK) {
        status = dao_range_alloc_in(model->range, around.id, first * GRANULE, count * GRANULE,
                                    model->block_count + 1);
    }
    FUZZ_REQUIRE(status == (fits ? DAO_OK : DAO_ERR_LIMIT));
    if (fits) {
        model->block_count++;
        fill(model, first, first + count, (cell_t){.block = model->block_count});
    }
}

/* ---- giving back ---- */

static void run_free(model_t *model, fuzz_input_t *input)
{
    uint32_t index = fuzz_word(input), flags = fuzz_byte(input), start = 0;
    uint32_t used_count = count_used(model, 0, &start);
    if (used_count == 0) {
        return;
    }
    (void)count_used(model, index % used_count, &start);
    uint32_t end = part_end(model, start);
    if (model->is_narrow && end - start == 1) {
        return; /* walls stay */
    }
    cell_t was = model->cells[start];
    dao_stream_fence_t fence = {.streams = flags & 0x3e, .epoch = ++model->epoch};
    dao_stream_fence_t left = fence;
    left.streams |= was.fence.streams;
    bool has_fence = model->has_streams && (flags & 0xc0) != 0;
    dao_range_block_t block;
    dao_fault_arm(DAO_FAULT_ANY, 0, true);
    FUZZ_REQUIRE(dao_range_free(model->range, start * GRANULE, has_fence ? &fence : NULL, &block) == DAO_OK);
    FUZZ_REQUIRE(dao_fault_disarm() == 0); /* it never needs memory */
    FUZZ_REQUIRE(!has_fence || fences_match(&fence, &left));
    FUZZ_REQUIRE(block.offset_bytes == start * GRANULE && block.size_bytes == (end - start) * GRANULE &&
                 block.user == was.block && !block.is_free);
    bool is_held = has_fence && left.streams != 0;
    fill(model, start, end, (cell_t){.fence = is_held ? left : (dao_stream_fence_t){0}});
    join_epochs(model);
}

/* What a free or a mark at an offset must answer. */
static dao_status_t expected_status(const model_t *model, uint64_t offset_bytes)
{
    if (offset_bytes >= model->count * GRANULE) {
        return DAO_ERR_FOREIGN_POINTER;
    }
    uint32_t cell = (uint32_t)(offset_bytes / GRANULE);
    if (is_free(model, cell)) {
        return DAO_ERR_DOUBLE_FREE;
    }
    return offset_bytes == part_start(model, cell) * GRANULE ? DAO_OK : DAO_ERR_INTERIOR_POINTER;
}

static uint64_t take_offset(const model_t *model, fuzz_input_t *input)
{
    uint32_t kind = fuzz_byte(input), cell = fuzz_word(input);
    uint64_t offset_bytes = cell % (model->count + 3) * GRANULE;
    return kind == 0 ? UINT64_MAX - cell : offset_bytes + (kind % 4 == 1 ? kind : 0);
}

/* A free that is wrong, where it is: a right one is left alone. */
static void run_wrong_free(model_t *model, fuzz_input_t *input)
{
    uint64_t offset_bytes = take_offset(model, input);
    dao_status_t expected = expected_status(model, offset_bytes);
    dao_range_block_t block;
    if (expected != DAO_OK) {
        FUZZ_REQUIRE(dao_range_free(model->range, offset_bytes, NULL, &block) == expected);
    }
}

static void run_mark(model_t *model, fuzz_input_t *input)
{
    uint64_t offset_bytes = take_offset(model, input);
    uint32_t stream = 1 + fuzz_byte(input) % STREAM_COUNT, start = 0;
    uint32_t used_count = count_used(model, 0, &start);
    if (used_count > 0 && offset_bytes % 3 != 0) {
        (void)count_used(model, (uint32_t)(offset_bytes / GRANULE) % used_count, &start);
        offset_bytes = start * GRANULE;
    }
    dao_status_t expected = expected_status(model, offset_bytes);
    FUZZ_REQUIRE(dao_range_mark(model->range, offset_bytes, stream) == expected);
    if (expected == DAO_OK) {
        start = (uint32_t)(offset_bytes / GRANULE);
        cell_t marked = model->cells[start];
        marked.fence.streams |= UINT64_C(1) << stream;
        fill(model, start, part_end(model, start), marked);
    }
}

static void run_query(const model_t *model, fuzz_input_t *input)
{
    uint64_t offset_bytes = take_offset(model, input);
    dao_range_block_t block;
    dao_status_t status = dao_range_query(model->range, offset_bytes, &block);
    if (offset_bytes >= model->count * GRANULE) {
        FUZZ_REQUIRE(status == DAO_ERR_FOREIGN_POINTER);
        return;
    }
    FUZZ_REQUIRE(status == DAO_OK);
    FUZZ_REQUIRE(is_part(model, part_start(model, (uint32_t)(offset_bytes / GRANULE)), &block));
}

/* ---- holds ---- */

static uint64_t done_epoch_of(uint32_t stream, void *user)
{
    (void)stream;
    return ((const model_t *)user)->done_epoch;
}

static void run_settle(model_t *model, fuzz_input_t *input)
{
    uint64_t behind = fuzz_byte(input) % 8;
    uint64_t done_epoch = model->epoch > behind ? model->epoch - behind : 0;
    model->done_epoch = done_epoch > model->done_epoch ? done_epoch : model->done_epoch;
    (void)dao_range_settle(model->range, done_epoch_of, model, UINT32_MAX);
    for (uint32_t i = 0; i < model->count; i++) {
        if (is_free(model, i) && model->cells[i].fence.epoch <= model->done_epoch) {
            model->cells[i].fence = (dao_stream_fence_t){0};
        }
    }
    join_epochs(model);
}

static void run_join(model_t *model)
{
    dao_range_join(model->range);
    for (uint32_t start = 0, end; start < model->count; start = end) {
        dao_stream_fence_t joined = {0};
        for (end = start; end < model->count && is_free(model, end); end++) {
            dao_stream_fence_join(&joined, &model->cells[end].fence);
        }
        fill(model, start, end, (cell_t){.fence = joined});
        end += end == start;
    }
}

static void run_call(model_t *model, fuzz_input_t *input)
{
    uint32_t call = fuzz_byte(input) % 16;
    switch (call) {
    case 6:
    case 7:
    case 8:
    case 9:
        run_free(model, input);
        break;
    case 10:
        run_wrong_free(model, input);
        break;
    case 11:
        if (model->has_streams) {
            run_mark(model, input);
        }
        break;
    case 12:
        run_settle(model, input);
        break;
    case 13:
        run_join(model);
        break;
    case 14:
        run_alloc_at(model, input);
        break;
    case 15:
        run_query(model, input);
        break;
    default:
        run_alloc(model, input);
        break;
    }
}

void fuzz_range(fuzz_input_t *input)
{
    static model_t model;
    uint32_t flags = fuzz_byte(input);
    model = (model_t){.count = 1 + fuzz_word(input) % CELL_COUNT_MAX,
                      .has_streams = (flags & 4) != 0,
                      .is_narrow = (flags & 8) != 0};
    model.config = (dao_range_config_t){.capacity_bytes = model.count * GRANULE,
                                        .base = (UINT64_C(1) << 40) + fuzz_word(input) * GRANULE,
                                        .fit = (flags & 1) != 0 ? DAO_RANGE_FIT_BEST : DAO_RANGE_FIT_GOOD,
                                        .is_indexed = (flags & 2) != 0};
    FUZZ_REQUIRE(dao_range_create(&model.config, &model.range) == DAO_OK);
    if (model.is_narrow) {
        fill_narrow(&model, input);
    }
    while (input->left > 0) {
        run_call(&model, input);
        compare(&model);
    }
    dao_range_destroy(model.range);
}
