/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors: views of a memory handle. Element [i0, i1, ...] is at

       address of memory + offset_bytes + (i0 * stride[0] + i1 * stride[1] + ...) * bytes of an element

   Invariants: all elements lie inside the memory. view_check() proves that before a tensor is made. Every
   view operation but as_strided picks from existing elements. A tensor without elements has an offset of at
   most the size of the memory. A tensor never changes, so reading its fields needs no lock. */
#include <dao/tensor.h>

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/report/names.h"
#include "runtime/core/handle.h"
#include "runtime/core/thread.h"
#include "runtime/device/runtime.h"
#include "runtime/handles/memory_internal.h"
#include "runtime/handles/tensor_internal.h"

#include <inttypes.h>
#include <string.h>

/* The part of a tensor that view operations compute. */
typedef struct layout {
    size_t offset_bytes;
    int64_t count; /* of elements */
    dao_type_t type;
    int32_t rank;
    int64_t shape[DAO_TENSOR_RANK_MAX];
    int64_t strides[DAO_TENSOR_RANK_MAX]; /* in elements */
} layout_t;

struct dao_tensor {
    dao_handle_t handle;  /* first: see dao_handle_bury() */
    dao_memory_t *memory; /* a reference of its own */
    layout_t layout;
};

/* ---- types ---- */

size_t dao_type_size(dao_type_t type)
{
    switch (type) {
#define DAO_TYPE_CASE(number, name, size, text)                                                              \
    case DAO_TYPE_##name:                                                                                    \
        return size;
        DAO_TYPE_LIST(DAO_TYPE_CASE) // NOLINT(bugprone-branch-clone): several types have the same size
#undef DAO_TYPE_CASE
    }
    return 0;
}

static const dao_named_t types[] = {
#define TYPE_ROW(number, symbol, size, name) {name, DAO_TYPE_##symbol},
    DAO_TYPE_LIST(TYPE_ROW)
#undef TYPE_ROW
        {NULL, 0}};

const char *dao_type_name(dao_type_t type)
{
    return dao_name_of(types, (int)type);
}

/* ---- arithmetic of layouts ---- */

static dao_status_t overflow_error(const char *function)
{
    return dao_error(DAO_ERR_OVERFLOW, "%s: the shape or its strides do not fit 64 bits", function);
}

/* Checks a shape and stores it with its number of elements. An empty tensor's other dimensions may be of any
   length. */
static dao_status_t shape_store(const char *function, int32_t rank, const int64_t *shape, layout_t *layout)
{
    if (rank < 0 || rank > DAO_TENSOR_RANK_MAX) {
        return dao_error(DAO_ERR_INVALID, "%s: rank %" PRId32 "; it goes from 0 to %d", function, rank,
                         DAO_TENSOR_RANK_MAX);
    }
    if (rank > 0 && shape == NULL) {
        return dao_error(DAO_ERR_INVALID, "%s: shape is NULL", function);
    }
    int64_t count = 1;
    bool is_empty = false;
    bool overflows = false;
    for (int32_t i = 0; i < rank; i++) {
        if (shape[i] < 0) {
            return dao_error(DAO_ERR_INVALID, "%s: dimension %" PRId32 " has length %" PRId64, function, i,
                             shape[i]);
        }
        is_empty = is_empty || shape[i] == 0;
        overflows = overflows || (shape[i] > 0 && __builtin_mul_overflow(count, shape[i], &count));
        layout->shape[i] = shape[i];
    }
    if (overflows && !is_empty) {
        return overflow_error(function);
    }
    layout->rank = rank;
    layout->count = is_empty ? 0 : count;
    return DAO_OK;
}

/* Stores strides that make the layout contiguous. A length of 0 counts as 1. */
static dao_status_t strides_contiguous(const char *function, layout_t *layout)
{
    int64_t stride = 1, product;
    for (int32_t i = layout->rank - 1; i >= 0; i--) {
        layout->strides[i] = stride;
        if (i == 0 || layout->shape[i] == 0) {
            continue;
        }
        if (!__builtin_mul_overflow(stride, layout->shape[i], &product)) {
            stride = product;
        } else if (layout->count > 0) {
            return overflow_error(function);
        } /* else any will do: no element is reached by it */
    }
    return DAO_OK;
}

