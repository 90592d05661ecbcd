/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack: exporting tensors and importing them.

       export   exported_t: the consumer's structure, its shape and strides, and a reference to the tensor
       import   a view of a memory handle over all bytes of the elements; its deleter is the producer's

   The form before DLPack 1.0 and the one since hold the same DLTensor, in different structures. */
#include <dao/dlpack.h>

#include "base/memory/host.h"
#include "base/report/error.h"
#include "runtime/handles/memory_internal.h"
#include "runtime/handles/tensor_internal.h"
#include "runtime/start/context.h"

#include <dao/dlpack_abi.h>

#include <inttypes.h>
#include <string.h>

#define LANES_ONE 1

/* DLPack's name of each type: code and bits. */
static const struct {
    uint8_t code;
    uint8_t bits;
} type_names[] = {
    [DAO_TYPE_U8] = {kDLUInt, 8},      [DAO_TYPE_I8] = {kDLInt, 8},       [DAO_TYPE_U16] = {kDLUInt, 16},
    [DAO_TYPE_I16] = {kDLInt, 16},     [DAO_TYPE_U32] = {kDLUInt, 32},    [DAO_TYPE_I32] = {kDLInt, 32},
    [DAO_TYPE_U64] = {kDLUInt, 64},    [DAO_TYPE_I64] = {kDLInt, 64},     [DAO_TYPE_F16] = {kDLFloat, 16},
    [DAO_TYPE_BF16] = {kDLBfloat, 16}, [DAO_TYPE_F32] = {kDLFloat, 32},   [DAO_TYPE_F64] = {kDLFloat, 64},
    [DAO_TYPE_BOOL] = {kDLBool, 8},    [DAO_TYPE_C64] = {kDLComplex, 64}, [DAO_TYPE_C128] = {kDLComplex, 128},
};
#define TYPE_COUNT (sizeof(type_names) / sizeof(type_names[0]))

/* ---- out ---- */

typedef struct exported {
    union {
        DLManagedTensorVersioned versioned;
        DLManagedTensor unversioned;
    } managed;
    dao_tensor_t *tensor; /* a reference of its own */
    int64_t shape[DAO_TENSOR_RANK_MAX];
    int64_t strides[DAO_TENSOR_RANK_MAX];
} exported_t;

/* Whoever consumes is done. The reference is one of ours, so that dropping it cannot fail but in a child
   process and in callbacks of segments, which must not free: there it stays. */
static void exported_end(exported_t *exported)
{
    (void)dao_tensor_release(exported->tensor);
    dao_host_free(exported);
}

static void versioned_delete(DLManagedTensorVersioned *self)
{
    exported_end(self->manager_ctx);
}

static void unversioned_delete(DLManagedTensor *self)
{
    exported_end(self->manager_ctx);
}

/* Returns DLPack's name of the place of a memory handle. */
static dao_status_t device_name(const char *function, const dao_memory_t *memory, DLDevice *out_device)
{
    const dao_backend_ops_t *ops = dao_memory_backend(memory);
    dao_place_t place = dao_memory_place(memory);
    switch (place.kind) {
    case DAO_PLACE_KIND_CPU:
        *out_device = (DLDevice){.device_type = kDLCPU};
        return DAO_OK;
    case DAO_PLACE_KIND_PINNED: /* DLPack gives all of it number 0 */
        out_device->device_type = ops->dlpack_pinned;
        out_device->device_id = 0;
        break;
    case DAO_PLACE_KIND_DEVICE:
        out_device->device_type = ops->dlpack_device;
        out_device->device_id = place.index;
        break;
    }
    if (out_device->device_type == 0 || dao_memory_is_own(memory)) {
        char text[DAO_PLACE_TEXT_BYTES];
        return dao_error(
            DAO_ERR_UNSUPPORTED,
            "%s: other libraries cannot use %s of the backend \"%s\"; copy the tensor to the host", function,
            dao_place_format(place, text), ops->name);
    }
    return DAO_OK;
}

/* Makes the structure in which a tensor is exported, with a reference of its own. */
static dao_status_t exported_create(const char *function, dao_tensor_t *tensor, exported_t **out_exported,
                                    DLTensor *out_described)
{
    DLDevice device;
    dao_status_t status = device_name(function, dao_tensor_memory(tensor), &device);
    if (status != DAO_OK) {
        return status;
    }
    if (dao_memory_is_forked(dao_tensor_memory(tensor))) {
        return dao_error(DAO_ERR_FORKED, "%s: the tensor was made in the parent process", function);
    }
    exported_t *exported = dao_host_calloc(1, sizeof(*exported));
    if (exported == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for %zu bytes", function,
                         sizeof(*exported));
    }
    status = dao_tensor_retain(tensor);
    if (status != DAO_OK) {
        dao_host_free(exported);
        return status;
    }
    int32_t rank = dao_tensor_rank(tensor);
    exported->tensor = tensor;
    memcpy(exported->shape, dao_tensor_shape(tensor), (size_t)rank * sizeof(int64_t));
    memcpy(exported->strides, dao_tensor_strides(tensor), (size_t)rank * sizeof(int64_t));
    dao_type_t type = dao_tensor_type(tensor);
    *out_described = (DLTensor){
        .data = dao_tensor_count(tensor) > 0 ? dao_tensor_address(tensor) : NULL,
        .device = device,
        .ndim = rank,
        .dtype = {.code = type_names[type].code, .bits = type_names[type].bits, .lanes = LANES_ONE},
        .shape = exported->shape,
        .strides = exported->strides,
    };
    *out_exported = exported;
    return DAO_OK;
}

