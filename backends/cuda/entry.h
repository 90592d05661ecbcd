/* SPDX-License-Identifier: Apache-2.0 */
/* Calls of the driver itself, found through the runtime, so that nothing links libcuda and a program starts
   without a driver. */
#ifndef DAO_BACKENDS_CUDA_ENTRY_H
#define DAO_BACKENDS_CUDA_ENTRY_H

/* Gives a call as it is since a version of CUDA (2000 for 2.0); NULL: the driver has none. */
void *dao_cuda_entry(const char *name, unsigned version);

#endif
