/* SPDX-License-Identifier: Apache-2.0 */
#include "operators.h"

#include <dao/stream.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t row_count_of(const sizes_t *sizes)
{
    return sizes->batch_count * sizes->time_count;
}

static float dot(const float *a, const float *b, size_t count)
{
    float sum = 0.0f;
    for (size_t i = 0; i < count; i++) {
        sum += a[i] * b[i];
    }
    return sum;
}

/* to += scale * from */
static void add_scaled(float *to, const float *from, float scale, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        to[i] += scale * from[i];
    }
}

static void make_zero(float *to, size_t count)
{
    memset(to, 0, count * sizeof(*to));
}

/* ---- embedding ---- */

static void embed_forward(const sizes_t *sizes, void *const *operands)
{
    const unsigned char *tokens = operands[0];
    const float *table = operands[1], *positions = operands[2];
    float *x = operands[3];
    size_t width = sizes->in_count;
    for (size_t b = 0; b < sizes->batch_count; b++) {
        for (size_t t = 0; t < sizes->time_count; t++, x += width) {
            size_t token = tokens[b * (sizes->time_count + 1) + t];
            memcpy(x, &table[token * width], width * sizeof(*x));
            add_scaled(x, &positions[t * width], 1.0f, width);
        }
    }
}

static void embed_backward(const sizes_t *sizes, void *const *operands)
{
    const unsigned char *tokens = operands[0];
    const float *dx = operands[1];
    float *dtable = operands[2], *dpositions = operands[3];
    size_t width = sizes->in_count;
    make_zero(dtable, VOCABULARY_COUNT * width);
    make_zero(dpositions, sizes->time_count * width);
    for (size_t b = 0; b < sizes->batch_count; b++) {
        for (size_t t = 0; t < sizes->time_count; t++, dx += width) {
            size_t token = tokens[b * (sizes->time_count + 1) + t];
            add_scaled(&dtable[token * width], dx, 1.0f, width);
            add_scaled(&dpositions[t * width], dx, 1.0f, width);
        }
    }
}

/* ---- layer norm ---- */

static void norm_forward(const sizes_t *sizes, void *const *operands)
{
    const float *x = operands[0], *gain = operands[1], *bias = operands[2];
    float *y = operands[3], *moments = operands[4];
    size_t width = sizes->in_count;
    for (size_t row = 0; row < row_count_of(sizes); row++, x += width, y += width) {
        float mean = 0.0f, variance = 0.0f;
        for (size_t i = 0; i < width; i++) {
            mean += x[i] / (float)width;
        }
        for (size_t i = 0; i < width; i++) {
            variance += (x[i] - mean) * (x[i] - mean) / (float)width;
        }
        float scale = 1.0f / sqrtf(variance + NORM_EPSILON);
        for (size_t i = 0; i < width; i++) {
            y[i] = (x[i] - mean) * scale * gain[i] + bias[i];
        }
        moments[2 * row] = mean;
        moments[2 * row + 1] = scale;
    }
}

static void norm_backward(const sizes_t *sizes, void *const *operands)
{
    const float *x = operands[0], *gain = operands[1], *moments = operands[2], *dy = operands[3];
    float *dx = operands[4], *dgain = operands[5], *dbias = operands[6];
    size_t width = sizes->in_count;
    make_zero(dgain, width);
    make_zero(dbias, width);
    for (size_t row = 0; row < row_count_of(sizes); row++, x += width, dy += width, dx += width) {
        float mean = moments[2 * row], scale = moments[2 * row + 1];
        float sum = 0.0f, sum_along = 0.0f; /* of the gradient of the normed row, and of it along that row */
        for (size_t i = 0; i < width; i++) {
            float normed = (x[i] - mean) * scale;
            dgain[i] += dy[i] * normed;
            dbias[i] += dy[i];
            sum += dy[i] * gain[i];
            sum_along += dy[i] * gain[i] * normed;
        }
        for (size_t i = 0; i < width; i++) {
            float normed = (x[i] - mean) * scale;
            dx[i] += scale * (dy[i] * gain[i] - (sum + normed * sum_along) / (float)width);
        }
    }
}

/* ---- linear ---- */

static void linear_forward(const sizes_t *sizes, void *const *operands)
{
    const float *x = operands[0], *weight = operands[1], *bias = operands[2];
    float *y = operands[3];
    size_t in = sizes->in_count, out = sizes->out_count;
    for (size_t row = 0; row < row_count_of(sizes); row++, x += in, y += out) {
        memcpy(y, bias, out * sizeof(*y));
        for (size_t i = 0; i < in; i++) {
            add_scaled(y, &weight[i * out], x[i], out);
        }
    }
}

