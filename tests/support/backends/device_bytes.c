/* SPDX-License-Identifier: Apache-2.0 */
/* A staging a device: its stream, for what the host writes and reads, and scratch. */
#include "tests/support/backends/device_bytes.h"

#include "base/report/fault.h"
#include "base/threads/sync.h"
#include "runtime/start/context.h"
#include "tests/support/backends/fault_backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A piece of scratch, unless more is asked for. */
#define SCRATCH_BYTES ((size_t)64 << 10)

/* What a device begins with, since a driver may not give pinned memory while a stream is held up: some large
   pieces, and more that are found before them. */
#define SCRATCH_BYTES_LARGE ((size_t)2 << 20)
#define SCRATCH_COUNT_LARGE 2
#define SCRATCH_COUNT       8

/* Alignment of an operand in it. */
#define OPERAND_ALIGNMENT_BYTES ((size_t)64)

typedef struct scratch {
    struct scratch *next;
    unsigned char *bytes;
    size_t size_bytes;
    _Atomic bool is_busy; /* cleared by the stream's last piece of work with it */
} scratch_t;

typedef struct staging {
    struct staging *next;
    int32_t index; /* of the place */
    dao_backend_device_t *device;
    bool is_direct; /* the host touches the device's memory: there is nothing else */
    dao_backend_stream_t *stream;
    scratch_t *scratch; /* guarded by the lock */
} staging_t;

static dao_mutex_t lock = DAO_MUTEX_INITIALIZER(DAO_RANK_LEAF);
static staging_t
    *stagings; /* guarded by the lock; the latest first: handles may outlive a start of the library */

/* A launched kernel. */
typedef struct work {
    device_kernel_t function;
    void *user;
    scratch_t *scratch; /* NULL: it has none */
    bool is_written_back;
    unsigned char *bytes[DEVICE_OPERAND_COUNT_MAX];
} work_t;

static void must(dao_status_t status, const char *what)
{
    if (status != DAO_OK) {
        (void)fprintf(stderr, "a test's own %s failed: %s: %s\n", what, dao_status_name(status),
                      dao_last_message());
        abort();
    }
}

/* What a test does itself is no part of what it makes fail. */
static void spare(bool is_exempt)
{
    fault_backend_spare(is_exempt);
    dao_fault_exempt(is_exempt);
}

static void *must_alloc(size_t size_bytes)
{
    void *memory = calloc(1, size_bytes);
    if (memory == NULL) {
        abort(); /* the test machine is full */
    }
    return memory;
}

/* ---- stagings ---- */

/* The program's table: below any that fails on purpose, which shares its devices. */
static const dao_backend_ops_t *ops(void)
{
    return dao_backend_ops();
}

/* The staging of a device, or the latest one of a place's index; NULL: there is none. */
static staging_t *staging_find(const dao_backend_device_t *device, int32_t index)
{
    dao_mutex_lock(&lock);
    staging_t *staging = stagings;
    while (staging != NULL && (device != NULL ? staging->device != device : staging->index != index)) {
        staging = staging->next;
    }
    dao_mutex_unlock(&lock);
    return staging;
}

/* Adds a staging area unless another thread has added one for the same device, and returns the one in the
   list. */
static staging_t *staging_add(staging_t *staging)
{
    dao_mutex_lock(&lock);
    staging_t *there = stagings;
    while (there != NULL && there->device != staging->device) {
        there = there->next;
    }
    if (there == NULL) {
        staging->next = stagings;
        stagings = staging;
    }
    dao_mutex_unlock(&lock);
    return there != NULL ? there : staging;
}

static void staging_destroy(staging_t *staging)
{
    if (!staging->is_direct) {
        ops()->stream_destroy(staging->stream);
    }
    scratch_t *next = NULL;
    for (scratch_t *scratch = staging->scratch; scratch != NULL; scratch = next) {
        next = scratch->next;
        (void)ops()->pinned_free(staging->device, scratch->bytes, scratch->size_bytes); /* or it is lost */
        free(scratch);
    }
    free(staging);
}

void device_bytes_end(dao_backend_device_t *device)
{
    dao_mutex_lock(&lock);
    staging_t **link = &stagings;
    while (*link != NULL && (*link)->device != device) {
        link = &(*link)->next;
    }
    staging_t *staging = *link;
    if (staging != NULL) {
        *link = staging->next;
    }
    dao_mutex_unlock(&lock);
    if (staging != NULL) {
        staging_destroy(staging);
    }
}

static scratch_t *scratch_create(dao_backend_device_t *device, size_t size_bytes)
{
    scratch_t *scratch = must_alloc(sizeof(*scratch));
    scratch->size_bytes = SCRATCH_BYTES;
    while (scratch->size_bytes < size_bytes) {
        scratch->size_bytes *= 2;
    }
    void *bytes;
    spare(true);
    must(ops()->pinned_alloc(device, scratch->size_bytes, &bytes), "scratch");
    spare(false);
    scratch->bytes = bytes;
    return scratch;
}

