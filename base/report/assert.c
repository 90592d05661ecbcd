/* SPDX-License-Identifier: Apache-2.0 */
#include "base/report/assert.h"

#include <stdio.h>
#include <stdlib.h>

void dao_assert_failed(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: assertion failed: %s\n", file, line, condition);
    abort();
}
