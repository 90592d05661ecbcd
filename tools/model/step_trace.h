/* SPDX-License-Identifier: Apache-2.0 */
/* A step trace in memory: operators in order, the tensors that they read, write and release, their
   temporaries and costs. Tensors are numbered from 0 in the order of their first appearance; their ids in the
   file are text.

   Inside an operator: its outputs come to life, then its temporaries in their recorded order of alloc and
   free, then it computes, then what is left of the temporaries goes, then what it releases. In a file that
   records each free, what is left counts as alive to the step's end, though a run has it in the operator's
   workspace alone. A tensor that no operator produces is alive before the step; one that is never released is
   alive to the end. One that is both is carried from step to step: a weight. One that is alive before and
   released is fed to every step anew: an input.

   Some files tell more: what tensors are for (tags), other names of them or of their parts (aliases), and of
   operators the module, the stream, when they began, what they keep for a later one, and whether they may run
   again. Where a file tells nothing, a text is "", a time DAO_TRACE_NO_TIME. */
#ifndef DAO_TOOLS_STEP_TRACE_H
#define DAO_TOOLS_STEP_TRACE_H

#include "tools/base/id_map.h"

#include <dao/executor.h>

/* No operator: the tensor was alive before the step, or outlives it. */
#define DAO_TRACE_NONE UINT32_MAX

/* The file does not say when. */
#define DAO_TRACE_NO_TIME UINT64_MAX

/* Offset of a name that there is not. */
#define DAO_TRACE_NO_NAME SIZE_MAX

/* Most temporaries of one operator. */
#define DAO_TRACE_TEMPORARY_COUNT_MAX 1024

/* Addresses of tensors and of temporaries in the workspace are multiples of this. */
#define DAO_TRACE_ALIGNMENT_BYTES 256

typedef struct dao_trace_tensor {
    size_t id_offset;   /* of its id in the trace's names */
    size_t name_offset; /* what the program calls it; DAO_TRACE_NO_NAME */
    size_t tag_offset;  /* what it is for; DAO_TRACE_NO_NAME */
    uint64_t size_bytes;
    uint32_t producer;    /* operator, or DAO_TRACE_NONE */
    uint32_t first_user;  /* operator that reads, changes or releases it first, or DAO_TRACE_NONE */
    uint32_t released_by; /* operator, or DAO_TRACE_NONE */
    uint32_t mark;        /* used by the calls below alone */
} dao_trace_tensor_t;

/* A range of one of the trace's arrays. */
typedef struct dao_trace_range {
    size_t begin;
    size_t count;
} dao_trace_range_t;

/* What an operator accesses: each tensor once, reads and writes joined. */
typedef struct dao_trace_operand {
    uint32_t tensor;
    dao_access_t access;
    uint32_t alias; /* by which all of these accesses are; DAO_TRACE_NONE: by the tensor itself */
} dao_trace_operand_t;

/* Another name of a tensor, or of a part of it; it has no bytes of its own. */
typedef struct dao_trace_alias {
    size_t id_offset;
    uint32_t tensor;
    uint64_t offset_bytes; /* in the tensor */
    uint64_t size_bytes;   /* ends within it */
} dao_trace_alias_t;

/* Space of an operator's own from one alloc to its free. */
typedef struct dao_trace_temporary {
    size_t id_offset;
    uint64_t size_bytes;
    uint64_t offset_bytes; /* in the operator's workspace */
} dao_trace_temporary_t;

typedef struct dao_trace_event {
    uint32_t temporary; /* index among the operator's own */
    bool is_alloc;
} dao_trace_event_t;

typedef struct dao_trace_operator {
    size_t name_offset;
    size_t module_offset; /* of the program that it belongs to, "encoder.0.mlp"; DAO_TRACE_NO_NAME */
    dao_trace_range_t operands;
    dao_trace_range_t releases;
    dao_trace_range_t temporaries;
    dao_trace_range_t events; /* every alloc, and the recorded frees */
    dao_trace_range_t saves;  /* tensors that it keeps as they are for a later operator */
    uint64_t begin_ns;        /* from the step's begin; DAO_TRACE_NO_TIME */
    uint64_t cost_ns;
    uint64_t workspace_bytes; /* all temporaries, packed */
    uint32_t stream;
    /* Run again with the same operands it writes the same: it may be recomputed. Where a file does not tell,
       all are but those that a name betrays: random numbers, statistics, sums in any order, other devices. */
    bool is_pure;
} dao_trace_operator_t;

typedef struct dao_step_trace {
    char model[128]; /* from the files' name */
    char batch[32];
    dao_trace_operator_t *operators;
    size_t operator_count, operator_capacity;
    dao_trace_tensor_t *tensors;
    size_t tensor_count, tensor_capacity;
    dao_trace_operand_t *operands;
    size_t operand_count, operand_capacity;
    uint32_t *releases;
    size_t release_count, release_capacity;
    uint32_t *saves;
    size_t save_count, save_capacity;
    dao_trace_alias_t *aliases;
    size_t alias_count, alias_capacity;
    dao_trace_temporary_t *temporaries;
    size_t temporary_count, temporary_capacity;
    bool keeps_temporaries; /* each free is recorded: what is never freed lives to the step's end */
    dao_trace_event_t *events;
    size_t event_count, event_capacity;
    char *names;
    size_t name_bytes, name_capacity;
    uint32_t first_backward; /* operator where the backward pass begins; DAO_TRACE_NONE: not recorded */
    uint32_t current_alias;  /* see dao_step_trace_by_alias() */
    uint64_t ignored_count;  /* unknown fields and sizes in the files */
} dao_step_trace_t;

