/* SPDX-License-Identifier: Apache-2.0 */
/* A model on DAO's executor, which is what this example is about:

       dao_managed_t        a weight, gradient or layer's output: a size without an address
       dao_command_list_t   the kernels of a step in order, each with what it reads and writes, and where a
                            content is no longer needed: the executor sees every use before the step runs
       launch()             called by the executor when a kernel's operands are on the device: gets their
                            addresses, valid for this launch alone, and queues the work on a stream

   Nothing here knows how much memory the device has. */
#include "model.h"

#include "operators.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PARAMETERS_A_LAYER  12
#define PARAMETER_COUNT_MAX (PARAMETERS_A_LAYER * MODEL_LAYER_COUNT_MAX + 6)
#define TENSORS_A_PARAMETER 4
#define TENSORS_A_LAYER     11
#define TENSOR_COUNT_MAX                                                                                     \
    (TENSORS_A_PARAMETER * PARAMETER_COUNT_MAX + TENSORS_A_LAYER * MODEL_LAYER_COUNT_MAX + 16)

/* Wider models learn in smaller steps: with AdamW the rate goes as one over the width (Yang et al., Tensor
   Programs V, 2022). */
#define LEARNING_RATE 2e-3f
#define RATE_WIDTH    64.0f
#define WEIGHT_DECAY  0.01f

/* A parameter, and AdamW's state for it. */
typedef struct parameter {
    dao_managed_t *value, *gradient, *mean, *square;
    size_t float_count;
    float weight_decay;
} parameter_t;

typedef struct linear {
    size_t in_count, out_count;
    parameter_t *weight, *bias;
} linear_t;

typedef struct norm {
    parameter_t *gain, *bias;
    dao_managed_t *output, *moments;
} norm_t;

/* input -> norm_1 -> query_key_value -> attention -> join -> + input = middle -> norm_2 -> widen -> GELU ->
   narrow -> + middle = output. What is named here is kept until the backward pass has used it. */
typedef struct layer {
    dao_managed_t *input, *middle, *output;
    norm_t norm_1, norm_2;
    linear_t query_key_value, join, widen, narrow;
    dao_managed_t *qkv, *weights, *mixed, *wide, *active;
} layer_t;

struct model {
    model_config_t config;
    dao_executor_t *executor;
    dao_command_list_t *step;
    dao_status_t status; /* the first failure while the model is built; later calls do nothing */
    uint32_t random;

    dao_managed_t *tokens, *schedule, *loss;
    parameter_t *table, *positions;
    layer_t layers[MODEL_LAYER_COUNT_MAX];
    norm_t norm;
    linear_t head;
    dao_managed_t *logits; /* and then their gradient */

    /* Gradients that the layers use one after the other: of a layer's output, norm, attention, qkv and wide
       rows. */
    dao_managed_t *d_output, *d_norm, *d_mixed, *d_qkv, *d_wide;

    parameter_t parameters[PARAMETER_COUNT_MAX];
    size_t parameter_count;
    dao_managed_t *tensors[TENSOR_COUNT_MAX]; /* every handle, to be dropped */
    size_t tensor_count;
};

/* ---- kernels ---- */

/* An operator with its sizes: what a kernel's launch function is called with. Lives as long as the kernel. */
typedef struct kernel_user {
    dao_status_t (*launch)(const dao_launch_t *launch, operator_t run, const sizes_t *sizes);
    operator_t run;
    sizes_t sizes;
} kernel_user_t;

/* Called by the executor. The addresses are valid for the work that is queued here, and may differ in the
   next step. */
static dao_status_t launch(const dao_launch_t *launch, void *user)
{
    const kernel_user_t *kernel = user;
    return kernel->launch(launch, kernel->run, &kernel->sizes);
}

static dao_operand_t reads(dao_managed_t *tensor)
{
    return (dao_operand_t){tensor, DAO_ACCESS_READ};
}

/* Overwrites all of it. */
static dao_operand_t writes(dao_managed_t *tensor)
{
    return (dao_operand_t){tensor, DAO_ACCESS_WRITE};
}

/* Reads it and changes it in place. */
static dao_operand_t updates(dao_managed_t *tensor)
{
    return (dao_operand_t){tensor, DAO_ACCESS_READ_WRITE};
}

