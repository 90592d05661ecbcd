/* SPDX-License-Identifier: Apache-2.0 */
/* Where this build does not know io_uring. */
#include "base/files/file_internal.h"
#include "base/report/assert.h"
#include "base/report/error.h"

dao_status_t dao_file_uring_create(dao_file_uring_t **out_uring)
{
    (void)out_uring;
    return dao_error(DAO_ERR_UNSUPPORTED, "this build has no io_uring; files go through threads");
}

void dao_file_uring_destroy(dao_file_uring_t *uring)
{
    (void)uring; /* NULL: there are none */
}

void dao_file_uring_run(dao_file_uring_t *uring, dao_file_job_t *job)
{
    (void)uring;
    (void)job;
    DAO_ASSERT(false); /* nobody has a ring */
}
