/* SPDX-License-Identifier: Apache-2.0 */
/* The operators on an NVIDIA device: matrices by cuBLAS, the rest as kernels of a line or two. What
   operators.c does on the host, in another order of adding, which is fixed as well: no atomics, sums by trees
   of one shape.

   Everything is queued on the stream of the launch. The executor launches on one thread, so that what a
   launch sets up for its operator can be kept in this file's variables. */
#include "operators.h"

#include <dao/stream.h>

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <math.h>
#include <stdio.h>

enum {
    BLOCK_THREADS = 256, /* a power of two */
    TILE_COLUMNS = 32,
    TILE_ROWS = 8,
    GRID_MOST = 4096 /* blocks of kernels that go through their elements in strides */
};

/* ---- what a launch sets up ---- */

static cublasHandle_t cublas;
static cudaStream_t stream;
static cublasStatus_t cublas_status; /* the first failure of the launch */

static void note(cublasStatus_t status)
{
    if (cublas_status == CUBLAS_STATUS_SUCCESS) {
        cublas_status = status;
    }
}

static dao_status_t launch(const dao_launch_t *launch, operator_t run, const sizes_t *sizes)
{
    enum { OPERAND_COUNT_MAX = 8 };
    void *addresses[OPERAND_COUNT_MAX + 1];
    for (uint32_t i = 0; i < launch->operand_count; i++) {
        addresses[i] = launch->addresses[i];
    }
    addresses[launch->operand_count] = launch->workspace;
    cublas_status = CUBLAS_STATUS_SUCCESS;
    cudaError_t error = cudaSetDevice(launch->device_index);
    if (error == cudaSuccess && cublas == NULL) {
        note(cublasCreate(&cublas)); /* until the process ends */
    }
    if (error == cudaSuccess && cublas_status == CUBLAS_STATUS_SUCCESS) {
        stream = (cudaStream_t)dao_stream_native(launch->stream);
        note(cublasSetStream(cublas, stream));
        run(sizes, addresses);
        error = cudaGetLastError();
    }
    if (error == cudaSuccess && cublas_status == CUBLAS_STATUS_SUCCESS) {
        return DAO_OK;
    }
    (void)fprintf(stderr, "train: %s: %s, cuBLAS: %s\n", launch->name, cudaGetErrorString(error),
                  cublasGetStatusString(cublas_status));
    return DAO_ERR_KERNEL_FAILED;
}

static size_t row_count_of(const sizes_t *sizes)
{
    return sizes->batch_count * sizes->time_count;
}

static unsigned blocks_for(size_t count)
{
    size_t blocks = (count + BLOCK_THREADS - 1) / BLOCK_THREADS;
    return (unsigned)(blocks < GRID_MOST ? blocks : GRID_MOST);
}

/* The elements of a thread: those at its number, and so on in strides of the grid. */
#define FOR_EACH(i, count)                                                                                   \
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < (count);                              \
         i += (size_t)gridDim.x * blockDim.x)

/* ---- sums ---- */

struct sum_t {
    static __device__ float join(float a, float b)
    {
        return a + b;
    }
};

struct greatest_t {
    static __device__ float join(float a, float b)
    {
        return a > b ? a : b;
    }
};

/* Joins a value of every thread of a block, which all get the result. */
template <typename join_t> static __device__ float block_join(float value)
{
    __shared__ float values[BLOCK_THREADS];
    __syncthreads(); /* the one before has been read */
    values[threadIdx.x] = value;
    for (unsigned half = BLOCK_THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) {
            values[threadIdx.x] = join_t::join(values[threadIdx.x], values[threadIdx.x + half]);
        }
    }
    __syncthreads();
    return values[0];
}