/* Finds the least and the greatest distance of an element from element [0, ..., 0], in bytes. Not for empty
   layouts. */
static bool extent_find(const layout_t *layout, int64_t *out_least, int64_t *out_greatest)
{
    int64_t least = 0;
    int64_t greatest = 0;
    int64_t element_bytes = (int64_t)dao_type_size(layout->type);
    for (int32_t i = 0; i < layout->rank; i++) {
        int64_t reach;
        if (__builtin_mul_overflow(layout->shape[i] - 1, layout->strides[i], &reach) ||
            __builtin_mul_overflow(reach, element_bytes, &reach) ||
            (reach < 0 ? __builtin_add_overflow(least, reach, &least)
                       : __builtin_add_overflow(greatest, reach, &greatest))) {
            return false;
        }
    }
    *out_least = least;
    *out_greatest = greatest;
    return true;
}

/* Checks that all elements of a layout lie inside `size_bytes` bytes. */
static dao_status_t bounds_check(const char *function, const layout_t *layout, size_t size_bytes)
{
    size_t element_bytes = dao_type_size(layout->type);
    if (layout->count == 0) {
        return layout->offset_bytes <= size_bytes
                   ? DAO_OK
                   : dao_error(DAO_ERR_OUT_OF_BOUNDS, "%s: offset %zu is behind the end of %zu bytes",
                               function, layout->offset_bytes, size_bytes);
    }
    int64_t least;
    int64_t greatest;
    if (!extent_find(layout, &least, &greatest)) {
        return overflow_error(function);
    }
    size_t before = least < 0 ? (size_t)0 - (size_t)least : 0; /* right for INT64_MIN, too */
    size_t end;
    if (__builtin_add_overflow(layout->offset_bytes, (size_t)greatest, &end) ||
        __builtin_add_overflow(end, element_bytes, &end)) {
        return overflow_error(function);
    }
    if (before > layout->offset_bytes || end > size_bytes) {
        return dao_error(DAO_ERR_OUT_OF_BOUNDS,
                         "%s: elements from %" PRId64
                         " bytes before to %zu bytes behind offset %zu of %zu bytes",
                         function, least, end - layout->offset_bytes, layout->offset_bytes, size_bytes);
    }
    return DAO_OK;
}

/* ---- life ---- */

/* Makes a tensor; it takes a reference to the memory. */
static dao_status_t tensor_create(dao_memory_t *memory, const layout_t *layout, dao_tensor_t **out_tensor)
{
    if (dao_memory_is_forked(memory)) {
        return dao_error(DAO_ERR_FORKED, "the tensor's memory was made in the parent process");
    }
    dao_status_t status = dao_memory_retain(memory);
    if (status != DAO_OK) {
        return status;
    }
    dao_tensor_t *tensor = dao_host_calloc(1, sizeof(*tensor));
    if (tensor == NULL) {
        (void)dao_memory_release(memory); /* not the last one: the caller has one */
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a tensor: %zu bytes", sizeof(*tensor));
    }
    atomic_init(&tensor->handle.reference_count, 1);
    tensor->memory = memory;
    tensor->layout = *layout;
    *out_tensor = tensor;
    return DAO_OK;
}

dao_status_t dao_tensor_retain(dao_tensor_t *tensor)
{
    return dao_handle_retain(tensor != NULL ? &tensor->handle : NULL, "tensor");
}

dao_status_t dao_tensor_release(dao_tensor_t *tensor)
{
    if (tensor == NULL) {
        return DAO_OK;
    }
    if (dao_thread_check() != DAO_OK) {
        return DAO_ERR_REENTRANT;
    }
    bool is_last;
    dao_status_t status = dao_handle_release(&tensor->handle, "tensor", &is_last);
    if (status != DAO_OK || !is_last || dao_memory_is_forked(tensor->memory)) {
        return status;
    }
    dao_memory_t *memory = tensor->memory;
    dao_handle_bury(&tensor->handle);
    return dao_memory_release(memory);
}

