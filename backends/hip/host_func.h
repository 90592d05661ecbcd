/* SPDX-License-Identifier: Apache-2.0 */
/* Host functions in HIP. Debian's HIP 5.2 declares hipLaunchHostFunc() but does not define it. A stream
   callback does the same: it runs after the work before it, and the work after it waits. */
#ifndef DAO_BACKENDS_HIP_HOST_FUNC_H
#define DAO_BACKENDS_HIP_HOST_FUNC_H

#include <hip/hip_runtime_api.h>

/* Queues a host function, as hipLaunchHostFunc() would. hipErrorMemoryAllocation without host memory;
   hipErrorStreamCaptureUnsupported while the stream is being captured. */
hipError_t dao_hip_launch_host_func(hipStream_t stream, hipHostFn_t function, void *user);

#endif
