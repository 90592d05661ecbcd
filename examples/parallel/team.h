/* SPDX-License-Identifier: Apache-2.0 */
/* Workers that train one model: the threads of this process, or the processes of an MPI job. */
#ifndef PARALLEL_TEAM_H
#define PARALLEL_TEAM_H

#include <stdbool.h>
#include <stddef.h>

#define TEAM_COUNT_MAX 64

typedef struct team team_t;

/* A worker of a team. */
typedef struct member {
    team_t *team;
    int rank;  /* below count */
    int count; /* of the team's workers */
} member_t;

/* Makes numbers the mean of those of all workers: added in the order of their ranks, so that threads and
   processes get the same in every bit. All workers call it for the same things in the same order; each one
   from one thread at a time. (MPI_Allreduce and NCCL add in an order of their own.) */
void team_mean(float *values, size_t count, void *member);

/* Returns a team of this process's threads, or NULL. */
team_t *team_of_threads(int count);
void team_destroy(team_t *team); /* NULL is allowed */

/* ---- MPI ---- */

/* The place of a process in an MPI job. */
typedef struct job {
    team_t *team; /* NULL: built without MPI, or not started by mpirun */
    int rank, count;
    int local_rank, local_count; /* among the processes of this machine, which share its memory */
} job_t;

/* Joins the job that started this process. Returns false if there is one, but MPI does not support
   threads. */
bool job_begin(int *count, char ***arguments, job_t *out_job);

/* Sends rank 0's bytes to all. */
void job_share(const job_t *job, void *bytes, size_t size_bytes);

/* Returns true if something holds in every process. */
bool job_all(const job_t *job, bool holds);

void job_end(job_t *job);

#endif
