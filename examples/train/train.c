/* A small transformer is trained on text, in plain C, on a device that need not hold it: first with as much memory as it
   likes, which tells its peak, then with all, half and a quarter of that peak. DAO's executor moves weights, optimizer state
   and activations between the device and the host. The losses of all runs have to be the same, bit by bit.

       train.c       this file: options, batches, runs, the table
       model.c       how the model is put onto the executor: start reading there
       operators.c   what the kernels compute

   usage: train [--layers N] [--width N] [--steps N] [--policy NAME] */
#include "model.h"
#include "story.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HEAD_COUNT       4
#define BATCH_COUNT      4
#define TIME_COUNT       32
#define TOKEN_COUNT      (BATCH_COUNT * (TIME_COUNT + 1))
#define WIDTH_MAX        1024
#define STEP_COUNT_MAX   100000
#define CURVE_LINE_COUNT 10 /* losses that are printed */

/* Runs after the one without a limit. */
static const unsigned percents[] = {100, 50, 25};

typedef struct options {
    size_t layer_count, width, step_count;
    dao_policy_t policy;
} options_t;

/* What a run leaves behind. */
typedef struct result {
    float *losses; /* step_count */
    double seconds;
    dao_executor_stats_t stats;
} result_t;

/* Says on stderr what went wrong in the latest call. */
static void print_error(dao_status_t status)
{
    bool is_told = dao_last_status() == status;
    (void)fprintf(stderr, "train: %s: %s\n", dao_status_name(status),
                  is_told ? dao_last_message() : dao_status_text(status));
}

/* ---- options ---- */

static bool read_count(const char *text, size_t least, size_t most, size_t *out_count)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || number < least || number > most) {
        (void)fprintf(stderr, "train: \"%s\" is not a number from %zu to %zu\n", text, least, most);
        return false;
    }
    *out_count = (size_t)number;
    return true;
}

static bool read_option(const char *name, const char *value, options_t *options)
{
    if (strcmp(name, "--layers") == 0) {
        return read_count(value, 1, MODEL_LAYER_COUNT_MAX, &options->layer_count);
    }
    if (strcmp(name, "--steps") == 0) {
        return read_count(value, 2, STEP_COUNT_MAX, &options->step_count);
    }
    if (strcmp(name, "--width") == 0) {
        bool is_read = read_count(value, HEAD_COUNT, WIDTH_MAX, &options->width);
        if (is_read && options->width % HEAD_COUNT != 0) {
            (void)fprintf(stderr, "train: the width has to be a multiple of %d\n", HEAD_COUNT);
            return false;
        }
        return is_read;
    }
    if (strcmp(name, "--policy") == 0) {
        bool is_known =
            dao_policy_parse(value, &options->policy) == DAO_OK && options->policy != DAO_POLICY_USER;
        if (!is_known) {
            (void)fprintf(stderr, "train: there is no policy \"%s\"; try belady or lru\n", value);
        }
        return is_known;
    }
    (void)fprintf(stderr, "train: there is no option \"%s\"\n", name);
    return false;
}

static bool read_options(int count, char **arguments, options_t *options)
{
    for (int i = 1; i < count; i += 2) {
        if (i + 1 == count) {
            (void)fprintf(stderr, "usage: train [--layers N] [--width N] [--steps N] [--policy NAME]\n");
            return false;
        }
        if (!read_option(arguments[i], arguments[i + 1], options)) {
            return false;
        }
    }
    return true;
}

/* ---- runs ---- */