/* Sums term(row, column) over all rows, for each column. */
template <typename term_t>
static __global__ void sum_columns(term_t term, float *sums, size_t row_count, size_t column_count)
{
    __shared__ float parts[TILE_ROWS][TILE_COLUMNS];
    size_t column = blockIdx.x * (size_t)TILE_COLUMNS + threadIdx.x;
    float sum = 0.0f;
    for (size_t row = threadIdx.y; column < column_count && row < row_count; row += TILE_ROWS) {
        sum += term(row, column);
    }
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y == 0 && column < column_count) {
        for (unsigned i = 1; i < TILE_ROWS; i++) {
            sum += parts[i][threadIdx.x];
        }
        sums[column] = sum;
    }
}

template <typename term_t>
static void launch_sum_columns(const term_t &term, float *sums, size_t row_count, size_t column_count)
{
    dim3 threads(TILE_COLUMNS, TILE_ROWS);
    unsigned blocks = (unsigned)((column_count + TILE_COLUMNS - 1) / TILE_COLUMNS);
    sum_columns<<<blocks, threads, 0, stream>>>(term, sums, row_count, column_count);
}

/* ---- embedding ---- */

static __global__ void embed_rows(const unsigned char *tokens, const float *table, const float *positions,
                                  float *x, size_t time_count, size_t width, size_t count)
{
    FOR_EACH(i, count)
    {
        size_t row = i / width, column = i % width, t = row % time_count;
        size_t token = tokens[row / time_count * (time_count + 1) + t];
        x[i] = table[token * width + column] + positions[t * width + column];
    }
}

static void embed_forward(const sizes_t *sizes, void *const *operands)
{
    size_t count = row_count_of(sizes) * sizes->in_count;
    embed_rows<<<blocks_for(count), BLOCK_THREADS, 0, stream>>>(
        (const unsigned char *)operands[0], (const float *)operands[1], (const float *)operands[2],
        (float *)operands[3], sizes->time_count, sizes->in_count, count);
}

/* A block a token: each column goes through the rows in order. */
static __global__ void sum_tokens(const unsigned char *tokens, const float *dx, float *dtable,
                                  size_t batch_count, size_t time_count, size_t width)
{
    for (size_t column = threadIdx.x; column < width; column += blockDim.x) {
        float sum = 0.0f;
        for (size_t row = 0; row < batch_count * time_count; row++) {
            size_t token = tokens[row / time_count * (time_count + 1) + row % time_count];
            sum += token == blockIdx.x ? dx[row * width + column] : 0.0f;
        }
        dtable[blockIdx.x * width + column] = sum;
    }
}

static __global__ void sum_positions(const float *dx, float *dpositions, size_t batch_count, size_t count)
{
    FOR_EACH(i, count)
    {
        float sum = 0.0f;
        for (size_t b = 0; b < batch_count; b++) {
            sum += dx[b * count + i];
        }
        dpositions[i] = sum;
    }
}

static void embed_backward(const sizes_t *sizes, void *const *operands)
{
    const float *dx = (const float *)operands[1];
    size_t count = sizes->time_count * sizes->in_count;
    sum_tokens<<<VOCABULARY_COUNT, BLOCK_THREADS, 0, stream>>>((const unsigned char *)operands[0], dx,
                                                               (float *)operands[2], sizes->batch_count,
                                                               sizes->time_count, sizes->in_count);
    sum_positions<<<blocks_for(count), BLOCK_THREADS, 0, stream>>>(dx, (float *)operands[3],
                                                                   sizes->batch_count, count);
}

/* ---- layer norm: a block a row ---- */

static __global__ void norm_rows(const float *x, const float *gain, const float *bias, float *y,
                                 float *moments, size_t width)
{
    x += blockIdx.x * width;
    y += blockIdx.x * width;
    float part = 0.0f, variance = 0.0f;
    for (size_t i = threadIdx.x; i < width; i += blockDim.x) {
        part += x[i];
    }
    float mean = block_join<sum_t>(part) / (float)width;
    for (size_t i = threadIdx.x; i < width; i += blockDim.x) {
        variance += (x[i] - mean) * (x[i] - mean);
    }
    variance = block_join<sum_t>(variance) / (float)width;
    float scale = 1.0f / sqrtf(variance + NORM_EPSILON);
    for (size_t i = threadIdx.x; i < width; i += blockDim.x) {
        y[i] = (x[i] - mean) * scale * gain[i] + bias[i];
    }
    if (threadIdx.x == 0) {
        moments[2 * blockIdx.x] = mean;
        moments[2 * blockIdx.x + 1] = scale;
    }
}