/* Lays out a new tensor and allocates its memory. */
static dao_status_t tensor_allocate(const char *function, dao_place_t place, dao_type_t type, int32_t rank,
                                    const int64_t *shape, dao_tensor_t **out_tensor)
{
    if (out_tensor == NULL) {
        return dao_error_null(function, "out_tensor");
    }
    if (dao_type_size(type) == 0) {
        return dao_error(DAO_ERR_INVALID, "%s: %d is not a type", function, (int)type);
    }
    layout_t layout = {.type = type};
    dao_status_t status;
    if ((status = shape_store(function, rank, shape, &layout)) != DAO_OK ||
        (status = strides_contiguous(function, &layout)) != DAO_OK) {
        return status;
    }
    int64_t size_bytes;
    if (__builtin_mul_overflow(layout.count, (int64_t)dao_type_size(type), &size_bytes)) {
        return overflow_error(function);
    }
    dao_memory_t *memory;
    status = dao_memory_create(place, (size_t)size_bytes, NULL, &memory);
    if (status != DAO_OK) {
        return status;
    }
    status = tensor_create(memory, &layout, out_tensor);
    if (status == DAO_OK) {
        (void)dao_memory_release(memory); /* not the last one: the tensor has its own */
        return DAO_OK;
    }
    dao_error_record_t record;
    dao_error_save(&record, status);
    (void)dao_memory_release(memory);
    return dao_error_restore(&record);
}

dao_status_t dao_tensor_empty(dao_place_t place, dao_type_t type, int32_t rank, const int64_t *shape,
                              dao_tensor_t **out_tensor)
{
    return tensor_allocate("dao_tensor_empty", place, type, rank, shape, out_tensor);
}

/* Makes all bytes of a handle zero, and waits for them. */
static dao_status_t memory_zero(dao_memory_t *memory)
{
    size_t size_bytes = dao_memory_size(memory);
    if (size_bytes == 0) {
        return DAO_OK;
    }
    if (dao_memory_place(memory).kind != DAO_PLACE_KIND_DEVICE) {
        memset(dao_memory_address(memory), 0, size_bytes);
        return DAO_OK;
    }
    dao_stream_t *stream = dao_memory_stream(memory);
    dao_status_t status = dao_stream_fill(stream, dao_memory_address(memory), 0, size_bytes);
    return status == DAO_OK ? dao_runtime_wait(stream->runtime, stream->backend) : status;
}

dao_status_t dao_tensor_zeros(dao_place_t place, dao_type_t type, int32_t rank, const int64_t *shape,
                              dao_tensor_t **out_tensor)
{
    dao_tensor_t *tensor;
    dao_status_t status =
        tensor_allocate("dao_tensor_zeros", place, type, rank, shape, out_tensor != NULL ? &tensor : NULL);
    if (status != DAO_OK) {
        return status;
    }
    status = memory_zero(tensor->memory);
    if (status != DAO_OK) {
        dao_error_record_t record;
        dao_error_save(&record, status);
        (void)dao_tensor_release(tensor);
        return dao_error_restore(&record);
    }
    *out_tensor = tensor;
    return DAO_OK;
}

/* Lays out what nobody has checked; strides NULL is contiguous. */
static dao_status_t layout_fill(const char *function, int32_t rank, const int64_t *shape,
                                const int64_t *strides, layout_t *layout)
{
    dao_status_t status = shape_store(function, rank, shape, layout);
    if (status == DAO_OK && strides == NULL) {
        status = strides_contiguous(function, layout);
    } else if (status == DAO_OK && rank > 0) {
        memcpy(layout->strides, strides, (size_t)rank * sizeof(*strides));
    }
    return status;
}

