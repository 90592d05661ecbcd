/* SPDX-License-Identifier: Apache-2.0 */
/* Makes lifetimes from a seed. A unit is one micro-batch's tokens times the model's width in half precision.

   tf    24, 32 or 48 layers of width 4096, micro-batches of 2048 tokens. A layer's forward pass has 13
         outputs, of which 11 stay until its backward pass, which has 8 gradients in a chain; matrix products
         have workspaces. The gradients of the weights come with the first micro-batch and stay to the end;
         then the optimizer has a temporary for each.
   pp    the same with 4 or 8 layers; while less than eight micro-batches are in flight, three times of four
         another one goes forward, else the oldest goes backward. 512 to 4096 tokens in steps of 128.
   rec   steps of 120 to 360 feature columns, each a chain of 5 to 11 operations with log-normal sizes, by
         eight workers whose turns are random; one output a column, and 15 % of the others, stay until the
         backward pass; then the columns are put into one tensor and go through six layers; then gradients
         free what was kept, in random order.
   rnd   begins uniform, lengths log-uniform up to an eighth of all times, sizes log-normal.
   cut   one buffer of 1 MiB that lives 2^20 times, of which again and again a large part is cut in two,
         across its bytes or across its life.

   When there are buffers enough nothing more is allocated, and what lives is freed in the usual order. */
#include "tools/plan/plan_generate.h"

#include "base/memory/host.h"
#include "base/report/error.h"
#include "tools/model/random.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
    SIZE_STEP = 256,
    SMALL_COUNT = 10000,  /* below it a model is small, */
    MIDDLE_COUNT = 100000 /* below this of middle size */
};

/* Lifetimes while they are made. The first failure stays; what comes after it does nothing. */
typedef struct maker {
    dao_plan_input_t *lifetimes;
    uint64_t buffer_count; /* enough */
    uint64_t random;
    uint64_t time;
    dao_status_t status;
} maker_t;

#define NO_BUFFER UINT32_MAX

static bool is_full(const maker_t *maker)
{
    return maker->status != DAO_OK || maker->lifetimes->buffer_count >= maker->buffer_count;
}

static uint64_t round_size(uint64_t size_bytes)
{
    return (size_bytes + SIZE_STEP - 1) / SIZE_STEP * SIZE_STEP;
}

/* Adds a buffer that lives from a time on until it is closed. */
static uint32_t open_at(maker_t *maker, uint64_t time, uint64_t size_bytes)
{
    dao_plan_buffer_t buffer = {.begin_time = time,
                                .end_time = UINT64_MAX,
                                .size_bytes = round_size(size_bytes),
                                .fixed_offset = DAO_PLAN_NOWHERE,
                                .pool = DAO_PLAN_ANY_POOL};
    uint32_t index = (uint32_t)maker->lifetimes->buffer_count;
    if (maker->status == DAO_OK) {
        maker->status = dao_plan_input_add(maker->lifetimes, NULL, &buffer, NULL);
    }
    return maker->status == DAO_OK ? index : NO_BUFFER;
}

static uint32_t open_now(maker_t *maker, uint64_t size_bytes)
{
    return open_at(maker, maker->time, size_bytes);
}

static void close_at(maker_t *maker, uint32_t buffer, uint64_t time)
{
    if (buffer != NO_BUFFER && maker->status == DAO_OK) {
        maker->lifetimes->buffers[buffer].end_time = time;
    }
}

/* One that lives for a single time. */
static void open_once(maker_t *maker, uint64_t size_bytes)
{
    close_at(maker, open_now(maker, size_bytes), maker->time + 1);
}

/* ---- transformers ---- */

enum {
    WIDTH = 4096,
    LAYER_COUNT_MAX = 48,
    TF_TOKEN_COUNT = 2048,
    PP_TOKEN_COUNT_STEP = 128,
    PP_TOKEN_COUNT_MIN = 512,
    PP_TOKEN_COUNT_MAX = 4096,
    FLIGHT_COUNT_MAX = 8,
    WORKSPACE_STEP = 64 * 1024,
    FORWARD_WORKSPACE_MAX = 64, /* in steps */
    BACKWARD_WORKSPACE_MAX = 96,
    GRADIENT_COUNT = 8, /* of a layer's backward pass */
    NORM_TENSOR_COUNT = 4,
    WEIGHT_COUNT_MAX = LAYER_COUNT_MAX * GRADIENT_COUNT / 2
};

