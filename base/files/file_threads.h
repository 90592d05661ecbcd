/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of one direction over threads that call pread and pwrite. */
#ifndef DAO_BASE_FILE_THREADS_H
#define DAO_BASE_FILE_THREADS_H

#include "base/files/file_job.h"

typedef struct dao_file_threads dao_file_threads_t;

/* DAO_ERR_NO_HOST_MEMORY; DAO_ERR_THREAD if no thread could be started. */
dao_status_t dao_file_threads_create(dao_file_threads_t **out_threads);
void dao_file_threads_destroy(dao_file_threads_t *threads); /* NULL is allowed */

/* Transfers a whole job, one at a time. Waits until it has ended or failed. */
void dao_file_threads_run(dao_file_threads_t *threads, dao_file_job_t *job);

#endif