dao_status_t dao_tensor_extent_find(const char *function, dao_type_t type, int32_t rank, const int64_t *shape,
                                    const int64_t *strides, dao_tensor_extent_t *out_extent)
{
    layout_t layout = {.type = type};
    dao_status_t status = layout_fill(function, rank, shape, strides, &layout);
    if (status != DAO_OK) {
        return status;
    }
    dao_tensor_extent_t extent = {0};
    int64_t least = 0;
    int64_t greatest = 0;
    if (layout.count > 0) {
        if (!extent_find(&layout, &least, &greatest)) {
            return overflow_error(function);
        }
        extent.before_bytes = (size_t)0 - (size_t)least; /* right for INT64_MIN, too */
        if (__builtin_add_overflow(extent.before_bytes, (size_t)greatest, &extent.size_bytes) ||
            __builtin_add_overflow(extent.size_bytes, dao_type_size(type), &extent.size_bytes)) {
            return overflow_error(function);
        }
    }
    *out_extent = extent;
    return DAO_OK;
}

/* Makes a view of memory, unless elements of it would lie outside. */
static dao_status_t view_create(const char *function, dao_memory_t *memory, const layout_t *layout,
                                dao_tensor_t **out_tensor)
{
    dao_status_t status = bounds_check(function, layout, dao_memory_size(memory));
    return status == DAO_OK ? tensor_create(memory, layout, out_tensor) : status;
}

dao_status_t dao_tensor_from_memory(dao_memory_t *memory, size_t offset_bytes, dao_type_t type, int32_t rank,
                                    const int64_t *shape, const int64_t *strides, dao_tensor_t **out_tensor)
{
    static const char function[] = "dao_tensor_from_memory";
    if (memory == NULL || out_tensor == NULL) {
        return dao_error_null(function, memory == NULL ? "memory" : "out_tensor");
    }
    size_t element_bytes = dao_type_size(type);
    if (element_bytes == 0) {
        return dao_error(DAO_ERR_INVALID, "%s: %d is not a type", function, (int)type);
    }
    if (offset_bytes % element_bytes != 0) {
        return dao_error(DAO_ERR_INVALID, "%s: offset %zu is not a multiple of %zu bytes, the size of %s",
                         function, offset_bytes, element_bytes, dao_type_name(type));
    }
    layout_t layout = {.type = type, .offset_bytes = offset_bytes};
    dao_status_t status = layout_fill(function, rank, shape, strides, &layout);
    return status == DAO_OK ? view_create(function, memory, &layout, out_tensor) : status;
}

/* ---- fields ---- */

void *dao_tensor_address(const dao_tensor_t *tensor)
{
    char *start = tensor != NULL ? dao_memory_address(tensor->memory) : NULL;
    return start != NULL ? start + tensor->layout.offset_bytes : NULL;
}

dao_memory_t *dao_tensor_memory(const dao_tensor_t *tensor)
{
    return tensor != NULL ? tensor->memory : NULL;
}

size_t dao_tensor_offset(const dao_tensor_t *tensor)
{
    return tensor != NULL ? tensor->layout.offset_bytes : 0;
}

dao_type_t dao_tensor_type(const dao_tensor_t *tensor)
{
    return tensor != NULL ? tensor->layout.type : DAO_TYPE_U8;
}

int32_t dao_tensor_rank(const dao_tensor_t *tensor)
{
    return tensor != NULL ? tensor->layout.rank : 0;
}

const int64_t *dao_tensor_shape(const dao_tensor_t *tensor)
{
    return tensor != NULL ? tensor->layout.shape : NULL;
}

const int64_t *dao_tensor_strides(const dao_tensor_t *tensor)
{
    return tensor != NULL ? tensor->layout.strides : NULL;
}

int64_t dao_tensor_count(const dao_tensor_t *tensor)
{
    return tensor != NULL ? tensor->layout.count : 0;
}

bool dao_tensor_is_contiguous(const dao_tensor_t *tensor)
{
    if (tensor == NULL || tensor->layout.count == 0) {
        return tensor != NULL;
    }
    int64_t expected = 1;
    for (int32_t i = tensor->layout.rank - 1; i >= 0; i--) {
        if (tensor->layout.shape[i] != 1) { /* the stride of a single element does not matter */
            if (tensor->layout.strides[i] != expected) {
                return false;
            }
            expected *= tensor->layout.shape[i];
        }
    }
    return true;
}

/* ---- views ---- */