static void linear_backward(const sizes_t *sizes, void *const *operands)
{
    const float *x = operands[0], *weight = operands[1], *dy = operands[2];
    float *dx = operands[3], *dweight = operands[4], *dbias = operands[5];
    size_t in = sizes->in_count, out = sizes->out_count;
    make_zero(dweight, in * out);
    make_zero(dbias, out);
    for (size_t row = 0; row < row_count_of(sizes); row++, x += in, dx += in, dy += out) {
        for (size_t i = 0; i < in; i++) {
            dx[i] = dot(&weight[i * out], dy, out);
            add_scaled(&dweight[i * out], dy, x[i], out);
        }
        add_scaled(dbias, dy, 1.0f, out);
    }
}

/* ---- attention ---- */

/* Where a head of a sequence begins. */
typedef struct head {
    size_t qkv, weights, y;
} head_t;

static head_t head_of(const sizes_t *sizes, size_t b, size_t h)
{
    size_t width = sizes->in_count, time_count = sizes->time_count;
    size_t part = h * (width / sizes->head_count);
    return (head_t){.qkv = b * time_count * 3 * width + part,
                    .weights = (b * sizes->head_count + h) * time_count * time_count,
                    .y = b * time_count * width + part};
}

/* Turns the first `count` scores of a row into weights that add up to 1; the others become 0. */
static void softmax(float *scores, size_t count, size_t row_length)
{
    float greatest = scores[0], sum = 0.0f;
    for (size_t s = 1; s < count; s++) {
        greatest = scores[s] > greatest ? scores[s] : greatest;
    }
    for (size_t s = 0; s < count; s++) {
        scores[s] = expf(scores[s] - greatest);
        sum += scores[s];
    }
    for (size_t s = 0; s < count; s++) {
        scores[s] /= sum;
    }
    make_zero(&scores[count], row_length - count);
}

static void head_forward(const sizes_t *sizes, const float *qkv, float *weights, float *y)
{
    size_t width = sizes->in_count, part = width / sizes->head_count, stride = 3 * width;
    float scale = 1.0f / sqrtf((float)part);
    for (size_t t = 0; t < sizes->time_count; t++, weights += sizes->time_count, y += width) {
        for (size_t s = 0; s <= t; s++) {
            weights[s] = scale * dot(&qkv[t * stride], &qkv[s * stride + width], part); /* query by key */
        }
        softmax(weights, t + 1, sizes->time_count);
        make_zero(y, part);
        for (size_t s = 0; s <= t; s++) {
            add_scaled(y, &qkv[s * stride + 2 * width], weights[s], part); /* values */
        }
    }
}

static void attention_forward(const sizes_t *sizes, void *const *operands)
{
    const float *qkv = operands[0];
    float *weights = operands[1], *y = operands[2];
    for (size_t b = 0; b < sizes->batch_count; b++) {
        for (size_t h = 0; h < sizes->head_count; h++) {
            head_t head = head_of(sizes, b, h);
            head_forward(sizes, &qkv[head.qkv], &weights[head.weights], &y[head.y]);
        }
    }
}

static void head_backward(const sizes_t *sizes, const float *qkv, const float *weights, const float *dy,
                          float *dqkv, float *dweights)
{
    size_t width = sizes->in_count, part = width / sizes->head_count, stride = 3 * width;
    float scale = 1.0f / sqrtf((float)part);
    for (size_t t = 0; t < sizes->time_count; t++, weights += sizes->time_count, dy += width) {
        float sum = 0.0f;
        for (size_t s = 0; s <= t; s++) {
            size_t value = s * stride + 2 * width;
            dweights[s] = dot(dy, &qkv[value], part);
            add_scaled(&dqkv[value], dy, weights[s], part);
            sum += weights[s] * dweights[s];
        }
        for (size_t s = 0; s <= t; s++) {
            size_t query = t * stride, key = s * stride + width;
            float dscore = scale * weights[s] * (dweights[s] - sum);
            add_scaled(&dqkv[query], &qkv[key], dscore, part);
            add_scaled(&dqkv[key], &qkv[query], dscore, part);
        }
    }
}

static size_t attention_workspace_bytes(const sizes_t *sizes)
{
    return sizes->time_count * sizeof(float);
}

static void attention_backward(const sizes_t *sizes, void *const *operands)
{
    const float *qkv = operands[0], *weights = operands[1], *dy = operands[2];
    float *dqkv = operands[3], *dweights = operands[4];
    make_zero(dqkv, row_count_of(sizes) * 3 * sizes->in_count);
    for (size_t b = 0; b < sizes->batch_count; b++) {
        for (size_t h = 0; h < sizes->head_count; h++) {
            head_t head = head_of(sizes, b, h);
            head_backward(sizes, &qkv[head.qkv], &weights[head.weights], &dy[head.y], &dqkv[head.qkv],
                          dweights);
        }
    }
}

/* ---- element by element ---- */

