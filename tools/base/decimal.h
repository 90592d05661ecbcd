/* SPDX-License-Identifier: Apache-2.0 */
/* Exact decimal numbers. */
#ifndef DAO_TOOLS_DECIMAL_H
#define DAO_TOOLS_DECIMAL_H

#include <stdbool.h>
#include <stdint.h>

/* Reads a decimal, written as JSON writes numbers and not negative ("12", "0.5", "2e-3"), times 10^`places`,
   rounded to the nearest, never through a double. False: it does not fit 64 bits. The text is well formed. */
bool dao_decimal_scale(const char *text, int places, uint64_t *out_value);

/* Returns true if text is digits, with or without a point between two of them: what dao_decimal_scale()
   takes. */
bool dao_decimal_is_plain(const char *text);

#endif