dao_status_t dao_tensor_to_dlpack(dao_tensor_t *tensor, uint32_t flags,
                                  struct DLManagedTensorVersioned **out_managed)
{
    static const char function[] = "dao_tensor_to_dlpack";
    if (tensor == NULL || out_managed == NULL) {
        return dao_error_null(function, tensor == NULL ? "tensor" : "out_managed");
    }
    if ((flags & ~(uint32_t)DAO_DLPACK_FLAG_READ_ONLY) != 0) {
        return dao_error(DAO_ERR_INVALID, "%s: flags 0x%" PRIx32 "; see dao_dlpack_flag_t", function, flags);
    }
    exported_t *exported;
    DLTensor described;
    dao_status_t status = exported_create(function, tensor, &exported, &described);
    if (status != DAO_OK) {
        return status;
    }
    exported->managed.versioned = (DLManagedTensorVersioned){
        .version = {.major = DAO_DLPACK_VERSION_MAJOR, .minor = DAO_DLPACK_VERSION_MINOR},
        .manager_ctx = exported,
        .deleter = versioned_delete,
        .flags = (flags & DAO_DLPACK_FLAG_READ_ONLY) != 0 ? DLPACK_FLAG_BITMASK_READ_ONLY : 0,
        .dl_tensor = described,
    };
    *out_managed = &exported->managed.versioned;
    return DAO_OK;
}

dao_status_t dao_tensor_to_dlpack_unversioned(dao_tensor_t *tensor, struct DLManagedTensor **out_managed)
{
    static const char function[] = "dao_tensor_to_dlpack_unversioned";
    if (tensor == NULL || out_managed == NULL) {
        return dao_error_null(function, tensor == NULL ? "tensor" : "out_managed");
    }
    exported_t *exported;
    DLTensor described;
    dao_status_t status = exported_create(function, tensor, &exported, &described);
    if (status != DAO_OK) {
        return status;
    }
    exported->managed.unversioned =
        (DLManagedTensor){.dl_tensor = described, .manager_ctx = exported, .deleter = unversioned_delete};
    *out_managed = &exported->managed.unversioned;
    return DAO_OK;
}

/* ---- in ---- */

static dao_status_t type_find(const char *function, DLDataType name, dao_type_t *out_type)
{
    for (size_t i = 0; i < TYPE_COUNT; i++) {
        if (type_names[i].code == name.code && type_names[i].bits == name.bits && name.lanes == LANES_ONE) {
            *out_type = (dao_type_t)i;
            return DAO_OK;
        }
    }
    return dao_error(DAO_ERR_UNSUPPORTED, "%s: no type for DLPack's code %u, %u bits, %u lanes", function,
                     (unsigned)name.code, (unsigned)name.bits, (unsigned)name.lanes);
}

/* Returns the place that a device of DLPack is here. */
static dao_status_t place_find(const char *function, DLDevice device, dao_place_t *out_place)
{
    dao_core_t *core;
    dao_status_t status = dao_context_enter(&core);
    if (status != DAO_OK) {
        return status;
    }
    const dao_backend_ops_t *ops = core->ops;
    int32_t type = device.device_type;
    if (type == kDLCPU) {
        *out_place = (dao_place_t){.kind = DAO_PLACE_KIND_CPU};
    } else if (type != 0 && type == ops->dlpack_pinned) {
        *out_place = (dao_place_t){.kind = DAO_PLACE_KIND_PINNED, .index = device.device_id};
    } else if (type != 0 && (type == ops->dlpack_device || type == ops->dlpack_managed)) {
        *out_place = (dao_place_t){.kind = DAO_PLACE_KIND_DEVICE, .index = device.device_id};
    } else {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "%s: the backend \"%s\" has no memory of DLPack's device type %" PRId32, function,
                         ops->name, type);
    }
    bool is_own = out_place->kind != DAO_PLACE_KIND_CPU && out_place->index >= core->device_count;
    return is_own ? dao_core_no_device(core, out_place->index) : DAO_OK; /* others know only the backend's */
}

/* Returns the bytes that an address has to be a multiple of for elements of a type: a complex number is two
   real ones. */
static size_t type_alignment(dao_type_t type)
{
    bool is_complex = type == DAO_TYPE_C64 || type == DAO_TYPE_C128;
    return is_complex ? dao_type_size(type) / 2 : dao_type_size(type);
}

/* The memory that a tensor lies in, before there is a handle to it. */
typedef struct stretch {
    dao_place_t place;
    dao_type_t type;
    void *address;
    dao_tensor_extent_t extent;
} stretch_t;