/* What the forward pass keeps for the backward pass of a layer, by the gradient that uses it last. */
typedef struct layer {
    uint32_t kept[GRADIENT_COUNT - 1]; /* the first is the layer's input */
    uint32_t norm[NORM_TENSOR_COUNT];  /* these four by the last gradient */
} layer_t;

typedef struct micro_batch {
    uint64_t token_count;
    size_t layer_count; /* those that it went through */
    uint32_t output;    /* of the last of them */
    layer_t layers[LAYER_COUNT_MAX];
} micro_batch_t;

typedef struct model {
    size_t layer_count;
    bool has_weights; /* their gradients are there */
    uint32_t weights[WEIGHT_COUNT_MAX];
    size_t weight_count;
    micro_batch_t flight[FLIGHT_COUNT_MAX]; /* a ring: the oldest is at flight_begin */
    size_t flight_begin;
    size_t flight_count;
} model_t;

static void open_workspace(maker_t *maker, uint64_t most)
{
    open_once(maker, dao_random_between(&maker->random, 1, most) * WORKSPACE_STEP);
}

static void forward_layer(maker_t *maker, layer_t *layer, uint64_t token_count, uint32_t *output)
{
    uint64_t unit = token_count * WIDTH * 2;
    layer->kept[0] = *output;
    layer->norm[0] = open_now(maker, unit);
    maker->time += 2;
    layer->norm[1] = open_now(maker, token_count * 8); /* mean and deviation */
    maker->time += 2;
    open_workspace(maker, FORWARD_WORKSPACE_MAX);
    layer->norm[2] = open_now(maker, 3 * unit);
    maker->time += 2;
    open_workspace(maker, FORWARD_WORKSPACE_MAX);
    layer->norm[3] = open_now(maker, unit);
    maker->time += 2;
    layer->kept[6] = open_now(maker, token_count * 16); /* sums of the softmax */
    maker->time += 2;
    open_workspace(maker, FORWARD_WORKSPACE_MAX);
    uint32_t attention = open_now(maker, unit);
    maker->time += 2;
    layer->kept[5] = open_now(maker, unit);
    close_at(maker, attention, maker->time + 2);
    maker->time += 3;
    layer->kept[4] = open_now(maker, unit);
    maker->time += 2;
    open_workspace(maker, FORWARD_WORKSPACE_MAX);
    layer->kept[3] = open_now(maker, 4 * unit);
    maker->time += 2;
    layer->kept[2] = open_now(maker, 4 * unit);
    maker->time += 2;
    open_workspace(maker, FORWARD_WORKSPACE_MAX);
    uint32_t product = open_now(maker, unit);
    maker->time += 2;
    layer->kept[1] = open_now(maker, token_count * WIDTH / 4); /* which ones are dropped */
    maker->time += 2;
    *output = open_now(maker, unit);
    close_at(maker, product, maker->time + 2);
    maker->time += 3;
}

static void forward(maker_t *maker, const model_t *model, micro_batch_t *batch, uint64_t token_count)
{
    batch->token_count = token_count;
    batch->layer_count = 0;
    batch->output = open_now(maker, token_count * WIDTH * 2);
    maker->time++;
    do {
        forward_layer(maker, &batch->layers[batch->layer_count++], token_count, &batch->output);
    } while (batch->layer_count < model->layer_count && !is_full(maker));
}

/* Matrices of the weights are a tenth larger or smaller than the square of the width. */
static void open_weight(maker_t *maker, model_t *model, bool is_wide)
{
    double factor = 0.9 + 0.2 * dao_random_unit(&maker->random);
    uint64_t size_bytes = (uint64_t)(factor * 2 * WIDTH * WIDTH) * (is_wide ? 4 : 1);
    model->weights[model->weight_count++] = open_now(maker, size_bytes);
}

