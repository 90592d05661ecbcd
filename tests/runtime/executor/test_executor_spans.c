/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels that use some bytes of their tensors: what moves, and that every byte that is read is the one that
   a sequential program would have left there. */
#include "runtime/start/context.h"
#include "tests/support/backends/fault_backend.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENSOR_COUNT  8
#define OPERAND_MAX   4
#define BYTES_MAX     (6 * KIB)
#define PROGRAM_COUNT TEST_ROUNDS(8)
#define ACTION_COUNT  150

/* The slow model: what each tensor holds as of what was pushed. */
typedef struct model {
    dao_managed_t *handle;
    size_t size_bytes;
    bool is_written;
    bool is_zeroed; /* on its first touch */
    unsigned char bytes[BYTES_MAX];
} model_t;

/* A kernel's work: compares what it reads and writes what it writes. */
typedef struct work {
    uint32_t count;
    struct {
        uint32_t tensor;
        dao_managed_t *view; /* by which it is named; NULL: by the tensor */
        size_t view_offset_bytes;
        unsigned char *address;
        dao_access_t access;
        dao_span_t span; /* of the tensor */
        unsigned char fill;
        unsigned char *expected; /* of the span, before the kernel; NULL: it is not read */
    } operands[OPERAND_MAX];
    bool fails; /* after it was queued */
} work_t;

static dao_executor_t *executor;
static model_t models[TENSOR_COUNT];
static uint64_t state;
static uint64_t fill_count;
static _Atomic uint64_t mismatch_count;
static _Atomic uint64_t computed_count;
static _Atomic uint64_t transfer_count;

static uint64_t below(uint64_t limit)
{
    return dao_random_next(&state) % limit;
}

static void *make_zeroed(size_t size_bytes)
{
    void *memory = calloc(1, size_bytes);
    if (memory == NULL) {
        abort();
    }
    return memory;
}

static unsigned char *first_byte(const work_t *work, uint32_t operand)
{
    return work->operands[operand].address + work->operands[operand].span.offset_bytes -
           work->operands[operand].view_offset_bytes;
}

static void compute(void *user)
{
    work_t *work = user;
    atomic_fetch_add(&computed_count, 1);
    for (uint32_t i = 0; i < work->count; i++) {
        unsigned char *bytes = first_byte(work, i);
        const unsigned char *expected = work->operands[i].expected;
        if (expected != NULL && memcmp(bytes, expected, work->operands[i].span.size_bytes) != 0) {
            atomic_fetch_add(&mismatch_count, 1);
        }
    }
    for (uint32_t i = 0; i < work->count; i++) {
        if (work->operands[i].access != DAO_ACCESS_READ) {
            memset(first_byte(work, i), work->operands[i].fill, work->operands[i].span.size_bytes);
        }
    }
}

static dao_status_t launch(const dao_launch_t *info, void *user)
{
    work_t *work = user;
    for (uint32_t i = 0; i < work->count; i++) {
        work->operands[i].address = info->addresses[i];
    }
    dao_status_t status = dao_stream_host_func(info->stream, compute, work);
    if (status == DAO_OK && work->fails) {
        status = dao_stream_synchronize(info->stream); /* the work is given up with the kernel */
        return status == DAO_OK ? DAO_ERR_INVALID : status;
    }
    return status;
}

static void drop(void *user)
{
    work_t *work = user;
    for (uint32_t i = 0; i < work->count; i++) {
        free(work->operands[i].expected);
    }
    free(work);
}

/* Adds an access to a kernel that is being made, and notes what it does to the model. */
static void add_operand(work_t *work, dao_operand_t *operand, uint32_t tensor, dao_access_t access,
                        dao_span_t span)
{
    uint32_t i = work->count++;
    model_t *model = &models[tensor];
    *operand = (dao_operand_t){model->handle, access};
    work->operands[i].tensor = tensor;
    work->operands[i].access = access;
    work->operands[i].span = span;
    work->operands[i].fill = (unsigned char)(1 + fill_count++ % 255);
    if (access != DAO_ACCESS_WRITE) {
        work->operands[i].expected = make_zeroed(span.size_bytes);
        memcpy(work->operands[i].expected, model->bytes + span.offset_bytes, span.size_bytes);
    }
}

static void note_changes(const work_t *work)
{
    for (uint32_t i = 0; i < work->count; i++) {
        model_t *model = &models[work->operands[i].tensor];
        if (work->operands[i].access != DAO_ACCESS_READ) {
            memset(model->bytes + work->operands[i].span.offset_bytes, work->operands[i].fill,
                   work->operands[i].span.size_bytes);
            model->is_written = true;
        }
    }
}