/* An operator that reads and overwrites, and changes nothing, does the same whenever it runs: the executor
   may run it again instead of keeping its output. */
static bool may_run_again(const dao_operand_t *operands, uint32_t operand_count)
{
    for (uint32_t i = 0; i < operand_count; i++) {
        if (operands[i].access == DAO_ACCESS_READ_WRITE) {
            return false;
        }
    }
    return true;
}

/* Adds a kernel to the step. */
static void push_kernel(model_t *model, const char *name, operator_t run, const sizes_t *sizes,
                        size_t workspace_bytes, const dao_operand_t *operands, uint32_t operand_count)
{
    if (model->status != DAO_OK) {
        return;
    }
    kernel_user_t *user = malloc(sizeof(*user));
    if (user == NULL) {
        model->status = DAO_ERR_NO_HOST_MEMORY;
        return;
    }
    *user = (kernel_user_t){model->config.operators->launch, run, *sizes};
    dao_kernel_t kernel = {.name = name,
                           .launch = launch,
                           .user = user,
                           .drop = free, /* when the step is destroyed and has finished */
                           .operands = operands,
                           .operand_count = operand_count,
                           .workspace_bytes = workspace_bytes};
    if (model->config.recomputes && may_run_again(operands, operand_count)) {
        kernel.flags = DAO_KERNEL_REPEATABLE;
    }
    model->status = dao_command_list_push(model->step, &kernel);
    if (model->status != DAO_OK) {
        free(user);
    }
}

/* PUSH(model, operator, sizes, reads(a), writes(b), ...): operands in the order that operators.h has beside
   its name. */
#define PUSH(model, run, sizes, ...) PUSH_WITH(model, run, sizes, 0, __VA_ARGS__)
#define PUSH_WITH(model, run, sizes, workspace_bytes, ...)                                                   \
    push_kernel(model, #run, (model)->config.operators->run, sizes, workspace_bytes,                         \
                (dao_operand_t[]){__VA_ARGS__},                                                              \
                sizeof((dao_operand_t[]){__VA_ARGS__}) / sizeof(dao_operand_t))

/* Says that a content is not needed after the kernels so far. */
static void drop_content(model_t *model, dao_managed_t *tensor)
{
    if (model->status == DAO_OK) {
        model->status = dao_command_list_discard(model->step, tensor);
    }
}

/* The sizes of an operator on the rows of all tokens. */
static sizes_t rows(const model_t *model, size_t in_count, size_t out_count)
{
    return (sizes_t){.batch_count = model->config.batch_count,
                     .time_count = model->config.time_count,
                     .head_count = model->config.head_count,
                     .in_count = in_count,
                     .out_count = out_count};
}

/* ---- tensors ---- */

/* Creates a tensor. If it `begins_zero`, it is zeros whenever it is read before it was written. */
static dao_managed_t *tensor(model_t *model, const char *name, size_t size_bytes, bool begins_zero)
{
    dao_managed_t *created = NULL;
    if (model->status == DAO_OK) {
        dao_managed_config_t config = {
            .name = name, .size_bytes = size_bytes, .zero_first_touch = begins_zero};
        model->status = dao_managed_create(model->executor, &config, &created);
    }
    if (created != NULL) {
        model->tensors[model->tensor_count++] = created;
    }
    return created;
}

/* A tensor with a row of `width` floats for each token. */
static dao_managed_t *row_tensor(model_t *model, const char *name, size_t width)
{
    size_t row_count = model->config.batch_count * model->config.time_count;
    return tensor(model, name, row_count * width * sizeof(float), false);
}

/* Fills a parameter with numbers around `middle`, evenly spread, with deviation `spread`. */
static void parameter_fill(model_t *model, const parameter_t *parameter, float middle, float spread)
{
    float *values = malloc(parameter->float_count * sizeof(*values));
    if (values == NULL) {
        model->status = DAO_ERR_NO_HOST_MEMORY;
        return;
    }
    for (size_t i = 0; i < parameter->float_count; i++) {
        model->random = model->random * 1664525u + 1013904223u; /* Numerical Recipes' generator */
        float unit = (float)(model->random >> 8) / (float)(1u << 24);
        values[i] = middle + spread * (unit - 0.5f) * sqrtf(12.0f);
    }
    model->status = dao_managed_write(parameter->value, values, parameter->float_count * sizeof(*values));
    free(values);
}

