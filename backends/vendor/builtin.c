/* SPDX-License-Identifier: Apache-2.0 */
/* The table of builds for cuda and hip. Alone in its file, so that a test program can bring another one. */
#include "backends/vendor/vendor.h"

const dao_backend_ops_t *dao_backend_ops(void)
{
    return &dao_vendor_backend_ops;
}