static void norm_forward(const sizes_t *sizes, void *const *operands)
{
    norm_rows<<<(unsigned)row_count_of(sizes), BLOCK_THREADS, 0, stream>>>(
        (const float *)operands[0], (const float *)operands[1], (const float *)operands[2],
        (float *)operands[3], (float *)operands[4], sizes->in_count);
}

/* Adds the gradient of a row to dx. */
static __global__ void norm_rows_backward(const float *x, const float *gain, const float *moments,
                                          const float *dy, float *dx, size_t width)
{
    x += blockIdx.x * width;
    dy += blockIdx.x * width;
    dx += blockIdx.x * width;
    float mean = moments[2 * blockIdx.x], scale = moments[2 * blockIdx.x + 1];
    float sum = 0.0f, sum_along = 0.0f; /* of the gradient of the normed row, and of it along that row */
    for (size_t i = threadIdx.x; i < width; i += blockDim.x) {
        sum += dy[i] * gain[i];
        sum_along += dy[i] * gain[i] * (x[i] - mean) * scale;
    }
    sum = block_join<sum_t>(sum);
    sum_along = block_join<sum_t>(sum_along);
    for (size_t i = threadIdx.x; i < width; i += blockDim.x) {
        float normed = (x[i] - mean) * scale;
        dx[i] += scale * (dy[i] * gain[i] - (sum + normed * sum_along) / (float)width);
    }
}

/* What the gradient of a norm's gain adds up. */
struct norm_term_t {
    const float *x, *moments, *dy;
    size_t width;
    __device__ float operator()(size_t row, size_t column) const
    {
        size_t i = row * width + column;
        return dy[i] * (x[i] - moments[2 * row]) * moments[2 * row + 1];
    }
};

/* What the gradient of a bias adds up. */
struct bias_term_t {
    const float *dy;
    size_t width;
    __device__ float operator()(size_t row, size_t column) const
    {
        return dy[row * width + column];
    }
};

static void norm_backward(const sizes_t *sizes, void *const *operands)
{
    const float *x = (const float *)operands[0], *moments = (const float *)operands[2],
                *dy = (const float *)operands[3];
    size_t row_count = row_count_of(sizes), width = sizes->in_count;
    norm_rows_backward<<<(unsigned)row_count, BLOCK_THREADS, 0, stream>>>(
        x, (const float *)operands[1], moments, dy, (float *)operands[4], width);
    launch_sum_columns(norm_term_t{x, moments, dy, width}, (float *)operands[5], row_count, width);
    launch_sum_columns(bias_term_t{dy, width}, (float *)operands[6], row_count, width);
}

/* ---- matrices ---- */

/* Rows of floats that are `stride` apart; `count` of them, each `next` behind the one before. */
typedef struct matrix {
    const float *values;
    size_t stride;
    size_t next;
    bool is_transposed;
} matrix_t;

/* c = scale * a b + kept * c for `count` matrices; c has so many rows and columns, `inner` is what is added
   up. cuBLAS counts columns first: it is told of the transposed product, b a. */
static void multiply(matrix_t a, matrix_t b, matrix_t c, size_t rows, size_t columns, size_t inner,
                     size_t count, float scale, float kept)
{
    note(cublasSgemmStridedBatched(cublas, b.is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                                   a.is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, (int)columns, (int)rows,
                                   (int)inner, &scale, b.values, (int)b.stride, (long long)b.next, a.values,
                                   (int)a.stride, (long long)a.next, &kept, (float *)c.values, (int)c.stride,
                                   (long long)c.next, (int)count));
}

static matrix_t single(const void *values, size_t stride)
{
    return matrix_t{(const float *)values, stride, 0, false};
}

