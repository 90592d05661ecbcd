/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual devices over host memory, in real time: streams are threads. */
#ifndef DAO_BACKENDS_CPU_CPU_H
#define DAO_BACKENDS_CPU_CPU_H

#include "backends/backend.h"

extern const dao_backend_ops_t dao_cpu_backend_ops;

#endif
