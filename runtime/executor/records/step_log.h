/* SPDX-License-Identifier: Apache-2.0 */
/* Steps as sequences of kernels: a log of the step that is under way, and the logs of steps that are
   known.

   Tensors are named by their *role*: their number in the order of their first uses in the step. So a step
   that makes its temporaries anew every time is the same step. */
#ifndef DAO_RUNTIME_EXECUTOR_STEP_LOG_H
#define DAO_RUNTIME_EXECUTOR_STEP_LOG_H

#include "runtime/executor/records/item.h"

typedef struct dao_step_log_kernel {
    uint64_t signature; /* of item.h */
    uint64_t workspace_bytes;
    uint32_t first_use; /* in the step's uses */
    uint32_t use_count;
    uint32_t name;         /* in the log's texts; 0: not kept */
    uint64_t cost_ns;      /* as the program says; 0: not known */
    bool is_repeatable;    /* as the program says; part of the signature */
    uint32_t stream_index; /* likewise */
} dao_step_log_kernel_t;

typedef struct dao_step_log_use {
    uint32_t role;
    dao_use_kind_t kind;
    uint32_t distance; /* once closed: kernels to the role's next use, in the next step if need be; 0: none */
} dao_step_log_use_t;

typedef struct dao_step_log_role {
    uint64_t tensor_id; /* of the tensor that had it in the step that was learnt */
    uint64_t size_bytes;
    uint32_t name;      /* of that tensor, in the log's texts; 0: not kept */
    bool has_source;    /* of the program's, so that it is only read */
    bool is_persistent; /* its content lives on after the step */
    bool begins_anew;   /* its first use writes it, or the program did before: any tensor may have the role */
} dao_step_log_role_t;

/* The sequence of a step: kernels, uses, roles. */
typedef struct dao_step_log {
    uint64_t epoch;   /* number of the step; tensors carry it with their role */
    bool is_broken;   /* something of the step is missing in it */
    bool has_streams; /* a kernel is on another compute stream than the first */
    dao_step_log_kernel_t *kernels;
    uint32_t kernel_count, kernel_capacity;
    dao_step_log_use_t *uses;
    uint32_t use_count, use_capacity;
    dao_step_log_role_t *roles;
    uint32_t role_count, role_capacity;
    uint32_t *readers; /* once closed: roles that do not begin anew, in order of their tensors' numbers */
    uint32_t reader_count;
    char *texts; /* names, each closed by a zero; the first byte is one */
    uint32_t text_bytes, text_capacity;
} dao_step_log_t;

#define DAO_STEP_LOG_NO_ROLE UINT32_MAX

void dao_step_log_init(dao_step_log_t *log);
void dao_step_log_finish(dao_step_log_t *log);

/* Adds a kernel, and gives its tensors roles. Without memory the log is broken. */
void dao_step_log_add(dao_step_log_t *log, const dao_item_t *item);

/* Keeps the names of the latest kernel, which the item has, and of its tensors. For a step that is not known:
   of one that is, its log has them. Without memory there are none. */
void dao_step_log_name(dao_step_log_t *log, const dao_item_t *item);

/* Adds the kernels of a command list that has not run, with their names. What the list writes first begins
   anew; what it discards, and what has no handle any more, does not live on. */
void dao_step_log_describe(dao_step_log_t *log, const dao_item_t *first);

/* Keeps the names that another log has of its first kernels, which are the same. */
void dao_step_log_take_names(dao_step_log_t *log, const dao_step_log_t *other, uint32_t kernel_count);

/* Returns a name; "" for 0. */
const char *dao_step_log_text(const dao_step_log_t *log, uint32_t name);

/* Closes the log of a step that has ended: finds distances and readers. False without memory. */
DAO_NODISCARD bool dao_step_log_close(dao_step_log_t *log);

/* A known step that has not been planned yet came again, as `log`: notes which contents live on, and which
   roles do not begin anew after all. Distances stay those of the first time. */
void dao_step_log_take_over(dao_step_log_t *known, const dao_step_log_t *log);

/* The role that does not begin anew and was this tensor's; DAO_STEP_LOG_NO_ROLE: none. */
uint32_t dao_step_log_find_reader(const dao_step_log_t *known, uint64_t tensor_id);

/* The role that was this tensor's, whether it begins anew or not; DAO_STEP_LOG_NO_ROLE: none. O(roles). */
uint32_t dao_step_log_find_role(const dao_step_log_t *known, uint64_t tensor_id);

/* Begins the next step; what memory there is stays. */
void dao_step_log_restart(dao_step_log_t *log);

/* Returns true if the log's kernel `index` is that of another log, in all that the executor sees of it:
   function, name, sizes, accesses, and which tensors are the same. */
bool dao_step_log_is_kernel_same(const dao_step_log_t *log, const dao_step_log_t *other, uint32_t index);

/* Returns true if two steps are the same from begin to end. */
bool dao_step_log_is_same(const dao_step_log_t *log, const dao_step_log_t *other);

bool dao_step_log_is_valid(const dao_step_log_t *log);

#endif
