/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of a small transformer, forward and backward, in two sets that compute the same:

       host_operators   operators.c: plain loops over arrays of floats, for virtual devices
       cuda_operators   operators.cu: cuBLAS and CUDA C, for NVIDIA devices

   An operator gets its sizes, the addresses of its operands in the order beside its name, "(what it reads) ->
   what it writes", and its workspace after them. Each adds in a fixed order, so equal inputs give equal
   outputs wherever the operands lie. Runs with little and with much memory can therefore be compared bit by
   bit. */
#ifndef TRAIN_OPERATORS_H
#define TRAIN_OPERATORS_H

#include <dao/executor.h>

#include <stddef.h>

DAO_BEGIN_DECLS

/* Tokens are bytes. */
#define VOCABULARY_COUNT 256

/* What an operator has to know beside its operands. "Rows" are the tokens of all sequences: batch_count *
   time_count. */
typedef struct sizes {
    size_t batch_count; /* sequences */
    size_t time_count;  /* tokens of a sequence */
    size_t head_count;  /* of attention; divides in_count */
    size_t in_count;    /* floats of a row that comes in; for adamw all floats */
    size_t out_count;   /* floats of a row that goes out, where it differs */
    float weight_decay; /* adamw alone */
    const void *others; /* whom a gradient is exchanged with; of model.c alone */
} sizes_t;

typedef void (*operator_t)(const sizes_t *sizes, void *const *operands);

/* What changes from step to step, as adamw reads it. */
typedef struct schedule {
    float rate;              /* how far a step goes */
    float mean_correction;   /* 1 - 0.9^step */
    float square_correction; /* 1 - 0.99^step */
} schedule_t;

#define ADAMW_MEAN_KEPT   0.9f
#define ADAMW_SQUARE_KEPT 0.99f
#define ADAMW_EPSILON     1e-8f
#define NORM_EPSILON      1e-5f
#define GELU_SCALE        0.7978845608f /* sqrt(2 / pi): GELU in its form with tanh */
#define GELU_CUBE         0.044715f

typedef struct operators {
    /* Tokens have time_count + 1 bytes a sequence: position t is the input, position t + 1 what is to be
       said. */
    operator_t embed_forward;  /* (tokens, table, positions) -> x */
    operator_t embed_backward; /* (tokens, dx) -> dtable, dpositions */

    operator_t norm_forward; /* (x, gain, bias) -> y, moments: of a row its mean and one over its deviation */
    operator_t norm_backward; /* (x, gain, moments, dy), dx += -> dgain, dbias */

    /* y = x weight + bias, weight has in_count rows of out_count */
    operator_t linear_forward;  /* (x, weight, bias) -> y */
    operator_t linear_backward; /* (x, weight, dy) -> dx, dweight, dbias */

    /* Causal: a row of qkv is query, key, value; a head has a part of each. */
    operator_t attention_forward;  /* (qkv) -> weights, y */
    operator_t attention_backward; /* (qkv, weights, dy) -> dqkv; workspace */

    operator_t gelu_forward;  /* (x) -> y */
    operator_t gelu_backward; /* (x), dy becomes dx */
    operator_t add_in_place;  /* (x), y += x */

    /* Softmax, cross entropy and their gradient in one. */
    operator_t cross_entropy; /* (tokens), logits become their gradient -> loss; workspace */

    operator_t adamw; /* (schedule, gradient), value, mean, square are moved on */

    size_t (*attention_workspace_bytes)(const sizes_t *sizes);
    size_t (*loss_workspace_bytes)(const sizes_t *sizes);

    /* Queues an operator where its kernel was launched. `sizes` live as long as the kernel. */
    dao_status_t (*launch)(const dao_launch_t *launch, operator_t run, const sizes_t *sizes);
} operators_t;

extern const operators_t host_operators;
extern const operators_t cuda_operators;

DAO_END_DECLS

#endif
