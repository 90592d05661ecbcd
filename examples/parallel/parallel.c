/* SPDX-License-Identifier: Apache-2.0 */
/* Several workers train one model, each with its part of every batch and a device of its own. Every gradient
   becomes the mean of all workers'. Threads of one process train first, on devices that hold everything. Then
   the processes of an MPI job, or threads again without mpirun, train on devices that hold only a part. The
   losses of both must be equal in every bit.

       parallel.c         this file: workers, devices, budgets, the comparison
       team.c             the mean over threads and over processes
       ../train/model.c   the model, whose gradients are tensors of the executor; kernels exchange them

   usage: [mpirun -n 4] parallel [--workers N] [--layers N] [--width N] [--steps N] [--percent N] */
#include "team.h"

#include "../train/model.h"
#include "../train/story.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD_COUNT     4
#define BATCH_COUNT    2 /* sequences of a worker's part */
#define TIME_COUNT     32
#define STEP_COUNT_MAX 1000
#define HOST_BUDGET    ((uint64_t)512 << 20) /* of all workers on a machine together */
#define BYTES_A_MIB    (1024.0 * 1024.0)

typedef struct options {
    size_t worker_count; /* without mpirun */
    size_t layer_count, width, step_count, percent;
} options_t;

/* The result of a training. */
typedef struct result {
    float losses[STEP_COUNT_MAX]; /* of all workers */
    uint64_t peak_device_bytes;   /* of the worker that needed most */
    uint64_t eviction_count;      /* of rank 0's, or of all threads' */
} result_t;

typedef struct worker {
    pthread_t thread;
    member_t member;
    const options_t *options;
    int32_t device_index;
    uint64_t capacity_bytes;
    result_t *result; /* its own */
} worker_t;

/* ---- options ---- */

static bool read_options(int count, char **arguments, options_t *options)
{
    struct {
        const char *name;
        size_t *number;
        size_t most;
    } names[] = {{"--workers", &options->worker_count, TEAM_COUNT_MAX},
                 {"--layers", &options->layer_count, MODEL_LAYER_COUNT_MAX},
                 {"--width", &options->width, 1024},
                 {"--steps", &options->step_count, STEP_COUNT_MAX},
                 {"--percent", &options->percent, 100}};
    size_t name_count = sizeof(names) / sizeof(names[0]);
    for (int i = 1; i < count; i += 2) {
        size_t name = 0;
        while (name < name_count && strcmp(names[name].name, arguments[i]) != 0) {
            name++;
        }
        char *end = NULL;
        unsigned long number = name < name_count && i + 1 < count ? strtoul(arguments[i + 1], &end, 10) : 0;
        if (end == NULL || *end != '\0' || number == 0 || number > names[name].most) {
            (void)fprintf(stderr, "parallel: \"%s\" is no option, or its number is not one from 1 on\n",
                          arguments[i]);
            return false;
        }
        *names[name].number = number;
    }
    if (options->width % HEAD_COUNT != 0) {
        (void)fprintf(stderr, "parallel: the width has to be a multiple of %d\n", HEAD_COUNT);
        return false;
    }
    return true;
}

/* ---- a worker ---- */

static void print_error(const worker_t *worker)
{
    (void)fprintf(stderr, "parallel: worker %d: %s: %s\n", worker->member.rank,
                  dao_status_name(dao_last_status()), dao_last_message());
}

/* Cuts this worker's part of a batch out of the text. */
static void cut_part(const worker_t *worker, size_t step, unsigned char *tokens)
{
    size_t part = step * (size_t)worker->member.count + (size_t)worker->member.rank;
    for (size_t b = 0; b < BATCH_COUNT; b++) {
        size_t begin = (part * BATCH_COUNT + b) * 7919 % (sizeof(story) - 1 - TIME_COUNT);
        memcpy(&tokens[b * (TIME_COUNT + 1)], &story[begin], TIME_COUNT + 1);
    }
}

static dao_status_t train(worker_t *worker, dao_executor_t *executor)
{
    model_config_t config = {.operators = &host_operators,
                             .layer_count = worker->options->layer_count,
                             .width = worker->options->width,
                             .head_count = HEAD_COUNT,
                             .batch_count = BATCH_COUNT,
                             .time_count = TIME_COUNT,
                             .exchange = {team_mean, &worker->member}};
    model_t *model = NULL;
    dao_status_t status = model_create(executor, &config, &model);
    for (size_t step = 1; status == DAO_OK && step <= worker->options->step_count; step++) {
        unsigned char tokens[BATCH_COUNT * (TIME_COUNT + 1)];
        float *loss = &worker->result->losses[step - 1];
        cut_part(worker, step, tokens);
        status = model_train(model, tokens, step, loss);
        if (status == DAO_OK) {
            team_mean(loss, 1, &worker->member);
        }
    }
    dao_executor_stats_t stats;
    if (status == DAO_OK && (status = dao_executor_stats_get(executor, &stats)) == DAO_OK) {
        worker->result->peak_device_bytes = stats.peak_device_used_bytes;
        worker->result->eviction_count = stats.eviction_count;
    }
    model_destroy(model);
    return status;
}

/* A worker that fails ends the program: the others would wait for it. */
static void *work(void *user)
{
    worker_t *worker = user;
    dao_executor_config_t config = {.device_index = worker->device_index,
                                    .capacity_bytes = worker->capacity_bytes,
                                    .policy = DAO_POLICY_BELADY};
    dao_executor_t *executor = NULL;
    if (dao_executor_create(&config, &executor) != DAO_OK || train(worker, executor) != DAO_OK ||
        dao_executor_destroy(executor) != DAO_OK) {
        print_error(worker);
        abort();
    }
    return NULL;
}

