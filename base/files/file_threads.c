/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that carry out the pieces of one transfer at a time.

       caller     job = transfer, wakes all, waits until nothing is left and nobody is busy
       worker     cut a piece off -> pread or pwrite until it is whole -> the next one        */
#define _GNU_SOURCE
#include "base/files/file_internal.h"
#include "base/memory/host.h"
#include "base/report/error.h"
#include "base/threads/sync.h"

#include <errno.h>
#include <unistd.h>

/* A few keep a disk busy; more only wait for it. */
enum { THREAD_COUNT = 4 };

struct dao_file_threads {
    dao_mutex_t lock; /* guards what follows */
    dao_cond_t work;  /* workers wait */
    dao_cond_t done;  /* the caller waits */
    dao_file_job_t *job;
    uint32_t busy_count; /* workers with a piece */
    bool is_stopping;
    uint32_t thread_count; /* that were started */
    dao_thread_t threads[THREAD_COUNT];
};

/* Asks the system once. */
static int64_t ask(const dao_file_job_t *job, const dao_file_piece_t *piece)
{
    int refusal = dao_file_piece_refusal(job->direction);
    if (refusal != 0) {
        return -refusal;
    }
    size_t size_bytes = dao_file_piece_ask(piece);
    ssize_t result = job->direction == DAO_FILE_READ
                         ? pread(job->handle, piece->address, size_bytes, (off_t)piece->offset_bytes)
                         : pwrite(job->handle, piece->address, size_bytes, (off_t)piece->offset_bytes);
    return result < 0 ? -errno : result;
}

/* Carries out a piece; the lock is let go while the system works. */
static void carry_out_locked(dao_file_threads_t *threads, dao_file_job_t *job, dao_file_piece_t *piece)
{
    bool has_rest = true;
    while (has_rest) {
        dao_mutex_unlock(&threads->lock);
        int64_t result = ask(job, piece);
        dao_mutex_lock(&threads->lock);
        has_rest = dao_file_job_came(job, piece, result);
    }
}

static void *run_worker(void *user)
{
    dao_file_threads_t *threads = user;
    dao_mutex_lock(&threads->lock);
    while (!threads->is_stopping) {
        dao_file_job_t *job = threads->job;
        dao_file_piece_t piece;
        if (job == NULL || !dao_file_job_cut(job, &piece)) {
            dao_cond_wait(&threads->work, &threads->lock);
            continue;
        }
        threads->busy_count++;
        carry_out_locked(threads, job, &piece);
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
    *out_threads = threads; /* fewer do as well */
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
    threads->job = job;
    dao_cond_broadcast(&threads->work);
    while (threads->busy_count > 0 || (job->rest.size_bytes > 0 && job->error == 0)) {
        dao_cond_wait(&threads->done, &threads->lock);
    }
    threads->job = NULL;
    dao_mutex_unlock(&threads->lock);
}
