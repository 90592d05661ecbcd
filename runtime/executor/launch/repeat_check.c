/* SPDX-License-Identifier: Apache-2.0 */
/* On the kernel's stream, in this order; `before`, `first` and `second` are host memory:

       operands that are written     -> before
       what is only written is filled with a pattern; the kernel runs
       operands that are written     -> first
       what was changed              <- before
       what is only written is filled with another pattern; the kernel runs again
       operands that are written     -> second, which equals first
       on an error: operands that are written <- before, as a kernel that fails leaves them

   So a kernel shows that does not write all of its output, or reads it. Where a kernel names some bytes of a
   tensor, all of the tensor counts as changed. */
#include "runtime/executor/launch/repeat_check.h"

#include "base/memory/host.h"
#include "base/report/error.h"
#include "runtime/executor/core/failure.h"
#include "runtime/executor/records/tensor.h"

#include <inttypes.h>
#include <string.h>

/* In each byte that a run has to write. */
#define UNWRITTEN_FIRST  0x5Au
#define UNWRITTEN_SECOND 0xA5u

typedef struct check {
    dao_engine_t *engine;
    dao_item_t *item;
    unsigned char *before, *first, *second; /* one allocation each, the operands in their order */
} check_t;

static const dao_use_t *use_of(const check_t *check, uint32_t operand)
{
    return &check->item->uses[check->item->operand_uses[operand]];
}

static bool is_written(const check_t *check, uint32_t operand)
{
    return use_of(check, operand)->kind != DAO_USE_READ;
}

static bool is_changed(const check_t *check, uint32_t operand)
{
    return is_written(check, operand) &&
           (use_of(check, operand)->kind != DAO_USE_WRITE || use_of(check, operand)->is_partial);
}

/* Where an operand's tensor begins: the address of a view lies behind that. */
static unsigned char *begin_of(const check_t *check, uint32_t operand)
{
    return (unsigned char *)check->item->addresses[operand] - check->item->operand_offsets[operand];
}

static dao_backend_stream_t *stream_of(const check_t *check)
{
    return check->engine->timeline.streams[dao_timeline_compute(check->item->stream_index)].backend;
}

/* Copies what is written to the host. */
static dao_status_t save(const check_t *check, unsigned char *bytes)
{
    const dao_backend_ops_t *ops = check->engine->config.ops;
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < check->item->operand_count; i++) {
        size_t size_bytes = use_of(check, i)->tensor->size_bytes;
        if (is_written(check, i)) {
            status = ops->copy(stream_of(check), DAO_COPY_KIND_D2H, bytes, begin_of(check, i), size_bytes);
            bytes += size_bytes;
        }
    }
    dao_status_t wait_status = ops->stream_synchronize(stream_of(check));
    dao_engine_lose_unless_ok(check->engine, wait_status);
    return status != DAO_OK ? status : wait_status;
}

/* Gives the written operands what they hold as the kernel begins. */
static dao_status_t prepare(const check_t *check, uint8_t unwritten)
{
    const dao_backend_ops_t *ops = check->engine->config.ops;
    const unsigned char *bytes = check->before;
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < check->item->operand_count; i++) {
        size_t size_bytes = use_of(check, i)->tensor->size_bytes;
        void *address = begin_of(check, i);
        if (is_changed(check, i)) {
            status = ops->copy(stream_of(check), DAO_COPY_KIND_H2D, address, bytes, size_bytes);
        } else if (is_written(check, i)) {
            status = ops->fill(stream_of(check), address, unwritten, size_bytes);
        }
        bytes += is_written(check, i) ? size_bytes : 0;
    }
    return status;
}

static dao_status_t compare(const check_t *check)
{
    const unsigned char *first = check->first, *second = check->second;
    for (uint32_t i = 0; i < check->item->operand_count; i++) {
        const dao_managed_t *tensor = use_of(check, i)->tensor;
        size_t size_bytes = is_written(check, i) ? tensor->size_bytes : 0, at = 0;
        if (size_bytes == 0 || memcmp(first, second, size_bytes) == 0) {
            first += size_bytes;
            second += size_bytes;
            continue;
        }
        while (first[at] == second[at]) {
            at++;
        }
        return dao_error(DAO_ERR_CORRUPT,
                         "it is flagged DAO_KERNEL_REPEATABLE and wrote something else when it ran again: "
                         "operand %" PRIu32 " (\"%s\"), byte %zu of %zu, %02x at first, %02x then",
                         i, tensor->name, at, size_bytes, first[at], second[at]);
    }
    return DAO_OK;
}

/* Puts back what was saved before, and waits: the memory that it lies in is freed next. Keeps the error that
   it follows, unless this fails too. */
static dao_status_t put_back(const check_t *check, dao_status_t failure)
{
    dao_error_record_t record;
    dao_error_save(&record, failure);
    const dao_backend_ops_t *ops = check->engine->config.ops;
    const unsigned char *bytes = check->before;
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < check->item->operand_count; i++) {
        if (is_written(check, i)) {
            size_t size_bytes = use_of(check, i)->tensor->size_bytes;
            status = ops->copy(stream_of(check), DAO_COPY_KIND_H2D, begin_of(check, i), bytes, size_bytes);
            bytes += size_bytes;
        }
    }
    dao_status_t wait_status = ops->stream_synchronize(stream_of(check));
    dao_engine_lose_unless_ok(check->engine, wait_status);
    status = status != DAO_OK ? status : wait_status;
    if (status != DAO_OK) {
        dao_error_prefix("it failed as it ran twice, and what its tensors held is not put back: ");
        return status;
    }
    return dao_error_restore(&record);
}

static dao_status_t run_twice(const check_t *check, const dao_launch_t *launch_info)
{
    dao_launch_t again = *launch_info;
    again.is_again = true;
    dao_status_t status = save(check, check->before);
    if (status != DAO_OK) {
        return status; /* nothing is changed */
    }
    status = prepare(check, UNWRITTEN_FIRST);
    status = status == DAO_OK ? check->item->launch(launch_info, check->item->user) : status;
    status = status == DAO_OK ? save(check, check->first) : status;
    status = status == DAO_OK ? prepare(check, UNWRITTEN_SECOND) : status;
    status = status == DAO_OK ? check->item->launch(&again, check->item->user) : status;
    status = status == DAO_OK ? save(check, check->second) : status;
    status = status == DAO_OK ? compare(check) : status;
    return status == DAO_OK ? DAO_OK : put_back(check, status);
}

dao_status_t dao_repeat_check(dao_engine_t *engine, dao_item_t *item, const dao_launch_t *launch_info)
{
    check_t check = {.engine = engine, .item = item};
    size_t sum_bytes = 1;
    for (uint32_t i = 0; i < item->operand_count; i++) {
        sum_bytes += is_written(&check, i) ? use_of(&check, i)->tensor->size_bytes : 0;
    }
    check.before = dao_host_calloc(sum_bytes, 1);
    check.first = dao_host_calloc(sum_bytes, 1);
    check.second = dao_host_calloc(sum_bytes, 1);
    bool has_memory = check.before != NULL && check.first != NULL && check.second != NULL;
    dao_status_t status =
        has_memory ? run_twice(&check, launch_info)
                   : dao_error(DAO_ERR_NO_HOST_MEMORY,
                               "no host memory for what it writes, three times %zu bytes, to run it "
                               "twice and compare",
                               sum_bytes);
    dao_host_free(check.before);
    dao_host_free(check.first);
    dao_host_free(check.second);
    return status;
}