static dao_status_t push(work_t *work, const dao_operand_t *operands, const char *name)
{
    dao_span_t spans[OPERAND_MAX];
    dao_managed_t *views[OPERAND_MAX];
    uint32_t count = work->count;
    for (uint32_t i = 0; i < work->count; i++) {
        spans[i] = work->operands[i].span;
        spans[i].offset_bytes -= work->operands[i].view_offset_bytes;
        views[i] = work->operands[i].view;
    }
    dao_kernel_t kernel = {.name = name,
                           .launch = launch,
                           .user = work,
                           .drop = drop,
                           .operands = operands,
                           .operand_count = work->count,
                           .spans = spans};
    dao_status_t status = dao_executor_push(executor, &kernel); /* the work may be gone */
    for (uint32_t i = 0; i < count; i++) {
        CU_ASSERT_EQUAL(dao_managed_release(views[i]), DAO_OK);
    }
    return status;
}

static void begin(const dao_executor_config_t *config, const fault_config_t *faults)
{
    dao_config_t context = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&context, fault_backend_wrap(dao_backend_ops(), faults)), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(config, &executor), DAO_OK);
    memset(models, 0, sizeof(models));
    atomic_store(&mismatch_count, 0);
}

static void make_tensor(uint32_t index, size_t size_bytes, bool is_zeroed)
{
    models[index] = (model_t){.size_bytes = size_bytes, .is_zeroed = is_zeroed, .is_written = is_zeroed};
    CU_ASSERT_EQUAL_FATAL(
        dao_managed_create(executor,
                           &(dao_managed_config_t){.size_bytes = size_bytes, .zero_first_touch = is_zeroed},
                           &models[index].handle),
        DAO_OK);
}