/* What follows from a trace. All sums are checked. */
typedef struct dao_step_figures {
    uint64_t peak_bytes;       /* most bytes alive at once, sizes as they stand in the trace */
    uint64_t rounded_bytes;    /* the same with every size rounded up and temporaries packed */
    uint64_t persistent_bytes; /* alive before the step */
    uint64_t persistent_count;
    uint64_t largest_work_bytes; /* operands and workspace of the largest operator: the smallest capacity */
    uint32_t largest_operator;   /* DAO_TRACE_NONE if there is no operator */
    uint64_t cost_ns;            /* of all operators */
} dao_step_figures_t;

void dao_step_trace_init(dao_step_trace_t *trace);
void dao_step_trace_finish(dao_step_trace_t *trace);

/* Names the model, of which `model` has `length` bytes, and the batch; both are cut and made fit to be
   printed. */
void dao_step_trace_name(dao_step_trace_t *trace, const char *model, size_t length, const char *batch);

/* Names the model by its file, without the folder and the endings of packed files, .tr and .json; the batch
   is "1". */
void dao_step_trace_name_file(dao_step_trace_t *trace, const char *path);

static inline const char *dao_trace_name(const dao_step_trace_t *trace, size_t offset)
{
    return offset == DAO_TRACE_NO_NAME ? "" : trace->names + offset;
}

/* Numbers the compute streams of a trace in the order of their first operators: *out_count of them, and that
   of each operator in `streams`. DAO_ERR_INVALID for more than an executor has. */
DAO_NODISCARD dao_status_t dao_trace_number_streams(const dao_step_trace_t *trace, uint32_t *streams,
                                                    uint32_t *out_count);

static inline const char *dao_trace_tensor_id(const dao_step_trace_t *trace, uint32_t tensor)
{
    return trace->names + trace->tensors[tensor].id_offset;
}

static inline const char *dao_trace_operator_name(const dao_step_trace_t *trace, uint32_t index)
{
    return trace->names + trace->operators[index].name_offset;
}

/* Building. Each answers DAO_ERR_PARSE for what cannot be, with a message; DAO_ERR_NO_HOST_MEMORY. */

/* Adds a tensor; the caller sees to it that ids are unique. */
DAO_NODISCARD dao_status_t dao_step_trace_add_tensor(dao_step_trace_t *trace, const char *id,
                                                     uint64_t size_bytes, uint32_t *out_tensor);
/* Adds another name of a part of a tensor, [offset_bytes, offset_bytes + size_bytes). DAO_ERR_PARSE if that
   is no part of it. */
DAO_NODISCARD dao_status_t dao_step_trace_add_alias(dao_step_trace_t *trace, const char *id,
                                                    const dao_trace_alias_t *alias, uint32_t *out_alias);
/* Adds a text, for the offsets of names, tags and modules. */
DAO_NODISCARD dao_status_t dao_step_trace_add_text(dao_step_trace_t *trace, const char *text,
                                                   size_t *out_offset);
/* Begins the next operator; what follows belongs to it. */
DAO_NODISCARD dao_status_t dao_step_trace_add_operator(dao_step_trace_t *trace, const char *name);
/* In this order: all inputs, mutates, outputs, overwrites, releases of the operator. An output comes to life
   with it; an overwrite puts new content into a tensor that is alive, without looking at the old one. */
DAO_NODISCARD dao_status_t dao_step_trace_add_input(dao_step_trace_t *trace, uint32_t tensor);
DAO_NODISCARD dao_status_t dao_step_trace_add_mutate(dao_step_trace_t *trace, uint32_t tensor);
DAO_NODISCARD dao_status_t dao_step_trace_add_output(dao_step_trace_t *trace, uint32_t tensor);
DAO_NODISCARD dao_status_t dao_step_trace_add_overwrite(dao_step_trace_t *trace, uint32_t tensor);
DAO_NODISCARD dao_status_t dao_step_trace_add_release(dao_step_trace_t *trace, uint32_t tensor);

/* The operator keeps a tensor, which is alive and stays so, for a later one. At any time before the
   releases. */
DAO_NODISCARD dao_status_t dao_step_trace_add_save(dao_step_trace_t *trace, uint32_t tensor);

/* Accesses that are added from here on are by an alias; DAO_TRACE_NONE: by the tensor itself. */
void dao_step_trace_by_alias(dao_step_trace_t *trace, uint32_t alias);

/* Begins the temporaries of an operator; operators come in order. */
void dao_step_trace_begin_temporaries(dao_step_trace_t *trace, uint32_t index);
DAO_NODISCARD dao_status_t dao_step_trace_add_alloc(dao_step_trace_t *trace, uint32_t index, const char *id,
                                                    uint64_t size_bytes);
/* Frees the latest temporary of that id, which has to be live. */
DAO_NODISCARD dao_status_t dao_step_trace_add_free(dao_step_trace_t *trace, uint32_t index, const char *id);

/* Packs the temporaries of every operator: first fit, in their recorded order. DAO_ERR_OVERFLOW names the
   operator. */
DAO_NODISCARD dao_status_t dao_step_trace_pack(dao_step_trace_t *trace);

/* Bytes of an operator's distinct operands and workspace, each rounded up. DAO_ERR_OVERFLOW names operator
   and tensor. */
DAO_NODISCARD dao_status_t dao_step_trace_work(const dao_step_trace_t *trace, uint32_t index,
                                               uint64_t *out_bytes);

/* Computes all figures of a packed trace. DAO_ERR_OVERFLOW names the operator. */
DAO_NODISCARD dao_status_t dao_step_trace_figures(const dao_step_trace_t *trace,
                                                  dao_step_figures_t *out_figures);

#endif