static void gelu_forward(const sizes_t *sizes, void *const *operands)
{
    const float *x = operands[0];
    float *y = operands[1];
    for (size_t i = 0; i < row_count_of(sizes) * sizes->in_count; i++) {
        y[i] = 0.5f * x[i] * (1.0f + tanhf(GELU_SCALE * (x[i] + GELU_CUBE * x[i] * x[i] * x[i])));
    }
}

static void gelu_backward(const sizes_t *sizes, void *const *operands)
{
    const float *x = operands[0];
    float *dy = operands[1];
    for (size_t i = 0; i < row_count_of(sizes) * sizes->in_count; i++) {
        float bent = tanhf(GELU_SCALE * (x[i] + GELU_CUBE * x[i] * x[i] * x[i]));
        float slope = GELU_SCALE * (1.0f + 3.0f * GELU_CUBE * x[i] * x[i]);
        dy[i] *= 0.5f * (1.0f + bent) + 0.5f * x[i] * (1.0f - bent * bent) * slope;
    }
}

static void add_in_place(const sizes_t *sizes, void *const *operands)
{
    add_scaled(operands[1], operands[0], 1.0f, row_count_of(sizes) * sizes->in_count);
}

/* ---- loss and update ---- */

static void cross_entropy(const sizes_t *sizes, void *const *operands)
{
    const unsigned char *tokens = operands[0];
    float *logits = operands[1], *loss = operands[2];
    float share = 1.0f / (float)row_count_of(sizes);
    *loss = 0.0f;
    for (size_t b = 0; b < sizes->batch_count; b++) {
        for (size_t t = 0; t < sizes->time_count; t++, logits += VOCABULARY_COUNT) {
            size_t target = tokens[b * (sizes->time_count + 1) + t + 1];
            softmax(logits, VOCABULARY_COUNT, VOCABULARY_COUNT);
            *loss -= logf(logits[target]) * share;
            for (size_t i = 0; i < VOCABULARY_COUNT; i++) {
                logits[i] = (logits[i] - (i == target ? 1.0f : 0.0f)) * share;
            }
        }
    }
}

static void adamw(const sizes_t *sizes, void *const *operands)
{
    const schedule_t *schedule = operands[0];
    const float *gradient = operands[1];
    float *value = operands[2], *mean = operands[3], *square = operands[4];
    for (size_t i = 0; i < sizes->in_count; i++) {
        mean[i] = ADAMW_MEAN_KEPT * mean[i] + (1.0f - ADAMW_MEAN_KEPT) * gradient[i];
        square[i] = ADAMW_SQUARE_KEPT * square[i] + (1.0f - ADAMW_SQUARE_KEPT) * gradient[i] * gradient[i];
        float step = mean[i] / schedule->mean_correction /
                     (sqrtf(square[i] / schedule->square_correction) + ADAMW_EPSILON);
        value[i] -= schedule->rate * (step + sizes->weight_decay * value[i]);
    }
}

static size_t loss_workspace_bytes(const sizes_t *sizes)
{
    (void)sizes;
    return 0;
}

/* ---- launching: a virtual device computes on the host, in the order of its stream ---- */

#define OPERAND_COUNT_MAX 8

/* An operator with the addresses of one launch: they may be others in the next step. */
typedef struct job {
    operator_t run;
    const sizes_t *sizes;
    void *addresses[OPERAND_COUNT_MAX + 1]; /* operands, then the workspace */
} job_t;

static void run_job(void *user)
{
    job_t *job = user;
    job->run(job->sizes, job->addresses);
    free(job);
}

static dao_status_t launch(const dao_launch_t *launch, operator_t run, const sizes_t *sizes)
{
    job_t *job = calloc(1, sizeof(*job));
    if (job == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    job->run = run;
    job->sizes = sizes;
    memcpy(job->addresses, launch->addresses, launch->operand_count * sizeof(*launch->addresses));
    job->addresses[launch->operand_count] = launch->workspace;
    dao_status_t status = dao_stream_host_func(launch->stream, run_job, job);
    if (status != DAO_OK) {
        free(job);
    }
    return status;
}

const operators_t host_operators = {
    .embed_forward = embed_forward,
    .embed_backward = embed_backward,
    .norm_forward = norm_forward,
    .norm_backward = norm_backward,
    .linear_forward = linear_forward,
    .linear_backward = linear_backward,
    .attention_forward = attention_forward,
    .attention_backward = attention_backward,
    .gelu_forward = gelu_forward,
    .gelu_backward = gelu_backward,
    .add_in_place = add_in_place,
    .cross_entropy = cross_entropy,
    .adamw = adamw,
    .attention_workspace_bytes = attention_workspace_bytes,
    .loss_workspace_bytes = loss_workspace_bytes,
    .launch = launch,
};