/* Copies the layout that a view begins from; answers for NULL. */
static dao_status_t view_begin(const char *function, const dao_tensor_t *tensor,
                               dao_tensor_t *const *out_tensor, layout_t *out_layout)
{
    if (tensor == NULL || out_tensor == NULL) {
        return dao_error_null(function, tensor == NULL ? "tensor" : "out_tensor");
    }
    *out_layout = tensor->layout;
    return DAO_OK;
}

/* Resolves a dimension that may count from the end, among `count`. */
static dao_status_t dimension_resolve(const char *function, int32_t dimension, int32_t count,
                                      int32_t *out_dimension)
{
    int32_t resolved = dimension < 0 ? dimension + count : dimension;
    if (resolved < 0 || resolved >= count) {
        return dao_error(DAO_ERR_INVALID, "%s: there is no dimension %" PRId32 " among %" PRId32, function,
                         dimension, count);
    }
    *out_dimension = resolved;
    return DAO_OK;
}

/* Takes a dimension out of a layout. */
static void dimension_remove(layout_t *layout, int32_t dimension)
{
    for (int32_t i = dimension; i + 1 < layout->rank; i++) {
        layout->shape[i] = layout->shape[i + 1];
        layout->strides[i] = layout->strides[i + 1];
    }
    layout->rank--;
}

/* Puts a dimension of length 1 before another one. Its stride keeps a contiguous layout contiguous for all
   who look at it. */
static void dimension_insert(layout_t *layout, int32_t dimension)
{
    int64_t stride = 1;
    if (dimension < layout->rank &&
        __builtin_mul_overflow(layout->shape[dimension], layout->strides[dimension], &stride)) {
        stride = layout->strides[dimension]; /* no element is ever reached by it */
    }
    for (int32_t i = layout->rank; i > dimension; i--) {
        layout->shape[i] = layout->shape[i - 1];
        layout->strides[i] = layout->strides[i - 1];
    }
    layout->shape[dimension] = 1;
    layout->strides[dimension] = stride;
    layout->rank++;
}

dao_status_t dao_tensor_narrow(dao_tensor_t *tensor, int32_t dimension, int64_t start, int64_t length,
                               dao_tensor_t **out_tensor)
{
    static const char function[] = "dao_tensor_narrow";
    layout_t layout = {0};
    dao_status_t status;
    if ((status = view_begin(function, tensor, out_tensor, &layout)) != DAO_OK ||
        (status = dimension_resolve(function, dimension, layout.rank, &dimension)) != DAO_OK) {
        return status;
    }
    int64_t whole = layout.shape[dimension];
    if (start < 0 || length < 0 || start > whole || length > whole - start) {
        return dao_error(DAO_ERR_OUT_OF_BOUNDS,
                         "%s: [%" PRId64 ", %" PRId64 " + %" PRId64 ") of dimension %" PRId32
                         ", which has length %" PRId64,
                         function, start, start, length, dimension, whole);
    }
    layout.shape[dimension] = length;
    layout.count = layout.count == 0 ? 0 : layout.count / whole * length;
    if (layout.count > 0) { /* the new first element is one of the old ones, so nothing overflows */
        int64_t distance = start * layout.strides[dimension] * (int64_t)dao_type_size(layout.type);
        layout.offset_bytes += (size_t)distance;
    }
    return tensor_create(tensor->memory, &layout, out_tensor);
}

dao_status_t dao_tensor_permute(dao_tensor_t *tensor, const int32_t *order, dao_tensor_t **out_tensor)
{
    static const char function[] = "dao_tensor_permute";
    layout_t layout = {0};
    dao_status_t status = view_begin(function, tensor, out_tensor, &layout);
    if (status != DAO_OK) {
        return status;
    }
    if (layout.rank > 0 && order == NULL) {
        return dao_error_null(function, "order");
    }
    bool seen[DAO_TENSOR_RANK_MAX] = {false};
    for (int32_t i = 0; i < layout.rank; i++) {
        int32_t from = 0;
        status = dimension_resolve(function, order[i], layout.rank, &from);
        if (status != DAO_OK) {
            return status;
        }
        if (seen[from]) {
            return dao_error(DAO_ERR_INVALID, "%s: dimension %" PRId32 " is named twice", function, from);
        }
        seen[from] = true;
        layout.shape[i] = tensor->layout.shape[from];
        layout.strides[i] = tensor->layout.strides[from];
    }
    return tensor_create(tensor->memory, &layout, out_tensor);
}