static matrix_t transposed(matrix_t matrix)
{
    matrix.is_transposed = true;
    return matrix;
}

/* ---- linear ---- */

static __global__ void repeat_row(const float *row, float *to, size_t width, size_t count)
{
    FOR_EACH(i, count)
    {
        to[i] = row[i % width];
    }
}

static void linear_forward(const sizes_t *sizes, void *const *operands)
{
    size_t rows = row_count_of(sizes), in = sizes->in_count, out = sizes->out_count;
    repeat_row<<<blocks_for(rows * out), BLOCK_THREADS, 0, stream>>>((const float *)operands[2],
                                                                     (float *)operands[3], out, rows * out);
    multiply(single(operands[0], in), single(operands[1], out), single(operands[3], out), rows, out, in, 1,
             1.0f, 1.0f);
}

static void linear_backward(const sizes_t *sizes, void *const *operands)
{
    size_t rows = row_count_of(sizes), in = sizes->in_count, out = sizes->out_count;
    matrix_t x = single(operands[0], in), weight = single(operands[1], out), dy = single(operands[2], out);
    multiply(dy, transposed(weight), single(operands[3], in), rows, in, out, 1, 1.0f, 0.0f);
    multiply(transposed(x), dy, single(operands[4], out), in, out, rows, 1, 1.0f, 0.0f);
    launch_sum_columns(bias_term_t{dy.values, out}, (float *)operands[5], rows, out);
}

/* ---- attention: a product is of all heads of a sequence ---- */

/* The parts of a sequence: queries, keys or values (which = 0, 1, 2) in rows of qkv, and rows of y. */
static matrix_t part_of_qkv(const sizes_t *sizes, const void *qkv, size_t sequence, size_t which)
{
    size_t width = sizes->in_count;
    const float *first = (const float *)qkv + sequence * sizes->time_count * 3 * width + which * width;
    return matrix_t{first, 3 * width, width / sizes->head_count, false};
}

static matrix_t part_of_y(const sizes_t *sizes, const void *y, size_t sequence)
{
    size_t width = sizes->in_count;
    return matrix_t{(const float *)y + sequence * sizes->time_count * width, width, width / sizes->head_count,
                    false};
}

static matrix_t weights_of(const sizes_t *sizes, const void *weights, size_t sequence)
{
    size_t time = sizes->time_count;
    return matrix_t{(const float *)weights + sequence * sizes->head_count * time * time, time, time * time,
                    false};
}

/* Turns the scores of a row up to its own time into weights that add up to 1; the others become 0. A block a
   row. */
static __global__ void softmax_rows(float *scores, size_t time_count)
{
    size_t count = blockIdx.x % time_count + 1;
    scores += blockIdx.x * time_count;
    float greatest = -INFINITY, sum = 0.0f;
    for (size_t s = threadIdx.x; s < count; s += blockDim.x) {
        greatest = greatest_t::join(greatest, scores[s]);
    }
    greatest = block_join<greatest_t>(greatest);
    for (size_t s = threadIdx.x; s < count; s += blockDim.x) {
        scores[s] = expf(scores[s] - greatest);
        sum += scores[s];
    }
    sum = block_join<sum_t>(sum);
    for (size_t s = threadIdx.x; s < time_count; s += blockDim.x) {
        scores[s] = s < count ? scores[s] / sum : 0.0f;
    }
}

static void attention_forward(const sizes_t *sizes, void *const *operands)
{
    size_t time = sizes->time_count, heads = sizes->head_count, part = sizes->in_count / heads;
    float scale = 1.0f / sqrtf((float)part);
    for (size_t i = 0; i < sizes->batch_count; i++) {
        multiply(part_of_qkv(sizes, operands[0], i, 0), transposed(part_of_qkv(sizes, operands[0], i, 1)),
                 weights_of(sizes, operands[1], i), time, time, part, heads, scale, 0.0f);
    }
    softmax_rows<<<(unsigned)(sizes->batch_count * heads * time), BLOCK_THREADS, 0, stream>>>(
        (float *)operands[1], time);
    for (size_t i = 0; i < sizes->batch_count; i++) {
        multiply(weights_of(sizes, operands[1], i), part_of_qkv(sizes, operands[0], i, 2),
                 part_of_y(sizes, operands[2], i), time, part, time, heads, 1.0f, 0.0f);
    }
}

