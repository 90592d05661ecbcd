/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Tensors: views of memory with a type, a shape and strides. A view costs nothing and copies nothing.
 */
#ifndef DAO_TENSOR_H
#define DAO_TENSOR_H

#include <dao/memory.h>

DAO_BEGIN_DECLS

/** Most dimensions of a tensor. */
#define DAO_TENSOR_RANK_MAX 16

/** Element types: number, name, bytes an element, text. */
#define DAO_TYPE_LIST(X)                                                                                     \
    X(0, U8, 1, "u8")                                                                                        \
    X(1, I8, 1, "i8")                                                                                        \
    X(2, U16, 2, "u16")                                                                                      \
    X(3, I16, 2, "i16")                                                                                      \
    X(4, U32, 4, "u32")                                                                                      \
    X(5, I32, 4, "i32")                                                                                      \
    X(6, U64, 8, "u64")                                                                                      \
    X(7, I64, 8, "i64")                                                                                      \
    X(8, F16, 2, "f16")                                                                                      \
    X(9, BF16, 2, "bf16")                                                                                    \
    X(10, F32, 4, "f32")                                                                                     \
    X(11, F64, 8, "f64")                                                                                     \
    X(12, BOOL, 1, "bool")                                                                                   \
    X(13, C64, 8, "c64")                                                                                     \
    X(14, C128, 16, "c128")

typedef enum dao_type {
#define DAO_TYPE_ENUMERATOR(number, name, size, text) DAO_TYPE_##name = number,
    DAO_TYPE_LIST(DAO_TYPE_ENUMERATOR)
#undef DAO_TYPE_ENUMERATOR
} dao_type_t;

/**
 * Returns the bytes of one element; 0 for a number that is no type. Threads: any. Waits: never. Cost: O(1).
 */
DAO_API size_t dao_type_size(dao_type_t type);
/**
 * Returns the name of a type, such as "f32"; "unknown" for a number that is no type. Threads: any. Waits:
 * never. Cost: O(1).
 */
DAO_API const char *dao_type_name(dao_type_t type);

/** A counted view of a memory handle. What it shows never changes; view operations make new views. */
typedef struct dao_tensor dao_tensor_t;

/**
 * Allocates memory for a tensor, contiguous, last dimension fastest.
 *
 * @param place       Where.
 * @param type        Of the elements.
 * @param rank        0 to DAO_TENSOR_RANK_MAX; 0 is one element.
 * @param shape       `rank` numbers, each at least 0.
 * @param out_tensor  The caller owns one reference, until dao_tensor_release().
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_OVERFLOW; else as dao_memory_create().
 *
 * Threads: any. Waits: as dao_alloc(). Cost: as dao_alloc().
 */
DAO_API DAO_NODISCARD dao_status_t dao_tensor_empty(dao_place_t place, dao_type_t type, int32_t rank,
                                                    const int64_t *shape, dao_tensor_t **out_tensor);

/**
 * As dao_tensor_empty(), and every byte is zero when the call returns.
 *
 * Threads: any. Waits: until the bytes are there. Cost: the fill.
 */
DAO_API DAO_NODISCARD dao_status_t dao_tensor_zeros(dao_place_t place, dao_type_t type, int32_t rank,
                                                    const int64_t *shape, dao_tensor_t **out_tensor);

/**
 * Creates a view of a memory handle, which it keeps alive.
 *
 * @param memory        Borrowed; the tensor takes a reference of its own.
 * @param offset_bytes  Of element [0, ..., 0], from the start of `memory`; a multiple of the element's size.
 * @param type          Of the elements.
 * @param rank          0 to DAO_TENSOR_RANK_MAX; 0 is one element.
 * @param shape         `rank` numbers, each at least 0.
 * @param strides       `rank` numbers in elements, negative and 0 allowed; NULL is contiguous.
 * @param out_tensor    The caller owns one reference.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_OUT_OF_BOUNDS if any element would lie outside of `memory`;
 *         DAO_ERR_OVERFLOW; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(rank).
 */
DAO_API DAO_NODISCARD dao_status_t dao_tensor_from_memory(dao_memory_t *memory, size_t offset_bytes,
                                                          dao_type_t type, int32_t rank, const int64_t *shape,
                                                          const int64_t *strides, dao_tensor_t **out_tensor);

/** Adds a reference; as dao_memory_retain(). */
DAO_API dao_status_t dao_tensor_retain(dao_tensor_t *tensor);
/** Drops a reference; as dao_memory_release(). */
DAO_API dao_status_t dao_tensor_release(dao_tensor_t *tensor);