dao_status_t dao_tensor_squeeze(dao_tensor_t *tensor, int32_t dimension, dao_tensor_t **out_tensor)
{
    static const char function[] = "dao_tensor_squeeze";
    layout_t layout = {0};
    dao_status_t status;
    if ((status = view_begin(function, tensor, out_tensor, &layout)) != DAO_OK ||
        (status = dimension_resolve(function, dimension, layout.rank, &dimension)) != DAO_OK) {
        return status;
    }
    if (layout.shape[dimension] != 1) {
        return dao_error(DAO_ERR_INVALID, "%s: dimension %" PRId32 " has length %" PRId64 ", not 1", function,
                         dimension, layout.shape[dimension]);
    }
    dimension_remove(&layout, dimension);
    return tensor_create(tensor->memory, &layout, out_tensor);
}

dao_status_t dao_tensor_unsqueeze(dao_tensor_t *tensor, int32_t dimension, dao_tensor_t **out_tensor)
{
    static const char function[] = "dao_tensor_unsqueeze";
    layout_t layout = {0};
    dao_status_t status = view_begin(function, tensor, out_tensor, &layout);
    if (status != DAO_OK) {
        return status;
    }
    if (layout.rank == DAO_TENSOR_RANK_MAX) {
        return dao_error(DAO_ERR_INVALID, "%s: the tensor has %d dimensions already", function,
                         DAO_TENSOR_RANK_MAX);
    }
    status = dimension_resolve(function, dimension, layout.rank + 1, &dimension);
    if (status != DAO_OK) {
        return status;
    }
    dimension_insert(&layout, dimension);
    return tensor_create(tensor->memory, &layout, out_tensor);
}

/* Replaces a -1 in a shape by the length that makes the number of elements `count`. */
static dao_status_t shape_infer(const char *function, int32_t rank, const int64_t *shape, int64_t count,
                                int64_t *out_shape)
{
    int32_t unknown = -1;
    int64_t known_count = 1;
    for (int32_t i = 0; i < rank; i++) {
        out_shape[i] = shape[i];
        if (shape[i] == -1 && unknown < 0) {
            unknown = i;
        } else if (shape[i] < 0) {
            return dao_error(DAO_ERR_INVALID,
                             "%s: dimension %" PRId32 " has length %" PRId64 "; one may be -1, none less",
                             function, i, shape[i]);
        } else if (__builtin_mul_overflow(known_count, shape[i], &known_count)) {
            known_count = 0; /* no tensor has so many: refused below, unless another length is 0 */
        }
    }
    if (unknown >= 0) {
        if (known_count == 0 || count % known_count != 0) {
            return dao_error(DAO_ERR_INVALID,
                             "%s: no length of dimension %" PRId32 " gives %" PRId64 " elements", function,
                             unknown, count);
        }
        out_shape[unknown] = count / known_count;
    }
    return DAO_OK;
}

/* Returns the next dimension before one that has another length than 1; -1 if there is none. */
static int32_t dimension_before(const layout_t *layout, int32_t dimension)
{
    do {
        dimension--;
    } while (dimension >= 0 && layout->shape[dimension] == 1);
    return dimension;
}

/* Takes a chunk off a layout from its fastest dimension on: dimensions that lie one behind the other in
   memory. Returns the dimension before the chunk. */
static int32_t chunk_take(const layout_t *layout, int32_t fastest, int64_t *out_count)
{
    int64_t count = layout->shape[fastest];
    int32_t before = dimension_before(layout, fastest);
    int64_t adjoining;
    while (before >= 0 && !__builtin_mul_overflow(count, layout->strides[fastest], &adjoining) &&
           layout->strides[before] == adjoining) {
        count *= layout->shape[before];
        before = dimension_before(layout, before);
    }
    *out_count = count;
    return before;
}