/* Gives up what only this gradient still used. */
static void close_kept(maker_t *maker, const layer_t *layer, size_t gradient, uint64_t time)
{
    if (gradient < GRADIENT_COUNT - 1) {
        close_at(maker, layer->kept[gradient], time);
        return;
    }
    for (size_t i = 0; i < NORM_TENSOR_COUNT; i++) {
        close_at(maker, layer->norm[i], time);
    }
}

static void backward_layer(maker_t *maker, model_t *model, const micro_batch_t *batch, const layer_t *layer,
                           uint32_t *gradient)
{
    static const uint64_t units[GRADIENT_COUNT] = {1, 4, 4, 1, 1, 3, 1, 1};
    for (size_t i = 0; i < GRADIENT_COUNT; i++) {
        uint32_t next = NO_BUFFER;
        uint64_t step = is_full(maker) ? 1 : 3;
        if (!is_full(maker)) {
            open_workspace(maker, BACKWARD_WORKSPACE_MAX);
            next = open_now(maker, units[i] * batch->token_count * WIDTH * 2);
            if (!model->has_weights && i % 2 == 1) {
                open_weight(maker, model, i == 1);
            }
        }
        close_at(maker, *gradient, maker->time + 1);
        close_kept(maker, layer, i, maker->time + (step + 1) / 2);
        maker->time += step;
        *gradient = next;
    }
    maker->time++;
}

static void backward(maker_t *maker, model_t *model, const micro_batch_t *batch)
{
    uint32_t gradient = open_now(maker, batch->token_count * WIDTH * 2); /* of the loss */
    close_at(maker, batch->output, maker->time + 1);
    maker->time += 2;
    for (size_t i = batch->layer_count; i > 0; i--) {
        backward_layer(maker, model, batch, &batch->layers[i - 1], &gradient);
    }
    close_at(maker, gradient, maker->time);
    model->has_weights = true;
}

static void optimize(maker_t *maker, const model_t *model)
{
    for (size_t i = 0; i < model->weight_count && maker->status == DAO_OK; i++) {
        open_once(maker, 2 * maker->lifetimes->buffers[model->weights[i]].size_bytes);
        maker->time++;
        close_at(maker, model->weights[i], maker->time);
    }
}

static void backward_oldest(maker_t *maker, model_t *model)
{
    backward(maker, model, &model->flight[model->flight_begin]);
    model->flight_begin = (model->flight_begin + 1) % FLIGHT_COUNT_MAX;
    model->flight_count--;
}

static void forward_next(maker_t *maker, model_t *model, uint64_t token_count)
{
    size_t at = (model->flight_begin + model->flight_count++) % FLIGHT_COUNT_MAX;
    forward(maker, model, &model->flight[at], token_count);
}

static void make_sequential(maker_t *maker, model_t *model)
{
    model->layer_count = maker->buffer_count < SMALL_COUNT    ? 24
                         : maker->buffer_count < MIDDLE_COUNT ? 32
                                                              : LAYER_COUNT_MAX;
    while (!is_full(maker)) {
        forward_next(maker, model, TF_TOKEN_COUNT);
        backward_oldest(maker, model);
    }
    optimize(maker, model);
}

static void make_pipeline(maker_t *maker, model_t *model)
{
    model->layer_count = maker->buffer_count < SMALL_COUNT ? 4 : 8;
    while (!is_full(maker) || (model->flight_count > 0 && maker->status == DAO_OK)) {
        bool goes_forward = !is_full(maker) && model->flight_count < FLIGHT_COUNT_MAX &&
                            (model->flight_count == 0 || dao_random_below(&maker->random, 4) > 0);
        if (goes_forward) {
            uint64_t steps = dao_random_between(&maker->random, PP_TOKEN_COUNT_MIN / PP_TOKEN_COUNT_STEP,
                                                PP_TOKEN_COUNT_MAX / PP_TOKEN_COUNT_STEP);
            forward_next(maker, model, steps * PP_TOKEN_COUNT_STEP);
        } else {
            backward_oldest(maker, model);
        }
    }
    optimize(maker, model);
}

