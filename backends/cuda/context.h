/* SPDX-License-Identifier: Apache-2.0 */
/* Makes a device current by the driver's context stack. cudaSetDevice() would not do: since CUDA 12 it
   creates a context on its device. Restoring "device 0" in a thread that never chose a device would create
   one there, of some hundred MiB, and would replace a context that the program made itself. Instead the
   device's primary context is pushed for a call and popped after it; the thread is left with what it had, or
   with none. */
#ifndef DAO_BACKENDS_CUDA_CONTEXT_H
#define DAO_BACKENDS_CUDA_CONTEXT_H

#include <cuda_runtime_api.h>

/* Creates a device's primary context, or finds it. It stays for others in the process. Comes before the two
   below. */
cudaError_t dao_cuda_context_start(int index);

/* Makes a device current. After cudaSuccess leave undoes it. */
cudaError_t dao_cuda_context_enter(int index, int *out_is_pushed);
void dao_cuda_context_leave(int is_pushed);

#endif