static staging_t *staging_of(const dao_runtime_t *runtime)
{
    staging_t *there = staging_find(runtime->device, 0);
    if (there != NULL && there->index == runtime->device_index &&
        there->is_direct == runtime->info.host_accessible) {
        return there;
    }
    if (there != NULL) {
        device_bytes_end(runtime->device); /* of a backend that does not say when its devices are closed */
    }
    staging_t *staging = must_alloc(sizeof(*staging));
    *staging = (staging_t){.index = runtime->device_index,
                           .device = runtime->device,
                           .is_direct = runtime->info.host_accessible};
    if (!staging->is_direct) {
        spare(true);
        must(ops()->stream_create(staging->device, &staging->stream), "stream");
        spare(false);
        for (int i = 0; i < SCRATCH_COUNT; i++) {
            scratch_t *scratch = scratch_create(staging->device, i < SCRATCH_COUNT_LARGE ? SCRATCH_BYTES_LARGE
                                                                                         : SCRATCH_BYTES);
            scratch->next = staging->scratch;
            staging->scratch = scratch;
        }
    }
    there = staging_add(staging);
    if (there != staging) {
        staging_destroy(staging);
    }
    return there;
}

void device_bytes_open(dao_place_t place)
{
    if (place.kind == DAO_PLACE_KIND_DEVICE) {
        dao_runtime_t *runtime;
        must(dao_runtime_acquire(place.index, &runtime), "device");
        (void)staging_of(runtime);
        dao_runtime_release(runtime);
    }
}

/* ---- scratch ---- */

static scratch_t *scratch_find(staging_t *staging, size_t size_bytes)
{
    dao_mutex_lock(&lock);
    scratch_t *scratch = staging->scratch;
    while (scratch != NULL && (scratch->size_bytes < size_bytes || atomic_load(&scratch->is_busy))) {
        scratch = scratch->next;
    }
    if (scratch != NULL) {
        atomic_store(&scratch->is_busy, true);
    }
    dao_mutex_unlock(&lock);
    return scratch;
}

static scratch_t *scratch_take(staging_t *staging, size_t size_bytes)
{
    scratch_t *scratch = scratch_find(staging, size_bytes);
    if (scratch != NULL) {
        return scratch;
    }
    scratch = scratch_create(staging->device, size_bytes);
    atomic_init(&scratch->is_busy, true);
    dao_mutex_lock(&lock);
    scratch->next = staging->scratch;
    staging->scratch = scratch;
    dao_mutex_unlock(&lock);
    return scratch;
}

static void scratch_give(void *user)
{
    atomic_store(&((scratch_t *)user)->is_busy, false);
}

/* ---- kernels ---- */

static bool is_copied(const device_operand_t *operand)
{
    return operand->place.kind == DAO_PLACE_KIND_DEVICE && operand->size_bytes > 0;
}

/* Says where the function finds each operand: where it is, or in scratch. */
static void lay_out(staging_t *staging, const device_operand_t *operands, uint32_t count, work_t *work)
{
    size_t offsets[DEVICE_OPERAND_COUNT_MAX];
    size_t size_bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool is_scratch = !staging->is_direct && is_copied(&operands[i]);
        offsets[i] = size_bytes;
        size_bytes += is_scratch ? (operands[i].size_bytes + OPERAND_ALIGNMENT_BYTES - 1) /
                                       OPERAND_ALIGNMENT_BYTES * OPERAND_ALIGNMENT_BYTES
                                 : 0;
        work->is_written_back =
            work->is_written_back || (is_scratch && operands[i].access != DAO_ACCESS_READ);
    }
    work->scratch = size_bytes > 0 ? scratch_take(staging, size_bytes) : NULL;
    for (uint32_t i = 0; i < count; i++) {
        bool is_scratch = work->scratch != NULL && is_copied(&operands[i]);
        work->bytes[i] = is_scratch ? work->scratch->bytes + offsets[i] : operands[i].address;
    }
}

static void run_work(void *user)
{
    work_t *work = user;
    work->function(work->bytes, work->user);
    if (work->scratch != NULL && !work->is_written_back) {
        scratch_give(work->scratch);
    }
    free(work);
}

/* Queues copies of the operands to where the function finds them, or back. */
static dao_status_t queue_copies(const dao_stream_t *stream, const device_operand_t *operands, uint32_t count,
                                 unsigned char *const *bytes, bool is_back)
{
    dao_status_t status = DAO_OK;
    spare(true);
    for (uint32_t i = 0; i < count && status == DAO_OK; i++) {
        dao_access_t other_way = is_back ? DAO_ACCESS_READ : DAO_ACCESS_WRITE;
        bool is_needed = is_copied(&operands[i]) && operands[i].access != other_way;
        if (is_needed && is_back) {
            status = stream->runtime->ops->copy(stream->backend, DAO_COPY_KIND_H2D, operands[i].address,
                                                bytes[i], operands[i].size_bytes);
        } else if (is_needed) {
            status = stream->runtime->ops->copy(stream->backend, DAO_COPY_KIND_D2H, bytes[i],
                                                operands[i].address, operands[i].size_bytes);
        }
    }
    spare(false);
    return dao_runtime_told(stream->runtime, status);
}