static double now_seconds(void)
{
    struct timespec now;
    (void)timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Cuts sequences out of the text, the same for every run. */
static void cut_batch(size_t step_number, unsigned char *tokens)
{
    for (size_t b = 0; b < BATCH_COUNT; b++) {
        size_t begin = (step_number * BATCH_COUNT + b) * 7919 % (sizeof(story) - 1 - TIME_COUNT);
        memcpy(&tokens[b * (TIME_COUNT + 1)], &story[begin], TIME_COUNT + 1);
    }
}

static dao_status_t train(dao_executor_t *executor, const options_t *options, result_t *result)
{
    model_config_t config = {.layer_count = options->layer_count,
                             .width = options->width,
                             .head_count = HEAD_COUNT,
                             .batch_count = BATCH_COUNT,
                             .time_count = TIME_COUNT};
    model_t *model = NULL;
    dao_status_t status = model_create(executor, &config, &model);
    double begin = now_seconds();
    for (size_t step = 1; status == DAO_OK && step <= options->step_count; step++) {
        unsigned char tokens[TOKEN_COUNT];
        cut_batch(step, tokens);
        status = model_train(model, tokens, step, &result->losses[step - 1]);
    }
    result->seconds = now_seconds() - begin;
    if (status == DAO_OK) {
        status = dao_executor_stats_get(executor, &result->stats);
    }
    if (status != DAO_OK) { /* now, before another call says something else */
        print_error(status);
    }
    model_destroy(model);
    return status;
}

/* Trains a new model in an executor of its own. Capacity 0 is all that the device has. */
static bool run(const options_t *options, size_t capacity_bytes, result_t *result)
{
    result->losses = calloc(options->step_count, sizeof(*result->losses));
    if (result->losses == NULL) {
        (void)fprintf(stderr, "train: no memory for %zu losses\n", options->step_count);
        return false;
    }
    dao_executor_t *executor = NULL;
    dao_executor_config_t config = {.capacity_bytes = capacity_bytes, .policy = options->policy};
    dao_status_t status = dao_executor_create(&config, &executor);
    if (status != DAO_OK) {
        print_error(status);
        return false;
    }
    status = train(executor, options, result);
    return dao_executor_destroy(executor) == DAO_OK && status == DAO_OK;
}

/* ---- output ---- */

static void print_curve(const options_t *options, const result_t *result)
{
    size_t line_count = options->step_count < CURVE_LINE_COUNT ? options->step_count : CURVE_LINE_COUNT;
    for (size_t line = 0; line < line_count; line++) {
        size_t step = line * (options->step_count - 1) / (line_count - 1);
        (void)printf("step %5zu   loss %.4f\n", step + 1, (double)result->losses[step]);
    }
}

static bool is_identical(const options_t *options, const result_t *a, const result_t *b)
{
    return memcmp(a->losses, b->losses, options->step_count * sizeof(*a->losses)) == 0;
}

static void print_row(const char *name, const options_t *options, const result_t *result, bool identical)
{
    const dao_executor_stats_t *stats = &result->stats;
    double mib = 1024.0 * 1024.0, step_count = (double)options->step_count;
    (void)printf("%-9s %9.2f %9.2f %9.2f %9.2f %10.1f %8.1f %8.1f %9.4f   %s\n", name,
                 (double)stats->peak_device_used_bytes / mib, result->seconds * 1e3 / step_count,
                 (double)stats->in_bytes / mib / step_count, (double)stats->out_bytes / mib / step_count,
                 (double)stats->eviction_count / step_count, (double)stats->clean_eviction_count / step_count,
                 (double)stats->fetch_count / step_count, (double)result->losses[options->step_count - 1],
                 identical ? "yes" : "NO");
}

static void print_head(void)
{
    (void)printf("\na step's mean:\n%-9s %9s %9s %9s %9s %10s %8s %8s %9s   %s\n", "capacity", "peak MiB",
                 "time ms", "in MiB", "out MiB", "evictions", "clean", "fetches", "last loss", "identical");
}

/* Runs with all, half and a quarter of the peak. */
static bool compare(const options_t *options, const result_t *unlimited)
{
    bool all_identical = true;
    print_head();
    print_row("no limit", options, unlimited, true);
    for (size_t i = 0; i < sizeof(percents) / sizeof(*percents); i++) {
        result_t result = {NULL};
        size_t capacity_bytes = (size_t)unlimited->stats.peak_device_used_bytes * percents[i] / 100;
        bool has_run = run(options, capacity_bytes, &result);
        bool identical = has_run && is_identical(options, unlimited, &result);
        if (has_run) {
            char name[16];
            (void)snprintf(name, sizeof(name), "%u %%", percents[i]);
            print_row(name, options, &result, identical);
        }
        all_identical = all_identical && identical;
        free(result.losses);
    }
    return all_identical;
}

/* The kernels here are host functions, so the host has to reach the device's memory: virtual devices. */
static bool device_is_virtual(void)
{
    dao_device_info_t info;
    dao_status_t status = dao_device_query(0, &info);
    if (status != DAO_OK) {
        print_error(status);
        return false;
    }
    if (!info.host_accessible) {
        (void)fprintf(stderr, "train: %s is no virtual device: give model.c kernels for it first\n",
                      info.name);
    }
    return info.host_accessible;
}

int main(int count, char **arguments)
{
    options_t options = {.layer_count = 6, .width = 64, .step_count = 50, .policy = DAO_POLICY_BELADY};
    result_t unlimited = {NULL};
    bool is_right = false;
    if (!read_options(count, arguments, &options) || !device_is_virtual()) {
        return 1;
    }
    if (run(&options, 0, &unlimited)) {
        print_curve(&options, &unlimited);
        is_right = compare(&options, &unlimited);
        if (unlimited.losses[options.step_count - 1] >= unlimited.losses[0]) {
            (void)fprintf(stderr, "train: the loss did not fall\n");
            is_right = false;
        }
    }
    free(unlimited.losses);
    return dao_finalize() == DAO_OK && is_right ? 0 : 1;
}