/* ---- teams of workers ---- */

/* Finds how many devices there are, and the fair part of one for each of the workers. The kernels here are
   host functions, so the host has to reach a device's memory. */
static bool devices_find(int worker_count, int32_t *out_count, uint64_t *out_part_bytes)
{
    dao_device_info_t info;
    if (dao_device_count(out_count) != DAO_OK || *out_count == 0 || dao_device_query(0, &info) != DAO_OK) {
        (void)fprintf(stderr, "parallel: %s\n", dao_last_message());
        return false;
    }
    if (!info.host_accessible) {
        (void)fprintf(stderr, "parallel: %s is no virtual device: give model.c kernels for it first\n",
                      info.name);
    }
    int32_t workers_a_device = (worker_count + *out_count - 1) / *out_count;
    *out_part_bytes = info.total_bytes / (uint64_t)workers_a_device / 2; /* beside what else is there */
    return info.host_accessible;
}

/* Trains with threads, each on a device of its own as far as there are so many. Capacity 0 is a fair part of
   a device. */
static bool train_by_threads(const options_t *options, int worker_count, uint64_t capacity_bytes,
                             result_t *result)
{
    int32_t device_count;
    uint64_t part_bytes;
    team_t *team = team_of_threads(worker_count);
    worker_t *workers = calloc((size_t)worker_count, sizeof(*workers));
    result_t *results = calloc((size_t)worker_count, sizeof(*results));
    bool is_right = team != NULL && workers != NULL && results != NULL &&
                    devices_find(worker_count, &device_count, &part_bytes);
    for (int i = 0; is_right && i < worker_count; i++) {
        workers[i] = (worker_t){.member = {team, i, worker_count},
                                .options = options,
                                .device_index = i % device_count,
                                .capacity_bytes = capacity_bytes > 0 ? capacity_bytes : part_bytes,
                                .result = &results[i]};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            abort(); /* the others wait for this one */
        }
    }
    for (int i = 0; is_right && i < worker_count; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        uint64_t peak_bytes = results[i].peak_device_bytes;
        result->peak_device_bytes =
            peak_bytes > result->peak_device_bytes ? peak_bytes : result->peak_device_bytes;
        result->eviction_count += results[i].eviction_count;
    }
    if (is_right) {
        memcpy(result->losses, results[0].losses, sizeof(result->losses));
    }
    free(results);
    free(workers);
    team_destroy(team);
    return is_right;
}

/* Trains as one process of a job: on the device of its number among the machine's processes, with its share
   of the machine's memory. */
static bool train_by_processes(const options_t *options, const job_t *job, uint64_t capacity_bytes,
                               result_t *result)
{
    int32_t device_count = 0;
    uint64_t part_bytes;
    bool is_ready = devices_find(job->local_count, &device_count, &part_bytes);
    if (is_ready && dao_host_limit_set(HOST_BUDGET / (uint64_t)job->local_count) != DAO_OK) {
        (void)fprintf(stderr, "parallel: %s\n", dao_last_message());
        is_ready = false;
    }
    if (!job_all(job, is_ready)) { /* the others would wait for this one's numbers */
        return false;
    }
    worker_t worker = {.member = {job->team, job->rank, job->count},
                       .options = options,
                       .device_index = job->local_rank % device_count,
                       .capacity_bytes = capacity_bytes,
                       .result = result};
    (void)work(&worker);
    return true;
}

/* ---- the comparison ---- */

static void print_result(const char *who, int worker_count, const options_t *options, const result_t *result)
{
    (void)printf("%d %s: losses %.4f ... %.4f, %.2f MiB of a device at most, %llu evictions\n", worker_count,
                 who, (double)result->losses[0], (double)result->losses[options->step_count - 1],
                 (double)result->peak_device_bytes / BYTES_A_MIB, (unsigned long long)result->eviction_count);
}

/* Trains twice, the second time with less memory than needed. Returns true if the losses are equal. */
static bool compare(const options_t *options, const job_t *job)
{
    static result_t roomy, tight;
    bool is_job = job->team != NULL;
    int worker_count = is_job ? job->count : (int)options->worker_count;
    bool is_right = job->rank != 0 || train_by_threads(options, worker_count, 0, &roomy);
    if (!job_all(job, is_right)) {
        return false;
    }
    job_share(job, &roomy, sizeof(roomy));
    uint64_t capacity_bytes = roomy.peak_device_bytes * options->percent / 100;
    is_right = is_job ? train_by_processes(options, job, capacity_bytes, &tight)
                      : train_by_threads(options, worker_count, capacity_bytes, &tight);
    bool is_same = is_right && memcmp(roomy.losses, tight.losses, options->step_count * sizeof(float)) == 0;
    bool is_over = options->percent == 100 || tight.eviction_count > 0;
    if (job->rank == 0) {
        print_result("threads of one process", worker_count, options, &roomy);
        print_result(is_job ? "processes" : "threads again", worker_count, options, &tight);
        (void)printf("the losses are %s\n", is_same ? "the same in every bit" : "NOT the same");
    }
    return job_all(job, is_same && is_over);
}

int main(int count, char **arguments)
{
    options_t options = {.worker_count = 2, .layer_count = 4, .width = 64, .step_count = 20, .percent = 30};
    job_t job;
    bool is_right = job_begin(&count, &arguments, &job) &&
                    job_all(&job, read_options(count, arguments, &options)) && compare(&options, &job);
    bool is_stopped = dao_finalize() == DAO_OK;
    job_end(&job);
    return is_right && is_stopped ? 0 : 1;
}