/* Turns gradients of weights into those of scores. A block a row. */
static __global__ void softmax_rows_backward(const float *weights, float *gradients, size_t time_count)
{
    weights += blockIdx.x * time_count;
    gradients += blockIdx.x * time_count;
    float sum = 0.0f;
    for (size_t s = threadIdx.x; s < time_count; s += blockDim.x) {
        sum += weights[s] * gradients[s];
    }
    sum = block_join<sum_t>(sum);
    for (size_t s = threadIdx.x; s < time_count; s += blockDim.x) {
        gradients[s] = weights[s] * (gradients[s] - sum);
    }
}

/* Gradients of the weights of one sequence. */
static size_t attention_workspace_bytes(const sizes_t *sizes)
{
    return sizes->head_count * sizes->time_count * sizes->time_count * sizeof(float);
}

static void attention_backward(const sizes_t *sizes, void *const *operands)
{
    size_t time = sizes->time_count, heads = sizes->head_count, part = sizes->in_count / heads;
    float scale = 1.0f / sqrtf((float)part);
    for (size_t i = 0; i < sizes->batch_count; i++) {
        matrix_t weights = weights_of(sizes, operands[1], i), scores = weights_of(sizes, operands[4], 0);
        matrix_t dy = part_of_y(sizes, operands[2], i);
        multiply(dy, transposed(part_of_qkv(sizes, operands[0], i, 2)), scores, time, time, part, heads, 1.0f,
                 0.0f);
        multiply(transposed(weights), dy, part_of_qkv(sizes, operands[3], i, 2), time, part, time, heads,
                 1.0f, 0.0f);
        softmax_rows_backward<<<(unsigned)(heads * time), BLOCK_THREADS, 0, stream>>>(
            weights.values, (float *)operands[4], time);
        multiply(scores, part_of_qkv(sizes, operands[0], i, 1), part_of_qkv(sizes, operands[3], i, 0), time,
                 part, time, heads, scale, 0.0f);
        multiply(transposed(scores), part_of_qkv(sizes, operands[0], i, 0),
                 part_of_qkv(sizes, operands[3], i, 1), time, part, time, heads, scale, 0.0f);
    }
}

/* ---- element by element ---- */

static __global__ void gelu_elements(const float *x, float *y, size_t count)
{
    FOR_EACH(i, count)
    {
        y[i] = 0.5f * x[i] * (1.0f + tanhf(GELU_SCALE * (x[i] + GELU_CUBE * x[i] * x[i] * x[i])));
    }
}

static void gelu_forward(const sizes_t *sizes, void *const *operands)
{
    size_t count = row_count_of(sizes) * sizes->in_count;
    gelu_elements<<<blocks_for(count), BLOCK_THREADS, 0, stream>>>((const float *)operands[0],
                                                                   (float *)operands[1], count);
}

static __global__ void gelu_elements_backward(const float *x, float *dy, size_t count)
{
    FOR_EACH(i, count)
    {
        float bent = tanhf(GELU_SCALE * (x[i] + GELU_CUBE * x[i] * x[i] * x[i]));
        float slope = GELU_SCALE * (1.0f + 3.0f * GELU_CUBE * x[i] * x[i]);
        dy[i] *= 0.5f * (1.0f + bent) + 0.5f * x[i] * (1.0f - bent * bent) * slope;
    }
}

static void gelu_backward(const sizes_t *sizes, void *const *operands)
{
    size_t count = row_count_of(sizes) * sizes->in_count;
    gelu_elements_backward<<<blocks_for(count), BLOCK_THREADS, 0, stream>>>((const float *)operands[0],
                                                                            (float *)operands[1], count);
}

