/* SPDX-License-Identifier: Apache-2.0 */
/* The backend of builds for the cpu. Alone in its file, so that a test program can bring another one. */
#include "backends/cpu/cpu.h"

const dao_backend_ops_t *dao_backend_ops(void)
{
    return &dao_cpu_backend_ops;
}