/* Checks a tensor that came in, and finds where its memory begins and ends. */
static dao_status_t stretch_find(const char *function, const DLTensor *described, stretch_t *out_stretch)
{
    stretch_t stretch = {0};
    dao_status_t status;
    if ((status = type_find(function, described->dtype, &stretch.type)) != DAO_OK ||
        (status = place_find(function, described->device, &stretch.place)) != DAO_OK ||
        (status = dao_tensor_extent_find(function, stretch.type, described->ndim, described->shape,
                                         described->strides, &stretch.extent)) != DAO_OK) {
        return status;
    }
    if (stretch.extent.size_bytes > 0) {
        uintptr_t address;
        uintptr_t end;
        if (described->data == NULL) {
            return dao_error_null(function, "data");
        }
        if (__builtin_add_overflow((uintptr_t)described->data, described->byte_offset, &address) ||
            __builtin_sub_overflow(address, stretch.extent.before_bytes, &address) ||
            __builtin_add_overflow(address, stretch.extent.size_bytes, &end)) {
            return dao_error(DAO_ERR_OUT_OF_BOUNDS, "%s: elements outside of the address space", function);
        }
        if (address % type_alignment(stretch.type) != 0) {
            return dao_error(DAO_ERR_INVALID,
                             "%s: the address of the elements is not a multiple of %zu, as %s need", function,
                             type_alignment(stretch.type), dao_type_name(stretch.type));
        }
        stretch.address = (void *)address;
    }
    *out_stretch = stretch;
    return DAO_OK;
}

/* Makes a tensor of what came in. On DAO_OK it calls `deleter` at its end, and not before. */
static dao_status_t tensor_take(const char *function, const DLTensor *described, dao_memory_deleter_t deleter,
                                void *managed, dao_tensor_t **out_tensor)
{
    stretch_t stretch = {0};
    dao_memory_t *memory;
    dao_status_t status;
    if ((status = stretch_find(function, described, &stretch)) != DAO_OK ||
        (status = dao_memory_from_pointer(stretch.place, stretch.address, stretch.extent.size_bytes, NULL,
                                          NULL, &memory)) != DAO_OK) {
        return status;
    }
    dao_tensor_t *tensor;
    status = dao_tensor_from_memory(memory, stretch.extent.before_bytes, stretch.type, described->ndim,
                                    described->shape, described->strides, &tensor);
    if (status == DAO_OK) {
        dao_memory_deleter_set(memory, deleter, managed);
    }
    dao_error_record_t record;
    dao_error_save(&record, status != DAO_OK ? status : dao_last_status());
    (void)dao_memory_release(memory); /* the tensor has its own reference, if there is one */
    (void)dao_error_restore(&record);
    if (status == DAO_OK) {
        *out_tensor = tensor;
    }
    return status;
}

static void versioned_end(void *address, size_t size_bytes, void *user)
{
    DLManagedTensorVersioned *managed = user;
    (void)address;
    (void)size_bytes;
    if (managed->deleter != NULL) {
        managed->deleter(managed);
    }
}

static void unversioned_end(void *address, size_t size_bytes, void *user)
{
    DLManagedTensor *managed = user;
    (void)address;
    (void)size_bytes;
    if (managed->deleter != NULL) {
        managed->deleter(managed);
    }
}

dao_status_t dao_tensor_from_dlpack(struct DLManagedTensorVersioned *managed, uint32_t flags,
                                    dao_tensor_t **out_tensor)
{
    static const char function[] = "dao_tensor_from_dlpack";
    if (managed == NULL || out_tensor == NULL) {
        return dao_error_null(function, managed == NULL ? "managed" : "out_tensor");
    }
    if ((flags & ~(uint32_t)DAO_DLPACK_FLAG_READ_ONLY) != 0) {
        return dao_error(DAO_ERR_INVALID, "%s: flags 0x%" PRIx32 "; see dao_dlpack_flag_t", function, flags);
    }
    if (managed->version.major != DAO_DLPACK_VERSION_MAJOR) { /* nothing else may be looked at */
        return dao_error(DAO_ERR_UNSUPPORTED, "%s: DLPack %" PRIu32 "; this library knows %d", function,
                         managed->version.major, DAO_DLPACK_VERSION_MAJOR);
    }
    if ((managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0 && (flags & DAO_DLPACK_FLAG_READ_ONLY) == 0) {
        return dao_error(DAO_ERR_INVALID,
                         "%s: nobody may write this tensor; pass DAO_DLPACK_FLAG_READ_ONLY to read it",
                         function);
    }
    return tensor_take(function, &managed->dl_tensor, versioned_end, managed, out_tensor);
}

dao_status_t dao_tensor_from_dlpack_unversioned(struct DLManagedTensor *managed, dao_tensor_t **out_tensor)
{
    static const char function[] = "dao_tensor_from_dlpack_unversioned";
    if (managed == NULL || out_tensor == NULL) {
        return dao_error_null(function, managed == NULL ? "managed" : "out_tensor");
    }
    return tensor_take(function, &managed->dl_tensor, unversioned_end, managed, out_tensor);
}