static parameter_t *parameter(model_t *model, const char *name, size_t float_count, float middle,
                              float spread, float weight_decay)
{
    parameter_t *added = &model->parameters[model->parameter_count++];
    size_t size_bytes = float_count * sizeof(float);
    *added = (parameter_t){.value = tensor(model, name, size_bytes, false),
                           .gradient = tensor(model, "gradient", size_bytes, false),
                           .mean = tensor(model, "mean", size_bytes, true),
                           .square = tensor(model, "square", size_bytes, true),
                           .float_count = float_count,
                           .weight_decay = weight_decay};
    if (model->status == DAO_OK) {
        parameter_fill(model, added, middle, spread);
    }
    return added;
}

static void create_linear(model_t *model, linear_t *linear, const char *name, size_t in_count,
                          size_t out_count)
{
    float spread = 1.0f / sqrtf((float)in_count);
    linear->in_count = in_count;
    linear->out_count = out_count;
    linear->weight = parameter(model, name, in_count * out_count, 0.0f, spread, WEIGHT_DECAY);
    linear->bias = parameter(model, name, out_count, 0.0f, 0.0f, 0.0f);
}

static void create_norm(model_t *model, norm_t *norm, const char *name)
{
    size_t width = model->config.width;
    norm->gain = parameter(model, name, width, 1.0f, 0.0f, 0.0f);
    norm->bias = parameter(model, name, width, 0.0f, 0.0f, 0.0f);
    norm->output = row_tensor(model, name, width);
    norm->moments = row_tensor(model, name, 2);
}

static void create_layer(model_t *model, layer_t *layer, dao_managed_t *input)
{
    size_t width = model->config.width;
    layer->input = input;
    create_norm(model, &layer->norm_1, "norm_1");
    create_linear(model, &layer->query_key_value, "query_key_value", width, 3 * width);
    layer->qkv = row_tensor(model, "qkv", 3 * width);
    layer->weights = row_tensor(model, "weights", model->config.head_count * model->config.time_count);
    layer->mixed = row_tensor(model, "mixed", width);
    create_linear(model, &layer->join, "join", width, width);
    layer->middle = row_tensor(model, "middle", width);
    create_norm(model, &layer->norm_2, "norm_2");
    create_linear(model, &layer->widen, "widen", width, 4 * width);
    layer->wide = row_tensor(model, "wide", 4 * width);
    layer->active = row_tensor(model, "active", 4 * width);
    create_linear(model, &layer->narrow, "narrow", 4 * width, width);
    layer->output = row_tensor(model, "output", width);
}

static dao_managed_t *last_output(const model_t *model)
{
    return model->layers[model->config.layer_count - 1].output;
}

static void create_tensors(model_t *model)
{
    const model_config_t *config = &model->config;
    size_t width = config->width;
    model->tokens = tensor(model, "tokens", config->batch_count * (config->time_count + 1), false);
    model->schedule = tensor(model, "schedule", sizeof(schedule_t), false);
    model->table = parameter(model, "table", VOCABULARY_COUNT * width, 0.0f, 0.1f, WEIGHT_DECAY);
    model->positions = parameter(model, "positions", config->time_count * width, 0.0f, 0.1f, WEIGHT_DECAY);
    dao_managed_t *input = row_tensor(model, "embedded", width);
    for (size_t i = 0; i < config->layer_count; i++) {
        create_layer(model, &model->layers[i], input);
        input = model->layers[i].output;
    }
    create_norm(model, &model->norm, "norm");
    create_linear(model, &model->head, "head", width, VOCABULARY_COUNT);
    model->logits = row_tensor(model, "logits", VOCABULARY_COUNT);
    model->loss = tensor(model, "loss", sizeof(float), false);
    model->d_output = tensor(model, "d_output", dao_managed_size(input), true); /* norm_backward adds to it */
    model->d_norm = row_tensor(model, "d_norm", width);
    model->d_mixed = row_tensor(model, "d_mixed", width);
    model->d_qkv = row_tensor(model, "d_qkv", 3 * width);
    model->d_wide = row_tensor(model, "d_wide", 4 * width);
}

