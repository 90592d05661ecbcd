/* SPDX-License-Identifier: Apache-2.0 */
/* A swap problem made ready for planning. The uses of a kernel are joined: a tensor has one access at most in
   each kernel. Each access knows the next one of its tensor, around the step's end.

       kernel   0      1      2      3   | 0 of the next step
       tensor   W------R.............R===|=W            W write, R read
                period 0    period 1   period 2

   An inactive period (G10: Zhang et al., MICRO'23) is the time between an access and the next one of the same
   tensor. It is live if the next access reads: periods 0 and 1 here. In a dead one, such as period 2, the
   tensor needs no memory. A version is the content that one write leaves; it lasts up to the next write. */
#ifndef DAO_PLANNING_SWAP_STEP_H
#define DAO_PLANNING_SWAP_STEP_H

#include "base/report/error.h"

#include <dao/swap.h>

#define DAO_SWAP_NONE UINT32_MAX

/* A tensor in a kernel, named once. */
typedef struct dao_swap_access {
    uint32_t tensor;
    uint32_t kernel;
    uint32_t next;            /* access of the same tensor; itself where it is the only one */
    uint32_t inactive_length; /* kernels from this one to the next: 1 .. kernel_count */
    uint32_t writer; /* access that wrote what this one leaves; DAO_SWAP_NONE: no kernel writes the tensor */
    bool reads;
    bool writes;
    bool inactive_is_live;          /* behind this access */
    bool previous_inactive_is_live; /* before it */
} dao_swap_access_t;

/* How the caller cancels a plan, and what it has taken so far. */
typedef struct dao_swap_cancel {
    bool (*is_cancelled)(void *user); /* NULL: never */
    void *user;
    bool was_cancelled;   /* it said so: it is not asked again */
    uint64_t work;        /* done so far, in steps of some 10 ns */
    uint64_t work_end;    /* of the search at hand, which may go beyond it for its first plan */
    uint64_t time_end_ns; /* of dao_clock_ns(), for what may end early; UINT64_MAX: it is not read */
} dao_swap_cancel_t;

typedef struct dao_swap_step {
    const dao_swap_problem_t *problem; /* borrowed */
    dao_swap_cancel_t *cancel;         /* borrowed; NULL: it cannot be cancelled */
    uint32_t kernel_count;
    uint32_t tensor_count; /* the problem's, then one for each workspace */
    uint32_t access_count;
    uint64_t *size_bytes;        /* of each tensor, rounded up to the alignment, or to pages */
    uint32_t *first_access;      /* of each tensor; DAO_SWAP_NONE: never used */
    uint32_t *kernel_access;     /* kernel_count + 1: first access of each kernel */
    uint32_t *workspace_tensor;  /* of each kernel; DAO_SWAP_NONE */
    dao_swap_access_t *accesses; /* by kernel */
    uint64_t *kernel_bytes;      /* of all that a kernel accesses */
    uint64_t *live_bytes;        /* kernel_bytes and live inactive periods over the kernel */
    uint64_t *time_before;       /* kernel_count + 1: sum of the times of the kernels before */
    uint64_t alignment_bytes;
    uint64_t page_bytes;  /* 0: no tensor lies in pages */
    uint32_t least_pages; /* tensors of so many pages and more do */
    bool runs_beside;     /* kernels of several compute streams are timed as they run, beside each other */
} dao_swap_step_t;

/* Returns true if a tensor of this size lies in pages. */
static inline bool dao_swap_is_paged(const dao_swap_step_t *step, uint64_t size_bytes)
{
    return step->page_bytes != 0 && size_bytes >= step->least_pages * step->page_bytes;
}

/* More than any kernel of a step can need: a capacity above it, such as "no limit", is one like it. */
#define DAO_SWAP_CAPACITY_ENOUGH (4 * DAO_SWAP_SIZE_MAX)

/* The problem that bounds are of: what alignment and pages cost is no law. */
static inline dao_swap_problem_t dao_swap_problem_exact(const dao_swap_problem_t *problem)
{
    dao_swap_problem_t exact = *problem;
    exact.alignment_bytes = 1;
    exact.page_bytes = 0;
    if (exact.capacity_bytes > DAO_SWAP_CAPACITY_ENOUGH) {
        exact.capacity_bytes = DAO_SWAP_CAPACITY_ENOUGH;
    }
    return exact;
}

/* Checks the kernels and the tensors of a problem, whatever machine it is for. DAO_ERR_INVALID,
   DAO_ERR_OVERFLOW. */
DAO_NODISCARD dao_status_t dao_swap_step_check_work(const dao_swap_problem_t *problem);

/* Checks a problem and makes it ready. The problem is borrowed until dao_swap_step_finish(). On an error
   there is nothing to finish. DAO_ERR_INVALID, DAO_ERR_OVERFLOW, DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_swap_step_init(dao_swap_step_t *step, const dao_swap_problem_t *problem);

/* The same with another number of pages from which on a tensor lies in them than DAO_SWAP_PAGED_PAGES. */
DAO_NODISCARD dao_status_t dao_swap_step_init_paged(dao_swap_step_t *step, const dao_swap_problem_t *problem,
                                                    uint32_t least_pages);

void dao_swap_step_finish(dao_swap_step_t *step);

bool dao_swap_step_is_valid(const dao_swap_step_t *step);

/* Asks whether the plan of a step is still wanted. Whatever may take a millisecond looks, and then ends soon,
   with all its memory given back and dao_swap_step_give_up(). */
static inline bool dao_swap_is_cancelled(dao_swap_cancel_t *cancel)
{
    if (cancel == NULL || cancel->is_cancelled == NULL) {
        return false;
    }
    cancel->was_cancelled = cancel->was_cancelled || cancel->is_cancelled(cancel->user);
    return cancel->was_cancelled;
}

/* Counts work for the plan of a step. Equal plans count equal work on every machine. */
static inline void dao_swap_add_work(const dao_swap_step_t *step, uint64_t work)
{
    if (step->cancel != NULL) {
        step->cancel->work += work;
    }
}

static inline uint64_t dao_swap_work(const dao_swap_step_t *step)
{
    return step->cancel != NULL ? step->cancel->work : 0;
}

/* Returns true once the work for a plan is done up to `work_end`, or its time is up. */
bool dao_swap_is_over(const dao_swap_step_t *step, uint64_t work_end);

/* Why a step's plan is given up: DAO_ERR_STOPPED if it was cancelled, else DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD static inline dao_status_t dao_swap_step_give_up(const dao_swap_step_t *step)
{
    return step->cancel != NULL && step->cancel->was_cancelled
               ? dao_error(DAO_ERR_STOPPED, "the plan of a step was cancelled")
               : dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to plan the swaps of a step");
}

/* Kernels from access `at`, which writes, to the last one that reads its content, which is `*out_end`; 0 if
   none reads it. */
uint32_t dao_swap_content_length(const dao_swap_step_t *step, uint32_t at, uint32_t *out_end);

/* The kernel with the most bytes. */
uint32_t dao_swap_step_largest_kernel(const dao_swap_step_t *step);

/* DAO_ERR_KERNEL_TOO_LARGE with the kernel's name in the message, if one needs more than `capacity_bytes`. */
DAO_NODISCARD dao_status_t dao_swap_step_check_capacity(const dao_swap_step_t *step, uint64_t capacity_bytes);

#endif
