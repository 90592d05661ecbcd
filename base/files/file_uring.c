/* SPDX-License-Identifier: Apache-2.0 */
/* io_uring by the kernel's own interface, without liburing: two rings that the kernel shares with the
   process, and an array of requests.

       ring         head advanced by   tail advanced by   an entry
       submission   kernel             this file          entry n: index of a request, here n mod size
       completion   this file          kernel             the slot that a request named, and its result

   A slot holds a piece, in flight from its submission until its completion is taken. Heads and tails are read
   with acquire and written with release order. Sources: io_uring(7), io_uring_setup(2), io_uring_enter(2).

   Invariants: unsent <= in_flight <= DAO_FILE_DEPTH; in_flight slots are taken; between two runs none is. */
#define _GNU_SOURCE
#include "base/files/file_uring.h"
#include "base/memory/descriptor.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/threads/sync.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Until the kernel is asked once more. */
#define REFUSED_SLEEP_NS UINT64_C(100000)

static_assert((DAO_FILE_DEPTH & (DAO_FILE_DEPTH - 1)) == 0, "a ring has a power of two of entries");

/* A mapping that the kernel shares with us. */
typedef struct mapping {
    char *address; /* NULL: none */
    size_t size_bytes;
} mapping_t;

struct dao_file_uring {
    int handle;
    mapping_t submission, completion, requests;
    _Atomic uint32_t *submission_tail;
    uint32_t submission_mask;
    uint32_t *submission_entries;
    _Atomic uint32_t *completion_head, *completion_tail;
    uint32_t completion_mask;
    struct io_uring_cqe *completions;

    dao_file_piece_t slots[DAO_FILE_DEPTH];
    bool is_taken[DAO_FILE_DEPTH];
    uint32_t in_flight; /* slots whose completion has not been taken */
    uint32_t unsent;    /* of these, not submitted to the kernel yet */
};

static bool map(mapping_t *mapping, int handle, off_t which, size_t size_bytes)
{
    void *address = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, handle, which);
    if (address == MAP_FAILED) {
        return false;
    }
    *mapping = (mapping_t){address, size_bytes};
    return true;
}

static void unmap(mapping_t *mapping)
{
    if (mapping->address != NULL) {
        (void)munmap(mapping->address, mapping->size_bytes); /* it was mapped */
    }
}

static bool map_rings(dao_file_uring_t *uring, const struct io_uring_params *params)
{
    return map(&uring->submission, uring->handle, IORING_OFF_SQ_RING,
               params->sq_off.array + params->sq_entries * sizeof(uint32_t)) &&
           map(&uring->completion, uring->handle, IORING_OFF_CQ_RING,
               params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe)) &&
           map(&uring->requests, uring->handle, IORING_OFF_SQES,
               params->sq_entries * sizeof(struct io_uring_sqe));
}

/* Address of a field of a ring, by the offset that the kernel reported. */
static void *ring_at(const mapping_t *mapping, uint32_t offset_bytes)
{
    return mapping->address + offset_bytes;
}

static void find_rings(dao_file_uring_t *uring, const struct io_uring_params *params)
{
    uring->submission_tail = ring_at(&uring->submission, params->sq_off.tail);
    uring->submission_mask = *(uint32_t *)ring_at(&uring->submission, params->sq_off.ring_mask);
    uring->submission_entries = ring_at(&uring->submission, params->sq_off.array);
    uring->completion_head = ring_at(&uring->completion, params->cq_off.head);
    uring->completion_tail = ring_at(&uring->completion, params->cq_off.tail);
    uring->completion_mask = *(uint32_t *)ring_at(&uring->completion, params->cq_off.ring_mask);
    uring->completions = ring_at(&uring->completion, params->cq_off.cqes);
}

/* Returns true if the kernel can read and write by plain address; else errno says why not. */
static bool has_operations(int handle)
{
    enum { OPERATION_COUNT = IORING_OP_WRITE + 1 };
    _Alignas(struct io_uring_probe) char
        bytes[sizeof(struct io_uring_probe) + OPERATION_COUNT * sizeof(struct io_uring_probe_op)] = {0};
    const struct io_uring_probe *probe = (const struct io_uring_probe *)(const void *)bytes;
    if (syscall(SYS_io_uring_register, handle, IORING_REGISTER_PROBE, bytes, OPERATION_COUNT) != 0) {
        return false;
    }
    errno = EOPNOTSUPP; /* unless it has them */
    return probe->last_op >= IORING_OP_WRITE &&
           (probe->ops[IORING_OP_READ].flags & IO_URING_OP_SUPPORTED) != 0 &&
           (probe->ops[IORING_OP_WRITE].flags & IO_URING_OP_SUPPORTED) != 0;
}

dao_status_t dao_file_uring_create(dao_file_uring_t **out_uring)
{
    dao_file_uring_t *uring = dao_host_calloc(1, sizeof(*uring));
    if (uring == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a ring of a file");
    }
    struct io_uring_params params;
    memset(&params, 0, sizeof(params));
    uring->handle = dao_descriptor_keep((int)syscall(SYS_io_uring_setup, DAO_FILE_DEPTH, &params));
    bool is_there = uring->handle >= 0 && has_operations(uring->handle) && map_rings(uring, &params);
    if (!is_there) {
        int error = errno;
        dao_file_uring_destroy(uring);
        return dao_error(DAO_ERR_UNSUPPORTED, "the kernel offers no io_uring: %s", strerror(error));
    }
    find_rings(uring, &params);
    *out_uring = uring;
    return DAO_OK;
}

