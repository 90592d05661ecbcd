/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors against a slow model: the list of the byte offsets of all elements, in order. */
#include <dao/context.h>
#include <dao/tensor.h>

#include <dao/stats.h>

#include "base/report/fault.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ELEMENTS_MAX 4096
#define ROUNDS       400
#define OPERATIONS   40

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};

static int runtime_start(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    return dao_init(&config) != DAO_OK;
}

static int runtime_stop(void)
{
    return dao_finalize() != DAO_OK;
}

/* ---- the model ---- */

typedef struct model {
    int32_t rank;
    int64_t shape[DAO_TENSOR_RANK_MAX];
    int64_t count;
    int64_t offsets[ELEMENTS_MAX]; /* of elements, in bytes from the start of the memory, in row order */
} model_t;

/* Steps an index through a shape; false after the last one. */
static bool index_next(int32_t rank, const int64_t *shape, int64_t *index)
{
    for (int32_t i = rank - 1; i >= 0; i--) {
        if (++index[i] < shape[i]) {
            return true;
        }
        index[i] = 0;
    }
    return false;
}

static int64_t count_of(int32_t rank, const int64_t *shape)
{
    int64_t count = 1;
    for (int32_t i = 0; i < rank; i++) {
        count *= shape[i];
    }
    return count;
}

/* The position in the list of the element at an index. */
static int64_t position_of(const model_t *model, const int64_t *index)
{
    int64_t position = 0;
    for (int32_t i = 0; i < model->rank; i++) {
        position = position * model->shape[i] + index[i];
    }
    return position;
}

/* Fills a model from shape, strides and offset; tells whether all elements lie in [0, size_bytes). */
static bool model_fill(model_t *model, int32_t rank, const int64_t *shape, const int64_t *strides,
                       int64_t offset_bytes, int64_t element_bytes, int64_t size_bytes)
{
    model->rank = rank;
    memcpy(model->shape, shape, (size_t)rank * sizeof(*shape));
    model->count = count_of(rank, shape);
    int64_t index[DAO_TENSOR_RANK_MAX] = {0};
    bool is_inside = true;
    for (int64_t n = 0; n < model->count; n++) {
        int64_t offset = offset_bytes;
        for (int32_t i = 0; i < rank; i++) {
            offset += index[i] * strides[i] * element_bytes;
        }
        model->offsets[n] = offset;
        is_inside = is_inside && offset >= 0 && offset + element_bytes <= size_bytes;
        (void)index_next(rank, shape, index);
    }
    return is_inside;
}

/* Returns true if a tensor shows what its model says. */
static bool shows(const dao_tensor_t *tensor, const model_t *model)
{
    static model_t seen;
    if (dao_tensor_rank(tensor) != model->rank || dao_tensor_count(tensor) != model->count ||
        memcmp(dao_tensor_shape(tensor), model->shape, (size_t)model->rank * sizeof(int64_t)) != 0) {
        return false;
    }
    (void)model_fill(&seen, model->rank, model->shape, dao_tensor_strides(tensor),
                     (int64_t)dao_tensor_offset(tensor), (int64_t)dao_type_size(dao_tensor_type(tensor)),
                     INT64_MAX);
    bool is_row = true;
    for (int64_t n = 1; n < model->count; n++) {
        is_row = is_row &&
                 model->offsets[n] == model->offsets[n - 1] + (int64_t)dao_type_size(dao_tensor_type(tensor));
    }
    return memcmp(seen.offsets, model->offsets, (size_t)model->count * sizeof(int64_t)) == 0 &&
           dao_tensor_is_contiguous(tensor) == is_row;
}

/* ---- random operations ---- */

typedef struct run {
    uint64_t random;
    int64_t size_bytes;
    int64_t element_bytes;
    dao_tensor_t *tensor;
    model_t model;
} run_t;

static int64_t pick(run_t *run, int64_t least, int64_t most)
{
    return least + (int64_t)(dao_random_next(&run->random) % (uint64_t)(most - least + 1));
}

