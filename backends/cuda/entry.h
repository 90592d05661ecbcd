/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points of the driver, found through the runtime: libcuda is not linked, so a program starts without a
   driver. */
#ifndef DAO_BACKENDS_CUDA_ENTRY_H
#define DAO_BACKENDS_CUDA_ENTRY_H

/* Returns a call in its form since a version of CUDA (2000 for 2.0), or NULL if the driver has none. */
void *dao_cuda_entry(const char *name, unsigned version);

#endif
