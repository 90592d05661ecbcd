/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * DLPack's structures as DLPack 1.x lays them out, under DLPack's own names, for programs that have not
 * its header. One that has it includes <dlpack/dlpack.h> instead of this file, or before it: then this file
 * only checks that they agree. dao/dao.h does not include it.
 */
#ifndef DAO_DLPACK_ABI_H
#define DAO_DLPACK_ABI_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#ifndef DLPACK_DLPACK_H_

/** Where memory is. Types that are not named here belong to backends that this library has not. */
enum {
    kDLCPU = 1,
    kDLCUDA = 2,
    kDLCUDAHost = 3,
    kDLROCM = 10,
    kDLROCMHost = 11,
    kDLCUDAManaged = 13,
};

/** What an element is, with the number of its bits. Later codes are for elements of less than two bytes. */
enum {
    kDLInt = 0,
    kDLUInt = 1,
    kDLFloat = 2,
    kDLOpaqueHandle = 3,
    kDLBfloat = 4,
    kDLComplex = 5,
    kDLBool = 6,
};

#define DLPACK_FLAG_BITMASK_READ_ONLY (UINT64_C(1) << 0)
#define DLPACK_FLAG_BITMASK_IS_COPIED (UINT64_C(1) << 1)

typedef struct DLPackVersion {
    uint32_t major; /**< another one: nothing behind `deleter` may be read */
    uint32_t minor;
} DLPackVersion;

typedef struct DLDevice {
    int32_t device_type;
    int32_t device_id; /**< 0 for memory of the host */
} DLDevice;

typedef struct DLDataType {
    uint8_t code;
    uint8_t bits;   /**< of one lane */
    uint16_t lanes; /**< 1, but for vectors */
} DLDataType;

typedef struct DLTensor {
    void *data; /**< NULL without elements */
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape;       /**< ndim numbers */
    int64_t *strides;     /**< ndim numbers, in elements; before 1.2 NULL is contiguous */
    uint64_t byte_offset; /**< from data to element [0, ..., 0] */
} DLTensor;

/** The form of before 1.0. In Python a capsule "dltensor". */
typedef struct DLManagedTensor {
    DLTensor dl_tensor;
    void *manager_ctx;                             /**< the producer's own */
    void (*deleter)(struct DLManagedTensor *self); /**< frees self, too; may be NULL */
} DLManagedTensor;

/** The form since 1.0. In Python a capsule "dltensor_versioned". */
typedef struct DLManagedTensorVersioned {
    DLPackVersion version;
    void *manager_ctx;                                      /**< the producer's own */
    void (*deleter)(struct DLManagedTensorVersioned *self); /**< frees self, too; may be NULL */
    uint64_t flags;                                         /**< DLPACK_FLAG_BITMASK_ */
    DLTensor dl_tensor;
} DLManagedTensorVersioned;

#endif

#if UINTPTR_MAX == UINT64_MAX
static_assert(sizeof(DLDevice) == 8 && sizeof(DLDataType) == 4, "DLPack's layout");
static_assert(offsetof(DLTensor, data) == 0 && offsetof(DLTensor, device) == 8 &&
                  offsetof(DLTensor, ndim) == 16 && offsetof(DLTensor, dtype) == 20 &&
                  offsetof(DLTensor, shape) == 24 && offsetof(DLTensor, strides) == 32 &&
                  offsetof(DLTensor, byte_offset) == 40 && sizeof(DLTensor) == 48,
              "DLPack's layout");
static_assert(offsetof(DLManagedTensor, dl_tensor) == 0 && offsetof(DLManagedTensor, manager_ctx) == 48 &&
                  offsetof(DLManagedTensor, deleter) == 56 && sizeof(DLManagedTensor) == 64,
              "DLPack's layout");
static_assert(offsetof(DLManagedTensorVersioned, version) == 0 &&
                  offsetof(DLManagedTensorVersioned, manager_ctx) == 8 &&
                  offsetof(DLManagedTensorVersioned, deleter) == 16 &&
                  offsetof(DLManagedTensorVersioned, flags) == 24 &&
                  offsetof(DLManagedTensorVersioned, dl_tensor) == 32 &&
                  sizeof(DLManagedTensorVersioned) == 80,
              "DLPack's layout");
#endif

#endif