/* Replaces the tensor of a run by a view of it. */
static void step_to(run_t *run, dao_status_t status, dao_status_t expected, dao_tensor_t *view,
                    const model_t *model)
{
    CU_ASSERT_EQUAL(status, expected);
    if (status != DAO_OK) {
        return;
    }
    CU_ASSERT_TRUE(shows(view, model));
    CU_ASSERT_EQUAL(dao_tensor_release(run->tensor), DAO_OK);
    run->tensor = view;
    run->model = *model;
}

static void step_narrow(run_t *run)
{
    static model_t next;
    model_t *model = &run->model;
    dao_tensor_t *view = NULL;
    int32_t dimension = (int32_t)pick(run, -model->rank - 1, model->rank);
    int64_t start = pick(run, -1, 5);
    int64_t length = pick(run, -1, 5);
    int32_t resolved = dimension < 0 ? dimension + model->rank : dimension;
    dao_status_t status = dao_tensor_narrow(run->tensor, dimension, start, length, &view);
    if (resolved < 0 || resolved >= model->rank) {
        step_to(run, status, DAO_ERR_INVALID, view, NULL);
        return;
    }
    if (start < 0 || length < 0 || start + length > model->shape[resolved]) {
        step_to(run, status, DAO_ERR_OUT_OF_BOUNDS, view, NULL);
        return;
    }
    next = *model;
    next.shape[resolved] = length;
    next.count = count_of(next.rank, next.shape);
    int64_t index[DAO_TENSOR_RANK_MAX] = {0};
    for (int64_t n = 0; n < next.count; n++) {
        int64_t old[DAO_TENSOR_RANK_MAX];
        memcpy(old, index, sizeof(old));
        old[resolved] += start;
        next.offsets[n] = model->offsets[position_of(model, old)];
        (void)index_next(next.rank, next.shape, index);
    }
    step_to(run, status, DAO_OK, view, &next);
}

static void step_permute(run_t *run)
{
    static model_t next;
    model_t *model = &run->model;
    int32_t order[DAO_TENSOR_RANK_MAX];
    for (int32_t i = 0; i < model->rank; i++) {
        int32_t j = (int32_t)pick(run, 0, i);
        order[i] = order[j];
        order[j] = i;
    }
    bool is_broken = model->rank > 1 && pick(run, 0, 5) == 0;
    if (is_broken) {
        order[0] = order[1];
    }
    dao_tensor_t *view = NULL;
    dao_status_t status = dao_tensor_permute(run->tensor, order, &view);
    if (is_broken) {
        step_to(run, status, DAO_ERR_INVALID, view, NULL);
        return;
    }
    next = *model;
    for (int32_t i = 0; i < model->rank; i++) {
        next.shape[i] = model->shape[order[i]];
    }
    int64_t index[DAO_TENSOR_RANK_MAX] = {0};
    for (int64_t n = 0; n < next.count; n++) {
        int64_t old[DAO_TENSOR_RANK_MAX] = {0};
        for (int32_t i = 0; i < model->rank; i++) {
            old[order[i]] = index[i];
        }
        next.offsets[n] = model->offsets[position_of(model, old)];
        (void)index_next(next.rank, next.shape, index);
    }
    step_to(run, status, DAO_OK, view, &next);
}

static void step_squeeze(run_t *run)
{
    static model_t next;
    model_t *model = &run->model;
    dao_tensor_t *view = NULL;
    int32_t dimension = (int32_t)pick(run, -model->rank - 1, model->rank);
    int32_t resolved = dimension < 0 ? dimension + model->rank : dimension;
    dao_status_t status = dao_tensor_squeeze(run->tensor, dimension, &view);
    if (resolved < 0 || resolved >= model->rank || model->shape[resolved] != 1) {
        step_to(run, status, DAO_ERR_INVALID, view, NULL);
        return;
    }
    next = *model;
    next.rank--;
    for (int32_t i = resolved; i < next.rank; i++) {
        next.shape[i] = model->shape[i + 1];
    }
    step_to(run, status, DAO_OK, view, &next);
}