/** Returns the address of element [0, ..., 0]. Threads: any. Waits: never. Cost: O(1). */
DAO_API void *dao_tensor_address(const dao_tensor_t *tensor);
/** Returns the memory, borrowed. Threads: any. Waits: never. Cost: O(1). */
DAO_API dao_memory_t *dao_tensor_memory(const dao_tensor_t *tensor);
/**
 * Returns the offset of element [0, ..., 0] in the memory, in bytes. Threads: any. Waits: never. Cost: O(1).
 */
DAO_API size_t dao_tensor_offset(const dao_tensor_t *tensor);
/** Returns the element type. Threads: any. Waits: never. Cost: O(1). */
DAO_API dao_type_t dao_tensor_type(const dao_tensor_t *tensor);
/** Returns the number of dimensions. Threads: any. Waits: never. Cost: O(1). */
DAO_API int32_t dao_tensor_rank(const dao_tensor_t *tensor);
/** Returns the shape, borrowed, dao_tensor_rank() numbers. Threads: any. Waits: never. Cost: O(1). */
DAO_API const int64_t *dao_tensor_shape(const dao_tensor_t *tensor);
/**
 * Returns the strides in elements, borrowed, dao_tensor_rank() numbers. Threads: any. Waits: never. Cost:
 * O(1).
 */
DAO_API const int64_t *dao_tensor_strides(const dao_tensor_t *tensor);
/** Returns the number of elements. Threads: any. Waits: never. Cost: O(rank). */
DAO_API int64_t dao_tensor_count(const dao_tensor_t *tensor);
/**
 * Returns true if the elements lie one after the other, last dimension fastest. Threads: any. Waits: never.
 * Cost: O(rank).
 */
DAO_API bool dao_tensor_is_contiguous(const dao_tensor_t *tensor);

/**
 * View: the part [start, start + length) of one dimension.
 *
 * @param tensor      Borrowed; the view keeps its memory alive.
 * @param dimension   0 to rank - 1; negative counts from the end.
 * @param start       First index of the part, at least 0.
 * @param length      Indices of the part, at least 0.
 * @param out_tensor  The caller owns one reference, until dao_tensor_release().
 * @return DAO_OK; DAO_ERR_INVALID for the dimension; DAO_ERR_OUT_OF_BOUNDS; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(rank).
 */
DAO_API DAO_NODISCARD dao_status_t dao_tensor_narrow(dao_tensor_t *tensor, int32_t dimension, int64_t start,
                                                     int64_t length, dao_tensor_t **out_tensor);
/**
 * View: dimension i of the result is dimension order[i] of the tensor; each exactly once. Errors, threads,
 * cost as dao_tensor_narrow().
 */
DAO_API DAO_NODISCARD dao_status_t dao_tensor_permute(dao_tensor_t *tensor, const int32_t *order,
                                                      dao_tensor_t **out_tensor);
/** View: without one dimension, which has length 1. Errors, threads, cost as dao_tensor_narrow(). */
DAO_API DAO_NODISCARD dao_status_t dao_tensor_squeeze(dao_tensor_t *tensor, int32_t dimension,
                                                      dao_tensor_t **out_tensor);
/**
 * View: with a new dimension of length 1 before `dimension` (0 to rank). Errors, threads, cost as
 * dao_tensor_narrow().
 */
DAO_API DAO_NODISCARD dao_status_t dao_tensor_unsqueeze(dao_tensor_t *tensor, int32_t dimension,
                                                        dao_tensor_t **out_tensor);
/**
 * View: another shape over the same elements in the same order; one dimension may be -1 and is worked out.
 *
 * @return DAO_OK; DAO_ERR_INVALID if the number of elements differs; DAO_ERR_UNSUPPORTED if the strides do
 *         not allow it without a copy; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(rank).
 */
DAO_API DAO_NODISCARD dao_status_t dao_tensor_view(dao_tensor_t *tensor, int32_t rank, const int64_t *shape,
                                                   dao_tensor_t **out_tensor);
/**
 * View: any shape and strides (in elements) from an offset in elements from the start of the memory. Errors
 * as dao_tensor_from_memory().
 */
DAO_API DAO_NODISCARD dao_status_t dao_tensor_as_strided(dao_tensor_t *tensor, int32_t rank,
                                                         const int64_t *shape, const int64_t *strides,
                                                         int64_t offset_elements, dao_tensor_t **out_tensor);

DAO_END_DECLS

#endif
