/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack: what goes out is what the tensor is, what comes in is what the producer has, and each deleter runs
   once. */
#include <dao/context.h>
#include <dao/dlpack.h>
#include <dao/dlpack_abi.h>
#include <dao/stream.h>

#include "base/report/fault.h"
#include "runtime/start/context.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROUNDS        300
#define PRODUCER_RANK 4
#define PRODUCER_SIDE 5

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};

/* The built backend, as one whose memory other libraries can use. */
#define DEVICE_TYPE  12
#define MANAGED_TYPE 14
#define PINNED_TYPE  16
static dao_backend_ops_t table;

static int runtime_start(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    return dao_init(&config) != DAO_OK;
}

static int shared_start(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    table = *dao_backend_ops();
    table.dlpack_device = DEVICE_TYPE;
    table.dlpack_managed = MANAGED_TYPE;
    table.dlpack_pinned = PINNED_TYPE;
    return dao_context_start(&config, &table) != DAO_OK;
}

static int runtime_stop(void)
{
    return dao_finalize() != DAO_OK;
}

/* ---- a producer that counts ---- */

static unsigned deleted_count;

static void versioned_deleter(DLManagedTensorVersioned *self)
{
    (void)self;
    deleted_count++;
}

static void unversioned_deleter(DLManagedTensor *self)
{
    (void)self;
    deleted_count++;
}

static float numbers[256];
static int64_t producer_shape[] = {4, 6};
static int64_t producer_strides[] = {6, 1};

static DLTensor produced(void)
{
    return (DLTensor){.data = numbers,
                      .device = {.device_type = kDLCPU},
                      .ndim = 2,
                      .dtype = {.code = kDLFloat, .bits = 32, .lanes = 1},
                      .shape = producer_shape,
                      .strides = producer_strides};
}

static DLManagedTensorVersioned produced_versioned(void)
{
    return (DLManagedTensorVersioned){
        .version = {.major = 1, .minor = 3}, .deleter = versioned_deleter, .dl_tensor = produced()};
}

/* ---- out ---- */

static void a_tensor_goes_out_as_it_is(void)
{
    static const DLDataType names[] = {
        [DAO_TYPE_U8] = {1, 8, 1},    [DAO_TYPE_I8] = {0, 8, 1},   [DAO_TYPE_U16] = {1, 16, 1},
        [DAO_TYPE_I16] = {0, 16, 1},  [DAO_TYPE_U32] = {1, 32, 1}, [DAO_TYPE_I32] = {0, 32, 1},
        [DAO_TYPE_U64] = {1, 64, 1},  [DAO_TYPE_I64] = {0, 64, 1}, [DAO_TYPE_F16] = {2, 16, 1},
        [DAO_TYPE_BF16] = {4, 16, 1}, [DAO_TYPE_F32] = {2, 32, 1}, [DAO_TYPE_F64] = {2, 64, 1},
        [DAO_TYPE_BOOL] = {6, 8, 1},  [DAO_TYPE_C64] = {5, 64, 1}, [DAO_TYPE_C128] = {5, 128, 1},
    };
    int64_t shape[] = {3, 4, 5};
    int32_t order[] = {2, 0, 1};
    for (size_t type = 0; type < sizeof(names) / sizeof(names[0]); type++) {
        dao_tensor_t *whole = NULL;
        dao_tensor_t *view = NULL;
        DLManagedTensorVersioned *managed = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_tensor_zeros(host, (dao_type_t)type, 3, shape, &whole), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_tensor_permute(whole, order, &view), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_tensor_to_dlpack(view, 0, &managed), DAO_OK);
        DLTensor *tensor = &managed->dl_tensor;
        CU_ASSERT_EQUAL(managed->version.major, 1);
        CU_ASSERT_EQUAL(managed->version.minor, 0);
        CU_ASSERT_EQUAL(managed->flags, 0);
        CU_ASSERT_PTR_EQUAL((char *)tensor->data + tensor->byte_offset, dao_tensor_address(view));
        CU_ASSERT_EQUAL(tensor->device.device_type, kDLCPU);
        CU_ASSERT_EQUAL(tensor->device.device_id, 0);
        CU_ASSERT_EQUAL(memcmp(&tensor->dtype, &names[type], sizeof(names[type])), 0);
        CU_ASSERT_EQUAL(tensor->ndim, 3);
        CU_ASSERT_EQUAL(memcmp(tensor->shape, dao_tensor_shape(view), sizeof(shape)), 0);
        CU_ASSERT_EQUAL(memcmp(tensor->strides, dao_tensor_strides(view), sizeof(shape)), 0);
        CU_ASSERT_EQUAL(dao_tensor_release(view), DAO_OK);
        CU_ASSERT_EQUAL(dao_tensor_release(whole), DAO_OK);
        memset(tensor->data, 1, 60 * dao_type_size((dao_type_t)type)); /* it is there still */
        managed->deleter(managed);
    }
    CU_ASSERT_EQUAL(dao_used(host), 0);
}