static void step_unsqueeze(run_t *run)
{
    static model_t next;
    model_t *model = &run->model;
    dao_tensor_t *view = NULL;
    int32_t dimension = (int32_t)pick(run, -model->rank - 2, model->rank + 1);
    int32_t resolved = dimension < 0 ? dimension + model->rank + 1 : dimension;
    dao_status_t status = dao_tensor_unsqueeze(run->tensor, dimension, &view);
    if (resolved < 0 || resolved > model->rank || model->rank == DAO_TENSOR_RANK_MAX) {
        step_to(run, status, DAO_ERR_INVALID, view, NULL);
        return;
    }
    next = *model;
    next.rank++;
    next.shape[resolved] = 1;
    for (int32_t i = resolved; i < model->rank; i++) {
        next.shape[i + 1] = model->shape[i];
    }
    step_to(run, status, DAO_OK, view, &next);
}

/* Returns true if the list of a model is a regular grid of a shape: there are strides for it. */
static bool has_strides(const model_t *model, int32_t rank, const int64_t *shape)
{
    int64_t strides[DAO_TENSOR_RANK_MAX] = {0};
    int64_t behind = 1;
    for (int32_t i = rank - 1; i >= 0; i--) {
        strides[i] = shape[i] > 1 ? model->offsets[behind] - model->offsets[0] : 0;
        behind *= shape[i];
    }
    static model_t grid;
    (void)model_fill(&grid, rank, shape, strides, model->offsets[0], 1, INT64_MAX);
    return memcmp(grid.offsets, model->offsets, (size_t)model->count * sizeof(int64_t)) == 0;
}

/* Picks a shape of `count` elements: factors in any order, with ones between. */
static int32_t shape_pick(run_t *run, int64_t count, int64_t *shape)
{
    int32_t rank = 0;
    while (count > 1 && rank < 8) {
        int64_t factor = pick(run, 1, 4);
        factor = rank == 7 || count % factor != 0 ? count : factor;
        shape[rank++] = factor;
        count /= factor;
    }
    if (rank == 0 || pick(run, 0, 3) == 0) {
        shape[rank++] = count;
    }
    return rank;
}

static void step_view(run_t *run)
{
    static model_t next;
    model_t *model = &run->model;
    dao_tensor_t *view = NULL;
    int64_t shape[DAO_TENSOR_RANK_MAX];
    int32_t rank = shape_pick(run, model->count, shape);
    int64_t asked[DAO_TENSOR_RANK_MAX];
    memcpy(asked, shape, sizeof(asked));
    if (model->count > 0 && pick(run, 0, 1) == 0) {
        asked[pick(run, 0, rank - 1)] = -1;
    }
    dao_status_t status = dao_tensor_view(run->tensor, rank, asked, &view);
    bool fits = model->count == 0 || has_strides(model, rank, shape);
    next = *model;
    next.rank = rank;
    memcpy(next.shape, shape, sizeof(shape));
    step_to(run, status, fits ? DAO_OK : DAO_ERR_UNSUPPORTED, view, &next);
}

static void step_as_strided(run_t *run)
{
    static model_t next;
    dao_tensor_t *view = NULL;
    int32_t rank = (int32_t)pick(run, 0, 4);
    int64_t shape[DAO_TENSOR_RANK_MAX];
    int64_t strides[DAO_TENSOR_RANK_MAX];
    for (int32_t i = 0; i < rank; i++) {
        shape[i] = pick(run, pick(run, 0, 3) == 0 ? 0 : 1, 6);
        strides[i] = pick(run, -9, 9);
    }
    int64_t offset = pick(run, -1, run->size_bytes / run->element_bytes + 1);
    bool is_inside = model_fill(&next, rank, shape, strides, offset * run->element_bytes, run->element_bytes,
                                run->size_bytes);
    is_inside = is_inside && offset >= 0 && offset * run->element_bytes <= run->size_bytes;
    dao_status_t status = dao_tensor_as_strided(run->tensor, rank, shape, strides, offset, &view);
    step_to(run, status, is_inside ? DAO_OK : DAO_ERR_OUT_OF_BOUNDS, view, &next);
}

