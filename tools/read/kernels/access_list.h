/* SPDX-License-Identifier: Apache-2.0 */
/* A step as kernels that access tensors: the form of files that say only which kernel reads and writes what,
   and which tensors are carried from step to step. Readers fill a list; it is then turned into a step trace:

       file says                                    the trace has
       carried, whatever accesses it                alive before the step and after it
       not carried, and never accessed              nothing
       first accessed by a read                      alive before the step, released after its last access
       first accessed by a write                     produced there, released after its last access
       written again without being read, not        released after its last access before; the new content is
       carried                                      a tensor of its own, whose id ends in "+1", "+2", ... */
#ifndef DAO_TOOLS_ACCESS_LIST_H
#define DAO_TOOLS_ACCESS_LIST_H

#include "tools/model/step_trace.h"

/* Longest name of a tensor or a kernel; longer ones are cut. */
#define DAO_TOUCH_NAME_MAX 64

typedef struct dao_listed_access {
    uint32_t tensor;
    bool reads;
    bool writes; /* one of both at least */
} dao_listed_access_t;

typedef struct dao_listed_access_tensor {
    size_t name_offset;
    uint64_t size_bytes;
    bool is_carried;
    uint32_t last_kernel;  /* that accesses it; DAO_TRACE_NONE: none does */
    uint32_t trace_tensor; /* its current content in the trace */
    uint32_t version;      /* contents that it has had */
} dao_access_tensor_t;

typedef struct dao_access_kernel {
    size_t name_offset;
    uint64_t cost_ns;
    uint64_t workspace_bytes;
    dao_trace_range_t accesses;
} dao_access_kernel_t;

typedef struct dao_access_list {
    dao_access_tensor_t *tensors;
    size_t tensor_count, tensor_capacity;
    dao_access_kernel_t *kernels;
    size_t kernel_count, kernel_capacity;
    dao_listed_access_t *accesses;
    size_t access_count, access_capacity;
    char *names;
    size_t name_bytes, name_capacity;
} dao_access_list_t;

void dao_access_list_init(dao_access_list_t *list);
void dao_access_list_finish(dao_access_list_t *list);

/* All of these answer DAO_ERR_NO_HOST_MEMORY, or DAO_ERR_PARSE with a message for what cannot be. */

/* Adds a tensor; the caller sees to it that names are unique. */
DAO_NODISCARD dao_status_t dao_access_list_add_tensor(dao_access_list_t *list, const char *name,
                                                      uint64_t size_bytes, bool is_carried);

/* Begins the next kernel; accesses that follow are its own. */
DAO_NODISCARD dao_status_t dao_access_list_add_kernel(dao_access_list_t *list, const char *name,
                                                      uint64_t cost_ns, uint64_t workspace_bytes);

/* Adds an access of the current kernel, which has not accessed the tensor yet. */
DAO_NODISCARD dao_status_t dao_access_list_add_access(dao_access_list_t *list, uint32_t tensor, bool reads,
                                                      bool writes);

/* Turns the list into a packed trace. `out_trace` is written only on DAO_OK; the caller owns it.
   DAO_ERR_OVERFLOW too. */
DAO_NODISCARD dao_status_t dao_access_list_build(dao_access_list_t *list, dao_step_trace_t *out_trace);

#endif
