/* SPDX-License-Identifier: Apache-2.0 */
/* ROCTX: ranges; it knows nothing of memory. */
#include "runtime/observe/annotate.h"

#include <roctracer/roctx.h>

static void range_push(const char *name)
{
    (void)roctxRangePushA(name);
}

static void range_pop(void)
{
    (void)roctxRangePop();
}

const dao_annotator_t dao_annotator = {.range_push = range_push, .range_pop = range_pop};
