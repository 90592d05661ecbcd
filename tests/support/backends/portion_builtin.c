/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a program whose suites run on real devices. */
#include "backends/vendor/vendor.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/backends/hold.h"
#include "tests/support/backends/portion.h"

const dao_backend_ops_t *dao_backend_ops(void)
{
    device_hold_set(vendor_hold);
    return portion_ops(&dao_vendor_backend_ops);
}
