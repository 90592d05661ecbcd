/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of CUDA or HIP, whichever this build was made for. */
#ifndef DAO_BACKENDS_VENDOR_VENDOR_H
#define DAO_BACKENDS_VENDOR_VENDOR_H

#include "backends/backend.h"

extern const dao_backend_ops_t dao_vendor_backend_ops;

#endif
