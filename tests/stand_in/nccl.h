/* SPDX-License-Identifier: Apache-2.0 */
/* What integrations/nccl asks of NCCL (2.19 or later), declared as its header does: test_nccl has the
   functions. Not installed. */
#ifndef DAO_TEST_STAND_IN_NCCL_H
#define DAO_TEST_STAND_IN_NCCL_H

#include <stddef.h>

typedef struct ncclComm *ncclComm_t;
typedef enum { ncclSuccess = 0, ncclInvalidArgument = 4 } ncclResult_t;

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle);

#endif