static __global__ void add_elements(const float *x, float *y, size_t count)
{
    FOR_EACH(i, count)
    {
        y[i] += x[i];
    }
}

static void add_in_place(const sizes_t *sizes, void *const *operands)
{
    size_t count = row_count_of(sizes) * sizes->in_count;
    add_elements<<<blocks_for(count), BLOCK_THREADS, 0, stream>>>((const float *)operands[0],
                                                                  (float *)operands[1], count);
}

/* ---- loss and update ---- */

/* A block a row, a thread a token of the vocabulary. */
static_assert(BLOCK_THREADS == VOCABULARY_COUNT, "a thread a token");

static __global__ void cross_entropy_rows(const unsigned char *tokens, float *logits, float *losses,
                                          size_t time_count, float share)
{
    size_t row = blockIdx.x;
    unsigned target = tokens[row / time_count * (time_count + 1) + row % time_count + 1];
    float *logit = &logits[row * VOCABULARY_COUNT + threadIdx.x];
    float greatest = block_join<greatest_t>(*logit);
    float raised = expf(*logit - greatest);
    float weight = raised / block_join<sum_t>(raised);
    if (threadIdx.x == target) {
        losses[row] = -logf(weight) * share;
    }
    *logit = (weight - (threadIdx.x == target ? 1.0f : 0.0f)) * share;
}

/* One block: the loss is the sum of the rows'. */
static __global__ void sum_losses(const float *losses, float *loss, size_t row_count)
{
    float sum = 0.0f;
    for (size_t row = threadIdx.x; row < row_count; row += blockDim.x) {
        sum += losses[row];
    }
    sum = block_join<sum_t>(sum);
    if (threadIdx.x == 0) {
        *loss = sum;
    }
}

static size_t loss_workspace_bytes(const sizes_t *sizes)
{
    return row_count_of(sizes) * sizeof(float);
}

static void cross_entropy(const sizes_t *sizes, void *const *operands)
{
    size_t row_count = row_count_of(sizes);
    float *losses = (float *)operands[3];
    cross_entropy_rows<<<(unsigned)row_count, BLOCK_THREADS, 0, stream>>>(
        (const unsigned char *)operands[0], (float *)operands[1], losses, sizes->time_count,
        1.0f / (float)row_count);
    sum_losses<<<1, BLOCK_THREADS, 0, stream>>>(losses, (float *)operands[2], row_count);
}

static __global__ void adamw_elements(const schedule_t *schedule, const float *gradient, float *value,
                                      float *mean, float *square, float weight_decay, size_t count)
{
    FOR_EACH(i, count)
    {
        mean[i] = ADAMW_MEAN_KEPT * mean[i] + (1.0f - ADAMW_MEAN_KEPT) * gradient[i];
        square[i] = ADAMW_SQUARE_KEPT * square[i] + (1.0f - ADAMW_SQUARE_KEPT) * gradient[i] * gradient[i];
        float step = mean[i] / schedule->mean_correction /
                     (sqrtf(square[i] / schedule->square_correction) + ADAMW_EPSILON);
        value[i] -= schedule->rate * (step + weight_decay * value[i]);
    }
}

static void adamw(const sizes_t *sizes, void *const *operands)
{
    adamw_elements<<<blocks_for(sizes->in_count), BLOCK_THREADS, 0, stream>>>(
        (const schedule_t *)operands[0], (const float *)operands[1], (float *)operands[2],
        (float *)operands[3], (float *)operands[4], sizes->weight_decay, sizes->in_count);
}

const operators_t cuda_operators = {
    embed_forward,
    embed_backward,
    norm_forward,
    norm_backward,
    linear_forward,
    linear_backward,
    attention_forward,
    attention_backward,
    gelu_forward,
    gelu_backward,
    add_in_place,
    cross_entropy,
    adamw,
    attention_workspace_bytes,
    loss_workspace_bytes,
    launch,
};
