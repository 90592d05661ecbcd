/* SPDX-License-Identifier: Apache-2.0 */
/* Trains a small transformer on text, in plain C, on a device that need not hold it: first without a limit,
   which finds the peak, then with shares of that peak. DAO's executor moves weights, optimizer state and
   activations between the device and the host. The losses of all runs must be equal in every bit.

       train.c        this file: options, batches, runs, the table
       model.c        how the model is put onto the executor: start reading there
       operators.c    what the kernels compute, on virtual devices
       operators.cu   the same by cuBLAS and CUDA C, in builds for NVIDIA devices
       check.c        compares the two

   usage: train [--layers N] [--width N] [--heads N] [--batch N] [--time N] [--steps N] [--percents N,N,...]
                [--policy NAME] [--capacity MIB] [--write FILE] [--recompute] */
#include "check.h"
#include "model.h"
#include "story.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WIDTH_MAX         16384
#define HEAD_COUNT_MAX    128
#define BATCH_COUNT_MAX   1024
#define TIME_COUNT_MAX    1024 /* the text has more than that */
#define STEP_COUNT_MAX    100000
#define PERCENT_COUNT_MAX 8
#define CAPACITY_MIB_MAX  (1u << 20)
#define CURVE_LINE_COUNT  10 /* losses that are printed */

typedef struct options {
    size_t layer_count, width, head_count, batch_count, time_count, step_count;
    size_t percents[PERCENT_COUNT_MAX]; /* of the peak: runs after the one without a limit */
    size_t percent_count;
    size_t capacity_mib; /* of the run without a limit; 0: what the device has, but for a headroom */
    dao_policy_t policy;
    bool recomputes;       /* kernels may run again */
    const char *step_path; /* of a file of the step, for the command dao; NULL: none is written */
    const operators_t *operators;
} options_t;

/* The result of a run. */
typedef struct result {
    float *losses; /* step_count */
    double seconds;
    dao_executor_stats_t stats;
} result_t;

/* Prints the latest error on stderr. */
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

static bool read_percents(const char *text, options_t *options)
{
    char number[8];
    for (options->percent_count = 0; *text != '\0'; options->percent_count++) {
        size_t length = strcspn(text, ",");
        if (length >= sizeof(number) || options->percent_count == PERCENT_COUNT_MAX) {
            (void)fprintf(stderr, "train: at most %d percents, as 100,50,25\n", PERCENT_COUNT_MAX);
            return false;
        }
        (void)snprintf(number, sizeof(number), "%.*s", (int)length, text);
        if (!read_count(number, 1, 100, &options->percents[options->percent_count])) {
            return false;
        }
        text += length + (text[length] == ',');
    }
    return true;
}

static bool read_policy(const char *text, dao_policy_t *out_policy)
{
    bool is_known = dao_policy_parse(text, out_policy) == DAO_OK && *out_policy != DAO_POLICY_USER;
    if (!is_known) {
        (void)fprintf(stderr, "train: there is no policy \"%s\"; try belady or lru\n", text);
    }
    return is_known;
}

static bool read_option(const char *name, const char *value, options_t *options)
{
    const struct {
        const char *name;
        size_t least, most, *out_count;
    } counts[] = {
        {"--layers", 1, MODEL_LAYER_COUNT_MAX, &options->layer_count},
        {"--width", 1, WIDTH_MAX, &options->width},
        {"--heads", 1, HEAD_COUNT_MAX, &options->head_count},
        {"--batch", 1, BATCH_COUNT_MAX, &options->batch_count},
        {"--time", 1, TIME_COUNT_MAX, &options->time_count},
        {"--steps", 2, STEP_COUNT_MAX, &options->step_count},
        {"--capacity", 1, CAPACITY_MIB_MAX, &options->capacity_mib},
    };
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        if (strcmp(name, counts[i].name) == 0) {
            return read_count(value, counts[i].least, counts[i].most, counts[i].out_count);
        }
    }
    if (strcmp(name, "--percents") == 0) {
        return read_percents(value, options);
    }
    if (strcmp(name, "--write") == 0) {
        options->step_path = value;
        return true;
    }
    if (strcmp(name, "--policy") == 0) {
        return read_policy(value, &options->policy);
    }
    (void)fprintf(stderr, "train: there is no option \"%s\"\n", name);
    return false;
}

