/* SPDX-License-Identifier: Apache-2.0 */
/* In a build for the cpu, the virtual devices are the built backend. */
#include "backends/cpu/cpu.h"

const dao_backend_ops_t *dao_backend_ops(void)
{
    return &dao_cpu_backend_ops;
}