static void make_transformer(maker_t *maker, void (*make)(maker_t *maker, model_t *model))
{
    model_t *model = dao_host_calloc(1, sizeof(*model));
    if (model == NULL) {
        maker->status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a model");
        return;
    }
    make(maker, model);
    dao_host_free(model);
}

static void make_tf(maker_t *maker)
{
    make_transformer(maker, make_sequential);
}

static void make_pp(maker_t *maker)
{
    make_transformer(maker, make_pipeline);
}

/* ---- a recommendation model ---- */

enum {
    COLUMN_COUNT_MIN = 120,
    COLUMN_COUNT_MAX = 360,
    CHAIN_COUNT_MIN = 5,
    CHAIN_COUNT_MAX = 11,
    KEPT_PERCENT = 15,
    WORKER_COUNT = 8,
    KEPT_COUNT_MAX = COLUMN_COUNT_MAX * CHAIN_COUNT_MAX,
    DENSE_COUNT = 6,
    ROW_COUNT_STEP = 64,
    ROW_STEPS_MIN = 16,
    ROW_STEPS_MAX = 64
};

/* A feature column while a worker is at it. */
typedef struct chain {
    uint32_t last;  /* the latest output, if the next operation frees it */
    uint64_t left;  /* operations */
    uint64_t saved; /* the operation, counted from the end, whose output is kept whatever is drawn */
} chain_t;

typedef struct recommender {
    uint32_t kept[KEPT_COUNT_MAX]; /* until the backward pass */
    size_t kept_count;
    uint32_t columns[COLUMN_COUNT_MAX]; /* their last outputs */
    size_t column_count;
} recommender_t;

static chain_t begin_chain(maker_t *maker)
{
    uint64_t count = dao_random_between(&maker->random, CHAIN_COUNT_MIN, CHAIN_COUNT_MAX);
    return (chain_t){.last = NO_BUFFER, .left = count, .saved = dao_random_between(&maker->random, 2, count)};
}

/* One operation of a column; its last output waits for the others. */
static void run_operation(maker_t *maker, recommender_t *model, chain_t *chain)
{
    uint64_t size_bytes = 1 + (uint64_t)dao_random_log_normal(&maker->random, 12, 1.5);
    bool is_kept = dao_random_below(&maker->random, 100) < KEPT_PERCENT;
    uint32_t output = open_now(maker, size_bytes);
    close_at(maker, chain->last, ++maker->time);
    chain->last = output;
    if (chain->left == 1) {
        model->columns[model->column_count++] = output;
    } else if (is_kept || chain->left == chain->saved) {
        model->kept[model->kept_count++] = output;
        chain->last = NO_BUFFER;
    }
    chain->left--;
}

static void run_columns(maker_t *maker, recommender_t *model)
{
    chain_t chains[WORKER_COUNT] = {0};
    uint64_t waiting = dao_random_between(&maker->random, COLUMN_COUNT_MIN, COLUMN_COUNT_MAX);
    size_t busy = 0;
    do {
        chain_t *chain = &chains[dao_random_below(&maker->random, WORKER_COUNT)];
        if (chain->left == 0 && waiting > 0 && !is_full(maker)) {
            *chain = begin_chain(maker);
            waiting--;
            busy++;
        }
        if (chain->left > 0) {
            run_operation(maker, model, chain);
            busy -= chain->left == 0 ? 1 : 0;
        }
    } while (busy > 0 || (waiting > 0 && !is_full(maker)));
}

