/* SPDX-License-Identifier: Apache-2.0 */
/* The engine of one direction over io_uring. */
#ifndef DAO_BASE_FILE_URING_H
#define DAO_BASE_FILE_URING_H

#include "base/files/file_job.h"

typedef struct dao_file_uring dao_file_uring_t;

/* DAO_ERR_UNSUPPORTED where the kernel has no io_uring or refuses it, or this build does not know it;
   DAO_ERR_NO_HOST_MEMORY. */
dao_status_t dao_file_uring_create(dao_file_uring_t **out_uring);
void dao_file_uring_destroy(dao_file_uring_t *uring); /* NULL is allowed */

/* Transfers a whole job, one at a time. Waits until it has ended or failed. */
void dao_file_uring_run(dao_file_uring_t *uring, dao_file_job_t *job);

#endif