/* ---- the step ---- */

static void push_linear(model_t *model, const linear_t *linear, dao_managed_t *x, dao_managed_t *y)
{
    sizes_t sizes = rows(model, linear->in_count, linear->out_count);
    PUSH(model, linear_forward, &sizes, reads(x), reads(linear->weight->value), reads(linear->bias->value),
         writes(y));
}

/* After it neither x nor dy is needed, unless the caller keeps them. */
static void push_linear_backward(model_t *model, const linear_t *linear, dao_managed_t *x, dao_managed_t *dy,
                                 dao_managed_t *dx)
{
    sizes_t sizes = rows(model, linear->in_count, linear->out_count);
    PUSH(model, linear_backward, &sizes, reads(x), reads(linear->weight->value), reads(dy), writes(dx),
         writes(linear->weight->gradient), writes(linear->bias->gradient));
    drop_content(model, x);
}

static void push_norm(model_t *model, const norm_t *norm, dao_managed_t *x)
{
    sizes_t sizes = rows(model, model->config.width, 0);
    PUSH(model, norm_forward, &sizes, reads(x), reads(norm->gain->value), reads(norm->bias->value),
         writes(norm->output), writes(norm->moments));
}

/* Takes the gradient of the norm's output, d_norm, and adds that of its input, x, to d_output. */
static void push_norm_backward(model_t *model, const norm_t *norm, dao_managed_t *x)
{
    sizes_t sizes = rows(model, model->config.width, 0);
    PUSH(model, norm_backward, &sizes, reads(x), reads(norm->gain->value), reads(norm->moments),
         reads(model->d_norm), updates(model->d_output), writes(norm->gain->gradient),
         writes(norm->bias->gradient));
    drop_content(model, x);
    drop_content(model, norm->moments);
    drop_content(model, model->d_norm);
}

static void push_layer(model_t *model, const layer_t *layer)
{
    size_t width = model->config.width;
    sizes_t narrow = rows(model, width, 0), wide = rows(model, 4 * width, 0);
    push_norm(model, &layer->norm_1, layer->input);
    push_linear(model, &layer->query_key_value, layer->norm_1.output, layer->qkv);
    PUSH(model, attention_forward, &narrow, reads(layer->qkv), writes(layer->weights), writes(layer->mixed));
    push_linear(model, &layer->join, layer->mixed, layer->middle);
    PUSH(model, add_in_place, &narrow, reads(layer->input), updates(layer->middle));

    push_norm(model, &layer->norm_2, layer->middle);
    push_linear(model, &layer->widen, layer->norm_2.output, layer->wide);
    PUSH(model, gelu_forward, &wide, reads(layer->wide), writes(layer->active));
    push_linear(model, &layer->narrow, layer->active, layer->output);
    PUSH(model, add_in_place, &narrow, reads(layer->middle), updates(layer->output));
}

/* Turns d_output from the gradient of the layer's output into that of its input. What runs beside the norms
   is added unchanged, so it is there already. */
static void push_layer_backward(model_t *model, const layer_t *layer)
{
    size_t width = model->config.width;
    sizes_t narrow = rows(model, width, 0), wide = rows(model, 4 * width, 0);
    push_linear_backward(model, &layer->narrow, layer->active, model->d_output, model->d_wide);
    PUSH(model, gelu_backward, &wide, reads(layer->wide), updates(model->d_wide));
    drop_content(model, layer->wide);
    push_linear_backward(model, &layer->widen, layer->norm_2.output, model->d_wide, model->d_norm);
    drop_content(model, model->d_wide);
    push_norm_backward(model, &layer->norm_2, layer->middle);

    push_linear_backward(model, &layer->join, layer->mixed, model->d_output, model->d_mixed);
    PUSH_WITH(model, attention_backward, &narrow, model->config.operators->attention_workspace_bytes(&narrow),
              reads(layer->qkv), reads(layer->weights), reads(model->d_mixed), writes(model->d_qkv));
    drop_content(model, layer->qkv);
    drop_content(model, layer->weights);
    drop_content(model, model->d_mixed);
    push_linear_backward(model, &layer->query_key_value, layer->norm_1.output, model->d_qkv, model->d_norm);
    drop_content(model, model->d_qkv);
    push_norm_backward(model, &layer->norm_1, layer->input);
}