static bool read_options(int count, char **arguments, options_t *options)
{
    for (int i = 1; i < count; i += 2) {
        if (strcmp(arguments[i], "--recompute") == 0) { /* has no value */
            options->recomputes = true;
            i--;
            continue;
        }
        if (i + 1 == count) {
            (void)fprintf(stderr, "train: %s has no value\n", arguments[i]);
            return false;
        }
        if (!read_option(arguments[i], arguments[i + 1], options)) {
            return false;
        }
    }
    if (options->width % options->head_count != 0) {
        (void)fprintf(stderr, "train: the width has to be a multiple of the %zu heads\n",
                      options->head_count);
        return false;
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
static void cut_batch(const options_t *options, size_t step_number, unsigned char *tokens)
{
    size_t batch_count = options->batch_count, time_count = options->time_count;
    for (size_t b = 0; b < batch_count; b++) {
        size_t begin = (step_number * batch_count + b) * 7919 % (sizeof(story) - 1 - time_count);
        memcpy(&tokens[b * (time_count + 1)], &story[begin], time_count + 1);
    }
}

static dao_status_t train(dao_executor_t *executor, const options_t *options, result_t *result)
{
    model_config_t config = {.operators = options->operators,
                             .layer_count = options->layer_count,
                             .width = options->width,
                             .head_count = options->head_count,
                             .batch_count = options->batch_count,
                             .time_count = options->time_count,
                             .recomputes = options->recomputes};
    model_t *model = NULL;
    unsigned char *tokens = malloc(options->batch_count * (options->time_count + 1));
    dao_status_t status = tokens != NULL ? model_create(executor, &config, &model) : DAO_ERR_NO_HOST_MEMORY;
    double begin = now_seconds();
    for (size_t step = 1; status == DAO_OK && step <= options->step_count; step++) {
        cut_batch(options, step, tokens);
        status = model_train(model, tokens, step, &result->losses[step - 1]);
    }
    result->seconds = now_seconds() - begin;
    if (status == DAO_OK) {
        status = dao_executor_stats_get(executor, &result->stats);
    }
    if (status != DAO_OK) { /* now, before another call replaces the message */
        print_error(status);
    }
    model_destroy(model);
    free(tokens);
    return status;
}

/* Trains a new model in an executor of its own. Capacity 0 is the device's whole memory. step_path: NULL, or
   of a file that the last step is written to. */
static bool run(const options_t *options, size_t capacity_bytes, const char *step_path, result_t *result)
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
    if (status == DAO_OK && step_path != NULL) {
        status = dao_executor_step_write(executor, step_path);
        if (status != DAO_OK) {
            print_error(status);
        }
    }
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
    char over_bound[16] = "-", forecast[16] = "-"; /* no step with a plan was measured */
    if (stats->bound_ns > 0) {
        double measured_ns = (double)(stats->bound_ns + stats->lost_ns);
        (void)snprintf(over_bound, sizeof(over_bound), "%.3f", measured_ns / (double)stats->bound_ns);
        (void)snprintf(forecast, sizeof(forecast), "%.3f", measured_ns / (double)stats->forecast_ns);
    }
    (void)printf("%-9s %9.2f %9.2f %9.2f %9.2f %9.1f %8.1f %9.1f %8llu %8s %9s %9.4f   %s\n", name,
                 (double)stats->peak_device_used_bytes / mib, result->seconds * 1e3 / step_count,
                 (double)stats->in_bytes / mib / step_count, (double)stats->out_bytes / mib / step_count,
                 (double)stats->eviction_count / step_count, (double)stats->fetch_count / step_count,
                 (double)stats->again_count / step_count, (unsigned long long)stats->plan_hit_count,
                 over_bound, forecast, (double)result->losses[options->step_count - 1],
                 identical ? "yes" : "NO");
}

static void print_head(void)
{
    (void)printf(
        "\na step's mean; steps that followed a plan, and of those that were measured time / bound and "
        "time / forecast:\n%-9s %9s %9s %9s %9s %9s %8s %9s %8s %8s %9s %9s   %s\n",
        "capacity", "peak MiB", "time ms", "in MiB", "out MiB", "evictions", "fetches", "run again",
        "planned", "/ bound", "/ forecast", "last loss", "identical");
}

/* Runs with shares of the peak. */
static bool compare(const options_t *options, const result_t *unlimited)
{
    bool all_identical = true;
    print_head();
    print_row("no limit", options, unlimited, true);
    for (size_t i = 0; i < options->percent_count; i++) {
        result_t result = {NULL};
        size_t capacity_bytes = (size_t)unlimited->stats.peak_device_used_bytes * options->percents[i] / 100;
        bool has_run = run(options, capacity_bytes, NULL, &result);
        bool identical = has_run && is_identical(options, unlimited, &result);
        if (has_run) {
            char name[16];
            (void)snprintf(name, sizeof(name), "%zu %%", options->percents[i]);
            print_row(name, options, &result, identical);
        }
        all_identical = all_identical && identical;
        free(result.losses);
    }
    return all_identical;
}

/* Chooses the operators for the device, and checks them against the loops. */
static const operators_t *operators_find(void)
{
    dao_device_info_t info;
    dao_status_t status = dao_device_query(0, &info);
    if (status != DAO_OK) {
        print_error(status);
        return NULL;
    }
    if (info.host_accessible) {
        return &host_operators; /* a virtual device */
    }
#ifdef TRAIN_CUDA
    return operators_agree(&cuda_operators) ? &cuda_operators : NULL;
#else
    (void)fprintf(stderr, "train: %s is no virtual device, and this build has no operators for it\n",
                  info.name);
    return NULL;
#endif
}

int main(int count, char **arguments)
{
    options_t options = {.layer_count = 6,
                         .width = 64,
                         .head_count = 4,
                         .batch_count = 4,
                         .time_count = 32,
                         .step_count = 50,
                         .percents = {100, 50, 25},
                         .percent_count = 3,
                         .policy = DAO_POLICY_BELADY};
    result_t unlimited = {NULL};
    bool is_right = false;
    if (!read_options(count, arguments, &options) || (options.operators = operators_find()) == NULL) {
        return 1;
    }
    if (run(&options, options.capacity_mib << 20, options.step_path, &unlimited)) {
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
