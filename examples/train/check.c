/* SPDX-License-Identifier: Apache-2.0 */
/* Every operator gets random numbers, once on the host and once on the device. What comes out has to be the
   same but for the order in which sums are added. An operand of a check is a letter and a number of floats:

       r   read         w   written        u   changed in place
       t   tokens       s   the schedule of adamw
       c   read, as the weights of causal attention: 0 behind the diagonal
       p   changed in place, and not below 0 */
#include "check.h"

#include <dao/dao.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Differences that the order of adding can make, against the largest number of an operand. */
#define TOLERANCE 1e-4f

enum { OPERAND_COUNT_MAX = 8 };

typedef struct operand {
    char kind;
    size_t float_count;
} operand_t;

typedef struct check {
    const char *name;
    operator_t host, device;
    size_t workspace_bytes; /* the larger one of both */
    operand_t operands[OPERAND_COUNT_MAX];
} check_t;

/* An operand in each of its three places. */
typedef struct content {
    float *host;     /* for the loops */
    float *returned; /* what goes to the device, and what comes back */
    void *device;
    size_t size_bytes;
} content_t;

static float random_float(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u; /* Numerical Recipes' generator */
    return (float)(*state >> 8) / (float)(1u << 23) - 1.0f;
}

static void fill(const sizes_t *sizes, const operand_t *operand, content_t *content, uint32_t *random)
{
    static const schedule_t schedule = {1e-3f, 0.3f, 0.2f};
    if (operand->kind == 's') {
        memcpy(content->host, &schedule, sizeof(schedule));
        return;
    }
    for (size_t i = 0; operand->kind == 't' && i < content->size_bytes; i++) {
        ((unsigned char *)content->host)[i] = (unsigned char)(128.0f + 127.0f * random_float(random));
    }
    for (size_t i = 0; operand->kind != 't' && i < operand->float_count; i++) {
        size_t time = i / sizes->time_count % sizes->time_count;
        float value = random_float(random);
        content->host[i] = operand->kind == 'c' && i % sizes->time_count > time ? 0.0f
                           : operand->kind == 'p'                               ? fabsf(value)
                                                                                : value;
    }
}

static bool is_result(char kind)
{
    return kind == 'w' || kind == 'u' || kind == 'p';
}

/* The largest difference, against the largest number; NaN counts as 1. */
static float difference(const content_t *content, size_t float_count)
{
    float most = 0.0f, largest = 1e-20f;
    for (size_t i = 0; i < float_count; i++) {
        float apart = fabsf(content->host[i] - content->returned[i]);
        most = apart <= most ? most : apart;
        largest = fabsf(content->host[i]) > largest ? fabsf(content->host[i]) : largest;
    }
    return most <= largest ? most / largest : 1.0f;
}

static bool contents_create(const check_t *check, const sizes_t *sizes, content_t *contents)
{
    uint32_t random = 1;
    dao_place_t device = dao_place_of(dao_device_place(0)), host = dao_place_of(dao_cpu_place());
    for (size_t i = 0; i <= OPERAND_COUNT_MAX && (i == 0 || check->operands[i - 1].kind != '\0'); i++) {
        const operand_t *operand = &check->operands[i];
        bool is_workspace = i == OPERAND_COUNT_MAX || operand->kind == '\0';
        content_t *content = &contents[i];
        content->size_bytes = is_workspace           ? check->workspace_bytes + sizeof(float)
                              : operand->kind == 't' ? operand->float_count
                              : operand->kind == 's' ? sizeof(schedule_t)
                                                     : operand->float_count * sizeof(float);
        content->host = calloc(1, content->size_bytes);
        content->returned = calloc(1, content->size_bytes);
        content->device = dao_alloc(device, content->size_bytes);
        if (content->host == NULL || content->returned == NULL || content->device == NULL) {
            return false;
        }
        if (!is_workspace) {
            fill(sizes, operand, content, &random);
        }
        if (dao_copy(device, content->device, host, content->host, content->size_bytes) != DAO_OK) {
            return false;
        }
    }
    return true;
}

static void contents_destroy(content_t *contents)
{
    for (size_t i = 0; i <= OPERAND_COUNT_MAX; i++) {
        free(contents[i].host);
        free(contents[i].returned);
        (void)dao_free(dao_device_place(0), contents[i].device);
    }
}

/* Runs both, and brings back what the device has computed. */
static bool run_both(const operators_t *operators, const check_t *check, const sizes_t *sizes,
                     dao_stream_t *stream, content_t *contents)
{
    void *host_addresses[OPERAND_COUNT_MAX + 1], *device_addresses[OPERAND_COUNT_MAX + 1];
    uint32_t count = 0;
    for (size_t i = 0; i <= OPERAND_COUNT_MAX; i++) {
        host_addresses[i] = contents[i].host;
        device_addresses[i] = contents[i].device;
        count += i < OPERAND_COUNT_MAX && check->operands[i].kind != '\0';
    }
    dao_launch_t launch = {.name = check->name,
                           .stream = stream,
                           .addresses = device_addresses,
                           .operand_count = count,
                           .workspace = device_addresses[count]};
    check->host(sizes, host_addresses);
    bool is_done = operators->launch(&launch, check->device, sizes) == DAO_OK &&
                   dao_stream_synchronize(stream) == DAO_OK;
    for (size_t i = 0; is_done && i < count; i++) {
        is_done = dao_copy(dao_cpu_place(), contents[i].returned, dao_device_place(0), contents[i].device,
                           contents[i].size_bytes) == DAO_OK;
    }
    return is_done;
}

