/* SPDX-License-Identifier: Apache-2.0 */
/* io_uring by the kernel's own interface: two rings of indices that the kernel and we share, and an array of
   requests.

       submission   head (the kernel's)  ... tail (ours)      entry n: index into the requests, here always n mod size
       completion   head (ours)          ... tail (the kernel's)    entry: the slot that a request named, and its result

   A slot holds a piece; a slot's piece is under way from its submission until its completion is taken. What
   both sides write is read with acquire and written with release order. Source: io_uring(7),
   io_uring_setup(2), io_uring_enter(2). */
#define _GNU_SOURCE
#include "base/files/file_internal.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <errno.h>
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

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
    uint32_t under_way; /* slots whose completion has not come */
    uint32_t unsent;    /* of these, those that the kernel was not told of */
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

/* A number of the rings that the kernel has told the place of. */
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

/* Tells whether the kernel can read and write by a plain address. */
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
    uring->handle = (int)syscall(SYS_io_uring_setup, DAO_FILE_DEPTH, &params);
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
    DAO_ASSERT(uring->under_way == 0);
    unmap(&uring->requests);
    unmap(&uring->completion);
    unmap(&uring->submission);
    if (uring->handle >= 0) {
        (void)close(uring->handle); /* nothing is under way */
    }
    dao_host_free(uring);
}

/* Puts a slot's piece into the submission ring. It has room: the ring has as many entries as there are slots.
   */
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
    request->len = (uint32_t)dao_file_piece_ask(piece);
    request->user_data = slot;
    uring->submission_entries[index] = index;
    atomic_store_explicit(uring->submission_tail, tail + 1, memory_order_release);
    uring->is_taken[slot] = true;
    uring->under_way++;
    uring->unsent++;
}

/* Sends a slot's piece, or what is left of it, unless a fault point refuses it. */
static void begin(dao_file_uring_t *uring, dao_file_job_t *job, uint32_t slot)
{
    int refusal = dao_file_piece_refusal(job->direction);
    if (refusal == 0) {
        send(uring, job, slot);
    } else {
        (void)dao_file_job_came(job, &uring->slots[slot], -refusal);
    }
}

static void fill_slots(dao_file_uring_t *uring, dao_file_job_t *job)
{
    for (uint32_t slot = 0; slot < DAO_FILE_DEPTH; slot++) {
        if (!uring->is_taken[slot] && dao_file_job_cut(job, &uring->slots[slot])) {
            begin(uring, job, slot);
        }
    }
}

/* Takes the completions that have come. */
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
        uring->under_way--;
        if (dao_file_job_came(job, &uring->slots[slot], result)) {
            begin(uring, job, slot);
        }
    }
    atomic_store_explicit(uring->completion_head, head, memory_order_release);
}

/* Takes back what the kernel was not told of: the latest entries of the submission ring. */
static void take_back_unsent(dao_file_uring_t *uring)
{
    uint32_t tail = atomic_load_explicit(uring->submission_tail, memory_order_relaxed);
    for (; uring->unsent > 0; uring->unsent--, uring->under_way--) {
        tail--;
        const struct io_uring_sqe *request =
            (const struct io_uring_sqe *)(const void *)uring->requests.address +
            (tail & uring->submission_mask);
        uring->is_taken[request->user_data] = false;
    }
    atomic_store_explicit(uring->submission_tail, tail, memory_order_release);
}

/* Tells the kernel of what is unsent, and waits for a completion. */
static void enter(dao_file_uring_t *uring, dao_file_job_t *job)
{
    long sent = syscall(SYS_io_uring_enter, uring->handle, uring->unsent, 1, IORING_ENTER_GETEVENTS, NULL, 0);
    if (sent >= 0) {
        uring->unsent -= (uint32_t)sent;
    } else if (errno != EINTR && errno != EAGAIN && errno != EBUSY) {
        job->error = job->error != 0 ? job->error : errno;
        take_back_unsent(uring);
    }
}

void dao_file_uring_run(dao_file_uring_t *uring, dao_file_job_t *job)
{
    fill_slots(uring, job);
    while (uring->under_way > 0) {
        enter(uring, job);
        take_completions(uring, job);
        fill_slots(uring, job);
    }
}