void dao_file_uring_destroy(dao_file_uring_t *uring)
{
    if (uring == NULL) {
        return;
    }
    DAO_ASSERT(uring->in_flight == 0);
    unmap(&uring->requests);
    unmap(&uring->completion);
    unmap(&uring->submission);
    if (uring->handle >= 0) {
        (void)close(uring->handle); /* nothing is in flight */
    }
    dao_host_free(uring);
}

/* Puts a slot's piece into the submission ring, which has an entry for every slot. */
static void send(dao_file_uring_t *uring, const dao_file_job_t *job, uint32_t slot)
{
    const dao_file_piece_t *piece = &uring->slots[slot];
    uint32_t tail = atomic_load_explicit(uring->submission_tail, memory_order_relaxed);
    uint32_t index = tail & uring->submission_mask;
    struct io_uring_sqe *request = (struct io_uring_sqe *)(void *)uring->requests.address + index;
    memset(request, 0, sizeof(*request));
    request->opcode = job->direction == DAO_FILE_READ ? IORING_OP_READ : IORING_OP_WRITE;
    request->fd = job->handle;
    request->off = piece->offset_bytes;
    request->addr = (uint64_t)(uintptr_t)piece->address;
    request->len = (uint32_t)dao_file_piece_request_bytes(piece);
    request->user_data = slot;
    uring->submission_entries[index] = index;
    atomic_store_explicit(uring->submission_tail, tail + 1, memory_order_release);
    uring->is_taken[slot] = true;
    uring->in_flight++;
    uring->unsent++;
    DAO_ASSERT(uring->in_flight <= DAO_FILE_DEPTH);
}

/* Sends a slot's piece, or its rest, unless a fault point refuses it. */
static void begin(dao_file_uring_t *uring, dao_file_job_t *job, uint32_t slot)
{
    int fault = dao_file_fault(job->direction);
    if (fault == 0) {
        send(uring, job, slot);
    } else {
        (void)dao_file_job_complete(job, &uring->slots[slot], -fault);
    }
}

static void fill_slots(dao_file_uring_t *uring, dao_file_job_t *job)
{
    for (uint32_t slot = 0; slot < DAO_FILE_DEPTH; slot++) {
        if (!uring->is_taken[slot] && dao_file_job_next(job, &uring->slots[slot])) {
            begin(uring, job, slot);
        }
    }
}

/* Takes the completions that have arrived. A short one is sent again. */
static void take_completions(dao_file_uring_t *uring, dao_file_job_t *job)
{
    uint32_t head = atomic_load_explicit(uring->completion_head, memory_order_relaxed);
    uint32_t tail = atomic_load_explicit(uring->completion_tail, memory_order_acquire);
    for (; head != tail; head++) {
        const struct io_uring_cqe *completion = &uring->completions[head & uring->completion_mask];
        uint32_t slot = (uint32_t)completion->user_data;
        int64_t result = completion->res;
        DAO_ASSERT(slot < DAO_FILE_DEPTH && uring->is_taken[slot]);
        uring->is_taken[slot] = false;
        uring->in_flight--;
        if (dao_file_job_complete(job, &uring->slots[slot], result)) {
            begin(uring, job, slot);
        }
    }
    atomic_store_explicit(uring->completion_head, head, memory_order_release);
}

/* Withdraws what was not submitted: the latest entries of the submission ring. */
static void take_back_unsent(dao_file_uring_t *uring)
{
    uint32_t tail = atomic_load_explicit(uring->submission_tail, memory_order_relaxed);
    for (; uring->unsent > 0; uring->unsent--, uring->in_flight--) {
        tail--;
        const struct io_uring_sqe *request =
            (const struct io_uring_sqe *)(const void *)uring->requests.address +
            (tail & uring->submission_mask);
        uring->is_taken[request->user_data] = false;
    }
    atomic_store_explicit(uring->submission_tail, tail, memory_order_release);
}

/* Submits what is unsent and waits for one completion. Where the kernel is short of memory, or refuses for
   good, what is in flight is looked at again a little later. */
static void enter(dao_file_uring_t *uring, dao_file_job_t *job)
{
    long sent = syscall(SYS_io_uring_enter, uring->handle, uring->unsent, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    if (sent >= 0) {
        uring->unsent -= (uint32_t)sent;
    }
    if (sent >= 0 || errno == EINTR) {
        return;
    }
    if (errno != EAGAIN && errno != EBUSY) {
        job->error = job->error != 0 ? job->error : errno;
        take_back_unsent(uring);
    }
    dao_sleep_until(dao_clock_ns() + REFUSED_SLEEP_NS);
}

void dao_file_uring_run(dao_file_uring_t *uring, dao_file_job_t *job)
{
    DAO_ASSERT(uring->in_flight == 0);
    fill_slots(uring, job);
    while (uring->in_flight > 0) {
        enter(uring, job);
        take_completions(uring, job);
        fill_slots(uring, job);
    }
    DAO_ASSERT(uring->unsent == 0);
    DAO_ASSERT(job->remaining.size_bytes == 0 || job->error != 0);
}