/* Six dense layers forward and backward; gives the gradient of their input. */
static uint32_t run_dense(maker_t *maker, uint64_t row_count)
{
    static const uint64_t widths[DENSE_COUNT] = {1024, 512, 256, 128, 64, 1};
    uint32_t sums[DENSE_COUNT];
    uint32_t outputs[DENSE_COUNT];
    for (size_t i = 0; i < DENSE_COUNT; i++) {
        sums[i] = open_now(maker, row_count * widths[i] * 4);
        outputs[i] = open_now(maker, row_count * widths[i] * 4);
        maker->time++;
    }
    uint32_t gradient = open_now(maker, row_count * 4); /* of the loss */
    for (size_t i = DENSE_COUNT; i > 0; i--) {
        uint32_t next = open_now(maker, row_count * widths[i >= 2 ? i - 2 : 0] * 4);
        maker->time++;
        close_at(maker, gradient, maker->time);
        close_at(maker, outputs[i - 1], maker->time);
        close_at(maker, sums[i - 1], maker->time);
        gradient = next;
    }
    return gradient;
}

/* The columns become one tensor, which the dense layers read. */
static void run_model(maker_t *maker, recommender_t *model)
{
    uint64_t size_bytes = 1; /* a step may have no column */
    for (size_t i = 0; i < model->column_count && maker->status == DAO_OK; i++) {
        size_bytes += maker->lifetimes->buffers[model->columns[i]].size_bytes;
    }
    uint32_t joined = open_now(maker, size_bytes);
    for (size_t i = 0; i < model->column_count; i++) {
        close_at(maker, model->columns[i], ++maker->time);
    }
    maker->time++;
    uint64_t rows = dao_random_between(&maker->random, ROW_STEPS_MIN, ROW_STEPS_MAX) * ROW_COUNT_STEP;
    uint32_t gradient = is_full(maker) ? NO_BUFFER : run_dense(maker, rows);
    close_at(maker, joined, maker->time);
    if (!is_full(maker)) {
        joined = open_now(maker, size_bytes); /* its gradient */
        close_at(maker, gradient, ++maker->time);
        gradient = joined;
    }
    for (; model->kept_count > 0; model->kept_count--) {
        size_t at = dao_random_below(&maker->random, model->kept_count);
        if (!is_full(maker)) {
            open_once(maker, maker->lifetimes->buffers[model->kept[at]].size_bytes);
        }
        close_at(maker, model->kept[at], ++maker->time);
        model->kept[at] = model->kept[model->kept_count - 1];
    }
    close_at(maker, gradient, ++maker->time);
}

static void make_rec(maker_t *maker)
{
    recommender_t *model = dao_host_calloc(1, sizeof(*model));
    if (model == NULL) {
        maker->status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a model");
        return;
    }
    while (!is_full(maker)) {
        model->column_count = 0;
        run_columns(maker, model);
        run_model(maker, model);
    }
    dao_host_free(model);
}

/* ---- random lives ---- */

static void make_rnd(maker_t *maker)
{
    while (!is_full(maker)) {
        uint64_t begin = dao_random_below(&maker->random, maker->buffer_count);
        uint64_t length = dao_random_log(&maker->random, 1, maker->buffer_count / 8);
        uint64_t size_bytes = 1 + (uint64_t)dao_random_log_normal(&maker->random, 11, 2);
        close_at(maker, open_at(maker, begin, size_bytes), begin + length);
    }
}

/* ---- a square that is cut ---- */

enum { CUT_SIDE = 1 << 20, CUT_CANDIDATE_COUNT = 3 };

static uint64_t area_of(const maker_t *maker, size_t index)
{
    const dao_plan_buffer_t *buffer = &maker->lifetimes->buffers[index];
    return (buffer->end_time - buffer->begin_time) * buffer->size_bytes;
}

/* Returns the largest of a few. */
static size_t pick_part(maker_t *maker)
{
    size_t count = maker->lifetimes->buffer_count;
    size_t largest = dao_random_below(&maker->random, count);
    for (int i = 1; i < CUT_CANDIDATE_COUNT; i++) {
        size_t other = dao_random_below(&maker->random, count);
        largest = area_of(maker, other) > area_of(maker, largest) ? other : largest;
    }
    return largest;
}

