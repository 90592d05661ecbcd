/* SPDX-License-Identifier: Apache-2.0 */
/* Words behind numbers. */
#ifndef DAO_BASE_PLURAL_H
#define DAO_BASE_PLURAL_H

#include <stdint.h>

/* Returns what a word ends with behind a number: nothing for 1, else `ending`, such as "s". */
static inline const char *dao_plural(uint64_t count, const char *ending)
{
    return count == 1 ? "" : ending;
}

#endif
