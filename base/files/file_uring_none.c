/* SPDX-License-Identifier: Apache-2.0 */
/* For builds on a system without linux/io_uring.h: files go through threads. */
#include "base/files/file_uring.h"
#include "base/report/assert.h"
#include "base/report/error.h"

dao_status_t dao_file_uring_create(dao_file_uring_t **out_uring)
{
    (void)out_uring;
    return dao_error(DAO_ERR_UNSUPPORTED, "this build has no io_uring; files go through threads");
}

void dao_file_uring_destroy(dao_file_uring_t *uring)
{
    (void)uring; /* always NULL */
}

void dao_file_uring_run(dao_file_uring_t *uring, dao_file_job_t *job)
{
    (void)uring;
    (void)job;
    DAO_ASSERT(false); /* no ring was ever created */
}