/* Cuts a part in two, unless it is too small for that. */
static void cut_part(maker_t *maker, size_t index)
{
    dao_plan_buffer_t part = maker->lifetimes->buffers[index];
    bool has_size = part.size_bytes > SIZE_STEP;
    bool has_life = part.end_time - part.begin_time > 1;
    bool is_by_life = has_life && (!has_size || dao_random_below(&maker->random, 2) == 0);
    if (is_by_life) {
        uint64_t middle = dao_random_between(&maker->random, part.begin_time + 1, part.end_time - 1);
        close_at(maker, (uint32_t)index, middle);
        close_at(maker, open_at(maker, middle, part.size_bytes), part.end_time);
    } else if (has_size) {
        uint64_t steps = dao_random_between(&maker->random, 1, part.size_bytes / SIZE_STEP - 1);
        maker->lifetimes->buffers[index].size_bytes = steps * SIZE_STEP;
        close_at(maker, open_at(maker, part.begin_time, part.size_bytes - steps * SIZE_STEP), part.end_time);
    }
}

static void make_cut(maker_t *maker)
{
    close_at(maker, open_at(maker, 0, CUT_SIDE), CUT_SIDE);
    while (!is_full(maker)) {
        cut_part(maker, pick_part(maker));
    }
}

/* ---- the kinds ---- */

static const char *const kind_names[DAO_PLAN_KIND_COUNT] = {
#define KIND_NAME(name, text, about) text,
    DAO_PLAN_KIND_LIST(KIND_NAME)
#undef KIND_NAME
};

static void (*const makers[DAO_PLAN_KIND_COUNT])(maker_t *maker) = {
    [DAO_PLAN_KIND_TF] = make_tf,   [DAO_PLAN_KIND_PP] = make_pp,   [DAO_PLAN_KIND_REC] = make_rec,
    [DAO_PLAN_KIND_RND] = make_rnd, [DAO_PLAN_KIND_CUT] = make_cut,
};

dao_status_t dao_plan_generate(const dao_plan_generate_config_t *config, dao_plan_input_t *out_lifetimes)
{
    dao_plan_input_t lifetimes;
    dao_plan_input_init(&lifetimes);
    maker_t maker = {.lifetimes = &lifetimes, .buffer_count = config->buffer_count, .random = config->seed};
    makers[config->kind](&maker);
    if (maker.status != DAO_OK) {
        dao_plan_input_finish(&lifetimes);
        return maker.status;
    }
    *out_lifetimes = lifetimes;
    return DAO_OK;
}

static bool read_number(const char **at, uint64_t *out_number)
{
    char *end = NULL;
    errno = 0;
    *out_number = strtoull(*at, &end, 10);
    bool is_number = **at >= '0' && **at <= '9' && errno == 0;
    *at = end;
    return is_number;
}

static dao_status_t wrong(const char *text)
{
    return dao_error(
        DAO_ERR_INVALID,
        "\"%.40s\" is not KIND:COUNT or KIND:COUNT:SEED with a kind of tf, pp, rec, rnd, cut and a count "
        "from %d to %d",
        text, DAO_PLAN_GENERATE_COUNT_MIN, DAO_PLAN_GENERATE_COUNT_MAX);
}

dao_status_t dao_plan_generate_parse(const char *text, dao_plan_generate_config_t *out_config)
{
    dao_plan_generate_config_t config = {.seed = 1};
    size_t length = strcspn(text, ":");
    size_t kind = 0;
    while (kind < DAO_PLAN_KIND_COUNT &&
           (strlen(kind_names[kind]) != length || memcmp(kind_names[kind], text, length) != 0)) {
        kind++;
    }
    const char *at = text + length + 1;
    if (kind == DAO_PLAN_KIND_COUNT || text[length] == '\0' || !read_number(&at, &config.buffer_count) ||
        config.buffer_count < DAO_PLAN_GENERATE_COUNT_MIN ||
        config.buffer_count > DAO_PLAN_GENERATE_COUNT_MAX) {
        return wrong(text);
    }
    if (*at == ':') {
        at++;
        if (!read_number(&at, &config.seed)) {
            return wrong(text);
        }
    }
    if (*at != '\0') {
        return wrong(text);
    }
    config.kind = (dao_plan_kind_t)kind;
    *out_config = config;
    return DAO_OK;
}
