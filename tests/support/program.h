/* SPDX-License-Identifier: Apache-2.0 */
/* A program on an executor that knows what every tensor must hold: contents come from the tensor's number and
   its version, every kernel checks what it reads on the device, and versions count only the kernels that were
   really launched. */
#ifndef DAO_TESTS_SUPPORT_PROGRAM_H
#define DAO_TESTS_SUPPORT_PROGRAM_H

#include <dao/command_list.h>
#include <dao/executor.h>

#include <stdatomic.h>

#define PROGRAM_TENSOR_COUNT_MAX  64
#define PROGRAM_OPERAND_COUNT_MAX 8

/* Content is compared by rows, not by bytes, each of which costs a sanitizer a call. */
#define PROGRAM_ROW_BYTES 256u

typedef struct program_tensor {
    dao_managed_t *handle; /* NULL: dropped */
    size_t size_bytes;
    bool is_fixed; /* made of a source: always of version 1, and never written */
    _Atomic uint32_t
        version; /* of its content; 0: never written. The executor's thread, or any after a sync */
} program_tensor_t;

typedef struct program {
    dao_executor_t *executor;
    dao_launch_func_t work; /* queued in front of every kernel, with user NULL; NULL: nothing is */
    uint64_t cost_ns;       /* what kernels are said to take; 0: nothing is said */
    uint32_t stream_index;  /* that kernels are pushed for */
    program_tensor_t tensors[PROGRAM_TENSOR_COUNT_MAX];
    uint32_t tensor_count;
    unsigned char
        ramp[2 * PROGRAM_ROW_BYTES]; /* content is made of it: a row begins anywhere in the first half */
    _Atomic uint64_t read_count;     /* operands checked on the device */
    _Atomic uint64_t mismatch_count; /* of these, with a wrong byte */
    _Atomic int64_t open_count;      /* kernels whose drop was not called yet */
} program_t;

/* One kernel: tensors' numbers and how they are used. */
typedef struct program_kernel {
    const char *name;
    uint32_t operand_count;
    uint32_t tensors[PROGRAM_OPERAND_COUNT_MAX];
    dao_access_t accesses[PROGRAM_OPERAND_COUNT_MAX];
    size_t workspace_bytes;
    dao_status_t answer; /* what its launch function answers instead of working, if not DAO_OK */
} program_kernel_t;

/* The executor is borrowed. */
void program_init(program_t *program, dao_executor_t *executor);

/* Creates a tensor; its number, or UINT32_MAX if the executor refused. */
uint32_t program_tensor(program_t *program, size_t size_bytes);

/* The bytes that a tensor with the next number and this size has as version 1: what a source of it is to
   have. The caller frees them. */
unsigned char *program_content(const program_t *program, size_t size_bytes);

/* Creates a tensor of a source that has these bytes at an offset; as program_tensor(). */
uint32_t program_tensor_from(program_t *program, size_t size_bytes, dao_source_t *source, uint64_t offset);

/* Makes a new handle for a dropped tensor, to a tensor of the same size without content. Its versions go on
   counting. Returns false if the executor refused. */
bool program_renew(program_t *program, uint32_t tensor);

/* Writes a tensor's next version from the host. */
dao_status_t program_write(program_t *program, uint32_t tensor);

/* Reads a tensor on the host: DAO_ERR_CORRUPT if it does not hold its version. */
dao_status_t program_read(program_t *program, uint32_t tensor);

/* The same for a version that is not the latest. */
dao_status_t program_read_version(program_t *program, uint32_t tensor, uint32_t version);

/* Reads every tensor that has a handle and a version: the number of those that are wrong or cannot be
   read. */
uint32_t program_count_lost(program_t *program);

/* Once the device was lost: the number of tensors that neither have their bytes nor answer an error that
   names them. A kernel that was launched but could not be numbered has not happened: *out_before_count is of
   those that still hold the version before it. */
uint32_t program_count_wrong_after_loss(program_t *program, uint32_t *out_before_count);

dao_status_t program_push(program_t *program, const program_kernel_t *kernel);
dao_status_t program_list_push(program_t *program, dao_command_list_t *list, const program_kernel_t *kernel);

/* What its executor counted until now. */
dao_executor_stats_t program_stats(const program_t *program);

/* Drops a tensor's handle. */
void program_drop(program_t *program, uint32_t tensor);
void program_drop_all(program_t *program);

#endif
