/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* pthread_barrier_t */
#include "team.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(PARALLEL_MPI)
#include <mpi.h>
#endif

struct team {
    bool is_job;
    pthread_barrier_t barrier;           /* threads */
    const float *values[TEAM_COUNT_MAX]; /* threads: the numbers of each, between two barriers */
};

/* A worker that fails ends the program: the others would wait for it. */
static void *needed(void *memory)
{
    if (memory == NULL) {
        (void)fprintf(stderr, "parallel: no memory for an exchange\n");
        abort();
    }
    return memory;
}

/* Adds the numbers of all workers in the order of their ranks. */
static void add_all(const float *const *values, int worker_count, size_t count, float *out_mean)
{
    for (size_t i = 0; i < count; i++) {
        float sum = 0.0f;
        for (int worker = 0; worker < worker_count; worker++) {
            sum += values[worker][i];
        }
        out_mean[i] = sum / (float)worker_count;
    }
}

static void mean_of_threads(float *values, size_t count, const member_t *member)
{
    team_t *team = member->team;
    float *mean = needed(malloc(count * sizeof(*mean)));
    team->values[member->rank] = values;
    (void)pthread_barrier_wait(&team->barrier); /* all have arrived */
    add_all(team->values, member->count, count, mean);
    (void)pthread_barrier_wait(&team->barrier); /* all have read */
    memcpy(values, mean, count * sizeof(*mean));
    free(mean);
}

team_t *team_of_threads(int count)
{
    team_t *team = calloc(1, sizeof(*team));
    if (team != NULL && pthread_barrier_init(&team->barrier, NULL, (unsigned)count) != 0) {
        free(team);
        team = NULL;
    }
    return team;
}

void team_destroy(team_t *team)
{
    if (team != NULL && !team->is_job) {
        (void)pthread_barrier_destroy(&team->barrier);
    }
    free(team);
}

#if defined(PARALLEL_MPI)

static void mean_of_processes(float *values, size_t count, const member_t *member)
{
    const float *parts[TEAM_COUNT_MAX];
    float *gathered = needed(malloc((size_t)member->count * count * sizeof(*gathered)));
    (void)MPI_Allgather(values, (int)count, MPI_FLOAT, gathered, (int)count, MPI_FLOAT, MPI_COMM_WORLD);
    for (int worker = 0; worker < member->count; worker++) {
        parts[worker] = gathered + (size_t)worker * count;
    }
    add_all(parts, member->count, count, values);
    free(gathered);
}

bool job_begin(int *count, char ***arguments, job_t *out_job)
{
    *out_job = (job_t){.count = 1, .local_count = 1};
    if (getenv("OMPI_COMM_WORLD_SIZE") == NULL && getenv("PMI_SIZE") == NULL) {
        return true;
    }
    int served;
    (void)MPI_Init_thread(count, arguments, MPI_THREAD_SERIALIZED,
                          &served); /* exchanges run on a stream's thread */
    MPI_Comm local;
    (void)MPI_Comm_rank(MPI_COMM_WORLD, &out_job->rank);
    (void)MPI_Comm_size(MPI_COMM_WORLD, &out_job->count);
    (void)MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &local);
    (void)MPI_Comm_rank(local, &out_job->local_rank);
    (void)MPI_Comm_size(local, &out_job->local_count);
    (void)MPI_Comm_free(&local);
    out_job->team = needed(calloc(1, sizeof(*out_job->team)));
    out_job->team->is_job = true;
    return served >= MPI_THREAD_SERIALIZED && out_job->count <= TEAM_COUNT_MAX;
}

void job_share(const job_t *job, void *bytes, size_t size_bytes)
{
    if (job->team != NULL) {
        (void)MPI_Bcast(bytes, (int)size_bytes, MPI_BYTE, 0, MPI_COMM_WORLD);
    }
}

bool job_all(const job_t *job, bool holds)
{
    int own = holds;
    int all = own;
    if (job->team != NULL) {
        (void)MPI_Allreduce(&own, &all, 1, MPI_INT, MPI_LAND, MPI_COMM_WORLD);
    }
    return all != 0;
}

void job_end(job_t *job)
{
    if (job->team != NULL) {
        (void)MPI_Finalize();
        team_destroy(job->team);
        job->team = NULL;
    }
}

#else

static void mean_of_processes(float *values, size_t count, const member_t *member)
{
    (void)values;
    (void)count;
    (void)member;
    abort(); /* without MPI no team is a job */
}

bool job_begin(int *count, char ***arguments, job_t *out_job)
{
    (void)count;
    (void)arguments;
    *out_job = (job_t){.count = 1, .local_count = 1};
    return true;
}

void job_share(const job_t *job, void *bytes, size_t size_bytes)
{
    (void)job;
    (void)bytes;
    (void)size_bytes;
}

bool job_all(const job_t *job, bool holds)
{
    (void)job;
    return holds;
}

void job_end(job_t *job)
{
    (void)job;
}

#endif

void team_mean(float *values, size_t count, void *user)
{
    const member_t *member = user;
    if (member->team->is_job) {
        mean_of_processes(values, count, member);
    } else {
        mean_of_threads(values, count, member);
    }
}
