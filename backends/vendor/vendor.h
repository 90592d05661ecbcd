/* SPDX-License-Identifier: Apache-2.0 */
/* Real devices, through the vendor's runtime that this build was made for. */
#ifndef DAO_BACKENDS_VENDOR_VENDOR_H
#define DAO_BACKENDS_VENDOR_VENDOR_H

#include "backends/backend.h"

extern const dao_backend_ops_t dao_vendor_backend_ops;

#endif