/* Makes a gradient the mean of all workers': a kernel as any other, which happens to wait for them. */
static void exchange_gradient(const sizes_t *sizes, void *const *operands)
{
    const model_exchange_t *exchange = sizes->others;
    exchange->mean(operands[0], sizes->in_count, exchange->user);
}

static void push_updates(model_t *model)
{
    for (size_t i = 0; i < model->parameter_count; i++) {
        const parameter_t *changed = &model->parameters[i];
        sizes_t sizes = {.in_count = changed->float_count,
                         .weight_decay = changed->weight_decay,
                         .others = &model->config.exchange};
        if (model->config.exchange.mean != NULL) {
            dao_operand_t gradient = updates(changed->gradient);
            push_kernel(model, "exchange_gradient", exchange_gradient, &sizes, 0, &gradient, 1);
        }
        PUSH(model, adamw, &sizes, reads(model->schedule), reads(changed->gradient), updates(changed->value),
             updates(changed->mean), updates(changed->square));
        drop_content(model, changed->gradient);
    }
}

static void push_step(model_t *model)
{
    size_t layer_count = model->config.layer_count;
    sizes_t sizes = rows(model, model->config.width, 0);
    PUSH(model, embed_forward, &sizes, reads(model->tokens), reads(model->table->value),
         reads(model->positions->value), writes(model->layers[0].input));
    for (size_t i = 0; i < layer_count; i++) {
        push_layer(model, &model->layers[i]);
    }
    push_norm(model, &model->norm, last_output(model));
    push_linear(model, &model->head, model->norm.output, model->logits);
    PUSH_WITH(model, cross_entropy, &sizes, model->config.operators->loss_workspace_bytes(&sizes),
              reads(model->tokens), updates(model->logits), writes(model->loss));

    push_linear_backward(model, &model->head, model->norm.output, model->logits, model->d_norm);
    drop_content(model, model->logits);
    push_norm_backward(model, &model->norm, last_output(model));
    for (size_t i = layer_count; i-- > 0;) {
        push_layer_backward(model, &model->layers[i]);
    }
    PUSH(model, embed_backward, &sizes, reads(model->tokens), reads(model->d_output),
         writes(model->table->gradient), writes(model->positions->gradient));
    drop_content(model, model->d_output); /* so that it begins the next step as zeros */
    push_updates(model);
}

/* ---- what the program calls ---- */

dao_status_t model_create(dao_executor_t *executor, const model_config_t *config, model_t **out_model)
{
    model_t *model = calloc(1, sizeof(*model));
    if (model == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    model->config = *config;
    model->executor = executor;
    model->random = 1;
    model->status = dao_command_list_create(executor, &model->step);
    create_tensors(model);
    push_step(model);
    if (model->status != DAO_OK) {
        dao_status_t status = model->status;
        model_destroy(model);
        return status;
    }
    *out_model = model;
    return DAO_OK;
}

dao_status_t model_train(model_t *model, const unsigned char *tokens, size_t step_number, float *out_loss)
{
    float number = (float)step_number;
    schedule_t schedule = {.rate = LEARNING_RATE * fminf(1.0f, RATE_WIDTH / (float)model->config.width),
                           .mean_correction = 1.0f - powf(ADAMW_MEAN_KEPT, number),
                           .square_correction = 1.0f - powf(ADAMW_SQUARE_KEPT, number)};
    dao_status_t status;
    if ((status = dao_managed_write(model->tokens, tokens, dao_managed_size(model->tokens))) != DAO_OK ||
        (status = dao_managed_write(model->schedule, &schedule, sizeof(schedule))) != DAO_OK ||
        (status = dao_command_list_run(model->step)) != DAO_OK ||
        (status = dao_executor_sync(model->executor)) != DAO_OK) { /* reports a failure of the step */
        return status;
    }
    return dao_managed_read(model->loss, out_loss, sizeof(*out_loss));
}

void model_destroy(model_t *model)
{
    if (model == NULL) {
        return;
    }
    dao_command_list_destroy(model->step);
    for (size_t i = 0; i < model->tensor_count; i++) {
        (void)dao_managed_release(model->tensors[i]);
    }
    free(model);
}
