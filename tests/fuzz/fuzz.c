/* SPDX-License-Identifier: Apache-2.0 */
/* What a target does when something does not hold. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>

const char *fuzz_label = "an input";

void fuzz_fail(const char *condition, const char *file, int line)
{
    (void)fprintf(stderr, "%s:%d: %s: does not hold: %s\n", file, line, fuzz_label, condition);
    abort();
}
