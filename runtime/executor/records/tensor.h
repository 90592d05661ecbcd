/* SPDX-License-Identifier: Apache-2.0 */
/* The record behind a managed tensor's handles: where its bytes are and which work uses them. */
#ifndef DAO_RUNTIME_EXECUTOR_TENSOR_H
#define DAO_RUNTIME_EXECUTOR_TENSOR_H

#include "runtime/core/handle.h"
#include "runtime/executor/records/item.h"
#include "runtime/executor/records/source.h"
#include "runtime/executor/streams/fence.h"

#include <stdatomic.h>

/* Where a tensor's bytes are. residency.c has the diagram. */
typedef enum dao_residency {
    DAO_RESIDENCY_EMPTY = 0, /* nowhere: never written, or discarded */
    DAO_RESIDENCY_DEVICE,    /* on the device only: that copy counts */
    DAO_RESIDENCY_BOTH,      /* the same bytes on both: the host's count, the device's may be dropped */
    DAO_RESIDENCY_HOST,      /* on the host, not on the device */
    DAO_RESIDENCY_FILE,      /* in the file, or its source, only */
    DAO_RESIDENCY_PARTIAL,   /* on the host, but for what was changed of the bytes that are on the device */
} dao_residency_t;

/* The bytes' copy in the file. It is there beside the others: whatever writes the tensor gives it up. Of a
   tensor with a source it is in that, VALID, and has no slot; nobody writes such a tensor. */
typedef enum dao_file_copy {
    DAO_FILE_COPY_NONE = 0,
    DAO_FILE_COPY_WRITING, /* has a slot; not seen to have been written yet: it does not count */
    DAO_FILE_COPY_VALID,   /* has a slot with the same bytes as the other copies */
} dao_file_copy_t;

/* victims.c: a tensor's place among those that can leave the device. */
typedef struct dao_victim_place {
    uint64_t key; /* the greatest leaves first */
    dao_managed_t *child, *next, *previous;
    bool is_in;
} dao_victim_place_t;

/* pins.c: where the program keeps a tensor on the device. */
typedef struct dao_pin {
    uint32_t count; /* 0: it may leave */
    uint64_t offset_bytes;
    dao_managed_t *next; /* the next one below */
} dao_pin_t;

/* eviction.c: neighbouring tensors that may leave, and the holes between them. Its two ends tell. */
typedef struct dao_victim_run {
    uint64_t search; /* number of the search that it belongs to; of an older one: none */
    dao_managed_t *first, *last;
    uint64_t begin_bytes, end_bytes; /* in the arena */
} dao_victim_run_t;

struct dao_managed {
    dao_handle_t handle; /* first: see dao_handle_bury(). The program's */

    /* Never change. */
    dao_executor_t *executor;            /* whose tensor it is */
    dao_counted_t *shell;                /* a reference to that executor's shell */
    _Atomic uint64_t *live_tensor_count; /* of that executor */
    uint64_t id;
    char *name;
    size_t size_bytes;
    bool zero_first_touch;
    uint32_t priority;
    dao_source_t *source;  /* what its bytes are read from, a reference; NULL: the program writes it */
    dao_managed_t *viewed; /* of a view: the tensor that it shows bytes of, a handle; nothing below is used */
    size_t view_offset_bytes;

    _Atomic uint32_t
        reference_count;     /* all handles together count one; every use one; the executor's table one */
    dao_item_t release_item; /* so that the last release needs no memory; without uses */

    /* The executor's thread alone. */
    dao_managed_t *table_previous, *table_next;
    bool is_listed;                  /* in the executor's table */
    bool is_released;                /* no handle is left */
    bool is_operand;                 /* of the kernel that is being prepared */
    dao_use_t *first_use, *last_use; /* pending uses, in order of time */
    uint64_t last_use_time;          /* of the latest finished use */
    uint64_t log_epoch;              /* step_log.c: number of the latest step that uses it */
    uint32_t log_role;               /* in that step */
    uint64_t fed_epoch;     /* step_learner.c: number of the step in which the program wrote it last */
    uint64_t forecast_time; /* step_learner.c: of its next use, by what the step was the time before */
    struct dao_plan_role *plan_role; /* in the plan that is followed; NULL: none */
    uint32_t hold_count;             /* again.c: uses of kernels that are kept to run again */
    bool is_given_up;                /* again.c: EMPTY, as such a kernel is going to make the content again */
    bool is_discard_due;             /* again.c: it was discarded while it was held */
    uint64_t admitted_until;         /* prefetch.c: behind the latest admitted kernel that uses it */
    bool is_early;                   /* prefetch.c: fetched for a kernel that has not run */
    dao_victim_place_t victim;
    dao_victim_run_t run;
    dao_pin_t pin;

    dao_residency_t residency;
    bool has_device; /* holds a part of the arena; without DEVICE or BOTH it is about to be written */
    uint64_t device_offset_bytes;
    dao_slice_t device_valid;   /* PARTIAL: the bytes that the part has */
    dao_slice_t device_changed; /* of these, those that the host does not have */
    /* DEVICE: bytes outside device_changed are zeros. So that the host needs no copy of them. */
    bool is_zero_elsewhere;
    dao_fence_t device_written; /* what put the bytes there */
    dao_fence_t device_busy;    /* all that uses the part */
    void *host_address;         /* the slot; NULL without one */
    dao_fence_t host_written;
    dao_fence_t host_busy;
    dao_file_copy_t file_copy;
    uint64_t file_offset_bytes; /* of the slot in the file, or of the tensor in its source */
    /* Grows with every write to the file and every read from it, and when the copy is given up: the outcome
       of an operation is for the version that it was queued with. */
    uint64_t file_version;
    dao_fence_t file_busy; /* all that uses the slot */
    bool is_unverified; /* the device part comes from the file, and the reads were not seen to succeed yet */
    int file_error;     /* of such a read: errno; 0: none has failed */
};

/* Returns the tensor whose bytes a handle names: itself, or what it is a view of. */
static inline dao_managed_t *dao_managed_storage(dao_managed_t *tensor)
{
    return tensor->viewed != NULL ? tensor->viewed : tensor;
}

/* Returns true while the program has a handle to a tensor or view, as far as that can be seen: the latest
   that died are remembered. */
static inline bool dao_managed_is_live(const dao_managed_t *tensor)
{
    return atomic_load_explicit(&tensor->handle.reference_count, memory_order_relaxed) > 0;
}

/* DAO_ERR_INVALID for NULL and a handle that was released. `what` begins the message: the function
   that was called, or what names the tensor. */
DAO_NODISCARD dao_status_t dao_managed_check(const char *what, const dao_managed_t *tensor);

/* Before the program writes a tensor, or a view, or discards it. `what`: is done to it. DAO_ERR_INVALID if it
   has a source. */
DAO_NODISCARD dao_status_t dao_managed_check_writable(const dao_managed_t *tensor, const char *what);

/* Adds a reference to a record, or drops one; the last one frees it. Not of a view. */
void dao_managed_reference(dao_managed_t *tensor);
void dao_managed_unreference(dao_managed_t *tensor);

#endif
