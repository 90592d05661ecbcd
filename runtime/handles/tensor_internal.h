/* SPDX-License-Identifier: Apache-2.0 */
/* What dlpack.c needs of tensors beyond their public face. */
#ifndef DAO_RUNTIME_TENSOR_INTERNAL_H
#define DAO_RUNTIME_TENSOR_INTERNAL_H

#include <dao/tensor.h>

/* The bytes from the lowest element to the highest. All is 0 where there are no elements. */
typedef struct dao_tensor_extent {
    size_t before_bytes; /* of these, what lies before element [0, ..., 0] */
    size_t size_bytes;
} dao_tensor_extent_t;

/* Finds the extent of what nobody has checked; strides NULL is contiguous. DAO_ERR_INVALID and
   DAO_ERR_OVERFLOW as dao_tensor_from_memory(); `function` is for the message. */
DAO_NODISCARD dao_status_t dao_tensor_extent_find(const char *function, dao_type_t type, int32_t rank,
                                                  const int64_t *shape, const int64_t *strides,
                                                  dao_tensor_extent_t *out_extent);

#endif
