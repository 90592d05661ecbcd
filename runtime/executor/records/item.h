/* SPDX-License-Identifier: Apache-2.0 */
/* What travels through the queue: kernels, releases, and requests of the program; and the uses that make up
   every tensor's access list. */
#ifndef DAO_RUNTIME_EXECUTOR_ITEM_H
#define DAO_RUNTIME_EXECUTOR_ITEM_H

#include "base/report/error.h"
#include "runtime/executor/records/counted.h"
#include "runtime/executor/records/slice.h"

#include <dao/executor.h>

typedef struct dao_item dao_item_t;

typedef enum dao_use_kind {
    DAO_USE_READ = 0,
    DAO_USE_WRITE = 1,
    DAO_USE_READ_WRITE = 2,
    DAO_USE_DISCARD = 3, /* the content is not needed any more */
} dao_use_kind_t;

/* One item's use of one tensor; a link of the tensor's access list once the executor has taken the item
   in. */
typedef struct dao_use {
    dao_managed_t *tensor; /* a reference of its own to the record, not a handle */
    dao_use_kind_t kind;   /* one that overwrites some bytes alone is a READ_WRITE */
    bool is_read;          /* by the program: so it has to have a content */
    bool is_partial;       /* touches some bytes of the tensor alone: those of `reads` and `writes` */
    bool made_content;  /* there was none: it was made of zeros for this use, and goes if the kernel fails */
    dao_slice_t reads;  /* what has to be there before it; empty if it is not partial */
    dao_slice_t writes; /* likewise; all of these bytes are overwritten that it does not read */
    uint64_t time;      /* logical: kernels before it */
    struct dao_use *next; /* the same tensor's next use */
} dao_use_t;

typedef enum dao_item_kind {
    DAO_ITEM_KERNEL,
    DAO_ITEM_DISCARD, /* of uses[0].tensor */
    DAO_ITEM_RELEASE, /* the last handle of `released` is gone */
    DAO_ITEM_WRITE,   /* program to tensor */
    DAO_ITEM_READ,    /* tensor to program */
    DAO_ITEM_PIN,     /* uses[0].tensor stays on the device */
    DAO_ITEM_UNPIN,
    DAO_ITEM_SYNC,          /* lies on the stack of the thread that waits for it */
    DAO_ITEM_STEP_WRITE,    /* likewise: a file of the latest step */
    DAO_ITEM_CAPACITY,      /* likewise: another arena */
    DAO_ITEM_LIST_PLAN,     /* likewise: a command list is planned before it runs */
    DAO_ITEM_SOURCES,       /* likewise: tensors with sources are going to come */
    DAO_ITEM_STEP_BOUNDARY, /* a step of the program begins or ends here */
} dao_item_kind_t;

/* What a thread of the program waits for. It lies on that thread's stack. */
typedef struct dao_request {
    const void *source;
    void *destination;
    void *address;          /* what PIN answers: the tensor's on the device */
    dao_slice_t slice;      /* of the tensor */
    const char *path;       /* of STEP_WRITE */
    size_t capacity_bytes;  /* of CAPACITY; 0: what is free */
    const dao_item_t *list; /* of LIST_PLAN: the list's first item; NULL: it has none */
    uint64_t work_limit;    /* likewise: as of dao_swap_plan_config_t */
    dao_error_record_t error;
    bool is_done; /* guarded by the queue's lock */
} dao_request_t;

struct dao_item {
    dao_item_kind_t kind;
    dao_item_t *next;
    uint64_t time;            /* logical, once taken in: kernels before it */
    dao_request_t *request;   /* of what a thread waits for; else NULL */
    const void *source;       /* of a WRITE without a request */
    void *destination;        /* of a READ without one */
    dao_slice_t slice;        /* of both: which bytes of the tensor */
    dao_transfer_done_t done; /* of those that are no list's: called once, with `user` */
    dao_managed_t *released;  /* of RELEASE */

    /* Of a kernel. */
    const char *name; /* lies behind the item, or belongs to the command list */
    dao_launch_func_t launch;
    void *user;
    void (*drop)(void *user);
    dao_counted_t *list; /* of a run's copy: the command list, whose items own `user`; else NULL */
    uint64_t signature;  /* of function, name, flags, stream and number of operands; equal for different
                            kernels only by chance */
    size_t workspace_bytes;
    bool is_repeatable;       /* as the program says */
    bool is_called;           /* its function was: what that has queued may use the item */
    uint32_t again_count;     /* again.c: runs again that are still to come */
    uint64_t again_ns;        /* of such a run, as the plan has it */
    uint64_t cost_ns;         /* as the program says; 0: not known */
    uint32_t stream_index;    /* of the compute streams */
    uint64_t finish_sequence; /* on that stream, once launched */
    uint32_t operand_count;
    uint32_t *operand_uses;    /* operand -> index in uses */
    uint64_t *operand_offsets; /* operand -> bytes from its tensor's first byte to the view's; 0: no view */
    void **addresses;          /* operand -> device address, filled at the launch */

    uint32_t use_count; /* one a tensor */
    dao_use_t *uses;    /* lie behind the item */
};

/* Makes an item of a kernel: operands that name the same tensor become one use. Takes a reference to each
   tensor's record. DAO_ERR_INVALID, DAO_ERR_OVERFLOW, DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_item_from_kernel(dao_executor_t *executor, const dao_kernel_t *kernel,
                                                dao_item_t **out_item);

/* Makes an item that uses one tensor. DAO_ERR_INVALID if it cannot be used so; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_item_from_use(dao_item_kind_t kind, dao_managed_t *tensor, dao_use_kind_t use,
                                             dao_item_t **out_item);

/* Makes a boundary between two steps. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_item_from_step_boundary(dao_item_t **out_item);

/* Copies an item of a list, for a run; the copy holds the list. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_item_copy(const dao_item_t *item, dao_counted_t *list, dao_item_t **out_item);

/* Calls drop, drops the references to tensors and list, and frees the item. Not for release items, which
   lie in their tensors, nor for syncs. */
void dao_item_destroy(dao_item_t *item);

/* Operands name uses, and no two uses name the same tensor. */
bool dao_item_is_valid(const dao_item_t *item);

#endif
