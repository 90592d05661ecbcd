/* SPDX-License-Identifier: Apache-2.0 */
/* Which device is current, by the driver's contexts. cudaSetDevice() makes a context on the device that it
   names (since CUDA 12): putting "device 0" back in a thread that never chose one would make one there, some
   hundred MiB, in a program that uses other devices alone. And it would take away a context that the program
   has made itself. So a device's primary context is pushed for a call and popped behind it, which leaves the
   thread with what it had, be that none. */
#ifndef DAO_BACKENDS_CUDA_CONTEXT_H
#define DAO_BACKENDS_CUDA_CONTEXT_H

#include <cuda_runtime_api.h>

/* Makes a device's primary context, or finds it. It stays: others in the process may use it. Before the two
   below. */
cudaError_t dao_cuda_context_start(int index);

/* Makes a device current. After cudaSuccess leave undoes it. */
cudaError_t dao_cuda_context_enter(int index, int *out_is_pushed);
void dao_cuda_context_leave(int is_pushed);

#endif