/* Fills a chunk of `count` elements with dimensions of a layout, from *dimension towards the slower ones. */
static bool chunk_fill(layout_t *layout, int32_t *dimension, int64_t count, int64_t stride)
{
    int64_t filled = 1;
    while (*dimension >= 0 && (filled < count || layout->shape[*dimension] == 1)) {
        int64_t *own_stride = &layout->strides[*dimension];
        (void)__builtin_mul_overflow(filled, stride,
                                     own_stride); /* if it does, no element is reached by it */
        filled *= layout->shape[*dimension];
        (*dimension)--;
    }
    return filled == count;
}

/* Finds strides for `target`'s shape over the elements of `source`, in the same order: each chunk of the
   source has to be filled exactly by dimensions of the target. Neither is empty. */
static bool strides_for_shape(const layout_t *source, layout_t *target)
{
    int32_t to = target->rank - 1;
    int32_t from = dimension_before(source, source->rank);
    while (from >= 0) {
        int64_t stride = source->strides[from];
        int64_t count;
        from = chunk_take(source, from, &count);
        if (!chunk_fill(target, &to, count, stride)) {
            return false;
        }
    }
    for (; to >= 0; to--) {
        target->strides[to] = 1; /* only lengths of 1 are left */
    }
    return true;
}

dao_status_t dao_tensor_view(dao_tensor_t *tensor, int32_t rank, const int64_t *shape,
                             dao_tensor_t **out_tensor)
{
    static const char function[] = "dao_tensor_view";
    layout_t layout = {0};
    dao_status_t status = view_begin(function, tensor, out_tensor, &layout);
    if (status != DAO_OK) {
        return status;
    }
    if (rank < 0 || rank > DAO_TENSOR_RANK_MAX || (rank > 0 && shape == NULL)) {
        return shape_store(function, rank, shape, &layout); /* names what is wrong */
    }
    int64_t whole[DAO_TENSOR_RANK_MAX];
    if ((status = shape_infer(function, rank, shape, tensor->layout.count, whole)) != DAO_OK ||
        (status = shape_store(function, rank, whole, &layout)) != DAO_OK) {
        return status == DAO_ERR_OVERFLOW ? dao_error(DAO_ERR_INVALID, "%s", dao_last_message()) : status;
    }
    if (layout.count != tensor->layout.count) {
        return dao_error(DAO_ERR_INVALID, "%s: a shape of %" PRId64 " elements for a tensor of %" PRId64,
                         function, layout.count, tensor->layout.count);
    }
    if (layout.count == 0) {
        status = strides_contiguous(function, &layout);
    } else if (!strides_for_shape(&tensor->layout, &layout)) {
        status = dao_error(DAO_ERR_UNSUPPORTED, "%s: the strides do not allow this shape without a copy",
                           function);
    }
    return status == DAO_OK ? tensor_create(tensor->memory, &layout, out_tensor) : status;
}

dao_status_t dao_tensor_as_strided(dao_tensor_t *tensor, int32_t rank, const int64_t *shape,
                                   const int64_t *strides, int64_t offset_elements, dao_tensor_t **out_tensor)
{
    static const char function[] = "dao_tensor_as_strided";
    layout_t layout = {0};
    dao_status_t status = view_begin(function, tensor, out_tensor, &layout);
    if (status != DAO_OK) {
        return status;
    }
    if (offset_elements < 0) {
        return dao_error(DAO_ERR_OUT_OF_BOUNDS, "%s: offset %" PRId64 " is before the start of the memory",
                         function, offset_elements);
    }
    int64_t offset_bytes;
    if (__builtin_mul_overflow(offset_elements, (int64_t)dao_type_size(layout.type), &offset_bytes)) {
        return overflow_error(function);
    }
    layout_t view = {.type = layout.type, .offset_bytes = (size_t)offset_bytes};
    status = layout_fill(function, rank, shape, strides, &view);
    return status == DAO_OK ? view_create(function, tensor->memory, &view, out_tensor) : status;
}