static bool agrees(const operators_t *operators, const check_t *check, const sizes_t *sizes,
                   dao_stream_t *stream)
{
    content_t contents[OPERAND_COUNT_MAX + 1] = {{NULL, NULL, NULL, 0}};
    bool is_equal =
        contents_create(check, sizes, contents) && run_both(operators, check, sizes, stream, contents);
    if (!is_equal) {
        (void)fprintf(stderr, "train: %s could not be checked: %s\n", check->name, dao_last_message());
    }
    for (size_t i = 0; is_equal && i < OPERAND_COUNT_MAX && check->operands[i].kind != '\0'; i++) {
        float apart =
            is_result(check->operands[i].kind) ? difference(&contents[i], check->operands[i].float_count) : 0;
        if (apart > TOLERANCE) {
            (void)fprintf(stderr, "train: %s: operand %zu is %g of its largest number off\n", check->name, i,
                          (double)apart);
            is_equal = false;
        }
    }
    contents_destroy(contents);
    return is_equal;
}

bool operators_agree(const operators_t *operators)
{
    const sizes_t sizes = {.batch_count = 3,
                           .time_count = 40,
                           .head_count = 4,
                           .in_count = 64,
                           .out_count = 96,
                           .weight_decay = 0.01f};
    const operators_t *host = &host_operators;
    size_t time = sizes.time_count, rows = sizes.batch_count * time, in = sizes.in_count,
           out = sizes.out_count, weights = sizes.head_count * rows * time,
           tokens = sizes.batch_count * (time + 1);
    size_t attention_bytes =
        operators->attention_workspace_bytes(&sizes) + host->attention_workspace_bytes(&sizes);
#define CHECK(name, workspace_bytes, ...)                                                                    \
    {                                                                                                        \
#name, host->name, operators->name, workspace_bytes,                                                 \
        {                                                                                                    \
            __VA_ARGS__                                                                                      \
        }                                                                                                    \
    }
    const check_t checks[] = {
        CHECK(embed_forward, 0, {'t', tokens}, {'r', VOCABULARY_COUNT * in}, {'r', time * in},
              {'w', rows * in}),
        CHECK(embed_backward, 0, {'t', tokens}, {'r', rows * in}, {'w', VOCABULARY_COUNT * in},
              {'w', time * in}),
        CHECK(norm_forward, 0, {'r', rows * in}, {'r', in}, {'r', in}, {'w', rows * in}, {'w', 2 * rows}),
        CHECK(norm_backward, 0, {'r', rows * in}, {'r', in}, {'r', 2 * rows}, {'r', rows * in},
              {'u', rows * in}, {'w', in}, {'w', in}),
        CHECK(linear_forward, 0, {'r', rows * in}, {'r', in * out}, {'r', out}, {'w', rows * out}),
        CHECK(linear_backward, 0, {'r', rows * in}, {'r', in * out}, {'r', rows * out}, {'w', rows * in},
              {'w', in * out}, {'w', out}),
        CHECK(attention_forward, 0, {'r', 3 * rows * in}, {'w', weights}, {'w', rows * in}),
        CHECK(attention_backward, attention_bytes, {'r', 3 * rows * in}, {'c', weights}, {'r', rows * in},
              {'w', 3 * rows * in}),
        CHECK(gelu_forward, 0, {'r', rows * in}, {'w', rows * in}),
        CHECK(gelu_backward, 0, {'r', rows * in}, {'u', rows * in}),
        CHECK(add_in_place, 0, {'r', rows * in}, {'u', rows * in}),
        CHECK(cross_entropy, operators->loss_workspace_bytes(&sizes), {'t', tokens},
              {'u', rows * VOCABULARY_COUNT}, {'w', 1}),
        CHECK(adamw, 0, {'s', 1}, {'r', in}, {'u', in}, {'u', in}, {'p', in}),
    };
#undef CHECK
    dao_stream_t *stream = NULL;
    if (dao_stream_create(0, &stream) != DAO_OK) {
        (void)fprintf(stderr, "train: %s\n", dao_last_message());
        return false;
    }
    bool all_agree = true;
    for (size_t i = 0; i < sizeof(checks) / sizeof(*checks); i++) {
        all_agree = agrees(operators, &checks[i], &sizes, stream) && all_agree;
    }
    dao_stream_destroy(stream);
    return all_agree;
}
