/* SPDX-License-Identifier: Apache-2.0 */
/* A small transformer whose training step is a dao_command_list_t: built once, run for every batch. */
#ifndef TRAIN_MODEL_H
#define TRAIN_MODEL_H

#include "operators.h"

#include <dao/dao.h>

/* How several workers, each with a model of its own, learn as one: every gradient becomes the mean of all
   workers'. */
typedef struct model_exchange {
    /* Called in each worker for the same gradients in the same order, on a thread of the device's stream. */
    void (*mean)(float *values, size_t count, void *user);
    void *user;
} model_exchange_t;

/* What the model is made of. A byte is a token. */
typedef struct model_config {
    const operators_t *operators;
    size_t layer_count; /* 1 to MODEL_LAYER_COUNT_MAX */
    size_t width;       /* floats a token; a multiple of head_count */
    size_t head_count;
    size_t batch_count;        /* sequences of a step */
    size_t time_count;         /* tokens of a sequence */
    bool recomputes;           /* kernels that change nothing in place may run again */
    model_exchange_t exchange; /* all 0: there is one worker */
} model_config_t;

#define MODEL_LAYER_COUNT_MAX 64

typedef struct model model_t;

/* Creates the model's tensors in an executor, fills the weights from fixed random numbers, and registers the
   step. */
dao_status_t model_create(dao_executor_t *executor, const model_config_t *config, model_t **out_model);

/* Runs a training step on batch_count * (time_count + 1) bytes, and waits for its loss. Steps count from
   1. */
dao_status_t model_train(model_t *model, const unsigned char *tokens, size_t step_number, float *out_loss);

/* Drops all handles. NULL is allowed. */
void model_destroy(model_t *model);

#endif