static void without_elements_there_is_no_data(void)
{
    int64_t shape[] = {3, 0};
    dao_tensor_t *tensor = NULL;
    DLManagedTensor *managed = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_tensor_zeros(host, DAO_TYPE_F32, 2, shape, &tensor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_tensor_to_dlpack_unversioned(tensor, &managed), DAO_OK);
    CU_ASSERT_PTR_NULL(managed->dl_tensor.data);
    CU_ASSERT_EQUAL(managed->dl_tensor.ndim, 2);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_tensor_from_dlpack_unversioned(managed, &tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_count(tensor), 0);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_tensor_zeros(host, DAO_TYPE_F32, 0, NULL, &tensor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_tensor_to_dlpack_unversioned(tensor, &managed), DAO_OK);
    CU_ASSERT_PTR_EQUAL(managed->dl_tensor.data, dao_tensor_address(tensor)); /* one element, no dimension */
    managed->deleter(managed);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
}

static void read_only_is_said_and_asked(void)
{
    int64_t shape[] = {8};
    dao_tensor_t *tensor = NULL;
    dao_tensor_t *back = NULL;
    DLManagedTensorVersioned *managed = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_tensor_zeros(host, DAO_TYPE_F32, 1, shape, &tensor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_tensor_to_dlpack(tensor, DAO_DLPACK_FLAG_READ_ONLY, &managed), DAO_OK);
    CU_ASSERT_EQUAL(managed->flags, DLPACK_FLAG_BITMASK_READ_ONLY);
    CU_ASSERT_EQUAL(dao_tensor_from_dlpack(managed, 0, &back), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL_FATAL(dao_tensor_from_dlpack(managed, DAO_DLPACK_FLAG_READ_ONLY, &back), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_release(back), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
}

static void a_virtual_device_stays_at_home(void)
{
    int64_t shape[] = {8};
    dao_tensor_t *tensor = NULL;
    DLManagedTensorVersioned *managed = NULL;
    DLManagedTensor *unversioned = NULL;
    CU_ASSERT_EQUAL_FATAL(
        dao_tensor_empty(dao_place_of(dao_device_place(0)), DAO_TYPE_F32, 1, shape, &tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_to_dlpack(tensor, 0, &managed), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "device:0"));
    CU_ASSERT_EQUAL(dao_tensor_to_dlpack_unversioned(tensor, &unversioned), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(
        dao_tensor_empty(dao_place_of(dao_pinned_place(1)), DAO_TYPE_F32, 1, shape, &tensor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_tensor_to_dlpack(tensor, 0, &managed), DAO_OK);
    CU_ASSERT_EQUAL(managed->dl_tensor.device.device_type,
                    kDLCPU); /* pinned memory of virtual devices is plain */
    managed->deleter(managed);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
}

/* ---- in ---- */

/* A random layout over the guarded bytes, with steps both ways. Its lowest element is at the first byte
   behind the guard. */
typedef struct producer {
    int64_t shape[PRODUCER_RANK];
    int64_t strides[PRODUCER_RANK];
    int64_t before; /* elements before [0, ..., 0] */
    int64_t span;   /* elements from the lowest to the highest */
} producer_t;

static producer_t producer_random(uint64_t *seed)
{
    producer_t producer = {.span = 1};
    for (int i = 0; i < PRODUCER_RANK; i++) {
        int64_t length = 1 + (int64_t)(dao_random_next(seed) % PRODUCER_SIDE);
        int64_t stride = (int64_t)(dao_random_next(seed) % (2 * PRODUCER_SIDE)) - PRODUCER_SIDE;
        producer.shape[i] = length;
        producer.strides[i] = stride;
        producer.before += stride < 0 ? (length - 1) * -stride : 0;
        producer.span += (length - 1) * (stride < 0 ? -stride : stride);
    }
    return producer;
}

static void what_comes_in_is_where_it_was(void)
{
    uint64_t seed = dao_test_seed("dlpack", 0x0d1);
    static int32_t elements[1 + 2 * PRODUCER_RANK * PRODUCER_SIDE * PRODUCER_SIDE];
    for (int round = 0; round < ROUNDS; round++) {
        producer_t producer = producer_random(&seed);
        uint64_t byte_offset = 4 * (dao_random_next(&seed) % 3);
        char *origin = (char *)(elements + producer.before);
        DLManagedTensorVersioned managed = produced_versioned();
        managed.dl_tensor.data = (void *)((uintptr_t)origin - byte_offset);
        managed.dl_tensor.byte_offset = byte_offset;
        managed.dl_tensor.ndim = PRODUCER_RANK;
        managed.dl_tensor.dtype = (DLDataType){.code = kDLInt, .bits = 32, .lanes = 1};
        managed.dl_tensor.shape = producer.shape;
        managed.dl_tensor.strides = producer.strides;
        dao_tensor_t *tensor = NULL;
        deleted_count = 0;
        CU_ASSERT_EQUAL_FATAL(dao_tensor_from_dlpack(&managed, 0, &tensor), DAO_OK);
        CU_ASSERT_PTR_EQUAL(dao_tensor_address(tensor), origin);
        CU_ASSERT_PTR_EQUAL(dao_memory_address(dao_tensor_memory(tensor)), elements);
        CU_ASSERT_EQUAL(dao_memory_size(dao_tensor_memory(tensor)),
                        (size_t)producer.span * sizeof(elements[0]));
        CU_ASSERT_EQUAL(memcmp(dao_tensor_strides(tensor), producer.strides, sizeof(producer.strides)), 0);
        CU_ASSERT_EQUAL(dao_tensor_type(tensor), DAO_TYPE_I32);
        CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
        CU_ASSERT_EQUAL(deleted_count, 1);
    }
}

static void a_view_holds_back_the_deleter(void)
{
    DLManagedTensorVersioned managed = produced_versioned();
    managed.dl_tensor.strides = NULL; /* of before 1.2: contiguous */
    dao_tensor_t *tensor = NULL;
    dao_tensor_t *view = NULL;
    deleted_count = 0;
    CU_ASSERT_EQUAL_FATAL(dao_tensor_from_dlpack(&managed, 0, &tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_strides(tensor)[0], 6);
    CU_ASSERT_EQUAL_FATAL(dao_tensor_narrow(tensor, 0, 3, 1, &view), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL(deleted_count, 0);
    CU_ASSERT_PTR_EQUAL(dao_tensor_address(view), &numbers[18]);
    CU_ASSERT_EQUAL(dao_tensor_release(view), DAO_OK);
    CU_ASSERT_EQUAL(deleted_count, 1);
}

/* Takes what is wrong; it has to be refused and left alone. */
static void refused(DLManagedTensorVersioned managed, dao_status_t expected)
{
    DLManagedTensorVersioned before = managed;
    dao_tensor_t *tensor = NULL;
    deleted_count = 0;
    CU_ASSERT_EQUAL(dao_tensor_from_dlpack(&managed, 0, &tensor), expected);
    CU_ASSERT_PTR_NULL(tensor);
    CU_ASSERT_EQUAL(deleted_count, 0);
    CU_ASSERT_EQUAL(memcmp(&managed, &before, sizeof(managed)), 0);
}

/* A complex number lies as its two real ones do. */
static void complex_numbers_lie_as_real_ones(void)
{
    for (unsigned bits = 64; bits <= 128; bits *= 2) {
        DLManagedTensorVersioned managed = produced_versioned();
        dao_tensor_t *tensor = NULL;
        size_t real_bytes = bits / 16;
        managed.dl_tensor.dtype = (DLDataType){kDLComplex, (uint8_t)bits, 1};
        managed.dl_tensor.data = (char *)numbers + real_bytes;
        CU_ASSERT_EQUAL_FATAL(dao_tensor_from_dlpack(&managed, 0, &tensor), DAO_OK);
        CU_ASSERT_EQUAL(dao_tensor_type(tensor), bits == 64 ? DAO_TYPE_C64 : DAO_TYPE_C128);
        CU_ASSERT_PTR_EQUAL(dao_tensor_address(tensor), managed.dl_tensor.data);
        CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
        managed.dl_tensor.data = (char *)numbers + real_bytes / 2;
        refused(managed, DAO_ERR_INVALID);
    }
}

static void a_deleter_may_be_missing(void)
{
    DLManagedTensorVersioned managed = produced_versioned();
    DLManagedTensor unversioned = {.dl_tensor = produced()};
    dao_tensor_t *tensor = NULL;
    managed.deleter = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_tensor_from_dlpack(&managed, 0, &tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_tensor_from_dlpack_unversioned(&unversioned, &tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
    unversioned.deleter = unversioned_deleter;
    deleted_count = 0;
    CU_ASSERT_EQUAL_FATAL(dao_tensor_from_dlpack_unversioned(&unversioned, &tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL(deleted_count, 1);
}

static void wrong_types_and_versions_are_refused(void)
{
    static const DLDataType wrong[] = {{kDLFloat, 32, 2}, {kDLFloat, 8, 1}, {kDLOpaqueHandle, 64, 1},
                                       {kDLInt, 4, 1},    {kDLBool, 1, 1},  {kDLBfloat, 32, 1},
                                       {99, 32, 1},       {kDLInt, 32, 0}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        DLManagedTensorVersioned managed = produced_versioned();
        managed.dl_tensor.dtype = wrong[i];
        refused(managed, DAO_ERR_UNSUPPORTED);
    }
    DLManagedTensorVersioned managed = produced_versioned();
    managed.version.major = 2;
    refused(managed, DAO_ERR_UNSUPPORTED);
    managed = produced_versioned();
    managed.dl_tensor.device.device_type = kDLROCM;
    refused(managed, DAO_ERR_UNSUPPORTED);
    managed.dl_tensor.device.device_type = 0;
    refused(managed, DAO_ERR_UNSUPPORTED);
}

static void wrong_layouts_are_refused(void)
{
    int64_t negative[] = {4, -1};
    int64_t huge[] = {INT64_MAX, 2};
    DLManagedTensorVersioned managed = produced_versioned();
    managed.dl_tensor.data = NULL;
    refused(managed, DAO_ERR_INVALID);
    managed = produced_versioned();
    managed.dl_tensor.byte_offset = 2; /* between two floats */
    refused(managed, DAO_ERR_INVALID);
    managed.dl_tensor.byte_offset = UINT64_MAX - 3;
    refused(managed, DAO_ERR_OUT_OF_BOUNDS);
    managed = produced_versioned();
    managed.dl_tensor.shape = negative;
    refused(managed, DAO_ERR_INVALID);
    managed.dl_tensor.shape = huge;
    refused(managed, DAO_ERR_OVERFLOW);
    managed.dl_tensor.shape = NULL;
    refused(managed, DAO_ERR_INVALID);
    managed = produced_versioned();
    managed.dl_tensor.ndim = DAO_TENSOR_RANK_MAX + 1;
    refused(managed, DAO_ERR_INVALID);
    managed.dl_tensor.ndim = -1;
    refused(managed, DAO_ERR_INVALID);
    int64_t before_all[] = {-INT64_MAX / 16, 1};
    managed = produced_versioned();
    managed.dl_tensor.strides = before_all;
    refused(managed, DAO_ERR_OUT_OF_BOUNDS);
    int64_t far[] = {INT64_MAX, INT64_MAX};
    managed.dl_tensor.strides = far;
    refused(managed, DAO_ERR_OVERFLOW);
    int64_t two[] = {2, 2}, both_ways[] = {INT64_MIN, INT64_MAX};
    managed.dl_tensor.dtype = (DLDataType){kDLUInt, 8, 1};
    managed.dl_tensor.shape = two;
    managed.dl_tensor.strides = both_ways; /* all addresses and a byte more */
    refused(managed, DAO_ERR_OVERFLOW);
}

static void a_forked_child_exports_nothing(void)
{
    int64_t shape[] = {2, 3};
    dao_tensor_t *tensor = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_tensor_empty(host, DAO_TYPE_F32, 2, shape, &tensor), DAO_OK);
    pid_t child = fork();
    if (child == 0) {
        DLManagedTensorVersioned *exported = NULL;
        bool is_right = dao_tensor_to_dlpack(tensor, 0, &exported) == DAO_ERR_FORKED && exported == NULL;
        _exit(is_right ? 0 : 1);
    }
    int status = -1;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
}

static void bad_arguments_are_named(void)
{
    DLManagedTensorVersioned managed = produced_versioned();
    DLManagedTensorVersioned *out = NULL;
    DLManagedTensor *unversioned = NULL;
    dao_tensor_t *tensor = NULL;
    CU_ASSERT_EQUAL(dao_tensor_to_dlpack(NULL, 0, &out), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_to_dlpack_unversioned(NULL, &unversioned), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_from_dlpack(NULL, 0, &tensor), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_from_dlpack(&managed, 0, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_from_dlpack(&managed, 2, &tensor), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_from_dlpack_unversioned(NULL, &tensor), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "managed is NULL"));
    DLManagedTensor old = {.dl_tensor = produced()};
    CU_ASSERT_EQUAL(dao_tensor_from_dlpack_unversioned(&old, NULL), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "out_tensor is NULL"));
    CU_ASSERT_EQUAL_FATAL(dao_tensor_from_dlpack(&managed, 0, &tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_to_dlpack(tensor, 2, &out), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_to_dlpack(tensor, 0, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_to_dlpack_unversioned(tensor, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
}

static void a_deleter_works_after_the_library_stopped(void)
{
    int64_t shape[] = {8};
    dao_tensor_t *tensor = NULL;
    DLManagedTensorVersioned *managed = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_tensor_zeros(host, DAO_TYPE_F32, 1, shape, &tensor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_tensor_to_dlpack(tensor, 0, &managed), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY);
    managed->deleter(managed);
    CU_ASSERT_EQUAL_FATAL(runtime_start(), 0);
}

#if defined(DAO_FAULTS)
static void any_missing_resource_is_answered(void)
{
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    uint64_t n;
    for (n = 0; status != DAO_OK; n++) {
        DLManagedTensorVersioned managed = produced_versioned();
        dao_tensor_t *tensor = NULL;
        deleted_count = 0;
        dao_fault_arm(DAO_FAULT_ANY, n, false);
        status = dao_tensor_from_dlpack(&managed, 0, &tensor);
        (void)dao_fault_disarm();
        CU_ASSERT_EQUAL(deleted_count, 0);
        CU_ASSERT_EQUAL(status == DAO_OK, tensor != NULL);
        CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
        CU_ASSERT_EQUAL(deleted_count, status == DAO_OK);
    }
    CU_ASSERT_EQUAL(n, 3); /* a memory handle and a tensor were refused before */
    int64_t shape[] = {8};
    dao_tensor_t *tensor = NULL;
    DLManagedTensor *managed = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_tensor_zeros(host, DAO_TYPE_F32, 1, shape, &tensor), DAO_OK);
    dao_fault_arm(DAO_FAULT_ANY, 0, false);
    CU_ASSERT_EQUAL(dao_tensor_to_dlpack_unversioned(tensor, &managed), DAO_ERR_NO_HOST_MEMORY);
    (void)dao_fault_disarm();
    CU_ASSERT_PTR_NULL(managed);
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(host), 0);
}
#endif

/* ---- devices that others can use ---- */

static void places_have_names(void)
{
    static const struct {
        dao_place_t place;
        DLDevice name;
    } rows[] = {
        {{DAO_PLACE_KIND_DEVICE, 1}, {DEVICE_TYPE, 1}},
        {{DAO_PLACE_KIND_PINNED, 1}, {PINNED_TYPE, 0}},
        {{DAO_PLACE_KIND_CPU, 0}, {kDLCPU, 0}},
    };
    int64_t shape[] = {8};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        dao_tensor_t *tensor = NULL;
        DLManagedTensorVersioned *managed = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_tensor_empty(rows[i].place, DAO_TYPE_F32, 1, shape, &tensor), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_tensor_to_dlpack(tensor, 0, &managed), DAO_OK);
        CU_ASSERT_EQUAL(managed->dl_tensor.device.device_type, rows[i].name.device_type);
        CU_ASSERT_EQUAL(managed->dl_tensor.device.device_id, rows[i].name.device_id);
        CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_tensor_from_dlpack(managed, 0, &tensor), DAO_OK);
        CU_ASSERT_EQUAL(dao_memory_place(dao_tensor_memory(tensor)).kind, rows[i].place.kind);
        CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
    }
}

static void managed_memory_comes_in_as_a_device(void)
{
    DLManagedTensorVersioned managed = produced_versioned();
    dao_tensor_t *tensor = NULL;
    managed.dl_tensor.device = (DLDevice){MANAGED_TYPE, 1};
    CU_ASSERT_EQUAL_FATAL(dao_tensor_from_dlpack(&managed, 0, &tensor), DAO_OK);
    CU_ASSERT_TRUE(
        dao_place_equal(dao_memory_place(dao_tensor_memory(tensor)), dao_place_of(dao_device_place(1))));
    CU_ASSERT_EQUAL(dao_tensor_release(tensor), DAO_OK);
    managed.dl_tensor.device.device_id = 2;
    refused(managed, DAO_ERR_NO_DEVICE);
    managed.dl_tensor.device.device_id = -1;
    refused(managed, DAO_ERR_NO_DEVICE);
}

static CU_TestInfo host_tests[] = {
    {"a tensor goes out as it is", a_tensor_goes_out_as_it_is},
    {"without elements there is no data", without_elements_there_is_no_data},
    {"read-only is said and asked", read_only_is_said_and_asked},
    {"a virtual device stays at home", a_virtual_device_stays_at_home},
    {"what comes in is where it was", what_comes_in_is_where_it_was},
    {"a view holds back the deleter", a_view_holds_back_the_deleter},
    {"complex numbers lie as real ones", complex_numbers_lie_as_real_ones},
    {"a deleter may be missing", a_deleter_may_be_missing},
    {"wrong types and versions are refused", wrong_types_and_versions_are_refused},
    {"wrong layouts are refused", wrong_layouts_are_refused},
    {"a forked child exports nothing", a_forked_child_exports_nothing},
    {"bad arguments are named", bad_arguments_are_named},
    {"a deleter works after the library stopped", a_deleter_works_after_the_library_stopped},
#if defined(DAO_FAULTS)
    {"any missing resource is answered", any_missing_resource_is_answered},
#endif
    CU_TEST_INFO_NULL,
};
static CU_TestInfo device_tests[] = {
    {"places have names", places_have_names},
    {"managed memory comes in as a device", managed_memory_comes_in_as_a_device},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"dlpack", runtime_start, runtime_stop, NULL, NULL, host_tests},
                             {"dlpack with devices", shared_start, runtime_stop, NULL, NULL, device_tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