static void views_agree_with_the_model(void)
{
    static void (*const steps[])(run_t *) = {step_narrow,    step_permute, step_squeeze,
                                             step_unsqueeze, step_view,    step_as_strided};
    static run_t run;
    static char bytes[4096];
    run.random = dao_test_seed("views_agree_with_the_model", 1);
    for (int round = 0; round < ROUNDS; round++) {
        dao_type_t type = (dao_type_t)pick(&run, DAO_TYPE_U8, DAO_TYPE_C128);
        run.element_bytes = (int64_t)dao_type_size(type);
        run.size_bytes = pick(&run, 0, 250) * run.element_bytes;
        dao_memory_t *memory = NULL;
        CU_ASSERT_EQUAL_FATAL(
            dao_memory_from_pointer(host, bytes, (size_t)run.size_bytes, NULL, NULL, &memory), DAO_OK);
        int64_t shape[] = {run.size_bytes / run.element_bytes};
        int64_t stride = 1;
        CU_ASSERT_EQUAL_FATAL(dao_tensor_from_memory(memory, 0, type, 1, shape, NULL, &run.tensor), DAO_OK);
        (void)model_fill(&run.model, 1, shape, &stride, 0, run.element_bytes, run.size_bytes);
        for (int i = 0; i < OPERATIONS; i++) {
            steps[pick(&run, 0, 5)](&run);
        }
        CU_ASSERT_EQUAL(dao_memory_use_count(memory), 2);
        CU_ASSERT_EQUAL(dao_tensor_release(run.tensor), DAO_OK);
        CU_ASSERT_EQUAL(dao_memory_use_count(memory), 1);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    }
}

/* As others count strides, who look at those of dimensions of one element, too. */
static void a_dimension_of_one_keeps_a_layout_contiguous(void)
{
    static const int64_t shape[] = {3, 4};
    static const int64_t expected[][3] = {{12, 4, 1}, {4, 4, 1}, {4, 1, 1}};
    dao_tensor_t *tensor = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_tensor_empty(host, DAO_TYPE_F32, 2, shape, &tensor), DAO_OK);
    for (int32_t dimension = 0; dimension < 3; dimension++) {
        dao_tensor_t *view = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_tensor_unsqueeze(tensor, dimension, &view), DAO_OK);
        for (int32_t i = 0; i < 3; i++) {
            CU_ASSERT_EQUAL(dao_tensor_strides(view)[i], expected[dimension][i]);
        }
        CU_ASSERT_EQUAL(dao_tensor_release(view), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
}

/* ---- bounds ---- */

static dao_status_t try_layout(size_t memory_bytes, size_t offset_bytes, int32_t rank, const int64_t *shape,
                               const int64_t *strides)
{
    static char bytes[4096];
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_memory_from_pointer(host, bytes, memory_bytes, NULL, NULL, &memory), DAO_OK);
    dao_tensor_t *tensor = NULL;
    dao_status_t status =
        dao_tensor_from_memory(memory, offset_bytes, DAO_TYPE_F32, rank, shape, strides, &tensor);
    CU_ASSERT_EQUAL(status == DAO_OK, tensor != NULL);
    CU_ASSERT_EQUAL(dao_memory_use_count(memory), status == DAO_OK ? 2 : 1);
    (void)dao_tensor_release(tensor);
    (void)dao_memory_release(memory);
    return status;
}

