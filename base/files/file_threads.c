/* SPDX-License-Identifier: Apache-2.0 */
/* A few worker threads transfer the pieces of one job at a time.

       caller     sets the job, wakes the workers, waits until nothing remains and no worker is busy
       worker     takes a piece -> pread or pwrite until it is whole -> takes the next one

   Invariants: busy_count <= thread_count; without a job no worker is busy. */
#define _GNU_SOURCE
#include "base/files/file_threads.h"
#include "base/memory/host.h"
#include "base/report/error.h"
#include "base/threads/sync.h"

#include <errno.h>
#include <unistd.h>

/* Four requests of 1 MiB keep a disk busy; more threads would only wait for it. */
enum { THREAD_COUNT = 4 };

struct dao_file_threads {
    dao_mutex_t lock; /* guards what follows */
    dao_cond_t work;  /* the workers wait for it */
    dao_cond_t done;  /* the caller of run waits for it */
    dao_file_job_t *job;
    uint32_t busy_count; /* workers that have a piece */
    bool is_stopping;
    uint32_t thread_count; /* as many as could be started */
    dao_thread_t threads[THREAD_COUNT];
};

/* Makes one system call. Returns the bytes transferred, or -errno. */
static int64_t request(const dao_file_job_t *job, const dao_file_piece_t *piece)
{
    int fault = dao_file_fault(job->direction);
    if (fault != 0) {
        return -fault;
    }
    size_t size_bytes = dao_file_piece_request_bytes(piece);
    ssize_t result = job->direction == DAO_FILE_READ
                         ? pread(job->handle, piece->address, size_bytes, (off_t)piece->offset_bytes)
                         : pwrite(job->handle, piece->address, size_bytes, (off_t)piece->offset_bytes);
    return result < 0 ? -errno : result;
}

/* Transfers a piece. The lock is dropped during the system call. */
static void transfer_piece_locked(dao_file_threads_t *threads, dao_file_job_t *job, dao_file_piece_t *piece)
{
    bool has_rest = true;
    while (has_rest) {
        dao_mutex_unlock(&threads->lock);
        int64_t result = request(job, piece);
        dao_mutex_lock(&threads->lock);
        has_rest = dao_file_job_complete(job, piece, result);
    }
}

static void *run_worker(void *user)
{
    dao_file_threads_t *threads = user;
    dao_mutex_lock(&threads->lock);
    while (!threads->is_stopping) {
        dao_file_job_t *job = threads->job;
        dao_file_piece_t piece;
        if (job == NULL || !dao_file_job_next(job, &piece)) {
            dao_cond_wait(&threads->work, &threads->lock);
            continue;
        }
        threads->busy_count++;
        transfer_piece_locked(threads, job, &piece);
        threads->busy_count--;
        if (threads->busy_count == 0) {
            dao_cond_signal(&threads->done);
        }
    }
    dao_mutex_unlock(&threads->lock);
    return NULL;
}

dao_status_t dao_file_threads_create(dao_file_threads_t **out_threads)
{
    dao_file_threads_t *threads = dao_host_calloc(1, sizeof(*threads));
    if (threads == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the threads of a file");
    }
    dao_mutex_init(&threads->lock, DAO_RANK_LEAF);
    dao_cond_init(&threads->work);
    dao_cond_init(&threads->done);
    dao_status_t status = DAO_OK;
    while (status == DAO_OK && threads->thread_count < THREAD_COUNT) {
        status = dao_thread_start(&threads->threads[threads->thread_count], "dao-file", run_worker, threads);
        threads->thread_count += status == DAO_OK ? 1 : 0;
    }
    if (threads->thread_count == 0) {
        dao_file_threads_destroy(threads);
        return status;
    }
    *out_threads = threads; /* fewer threads do as well, only slower */
    return DAO_OK;
}

void dao_file_threads_destroy(dao_file_threads_t *threads)
{
    if (threads == NULL) {
        return;
    }
    dao_mutex_lock(&threads->lock);
    threads->is_stopping = true;
    dao_cond_broadcast(&threads->work);
    dao_mutex_unlock(&threads->lock);
    for (uint32_t i = 0; i < threads->thread_count; i++) {
        dao_thread_join(&threads->threads[i]);
    }
    dao_cond_finish(&threads->done);
    dao_cond_finish(&threads->work);
    dao_mutex_finish(&threads->lock);
    dao_host_free(threads);
}

void dao_file_threads_run(dao_file_threads_t *threads, dao_file_job_t *job)
{
    dao_mutex_lock(&threads->lock);
    DAO_ASSERT(threads->job == NULL);
    threads->job = job;
    dao_cond_broadcast(&threads->work);
    while (threads->busy_count > 0 || (job->remaining.size_bytes > 0 && job->error == 0)) {
        dao_cond_wait(&threads->done, &threads->lock);
    }
    threads->job = NULL;
    DAO_ASSERT(threads->busy_count == 0);
    dao_mutex_unlock(&threads->lock);
}
