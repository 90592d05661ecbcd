/* SPDX-License-Identifier: Apache-2.0 */
/* Handles: memory, tensors, DLPack, shares, leases. */
#include "tests/misuse/misuse.h"

#include <dao/dlpack_abi.h>

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void memory_without_result(void)
{
    misuse_begin();
    REFUSED(dao_memory_create(misuse_device, 100, NULL, NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_memory_create_shared(misuse_device, 100, NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_lease_begin(misuse_device, NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_tensor_empty(misuse_device, DAO_TYPE_F32, 0, NULL, NULL), DAO_ERR_INVALID, "NULL");
}

static void memory_on_another_stream(void)
{
    dao_stream_t *stream;
    dao_memory_t *memory = NULL;
    misuse_begin();
    NEED(dao_stream_create(1, &stream) == DAO_OK);
    REFUSED(dao_memory_create(misuse_device, 100, stream, &memory), DAO_ERR_INVALID, "device:1");
    REFUSED(dao_memory_create(misuse_host, 100, stream, &memory), DAO_ERR_INVALID, "cpu");
    NEED(memory == NULL);
    dao_stream_destroy(stream);
}

static void memory_of_size_max(void)
{
    dao_memory_t *memory = NULL;
    misuse_begin();
    REFUSED(dao_memory_create(misuse_device, SIZE_MAX, NULL, &memory), DAO_ERR_OVERFLOW, "device:0");
    REFUSED(dao_memory_create_shared(misuse_device, SIZE_MAX, &memory), DAO_ERR_NO_DEVICE_MEMORY, "");
    NEED(memory == NULL);
}

static void memory_from_null(void)
{
    dao_memory_t *memory = NULL;
    misuse_begin();
    REFUSED(dao_memory_from_pointer(misuse_host, NULL, 100, NULL, NULL, &memory), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_memory_from_pointer(misuse_host, &memory, 100, NULL, NULL, NULL), DAO_ERR_INVALID, "NULL");
    NEED(memory == NULL);
}

static void sub_range_outside(void)
{
    dao_memory_t *memory, *part = NULL;
    misuse_begin();
    NEED(dao_memory_create(misuse_device, 1000, NULL, &memory) == DAO_OK);
    REFUSED(dao_memory_sub_range(memory, 1000, 1, &part), DAO_ERR_OUT_OF_BOUNDS, "1000");
    REFUSED(dao_memory_sub_range(memory, 1, SIZE_MAX, &part), DAO_ERR_OUT_OF_BOUNDS, "1000");
    REFUSED(dao_memory_sub_range(memory, SIZE_MAX, 2, &part), DAO_ERR_OUT_OF_BOUNDS, "1000");
    REFUSED(dao_memory_sub_range(NULL, 0, 1, &part), DAO_ERR_INVALID, "NULL");
    NEED(part == NULL && dao_memory_release(memory) == DAO_OK);
}

static void retain_null(void)
{
    misuse_begin();
    REFUSED(dao_memory_retain(NULL), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_tensor_retain(NULL), DAO_ERR_INVALID, "NULL");
    NEED(dao_memory_release(NULL) == DAO_OK && dao_tensor_release(NULL) == DAO_OK);
    NEED(dao_memory_address(NULL) == NULL && dao_memory_size(NULL) == 0);
}

static void handle_forgotten(void)
{
    dao_memory_t *memory;
    misuse_begin();
    NEED(dao_memory_create(misuse_device, 1000, NULL, &memory) == DAO_OK);
}

/* A handle's block is its own, at every kind of place. */
static void block_of_a_handle_freed(void)
{
    const dao_place_t places[] = {misuse_host, misuse_pinned, misuse_device};
    const size_t sizes[] = {100, 3 * MIB};
    misuse_begin();
    for (size_t i = 0; i < 6; i++) {
        dao_memory_t *memory;
        NEED(dao_memory_create(places[i % 3], sizes[i / 3], NULL, &memory) == DAO_OK);
        REFUSED(dao_free(places[i % 3], dao_memory_address(memory)), DAO_ERR_NOT_YOURS, "handle");
        NEED(dao_memory_release(memory) == DAO_OK);
    }
}

static void block_of_a_handle_freed_in_stream_order(void)
{
    dao_memory_t *memory;
    misuse_begin();
    NEED(dao_memory_create(misuse_device, 3 * MIB, NULL, &memory) == DAO_OK);
    void *address = dao_memory_address(memory);
    REFUSED(dao_free_async(misuse_device, address, NULL), DAO_ERR_NOT_YOURS, "handle");
    NEED(dao_memory_release(memory) == DAO_OK);
}

static void block_of_a_tensor_freed(void)
{
    misuse_begin();
    dao_tensor_t *tensor = NULL;
    NEED(dao_tensor_empty(misuse_device, DAO_TYPE_F32, 0, NULL, &tensor) == DAO_OK);
    REFUSED(dao_free(misuse_device, dao_tensor_address(tensor)), DAO_ERR_NOT_YOURS, "handle");
    NEED(dao_tensor_release(tensor) == DAO_OK);
}

static void tensor_shape_negative(void)
{
    int64_t shape[] = {3, -1};
    dao_tensor_t *tensor = NULL;
    misuse_begin();
    REFUSED(dao_tensor_empty(misuse_device, DAO_TYPE_F32, 2, shape, &tensor), DAO_ERR_INVALID, "-1");
    REFUSED(dao_tensor_empty(misuse_device, DAO_TYPE_F32, -1, shape, &tensor), DAO_ERR_INVALID, "rank");
    REFUSED(dao_tensor_empty(misuse_device, DAO_TYPE_F32, 1000, shape, &tensor), DAO_ERR_INVALID, "rank");
    REFUSED(dao_tensor_empty(misuse_device, (dao_type_t)999, 2, shape, &tensor), DAO_ERR_INVALID, "999");
    REFUSED(dao_tensor_empty(misuse_device, DAO_TYPE_F32, 2, NULL, &tensor), DAO_ERR_INVALID, "NULL");
    NEED(tensor == NULL);
}

static void tensor_shape_overflows(void)
{
    int64_t shape[] = {INT64_C(1) << 40, INT64_C(1) << 40};
    dao_tensor_t *tensor = NULL;
    misuse_begin();
    REFUSED(dao_tensor_empty(misuse_device, DAO_TYPE_F32, 2, shape, &tensor), DAO_ERR_OVERFLOW, "");
    shape[1] = 1 << 20;
    REFUSED(dao_tensor_empty(misuse_device, DAO_TYPE_F32, 2, shape, &tensor), DAO_ERR_NO_DEVICE_MEMORY, "");
    NEED(tensor == NULL);
}

static dao_tensor_t *tensor_4_by_6(void)
{
    static const int64_t shape[] = {4, 6};
    dao_tensor_t *tensor = NULL;
    NEED(dao_tensor_empty(misuse_host, DAO_TYPE_F32, 2, shape, &tensor) == DAO_OK);
    return tensor;
}

static void tensor_views_outside(void)
{
    static const int64_t wrong_count[] = {5, 5}, shape[] = {4, 7}, strides[] = {6, 1};
    dao_tensor_t *view = NULL;
    misuse_begin();
    dao_tensor_t *tensor = tensor_4_by_6();
    REFUSED(dao_tensor_narrow(tensor, 1, 3, 4, &view), DAO_ERR_OUT_OF_BOUNDS, "");
    REFUSED(dao_tensor_narrow(tensor, 2, 0, 1, &view), DAO_ERR_INVALID, "dimension");
    REFUSED(dao_tensor_view(tensor, 2, wrong_count, &view), DAO_ERR_INVALID, "");
    REFUSED(dao_tensor_as_strided(tensor, 2, shape, strides, 0, &view), DAO_ERR_OUT_OF_BOUNDS, "");
    REFUSED(dao_tensor_as_strided(tensor, 2, shape, strides, -1, &view), DAO_ERR_OUT_OF_BOUNDS, "");
    NEED(view == NULL && dao_tensor_release(tensor) == DAO_OK);
}

static void tensor_orders(void)
{
    static const int32_t twice[] = {1, 1}, outside[] = {0, 2};
    dao_tensor_t *view = NULL;
    misuse_begin();
    dao_tensor_t *tensor = tensor_4_by_6();
    REFUSED(dao_tensor_permute(tensor, twice, &view), DAO_ERR_INVALID, "");
    REFUSED(dao_tensor_permute(tensor, outside, &view), DAO_ERR_INVALID, "");
    REFUSED(dao_tensor_squeeze(tensor, 0, &view), DAO_ERR_INVALID, "");
    REFUSED(dao_tensor_unsqueeze(tensor, 9, &view), DAO_ERR_INVALID, "");
    NEED(view == NULL && dao_tensor_release(tensor) == DAO_OK);
}

static void tensor_beyond_its_memory(void)
{
    static const int64_t shape[] = {251};
    dao_memory_t *memory;
    dao_tensor_t *tensor = NULL;
    misuse_begin();
    NEED(dao_memory_create(misuse_host, 1000, NULL, &memory) == DAO_OK);
    REFUSED(dao_tensor_from_memory(memory, 0, DAO_TYPE_F32, 1, shape, NULL, &tensor), DAO_ERR_OUT_OF_BOUNDS,
            "");
    REFUSED(dao_tensor_from_memory(memory, 2, DAO_TYPE_F32, 0, NULL, NULL, &tensor), DAO_ERR_INVALID, "");
    REFUSED(dao_tensor_from_memory(NULL, 0, DAO_TYPE_F32, 0, NULL, NULL, &tensor), DAO_ERR_INVALID, "NULL");
    NEED(tensor == NULL && dao_memory_release(memory) == DAO_OK);
}

/* ---- DLPack ---- */

static void dlpack_null(void)
{
    dao_tensor_t *tensor = NULL;
    struct DLManagedTensorVersioned *managed = NULL;
    misuse_begin();
    REFUSED(dao_tensor_from_dlpack(NULL, 0, &tensor), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_tensor_to_dlpack(NULL, 0, &managed), DAO_ERR_INVALID, "NULL");
    NEED(tensor == NULL && managed == NULL);
}

static void dlpack_of_a_virtual_device(void)
{
    dao_tensor_t *tensor;
    struct DLManagedTensorVersioned *managed = NULL;
    misuse_begin();
    NEED(dao_tensor_empty(misuse_device, DAO_TYPE_F32, 0, NULL, &tensor) == DAO_OK);
    REFUSED(dao_tensor_to_dlpack(tensor, 0, &managed), DAO_ERR_UNSUPPORTED, "");
    NEED(managed == NULL && dao_tensor_release(tensor) == DAO_OK);
}

static void dlpack_of_others(void)
{
    static float number;
    DLManagedTensorVersioned managed = {
        .version = {1, 0}, .dl_tensor = {.data = &number, .device = {kDLCPU, 0}, .dtype = {kDLFloat, 32, 1}}};
    dao_tensor_t *tensor = NULL;
    misuse_begin();
    managed.version.major = 2;
    REFUSED(dao_tensor_from_dlpack(&managed, 0, &tensor), DAO_ERR_UNSUPPORTED, "2");
    managed.version.major = 1;
    managed.dl_tensor.ndim = -1;
    REFUSED(dao_tensor_from_dlpack(&managed, 0, &tensor), DAO_ERR_INVALID, "");
    managed.dl_tensor.ndim = 0;
    managed.dl_tensor.dtype.bits = 3;
    REFUSED(dao_tensor_from_dlpack(&managed, 0, &tensor), DAO_ERR_UNSUPPORTED, "");
    managed.dl_tensor.dtype.bits = 32;
    managed.dl_tensor.device.device_type = kDLCUDA;
    REFUSED(dao_tensor_from_dlpack(&managed, 0, &tensor), DAO_ERR_UNSUPPORTED, "");
    managed.dl_tensor.device.device_type = kDLCPU;
    managed.flags = 1; /* read only */
    REFUSED(dao_tensor_from_dlpack(&managed, 0, &tensor), DAO_ERR_INVALID, "");
    NEED(tensor == NULL);
}

/* ---- shares ---- */

static void share_of_junk(void)
{
    dao_share_t share = {.descriptor = -1};
    dao_memory_t *memory = NULL;
    misuse_begin();
    memset(share.bytes, 0x5a, sizeof(share.bytes));
    REFUSED(dao_memory_import(misuse_device, &share, &memory), DAO_ERR_INVALID, "no share");
    REFUSED(dao_memory_import(misuse_device, NULL, &memory), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_share_send(&share, 0), DAO_ERR_INVALID, "no share");
    REFUSED(dao_share_send(NULL, 0), DAO_ERR_INVALID, "NULL");
    NEED(memory == NULL);
}

static void share_of_plain_memory(void)
{
    dao_memory_t *memory;
    dao_share_t share = {.descriptor = -77};
    misuse_begin();
    NEED(dao_memory_create(misuse_device, 1000, NULL, &memory) == DAO_OK);
    REFUSED(dao_memory_export(memory, &share), DAO_ERR_UNSUPPORTED, "");
    REFUSED(dao_memory_export(NULL, &share), DAO_ERR_INVALID, "NULL");
    REFUSED(dao_memory_create_shared(misuse_host, 100, &memory), DAO_ERR_UNSUPPORTED, "cpu");
    NEED(share.descriptor == -77 && dao_memory_release(memory) == DAO_OK);
}

static void share_of_this_process(void)
{
    dao_memory_t *memory, *again = NULL;
    dao_share_t share;
    misuse_begin();
    NEED(dao_memory_create_shared(misuse_device, 4096, &memory) == DAO_OK);
    NEED(dao_memory_export(memory, &share) == DAO_OK);
    REFUSED(dao_memory_import(misuse_device, &share, &again), DAO_ERR_INVALID, "this process");
    share.bytes[20] ^= 1;
    REFUSED(dao_memory_import(misuse_device, &share, &again), DAO_ERR_INVALID, "no share");
    share.bytes[20] ^= 1;
    dao_share_close(&share);
    REFUSED(dao_memory_import(misuse_device, &share, &again), DAO_ERR_INVALID, "closed");
    NEED(again == NULL && dao_memory_release(memory) == DAO_OK);
}

static void share_from_a_hostile_peer(void)
{
    int sockets[2];
    char junk[DAO_SHARE_BYTES] = "junk";
    dao_share_t share = {.descriptor = -77};
    misuse_begin();
    NEED(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    NEED(write(sockets[0], junk, sizeof(junk)) == (ssize_t)sizeof(junk));
    REFUSED(dao_share_receive(sockets[1], &share), DAO_ERR_INVALID, "no share");
    NEED(write(sockets[0], junk, 5) == 5 && close(sockets[0]) == 0);
    REFUSED(dao_share_receive(sockets[1], &share), DAO_ERR_IO, "socket");
    REFUSED(dao_share_receive(sockets[1], &share), DAO_ERR_IO, "closed");
    REFUSED(dao_share_receive(-1, &share), DAO_ERR_IO, "socket -1");
    NEED(share.descriptor == -77);
}

/* ---- leases ---- */

static void lease_out_of_order(void)
{
    dao_lease_t *lease;
    int here = 0;
    misuse_begin();
    NEED(dao_lease_begin(misuse_device, &lease) == DAO_OK);
    REFUSED(dao_lease_begin(misuse_host, &lease), DAO_ERR_UNSUPPORTED, "");
    REFUSED(dao_lease_retain(lease, &here), DAO_ERR_FOREIGN_POINTER, "");
    REFUSED(dao_lease_resume(lease, &here, 1), DAO_ERR_FOREIGN_POINTER, "has had no block");
    REFUSED(dao_lease_resume(lease, &here, 0), DAO_ERR_INVALID, "0 bytes");
    NEED(dao_lease_commit(lease) == DAO_OK);
    REFUSED(dao_lease_commit(lease), DAO_ERR_INVALID, "");
    REFUSED(dao_lease_leave(lease), DAO_ERR_INVALID, "");
    REFUSED(dao_lease_commit(NULL), DAO_ERR_INVALID, "NULL");
    NEED(dao_lease_release(lease) == DAO_OK);
}

const misuse_case_t misuse_handle_cases[] = {
    {.name = "memory_without_result", .run = memory_without_result},
    {.name = "memory_on_another_stream", .run = memory_on_another_stream},
    {.name = "memory_of_size_max", .run = memory_of_size_max},
    {.name = "memory_from_null", .run = memory_from_null},
    {.name = "sub_range_outside", .run = sub_range_outside},
    {.name = "retain_null", .run = retain_null},
    {.name = "handle_forgotten", .run = handle_forgotten, .end = DAO_ERR_BUSY, .says = "live at shutdown"},
    {.name = "block_of_a_handle_freed", .run = block_of_a_handle_freed},
    {.name = "block_of_a_handle_freed_where_it_is_hardened",
     .run = block_of_a_handle_freed,
     .environment = "DAO_HARDENING=guard,quarantine,checksum"},
    {.name = "block_of_a_handle_freed_in_stream_order", .run = block_of_a_handle_freed_in_stream_order},
    {.name = "block_of_a_tensor_freed", .run = block_of_a_tensor_freed},
    {.name = "tensor_shape_negative", .run = tensor_shape_negative},
    {.name = "tensor_shape_overflows", .run = tensor_shape_overflows},
    {.name = "tensor_views_outside", .run = tensor_views_outside},
    {.name = "tensor_orders", .run = tensor_orders},
    {.name = "tensor_beyond_its_memory", .run = tensor_beyond_its_memory},
    {.name = "dlpack_null", .run = dlpack_null},
    {.name = "dlpack_of_a_virtual_device", .run = dlpack_of_a_virtual_device},
    {.name = "dlpack_of_others", .run = dlpack_of_others},
    {.name = "share_of_junk", .run = share_of_junk},
    {.name = "share_of_plain_memory", .run = share_of_plain_memory},
    {.name = "share_of_this_process", .run = share_of_this_process},
    {.name = "share_from_a_hostile_peer", .run = share_from_a_hostile_peer},
    {.name = "lease_out_of_order", .run = lease_out_of_order},
    {.name = NULL},
};
