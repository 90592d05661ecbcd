/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * DLPack: tensors of other libraries as ours, and ours as theirs, without a copy.
 * https://dmlc.github.io/dlpack
 *
 *     place                     DLPack's device types
 *     cpu                       kDLCPU
 *     pinned, cpu backend       kDLCPU
 *     pinned, cuda and hip      kDLCUDAHost, kDLROCMHost
 *     device, cuda and hip      kDLCUDA (kDLCUDAManaged comes in, too), kDLROCM
 *     device, cpu backend       none: a virtual device's memory follows its streams, which others do not know
 *
 * DLPack knows nothing of streams. Before a tensor of a device is exported, the consumer's stream has to wait
 * for the work that writes it. Before the consumer calls the deleter, name with dao_record_stream() the other
 * streams that still use it, or make the memory's stream (dao_memory_stream()) wait for them.
 *
 * Memory without a type is exported as a tensor of bytes, see dao_tensor_from_memory(). The memory of an
 * imported tensor is dao_tensor_memory(). dao_copy() takes device and pinned memory of the library alone;
 * dao_stream_copy() takes any.
 *
 * DLPack's structures are only named here. Their bodies are in DLPack's own header, or in dao/dlpack_abi.h.
 */
#ifndef DAO_DLPACK_H
#define DAO_DLPACK_H

#include <dao/tensor.h>

/* DLPack's names: see dao/dlpack_abi.h. */
struct DLManagedTensor;
struct DLManagedTensorVersioned;

DAO_BEGIN_DECLS

/**
 * The version that is written: the oldest with everything that is used. What is read has to have the same
 * major version.
 */
#define DAO_DLPACK_VERSION_MAJOR 1
#define DAO_DLPACK_VERSION_MINOR 0

/** How a tensor is exported or imported. */
typedef enum dao_dlpack_flag {
    /** export: the consumer may not write; import: a tensor that may not be written is accepted */
    DAO_DLPACK_FLAG_READ_ONLY = 1u << 0,
} dao_dlpack_flag_t;

/**
 * Passes a tensor to another library, without a copy. Its memory lives until the consumer has called the
 * deleter, which any thread may do, after dao_finalize() too.
 *
 * @param tensor       Borrowed; what is given out has a reference of its own.
 * @param flags        Of dao_dlpack_flag_t.
 * @param out_managed  The caller owns it, until it calls out_managed->deleter or hands it to a consumer that
 *                     does.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_UNSUPPORTED for memory of a virtual device: copy it to the host;
 *         DAO_ERR_NO_HOST_MEMORY; DAO_ERR_FORKED.
 *
 * Threads: any. Waits: never. Cost: O(rank).
 */
DAO_API DAO_NODISCARD dao_status_t dao_tensor_to_dlpack(dao_tensor_t *tensor, uint32_t flags,
                                                        struct DLManagedTensorVersioned **out_managed);

/**
 * Imports a tensor of another library, without a copy. Views work as on any other tensor. When the last one
 * is released, the producer's deleter is called, once.
 *
 * @param managed     Taken over on DAO_OK. On failure it is still the caller's and was not changed: its
 *                    deleter is to be called.
 * @param flags       Of dao_dlpack_flag_t.
 * @param out_tensor  The caller owns one reference.
 * @return DAO_OK; DAO_ERR_INVALID for a NULL where there are elements or dimensions, a negative length, too
 *         many dimensions, an address that is not aligned to its type, and a read-only tensor without
 *         DAO_DLPACK_FLAG_READ_ONLY; DAO_ERR_UNSUPPORTED for another major version, a type that dao_type_t
 *         has not, several lanes, and a device type that the backend has not; DAO_ERR_OVERFLOW for a shape or
 *         strides that do not fit 64 bits; DAO_ERR_OUT_OF_BOUNDS for elements outside of the address space;
 *         DAO_ERR_NO_DEVICE; DAO_ERR_NO_HOST_MEMORY; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: O(rank).
 */
DAO_API DAO_NODISCARD dao_status_t dao_tensor_from_dlpack(struct DLManagedTensorVersioned *managed,
                                                          uint32_t flags, dao_tensor_t **out_tensor);

/**
 * As dao_tensor_to_dlpack(), in the form before DLPack 1.0, which has no version and no read-only flag.
 */
DAO_API DAO_NODISCARD dao_status_t dao_tensor_to_dlpack_unversioned(dao_tensor_t *tensor,
                                                                    struct DLManagedTensor **out_managed);

/** As dao_tensor_from_dlpack(), from the form before DLPack 1.0. */
DAO_API DAO_NODISCARD dao_status_t dao_tensor_from_dlpack_unversioned(struct DLManagedTensor *managed,
                                                                      dao_tensor_t **out_tensor);

DAO_END_DECLS

#endif