/* Lets go of scratch behind all that is queued; on a lost device it stays taken. */
static void queue_give(const dao_stream_t *stream, scratch_t *scratch)
{
    spare(true);
    dao_status_t status = stream->runtime->ops->host_func(stream->backend, scratch_give, scratch);
    spare(false);
    must(status == DAO_ERR_DEVICE_LOST ? DAO_OK : status, "host function");
}

dao_status_t device_launch(dao_stream_t *stream, const device_operand_t *operands, uint32_t operand_count,
                           device_kernel_t function, void *user)
{
    unsigned char *bytes[DEVICE_OPERAND_COUNT_MAX]; /* once it is queued, the work is the stream's */
    if (operand_count > DEVICE_OPERAND_COUNT_MAX) {
        abort();
    }
    work_t *work = must_alloc(sizeof(*work));
    *work = (work_t){.function = function, .user = user};
    lay_out(staging_of(stream->runtime), operands, operand_count, work);
    memcpy(bytes, work->bytes, sizeof(bytes));
    scratch_t *scratch = work->scratch;
    bool is_written_back = work->is_written_back;
    dao_status_t status =
        scratch != NULL ? queue_copies(stream, operands, operand_count, bytes, false) : DAO_OK;
    if (status == DAO_OK) {
        status = dao_stream_host_func(stream, run_work, work);
    }
    if (status != DAO_OK) {
        free(work);
        if (scratch != NULL) {
            queue_give(stream, scratch);
        }
        return status;
    }
    if (is_written_back) {
        status = queue_copies(stream, operands, operand_count, bytes, true);
        must(status == DAO_ERR_DEVICE_LOST ? DAO_OK : status, "copy"); /* a loss is told by the next call */
        queue_give(stream, scratch);
    }
    return DAO_OK;
}

/* ---- gates ---- */

static device_hold_t device_hold;

void device_hold_set(device_hold_t hold)
{
    device_hold = hold;
}

dao_status_t device_gate(dao_stream_t *stream, dao_gate_t *gate)
{
    staging_t *staging = staging_of(stream->runtime);
    if (staging->is_direct || device_hold == NULL) {
        return dao_stream_host_func(stream, dao_gate_wait, gate);
    }
    dao_status_t status = dao_stream_host_func(stream, dao_gate_reach, gate);
    if (status == DAO_OK) {
        scratch_t *scratch = scratch_take(staging, sizeof(uint32_t));
        uint32_t *word = (uint32_t *)(void *)scratch->bytes;
        dao_gate_share(gate, (_Atomic uint32_t *)word);
        if (!device_hold(dao_stream_device(stream), dao_stream_native(stream), word)) {
            must(dao_stream_host_func(stream, dao_gate_wait, gate), "gate");
        }
        queue_give(stream, scratch);
    }
    return status;
}

/* ---- what a test does itself ---- */

/* The staging by which bytes of a place are reached; NULL: the host touches them. */
static const staging_t *staging_for(dao_place_t place)
{
    if (place.kind != DAO_PLACE_KIND_DEVICE) {
        return NULL;
    }
    const staging_t *staging = staging_find(NULL, place.index);
    if (staging == NULL) {
        device_bytes_open(place);
        staging = staging_find(NULL, place.index);
    }
    return staging->is_direct ? NULL : staging;
}

static void wait_for(const staging_t *staging, dao_status_t status)
{
    must(status, "copy");
    must(ops()->stream_synchronize(staging->stream), "copy");
}

void device_read(dao_place_t place, const void *address, void *bytes, size_t size_bytes)
{
    const staging_t *staging = staging_for(place);
    if (staging == NULL) {
        memcpy(bytes, address, size_bytes);
    } else {
        wait_for(staging, ops()->copy(staging->stream, DAO_COPY_KIND_D2H, bytes, address, size_bytes));
    }
}

void device_fill(dao_place_t place, void *address, unsigned char value, size_t size_bytes)
{
    const staging_t *staging = staging_for(place);
    if (staging == NULL) {
        memset(address, value, size_bytes);
    } else {
        wait_for(staging, ops()->fill(staging->stream, address, value, size_bytes));
    }
}

unsigned char device_byte(dao_place_t place, const void *address)
{
    unsigned char byte;
    device_read(place, address, &byte, 1);
    return byte;
}

bool bytes_are_all(const unsigned char *bytes, unsigned char value, size_t size_bytes)
{
    return size_bytes == 0 || (bytes[0] == value && memcmp(bytes, bytes + 1, size_bytes - 1) == 0);
}

bool device_holds(dao_place_t place, const void *address, unsigned char value, size_t size_bytes)
{
    if (size_bytes == 0 || staging_for(place) == NULL) {
        return bytes_are_all(address, value, size_bytes);
    }
    unsigned char *bytes = must_alloc(size_bytes);
    device_read(place, address, bytes, size_bytes);
    bool is_right = bytes_are_all(bytes, value, size_bytes);
    free(bytes);
    return is_right;
}