static void end(void)
{
    for (uint32_t i = 0; i < TENSOR_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_managed_release(models[i].handle), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
}

static dao_executor_stats_t stats(void)
{
    dao_executor_stats_t figures;
    CU_ASSERT_EQUAL_FATAL(dao_executor_stats_get(executor, &figures), DAO_OK);
    return figures;
}

static void use(uint32_t tensor, dao_access_t access, size_t offset_bytes, size_t size_bytes)
{
    dao_operand_t operand;
    work_t *work = make_zeroed(sizeof(*work));
    add_operand(work, &operand, tensor, access, (dao_span_t){offset_bytes, size_bytes});
    note_changes(work);
    CU_ASSERT_EQUAL(push(work, &operand, "use"), DAO_OK);
}

static void check_content(uint32_t tensor)
{
    static unsigned char bytes[BYTES_MAX];
    CU_ASSERT_EQUAL(dao_managed_read(models[tensor].handle, bytes, models[tensor].size_bytes), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(bytes, models[tensor].bytes, models[tensor].size_bytes), 0);
}

/* ---- what moves ---- */

/* Three tensors of 4 KiB on a device for two. */
static void begin_appends(bool is_zeroed)
{
    begin(&(dao_executor_config_t){.capacity_bytes = 8 * KIB, .check = true}, &(fault_config_t){0});
    for (uint32_t i = 0; i < 3; i++) {
        make_tensor(i, 4 * KIB, is_zeroed);
    }
}

static void appends_move_what_they_append(void)
{
    for (int is_zeroed = 0; is_zeroed < 2; is_zeroed++) {
        begin_appends(is_zeroed != 0);
        for (size_t k = 0; k < 30; k++) {
            use((uint32_t)k % 3, DAO_ACCESS_WRITE, k / 3, 1);
        }
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
        CU_ASSERT_EQUAL(stats().in_bytes, 0);
        CU_ASSERT(stats().eviction_count >= 10);
        CU_ASSERT(stats().out_bytes <= 30);
        for (uint32_t i = 0; i < 3; i++) {
            check_content(i);
        }
        CU_ASSERT_EQUAL(atomic_load(&mismatch_count), 0);
        end();
    }
}

static void a_read_brings_what_it_reads(void)
{
    begin_appends(false);
    for (uint32_t i = 0; i < 3; i++) {
        use(i, DAO_ACCESS_WRITE, 0, 4 * KIB);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    uint64_t before = stats().in_bytes;
    use(0, DAO_ACCESS_READ, 100, 10);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(stats().in_bytes - before, 10);
    use(0, DAO_ACCESS_READ, 90, 30); /* 10 bytes before, 10 behind */
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(stats().in_bytes - before, 30);
    use(0, DAO_ACCESS_WRITE, 200, 5); /* 80 bytes lie between */
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(stats().in_bytes - before, 110);
    use(0, DAO_ACCESS_READ, 0, 4 * KIB);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(stats().in_bytes - before, 4 * KIB - 5);
    CU_ASSERT_EQUAL(atomic_load(&mismatch_count), 0);
    end();
}

static void what_was_read_leaves_without_a_copy(void)
{
    begin_appends(false);
    for (uint32_t i = 0; i < 3; i++) {
        use(i, DAO_ACCESS_WRITE, 0, 4 * KIB);
    }
    for (uint32_t i = 0; i < 9;
         i++) { /* one by one: a tensor that stays would bring the bytes between, too */
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
        use(i % 3, DAO_ACCESS_READ, 10 * i, 20);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT(stats().out_bytes <= 3 * 4 * KIB);
    CU_ASSERT(stats().in_bytes <= 9 * 20);
    CU_ASSERT(stats().clean_eviction_count > 0);
    CU_ASSERT_EQUAL(atomic_load(&mismatch_count), 0);
    end();
}

static void spans_of_one_tensor_are_joined(void)
{
    begin_appends(false);
    use(0, DAO_ACCESS_WRITE, 0, 4 * KIB);
    dao_operand_t operands[2];
    work_t *work = make_zeroed(sizeof(*work));
    add_operand(work, &operands[0], 0, DAO_ACCESS_READ, (dao_span_t){0, 100});
    add_operand(work, &operands[1], 0, DAO_ACCESS_WRITE, (dao_span_t){200, 50});
    note_changes(work);
    CU_ASSERT_EQUAL(push(work, operands, "append"), DAO_OK);
    use(1, DAO_ACCESS_WRITE, 0, 4 * KIB);
    use(2, DAO_ACCESS_WRITE, 0, 4 * KIB);
    use(0, DAO_ACCESS_READ, 0, 300);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    check_content(0);
    CU_ASSERT_EQUAL(atomic_load(&mismatch_count), 0);
    end();
}

/* ---- views ---- */

static void a_view_is_bytes_of_its_tensor(void)
{
    dao_managed_t *view = NULL, *inner = NULL;
    unsigned char bytes[10] = {9, 9, 9, 9, 9, 9, 9, 9, 9, 9};
    begin_appends(false);
    for (uint32_t i = 0; i < 3; i++) {
        use(i, DAO_ACCESS_WRITE, 0, 4 * KIB);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK); /* the first one has left */
    CU_ASSERT_EQUAL_FATAL(dao_managed_view(models[0].handle, 1000, 500, &view), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_managed_view(view, 100, 10, &inner), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_size(inner), 10);
    CU_ASSERT_EQUAL(dao_managed_id(inner), dao_managed_id(models[0].handle));
    CU_ASSERT_EQUAL(dao_managed_release(view), DAO_OK);
    uint64_t before = stats().in_bytes;
    dao_operand_t operand = {inner, DAO_ACCESS_WRITE};
    work_t *work = make_zeroed(sizeof(*work));
    add_operand(work, &operand, 0, DAO_ACCESS_WRITE, (dao_span_t){1100, 10});
    operand.tensor = work->operands[0].view = inner;
    work->operands[0].view_offset_bytes = 1100;
    CU_ASSERT_EQUAL(dao_managed_retain(inner), DAO_OK);
    note_changes(work);
    CU_ASSERT_EQUAL(push(work, &operand, "append"), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(stats().in_bytes, before); /* nothing else comes */
    check_content(0);
    CU_ASSERT_EQUAL(dao_managed_read(inner, bytes, 10), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(bytes, models[0].bytes + 1100, 10), 0);
    void *whole = NULL, *part = NULL;
    CU_ASSERT_EQUAL(dao_managed_pin(models[0].handle, &whole), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_pin(inner, &part), DAO_OK);
    CU_ASSERT_PTR_EQUAL(part, (char *)whole + 1100);
    CU_ASSERT_EQUAL(dao_managed_unpin(models[0].handle), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_unpin(inner), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_release(models[0].handle), DAO_OK); /* the view keeps the bytes */
    models[0].handle = NULL;
    CU_ASSERT_EQUAL(dao_managed_read(inner, bytes, 10), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(bytes, models[0].bytes + 1100, 10), 0);
    CU_ASSERT_EQUAL(stats().live_tensor_count, 3);
    CU_ASSERT_EQUAL(dao_managed_release(inner), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_release(inner), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(stats().live_tensor_count, 2);
    CU_ASSERT_EQUAL(atomic_load(&mismatch_count), 0);
    end();
}

static void a_list_writes_a_view(void)
{
    dao_managed_t *view = NULL;
    dao_command_list_t *list = NULL;
    unsigned char bytes[100];
    memset(bytes, 5, sizeof(bytes));
    begin_appends(false);
    use(0, DAO_ACCESS_WRITE, 0, 4 * KIB);
    CU_ASSERT_EQUAL_FATAL(dao_managed_view(models[0].handle, 50, 100, &view), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_write(list, view, bytes, 100), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_write(list, view, bytes, 4 * KIB), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_command_list_discard(list, view), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    memset(models[0].bytes + 50, 5, 100);
    check_content(0);
    dao_command_list_destroy(list);
    CU_ASSERT_EQUAL(dao_managed_release(view), DAO_OK);
    end();
}

static void a_view_lies_in_its_tensor(void)
{
    dao_managed_t *view = NULL, *none = NULL;
    begin_appends(false);
    CU_ASSERT_EQUAL_FATAL(dao_managed_view(models[0].handle, 4 * KIB - 10, 10, &view), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_view(models[0].handle, 0, 0, &none), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_view(models[0].handle, 4 * KIB, 1, &none), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_view(models[0].handle, SIZE_MAX, 2, &none), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_view(view, 5, 6, &none), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "in this view"));
    CU_ASSERT_EQUAL(dao_managed_view(NULL, 0, 1, &none), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_view(view, 0, 1, NULL), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(none);
    char byte = 1;
    CU_ASSERT_EQUAL(dao_managed_write(view, &byte, 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_write_part(view, 10, &byte, 1), DAO_ERR_INVALID);
    dao_operand_t operand = {view, DAO_ACCESS_WRITE};
    dao_kernel_t kernel = {.launch = launch,
                           .operands = &operand,
                           .operand_count = 1,
                           .spans = &(dao_span_t){.offset_bytes = 9, .size_bytes = 2}};
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_release(view), DAO_OK);
    end();
}

/* ---- what is refused ---- */

static void a_span_lies_in_its_tensor(void)
{
    begin_appends(false);
    dao_operand_t operand = {models[0].handle, DAO_ACCESS_WRITE};
    const dao_span_t refused[] = {{4 * KIB, 0},   {4 * KIB, 1},    {0, 4 * KIB + 1}, {1, BYTES_MAX},
                                  {BYTES_MAX, 2}, {1, UINT64_MAX}, {UINT64_MAX, 2}};
    for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
        dao_kernel_t kernel = {
            .launch = launch, .operands = &operand, .operand_count = 1, .spans = &refused[i]};
        CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_ERR_INVALID);
    }
    char byte = 1;
    CU_ASSERT_EQUAL(dao_managed_write_part(models[0].handle, 4 * KIB, &byte, 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_write_part(models[0].handle, 0, &byte, 0), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_write_part(models[0].handle, UINT64_MAX, &byte, 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_write_part(models[0].handle, 1, NULL, 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_write_part(NULL, 0, &byte, 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_read_part(models[0].handle, 1, &byte, 4 * KIB), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_managed_read_part(models[0].handle, 1, &byte, 1), DAO_ERR_NEVER_WRITTEN);
    end();
}

static void a_part_is_read_only_if_something_was_written(void)
{
    begin_appends(false);
    use(0, DAO_ACCESS_READ_WRITE, 5, 5);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_NEVER_WRITTEN);
    memset(models[0].bytes, 0, BYTES_MAX);
    use(0, DAO_ACCESS_WRITE, 5, 5);
    use(0, DAO_ACCESS_READ, 0, 100); /* zeros around it */
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    check_content(0);
    CU_ASSERT_EQUAL(atomic_load(&mismatch_count), 0);
    end();
}

/* ---- the program's parts ---- */

static void write_part(uint32_t tensor, size_t offset_bytes, size_t size_bytes)
{
    static unsigned char bytes[BYTES_MAX];
    memset(bytes, (int)(1 + fill_count++ % 255), size_bytes);
    dao_status_t status = dao_managed_write_part(models[tensor].handle, offset_bytes, bytes, size_bytes);
    CU_ASSERT_EQUAL(status, DAO_OK);
    memcpy(models[tensor].bytes + offset_bytes, bytes, size_bytes);
    models[tensor].is_written = true;
}

static void read_part(uint32_t tensor, size_t offset_bytes, size_t size_bytes)
{
    static unsigned char bytes[BYTES_MAX];
    CU_ASSERT_EQUAL(dao_managed_read_part(models[tensor].handle, offset_bytes, bytes, size_bytes), DAO_OK);
    if (memcmp(bytes, models[tensor].bytes + offset_bytes, size_bytes) != 0) {
        atomic_fetch_add(&mismatch_count, 1);
    }
}

static void the_program_reads_and_writes_parts(void)
{
    state = 1;
    begin_appends(false);
    write_part(0, 10, 20); /* nowhere: zeros around it */
    check_content(0);
    write_part(0, 25, 20); /* on the host */
    use(0, DAO_ACCESS_READ, 0, 50);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    write_part(0, 45, 30); /* on the device in part */
    read_part(0, 40, 20);
    use(0, DAO_ACCESS_READ, 0, 4 * KIB);
    write_part(0, 4 * KIB - 1, 1);
    use(1, DAO_ACCESS_WRITE, 0, 4 * KIB);
    write_part(1, 7, 7); /* on the device */
    read_part(1, 0, 20);
    use(2, DAO_ACCESS_WRITE, 0, 4 * KIB);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    for (uint32_t i = 0; i < 3; i++) {
        check_content(i);
    }
    CU_ASSERT_EQUAL(atomic_load(&mismatch_count), 0);
    end();
}

/* ---- random programs ---- */

static dao_span_t random_span(size_t size_bytes)
{
    if (below(5) == 0) {
        return (dao_span_t){0, size_bytes};
    }
    size_t offset = (size_t)below(size_bytes);
    return (dao_span_t){
        offset, 1 + (size_t)below(below(2) == 0 ? size_bytes - offset : 1 + (size_bytes - offset) / 16)};
}

/* A random view of a tensor that has a span. */
static dao_managed_t *view_around(uint32_t tensor, dao_span_t span, size_t *out_offset_bytes)
{
    size_t begin = (size_t)below(span.offset_bytes + 1);
    size_t end_bytes = span.offset_bytes + span.size_bytes;
    end_bytes += (size_t)below(models[tensor].size_bytes - end_bytes + 1);
    dao_managed_t *outer = NULL, *view = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_managed_view(models[tensor].handle, begin, end_bytes - begin, &outer), DAO_OK);
    size_t skipped = (size_t)below(span.offset_bytes - begin + 1); /* a view of a view */
    CU_ASSERT_EQUAL_FATAL(dao_managed_view(outer, skipped, end_bytes - begin - skipped, &view), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_release(outer), DAO_OK);
    *out_offset_bytes = begin + skipped;
    return view;
}

static void name_by_view(work_t *work, uint32_t index, dao_operand_t *operand)
{
    operand->tensor = work->operands[index].view = view_around(
        work->operands[index].tensor, work->operands[index].span, &work->operands[index].view_offset_bytes);
}

static work_t *make_random_kernel(size_t capacity_bytes, dao_operand_t *operands)
{
    work_t *work = make_zeroed(sizeof(*work));
    size_t need = 0;
    for (uint64_t wanted = 1 + below(OPERAND_MAX); work->count < wanted; wanted--) {
        uint32_t tensor = (uint32_t)below(TENSOR_COUNT);
        size_t bytes = (models[tensor].size_bytes + 255) / 256 * 256;
        bool is_named = false;
        for (uint32_t i = 0; i < work->count; i++) {
            is_named = is_named || work->operands[i].tensor == tensor;
        }
        if (is_named || need + bytes > capacity_bytes) {
            continue;
        }
        need += bytes;
        dao_access_t access = models[tensor].is_written ? (dao_access_t)below(3) : DAO_ACCESS_WRITE;
        dao_span_t span = random_span(models[tensor].size_bytes);
        add_operand(work, &operands[work->count], tensor, access, span);
        bool has_second = work->count < wanted && access != DAO_ACCESS_READ_WRITE && below(3) == 0;
        size_t end_bytes = span.offset_bytes + span.size_bytes;
        if (has_second && end_bytes < models[tensor].size_bytes) { /* it writes behind that, with a gap */
            dao_span_t tail = random_span(models[tensor].size_bytes - end_bytes);
            tail.offset_bytes += end_bytes;
            add_operand(work, &operands[work->count], tensor, DAO_ACCESS_WRITE, tail);
        }
    }
    for (uint32_t i = 0; i < work->count; i++) {
        if (below(3) == 0) {
            name_by_view(work, i, &operands[i]);
        }
    }
    return work;
}

static void push_random_kernel(size_t capacity_bytes)
{
    dao_operand_t operands[OPERAND_MAX];
    work_t *work = make_random_kernel(capacity_bytes, operands);
    note_changes(work);
    CU_ASSERT_EQUAL(push(work, operands, "random"), DAO_OK);
}

/* A write or read for which nobody waits. */
typedef struct transfer {
    unsigned char *bytes;
    unsigned char *expected; /* of a read; else NULL */
    size_t size_bytes;
} transfer_t;

static void transfer_done(dao_status_t status, void *user)
{
    transfer_t *transfer = user;
    bool is_wrong =
        transfer->expected != NULL && memcmp(transfer->bytes, transfer->expected, transfer->size_bytes) != 0;
    if (status != DAO_OK || is_wrong) {
        atomic_fetch_add(&mismatch_count, 1);
    }
    free(transfer->bytes);
    free(transfer->expected);
    free(transfer);
    atomic_fetch_add(&transfer_count, 1);
}

static transfer_t *make_transfer(size_t size_bytes)
{
    transfer_t *transfer = make_zeroed(sizeof(*transfer));
    transfer->bytes = make_zeroed(size_bytes);
    transfer->size_bytes = size_bytes;
    return transfer;
}

static void write_async(uint32_t tensor, dao_span_t span)
{
    transfer_t *transfer = make_transfer(span.size_bytes);
    memset(transfer->bytes, (int)(1 + fill_count++ % 255), span.size_bytes);
    memcpy(models[tensor].bytes + span.offset_bytes, transfer->bytes, span.size_bytes);
    models[tensor].is_written = true;
    CU_ASSERT_EQUAL(dao_managed_write_async(models[tensor].handle, span.offset_bytes, transfer->bytes,
                                            span.size_bytes, transfer_done, transfer),
                    DAO_OK);
}

static void read_async(uint32_t tensor, dao_span_t span)
{
    transfer_t *transfer = make_transfer(span.size_bytes);
    transfer->expected = make_zeroed(span.size_bytes);
    memcpy(transfer->expected, models[tensor].bytes + span.offset_bytes, span.size_bytes);
    CU_ASSERT_EQUAL(dao_managed_read_async(models[tensor].handle, span.offset_bytes, transfer->bytes,
                                           span.size_bytes, transfer_done, transfer),
                    DAO_OK);
}

/* The program writes and reads bytes by a view. */
static void move_by_view(uint32_t tensor, dao_span_t span)
{
    static unsigned char bytes[BYTES_MAX];
    size_t offset = 0;
    dao_managed_t *view = view_around(tensor, span, &offset);
    size_t size_bytes = dao_managed_size(view);
    memset(bytes, (int)(1 + fill_count++ % 255), size_bytes);
    CU_ASSERT_EQUAL(dao_managed_write(view, bytes, size_bytes), DAO_OK);
    memcpy(models[tensor].bytes + offset, bytes, size_bytes);
    models[tensor].is_written = true;
    offset = span.offset_bytes - offset;
    CU_ASSERT_EQUAL(dao_managed_read_part(view, offset, bytes, span.size_bytes), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(bytes, models[tensor].bytes + span.offset_bytes, span.size_bytes), 0);
    CU_ASSERT_EQUAL(dao_managed_release(view), DAO_OK);
}

static void take_random_action(size_t capacity_bytes)
{
    uint64_t choice = below(100);
    uint32_t tensor = (uint32_t)below(TENSOR_COUNT);
    dao_span_t span = random_span(models[tensor].size_bytes);
    if (choice < 3) {
        CU_ASSERT_EQUAL(dao_managed_release(models[tensor].handle), DAO_OK);
        make_tensor(tensor, 1 + (size_t)below(BYTES_MAX), below(2) == 0);
    } else if (choice < 8 && models[tensor].is_written) {
        read_part(tensor, span.offset_bytes, span.size_bytes);
    } else if (choice < 13) {
        write_part(tensor, span.offset_bytes, span.size_bytes);
    } else if (choice < 18) {
        move_by_view(tensor, span);
    } else if (choice < 22) {
        write_async(tensor, span);
    } else if (choice < 25 && models[tensor].is_written) {
        read_async(tensor, span);
    } else if (choice < 27) {
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    } else {
        push_random_kernel(capacity_bytes);
    }
}

typedef struct variant {
    bool with_delays;
    bool with_file;
    bool with_steps; /* parts of the program come again and again, so that plans are followed */
} variant_t;

static void run_steps(size_t capacity_bytes)
{
    uint64_t length = 3 + below(10);
    uint64_t at_begin = state;
    for (int round = 0; round < 12; round++) {
        state = at_begin; /* the same spans and accesses, once all tensors are written */
        CU_ASSERT_EQUAL(dao_executor_step_begin(executor), DAO_OK);
        for (uint64_t i = 0; i < length; i++) {
            push_random_kernel(capacity_bytes);
        }
        CU_ASSERT_EQUAL(dao_executor_step_end(executor), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    }
}

static void run_program(uint64_t seed, const variant_t *variant)
{
    state = seed;
    fault_config_t faults = {.seed = seed,
                             .delay_ns_max = variant->with_delays ? 40000 : 0,
                             .not_ready_max = variant->with_delays ? 3 : 0};
    size_t capacity_bytes = BYTES_MAX + 256 * (size_t)below(50);
    dao_executor_config_t config = {.capacity_bytes = capacity_bytes,
                                    .policy = (dao_policy_t)below(DAO_POLICY_USER),
                                    .on_demand = below(4) == 0,
                                    .check = true};
    if (variant->with_file) {
        config.host_bytes = 256 * (1 + (size_t)below(100));
        config.file = (dao_file_config_t){.directory = "/tmp", .engine = (dao_file_engine_t)below(3)};
    }
    begin(&config, &faults);
    for (uint32_t i = 0; i < TENSOR_COUNT; i++) {
        make_tensor(i, 1 + (size_t)below(BYTES_MAX), below(2) == 0);
    }
    for (int i = 0; i < ACTION_COUNT; i++) {
        take_random_action(capacity_bytes);
        if (variant->with_steps && below(60) == 0) {
            run_steps(capacity_bytes);
        }
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    for (uint32_t i = 0; i < TENSOR_COUNT; i++) {
        if (models[i].is_written) {
            check_content(i);
        }
    }
    CU_ASSERT_EQUAL(atomic_load(&mismatch_count), 0);
    end();
}

static void run_programs(const char *name, uint64_t fallback, const variant_t *variant)
{
    uint64_t seed = dao_test_seed(name, fallback);
    for (uint64_t i = 0; i < PROGRAM_COUNT; i++) {
        unsigned failures = CU_get_number_of_failures();
        run_program(seed + i, variant);
        if (CU_get_number_of_failures() != failures) {
            (void)printf("    failed with seed %" PRIu64 "\n", seed + i);
            return;
        }
    }
}

static void every_byte_is_the_one_before_it(void)
{
    run_programs("random spans", 100, &(variant_t){0});
    run_programs("random spans in steps", 200, &(variant_t){.with_steps = true});
}

static void delays_change_no_byte(void)
{
    run_programs("random spans with delays", 300, &(variant_t){.with_delays = true});
}

static void a_file_changes_no_byte(void)
{
    run_programs("random spans with a file", 400, &(variant_t){.with_file = true, .with_steps = true});
    run_programs("random spans with a file and delays", 500,
                 &(variant_t){.with_file = true, .with_delays = true});
}

/* ---- transfers ---- */

static void transfers_keep_their_place_in_the_queue(void)
{
    begin_appends(false);
    atomic_store(&transfer_count, 0);
    for (int i = 0; i < 20; i++) {
        uint32_t tensor = (uint32_t)i % 3;
        write_async(tensor, (dao_span_t){0, i < 3 ? 4 * KIB : KIB});
        use(tensor, DAO_ACCESS_READ_WRITE, 500, 1000);
        read_async(tensor, (dao_span_t){400, 1500});
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(atomic_load(&transfer_count), 40);
    CU_ASSERT_EQUAL(atomic_load(&mismatch_count), 0);
    write_async(0, (dao_span_t){7, 7}); /* the end runs it */
    end();
    CU_ASSERT_EQUAL(atomic_load(&transfer_count), 41);
    CU_ASSERT_EQUAL(atomic_load(&mismatch_count), 0);
}

/* ---- failures ---- */

/* What a failed kernel has written counts where only the device had the bytes, and stays the same wherever
   the tensor goes. */
static void a_failed_kernel_leaves_one_content(void)
{
    static unsigned char first[BYTES_MAX], second[BYTES_MAX];
    begin_appends(false);
    for (uint32_t i = 0; i < 3; i++) {
        use(i, DAO_ACCESS_WRITE, 0, 4 * KIB);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK); /* the first one has left */
    use(0, DAO_ACCESS_WRITE, 100, 50);                    /* it comes back with nothing else */
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    dao_operand_t operand;
    work_t *work = make_zeroed(sizeof(*work));
    add_operand(work, &operand, 0, DAO_ACCESS_WRITE, (dao_span_t){120, 60});
    work->fails = true;
    CU_ASSERT_EQUAL(push(work, &operand, "fails"), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_KERNEL_FAILED);
    CU_ASSERT_EQUAL(dao_managed_read(models[0].handle, first, 4 * KIB), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(first, models[0].bytes, 120), 0);
    CU_ASSERT_EQUAL(memcmp(first + 150, models[0].bytes + 150, 4 * KIB - 150), 0);
    use(1, DAO_ACCESS_READ, 0, 4 * KIB);
    use(2, DAO_ACCESS_READ, 0, 4 * KIB);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_read(models[0].handle, second, 4 * KIB), DAO_OK);
    CU_ASSERT_EQUAL(memcmp(first, second, 4 * KIB), 0);
    CU_ASSERT_EQUAL(atomic_load(&mismatch_count), 0);
    end();
}

/* Runs kernels one by one, of which those count that have run. Returns how many have not. */
static uint32_t run_past_failures(fault_call_t call, uint64_t skip_count)
{
    uint32_t failed = 0;
    state = 7 + skip_count;
    begin(&(dao_executor_config_t){.capacity_bytes = 9 * KIB, .check = true}, &(fault_config_t){0});
    for (uint32_t i = 0; i < TENSOR_COUNT; i++) {
        make_tensor(i, 3 * KIB + i, false);
        use(i, DAO_ACCESS_WRITE, 0, models[i].size_bytes);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    fault_backend_arm(call, skip_count, true);
    for (int i = 0; i < 30; i++) {
        dao_operand_t operands[OPERAND_MAX];
        work_t *work = make_random_kernel(9 * KIB, operands);
        work_t copy = *work;
        uint64_t before = atomic_load(&computed_count);
        CU_ASSERT_EQUAL(push(work, operands, "random"), DAO_OK);
        dao_status_t status = dao_executor_sync(executor);
        if (status == DAO_OK) {
            CU_ASSERT_EQUAL(atomic_load(&computed_count), before + 1);
            note_changes(&copy);
        } else {
            CU_ASSERT_EQUAL(atomic_load(&computed_count), before);
            fault_backend_disarm();
            failed++;
        }
    }
    fault_backend_disarm();
    for (uint32_t i = 0; i < TENSOR_COUNT; i++) {
        check_content(i);
    }
    CU_ASSERT_EQUAL(atomic_load(&mismatch_count), 0);
    end();
    return failed;
}

static void whichever_call_fails_no_byte_is_lost(void)
{
    const fault_call_t calls[] = {FAULT_CALL_COPY, FAULT_CALL_HOST_FUNC};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        uint32_t failed = 0;
        for (uint64_t skip_count = 0; skip_count < TEST_ROUNDS(12); skip_count++) {
            failed += run_past_failures(calls[i], skip_count);
        }
        CU_ASSERT(failed > 0);
    }
}

/* On a full host the bytes go to the device, where they are refused. */
static void a_refused_write_leaves_a_tensor_without_a_content(void)
{
    unsigned char bytes[KIB] = {1};
    begin(&(dao_executor_config_t){.capacity_bytes = 8 * KIB, .host_bytes = KIB, .check = true},
          &(fault_config_t){0});
    make_tensor(0, 4 * KIB, false);
    fault_backend_arm(FAULT_CALL_COPY, 0, true);
    CU_ASSERT_EQUAL(dao_managed_write_part(models[0].handle, 10, bytes, 10), DAO_ERR_COPY_FAILED);
    (void)fault_backend_disarm();
    CU_ASSERT_EQUAL(dao_managed_read_part(models[0].handle, 0, bytes, KIB), DAO_ERR_NEVER_WRITTEN);
    CU_ASSERT_EQUAL(stats().device_used_bytes, 0);
    CU_ASSERT_EQUAL(dao_managed_write_part(models[0].handle, 10, bytes, 10), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_read_part(models[0].handle, 10, bytes, 10), DAO_OK);
    end();
}

static CU_TestInfo tests[] = {
    {"appends move what they append", appends_move_what_they_append},
    {"a read brings what it reads", a_read_brings_what_it_reads},
    {"what was read leaves without a copy", what_was_read_leaves_without_a_copy},
    {"spans of one tensor are joined", spans_of_one_tensor_are_joined},
    {"a view is bytes of its tensor", a_view_is_bytes_of_its_tensor},
    {"a list writes a view", a_list_writes_a_view},
    {"a view lies in its tensor", a_view_lies_in_its_tensor},
    {"transfers keep their place in the queue", transfers_keep_their_place_in_the_queue},
    {"a span lies in its tensor", a_span_lies_in_its_tensor},
    {"a part is read only if something was written", a_part_is_read_only_if_something_was_written},
    {"the program reads and writes parts", the_program_reads_and_writes_parts},
    {"every byte is the one before it", every_byte_is_the_one_before_it},
    {"delays change no byte", delays_change_no_byte},
    {"a file changes no byte", a_file_changes_no_byte},
    {"a failed kernel leaves one content", a_failed_kernel_leaves_one_content},
    {"whichever call fails, no byte is lost", whichever_call_fails_no_byte_is_lost},
    {"a refused write leaves a tensor without a content", a_refused_write_leaves_a_tensor_without_a_content},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"spans", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