static void bounds_are_exact(void)
{
    int64_t ten[] = {10};
    int64_t forward[] = {1};
    int64_t back[] = {-1};
    int64_t still[] = {0};
    CU_ASSERT_EQUAL(try_layout(40, 0, 1, ten, forward), DAO_OK);
    CU_ASSERT_EQUAL(try_layout(39, 0, 1, ten, forward), DAO_ERR_OUT_OF_BOUNDS);
    CU_ASSERT_EQUAL(try_layout(40, 4, 1, ten, forward), DAO_ERR_OUT_OF_BOUNDS);
    CU_ASSERT_EQUAL(try_layout(40, 36, 1, ten, back), DAO_OK);
    CU_ASSERT_EQUAL(try_layout(40, 32, 1, ten, back), DAO_ERR_OUT_OF_BOUNDS);
    CU_ASSERT_EQUAL(try_layout(40, 40, 1, ten, back), DAO_ERR_OUT_OF_BOUNDS);
    CU_ASSERT_EQUAL(try_layout(40, 36, 1, ten, still), DAO_OK);
    CU_ASSERT_EQUAL(try_layout(40, 2, 1, ten, still), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(try_layout(4, 0, 0, NULL, NULL), DAO_OK);
    CU_ASSERT_EQUAL(try_layout(3, 0, 0, NULL, NULL), DAO_ERR_OUT_OF_BOUNDS);
}

static void huge_shapes_and_strides_overflow_nothing(void)
{
    int64_t huge[] = {INT64_MAX, INT64_MAX};
    int64_t huge_and_empty[] = {INT64_MAX, 0, INT64_MAX};
    int64_t empty_and_huge[] = {0, INT64_MAX, INT64_MAX};
    int64_t two[] = {2, 2};
    int64_t least[] = {INT64_MIN, INT64_MIN};
    int64_t most[] = {INT64_MAX, INT64_MAX};
    int64_t one[] = {1, 1};
    int64_t negative[] = {-1};
    int64_t zero[] = {0, 0};
    int64_t zero_strides[] = {0, 0, 0, 0};
    CU_ASSERT_EQUAL(try_layout(40, 0, 2, huge, NULL), DAO_ERR_OVERFLOW);
    CU_ASSERT_EQUAL(try_layout(40, 0, 2, huge, zero), DAO_ERR_OVERFLOW);
    CU_ASSERT_EQUAL(try_layout(40, 0, 1, huge, NULL), DAO_ERR_OVERFLOW);
    CU_ASSERT_EQUAL(try_layout(40, 0, 1, huge, zero), DAO_OK); /* one element, seen very often */
    CU_ASSERT_EQUAL(try_layout(40, 0, 3, huge_and_empty, huge_and_empty), DAO_OK);
    CU_ASSERT_EQUAL(try_layout(40, 0, 3, empty_and_huge, empty_and_huge), DAO_OK);
    CU_ASSERT_EQUAL(try_layout(40, 0, 3, empty_and_huge, NULL),
                    DAO_OK); /* no element needs its first stride */
    CU_ASSERT_EQUAL(try_layout(40, 0, 2, two, least), DAO_ERR_OVERFLOW);
    CU_ASSERT_EQUAL(try_layout(40, 0, 1, two, least), DAO_ERR_OVERFLOW);
    CU_ASSERT_EQUAL(try_layout(40, 0, 1, two, most), DAO_ERR_OVERFLOW);
    /* Each dimension alone reaches no further than a number does, both do. */
    int64_t low[] = {INT64_MIN / 4, INT64_MIN / 4}, high[] = {INT64_MAX / 4, INT64_MAX / 4};
    CU_ASSERT_EQUAL(try_layout(40, 0, 1, two, low), DAO_ERR_OUT_OF_BOUNDS);
    CU_ASSERT_EQUAL(try_layout(40, 0, 2, two, low), DAO_ERR_OVERFLOW);
    CU_ASSERT_EQUAL(try_layout(40, 0, 1, two, high), DAO_ERR_OUT_OF_BOUNDS);
    CU_ASSERT_EQUAL(try_layout(40, 0, 2, two, high), DAO_ERR_OVERFLOW);
    int64_t three[] = {INT64_MAX, 4, 4}, three_and_empty[] = {INT64_MAX, 4, 4, 0};
    CU_ASSERT_EQUAL(try_layout(40, 0, 3, three, zero_strides), DAO_ERR_OVERFLOW);
    CU_ASSERT_EQUAL(try_layout(40, 0, 4, three_and_empty, zero_strides), DAO_OK);
    CU_ASSERT_EQUAL(try_layout(40, 0, 2, one, least), DAO_OK); /* never multiplied by more than 0 */
    CU_ASSERT_EQUAL(try_layout(40, SIZE_MAX - 3, 1, two, NULL), DAO_ERR_OVERFLOW);
    CU_ASSERT_EQUAL(try_layout(40, SIZE_MAX - 3, 1, zero, NULL), DAO_ERR_OUT_OF_BOUNDS);
    CU_ASSERT_EQUAL(try_layout(40, 0, 1, negative, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(try_layout(40, 0, DAO_TENSOR_RANK_MAX + 1, huge, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(try_layout(40, 0, -1, huge, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(try_layout(40, 0, 1, NULL, NULL), DAO_ERR_INVALID);
    dao_tensor_t *tensor = NULL;
    CU_ASSERT_EQUAL(dao_tensor_empty(host, DAO_TYPE_F64, 2, huge, &tensor), DAO_ERR_OVERFLOW);
    CU_ASSERT_EQUAL(dao_tensor_empty(host, DAO_TYPE_F64, 1, huge, &tensor), DAO_ERR_OVERFLOW);
    CU_ASSERT_PTR_NULL(tensor);
}

static void huge_arguments_of_views_overflow_nothing(void)
{
    int64_t shape[] = {4, 4};
    int64_t extremes[] = {INT64_MIN, INT64_MAX};
    int64_t wrapping[] = {INT64_C(1) << 32, INT64_C(1) << 32};
    int64_t infinite[] = {INT64_MAX, INT64_MAX, -1};
    dao_tensor_t *tensor = NULL;
    dao_tensor_t *view = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_tensor_empty(host, DAO_TYPE_F32, 2, shape, &tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_narrow(tensor, 0, INT64_MAX, INT64_MAX, &view), DAO_ERR_OUT_OF_BOUNDS);
    CU_ASSERT_EQUAL(dao_tensor_narrow(tensor, 0, 1, INT64_MAX, &view), DAO_ERR_OUT_OF_BOUNDS);
    CU_ASSERT_EQUAL(dao_tensor_narrow(tensor, INT32_MIN, 0, 1, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_narrow(tensor, INT32_MAX, 0, 1, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_view(tensor, 2, wrapping, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_view(tensor, 3, infinite, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_view(tensor, 2, NULL, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_view(tensor, 0, NULL, &view), DAO_ERR_INVALID); /* of more than one element */
    CU_ASSERT_EQUAL(dao_tensor_view(tensor, 2, extremes, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_as_strided(tensor, 2, shape, extremes, 0, &view), DAO_ERR_OVERFLOW);
    CU_ASSERT_EQUAL(dao_tensor_as_strided(tensor, 2, shape, shape, INT64_MAX, &view), DAO_ERR_OVERFLOW);
    CU_ASSERT_EQUAL(dao_tensor_as_strided(tensor, 2, shape, shape, INT64_MIN, &view), DAO_ERR_OUT_OF_BOUNDS);
    CU_ASSERT_PTR_NULL(view);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
}

static void views_of_nothing_are_nothing(void)
{
    int64_t shape[] = {3, 0, 5};
    int64_t other[] = {0, 7};
    int64_t unknown[] = {0, -1};
    dao_tensor_t *tensor = NULL;
    dao_tensor_t *view = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_tensor_zeros(host, DAO_TYPE_F32, 3, shape, &tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_count(tensor), 0);
    CU_ASSERT_PTR_NULL(dao_tensor_address(tensor));
    CU_ASSERT_TRUE(dao_tensor_is_contiguous(tensor));
    CU_ASSERT_EQUAL(dao_tensor_view(tensor, 2, unknown, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL_FATAL(dao_tensor_view(tensor, 2, other, &view), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_release(view), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_tensor_narrow(tensor, 2, 4, 1, &view), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_offset(view), 0);
    CU_ASSERT_EQUAL(dao_tensor_release(view), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
}

/* ---- memory ---- */

static void zeros_are_zero_everywhere(void)
{
    static const dao_place_t places[] = {
        {DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_PINNED, 1}, {DAO_PLACE_KIND_DEVICE, 0}};
    static char bytes[3 * 1000 * 4];
    int64_t shape[] = {3, 1000};
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        dao_tensor_t *tensor = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_tensor_empty(places[i], DAO_TYPE_F32, 2, shape, &tensor), DAO_OK);
        memset(bytes, 0x5a, sizeof(bytes));
        CU_ASSERT_EQUAL(dao_copy(places[i], dao_tensor_address(tensor), host, bytes, sizeof(bytes)), DAO_OK);
        CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_tensor_zeros(places[i], DAO_TYPE_F32, 2, shape, &tensor), DAO_OK);
        CU_ASSERT_EQUAL(dao_copy(host, bytes, places[i], dao_tensor_address(tensor), sizeof(bytes)), DAO_OK);
        size_t zeros = 0;
        while (zeros < sizeof(bytes) && bytes[zeros] == 0) {
            zeros++;
        }
        CU_ASSERT_EQUAL(zeros, sizeof(bytes));
        CU_ASSERT_TRUE(dao_place_equal(dao_memory_place(dao_tensor_memory(tensor)), places[i]));
        CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
    }
}

static void a_view_keeps_the_memory_alive(void)
{
    int64_t shape[] = {8, 8};
    dao_tensor_t *tensor = NULL;
    dao_tensor_t *view = NULL;
    size_t used_before = dao_used(host);
    CU_ASSERT_EQUAL_FATAL(dao_tensor_zeros(host, DAO_TYPE_I32, 2, shape, &tensor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_tensor_narrow(tensor, 0, 7, 1, &view), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL(((int32_t *)dao_tensor_address(view))[7], 0);
    CU_ASSERT_EQUAL(dao_tensor_retain(view), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_release(view), DAO_OK);
    CU_ASSERT_TRUE(dao_used(host) > used_before);
    CU_ASSERT_EQUAL(dao_tensor_release(view), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(host), used_before);
    CU_ASSERT_EQUAL(dao_tensor_release(view), DAO_ERR_INVALID); /* it rests, see runtime/core/handle.h */
    CU_ASSERT_EQUAL(dao_tensor_retain(view), DAO_ERR_INVALID);
}

static void bad_arguments_are_named(void)
{
    int64_t shape[] = {2, 3};
    dao_tensor_t *tensor = NULL;
    dao_tensor_t *view = NULL;
    CU_ASSERT_EQUAL(dao_tensor_empty(host, (dao_type_t)99, 2, shape, &tensor), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_empty(host, DAO_TYPE_F32, 2, shape, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_zeros(host, DAO_TYPE_F32, 2, shape, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_empty(dao_place_of(dao_device_place(7)), DAO_TYPE_F32, 2, shape, &tensor),
                    DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_tensor_from_memory(NULL, 0, DAO_TYPE_F32, 2, shape, NULL, &tensor), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_narrow(NULL, 0, 0, 0, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_retain(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_release(NULL), DAO_OK);
    CU_ASSERT_PTR_NULL(dao_tensor_address(NULL));
    CU_ASSERT_EQUAL(dao_type_size((dao_type_t)99), 0);
    CU_ASSERT_STRING_EQUAL(dao_type_name((dao_type_t)99), "unknown");
    CU_ASSERT_STRING_EQUAL(dao_type_name(DAO_TYPE_BF16), "bf16");
    CU_ASSERT_PTR_NULL(tensor);
    CU_ASSERT_PTR_NULL(view);
}

static void what_is_asked_of_no_tensor_has_an_answer(void)
{
    CU_ASSERT_PTR_NULL(dao_tensor_memory(NULL));
    CU_ASSERT_EQUAL(dao_tensor_offset(NULL), 0);
    CU_ASSERT_EQUAL(dao_tensor_type(NULL), DAO_TYPE_U8);
    CU_ASSERT_EQUAL(dao_tensor_rank(NULL), 0);
    CU_ASSERT_PTR_NULL(dao_tensor_shape(NULL));
    CU_ASSERT_PTR_NULL(dao_tensor_strides(NULL));
    CU_ASSERT_EQUAL(dao_tensor_count(NULL), 0);
    CU_ASSERT_FALSE(dao_tensor_is_contiguous(NULL));
}

/* Each view call with each argument that it cannot take: nothing is made, and the tensor stays. */
static void bad_views_are_refused(void)
{
    int64_t shape[DAO_TENSOR_RANK_MAX + 1] = {2, 3}, ones[DAO_TENSOR_RANK_MAX];
    int32_t order[] = {1, 0};
    for (int32_t i = 0; i < DAO_TENSOR_RANK_MAX; i++) {
        ones[i] = 1;
    }
    dao_tensor_t *tensor = NULL, *full = NULL, *view = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_tensor_empty(host, DAO_TYPE_F32, 2, shape, &tensor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_tensor_empty(host, DAO_TYPE_F32, DAO_TENSOR_RANK_MAX, ones, &full), DAO_OK);
    dao_memory_t *memory = dao_tensor_memory(tensor);
    CU_ASSERT_EQUAL(dao_tensor_from_memory(memory, 0, DAO_TYPE_F32, 2, shape, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_from_memory(memory, 0, (dao_type_t)99, 2, shape, NULL, &view),
                    DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_narrow(tensor, 0, 0, 1, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_permute(NULL, order, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_permute(tensor, NULL, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_squeeze(NULL, 0, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_squeeze(tensor, 0, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_unsqueeze(NULL, 0, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_unsqueeze(full, 0, &view), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "dimensions already"));
    CU_ASSERT_EQUAL(dao_tensor_view(NULL, 2, shape, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_view(tensor, -1, shape, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_view(tensor, DAO_TENSOR_RANK_MAX + 1, shape, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_view(tensor, 2, NULL, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_view(tensor, 2, (int64_t[]){-1, -1}, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_view(tensor, 2, (int64_t[]){-1, 4}, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_view(tensor, 2, (int64_t[]){-1, 0}, &view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_as_strided(NULL, 2, shape, shape, 0, &view), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(view);
    CU_ASSERT_EQUAL(dao_tensor_count(tensor), 6);
    CU_ASSERT_EQUAL(dao_tensor_release(full), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
}

/* In a child process the parent's tensors are there, but are nobody's to use; letting go of one is no error.
 */
static void a_forked_child_is_refused(void)
{
    int64_t shape[] = {2, 3};
    dao_tensor_t *tensor = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_tensor_empty(host, DAO_TYPE_F32, 2, shape, &tensor), DAO_OK);
    pid_t child = fork();
    if (child == 0) {
        dao_tensor_t *view = NULL;
        dao_memory_t *memory = dao_tensor_memory(tensor), *part = NULL;
        bool is_right = dao_tensor_narrow(tensor, 0, 0, 1, &view) == DAO_ERR_FORKED &&
                        dao_memory_sub_range(memory, 0, 1, &part) == DAO_ERR_FORKED && view == NULL &&
                        part == NULL && dao_tensor_release(tensor) == DAO_OK;
        _exit(is_right ? 0 : 1);
    }
    int status = -1;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
}

#if defined(DAO_FAULTS)
static void any_missing_resource_is_answered(void)
{
    dao_place_t device = dao_place_of(dao_device_place(0));
    int64_t shape[] = {1000};
    dao_tensor_t *tensor = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_tensor_zeros(device, DAO_TYPE_F32, 1, shape, &tensor),
                          DAO_OK); /* starts the device */
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_device_synchronize(0), DAO_OK);
    size_t used_before = dao_used(device);
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    for (uint64_t n = 0; status != DAO_OK && n < 1000; n++) {
        tensor = NULL;
        dao_fault_arm(DAO_FAULT_ANY, n, false);
        status = dao_tensor_zeros(device, DAO_TYPE_F32, 1, shape, &tensor);
        uint64_t fired_count = dao_fault_disarm();
        CU_ASSERT_TRUE(status == DAO_OK || fired_count > 0);
        CU_ASSERT_EQUAL(status == DAO_OK, tensor != NULL);
        if (status != DAO_OK) {
            CU_ASSERT_EQUAL(dao_device_synchronize(0), DAO_OK);
            CU_ASSERT_EQUAL(dao_used(device), used_before);
        }
    }
    CU_ASSERT_EQUAL(status, DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
}
#endif

static CU_TestInfo tests[] = {
    {"views agree with the model", views_agree_with_the_model},
    {"a dimension of one keeps a layout contiguous", a_dimension_of_one_keeps_a_layout_contiguous},
    {"bounds are exact", bounds_are_exact},
    {"huge shapes and strides overflow nothing", huge_shapes_and_strides_overflow_nothing},
    {"huge arguments of views overflow nothing", huge_arguments_of_views_overflow_nothing},
    {"views of nothing are nothing", views_of_nothing_are_nothing},
    {"zeros are zero everywhere", zeros_are_zero_everywhere},
    {"a view keeps the memory alive", a_view_keeps_the_memory_alive},
    {"bad arguments are named", bad_arguments_are_named},
    {"what is asked of no tensor has an answer", what_is_asked_of_no_tensor_has_an_answer},
    {"bad views are refused", bad_views_are_refused},
    {"a forked child is refused", a_forked_child_is_refused},
#if defined(DAO_FAULTS)
    {"any missing resource is answered", any_missing_resource_is_answered},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"tensor", runtime_start, runtime_stop, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
